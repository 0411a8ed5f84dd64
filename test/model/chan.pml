/* SPDX-License-Identifier: MIT */
/*
 * Channels and select: senders, receivers and a select meet on two channels, while somebody cancels
 * them, closes the channels, or gives up the last reference.
 *
 * State.  Per channel: the ring (CAP 0 or 1), two queues of waiters (task, case), closed, aborted,
 * pins, whether it was freed. Per task: of the park word CLAIMED, which is what wakers compete for,
 * and READY; the result that the winner writes.
 *
 *     step      one section under the channel's lock: completes, claiming a waiter if need be, or
 *               changes nothing
 *     publish   one section: linked unless a step would do something; then the task claims itself
 *               and tries again
 *     unpublish one section, for every case but the one that won
 *
 * A section is atomic here: all that others can do meanwhile is to claim a park, and a claim is one
 * step whenever it comes. The wake that follows a section belongs to it: whoever was claimed can do
 * nothing before, and may be slow afterwards. What is left out: leaving the stack, and the ticket
 * (park_wake.pml): here every waiter of a park is unlinked before the next park begins.
 *
 * Actors.  Two senders and a receiver on channel 0. A select that sends on channel 0 and receives
 * from channel 1, or from channel 0 with SAME. A sender on channel 1, unless SAME. A canceller that
 * ends one park of any task, or none. Whoever ends it closes both channels, or aborts them with
 * ABORT, after which it receives until it hears "closed"; with UNREF the abort is the end of the
 * last reference, which comes when every call waits or is over.
 *
 * Properties.  Every item is received at most once, and exactly then its send says so, unless it
 * was inside at an abort; after an abort none is. They leave in the order of their admission. Of a
 * select one case happens, and only that one has an effect. A sender that waited before the close
 * is not sent away by it. Nobody waits for ever (an invalid end state). Freed memory is not
 * touched, and a channel without references is freed in the end.
 *
 * Weakenings (negative controls).
 *   BUG_LINK_APART   publish looks and links in two sections: two wait for each other
 *   BUG_NO_RETRY     a publish that finds something ready takes it for granted
 *   BUG_LOST_CLAIM   a hand-over does not look whether it won the claim: the item is lost
 *   BUG_NO_REFILL    a receive leaves the place free: a newcomer overtakes (CAP 1)
 *   BUG_CLOSE_ALL    a close wakes senders, too
 *   BUG_LATE_LINK    publish does not look at closed: nobody wakes it any more
 *   BUG_NO_UNPUBLISH a select leaves its other waiter behind: the memory is never freed
 *   BUG_FREE_EARLY   the last reference frees although waiters will come back
 *   BUG_ABORT_GIVES  a receive takes from a sender that the abort has not told yet
 */
#ifndef CAP
#define CAP 0
#endif
#ifndef CANCELS
#define CANCELS 1
#endif

#define TASKS 5
#define S0 0
#define S1 1
#define R0 2
#define X0 3
#define S2 4
#define NONE 9

#define NO        0
#define OK        1
#define CLOSED    2
#define CANCELLED 3

#define SENDQ(c) q[2 * (c)]
#define RECVQ(c) q[2 * (c) + 1]

typedef Task {
    bit claimed, ready, cancelled;
    byte result, won, slot;
}
typedef Chan {
    byte count, inside;     /* the ring: how many, and which item */
    bit closed, aborted, dead, freed;
    byte pins;
}

Task w[TASKS];
Chan ch[2];
chan q[4] = [4] of { byte, byte };
byte waiting[2];            /* items admitted and neither received nor withdrawn, of each channel */
byte place[TASKS];          /* the place of each sender's item among them; 0: none */
bit taken[TASKS], received[TASKS], dropped[TASKS];
bit parked_open[TASKS];     /* linked as a sender while the channel was open */
bit loose[TASKS];           /* in a call that neither waits nor is over */

#define touch(c) assert(!ch[c].freed)

/* The item of task v stands in line. */
inline admit(c, v)
{
    if
    :: place[v] == 0 -> waiting[c]++; place[v] = waiting[c]
    :: else
    fi
}

/* Those behind task v move up. Nobody but S2 sends on channel 1. */
#define MOVE_UP(t, v) place[t] = place[t] - (place[v] < place[t])

/* It does so no longer. */
inline withdraw(c, v)
{
    if
    :: place[v] != 0 ->
        if
        :: (v) != S2 -> MOVE_UP(S0, v); MOVE_UP(S1, v); MOVE_UP(X0, v)
        :: else
        fi;
        waiting[c]--; place[v] = 0
    :: else
    fi
}

inline receive(c, v)
{
    assert(!received[v] && !dropped[v] && !ch[c].aborted);
    assert(place[v] == 1);
    received[v] = 1; taken[v] = 1;
    withdraw(c, v)
}

/* Claims the first of a queue that can be; x is NONE otherwise. The case is in xc. */
inline claim_first(c, queue, x, is_sent)
{
    x = NONE;
    do
    :: x == NONE && len(queue) > 0 ->
        queue ? y, xc;
#ifdef BUG_LOST_CLAIM
        w[y].claimed = 1; x = y
#else
        if
        :: !w[y].claimed ->
            w[y].claimed = 1; x = y; ch[c].pins--;
            if                           /* the other case of a select is over, too */
            :: !is_sent && place[y] -> withdraw(0, y)
            :: else
            fi
        :: else ->                       /* somebody else did; it will unpublish */
            if :: is_sent -> withdraw(c, y) :: else fi
        fi
#endif
    :: else -> break
    od
}

inline free_if_last(c)
{
    if
    :: ch[c].dead && ch[c].pins == 0 -> ch[c].freed = 1
    :: else
    fi
}

/* Wakes a claimed task. */
inline wake(x, how)
{
    if
    :: x != NONE -> w[x].result = how; w[x].won = xc; w[x].ready = 1
    :: else
    fi;
    x = NONE; y = 0; xc = 0
}

inline send_step(c)
{
    d_step {
        touch(c);
        done = NO; x = NONE;
        if
        :: ch[c].closed -> done = CLOSED
        :: else ->
            claim_first(c, RECVQ(c), x, 0);
            if
            :: x != NONE -> admit(c, me); receive(c, me); w[x].slot = me + 1; done = OK
            :: x == NONE && ch[c].count < CAP ->
                admit(c, me); taken[me] = 1; ch[c].inside = me; ch[c].count++; done = OK
            :: else
            fi
        fi;
        wake(x, OK) }
}

inline recv_step(c)
{
    d_step {
        touch(c);
        done = NO; x = NONE;
        if
        :: ch[c].count > 0 ->
            receive(c, ch[c].inside); got = ch[c].inside + 1; done = OK;
            ch[c].count--; ch[c].inside = 0;
#ifndef BUG_NO_REFILL
            claim_first(c, SENDQ(c), x, 1);
            if
            :: x != NONE -> taken[x] = 1; ch[c].inside = x; ch[c].count++
            :: else
            fi
#endif
        :: else ->
            if
#ifdef BUG_ABORT_GIVES
            :: true -> claim_first(c, SENDQ(c), x, 1)
#else
            :: !ch[c].aborted -> claim_first(c, SENDQ(c), x, 1)
            :: else
#endif
            fi;
            if
            :: x != NONE -> receive(c, x); got = x + 1; done = OK
            :: x == NONE && ch[c].closed -> done = CLOSED
            :: else
            fi
        fi;
        wake(x, OK) }
}

#define HAS_OTHER(queue) (len(queue) > 1 || (len(queue) == 1 && !queue ?? [eval(me), _]))

inline link(c, queue, k)
{
    queue ! me, k; ch[c].pins++; linked = linked | (1 << k)
}

#ifdef BUG_LINK_APART
#define THEN }; d_step {
#else
#define THEN
#endif
#ifdef BUG_LATE_LINK
#define REFUSES(c) false
#else
#define REFUSES(c) ch[c].closed
#endif

inline send_publish(c, k)
{
    d_step {
        touch(c);
        is_ready = REFUSES(c) || ch[c].count < CAP || HAS_OTHER(RECVQ(c));
        THEN
        if
        :: !is_ready -> link(c, SENDQ(c), k); admit(c, me); parked_open[me] = !ch[c].closed
        :: else
        fi }
}

inline recv_publish(c, k)
{
    d_step {
        touch(c);
        is_ready = REFUSES(c) || ch[c].count > 0 || HAS_OTHER(SENDQ(c));
        THEN
        if
        :: !is_ready -> link(c, RECVQ(c), k)
        :: else
        fi }
}

/* Takes the waiter out unless its case won; a sender that has not been received from is as if it
 * had never come. */
inline unpublish(c, queue, k, is_send)
{
    if
    :: (linked & (1 << k)) && !(done == OK && won == k) && !(done == CLOSED && won == k) ->
        d_step {
            touch(c);
            if
            :: queue ?? [eval(me), _] -> queue ?? eval(me), _
            :: else
            fi;
            if
            :: is_send -> withdraw(c, me); parked_open[me] = 0
            :: else
            fi;
            ch[c].pins--;
            free_if_last(c) }
    :: else
    fi
}

/* A fresh ticket, or the park is called off. */
inline begin()
{
    won = NONE; linked = 0; is_ready = 0;
    if
    :: w[me].cancelled -> done = CANCELLED
    :: else ->
        w[me].claimed = 0; w[me].ready = 0;
        w[me].result = 0; w[me].won = NONE
    fi
}

/* Behind the publication: parks, or claims itself because something is ready. has_lost: a waker was
 * faster, and what it brought counts. */
inline park()
{
    atomic {
        has_lost = 1; loose[me] = is_ready;
        if
        :: is_ready && !w[me].claimed -> w[me].claimed = 1; w[me].ready = 1; has_lost = 0
        :: else -> loose[me] = 0
        fi };
    atomic {
        w[me].ready ->
        if
        :: has_lost -> done = w[me].result; won = w[me].won
        :: else
        fi;
        is_ready = 0 }
}

/* What a task leaves behind is nobody's business, and makes no two states of one. */
inline forget()
{
    done = 0; won = 0; linked = 0; is_ready = 0; has_lost = 0;
    w[me].slot = 0; w[me].result = 0; w[me].won = 0; loose[me] = 0
}

inline end_of_send(k)
{
    assert((done == OK) == taken[me]);
    assert(!(done == CLOSED && parked_open[me]) || ch[k].aborted)
}

proctype Sender(byte me; byte c)
{
    byte done, x, y, xc, won, linked;
    bit is_ready, has_lost;

again:
    atomic {
        done = NO;
        send_step(c);
        if :: done == NO -> begin() :: else fi;
        if :: done != NO -> goto out :: else fi
    };
    send_publish(c, 0);
    park();
    unpublish(c, SENDQ(c), 0, 1);
#ifdef BUG_NO_RETRY
    if :: !has_lost -> done = OK :: else fi;
#else
    if :: !has_lost -> goto again :: else fi;
#endif
out:
    atomic { end_of_send(c); forget() }
}

proctype Receiver(byte me; byte c)
{
    byte done, x, y, xc, won, linked, got;
    bit is_ready, has_lost;

again:
    atomic {
        done = NO;
        recv_step(c);
        if :: done == NO -> begin() :: else fi;
        if :: done != NO -> goto out :: else fi
    };
    recv_publish(c, 0);
    park();
    unpublish(c, RECVQ(c), 0, 0);
#ifdef BUG_NO_RETRY
    if :: !has_lost -> done = OK :: else fi;
#else
    if :: !has_lost -> goto again :: else fi;
#endif
    got = w[me].slot;
out:
    atomic {
        assert((done == OK) == (got != 0));
        assert(got == 0 || received[got - 1]);
        got = 0; forget() }
}

/* Case 0 sends on channel 0, case 1 receives from channel c. */
proctype Select(byte me; byte c)
{
    byte done, x, y, xc, won, linked, got;
    bit is_ready, has_lost, first;

again:
    if :: first = 0 :: first = 1 fi;            /* any order */
    won = first;
    do
    :: atomic {
        if
        :: won == 0 -> send_step(0)
        :: else -> recv_step(c)
        fi;
        if
        :: done != NO -> first = 0; goto out
        :: done == NO && won != first -> begin(); break
        :: else -> won = 1 - first
        fi }
    od;
    first = 0;
    if :: done != NO -> goto out :: else fi;
    send_publish(0, 0);
    if :: !is_ready -> recv_publish(c, 1) :: else fi;
    park();
    unpublish(0, SENDQ(0), 0, 1);
#ifndef BUG_NO_UNPUBLISH
    unpublish(c, RECVQ(c), 1, 0);
#endif
    if :: !has_lost -> goto again :: else fi;
    got = w[me].slot;
out:
    atomic {
        /* one case, and nothing of the other */
        assert((done == OK && won == 0) == taken[me]);
        assert((done == OK && won == 1) == (got != 0));
        assert(got == 0 || received[got - 1]);
        assert(!(done == CLOSED && won == 0 && parked_open[me]) || ch[0].aborted);
        got = 0; forget() }
}

proctype Canceller()
{
    byte who;

    if                                          /* anybody, or nobody */
    :: who = S0 :: who = S1 :: who = R0 :: who = X0 :: goto out
    fi;
    atomic {                                    /* a park that begins later sees it */
        w[who].cancelled = 1;
        if
        :: !w[who].claimed -> w[who].claimed = 1
        :: else -> goto out
        fi };
    atomic { w[who].result = CANCELLED; w[who].won = NONE; w[who].ready = 1 };
out:
    skip
}

/* Wakes everybody in a queue, one section for each. */
inline wake_queue(c, queue, is_sent)
{
    do
    :: d_step {
        len(queue) > 0 -> touch(c);
        claim_first(c, queue, x, is_sent);
        if                              /* a sender that is sent away takes its item along */
        :: is_sent && x != NONE -> withdraw(c, x)
        :: else
        fi;
        wake(x, CLOSED) }
    :: len(queue) == 0 -> break
    od
}

inline shut(c)
{
    d_step {
        touch(c);
        ch[c].closed = 1;
#ifdef UNREF
        ch[c].dead = 1;
#endif
#ifdef ABORT
        ch[c].aborted = 1;
        if
        :: ch[c].count > 0 ->
            dropped[ch[c].inside] = 1; withdraw(c, ch[c].inside);
            ch[c].count = 0; ch[c].inside = 0
        :: else
        fi;
#endif
        ch[c].pins++ };
    wake_queue(c, RECVQ(c), 0);
#if defined(ABORT) || defined(BUG_CLOSE_ALL)
    wake_queue(c, SENDQ(c), 1);
#endif
    atomic {
        touch(c);
        ch[c].pins--;
#ifdef BUG_FREE_EARLY
        ch[c].freed = 1;
#endif
        free_if_last(c) }
}

proctype Ender()
{
    byte c, me = NONE, done, x, y, xc, got;

#ifdef UNREF
    /* who has the last reference knows that no call will reach the channel any more but those that
     * wait there */
    !loose[S0] && !loose[S1] && !loose[R0] && !loose[X0] && !loose[S2];
#endif
    do
    :: c < 2 -> shut(c); c++
    :: else -> c = 0; break
    od;
#ifndef UNREF
    do
    :: c < 2 ->
        atomic { done = NO; recv_step(c); got = 0; assert(done != NO) };
        if :: done == CLOSED -> c++ :: else fi
    :: else -> break
    od
#endif
}

#ifndef SAME
#define SAME 0
#endif

init {
    byte i;
    atomic {
        i = 0;
        do
        :: i < TASKS -> w[i].claimed = 1; w[i].ready = 1; i++
        :: else -> break
        od;
        loose[S0] = 1; run Sender(S0, 0);
#ifndef ONE_SENDER
        loose[S1] = 1; run Sender(S1, 0);
#endif
#ifndef NO_RECEIVER
        loose[R0] = 1; run Receiver(R0, 0);
#endif
#if SAME
        loose[X0] = 1; run Select(X0, 0);
#else
        loose[X0] = 1; run Select(X0, 1);
        loose[S2] = 1; run Sender(S2, 1);
#endif
#if CANCELS
        run Canceller();
#endif
        run Ender()
    };
    /* all are home: the books must balance */
    _nr_pr == 1;
    i = 0;
    do
    :: i < TASKS ->
        assert(taken[i] == (received[i] || dropped[i]));
        assert(place[i] == 0);
        i++
    :: else -> break
    od;
#ifdef UNREF
    assert(ch[0].freed && ch[1].freed);
#endif
    skip
}
