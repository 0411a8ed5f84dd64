/* SPDX-License-Identifier: MIT */
/*
 * What the tests of supervisors share: children that do as they are told, and a diary of what
 * happened to them.
 *
 * Public headers only. A kid is a server; a cast tells it how to end. The diary has one word for
 * each start and each end: "+a" when a's start function ran, "-a" when its on_stop did.
 */
#ifndef KIN_TEST_KIDS_H
#define KIN_TEST_KIDS_H

#include "api/in_runtime.h"

enum { KIDS = 8, DIARY = 512 };

enum order {
    END_WELL = 1, /* returns and is over, Ok */
    END_BADLY,    /* an error, -EIO */
    CRASH,        /* kin_fail(-EPIPE) */
    PANIC,
    BE_DEAF,      /* masks cancellation, and waits until it is killed */
    WAIT_DEAF     /* masks cancellation, and waits for kid->gate */
};

struct diary {
    _Atomic int count;
    _Atomic uint64_t words[DIARY]; /* up to seven letters each; 0: being written */
};

struct kid {
    char name[4];
    struct diary *diary;
    _Atomic int starts;       /* calls of its start function */
    _Atomic int stops;        /* calls of on_stop */
    _Atomic int start_status; /* what its start answers, if that is not 0 */
    _Atomic int start_fails;  /* so often; 0: always */
    _Atomic int start_waits;  /* its start waits for the gate before it does anything */
    _Atomic int start_panics;
    _Atomic int is_deaf; /* it has taken BE_DEAF or WAIT_DEAF up */
    struct kin_event gate;
};

__attribute__((unused)) static void note(struct diary *diary, char what, const char *name)
{
    int i = atomic_fetch_add(&diary->count, 1);
    char word[8] = "";
    uint64_t letters;

    snprintf(word, sizeof word, "%c%.3s", what, name);
    memcpy(&letters, word, sizeof letters);
    if (i < DIARY)
        atomic_store(&diary->words[i], letters);
}

/* The whole diary as one line, of which the caller has DIARY * 8 bytes; while somebody writes, it
 * ends before that word. */
__attribute__((unused)) static const char *read_diary(struct diary *diary, char *line)
{
    int count = atomic_load(&diary->count);
    line[0] = '\0';
    for (int i = 0; i < count && i < DIARY; i++) {
        uint64_t letters = atomic_load(&diary->words[i]);
        if (!letters)
            break;
        strcat(line, i ? " " : "");
        strncat(line, (const char *)&letters, sizeof letters);
    }
    return line;
}

#define EXPECT_DIARY(diary, expected)                                                              \
    do {                                                                                           \
        char kids_line[DIARY * 8];                                                                 \
        EXPECT_STR(read_diary((diary), kids_line), (expected));                                    \
    } while (0)

/* ---- the server ---- */

struct kid_state {
    struct kid *kid;
};

static int kid_on_start(struct kin_server *s, void *state, const void *arg)
{
    (void)s;
    ((struct kid_state *)state)->kid = *(struct kid *const *)arg;
    return 0;
}

static int kid_on_cast(struct kin_server *s, void *state, const void *message, size_t size)
{
    struct kid *kid = ((struct kid_state *)state)->kid;
    enum order order;
    int rc;

    EXPECT_EQ(size, sizeof order);
    memcpy(&order, message, sizeof order);
    switch (order) {
    case END_WELL:
        return kin_server_stop_self(s, 0);
    case END_BADLY:
        return -EIO;
    case CRASH:
        kin_fail(-EPIPE, "as it was told");
    case PANIC:
        kin_panic("as it was told");
    case BE_DEAF:
    case WAIT_DEAF:
        kin_mask();
        atomic_store(&kid->is_deaf, 1);
        rc = order == BE_DEAF ? kin_sleep(KIN_NEVER) : kin_event_wait(&kid->gate, KIN_NEVER);
        kin_unmask();
        return rc;
    }
    return 0;
}

static void kid_on_stop(struct kin_server *s, void *state, const struct kin_outcome *why)
{
    struct kid *kid = ((struct kid_state *)state)->kid;
    (void)s, (void)why;
    note(kid->diary, '-', kid->name);
    atomic_fetch_add(&kid->stops, 1);
}

/* The start function: arg is where the pointer to the kid lies, or the kid's own memory. */
__attribute__((unused)) static int kid_start(struct kin_nursery *n, const void *arg,
                                             struct kin_addr *out)
{
    static const struct kin_server_ops ops = {
        .on_start = kid_on_start, .on_cast = kid_on_cast, .on_stop = kid_on_stop};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct kid *kid = (struct kid *)(uintptr_t)arg;

    note(kid->diary, '+', kid->name);
    atomic_fetch_add(&kid->starts, 1);
    if (atomic_load(&kid->start_waits)) {
        int rc = kin_event_wait(&kid->gate, KIN_NEVER);
        if (rc < 0)
            return rc;
    }
    if (atomic_load(&kid->start_panics))
        kin_panic("a start that was told to");
    int status = atomic_load(&kid->start_status);
    if (status && atomic_load(&kid->start_fails) && atomic_fetch_sub(&kid->start_fails, 1) == 1)
        atomic_store(&kid->start_status, 0);
    if (status)
        return status;
    options.state_size = sizeof(struct kid_state);
    return kin_server_start(n, &ops, &options, &kid, out);
}

/* ---- a family ---- */

struct house {
    struct diary diary;
    struct kid kids[KIDS];
    struct kin_child_spec specs[KIDS];
    struct kin_supervisor_options options;
    struct kin_nursery n;
    struct kin_addr sup;
    struct kin_monitor_ref watch; /* of the supervisor; outcome_of reads it once */
};

/* Kids a, b, c, ... with this restart; nothing is started. */
__attribute__((unused)) static void furnish(struct house *house, size_t count,
                                            enum kin_restart restart)
{
    memset(house, 0, sizeof(*house));
    house->options = (struct kin_supervisor_options)KIN_SUPERVISOR_OPTIONS_INIT;
    house->options.window = KIN_SEC(100000); /* longer than any machine needs */
    for (size_t i = 0; i < KIDS; i++) {
        struct kid *kid = &house->kids[i];
        snprintf(kid->name, sizeof kid->name, "%c", (char)('a' + i));
        kid->diary = &house->diary;
        if (i >= count)
            continue;
        house->specs[i].name = kid->name;
        house->specs[i].start = kid_start;
        house->specs[i].arg = kid;
        house->specs[i].restart = restart;
    }
}

/* Opens the nursery, which does not fail with its children, and starts the supervisor in it. */
__attribute__((unused)) static void move_in(struct house *house, size_t count)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&house->n, &options), 0);
    EXPECT_EQ(kin_supervisor_start(&house->n, &house->options, house->specs, count, &house->sup),
              0);
    EXPECT_EQ(kin_monitor(house->sup, &house->watch), 0);
}

/* Stops the supervisor and joins. */
__attribute__((unused)) static void move_out(struct house *house)
{
    int rc = kin_server_stop(house->sup, 0, KIN_NEVER);
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    kin_ignore(kin_nursery_join(&house->n, NULL));
}

/* Waits for the end of the supervisor: how it ended. */
__attribute__((unused)) static struct kin_outcome outcome_of(struct house *house)
{
    struct kin_info info;
    struct kin_outcome how = {KIN_SEV_OK, 0, 0, 0, ""};
    EXPECT_EQ(kin_wait_down(house->watch, &info, KIN_NEVER), 0);
    how.severity = (enum kin_severity)info.u.down.reason;
    how.status = info.u.down.status;
    return how;
}

__attribute__((unused)) static struct kin_child_info info_of(struct house *house, const char *name)
{
    struct kin_child_info infos[64];
    ssize_t count = kin_supervisor_which_children(house->sup, infos, 64, KIN_NEVER);
    for (ssize_t i = 0; i < count; i++)
        if (infos[i].name && strcmp(infos[i].name, name) == 0)
            return infos[i];
    return (struct kin_child_info){NULL, {0, 0}, KIN_CHILD_STOPPED, KIN_TRANSIENT, 0, 0};
}

/* Lets others run until the child is in this state. */
__attribute__((unused)) static struct kin_child_info await_state(struct house *house,
                                                                 const char *name,
                                                                 enum kin_child_state state)
{
    for (;;) {
        struct kin_child_info info = info_of(house, name);
        if (info.name && info.state == state)
            return info;
        kin_ignore(kin_yield());
    }
}

/* Lets others run until it runs and was restarted so often. */
__attribute__((unused)) static struct kin_child_info await_restarts(struct house *house,
                                                                    const char *name,
                                                                    unsigned restarts)
{
    for (;;) {
        struct kin_child_info info = await_state(house, name, KIN_CHILD_RUNNING);
        if (info.restarts >= restarts)
            return info;
        kin_ignore(kin_yield());
    }
}

__attribute__((unused)) static void tell(struct kin_addr who, enum order order)
{
    EXPECT_EQ(kin_cast(who, &order, sizeof order, KIN_NEVER), 0);
}

__attribute__((unused)) static void tell_kid(struct house *house, const char *name,
                                             enum order order)
{
    struct kin_child_info info = await_state(house, name, KIN_CHILD_RUNNING);
    tell(info.addr, order);
}

/* Lets others run until the address is nobody's. */
__attribute__((unused)) static void await_end(struct kin_addr who)
{
    struct kin_monitor_ref ref;
    struct kin_info info;
    EXPECT_EQ(kin_monitor(who, &ref), 0);
    EXPECT_EQ(kin_wait_down(ref, &info, KIN_NEVER), 0);
}

/* Tells it, and waits until it is over. */
__attribute__((unused)) static void end_kid(struct house *house, const char *name,
                                            enum order order)
{
    struct kin_child_info info = await_state(house, name, KIN_CHILD_RUNNING);
    tell(info.addr, order);
    await_end(info.addr);
}

#endif
