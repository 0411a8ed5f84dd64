# SPDX-License-Identifier: MIT
"""What each harness of atom mode is made of, and what it must notice.

HARNESSES: name of test/atoms/<name>.c -> the files of kin that it explores.
HINTS: loops that wait and do not say so, as (file, text, text that says so): exploration without
fairness would never leave them.
MUTANTS: name -> a list of (what is wrong, file, text that is there, text that takes its place). The
text must be there exactly once: when the code has changed, the mutant is looked at again.
"""

PARK = ["src/park/park.c", "src/park/thread.c", "src/sched/blocks.c", "src/task/word.c",
        "src/wait/timer.c", "src/wait/wheel.c"]

HARNESSES = {
    "litmus": [],
    "chaselev": [],
    "park": PARK,
    "deque": ["src/sched/deque.c"],
    "bias": ["src/sched/bias.c"],
    "idle": ["src/sched/idle.c", "src/sched/steal.c", "src/sched/inject.c", "src/sched/deque.c",
             "src/sched/bias.c"],
    "nursery": PARK + ["src/scope/nursery.c", "src/scope/spawn.c", "src/scope/ended.c",
                       "src/scope/cancel.c", "src/sched/extra.c", "src/mem/arena.c"],
    "chan": PARK + ["src/wait/chan.c"],
    "select": PARK + ["src/wait/select.c", "src/wait/chan.c", "src/wait/event.c",
                      "src/wait/ender.c"],
    "queue": PARK + ["src/wait/spsc.c", "src/wait/mpsc.c", "src/wait/queue.c", "src/wait/owner.c"],
    "timer": PARK + ["src/wait/chan.c"],
    "obligation": PARK + ["src/scope/obligation.c", "src/sched/extra.c"],
    "sync": PARK + ["src/wait/mutex.c", "src/wait/event.c", "src/wait/owner.c"],
}

# Those that stand on test/atoms/under.c and have base/atomic.h's door in front.
ALONE = {"litmus", "chaselev"}
WITHOUT_UNDER = ALONE | {"deque", "bias"}

HINTS = [
    # the owner is between two stores: see release in nursery.c
    ("src/scope/cancel.c",
     "scope = is_current ? outer : kin__load_seq(&task->inner); /* pairs as above */",
     "scope = is_current ? outer : (kin_atoms_spin(), kin__load_seq(&task->inner));"),
]

WORD, LOCK, WAITQ = "src/task/word.h", "src/base/lock.h", "src/park/waitq.h"

MUTANTS = {
    "park": [
        ("the result is handed over without an order", WORD,
         "uint64_t old = kin__or_acq_rel(&task->ctl, KIN__READY);",
         "uint64_t old = kin__or_relaxed(&task->ctl, KIN__READY);"),
        ("the task looks for its result without an order", WORD,
         "bool is_ready = kin__load_acquire(&task->ctl) & KIN__READY;",
         "bool is_ready = kin__load_relaxed(&task->ctl) & KIN__READY;"),
        ("a park is claimed by a store", WORD,
         "if (kin__cas_acquire(&task->ctl, &word, word | KIN__CLAIMED | KIN__READY)) {\n"
         "                kin__word_move(task, KIN__PARKED",
         "if (kin__store_release(&task->ctl, word | KIN__CLAIMED | KIN__READY), true) {\n"
         "                kin__word_move(task, KIN__PARKED"),
        ("who is second of ready and commit does not look", WORD,
         "    if (!(old & KIN__OFF))\n        return false;\n", ""),
        ("commit does not look whether it is ready", WORD,
         "if (KIN__LIKELY(!(old & KIN__READY)))\n        return false;", "return false;"),
        ("a begin that is asked parks nevertheless", WORD,
         "return KIN__UNLIKELY(old & heeded) ? KIN__BEGUN_ASKED : KIN__BEGUN_OPEN;",
         "return KIN__BEGUN_OPEN;"),
        ("a complete case is taken without claiming oneself", "src/park/park.c",
         "if (KIN__UNLIKELY(complete != count) && kin__word_claim_self(task)) {",
         "if (KIN__UNLIKELY(complete != count)) {"),
    ],
    "deque": [
        ("entries are published without an order", "src/sched/deque.c",
         "if (kin__cas_release(&deque->range, &range, next))",
         "if (kin__cas_relaxed(&deque->range, &range, next))"),
        ("a thief stores where it should exchange", "src/sched/deque.c",
         "    if (kin__cas_acq_rel(&deque->range, &range,\n"
         "                         kin__range_make(top + count, kin__range_split(range))))",
         "    if (kin__store_release(&deque->range,\n"
         "                         kin__range_make(top + count, kin__range_split(range))), true)"),
        ("the owner gets back by a store", "src/sched/deque.c",
         "if (!kin__cas_acq_rel(&deque->range, &range, kin__range_make(top + count, split)))",
         "if (kin__store_release(&deque->range, kin__range_make(top + count, split)), false)"),
        ("a full ring is not looked for", "src/sched/deque.h",
         "    if (KIN__UNLIKELY(bottom - top >= KIN__DEQUE_SIZE))\n        return false;\n", ""),
        ("pop takes what is public", "src/sched/deque.h",
         "    if (bottom == kin__range_split(kin__load_relaxed(&deque->range)))\n"
         "        return NULL;\n    /* relaxed: the owner's own entry */",
         "    if (bottom == kin__range_top(kin__load_relaxed(&deque->range)))\n"
         "        return NULL;\n    /* relaxed: the owner's own entry */"),
        ("a thief reads entries that it may not see yet", "src/sched/deque.c",
         "uint64_t range = kin__load_acquire(&deque->range); /* pairs with publish */",
         "uint64_t range = kin__load_relaxed(&deque->range); /* pairs with publish */"),
    ],
    "bias": [
        ("the bias is given without an order", "src/sched/bias.h",
         "kin__store_release(&bias->busy, 0u); /* pairs with the acquire in kin__bias_revoke */\n}",
         "kin__store_relaxed(&bias->busy, 0u);\n}"),
        ("the owner does not look whether it was revoked", "src/sched/bias.h",
         "if (KIN__UNLIKELY(kin__load_acquire(&bias->revoked)))", "if (false)"),
        ("the monitor has no barrier", "src/sched/bias.c",
         "kin__membarrier(); /* fence: the same, on every running thread */", ";"),
        ("the monitor restores without an order", "src/sched/bias.c",
         "kin__store_release(&bias->revoked, kind & ~KIN__REVOKED);",
         "kin__store_relaxed(&bias->revoked, kind & ~KIN__REVOKED);"),
        ("the monitor does not look whether the owner is busy", "src/sched/bias.c",
         "if (!kin__load_acquire(&bias->busy)) /* pairs with the release in kin__bias_give */\n"
         "        return true;",
         "return true;"),
        ("a strong owner does not fence", "src/sched/bias.c",
         "kin__fence_seq(); /* fence: busy before revoked; its mirror is in kin__bias_revoke */",
         ""),
    ],
    "idle": [
        ("a sleeper does not look again", "src/sched/idle.c",
         "bool is_needed = kin__steal_is_visible(sched);", "bool is_needed = false;"),
        ("the searcher announces itself by a store", "src/sched/idle.c",
         "} while (!kin__cas_acq_rel(&sched->idle, &idle, idle + ONE_SEARCHER));",
         "} while (kin__store_release(&sched->idle, idle + ONE_SEARCHER), false);"),
        ("a sleeper is chosen by a store", "src/sched/idle.c",
         "} while (!kin__cas_acq_rel(&sched->idle, &idle, idle - ONE_SLEEPER + ONE_SEARCHER));",
         "} while (kin__store_release(&sched->idle, idle - ONE_SLEEPER + ONE_SEARCHER), false);"),
        ("whoever brings work does not fence", "src/sched/idle.c",
         "kin__fence_seq(); /* fence: the work before the count; its mirror is in sleep_listed */",
         ""),
        ("a sleeper does not fence", "src/sched/idle.c",
         "kin__fence_seq(); /* fence: the count before the queues; its mirror is in "
         "kin__idle_wake_one */", ""),
        ("who gets up by itself stays counted", "src/sched/idle.c",
         "        (void)kin__sub_acq_rel(&sched->idle, ONE_SLEEPER);", "        (void)0;"),
        ("a worker is woken without being told", "src/sched/idle.c",
         "    else\n        kin__futex_wake(&worker->wake, 1);", ""),
    ],
    "nursery": [
        ("a join does not look again before it parks", "src/scope/nursery.c",
         "bool is_over = kin__scope_live(kin__load_relaxed(&scope->word)) == 0; "
         "/* relaxed: locked */",
         "bool is_over = false;"),
        ("a lock is given without an order", LOCK,
         "kin__store_release_quiet(&lock->word, 0u);", "kin__store_quiet(&lock->word, 0u);"),
        ("a lock is taken by a store", LOCK,
         "    if (KIN__UNLIKELY(kin__xchg_acquire_quiet(&lock->word, 1u) != 0))\n"
         "        kin__lock_slow(&lock->word);",
         "    kin__store_release_quiet(&lock->word, 1u);"),
        ("a nursery that is over is taken for another one", "src/scope/scope.h",
         "if (KIN__LIKELY(kin__load_relaxed(&scope->frame.name) == name))", "if (name)"),
        ("children are admitted to a closed nursery", "src/scope/spawn.c",
         "return state == KIN_NURSERY_OPEN ||\n", "return true ||\n"),
        ("children are not asked", "src/scope/cancel.c",
         "        kin__park_request(child, KIN__CANCEL);\n", ""),
        ("the last child does not wake the owner", "src/scope/nursery.c",
         "    if (is_waiting)\n        (void)kin__wake_task(owner, ticket, 0, 0);\n    else if",
         "    if"),
    ],
    "chan": [
        ("a send is published on a closed channel", "src/wait/chan.c",
         "    if ((state & KIN__CHAN_CLOSED) || kin__chan_count(chan) < chan->capacity ||",
         "    if (kin__chan_count(chan) < chan->capacity ||"),
        ("a receive does not look again before it parks", "src/wait/chan.c",
         "if ((state & KIN__CHAN_CLOSED) || kin__chan_count(chan) != 0 ||",
         "if ((state & KIN__CHAN_CLOSED) ||"),
        ("a lock is given without an order", LOCK,
         "kin__store_release_quiet(&lock->word, 0u);", "kin__store_quiet(&lock->word, 0u);"),
        ("a waiter that leaves keeps its pin", "src/wait/chan.c",
         "        set_locked(chan, kin__chan_state(chan) & ~bit);\n    chan->pins--;\n",
         "        set_locked(chan, kin__chan_state(chan) & ~bit);\n"),
        ("the claim of a waiter is not looked at", WAITQ,
         "return out->claim != KIN__LOST;", "return true;"),
        ("references are counted without an order", "src/wait/chan.c",
         "size_t old = kin__sub_acq_rel(&chan->refs, 1u);",
         "size_t old = kin__sub_relaxed(&chan->refs, 1u);"),
        ("a closed channel wakes nobody", "src/wait/chan.c",
         "    wake_all(chan, &chan->receivers, KIN__CHAN_RECEIVERS);\n", ""),
    ],
    "select": [
        ("losers stay in line", "src/park/park.c",
         "        if (i != but)\n            cases[i].ops->unpublish", "        if (false)\n"
         "            cases[i].ops->unpublish"),
        ("two who choose do not see each other", "src/wait/chan.c",
         "        ((state & KIN__CHAN_SENDERS) && has_other(&chan->senders, waiter->task))) {",
         "        false) {"),
        ("an event is published without looking again", "src/wait/event.c",
         "bool links = !kin__load_relaxed(&event->is_set); /* relaxed: under the lock */",
         "bool links = true;"),
        ("what was complete is not tried", "src/park/park.c",
         "return cases[complete].ops->try_complete(cases[complete].object, "
         "cases[complete].io, status)\n"
         "                   ? (int)complete\n                   : PARK_AGAIN;",
         "return (int)complete;"),
        ("a claim is a store", WORD,
         "} else if (kin__cas_acquire(&task->ctl, &word, word | KIN__CLAIMED)) {",
         "} else if (kin__store_release(&task->ctl, word | KIN__CLAIMED), true) {"),
    ],
    "queue": [
        ("an item is sent without an order", "src/wait/spsc.c",
         "kin__cas_release(&q->tail, &tail, tail + KIN__TAIL_ONE) ? 0 : 1;",
         "kin__cas_relaxed(&q->tail, &tail, tail + KIN__TAIL_ONE) ? 0 : 1;"),
        ("a slot is given up without an order", "src/wait/queue.h",
         "kin__cas_release(&q->head, &head, head + KIN__HEAD_ONE) ? 0 : 1;",
         "kin__cas_relaxed(&q->head, &head, head + KIN__HEAD_ONE) ? 0 : 1;"),
        ("a receive moves on by a store", "src/wait/queue.h",
         "kin__cas_release(&q->head, &head, head + KIN__HEAD_ONE) ? 0 : 1;",
         "(kin__store_release(&q->head, head + KIN__HEAD_ONE), true) ? 0 : 1;"),
        ("a receiver waits without looking again", "src/wait/queue.c",
         "        if (tail >> KIN__TAIL_SHIFT != position || (tail & KIN__QUEUE_CLOSED))\n"
         "            return false;\n", ""),
        ("a receiver announces itself whatever came", "src/wait/queue.c",
         "} while (!kin__cas_relaxed(&q->tail, &tail, tail | KIN__QUEUE_WAITS));",
         "} while (kin__or_relaxed(&q->tail, KIN__QUEUE_WAITS), false);"),
        ("a sender waits without looking again", "src/wait/queue.c",
         "        if (position - (head >> KIN__HEAD_SHIFT) < q->capacity)\n"
         "            return false;\n", ""),
        ("room is seen without an order", "src/wait/queue.h",
         "q->head_seen = kin__load_acquire(&q->head) >> KIN__HEAD_SHIFT;",
         "q->head_seen = kin__load_relaxed(&q->head) >> KIN__HEAD_SHIFT;"),
        ("under the lock an item is put without an order", "src/wait/queue.c",
         "kin__store_release(&q->tail, tail + KIN__TAIL_ONE);",
         "kin__store_relaxed(&q->tail, tail + KIN__TAIL_ONE);"),
    ],
    "timer": [
        ("a timer that came too late wakes nevertheless", "src/wait/timer.c",
         "    if (claim == KIN__LOST)\n        return false;\n", ""),
        ("a disarmed timer stays in the wheel", "src/wait/timer.c",
         "    kin__wheel_remove(&timers->wheel, &timer->node);\n", ""),
        ("a wheel is left without an order", LOCK,
         "kin__store_release_quiet(&lock->word, 0u);", "kin__store_quiet(&lock->word, 0u);"),
        ("a timer is put in without the lock", "src/wait/timer.c",
         "    kin__lock_take(&timers->lock, KIN__RANK_TIMER);\n"
         "    if (timers->wheel.count == 0)", "    if (timers->wheel.count == 0)"),
        ("a claim is a store", WORD,
         "} else if (kin__cas_acquire(&task->ctl, &word, word | KIN__CLAIMED)) {",
         "} else if (kin__store_release(&task->ctl, word | KIN__CLAIMED), true) {"),
    ],
    "obligation": [
        ("the heir is stored without an order", "src/scope/obligation.c",
         "kin__store_release(&o->owner, heir); /* pairs with lock_owner */",
         "kin__store_relaxed(&o->owner, heir); /* pairs with lock_owner */"),
        ("the owner is looked at without an order", "src/scope/obligation.c",
         "bool is_locked = kin__load_acquire(&o->owner) == owner;",
         "bool is_locked = kin__load_relaxed(&o->owner) == owner;"),
        ("it is not looked at again whose it is", "src/scope/obligation.c",
         "bool is_locked = kin__load_acquire(&o->owner) == owner;", "bool is_locked = true;"),
        ("it is not looked at again whether it has ended", "src/scope/obligation.c",
         "bool is_known = kin__load_relaxed(&o->frame.name) == name;", "bool is_known = true;"),
        ("an heir takes what has ended meanwhile", "src/scope/obligation.c",
         "    if (is_ours)\n        kin__list_push_back",
         "        kin__list_push_back"),
        ("a lock is taken by a store", LOCK,
         "    if (KIN__UNLIKELY(kin__xchg_acquire_quiet(&lock->word, 1u) != 0))\n"
         "        kin__lock_slow(&lock->word);",
         "    kin__store_release_quiet(&lock->word, 1u);"),
    ],
    "sync": [
        ("a mutex is taken without an order", "src/wait/mutex.c",
         "return kin__cas_acquire(&mutex->word, found, me);",
         "return kin__cas_relaxed(&mutex->word, found, me);"),
        ("a mutex is given without an order", "src/wait/mutex.c",
         "return kin__cas_release(&mutex->word, found, 0);",
         "return kin__cas_relaxed(&mutex->word, found, 0);"),
        ("a mutex is given by a store", "src/wait/mutex.c",
         "return kin__cas_release(&mutex->word, found, 0);",
         "return (kin__store_release(&mutex->word, 0), true);"),
        ("somebody gets in line by a store", "src/wait/mutex.c",
         "links = (word & WAITED) || kin__cas_relaxed(&mutex->word, &word, word | WAITED);",
         "links = (kin__store_relaxed(&mutex->word, word | WAITED), true);"),
        ("who sees an event does not look whether it was let go", "src/wait/event.c",
         "    if (KIN__LIKELY(kin__crowd_is_quiet(&event->crowd)))\n        return true;",
         "    return true;"),
        ("an event is published without looking again", "src/wait/event.c",
         "bool links = !kin__load_relaxed(&event->is_set); /* relaxed: under the lock */",
         "bool links = true;"),
        ("an event is set without an order", "src/wait/event.c",
         "kin__store_release(&of(event)->is_set, 1u);",
         "kin__store_relaxed(&of(event)->is_set, 1u);"),
    ],
}
