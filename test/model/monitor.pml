/* SPDX-License-Identifier: MIT */
/*
 * Watches of otp (src/otp/watch.c, link.c): a link between A and B. The end of A, the end of B and
 * an unlink by somebody else may meet in any order. A monitor is the first half alone.
 *
 * State.  Watch 0 is FIRST: watcher A, target B. Watch 1 is SECOND: watcher B, target A. Of each:
 * in, out, peer: its holds; linked_in and linked_out: in its target's and its watcher's list; lane:
 * in the lane of its watcher; named; freed. Of each party: lock, over, gone (nobody's any more).
 *
 *     end p      over; takes the list of those who watch p, tells each; revokes its own watches;
 *                drops what is in its lane; gone
 *     tell x     under the watcher's lock: out and the watcher not over: into the lane. in goes
 *     revoke x   under the watcher's lock: out goes, and what is in the lane; then, under the
 *                target's lock, if that is not over: out of its list, and in goes
 *     drop       whoever lets the last hold go frees; of SECOND, out takes FIRST's peer with it
 *
 * Properties.  Nothing is touched or freed after it was freed; in the end both are freed; when the
 * unlink returns nothing is in a lane, and nothing gets into one afterwards.
 *
 * Weakenings (negative controls).
 *   BUG_LEAVE_BLIND   a revoke takes the watch out of the list of a target that is over
 *   BUG_TELL_BLIND    the end tells without looking whether out is there
 *   BUG_NO_PEER       FIRST goes without waiting for SECOND
 *   BUG_FREE_BY_OUT   a revoke frees what the target's end still has
 *   BUG_OVER_LATE     the end marks itself over after it has taken its list
 */
bit lock[2];
bit over[2], gone[2];
bit in[2], out[2], peer[2], linked_in[2], linked_out[2], lane[2], named[2], freed[2];
bit is_quiet; /* the unlink has returned */
byte done;

#define TARGET(x) (1 - (x))

inline take(k) { atomic { !lock[k] -> lock[k] = 1 } }
inline give(k) { lock[k] = 0 }

/* Under the watcher's lock: some holds go. frees: this was the last one. */
inline drop(w, drops_in, drops_out, drops_peer)
{
    assert(!freed[w]);
    d_step {
        if :: drops_in -> in[w] = 0 :: else fi;
        if :: drops_out -> out[w] = 0 :: else fi;
        if :: drops_peer -> peer[w] = 0 :: else fi;
        if :: !out[w] && !peer[w] -> named[w] = 0 :: else fi;
        frees = frees || (!in[w] && !out[w] && !peer[w]);
#ifdef BUG_FREE_BY_OUT
        if :: drops_out -> frees = 1 :: else fi
#endif
    }
}

/* With no lock: frees, and lets go of the peer if SECOND has let out go. */
inline let_go(v)
{
    if
    :: frees -> assert(!freed[v]); freed[v] = 1; frees = 0
    :: else
    fi;
    if
    :: v == 1 && had_out ->
       had_out = 0;
#ifndef BUG_NO_PEER
       take(0);
       drop(0, 0, 0, 1);
       give(0);
       if
       :: frees -> assert(!freed[0]); freed[0] = 1; frees = 0
       :: else
       fi
#endif
    :: else -> had_out = 0
    fi
}

/* The watcher of r is q, and its lock is held; it is given. */
inline revoke_and_unlock(r, q)
{
    assert(!freed[r]);
    was_pending = linked_out[r];
    had_out = linked_out[r] || lane[r];
    linked_out[r] = 0;
    lane[r] = 0;
    if
    :: had_out -> drop(r, 0, 1, 0)
    :: else
    fi;
    give(q);
    if
    :: was_pending ->
       take(TARGET(q));
       if
#ifdef BUG_LEAVE_BLIND
       :: 1 ->
#else
       :: !over[TARGET(q)] && !gone[TARGET(q)] ->
#endif
          assert(!freed[r] && linked_in[r]);
          linked_in[r] = 0;
          give(TARGET(q));
          take(q);
          drop(r, 1, 0, 0);
          give(q)
#ifndef BUG_LEAVE_BLIND
       :: else -> give(TARGET(q))
#endif
       fi
    :: else
    fi;
    let_go(r)
}

/* The end of p: its own watch has the number of p, the other's that watches it 1 - p. */
proctype End(byte p)
{
    bit was_pending, had_out, frees, has;
    byte x;
#ifndef BUG_OVER_LATE
    take(p);
    over[p] = 1;
    give(p);
#endif
    x = 1 - p;
    take(p);
    has = linked_in[x];
    linked_in[x] = 0;
    give(p);
#ifdef BUG_OVER_LATE
    take(p);
    over[p] = 1;
    give(p);
#endif
    if
    :: has ->
       take(1 - p); /* tell */
       assert(!freed[x]);
       if
#ifdef BUG_TELL_BLIND
       :: !over[1 - p] ->
#else
       :: linked_out[x] && !over[1 - p] ->
#endif
          linked_out[x] = 0;
          assert(!is_quiet);
          lane[x] = 1;
          drop(x, 1, 0, 0)
       :: else ->
          had_out = over[1 - p] && out[x];
          linked_out[x] = 0;
          drop(x, 1, had_out, 0)
       fi;
       give(1 - p);
       let_go(x)
    :: else
    fi;
    take(p);
    if
    :: linked_out[p] -> revoke_and_unlock(p, p)
    :: else -> give(p)
    fi;
    take(p);
    if
    :: lane[p] -> lane[p] = 0; drop(p, 0, 1, 0); had_out = 1
    :: else
    fi;
    give(p);
    let_go(p);
    take(p);
    gone[p] = 1;
    give(p);
    done++
}

/* Somebody else unlinks, by the name of FIRST. */
proctype Unlink()
{
    bit was_pending, had_out, frees;
    take(0);
    if
    :: named[0] ->
       revoke_and_unlock(0, 0);
       take(1);
       if
       :: named[1] -> revoke_and_unlock(1, 1)
       :: else -> give(1)
       fi
    :: else -> give(0)
    fi;
    atomic { is_quiet = 1; assert(!lane[0] && !lane[1]) };
    done++
}

init {
    byte x;
    atomic {
        for (x : 0 .. 1) {
            in[x] = 1; out[x] = 1; linked_in[x] = 1; linked_out[x] = 1; named[x] = 1
        }
#ifndef BUG_NO_PEER
        peer[0] = 1;
#endif
        run End(0);
        run End(1);
        run Unlink()
    }
    done == 3;
    assert(freed[0] && freed[1]);
    assert(!named[0] && !named[1] && !lane[0] && !lane[1])
}
