/* SPDX-License-Identifier: MIT */
/*
 * The queue with one producer and one consumer: publish unless somebody waits, link unless there is
 * something.
 *
 * State.  Two words. tail = (position, CLOSED, WAITS), head = (position, WAITS); each bit lives in
 * the word that the other side must change to complete what is waited for:
 *
 *     send     fast: read tail; neither bit and room: write the slot; one CAS moves tail on if no
 *              bit came meanwhile. That CAS is the last touch of the queue.
 *              slow, under the lock: closed: refused; a receiver is linked: take it out, clear
 *              WAITS, and if its park can be claimed give it the item; room: write, move tail on;
 *              no room: one CAS sets WAITS in head if head has not moved, and link
 *     receive  fast: the same with head. slow, under the lock: take the oldest item; a sender is
 *              linked: take it out, clear WAITS, and if its park can be claimed put its item in;
 *              nothing there: one CAS sets WAITS in tail, and link. Nothing there and CLOSED, read
 *              in one load: closed for good
 *     close    sets CLOSED under the lock; a linked receiver is told, a linked sender stays
 *     unref    the last one closes, tells whoever is linked, and frees; unless a call is pinned
 *     pins     calls that were linked and will take the lock once more: neither claimed by the
 *              queue's own users nor out of the line. The last of them frees then
 *
 * A park is one flag here (park_wake.pml has the rest): whoever claims it delivers a result. A
 * canceller may claim each side's park once; that side leaves the line under the lock and calls
 * again. Words are changed by RMWs only and each handshake is about one word, so late stores add
 * nothing to be modelled; slots are ordered by release and acquire of the word that publishes them.
 *
 * Actors.  A producer of ITEMS items, a consumer, a canceller if CANCELS, a closer if CLOSES. With
 * a closer, producer, consumer and closer have a reference each; without one only the consumer has:
 * it gives it up with the last item, while the call that sent that item may still be running, or,
 * if GIVES_UP, at any time at which the producer is parked or over; the producer then stops at the
 * first thing but success.
 *
 * Properties.  Every item whose send succeeded is received, once and in order, before the consumer
 * is told CLOSED; no slot is written while it is full or read while it is empty; nobody sleeps for
 * ever; nobody touches the queue after it was freed, and it is freed in the end.
 *
 * Weakenings (negative controls).
 *   BUG_ADD           a send moves tail on without looking at the bits: the receiver sleeps
 *   BUG_LINK_BLIND    a receiver sets WAITS without comparing the position
 *   BUG_LINK_CACHED   a sender compares with the head it saw before
 *   BUG_CLOSED_APART  CLOSED is a flag of its own that a send reads before it publishes
 *   BUG_TOUCH_AFTER   the fast send looks for a waiting receiver after it has published
 *   BUG_NO_PIN        the memory does not wait for a call that was parked and is on its way out
 *   BUG_PIN_STAYS     a call that its partner has completed stays pinned: the memory is never freed
 *   BUG_OVERTAKE      the slow receive leaves a parked sender where it is: it sleeps beside room
 *   BUG_CLOSE_SENDER  close sends a parked sender away and its item with it
 */
#ifndef CAP
#define CAP 1
#endif
#ifndef ITEMS
#define ITEMS 3
#endif
#ifndef CANCELS
#define CANCELS 1
#endif
#ifndef CLOSES
#define CLOSES 0
#endif
#ifndef GIVES_UP
#define GIVES_UP 0
#endif

#define NONE      0
#define DONE      1
#define CLOSED    2
#define CANCELLED 3

byte tail, head;                 /* positions */
bit t_closed, t_waits, h_waits;  /* the bits beside them */
byte slot[CAP];                  /* item, 0: empty */

bit lock;
bit r_linked, s_linked;          /* in line, under the lock */
bit r_parked, s_parked;          /* claimable */
byte r_result, s_result;         /* delivered */
byte s_item;                     /* what the parked sender brought */
byte r_item;                     /* where the parked receiver wants it */

byte refs, pins;
bit dead, freed;

byte sent, got;                  /* sends that succeeded, items received */
bit s_over, r_over, r_closed, gave_up;

inline touch() { assert(!freed) }
inline take_lock() { atomic { !lock -> lock = 1; touch() } }
/* the last touch of whoever gives it; who finds the queue dead and without pins frees it */
inline give_lock()
{
    atomic {
        touch();
        lock = 0;
        if
#ifdef BUG_NO_PIN
        :: dead -> freed = 1
#else
        :: dead && pins == 0 -> freed = 1
#endif
        :: else
        fi }
}
inline unpin() { atomic { assert(pins > 0); pins-- } }
inline unpin_won()
{
#ifndef BUG_PIN_STAYS
    unpin()
#else
    skip
#endif
}

inline put(position, item)
{
    atomic { assert(slot[(position) % CAP] == 0); slot[(position) % CAP] = item }
}

inline take(position, item)
{
    atomic { assert(slot[(position) % CAP] != 0); item = slot[(position) % CAP];
             slot[(position) % CAP] = 0 }
}

/* under the lock: a receiver that is linked is taken out; if its park is claimed it has the item */
inline serve_receiver(item)
{
    if
    :: r_linked ->
        atomic { r_linked = 0; t_waits = 0 };
        atomic { if :: r_parked -> r_parked = 0; mine = 1 :: else -> mine = 0 fi };
        if
        :: mine -> assert(tail == head); r_item = item; unpin_won(); wake_r = 1
        :: else
        fi
    :: else
    fi
}

/* under the lock, with room: a sender that is linked is taken out; if claimed it sends */
inline serve_sender()
{
    if
    :: s_linked ->
        atomic { s_linked = 0; h_waits = 0 };
        atomic { if :: s_parked -> s_parked = 0; mine = 1 :: else -> mine = 0 fi };
        if
        :: mine -> put(tail, s_item); tail++; unpin_won(); wake_s = 1
        :: else
        fi;
        mine = 0
    :: else
    fi
}

/* under the lock: tells whoever is linked that it is over */
inline tell_receiver()
{
    if
    :: r_linked ->
        atomic { r_linked = 0; t_waits = 0 };
        atomic { if :: r_parked -> r_parked = 0; wake_r = 1; unpin() :: else fi }
    :: else
    fi
}

inline tell_sender()
{
    if
    :: s_linked ->
        atomic { s_linked = 0; h_waits = 0 };
        atomic { if :: s_parked -> s_parked = 0; wake_s = 1; unpin() :: else fi }
    :: else
    fi
}

inline unref()
{
    take_lock();
    atomic { refs--; last = (refs == 0) };
    if
    :: last ->
        t_closed = 1;
        tell_receiver();
        tell_sender();
        dead = 1
    :: else
    fi;
    give_lock();
    if
    :: wake_r -> wake_r = 0; r_result = CLOSED
    :: else
    fi;
    if
    :: wake_s -> wake_s = 0; s_result = CLOSED
    :: else
    fi
}

proctype Producer()
{
    byte i = 1, t, seen, h;
    bit bits, ok, mine, wake_r, wake_s, last;

    do
    :: i > ITEMS -> break
    :: else ->
        /* fast */
        atomic { touch(); t = tail; bits = t_waits || t_closed };
        if
        :: bits -> goto slow
        :: else
        fi;
        if
        :: t - seen >= CAP -> atomic { touch(); seen = head }
        :: else
        fi;
        if
        :: t - seen >= CAP -> goto slow
        :: else
        fi;
        put(t, i);
        atomic {
            touch();
#ifdef BUG_ADD
            ok = 1;
#elif defined(BUG_CLOSED_APART)
            ok = !t_waits;
#else
            ok = (tail == t && !t_waits && !t_closed);
#endif
            if
            :: ok -> tail++
            :: else -> slot[t % CAP] = 0            /* not published: nobody's */
            fi };
        if
        :: ok ->
#ifdef BUG_TOUCH_AFTER
            atomic { touch(); bits = t_waits };
#endif
            goto success
        :: else
        fi;
slow:
        take_lock();
        h = head;
        if
        :: t_closed -> give_lock(); break
        :: !t_closed && tail - h < CAP ->
            serve_receiver(i);
            if
            :: !mine -> put(tail, i); tail++
            :: else -> mine = 0
            fi;
            give_lock();
            if
            :: wake_r -> wake_r = 0; r_result = DONE
            :: else
            fi;
            goto success
        :: else ->
            atomic { s_result = NONE; s_item = i; s_parked = 1; s_linked = 1 };
            atomic {
#ifdef BUG_LINK_CACHED
                ok = (seen + CAP <= tail);
#else
                ok = (head == h);
#endif
                if
                :: ok -> h_waits = 1
                :: else
                fi };
            if
            :: !ok ->                               /* room: complete, not linked */
                s_linked = 0;
                atomic { if :: s_parked -> s_parked = 0; mine = 1 :: else -> mine = 0 fi };
                give_lock();
                if
                :: !mine -> (s_result != NONE); assert(s_result == CANCELLED)
                :: else -> mine = 0
                fi;
                goto again
            :: else
            fi;
            pins++;
            give_lock()
        fi;
        (s_result != NONE);                         /* parked */
        if
        :: s_result == CANCELLED ->
            take_lock();
            if
            :: s_linked -> atomic { s_linked = 0; h_waits = 0 }
            :: else
            fi;
            unpin();
            give_lock();
            if
            :: GIVES_UP -> break
            :: else -> goto again
            fi
        :: s_result == CLOSED -> break
        :: else
        fi;
success:
        atomic { sent++; i++ };
again:
        skip
    od;
    if
    :: CLOSES -> unref()
    :: else
    fi;
    s_over = 1
}

proctype Consumer()
{
    byte t, h, item, seen;
    bit closed, bits, ok, mine, wake_r, wake_s, last;

    do
    :: !CLOSES && got == ITEMS -> break
    :: GIVES_UP && (s_over || (s_linked && !lock)) -> gave_up = 1; break
    :: !(!CLOSES && got == ITEMS) ->
        /* fast */
        atomic { touch(); h = head; bits = h_waits };
        if
        :: h == seen ->
            atomic { touch(); t = tail; closed = t_closed; seen = t };
            if
            :: h == t && closed -> atomic { r_closed = 1; goto out }
            :: h == t && !closed -> goto slow
            :: else
            fi
        :: else
        fi;
        if
        :: bits -> goto slow
        :: else
        fi;
        atomic { assert(slot[h % CAP] != 0); item = slot[h % CAP] };
        atomic {
            touch();
            ok = (head == h && !h_waits);
            if
            :: ok -> head++; slot[h % CAP] = 0
            :: else
            fi };
        if
        :: ok -> goto success
        :: else
        fi;
slow:
        take_lock();
        atomic { t = tail; closed = t_closed; seen = t };
        if
        :: t != head ->
            take(head, item);
            head++;
#ifndef BUG_OVERTAKE
            serve_sender();
#endif
            give_lock();
            if
            :: wake_s -> wake_s = 0; s_result = DONE
            :: else
            fi;
            goto success
        :: t == head && closed ->
            give_lock();
            atomic { r_closed = 1; goto out }
        :: else ->
            atomic { r_result = NONE; r_parked = 1; r_linked = 1 };
            atomic {
#ifdef BUG_LINK_BLIND
                ok = 1;
#else
                ok = (tail == t && !t_closed);
#endif
                if
                :: ok -> t_waits = 1
                :: else
                fi };
            if
            :: !ok ->
                r_linked = 0;
                atomic { if :: r_parked -> r_parked = 0; mine = 1 :: else -> mine = 0 fi };
                give_lock();
                if
                :: !mine -> (r_result != NONE); assert(r_result == CANCELLED)
                :: else -> mine = 0
                fi;
                goto again
            :: else
            fi;
            pins++;
            give_lock()
        fi;
end_parked:                                         /* the monitor says when that is right */
        (r_result != NONE);
        if
        :: r_result == CANCELLED ->
            take_lock();
            if
            :: r_linked -> atomic { r_linked = 0; t_waits = 0 }
            :: else
            fi;
            unpin();
            give_lock();
            goto again
        :: r_result == CLOSED -> atomic { r_closed = 1; goto out }
        :: else -> item = r_item
        fi;
success:
        atomic { got++; assert(item == got); item = 0 };
again:
        skip
    od;
out:
    unref();
    r_over = 1
}

proctype Closer()
{
    bit wake_r, wake_s, last;

    take_lock();
    t_closed = 1;
    tell_receiver();
#ifdef BUG_CLOSE_SENDER
    tell_sender();
    assert(!wake_s);                                /* it was admitted */
#endif
    give_lock();
    if
    :: wake_r -> wake_r = 0; r_result = CLOSED
    :: else
    fi;
    unref()
}

/* claims each side's park at most once, whenever it likes */
proctype Canceller()
{
    bit did_r, did_s;

end_cancel:
    do
    :: atomic { !did_r && r_parked -> r_parked = 0; did_r = 1 }; r_result = CANCELLED
    :: atomic { !did_s && s_parked -> s_parked = 0; did_s = 1 }; s_result = CANCELLED
    :: did_r && did_s -> break
    od
}

/* nothing else can move */
active proctype Monitor()
{
    timeout ->
        /* a producer that stopped early leaves the consumer asleep with all there was */
        assert(s_over && (r_over || (GIVES_UP && r_parked && sent < ITEMS)));
        assert(gave_up || got == sent);
        assert(GIVES_UP || CLOSES || got == ITEMS);
        assert(freed == r_over)
}

init {
    atomic {
        refs = 1 + 2 * CLOSES;
        run Producer();
        run Consumer();
        if :: CANCELS -> run Canceller() :: else fi;
        if :: CLOSES -> run Closer() :: else fi
    }
}
