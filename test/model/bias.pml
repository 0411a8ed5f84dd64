/* SPDX-License-Identifier: MIT */
/*
 * The bias: a lock that the owner of a queue takes with plain stores, and the monitor with a
 * barrier.
 *
 * State.  busy, written by the owner; revoked, written by the monitor; and two plain variables
 * that stand for the owner's queues: x, which must be the same for both sides, and `inside`, who
 * is in there. The owner's stores go through a store buffer; the monitor's membarrier drains it,
 * as it makes every running thread pass a full fence.
 *
 *     owner     busy = 1; compiler fence only; revoked? step back: busy = 0, wait, busy = 1,
 *               FENCE, look again. Change the queues. busy = 0, behind those changes
 *     monitor   revoked already? give up. revoked = 1, in one step; membarrier; busy? revoked = 0
 *               and give up. Change the queues. revoked = 0
 *
 * Actors.  The owner enters ENTRIES times; OTHERS try RESCUES times each: the monitor, and a worker
 * without work that opens the queue of one that computes.
 *
 * Properties.  Never both inside; each sees every change that the other made before (x is counted
 * up by both and compared with the number of changes); the owner always gets in in the end (else
 * an invalid end state).
 *
 * Weakenings (negative controls).
 *   BUG_NO_MEMBARRIER    the monitor reads busy without it
 *   BUG_LOOK_FIRST       the owner looks at revoked before it says that it is busy
 *   BUG_STRONG_NO_FENCE  without a membarrier (STRONG) the owner does not fence either
 *   BUG_EARLY_GIVE       busy = 0 before the last change to the queues
 *   BUG_NO_CLAIM         of two others the second does not ask whether it is revoked already
 */
#ifndef ENTRIES
#define ENTRIES 3
#endif
#ifndef RESCUES
#define RESCUES 3
#endif
#ifndef STRONG
#define STRONG 0      /* no membarrier on this machine: both sides use full fences */
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#define SB 3

bit busy, revoked;
byte x;
byte changes;         /* what x must be; not part of the machine */
byte inside;

/* the owner's store buffer: 0 is busy, 1 is x */
byte sb_where[SB], sb_value[SB];
byte sb_n;

inline sb_put(w, v) { (sb_n < SB); sb_where[sb_n] = w; sb_value[sb_n] = v; sb_n++ }

inline sb_pop()
{
    if
    :: sb_where[0] == 0 -> busy = sb_value[0]
    :: else -> x = sb_value[0]
    fi;
    sb_where[0] = sb_where[1]; sb_value[0] = sb_value[1];
    sb_where[1] = sb_where[2]; sb_value[1] = sb_value[2];
    sb_where[2] = 0; sb_value[2] = 0;
    sb_n--
}

active proctype Flusher()
{
end_flush:
    do
    :: d_step { sb_n > 0 -> sb_pop() }
    od
}

/* the owner's view of x: its own newest store, else memory */
inline read_x(v)
{
    v = x;
    if :: sb_n > 0 && sb_where[0] == 1 -> v = sb_value[0] :: else fi;
    if :: sb_n > 1 && sb_where[1] == 1 -> v = sb_value[1] :: else fi;
    if :: sb_n > 2 && sb_where[2] == 1 -> v = sb_value[2] :: else fi
}

active proctype Owner()
{
    byte n, v;
    bit r;

    do
    :: n < ENTRIES ->
        n++;
#ifdef BUG_LOOK_FIRST
        r = revoked;
        atomic { sb_put(0, 1) };
#else
        atomic { sb_put(0, 1) };
#if STRONG && !defined(BUG_STRONG_NO_FENCE)
        (sb_n == 0);
#endif
        r = revoked;
#endif
        do
        :: r ->                                     /* step back */
            atomic { sb_put(0, 0) };
            !revoked;
            atomic { sb_put(0, 1) };
#ifndef BUG_STRONG_NO_FENCE
            (sb_n == 0);
#endif
            r = revoked
        :: else -> break
        od;
        atomic { inside++; assert(inside == 1); read_x(v); assert(v == changes) };
#ifdef BUG_EARLY_GIVE
        atomic { inside--; sb_put(0, 0) };
        atomic { sb_put(1, v + 1); changes++ };
#else
        atomic { sb_put(1, v + 1); changes++ };
        atomic { inside--; sb_put(0, 0) };
#endif
        v = 0
    :: else -> break
    od
}

active [OTHERS] proctype Monitor()
{
    byte n, v;
    bit b;

    do
    :: n < RESCUES ->
        n++;
#ifdef BUG_NO_CLAIM
        revoked = 1;
#else
        if
        :: atomic { !revoked -> revoked = 1 }
        :: atomic { revoked -> goto given_up }
        fi;
#endif
#if !STRONG && !defined(BUG_NO_MEMBARRIER)
        d_step { do :: sb_n > 0 -> sb_pop() :: else -> break od };
#endif
        b = busy;
        if
        :: !b ->
            atomic { inside++; assert(inside == 1); v = x; assert(v == changes) };
            atomic { x = v + 1; changes++ };
            inside--
        :: else
        fi;
        revoked = 0;
given_up:
        v = 0
    :: else -> break
    od
}
