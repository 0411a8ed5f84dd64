/* SPDX-License-Identifier: MIT */
/*
 * What the black-box tests of supervisors share: children that write into a diary when they start
 * and stop, and looking at a supervisor's list of them.
 *
 * A child that is a desk writes "+a" when it starts and "-a" when it stops, if that is its name.
 */
#ifndef KIN_TEST_CREW_H
#define KIN_TEST_CREW_H

#include "otp/desk.h"

/* Starts a desk; arg is its plan. */
SPARE int start_desk_child(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return try_open_desk(n, arg, NULL, out);
}

/* A child spec for a desk; the plan is copied by the supervisor. */
SPARE struct kin_child_spec desk_spec(const struct desk_plan *plan, enum kin_restart restart)
{
    struct kin_child_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.name = plan->label;
    spec.start = start_desk_child;
    spec.arg = plan;
    spec.arg_size = sizeof *plan;
    spec.restart = restart;
    return spec;
}

/* Up to eight desks, named a, b, c, ... */
struct crew {
    struct diary diary;
    struct desk_plan plan[8];
    struct kin_child_spec spec[8];
};

SPARE void make_crew(struct crew *crew, enum kin_restart restart)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    memset(crew, 0, sizeof *crew);
    clear_diary(&crew->diary);
    for (int i = 0; i < 8; i++) {
        crew->plan[i].diary = &crew->diary;
        crew->plan[i].label = names[i];
        crew->spec[i] = desk_spec(&crew->plan[i], restart);
    }
}

/* Options with room for many restarts. */
#define SUP_OPTIONS(name_)                                                                         \
    struct kin_supervisor_options name_ = KIN_SUPERVISOR_OPTIONS_INIT;                             \
    name_.max_restarts = 1000

SPARE struct kin_addr start_sup(struct kin_nursery *n, const struct kin_supervisor_options *options,
                                const struct kin_child_spec *children, size_t count)
{
    struct kin_addr sup = {0, 0};
    EXPECT_EQ(kin_supervisor_start(n, options, children, count, &sup), 0);
    EXPECT_EQ(sup.node, 0);
    EXPECT_NE(sup.id, 0);
    return sup;
}

/* What the supervisor says of a child; all zero when it does not know it. */
SPARE struct kin_child_info child_of(struct kin_addr sup, const char *name)
{
    struct kin_child_info all[16], none;
    ssize_t count = kin_supervisor_which_children(sup, all, 16, KIN_NEVER);
    EXPECT_GE(count, 0);
    EXPECT_LE(count, 16);
    for (ssize_t i = 0; i < count; i++) {
        if (all[i].name && strcmp(all[i].name, name) == 0)
            return all[i];
    }
    memset(&none, 0, sizeof none);
    return none;
}

/* The address of a child that runs. */
SPARE struct kin_addr addr_of(struct kin_addr sup, const char *name)
{
    struct kin_child_info info = child_of(sup, name);
    EXPECT(info.name != NULL);
    EXPECT_EQ(info.state, KIN_CHILD_RUNNING);
    EXPECT_NE(info.addr.id, 0);
    return info.addr;
}

/* Waits until the child runs at another address than old. */
SPARE struct kin_addr await_new(struct kin_addr sup, const char *name, struct kin_addr old)
{
    for (;;) { /* ends: or the alarm does */
        struct kin_child_info info = child_of(sup, name);
        EXPECT(info.name != NULL);
        if (info.state == KIN_CHILD_RUNNING && !kin_addr_same(info.addr, old))
            return info.addr;
        linger();
    }
}

/* Waits until the child is stopped; what its last end was. */
SPARE int await_stopped(struct kin_addr sup, const char *name)
{
    for (;;) { /* ends: or the alarm does */
        struct kin_child_info info = child_of(sup, name);
        EXPECT(info.name != NULL);
        if (info.state == KIN_CHILD_STOPPED)
            return info.status;
        linger();
    }
}

/* Waits until the supervisor does not know the child any more. */
SPARE void await_gone(struct kin_addr sup, const char *name)
{
    while (child_of(sup, name).name) /* ends: or the alarm does */
        linger();
}

SPARE struct kin_child_counts counts_of(struct kin_addr sup)
{
    struct kin_child_counts counts;
    memset(&counts, 0xff, sizeof counts);
    EXPECT_EQ(kin_supervisor_count_children(sup, &counts, KIN_NEVER), 0);
    return counts;
}

#define EXPECT_COUNTS(sup, specs_, active_, restarting_, stopped_)                                 \
    do {                                                                                           \
        struct kin_child_counts counts_ = counts_of(sup);                                          \
        EXPECT_EQ(counts_.specs, specs_);                                                          \
        EXPECT_EQ(counts_.active, active_);                                                        \
        EXPECT_EQ(counts_.restarting, restarting_);                                                \
        EXPECT_EQ(counts_.stopped, stopped_);                                                      \
    } while (0)

/* Makes the desk child fail; it is over when this returns. */
SPARE void crash_child(struct kin_addr child, int status)
{
    EXPECT_EQ(ask(child, do_return_only, status, NULL), status);
}

/* Makes a child fail and waits until it is there again. */
SPARE struct kin_addr crash_and_await(struct kin_addr sup, const char *name, int status)
{
    struct kin_addr old = addr_of(sup, name);
    crash_child(old, status);
    return await_new(sup, name, old);
}

/* ---- children that are plain tasks; arg is used as it is ---- */

struct plain {
    struct diary *diary;
    struct kin_barrier barrier;
    struct kin_event go_on;
    _Atomic int started, ended;
    int status;
};

SPARE int polite_main(void *arg)
{
    struct plain *plain = arg;
    atomic_fetch_add(&plain->started, 1);
    int rc = kin_sleep(KIN_NEVER);
    atomic_fetch_add(&plain->ended, 1);
    return rc;
}

/* Hides behind a mask until no mask helps. */
SPARE int stubborn_main(void *arg)
{
    struct plain *plain = arg;
    atomic_fetch_add(&plain->started, 1);
    kin_mask();
    int rc = kin_sleep(KIN_NEVER);
    kin_unmask();
    atomic_fetch_add(&plain->ended, 1);
    return rc;
}

/* Returns its status when it is told to. */
SPARE int obedient_main(void *arg)
{
    struct plain *plain = arg;
    atomic_fetch_add(&plain->started, 1);
    int rc = kin_event_wait(&plain->go_on, KIN_NEVER);
    atomic_fetch_add(&plain->ended, 1);
    return rc < 0 ? rc : plain->status;
}

SPARE int start_plain(struct kin_nursery *n, kin_task_fn *fn, const void *arg,
                      struct kin_addr *out)
{
    struct kin_task_ref ref;
    int rc = kin_spawn_with(n, NULL, fn, arg, 0, &ref);
    if (rc == 0)
        *out = kin_task_addr(ref);
    return rc;
}

SPARE int start_polite(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, polite_main, arg, out);
}

SPARE int start_stubborn(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, stubborn_main, arg, out);
}

SPARE int start_obedient(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return start_plain(n, obedient_main, arg, out);
}

SPARE struct kin_child_spec plain_spec(const char *name, kin_child_start_fn *start,
                                       const struct plain *plain, enum kin_restart restart)
{
    struct kin_child_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.name = name;
    spec.start = start;
    spec.arg = plain;
    spec.restart = restart;
    return spec;
}

#endif
