/* SPDX-License-Identifier: MIT */
/*
 * Mailboxes: letters in order of arrival, and senders that wait for room.
 *
 *     box    admitted, at most capacity of them:   call  cast  cast  call     <- the server takes
 *     room   their senders are parked until one of those leaves:  cast  call
 *
 * A call's letter lies on its caller's stack, and the caller is parked until it is answered; a
 * cast's is a block of its own, which is the sender's until it is in the box. While somebody stands
 * in the room the box is full. Everything here is under the lock of the server's party.
 */
#ifndef KIN_OTP_MAILBOX_H
#define KIN_OTP_MAILBOX_H

#include "otp/party.h"
#include "wait/item.h"

#include <kin/server.h>

struct kin__server_extra;

enum kin__letter_kind {
    KIN__LETTER_CAST = 0,
    KIN__LETTER_CALL,
    KIN__LETTER_REQUEST /* a call that only servers with a certain extra take */
};

struct kin__letter {
    struct kin__list link; /* in the box or the room */
    union {
        struct kin__list cast; /* of a cast in the box: among the casts there, if it keeps them */
        struct { /* of a call, and of a cast in the room: its sender, */
            struct kin__task *task;
            uint64_t ticket; /* and for which of its parks */
        };
    };
    uint64_t number; /* of a letter in the box: they count up */
    uint32_t size;
    uint16_t case_; /* which of the things that the sender waits for this is */
    uint8_t kind;   /* enum kin__letter_kind */
    bool is_boxed : 1;  /* it is in the box; else in the room or nowhere */
    bool is_billed : 1; /* a cast that somebody paid for: the bill is in front of it */
};

/* A call, on the caller's stack. What is behind the letter is the caller's, then of whoever holds
 * the party's lock, and the answer is of whoever has claimed the caller's park. */
struct kin__call {
    struct kin__letter letter;
    uint64_t to;
    struct kin__sched *sched;
    struct kin__party *party;              /* where it was linked last */
    const struct kin__server_extra *extra; /* of a request */
    const void *request;
    void *copy; /* of a large request: the server takes it over, and leaves NULL */
    void *reply;
    size_t reply_max;
    size_t reply_size;
    bool has_reply; /* reply_size says how large it is */
    bool was_taken; /* the server has the request */
};

struct kin__mailbox {
    struct kin__list box, room;
    struct kin__list casts; /* if keeps_casts: those in the box, oldest first */
    size_t count, capacity; /* letters in the box */
    bool keeps_casts;       /* for a server that drops the oldest; constant */
};

void kin__mailbox_init(struct kin__mailbox *mailbox, size_t capacity, bool keeps_casts);

static inline bool kin__mailbox_is_full(const struct kin__mailbox *mailbox)
{
    return mailbox->count >= mailbox->capacity;
}

/* The first letter in the box; NULL: it is empty. */
static inline struct kin__letter *kin__mailbox_first(const struct kin__mailbox *mailbox)
{
    struct kin__list *link = mailbox->box.next;
    return link == &mailbox->box ? NULL : KIN__CONTAINER_OF(link, struct kin__letter, link);
}

/* The oldest cast in the box; NULL: there is none. */
static inline struct kin__letter *kin__mailbox_cast(const struct kin__mailbox *mailbox)
{
    struct kin__list *link = mailbox->casts.next;
    return link == &mailbox->casts ? NULL : KIN__CONTAINER_OF(link, struct kin__letter, cast);
}

/* Puts a letter behind the others, for which there is room. */
static inline void kin__mailbox_push_locked(struct kin__party *party, struct kin__mailbox *mailbox,
                                            struct kin__letter *letter)
{
    letter->number = ++party->letter_newest;
    if (mailbox->count++ == 0)
        party->letter_oldest = letter->number;
    letter->is_boxed = true;
    kin__list_push_back(&mailbox->box, &letter->link);
    if (KIN__UNLIKELY(mailbox->keeps_casts) && letter->kind == KIN__LETTER_CAST) {
        kin__list_init(&letter->cast);
        kin__list_push_back(&mailbox->casts, &letter->cast);
    }
}
/* Lets a letter, whose sender is noted in it, wait for room. */
void kin__mailbox_queue_locked(struct kin__mailbox *mailbox, struct kin__letter *letter);
/* Takes a letter out of the box or the room; harmless when it is in neither. Those that wait for
 * room move up: the casts among them have their senders in wakes. */
void kin__mailbox_remove_locked(struct kin__party *party, struct kin__mailbox *mailbox,
                                struct kin__letter *letter, struct kin__wakes *wakes);
/* The same for a letter in the box whose place is somebody else's at once: nobody moves up. */
static inline void kin__mailbox_drop_locked(struct kin__party *party, struct kin__mailbox *mailbox,
                                            struct kin__letter *letter)
{
    kin__list_remove(&letter->link);
    letter->is_boxed = false;
    if (KIN__UNLIKELY(mailbox->keeps_casts) && letter->kind == KIN__LETTER_CAST)
        kin__list_remove(&letter->cast);
    mailbox->count--;
    const struct kin__letter *first = kin__mailbox_first(mailbox);
    party->letter_oldest = first ? first->number : 0;
}
/* Takes up to max waiting senders out of the room, with a status for them. True: there are more. */
bool kin__mailbox_refuse_locked(struct kin__mailbox *mailbox, int status, unsigned max,
                                struct kin__wakes *wakes);

/* Answers up to max of the calls in the box with a status; for a mailbox that nobody is let into
 * any more. *turned is 0 at first and the caller's to keep. True: there are more. */
bool kin__mailbox_abort_locked(struct kin__party *party, struct kin__mailbox *mailbox, int status,
                               unsigned max, uint64_t *turned, struct kin__wakes *wakes);
/* Takes the letters at the front of the box, up to max of them: callers get a status, casts go onto
 * the list. True: there are more. */
bool kin__mailbox_clear_locked(struct kin__party *party, struct kin__mailbox *mailbox, int status,
                               unsigned max, struct kin__wakes *wakes, struct kin__list *casts);

/* ---- blocks of casts ---- */

/* A cast with a copy of its bytes, at the expense of sender if that is metered; NULL: a plain
 * thread. 0, KIN_BUDGET, -ENOMEM. */
int kin__letter_make(struct kin__task *sender, const void *bytes, size_t size,
                     struct kin__letter **out);
void kin__letter_free(struct kin__letter *letter);
static inline const void *kin__letter_bytes(const struct kin__letter *letter)
{
    return letter + 1;
}

/* ---- callers ---- */

/* Whether the caller of this call still waits for it. */
bool kin__call_is_waiting(const struct kin__letter *letter);
/* Gives a parked caller its answer: size bytes and 0, or a status. False: it has left. */
bool kin__call_answer(struct kin__task *task, uint64_t ticket, uint32_t case_,
                      struct kin__call *call, const void *bytes, size_t size, int status);

#endif
