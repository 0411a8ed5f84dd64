/* SPDX-License-Identifier: MIT */
/*
 * The split deque of a worker: one ring, a private part for its owner, a public part for thieves.
 *
 *      top            split            bottom
 *       |  public       |   private      |          slots [top, bottom) hold tasks
 *       +---------------+----------------+
 *        CAS of the range                 owner only: push and pop, no RMW
 *
 * State.  One word, the range (top, split), of which both halves only ever grow; `bottom` and the
 * slots, written by the owner alone, through an explicit store buffer (x86, TSO) that an RMW of
 * the owner drains. The monitor that rescues the queue of a stuck worker acts as the owner, under
 * the bias (bias.pml), so it is no actor of its own here.
 *
 *     push         slot[bottom] = task, bottom + 1; refused when bottom - top is the size of the
 *                  ring
 *     pop          bottom - 1, while bottom is above split
 *     publish      CAS split up by any number of private entries
 *     reclaim      nothing private left: copy public entries, CAS top past them, lay them down at
 *                  the bottom again
 *     take oldest  copy the oldest entries, public or not; CAS top past them, and split with it if
 *                  need be
 *     steal        copy a batch of public entries, CAS top past them
 *
 * A slot at or above top is rewritten only after top has passed it, and no value of the range
 * comes twice. So a CAS that succeeds proves that the copies made before it are good.
 *
 * Actors.  Owner: P items, any mixture of its operations, then drains. Thieves: batches of any
 * size, slot by slot. Flusher: the store buffer.
 *
 * Properties.  No item is taken twice (assertion at every take), none is lost (assertion at the
 * end).
 *
 * Weakenings (negative controls).
 *   BUG_LOWER_SPLIT    reclaim lowers split instead of moving top: the range comes back to an old
 *                      value with other items behind it, and a slow thief's CAS takes a stale copy
 *   BUG_NARROW         indices wrap at twice the ring's size: the same, by way of many steals
 *   BUG_READ_AFTER     the thief copies after its CAS: the owner may have reused the slots
 *   BUG_FULL_BY_SPLIT  push measures the ring from split: overwrites public entries
 *   BUG_PUBLISH_STORE  publish writes the range without comparing: brings back what thieves took
 */
#ifndef N
#define N 2          /* slots of the ring */
#endif
#ifndef P
#define P 4          /* items pushed */
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#ifndef STEALS
#define STEALS 2     /* attempts of one thief */
#endif
#ifndef RECLAIMS
#define RECLAIMS 2
#endif
#ifndef SPILLS
#define SPILLS 1
#endif
#define SB 3         /* depth of the store buffer */

#ifdef BUG_NARROW
#define WRAP(i) ((i) % (2 * N))
#define DIFF(a, b) (((a) + 2 * N - (b)) % (2 * N))
#define DEC(i) (((i) + 2 * N - 1) % (2 * N))
#else
#define WRAP(i) (i)
#define DIFF(a, b) ((a) - (b))
#define DEC(i) ((i) - 1)
#endif
#ifdef BUG_FULL_BY_SPLIT
#define ROOM(b) (DIFF(b, split) < N)
#else
#define ROOM(b) (DIFF(b, top) < N)
#endif

byte top, split;     /* one word */
byte slot[N];
byte sb_where[SB], sb_value[SB];
byte sb_n;

byte taken[P + 1];   /* items are 1..P */
byte pushed;
byte reading;        /* thieves that won and still copy: BUG_READ_AFTER only */

inline take(i) { assert(i != 0); assert(taken[i] == 0); taken[i] = 1 }

inline sb_put(w, v) { (sb_n < SB); sb_where[sb_n] = w; sb_value[sb_n] = v; sb_n++ }

active proctype Flusher()
{
end_flush:
    do
    :: d_step { sb_n > 0 ->
        slot[sb_where[0]] = sb_value[0];
        sb_where[0] = sb_where[1]; sb_value[0] = sb_value[1];
        sb_where[1] = sb_where[2]; sb_value[1] = sb_value[2];
        sb_where[2] = 0; sb_value[2] = 0;
        sb_n-- }
    od
}

inline lay_down(item) { mine[b % N] = item; sb_put(b % N, item); b = WRAP(b + 1) }

active proctype Owner()
{
    byte b;              /* bottom; nobody else needs it */
    byte mine[N];        /* what the owner last wrote: store-to-load forwarding */
    byte copy[N];
    byte wt, ws, k, i, reclaims;
    bit won;

    do
    :: atomic { pushed < P && ROOM(b) -> pushed++; lay_down(pushed) }         /* push */

    :: atomic { b != split -> b = DEC(b); take(mine[b % N]) }                 /* pop */

    :: b != split ->                                                          /* publish */
        atomic { wt = top; ws = split };
        k = 1;
        do
        :: k < DIFF(b, ws) -> k++
        :: break
        od;
        atomic { sb_n == 0 ->
                 if
#ifdef BUG_PUBLISH_STORE
                 :: true -> top = wt; split = WRAP(ws + k)
#else
                 :: top == wt && split == ws -> split = WRAP(ws + k)
                 :: else
#endif
                 fi;
                 wt = 0; ws = 0; k = 0 }

    :: b == split && reclaims < RECLAIMS ->                                   /* reclaim */
        atomic { wt = top; ws = split; reclaims++ };
        if
        :: wt != ws ->
            k = 1;
            do
            :: k < DIFF(ws, wt) -> k++
            :: break
            od;
#ifdef BUG_LOWER_SPLIT
            atomic { sb_n == 0 -> if :: top == wt && split == ws -> split = ws - k :: else fi }
#else
            atomic {
                i = 0;
                do
                :: i < k -> copy[i] = mine[WRAP(wt + i) % N]; i++
                :: else -> break
                od };
            atomic { sb_n == 0 ->
                     won = (top == wt && split == ws);
                     if
                     :: won -> top = WRAP(wt + k)
                     :: else
                     fi };
            i = 0;
            do
            :: won && i < k -> atomic { lay_down(copy[i]); copy[i] = 0; i++ }
            :: else -> break
            od
#endif
        :: else
        fi;
        atomic { wt = 0; ws = 0; k = 0; i = 0; won = 0; copy[0] = 0; copy[N - 1] = 0 }

    :: b != top && (SPILLS || pushed == P || !ROOM(b)) ->                     /* take oldest */
        atomic { wt = top; ws = split };
        k = 1;
        do
        :: wt != b && k < DIFF(b, wt) -> k++
        :: break
        od;
        atomic { sb_n == 0 ->
                 if
                 :: wt != b && top == wt && split == ws ->
                    if
                    :: DIFF(ws, wt) < k -> split = WRAP(wt + k)
                    :: else
                    fi;
                    do
                    :: k > 0 -> take(mine[top % N]); top = WRAP(top + 1); k--
                    :: else -> break
                    od
                 :: else
                 fi;
                 wt = 0; ws = 0; k = 0 }

    :: pushed == P && b == split && b == top -> break
    od;
    atomic {
        reading == 0 -> k = 1;
        do
        :: k <= P -> assert(taken[k] == 1); k++
        :: else -> break
        od }
}

proctype Thief()
{
    byte wt, ws, k, i, n;
    bit won;
    byte copy[N];

    do
    :: n < STEALS ->
        n++;
        atomic { wt = top; ws = split };
        if
        :: wt != ws ->
            k = 1;
            do
            :: k < DIFF(ws, wt) -> k++
            :: break
            od;
#ifndef BUG_READ_AFTER
            i = 0;
            do
            :: i < k -> copy[i] = slot[WRAP(wt + i) % N]; i++
            :: else -> break
            od;
#endif
            atomic {
                won = (top == wt && split == ws);
                if
                :: won -> top = WRAP(wt + k);
#ifdef BUG_READ_AFTER
                    reading++
#else
                    i = 0;
                    do
                    :: i < k -> take(copy[i]); i++
                    :: else -> break
                    od
#endif
                :: else
                fi };
#ifdef BUG_READ_AFTER
            i = 0;
            do
            :: won && i < k -> atomic { copy[i] = slot[(wt + i) % N]; take(copy[i]); i++ }
            :: else -> break
            od;
            if :: won -> reading-- :: else fi
#endif
        :: else
        fi;
        atomic { wt = 0; ws = 0; k = 0; i = 0; won = 0;
                 copy[0] = 0; copy[N / 2] = 0; copy[N - 1] = 0 }
    :: else -> break
    od
}

init {
    byte i;
    atomic {
        do
        :: i < THIEVES -> run Thief(); i++
        :: else -> break
        od
    }
}
