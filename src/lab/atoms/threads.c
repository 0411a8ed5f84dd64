/* SPDX-License-Identifier: MIT */
/*
 * The threads of atom mode: flows that stop in front of every access, and who of them goes on.
 *
 *     main ----switch----> flow ---point: the engine picks---> flow ---> flow ...
 *      ^                                                                   |
 *      +--------------- all are over, or the run is ----------------------+
 *
 * A flow switches to the next one itself: most steps go on with the same thread and cost no switch
 * at all. A run that fails is left where it stands; the next one lays new first frames on the same
 * stacks. Nothing is unwound: what a run holds is memory of the run.
 *
 * A thread waits in one of three ways, and is then not offered to the engine: for a predicate, for
 * a change of what it looked at, for the end of another thread. What it looks at in vain belongs to
 * the step before, as a read: so whatever would have made it go on is seen to depend on that step,
 * and exploration finds the execution in which it came first.
 */
#include "lab/atoms/atoms.h"

#include "base/text.h"
#include "plat/plat.h"

#include <errno.h>
#include <string.h>

#if KIN__ASAN
#include <sanitizer/asan_interface.h>
#endif

struct kin__atoms kin__atoms;

/* What an end of a thread touches, and who waits for it. */
static uintptr_t end_of(const struct kin__flow *flow)
{
    return (uintptr_t)flow;
}

/* ---- life ---- */

static _Noreturn void leave(struct kin__flow *flow)
{
    kin__context_jump(&flow->context, &kin__atoms.flows[0].context, NULL);
}

_Noreturn void kin__flows_leave(void)
{
    leave(kin__atoms.current);
}

static void next_of(struct kin__flow *self);

/* The first function on a stack. */
static void flow_main(void *pass)
{
    struct kin__flow *flow = pass;
    kin__atoms.is_inside = false;
    flow->fn(flow->arg);
    kin__atoms.is_inside = true;
    if (kin__atoms.phase == KIN__ATOMS_FIRST) /* it ends without an access */
        kin__atoms_point();
    flow->state = KIN__FLOW_OVER;
    kin__engine_touch(kin__atoms.engine, end_of(flow), KIN__TOUCH_WRITE);
    next_of(flow);
    leave(flow); /* not reached: nobody goes on with a flow that is over */
}

int kin__flows_begin(void)
{
    struct kin__atoms *a = &kin__atoms;
    for (unsigned i = 1; i < KIN__ATOMS_THREADS && !a->flows[i].stack; i++) {
        char *stack = kin__vm_reserve(KIN__ATOMS_STACK);
        if (!stack)
            return -ENOMEM;
        (void)kin__vm_guard(stack, KIN__ATOMS_STACK, kin__vm_page(), 1);
        a->flows[i].stack = stack;
        a->flows[i].number = i;
    }
    memset(&a->flows[0].known, 0, sizeof(a->flows[0].known));
    a->flows[0].name = "begin";
    a->current = &a->flows[0];
    a->count = 1;
    a->stores = 0;
    a->fenced = (struct kin__clock){{0}};
    return 0;
}

unsigned kin__flow_start(const char *name, void (*fn)(void *arg), void *arg)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *parent = a->current;
    KIN__HOUSE(a->count < KIN__ATOMS_THREADS, "seven threads are enough");
    kin__order_drain(parent, 0, UINTPTR_MAX); /* who is started sees what its parent did */
    struct kin__flow *flow = &a->flows[a->count++];
    flow->state = KIN__FLOW_READY;
    flow->name = name;
    flow->fn = fn;
    flow->arg = arg;
    flow->local = NULL;
    flow->looks_count = flow->head = flow->tail = 0;
    flow->has_released = flow->has_acquirable = false;
    flow->known = parent->known;
    flow->known.before.at[flow->number] = flow->known.seen.at[flow->number] = 1;
    parent->known.before.at[parent->number]++;
    parent->known.seen.at[parent->number]++;
    if (flow->context.sp)
        kin__context_drop(&flow->context);
    char *low = flow->stack + kin__vm_page(), *base = flow->stack + KIN__ATOMS_STACK;
#if KIN__ASAN
    __asan_unpoison_memory_region(low, (size_t)(base - low)); /* frames of whoever was left there */
#endif
    kin__context_make(&flow->context, low, base, flow_main);
    flow->actor = kin__engine_actor(a->engine, name);
    a->by_actor[flow->actor] = flow;
    if (a->config.memory == KIN_ATOMS_TSO) {
        char path[64];
        struct kin__text text;
        kin__text_init(&text, path, sizeof(path));
        kin__text_printf(&text, "%s/buffer", name);
        flow->flusher = kin__engine_actor(a->engine, path);
        a->by_actor[flow->flusher] = flow;
    }
    return flow->number;
}

/* ---- who goes on ---- */

/* Asks a predicate on behalf of a flow that is not running. */
static bool peeks_true(struct kin__flow *flow)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *current = a->current;
    a->is_peeking = true;
    a->current = flow;
    bool is_true = flow->is_true(flow->is_true_of); /* nothing is watched meanwhile */
    a->current = current;
    a->is_peeking = false;
    return is_true;
}

/* Whether the thread looked at the same word again later. */
static bool is_outdated(const struct kin__flow *flow, unsigned at)
{
    unsigned count = flow->looks_count;
    unsigned begin = count > KIN__ATOMS_LOADS ? count - KIN__ATOMS_LOADS : 0;
    for (unsigned i = count; i-- > begin && i % KIN__ATOMS_LOADS != at;) {
        if (flow->looks[i % KIN__ATOMS_LOADS].address == flow->looks[at].address)
            return true;
    }
    return false;
}

static bool sees_news(const struct kin__flow *flow)
{
    for (unsigned i = 0; i < flow->looks_count && i < KIN__ATOMS_LOADS; i++) {
        const struct kin__look *look = &flow->looks[i];
        if (kin__order_peek(flow, look->address, look->size) != look->value &&
            !is_outdated(flow, i))
            return true;
    }
    return false;
}

static bool can_go_on(struct kin__flow *flow)
{
    switch (flow->state) {
    case KIN__FLOW_READY:
        return true;
    case KIN__FLOW_AWAITS:
        return peeks_true(flow);
    case KIN__FLOW_SPINS:
        return sees_news(flow);
    case KIN__FLOW_JOINS:
        return kin__atoms.flows[flow->joined].state == KIN__FLOW_OVER &&
               kin__atoms.flows[flow->joined].head == kin__atoms.flows[flow->joined].tail;
    case KIN__FLOW_STOPS:
    case KIN__FLOW_OVER:
        break;
    }
    return false;
}

static unsigned list_enabled(uint16_t *enabled)
{
    struct kin__atoms *a = &kin__atoms;
    unsigned count = 0;
    for (unsigned i = 1; i < a->count; i++) {
        struct kin__flow *flow = &a->flows[i];
        if (KIN__LIKELY(flow->state == KIN__FLOW_READY) || can_go_on(flow))
            enabled[count++] = (uint16_t)flow->actor;
        if (KIN__UNLIKELY(flow->head != flow->tail))
            enabled[count++] = (uint16_t)flow->flusher;
    }
    return count;
}

static void run_on(struct kin__flow *from, struct kin__flow *to)
{
    struct kin__atoms *a = &kin__atoms;
    if (a->local) {
        from->local = *a->local;
        *a->local = to->local;
    }
    a->current = to;
    (void)kin__context_switch(&from->context, &to->context, to);
}

/* The next step: returns when it is one of self's. From main it returns when the run is over. */
static void next_of(struct kin__flow *self)
{
    struct kin__atoms *a = &kin__atoms;
    uint16_t enabled[2 * KIN__ATOMS_THREADS];
    for (;;) { /* ends: the engine's limit on steps */
        unsigned count = list_enabled(enabled);
        bool is_over = count == 0;
        unsigned actor = is_over ? 0 : kin__engine_pick(a->engine, enabled, count);
        if (KIN__UNLIKELY(is_over || kin__engine_is_over(a->engine))) {
            if (self->number == 0)
                return;
            leave(self);
        }
        struct kin__flow *next = a->by_actor[actor];
        if (KIN__UNLIKELY(actor != next->actor)) {
            kin__order_flush(next);
            continue;
        }
        if (next != self)
            run_on(self, next);
        return;
    }
}

void kin__atoms_point(void)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *self = a->current;
    if (KIN__UNLIKELY(a->phase == KIN__ATOMS_FIRST))
        run_on(self, &a->flows[0]);
    else
        next_of(self);
    if (KIN__UNLIKELY(self->state == KIN__FLOW_SPINS)) {
        self->state = KIN__FLOW_READY;
        kin__order_refresh(self);
        self->looks_count = 0;
    }
}

void kin__flows_run(void)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *main = &a->flows[0];
    a->phase = KIN__ATOMS_FIRST;
    for (unsigned i = 1; i < a->count && !a->has_failed; i++)
        run_on(main, &a->flows[i]);
    a->phase = KIN__ATOMS_RUNS;
    if (!a->has_failed)
        next_of(main);
    a->phase = KIN__ATOMS_IDLE;
    a->current = main;
    if (a->local)
        *a->local = NULL;
}

/* ---- waiting ---- */

/* What is looked at in vain is read by the step under way. */
static bool holds_here(struct kin__flow *self)
{
    struct kin__atoms *a = &kin__atoms;
    bool was_folded = a->is_folded;
    a->is_folded = true;
    a->is_inside = false;
    bool is_true = self->is_true(self->is_true_of);
    a->is_inside = true;
    a->is_folded = was_folded;
    return is_true;
}

void kin_atoms_await(bool (*is_true)(void *arg), void *arg)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *self = a->current;
    KIN__HOUSE(a->phase != KIN__ATOMS_IDLE, "only a thread of a run waits");
    a->is_inside = true;
    self->is_true = is_true;
    self->is_true_of = arg;
    if (a->phase == KIN__ATOMS_FIRST)
        kin__atoms_point();
    do { /* ends: as the run does */
        if (!peeks_true(self)) {
            (void)holds_here(self);
            self->state = KIN__FLOW_AWAITS;
        }
        kin__atoms_point();
        self->state = KIN__FLOW_READY;
    } while (!holds_here(self));
    a->is_inside = false;
}

void kin_atoms_spin(void)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *self = a->current;
    if (a->phase == KIN__ATOMS_IDLE || self->looks_count == 0)
        return;
    if (sees_news(self)) {
        kin__order_refresh(self);
        self->looks_count = 0;
    } else {
        self->state = KIN__FLOW_SPINS; /* it stops in front of its next access */
    }
}

void kin_atoms_assume(bool ok)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *self = a->current;
    if (ok)
        return;
    KIN__HOUSE(a->phase != KIN__ATOMS_IDLE, "only a thread of a run stops");
    a->is_inside = true;
    if (a->phase == KIN__ATOMS_FIRST)
        kin__atoms_point();
    a->has_stopped = true;
    self->state = KIN__FLOW_STOPS;
    next_of(self);
    leave(self); /* not reached: nobody goes on with a flow that has stopped */
}

void kin_atoms_join(unsigned thread)
{
    struct kin__atoms *a = &kin__atoms;
    struct kin__flow *self = a->current;
    KIN__HOUSE(a->phase != KIN__ATOMS_IDLE && thread != 0 && thread < a->count,
               "only a thread of a run is joined");
    struct kin__flow *other = &a->flows[thread];
    a->is_inside = true;
    self->joined = thread;
    self->state = KIN__FLOW_JOINS;
    kin__atoms_point();
    self->state = KIN__FLOW_READY;
    kin__engine_touch(a->engine, end_of(other), KIN__TOUCH_READ);
    kin__known_join(&self->known, &other->known);
    a->is_inside = false;
}
