/* SPDX-License-Identifier: MIT */
/*
 * The line of a ring (src/plat/linux/uring.c): threads put calls in line and leave them to whoever
 * waits next; one thread waits, with what is in line when it begins, and sleeps until a result.
 *
 * State.  line: calls that the kernel has not taken. results: what it has posted; every call has
 * one as soon as it is taken. is_waited: under the lock: somebody sleeps, or is about to.
 *
 *     queue    under the lock: put, look at is_waited; outside of it: if so, submit
 *     wait     under the lock: count the line, set is_waited; outside of it: enter with that many,
 *              sleep until there is a result; under the lock: clear is_waited; take the results
 *
 * The kernel takes calls in order, as many as an enter says, each once; enters are one after the
 * other.
 *
 * Properties.  The waiter gets the results of all (an invalid end state otherwise: it sleeps, and
 * nobody will submit what is in line).
 *
 * Weakenings (negative controls).
 *   BUG_COUNT_FIRST   the waiter counts the line before it sets is_waited, in another step
 *   BUG_LOOK_FIRST    whoever queues looks at is_waited before it puts
 *   BUG_NO_SUBMIT     whoever queues leaves it all to the waiter
 */
#ifndef CALLS
#define CALLS 2 /* of each of two threads */
#endif

byte line, results, taken;
bit is_waited, locked;

inline take() { atomic { !locked -> locked = 1 } }
inline give() { locked = 0 }

/* Enters the kernel with so many calls. */
inline enter(count)
{
    atomic {
        n = (count < line -> count : line);
        line = line - n;
        results = results + n }
}

active [2] proctype Queuer()
{
    byte i, n;
    bit submits;
    for (i : 1 .. CALLS) {
#ifdef BUG_LOOK_FIRST
        submits = is_waited;
        take();
        line++;
        give();
#else
        take();
        line++;
        submits = is_waited;
        give();
#endif
#ifdef BUG_NO_SUBMIT
        submits = 0;
#endif
        if
        :: submits -> enter(line)
        :: else
        fi
    }
}

active proctype Waiter()
{
    byte count, n;
    do
    :: taken == 2 * CALLS -> break
    :: else ->
#ifdef BUG_COUNT_FIRST
       count = line;
       take();
       is_waited = 1;
       give();
#else
       take();
       count = line;
       is_waited = 1;
       give();
#endif
       enter(count);
       (results > 0);            /* sleeps */
       take();
       is_waited = 0;
       give();
       atomic { taken = taken + results; results = 0 }
    od
}
