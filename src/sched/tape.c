/* SPDX-License-Identifier: MIT */
/*
 * Writing a tape: when there is one, and what is noted.
 */
#include "sched/tape.h"

#include "base/bits.h"
#include "plat/plat.h"
#include "sched/sched.h"

#include <errno.h>
#include <string.h>

#define RING_BYTES ((uint64_t)64 * 1024) /* unless KIN_RECORD_BYTES says otherwise, */
#define RING_BYTES_MIN UINT64_C(1024)    /* within these */
#define RING_BYTES_MAX (UINT64_C(64) << 20)
#define LIVES_MIN 1024u
#define LIVES_MAX (1u << 20)

/* ---- entries ---- */

static uint64_t now_of(const struct kin__tape *tape)
{
    return (uint64_t)(kin__clock_now() - tape->began) >> KIN__TAPE_UNIT_SHIFT;
}

static void put(const struct kin__tape *tape, struct kin__tape_ring *ring, uint64_t head,
                uint64_t who)
{
    uint64_t count = kin__load_relaxed(&ring->count); /* alone: the owner's own */
    struct kin__tape_entry *entry = &ring->entries[count & (tape->size - 1)];
    kin__store_release(&entry->head, head); /* pairs with the loads in kin__tape_read */
    kin__store_release(&entry->who, who);   /* pairs as above */
    kin__store_release(&ring->count, count + 1); /* pairs with the loads in tape_dump.c */
}

static void note_at(const struct kin__tape *tape, struct kin__tape_ring *ring, uint64_t now,
                    const struct kin__tape_note *note)
{
    uint64_t epoch = now >> KIN__TAPE_TIME_BITS;
    uint64_t before = kin__load_relaxed(&ring->last) >> KIN__TAPE_TIME_BITS; /* alone: its own */
    uint64_t head = now << (64 - KIN__TAPE_TIME_BITS);
    if (KIN__UNLIKELY(epoch != before))
        put(tape, ring, head | KIN__TAPE_CLOCK << 16 | (before & 0xffff), epoch);
    kin__store_relaxed(&ring->last, now); /* relaxed: a dump wants its upper bits only */
    put(tape, ring, head | (uint64_t)note->kind << 16 | note->argument,
        (uint64_t)note->task << 32 | note->other);
}

static void note(const struct kin__tape *tape, struct kin__tape_ring *ring,
                 enum kin__tape_kind kind, uint32_t task, uint32_t other)
{
    note_at(tape, ring, now_of(tape),
            &(struct kin__tape_note){.kind = kind, .task = task, .other = other});
}

static struct kin__tape_ring *ring_of(const struct kin__worker *worker)
{
    return &worker->sched->tape->rings[worker->index];
}

static uint32_t low_of(const struct kin__task *task)
{
    return task ? (uint32_t)kin__task_id(task) : 0;
}

/* As much of a status as an argument holds. */
static uint16_t cut(int32_t status)
{
    return (uint16_t)(status > INT16_MAX ? INT16_MAX : status < INT16_MIN ? INT16_MIN : status);
}

/* ---- what is noted ---- */

/* Where the calling thread notes something of a runtime: on its own worker's ring, or on the last
 * one, for which the lock is needed; it is taken, too, if the caller wants it. */
static struct kin__tape_ring *enter(struct kin__sched *sched, bool *is_locked)
{
    const struct kin__worker *self = kin__worker_self();
    struct kin__tape *tape = sched->tape;
    bool is_ours = self && self->sched == sched;
    *is_locked = *is_locked || !is_ours;
    if (*is_locked)
        kin__lock_take(&tape->lock, KIN__RANK_LEAF);
    return is_ours ? ring_of(self) : &tape->rings[tape->ring_count - 1];
}

static void leave(struct kin__sched *sched, bool is_locked)
{
    if (is_locked)
        kin__lock_give(&sched->tape->lock, KIN__RANK_LEAF);
}

/* Who does what is noted on this ring: the running task, unless time or something outside does. */
static const struct kin__task *actor(const struct kin__sched *sched,
                                     const struct kin__tape_ring *ring)
{
    struct kin__worker *self = kin__worker_self();
    bool is_task = self && self->sched == sched && ring->cause == KIN__TAPE_WAKE;
    return is_task ? kin__worker_current(self) : NULL;
}

/* A task that somebody woke; its wait has been answered. */
static void note_woken(const struct kin__tape *tape, struct kin__tape_ring *ring,
                       const struct kin__task *task, const struct kin__task *by)
{
    struct kin__tape_note woken = {.kind = ring->cause, .argument = cut(task->wait_status),
                                   .task = low_of(task), .other = low_of(by)};
    if (task->wait_case == UINT32_MAX && task->wait_status == KIN_CANCELLED)
        woken.kind = KIN__TAPE_CANCEL;
    else if (ring->cause != KIN__TAPE_WAKE)
        woken.other = (uint32_t)task->wait_status;
    note_at(tape, ring, now_of(tape), &woken);
}

static void note_spawned_locked(struct kin__tape *tape, struct kin__tape_ring *ring,
                                const struct kin__task *task, const struct kin__task *by)
{
    uint64_t now = now_of(tape);
    kin__lives_begin_locked(&tape->lives, task, by ? kin__task_id(by) : 0, now);
    note_at(tape, ring, now, &(struct kin__tape_note){.kind = KIN__TAPE_SPAWN,
                                                      .task = low_of(task), .other = low_of(by)});
}

void kin__tape_pushed(struct kin__sched *sched, const struct kin__task *task, bool is_late)
{
    bool is_new = !task->stack && !kin__task_rests(task);
    bool is_locked = is_new; /* it gets a life */
    struct kin__tape_ring *ring = enter(sched, &is_locked);
    const struct kin__task *by = is_late ? NULL : actor(sched, ring);
    if (!is_new)
        note_woken(sched->tape, ring, task, by);
    else
        note_spawned_locked(sched->tape, ring, task, by);
    leave(sched, is_locked);
}

void kin__tape_asked(struct kin__sched *sched, const struct kin__task *task)
{
    bool is_locked = false;
    struct kin__tape_ring *ring = enter(sched, &is_locked);
    note(sched->tape, ring, KIN__TAPE_ASK, low_of(task), low_of(actor(sched, ring)));
    leave(sched, is_locked);
}

void kin__tape_drew(struct kin__worker *worker, uint32_t n, uint32_t which)
{
    const struct kin__tape *tape = worker->sched->tape;
    struct kin__tape_note drawn = {.kind = KIN__TAPE_CASE, .argument = (uint16_t)which,
                                   .task = low_of(kin__worker_current(worker)), .other = n};
    note_at(tape, ring_of(worker), now_of(tape), &drawn);
}

void kin__tape_parked(struct kin__worker *worker, const struct kin__task *task)
{
    const char *what = kin__load_relaxed(&task->waiting); /* alone: the worker's own task */
    /* a constant of this library, as the words it is counted from */
    note(worker->sched->tape, ring_of(worker), KIN__TAPE_PARK, low_of(task),
         (uint32_t)((uintptr_t)what - (uintptr_t)kin__tape_words));
}

/* Whoever runs on the worker leaves its stack, or lends it. */
static void note_left(struct kin__worker *worker, bool is_lent)
{
    struct kin__tape_ring *ring = ring_of(worker);
    const struct kin__task *task = kin__worker_current(worker);
    if (!task || task == ring->over)
        return;
    if (kin__load_relaxed(&task->waiting)) /* alone: the worker's own task */
        kin__tape_parked(worker, task);
    else
        note(worker->sched->tape, ring, is_lent ? KIN__TAPE_LEND : KIN__TAPE_YIELD, low_of(task),
             0);
}

void kin__tape_picked(struct kin__worker *worker, const struct kin__task *task, bool is_lent)
{
    struct kin__tape_ring *ring = ring_of(worker);
    note_left(worker, is_lent);
    ring->over = NULL;
    note(worker->sched->tape, ring, KIN__TAPE_RUN, low_of(task), 0);
}

void kin__tape_stole(struct kin__worker *worker, const struct kin__worker *victim,
                     const struct kin__task *task, uint32_t count)
{
    const struct kin__tape *tape = worker->sched->tape;
    struct kin__tape_note stolen = {.kind = KIN__TAPE_STEAL, .argument = victim->index,
                                    .task = low_of(task), .other = count};
    note_at(tape, ring_of(worker), now_of(tape), &stolen);
    kin__tape_picked(worker, task, false);
}

void kin__tape_sleeps(struct kin__worker *worker, bool is_asleep)
{
    note(worker->sched->tape, ring_of(worker), is_asleep ? KIN__TAPE_SLEEP : KIN__TAPE_AWAKE, 0, 0);
}

void kin__tape_report(struct kin__sched *sched, int status, uint64_t task)
{
    struct kin__tape *tape = sched->tape;
    if (kin__tape_lock_hasty(tape)) {
        note(tape, &tape->rings[tape->ring_count - 1], KIN__TAPE_REPORT, (uint32_t)task,
             (uint32_t)status);
        kin__tape_unlock_hasty(tape);
    }
    kin__tape_save(tape, true);
}

void kin__tape_crash(void)
{
    struct kin__worker *self = kin__worker_self();
    const struct kin__task *task = self ? kin__worker_current(self) : NULL;
    for (unsigned i = 1; i < KIN__SCHEDS_MAX; i++) {
        struct kin__sched *sched = kin__load_acquire(&kin__scheds[i]); /* alone: what there is */
        if (sched && sched->tape)
            kin__tape_report(sched, KIN_PANICKED,
                             task && self->sched == sched ? kin__task_id(task) : 0);
    }
}

/* ---- tables around those of the runtime ---- */

static bool done(struct kin__task *task)
{
    struct kin__worker *worker = kin__worker_self();
    struct kin__tape *tape = worker->sched->tape;
    note(tape, ring_of(worker), KIN__TAPE_END, low_of(task), (uint32_t)task->status);
    ring_of(worker)->over = task;
    kin__lock_take(&tape->lock, KIN__RANK_LEAF);
    kin__lives_end_locked(&tape->lives, kin__task_id(task));
    kin__lock_give(&tape->lock, KIN__RANK_LEAF);
    return tape->owner_below->child_done(task);
}

/* What wakes are from here on, on the calling thread; what they were. The monitor, which fires for
 * workers that are stuck, has no ring of its own. */
static enum kin__tape_kind cause(enum kin__tape_kind now)
{
    struct kin__worker *worker = kin__worker_self();
    if (!worker)
        return now;
    struct kin__tape_ring *ring = ring_of(worker);
    enum kin__tape_kind before = ring->cause;
    ring->cause = now;
    return before;
}

static uint32_t poll_timers(struct kin__worker *owner, int64_t now)
{
    enum kin__tape_kind before = cause(KIN__TAPE_TIMER);
    uint32_t woken = owner->sched->tape->source_below->poll(owner, now);
    (void)cause(before);
    return woken;
}

static uint32_t poll_io(struct kin__sched *sched, int64_t ns)
{
    enum kin__tape_kind before = cause(KIN__TAPE_IO);
    uint32_t woken = sched->tape->io_below->poll(sched, ns);
    (void)cause(before);
    return woken;
}

const struct kin__outside *kin__tape_around(struct kin__sched *sched,
                                            const struct kin__outside *io)
{
    struct kin__tape *tape = sched->tape;
    if (!tape)
        return io;
    tape->io_below = io;
    tape->io = *io;
    tape->io.poll = poll_io;
    return &tape->io;
}

/* ---- life ---- */

static uint64_t ring_bytes(void)
{
    const char *digit = kin__plat_env("KIN_RECORD_BYTES");
    uint64_t bytes = 0;
    for (; digit && *digit >= '0' && *digit <= '9' && bytes <= RING_BYTES_MAX; digit++)
        bytes = bytes * 10 + (uint64_t)(*digit - '0');
    if (!digit || *digit)
        bytes = RING_BYTES;
    bytes = bytes < RING_BYTES_MIN ? RING_BYTES_MIN : bytes;
    bytes = bytes > RING_BYTES_MAX ? RING_BYTES_MAX : bytes;
    return UINT64_C(1) << kin__log2_floor(bytes);
}

/* KIN_RECORD is the path of a file; 1 stands for one in the current directory that is written only
 * when something bad happens. Runtimes beside the first have a number behind it. */
static void choose_path(struct kin__tape *tape, const char *wish, unsigned number)
{
    struct kin__text text;
    kin__text_init(&text, tape->path, sizeof(tape->path));
    tape->saves_end = strcmp(wish, "1") != 0;
    if (tape->saves_end)
        kin__text_str(&text, wish);
    else
        kin__text_printf(&text, "kin-%u.kinrecord", tape->process);
    if (number > 1)
        kin__text_printf(&text, ".%u", number);
    if (kin__text_is_full(&text))
        tape->path[0] = '\0'; /* and not that of another file */
}

static void wrap_tables(struct kin__tape *tape, struct kin__sched *sched)
{
    tape->owner_below = sched->owner;
    tape->owner = *sched->owner;
    tape->owner.child_done = done;
    sched->owner = &tape->owner;
    tape->source_below = sched->source;
    tape->source = *sched->source;
    tape->source.poll = poll_timers;
    sched->source = &tape->source;
}

int kin__tape_open(struct kin__sched *sched)
{
    const char *wish = kin__plat_env("KIN_RECORD");
    if (!wish || !*wish || strcmp(wish, "0") == 0)
        return 0;
    unsigned ring_count = sched->workers_max + 1;
    uint64_t size = ring_bytes() / sizeof(struct kin__tape_entry);
    size_t entries_at = sizeof(struct kin__tape) + ring_count * sizeof(struct kin__tape_ring);
    size_t bytes = entries_at + ring_count * (size_t)size * sizeof(struct kin__tape_entry);
    struct kin__tape *tape = kin__vm_reserve(bytes);
    if (!tape)
        return -ENOMEM;
    uint64_t lives = LIVES_MIN;
    while (lives < size * sched->workers_base && lives < LIVES_MAX)
        lives *= 2;
    if (!kin__lives_init(&tape->lives, (uint32_t)lives)) {
        kin__vm_release(tape, bytes);
        return -ENOMEM;
    }
    tape->began = kin__clock_now();
    tape->process = kin__process_id();
    tape->size = size;
    tape->bytes = bytes;
    tape->ring_count = ring_count;
    for (unsigned i = 0; i < ring_count; i++) {
        tape->rings[i].entries =
            (struct kin__tape_entry *)(void *)((char *)tape + entries_at) + i * size;
        tape->rings[i].cause = KIN__TAPE_WAKE;
    }
    choose_path(tape, wish, sched->number);
    wrap_tables(tape, sched);
    sched->tape = tape;
    kin__crash_init(kin__tape_crash);
    return 0;
}

void kin__tape_close(struct kin__sched *sched)
{
    struct kin__tape *tape = sched->tape;
    if (!tape)
        return;
    if (tape->saves_end)
        kin__tape_save(tape, false);
    kin__crash_fini();
    sched->owner = tape->owner_below;
    sched->source = tape->source_below;
    sched->tape = NULL;
    kin__lives_fini(&tape->lives);
    kin__vm_release(tape, tape->bytes);
}
