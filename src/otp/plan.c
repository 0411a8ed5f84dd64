/* SPDX-License-Identifier: MIT */
/*
 * What a supervisor decides: orders, verdicts, plans, restart intensity, delays.
 *
 * The order is that of Kahn with a heap of the children that are free to start, so that n children
 * with e dependencies cost n log n + e. Names are found by a table with open addressing that is at
 * most half full.
 */
#include "otp/plan.h"

#include "base/lab.h"
#include "plat/plat.h"

#include <errno.h>
#include <string.h>

#define NONE UINT32_MAX
#define HISTORY_FIRST 16u               /* restarts noted before the ring grows */
#define BACKOFF_MAX INT64_C(60000000000) /* of a backoff that has none: 60 s */
#define BACKOFF_FACTOR 200u

__extension__ typedef __int128 wide;

/* ---- the order ---- */

/* What kin__plan_order works with, in one block. */
struct sorter {
    const struct kin_child_spec *children;
    size_t count;
    struct kin__hash_key key;
    size_t mask;      /* of slots */
    uint32_t *slots;  /* of the table of names: indices of children, or NONE */
    uint32_t *waits;  /* how many dependencies of a child have not come yet */
    uint32_t *first;  /* where the list of those begins that depend on a child; NONE: nobody */
    uint32_t *ready;  /* heap of children whose dependencies have come, the smallest index first */
    uint32_t ready_count;
    uint32_t *next;   /* per dependency: the next one on the same child */
    uint32_t *who;    /* per dependency: who depends */
};

/* The slot of a name: the child that has it, or NONE where it would go. */
static uint32_t *find(struct sorter *sorter, const char *name)
{
    size_t at = (size_t)kin__hash_bytes(sorter->key, name, strlen(name)) & sorter->mask;
    /* ends: at least half of the slots are empty */
    while (sorter->slots[at] != NONE &&
           strcmp(sorter->children[sorter->slots[at]].name, name) != 0)
        at = (at + 1) & sorter->mask;
    return &sorter->slots[at];
}

static void push_ready(struct sorter *sorter, uint32_t child)
{
    uint32_t *heap = sorter->ready;
    uint32_t i = sorter->ready_count++;
    while (i > 0 && heap[(i - 1) / 2] > child) { /* ends: i goes to 0 */
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = child;
}

static uint32_t pop_ready(struct sorter *sorter)
{
    uint32_t *heap = sorter->ready;
    uint32_t top = heap[0], last = heap[--sorter->ready_count], i = 0;
    for (;;) { /* ends: i at least doubles */
        uint32_t child = 2 * i + 1;
        if (child >= sorter->ready_count)
            break;
        if (child + 1 < sorter->ready_count && heap[child + 1] < heap[child])
            child++;
        if (heap[child] >= last)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* How many dependencies there are; SIZE_MAX: more than can be counted here. */
static size_t count_edges(const struct kin_child_spec *children, size_t count)
{
    size_t edges = 0;
    for (size_t i = 0; i < count; i++) {
        const char *const *on = children[i].depends_on;
        for (; on && *on; on++)
            edges++;
    }
    return edges < NONE ? edges : SIZE_MAX;
}

/* Enters the names; false: one is missing or there twice. */
static bool enter_names(struct sorter *sorter)
{
    for (uint32_t i = 0; i < sorter->count; i++) {
        const char *name = sorter->children[i].name;
        if (!name || !*name)
            return false;
        uint32_t *slot = find(sorter, name);
        if (*slot != NONE)
            return false;
        *slot = i;
    }
    return true;
}

/* Enters who waits for whom; false: for somebody who is not there. */
static bool enter_edges(struct sorter *sorter)
{
    uint32_t edge = 0;
    for (uint32_t i = 0; i < sorter->count; i++) {
        const char *const *on = sorter->children[i].depends_on;
        for (; on && *on; on++, edge++) {
            uint32_t target = *find(sorter, *on);
            if (target == NONE)
                return false;
            sorter->who[edge] = i;
            sorter->next[edge] = sorter->first[target];
            sorter->first[target] = edge;
            sorter->waits[i]++;
        }
    }
    return true;
}

/* 0, or -EINVAL when some never become ready. */
static int sort(struct sorter *sorter, uint32_t *order)
{
    size_t done = 0;
    for (uint32_t i = 0; i < sorter->count; i++) {
        if (sorter->waits[i] == 0)
            push_ready(sorter, i);
    }
    while (sorter->ready_count > 0) { /* ends: each child becomes ready once */
        uint32_t child = pop_ready(sorter);
        order[done++] = child;
        for (uint32_t e = sorter->first[child]; e != NONE; e = sorter->next[e]) {
            if (--sorter->waits[sorter->who[e]] == 0)
                push_ready(sorter, sorter->who[e]);
        }
    }
    return done == sorter->count ? 0 : -EINVAL;
}

int kin__plan_order(const struct kin_child_spec *children, size_t count, struct kin__hash_key key,
                    uint32_t *order)
{
    size_t edges = count_edges(children, count);
    size_t slots = 2;
    if (count >= NONE / 4 || edges == SIZE_MAX)
        return -EINVAL;
    while (slots < 2 * count) /* ends: doubles */
        slots *= 2;
    uint32_t *block = kin__heap_alloc((slots + 3 * count + 2 * edges + 1) * sizeof(*block));
    if (!block)
        return -ENOMEM;
    struct sorter sorter = {.children = children,
                            .count = count,
                            .key = key,
                            .mask = slots - 1,
                            .slots = block,
                            .waits = block + slots + count,
                            .first = block + slots,
                            .ready = block + slots + 2 * count,
                            .next = block + slots + 3 * count,
                            .who = block + slots + 3 * count + edges};
    memset(block, 0xff, (slots + count) * sizeof(*block)); /* slots and first: NONE */
    int rc = enter_names(&sorter) && enter_edges(&sorter) ? sort(&sorter, order) : -EINVAL;
    kin__heap_free(block);
    return rc;
}

/* ---- the verdict ---- */

/* [SINV-2] A child that was cancelled or panicked is never restarted for it. */
static enum kin__verdict verdict_of_lost(enum kin_restart restart,
                                         enum kin_child_stopped on_stopped)
{
    /* by enum kin_child_stopped */
    static const enum kin__verdict permanent[] = {KIN__VERDICT_KEEP, KIN__VERDICT_STOP,
                                                  KIN__VERDICT_ESCALATE};
    switch (restart) {
    case KIN_PERMANENT:
        return permanent[on_stopped];
    case KIN_TEMPORARY:
        return KIN__VERDICT_FORGET;
    case KIN_ESCALATE:
        return KIN__VERDICT_ESCALATE;
    case KIN_TRANSIENT:
        break;
    }
    return KIN__VERDICT_KEEP;
}

enum kin__verdict kin__plan_verdict(enum kin_restart restart, enum kin_severity severity,
                                    bool is_quiet, enum kin_child_stopped on_stopped)
{
    if (severity == KIN_SEV_CANCELLED || severity == KIN_SEV_PANIC)
        return verdict_of_lost(restart, on_stopped);
    bool is_good = severity == KIN_SEV_OK;
    switch (restart) {
    case KIN_PERMANENT:
        return KIN__VERDICT_RESTART;
    case KIN_TEMPORARY:
        return KIN__VERDICT_FORGET;
    case KIN_ESCALATE:
        return is_good ? KIN__VERDICT_KEEP : KIN__VERDICT_ESCALATE;
    case KIN_TRANSIENT:
        break;
    }
    return is_good || is_quiet ? KIN__VERDICT_KEEP : KIN__VERDICT_RESTART;
}

/* ---- the plan ---- */

struct kin__plan kin__plan_of(enum kin_strategy strategy, uint64_t rank)
{
    switch (strategy) {
    case KIN_ONE_FOR_ALL:
        return (struct kin__plan){0, UINT64_MAX};
    case KIN_REST_FOR_ONE:
        return (struct kin__plan){rank, UINT64_MAX};
    case KIN_ONE_FOR_ONE:
    case KIN_TEMPLATE:
        break;
    }
    return (struct kin__plan){rank, rank};
}

/* ---- the history ---- */

bool kin__history_init(struct kin__history *history, unsigned max, int64_t window)
{
    *history = (struct kin__history){.max = max == KIN_NO_RESTARTS ? 0 : max ? max : 3,
                                     .window = window ? window : KIN_SEC(5)};
    history->cap = history->max < HISTORY_FIRST ? history->max : HISTORY_FIRST;
    if (history->cap == 0)
        return true;
    history->times = kin__heap_alloc(history->cap * sizeof(*history->times));
    return history->times != NULL;
}

void kin__history_fini(struct kin__history *history)
{
    kin__heap_free(history->times);
    history->times = NULL;
}

/* Room for one more than there are, of max at most. */
static bool grow(struct kin__history *history)
{
    size_t cap = history->cap * 2 < history->max ? history->cap * 2 : history->max;
    int64_t *times = kin__heap_alloc(cap * sizeof(*times));
    if (!times)
        return false;
    for (size_t i = 0; i < history->count; i++)
        times[i] = history->times[(history->first + i) % history->cap];
    kin__heap_free(history->times);
    history->times = times;
    history->cap = cap;
    history->first = 0;
    return true;
}

bool kin__history_add(struct kin__history *history, int64_t now)
{
    /* ends: one fewer each time. now - window does not overflow: a clock starts at 0 or above */
    while (history->count > 0 && history->times[history->first] <= now - history->window) {
        history->first = (history->first + 1) % history->cap;
        history->count--;
    }
    if (history->count >= history->max)
        return false;
    /* Without memory to remember one more, one more is too many. */
    if (history->count == history->cap && !grow(history))
        return false;
    history->times[(history->first + history->count) % history->cap] = now;
    history->count++;
    return true;
}

void kin__history_clear(struct kin__history *history)
{
    history->count = 0;
}

/* ---- the pace ---- */

bool kin__backoff_is_valid(const struct kin_backoff *backoff)
{
    return backoff->first >= 0 && backoff->max >= 0 && backoff->jitter_pct <= 100 &&
           (backoff->max == 0 || backoff->max >= backoff->first);
}

int64_t kin__backoff_next(const struct kin_backoff *backoff, int64_t *delay, struct kin__rng *rng)
{
    int64_t max = backoff->max ? backoff->max : BACKOFF_MAX;
    unsigned factor = backoff->factor_pct ? backoff->factor_pct : BACKOFF_FACTOR;
    if (backoff->first == 0)
        return 0;
    if (max < backoff->first)
        max = backoff->first;
    wide next = *delay ? (wide)*delay * factor / 100 : backoff->first;
    *delay = next > max ? max : next < 1 ? 1 : (int64_t)next;
    int64_t spread = (int64_t)((wide)*delay * backoff->jitter_pct / 100);
    if (spread == 0)
        return *delay;
    KIN__LAB_DRAWS("the jitter of a backoff");
    /* from -spread to +spread, each equally likely, and never beyond the maximum */
    wide wait = (wide)*delay - spread + (wide)kin__rng_below(rng, 2 * (uint64_t)spread + 1);
    return wait > max ? max : (int64_t)wait;
}
