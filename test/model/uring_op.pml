/* SPDX-License-Identifier: MIT */
/*
 * A call behind a ring (src/wait/uring.c): a task makes calls one after the other, each with an op
 * at the same address; the kernel carries them out; two threads reap; somebody asks the task
 * to stop.
 *
 * State.  alive: the op is in scope, and the memory that the call names is the task's to lend.
 * call: what the kernel has of it. results: what it has posted and nobody has taken. done, linked,
 * lock: of the op. woken: the task's park was ended, by the result or by the request.
 *
 *     begin     alive, not done; the kernel has the call, or nothing has happened
 *     kernel    starts it, writes to the memory, posts one result; or gives it up and posts that
 *     reap      takes a result; under the op's lock: done, claims the waiter if it is linked; wakes
 *     publish   under the lock: links unless it is done
 *     cancel    in one step: a call that has not started is given up; then the task waits on, deaf
 *     leave     when it is done: the op is gone, and the next one takes its place
 *
 * What is left out: how a park is claimed (park_wake.pml); that requests come at any time is in
 * Asker. The limit on calls under way, which keeps results from not fitting.
 *
 * Properties.  The kernel writes, and whoever reaps touches, only while the op is in scope. A call
 * that nobody cancelled is carried out. Every call ends (an invalid end state otherwise).
 *
 * Weakenings (negative controls).
 *   BUG_LEAVE_EARLY   a cancelled task leaves at once: the kernel writes to what is not there
 *   BUG_TOUCH_AFTER   whoever reaps touches the op after it has given the lock
 *   BUG_LATE_CANCEL   the request to cancel is carried out later: it may hit the next call
 *   BUG_LINK_BLIND    publish does not look whether it is done: the wake is lost
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif

#define NONE 0
#define WAITING 1
#define RUNNING 2
#define GIVEN_UP 3

bit alive, done, given, linked, locked, woken, asked;
bit parked;          /* the task's park can be claimed; one claim wins */
byte call;           /* what the kernel has */
bit cancelled;       /* this call was asked to be given up, by its own task */
bit late;            /* a request to cancel that is on its way */
byte over;           /* rounds that have ended */
chan results = [2] of { bit }; /* 1: carried out, 0: given up */

inline take() { atomic { !locked -> assert(alive); locked = 1 } }
inline give() { assert(alive); locked = 0 }

/* Asks the kernel to give the call up. */
inline ask_kernel()
{
    atomic {
        if
        :: call == WAITING -> call = GIVEN_UP; assert(cancelled)
        :: else
        fi }
}

active proctype Kernel()
{
    do
    :: atomic { call == WAITING -> call = RUNNING }
    :: atomic { call == RUNNING -> assert(alive) }; /* it reads or writes the memory */
       atomic { call = NONE; results ! 1 }
    :: atomic { call == GIVEN_UP -> call = NONE; results ! 0 }
#ifdef BUG_LATE_CANCEL
    :: atomic { late -> late = 0;
                if
                :: call == WAITING -> call = GIVEN_UP; assert(cancelled)
                :: else
                fi }
#endif
    :: over == ROUNDS && call == NONE -> break
    od
}

active [2] proctype Reaper()
{
    bit value, wakes;
    do
    :: results ? value ->
       take();
       done = 1;
       given = !value;
       atomic { wakes = linked && parked; parked = (wakes -> 0 : parked) };
       linked = 0;
       give();
#ifdef BUG_TOUCH_AFTER
       assert(alive);
#endif
       if
       :: wakes -> woken = 1
       :: else
       fi
    :: over == ROUNDS -> break
    od
}

active proctype Asker()
{
    if
    :: asked = 1
    :: skip
    fi
}

active proctype Task()
{
    bit is_done, deaf;
    do
    :: over == ROUNDS -> break
    :: else ->
       atomic { alive = 1; done = 0; given = 0; linked = 0; cancelled = 0; woken = 0; deaf = 0;
                call = WAITING };
again:
       parked = 1;
       take();
#ifdef BUG_LINK_BLIND
       is_done = 0;
#else
       is_done = done;
#endif
       if
       :: !is_done -> linked = 1
       :: else
       fi;
       give();
       if
       :: is_done -> parked = 0; goto leave
       :: else
       fi;
       if
       :: woken -> woken = 0; goto leave
       :: atomic { asked && !deaf && parked -> asked = 0; parked = 0 }; /* a request ends it */
          take();
          linked = 0;                    /* unpublish */
          give();
#ifdef BUG_LEAVE_EARLY
          goto out;
#endif
#ifdef BUG_LATE_CANCEL
          cancelled = 1;
          late = 1;
#else
          cancelled = 1;
          ask_kernel();
#endif
          deaf = 1;
          goto again
       fi;
leave:
       assert(done);
       assert(!given || cancelled);
out:
       atomic { alive = 0; over++ }
    od
}
