/* SPDX-License-Identifier: MIT */
/*
 * A tape as text: who was there, and what each worker did.
 *
 *     kinrecord 1
 *     workers 2
 *     tenancy CPU_Parallel                 of every task [SCHED:11.2.1]
 *     task 1 root main 0x55d0c0de1234      number, path, name or -, function
 *     task 2 root/0 - 0x55d0c0de1301
 *     ring 0 120                           worker, how many entries before were lost
 *     4096 run 1 0 0                       ns since the start, kind, task, other, argument
 *     4512 spawn 2 1 0
 *     5120 park 1 channel:%20receive 0
 *     ring - 0                             everybody else
 *     16 spawn 1 0 0
 *     end
 *
 * A task that has no number is 0. The other is a task for spawn, wake, cancel and ask, a word for
 * park, and a number else; the argument is a status, a worker or a case. Names and words have no
 * blanks, percent signs or bytes outside of ASCII: these are written as %xx. Times of one ring
 * never go back.
 *
 * Rings go on while they are written down. First it is noted how far each goes; then the lives are
 * listed, of which none is replaced as long as this takes: so every task of an entry that counts is
 * in the list, if it has a place at all.
 */
#include "sched/tape.h"

#include "plat/file.h"
#include "plat/plat.h"
#include "sched/sched.h"

#include <kin/status.h>

#include <errno.h>
#include <fcntl.h>

#define LINE_BYTES 1600u /* of one line, at most */
#define LOCK_TRIES 1000u /* of somebody in haste */

const char kin__tape_words[] = "";

const char *const kin__tape_kinds[KIN__TAPE_KINDS] = {
    "?",      "spawn", "run",  "park",  "yield", "lend", "wake",  "timer",  "io",
    "cancel", "ask",   "case", "steal", "end",   "sleep", "awake", "report", "clock"};

const char *kin__tape_word(uint32_t other)
{
    return (const char *)((uintptr_t)kin__tape_words + (uintptr_t)(intptr_t)(int32_t)other);
}

bool kin__tape_read(const struct kin__tape *tape, const struct kin__tape_ring *ring, uint64_t at,
                    uint64_t epoch, struct kin__tape_note *out)
{
    struct kin__tape_entry *entry = &ring->entries[at & (tape->size - 1)];
    uint64_t head = kin__load_acquire(&entry->head); /* pairs with the releases in put */
    uint64_t who = kin__load_acquire(&entry->who);   /* pairs as above */
    *out = (struct kin__tape_note){
        .when = epoch << KIN__TAPE_TIME_BITS | head >> (64 - KIN__TAPE_TIME_BITS),
        .kind = (enum kin__tape_kind)(head >> 16 & 0xff),
        .argument = (uint16_t)head,
        .task = (uint32_t)(who >> 32),
        .other = (uint32_t)who,
    };
    /* relaxed: behind the acquires. An entry is overwritten from the moment on that this says so */
    return kin__load_relaxed(&ring->count) < at + tape->size;
}

/* ---- a dump ---- */

struct dump {
    struct kin__tape *tape;
    int fd;
    int rc; /* of the first write that failed */
    bool is_hasty;
    bool is_blind; /* whoever has the lock will not give it: goes on without */
    struct kin__text text; /* in the tape's page */
};

static void flush(struct dump *dump)
{
    if (dump->rc == 0)
        dump->rc = kin__plat_write(dump->fd, dump->text.buf, dump->text.len);
    kin__text_cut(&dump->text, 0);
}

/* Makes room for a line. */
static void begin_line(struct dump *dump)
{
    if (dump->text.cap - dump->text.len < LINE_BYTES)
        flush(dump);
}

bool kin__tape_lock_hasty(struct kin__tape *tape)
{
    for (unsigned i = 0; i < LOCK_TRIES; i++) { /* no rank: a crash comes with any lock held */
        /* pairs with the release in kin__lock_give and below */
        if (kin__xchg_acquire(&tape->lock.word, 1u) == 0)
            return true;
        kin__thread_yield();
    }
    return false;
}

void kin__tape_unlock_hasty(struct kin__tape *tape)
{
    kin__store_release(&tape->lock.word, 0u); /* pairs with the acquires above and of others */
}

static void lock(struct dump *dump)
{
    if (!dump->is_hasty)
        kin__lock_take(&dump->tape->lock, KIN__RANK_LEAF);
    else
        dump->is_blind = dump->is_blind || !kin__tape_lock_hasty(dump->tape);
}

static void unlock(const struct dump *dump)
{
    if (!dump->is_hasty)
        kin__lock_give(&dump->tape->lock, KIN__RANK_LEAF);
    else if (!dump->is_blind)
        kin__tape_unlock_hasty(dump->tape);
}

static void put_word(struct kin__text *text, const char *word)
{
    if (!*word)
        word = "-";
    for (; *word; word++) {
        unsigned char c = (unsigned char)*word;
        if (c <= ' ' || c == '%' || c >= 127)
            kin__text_printf(text, "%%%02x", c);
        else
            kin__text_char(text, *word);
    }
}

static void freeze(struct dump *dump, bool is_frozen)
{
    lock(dump);
    dump->tape->lives.is_frozen = is_frozen;
    unlock(dump);
}

static void put_lives(struct dump *dump)
{
    const struct kin__lives *lives = &dump->tape->lives;
    for (uint32_t place = 1; place < lives->size; place++) { /* ends: with those in use */
        begin_line(dump);
        lock(dump);
        bool is_used = place <= lives->used;
        if (is_used) {
            const struct kin__life *life = &lives->table[place];
            kin__text_printf(&dump->text, "task %u ", place);
            kin__lives_path_locked(lives, place, &dump->text);
            kin__text_char(&dump->text, ' ');
            put_word(&dump->text, life->name);
            kin__text_printf(&dump->text, " %p\n", (void *)(uintptr_t)life->fn);
        }
        unlock(dump);
        if (!is_used)
            return;
    }
}

/* The number of a task in this dump; 0: it has none. */
static uint32_t number_of(struct dump *dump, uint32_t low, uint64_t when)
{
    if (!low)
        return 0;
    lock(dump);
    uint32_t place = kin__lives_find_locked(&dump->tape->lives, low, when);
    unlock(dump);
    return place;
}

static void put_note(struct dump *dump, const struct kin__tape_note *note)
{
    struct kin__text *text = &dump->text;
    bool has_other = kin__tape_has_other(note->kind);
    begin_line(dump);
    kin__text_printf(text, "%llu %s %u ", (unsigned long long)note->when << KIN__TAPE_UNIT_SHIFT,
                     kin__tape_kinds[note->kind < KIN__TAPE_KINDS ? note->kind : 0],
                     number_of(dump, note->task, note->when));
    if (note->kind == KIN__TAPE_PARK)
        put_word(text, kin__tape_word(note->other));
    else if (has_other)
        kin__text_udec(text, number_of(dump, note->other, note->when));
    else
        kin__text_dec(text, (int32_t)note->other);
    kin__text_printf(text, " %d\n", (int)(int16_t)note->argument);
}

/* The upper bits of the time of the entry first: what the next CLOCK says, or those of the last. */
static uint64_t epoch_of(const struct dump *dump, const struct kin__tape_ring *ring, uint64_t first,
                         uint64_t end)
{
    struct kin__tape_note note;
    for (uint64_t at = first; at < end; at++) {
        if (kin__tape_read(dump->tape, ring, at, 0, &note) && note.kind == KIN__TAPE_CLOCK)
            return note.argument;
    }
    return kin__load_relaxed(&ring->last) >> KIN__TAPE_TIME_BITS; /* relaxed: upper bits only */
}

static void put_ring(struct dump *dump, unsigned index)
{
    const struct kin__tape *tape = dump->tape;
    const struct kin__tape_ring *ring = &tape->rings[index];
    struct kin__tape_note note;
    uint64_t end = ring->until, at = end > tape->size ? end - tape->size : 0;
    if (end == 0)
        return;
    while (at < end && !kin__tape_read(tape, ring, at, 0, &note)) /* ends: at the newest at last */
        at++;
    uint64_t epoch = epoch_of(dump, ring, at, end);
    begin_line(dump);
    kin__text_str(&dump->text, "ring ");
    if (index + 1 < tape->ring_count)
        kin__text_udec(&dump->text, index);
    else
        kin__text_char(&dump->text, '-');
    kin__text_printf(&dump->text, " %llu\n", (unsigned long long)at);
    for (; at < end; at++) {
        if (!kin__tape_read(tape, ring, at, epoch, &note))
            continue; /* it was overtaken after all */
        if (note.kind == KIN__TAPE_CLOCK)
            epoch = (uint64_t)note.task << 32 | note.other;
        else
            put_note(dump, &note);
    }
}

int kin__tape_dump(struct kin__tape *tape, int fd, bool is_hasty)
{
    struct dump dump = {.tape = tape, .fd = fd, .is_hasty = is_hasty};
    if (kin__xchg_acquire(&tape->is_dumping, 1u)) /* pairs with the release below */
        return -EBUSY;
    kin__text_init(&dump.text, tape->page, sizeof(tape->page));
    freeze(&dump, true);
    unsigned rings = tape->ring_count;
    kin__text_printf(&dump.text, "kinrecord 1\nworkers %u\ntenancy %s\n", rings - 1,
                     KIN__TAPE_TENANCY);
    for (unsigned i = 0; i < rings; i++) /* pairs with the release in put */
        tape->rings[i].until = kin__load_acquire(&tape->rings[i].count);
    put_lives(&dump);
    for (unsigned i = 0; i < rings; i++)
        put_ring(&dump, i);
    begin_line(&dump);
    kin__text_str(&dump.text, "end\n");
    flush(&dump);
    freeze(&dump, false);
    kin__store_release(&tape->is_dumping, 0u); /* pairs with the exchange above */
    return dump.rc;
}

static void complain(const struct kin__tape *tape, int rc)
{
    char memory[512];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "kin: the record cannot be written to '%.300s': %s", tape->path,
                     kin_status_text(rc));
    kin__text_end_line(&text);
    (void)kin__plat_write(2, memory, text.len);
}

void kin__tape_save(struct kin__tape *tape, bool is_hasty)
{
    if (tape->process != kin__process_id() ||
        kin__xchg_acq_rel(&tape->is_saved, 1u)) /* alone: who is first */
        return;
    int fd = kin__file_open(tape->path, O_WRONLY | O_CREAT | O_TRUNC, 0644, true), rc = fd;
    if (fd >= 0) {
        rc = kin__tape_dump(tape, fd, is_hasty);
        int closed = kin__fd_close(fd);
        rc = rc < 0 ? rc : closed;
    }
    if (rc < 0)
        complain(tape, rc);
}
