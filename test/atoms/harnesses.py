# SPDX-License-Identifier: MIT
"""What each harness of atom mode is made of, and what it must notice.

HARNESSES: name of test/atoms/<name>.c -> the files of kin that it explores.
MUTANTS: name -> a list of (what is wrong, file, text that is there, text that takes its place). The
text must be there exactly once: when the code has changed, the mutant is looked at again.
"""

PARK = ["src/park/park.c", "src/park/thread.c", "src/sched/blocks.c", "src/task/word.c",
        "src/wait/timer.c", "src/wait/wheel.c"]

HARNESSES = {
    "litmus": [],
    "fortify": [],
    "chaselev": [],
    "park": PARK,
    "deque": ["src/sched/deque.c"],
    "bias": ["src/sched/bias.c"],
    "frame": [],  # it has src/mem/frame.c inside
    "idle": ["src/sched/idle.c", "src/sched/steal.c", "src/sched/inject.c", "src/sched/deque.c",
             "src/sched/bias.c"],
    "nursery": PARK + ["src/task/cause.c", "src/scope/nursery.c", "src/scope/spawn.c",
                       "src/scope/ended.c", "src/scope/cancel.c", "src/sched/extra.c",
                       "src/mem/arena.c"],
    "chan": PARK + ["src/wait/chan.c"],
    "select": PARK + ["src/wait/select.c", "src/wait/chan.c", "src/wait/event.c",
                      "src/wait/ender.c"],
    "queue": PARK + ["src/wait/spsc.c", "src/wait/mpsc.c", "src/wait/queue.c", "src/wait/owner.c"],
    "timer": PARK + ["src/wait/chan.c"],
    "obligation": PARK + ["src/scope/obligation.c", "src/sched/extra.c"],
    "account": PARK + ["src/scope/account.c"],
    "registry": PARK + ["src/otp/registry.c", "src/otp/intern.c", "src/otp/party.c",
                        "src/otp/note.c", "src/scope/ended.c", "src/scope/alloc.c"],
    "sync": PARK + ["src/wait/mutex.c", "src/wait/event.c", "src/wait/owner.c",
                    "src/base/text.c"],
}

# Those that stand on test/atoms/under.c and have base/atomic.h's door in front.
ALONE = {"litmus", "chaselev", "fortify"}
FORTIFIED = {"fortify"}  # compiled with -D_FORTIFY_SOURCE
WITHOUT_UNDER = ALONE | {"deque", "bias", "frame"}

WORD, LOCK, WAITQ = "src/task/word.h", "src/base/lock.h", "src/park/waitq.h"

MUTANTS = {
    "fortify": [
        ("a memcpy that nobody orders", "test/atoms/fortify.c", "&is_full, 1, memory_order_release",
         "&is_full, 1, memory_order_relaxed"),
        ("a memmove that nobody orders", "test/atoms/fortify.c",
         "&is_full, 2, memory_order_release", "&is_full, 2, memory_order_relaxed"),
        ("a memset that nobody orders", "test/atoms/fortify.c",
         "&is_full, 3, memory_order_release", "&is_full, 3, memory_order_relaxed"),
    ],
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
    "frame": [
        ("frames are shown without an order", "src/mem/frame.c",
         "kin__store_release(&pool->directory[first + i], chunk);",
         "kin__store_relaxed(&pool->directory[first + i], chunk);"),
        ("a frame is found without an order", "src/mem/frame.c",
         "kin__load_acquire(&pool->directory[index >> CHUNK_BITS]);",
         "kin__load_relaxed(&pool->directory[index >> CHUNK_BITS]);"),
        ("it is not looked at whether a frame is cut already", "src/mem/frame.c",
         "        if (kin__load_relaxed(&frame->name))\n            visit(frame, arg);",
         "            visit(frame, arg);"),
        ("the pool is locked by a store", LOCK,
         "    if (KIN__UNLIKELY(kin__xchg_acquire_quiet(&lock->word, 1u) != 0))\n"
         "        kin__lock_slow(&lock->word);",
         "    kin__store_release_quiet(&lock->word, 1u);"),
        ("the pool is left without an order", LOCK,
         "kin__store_release_quiet(&lock->word, 0u);", "kin__store_quiet(&lock->word, 0u);"),
        ("a batch is taken without the lock", "src/mem/frame.c",
         "    kin__lock_take(&pool->lock, KIN__RANK_FRAME);\n    if (pool->batch_count) {",
         "    if (pool->batch_count) {"),
        ("a frame keeps its name", "src/mem/frame.h",
         "        name += kin__load_relaxed(&kin__frame_step.add); /* relaxed: as above */\n", ""),
    ],
    "idle": [
        ("a sleeper does not look again", "src/sched/idle.c",
         "bool is_needed = kin__steal_is_visible(sched);", "bool is_needed = false;"),
        ("the searcher announces itself by a store", "src/sched/idle.c",
         "} while (!kin__cas_acq_rel(&sched->idle, &idle, idle | KIN__IDLE_SEARCHER));",
         "} while (kin__store_release(&sched->idle, idle | KIN__IDLE_SEARCHER), false);"),
        ("a sleeper is chosen by a store", "src/sched/idle.c",
         "} while (!kin__cas_acq_rel(&sched->idle, &idle,\n                               "
         "(idle - count_of(worker)) | KIN__IDLE_SEARCHER));",
         "} while (kin__store_release(&sched->idle,\n                                "
         "(idle - count_of(worker)) | KIN__IDLE_SEARCHER), false);"),
        ("whoever brings work does not fence", "src/sched/idle.c",
         "kin__fence_seq(); /* fence: the work before the count; its mirror is in sleep_listed */",
         ""),
        ("a sleeper does not fence", "src/sched/idle.c",
         "kin__fence_seq(); /* fence: the count before the queues; its mirror is in "
         "kin__idle_wake_one */", ""),
        ("who gets up by itself stays counted", "src/sched/idle.c",
         "        (void)kin__sub_acq_rel(&sched->idle, count_of(worker));", "        (void)0;"),
        ("a worker is woken without being told", "src/sched/idle.c",
         "    else\n        kin__futex_wake(&worker->wake, 1);", ""),
        ("who sleeps outside does not pass on what it knows", "src/sched/idle.c",
         "kin__store_release(&worker->is_outside, 1u);",
         "kin__store_relaxed(&worker->is_outside, 1u);"),
        ("a waker rings where it has heard of nothing", "src/sched/idle.c",
         "if (kin__load_acquire(&worker->is_outside))",
         "if (kin__load_relaxed(&worker->is_outside))"),
        ("who sleeps outside does not fence", "src/sched/idle.c",
         "kin__fence_seq(); /* fence: is_outside before wake; its mirror is in "
         "kin__idle_wake_worker */", ""),
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
        ("a claim is a store", WORD,
         "} else if (kin__cas_acquire(&task->ctl, &word, word | KIN__CLAIMED)) {",
         "} else if (kin__store_release(&task->ctl, word | KIN__CLAIMED), true) {"),
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
        ("a lock is given without an order", LOCK,
         "kin__store_release_quiet(&lock->word, 0u);", "kin__store_quiet(&lock->word, 0u);"),
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
        ("an end leaves the name as it was", "src/scope/obligation.c",
         "kin__store_relaxed(&o->frame.name, name + (UINT64_C(1) << KIN__FRAME_INDEX_BITS));",
         "(void)name;"),
        ("the name is bumped when the lock is given", "src/scope/obligation.c",
         "    end_locked(o);\n    kin__lock_give(&owner->lock, KIN__RANK_WAIT);\n"
         "    give_back",
         "    kin__list_remove(&o->link);\n    kin__lock_give(&owner->lock, KIN__RANK_WAIT);\n"
         "    kin__store_relaxed(&o->frame.name, kin__load_relaxed(&o->frame.name) +\n"
         "                       (UINT64_C(1) << KIN__FRAME_INDEX_BITS));\n    give_back"),
        ("an heir takes what has ended meanwhile", "src/scope/obligation.c",
         "    if (is_ours)\n        kin__list_push_back",
         "        kin__list_push_back"),
        ("a lock is taken by a store", LOCK,
         "    if (KIN__UNLIKELY(kin__xchg_acquire_quiet(&lock->word, 1u) != 0))\n"
         "        kin__lock_slow(&lock->word);",
         "    kin__store_release_quiet(&lock->word, 1u);"),
    ],
    "account": [
        ("an account is settled before its payer is locked", "src/scope/account.c",
         "    if (payer) /* a block that is freed meanwhile returns before, or after: "
         "further up */\n"
         "        kin__lock_take(&payer->lock, KIN__RANK_TASK);\n"
         "    lock(account);\n    leave_locked(account, &given, &returned);\n"
         "    unlock(account);\n",
         "    lock(account);\n    leave_locked(account, &given, &returned);\n"
         "    unlock(account);\n"
         "    if (payer)\n        kin__lock_take(&payer->lock, KIN__RANK_TASK);\n"),
        ("it is looked before the lock whether an account is settled", "src/scope/account.c",
         "        kin__lock_take(&payer->lock, KIN__RANK_TASK);\n"
         "        struct kin__account *account = payer->account;\n",
         "        struct kin__account *account = payer->account;\n"
         "        kin__lock_take(&payer->lock, KIN__RANK_TASK);\n"),
        ("a block is freed into the account when the lock is given", "src/scope/account.c",
         "        if (account)\n"
         "            kin__account_unuse(account, KIN__PART_MEMORY, amount, &nobody);\n"
         "        else if (amount > payer->owed)\n"
         "            amount = payer->owed; /* the rest was made, and ended with the account */\n"
         "        if (!account)\n            payer->owed -= amount;\n"
         "        kin__lock_give(&payer->lock, KIN__RANK_TASK);\n",
         "        if (!account && amount > payer->owed)\n            amount = payer->owed;\n"
         "        if (!account)\n            payer->owed -= amount;\n"
         "        kin__lock_give(&payer->lock, KIN__RANK_TASK);\n"
         "        if (account)\n"
         "            kin__account_unuse(account, KIN__PART_MEMORY, amount, &nobody);\n"),
        ("what is owed stays owed", "src/scope/account.c",
         "            payer->owed -= amount;\n", "            (void)0;\n"),
        ("a settled account owes all that it was given", "src/scope/account.c",
         "payer->owed = given.of[KIN__PART_MEMORY] - returned.of[KIN__PART_MEMORY];",
         "payer->owed = given.of[KIN__PART_MEMORY];"),
        ("a settled account goes on paying", "src/scope/account.c",
         "        payer->account = NULL;\n", ""),
        ("nobody holds the payer above", "src/scope/account.c",
         "    if (up)\n        kin__payer_hold(up);\n", ""),
        ("two payers of one account", "src/scope/account.c",
         "    if (kin__cas_acq_rel(&account->payer, &there, payer))\n        return payer;\n",
         "    (void)there;\n    kin__store_release(&account->payer, payer);\n"
         "    if (payer)\n        return payer;\n"),
        ("references are counted without a lock", "src/scope/account.c",
         "        kin__lock_take(&payer->lock, KIN__RANK_TASK);\n"
         "        bool is_last = --payer->refs == 0;\n"
         "        kin__lock_give(&payer->lock, KIN__RANK_TASK);\n",
         "        bool is_last = --payer->refs == 0;\n"),
    ],
    "registry": [
        ("a name that is taken is taken again", "src/otp/registry.c",
         "    if (taken) { /* [REG-COLLISION] */", "    if (false) {"),
        ("who is over is given a name", "src/otp/party.c",
         "if (KIN__LIKELY(kin__party_task(party) == task && !party->is_over))",
         "if (KIN__LIKELY(kin__party_task(party) == task))"),
        ("what has left the shard is taken out again", "src/otp/registry.c",
         "        if (!lease->is_out)\n            take_out_locked(shard, lease);",
         "            take_out_locked(shard, lease);"),
        ("whoever gives up frees what the end of the holder has", "src/otp/registry.c",
         "    if (!party)\n        return 0; /* its holder is over, and kin__names_end has it */\n"
         "    kin__list_remove(&lease->link);\n    kin__party_unlock(party);\n",
         "    if (party) {\n        kin__list_remove(&lease->link);\n"
         "        kin__party_unlock(party);\n    }\n"),
        ("a lease ends and keeps its name", "src/otp/registry.c",
         "kin__store_relaxed(&lease->frame.name, name + (UINT64_C(1) << KIN__FRAME_INDEX_BITS));",
         "(void)name;"),
        ("it is not looked at again whether a lease has ended", "src/otp/registry.c",
         "    bool ends = is_same_locked(lease, name);", "    bool ends = true;"),
        ("a late timer does not look at the name", "src/otp/registry.c",
         "is_same_locked(lease, name) && is_due(lease) ? lease->holder : 0;",
         "is_due(lease) ? lease->holder : 0;"),
        ("a timer does not look at the time", "src/otp/registry.c",
         "is_same_locked(lease, name) && is_due(lease) ? lease->holder : 0;",
         "is_same_locked(lease, name) ? lease->holder : 0;"),
        ("what has run out is renewed while it ends", "src/otp/registry.c",
         "    if (lease && !is_due(lease))\n        return lease;\n",
         "    if (lease)\n        return lease;\n"),
        ("a renewal leaves the old time", "src/otp/registry.c",
         "    lease->deadline = deadline;\n    if (deadline", "    if (deadline"),
        ("a given up lease stays in the wheel", "src/otp/registry.c",
         "    lease->is_out = true;\n    kin__timer_disarm(&lease->timer);\n",
         "    lease->is_out = true;\n"),
        ("a registry is found without an order", "src/otp/registry.c",
         "return kin__load_acquire(&sched->names); /* pairs with the release in need_registry */",
         "return kin__load_relaxed(&sched->names);"),
        ("a lock is given without an order", LOCK,
         "kin__store_release_quiet(&lock->word, 0u);", "kin__store_quiet(&lock->word, 0u);"),
    ],
    "sync": [
        ("a mutex is taken without an order", "src/wait/mutex.c",
         "return kin__cas_acquire(&mutex->word, found, me);",
         "return kin__cas_relaxed(&mutex->word, found, me);"),
        ("a mutex is given without an order", "src/wait/mutex.c",
         "return kin__sub_release(&mutex->word, me) == me;",
         "return kin__sub_relaxed(&mutex->word, me) == me;"),
        ("a mutex is given by a store", "src/wait/mutex.c",
         "return kin__sub_release(&mutex->word, me) == me;",
         "return (kin__store_release(&mutex->word, 0), true);"),
        ("the last one in line leaves by a store", "src/wait/mutex.c",
         "(void)kin__cas_relaxed(&mutex->word, &word, word & KIN__OWNER_MASK);",
         "kin__store_relaxed(&mutex->word, word & KIN__OWNER_MASK);"),
        ("who leaves frees a mutex that is being unlocked", "src/wait/mutex.c",
         "if (kin__waitq_is_empty(&mutex->crowd.queue) && (word & KIN__OWNER_MASK)) {",
         "if (kin__waitq_is_empty(&mutex->crowd.queue)) {"),
        ("an unlock frees a mutex under the lock", "src/wait/mutex.c",
         "            kin__store_relaxed(&mutex->word, me); /* relaxed: the owner's; give orders"
         " the rest */\n        }\n        kin__crowd_give(&mutex->crowd);\n"
         "    } while (!wakes.count && !give(mutex, me));",
         "            kin__store_release(&mutex->word, 0);\n        }\n"
         "        kin__crowd_give(&mutex->crowd);\n    } while (false);"),
        ("somebody gets in line by a store", "src/wait/mutex.c",
         "links = (word & WAITED) || kin__cas_relaxed(&mutex->word, &word, word | WAITED);",
         "links = (kin__store_relaxed(&mutex->word, word | WAITED), true);"),
        ("who gets in line does not look whether the owner has ended", "src/wait/mutex.c",
         "if (owner && (owner == me || kin__owner_is_over(owner)))", "if (owner == me)"),
        ("the end of an owner makes nobody look again", "src/wait/owner.c",
         "    kin__frame_each(look_again, NULL);", ""),
        ("an owner ends without a fence behind the note", "src/wait/owner.c",
         "    kin__fence_seq();\n    kin__text_init", "    kin__text_init"),
        ("who begins to wait reads the notes without a fence", "src/wait/owner.c",
         "    kin__fence_after_rmw();\n", ""),
        ("an owner is noted when those who wait have been looked for", "src/wait/owner.c",
         "    note(kin__owner_of(task));\n", "    kin__frame_each(look_again, NULL);\n"
         "    note(kin__owner_of(task));\n    return;\n"),
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
