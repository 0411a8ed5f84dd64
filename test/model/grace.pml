/* SPDX-License-Identifier: MIT */
/*
 * Masks over nurseries, and the end of the grace: a task is cancelled and, when the grace of its
 * nursery is over, killed, while it opens a nursery under a mask or without one, spawns a child,
 * unmasks and joins.
 *
 * State.  Of the task: canc and kill, its requests; masks, its own. Of the nursery that it opens:
 * open (whether a walk finds it), depth (masks that it was opened under and that are in force),
 * cancelled, overdue; all of them change under the nursery's lock, here in one atomic step. Of the
 * child: ccanc and ckill, its requests, and whether it is masked, which it decides once.
 *
 *     cancel    leaves canc, then under the lock: cancels the nursery if it finds it at depth 0
 *     unmask    under the lock: lowers the depth, then looks at canc
 *     open      publishes the nursery, then looks at canc if it is not masked, and at kill anyhow
 *     spawn     under the lock: looks at canc or kill in the same way; a cancelled nursery admits
 *               nobody
 *     kill      after the cancel's walk: leaves kill, then under the lock: cancels the nursery
 *               whatever its depth and makes it overdue
 *     walks     a nursery that is cancelled asks its child; one that is overdue kills it
 *
 * What is left out: how a request ends a park (mask.pml), how a nursery ends (nursery.pml). The
 * child waits for something that never comes; the grace of the inner nursery never ends by itself.
 * With GRACE 0 nobody is killed; then the child does not mask itself, and the task unmasks.
 *
 * Properties.  As long as the task is masked and not killed, its nursery is not cancelled.
 * Everybody ends (an invalid end state otherwise): no order of steps leaves the nursery of a
 * cancelled task uncancelled once the mask is gone, nor anything alive once the grace is over.
 *
 * Weakenings (negative controls).
 *   BUG_LOOK_FIRST   unmask looks at canc before it lowers the depth: the cancel is lost
 *   BUG_WALK_FIRST   cancel looks at the depth before it leaves canc: the same from the other side
 *   BUG_NO_DEPTH     cancel does not look at the depth: reaches under a mask
 *   BUG_KILL_DEPTH   kill respects the depth: the child of a masked nursery stays
 *   BUG_SHALLOW      kill does not make the inner nursery overdue: a masked child stays
 *   BUG_OPEN_BLIND   neither open nor spawn looks at what the task is asked
 */
#ifndef GRACE
#define GRACE 1
#endif

bit canc, kill;              /* requests of the task */
bit masked;
bit open, depth, cancelled, overdue;
bit ccanc, ckill, cmasked, spawned, cover;
bit walked;                  /* the cancel has left its request and walked */
bit over;

/* Cancels the nursery; under its lock. */
inline cancel_inner()
{
    assert(!masked || kill || depth == 0);
    cancelled = 1
}

proctype Child()
{
    if                       /* decides once, before it waits */
    :: GRACE -> cmasked = 1
    :: cmasked = 0
    fi;
    (ckill || (ccanc && !cmasked)); /* what it waits for never comes */
    cover = 1
}

/* The walks of whoever cancelled the nursery or made it overdue. */
proctype Walk()
{
    do
    :: atomic { cancelled && spawned && !ccanc -> ccanc = 1 }
    :: atomic { overdue && spawned && !ckill -> ckill = 1 }
    :: over -> break
    od
}

proctype Canceller()
{
    bit reaches;
#ifdef BUG_WALK_FIRST
    atomic { reaches = open && depth == 0 };
    canc = 1;
    atomic {
        if
        :: reaches && open -> cancel_inner()
        :: else
        fi };
#else
    canc = 1;
    atomic {
#ifdef BUG_NO_DEPTH
        reaches = open;
#else
        reaches = open && depth == 0;
#endif
        if
        :: reaches -> cancel_inner()
        :: else
        fi };
#endif
    walked = 1
}

/* The end of the grace, which only a task that outstays it sees. */
proctype Grace()
{
    (walked || over);
    if
    :: over -> goto out
    :: walked -> skip
    fi;
    kill = 1;
    atomic {
        if
#ifdef BUG_KILL_DEPTH
        :: open && depth == 0 -> cancelled = 1; overdue = 1
#else
#ifdef BUG_SHALLOW
        :: open -> cancelled = 1
#else
        :: open -> cancelled = 1; overdue = 1
#endif
#endif
        :: else
        fi };
out:
    skip
}

proctype Task()
{
    bit seen;

    if
    :: masked = 1
    :: masked = 0
    fi;
    atomic { open = 1; depth = masked };
#ifndef BUG_OPEN_BLIND
    atomic {
        if
        :: kill -> cancelled = 1; overdue = 1
        :: !kill && canc && depth == 0 -> cancel_inner()
        :: else
        fi };
#endif
    atomic {                 /* spawn */
        if
#ifndef BUG_OPEN_BLIND
        :: kill -> cancelled = 1; overdue = 1
        :: !kill && canc && depth == 0 -> cancel_inner()
#endif
        :: else
        fi;
        if
        :: !cancelled -> spawned = 1; run Child()
        :: else
        fi };
    if                       /* unmasks before the join, or joins masked */
    :: masked ->
#ifdef BUG_LOOK_FIRST
        seen = canc;
        atomic { masked = 0; depth = 0; if :: seen -> cancel_inner() :: else fi }
#else
        atomic {
            masked = 0; depth = 0; seen = canc;
            if
            :: seen -> cancel_inner()
            :: else
            fi }
#endif
    :: GRACE || !masked -> skip
    fi;
    (!spawned || cover);     /* the join: nothing ends it early */
    atomic { open = 0; over = 1 }
}

init {
    atomic {
        run Task();
        run Walk();
        run Canceller();
        if
        :: GRACE -> run Grace()
        :: else
        fi
    }
}
