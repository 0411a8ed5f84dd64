/* SPDX-License-Identifier: MIT */
/*
 * The registry: names, who holds them, and until when.
 *
 *     sched -> registry: 64 shards by the top bits of a keyed hash
 *                          shard: lock, buckets --- lease --- lease ---       found by name
 *     party -> names: ---------------------------- lease --- lease ---        found by holder
 *
 * A lease is in two places: in its shard, under the shard's lock, for as long as the name is taken;
 * and in the list of its holder's party, under that party's lock. A name is free at the very moment
 * its lease leaves the shard, and whoever takes it out there is the only one who ends it: the
 * holder's end, an unregister, the clock. The memory goes back with whoever takes it off the
 * holder's list: the one who ended it, or, when the holder is over meanwhile, kin__names_end.
 *
 *     party's lock --- around --- shard's lock      taking a name, and ending one that has run out,
 *                                                   so that the holder is told before anybody can
 *                                                   find the name free
 *     shard's lock, then party's lock               giving a name up
 *
 * The clock decides and not the timer: a lease is over at its deadline for everybody who looks,
 * though the timer that tells the holder may come a moment later [REG-EXPIRE]. A timer knows the
 * shard, which is there for as long as the runtime, and the name of the lease's frame: one that
 * comes too late finds that the frame has another name by now, for that changes under the lock of
 * this shard and is never the same again; frames are never unmapped.
 *
 * Buckets are split one at a time (linear hashing), one or two with each name that comes in, so
 * that no lock is ever held for as long as a large table takes to copy. Their memory comes in
 * segments, each as large as all before it, which are allocated without the lock; when there is
 * none the chains grow longer and nothing else happens. A registry never shrinks. Rejected: chains
 * that are read without a lock. The hash and the lines that a search touches take longer than a
 * lock that nobody else wants, and leases and names would have to outlive whoever is reading them.
 */
#include "otp/registry.h"

#include "base/bits.h"
#include "base/hash.h"
#include "plat/plat.h"
#include "sched/blocks.h"
#include "sched/entry.h"
#include "scope/scope.h"

#include <errno.h>
#include <string.h>

#define SHARDS 64u
#define SHARD_SHIFT 58u /* the top six bits of a hash are its shard's, the low ones its bucket's */
#define FIRST_BITS 3u
#define FIRST (1u << FIRST_BITS) /* buckets in the first segment, which lies in the shard */
#define SEGMENTS 22u

struct kin__lease {
    struct kin__frame frame; /* the pool's; its name goes up when the lease ends */
    /* what a search reads, in one line with the head; constant while it is in the shard, */
    uint64_t hash;
    struct kin__name *name;
    uint64_t holder;         /* a task's number */
    struct kin__lease *next; /* but for the next one in its bucket, */
    kin_time deadline;       /* and for when it ends, KIN_NEVER: never; under the shard's lock */
    uint32_t shard;          /* constant, too, until the lease is freed */
    bool is_out;             /* it has left the shard; under the shard's lock */
    uint64_t registrar;      /* a task's number; constant, too */
    struct kin__timer timer; /* under the shard's lock, until it is out */
    struct kin__list link;   /* in the names of its holder; under that party's lock */
    struct kin__note note;   /* that it ran out; the holder's once it was told */
    struct kin__payer *payer; /* who made it, of a task that is metered; constant, too */
};
_Static_assert(offsetof(struct kin__lease, registrar) <= KIN__LINE, "a search reads one line");
_Static_assert(sizeof(struct kin__lease) <= KIN__LEASE_BYTES, "a frame holds one");

struct shard {
    _Alignas(KIN__LINE) struct kin__lock lock; /* rank WAIT; the rest */
    uint32_t count;                            /* leases in it */
    uint32_t buckets;                          /* in use, at least FIRST */
    uint32_t mask;                             /* of a hash, for buckets <= mask + 1 < 2 buckets */
    struct kin__lease **segments[SEGMENTS];    /* the first is first; NULL: not needed so far */
    struct kin__lease *first[FIRST];
};

struct registry {
    struct kin__hash_key key; /* secret: names may come from outside */
    struct kin__shown shown;  /* not of this table: what children of supervisors are called */
    struct shard shards[SHARDS];
};

/* Where a name belongs. */
struct place {
    struct shard *shard;
    uint64_t hash;
    const char *text;
    size_t size;
};

/* ---- buckets ---- */

/* The segment that bucket i is in, and how many buckets are in those before it. Segment s > 0 has
 * as many as all before it: FIRST << (s - 1). */
static unsigned segment_of(uint32_t i, uint32_t *before)
{
    unsigned segment = i < FIRST ? 0 : kin__log2_floor(i) - FIRST_BITS + 1;
    *before = segment == 0 ? 0 : FIRST << (segment - 1);
    return segment;
}

static struct kin__lease **bucket_at(struct shard *shard, uint32_t i)
{
    uint32_t before;
    unsigned segment = segment_of(i, &before);
    return &shard->segments[segment][i - before];
}

/* The bucket of a hash. Those of a round are split in order: one that is not there yet is still
 * part of the one below it that has the same bits but the highest. */
static struct kin__lease **bucket_of(struct shard *shard, uint64_t hash)
{
    uint32_t i = (uint32_t)hash & shard->mask;
    return bucket_at(shard, i < shard->buckets ? i : i & (shard->mask >> 1));
}

/* Splits the next bucket, if there are too few and memory for one more. */
static void split_locked(struct shard *shard)
{
    uint32_t before, fresh = shard->buckets;
    if (shard->count <= fresh || segment_of(fresh, &before) >= SEGMENTS ||
        !shard->segments[segment_of(fresh, &before)])
        return;
    if (fresh > shard->mask)
        shard->mask = 2 * shard->mask + 1;
    struct kin__lease **to = bucket_at(shard, fresh);
    struct kin__lease **at = bucket_at(shard, fresh & (shard->mask >> 1));
    while (*at) { /* ends: a step along the chain each time */
        struct kin__lease *lease = *at;
        if (((uint32_t)lease->hash & shard->mask) == fresh) {
            *at = lease->next;
            lease->next = *to;
            *to = lease;
        } else {
            at = &lease->next;
        }
    }
    shard->buckets++;
}

/* Adds a segment if the next bucket needs one. Without memory the chains grow longer. */
static void extend(struct shard *shard)
{
    uint32_t before;
    kin__lock_take(&shard->lock, KIN__RANK_WAIT);
    unsigned segment = segment_of(shard->buckets, &before);
    bool lacks = shard->count > shard->buckets && segment < SEGMENTS && !shard->segments[segment];
    kin__lock_give(&shard->lock, KIN__RANK_WAIT);
    if (KIN__LIKELY(!lacks))
        return;
    struct kin__lease **fresh = kin__heap_alloc(before * sizeof(struct kin__lease *));
    if (!fresh)
        return;
    kin__lock_take(&shard->lock, KIN__RANK_WAIT);
    if (!shard->segments[segment]) {
        shard->segments[segment] = fresh;
        fresh = NULL;
    }
    kin__lock_give(&shard->lock, KIN__RANK_WAIT);
    kin__heap_free(fresh);
}

static struct kin__lease *find_locked(const struct place *place)
{
    struct kin__lease *lease = *bucket_of(place->shard, place->hash);
    /* ends: a step along the chain each time */
    while (lease && (lease->hash != place->hash || lease->name->size != place->size ||
                     memcmp(lease->name->text, place->text, place->size) != 0))
        lease = lease->next;
    return lease;
}

/* ---- registries ---- */

static struct registry *registry_of(struct kin__sched *sched)
{
    return kin__load_acquire(&sched->names); /* pairs with the release in need_registry */
}

/* In the lab the same names are in the same places in every run: two of one shard depend on each
 * other. */
static struct kin__hash_key make_key(void)
{
#ifdef KIN__LAB
    return (struct kin__hash_key){1, 2};
#else
    return (struct kin__hash_key){kin__plat_entropy(), kin__plat_entropy()};
#endif
}

/* The registry of the runtime, made by whoever needs it first; NULL: no memory. */
static struct registry *need_registry(struct kin__sched *sched)
{
    struct registry *registry = registry_of(sched);
    if (KIN__LIKELY(registry != NULL))
        return registry;
    registry = kin__heap_alloc_lines(sizeof(*registry));
    if (!registry)
        return NULL;
    registry->key = make_key();
    for (unsigned i = 0; i < SHARDS; i++) {
        registry->shards[i].buckets = FIRST;
        registry->shards[i].mask = FIRST - 1;
        registry->shards[i].segments[0] = registry->shards[i].first;
    }
    void *nobody = NULL;
    /* pairs with the acquire in registry_of */
    if (kin__cas_acq_rel(&sched->names, &nobody, (void *)registry))
        return registry;
    kin__heap_free_lines(registry);
    return registry_of(sched);
}

static struct place place_in(struct registry *registry, const char *text, size_t size)
{
    uint64_t hash = kin__hash_bytes(registry->key, text, size);
    return (struct place){&registry->shards[hash >> SHARD_SHIFT], hash, text, size};
}

/* ---- leases ---- */

static void free_lease(struct kin__lease *lease)
{
    struct kin__bill bill = {lease->payer, KIN__LEASE_BYTES};
    kin__name_unref(lease->name);
    kin__block_give(KIN__FRAME_LEASE, &lease->frame);
    kin__bill_give(bill);
}

static void note_done(struct kin__note *note)
{
    free_lease(KIN__CONTAINER_OF(note, struct kin__lease, note));
}

static void on_deadline(void *object, uint64_t name);

/* A lease that nobody else knows so far, at the expense of the running task. NULL: *rc is -ENOMEM
 * or KIN_BUDGET. */
static struct kin__lease *make_lease(const struct registry *registry, const struct place *place,
                                     uint64_t holder, uint64_t registrar, int *rc)
{
    struct kin__bill bill;
    struct kin__frame *frame =
        kin__block_take_billed(KIN__FRAME_LEASE, KIN__LEASE_BYTES, &bill, rc);
    if (!frame)
        return NULL;
    struct kin__lease *lease = KIN__CONTAINER_OF(frame, struct kin__lease, frame);
    lease->name = kin__name_make(place->text, place->size, rc);
    if (!lease->name) {
        kin__block_give(KIN__FRAME_LEASE, frame);
        kin__bill_give(bill);
        return NULL;
    }
    lease->payer = bill.payer;
    lease->is_out = false;
    lease->hash = place->hash;
    lease->holder = holder;
    lease->registrar = registrar;
    lease->deadline = KIN_NEVER;
    lease->link.next = NULL; /* a recycled frame still has the links of its last life */
    lease->note.link.next = NULL;
    kin__timer_init(&lease->timer, KIN_NEVER);
    lease->timer.fire = on_deadline;
    lease->timer.object = place->shard;
    lease->timer.name = kin__load_relaxed(&frame->name); /* relaxed: the caller's own */
    lease->shard = (uint32_t)(place->shard - registry->shards);
    return lease;
}

/* Whether its time is over, at now >= deadline. */
static bool is_due(const struct kin__lease *lease)
{
    return KIN__UNLIKELY(lease->deadline != KIN_NEVER) && lease->deadline <= kin__clock_now();
}

/* Gives it another deadline, or none. */
static void set_deadline_locked(struct kin__lease *lease, struct kin__sched *sched,
                                kin_time deadline)
{
    kin__timer_disarm(&lease->timer);
    lease->deadline = deadline;
    if (deadline != KIN_NEVER)
        kin__timer_arm(&lease->timer, sched, deadline);
}

static void put_in_locked(const struct place *place, struct kin__lease *lease)
{
    struct kin__lease **bucket = bucket_of(place->shard, lease->hash);
    lease->next = *bucket;
    *bucket = lease;
    place->shard->count++;
    split_locked(place->shard);
    split_locked(place->shard);
}

/* The name is free from now on. */
static void take_out_locked(struct shard *shard, struct kin__lease *lease)
{
    struct kin__lease **at = bucket_of(shard, lease->hash);
    while (*at != lease) { /* ends: it is in there */
        KIN__CHECK(*at != NULL, "REG-UNREGISTER: a lease ends once");
        at = &(*at)->next;
    }
    *at = lease->next;
    shard->count--;
    lease->is_out = true;
    kin__timer_disarm(&lease->timer);
    uint64_t name = kin__load_relaxed(&lease->frame.name); /* relaxed: under the lock, as below */
    kin__store_relaxed(&lease->frame.name, name + (UINT64_C(1) << KIN__FRAME_INDEX_BITS));
}

/* Whether it still is the lease that had this name. */
static bool is_same_locked(const struct kin__lease *lease, uint64_t name)
{
    return kin__load_relaxed(&lease->frame.name) == name; /* relaxed: under the lock */
}

/* Ends the lease that had this name if its time is over, and tells its holder [REG-EXPIRE]. The
 * party is locked before the shard, so there are two looks. What may have come in between is an end
 * of the lease, by whoever gave it up or by another one who saw that it is over; but no renewal:
 * who renews looks at the time under the shard's lock, and time does not go back. A holder that is
 * over is not told: the memory is for kin__names_end. */
static void expire(struct shard *shard, struct kin__lease *lease, uint64_t name)
{
    kin__lock_take(&shard->lock, KIN__RANK_WAIT);
    uint64_t holder = is_same_locked(lease, name) && is_due(lease) ? lease->holder : 0;
    kin__lock_give(&shard->lock, KIN__RANK_WAIT);
    if (holder == 0)
        return;
    struct kin__party *party = kin__party_lock(holder);
    kin__lock_take(&shard->lock, KIN__RANK_WAIT);
    bool ends = is_same_locked(lease, name);
    KIN__ASSERT(!ends || is_due(lease), "REG-EXPIRE: what has run out is not renewed");
    if (ends)
        take_out_locked(shard, lease);
    kin__lock_give(&shard->lock, KIN__RANK_WAIT);
    if (!party)
        return;
    if (!ends) {
        kin__party_unlock(party);
        return;
    }
    kin__list_remove(&lease->link);
    lease->note.info = (struct kin_info){.kind = KIN_INFO_LEASE, .vt = (uint64_t)lease->deadline};
    lease->note.info.u.lease.name = lease->name->text;
    lease->note.done = note_done;
    kin__note_tell_and_unlock(party, &lease->note);
}

/* The timer of a lease, on a worker or on the monitor. It is told the shard: what the frame says
 * may be of another runtime by now, and that runtime over. */
static void on_deadline(void *object, uint64_t name)
{
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_LEASE, name);
    expire(object, KIN__CONTAINER_OF(frame, struct kin__lease, frame), name);
}

/* Locks the shard and finds the lease of a name whose time is not over. NULL, not locked: there is
 * none; one that has run out is ended. */
static struct kin__lease *lock_lease(const struct place *place, unsigned mode)
{
    kin__lock_take_to(&place->shard->lock, KIN__RANK_WAIT, mode);
    struct kin__lease *lease = find_locked(place);
    if (lease && !is_due(lease))
        return lease;
    uint64_t name = lease ? kin__load_relaxed(&lease->frame.name) : 0; /* relaxed: locked */
    kin__lock_give(&place->shard->lock, KIN__RANK_WAIT);
    if (lease)
        expire(place->shard, lease, name);
    return NULL;
}

/* ---- taking ---- */

/* Locks the nursery and the party of a task that a name may be given to [REG-REGISTER]: one in a
 * nursery that is open or being joined. */
static int lock_holder(uint64_t holder, struct kin__scope **scope, struct kin__party **party)
{
    struct kin__task *task;
    *scope = kin__scope_lock_of(holder, &task);
    if (!*scope)
        return KIN_NOPROC;
    uint64_t word = kin__load_relaxed(&(*scope)->word); /* relaxed: under the lock */
    int rc = task->over ? KIN_NOPROC : 0;
    if (rc == 0 && ((*scope)->is_sealed || kin__scope_is_cancelled(word)))
        rc = KIN_NOSCOPE;
    *party = rc == 0 ? kin__party_lock(holder) : NULL;
    if (rc == 0 && !*party)
        rc = KIN_NOPROC;
    if (rc < 0)
        kin__lock_give(&(*scope)->lock, KIN__RANK_NURSERY);
    return rc;
}

/* Puts the lease where it belongs, unless the name is taken: then *other is whose, 0 when that has
 * run out just now. */
static int hold(const struct place *place, struct kin__lease *lease, kin_time deadline,
                uint64_t *other)
{
    struct kin__scope *scope;
    struct kin__party *party;
    int rc = lock_holder(lease->holder, &scope, &party);
    if (rc < 0)
        return rc;
    kin__lock_take(&place->shard->lock, KIN__RANK_WAIT);
    struct kin__lease *taken = find_locked(place);
    if (taken) { /* [REG-COLLISION] */
        *other = is_due(taken) ? 0 : taken->holder;
        rc = KIN_TAKEN;
    } else {
        put_in_locked(place, lease);
        kin__list_push_back(&party->names, &lease->link);
        set_deadline_locked(lease, party->sched, deadline);
    }
    kin__lock_give(&place->shard->lock, KIN__RANK_WAIT);
    kin__party_unlock(party);
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    return rc;
}

/* The same until it is decided. */
static int take(const struct place *place, struct kin__lease *lease, kin_time deadline,
                struct kin_addr *taken_by)
{
    uint64_t other = 0;
    int rc;
    while ((rc = hold(place, lease, deadline, &other)) == KIN_TAKEN && other == 0) {
        /* ends: a round for each lease on the name that runs out */
        if (lock_lease(place, KIN__LAB_WRITE))
            kin__lock_give(&place->shard->lock, KIN__RANK_WAIT);
    }
    if (rc == KIN_TAKEN && taken_by)
        *taken_by = (struct kin_addr){0, other};
    return rc;
}

int kin__name_register(const char *name, uint64_t holder, uint64_t registrar, int64_t ttl,
                       struct kin_addr *taken_by)
{
    int size = kin__name_check(name), rc = 0;
    struct kin_outcome how;
    if (size < 0 || ttl < 0)
        return -EINVAL;
    kin_time deadline = ttl ? kin__clock_after(ttl) : KIN_NEVER;
    struct kin__sched *sched = kin__worker_self()->sched;
    struct kin__party *party = kin__party_need(holder, sched, &rc, &how);
    if (!party)
        return rc;
    kin__party_unlock(party);
    struct registry *registry = need_registry(sched);
    if (!registry)
        return -ENOMEM;
    struct place place = place_in(registry, name, (size_t)size);
    struct kin__lease *lease = make_lease(registry, &place, holder, registrar, &rc);
    if (!lease)
        return rc;
    rc = take(&place, lease, deadline, taken_by);
    if (rc < 0)
        free_lease(lease);
    else
        extend(place.shard);
    return rc;
}

/* ---- giving up ---- */

/* Whether the task may end or renew the lease. */
static bool may_change(const struct kin__lease *lease, uint64_t task)
{
    return lease->holder == task || lease->registrar == task;
}

/* Where a name is, if there is a registry. */
static bool find_place(const char *name, size_t size, struct place *place)
{
    struct registry *registry = registry_of(kin__worker_self()->sched);
    if (!registry)
        return false;
    *place = place_in(registry, name, size);
    return true;
}

int kin__name_unregister(const char *name, uint64_t caller)
{
    struct place place;
    int size = kin__name_check(name);
    if (size < 0)
        return size;
    struct kin__lease *lease = NULL;
    if (find_place(name, (size_t)size, &place))
        lease = lock_lease(&place, KIN__LAB_WRITE);
    if (!lease)
        return KIN_NOPROC;
    bool may = may_change(lease, caller);
    uint64_t holder = lease->holder;
    if (may)
        take_out_locked(place.shard, lease); /* [REG-UNREGISTER] */
    kin__lock_give(&place.shard->lock, KIN__RANK_WAIT);
    if (!may)
        return -EPERM;
    struct kin__party *party = kin__party_lock(holder);
    if (!party)
        return 0; /* its holder is over, and kin__names_end has it */
    kin__list_remove(&lease->link);
    kin__party_unlock(party);
    free_lease(lease);
    return 0;
}

/* No lock of the party: since it is over, nobody else looks at its list. */
void kin__names_end(struct kin__party *party)
{
    struct registry *registry = registry_of(party->sched);
    struct kin__list *link;
    while ((link = kin__list_pop_front(&party->names))) { /* ends: one fewer each time */
        struct kin__lease *lease = KIN__CONTAINER_OF(link, struct kin__lease, link);
        struct shard *shard = &registry->shards[lease->shard];
        kin__lock_take(&shard->lock, KIN__RANK_WAIT);
        if (!lease->is_out)
            take_out_locked(shard, lease);
        kin__lock_give(&shard->lock, KIN__RANK_WAIT);
        free_lease(lease);
    }
}

/* What is left in a shard when everybody is over: nothing. In the lab an oracle says so, and the
 * next run begins with nothing. */
static void empty_shard(struct shard *shard)
{
#ifdef KIN__LAB
    for (uint32_t i = 0; i < shard->buckets; i++) {
        struct kin__lease *lease;
        while ((lease = *bucket_at(shard, i))) { /* ends: one fewer each time */
            take_out_locked(shard, lease);
            free_lease(lease);
        }
    }
#endif
    KIN__ASSERT(shard->count == 0, "SINV-3: a name has outlived its holder");
    for (unsigned i = 1; i < SEGMENTS; i++)
        kin__heap_free(shard->segments[i]);
}

void kin__names_close(struct kin__sched *sched)
{
    struct registry *registry = kin__xchg_acq_rel(&sched->names, NULL); /* alone: nobody runs */
    for (unsigned i = 0; registry && i < SHARDS; i++)
        empty_shard(&registry->shards[i]);
    if (registry)
        kin__shown_free(&registry->shown);
    kin__heap_free_lines(registry);
}

struct kin__shown *kin__names_shown(struct kin__sched *sched)
{
    struct registry *registry = need_registry(sched);
    return registry ? &registry->shown : NULL;
}

bool kin__name_ring(struct kin__sched *sched, const char *name)
{
    struct registry *registry = registry_of(sched);
    if (!registry)
        return false;
    struct place place = place_in(registry, name, strlen(name));
    kin__lock_take(&place.shard->lock, KIN__RANK_WAIT);
    const struct kin__lease *lease = find_locked(&place);
    uint64_t which = lease ? lease->timer.name : 0;
    kin__lock_give(&place.shard->lock, KIN__RANK_WAIT);
    if (which)
        on_deadline(place.shard, which);
    return which != 0;
}

size_t kin__names_count(struct kin__sched *sched)
{
    struct registry *registry = registry_of(sched);
    size_t count = 0;
    for (unsigned i = 0; registry && i < SHARDS; i++) {
        kin__lock_take_to(&registry->shards[i].lock, KIN__RANK_WAIT, KIN__LAB_READ);
        count += registry->shards[i].count;
        kin__lock_give(&registry->shards[i].lock, KIN__RANK_WAIT);
    }
    return count;
}

#ifdef KIN__LAB
/* The first lease in the shard whose holder is over. */
static const struct kin__lease *stale_in(struct shard *shard)
{
    for (uint32_t i = 0; i < shard->buckets; i++) {
        /* ends: a step along the chain each time */
        for (const struct kin__lease *lease = *bucket_at(shard, i); lease; lease = lease->next) {
            const struct kin__task *task = kin__task_find(lease->holder);
            if (!task || task->over)
                return lease;
        }
    }
    return NULL;
}

const char *kin__names_stale(struct kin__sched *sched, uint64_t *holder)
{
    struct registry *registry = kin__load_quiet(&sched->names); /* alone: there is one thread */
    for (unsigned i = 0; registry && i < SHARDS; i++) {
        const struct kin__lease *lease = stale_in(&registry->shards[i]);
        if (lease) {
            *holder = lease->holder;
            return lease->name->text;
        }
    }
    return NULL;
}
#endif

/* ---- the public face ---- */

int kin_register(const char *name, struct kin_addr who, int64_t ttl)
{
    return kin_register_or_find(name, who, ttl, NULL);
}

int kin_register_or_find(const char *name, struct kin_addr who, int64_t ttl,
                         struct kin_addr *holder)
{
    struct kin__task *task = kin__task_self();
    if (kin__name_check(name) < 0 || ttl < 0)
        return -EINVAL;
    int rc = kin__entry_begin(task, KIN_CAP_REGISTRY, 0);
    if (rc < 0)
        return rc;
    if (who.node != 0)
        return KIN_NOCONN;
    return kin__name_register(name, who.id, kin__task_id(task), ttl, holder);
}

int kin_unregister(const char *name)
{
    struct kin__task *task = kin__task_self();
    if (kin__name_check(name) < 0)
        return -EINVAL;
    /* Charged; but whoever lets go is refused for nothing but the lack of a capability. */
    int rc = kin__entry_begin(task, KIN_CAP_REGISTRY, 0);
    if (rc == KIN_NOTASK || rc == KIN_NOCAP)
        return rc;
    return kin__name_unregister(name, kin__task_id(task));
}

int kin_lease_renew(const char *name, int64_t ttl)
{
    struct place place;
    struct kin__task *task = kin__task_self();
    int size = kin__name_check(name);
    if (size < 0 || ttl < 0)
        return -EINVAL;
    int rc = kin__entry_begin(task, KIN_CAP_REGISTRY, 0);
    if (rc < 0)
        return rc;
    struct kin__lease *lease = NULL;
    if (find_place(name, (size_t)size, &place))
        lease = lock_lease(&place, KIN__LAB_WRITE);
    if (!lease)
        return KIN_NOPROC;
    bool may = may_change(lease, kin__task_id(task));
    if (may)
        set_deadline_locked(lease, kin__task_sched(task), ttl ? kin__clock_after(ttl) : KIN_NEVER);
    kin__lock_give(&place.shard->lock, KIN__RANK_WAIT);
    return may ? 0 : -EPERM;
}

int kin_whereis(const char *name, struct kin_addr *out)
{
    struct place place;
    int size = kin__name_check(name);
    if (size < 0 || !out)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), 0, 0);
    if (rc < 0)
        return rc;
    struct kin__lease *lease = NULL;
    if (find_place(name, (size_t)size, &place))
        lease = lock_lease(&place, KIN__LAB_READ); /* [REG-LOOKUP]: two of one name commute */
    if (!lease)
        return KIN_NOPROC;
    *out = (struct kin_addr){0, lease->holder};
    kin__lock_give(&place.shard->lock, KIN__RANK_WAIT);
    return 0;
}
