/* SPDX-License-Identifier: MIT */
/*
 * The split deque of a worker: one ring, a private part for the owner, a public part for thieves,
 * and a rescue of the private part while the owner is stuck in a long task.
 *
 *      top            split            bottom
 *       |  public       |   private      |          slots [top, bottom) hold tasks
 *       +---------------+----------------+
 *       thieves: CAS    owner and rescuer         owner only: push and pop, no RMW
 *
 * State.  One word carries (version, RESCUE, top, split). Publish, reclaim, steal, rescue and the
 * owner's slow pop are each one CAS of that word. `bottom` and the slots are plain memory that the
 * owner alone writes; its writes go through an explicit store buffer, which is how x86 (TSO) lets a
 * later load overtake an earlier store. An RMW of the owner drains the buffer, and so does the
 * rescuer's membarrier. Indices run modulo M = 2 * N, so their wrap-around is part of the check.
 * The version is a counter too wide to wrap during one operation; what matters of it is only whether
 * it moved between an actor's load and its CAS, so the model keeps that bit for each actor: same[i].
 *
 * Actors.  Owner: pushes P items in any mixture with pops and publications of any size, spills
 * the older half of a full ring to the global queue, then drains.
 * Thieves: read the word, copy a batch of any size slot by slot, then CAS. Rescuer: sets RESCUE,
 * issues the membarrier, reads bottom, raises split up to it. Flusher: the store buffer.
 *
 * Properties.  No item is taken twice (assertion at every take), none is lost (assertion at the end),
 * and with -DSTUCK=1, where the owner never comes back from its long task, one rescue makes all
 * of its items reach the thief (assertion when the thief finds nothing more).
 *
 * Weakenings (negative controls).
 *   BUG_NO_VERSION     removals do not count the version: a publish after a reclaim restores the
 *                      word with other items behind it, and a sleeping thief's CAS takes a stale copy
 *   BUG_NARROW         steals do not count the version: top wraps round to the same effect
 *   BUG_READ_AFTER     the thief reads its slots after the CAS: the owner may have reused them
 *   BUG_RAISE_FIRST    the rescuer raises split at once, then membarrier, then lowers it again:
 *                      thieves steal in between what the owner has popped
 *   BUG_NO_MEMBARRIER  the rescuer reads bottom while the owner's store of it is still buffered
 *   BUG_NO_RECHECK     the owner's pop does not look at the word after its store of bottom
 */
#ifndef N
#define N 2          /* slots of the ring */
#endif
#define M (2 * N)    /* indices are modulo M */
#ifndef P
#define P 4          /* items pushed */
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#ifndef STEALS
#define STEALS 2     /* attempts of one thief */
#endif
#ifndef RESCUES
#define RESCUES 1
#endif
#ifndef STUCK
#define STUCK 0
#endif
#define SB 3         /* depth of the store buffer */

#define PLUS(a, k)  (((a) + (k)) % M)
#define MINUS(a, b) (((a) + M - (b)) % M)

#define LOAD(me)     wt = top; ws = split; wr = rescue; same[me] = 1
#define UNCHANGED(me) (top == wt && split == ws && rescue == wr && same[me])
#ifdef BUG_NO_RECHECK
#define KNOWN(x) known = x
#else
#define KNOWN(x) skip
#endif

inline new_version() { same[0] = 0; same[1] = 0; if :: THIEVES == 2 -> same[THIEVES] = 0 :: else fi }

/* the word */
byte top, split;
bit rescue;
bit same[THIEVES + 1];   /* 0 is the owner, then the thieves */

/* plain memory, and the owner's store buffer in front of it */
byte bottom;
byte slot[N];
byte sb_where[SB];   /* N means bottom, below N a slot */
byte sb_value[SB];
byte sb_n;

byte taken[P + 1];   /* items are 1..P */
byte pushed;
bit owner_done, owner_stuck, rescued;
byte reading;        /* thieves that won and still copy: BUG_READ_AFTER only */

inline take(x) { assert(x != 0); assert(taken[x] == 0); taken[x] = 1 }

inline sb_put(w, v) { (sb_n < SB); sb_where[sb_n] = w; sb_value[sb_n] = v; sb_n++ }

inline sb_pop()
{
    if
    :: sb_where[0] == N -> bottom = sb_value[0]
    :: else -> slot[sb_where[0]] = sb_value[0]
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

active proctype Owner()
{
    byte b;              /* the owner's own bottom */
    byte cached_top;     /* a lower bound of top, refreshed when the ring looks full */
    byte mine[N];        /* what the owner last wrote: store-to-load forwarding */
#ifdef BUG_NO_RECHECK
    byte known;          /* split as the owner last left it */
#endif
    byte wt, ws, k;
    bit wr, none;

    do
    :: pushed < P && MINUS(b, cached_top) < N ->                      /* push */
        atomic { pushed++; mine[b % N] = pushed; sb_put(b % N, pushed) };
        atomic { b = PLUS(b, 1); sb_put(N, b) }

    :: pushed < P && MINUS(b, cached_top) == N ->                     /* push, looks full */
        atomic { cached_top = top;
                 LOAD(0) };
        if
#ifdef BUG_NARROW
        :: false ->
#else
        :: MINUS(b, cached_top) == N ->                               /* full: spill the older half */
#endif
            atomic {
                sb_n == 0 ->
                k = PLUS(wt, (N + 1) / 2);
                if
                :: UNCHANGED(0) ->
                    do
                    :: top != k ->
                        if :: split == top -> split = PLUS(split, 1) :: else fi;
                        take(mine[top % N]); top = PLUS(top, 1)
                    :: else -> break
                    od;
                    rescue = 0; cached_top = top; KNOWN(split); new_version()
                :: else
                fi;
                k = 0; wt = 0; ws = 0; wr = 0 }
        :: else -> atomic { wt = 0; ws = 0; wr = 0 }
        fi

    :: atomic { MINUS(b, split) > 0 && MINUS(b, split) <= N ->        /* publish 1..all private */
        LOAD(0) };
        k = 1;
        do
        :: k < MINUS(b, ws) -> k++
        :: break
        od;
        atomic { sb_n == 0 ->                                         /* an RMW drains the buffer */
                 if
                 :: UNCHANGED(0) ->
                    split = PLUS(ws, k); rescue = 0;
                    KNOWN(split)
                 :: else
                 fi;
                 k = 0; wt = 0; ws = 0; wr = 0 }

#if STUCK
    :: pushed == P ->                                                 /* a task that never ends */
        owner_stuck = 1;
end_stuck:
        false
#endif

#ifdef BUG_NARROW
    :: pushed == P ->           /* pops and spills would count the version: leave all to the thieves */
#else
    :: true ->                                                        /* pop */
#endif
        atomic { b = MINUS(b, 1); sb_put(N, b) };                     /* then only a compiler fence */
#ifdef BUG_NO_RECHECK
        atomic { LOAD(0); ws = known; wr = 0 };            /* a cached split, no bit */
#else
        atomic { LOAD(0) };                                           /* one load of the word */
#endif
        do
        :: !wr && MINUS(b, ws) <= N ->                                /* private: mine, no RMW */
            atomic { take(mine[b % N]); none = 0; break }
        :: MINUS(b, ws) == M - 1 && wt == ws ->                       /* nothing anywhere */
            atomic { b = PLUS(b, 1); sb_put(N, b); none = 1; break }
        :: else ->                                                    /* make split <= b, no RESCUE */
            atomic {
                sb_n == 0 ->
                if
                :: MINUS(b, ws) <= N -> k = ws                        /* only a rescue to call off */
                :: else -> k = MINUS(ws, (MINUS(ws, wt) + 1) / 2)     /* reclaim the newer half */
                fi;
                if
                :: UNCHANGED(0) ->
                    split = k; rescue = 0;
                    KNOWN(k);
#ifndef BUG_NO_VERSION
                    new_version();
#endif
                    take(mine[b % N]); none = 0; k = 0;
                    break
                :: else -> LOAD(0); k = 0
                fi }
        od;
        atomic { wt = 0; ws = 0; wr = 0 };
        if
        :: none && pushed == P -> break
        :: else
        fi
    od;

    /* Empty for the owner means that whoever took an item has it, or is the thief that won it. */
    atomic {
        reading == 0 -> owner_done = 1; k = 1;
        do
        :: k <= P -> assert(taken[k] == 1); k++
        :: else -> break
        od }
}

proctype Thief(byte me)
{
    byte wt, ws, k, i, n;
    bit wr, won;
    byte copy[N];

    do
    :: n < STEALS ->
        n++;
        atomic { LOAD(me) };
        if
        :: wt != ws ->
            k = 1;
            do
            :: k < MINUS(ws, wt) -> k++
            :: break
            od;
#ifndef BUG_READ_AFTER
            i = 0;
            do
            :: i < k -> copy[i] = slot[PLUS(wt, i) % N]; i++
            :: else -> break
            od;
#endif
            atomic {
                won = UNCHANGED(me);
                if
                :: won -> top = PLUS(wt, k);
#if !defined(BUG_NO_VERSION) && !defined(BUG_NARROW)
                    new_version();
#endif
#ifndef BUG_READ_AFTER
                    i = 0;
                    do
                    :: i < k -> take(copy[i]); i++
                    :: else -> break
                    od
#else
                    reading++
#endif
                :: else
                fi };
#ifdef BUG_READ_AFTER
            i = 0;
            do
            :: won && i < k -> atomic { copy[i] = slot[PLUS(wt, i) % N]; take(copy[i]); i++ }
            :: else -> break
            od;
            if :: won -> reading-- :: else fi
#endif
        :: else
        fi;
        d_step { wt = 0; ws = 0; wr = 0; k = 0; i = 0; won = 0;
                 copy[0] = 0; copy[N / 2] = 0; copy[N - 1] = 0 }
#if STUCK
        ;
        if
        :: (rescued || owner_done) && top == split -> break
        :: else -> n = 0
        fi
#endif
    :: else -> break
    od
#if STUCK
    ;
    atomic {
        i = 1;
        do
        :: i <= pushed && owner_stuck -> assert(taken[i] == 1); i++
        :: else -> break
        od }
#endif
}

proctype Rescuer()
{
    byte seen, ws, was, n;
    bit go_on;

    do
    :: n < RESCUES ->
        n++;
#if STUCK
        (owner_stuck || owner_done);
#endif
#ifdef BUG_RAISE_FIRST
        seen = bottom;
        atomic { was = split; ws = MINUS(seen, split);
                 if
                 :: ws > 0 && ws <= N -> split = seen; go_on = 1
                 :: else -> go_on = 0
                 fi };
        if
        :: go_on ->
            d_step { do :: sb_n > 0 -> sb_pop() :: else -> break od };     /* membarrier */
            atomic { ws = MINUS(split, bottom);
                     if
                     :: ws > 0 && ws <= N -> split = bottom; new_version()
                     :: else
                     fi }
        :: else
        fi
#else
        atomic { if :: !rescue -> rescue = 1; go_on = 1 :: else -> go_on = 0 fi };
        if
        :: go_on ->
#ifndef BUG_NO_MEMBARRIER
            d_step { do :: sb_n > 0 -> sb_pop() :: else -> break od };     /* membarrier */
#endif
            seen = bottom;
            atomic { if
                     :: rescue ->                     /* one CAS, repeated while the bit is there */
                        ws = MINUS(seen, split);
                        if
                        :: ws > 0 && ws <= N -> split = seen
                        :: else
                        fi;
                        rescue = 0
                     :: else                          /* the owner called it off: it is alive */
                     fi }
        :: else
        fi
#endif
        d_step { seen = 0; ws = 0; was = 0; go_on = 0 }
    :: else -> break
    od;
    rescued = 1
}

init {
    byte i;
    atomic {
        do
        :: i < THIEVES -> run Thief(i + 1); i++
        :: else -> break
        od;
        run Rescuer()
    }
}
