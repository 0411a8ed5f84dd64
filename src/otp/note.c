/* SPDX-License-Identifier: MIT */
/*
 * Notes: what a party is told, in which order it reads it, and how its task waits for it.
 *
 *     lane   | time 3, Down of 17 | time 3, Down of 40 | time 3, Exit of 17 | time 8, ... |
 *
 * The lane is sorted by (time, kind, subject), and two links of one pair by their references
 * [GS-INFO-SORT] [SINV-4]; of two that are equal the one that came first is first. Whatever came
 * during one stay of its reader elsewhere is thus read in the same order, whoever told it first
 * [D18]. A newcomer looks for its place from the back, where it nearly always belongs. Who waits
 * for something in particular finds it without a look at all the rest (kin__note_kind): a Down by
 * its reference; anything else in a list of its own, because there may be very many Downs. Two
 * notes of different kinds are never equal, so the two lists make one order.
 *
 * The reader is the party's own task, so one waiter is enough. A wake says that something has
 * happened and brings nothing: the reader looks again.
 */
#include "otp/party.h"

#include <string.h>

/* ---- order ---- */

static uint64_t subject_of(const struct kin__note *note)
{
    switch (note->info.kind) {
    case KIN_INFO_DOWN:
        return note->info.u.down.who.id;
    case KIN_INFO_EXIT:
        return note->info.u.exit.from.id;
    case KIN_INFO_TIMEOUT:
        return note->info.u.timeout.id;
    case KIN_INFO_NODE_UP:
    case KIN_INFO_NODE_DOWN:
        return note->info.u.node.node;
    case KIN_INFO_LEASE:
        break; /* by its name */
    }
    return 0;
}

/* Whether a is read before b. */
static bool is_before(const struct kin__note *a, const struct kin__note *b)
{
    if (a->info.vt != b->info.vt)
        return a->info.vt < b->info.vt;
    if (a->info.kind != b->info.kind)
        return a->info.kind < b->info.kind;
    if (a->info.kind == KIN_INFO_LEASE)
        return strcmp(a->info.u.lease.name, b->info.u.lease.name) < 0;
    if (a->info.kind == KIN_INFO_EXIT && subject_of(a) == subject_of(b))
        return a->info.u.exit.ref.id < b->info.u.exit.ref.id; /* two links of one pair */
    return subject_of(a) < subject_of(b);
}

static struct kin__note *note_of(struct kin__list *link)
{
    return KIN__CONTAINER_OF(link, struct kin__note, link);
}

static void sort_in_locked(struct kin__party *party, struct kin__note *note)
{
    struct kin__list *list = note->info.kind == KIN_INFO_DOWN ? &party->downs : &party->others;
    struct kin__list *before = list->prev;
    while (before != list && is_before(note, note_of(before))) /* ends: at the front */
        before = before->prev;
    kin__list_init(&note->link);
    kin__list_link(&note->link, before, before->next);
    party->news++;
}

static void take_out_locked(struct kin__party *party, struct kin__note *note)
{
    kin__list_remove(&note->link);
    party->news--;
}

/* ---- telling ---- */

void kin__party_wake_and_unlock(struct kin__party *party)
{
    struct kin__waiter *reader = party->wanted ? NULL : party->reader;
    struct kin__wakes wakes = {0};
    if (reader) {
        struct kin__claimed claimed = {reader->task, NULL, reader->case_, 0};
        claimed.claim = (int)kin__word_claim(reader->task, reader->ticket);
        party->reader = NULL;
        if (claimed.claim != KIN__LOST)
            kin__wakes_add(&wakes, &claimed, 0);
    }
    kin__party_unlock(party);
    kin__wakes_run(&wakes);
}

void kin__note_tell_and_unlock(struct kin__party *party, struct kin__note *note)
{
    KIN__ASSERT(!party->is_over, "D3: nobody is told who is over");
    note->after = party->letter_newest;
    sort_in_locked(party, note);
    KIN__LAB_TOLD(kin__party_task(party), &note->info, note->after);
    if (party->wanted && party->wanted(note, party->wanted_arg))
        party->wanted = NULL;
    kin__party_wake_and_unlock(party);
}

/* ---- reading ---- */

/* Every letter that came before it has been taken out [D3], and it is not too late. */
static bool is_readable(const struct kin__party *party, const struct kin__note *note)
{
    return (party->letter_oldest == 0 || party->letter_oldest > note->after) &&
           note->after <= party->letter_last;
}

/* The number of a letter that never comes divides the news of before from those of later. */
void kin__note_last_call_locked(struct kin__party *party)
{
    party->letter_last = party->letter_newest++;
}

bool kin__note_any(const struct kin__note *note, uint64_t arg)
{
    (void)note, (void)arg;
    return true;
}

/* Both halves of the lane, as the one list that they are for a reader. */
struct kin__note *kin__note_look_locked(struct kin__party *party, kin__note_wanted *wanted,
                                        uint64_t arg)
{
    struct kin__list *down = party->downs.next, *other = party->others.next;
    while (down != &party->downs || other != &party->others) { /* ends: one fewer each time */
        bool is_down = other == &party->others ||
                       (down != &party->downs && is_before(note_of(down), note_of(other)));
        struct kin__list **at = is_down ? &down : &other;
        struct kin__note *note = note_of(*at);
        if (wanted ? wanted(note, arg) : is_readable(party, note))
            return note;
        *at = (*at)->next;
    }
    return NULL;
}

struct kin__note *kin__note_look_others_locked(struct kin__party *party, kin__note_wanted *wanted,
                                               uint64_t arg)
{
    KIN__LIST_EACH(link, &party->others) {
        if (wanted(note_of(link), arg))
            return note_of(link);
    }
    return NULL;
}

struct kin__note *kin__note_take_locked(struct kin__party *party, kin__note_wanted *wanted,
                                        uint64_t arg)
{
    struct kin__note *note = kin__note_look_locked(party, wanted, arg);
    if (!note)
        return NULL;
    if (wanted) {
        kin__note_remove_locked(party, note);
    } else {
        take_out_locked(party, note);
        KIN__LAB_HEARD(kin__party_task(party), &note->info, party->letter_oldest);
    }
    return note;
}

bool kin__note_remove_locked(struct kin__party *party, struct kin__note *note)
{
    if (!kin__list_is_linked(&note->link))
        return false;
    take_out_locked(party, note);
    KIN__LAB_UNTOLD(&note->info);
    return true;
}

/* ---- the waitable ---- */

/* Who waits for a note; on the stack of the party's task. */
struct reader {
    struct kin__party *party;
    kin__note_wanted *wanted;
    struct kin__note *(*find)(struct kin__party *party, uint64_t arg);
    uint64_t arg;
    bool (*ends)(uint64_t arg);
    struct kin__note *note; /* what it has got */
};

static bool reader_try(void *object, void *io, int *status)
{
    struct reader *reader = object;
    (void)io;
    kin__party_take(reader->party);
    reader->note = reader->find(reader->party, reader->arg);
    if (reader->note)
        kin__note_remove_locked(reader->party, reader->note);
    bool is_over = !reader->note && reader->ends && reader->ends(reader->arg);
    kin__party_unlock(reader->party);
    *status = is_over ? KIN_STALE : 0;
    return reader->note || is_over;
}

static bool reader_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct reader *reader = object;
    struct kin__party *party = reader->party;
    (void)status;
    kin__party_take(party);
    bool links = !reader->find(party, reader->arg) &&
                 !(reader->ends && reader->ends(reader->arg));
    if (links) {
        party->reader = waiter;
        party->wanted = reader->wanted;
        party->wanted_arg = reader->arg;
    }
    kin__party_unlock(party);
    return links;
}

static void reader_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__party *party = ((struct reader *)object)->party;
    kin__party_take(party);
    if (party->reader == waiter) {
        party->reader = NULL;
        party->wanted = NULL;
    }
    kin__party_unlock(party);
}

static const struct kin__waitable reader_waitable = {"news", reader_try, reader_publish,
                                                     reader_unpublish};

KIN__WAITABLE_READY(reader_waitable)
{
    const struct reader *reader = object;
    if (reader->find(reader->party, reader->arg))
        return "there is news";
    return reader->ends && reader->ends(reader->arg) ? "no news can come" : NULL;
}

int kin__note_wait(struct kin__party *party, const struct kin__note_kind *kind, uint64_t arg,
                   kin_time deadline, struct kin__note **out)
{
    struct reader reader = {party, kind->wanted, kind->find, arg, kind->ends, NULL};
    int rc;
    do { /* ends: each round something has happened that the reader waits for */
        rc = kin__wait_until(&reader_waitable, &reader, NULL, deadline, 0);
    } while (rc == 0 && !reader.note);
    if (rc == 0)
        *out = reader.note;
    return rc;
}
