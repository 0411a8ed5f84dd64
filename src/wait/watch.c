/* SPDX-License-Identifier: MIT */
/*
 * Watches: one value, its version, a lock, and those who wait for a newer one.
 *
 * A reader says which version it knows. If the value is newer it is copied out at once; otherwise
 * the reader waits in one of two queues:
 *
 *     waiting   knows the present version: the next set wakes it, with the value of that moment
 *     later     knows a version that has not been yet: set moves it to waiting when its time comes
 *
 * A set writes the value once, whatever the number of readers, and hands it to those who wait, in
 * order and in batches; between two of them the lock is left and the value may change again, then
 * the rest gets the newer one. Versions in waiting never fall from front to back, so a set stops at
 * the first one who knows the present version: that one came later.
 *
 * Invariants, whenever the lock is free and no set is in the middle of its batches:
 *   1  A live reader in waiting knows the present version; one in later a higher one.
 *   2  After the close nobody waits: what can still be had is had without waiting.
 *   3  pins counts readers that were linked and neither claimed here nor unpublished, and sets
 *      between two batches. The memory stays until the last of them is gone.
 *
 * What was rejected: a value for readers without the lock, by a sequence that is odd while it is
 * written. Copying bytes that change meanwhile is a data race however it ends, items may be 64 KiB
 * large, and the lock costs one exchange. A queue of values: that is a broadcast.
 */
#include <kin/stream.h>

#include "base/lab.h"
#include "base/list.h"
#include "base/lock.h"
#include "park/waitq.h"
#include "plat/plat.h"
#include "wait/item.h"
#include "wait/timer.h"

#include <errno.h>

#define WAKE_BATCH 64u /* waiters looked at before the lock is left for a moment */

/* All but item_size, refs and is_closed is used under the lock. */
struct kin_watch {
    struct kin__lock lock; /* rank WAIT */
    kin__a32 is_closed;    /* set under the lock, for good; anyone looks */
    kin__a32 refs;         /* anyone */
    uint32_t item_size;    /* constant */
    uint64_t version;      /* of the value; the first one is 1 */
    struct kin__waitq waiting, later; /* io: a struct reading */
    uint32_t pins;
    bool is_dead;          /* has no reference left: goes with the last pin */
    struct kin__bill bill; /* constant */
    _Alignas(16) unsigned char value[];
};

/* What a reader knows, and where it wants to have what is newer. */
struct reading {
    void *item;
    uint64_t *version;
    uint64_t known;
};

/* ---- small steps; with the lock ---- */

static inline bool is_closed(const struct kin_watch *watch)
{
    return kin__load_relaxed(&watch->is_closed); /* relaxed: under the lock, or only a hint */
}

static inline void read_value(const struct kin_watch *watch, void *item, uint64_t *version)
{
    kin__item_copy(item, watch->value, watch->item_size);
    if (version)
        *version = watch->version;
}

static inline struct reading *reading_of(const struct kin__waiter *waiter)
{
    return waiter->io;
}

/* Gives the lock after a pin was taken off; the last one of a dead watch frees it. */
static void give_unpinned(struct kin_watch *watch)
{
    bool is_last = watch->pins == 0 && watch->is_dead;
    kin__lock_give(&watch->lock, KIN__RANK_WAIT);
    if (KIN__UNLIKELY(is_last)) {
        kin__bill_give(watch->bill);
        kin__heap_free(watch);
    }
}

/* ---- settling ---- */

/* Those who knew a version that had not been, and for whom the present one is news. */
static void promote(struct kin_watch *watch)
{
    if (KIN__LIKELY(kin__waitq_is_empty(&watch->later)))
        return;
    KIN__LIST_EACH (link, &watch->later.list) {
        struct kin__waiter *waiter = KIN__CONTAINER_OF(link, struct kin__waiter, link);
        if (reading_of(waiter)->known < watch->version) {
            kin__waitq_remove(waiter);
            kin__waitq_push(&watch->waiting, waiter);
        }
    }
}

/* Serves a queue, at most most of it: with the value who does not know it yet, with KIN_CLOSED the
 * others when there will be no other. Returns how many. */
static uint32_t settle_queue(struct kin_watch *watch, struct kin__waitq *queue,
                             struct kin__wakes *wakes, uint32_t most)
{
    uint32_t count = 0;
    struct kin__waiter *waiter;
    while (count < most && (waiter = kin__waitq_first(queue))) {
        struct kin__claimed reader;
        bool is_news = reading_of(waiter)->known < watch->version;
        if (!is_news && !is_closed(watch))
            break;
        if (!kin__waitq_claim_one(waiter, &reader))
            continue;
        watch->pins--;
        struct reading *to = reader.io;
        if (is_news)
            read_value(watch, to->item, to->version);
        kin__wakes_add(wakes, &reader, is_news ? 0 : KIN_CLOSED);
        count++;
    }
    return count;
}

/* Tells those who wait what the caller has changed. Takes the lock from the caller and gives it. */
static void settle_and_give(struct kin_watch *watch)
{
    for (;;) { /* ends: whoever comes back knows the present version and is not served again */
        struct kin__wakes wakes = {0};
        uint32_t count = settle_queue(watch, &watch->waiting, &wakes, WAKE_BATCH);
        if (KIN__UNLIKELY(is_closed(watch)))
            count += settle_queue(watch, &watch->later, &wakes, WAKE_BATCH - count);
        if (KIN__LIKELY(count < WAKE_BATCH)) {
            give_unpinned(watch);
            kin__wakes_run(&wakes);
            return;
        }
        watch->pins++;
        kin__lock_give(&watch->lock, KIN__RANK_WAIT);
        kin__wakes_run(&wakes);
        kin__lock_take(&watch->lock, KIN__RANK_WAIT);
        watch->pins--;
    }
}

/* ---- as something to wait for; io is a struct reading ---- */

static bool wait_try(void *object, void *io, int *status)
{
    struct kin_watch *watch = object;
    struct reading *to = io;
    kin__lock_take(&watch->lock, KIN__RANK_WAIT);
    bool is_news = to->known < watch->version;
    bool is_over = is_closed(watch);
    if (is_news)
        read_value(watch, to->item, to->version);
    kin__lock_give(&watch->lock, KIN__RANK_WAIT);
    *status = is_news ? 0 : KIN_CLOSED;
    return is_news || is_over;
}

static bool wait_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin_watch *watch = object;
    (void)status;
    kin__lock_take(&watch->lock, KIN__RANK_WAIT);
    uint64_t known = reading_of(waiter)->known;
    bool links = known >= watch->version && !is_closed(watch);
    if (links) {
        kin__waitq_push(known == watch->version ? &watch->waiting : &watch->later, waiter);
        watch->pins++;
    }
    kin__lock_give(&watch->lock, KIN__RANK_WAIT);
    return links;
}

static void wait_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin_watch *watch = object;
    kin__lock_take(&watch->lock, KIN__RANK_WAIT);
    kin__waitq_remove(waiter);
    watch->pins--;
    give_unpinned(watch);
}

static const struct kin__waitable wait_waitable = {"watch", wait_try, wait_publish, wait_unpublish};

KIN__WAITABLE_READY(wait_waitable)
{
    const struct kin_watch *watch = object;
    return reading_of(waiter)->known < watch->version ? "there is another value"
           : is_closed(watch)                         ? "it is closed"
                                                      : NULL;
}

/* ---- the public face ---- */

int kin_watch_set(struct kin_watch *watch, const void *item)
{
    if (KIN__UNLIKELY(!watch || (!item && watch->item_size != 0)))
        return -EINVAL;
    int rc = kin__item_enter_anywhere(KIN__COST_CHANNEL);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    kin__lock_take(&watch->lock, KIN__RANK_WAIT);
    if (is_closed(watch)) {
        kin__lock_give(&watch->lock, KIN__RANK_WAIT);
        return KIN_CLOSED;
    }
    kin__item_copy(watch->value, item, watch->item_size);
    watch->version++;
    promote(watch);
    settle_and_give(watch);
    return 0;
}

int kin_watch_get(struct kin_watch *watch, void *item, uint64_t *version)
{
    if (KIN__UNLIKELY(!watch))
        return -EINVAL;
    int rc = kin__item_enter_anywhere(KIN__COST_CHANNEL);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    kin__lock_take(&watch->lock, KIN__RANK_WAIT);
    read_value(watch, item, version);
    kin__lock_give(&watch->lock, KIN__RANK_WAIT);
    return 0;
}

int kin_watch_wait(struct kin_watch *watch, void *item, uint64_t *version, kin_time deadline)
{
    int status;
    if (KIN__UNLIKELY(!watch || !version))
        return -EINVAL;
    struct reading to = {item, version, *version};
    int rc = kin__item_enter(deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    if (kin__item_tries(deadline) && wait_try(watch, &to, &status))
        return status;
    if (deadline == 0)
        return KIN_EMPTY;
    return kin__wait_until(&wait_waitable, watch, &to, deadline, KIN__WAIT_TRIED);
}

/* The one point of a close, and of the end of the last reference. */
static void shut(struct kin_watch *watch, bool is_dead)
{
    kin__lock_take(&watch->lock, KIN__RANK_WAIT);
    /* relaxed: under the lock; those who look without it ask for a hint */
    kin__store_relaxed(&watch->is_closed, 1u);
    watch->is_dead = watch->is_dead || is_dead;
    settle_and_give(watch);
}

void kin_watch_close(struct kin_watch *watch)
{
    if (!watch)
        return;
    kin__entry_turn_self();
    shut(watch, false);
}

bool kin_watch_is_closed(const struct kin_watch *watch)
{
    KIN__LAB_POINT();
    return !watch || is_closed(watch);
}

struct kin_watch *kin_watch_ref(struct kin_watch *watch)
{
    KIN__LAB_POINT();
    if (watch) {
        uint32_t old = kin__add_relaxed(&watch->refs, 1u); /* relaxed: the caller has one */
        KIN__CHECK(old != 0, "002:0: a reference was taken after the last one was given up");
    }
    return watch;
}

void kin_watch_unref(struct kin_watch *watch)
{
    if (!watch)
        return;
    kin__entry_check_gives();
    /* pairs with the other unrefs: the last one sees what was done with the others' */
    uint32_t old = kin__sub_acq_rel(&watch->refs, 1u);
    KIN__CHECK(old != 0, "002:0: more references were given up than taken");
    if (old == 1)
        shut(watch, true);
}

int kin_watch_create(struct kin_watch **out, size_t item_size, const void *initial)
{
    if (!out || (!initial && item_size != 0))
        return -EINVAL;
    int rc = kin__item_enter_anywhere(0);
    if (rc < 0)
        return rc;
    if (item_size > KIN__ITEM_MAX)
        return -EOVERFLOW;
    struct kin__bill bill;
    rc = kin__bill_take(&bill, kin__task_self(), sizeof(struct kin_watch) + item_size);
    if (rc < 0)
        return rc;
    struct kin_watch *watch = kin__heap_alloc(sizeof(*watch) + item_size);
    if (!watch) {
        kin__bill_give(bill);
        return -ENOMEM;
    }
    watch->bill = bill;
    watch->item_size = (uint32_t)item_size;
    kin__item_copy(watch->value, initial, item_size);
    watch->version = 1;
    kin__store_relaxed(&watch->refs, 1u); /* alone: nobody else has it yet */
    *out = watch;
    return 0;
}
