/* SPDX-License-Identifier: MIT */
/*
 * Executions, the set of those who can go on, time; and how an execution is brought to its end.
 *
 * A step begins when the engine has picked somebody and ends at the next point. Nobody enabled:
 * those who wait for just that are woken; else time jumps to the next deadline, and the clock fires
 * what is due, one at a time, while those who were woken by it can go on already; else nobody will
 * ever go on, and an oracle says why.
 *
 * Time never passes while anybody can go on: a loop that only looks, again and again, is a
 * livelock, not a reason to move the clock.
 *
 * An execution whose outcome stands is closed: everybody goes on by turns, off the record. If the
 * engine has seen enough of it, that is all, because the program is not to notice. If it failed, or
 * does not come to an end, everybody is killed (KIN__KILL of task/word.h). If that does not end it
 * either, what is left stays where it is; the next execution uses its memory.
 */
#include "lab/world.h"

#include "base/text.h"
#include "lab/fds.h"
#include "lab/history.h"
#include "lab/net.h"
#include "lab/oracle.h"
#include "lab/stop.h"
#include "park/park.h"
#include "scope/scope.h"
#include "wait/owner.h"
#include "wait/timer.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define CLOSE_STEPS 250000u     /* after which a closed execution is killed */
#define KILL_STEPS 20000u       /* after which a killed one is given up, */
#define KILL_STEPS_EACH 64u     /* and so many for each task */
#define ORACLE_STEPS 1024u      /* between two looks at progress; a power of two */
#define WALKERS 0x80000000u     /* numbers of walkers among what one player has made */
#define LONG_PATHS ((size_t)16 * 1024 * 1024)

struct kin__world kin__world = {.current = KIN__WORLD_NOBODY};
struct kin__lab_gate kin__lab_gate;

static char *long_paths;        /* of this execution; reserved once */
static size_t long_paths_used;
static uint32_t versions;       /* of paths, ever */
static uint32_t known;          /* players whose path is that of an earlier execution */
static uint32_t old_next;       /* where to look for the place of one that is over */

/* ---- what is kept ---- */

int kin__world_init(void)
{
    struct kin__world *w = &kin__world;
    if (w->players)
        return 0;
    struct kin__player *players = kin__vm_reserve(KIN__WORLD_ACTORS * sizeof(*players));
    uint16_t *enabled = kin__vm_reserve((KIN__WORLD_ACTORS + 1) * sizeof(*enabled));
    long_paths = kin__vm_reserve(LONG_PATHS);
    if (!players || !enabled || !long_paths)
        return -ENOMEM;
    w->players = players;
    w->enabled = enabled;
    w->workers = 2;
    w->oracles = UINT32_MAX;
    w->time_max = KIN_NEVER;
    return 0;
}

/* ---- names ---- */

/* Where the path of a player goes; never NULL. */
static char *room_for(struct kin__player *player, size_t bytes)
{
    if (bytes <= sizeof(player->near))
        return player->near;
    if (bytes > LONG_PATHS - long_paths_used)
        long_paths_used = 0; /* names repeat themselves rather than nothing */
    char *room = long_paths + long_paths_used;
    long_paths_used += bytes;
    return room;
}

/* Names a player: the parent's path and a number, or a word where it has no parent. In most
 * executions the same players come in the same order, and have their names already. */
static void name_player(uint32_t index, uint32_t parent, uint32_t number, const char *word)
{
    struct kin__world *w = &kin__world;
    struct kin__player *player = &w->players[index];
    const struct kin__player *of = parent == KIN__WORLD_NOBODY ? NULL : &w->players[parent];
    uint32_t version = of ? of->version : 0;
    if (index < known && player->parent == parent && player->number == number &&
        player->parent_version == version)
        return;
    char memory[32];
    struct kin__text tail;
    kin__text_init(&tail, memory, sizeof(memory));
    if (of && number >= WALKERS)
        kin__text_printf(&tail, number > WALKERS ? "/cancel.%u" : "/cancel", number - WALKERS);
    else if (of)
        kin__text_printf(&tail, "/%u", number);
    else if (number)
        kin__text_printf(&tail, "%s.%u", word, number);
    else
        kin__text_str(&tail, word);
    size_t before = of ? of->path_len : 0;
    char *path = room_for(player, before + tail.len + 1);
    if (before)
        memcpy(path, of->path, before);
    memcpy(path + before, memory, tail.len + 1);
    player->path = path;
    player->path_len = (uint32_t)(before + tail.len);
    player->parent = parent;
    player->number = number;
    player->parent_version = version;
    player->version = ++versions;
    if (path != player->near && known > index)
        known = index; /* it lives for this execution only */
    else if (path == player->near && known == index)
        known = index + 1;
}

/* The place of one that is over, for executions in which names do not count. */
static uint32_t old_place(void)
{
    struct kin__world *w = &kin__world;
    if (w->engine && !w->is_closed)
        kin__world_fail("lab", -E2BIG, "", "more tasks than one execution can have");
    for (uint32_t i = 1; i < w->player_count; i++) {
        old_next = old_next + 1 < w->player_count ? old_next + 1 : 1;
        if (!w->players[old_next].task && kin__walk_is_over(&w->players[old_next].walk))
            return old_next;
    }
    KIN__CHECK(false, "house: the lab has room for 65534 tasks at once");
    return 0;
}

static uint32_t new_player(struct kin__task *task, uint32_t parent, uint32_t number,
                           const char *word)
{
    struct kin__world *w = &kin__world;
    bool is_new = w->player_count < KIN__WORLD_ACTORS;
    uint32_t index = is_new ? w->player_count++ : old_place();
    struct kin__player *player = &w->players[index];
    name_player(index, parent, number, word);
    player->task = task;
    player->walk.inner = player->walk.list = NULL;
    player->walk.left = 0;
    player->place = KIN__WORLD_NOBODY;
    player->ran = player->since = player->switches = player->asked = 0;
    player->spawned = player->walkers = player->blocks = player->fds = 0;
    player->host = parent == KIN__WORLD_NOBODY ? 0 : w->players[parent].host;
    player->case_count = player->newest = 0;
    player->how.task = 0;
    player->is_woken = false;
    if (w->engine && is_new)
        (void)kin__engine_actor(w->engine, player->path);
    return index;
}

/* ---- executions ---- */

void kin__world_begin(struct kin__engine *engine)
{
    struct kin__world *w = &kin__world;
    w->engine = engine;
    w->player_count = w->enabled_count = 0;
    w->live = w->roots = 0;
    w->leaker = KIN__WORLD_NOBODY;
    w->current = KIN__WORLD_NOBODY;
    w->steps = w->arrivals = w->idle = w->closed_at = 0;
    w->looks = w->made_count = 0;
    w->now = KIN__WORLD_START;
    w->is_closed = w->is_killed = w->is_lost = w->has_paid = false;
    kin__list_init(&w->watchers);
    long_paths_used = 0;
    kin__lab_gate.touched = 0;
    kin__lab_heap_begin();
    kin__lab_frames_begin();
    kin__lab_stacks_begin();
    kin__lab_faults_begin();
    kin__lab_files_begin();
    kin__history_begin();
    kin__lifo_begin();
    kin__oracle_otp_begin();
    kin__sims_begin();
    kin__owner_forget();
    w->is_on = true;
    if (engine && kin__engine_is_recorded(engine)) {
        kin__record_begin(engine);
        kin__lab_gate.notes = 1;
    }
    kin__lab_gate.notes |= w->faults != 0; /* any door may be where something goes wrong */
    (void)new_player(NULL, KIN__WORLD_NOBODY, 0, "clock");
}

void kin__world_end(void)
{
    struct kin__world *w = &kin__world;
    kin__oracle_end();
    kin__sims_end(kin__world_looks(KIN_ORACLE_LEAK));
    kin__net_end();
    kin__lab_heap_end(kin__world_looks(KIN_ORACLE_LEAK));
    kin__record_end();
    kin__lab_gate.notes = 0;
    w->is_on = false;
    w->engine = NULL;
    kin__lab_gate.touched = 0;
}

void kin__world_fail(const char *oracle, int status, const char *where, const char *text)
{
    struct kin__world *w = &kin__world;
    if (w->is_closed)
        return;
    kin__record(w->current, KIN__NOTE_FAIL, KIN__NOTE_NOBODY, where, text);
    if (w->engine)
        kin__engine_fail(w->engine, oracle, status, where, text);
    kin__world_kill();
}

void kin__world_failf(const char *oracle, int status, const char *where, const char *format, ...)
{
    char memory[512];
    struct kin__text text;
    va_list values;
    kin__text_init(&text, memory, sizeof(memory));
    va_start(values, format);
    kin__text_format(&text, format, values);
    va_end(values);
    kin__world_fail(oracle, status, where, memory);
}

/* ---- the set ---- */

static void kill_one(struct kin__task *task)
{
    kin__park_request(task, KIN__CANCEL | KIN__KILL);
}

void kin__world_add(struct kin__task *task)
{
    struct kin__world *w = &kin__world;
    uint32_t index;
    if (w->live == 0 && w->current == KIN__WORLD_NOBODY) {
        index = new_player(task, KIN__WORLD_NOBODY, w->roots, "root");
        w->roots++;
    } else {
        uint32_t parent = w->current == KIN__WORLD_NOBODY ? KIN__CLOCK : w->current;
        index = new_player(task, parent, w->players[parent].spawned, "");
        w->players[parent].spawned++;
        kin__record(parent, KIN__NOTE_SPAWN, index,
                    NULL, task->flags & KIN__TASK_NAMED ? task->name : NULL);
    }
    w->players[index].task = task;
    w->players[index].is_woken = true;
    task->batch_count = index;
    w->live++;
    kin__world_enable(index);
    if (w->is_killed)
        kill_one(task);
}

void kin__world_remove(struct kin__task *task)
{
    struct kin__world *w = &kin__world;
    uint32_t index = kin__player_of(task);
    if (w->players[index].newest)
        kin__lifo_over(&w->players[index]);
    w->players[index].task = NULL;
    w->live--;
    kin__world_disable(index);
}

/* ---- walkers ---- */

/* Whether there is a child behind the cursor. */
static bool has_more(const struct kin__scope *scope)
{
    return kin__list_is_linked(&scope->cursor) ? scope->cursor.next != &scope->children
                                               : !kin__list_is_empty(&scope->children);
}

bool kin__world_walk_tells(const struct kin__walk *walk)
{
    if (walk->inner)
        return true;
    return walk->list ? has_more(walk->list) : !kin__list_is_empty(&walk->overdue->children);
}

void kin__world_walk(const struct kin__walk *walk)
{
    struct kin__world *w = &kin__world;
    uint32_t number = WALKERS + w->players[w->current].walkers++;
    uint32_t index = new_player(NULL, w->current, number, "");
    KIN__ASSERT(!walk->stuck, "house"); /* that is on the stack of a task */
    w->players[index].walk = *walk;
    kin__world_enable(index);
}

/* A step of a walker. */
static __attribute__((noinline)) void walk_one(uint32_t index)
{
    struct kin__world *w = &kin__world;
    struct kin__worker *worker = w->worker;
    struct kin__task *task = kin__worker_current(worker);
    struct kin__walk *walk = &w->players[index].walk;
    w->current = index;
    kin__worker_set_current(worker, NULL);
    do /* ends: every scope is cancelled once */
        kin__walk_step(walk);
    while (!kin__walk_is_over(walk) && !kin__world_walk_tells(walk));
    if (kin__walk_is_over(walk))
        kin__world_disable(index);
    kin__worker_set_current(worker, task);
    w->current = KIN__WORLD_NOBODY;
}

/* ---- ends ---- */

void kin__world_close(void)
{
    struct kin__world *w = &kin__world;
    if (w->is_closed)
        return;
    w->is_closed = true;
    w->closed_at = w->steps;
    w->is_search = false;
    kin__lab_gate.records = kin__lab_gate.notes = 0;
    kin__record_end();
}

void kin__world_kill(void)
{
    struct kin__world *w = &kin__world;
    kin__world_close();
    if (w->is_killed)
        return;
    w->is_killed = true;
    w->closed_at = w->steps;
    for (uint32_t i = 0; w->is_running && i < w->player_count; i++) {
        if (w->players[i].task)
            kill_one(w->players[i].task);
    }
}

/* ---- what a step touches ---- */

void kin__world_made(const void *what, size_t bytes)
{
    struct kin__world *w = &kin__world;
    const uintptr_t begin = (uintptr_t)what;
    for (uint32_t i = 0; i < w->made_count; i++) {
        if (w->made[i].end == begin) {
            w->made[i].end += bytes;
            return;
        }
    }
    if (w->made_count < KIN__WORLD_MADE)
        w->made[w->made_count++] = (struct kin__made){begin, begin + bytes};
}

/* records is set only while a runtime is under way that an engine watches. */
void kin__lab_touch_slow(uintptr_t what, unsigned mode)
{
    const struct kin__world *w = &kin__world;
    for (uint32_t i = 0; i < w->made_count; i++) {
        if (what - w->made[i].begin < w->made[i].end - w->made[i].begin)
            return;
    }
    kin__engine_touch(w->engine, what, (enum kin__touch)mode);
}

/* ---- time ---- */

static int64_t next_deadline(void)
{
    /* alone: there is one thread */
    return kin__load_relaxed(&kin__world.worker->next_deadline);
}

static bool is_clock_due(void)
{
    return next_deadline() <= kin__world.now;
}

static void set_now(int64_t now)
{
    kin__world.now = now;
    kin__world.worker->now = now;
}

/* Fires one deadline that is due, as the clock. */
static __attribute__((noinline)) void fire_one(void)
{
    struct kin__world *w = &kin__world;
    struct kin__worker *worker = w->worker;
    struct kin__task *task = kin__worker_current(worker);
    w->current = KIN__CLOCK;
    kin__worker_set_current(worker, NULL);
    (void)worker->sched->source->poll(worker, w->now);
    kin__worker_set_current(worker, task);
    w->current = KIN__WORLD_NOBODY;
}

/* Whether time may pass though somebody can go on. Each step of the clock is a barrier then: what
 * it does might have come earlier. */
static bool may_be_late(void)
{
    return KIN__UNLIKELY(kin__world.faults & KIN_FAULT_DELAY) && kin__lab_fault_delays();
}

/* Any one of the deadlines lets the clock go on then: whoever adds one depends on the others. */
void kin__lab_armed(void)
{
    if (may_be_late())
        kin__lab_touch(&kin__world.worker->next_deadline, KIN__LAB_WRITE);
}

/* Time moves; nobody is in the middle of a step. */
static void jump(int64_t when)
{
    struct kin__world *w = &kin__world;
    set_now(when);
    if (w->engine && !w->is_closed && !(may_be_late() && is_clock_due()))
        kin__engine_idle(w->engine);
    kin__record(KIN__NOTE_NOBODY, KIN__NOTE_TIME, KIN__NOTE_NOBODY, NULL, NULL);
    if (when - KIN__WORLD_START > w->time_max)
        kin__world_fail("livelock", KIN_STUCK, "", "virtual time is used up: time_max");
    if (KIN__UNLIKELY(w->faults & KIN_FAULT_CHAOS))
        kin__oracle_chaos();
}

void kin__world_advance(int64_t when)
{
    struct kin__world *w = &kin__world;
    uint32_t current = w->current;
    if (w->engine && !w->is_closed)
        kin__engine_barrier(w->engine);
    while (next_deadline() <= when) { /* ends: each time one deadline fewer is left before when */
        if (next_deadline() > w->now)
            set_now(next_deadline());
        fire_one();
    }
    if (when > w->now)
        set_now(when);
    w->current = current;
}

/* ---- the next step ---- */

/* Somebody waits until everybody else does: now. */
static bool wake_watcher(void)
{
    struct kin__world *w = &kin__world;
    struct kin__list *link = kin__list_pop_front(&w->watchers);
    if (!link)
        return false;
    struct kin__waiter *waiter = KIN__CONTAINER_OF(link, struct kin__waiter, link);
    if (w->engine && !w->is_closed)
        kin__engine_idle(w->engine);
    (void)kin__wake(waiter, 0);
    return true;
}

/* Nobody can go on now. False: nobody ever will. */
static __attribute__((noinline)) bool move_on(void)
{
    struct kin__world *w = &kin__world;
    if (!w->is_closed)
        kin__oracle_idle();
    if (w->enabled_count || wake_watcher())
        return true;
    if (next_deadline() != KIN_NEVER) {
        if (next_deadline() > w->now)
            jump(next_deadline());
        return true;
    }
    if (w->is_killed) {
        w->is_lost = true;
        return false;
    }
    if (!w->is_closed)
        kin__oracle_stuck();
    kin__world_kill();
    return true; /* everybody was woken */
}

/* By turns: who has waited longest. */
static uint32_t pick_oldest(uint32_t count)
{
    const struct kin__world *w = &kin__world;
    uint32_t best = w->enabled[0];
    for (uint32_t i = 1; i < count; i++) {
        if (w->players[w->enabled[i]].ran < w->players[best].ran)
            best = w->enabled[i];
    }
    return best;
}

/* One of the first so many enabled. */
static inline uint32_t pick_among(uint32_t count)
{
    struct kin__world *w = &kin__world;
    struct kin__engine *engine = w->engine;
    if (KIN__UNLIKELY(!engine || w->is_closed))
        return pick_oldest(count);
    if (!w->has_moved)
        kin__engine_same(engine);
    w->has_moved = false;
    uint32_t index = kin__engine_pick(engine, w->enabled, count);
    if (KIN__UNLIKELY(kin__engine_is_over(engine))) {
        kin__world_close();
        return pick_oldest(count);
    }
    /* most of a run repeats what is known, and a plain search never asks */
    kin__lab_gate.records = w->is_search && engine->collects;
    return index;
}

/* One of the enabled, and the clock if something is due. There is one at least. */
static __attribute__((noinline)) uint32_t pick_slow(void)
{
    struct kin__world *w = &kin__world;
    uint32_t count = w->enabled_count;
    bool is_due = is_clock_due();
    bool may_come = may_be_late();
    bool is_late = may_come && !is_due && count && next_deadline() != KIN_NEVER;
    if (is_due || is_late)
        w->enabled[count++] = KIN__CLOCK;
    w->has_moved = true;
    uint32_t index = pick_among(count);
    w->has_moved = true; /* for the pick without the clock that comes next */
    if (index == KIN__CLOCK && may_come && !w->is_closed && w->engine)
        kin__engine_barrier(w->engine);
    if (index == KIN__CLOCK && is_late) {
        set_now(next_deadline());
        kin__lab_fault_delayed();
    }
    return index;
}

/* The same. Most often no deadline is due, and time is not late on purpose. */
static inline uint32_t pick(void)
{
    if (KIN__UNLIKELY(is_clock_due() || (kin__world.faults & KIN_FAULT_DELAY)))
        return pick_slow();
    return pick_among(kin__world.enabled_count);
}

/* Of a closed execution. */
static __attribute__((noinline)) bool is_given_up(void)
{
    struct kin__world *w = &kin__world;
    uint64_t patience = w->is_killed ? KILL_STEPS + (uint64_t)KILL_STEPS_EACH * w->player_count
                                     : CLOSE_STEPS;
    if (w->steps - w->closed_at > patience) {
        w->is_lost = w->is_killed;
        kin__world_kill();
    }
    return w->is_lost;
}

/* Now and then: whether it goes on, and whether it is to. */
static __attribute__((noinline)) void look_up(void)
{
    struct kin__world *w = &kin__world;
    if (w->is_closed)
        return;
    if (w->engine && kin__engine_is_stopped(w->engine))
        kin__world_kill();
    else if (w->steps % ORACLE_STEPS == 0)
        kin__oracle_step();
}

struct kin__player *kin__world_next(void)
{
    struct kin__world *w = &kin__world;
    for (;;) { /* ends: the runtime does, or steps_max and CLOSE_STEPS end it */
        /* alone: there is one thread */
        if (KIN__UNLIKELY(kin__load_relaxed(&w->sched->is_stopping)) ||
            (KIN__UNLIKELY(w->is_closed) && is_given_up()))
            return NULL;
        bool has_changed = kin__lab_gate.touched & (KIN__LAB_WRITE | KIN__LAB_ADD);
        w->idle = has_changed ? 0 : w->idle + 1;
        if (KIN__UNLIKELY(w->steps % ORACLE_STEPS == 0 || kin__stop_signal != 0))
            look_up();
        if (KIN__UNLIKELY(w->has_paid))
            kin__oracle_accounts();
        if (KIN__UNLIKELY(w->enabled_count == 0) && !is_clock_due()) {
            if (!move_on())
                return NULL;
            continue;
        }
        uint32_t index = pick();
        struct kin__player *player = &w->players[index];
        player->ran = ++w->steps;
        kin__lab_gate.touched = 0;
        w->looks = w->made_count = 0;
        if (KIN__LIKELY(player->task != NULL)) {
            w->current = index;
            return player;
        }
        if (index == KIN__CLOCK)
            fire_one();
        else
            walk_one(index);
    }
}
