/* SPDX-License-Identifier: MIT */
/*
 * The other candidate for the split deque, kept to show why kin does not use it: top and split in
 * two words, thieves take one task at a time by CAS of top, the owner lowers split by plain stores
 * and takes the last public task by CAS of top, as in the deque of Chase and Lev.
 *
 * State.  `top` is atomic and only grows. `split` and the slots are written by the owner through
 * an explicit store buffer (x86, TSO). Indices do not wrap here.
 *
 * Actors.  Owner: pushes P items, publishes any number, pops private ones for nothing and public
 * ones with store, fence, load. Thieves: load top, load split, read one slot, CAS top. Flusher:
 * the store buffer.
 *
 * Properties.  No item is taken twice, none is lost.
 *
 * What it showed.  The protocol is right with the fence, wrong without it (BUG_NO_FENCE), and
 * wrong when a thief takes a batch by moving top over several slots (BUG_BATCH): the owner takes
 * an item inside the batch without touching top. The range of deque.pml allows batches, and so it
 * is the one that kin ships.
 */
#ifndef N
#define N 4
#endif
#ifndef P
#define P 4
#endif
#ifndef THIEVES
#define THIEVES 2
#endif
#ifndef STEALS
#define STEALS 2
#endif
#define SB 3

byte top = N;            /* indices start above 0, so that split - 1 never wraps */
byte split = N;
byte slot[N];
byte sb_where[SB + 1];   /* N means split, below N a slot */
byte sb_value[SB + 1];
byte sb_n;
byte taken[P + 1];
byte pushed;

inline take(x) { assert(x != 0); assert(taken[x] == 0); taken[x] = 1 }

inline sb_put(w, v) { (sb_n < SB); sb_where[sb_n] = w; sb_value[sb_n] = v; sb_n++ }

inline fence()
{
#ifdef BUG_NO_FENCE
    skip
#else
    (sb_n == 0)
#endif
}

active proctype Flusher()
{
end_flush:
    do
    :: d_step { sb_n > 0 ->
        if
        :: sb_where[0] == N -> split = sb_value[0]
        :: else -> slot[sb_where[0]] = sb_value[0]
        fi;
        sb_where[0] = sb_where[1]; sb_value[0] = sb_value[1];
        sb_where[1] = sb_where[2]; sb_value[1] = sb_value[2];
        sb_where[2] = 0; sb_value[2] = 0;
        sb_n-- }
    od
}

active proctype Owner()
{
    byte b = N, s = N;   /* bottom and split: the owner's own */
    byte t, k;
    byte mine[N];
    bit nothing;

    do
    :: pushed < P && b - top < N ->                              /* push */
        atomic { pushed++; mine[b % N] = pushed; sb_put(b % N, pushed); b++ }

    :: b > s ->                                                  /* publish */
        k = 1;
        do
        :: k < b - s -> k++
        :: break
        od;
        atomic { s = s + k; sb_put(N, s); k = 0 }

    :: b > s -> atomic { b--; take(mine[b % N]) }                /* pop, private */

    :: b == s ->                                                 /* pop, public */
        atomic { s--; sb_put(N, s) };
        fence();
        t = top;
        if
        :: t < s -> atomic { take(mine[s % N]); nothing = 0 }
        :: t == s ->
            atomic { sb_n == 0 ->                                /* the last one: race for it */
                     if
                     :: top == t -> top = t + 1; take(mine[s % N]); nothing = 0
                     :: else -> nothing = 1
                     fi };
            atomic { s++; sb_put(N, s) }
        :: else -> atomic { s++; sb_put(N, s); nothing = 1 }
        fi;
        atomic { b = s; t = 0 };
        if
        :: nothing && pushed == P -> break
        :: else
        fi
    od;
    atomic {
        k = 1;
        do
        :: k <= P -> assert(taken[k] == 1); k++
        :: else -> break
        od }
}

proctype Thief()
{
    byte t, s, x, y, n;

    do
    :: n < STEALS ->
        n++;
        t = top;
        s = split;
        if
        :: t < s ->
            x = slot[t % N];
#ifdef BUG_BATCH
            if
            :: t + 1 < s -> y = slot[(t + 1) % N]
            :: else -> y = 0
            fi;
#endif
            atomic {
                if
                :: top == t ->
                    take(x);
                    if
                    :: y != 0 -> take(y); top = t + 2
                    :: else -> top = t + 1
                    fi
                :: else
                fi }
        :: else
        fi;
        d_step { t = 0; s = 0; x = 0; y = 0 }
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
