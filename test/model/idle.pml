/* SPDX-License-Identifier: MIT */
/*
 * Idle workers: who sleeps, who searches, whom a push wakes.
 *
 * State.  One word (sleepers, searchers), changed by RMWs; a list of sleepers with a flag `wake`
 * each, the list under a lock; `work`, the tasks that any worker may take (the global queue and
 * the public parts of deques).
 *
 *     push     add the task; FENCE; somebody sleeps and nobody searches: under the lock, if that
 *              still holds, one CAS turns a sleeper into a searcher and one is taken off the list;
 *              then its flag is set
 *     search   become the searcher if there is none; found: stop searching; FENCE; if there is
 *              work, somebody sleeps and nobody searches: wake the next, as push does
 *     sleep    under the lock: onto the list, sleepers + 1, and searchers - 1 if it searched;
 *              FENCE; look at every queue again; nothing: wait for the flag; then get up: under
 *              the lock, off the list and off the count if still there; who was taken off by a
 *              waker is the searcher now. If that last look saw work, become the searcher again if
 *              there is none: pushes that came while it searched have relied on it
 *
 * sleepers is the length of the list whenever the lock is free; searchers changes without the
 * lock.
 *
 * Stores may be late: a push and an announcement stay in a buffer of their actor until it flushes
 * by itself or passes a fence. That is what machines weaker than x86 do to an RMW followed by a
 * load. A worker that announces never holds a task: what it holds privately, it runs.
 *
 * Actors.  WORKERS workers, and a thread from outside that pushes PUSHES tasks. A task may push
 * another one when it runs, and one task may never end (HOG): the worker that runs it is gone.
 *
 * Properties.  When nothing can move any more, every task that was pushed has been taken: no state
 * is reached in which work waits while all workers sleep, or while one is stuck and the others
 * sleep. Never more than one searcher.
 *
 * Weakenings (negative controls).
 *   BUG_NO_PUSH_FENCE   the push looks at the sleepers before its task is visible
 *   BUG_NO_SLEEP_FENCE  the sleeper looks at the queues before its announcement is visible
 *   BUG_NO_RECHECK      the sleeper trusts the look that it took before it announced
 *   BUG_NO_NEXT         a searcher that finds work does not wake the next
 *   BUG_NEXT_EARLY      it looks whether there is more before it has stopped searching
 *   BUG_RECHECK_SILENT  who sees work in the look before its sleep just takes it
 *   BUG_COUNT_APART     the waker counts a sleeper off before it has the lock; who gets up by
 *                       itself in between takes that for its own, the waker then finds the next
 *                       sleeper in the list, and two workers believe that they are the one
 *                       searcher
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef PUSHES
#define PUSHES 2
#endif
#ifndef CHILDREN
#define CHILDREN 1     /* tasks pushed by tasks */
#endif
#ifndef HOG
#define HOG 1
#endif

byte work;
byte sleepers, searchers;      /* one word */
bit lock;
bit listed[WORKERS];           /* the list; which one is taken off does not matter */
bit wake[WORKERS];

/* late stores: actor WORKERS is the thread outside */
byte late_push[WORKERS + 1];
bit late_sleeper[WORKERS];
bit late_role[WORKERS];        /* goes with late_sleeper: the same RMW */

byte pushed, taken, children;
bit hogged;

inline flush_sleeper(w)
{
    late_sleeper[w] = 0;
    sleepers++;
    lock = 0;                      /* the unlock is a release store: not before the RMW */
    if
    :: late_role[w] -> late_role[w] = 0; searchers--
    :: else
    fi
}

active proctype Flusher()
{
end_flush:
    do
    :: d_step { late_push[0] > 0 -> late_push[0]--; work++ }
    :: d_step { late_push[1] > 0 -> late_push[1]--; work++ }
    :: d_step { late_push[WORKERS] > 0 -> late_push[WORKERS]--; work++ }
    :: d_step { late_sleeper[0] -> flush_sleeper(0) }
    :: d_step { late_sleeper[1] -> flush_sleeper(1) }
#if WORKERS > 2
    :: d_step { late_push[2] > 0 -> late_push[2]--; work++ }
    :: d_step { late_sleeper[2] -> flush_sleeper(2) }
#endif
    od
}

inline take_lock() { atomic { !lock -> lock = 1 } }

/* after the fence of the caller */
inline take_off()
{
    if
    :: listed[0] -> listed[0] = 0; who = 0
    :: listed[1] -> listed[1] = 0; who = 1
#if WORKERS > 2
    :: listed[2] -> listed[2] = 0; who = 2
#endif
    :: else -> who = WORKERS
    fi
}

inline wake_one()
{
    if
    :: sleepers > 0 && searchers == 0 ->            /* a first look without the lock */
#ifdef BUG_COUNT_APART
        atomic {
            if
            :: sleepers > 0 && searchers == 0 -> sleepers--; searchers++; chosen = 1
            :: else -> chosen = 0
            fi };
        take_lock();
        atomic { if :: chosen -> take_off() :: else -> who = WORKERS fi; lock = 0 };
#else
        take_lock();
        atomic {
            if
            :: sleepers > 0 && searchers == 0 ->
                sleepers--; searchers++; take_off(); assert(who < WORKERS)
            :: else -> who = WORKERS
            fi };
        lock = 0;
#endif
        if
        :: who < WORKERS -> wake[who] = 1
        :: else
        fi;
        who = 0; chosen = 0
    :: else
    fi
}

inline push(a)
{
    atomic { pushed++; late_push[a]++ };
#ifndef BUG_NO_PUSH_FENCE
    (late_push[a] == 0);
#endif
    wake_one()
}

proctype Outside()
{
    byte n, who;
    bit chosen;

    do
    :: n < PUSHES -> n++; push(WORKERS)
    :: else -> break
    od
}

inline try_search()
{
    atomic { if :: searchers == 0 -> searchers++; search = 1 :: else -> search = 0 fi;
             assert(searchers <= 1) }
}

proctype Worker(byte me)
{
    byte who;
    bit search, got, chosen, needed;

next:
    atomic { if :: work > 0 -> work--; taken++; got = 1 :: else -> got = 0 fi };
    if
    :: got ->
        got = 0;
        if                                          /* run the task */
        :: atomic { HOG && !hogged -> hogged = 1 };
end_hog:    false
        :: atomic { children < CHILDREN -> children++ };
            push(me)
        :: true
        fi;
        goto next
    :: else
    fi;

    try_search();
again:
    if
    :: search && work > 0 ->                        /* found */
#ifdef BUG_NEXT_EARLY
        needed = (work > 1);
        atomic { searchers--; search = 0 };
#else
        atomic { searchers--; search = 0 };         /* an RMW and a fence */
        needed = (work > 0);
#endif
#ifndef BUG_NO_NEXT
        if
        :: needed -> wake_one()
        :: else
        fi;
#endif
        needed = 0;
        goto next
    :: else
    fi;

    /* sleep */
    wake[me] = 0;
    take_lock();
    listed[me] = 1;
    atomic { late_sleeper[me] = 1; late_role[me] = search; search = 0 };
#ifndef BUG_NO_SLEEP_FENCE
    (!late_sleeper[me]);
#endif
#ifndef BUG_NO_RECHECK
    needed = (work > 0);
#endif
    if
    :: !needed ->
end_sleep:
        wake[me]
    :: else
    fi;
    (!late_sleeper[me]);
    take_lock();
    atomic {
        if
        :: listed[me] ->
            listed[me] = 0;
#ifdef BUG_COUNT_APART
            if
            :: sleepers > 0 -> sleepers--; search = 0
            :: else -> search = 1                   /* "a waker has counted me off" */
            fi
#else
            assert(sleepers > 0);
            sleepers--; search = 0
#endif
        :: else -> search = 1                       /* a waker took me off the list */
        fi;
        lock = 0 };
#ifndef BUG_RECHECK_SILENT
    if
    :: needed && !search -> try_search()
    :: else
    fi;
#endif
    needed = 0;
    if
    :: search -> goto again
    :: else -> goto next
    fi
}

/* nothing else can move: was everything taken? */
active proctype Monitor()
{
    timeout -> assert(taken == pushed && pushed == PUSHES + children)
}

init {
    byte i;
    atomic {
        do
        :: i < WORKERS -> run Worker(i); i++
        :: else -> break
        od;
        run Outside()
    }
}
