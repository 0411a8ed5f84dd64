/* SPDX-License-Identifier: MIT */
/*
 * Private work and a sleep for good: an owner that pushes without a fence, and workers that go to
 * sleep at the same moment.
 *
 * State.  priv, what is in the owner's private queue; visible, what anybody may take; one word
 * (sleepers, searcher); a flag `wake` for each worker. The owner's pushes go through a store
 * buffer: `late` are in it. The word is changed by RMWs, which fence.
 *
 *     owner    push, private; compiler fence only; the word is 0? done. Else publish what is
 *              private (an RMW: a fence); somebody sleeps and nobody searches: turn a sleeper into
 *              the searcher and wake it. After its pushes it computes for ever
 *     worker   takes what is visible. Else becomes the searcher, if nobody is; as the searcher it
 *              opens the owner's queue if it sees that something is private (membarrier, then all
 *              of it is visible), stops searching, and wakes the next if there is more. Else to
 *              bed: listed, no longer the searcher; membarrier, which drains the owner's buffer;
 *              anything visible or private: gets up, is the searcher if nobody is, and starts
 *              again. Nothing: sleeps until it is woken; whoever is woken is the searcher
 *
 * A nap is a sleep that ends by itself: a worker that naps comes back to its beginning, which is a
 * loop in this model and needs no state of its own.
 *
 * Properties.  When nothing can move any more, everything that was pushed has been taken, although
 * the owner takes nothing itself. Never more than one searcher.
 *
 * Weakenings (negative controls).
 *   BUG_NO_MEMBARRIER  who goes to bed fences itself only
 *   BUG_LOOK_FIRST     who goes to bed looks before it is listed
 *   BUG_VISIBLE_ONLY   who goes to bed looks at what is visible only
 *   BUG_OWNER_EARLY    the owner reads the word before it pushes
 *   BUG_SILENT         the owner publishes and wakes nobody
 *   BUG_NO_NEXT        a searcher that has found something does not wake the next
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef PUSHES
#define PUSHES 3
#endif
#ifndef HOG
#define HOG 1          /* one of the tasks never ends: the worker that runs it is gone */
#endif

byte priv, late, visible;
byte sleepers, searcher;       /* one word */
bit listed[WORKERS], wake[WORKERS];
byte pushed, taken;
bit hogged;

inline drain() { priv = priv + late; late = 0 }

active proctype Flusher()
{
end_flush:
    do
    :: d_step { late > 0 -> late--; priv++ }
    od
}

/* One step: the list and the word change under a lock, and the waker has fenced. */
inline wake_one()
{
    atomic {
        if
        :: sleepers > 0 && searcher == 0 ->
            sleepers--; searcher = 1;
            if
            :: listed[0] -> listed[0] = 0; wake[0] = 1
            :: listed[1] -> listed[1] = 0; wake[1] = 1
#if WORKERS > 2
            :: listed[2] -> listed[2] = 0; wake[2] = 1
#endif
            fi
        :: else
        fi
    }
}

active proctype Owner()
{
    byte n;
    bit idle;

    do
    :: n < PUSHES ->
        n++;
#ifdef BUG_OWNER_EARLY
        idle = (sleepers > 0 || searcher > 0);
        atomic { late++; pushed++ };
#else
        atomic { late++; pushed++ };
        idle = (sleepers > 0 || searcher > 0);
#endif
        if
        :: idle ->
            d_step { drain(); visible = visible + priv; priv = 0 };
#ifndef BUG_SILENT
            wake_one();
#endif
            skip
        :: else
        fi;
        idle = 0
    :: else -> break
    od                           /* and computes for ever */
}

proctype Worker(byte me)
{
    bit search, got, some;

next:
    atomic { if :: visible > 0 -> visible--; taken++; got = 1 :: else -> got = 0 fi };
    if
    :: got ->
        got = 0;
        if
        :: atomic { search -> searcher = 0; search = 0 };
#ifndef BUG_NO_NEXT
            if :: visible > 0 || priv > 0 -> wake_one() :: else fi;
#endif
            skip
        :: else
        fi;
        if
        :: atomic { HOG && !hogged -> hogged = 1 };
end_hog:    false
        :: true
        fi;
        goto next
    :: else
    fi;
    if
    :: search
    :: else -> atomic { if :: searcher == 0 -> searcher = 1; search = 1 :: else fi };
               assert(searcher <= 1)
    fi;
    if
    :: search && priv > 0 ->                        /* opens the queue */
        d_step { drain(); visible = visible + priv; priv = 0 };
        goto next
    :: else
    fi;

    /* to bed */
#ifdef BUG_LOOK_FIRST
    d_step { drain(); some = (visible > 0 || priv > 0) };
#endif
    atomic { listed[me] = 1; wake[me] = 0; sleepers++;
             if :: search -> searcher = 0; search = 0 :: else fi };
#ifndef BUG_LOOK_FIRST
#ifdef BUG_NO_MEMBARRIER
    some = (visible > 0 || priv > 0);
#else
#ifdef BUG_VISIBLE_ONLY
    d_step { drain(); some = (visible > 0) };
#else
    d_step { drain(); some = (visible > 0 || priv > 0) };
#endif
#endif
#endif
    if
    :: !some ->
end_sleep:
        wake[me]
    :: else
    fi;
    atomic {
        if
        :: listed[me] -> listed[me] = 0; sleepers--
        :: else -> search = 1                       /* a waker took it off */
        fi };
    if                                              /* pushes have relied on the searcher */
    :: some && !search -> atomic { if :: searcher == 0 -> searcher = 1; search = 1 :: else fi }
    :: else
    fi;
    some = 0;
    goto next
}

/* nothing else can move: was everything taken? */
active proctype Monitor()
{
    timeout -> assert(hogged && WORKERS == 1 || taken == pushed && pushed == PUSHES)
}

init {
    byte i;
    atomic {
        do
        :: i < WORKERS -> run Worker(i); i++
        :: else -> break
        od
    }
}
