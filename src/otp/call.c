/* SPDX-License-Identifier: MIT */
/*
 * Calls and casts: how letters get to a server.
 *
 *     the server waits for letters     the sender takes what is in the letter over to the server
 *                                      and wakes it: nothing is queued, and the server, once it
 *                                      runs, needs no lock to begin
 *     it does something                the letter goes into the box
 *     the box is full                  a call waits in the room; a cast does as the server's policy
 *                                      says
 *
 * A caller parks with its letter on its stack. Until the server takes the letter the caller can
 * leave with it, under the lock of the party; from then on it can leave without a word, because
 * everything that the server needs of the request was copied, and the answer finds the ticket gone
 * [GS-CALL-SEND].
 */
#include "otp/serving.h"

#include "park/peek.h"
#include "plat/plat.h"
#include "sched/entry.h"

#include <errno.h>
#include <string.h>

/* ---- at the door of a server ---- */

/* What a sender is told instead of being let in; 0: nothing. A server that was asked to stop is
 * closed even if it does not know yet: what comes after a cancel is not handled. */
static inline int refusal_locked(const struct kin__party *party, const struct kin__sched *sched,
                                 const struct kin__server_extra *extra)
{
    const struct kin_server *s = party->server;
    if (KIN__UNLIKELY(!s || party->sched != sched))
        return KIN_NOPROC;
    if (KIN__UNLIKELY(extra && s->extra != extra))
        return KIN_NOPROC;
    if (KIN__UNLIKELY(s->state > KIN_SERVER_RUNNING || s->is_asked ||
                      (kin__word_requests(s->task) & (KIN__CANCEL | KIN__KILL))))
        return KIN_STOPPING;
    return 0;
}

void kin__server_open_locked(struct kin_server *s, struct kin__letter *letter)
{
    if (letter->kind == KIN__LETTER_CAST) {
        s->cast = letter;
        s->next = KIN__NEXT_CAST;
        return;
    }
    struct kin__call *call = KIN__CONTAINER_OF(letter, struct kin__call, letter);
    if (KIN__UNLIKELY(call->copy != NULL)) {
        s->copy = call->copy;
        call->copy = NULL;
    } else {
        kin__item_copy(s->small, call->request, letter->size);
    }
    s->request_size = letter->size;
    call->was_taken = true;
    s->next = letter->kind == KIN__LETTER_CALL ? KIN__NEXT_CALL : KIN__NEXT_REQUEST;
    kin__reply_open(s->token, letter);
}

/* Claims the park of a server that waits for letters. */
static inline bool claim_server_locked(struct kin__party *party, struct kin__claimed *out)
{
    const struct kin__waiter *waiter = party->reader;
    if (!waiter || waiter->io != party->server)
        return false;
    party->reader = NULL;
    *out = (struct kin__claimed){waiter->task, NULL, waiter->case_, 0};
    out->claim = (int)kin__word_claim(waiter->task, waiter->ticket);
    return out->claim != KIN__LOST;
}

/* Lets a letter in for which there is room, and wakes the server if it waits. The lock is given. */
static inline void admit_and_unlock(struct kin__party *party, struct kin__letter *letter)
{
    struct kin_server *s = party->server;
    struct kin__claimed server;
    bool is_claimed = s->state == KIN_SERVER_RUNNING && claim_server_locked(party, &server);
    if (is_claimed) /* its mailbox is empty, or it would not wait */
        kin__server_open_locked(s, letter);
    else
        kin__mailbox_push_locked(party, &s->mailbox, letter);
    kin__party_unlock(party);
    if (is_claimed) {
        server.task->wait_status = 0;
        server.task->wait_case = server.case_;
        server.task->wake_ready = server.claim == KIN__WON_PARKING;
        kin__wake_deliver(server.task);
    }
}

/* The sender of a letter is this waiter. */
static inline void sign(struct kin__letter *letter, const struct kin__waiter *waiter)
{
    letter->task = waiter->task;
    letter->ticket = waiter->ticket;
    letter->case_ = (uint16_t)waiter->case_;
}

/* A sender leaves with its letter, if that is still in the mailbox. The server may be over: then
 * the letter is nowhere. */
static void leave(struct kin__party *party, struct kin__letter *letter)
{
    struct kin__wakes wakes = {0};
    kin__party_take(party);
    if (kin__list_is_linked(&letter->link))
        kin__mailbox_remove_locked(party, &party->server->mailbox, letter, &wakes);
    kin__party_unlock(party);
    kin__wakes_run(&wakes);
}

/* ---- calls ---- */

/* Nothing but a refusal completes a call before it is sent. */
static bool call_try(void *object, void *io, int *status)
{
    const struct kin__call *call = object;
    (void)io;
    struct kin__party *party = kin__party_lock(call->to);
    *status = party ? refusal_locked(party, call->sched, call->extra) : KIN_NOPROC;
    if (party)
        kin__party_unlock(party);
    return *status < 0;
}

static bool call_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct kin__call *call = object;
    (void)status;
    struct kin__party *party = kin__party_lock(call->to);
    if (KIN__UNLIKELY(!party))
        return false;
    if (KIN__UNLIKELY(refusal_locked(party, call->sched, call->extra) != 0)) {
        kin__party_unlock(party);
        return false;
    }
    call->party = party;
    sign(&call->letter, waiter);
    if (KIN__LIKELY(!kin__mailbox_is_full(&party->server->mailbox))) {
        admit_and_unlock(party, &call->letter);
    } else {
        kin__mailbox_queue_locked(&party->server->mailbox, &call->letter);
        kin__party_unlock(party);
    }
    return true;
}

static void call_unpublish(void *object, struct kin__waiter *waiter)
{
    struct kin__call *call = object;
    (void)waiter;
    leave(call->party, &call->letter);
}

static const struct kin__waitable call_waitable = {"call", call_try, call_publish, call_unpublish};

/* Whether the server has this caller's call at hand: nobody else can answer it. */
static bool is_at_hand(uint64_t server, const struct kin__task *caller)
{
    struct kin__party *party = kin__party_lock(server);
    if (!party)
        return false;
    const struct kin_server *s = party->server;
    /* relaxed: a hint; whoever asks looks again whether the caller still waits */
    bool is_it = s && s->token && kin__reply_is_open(s->token) &&
                 kin__load_relaxed(&s->token->task) == caller;
    kin__party_unlock(party);
    return is_it;
}

/* The server, unless it has given the right to answer away: then it may be anybody. */
uint64_t kin__call_holder(const struct kin__task *waiter, const struct kin__waits *waits)
{
    struct kin__call call;
    if (waits->ops != &call_waitable || !kin__plat_peek(waits->object, &call, sizeof(call)))
        return 0;
    return !call.was_taken || is_at_hand(call.to, waiter) ? call.to : 0;
}

/* Whether a letter that is linked somewhere could move on. */
static const char *why_linked(const struct kin__party *party, const struct kin__letter *letter)
{
    if (!kin__list_is_linked(&letter->link))
        return NULL;
    if (party->is_over || !party->server)
        return "the server is over";
    return !letter->is_boxed && !kin__mailbox_is_full(&party->server->mailbox)
               ? "the mailbox has room"
               : NULL;
}

KIN__WAITABLE_READY(call_waitable)
{
    const struct kin__call *call = object;
    return why_linked(call->party, &call->letter);
}

/* A call that does not wait: there is nobody to get the answer, so it is not sent. */
static int call_not(const struct kin__call *call)
{
    struct kin__party *party = kin__party_lock(call->to);
    if (!party)
        return KIN_NOPROC;
    int rc = refusal_locked(party, call->sched, call->extra);
    if (rc == 0)
        rc = kin__mailbox_is_full(&party->server->mailbox) ? KIN_FULL : KIN_TIMEOUT;
    kin__party_unlock(party);
    return rc;
}

/* A large request is copied before any lock is held. */
static int copy_request(struct kin__call *call)
{
    if (KIN__LIKELY(call->letter.size <= KIN__REQUEST_SMALL))
        return 0;
    call->copy = kin__heap_alloc(call->letter.size);
    if (!call->copy)
        return -ENOMEM;
    memcpy(call->copy, call->request, call->letter.size);
    return 0;
}

/* The arguments were looked at; task is the running one. */
static int send_call(struct kin__task *task, struct kin__call *call, kin_time deadline,
                     size_t *rep_size)
{
    if (KIN__UNLIKELY(call->to == kin__task_id(task)))
        return KIN_DEADLOCK;
    if (KIN__UNLIKELY(deadline == 0))
        return call_not(call);
    int rc = copy_request(call);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    kin__list_init(&call->letter.link);
    /* what kin__wait_until does most of the time */
    if (KIN__LIKELY(kin__deadline_of(task, deadline) == KIN_NEVER))
        rc = kin__wait(&call_waitable, call, NULL, KIN__WAIT_TRIED);
    else
        rc = kin__wait_until(&call_waitable, call, NULL, deadline, KIN__WAIT_TRIED);
    if (KIN__UNLIKELY(call->copy != NULL))
        kin__heap_free(call->copy); /* nobody has taken it */
    if (call->has_reply && rep_size && (rc == 0 || rc == -EMSGSIZE))
        *rep_size = call->reply_size;
    return rc;
}

/* What is wrong with a message to somebody; 0: nothing. */
static inline int check_message(const void *bytes, size_t size)
{
    if (KIN__UNLIKELY(!bytes && size > 0))
        return -EINVAL;
    return KIN__UNLIKELY(size > KIN_MESSAGE_MAX) ? -EMSGSIZE : 0;
}

/* Fills in a call; has_reply and the like are set here, the rest of it where it is needed. */
static inline void init_call(struct kin__call *call, uint64_t to, uint8_t kind, const void *request,
                             size_t size)
{
    call->letter.size = (uint32_t)size;
    call->letter.kind = kind;
    call->letter.is_boxed = false;
    call->letter.is_billed = false;
    call->to = to;
    call->extra = NULL;
    call->request = request;
    call->copy = NULL;
    call->has_reply = false;
    call->was_taken = false;
}

int kin_call(struct kin_addr to, const void *req, size_t req_size, void *rep, size_t rep_cap,
             size_t *rep_size, kin_time deadline)
{
    struct kin__call call;
    int rc = check_message(req, req_size);
    if (KIN__UNLIKELY(rc < 0 || (!rep && rep_cap > 0)))
        return rc < 0 ? rc : -EINVAL;
    rc = kin__entry_begin(kin__task_self(), KIN__COST_CHANNEL, deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    struct kin__task *task = kin__task_self(); /* others may have run */
    if (KIN__UNLIKELY(to.node != 0))
        return KIN_NOCONN;
    init_call(&call, to.id, KIN__LETTER_CALL, req, req_size);
    call.sched = kin__task_sched(task);
    call.reply = rep;
    call.reply_max = rep_cap;
    return send_call(task, &call, deadline, rep_size);
}

int kin__call_extra(struct kin_addr to, const struct kin__server_extra *extra, const void *req,
                    size_t req_size, void *rep, size_t rep_cap, size_t *rep_size, kin_time deadline,
                    bool *was_taken)
{
    struct kin__call call;
    if (was_taken)
        *was_taken = false;
    int rc = kin__entry_begin(kin__task_self(), KIN__COST_CHANNEL, deadline);
    if (rc < 0)
        return rc;
    struct kin__task *task = kin__task_self();
    if (to.node != 0)
        return KIN_NOCONN;
    init_call(&call, to.id, KIN__LETTER_REQUEST, req, req_size);
    call.sched = kin__task_sched(task);
    call.extra = extra;
    call.reply = rep;
    call.reply_max = rep_cap;
    rc = send_call(task, &call, deadline, rep_size);
    if (was_taken)
        *was_taken = call.was_taken;
    return rc;
}

/* ---- casts ---- */

/* A cast under way, on the sender's stack. */
struct posting {
    uint64_t to;
    struct kin__sched *sched;
    struct kin__task *task;
    struct kin__party *party;   /* where it was linked last */
    struct kin__letter *letter; /* NULL: it is the server's */
};

#define POST_WAIT 1 /* of post: there is no room, and the sender may wait for it */

/* What becomes of a cast to a full mailbox: 0, POST_WAIT or what the sender is told. *dropped
 * receives an older cast that makes room for it. */
static int overflow_locked(struct kin__party *party, const struct posting *posting,
                           struct kin__letter **dropped)
{
    struct kin_server *s = party->server;
    if (s->overflow == KIN_OVERFLOW_REJECT)
        return KIN_FULL; /* [GS-CAST-FULL] */
    if (s->overflow == KIN_OVERFLOW_PARK) /* who waits for itself waits for ever */
        return s->task == posting->task ? KIN_FULL : POST_WAIT;
    *dropped = kin__mailbox_cast(&s->mailbox);
    if (!*dropped)
        return KIN_FULL;
    kin__mailbox_drop_locked(party, &s->mailbox, *dropped);
    s->dropped++;
    return 0;
}

/* One attempt, without waiting. POST_WAIT: there is no room. */
static inline int post(struct posting *posting)
{
    struct kin__letter *dropped = NULL;
    struct kin__party *party = kin__party_lock(posting->to);
    if (KIN__UNLIKELY(!party))
        return KIN_NOPROC;
    int rc = refusal_locked(party, posting->sched, NULL);
    if (KIN__UNLIKELY(rc == 0 && kin__mailbox_is_full(&party->server->mailbox)))
        rc = overflow_locked(party, posting, &dropped);
    if (KIN__UNLIKELY(rc != 0)) {
        kin__party_unlock(party);
        return rc;
    }
    struct kin__letter *letter = posting->letter;
    posting->letter = NULL;
    admit_and_unlock(party, letter); /* [GS-CAST-TRY] */
    if (KIN__UNLIKELY(dropped != NULL))
        kin__letter_free(dropped);
    return 0;
}

static bool room_try(void *object, void *io, int *status)
{
    (void)io;
    *status = post(object);
    return *status != POST_WAIT;
}

static bool room_publish(void *object, struct kin__waiter *waiter, int *status)
{
    struct posting *posting = object;
    (void)status;
    struct kin__party *party = kin__party_lock(posting->to);
    if (!party)
        return false;
    /* who comes this far waits for room: the policy and the sender stay what they are */
    bool waits = refusal_locked(party, posting->sched, NULL) == 0 &&
                 kin__mailbox_is_full(&party->server->mailbox);
    if (waits) {
        posting->party = party;
        sign(posting->letter, waiter);
        kin__mailbox_queue_locked(&party->server->mailbox, posting->letter);
    }
    kin__party_unlock(party);
    return waits;
}

static void room_unpublish(void *object, struct kin__waiter *waiter)
{
    struct posting *posting = object;
    (void)waiter;
    leave(posting->party, posting->letter);
}

static const struct kin__waitable room_waitable = {"cast: room", room_try, room_publish,
                                                   room_unpublish};

KIN__WAITABLE_READY(room_waitable)
{
    const struct posting *posting = object;
    return why_linked(posting->party, posting->letter);
}

/* Waits for room with the letter in hand. */
static __attribute__((noinline)) int wait_for_room(struct posting *posting, kin_time deadline)
{
    if (deadline == 0)
        return KIN_FULL;
    int rc = kin__wait_until(&room_waitable, posting, NULL, deadline, KIN__WAIT_TRIED);
    if (rc == 0)
        posting->letter = NULL; /* it has moved up */
    return rc;
}

int kin_cast(struct kin_addr to, const void *msg, size_t size, kin_time deadline)
{
    int rc = check_message(msg, size);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    rc = kin__entry_begin(kin__task_self(), KIN__COST_CHANNEL, deadline);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    if (KIN__UNLIKELY(to.node != 0))
        return KIN_NOCONN;
    struct posting posting;
    posting.task = kin__task_self();
    posting.to = to.id;
    posting.sched = kin__task_sched(posting.task);
    rc = kin__letter_make(posting.task, msg, size, &posting.letter);
    if (KIN__UNLIKELY(rc < 0))
        return rc;
    rc = post(&posting);
    if (KIN__UNLIKELY(rc == POST_WAIT))
        rc = wait_for_room(&posting, deadline);
    if (KIN__UNLIKELY(posting.letter != NULL))
        kin__letter_free(posting.letter);
    return rc;
}
