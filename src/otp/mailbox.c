/* SPDX-License-Identifier: MIT */
/*
 * Mailboxes: in and out of the box, and up from the room.
 *
 * A cast moves up from the room only together with the claim of its sender's park: a sender that
 * has timed out or was cancelled just before keeps its letter, which is in no list then.
 */
#include "otp/mailbox.h"

#include "plat/plat.h"
#include "sched/blocks.h"

#include <errno.h>

/* A small cast; the bytes come behind the letter. */
struct block {
    struct kin__frame frame;
    struct kin__letter letter;
    unsigned char bytes[KIN__LETTER_BYTES - sizeof(struct kin__frame) - sizeof(struct kin__letter)];
};
_Static_assert(sizeof(struct block) == KIN__LETTER_BYTES, "a letter is a frame");
_Static_assert(offsetof(struct block, bytes) % 16 == 0, "a message may hold any type");

#define SMALL_MAX sizeof(((struct block *)0)->bytes)

/* ---- blocks ---- */

/* A cast that is charged to a metered sender: the bill comes first, so that a letter that nobody
 * pays for, which is nearly every one, is no larger. 0, KIN_BUDGET, -ENOMEM. */
static __attribute__((noinline)) int make_billed(struct kin__task *sender, size_t size,
                                                 struct kin__letter **out)
{
    struct kin__bill bill;
    size_t bytes = sizeof(bill) + sizeof(**out) + size;
    int rc = kin__bill_take(&bill, sender, bytes);
    if (rc < 0)
        return rc;
    struct kin__bill *block = kin__heap_alloc(bytes);
    if (!block) {
        kin__bill_give(bill);
        return -ENOMEM;
    }
    *block = bill;
    *out = (struct kin__letter *)(block + 1);
    return 0;
}
_Static_assert(sizeof(struct kin__bill) % 16 == 0, "a message may hold any type");

int kin__letter_make(struct kin__task *sender, const void *bytes, size_t size,
                     struct kin__letter **out)
{
    struct kin__letter *letter = NULL;
    bool is_billed = sender && (sender->flags & KIN__TASK_METERED);
    if (KIN__UNLIKELY(is_billed)) {
        int rc = make_billed(sender, size, &letter);
        if (rc < 0)
            return rc;
    } else if (KIN__LIKELY(size <= SMALL_MAX)) {
        struct kin__frame *frame = kin__block_take(KIN__FRAME_LETTER);
        if (KIN__UNLIKELY(!frame))
            return -ENOMEM;
        letter = &KIN__CONTAINER_OF(frame, struct block, frame)->letter;
    } else {
        /* as the small ones are: the bytes begin at a multiple of 16 */
        letter = kin__heap_alloc(sizeof(*letter) + size);
        if (!letter)
            return -ENOMEM;
    }
    kin__list_init(&letter->link);
    letter->size = (uint32_t)size;
    letter->kind = KIN__LETTER_CAST;
    letter->is_boxed = false;
    letter->is_billed = is_billed;
    kin__item_copy(letter + 1, bytes, size);
    *out = letter;
    return 0;
}

void kin__letter_free(struct kin__letter *letter)
{
    if (KIN__UNLIKELY(letter->is_billed)) {
        struct kin__bill *block = (struct kin__bill *)letter - 1;
        kin__bill_give(*block);
        kin__heap_free(block);
    } else if (KIN__LIKELY(letter->size <= SMALL_MAX))
        kin__block_give(KIN__FRAME_LETTER,
                        &KIN__CONTAINER_OF(letter, struct block, letter)->frame);
    else
        kin__heap_free(letter);
}

/* ---- in and out ---- */

void kin__mailbox_init(struct kin__mailbox *mailbox, size_t capacity, bool keeps_casts)
{
    kin__list_init(&mailbox->box);
    kin__list_init(&mailbox->room);
    kin__list_init(&mailbox->casts);
    mailbox->count = 0;
    mailbox->capacity = capacity;
    mailbox->keeps_casts = keeps_casts;
}

void kin__mailbox_queue_locked(struct kin__mailbox *mailbox, struct kin__letter *letter)
{
    kin__list_push_back(&mailbox->room, &letter->link);
}

/* Claims the park of whoever waits with this letter. */
static bool claim_sender(const struct kin__letter *letter, struct kin__claimed *claimed)
{
    *claimed = (struct kin__claimed){letter->task, NULL, letter->case_, 0};
    claimed->claim = (int)kin__word_claim(letter->task, letter->ticket);
    return claimed->claim != KIN__LOST;
}

/* Fills the box from the room. */
static __attribute__((noinline)) void move_up_locked(struct kin__party *party,
                                                     struct kin__mailbox *mailbox,
                                                     struct kin__wakes *wakes)
{
    struct kin__list *link;
    /* ends: one fewer in the room each time */
    while (!kin__mailbox_is_full(mailbox) && (link = kin__list_pop_front(&mailbox->room))) {
        struct kin__letter *letter = KIN__CONTAINER_OF(link, struct kin__letter, link);
        struct kin__claimed claimed;
        if (letter->kind == KIN__LETTER_CAST) {
            if (!claim_sender(letter, &claimed))
                continue;
            kin__wakes_add(wakes, &claimed, 0);
        }
        kin__mailbox_push_locked(party, mailbox, letter);
    }
}

void kin__mailbox_remove_locked(struct kin__party *party, struct kin__mailbox *mailbox,
                                struct kin__letter *letter, struct kin__wakes *wakes)
{
    if (!letter->is_boxed) {
        kin__list_remove(&letter->link);
        return;
    }
    kin__mailbox_drop_locked(party, mailbox, letter);
    if (KIN__UNLIKELY(!kin__list_is_empty(&mailbox->room)))
        move_up_locked(party, mailbox, wakes);
}

bool kin__mailbox_refuse_locked(struct kin__mailbox *mailbox, int status, unsigned max,
                                struct kin__wakes *wakes)
{
    for (unsigned i = 0; i < max; i++) {
        struct kin__list *link = kin__list_pop_front(&mailbox->room);
        struct kin__claimed claimed;
        if (!link)
            return false;
        if (claim_sender(KIN__CONTAINER_OF(link, struct kin__letter, link), &claimed))
            kin__wakes_add(wakes, &claimed, status);
    }
    return !kin__list_is_empty(&mailbox->room);
}

/* A call leaves the box with a status for its caller. */
static void refuse_call_locked(struct kin__party *party, struct kin__mailbox *mailbox,
                               struct kin__letter *letter, int status, struct kin__wakes *wakes)
{
    struct kin__claimed claimed;
    kin__mailbox_drop_locked(party, mailbox, letter);
    if (claim_sender(letter, &claimed))
        kin__wakes_add(wakes, &claimed, status);
}

/* The box is turned once: casts go behind the others, which keeps their order, until the first of
 * them is in front again. */
bool kin__mailbox_abort_locked(struct kin__party *party, struct kin__mailbox *mailbox, int status,
                               unsigned max, uint64_t *turned, struct kin__wakes *wakes)
{
    for (unsigned i = 0; i < max; i++) {
        struct kin__letter *letter = kin__mailbox_first(mailbox);
        if (!letter || letter->number == *turned)
            return false;
        if (letter->kind != KIN__LETTER_CAST) {
            refuse_call_locked(party, mailbox, letter, status, wakes);
            continue;
        }
        if (*turned == 0)
            *turned = letter->number;
        kin__list_remove(&letter->link);
        kin__list_push_back(&mailbox->box, &letter->link);
        party->letter_oldest = *turned;
    }
    return true;
}

bool kin__mailbox_clear_locked(struct kin__party *party, struct kin__mailbox *mailbox, int status,
                               unsigned max, struct kin__wakes *wakes, struct kin__list *casts)
{
    struct kin__letter *letter = NULL;
    for (unsigned i = 0; i < max && (letter = kin__mailbox_first(mailbox)); i++) {
        if (letter->kind != KIN__LETTER_CAST) {
            refuse_call_locked(party, mailbox, letter, status, wakes);
            continue;
        }
        kin__mailbox_drop_locked(party, mailbox, letter);
        kin__list_push_back(casts, &letter->link);
    }
    return letter != NULL;
}

/* ---- callers ---- */

bool kin__call_is_waiting(const struct kin__letter *letter)
{
    /* relaxed: a hint; whoever leaves takes the lock before its letter is gone */
    uint64_t word = kin__load_relaxed(&letter->task->ctl);
    return kin__word_ticket(word) == letter->ticket && !(word & KIN__CLAIMED);
}

bool kin__call_answer(struct kin__task *task, uint64_t ticket, uint32_t case_,
                      struct kin__call *call, const void *bytes, size_t size, int status)
{
    enum kin__claim claim = kin__word_claim(task, ticket);
    if (KIN__UNLIKELY(claim == KIN__LOST))
        return false;
    if (status == 0) {
        call->has_reply = true;
        call->reply_size = size;
        if (KIN__UNLIKELY(size > call->reply_max))
            status = -EMSGSIZE;
        else
            kin__item_copy(call->reply, bytes, size);
    }
    task->wait_status = status;
    task->wait_case = case_;
    task->wake_ready = claim == KIN__WON_PARKING;
    kin__wake_deliver(task);
    return true;
}
