/* SPDX-License-Identifier: MIT */
/*
 * Masked cancellation: a task masks and unmasks itself and parks, while somebody cancels it and,
 * in some runs, somebody kills it.
 *
 * State.  The park word with three more facts: CANCEL and KILL, both sticky, and SHIELD, which
 * begin sets when the task is masked. SHIELD belongs to a ticket: the mask cannot change while the
 * task is parked, because only the task itself changes it.
 *
 *     begin     one addition writes ticket + 1 and SHIELD = masked and keeps the sticky bits; KILL
 *               in what it replaced, or CANCEL without a mask, calls the park off by a self-claim
 *     cancel    old = fetch_or(CANCEL); wakes ticket(old) only if SHIELD is clear in old
 *     kill      old = fetch_or(CANCEL | KILL); wakes ticket(old) whatever SHIELD says
 *     unmask    lowers the depth; the next begin or check of the task looks at CANCEL again
 *
 * What is left out: leaving the stack and run queues (park_wake.pml). Here a task that is parked
 * waits for READY.
 *
 * Actors.  The task: ROUNDS parks, each masked or not, as it likes. Per round a data waker that
 * may or may not come; it always comes for a masked park unless there is a killer, because a
 * masked park is not obliged to end otherwise. One canceller; one killer if KILLS.
 *
 * Properties.  A cancel never ends a masked park; after a cancel the task does not stay parked in
 * an unmasked park, and after a kill not in any (an invalid end state otherwise); a park without a
 * mask after a cancel is called off.
 *
 * Weakenings (negative controls).
 *   BUG_NO_SHIELD      cancel wakes without looking at SHIELD: ends a masked park
 *   BUG_DEPTH_APART    cancel looks at a mask depth outside the word: loses the cancel when the
 *                      task unmasks and parks in between
 *   BUG_KILL_SHIELDED  kill respects SHIELD: a masked park never ends
 *   BUG_BEGIN_KEEPS    begin does not clear the SHIELD of the ticket before
 */
#ifndef ROUNDS
#define ROUNDS 3
#endif
#ifndef KILLS
#define KILLS 0
#endif

#define DATA      1
#define CANCELLED 2
#define KILLED    3

byte ticket;
bit canc, kill, shield, ready;
bit claimed = 1;

bit masked;                 /* the task's own; BUG_DEPTH_APART lets others read it */
byte result;
byte round;
bit linked;
bit over;
bit told;                   /* the canceller's RMW is done */

inline wake(t, why)
{
    atomic {
        if
        :: ticket == t && !claimed -> claimed = 1; won = 1
        :: else -> won = 0
        fi };
    if
    :: won -> result = why; ready = 1
    :: else
    fi;
    won = 0
}

proctype Waker(byte r)
{
    byte t;
    bit won;

    /* The event of round r comes when it comes, or never, unless somebody counts on it. */
    if
    :: atomic { round == r && linked -> t = ticket };
        wake(t, DATA)
    :: round > r || over
    :: !KILLS && round == r && linked && !masked -> skip
    :: KILLS -> skip
    fi
}

proctype Canceller()
{
    byte t;
    bit won, held;

#ifdef BUG_DEPTH_APART
    held = masked;
    atomic { canc = 1; told = 1; t = ticket };
#else
    atomic { canc = 1; told = 1; t = ticket; held = shield };
#endif
#ifdef BUG_NO_SHIELD
    held = 0;
#endif
    if
    :: !held -> wake(t, CANCELLED)
    :: else
    fi
}

proctype Killer()
{
    byte t;
    bit won, held;

    atomic { canc = 1; told = 1; kill = 1; t = ticket; held = shield };
#ifdef BUG_KILL_SHIELDED
    if
    :: !held -> wake(t, KILLED)
    :: else
    fi
#else
    wake(t, KILLED)
#endif
}

proctype Task()
{
    bit wc, wk, calls_off;

    do
    :: round < ROUNDS ->
        if                                          /* mask or unmask, or neither */
        :: masked = 1
        :: masked = 0
        :: skip
        fi;
        atomic {                                    /* begin: one addition */
            wc = canc; wk = kill;
            ticket++; claimed = 0; ready = 0;
#ifdef BUG_BEGIN_KEEPS
            shield = shield || masked;
#else
            shield = masked;
#endif
            calls_off = wk || (wc && !masked);
            assert(calls_off || masked || !told) };
        if
        :: calls_off ->
            atomic { if :: !claimed -> claimed = 1; goto out :: else fi };
            ready;                                  /* whoever was faster delivers the same */
            assert(result != DATA);
            goto out
        :: else -> linked = 1
        fi;
        ready;                                      /* parked */
        atomic {
            linked = 0;
            assert(result != 0);
            assert(!(masked && result == CANCELLED));
            if
            :: result == DATA -> result = 0; round++
            :: else -> result = 0; goto out
            fi }
    :: else -> break
    od;
out:
    over = 1
}

init {
    byte i;
    atomic {
        run Task();
        do
        :: i < ROUNDS -> run Waker(i); i++
        :: else -> break
        od;
        run Canceller();
        if
        :: KILLS -> run Killer()
        :: else
        fi
    }
}
