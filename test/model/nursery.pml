/* SPDX-License-Identifier: MIT */
/*
 * The nursery: a word (live, state) and the list of children, changed together under the nursery's
 * lock.
 *
 * State.  live counts the children, the body's token while the state is OPEN, and a token for
 * each cancel that is walking through the list (a cancel of an open one takes over the body's).
 * state is one of the five of the nursery's machine; close seals it on top: join refuses outsiders
 * only, a sealed nursery refuses everybody. Unlocking publishes all of it and is the last touch.
 *
 *     spawn    lock; admitted? live + 1, link; unlock; then the child is put in a run queue
 *     drop     lock; live - 1; at 0: terminal state, note the waiting owner; unlock; then wake the
 *              owner through its frame, not through the nursery
 *     end      unlink, drop
 *     close    lock; sealed; OPEN -> CLOSING, drop the body token; unlock
 *     join     lock; OPEN -> CLOSING, drop the body token; run own unstarted children in place;
 *              lock; over? else leave a note for the last one; unlock; park; lock, look, unlock;
 *              after that the memory goes back
 *     cancel   lock; OPEN -> CANCELLING, or CLOSING -> CANCELLING, live + 1; unlock; then mark
 *              every child in the list, the lock given up in between; drop
 *
 * Actors.  Owner: spawns children 0 and 1, perhaps closes, joins, perhaps runs child 0 in place.
 * Child 1 spawns child 2 (a member). Outsider: tries to spawn child 3. Canceller. Outsider and
 * canceller have a right to find the nursery when their call begins, as the interface demands
 * (`guests`); the canceller's walk has no right but its token.
 *
 * Properties.  Nobody touches the nursery after join returned (TOUCH). When join returns, every
 * child that was admitted has ended (no orphan) and the state is terminal, reached exactly once.
 * Only the five legal transitions occur. When the walk is over, every child that was admitted and
 * has not ended is marked (no child escapes a cancel). A member spawns while the owner joins; an
 * outsider, and anybody after a close or a cancel, does not. join always returns (else an invalid
 * end state).
 *
 * Weakenings (negative controls).
 *   BUG_THREE_WORDS    state, number of children and number of ends are three words without a
 *                      lock, as in the document kin departs from
 *   BUG_TOUCH_AFTER    the last one looks for the waiting owner after it has unlocked
 *   BUG_ADMIT_EARLY    spawn looks at the state before it takes the lock
 *   BUG_WALK_UNLOCKED  the walk marks without the lock: the frame may belong to another task by
 *                      then
 *   BUG_NO_WALK_TOKEN  the walk is not counted: the nursery ends under it
 */
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef OUTSIDERS
#define OUTSIDERS 1
#endif

#define OPEN       0
#define CLOSING    1
#define CANCELLING 2
#define CLOSED     3
#define CANCELLED  4
#define KIDS       4

/* the word */
byte state = OPEN;
byte live = 1;                  /* the body token */
bit sealed;
bit lock;                       /* a word of its own */
/* guarded by the lock */
bit linked[KIDS], marked[KIDS];
bit waiting;                    /* the owner left its note: frame and ticket */
#ifdef BUG_THREE_WORDS
byte completed, count;
#endif

/* outside the nursery */
bit queued[KIDS], ended[KIDS], admitted[KIDS];
bit woken;                      /* in the owner's frame */
bit freed;
byte terminals;
byte guests;

#define TOUCH assert(!freed)
#define TOLD(c) (ended[c] || !admitted[c] || marked[c])

inline set_state(to)
{
    assert((state == OPEN && (to == CLOSING || to == CANCELLING)) ||
           (state == CLOSING && (to == CLOSED || to == CANCELLING)) ||
           (state == CANCELLING && to == CANCELLED));
    state = to;
    if
    :: to == CLOSED || to == CANCELLED -> terminals++; assert(terminals == 1)
    :: else
    fi
}

inline take_lock() { atomic { !lock -> TOUCH; lock = 1 } }

inline unlock() { atomic { TOUCH; assert(lock); lock = 0 } }

/* a child that has left the list may have given its frame to another task */
inline mark(c)
{
    if
    :: linked[c] -> assert(linked[c]); marked[c] = 1
    :: else
    fi
}

/* with the lock held: the last one out makes the state terminal */
inline settle()
{
    if
    :: live == 0 && state == CLOSING -> set_state(CLOSED)
    :: live == 0 && state == CANCELLING -> set_state(CANCELLED)
    :: else
    fi
}

/* with the lock held */
inline drop_and_unlock()
{
    atomic { live--; settle(); last = (live == 0) };
#ifdef BUG_TOUCH_AFTER
    unlock();
    if
    :: last -> TOUCH; last = waiting
    :: else
    fi;
#else
    last = last && waiting;
    unlock();
#endif
    if
    :: last -> woken = 1
    :: else
    fi;
    last = 0
}

#define ADMITS(member) (state == OPEN || (state == CLOSING && !sealed && member))

inline spawn(c, member)
{
#ifdef BUG_THREE_WORDS
    TOUCH;
    ok = (state == OPEN);
    if
    :: ok -> atomic { TOUCH; linked[c] = 1; count++ }; admitted[c] = 1; queued[c] = 1
    :: else
    fi
#else
#ifdef BUG_ADMIT_EARLY
    TOUCH; ok = ADMITS(member);
    take_lock();
#else
    take_lock();
    ok = ADMITS(member);
#endif
    if
    :: ok -> atomic { live++; linked[c] = 1; admitted[c] = 1 }
    :: else
    fi;
    unlock();
    if
    :: ok -> queued[c] = 1
    :: else
    fi
#endif
    ; ok = 0
}

inline end_child(c)
{
    ended[c] = 1;
#ifdef BUG_THREE_WORDS
    atomic { TOUCH; completed++; n = completed };
    TOUCH;
    if
    :: n >= count ->
        TOUCH; n = state;
        if
        :: n == CLOSING -> atomic { TOUCH; set_state(CLOSED) }
        :: n == CANCELLING -> atomic { TOUCH; set_state(CANCELLED) }
        :: else
        fi
    :: else
    fi;
    n = 0
#else
    take_lock();
    linked[c] = 0;
    drop_and_unlock()
#endif
}

proctype Child(byte c)
{
    byte n;
    bit ok, last;

end_wait:
    atomic { queued[c] -> queued[c] = 0 };
    if
    :: c == 1 -> spawn(2, 1)
    :: else
    fi;
    end_child(c)
}

proctype Outsider()
{
    bit ok;

    if
    :: atomic { !freed -> guests++ };
        spawn(3, 0);
        guests--
    :: freed
    fi
}

proctype Canceller()
{
    byte i;
    bit ok, last;

    if
    :: atomic { !freed -> guests++ };
#ifdef BUG_THREE_WORDS
        atomic {
            if
            :: state == OPEN || state == CLOSING -> set_state(CANCELLING); ok = 1
            :: else
            fi };
#else
        take_lock();
        if
        :: state == OPEN || state == CLOSING ->
            atomic { ok = 1;
#ifndef BUG_NO_WALK_TOKEN
                     /* while it is open the body's token becomes the walk's */
                     if :: state != OPEN -> live++ :: else fi;
#else
                     if :: state == OPEN -> live-- :: else fi;
#endif
                     set_state(CANCELLING)
            }
        :: else
        fi;
        unlock();
#endif
        guests--;
        do
        :: ok && i < KIDS ->
#if defined(BUG_THREE_WORDS) || defined(BUG_WALK_UNLOCKED)
            TOUCH;
            mark(i);
#else
            take_lock();
            mark(i);
            if
            :: i < KIDS - 1 -> unlock()             /* others may have it between two children */
            :: else
            fi;
#endif
            i++
        :: else -> break
        od;
        atomic { assert(!ok || (TOLD(0) && TOLD(1) && TOLD(2) && TOLD(3))) };
#ifndef BUG_THREE_WORDS
        if
        :: ok ->
#ifdef BUG_WALK_UNLOCKED
            take_lock();
#endif
#ifdef BUG_NO_WALK_TOKEN
            unlock()
#else
            drop_and_unlock()
#endif
        :: else
        fi
#endif
    :: freed
    fi
}

proctype Owner()
{
    byte n;
    bit ok, last;

    spawn(0, 1);
    spawn(1, 1);
#ifdef BUG_THREE_WORDS
    atomic { if :: state == OPEN -> set_state(CLOSING) :: else fi };
    (completed >= count);
#else
    if
    :: true ->                                      /* close first, then join */
        take_lock();
        sealed = 1;
        if
        :: state == OPEN -> set_state(CLOSING); drop_and_unlock()
        :: else -> unlock()
        fi
    :: true
    fi;
    take_lock();                                    /* join */
    if
    :: state == OPEN -> atomic { set_state(CLOSING); ok = (live == 1) }; drop_and_unlock()
    :: else -> ok = (live == 0); unlock()
    fi;
    if                                              /* in place: my own child, next in my queue */
    :: atomic { !ok && queued[0] -> queued[0] = 0 };
        end_child(0);
        ok = (state == CLOSED || state == CANCELLED) /* a look without the lock */
    :: true
    fi;
    if
    :: !ok ->
        take_lock();
        ok = (live == 0);
        if
        :: !ok -> waiting = 1
        :: else
        fi;
        unlock();
        if
        :: !ok -> woken
        :: else
        fi
    :: else
    fi;
    take_lock();                                    /* give it back */
    unlock();
#endif
    atomic {
        assert(state == CLOSED || state == CANCELLED);
        assert(terminals == 1);
        assert((!admitted[0] || ended[0]) && (!admitted[1] || ended[1]) &&
               (!admitted[2] || ended[2]) && (!admitted[3] || ended[3])) };
    atomic { guests == 0 -> freed = 1 }
}

init {
    atomic {
        run Owner(); run Child(0); run Child(1); run Child(2); run Child(3);
        if :: CANCELS -> run Canceller() :: else fi;
        if :: OUTSIDERS -> run Outsider() :: else fi
    }
}
