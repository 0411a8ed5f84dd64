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
 * A call comes as late as it can, so that the first try is most often the last: first the one that
 * returned first; if it does not fit, what helps it to (items for a receive, room for a send), and
 * of these whoever must have come first: a send must have come before its own return and before
 * that of the receive that got its item. Everything else is tried after that. What must come before
 * what is worked out only if the order of the returns, with such help, does not explain the calls.
 *
 * A history falls into pieces at moments at which the queue is surely empty and no call is under
 * way, however late that call returns: no order of one piece helps or hurts another. A piece has
 * any length. A search that is too long decides nothing; then only sure signs of a fault are looked
 * for (history_sign.c), and without one the history is believed.
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

#define QUEUES_MAX 64u   /* what is called on others is believed */
#define STEPS_MIN 20000u /* of one search; and */
#define STEPS_EACH 16u   /* as many for each call */
#define SEEN_SIZE 8192u  /* sets of calls that are remembered */
#define NOBODY UINT16_MAX
#define WORDS ((KIN__HISTORY_MAX + 63) / 64)

/* ---- one search ---- */

static struct {
    const struct kin__happening *calls;
    const uint64_t *begins; /* when the first of those from each one on began */
    size_t count;
    uint64_t capacity;
    uint64_t closed_at;               /* when the first close had returned */
    uint64_t done[WORDS];             /* calls that have their place */
    uint64_t items[KIN__HISTORY_MAX]; /* that were ever inside */
    uint32_t head, tail;
    bool is_closed;
    struct place {                    /* the order so far */
        uint16_t call;
        uint16_t head;                /* as it was before */
        uint8_t pass;                 /* in which it was chosen */
        bool was_closed;
    } order[KIN__HISTORY_MAX];
    size_t placed, most;              /* most: the longest order that was found */
    size_t first;                     /* that has no place yet */
    bool has_turned;                  /* somebody was taken back already */
    uint64_t salt;                    /* of this search: what others remembered is not seen */
    uint64_t set;                     /* hash of done */
    uint64_t seen[SEEN_SIZE];
} search;

/* What is known before a search. */
static struct {
    uint16_t taker[KIN__HISTORY_MAX];   /* of a send: the receive of the only item of this value */
    bool stays[KIN__HISTORY_MAX];       /* of a send: nobody takes the item */
    uint64_t due[KIN__HISTORY_MAX];     /* when it must have come, as far as is seen at once */
    uint16_t by_due[KIN__HISTORY_MAX];  /* the calls, the most urgent first */
    uint16_t rank[KIN__HISTORY_MAX];    /* of a call among these */
    uint64_t since[KIN__HISTORY_MAX];   /* the least of those from a rank on */
    uint16_t sent[KIN__HISTORY_MAX];    /* sends with a taker, by the return of that one */
    uint16_t sent_at[KIN__HISTORY_MAX]; /* of a send: its place among these */
    size_t sent_count;
    size_t first_sent, first_due;       /* that have no place in the order yet */
} plan;

static bool is_done(size_t i)
{
    return search.done[i / 64] >> (i % 64) & 1;
}

/* Whether an item that must leave earlier has not come yet. */
static bool overtakes(size_t i)
{
    if (plan.first_sent == plan.sent_count)
        return false;
    const struct kin__happening *earlier = &search.calls[plan.taker[plan.sent[plan.first_sent]]];
    return plan.stays[i] || (plan.taker[i] != NOBODY &&
                             earlier->until < search.calls[plan.taker[i]].since);
}

/* Whether the call fits what is inside now. */
static inline bool fits(size_t i)
{
    const struct kin__happening *call = &search.calls[i];
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
    if ((search.is_closed && call->since > search.closed_at) || overtakes(i))
        return false;
    return search.capacity ? inside < search.capacity : inside == 0;
}

/* The next place of the order is the call's. */
static inline void append(size_t i, unsigned pass)
{
    const struct kin__happening *call = &search.calls[i];
    search.order[search.placed++] = (struct place){.call = (uint16_t)i,
                                                   .head = (uint16_t)search.head,
                                                   .pass = (uint8_t)pass,
                                                   .was_closed = search.is_closed};
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

/* The same in a search. */
static void place(size_t i, unsigned pass)
{
    append(i, pass);
    search.set ^= kin__hash_u64(i + 1);
    while (plan.first_due < search.count && is_done(plan.by_due[plan.first_due]))
        plan.first_due++;
    while (plan.first_sent < plan.sent_count && is_done(plan.sent[plan.first_sent]))
        plan.first_sent++;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Takes the last one back: which it was. */
static size_t take_back(void)
{
    const struct place *last = &search.order[--search.placed];
    const struct kin__happening *call = &search.calls[last->call];
    search.done[last->call / 64] &= ~(UINT64_C(1) << (last->call % 64));
    search.set ^= kin__hash_u64(last->call + UINT64_C(1));
    search.first = least(search.first, last->call);
    plan.first_due = least(plan.first_due, plan.rank[last->call]);
    if (plan.taker[last->call] != NOBODY)
        plan.first_sent = least(plan.first_sent, plan.sent_at[last->call]);
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
    uint64_t hash = kin__hash_u64(search.salt + search.is_closed) ^ kin__hash_u64(search.set);
    for (uint32_t i = search.head; i < search.tail; i++)
        hash = kin__hash_u64(hash ^ search.items[i]);
    if (search.tail - search.head > search.capacity) /* who may take it depends on who sends it */
        hash = kin__hash_u64(hash + search.order[search.placed - 1].call);
    uint64_t *slot = &search.seen[hash % SEEN_SIZE];
    bool is_known = *slot == hash;
    *slot = hash;
    return !is_known;
}

/* What helps a call to fit that does not: another kind of call. */
static unsigned helper_of(const struct kin__happening *call)
{
    uint32_t inside = search.tail - search.head;
    if (call->came == KIN__CAME_CLOSED && !search.is_closed)
        return KIN__CALL_CLOSE;
    if (call->call == KIN__CALL_CLOSE)
        return inside < call->value - 1 ? KIN__CALL_SEND : KIN__CALL_RECV;
    if (call->came == KIN__CAME_FULL)
        return KIN__CALL_SEND;
    bool is_full = inside >= (search.capacity ? search.capacity : 1);
    return (call->call == KIN__CALL_SEND && call->came == KIN__CAME_WELL ? is_full : inside > 0)
               ? KIN__CALL_RECV
               : KIN__CALL_SEND;
}

/* Candidates for the next place come in three passes, each in the order of the ranks. */
enum { OF_THE_FIRST, OF_HELPERS, OF_THE_REST, PASSES };

struct turn {
    unsigned pass;
    size_t rank;
};

static bool is_in_pass(size_t i, unsigned pass, unsigned helper)
{
    const struct kin__happening *call = &search.calls[i];
    bool helps = call->call == helper && call->came == KIN__CAME_WELL;
    return i != search.first && helps == (pass == OF_HELPERS);
}

/* The next that may come, from a turn on, which moves to it; false: none. Calls are sorted by their
 * return, so that the first that is left is the one that returned first. */
static bool next_call(struct turn *turn)
{
    uint64_t until = search.calls[search.first].until;
    unsigned helper = helper_of(&search.calls[search.first]);
    if (turn->pass == OF_THE_FIRST) {
        if (turn->rank <= plan.rank[search.first] && fits(search.first)) {
            turn->rank = plan.rank[search.first];
            return true;
        }
        *turn = (struct turn){OF_HELPERS, 0};
    }
    for (; turn->pass < PASSES; turn->pass++, turn->rank = 0) {
        size_t rank = turn->rank > plan.first_due ? turn->rank : plan.first_due;
        for (; rank < search.count && plan.since[rank] < until; rank++) {
            size_t i = plan.by_due[rank];
            if (is_done(i) || search.calls[i].since >= until)
                continue;
            if (is_in_pass(i, turn->pass, helper) && fits(i)) {
                turn->rank = rank;
                return true;
            }
        }
    }
    return false;
}

/* Takes the last one back, and goes on behind it. */
static void turn_back(struct turn *turn)
{
    unsigned pass = search.order[search.placed - 1].pass;
    *turn = (struct turn){pass, plan.rank[take_back()] + 1u};
}

/* A call under way that helps the first one to fit; NOBODY: none is seen at once. */
static size_t find_helper(void)
{
    const struct kin__happening *first = &search.calls[search.first];
    const unsigned helper = helper_of(first);
    const bool wants_item = search.head == search.tail && first->call == KIN__CALL_RECV &&
                            first->came == KIN__CAME_WELL && !first->is_blind;
    for (size_t i = search.first + 1; i < search.count && search.begins[i] < first->until; i++) {
        const struct kin__happening *call = &search.calls[i];
        if (call->call == helper && call->came == KIN__CAME_WELL && call->since < first->until &&
            !(wants_item && call->value != first->value) && !is_done(i) && fits(i))
            return i;
    }
    return NOBODY;
}

/* Whether the order of the returns explains the piece, with help where a call does not fit. It does
 * most often, and then nothing else has to be known. */
static bool goes_by_returns(void)
{
    const bool was_closed = search.is_closed;
    plan.sent_count = plan.first_sent = 0; /* nothing is known */
    while (search.placed < search.count) { /* ends: one more each time, or none helps */
        size_t next = fits(search.first) ? search.first : find_helper();
        if (next == NOBODY)
            break;
        append(next, OF_THE_FIRST);
    }
    if (search.placed == search.count)
        return true;
    search.is_closed = was_closed;
    return false;
}

/* Whether the calls of one piece have an order. */
static enum kin__sense find_order(void)
{
    size_t steps_max = STEPS_MIN + STEPS_EACH * search.count;
    struct turn turn = {0, 0};
    for (size_t steps = 0; search.placed < search.count && steps < steps_max; steps++) {
        if (next_call(&turn)) {
            place(plan.by_due[turn.rank], turn.pass);
            turn = (struct turn){0, 0};
            search.most = search.placed > search.most ? search.placed : search.most;
            if (search.has_turned && search.placed < search.count && !is_new())
                turn_back(&turn);
        } else if (search.placed == 0) {
            return KIN__SENSE_NONE;
        } else {
            turn_back(&turn);
        }
    }
    return search.placed == search.count ? KIN__SENSE_MADE : KIN__SENSE_UNDECIDED;
}

/* ---- what is known before ---- */

/* Values that were sent. What is said of a value is kept with its first send. */
static struct {
    uint16_t slots[2 * KIN__HISTORY_MAX]; /* the first send of a value */
    size_t size;                          /* of them, at least twice as many as there are calls */
    uint16_t next[KIN__HISTORY_MAX];      /* of a send: the next of the same value */
    uint16_t turn[KIN__HISTORY_MAX];      /* of a value: the next send that has no receive yet */
    uint16_t sends[KIN__HISTORY_MAX], recvs[KIN__HISTORY_MAX]; /* of a value: how many */
} values;

static bool is_of(const struct kin__happening *call, unsigned what)
{
    return call->call == what && call->came == KIN__CAME_WELL && !call->is_blind;
}

static uint16_t *slot_of(uint64_t value)
{
    size_t at = kin__hash_u64(value) & (values.size - 1);
    while (values.slots[at] != NOBODY && search.calls[values.slots[at]].value != value)
        at = (at + 1) & (values.size - 1); /* ends: half of the slots are free */
    return &values.slots[at];
}

/* The first send of what a call received; NOBODY: there is none. */
static uint16_t send_of(const struct kin__happening *call)
{
    return is_of(call, KIN__CALL_RECV) ? *slot_of(call->value) : NOBODY;
}

static void read_values(void)
{
    values.size = 2;
    while (values.size < 2 * search.count)
        values.size *= 2; /* no more than there are: both are powers of two */
    memset(values.slots, 0xff, values.size * sizeof(values.slots[0]));
    for (size_t i = search.count; i-- > 0;) {
        if (!is_of(&search.calls[i], KIN__CALL_SEND))
            continue;
        uint16_t *slot = slot_of(search.calls[i].value);
        values.next[i] = *slot;
        values.sends[i] = *slot == NOBODY ? 1 : (uint16_t)(values.sends[*slot] + 1);
        values.recvs[i] = 0;
        values.turn[i] = (uint16_t)i;
        *slot = (uint16_t)i;
    }
    for (size_t i = 0; i < search.count; i++) {
        uint16_t send = send_of(&search.calls[i]);
        if (send != NOBODY)
            values.recvs[send]++;
    }
}

/* Whether an item may have left without a trace of which it was. */
static bool has_blind(void)
{
    for (size_t i = 0; i < search.count; i++) {
        const struct kin__happening *call = &search.calls[i];
        if (call->call == KIN__CALL_CLOSE ? call->value > 0
                                          : call->call == KIN__CALL_RECV && call->is_blind)
            return true;
    }
    return false;
}

/* Which receive got the item of which send, where there is no doubt; and by when an item must have
 * come, where of several of one value the one that was sent first is taken first: a guess. */
static void match(void)
{
    bool is_blind = has_blind();
    read_values();
    plan.sent_count = 0;
    for (size_t i = 0; i < search.count; i++) {
        plan.taker[i] = NOBODY;
        plan.due[i] = search.calls[i].until;
        plan.stays[i] = !is_blind && is_of(&search.calls[i], KIN__CALL_SEND) &&
                        values.recvs[*slot_of(search.calls[i].value)] == 0;
    }
    for (size_t i = 0; i < search.count; i++) {
        uint16_t first = send_of(&search.calls[i]);
        uint16_t send = first == NOBODY ? NOBODY : values.turn[first];
        if (send == NOBODY)
            continue;
        values.turn[first] = values.next[send];
        if (search.calls[i].until < plan.due[send])
            plan.due[send] = search.calls[i].until - 1; /* before its taker */
        if (values.sends[first] != 1 || values.recvs[first] != 1)
            continue;
        plan.taker[send] = (uint16_t)i;
        plan.sent_at[send] = (uint16_t)plan.sent_count;
        plan.sent[plan.sent_count++] = send;
    }
}

/* An item that must leave before another one must come before it: it is due no later. Whoever
 * begins to take later than somebody has taken is met first, going backwards. */
static void read_dues(void)
{
    static uint16_t begins[KIN__HISTORY_MAX]; /* sends with a taker, by the begin of that one */
    for (size_t k = 0; k < plan.sent_count; k++) {
        uint64_t since = search.calls[plan.taker[plan.sent[k]]].since;
        size_t at = k;
        for (; at > 0 && search.calls[plan.taker[begins[at - 1]]].since > since; at--)
            begins[at] = begins[at - 1];
        begins[at] = plan.sent[k];
    }
    uint64_t least_due = UINT64_MAX;
    for (size_t i = 0; i < search.count; i++) {
        if (plan.stays[i] && plan.due[i] < least_due)
            least_due = plan.due[i];
    }
    for (size_t k = plan.sent_count, later = k; k-- > 0;) {
        uint16_t send = plan.sent[k];
        uint64_t until = search.calls[plan.taker[send]].until;
        for (; later > 0 && search.calls[plan.taker[begins[later - 1]]].since > until; later--) {
            uint64_t due = plan.due[begins[later - 1]];
            least_due = due < least_due ? due : least_due;
        }
        plan.due[send] = plan.due[send] < least_due ? plan.due[send] : least_due;
    }
}

/* Sorts the calls by when they must have come; they are nearly sorted by their returns. */
static void rank_calls(void)
{
    for (size_t i = 0; i < search.count; i++) {
        size_t at = i;
        for (; at > 0 && plan.due[plan.by_due[at - 1]] > plan.due[i]; at--)
            plan.by_due[at] = plan.by_due[at - 1];
        plan.by_due[at] = (uint16_t)i;
    }
    uint64_t since = UINT64_MAX;
    for (size_t rank = search.count; rank-- > 0;) {
        uint64_t own = search.calls[plan.by_due[rank]].since;
        since = own < since ? own : since;
        plan.since[rank] = since;
        plan.rank[plan.by_due[rank]] = (uint16_t)rank;
    }
}

/* No call of the piece has its place. */
static void start_search(void)
{
    search.head = search.tail = 0;
    search.placed = search.most = search.first = 0;
    search.has_turned = false;
    search.set = 0;
    search.salt += UINT64_C(0x9e3779b97f4a7c15);
    memset(search.done, 0, (search.count + 63) / 64 * sizeof(search.done[0]));
}

/* begins: when the first of the calls from each one on began. */
static enum kin__sense check_piece(const struct kin__happening *calls, const uint64_t *begins,
                                   size_t count)
{
    search.calls = calls;
    search.begins = begins;
    search.count = count;
    start_search();
    if (goes_by_returns())
        return KIN__SENSE_MADE;
    start_search();
    match();
    read_dues();
    rank_calls();
    plan.first_sent = plan.first_due = 0;
    return find_order();
}

/* ---- pieces ---- */

static int64_t gains(const struct kin__happening *call)
{
    if (call->came != KIN__CAME_WELL)
        return 0;
    if (call->call == KIN__CALL_CLOSE)
        return call->value ? 1 - (int64_t)call->value : 0;
    return call->call == KIN__CALL_SEND ? 1 : -1;
}

/* When the first of the calls from i on began. */
static uint64_t next_since[KIN__HISTORY_MAX + 1];

static void read_begins(const struct kin__happening *calls, size_t count)
{
    next_since[count] = UINT64_MAX;
    for (size_t i = count; i-- > 0;)
        next_since[i] = calls[i].since < next_since[i + 1] ? calls[i].since : next_since[i + 1];
}

/* The end of the piece that begins at from: as many items were taken as came, and none of the later
 * calls has begun. */
static size_t piece_of(const struct kin__happening *calls, size_t count, size_t from)
{
    int64_t inside = 0;
    for (size_t i = from; i < count; i++) {
        inside += gains(&calls[i]);
        if (inside == 0 && next_since[i + 1] > calls[i].until)
            return i + 1;
    }
    return count;
}

static uint64_t first_close(const struct kin__happening *calls, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (calls[i].call == KIN__CALL_CLOSE)
            return calls[i].until;
    }
    return UINT64_MAX;
}

enum kin__sense kin__history_check(const struct kin__happening *calls, size_t count,
                                   const struct kin__happening **wrong)
{
    enum kin__sense sense = KIN__SENSE_MADE;
    search.capacity = calls[0].value;
    search.closed_at = first_close(calls, count);
    search.is_closed = false;
    read_begins(calls, count);
    for (size_t from = 1, end; from < count && sense == KIN__SENSE_MADE; from = end) {
        end = piece_of(calls, count, from);
        sense = check_piece(calls + from, next_since + from, end - from);
    }
    if (sense == KIN__SENSE_UNDECIDED) {
        *wrong = kin__history_sign(calls, count);
        return *wrong ? KIN__SENSE_NONE : sense;
    }
    if (sense == KIN__SENSE_NONE)
        *wrong = &search.calls[search.most];
    return sense;
}

/* ---- the history of an execution ---- */

static struct {
    struct kin__happening calls[KIN__HISTORY_MAX];
    struct kin__happening one[KIN__HISTORY_MAX]; /* those of one queue */
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

static inline struct kin__happening *add(const void *queue, unsigned call)
{
    struct kin__happening *at = &history.calls[history.count];
    if (!kin__world.is_on || !kin__world_looks(KIN_ORACLE_ORDER) ||
        history.count == KIN__HISTORY_MAX)
        return NULL;
    *at = (struct kin__happening){.queue = queue,
                                  .since = *begun(),
                                  .until = ++history.moment,
                                  .player = kin__world.current,
                                  .call = (uint8_t)call};
    return at;
}

/* The place of a queue, counted from 1; 0: it has none. */
static size_t which_queue(const void *queue)
{
    size_t which = history.queues;
    while (which > 0 && history.calls[history.made[which - 1]].queue != queue)
        which--;
    return which;
}

/* A queue in the memory of one that is gone takes its place: the calls of one are never counted
 * among those of the other. */
void kin__lab_made(const void *queue, size_t item_size, size_t capacity)
{
    size_t which = which_queue(queue);
    if (which == 0 && history.queues == QUEUES_MAX)
        return; /* what is called on it is believed */
    struct kin__happening *at = add(queue, KIN__CALL_MADE);
    if (!at)
        return;
    which = which ? which : ++history.queues;
    at->value = capacity;
    history.item_sizes[which - 1] = (uint32_t)item_size;
    history.made[which - 1] = (uint32_t)history.count++;
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

/* What an item is known by. The two sizes of most items are copied without a call. */
static uint64_t value_of(const unsigned char *item, size_t size)
{
    uint64_t whole = 0;
    uint32_t half;
    if (size > sizeof(whole))
        return hash_of(item, size);
    if (size == sizeof(whole)) {
        memcpy(&whole, item, sizeof(whole));
    } else if (size == sizeof(half)) {
        memcpy(&half, item, sizeof(half));
        whole = half;
    } else {
        memcpy(&whole, item, size);
    }
    return whole;
}

void kin__lab_called(const void *queue, unsigned call, int rc, const void *item)
{
    size_t which = which_queue(queue);
    struct kin__happening *at = which ? add(queue, call) : NULL;
    if (!at || !read_end(rc, &at->came))
        return;
    uint32_t size = history.item_sizes[which - 1];
    if (call == KIN__CALL_CLOSE)
        at->value = (uint64_t)rc; /* what it drops */
    else if (item && at->came == KIN__CAME_WELL)
        at->value = value_of(item, size);
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

/* The calls on one queue from its creation on, until its memory is another one's; *out is where
 * they are. If they are all that is left they stay where they are. */
static size_t gather(size_t from, const struct kin__happening **out)
{
    size_t count = 0;
    const void *queue = history.calls[from].queue;
    if (history.queues == 1 && history.made[0] == from) {
        *out = &history.calls[from];
        return history.count - from;
    }
    *out = history.one;
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
    if (history.count == KIN__HISTORY_MAX)
        return; /* of some calls it is not known how they ended */
    for (size_t i = 0; i < history.count && kin__world_looks(KIN_ORACLE_ORDER); i++) {
        if (history.calls[i].call != KIN__CALL_MADE)
            continue;
        const struct kin__happening *calls, *wrong = NULL;
        size_t count = gather(i, &calls);
        if (count > 1 && kin__history_check(calls, count, &wrong) == KIN__SENSE_NONE)
            fail(wrong);
    }
}
