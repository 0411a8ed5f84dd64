/* SPDX-License-Identifier: MIT */
/*
 * Replies: each call is answered once, by whoever has the right to.
 *
 * The answer itself is the claim of the caller's park: it wins or loses against the caller's
 * deadline and its cancellation, without a lock, and whoever loses has the call left by its caller.
 * A token that was moved stays in the list of its server until it is dropped or the server is over,
 * answered or not: who takes it out of that list, under the lock of the party, gives it back
 * [GS-REPLY] [SINV-1].
 */
#include "otp/reply.h"

#include "base/text.h"
#include "otp/serving.h"
#include "sched/blocks.h"
#include "sched/entry.h"
#include "scope/belongings.h"
#include "scope/scope.h"

#include <errno.h>

#define INDEX_MASK ((UINT64_C(1) << KIN__FRAME_INDEX_BITS) - 1)
#define MOVED (UINT64_C(1) << 63)
#define USE_MASK (~MOVED & ~INDEX_MASK) /* of handles and of ctl alike */
#define USE_ONE (UINT64_C(1) << KIN__FRAME_INDEX_BITS)

_Static_assert(sizeof(struct kin_reply *) == sizeof(uint64_t), "a handle is a name");

/* ---- tokens ---- */

static struct kin__reply *of_frame(struct kin__frame *frame)
{
    return KIN__CONTAINER_OF(frame, struct kin__reply, frame);
}

static uint64_t name_of(const struct kin_reply *handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* The frame that the handle is of; NULL: it is no handle at all. */
static struct kin__reply *find(const struct kin_reply *handle)
{
    struct kin__frame *frame = kin__frame_at(KIN__FRAME_REPLY, name_of(handle) & INDEX_MASK);
    return frame ? of_frame(frame) : NULL;
}

struct kin__reply *kin__reply_make(uint64_t server)
{
    struct kin__frame *frame = kin__block_take(KIN__FRAME_REPLY);
    if (!frame)
        return NULL;
    struct kin__reply *reply = of_frame(frame);
    kin__store_relaxed(&reply->server, server); /* relaxed: published with the first use */
    reply->is_moved = false;
    reply->bill = (struct kin__bill){NULL, 0};
    kin__list_init(&reply->link);
    return reply;
}

void kin__reply_free(struct kin__reply *reply)
{
    uint64_t ctl = kin__load_relaxed(&reply->ctl); /* relaxed: nobody opens it any more */
    /* relaxed: late names of it are answered in one way, whatever it was */
    kin__store_relaxed(&reply->ctl, (ctl & USE_MASK) | KIN__REPLY_CLOSED);
    struct kin__bill bill = reply->bill;
    kin__block_give(KIN__FRAME_REPLY, &reply->frame);
    kin__bill_give(bill);
}

static inline uint64_t next_use(uint64_t ctl)
{
    return (ctl + USE_ONE) & USE_MASK;
}

void kin__reply_open(struct kin__reply *reply, const struct kin__letter *letter)
{
    struct kin__call *call =
        KIN__CONTAINER_OF((struct kin__letter *)(uintptr_t)letter, struct kin__call, letter);
    uint64_t ctl = kin__load_quiet(&reply->ctl); /* relaxed: nobody else changes a closed one */
    /* relaxed: published below */
    kin__store_quiet(&reply->task, letter->task);
    kin__store_quiet(&reply->ticket, letter->ticket); /* relaxed: as above */
    kin__store_quiet(&reply->call, call);             /* relaxed: as above */
    kin__store_quiet(&reply->case_, letter->case_);   /* relaxed: as above */
    /* pairs with the acquire in take_right */
    kin__store_release(&reply->ctl, next_use(ctl) | KIN__REPLY_OPEN);
}

struct kin_reply *kin__reply_handle(const struct kin__reply *reply)
{
    /* relaxed: the caller is who opened it, or who moved it */
    uint64_t use = kin__load_quiet(&reply->ctl) & USE_MASK;
    uint64_t index = kin__load_quiet(&reply->frame.name) & INDEX_MASK; /* relaxed: constant */
    uint64_t moved = reply->is_moved ? MOVED : 0;
    return (struct kin_reply *)(uintptr_t)(moved | use | index);
}

bool kin__reply_is_open(const struct kin__reply *reply)
{
    /* pairs with the release of whoever took the right: it has read what it needs */
    return (kin__load_acquire(&reply->ctl) & INDEX_MASK) == KIN__REPLY_OPEN;
}

/* ---- answering ---- */

/* Where the answer goes, copied out of a token. */
struct right {
    struct kin__task *task;
    uint64_t ticket;
    struct kin__call *call;
    uint32_t case_;
};

/* What a handle that cannot be used is answered with. */
static int why_not(const struct kin_reply *handle, uint64_t ctl)
{
    bool is_moved = name_of(handle) & MOVED;
    if ((ctl & USE_MASK) != (name_of(handle) & USE_MASK))
        return is_moved ? KIN_GONE : KIN_STALE;
    switch (ctl & INDEX_MASK) {
    case KIN__REPLY_SENT:
        return KIN_REPLIED;
    case KIN__REPLY_LEFT:
        return KIN_GONE;
    default:
        return is_moved ? KIN_GONE : KIN_STALE;
    }
}

/* Takes a token from OPEN to another state, or to the next use if to is OPEN, if it is in the use
 * that ctl says. True: the right to answer is the caller's. */
static bool take_right(struct kin__reply *reply, uint64_t *ctl, uint64_t to, struct right *right)
{
    uint64_t was = *ctl;
    if ((was & INDEX_MASK) != KIN__REPLY_OPEN)
        return false;
    /* relaxed: of this use if the exchange succeeds */
    right->task = kin__load_quiet(&reply->task);
    right->ticket = kin__load_quiet(&reply->ticket); /* relaxed: as above */
    right->call = kin__load_quiet(&reply->call);     /* relaxed: as above */
    right->case_ = kin__load_quiet(&reply->case_);   /* relaxed: as above */
    /* pairs with the other exchanges, and with the acquire of the server before its next use */
    return kin__cas_acq_rel(&reply->ctl, ctl, to);
}

/* The caller had left when it was to be answered: the next one hears that, too. */
static void note_left(struct kin__reply *reply, uint64_t use)
{
    uint64_t sent = use | KIN__REPLY_SENT;
    /* relaxed: for the answer to whoever tries again */
    (void)kin__cas_relaxed(&reply->ctl, &sent, use | KIN__REPLY_LEFT);
}

static int answer(struct kin_reply *handle, const void *bytes, size_t size, int status)
{
    struct right right;
    struct kin__reply *reply = find(handle);
    if (!reply)
        return KIN_STALE;
    uint64_t use = name_of(handle) & USE_MASK;
    uint64_t ctl = kin__load_acquire(&reply->ctl); /* pairs with the release in kin__reply_open */
    if (KIN__UNLIKELY(ctl != (use | KIN__REPLY_OPEN)) ||
        !take_right(reply, &ctl, use | KIN__REPLY_SENT, &right))
        return why_not(handle, ctl);
    if (KIN__LIKELY(kin__call_answer(right.task, right.ticket, right.case_, right.call, bytes, size,
                                     status)))
        return 0;
    note_left(reply, use);
    return KIN_GONE;
}

bool kin__reply_close(struct kin__reply *reply, int status, bool *has_left)
{
    struct right right;
    uint64_t ctl = kin__load_acquire(&reply->ctl); /* pairs with the release in kin__reply_open */
    uint64_t closed = (ctl & USE_MASK) | KIN__REPLY_CLOSED;
    if (!take_right(reply, &ctl, closed, &right))
        return false;
    *has_left = !kin__call_answer(right.task, right.ticket, right.case_, right.call, NULL, 0,
                                  status);
    return true;
}

/* ---- the public face ---- */

int kin_reply_send(struct kin_reply *handle, const void *rep, size_t size)
{
    if (!handle || (!rep && size > 0))
        return -EINVAL;
    if (size > KIN_MESSAGE_MAX)
        return -EMSGSIZE;
    kin__entry_turn_self();
    return answer(handle, rep, size, 0);
}

int kin_reply_abort(struct kin_reply *handle, int status)
{
    if (!handle || status >= 0)
        return -EINVAL;
    kin__entry_turn_self();
    return answer(handle, NULL, 0, status);
}

/* Exchanges the token that the server has at hand. */
static int move_locked(struct kin_server *s, struct kin__reply *reply, struct kin_reply *handle,
                       struct kin__reply *fresh)
{
    struct right right;
    uint64_t use = name_of(handle) & USE_MASK;
    uint64_t ctl = kin__load_acquire(&reply->ctl); /* pairs with the release in kin__reply_open */
    if (ctl != (use | KIN__REPLY_OPEN) ||
        !take_right(reply, &ctl, next_use(ctl) | KIN__REPLY_OPEN, &right))
        return why_not(handle, ctl);
    reply->is_moved = true;
    kin__list_push_back(&s->moved, &reply->link);
    s->token = fresh;
    return 0;
}

int kin_reply_move(struct kin_reply *handle, struct kin_reply **out)
{
    if (!handle || !out)
        return -EINVAL;
    struct kin__task *self = kin__task_self();
    kin__entry_turn_self();
    struct kin__reply *reply = find(handle);
    if (!reply)
        return KIN_STALE;
    uint64_t ctl = kin__load_acquire(&reply->ctl); /* pairs with the release in kin__reply_open */
    if (ctl != ((name_of(handle) & USE_MASK) | KIN__REPLY_OPEN))
        return why_not(handle, ctl);
    if (name_of(handle) & MOVED) {
        *out = handle;
        return 0;
    }
    /* relaxed: constant while it is in use */
    if (!self || kin__load_relaxed(&reply->server) != kin__task_id(self))
        return -EPERM;
    struct kin__bill bill;
    int rc = kin__bill_take(&bill, self, KIN__REPLY_BYTES);
    if (rc < 0)
        return rc;
    struct kin__reply *fresh = kin__reply_make(kin__task_id(self));
    if (!fresh) {
        kin__bill_give(bill);
        return -ENOMEM;
    }
    fresh->bill = bill;
    struct kin__party *party = kin__party_lock(kin__task_id(self));
    rc = move_locked(party->server, reply, handle, fresh);
    kin__party_unlock(party);
    if (rc < 0)
        kin__reply_free(fresh);
    else
        *out = kin__reply_handle(reply);
    return rc;
}

/* Takes a moved token out of its server's list and answers its caller, if nobody has: the leak is
 * counted as long as the server, and with it the runtime, cannot end. The caller gives the token
 * back. False: the server is over and has it, or somebody else was faster. */
static bool take_moved(struct kin__reply *reply, uint64_t use, bool *is_leak)
{
    bool has_left = false;
    /* relaxed: a token of another server is in another use */
    struct kin__party *party = kin__party_lock(kin__load_relaxed(&reply->server));
    if (!party)
        return false;
    uint64_t ctl = kin__load_relaxed(&reply->ctl); /* relaxed: the use is compared under the lock */
    bool is_ours = (ctl & USE_MASK) == use && reply->is_moved && kin__list_is_linked(&reply->link);
    if (is_ours) {
        kin__list_remove(&reply->link);
        reply->is_moved = false;
        *is_leak = kin__reply_close(reply, KIN_NOREPLY, &has_left) && !has_left;
        if (*is_leak)
            kin__leaks_add(party->sched, 1); /* [GS-REPLY-LEAK] */
    }
    kin__party_unlock(party);
    return is_ours;
}

void kin__reply_report(struct kin__sched *sched, uint64_t server, const char *name)
{
    char memory[384];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_str(&text, name ? "server " : "a server");
    kin__text_printf(&text, "%s (", name ? name : "");
    kin__task_say_id(&text, server);
    kin__text_str(&text, "): a call was left without an answer");
    kin__report(sched, KIN_LEAKED, server, memory);
}

/* Drops the token that a server has at hand, in the callback. */
static bool close_at_hand(struct kin__reply *reply)
{
    bool has_left = false;
    struct kin__task *self = kin__task_self();
    if (!self || !kin__reply_close(reply, KIN_NOREPLY, &has_left) || has_left)
        return false;
    kin__leaks_add(kin__task_sched(self), 1); /* [GS-REPLY-LEAK] */
    return true;
}

void kin_reply_drop(struct kin_reply *handle)
{
    struct kin__reply *reply = handle ? find(handle) : NULL;
    if (!reply)
        return;
    bool is_leak = false;
    uint64_t use = name_of(handle) & USE_MASK;
    uint64_t server = kin__load_relaxed(&reply->server); /* relaxed: for the report */
    struct kin__task *self = kin__task_self();
    kin__entry_turn_self();
    /* pairs with the release in kin__reply_open */
    if ((kin__load_acquire(&reply->ctl) & USE_MASK) != use)
        return;
    if (!(name_of(handle) & MOVED))
        is_leak = close_at_hand(reply);
    else if (take_moved(reply, use, &is_leak))
        kin__reply_free(reply);
    if (is_leak && self)
        kin__reply_report(kin__task_sched(self), server, NULL);
}
