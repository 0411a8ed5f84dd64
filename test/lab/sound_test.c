/* SPDX-License-Identifier: MIT */
/*
 * Goal: what DPOR leaves out of real programs comes out as something that it does not leave out.
 * Method: small random programs over everything that tasks share: channels, selects, locks,
 * conditions, deadlines, cancellation, nurseries in nurseries, descriptors. Each task tells what
 * its calls answered; all of it together is how a run came out. Plain search and random schedules,
 * as far as there is time, must come out in no way that a complete DPOR has not seen. One that is
 * missed means that two steps share something which they did not say.
 *
 * dpor_test.c does the same for the search alone, with steps that say what they touch by
 * construction; here the footprints of the runtime are what is tested.
 *
 * KIN_LAB_PROGRAMS=n tries n programs of each kind in place of a few. A program that fails is made
 * smaller and printed.
 */
#include "lab/in_lab.h"

#include "base/rng.h"
#include "lab/report.h"
#include "lab/world.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { SCRIPTS = 6, OPS = 4, TOLD = 24 };
enum { DPOR_RUNS = 4000, PLAIN_RUNS = 1500, RANDOM_RUNS = 400 };
enum { OUTCOMES = 1 << 14 };
#ifdef KIN_DEBUG
enum { PROGRAMS = 3 }; /* of each kind, and one more */
#else
enum { PROGRAMS = 12 };
#endif

/* ---- programs ---- */

/* What a program may do; a kind of programs has several. */
enum feature {
    WORDS = 1,
    CHANNELS = 2,
    SELECTS = 4,
    LOCKS = 8,
    CONDITIONS = 16,
    SIGNS = 32, /* semaphores, events, once, barriers, groups */
    TIME = 64,
    CANCEL = 128,
    NESTS = 256,
    YIELDS = 512,
    STREAMS = 1024,
    PIPES = 2048,
    FILES = 4096,
    COMBINES = 8192,
    SOCKETS = 16384,
    RAISES = 32768, /* signals */
    ROOM = 65536,   /* nurseries with room for one, with a budget */
    LAB = 131072    /* what only the lab has */
};

enum what {
    GET, SET, ADD,
    SEND, RECV, CLOSE, ABORT, LEN,
    SELECT_RECV, SELECT_SEND, SELECT_EVENT, SELECT_AFTER, SELECT_ORDERED,
    LOCKED, READ_LOCKED, WRITE_LOCKED, ADD_LOCKED,
    AWAIT, SIGNAL, BROADCAST,
    ACQUIRE, RELEASE, EVENT_SET, EVENT_RESET, EVENT_WAIT, ONCE, BARRIER, GROUP_ADD, GROUP_WAIT,
    SLEEP, NOW, DEADLINE,
    CANCEL_ALL, MASKED, IS_CANCELLED, FAIL,
    NEST, NEST_TWO, SPAWN, NEST_CANCEL, NEST_DEADLINE, TASK_JOIN,
    YIELD, YIELD_OFTEN, SPIN,
    WATCH_SET, WATCH_WAIT, TOPIC_SEND, TOPIC_RECV, QUEUE_SEND, QUEUE_RECV,
    PIPE_WRITE, PIPE_READ, PIPE_CLOSE,
    FILE_APPEND, FILE_READ, FILE_RENAME, FILE_REMOVE,
    RACE, TIMEOUT,
    CONNECT, ACCEPT, SEND_TO, RECV_FROM, STOP_LISTENING,
    SIGNAL_WAIT, RAISE,
    ONE_BY_ONE, OUT_OF_BUDGET, CANCEL_ONE,
    ALL_BLOCKED, ADVANCE, CHOOSE,
    WHATS
};

static const struct {
    const char *name;
    unsigned feature;
} kinds[WHATS] = {
    [GET] = {"get", WORDS}, [SET] = {"set", WORDS}, [ADD] = {"add", WORDS},
    [SEND] = {"send", CHANNELS}, [RECV] = {"recv", CHANNELS}, [CLOSE] = {"close", CHANNELS},
    [ABORT] = {"abort", CHANNELS}, [LEN] = {"len", CHANNELS},
    [SELECT_RECV] = {"select recv recv", SELECTS}, [SELECT_SEND] = {"select send recv", SELECTS},
    [SELECT_EVENT] = {"select recv event", SELECTS},
    [SELECT_AFTER] = {"select recv after", SELECTS},
    [SELECT_ORDERED] = {"select ordered", SELECTS},
    [LOCKED] = {"locked", LOCKS}, [READ_LOCKED] = {"read locked", LOCKS},
    [WRITE_LOCKED] = {"write locked", LOCKS}, [ADD_LOCKED] = {"add locked", LOCKS},
    [AWAIT] = {"await", CONDITIONS}, [SIGNAL] = {"signal", CONDITIONS},
    [BROADCAST] = {"broadcast", CONDITIONS},
    [ACQUIRE] = {"acquire", SIGNS}, [RELEASE] = {"release", SIGNS},
    [EVENT_SET] = {"event set", SIGNS}, [EVENT_RESET] = {"event reset", SIGNS},
    [EVENT_WAIT] = {"event wait", SIGNS}, [ONCE] = {"once", SIGNS}, [BARRIER] = {"barrier", SIGNS},
    [GROUP_ADD] = {"group add", SIGNS}, [GROUP_WAIT] = {"group wait", SIGNS},
    [SLEEP] = {"sleep", TIME}, [NOW] = {"now", TIME}, [DEADLINE] = {"deadline", TIME},
    [CANCEL_ALL] = {"cancel all", CANCEL}, [MASKED] = {"masked", CANCEL},
    [IS_CANCELLED] = {"is cancelled", CANCEL}, [FAIL] = {"fail", CANCEL},
    [NEST] = {"nest", NESTS}, [NEST_TWO] = {"nest two", NESTS}, [SPAWN] = {"spawn", NESTS},
    [NEST_CANCEL] = {"nest, cancel", NESTS}, [NEST_DEADLINE] = {"nest, deadline", NESTS},
    [TASK_JOIN] = {"task join", NESTS},
    [YIELD] = {"yield", YIELDS}, [YIELD_OFTEN] = {"yield often", YIELDS}, [SPIN] = {"spin", YIELDS},
    [WATCH_SET] = {"watch set", STREAMS}, [WATCH_WAIT] = {"watch wait", STREAMS},
    [TOPIC_SEND] = {"topic send", STREAMS}, [TOPIC_RECV] = {"topic recv", STREAMS},
    [QUEUE_SEND] = {"queue send", STREAMS}, [QUEUE_RECV] = {"queue recv", STREAMS},
    [PIPE_WRITE] = {"pipe write", PIPES}, [PIPE_READ] = {"pipe read", PIPES},
    [PIPE_CLOSE] = {"pipe close", PIPES},
    [FILE_APPEND] = {"file append", FILES}, [FILE_READ] = {"file read", FILES},
    [FILE_RENAME] = {"file rename", FILES}, [FILE_REMOVE] = {"file remove", FILES},
    [RACE] = {"race", COMBINES}, [TIMEOUT] = {"timeout", COMBINES},
    [CONNECT] = {"connect", SOCKETS}, [ACCEPT] = {"accept", SOCKETS},
    [SEND_TO] = {"send to", SOCKETS}, [RECV_FROM] = {"recv from", SOCKETS},
    [STOP_LISTENING] = {"stop listening", SOCKETS},
    [SIGNAL_WAIT] = {"signal wait", RAISES}, [RAISE] = {"raise", RAISES},
    [ONE_BY_ONE] = {"one by one", ROOM}, [OUT_OF_BUDGET] = {"out of budget", ROOM},
    [CANCEL_ONE] = {"cancel one", ROOM},
    [ALL_BLOCKED] = {"all blocked", LAB}, [ADVANCE] = {"advance", LAB}, [CHOOSE] = {"choose", LAB},
};

#define SPAWNS (NESTS | COMBINES | ROOM) /* what has children */

struct op {
    uint8_t what, object, wait; /* wait: ms until its deadline; 0: it tries; 9: for ever */
    uint8_t script;             /* of those that it spawns */
};

struct script {
    unsigned count;
    struct op ops[OPS];
};

/* The first scripts are tasks; the others are for those that these spawn. */
struct program {
    unsigned tasks;
    uint8_t capacity[2];
    struct script scripts[SCRIPTS];
};
static struct program program;

static unsigned features; /* of the programs that are made */
static uint32_t faults;   /* that are let happen */

static void make_program(struct kin__rng *rng)
{
    memset(&program, 0, sizeof(program));
    program.tasks = 2 + (unsigned)kin__rng_below(rng, 2);
    for (unsigned i = 0; i < 2; i++)
        program.capacity[i] = (uint8_t)kin__rng_below(rng, 3);
    for (unsigned i = 0; i < SCRIPTS; i++) {
        struct script *script = &program.scripts[i];
        const bool is_task = i < program.tasks;
        script->count = 1 + (unsigned)kin__rng_below(rng, is_task ? OPS - 1 : 2);
        for (unsigned k = 0; k < script->count;) { /* ends: some kind fits */
            const unsigned what = (unsigned)kin__rng_below(rng, WHATS);
            if (!(kinds[what].feature & features) ||
                (!is_task && (kinds[what].feature & SPAWNS)))
                continue;
            static const uint8_t waits[] = {9, 9, 9, 0, 1, 2};
            script->ops[k++] = (struct op){
                (uint8_t)what, (uint8_t)kin__rng_below(rng, 2),
                waits[kin__rng_below(rng, sizeof(waits))],
                (uint8_t)(program.tasks + kin__rng_below(rng, SCRIPTS - program.tasks - 1))};
        }
    }
}

static void print_program(void)
{
    printf("capacities %u %u\n", program.capacity[0], program.capacity[1]);
    for (unsigned i = 0; i < SCRIPTS; i++) {
        printf("%s %u:", i < program.tasks ? "task" : "script", i);
        for (unsigned k = 0; k < program.scripts[i].count; k++) {
            const struct op *op = &program.scripts[i].ops[k];
            printf(" %s(%u, wait %u", kinds[op->what].name, op->object, op->wait);
            printf(kinds[op->what].feature & SPAWNS ? ", script %u);" : ");",
                   op->script);
        }
        printf("\n");
    }
}

/* ---- what a run has ---- */

static struct things {
    struct kin_nursery n;
    struct kin_chan *chan[2];
    struct kin_mutex mutex[2];
    struct kin_rwlock rwlock;
    struct kin_cond cond;
    struct kin_sem sem;
    struct kin_event event[2];
    struct kin_once once;
    struct kin_barrier barrier;
    struct kin_group group;
    struct kin_watch *watch;
    struct kin_broadcast *topic;
    struct kin_subscriber *reader;
    struct kin_mpsc *queue;
    int fd[2];       /* two ends of one thing */
    int listener, datagrams;
    int word[2];
    int guarded; /* by mutex[0] */
    kin_time began;
} it;

/* Everybody who ever ran, with what it was told. */
static struct speaker {
    int told[TOLD];
    unsigned count;
} speakers[SCRIPTS + 1 + 2 * SCRIPTS * OPS];

/* A task, or a child of one: its script, where it tells, and whose children may be its own. */
struct self {
    const struct script *script;
    struct speaker *speaker;
};

static void tell(struct self *self, int what)
{
    struct speaker *speaker = self->speaker;
    if (kin__world.is_closed) /* the run is over: what comes is nobody's choice */
        return;
    if (speaker->count < TOLD)
        speaker->told[speaker->count++] = what;
}

/* Everybody has a place that no other order of steps changes: a task, ... */
static struct self new_task(unsigned i)
{
    return (struct self){&program.scripts[i], &speakers[i]};
}

/* ... and the children of what it does. */
static struct self new_child(const struct self *parent, const struct op *op, unsigned nth)
{
    const unsigned of = (unsigned)(parent->speaker - speakers) * OPS;
    const unsigned at = (unsigned)(op - parent->script->ops);
    return (struct self){&program.scripts[op->script + nth],
                         &speakers[SCRIPTS + 1 + 2 * (of + at) + nth]};
}

static int follow(void *arg);

/* ---- what is done ---- */

static kin_time deadline_of(const struct op *op)
{
    return op->wait == 9 ? KIN_NEVER : op->wait == 0 ? 0 : kin_after(KIN_MS(op->wait));
}

static int on_words(const struct op *op)
{
    int *word = &it.word[op->object];
    if (op->what == SET)
        return KIN_SHARED(*word) = op->wait;
    int value = KIN_SHARED(*word);
    if (op->what == ADD)
        KIN_SHARED(*word) = value + 1;
    return value;
}

static int on_channels(const struct op *op, const struct self *self)
{
    struct kin_chan *chan = it.chan[op->object];
    int item = (int)(self->speaker - speakers), rc = 0;
    switch (op->what) {
    case SEND: return kin_chan_send(chan, &item, deadline_of(op));
    case RECV:
        rc = kin_chan_recv(chan, &item, deadline_of(op));
        return rc < 0 ? rc : item;
    case CLOSE: kin_chan_close(chan); return 0;
    case ABORT: kin_chan_abort(chan); return 0;
    default: return (int)kin_chan_len(chan) * 2 + kin_chan_is_closed(chan);
    }
}

static int on_selects(const struct op *op, const struct self *self)
{
    int got[2] = {-1, -1}, item = (int)(self->speaker - speakers);
    struct kin_chan *first = it.chan[op->object], *second = it.chan[!op->object];
    struct kin_case cases[2] = {kin_case_recv(first, &got[0]), kin_case_recv(second, &got[1])};
    if (op->what == SELECT_SEND)
        cases[0] = kin_case_send(first, &item);
    else if (op->what == SELECT_EVENT)
        cases[1] = kin_case_event(&it.event[op->object]);
    else if (op->what == SELECT_AFTER)
        cases[1] = kin_case_after(KIN_MS(1));
    int rc = op->what == SELECT_ORDERED ? kin_select_ordered(cases, 2, deadline_of(op))
                                        : kin_select(cases, 2, deadline_of(op));
    return rc < 0 ? rc : rc * 10000 + (cases[rc].status < 0 ? cases[rc].status : got[rc]);
}

static int on_locks(const struct op *op)
{
    int rc;
    switch (op->what) {
    case READ_LOCKED:
        rc = kin_rwlock_read_lock(&it.rwlock, deadline_of(op));
        if (rc == 0) {
            rc = KIN_SHARED(it.word[0]);
            kin_rwlock_read_unlock(&it.rwlock);
        }
        return rc;
    case WRITE_LOCKED:
        rc = kin_rwlock_write_lock(&it.rwlock, deadline_of(op));
        if (rc == 0) {
            rc = KIN_SHARED(it.word[0])++;
            kin_rwlock_write_unlock(&it.rwlock);
        }
        return rc;
    default:
        rc = kin_mutex_lock(&it.mutex[op->object], deadline_of(op));
        if (rc == 0) {
            rc = op->object ? 0 : it.guarded;
            if (op->what == ADD_LOCKED && op->object == 0)
                it.guarded++;
            kin_mutex_unlock(&it.mutex[op->object]);
        }
        return rc;
    }
}

static int on_conditions(const struct op *op)
{
    int rc = kin_mutex_lock(&it.mutex[0], KIN_NEVER);
    if (rc < 0)
        return rc;
    if (op->what == AWAIT) {
        if (it.guarded == 0)
            rc = kin_cond_wait(&it.cond, &it.mutex[0], deadline_of(op));
        rc = rc < 0 ? rc : it.guarded;
    } else {
        it.guarded++;
        op->what == SIGNAL ? kin_cond_signal(&it.cond) : kin_cond_broadcast(&it.cond);
    }
    kin_mutex_unlock(&it.mutex[0]);
    return rc;
}

static int once(void *arg)
{
    const struct op *op = arg;
    int rc = op->wait == 1 ? kin_sleep(kin_after(KIN_MS(1))) : 0;
    KIN_SHARED(it.word[0])++;
    return rc < 0 ? rc : op->wait == 2 ? KIN_STUCK : 0;
}

static int on_signs(const struct op *op)
{
    struct op own = *op;
    switch (op->what) {
    case ACQUIRE: return kin_sem_acquire(&it.sem, 1u + op->object, deadline_of(op));
    case RELEASE: kin_sem_release(&it.sem, 1u + op->object); return 0;
    case EVENT_SET: kin_event_set(&it.event[op->object]); return 0;
    case EVENT_RESET: kin_event_reset(&it.event[op->object]); return 0;
    case EVENT_WAIT: return kin_event_wait(&it.event[op->object], deadline_of(op));
    case ONCE: return kin_once_do(&it.once, once, &own, KIN_NEVER);
    case BARRIER: return kin_barrier_wait(&it.barrier, deadline_of(op));
    case GROUP_ADD:
        kin_group_add(&it.group, 1);
        kin_group_done(&it.group);
        return 0;
    default: return kin_group_wait(&it.group, deadline_of(op));
    }
}

static int on_time(const struct op *op)
{
    if (op->what == NOW)
        return (int)((kin_now() - it.began) / KIN_MS(1));
    if (op->what == SLEEP)
        return kin_sleep(kin_after(KIN_MS(op->wait)));
    kin_time before = kin_deadline_push(kin_after(KIN_MS(op->wait)));
    int rc = kin_event_wait(&it.event[op->object], KIN_NEVER);
    kin_deadline_pop(before);
    return rc;
}

static int on_cancel(const struct op *op)
{
    int rc = 0;
    switch (op->what) {
    case CANCEL_ALL: kin_nursery_cancel(&it.n, 7); return 0;
    case MASKED:
        kin_mask();
        rc = kin_event_wait(&it.event[op->object], kin_after(KIN_MS(1)));
        kin_unmask();
        return rc;
    case FAIL: kin_fail(-71, "as it should");
    default: return kin_cancelled();
    }
}

static int on_nests(const struct op *op, const struct self *self)
{
    struct self children[2] = {new_child(self, op, 0), new_child(self, op, 1)};
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct kin_task_ref task = {0};
    if (op->what == SPAWN) {
        struct self *child = kin_nursery_alloc(&it.n, sizeof(*child));
        if (!child)
            return -ENOMEM;
        *child = children[0];
        return kin_spawn(&it.n, follow, child);
    }
    if (op->what == NEST_DEADLINE)
        options.deadline = kin_after(KIN_MS(1));
    int rc = kin_nursery_open(&n, &options);
    if (rc < 0)
        return rc;
    if (op->what == TASK_JOIN) {
        struct kin_spawn_options how = KIN_SPAWN_OPTIONS_INIT;
        struct kin_outcome out;
        rc = kin_spawn_with(&n, &how, follow, &children[0], 0, &task);
        if (rc == 0)
            rc = kin_task_join(&n, task, &out, deadline_of(op));
    } else {
        rc = kin_spawn(&n, follow, &children[0]);
        if (rc == 0 && op->what == NEST_TWO)
            rc = kin_spawn(&n, follow, &children[1]);
        if (op->what == NEST_CANCEL)
            kin_nursery_cancel(&n, 3);
    }
    int joined = kin_nursery_join(&n, NULL);
    return rc < 0 ? rc : joined;
}

static int on_combines(const struct op *op, const struct self *self)
{
    struct self children[2] = {new_child(self, op, 0), new_child(self, op, 1)};
    struct kin_branch branches[2] = {{.fn = follow, .arg = &children[0]},
                                     {.fn = follow, .arg = &children[1]}};
    size_t winner = 9;
    if (op->what == TIMEOUT)
        return kin_timeout(&branches[0], kin_after(KIN_MS(op->wait)));
    int rc = kin_race(branches, 2, &winner);
    return rc * 16 + (int)winner;
}

static int on_streams(const struct op *op, const struct self *self)
{
    int item = (int)(self->speaker - speakers);
    uint64_t version = 0;
    int rc;
    switch (op->what) {
    case WATCH_SET: return kin_watch_set(it.watch, &item);
    case WATCH_WAIT:
        rc = kin_watch_get(it.watch, &item, &version);
        if (rc == 0 && op->object)
            rc = kin_watch_wait(it.watch, &item, &version, deadline_of(op));
        return rc < 0 ? rc : item;
    case TOPIC_SEND: return kin_broadcast_send(it.topic, &item, deadline_of(op));
    case TOPIC_RECV:
        rc = kin_broadcast_recv(it.reader, &item, &version, deadline_of(op));
        return rc < 0 ? rc : item;
    default: return kin_mpsc_send(it.queue, &item, deadline_of(op));
    }
}

static int on_pipes(const struct op *op, const struct self *self)
{
    char byte = (char)(self->speaker - speakers);
    int rc;
    switch (op->what) {
    case PIPE_WRITE: return kin_write(it.fd[op->object], &byte, 1, NULL, deadline_of(op));
    case PIPE_READ:
        rc = (int)kin_read(it.fd[op->object], &byte, 1, deadline_of(op));
        return rc <= 0 ? rc : byte;
    default: return kin_shutdown(it.fd[op->object], SHUT_WR);
    }
}

static int on_files(const struct op *op, const struct self *self)
{
    const char *name = op->object ? "/tmp/b" : "/tmp/a", *other = op->object ? "/tmp/a" : "/tmp/b";
    char bytes[16] = {(char)('a' + (self->speaker - speakers))};
    int fd, rc;
    if (op->what == FILE_RENAME)
        return kin_rename(name, other);
    if (op->what == FILE_REMOVE)
        return kin_remove(name);
    rc = kin_open(name, op->what == FILE_READ ? O_RDONLY : O_WRONLY | O_CREAT | O_APPEND, 0600,
                  &fd);
    if (rc < 0)
        return rc;
    if (op->what == FILE_READ) {
        rc = (int)kin_pread(fd, bytes, sizeof(bytes), 0);
        for (int i = 0; i < rc && i < 4; i++)
            rc = rc * 31 + bytes[i];
    } else {
        rc = (int)kin_pwrite(fd, bytes, 1, 0);
    }
    int closed = kin_close(fd);
    return closed < 0 ? closed : rc;
}

static int on_sockets(const struct op *op, const struct self *self)
{
    char byte = (char)(self->speaker - speakers), from[64];
    int fd = -1, rc;
    switch (op->what) {
    case CONNECT:
    case ACCEPT:
        rc = op->what == CONNECT ? kin_tcp_connect("localhost:70", &fd, deadline_of(op))
                                 : kin_accept(it.listener, &fd, deadline_of(op));
        if (rc < 0)
            return rc;
        if (op->object || op->what == CONNECT)
            rc = kin_write(fd, &byte, 1, NULL, KIN_NEVER);
        else
            rc = (int)kin_read(fd, &byte, 1, kin_after(KIN_MS(1)));
        kin_ignore(kin_close(fd));
        return rc <= 0 ? rc : byte;
    case SEND_TO:
        return (int)kin_udp_send(it.datagrams, &byte, 1, "localhost:71", deadline_of(op));
    case RECV_FROM:
        rc = (int)kin_udp_recv(it.datagrams, &byte, 1, from, sizeof(from), deadline_of(op));
        return rc <= 0 ? rc : byte;
    default: return kin_shutdown(it.listener, SHUT_RDWR);
    }
}

static int on_room(const struct op *op, const struct self *self)
{
    struct self children[2] = {new_child(self, op, 0), new_child(self, op, 1)};
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_spawn_options how = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref task;
    struct kin_nursery n;
    if (op->what == ONE_BY_ONE)
        options.tasks_max = 1;
    if (op->what == OUT_OF_BUDGET)
        options.budget.ops = 3;
    options.on_exhausted = KIN_EXHAUSTED_FAIL;
    how.slot_deadline = deadline_of(op);
    int rc = kin_nursery_open(&n, &options);
    if (rc < 0)
        return rc;
    rc = kin_spawn_with(&n, &how, follow, &children[0], 0, &task);
    if (rc == 0)
        rc = op->what == CANCEL_ONE ? kin_task_cancel(task)
                                    : kin_spawn_with(&n, &how, follow, &children[1], 0, NULL);
    int joined = kin_nursery_join(&n, NULL);
    return rc < 0 ? rc : joined;
}

static int on_lab(const struct op *op)
{
    if (op->what == ALL_BLOCKED)
        return kin_lab_wait_all_blocked();
    if (op->what == CHOOSE)
        return (int)kin_lab_choose(2, "which");
    kin_lab_advance(KIN_MS(1));
    return (int)((kin_now() - it.began) / KIN_MS(1));
}

static int on_yields(const struct op *op)
{
    int seen_at = 0;
    for (int i = 0; i < (op->what == YIELD ? 1 : 4); i++) {
        int rc = kin_yield();
        if (rc < 0)
            return rc;
        if (op->what == SPIN && KIN_SHARED(it.word[op->object]) != 0)
            break;
        seen_at++;
    }
    return seen_at;
}

static int act(const struct op *op, struct self *self)
{
    switch (kinds[op->what].feature) {
    case WORDS: return on_words(op);
    case CHANNELS: return on_channels(op, self);
    case SELECTS: return on_selects(op, self);
    case LOCKS: return on_locks(op);
    case CONDITIONS: return on_conditions(op);
    case SIGNS: return on_signs(op);
    case TIME: return on_time(op);
    case CANCEL: return on_cancel(op);
    case NESTS: return on_nests(op, self);
    case STREAMS: return on_streams(op, self);
    case PIPES: return on_pipes(op, self);
    case FILES: return on_files(op, self);
    case COMBINES: return on_combines(op, self);
    case SOCKETS: return on_sockets(op, self);
    case RAISES:
        return op->what == RAISE ? kin_lab_raise(SIGUSR1)
                                 : kin_signal_wait(SIGUSR1, deadline_of(op));
    case ROOM: return on_room(op, self);
    case LAB: return on_lab(op);
    default: return on_yields(op);
    }
}

static int follow(void *arg)
{
    struct self *self = arg;
    const struct script *script = self->script;
    for (unsigned i = 0; i < script->count; i++)
        tell(self, act(&script->ops[i], self));
    return 0;
}

/* ---- a run ---- */

/* Who made it gives it back, also what never came to be. */
static void end_things(void)
{
    for (unsigned i = 0; i < 2; i++) {
        if (it.chan[i])
            kin_chan_unref(it.chan[i]);
        if (it.fd[i] >= 0)
            kin_ignore(kin_close(it.fd[i]));
    }
    if (it.listener >= 0)
        kin_ignore(kin_close(it.listener));
    if (it.datagrams >= 0)
        kin_ignore(kin_close(it.datagrams));
    if (it.watch)
        kin_watch_unref(it.watch);
    if (it.reader)
        kin_subscriber_unref(it.reader);
    if (it.topic)
        kin_broadcast_unref(it.topic);
    if (it.queue)
        kin_mpsc_unref(it.queue);
}

static int make_things(void)
{
    int zero = 0, rc = 0;
    memset(&it, 0, sizeof(it));
    it.fd[0] = it.fd[1] = it.listener = it.datagrams = -1;
    it.began = kin_now();
    for (unsigned i = 0; rc == 0 && i < 2; i++)
        rc = kin_chan_create(&it.chan[i], sizeof(int), program.capacity[i]);
    if (rc == 0)
        rc = kin_sem_init(&it.sem, 1);
    if (rc == 0)
        rc = kin_barrier_init(&it.barrier, 2);
    if (rc == 0)
        rc = kin_watch_create(&it.watch, sizeof(int), &zero);
    if (rc == 0)
        rc = kin_broadcast_create(&it.topic, sizeof(int), 1, KIN_BROADCAST_WAIT);
    if (rc == 0)
        rc = kin_broadcast_subscribe(it.topic, &it.reader);
    if (rc == 0)
        rc = kin_mpsc_create(&it.queue, sizeof(int), 1);
    if (rc == 0 && (features & PIPES))
        rc = socketpair(AF_UNIX, SOCK_STREAM, 0, it.fd);
    if (rc == 0 && (features & SOCKETS))
        rc = kin_tcp_listen("localhost:70", NULL, &it.listener);
    if (rc == 0 && (features & SOCKETS))
        rc = kin_udp_open("localhost:71", &it.datagrams);
    return rc;
}

/* The first task: the only one who receives from the queue, which is allowed to one. */
static int play(void *arg)
{
    struct self selves[SCRIPTS], own = {NULL, &speakers[SCRIPTS]};
    int item = 0;
    (void)arg;
    int rc = make_things();
    if (rc == 0 && (features & RAISES))
        tell(&own, kin_signal_wait(SIGUSR1, 0)); /* it is held from here on */
    if (rc == 0)
        rc = kin_nursery_open(&it.n, NULL);
    for (unsigned i = 0; rc == 0 && i < program.tasks; i++) {
        selves[i] = new_task(i);
        rc = kin_spawn(&it.n, follow, &selves[i]);
    }
    tell(&own, rc);
    tell(&own, kin_mpsc_recv(it.queue, &item, 0) < 0 ? -1 : item);
    rc = kin_nursery_join(&it.n, NULL);
    tell(&own, rc);
    end_things();
    return 0;
}

/* ---- how runs come out ---- */

struct outcomes {
    uint64_t slots[OUTCOMES]; /* 0: free */
    unsigned count;
};
static struct outcomes seen[2], *now;

static bool has(const struct outcomes *set, uint64_t hash)
{
    for (unsigned at = hash % OUTCOMES; set->slots[at]; at = (at + 1) % OUTCOMES)
        if (set->slots[at] == hash)
            return true;
    return false;
}

static void add(struct outcomes *set, uint64_t hash)
{
    unsigned at = hash % OUTCOMES;
    if (has(set, hash) || set->count == OUTCOMES / 2)
        return;
    while (set->slots[at]) /* ends: half of it is free */
        at = (at + 1) % OUTCOMES;
    set->slots[at] = hash;
    set->count++;
}

/* Called for every run; those that the search broke off have not come out in any way. */
static int one_run(void *arg)
{
    (void)arg;
    memset(speakers, 0, sizeof(speakers));
    kin_ignore(kin_run(NULL, play, NULL));
    if (kin__world.is_closed && !kin__world.is_killed)
        return 0;
    uint64_t hash = kin__world.is_killed; /* a deadlock */
    for (unsigned i = 0; i < sizeof(speakers) / sizeof(speakers[0]); i++)
        for (unsigned k = 0; k < speakers[i].count; k++)
            hash = kin__hash_u64(hash ^ ((uint64_t)(i + 1) << 40 ^ (uint64_t)(k + 1) << 33 ^
                                         (uint32_t)speakers[i].told[k]));
    add(now, hash | 1);
    return 0;
}

/* Explores the program; whether nothing is left. */
static bool explore(enum kin_lab_strategy strategy, enum kin__strategy other, unsigned bound,
                    uint64_t runs, struct outcomes *set)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    config.strategy = strategy;
    config.executions_max = runs;
    config.preemptions = bound;
    config.seed = 7;
    config.oracles = KIN_ORACLE_DEADLOCK;
    config.faults = faults;
    memset(&kin__lab_wish, 0, sizeof(kin__lab_wish));
    kin__lab_wish.other = other;
    kin__lab_wish.keeps_going = true;
    now = set;
    kin_ignore(kin_lab_run_host(&config, one_run, NULL, &report));
    const struct kin__engine_result *result = &kin__lab_wish.result;
    EXPECT(!result->has_diverged);
    return result->is_exhausted;
}

static struct {
    unsigned programs, left, outcomes;
} sums;

static unsigned missed(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < OUTCOMES; i++)
        count += seen[0].slots[i] && !has(&seen[1], seen[0].slots[i]);
    return count;
}

/* How many ways to come out DPOR does not find; it must be able to find all. */
static unsigned compare(unsigned bound)
{
    memset(seen, 0, sizeof(seen));
    if (!explore(KIN_LAB_DPOR, KIN__STRATEGY_AUTO, bound, DPOR_RUNS, &seen[1]))
        return UINT_MAX;
    (void)explore(KIN_LAB_DPOR, KIN__STRATEGY_DFS, bound, PLAIN_RUNS, &seen[0]);
    if (!bound)
        (void)explore(KIN_LAB_RANDOM, KIN__STRATEGY_AUTO, 0, RANDOM_RUNS, &seen[0]);
    return missed();
}

static bool is_missing(unsigned bound)
{
    const unsigned count = compare(bound);
    return count && count != UINT_MAX;
}

/* Takes out of the program what it does not need in order to fail. */
static void shrink(unsigned bound)
{
    for (unsigned i = 0; i < SCRIPTS; i++) {
        struct script *script = &program.scripts[i];
        for (unsigned k = 0; k < script->count;) { /* ends: one operation fewer, or passed */
            const struct script before = *script;
            memmove(&script->ops[k], &script->ops[k + 1], (OPS - k - 1) * sizeof(struct op));
            script->count--;
            if (is_missing(bound))
                continue;
            *script = before;
            k++;
        }
    }
    while (program.tasks > 1 && program.scripts[program.tasks - 1].count == 0) /* ends: so */
        program.tasks--;
}

static void try_program(unsigned bound)
{
    const unsigned count = compare(bound);
    sums.programs++;
    sums.left += count == UINT_MAX;
    sums.outcomes += seen[1].count;
    if (count == 0 || count == UINT_MAX)
        return;
    shrink(bound);
    printf("DPOR comes out in %u ways, and others in %u besides\n", seen[1].count,
           compare(bound));
    print_program();
    EXPECT_EQ(count, 0);
}

/* So many programs that do these things. */
static void try_many(unsigned things, unsigned bound)
{
    const char *wish = getenv("KIN_LAB_PROGRAMS");
    const unsigned count = wish ? (unsigned)strtoul(wish, NULL, 10) : PROGRAMS / kin_test_scale();
    const uint64_t seed = kin_test_seed();
    features = things;
    for (unsigned i = 0; i <= count; i++) {
        struct kin__rng rng;
        kin__rng_init(&rng, seed, i);
        make_program(&rng);
        try_program(bound);
    }
    printf("%u programs, %u of them too large, come out in %u ways\n", sums.programs, sums.left,
           sums.outcomes);
}

/* Programs that came out in ways which DPOR did not see, and why. */
static const struct {
    const char *why;
    unsigned features;
    uint32_t faults;
    struct program program;
} once_missed[] = {
    {"whom a yield waits for hangs on where it stands among all other steps",
     WORDS | YIELDS, 0,
     {2, {0, 0}, {{1, {{ADD, 1, 0, 0}}}, {2, {{YIELD, 0, 0, 0}, {GET, 1, 0, 0}}}}}},
    {"a call on a file looks whether its task is cancelled",
     FILES | CANCEL | SIGNS, 0,
     {2, {0, 0},
      {{3, {{EVENT_SET, 0, 0, 0}, {FILE_RENAME, 0, 9, 0}, {ACQUIRE, 1, 9, 0}}},
       {1, {{FAIL, 0, 0, 0}}}}}},
    {"a deadline that is due may be taken back",
     COMBINES | CHANNELS | TIME, 0,
     {2, {2, 0},
      {{1, {{TIMEOUT, 0, 9, 3}}},
       {2, {{DEADLINE, 1, 9, 0}, {TIMEOUT, 0, 9, 2}}},
       {1, {{LEN, 0, 0, 0}}},
       {2, {{SLEEP, 1, 9, 0}, {SEND, 0, 0, 0}}}}}},
    {"any deadline lets the clock go on where time may pass",
     TIME, KIN_FAULT_DELAY,
     {2, {0, 0}, {{2, {{NOW, 0, 0, 0}, {SLEEP, 0, 9, 0}}}, {1, {{DEADLINE, 1, 9, 0}}}}}},
    {"what passing time brings might have come before what others do",
     TIME | CHANNELS, KIN_FAULT_DELAY,
     {2, {0, 2}, {{1, {{SEND, 0, 0, 0}}}, {2, {{SLEEP, 0, 9, 0}, {CLOSE, 0, 0, 0}}}}}},
    {"where a step's own new memory lies is nobody's business",
     ROOM | CHANNELS, 0,
     {3, {1, 1},
      {{0, {{0, 0, 0, 0}}},
       {1, {{ONE_BY_ONE, 0, 9, 3}}},
       {1, {{ONE_BY_ONE, 0, 0, 3}}},
       {2, {{SEND, 1, 0, 0}, {RECV, 1, 9, 0}}}}}},
    {"the second of two shutdowns finds another socket than the first",
     SOCKETS, 0,
     {2, {0, 0}, {{1, {{STOP_LISTENING, 0, 9, 0}}}, {1, {{STOP_LISTENING, 1, 9, 0}}}}}},
    {"who waits last until all others wait goes first",
     LAB | WORDS, 0,
     {2, {0, 0},
      {{2, {{ALL_BLOCKED, 0, 0, 0}, {ADD, 0, 0, 0}}},
       {2, {{ALL_BLOCKED, 0, 0, 0}, {ADD, 0, 0, 0}}}}}},
};

KIN_TEST(programs_that_were_missed_once, "")
{
    for (unsigned i = 0; i < sizeof(once_missed) / sizeof(once_missed[0]); i++) {
        features = once_missed[i].features;
        faults = once_missed[i].faults;
        program = once_missed[i].program;
        const unsigned count = compare(0);
        if (count)
            printf("%s\n", once_missed[i].why);
        EXPECT_EQ(count, 0);
        EXPECT_GT(seen[1].count, 1);
    }
}

#define KIND(name, things)                                                                         \
    KIN_TEST_LIMIT(name, "", 3600)                                                                 \
    {                                                                                              \
        try_many((things), 0);                                                                     \
    }
KIND(plain_words, WORDS)
KIND(channels_and_words, CHANNELS | WORDS)
KIND(channels_and_selects, CHANNELS | SELECTS)
KIND(locks_and_words, LOCKS | WORDS)
KIND(conditions_and_locks, CONDITIONS | LOCKS)
KIND(semaphores_events_and_the_like, SIGNS | WORDS)
KIND(sleeps_and_events, TIME | SIGNS | WORDS)
KIND(deadlines_of_channels, TIME | CHANNELS)
KIND(cancelled_channels, CANCEL | CHANNELS)
KIND(cancelled_locks, CANCEL | LOCKS | CONDITIONS)
KIND(nurseries_in_nurseries, NESTS | CHANNELS | WORDS)
KIND(cancelled_nurseries, NESTS | CANCEL | SIGNS)
KIND(nurseries_with_deadlines, NESTS | TIME | SIGNS)
KIND(nurseries_with_little_room, ROOM | CHANNELS | CANCEL)
KIND(races_and_timeouts, COMBINES | CHANNELS | TIME)
KIND(yields_and_loops_of_them, YIELDS | WORDS | CHANNELS)
KIND(streams_and_queues, STREAMS | WORDS)
KIND(both_ends_of_a_socket, PIPES | WORDS)
KIND(connections_and_datagrams, SOCKETS | CANCEL)
KIND(files_and_names, FILES | CANCEL)
KIND(signals, RAISES | CANCEL)
KIND(calls_of_the_lab, LAB | CHANNELS | TIME)
KIND(everything_at_once, ~0u)

KIN_TEST_LIMIT(bounded_searches_miss_nothing_within_their_bound, "", 3600)
{
    try_many(CHANNELS | SELECTS | LOCKS | NESTS, 1);
    try_many(CHANNELS | SIGNS | CANCEL, 2);
}

KIN_TEST_LIMIT(faults_in_every_place, "", 3600)
{
    static const uint32_t each[] = {KIN_FAULT_OOM, KIN_FAULT_CANCEL, KIN_FAULT_DEADLINE,
                                    KIN_FAULT_DELAY, KIN_FAULT_NET | KIN_FAULT_FILE};
    for (unsigned i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
        faults = each[i];
        try_many(each[i] & KIN_FAULT_NET ? PIPES | FILES : CHANNELS | TIME | LOCKS, 0);
    }
}
