/* SPDX-License-Identifier: MIT */
/*
 * Watches that tell once (src/wait/poller.c, poll.c): two tasks wait for one direction of a
 * descriptor until they have read a byte each; the kernel watches, tells, and may lose a watch; the
 * poller hands on what it is told. A task may leave its wait early once, and then nobody watches
 * unless somebody else waits: the descriptor is one of the program's.
 *
 * State.  bytes: what can be read. watch: the serial of the watch, 0 for none; under the lock.
 * armed: the serial that the kernel has, 0 for none. told: results on their way. events: counted
 * under the lock. Of each task: seen, linked, woken.
 *
 *     try       events are remembered, then a byte is taken if there is one
 *     prepare   under the lock: watch, unless there is one; counted among the users
 *     publish   under the lock: linked unless events have changed
 *     told s    under the lock: not the watch: dropped. Else it is over: counted, and all are woken
 *     lost s    the same, but if somebody is linked it is watched again and nobody is told
 *     release   under the lock: if nobody else has prepared and not released, unwatch
 *
 * Properties.  Both tasks get their byte (an invalid end state otherwise: one is parked beside a
 * byte and nobody watches). When both are gone the kernel has no watch.
 *
 * Weakenings (negative controls).
 *   BUG_LOST_SILENT     a watch that is lost while nobody is linked is forgotten
 *   BUG_LINK_BLIND      publish does not look at events
 *   BUG_RELEASE_LINKED  whoever leaves unwatches if nobody is linked: another may be about to be
 *   BUG_NO_RELEASE      whoever leaves early leaves the watch behind
 *   BUG_NO_PREPARE      a second wait relies on the watch of the first, which has told
 */
#define READ 1
#define LOST 2

byte bytes, watch, armed, serial, events, users, over;
byte losses = 1;
bit locked;
bit linked[2], woken[2];
chan told = [3] of { byte, byte }; /* serial, what */

inline take() { atomic { !locked -> locked = 1 } }
inline give() { locked = 0 }

/* Under the lock: the kernel watches. It tells at once if there is something to read. */
inline watch_it() { atomic { serial++; assert(serial < 200); watch = serial; armed = serial } }

inline note()
{
    events++;
    if
    :: linked[0] -> linked[0] = 0; woken[0] = 1
    :: else
    fi;
    if
    :: linked[1] -> linked[1] = 0; woken[1] = 1
    :: else
    fi
}

active proctype Kernel()
{
    do
    :: atomic { armed && bytes > 0 -> told ! armed, READ; armed = 0 }
    :: atomic { armed && losses > 0 -> losses--; told ! armed, LOST; armed = 0 }
    :: over == 2 -> break
    od;
    assert(armed == 0)
}

active proctype Poller()
{
    byte s, what;
    do
    :: told ? s, what ->
       take();
       if
       :: s != watch -> skip
       :: s == watch ->
          watch = 0;
          if
          :: what == READ -> note()
#ifdef BUG_LOST_SILENT
          :: what == LOST && !linked[0] && !linked[1] -> skip
#else
          :: what == LOST && !linked[0] && !linked[1] -> note()
#endif
          :: what == LOST && (linked[0] || linked[1]) -> watch_it()
          fi
       fi;
       give()
    :: over == 2 -> break
    od
}

active proctype Writer()
{
    bytes++;
    bytes++
}

/* Under the lock. */
inline release()
{
    linked[me] = 0;
    users--;
    if
#ifdef BUG_RELEASE_LINKED
    :: !linked[0] && !linked[1] -> atomic { armed = (armed == watch -> 0 : armed); watch = 0 }
#endif
#ifndef BUG_NO_RELEASE
    :: users == 0 -> atomic { armed = (armed == watch -> 0 : armed); watch = 0 }
#endif
    :: else
    fi
}

active [2] proctype Task()
{
    byte seen, me = _pid - 3;
    bit links, leaves = 1, waited;
    do
    :: seen = events;
       atomic {
           if
           :: bytes > 0 -> bytes--; break
           :: else
           fi };
       take();
#ifdef BUG_NO_PREPARE
       if
       :: !watch && !waited -> watch_it()
       :: else
       fi;
#else
       if
       :: !watch -> watch_it()
       :: else
       fi;
#endif
       waited = 1;
       users++;
       give();
       take();
#ifdef BUG_LINK_BLIND
       links = 1;
#else
       links = (events == seen);
#endif
       if
       :: links -> woken[me] = 0; linked[me] = 1
       :: else
       fi;
       give();
       if
       :: !links
       :: links && woken[me]
       :: links && leaves -> leaves = 0 /* its time is over; it waits again, once */
       fi;
       take();
       release();
       give()
    od;
    over++
}
