/* SPDX-License-Identifier: MIT */
/*
 * Park and wake: one task that parks ROUNDS times on two waitables at once, two workers, wakers
 * that race, a timeout that may come late, and a sticky cancel.
 *
 * State.  One word in the task's frame: (ticket, CANCEL, OFF, READY, CLAIMED).
 *
 *     begin    task        ticket + 1, flags cleared, CANCEL kept: one fetch_add; a CANCEL in what
 *              it
 *                          replaced calls the park off by a self-claim
 *     link     task        a node (ticket) on each waitable, under its lock, unless it is
 *              complete;
 *                          if it is complete: self-claim, a CAS of CLAIMED
 *     check    task        READY already: return in place, the stack is never left
 *     leave    task        registers saved; from here on the worker runs its successor
 *     commit   successor   old = fetch_or(OFF); READY in old: put the task in a run queue
 *     wake     anyone      CAS of CLAIMED for one ticket; the winner writes the result, sets
 *              READY,
 *                          and puts the task in a run queue if OFF came first
 *     cancel   anyone      fetch_or(CANCEL), then wake with the ticket that this RMW returned
 *
 * Actors.  Two workers; whichever has the task executes its steps, then commits on its own behalf.
 * Per round one data waker (waitable 0) and one timeout (waitable 1), each of which fires once, at
 * any time, possibly long after its round. One canceller. The data of the last round never comes
 * when LAST_DATA is 0, so that only the cancel (or the timeout, if there is one) can end it.
 *
 * Properties.  Exactly one winner for each ticket; a task is put in a run queue at most once for
 * each park and never while a worker is on its stack; the result that the task reads was written
 * by the winner of its own ticket; no wake and no cancel is lost (else the run stops in an invalid
 * end state, the task being parked for ever).
 *
 * Weakenings (negative controls).
 *   BUG_BEGIN_STORE    begin writes the word instead of adding to it: erases a concurrent CANCEL
 *   BUG_COMMIT_OWN     the task sets OFF while it is still on its stack
 *   BUG_NO_TICKET      wake does not compare the ticket: a late timeout ends a later park
 *   BUG_COMMIT_BLIND   commit does not look at READY
 *   BUG_TWO_WORDS      the pending wake has a word of its own, as in the document kin departs from
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef LAST_DATA
#define LAST_DATA 1
#endif

#define NOTHING   0
#define DATA      1
#define TIMEOUT   2
#define CANCELLED 3

/* the word; CLAIMED means "not parked" */
byte ticket;
bit canc, off, ready;
bit claimed = 1;
#ifdef BUG_TWO_WORDS
bit pending;
#endif

/* the waitables: what happened, and the node linked there (ticket, 0 if none) */
bit fired[ROUNDS * 2];
byte node[2];

byte result, result_ticket;          /* written by the winner, read by the task */
byte winners[ROUNDS + 2];            /* per ticket */
byte queued;                         /* entries of this task in run queues */
byte enqueues[ROUNDS + 2];           /* per ticket */
bit onstack = 1;                     /* a worker is on the task's stack */
byte round;
bit done;

inline win(t, r)
{
    assert(winners[t] == 0);
    winners[t]++;
    result = r;
    result_ticket = t
}

inline enqueue(t)
{
    assert(queued == 0);
    assert(!onstack);
    assert(enqueues[t] == 0);
    enqueues[t]++;
    queued++
}

/* wake(t, why): the general form; w* is the copy of the word that the CAS compares */
inline wake(t, why)
{
    atomic { wt = ticket; wc = canc; wo = off; wr = ready; wl = claimed };
    do
#ifdef BUG_NO_TICKET
    :: wl -> break
    :: !wl && wo ->
#else
    :: wt != t || wl -> break
    :: wt == t && !wl && wo ->
#endif
        atomic {
            if
            :: wt == ticket && wc == canc && wo == off && wr == ready && wl == claimed ->
                claimed = 1; ready = 1; win(wt, why); won = 1
            :: else -> wt = ticket; wc = canc; wo = off; wr = ready; wl = claimed
            fi };
        if
        :: won -> enqueue(wt); break
        :: else
        fi
#ifdef BUG_NO_TICKET
    :: !wl && !wo ->
#else
    :: wt == t && !wl && !wo ->
#endif
#ifdef BUG_TWO_WORDS
        pending = 1; break
#else
        atomic {
            if
            :: wt == ticket && wc == canc && wo == off && wr == ready && wl == claimed ->
                claimed = 1; won = 1
            :: else -> wt = ticket; wc = canc; wo = off; wr = ready; wl = claimed
            fi };
        if
        :: won ->
            atomic { win(wt, why) };
            atomic { ready = 1; wo = off };
            if
            :: wo -> enqueue(wt)
            :: else
            fi;
            break
        :: else
        fi
#endif
    od;
    atomic { wt = 0; wc = 0; wo = 0; wr = 0; wl = 0; won = 0 }
}

/* what happens at waitable w for round r, in the waitable's lock; the wake comes after it */
proctype Waker(byte w; byte r)
{
    byte t, wt;
    bit wc, wo, wr, wl, won;

    atomic {
        fired[r * 2 + w] = 1;
        if
        :: node[w] != 0 && round == r -> t = node[w]
        :: else
        fi };
    if
    :: t != 0 -> wake(t, DATA + w)
    :: else
    fi
}

proctype Canceller()
{
    byte t, wt;
    bit wc, wo, wr, wl, won;

    atomic { canc = 1; t = ticket };
    wake(t, CANCELLED)
}

inline leave_commit()
{
    /* The task's registers are saved; the rest runs on the successor's stack. */
#ifdef BUG_COMMIT_OWN
    atomic { wr = ready; off = 1 };
    onstack = 0;
#else
    onstack = 0;
#ifdef BUG_TWO_WORDS
    off = 1;
    atomic { wr = pending; pending = 0 };
    if
    :: wr ->
        atomic {
            if
            :: !claimed -> claimed = 1; ready = 1; win(ticket, DATA)
            :: else -> wr = 0
            fi }
    :: else
    fi;
#else
    atomic { wr = ready; off = 1 };
#endif
#endif
    has = 0;
#ifndef BUG_COMMIT_BLIND
    if
    :: wr -> enqueue(ticket)
    :: else
    fi;
#endif
    wr = 0
}

inline returned()
{
    atomic {
        assert(result_ticket == ticket && winners[ticket] == 1);
        assert(result != NOTHING);
        assert(result == CANCELLED || fired[round * 2 + result - DATA]);
        node[0] = 0; node[1] = 0;
        if
        :: result == CANCELLED -> round = ROUNDS
        :: else -> round++
        fi;
        result = NOTHING }
}

proctype Worker(bit has)
{
    byte wt, w;
    bit wc, wr, self;

    do
    :: has && round == ROUNDS -> atomic { onstack = 0; has = 0; done = 1; break }

    :: has && round < ROUNDS ->
        /* begin: one addition makes the next ticket and clears the flags */
#ifdef BUG_BEGIN_STORE
        atomic { wt = ticket; wc = canc };
        atomic { ticket = wt + 1; canc = wc; claimed = 0; ready = 0; off = 0 };
#else
        atomic { wc = canc; ticket++; claimed = 0; ready = 0; off = 0 };
#endif
        self = 0;
        if
        :: wc ->                                 /* asked before it began: call it off */
            atomic { if :: !claimed -> claimed = 1; ready = 1; win(ticket, CANCELLED); self = 1
                        :: else              /* another canceller is delivering the same */
                     fi }
        :: else
        fi;
        /* link unless complete, one waitable after the other */
        w = 0;
        do
        :: !wc && w < 2 && !self ->
            atomic {
                if
                :: fired[round * 2 + w] ->
                    if
                    :: !claimed -> claimed = 1; ready = 1; win(ticket, DATA + w); self = 1
                    :: else -> w = 2             /* somebody delivers: leave, and be resumed */
                    fi
                :: else -> node[w] = ticket; w++
                fi }
        :: else -> break
        od;
        atomic { wt = 0; wc = 0; w = 0 };
        if
        :: self -> returned()
        :: !self ->
            if
            :: ready -> returned()               /* check: called off before the stack was left */
            :: true -> leave_commit()            /* or it did not look in time */
            fi
        fi

    :: atomic { !has && queued > 0 -> queued--; assert(!onstack); onstack = 1; has = 1 };
        returned()

    :: !has && done -> break
    od
}

init {
    byte i;
    atomic {
        run Worker(1);
        run Worker(0);
        do
        :: i < ROUNDS ->
            if
            :: LAST_DATA || i < ROUNDS - 1 -> run Waker(0, i)
            :: else
            fi;
            if
            :: TIMEOUTS -> run Waker(1, i)
            :: else
            fi;
            i++
        :: else -> break
        od;
        if
        :: CANCELS -> run Canceller()
        :: else
        fi
    }
}
