/* SPDX-License-Identifier: MIT */
/*
 * Goal: ends are counted as combinators promise, branches that cannot be started count as failures,
 * and a call gives back every frame it used.
 * Method: white box: every sequence of four ends against a model; memory that runs out at each
 * request in turn, and in the middle of thousands of branches.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "scope/scope.h"

#include <kin/combine.h>

#include <sys/wait.h>
#include <unistd.h>

/* ---- counting ---- */

enum { ENDS = 4, OUTSIDE = 4, LETTERS = 5 }; /* severities, and a cancel from outside */

struct model {
    size_t ends, fails;
    bool is_decided, is_cancelled;
    uint64_t first, winner, loser;
};

static void model_step(struct model *model, int letter, uint64_t task, const struct kin__count *of)
{
    if (letter == OUTSIDE) {
        model->is_cancelled = true;
        return;
    }
    model->first = model->first ? model->first : task;
    if (model->is_decided || model->is_cancelled)
        return;
    if (letter == KIN_SEV_OK || of->counts_all) {
        model->winner = model->winner ? model->winner : task;
        model->ends++;
    } else {
        model->loser = model->loser ? model->loser : task;
        model->fails++;
    }
    model->is_decided = model->ends >= of->need || model->fails > of->may_fail;
    model->is_cancelled = model->is_decided;
}

static void expect_same(const struct kin__count *count, const struct kin__scope *scope,
                        const struct model *model)
{
    EXPECT_EQ(count->ends, model->ends);
    EXPECT_EQ(count->fails, model->fails);
    EXPECT_EQ(count->is_decided, model->is_decided);
    EXPECT_EQ(count->first, model->first);
    EXPECT_EQ(count->winner, model->winner);
    EXPECT_EQ(count->loser, model->loser);
    /* relaxed: nobody else has the nursery */
    EXPECT_EQ(kin__scope_is_cancelled(kin__load_relaxed(&scope->word)), model->is_cancelled);
}

/* Counts one sequence of ends in a nursery of its own. */
static void count_sequence(struct kin__count count, int sequence)
{
    struct model model = {0};
    struct kin_nursery n;

    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    struct kin__scope *scope = kin__load_relaxed(&kin__handle_of(&n)->scope); /* relaxed: our own */
    scope->count = &count;
    for (uint64_t task = 1; task <= ENDS; task++, sequence /= LETTERS) {
        int letter = sequence % LETTERS;
        struct kin_outcome how = {(enum kin_severity)letter, -letter, 0, task, ""};
        struct kin__scope *list = NULL;
        model_step(&model, letter, task, &count);
        kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
        if (letter == OUTSIDE)
            (void)kin__cancel_begin_locked(scope, -EPIPE, &list);
        else
            kin__count_locked(scope, &how, &list);
        kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
        kin__cancel_walk(list);
        expect_same(&count, scope, &model);
    }
    kin_ignore(kin_nursery_join(&n, NULL));
}

static int count_sequences(void *arg)
{
    int sequences = 1;

    (void)arg;
    for (int i = 0; i < ENDS; i++)
        sequences *= LETTERS;
    for (int sequence = 0; sequence < sequences; sequence++) {
        for (size_t need = 1; need <= ENDS; need++)
            count_sequence((struct kin__count){.need = need, .may_fail = ENDS - need}, sequence);
        count_sequence((struct kin__count){.need = 1, .may_fail = 3, .counts_all = true}, sequence);
    }
    return 0;
}

KIN_TEST(every_sequence_of_four_ends_is_counted_as_the_model_says, "D1")
{
    EXPECT_EQ(run_reporting(1, count_sequences, NULL, NULL), 0);
}

/* ---- an outcome is for good ---- */

static int claim_to_be_cancelled(void *arg)
{
    (void)arg;
    return KIN_CANCELLED;
}

static int cancel_after_the_end(void *arg)
{
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;
    struct kin_task_ref ref;
    struct kin_outcome how;

    (void)arg;
    options.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&n, &options), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, claim_to_be_cancelled, NULL, 0, &ref), 0);
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    kin_ignore(kin_task_cancel(ref));
    EXPECT_EQ(kin_task_join(&n, ref, &how, KIN_NEVER), 0);
    EXPECT_EQ(how.severity, KIN_SEV_ERROR);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_cancel_after_the_end_changes_no_outcome, "B5")
{
    run_on_few(cancel_after_the_end, NULL);
}

/* ---- who spawned a branch ---- */

static int note_site(void *arg)
{
    *(const void **)arg = kin__task_self()->site;
    return 0;
}

/* Every call stands in one function, and nothing but calls of kin's. */
static __attribute__((noinline)) int call_each(void *arg)
{
    const void *site = NULL;
    struct kin_branch b = {note_site, &site, {KIN_SEV_OK, 0, 0, 0, ""}};

    (void)arg;
    for (int i = 0; i < 6; i++) {
        site = NULL;
        int rc = i == 0   ? kin_race(&b, 1, NULL)
                 : i == 1 ? kin_any(&b, 1, NULL)
                 : i == 2 ? kin_all(&b, 1)
                 : i == 3 ? kin_quorum(&b, 1, 1)
                 : i == 4 ? kin_timeout(&b, KIN_NEVER)
                          : kin_hedge(&b, 1, KIN_SEC(1), NULL);
        EXPECT_EQ(rc, 0);
        EXPECT_GT((uintptr_t)site, (uintptr_t)call_each);
        EXPECT_LT((uintptr_t)site, (uintptr_t)call_each + 8192);
    }
    return 0;
}

KIN_TEST(the_site_of_a_branch_is_the_call, "")
{
    EXPECT_EQ(run_reporting(2, call_each, NULL, NULL), 0);
}

/* ---- nothing stays behind ---- */

static int call_over_and_over(void *arg)
{
    enum { ROUNDS = 2000, BRANCHES = 5 };
    int zero = 0;
    struct kin_branch b[BRANCHES];
    size_t bytes = 0;

    (void)arg;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BRANCHES; i++) {
            b[i].fn = i % 2 ? return_it : sleep_for_ever;
            b[i].arg = i % 2 ? &zero : NULL;
        }
        EXPECT_EQ(kin_race(b, BRANCHES, NULL), 0);
        EXPECT_EQ(kin_quorum(b, BRANCHES, 2), 0);
        EXPECT_EQ(kin_hedge(b + 1, 2, KIN_SEC(1), NULL), 0);
        if (round == 10)
            bytes = kin__frame_bytes();
    }
    EXPECT_EQ(kin__frame_bytes(), bytes); /* 20,000 branches that stayed would need chunks */
    return 0;
}

KIN_TEST(every_frame_is_given_back, "")
{
    run_on_few(call_over_and_over, NULL);
}

/* ---- branches that cannot be started ---- */

enum { CROWD = 6000 }; /* more than one chunk of frames has */

static bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN;
}

/* Calls with a crowd of which not all can be started. */
static int call_a_crowd(void *arg)
{
    struct kin_branch *b = arg;
    size_t refused = 0, winner = CROWD;

    kin__plat_fail_after(1, true); /* what the caches and the first chunk hold is all there is */
    int rc = kin_race(b, CROWD, &winner);
    EXPECT_EQ(rc, -ENOMEM); /* the first end, and a failure */
    EXPECT_LT(winner, CROWD);
    EXPECT_EQ(b[winner].out.severity, KIN_SEV_ERROR);
    EXPECT_EQ(b[winner].out.status, -ENOMEM);
    EXPECT_EQ(kin_all(b, CROWD), -ENOMEM);
    for (size_t i = 0; i < CROWD; i++) {
        EXPECT_NE(b[i].out.severity, KIN_SEV_OK);
        EXPECT_NE(b[i].out.status, 1);
        refused += b[i].out.task == 0 && b[i].out.severity == KIN_SEV_ERROR;
    }
    EXPECT_GE(refused, 1);
    int zero = 0, error = -EIO;
    for (size_t i = 0; i < CROWD; i++) /* of no stack of their own */
        b[i] = (struct kin_branch){return_it, i == CROWD - 1 ? &zero : &error, {0}};
    EXPECT_EQ(kin_any(b, CROWD, &winner), 0); /* the one that succeeds is the first to be started */
    EXPECT_EQ(winner, CROWD - 1);
    EXPECT_EQ(b[0].out.status, -ENOMEM); /* too late for this one */
    b[CROWD - 1].arg = &error;
    EXPECT_EQ(kin_any(b, CROWD, &winner), -ENOMEM);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_any(b, CROWD, &winner), -EIO); /* as if nothing had been */
    return 0;
}

KIN_TEST(branches_without_memory_have_failed, "")
{
    struct kin_branch *b = malloc(CROWD * sizeof *b);

    EXPECT(b != NULL);
    for (size_t i = 0; i < CROWD; i++)
        b[i] = (struct kin_branch){sleep_for_ever, NULL, {KIN_SEV_PANIC, 1, 2, 3, ""}};
    EXPECT_EQ(run_reporting(1, call_a_crowd, b, NULL), 0);
    free(b);
}

/* ---- the n-th request fails, for every n ---- */

static int nap(void *arg)
{
    (void)arg;
    int rc = kin_sleep(kin_after(KIN_US(50)));
    EXPECT(rc == 0 || rc == KIN_CANCELLED || is_shortage(rc));
    return rc;
}

static void check_all(const struct kin_branch *b, size_t count, int rc)
{
    bool is_of_one = false, has_begun = false;

    for (size_t i = 0; i < count; i++) {
        is_of_one = is_of_one || b[i].out.status == rc;
        has_begun = has_begun || b[i].out.task != 0;
        if (b[i].out.severity == KIN_SEV_ERROR)
            EXPECT(is_shortage(b[i].out.status));
    }
    EXPECT(rc == 0 || is_shortage(rc));
    EXPECT(rc == 0 || is_of_one || !has_begun); /* the last: the nursery could not be opened */
}

static int call_each_once(void *arg)
{
    enum { COUNT = 40 };
    struct kin_branch b[COUNT];

    (void)arg;
    for (int kind = 0; kind < 6; kind++) {
        for (size_t i = 0; i < COUNT; i++)
            b[i] = (struct kin_branch){nap, NULL, {KIN_SEV_PANIC, 1, 2, 3, ""}};
        int rc = kind == 0   ? kin_race(b, COUNT, NULL)
                 : kind == 1 ? kin_any(b, COUNT, NULL)
                 : kind == 2 ? kin_all(b, COUNT)
                 : kind == 3 ? kin_quorum(b, COUNT, COUNT / 2)
                 : kind == 4 ? kin_timeout(b, kin_after(KIN_SEC(600)))
                             : kin_hedge(b, COUNT, KIN_US(10), NULL);
        check_all(b, kind == 4 ? 1 : COUNT, rc);
    }
    return 0;
}

static int run_each_once(void)
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = 2;
    return kin_run(&config, call_each_once, NULL);
}

/* In a process of its own: with the n-th request failing, then without. The requests of the first
 * run; 0 when a process failed. */
static uint64_t run_short_of(uint64_t n, bool forever)
{
    int ends[2], status = -1;
    uint64_t requests = 0;

    EXPECT_EQ(pipe(ends), 0);
    pid_t process = fork();
    EXPECT_GE(process, 0);
    if (process == 0) {
        alarm(KIN_TEST_S / 2 * kin_test_scale());
        kin__plat_fail_after(n, forever);
        int rc = run_each_once();
        requests = kin__plat_requests();
        kin__plat_fail_after(0, false);
        EXPECT(rc == 0 || is_shortage(rc));
        EXPECT_EQ(run_each_once(), 0);
        EXPECT_EQ(write(ends[1], &requests, sizeof requests), (ssize_t)sizeof requests);
        exit(0);
    }
    close(ends[1]);
    EXPECT_EQ(read(ends[0], &requests, sizeof requests), (ssize_t)sizeof requests);
    close(ends[0]);
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
    return requests;
}

KIN_TEST_LIMIT(a_failing_request_costs_an_error_and_nothing_else, "", 120)
{
    uint64_t requests = run_short_of(0, false);

    EXPECT_GT(requests, 5);
    for (uint64_t n = 1; n <= requests; n++) {
        printf("request %llu of %llu\n", (unsigned long long)n, (unsigned long long)requests);
        fflush(stdout);
        (void)run_short_of(n, false);
        (void)run_short_of(n, true);
    }
}
