/* SPDX-License-Identifier: MIT */
/*
 * Histories of queues, and whether they are linearizable: some order of the calls explains them.
 *
 *     send 1  |-------|                      an order:  send 2, receive 2, send 1
 *     send 2      |-------|
 *     receive       |---------| got 2
 *
 * The search is that of Wing and Gong with the memory of Lowe: whoever was called before the first
 * return among those that are left may come next, if what it returned fits the state; where nobody
 * can, the last one is taken back; the same set of calls with the same state is not tried twice.
 * Calls that returned early come first, so that the first try is most often the last.
 *
 * A send that waits counts as come when it got in, which may be after a close: it had been admitted
 * before. A queue without room holds an item only if the next call is the receive that takes it.
 * Whoever drops what is inside says how many items that are: so an item that somebody took and did
 * not return, such as a case of a select that lost, is missed in the end.
 */
#include "lab/history.h"

#include "base/hash.h"
#include "lab/world.h"

#include <string.h>

#define CALLS_MAX 4096u     /* of one execution; with more everything is believed */
#define QUEUES_MAX 64u      /* what is called on others is believed */
#define STEPS_MAX 20000u    /* of one search; what takes longer is believed */
#define SEEN_SIZE 4096u     /* sets of calls that are remembered */
#define WORDS ((KIN__HISTORY_MAX + 63) / 64)

/* ---- one search ---- */

static struct {
    const struct kin__happening *calls;
    size_t count;
    uint64_t capacity;
    uint64_t closed_at;              /* when the first close had returned */
    uint64_t done[WORDS];            /* calls that have their place */
    uint64_t items[KIN__HISTORY_MAX]; /* that were ever inside */
    uint32_t head, tail;
    bool is_closed;
    struct place {                   /* the order so far */
        uint16_t call;
        uint16_t head;               /* as it was before */
        bool was_closed;
    } order[KIN__HISTORY_MAX];
    size_t placed, most;             /* most: the longest order that was found */
    size_t first;                    /* that has no place yet */
    bool has_turned;                 /* somebody was taken back already */
    uint64_t salt;                   /* of this search: what others remembered is not seen */
    uint64_t seen[SEEN_SIZE];
} search;

static bool is_done(size_t i)
{
    return search.done[i / 64] >> (i % 64) & 1;
}

/* Whether the call fits what is inside now. */
static bool fits(const struct kin__happening *call)
{
    uint32_t inside = search.tail - search.head;
    if (inside > search.capacity) /* in passing: somebody takes it while it is being sent */
        return call->call == KIN__CALL_RECV && call->came == KIN__CAME_WELL &&
               call->since < search.calls[search.order[search.placed - 1].call].until &&
               (call->is_blind || search.items[search.head] == call->value);
    if (call->call == KIN__CALL_CLOSE)
        return !call->value || inside == call->value - 1;
    if (call->came == KIN__CAME_CLOSED)
        return search.is_closed && (call->call == KIN__CALL_SEND || inside == 0);
    if (call->call == KIN__CALL_RECV)
        return call->came == KIN__CAME_EMPTY
                   ? inside == 0
                   : inside > 0 && (call->is_blind || search.items[search.head] == call->value);
    if (call->came == KIN__CAME_FULL)
        return inside >= search.capacity;
    if (search.is_closed && call->since > search.closed_at)
        return false;
    return search.capacity ? inside < search.capacity : inside == 0;
}

static void place(size_t i)
{
    const struct kin__happening *call = &search.calls[i];
    search.order[search.placed++] =
        (struct place){(uint16_t)i, (uint16_t)search.head, search.is_closed};
    search.done[i / 64] |= UINT64_C(1) << (i % 64);
    while (search.first < search.count && is_done(search.first))
        search.first++;
    if (call->call == KIN__CALL_CLOSE) {
        search.is_closed = true;
        search.head = call->value ? search.tail : search.head;
    } else if (call->came == KIN__CAME_WELL && call->call == KIN__CALL_SEND) {
        search.items[search.tail++] = call->value;
    } else if (call->came == KIN__CAME_WELL) {
        search.head++;
    }
}

/* Takes the last one back: which it was. */
static size_t take_back(void)
{
    const struct place *last = &search.order[--search.placed];
    const struct kin__happening *call = &search.calls[last->call];
    search.done[last->call / 64] &= ~(UINT64_C(1) << (last->call % 64));
    search.first = last->call < search.first ? last->call : search.first;
    search.has_turned = true;
    search.head = last->head;
    search.is_closed = last->was_closed;
    if (call->came == KIN__CAME_WELL && call->call == KIN__CALL_SEND)
        search.tail--;
    return last->call;
}

/* Whether this set of calls, with what is inside then, is new, as far as it is remembered. */
static bool is_new(void)
{
    uint64_t hash = kin__hash_u64(search.salt + search.is_closed); /* apart from the calls below */
    for (size_t i = 0; i < WORDS; i++)
        hash = kin__hash_u64(hash + search.done[i]);
    for (uint32_t i = search.head; i < search.tail; i++)
        hash = kin__hash_u64(hash ^ search.items[i]);
    if (search.tail - search.head > search.capacity) /* who may take it depends on who sends it */
        hash = kin__hash_u64(hash + search.order[search.placed - 1].call);
    uint64_t *slot = &search.seen[hash % SEEN_SIZE];
    bool is_known = *slot == hash;
    *slot = hash;
    return !is_known;
}

/* The next that may come, from i on; count: none. Calls are sorted by their return, so that the
 * first that is left is the one that returned first. */
static size_t next_call(size_t i)
{
    uint64_t until = search.calls[search.first].until;
    for (i = i > search.first ? i : search.first; i < search.count; i++) {
        if (!is_done(i) && search.calls[i].since < until && fits(&search.calls[i]))
            return i;
    }
    return search.count;
}

/* Whether the calls of one piece have an order. A search that is too long has none that is known to
 * be wrong. */
static bool has_order(void)
{
    size_t from = 0;
    for (unsigned steps = 0; search.placed < search.count && steps < STEPS_MAX; steps++) {
        size_t next = next_call(from);
        from = 0;
        if (next < search.count) {
            place(next);
            search.most = search.placed > search.most ? search.placed : search.most;
            if (search.has_turned && search.placed < search.count && !is_new())
                from = take_back() + 1;
        } else if (search.placed == 0) {
            return false;
        } else {
            from = take_back() + 1;
        }
    }
    return true;
}

/* ---- pieces ---- */

/* Whether nobody is inside between call i and the one behind it, and as many were taken as came. */
static bool is_cut(const struct kin__happening *calls, size_t count, size_t i, int64_t inside)
{
    if (inside != 0)
        return false;
    for (size_t k = i + 1; k < count && k <= i + KIN__HISTORY_MAX; k++) {
        if (calls[k].since < calls[i].until)
            return false;
    }
    return true;
}

static int64_t gains(const struct kin__happening *call)
{
    if (call->came != KIN__CAME_WELL)
        return 0;
    if (call->call == KIN__CALL_CLOSE)
        return call->value ? 1 - (int64_t)call->value : 0;
    return call->call == KIN__CALL_SEND ? 1 : -1;
}

/* The end of the piece that begins at from; from: it is too long. */
static size_t piece_of(const struct kin__happening *calls, size_t count, size_t from)
{
    int64_t inside = 0;
    size_t end = from;
    if (count - from <= KIN__HISTORY_MAX)
        return count;
    for (size_t i = from; i < from + KIN__HISTORY_MAX; i++) {
        inside += gains(&calls[i]);
        if (is_cut(calls, count, i, inside))
            end = i + 1;
    }
    return end;
}

static uint64_t first_close(const struct kin__happening *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (calls[i].call == KIN__CALL_CLOSE)
            return calls[i].until;
    }
    return UINT64_MAX;
}

const struct kin__happening *kin__history_check(const struct kin__happening *calls, size_t count)
{
    search.capacity = calls[0].value;
    search.closed_at = first_close(calls, count);
    search.is_closed = false;
    for (size_t from = 1, end; from < count; from = end) {
        end = piece_of(calls, count, from);
        if (end == from)
            return NULL;
        search.calls = calls + from;
        search.count = end - from;
        search.head = search.tail = 0;
        search.placed = search.most = search.first = 0;
        search.has_turned = false;
        search.salt += UINT64_C(0x9e3779b97f4a7c15);
        memset(search.done, 0, sizeof(search.done));
        if (!has_order())
            return &search.calls[search.most];
    }
    return NULL;
}

/* ---- the history of an execution ---- */

static struct {
    struct kin__happening calls[CALLS_MAX];
    struct kin__happening one[CALLS_MAX]; /* those of one queue */
    size_t count;
    uint32_t made[QUEUES_MAX]; /* the creations among them */
    uint32_t item_sizes[QUEUES_MAX];
    size_t queues;
    uint64_t moment;
    uint64_t begun; /* when the host called last */
} history;

void kin__history_begin(void)
{
    history.count = history.queues = 0;
    history.moment = history.begun = 0;
}

/* When whoever runs has begun its call. */
static uint64_t *begun(void)
{
    struct kin__world *w = &kin__world;
    return w->current < w->player_count ? &w->players[w->current].begun : &history.begun;
}

void kin__lab_calls(void)
{
    *begun() = ++history.moment;
}

static struct kin__happening *add(const void *queue, unsigned call)
{
    struct kin__happening *at = &history.calls[history.count];
    if (!kin__world.is_on || !kin__world_looks(KIN_ORACLE_ORDER) || history.count == CALLS_MAX)
        return NULL;
    *at = (struct kin__happening){.queue = queue,
                                  .since = *begun(),
                                  .until = ++history.moment,
                                  .player = kin__world.current,
                                  .call = (uint8_t)call};
    return at;
}

void kin__lab_made(const void *queue, size_t item_size, size_t capacity)
{
    struct kin__happening *at = history.queues < QUEUES_MAX ? add(queue, KIN__CALL_MADE) : NULL;
    if (!at)
        return; /* what is called on it is believed */
    at->value = capacity;
    history.item_sizes[history.queues] = (uint32_t)item_size;
    history.made[history.queues++] = (uint32_t)history.count++;
}

/* What a call came to; false: it has had no effect. */
static bool read_end(int rc, uint8_t *came)
{
    *came = rc == KIN_CLOSED  ? KIN__CAME_CLOSED
            : rc == KIN_FULL  ? KIN__CAME_FULL
            : rc == KIN_EMPTY ? KIN__CAME_EMPTY
                              : KIN__CAME_WELL;
    return rc >= 0 || *came != KIN__CAME_WELL;
}

static uint64_t hash_of(const unsigned char *item, size_t size)
{
    uint64_t hash = size, part;
    for (; size >= sizeof(part); size -= sizeof(part), item += sizeof(part)) {
        memcpy(&part, item, sizeof(part));
        hash = kin__hash_u64(hash ^ part);
    }
    part = 0;
    memcpy(&part, item, size);
    return kin__hash_u64(hash ^ part);
}

void kin__lab_called(const void *queue, unsigned call, int rc, const void *item)
{
    size_t which = history.queues;
    while (which > 0 && history.calls[history.made[which - 1]].queue != queue)
        which--;
    struct kin__happening *at = which ? add(queue, call) : NULL;
    if (!at || !read_end(rc, &at->came))
        return;
    uint32_t size = history.item_sizes[which - 1];
    if (call == KIN__CALL_CLOSE)
        at->value = (uint64_t)rc; /* what it drops */
    else if (item && at->came == KIN__CAME_WELL)
        at->value = hash_of(item, size);
    at->is_blind = !item && size > 0;
    history.count++;
}

static void fail(const struct kin__happening *call)
{
    static const char *const calls[] = {"creation", "send", "receive"};
    static const char *const ends[] = {"0", "KIN_FULL", "KIN_EMPTY", "KIN_CLOSED"};
    const char *path = kin__player_path(call->player);
    if (call->call == KIN__CALL_CLOSE) {
        kin__world_failf("linearizability", KIN_PANICKED, path,
                         "no order of the calls on one channel explains why %s finds %llu items "
                         "inside when it drops them: one was taken by nobody, or twice", path,
                         (unsigned long long)call->value - 1);
        return;
    }
    kin__world_failf("linearizability", KIN_PANICKED, path,
                     "no order of the calls on one channel explains what they returned; the first "
                     "that does not fit is a %s of %s, which returned %s%s",
                     calls[call->call], path, ends[call->came],
                     call->call == KIN__CALL_RECV && call->came == KIN__CAME_WELL
                         ? " and an item that is not the oldest"
                         : "");
}

/* The calls on one queue from its creation on, until its memory is another one's. */
static size_t gather(size_t from)
{
    size_t count = 0;
    const void *queue = history.calls[from].queue;
    for (size_t i = from; i < history.count; i++) {
        const struct kin__happening *call = &history.calls[i];
        if (call->queue != queue)
            continue;
        if (i > from && call->call == KIN__CALL_MADE)
            break;
        history.one[count++] = *call;
    }
    return count;
}

void kin__history_end(void)
{
    if (history.count == CALLS_MAX)
        return; /* of some calls it is not known how they ended */
    for (size_t i = 0; i < history.count && kin__world_looks(KIN_ORACLE_ORDER); i++) {
        if (history.calls[i].call != KIN__CALL_MADE)
            continue;
        size_t count = gather(i);
        const struct kin__happening *wrong =
            count > 1 ? kin__history_check(history.one, count) : NULL;
        if (wrong)
            fail(wrong);
    }
}
