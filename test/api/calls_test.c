/* SPDX-License-Identifier: MIT */
/*
 * Goal: what calls.def says of each public call is true: what it costs, what it needs, that loops
 *       over it give way; and nothing that it does not say.
 * Method: drives.def makes each call again and again in a task that has little of one component, or
 *       lacks one capability, and everything else; on one worker beside a task that waits for its
 *       turn; and on a thread that works for a task that lacks the capability. hoards.def makes
 *       each call that costs memory in a task that keeps what it gets, also with requests that
 *       fail.
 */
#include "api/bench.h"

#include "plat/plat.h"

#include <kin/blocking.h>

/* ---- the table ---- */

enum { NOTHING = 0, OPS = 1, TURN = 2, MEMORY = 4, SPAWNS = 8, CHANNEL_OPS = 16, SYSCALLS = 32,
       OPENS = 64, OPS_IF_ANY = 128, STAYS = 256 };
enum from { TASK, ANY, THREAD };
enum { NO_CAP = 0, SPAWN = KIN_CAP_SPAWN, BUDGET = KIN_CAP_BUDGET, CHANNEL = KIN_CAP_CHANNEL,
       TIME = KIN_CAP_TIME, NET = KIN_CAP_NET, FILE_ = KIN_CAP_FILE, PROCESS = KIN_CAP_PROCESS,
       REGISTRY = KIN_CAP_REGISTRY, BLOCKING = KIN_CAP_BLOCKING, RANDOM = KIN_CAP_RANDOM,
       OF_FD = KIN_CAP_FILE }; /* the descriptor of a bench is a file */

struct row {
    const char *name;
    enum from from;
    unsigned cost;
    uint32_t caps;
    const char *how;
};

#define FILE FILE_
static const struct row rows[] = {
#define CALL(name, from, cost, caps, handle, how) {#name, from, cost, caps, #how},
#include "api/calls.def"
#undef CALL
};
#undef FILE
enum { ROWS = sizeof rows / sizeof *rows };

/* ---- calls of more than one line ---- */

static int give(void *memory)
{
    kin_free(memory);
    return memory ? 0 : KIN_BUDGET;
}

static int make_chan(void)
{
    struct kin_chan *chan;
    int rc = kin_chan_create(&chan, sizeof(long), 4);
    if (rc == 0)
        kin_chan_unref(chan);
    return rc;
}

static int make_spsc(void)
{
    struct kin_spsc *queue;
    int rc = kin_spsc_create(&queue, sizeof(long), 4);
    if (rc == 0)
        kin_spsc_unref(queue);
    return rc;
}

static int make_mpsc(void)
{
    struct kin_mpsc *queue;
    int rc = kin_mpsc_create(&queue, sizeof(long), 4);
    if (rc == 0)
        kin_mpsc_unref(queue);
    return rc;
}

static int make_broadcast(void)
{
    struct kin_broadcast *broadcast;
    int rc = kin_broadcast_create(&broadcast, sizeof(long), 4, KIN_BROADCAST_WAIT);
    if (rc == 0)
        kin_broadcast_unref(broadcast);
    return rc;
}

static int subscribe(struct bench *b)
{
    struct kin_subscriber *subscriber;
    int rc = kin_broadcast_subscribe(b->broadcast, &subscriber);
    if (rc == 0)
        kin_subscriber_unref(subscriber);
    return rc;
}

static int make_watch(struct bench *b)
{
    struct kin_watch *watch;
    int rc = kin_watch_create(&watch, sizeof b->item, &b->item);
    if (rc == 0)
        kin_watch_unref(watch);
    return rc;
}

static struct kin_case *cases_of(struct bench *b)
{
    b->cases[0] = kin_case_recv(b->chan, &b->item);
    b->cases[1] = kin_case_read(b->file);
    return b->cases;
}

static void enter_and_leave(struct bench *b)
{
    struct kin_using_at_ at = kin_using_enter_(do_nothing, b);
    EXPECT_EQ(kin_using_leave_(at.height, do_nothing, b), 1);
}

static int reserve(void)
{
    struct kin_obligation *o;
    int rc = kin_obligation_reserve(KIN_OBLIGATION_USER, &o);
    if (rc == 0)
        EXPECT_EQ(kin_obligation_abort(o), 0);
    return rc;
}

/* One inside of the other, more than are free of charge. */
static int open_and_join(int depth)
{
    struct kin_nursery n;
    int rc = kin_nursery_open(&n, NULL);
    if (rc < 0)
        return rc;
    if (depth > 1)
        rc = open_and_join(depth - 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return rc;
}

static int lock_and_unlock(struct bench *b)
{
    int rc = kin_mutex_lock(&b->mutex, 0);
    if (rc == 0)
        kin_mutex_unlock(&b->mutex);
    return rc;
}

static int read_and_unlock(struct bench *b)
{
    int rc = kin_rwlock_read_lock(&b->rwlock, 0);
    if (rc == 0)
        kin_rwlock_read_unlock(&b->rwlock);
    return rc;
}

static int write_and_unlock(struct bench *b)
{
    int rc = kin_rwlock_write_lock(&b->rwlock, 0);
    if (rc == 0)
        kin_rwlock_write_unlock(&b->rwlock);
    return rc;
}

static int wait_on_cond(struct bench *b)
{
    if (!b->is_locked) /* the first time there is an op for it */
        EXPECT_EQ(kin_mutex_lock(&b->mutex, 0), 0);
    b->is_locked = true;
    return kin_cond_wait(&b->cond, &b->mutex, 0);
}

static int open_file(void)
{
    int fd, rc = kin_open("/proc/self/cmdline", O_RDONLY, 0, &fd);
    if (rc == 0)
        EXPECT_EQ(kin_close(fd), 0);
    return rc;
}

static int open_dir(void)
{
    struct kin_dir *dir;
    int rc = kin_opendir("/", &dir);
    if (rc == 0)
        kin_closedir(dir);
    return rc;
}

static int put_and_flush(struct bench *b)
{
    kin_ignore(kin_writer_put(&b->writer, lines, 1, NULL, 0));
    return kin_writer_flush(&b->writer, KIN_NEVER);
}

static int close_it(int rc, struct bench *b)
{
    if (rc == 0)
        EXPECT_EQ(kin_close(b->fd), 0);
    return rc;
}

static int start_nothing(void)
{
    static const char *const argv[] = {"/nowhere/a", NULL};
    struct kin_process *process;
    int rc = kin_process_start(argv, NULL, &process);
    EXPECT_LT(rc, 0);
    return rc;
}

static int register_it(void)
{
    int rc = kin_register("calls", kin_self_addr(), 0);
    if (rc == 0)
        EXPECT_EQ(kin_unregister("calls"), 0);
    return rc;
}

static int register_or_find(void)
{
    struct kin_addr holder;
    int rc = kin_register_or_find("calls", kin_self_addr(), 0, &holder);
    if (rc == 0)
        EXPECT_EQ(kin_unregister("calls"), 0);
    return rc;
}

/* ---- how each is made ---- */

#define DRIVE(name, value)                                                                         \
    static int drive_##name(struct bench *b)                                                       \
    {                                                                                              \
        (void)b;                                                                                   \
        return (int)(value);                                                                       \
    }
#define RUN(name, statement)                                                                       \
    static int drive_##name(struct bench *b)                                                       \
    {                                                                                              \
        statement;                                                                                 \
        return 0;                                                                                  \
    }
#include "api/drives.def"
#undef DRIVE
#undef RUN

typedef int drive_fn(struct bench *b);

static const struct {
    const char *name;
    drive_fn *fn;
} drives[] = {
#define DRIVE(name, value) {#name, drive_##name},
#define RUN(name, statement) {#name, drive_##name},
#include "api/drives.def"
#undef DRIVE
#undef RUN
};
enum { DRIVES = sizeof drives / sizeof *drives };

static drive_fn *drive_of(const struct row *row)
{
    for (unsigned i = 0; i < DRIVES; i++) {
        if (strcmp(drives[i].name, row->name) == 0)
            return drives[i].fn;
    }
    return NULL;
}

/* ---- trying one ---- */

struct trial {
    struct bench bench;
    const struct row *row;
    drive_fn *fn;
    struct kin_budget budget;
    uint32_t caps;
    int tries;
    bool is_closed;   /* the nursery takes nobody any more */
    uint64_t fail_at; /* which request for memory fails; 0: none */
    bool wants_turn; /* goes on until somebody else had a turn, and not until it is refused */
    int rc;          /* of the last call */
    enum kin_budget_part lacked; /* why it was refused, if it was */
    uint64_t used;               /* ops, by all calls */
    bool has_turned;             /* somebody else ran */
};

/* What is not as its row says is printed, of all rows, and the test fails when it has seen all. */
static int complaints;

static void expect(bool is_right, const struct trial *trial, const char *what)
{
    if (is_right)
        return;
    printf("%s: %s; it answered %s, part %d\n", trial->row->name, what,
           kin_status_name(trial->rc), (int)trial->lacked);
    complaints++;
}

static int note_turn(void *arg)
{
    *(bool *)arg = true;
    return 0;
}

/* The limited task: makes the call until that is refused, or often enough. */
static int try_it(void *arg)
{
    struct trial *trial = arg;
    struct bench *b = &trial->bench;
    struct kin_nursery own;
    if (kin_caps() & KIN_CAP_SPAWN) {
        EXPECT_EQ(kin_nursery_open(&own, NULL), 0);
        b->own = &own;
        EXPECT_EQ(kin_spawn_with(&own, NULL, nothing_to_do, NULL, 0, &b->child), 0);
        if (trial->budget.ops != FEW) /* that task has an op for the one, but not for both */
            EXPECT_EQ(kin_spawn(&own, note_turn, &trial->has_turned), 0);
        if (trial->is_closed)
            kin_nursery_close(&own);
    }
    struct kin_budget before = kin_budget_left();
    for (int i = 0; i < trial->tries; i++) {
        trial->rc = trial->fn(b);
        if (trial->wants_turn ? trial->has_turned : trial->rc == KIN_BUDGET)
            break;
    }
    if (trial->rc == KIN_BUDGET)
        trial->lacked = kin_budget_exhausted();
    trial->used = before.ops - kin_budget_left().ops;
    if (b->is_locked)
        kin_mutex_unlock(&b->mutex);
    if (b->own != &b->nursery) {
        kin_nursery_cancel(&own, KIN_CANCELLED);
        kin_ignore(kin_nursery_join(&own, NULL));
    }
    return 0;
}

/* Runs a body in a child that has the budget and the capabilities of the trial. */
static void limit(struct trial *trial, kin_task_fn *body)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .on_error = KIN_COLLECT, .on_exhausted = KIN_EXHAUSTED_FAIL,
                .recharge = KIN_RECHARGE_MANUAL, .budget = KIN_UNLIMITED_BUDGET);
    options.budget = trial->budget;
    options.caps = trial->caps ? trial->caps : KIN_CAP_NONE;
    EXPECT_EQ(kin_spawn_with(&n, &options, body, trial, 0, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

/* The same on a fresh bench. By the first task. */
static void carry_out(struct trial *trial, kin_task_fn *body)
{
    make_bench(&trial->bench, trial->row->name);
    limit(trial, body);
    clear_bench(&trial->bench);
}

/* Calls fn for each row that is driven. */
static void for_each_driven(void (*fn)(struct trial *trial))
{
    struct trial *trial = malloc(sizeof *trial);
    EXPECT(trial != NULL);
    complaints = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        memset(trial, 0, sizeof *trial);
        trial->row = &rows[i];
        trial->fn = drive_of(trial->row);
        trial->caps = KIN_CAP_ALL;
        trial->budget = KIN_UNLIMITED_BUDGET;
        trial->tries = TRIES;
        if (trial->fn)
            fn(trial);
    }
    free(trial);
    EXPECT_EQ(complaints, 0);
}

/* ---- every row can be tried, or says why not ---- */

KIN_TEST(a_row_that_is_driven_has_its_drive_and_no_other_has, "")
{
    unsigned driven = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        bool says = strcmp(rows[i].how, "driven") == 0;
        if (says != (drive_of(&rows[i]) != NULL))
            printf("%s: %s\n", rows[i].name, rows[i].how);
        EXPECT_EQ(says, drive_of(&rows[i]) != NULL);
        driven += says;
    }
    EXPECT_EQ(driven, DRIVES);
}

/* ---- what a call costs ---- */

/* One component after the other is small, and refused are those calls that cost it. */
static void try_parts(struct trial *fresh)
{
    static const struct {
        unsigned cost;
        enum kin_budget_part part;
        const char *said;
        struct kin_budget budget;
    } parts[] = {
        {OPS, KIN_BUDGET_OPS, "with little of ops",
         {FEW, UINT64_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}},
        {MEMORY, KIN_BUDGET_MEMORY, "with little of memory",
         {UINT64_MAX, 1, UINT32_MAX, UINT32_MAX, UINT32_MAX}},
        {SPAWNS, KIN_BUDGET_SPAWNS, "with little of spawns",
         {UINT64_MAX, UINT64_MAX, FEW, UINT32_MAX, UINT32_MAX}},
        {CHANNEL_OPS, KIN_BUDGET_CHANNEL_OPS, "with little of channel operations",
         {UINT64_MAX, UINT64_MAX, UINT32_MAX, FEW, UINT32_MAX}},
        {SYSCALLS, KIN_BUDGET_SYSCALLS, "with little of system calls",
         {UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX, FEW}},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct trial trial = *fresh;
        trial.budget = parts[i].budget;
        carry_out(&trial, try_it);
        enum kin_budget_part expected =
            trial.row->cost & parts[i].cost ? parts[i].part : KIN_BUDGET_NONE;
        expect(trial.lacked == expected, &trial, parts[i].said);
        expect((trial.rc == KIN_BUDGET) == (expected != KIN_BUDGET_NONE), &trial, parts[i].said);
        if (parts[i].part == KIN_BUDGET_OPS) /* one that is not refused may have used them */
            expect((trial.used > 0) == ((trial.row->cost & (OPS | OPS_IF_ANY)) != 0), &trial,
                   "its row says something else about ops");
    }
}

static int try_parts_of_all(void *arg)
{
    (void)arg;
    for_each_driven(try_parts);
    return 0;
}

KIN_TEST(a_call_is_refused_for_want_of_what_its_row_says_and_of_nothing_else,
         "SCHED:3.3.1 SCHED:14.1.1 SCHED:15.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, try_parts_of_all, NULL), 0);
}

/* ---- loops over a call give way ---- */

enum { TURN_LENGTH = 8 };

static void try_turn(struct trial *trial)
{
    if (!(trial->row->cost & (OPS | TURN)))
        return;
    trial->wants_turn = true;
    carry_out(trial, try_it);
    expect(trial->has_turned != ((trial->row->cost & STAYS) != 0), trial,
           trial->has_turned ? "others had a turn" : "nobody else had a turn");
}

/* A spawn that is refused leaves no child that could end the loop: it gives way. */
static void try_refused_spawn(struct trial *trial)
{
    if (!(trial->row->cost & STAYS))
        return;
    trial->wants_turn = true;
    trial->is_closed = true;
    carry_out(trial, try_it);
    expect(trial->has_turned, trial, "nobody else had a turn, and it was refused");
}

/* The same when there are no ops left, and nobody may refuse the call. */
static void try_turn_without_ops(struct trial *trial)
{
    trial->budget.ops = FEW + 1;
    if (trial->row->cost & TURN)
        try_turn(trial);
}

static int try_turns_of_all(void *arg)
{
    (void)arg;
    for_each_driven(try_turn);
    for_each_driven(try_turn_without_ops);
    for_each_driven(try_refused_spawn);
    return 0;
}

KIN_TEST(a_loop_over_a_call_gives_way_though_nothing_parks, "SCHED:4.1.1 SCHED:4.3.1")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = config.workers_max = 1;
    config.yield_interval = TURN_LENGTH;
    config.seed = kin_test_seed();
    EXPECT_EQ(kin_run(&config, try_turns_of_all, NULL), 0);
}

/* ---- what a call needs ---- */

/* With one capability fewer it is refused, with these alone it is not. */
static void try_caps(struct trial *fresh, kin_task_fn *body, uint32_t also, int refusal)
{
    for (uint32_t cap = 1; cap & KIN_CAP_ALL; cap <<= 1) {
        struct trial trial = *fresh;
        if (!(trial.row->caps & cap) || (also & cap))
            continue;
        trial.caps = KIN_CAP_ALL & ~cap;
        trial.tries = FEW;
        carry_out(&trial, body);
        expect(trial.rc == refusal, &trial, "without a capability that it needs");
    }
    struct trial trial = *fresh;
    trial.caps = trial.row->caps | also;
    trial.tries = FEW;
    carry_out(&trial, body);
    expect(trial.rc != KIN_NOCAP, &trial, "needs more than its row says");
}

static void try_caps_in_task(struct trial *trial)
{
    try_caps(trial, try_it, 0, KIN_NOCAP);
}

static int try_caps_of_all(void *arg)
{
    (void)arg;
    for_each_driven(try_caps_in_task);
    return 0;
}

KIN_TEST(a_call_needs_the_capability_its_row_says_and_no_other, "SCHED:1.1.2 SCHED:10.2.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, try_caps_of_all, NULL), 0);
}

/* ---- a thread that works for a task has what the task has ---- */

static int call_it(void *arg)
{
    struct trial *trial = arg;
    trial->rc = trial->fn(&trial->bench);
    return 0;
}

static int call_it_on_a_thread(void *trial)
{
    return kin_blocking(call_it, trial, NULL, KIN_NEVER);
}

static void try_caps_on_thread(struct trial *trial)
{
    if (trial->row->caps && !(trial->row->caps & KIN_CAP_BLOCKING))
        try_caps(trial, call_it_on_a_thread, KIN_CAP_BLOCKING,
                 trial->row->from == ANY ? KIN_NOCAP : KIN_NOTASK);
}

static int try_threads_of_all(void *arg)
{
    (void)arg;
    for_each_driven(try_caps_on_thread);
    return 0;
}

KIN_TEST(a_thread_that_works_for_a_task_needs_the_same, "SCHED:1.1.2 SCHED:15.1.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, try_threads_of_all, NULL), 0);
}

static void try_memory_on_thread(struct trial *trial)
{
    if (trial->row->from != ANY || !(trial->row->cost & MEMORY))
        return;
    trial->budget.memory = 0;
    carry_out(trial, call_it_on_a_thread);
    expect(trial->rc == KIN_BUDGET, trial, "on a thread, for a task without memory");
}

static int try_memory_of_all(void *arg)
{
    (void)arg;
    for_each_driven(try_memory_on_thread);
    return 0;
}

KIN_TEST(what_a_thread_makes_is_memory_of_the_task_that_it_works_for, "SCHED:3.3.1 SCHED:15.1.2")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, try_memory_of_all, NULL), 0);
}

/* ---- who keeps what it makes is refused ---- */

enum { LITTLE = 1024, MUCH = 16 * 1024, WHOLE = 64 * 1024, HOARD_MOST = 4096, FAILURES = 10 };

/* What was made and must be given back, the latest first. */
struct keep {
    struct keep *next;
    void *thing;
    void (*give)(void *thing);
};

static const char page[4096];

static bool kept(struct bench *b, void *thing, void (*giver)(void *thing))
{
    if (!thing)
        return false;
    struct keep *keep = malloc(sizeof *keep);
    EXPECT(keep != NULL);
    *keep = (struct keep){b->kept, thing, giver};
    b->kept = keep;
    return true;
}

static void give_all(struct bench *b)
{
    while (b->kept) {
        struct keep *keep = b->kept;
        b->kept = keep->next;
        keep->give(keep->thing);
        free(keep);
    }
}

#define KEEP(type, name, make)                                                                     \
    static void give_##name(void *thing)                                                           \
    {                                                                                              \
        kin_##type##_unref(thing);                                                                 \
    }                                                                                              \
    static int keep_##name(struct bench *b)                                                        \
    {                                                                                              \
        struct kin_##type *thing = NULL;                                                           \
        int rc = make;                                                                             \
        (void)kept(b, rc == 0 ? thing : NULL, give_##name);                                        \
        return rc;                                                                                 \
    }
KEEP(chan, chan, kin_chan_create(&thing, 1, 1))
KEEP(spsc, spsc, kin_spsc_create(&thing, 1, 1))
KEEP(mpsc, mpsc, kin_mpsc_create(&thing, 1, 1))
KEEP(broadcast, broadcast, kin_broadcast_create(&thing, 1, 1, KIN_BROADCAST_LAG))
KEEP(subscriber, subscriber, kin_broadcast_subscribe(b->broadcast, &thing))
KEEP(watch, watch, kin_watch_create(&thing, 1, lines))

static void close_dir(void *dir)
{
    kin_closedir(dir);
}

static int keep_dir(struct bench *b)
{
    struct kin_dir *dir;
    int rc = kin_opendir("/", &dir);
    (void)kept(b, rc == 0 ? dir : NULL, close_dir);
    return rc;
}

static void destroy_process(void *process)
{
    kin_process_destroy(process);
}

static int keep_process(struct bench *b)
{
    static const char *const argv[] = {"true", NULL};
    struct kin_process *process;
    int rc = kin_process_start(argv, NULL, &process);
    (void)kept(b, rc == 0 ? process : NULL, destroy_process);
    return rc;
}

static void abort_obligation(void *o)
{
    EXPECT_EQ(kin_obligation_abort(o), 0);
}

static int keep_obligation(struct bench *b)
{
    struct kin_obligation *o;
    int rc = kin_obligation_reserve(KIN_OBLIGATION_USER, &o);
    (void)kept(b, rc == 0 ? o : NULL, abort_obligation);
    return rc;
}

static void join_nursery(void *n)
{
    EXPECT_EQ(kin_nursery_join(n, NULL), 0);
    free(n);
}

static int keep_nursery(struct bench *b)
{
    struct kin_nursery *n = malloc(sizeof *n);
    EXPECT(n != NULL);
    int rc = kin_nursery_open(n, NULL);
    if (rc == 0)
        (void)kept(b, n, join_nursery);
    else
        free(n);
    return rc;
}

static const char *fresh_name(struct bench *b)
{
    (void)snprintf(b->name, sizeof b->name, "hoard %d", b->names++);
    return b->name;
}

static int start_child(struct bench *b)
{
    struct kin_child_spec spec = idle_child;
    spec.name = fresh_name(b);
    return kin_supervisor_start_child(b->supervisor, &spec, &b->addr, KIN_NEVER);
}

#define HOARD(name, bytes, value)                                                                  \
    static int hoard_##name(struct bench *b)                                                       \
    {                                                                                              \
        return (value);                                                                            \
    }
#include "api/hoards.def"
#undef HOARD

static const struct hoard {
    const char *name;
    drive_fn *fn;
    uint64_t bytes;
} hoards[] = {
#define HOARD(name, bytes, value) {#name, hoard_##name, bytes},
#include "api/hoards.def"
#undef HOARD
};
enum { HOARDS = sizeof hoards / sizeof *hoards };

static const struct hoard *hoard_of(const struct row *row)
{
    for (unsigned i = 0; i < HOARDS; i++) {
        if (strcmp(hoards[i].name, row->name) == 0)
            return &hoards[i];
    }
    return NULL;
}

/* Whether a status is what comes of a request for memory that failed. */
static bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN;
}

/* The limited task: makes the call and keeps what it gets, until it is refused. */
static int hoard_it(void *arg)
{
    struct trial *trial = arg;
    struct bench *b = &trial->bench;
    struct kin_nursery own;
    EXPECT_EQ(kin_nursery_open(&own, NULL), 0);
    b->own = &own;
    kin__plat_fail_after(trial->fail_at, false);
    for (int i = 0; i < HOARD_MOST; i++) {
        trial->rc = trial->fn(b);
        if (trial->rc < 0 && !(trial->fail_at && is_shortage(trial->rc)))
            break;
    }
    kin__plat_fail_after(0, false);
    if (trial->rc == KIN_BUDGET)
        trial->lacked = kin_budget_exhausted();
    give_all(b);
    kin_nursery_cancel(&own, KIN_CANCELLED);
    kin_ignore(kin_nursery_join(&own, NULL));
    return 0;
}

/* Runs it in a child that has so many bytes, which must be there again when everything is gone. */
static void hoard(struct trial *trial, uint64_t bytes)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_nursery_options pool = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct kin_task_ref child;
    pool.on_error = KIN_COLLECT;
    pool.on_exhausted = KIN_EXHAUSTED_FAIL;
    pool.budget = KIN_UNLIMITED_BUDGET;
    pool.budget.memory = WHOLE;
    options.budget = KIN_UNLIMITED_BUDGET;
    options.budget.memory = bytes;
    EXPECT_EQ(kin_nursery_open(&n, &pool), 0);
    make_bench(&trial->bench, trial->row->name);
    EXPECT_EQ(kin_spawn_with(&n, &options, hoard_it, trial, 0, &child), 0);
    EXPECT_EQ(kin_task_join(&n, child, NULL, KIN_NEVER), 0);
    clear_bench(&trial->bench);
    expect(kin_nursery_budget_left(&n).memory == WHOLE, trial, "the budget is not whole again");
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
}

static void try_hoard(struct trial *trial)
{
    const struct hoard *how = hoard_of(trial->row);
    expect((how != NULL) == ((trial->row->cost & MEMORY) != 0), trial, "costs memory, or does not");
    if (!how)
        return;
    trial->fn = how->fn;
    hoard(trial, how->bytes);
    expect(trial->rc == KIN_BUDGET, trial, "what it makes is kept by the thousand");
    expect(trial->lacked == KIN_BUDGET_MEMORY, trial, "it was refused for something else");
}

static int try_hoards_of_all(void *arg)
{
    (void)arg;
    for_each_driven(try_hoard);
    return 0;
}

KIN_TEST(a_task_that_keeps_what_a_call_makes_is_refused, "SCHED:3.3.1 SCHED:15.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, try_hoards_of_all, NULL), 0);
}

/* The same when one request for memory fails, each of the first few in turn. */
static void try_failures(struct trial *fresh)
{
    const struct hoard *how = hoard_of(fresh->row);
    for (int i = 1; how && i <= FAILURES; i++) {
        struct trial trial = *fresh;
        trial.fn = how->fn;
        trial.fail_at = (uint64_t)i;
        hoard(&trial, how->bytes < 4 * LITTLE ? how->bytes : 4 * LITTLE);
        expect(trial.rc == KIN_BUDGET, &trial, "a failed request changed what is refused");
    }
}

static int try_failures_of_all(void *arg)
{
    (void)arg;
    for_each_driven(try_failures);
    return 0;
}

KIN_TEST(a_request_that_fails_leaves_no_bill, "SCHED:3.3.1 SCHED:14.1.1")
{
    EXPECT_EQ(run_as(KIN_SERVICE, 2, try_failures_of_all, NULL), 0);
}
