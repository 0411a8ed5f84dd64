/* SPDX-License-Identifier: MIT */
/*
 * kin_run: from main() into the first task and back.
 */
#include "scope/belongings.h"
#include "scope/budget.h"
#include "scope/overflow.h"
#include "scope/scope.h"
#include "task/word.h"
#include "wait/offload.h"
#include "wait/poll.h"
#include "wait/resolve.h"
#include "wait/signal.h"
#include "wait/timer.h"

#include <errno.h>
#include <string.h>

/* Makes the root nursery and the first task in it. */
static int make_first(struct kin__sched *sched, struct kin__handle *root, kin_task_fn *fn,
                      void *arg, const void *site, struct kin__task **out)
{
    int rc = kin__scope_open(root, sched, NULL, NULL);
    if (rc < 0)
        return rc;
    struct kin__task *task = kin__task_make(sched, fn, arg, site);
    if (!task) {
        kin__block_give(KIN__FRAME_SCOPE, &root->scope->frame);
        return -ENOMEM;
    }
    task->name = "main";
    task->flags |= KIN__TASK_NAMED;
    rc = kin__budget_root(root->scope, task);
    if (rc < 0) {
        kin__task_unmake(task);
        kin__block_give(KIN__FRAME_SCOPE, &root->scope->frame);
        return rc;
    }
    kin__store_relaxed(&task->scope, root->scope); /* alone: nothing runs yet */
    root->scope->worst = (struct kin__failure){0, 0, KIN_SEV_OK}; /* the result, if it is 0 */
    task->sibling.next = NULL; /* a recycled frame still has the links of its last life */
    kin__list_link(&task->sibling, &root->scope->children, root->scope->children.next);
    /* alone: nothing runs yet. No body joins the root: its only child is what it waits for. */
    kin__store_relaxed(&root->scope->word, KIN__LIVE_ONE | KIN_NURSERY_CLOSING);
    sched->root = root->scope;
    *out = task;
    return 0;
}

/* The root is over: what is left of its pool, and its block, go back. */
static void close_root(struct kin__scope *root)
{
    struct kin__wakes nobody = {0};
    kin__budget_close(root, &nobody);
    kin__words_free(root->words);
    root->words = NULL;
    kin__block_give(KIN__FRAME_SCOPE, &root->frame);
}

/* What the first task said when it failed has come to its end here: nobody asks for the outcome of
 * that task. Panics and failed cleanups were reported when they happened. */
static void report_words(const struct kin__scope *root)
{
    const char *said = kin__words_find(root->words, root->worst.task);
    if (*said && root->worst.severity == KIN_SEV_ERROR && root->worst.status != KIN_CLEANUP)
        kin__report(kin__scope_sched(root), root->worst.status, root->worst.task, said);
}

/* The core profile: no scheduler, no task [SCHED:10.2.1]. */
static int run_core(const struct kin_config *config, kin_task_fn *fn, void *arg)
{
    int rc = kin__config_check(config);
    if (rc < 0)
        return rc;
    kin__thread_set_core(true);
    rc = fn(arg);
    kin__thread_set_core(false);
    return rc;
}

int kin_run(const struct kin_config *config, kin_task_fn *fn, void *arg)
{
    struct kin__sched *sched;
    struct kin__handle root;
    struct kin__task *first;
    if (!fn)
        return -EINVAL;
    if (kin__worker_self() || kin__thread_is_core())
        return -EBUSY;
    if (config && config->size == sizeof(*config) && config->profile == KIN_CORE)
        return run_core(config, fn, arg);
    if (!kin__context_supported())
        return KIN_UNSUPPORTED;
    kin__fail_init();
    kin__frame_scramble();
    kin__store_relaxed(&kin__ender_ops, &kin__task_waitable); /* relaxed: a constant */
    int rc = kin__sched_create(config, &kin__scope_owner_ops, &kin__timer_source, &sched);
    if (rc < 0)
        return rc;
    rc = kin__poll_start(sched);
    if (rc < 0)
        goto fail_sched;
    rc = kin__overflow_init();
    if (rc < 0)
        goto fail_sched;
    rc = make_first(sched, &root, fn, arg, __builtin_return_address(0), &first);
    if (rc < 0)
        goto fail_overflow;
    struct kin__scope *scope = root.scope;
    kin__offload_enter();
    rc = kin__sched_run(sched, first);
    if (kin__offload_leave())
        kin__resolve_forget();
    kin__signal_leave(sched);
    /* pairs with the release that filled it in */
    const struct kin__party_ops *parties = kin__load_acquire_quiet(&kin__party_ops);
    if (parties)
        parties->close(sched);
    if (rc < 0) {
        kin__budget_settle(first);
        kin__store_relaxed(&first->scope, NULL); /* relaxed: for dumps, as when a task is over */
        kin__task_unmake(first);                 /* no thread was started, nothing ran */
    } else {
        rc = scope->worst.status;
        report_words(scope);
    }
    close_root(scope);
fail_overflow:
    kin__overflow_fini();
fail_sched:
    kin__sched_destroy(sched);
    return rc;
}
