/* SPDX-License-Identifier: MIT */
/*
 * What an atomic access reads, writes and orders, under three kinds of memory.
 *
 * SC: an access is made to memory itself. A place (the address of an atomic) remembers what its
 * newest store hands on; an acquire takes that over. This alone decides which plain accesses are
 * ordered, whatever order things happened to run in.
 *
 * TSO: a store goes into the buffer of its thread and is made to memory by a step of the buffer,
 * which the engine picks as it picks threads. A load asks its own buffer first. What must see an
 * empty buffer empties it in its own step: every earlier moment was the buffer's own to pick.
 *
 * C11: a place has all its stores, in the order of modification. A load may see any of them from
 * the oldest one that its thread is bound to on: bound are those that somebody saw, or made, in a
 * moment that is in the thread's past. A store may be put behind any store that its thread is bound
 * to, but not between a read-modify-write and what it read. Memory always has the last one. Which
 * one it is each time is a choice of the engine. A full fence exchanges what is seen with the other
 * full fences, in the order in which they are made; accesses of the total order look at those too,
 * and at what others of them have made or read.
 *
 * Clocks advance behind each access, so that plain code behind a release is not covered by it.
 */
#include "lab/atoms/atoms.h"

#include "plat/plat.h"

#include <string.h>

#define PLACES_FIRST 1024u
#define STORES_FIRST 8u
#define FENCE ((uintptr_t)1 << 60)   /* what full fences touch */
#define BUFFERS ((uintptr_t)1 << 59) /* behind it: what a buffered store and its flush touch */

/* One store of a place, C11. */
struct written {
    uint64_t value;
    struct kin__known known; /* what it hands on, if it does */
    bool hands_on;
    bool is_attached;                  /* a read-modify-write of the store before it */
    bool is_seq; /* an access of the total order made it or saw it */
    uint32_t seen[KIN__ATOMS_THREADS]; /* when each thread first saw it; 0: it did not */
};

/* An atomic, as far as this run knows it. */
struct place {
    uintptr_t address;
    uint32_t size;
    uint32_t run;            /* the run that it is of */
    struct kin__known known; /* SC, TSO: what the newest store hands on, if it does */
    bool hands_on;
    uint32_t count, room; /* C11: of stores */
    struct written *stores;
};

static struct place *places; /* open addressing; those of other runs are free */
static uint32_t places_size, places_count;
static uint32_t run;
static bool has_seq; /* a store of the total order was made in this run */

/* ---- places ---- */

static inline uint32_t slot_of(uintptr_t address)
{
    return (uint32_t)((address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (places_size - 1);
}

static void grow(void)
{
    struct place *old = places;
    uint32_t size = places_size;
    places_size = size ? size * 2 : PLACES_FIRST;
    places = kin__heap_alloc(places_size * sizeof(*places));
    KIN__HOUSE(places != NULL, "memory for the places of a run");
    for (uint32_t i = 0; i < size; i++) {
        if (old[i].run != run) {
            kin__heap_free(old[i].stores);
            continue;
        }
        uint32_t slot = slot_of(old[i].address);
        while (places[slot].run == run) /* ends: half of them are free */
            slot = (slot + 1) & (places_size - 1);
        kin__heap_free(places[slot].stores);
        places[slot] = old[i];
    }
    kin__heap_free(old);
}

void kin__order_begin(void)
{
    run++;
    places_count = 0;
    has_seq = false;
    if (!places)
        grow();
}

static uint64_t raw_load(uintptr_t address, uint32_t size)
{
    switch (size) {
    case 1:
        return *(volatile uint8_t *)address;
    case 2:
        return *(volatile uint16_t *)address;
    case 4:
        return *(volatile uint32_t *)address;
    default:
        return *(volatile uint64_t *)address;
    }
}

static void raw_store(uintptr_t address, uint32_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(volatile uint8_t *)address = (uint8_t)value;
        break;
    case 2:
        *(volatile uint16_t *)address = (uint16_t)value;
        break;
    case 4:
        *(volatile uint32_t *)address = (uint32_t)value;
        break;
    default:
        *(volatile uint64_t *)address = value;
    }
}

static inline uint64_t cut(uint64_t value, uint32_t size)
{
    return size >= 8 ? value : value & ((UINT64_C(1) << (8 * size)) - 1);
}

static bool is_weak(void)
{
    return kin__atoms.config.memory == KIN_ATOMS_C11;
}

/* A store at this place of the order; what was there moves back. */
static struct written *insert(struct place *place, uint32_t at)
{
    if (place->count == place->room) {
        uint32_t room = place->room ? place->room * 2 : STORES_FIRST;
        struct written *stores = kin__heap_alloc(room * sizeof(*stores));
        KIN__HOUSE(stores != NULL, "memory for the stores of a run");
        if (place->count)
            memcpy(stores, place->stores, place->count * sizeof(*stores));
        kin__heap_free(place->stores);
        place->stores = stores;
        place->room = room;
    }
    memmove(&place->stores[at + 1], &place->stores[at],
            (place->count - at) * sizeof(place->stores[0]));
    place->count++;
    memset(&place->stores[at], 0, sizeof(place->stores[at]));
    return &place->stores[at];
}

/* An atomic begins its life, or another one where it was. */
static void begin_place(struct place *place, uint32_t size)
{
    place->size = size;
    place->hands_on = false;
    place->count = 0;
    if (is_weak())
        insert(place, 0)->value = raw_load(place->address, size);
}

static __attribute__((noinline)) struct place *add_place(uintptr_t address, uint32_t size)
{
    if (++places_count > places_size / 2)
        grow();
    uint32_t slot = slot_of(address);
    while (places[slot].run == run) /* ends: half of them are free */
        slot = (slot + 1) & (places_size - 1);
    struct place *place = &places[slot];
    place->address = address;
    place->run = run;
    begin_place(place, size);
    return place;
}

static inline struct place *place_at(uintptr_t address, uint32_t size)
{
    for (uint32_t slot = slot_of(address); places[slot].run == run;
         slot = (slot + 1) & (places_size - 1)) { /* ends: as above */
        if (places[slot].address != address)
            continue;
        if (KIN__UNLIKELY(places[slot].size != size))
            begin_place(&places[slot], size);
        return &places[slot];
    }
    return add_place(address, size);
}

static void forget(uintptr_t address)
{
    for (uint32_t slot = slot_of(address); places[slot].run == run;
         slot = (slot + 1) & (places_size - 1)) { /* ends: as above */
        if (places[slot].address == address) {
            places[slot].hands_on = false;
            places[slot].count = 0; /* the value is in memory when somebody looks next */
        }
    }
}

void kin__order_forget(uintptr_t address, size_t size)
{
    for (uintptr_t at = address; at < address + size; at++)
        forget(at);
}

/* ---- what orders mean to the one who makes the access ---- */

static inline bool acquires(int order)
{
    return order != KIN__ORDER_RELAXED && order != KIN__ORDER_RELEASE;
}

static inline bool releases(int order)
{
    return order >= KIN__ORDER_RELEASE;
}

static inline void join(struct kin__known *to, const struct kin__known *from)
{
    kin__clock_join(&to->before, &from->before);
    if (is_weak())
        kin__clock_join(&to->seen, &from->seen);
}

static inline void tick(struct kin__flow *self)
{
    self->known.before.at[self->number]++;
    self->known.seen.at[self->number]++;
}

static inline void take_over(struct kin__flow *self, const struct kin__known *known, int order)
{
    if (acquires(order)) {
        join(&self->known, known);
    } else {
        if (!self->has_acquirable)
            memset(&self->acquirable, 0, sizeof(self->acquirable));
        self->has_acquirable = true;
        join(&self->acquirable, known);
    }
}

/* What a store of this order hands on; NULL: nothing. */
static inline const struct kin__known *to_hand_on(const struct kin__flow *self, int order)
{
    return releases(order) ? &self->known : self->has_released ? &self->released : NULL;
}

static inline void note_look(struct kin__flow *self, uintptr_t address, uint32_t size,
                             uint64_t value)
{
    self->looks[self->looks_count % KIN__ATOMS_LOADS] = (struct kin__look){address, value, size};
    if (++self->looks_count == 2 * KIN__ATOMS_LOADS) /* the last ones count */
        self->looks_count = KIN__ATOMS_LOADS;
}

/* What a thread writes itself is no news to it. */
static inline void note_own(struct kin__flow *self, uintptr_t address, uint64_t value)
{
    for (unsigned i = 0; i < self->looks_count && i < KIN__ATOMS_LOADS; i++) {
        if (self->looks[i].address == address)
            self->looks[i].value = value;
    }
}

static inline void stop_here(void)
{
    if (KIN__LIKELY(!kin__atoms.is_folded))
        kin__atoms_point();
}

static inline void touch(uintptr_t what, enum kin__touch mode)
{
    kin__engine_touch(kin__atoms.engine, what, mode);
}

/* An access of the total order comes before a full fence or behind it, and whoever reads later by
 * another one sees no less: so a read of one place has its order with others, too. */
static inline void touch_write(uintptr_t address, int order)
{
    touch(address, KIN__TOUCH_WRITE);
    if (order == KIN__ORDER_SEQ && is_weak())
        touch(FENCE, KIN__TOUCH_READ);
}

static inline void touch_read(uintptr_t address, int order)
{
    if (order == KIN__ORDER_SEQ && is_weak())
        touch_write(address, order);
    else
        touch(address, KIN__TOUCH_READ);
}

/* Behind each access: races with plain ones, the trail, the clock. */
static inline void end_access(struct kin__flow *self, const char *what, uintptr_t address,
                              uint32_t size, uint64_t value, int order, bool writes, uintptr_t pc)
{
    if (KIN__UNLIKELY(kin__atoms.is_traced))
        kin__trail_note(what, address, size, value, order, pc);
    kin__races_access(address, size, KIN__ACCESS_ATOMIC | (writes ? KIN__ACCESS_WRITE : 0), pc);
    tick(self);
}

/* ---- SC, and the part of TSO that is memory ---- */

/* What a store hands on, if it does; an update adds it to what it has read. */
static void hand_on(struct place *place, const struct kin__known *known, bool is_update)
{
    if (known && is_update && place->hands_on)
        join(&place->known, known);
    else if (known)
        place->known = *known;
    place->hands_on = known || (is_update && place->hands_on);
}

static void put(struct place *place, uint64_t value, const struct kin__known *known, bool is_update)
{
    raw_store(place->address, place->size, value);
    hand_on(place, known, is_update);
}

void kin__order_flush(struct kin__flow *flow)
{
    struct kin__buffered *store = &flow->buffer[flow->head++ % KIN__ATOMS_BUFFER];
    touch(BUFFERS + store->number, KIN__TOUCH_WRITE);
    touch(store->address, KIN__TOUCH_WRITE);
    put(place_at(store->address, store->size), store->value,
        store->hands_on ? &store->known : NULL, false);
    if (kin__atoms.is_traced) {
        struct kin__flow *current = kin__atoms.current;
        kin__atoms.current = flow;
        kin__trail_note("reaches memory", store->address, store->size, store->value, -1, 0);
        kin__atoms.current = current;
    }
}

static void drain(struct kin__flow *self)
{
    while (self->head != self->tail) /* ends: one fewer each time */
        kin__order_flush(self);
}

void kin__order_drain(struct kin__flow *flow, uintptr_t address, size_t size)
{
    for (unsigned i = flow->tail; i != flow->head; i--) {
        const struct kin__buffered *store = &flow->buffer[(i - 1) % KIN__ATOMS_BUFFER];
        if (store->address >= address + size || address >= store->address + store->size)
            continue;
        while (flow->head != i) /* ends: one fewer each time */
            kin__order_flush(flow);
        return;
    }
}

static void buffer(struct kin__flow *self, uintptr_t address, uint32_t size, uint64_t value,
                   int order)
{
    if (self->tail - self->head == KIN__ATOMS_BUFFER)
        kin__order_flush(self);
    struct kin__buffered *store = &self->buffer[self->tail++ % KIN__ATOMS_BUFFER];
    const struct kin__known *known = to_hand_on(self, order);
    *store = (struct kin__buffered){address, value, kin__atoms.stores++, size, known != NULL,
                                    known ? *known : self->known};
    touch(BUFFERS + store->number, KIN__TOUCH_WRITE);
}

/* The newest store of a thread to an address that is not in memory yet; NULL: there is none. */
static const struct kin__buffered *buffered_at(const struct kin__flow *flow, uintptr_t address)
{
    for (unsigned i = flow->tail; i != flow->head; i--) {
        const struct kin__buffered *store = &flow->buffer[(i - 1) % KIN__ATOMS_BUFFER];
        if (store->address == address)
            return store;
    }
    return NULL;
}

uint64_t kin__order_peek(const struct kin__flow *flow, uintptr_t address, uint32_t size)
{
    const struct kin__buffered *store = buffered_at(flow, address);
    return store ? store->value : raw_load(address, size);
}

/* The load of a thread from its own buffer, or from memory, which alone hands something on. */
static uint64_t load_newest(struct kin__flow *self, uintptr_t address, uint32_t size, int order)
{
    const struct kin__buffered *store = buffered_at(self, address);
    const struct place *place = place_at(address, size);
    if (store)
        return store->value;
    if (place->hands_on)
        take_over(self, &place->known, order);
    return raw_load(address, size);
}

/* ---- C11 ---- */

/* The oldest store that the thread may still see. */
static uint32_t bound_of(const struct kin__flow *self, const struct place *place, int order)
{
    struct kin__clock seen = self->known.seen;
    if (order == KIN__ORDER_SEQ)
        kin__clock_join(&seen, &kin__atoms.fenced);
    for (uint32_t i = place->count; i-- > 1;) {
        const struct written *store = &place->stores[i];
        if (store->is_seq && order == KIN__ORDER_SEQ)
            return i;
        for (unsigned t = 0; t < KIN__ATOMS_THREADS; t++) {
            if (store->seen[t] && store->seen[t] <= seen.at[t])
                return i;
        }
    }
    return 0;
}

/* The thread has made or read the store, by an access of this order. */
static void see(const struct kin__flow *self, struct written *store, int order)
{
    if (!store->seen[self->number])
        store->seen[self->number] = self->known.seen.at[self->number];
    store->is_seq |= order == KIN__ORDER_SEQ;
    has_seq |= store->is_seq;
}

/* A full fence shows the stores of the total order, and nothing else of whoever made them. */
static void see_seq(const struct kin__flow *self)
{
    for (uint32_t i = 0; has_seq && i < places_size; i++) {
        for (uint32_t at = places[i].run == run ? places[i].count : 0; at-- > 0;) {
            if (places[i].stores[at].is_seq) {
                see(self, &places[i].stores[at], KIN__ORDER_RELAXED);
                break;
            }
        }
    }
}

/* One of n, the newest first. */
static uint32_t choose(uint32_t n, const char *label)
{
    uint32_t max = kin__atoms.config.stale_max;
    if (max && n > max + 1)
        n = max + 1;
    return n == 1 || kin__atoms.is_folded
               ? 0
               : kin__engine_choose(kin__atoms.engine, KIN__CHOICE_CASE, n, label);
}

static struct place *weak_place(uintptr_t address, uint32_t size)
{
    struct place *place = place_at(address, size);
    if (place->count == 0) /* it was written by plain accesses since */
        insert(place, 0)->value = raw_load(address, size);
    return place;
}

void kin__order_refresh(struct kin__flow *flow)
{
    for (unsigned i = 0; is_weak() && i < flow->looks_count && i < KIN__ATOMS_LOADS; i++) {
        struct place *place = weak_place(flow->looks[i].address, flow->looks[i].size);
        see(flow, &place->stores[place->count - 1], KIN__ORDER_RELAXED);
    }
}

static uint64_t weak_load(struct kin__flow *self, uintptr_t address, uint32_t size, int order)
{
    struct place *place = weak_place(address, size);
    uint32_t bound = bound_of(self, place, order);
    uint32_t at = place->count - 1 - choose(place->count - bound, "reads");
    struct written *store = &place->stores[at];
    see(self, store, order);
    if (store->hands_on)
        take_over(self, &store->known, order);
    return store->value;
}

static void weak_store(struct kin__flow *self, uintptr_t address, uint32_t size, uint64_t value,
                       int order)
{
    struct place *place = weak_place(address, size);
    uint32_t free_at[64], count = 0, bound = bound_of(self, place, order);
    for (uint32_t at = place->count; at > bound && count < 64; at--) {
        if (at == place->count || !place->stores[at].is_attached)
            free_at[count++] = at;
    }
    uint32_t at = free_at[choose(count, "stores")];
    struct written *store = insert(place, at);
    const struct kin__known *known = to_hand_on(self, order);
    store->value = value;
    store->hands_on = known != NULL;
    if (known)
        store->known = *known;
    see(self, store, order);
    if (at == place->count - 1)
        raw_store(address, size, value);
}

/* The store that a read-modify-write reads: one that no other has read. */
static uint32_t weak_pick(const struct kin__flow *self, const struct place *place, int order)
{
    uint32_t found[64], count = 0, bound = bound_of(self, place, order);
    for (uint32_t at = place->count; at-- > bound && count < 64;) {
        if (at + 1 == place->count || !place->stores[at + 1].is_attached)
            found[count++] = at;
    }
    return found[choose(count, "updates")];
}

/* The store that a compare-exchange reads: as above, or any that makes it fail. */
static uint32_t weak_pick_cas(const struct kin__flow *self, const struct place *place,
                              uint64_t expected, int order, int order_failed)
{
    uint32_t found[64], count = 0, bound = bound_of(self, place, order);
    uint32_t bound_failed = bound_of(self, place, order_failed);
    for (uint32_t at = place->count; at-- > 0 && count < 64;) {
        bool is_free = at + 1 == place->count || !place->stores[at + 1].is_attached;
        bool fails = place->stores[at].value != expected;
        if (fails ? at >= bound_failed : is_free && at >= bound)
            found[count++] = at;
    }
    return found[choose(count, "updates")];
}

static uint64_t weak_update(struct kin__flow *self, struct place *place, uint32_t at,
                            uint64_t value, int order)
{
    struct written *old = &place->stores[at];
    uint64_t before = old->value;
    see(self, old, order);
    if (old->hands_on)
        take_over(self, &old->known, order);
    const struct kin__known *known = to_hand_on(self, order);
    struct written *store = insert(place, at + 1);
    old = &place->stores[at];
    store->value = value;
    store->is_attached = true;
    store->hands_on = old->hands_on || known;
    if (old->hands_on)
        store->known = old->known;
    if (known && old->hands_on)
        join(&store->known, known);
    else if (known)
        store->known = *known;
    see(self, store, order);
    if (at + 1 == place->count - 1)
        raw_store(place->address, place->size, value);
    return before;
}

/* ---- the accesses ---- */

uint64_t kin__atoms_load(uintptr_t address, uint32_t size, int order, uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE)
        return raw_load(address, size);
    if (KIN__UNLIKELY(a->is_peeking))
        return kin__order_peek(a->current, address, size);
    stop_here();
    struct kin__flow *self = a->current;
    touch_read(address, order);
    uint64_t value = is_weak() ? weak_load(self, address, size, order)
                               : load_newest(self, address, size, order);
    note_look(self, address, size, value);
    end_access(self, "loads", address, size, value, order, false, pc);
    return value;
}

void kin__atoms_store(uintptr_t address, uint32_t size, uint64_t value, int order, uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE) {
        raw_store(address, size, value);
        return;
    }
    value = cut(value, size);
    if (a->config.memory == KIN_ATOMS_TSO && order != KIN__ORDER_SEQ) {
        stop_here(); /* where it stands is seen by whoever fences everybody */
        struct kin__flow *self = a->current;
        buffer(self, address, size, value, order);
        note_own(self, address, value);
        end_access(self, "stores", address, size, value, order, true, pc);
        return;
    }
    stop_here();
    struct kin__flow *self = a->current;
    touch_write(address, order);
    if (is_weak()) {
        weak_store(self, address, size, value, order);
    } else {
        drain(self);
        put(place_at(address, size), value, to_hand_on(self, order), false);
    }
    note_own(self, address, value);
    end_access(self, "stores", address, size, value, order, true, pc);
}

static uint64_t updated(enum kin__update kind, uint64_t old, uint64_t value, uint32_t size)
{
    return cut((uint64_t)kin__updated(kind, old, value), size);
}

uint64_t kin__atoms_update(uintptr_t address, uint32_t size, enum kin__update kind, uint64_t value,
                           int order, uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE) {
        uint64_t old = raw_load(address, size);
        raw_store(address, size, updated(kind, old, value, size));
        return old;
    }
    stop_here();
    struct kin__flow *self = a->current;
    uint64_t old, next;
    if (is_weak()) {
        struct place *place = weak_place(address, size);
        touch_write(address, order);
        uint32_t at = weak_pick(self, place, order);
        next = updated(kind, place->stores[at].value, value, size);
        old = weak_update(self, place, at, next, order);
    } else {
        drain(self);
        struct place *place = place_at(address, size);
        old = raw_load(address, size);
        next = updated(kind, old, value, size);
        if (place->hands_on)
            take_over(self, &place->known, order);
        const struct kin__known *known = to_hand_on(self, order);
        /* what leaves the value as it is and hands nothing on is seen by nobody */
        touch(address, old == next && !known ? KIN__TOUCH_READ : KIN__TOUCH_WRITE);
        put(place, next, known, true);
    }
    note_own(self, address, next);
    note_look(self, address, size, next);
    end_access(self, "updates", address, size, next, order, true, pc);
    return old;
}

/* A compare-exchange that finds something else is a load. */
static uint64_t fail_cas(struct kin__flow *self, struct place *place, uint64_t old,
                         const struct kin__known *known, int order, uintptr_t pc)
{
    touch_read(place->address, order);
    if (known)
        take_over(self, known, order);
    note_look(self, place->address, place->size, old);
    end_access(self, "fails to exchange", place->address, place->size, old, order, false, pc);
    return old;
}

uint64_t kin__atoms_cas(uintptr_t address, uint32_t size, uint64_t expected, uint64_t desired,
                        int order, int order_failed, uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE) {
        uint64_t old = raw_load(address, size);
        if (old == expected)
            raw_store(address, size, desired);
        return old;
    }
    stop_here();
    struct kin__flow *self = a->current;
    drain(self);
    struct place *place = is_weak() ? weak_place(address, size) : place_at(address, size);
    if (is_weak()) {
        if (order == KIN__ORDER_SEQ)
            touch(FENCE, KIN__TOUCH_READ); /* it may fail because of one */
        uint32_t at = weak_pick_cas(self, place, expected, order, order_failed);
        struct written *store = &place->stores[at];
        if (store->value != expected) {
            see(self, store, order_failed);
            return fail_cas(self, place, store->value, store->hands_on ? &store->known : NULL,
                            order_failed, pc);
        }
        (void)weak_update(self, place, at, desired, order);
    } else {
        uint64_t old = raw_load(address, size);
        if (old != expected)
            return fail_cas(self, place, old, place->hands_on ? &place->known : NULL, order_failed,
                            pc);
        if (place->hands_on)
            take_over(self, &place->known, order);
        put(place, desired, to_hand_on(self, order), true);
    }
    touch_write(address, order);
    note_own(self, address, desired);
    end_access(self, "exchanges", address, size, desired, order, true, pc);
    return expected;
}

/* ---- sixteen bytes ---- */

void kin__atoms_wide_begin(void)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE || a->is_peeking)
        return;
    stop_here();
    drain(a->current);
}

void kin__atoms_wide_end(uintptr_t address, bool reads, bool writes, int order, uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE || a->is_peeking)
        return;
    struct kin__flow *self = a->current;
    struct place *place = place_at(address, 16);
    touch(address, writes ? KIN__TOUCH_WRITE : KIN__TOUCH_READ);
    if (reads && place->hands_on)
        take_over(self, &place->known, order);
    if (writes)
        hand_on(place, to_hand_on(self, order), reads);
    end_access(self, !writes ? "loads" : reads ? "updates" : "stores", address, 16, 0, order,
               writes, pc);
}

/* ---- fences ---- */

static void fence(struct kin__flow *self, int order)
{
    if (acquires(order) && self->has_acquirable) {
        join(&self->known, &self->acquirable);
        self->has_acquirable = false;
    }
    if (order == KIN__ORDER_SEQ && is_weak()) {
        see_seq(self);
        kin__clock_join(&self->known.seen, &kin__atoms.fenced);
        kin__clock_join(&kin__atoms.fenced, &self->known.seen);
    }
    if (releases(order)) {
        self->released = self->known;
        self->has_released = true;
    }
    tick(self);
}

void kin__atoms_fence(int order, uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE || a->is_peeking)
        return;
    bool is_full = order == KIN__ORDER_SEQ;
    if (is_full && (is_weak() || a->current->head != a->current->tail)) {
        stop_here();
        if (is_weak())
            touch(FENCE, KIN__TOUCH_WRITE);
        drain(a->current);
    }
    if (KIN__UNLIKELY(a->is_traced))
        kin__trail_note("fences", 0, 0, 0, order, pc);
    fence(a->current, order);
}

void kin__atoms_fence_all(uintptr_t pc)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->phase == KIN__ATOMS_IDLE || a->config.memory == KIN_ATOMS_SC)
        return;
    stop_here();
    if (KIN__UNLIKELY(a->is_traced))
        kin__trail_note("fences everybody", 0, 0, 0, KIN__ORDER_SEQ, pc);
    kin__engine_barrier(a->engine);
    fence(a->current, KIN__ORDER_SEQ);
    for (unsigned i = 1; i < a->count; i++) {
        drain(&a->flows[i]);
        fence(&a->flows[i], KIN__ORDER_SEQ);
    }
    fence(a->current, KIN__ORDER_SEQ);
}
