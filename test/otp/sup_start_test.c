/* SPDX-License-Identifier: MIT */
/*
 * Goal: a supervisor starts its children in order, or none of them stays; what it is given is
 * checked and copied; it ends as it is said to.
 * Method: black box on 1, 2 and 4 workers, with children that write a diary; memory that runs out
 * at each request in turn.
 */
#include "otp/kids.h"

#include "plat/plat.h"

/* ---- starting ---- */

/* K077, K120 */
static int start_order(void *arg)
{
    static struct house house;
    static const char *const on_c[] = {"c", NULL};
    static const char *const on_d_b[] = {"d", "b", NULL};
    struct kin_child_counts counts;
    (void)arg;

    furnish(&house, 4, KIN_TRANSIENT);
    house.specs[0].depends_on = on_d_b;
    house.specs[1].depends_on = on_c;
    move_in(&house, 4);
    EXPECT_DIARY(&house.diary, "+c +b +d +a");
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    EXPECT_EQ(counts.specs, 4);
    EXPECT_EQ(counts.active, 4);
    EXPECT_EQ(counts.restarting, 0);
    EXPECT_EQ(counts.stopped, 0);
    EXPECT_EQ(kin_server_state(house.sup), KIN_SERVER_RUNNING);
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_DIARY(&house.diary, "+c +b +d +a -a -d -b -c");
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_server_state(house.sup), KIN_SERVER_STOPPED);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(children_start_after_what_they_depend_on_and_stop_in_reverse, "SUP-CANCEL-CHILD")
{
    run_on_few(start_order, NULL);
}

/* K070 */
static int empty_one(void *arg)
{
    static struct house house;
    (void)arg;

    furnish(&house, 0, KIN_TRANSIENT);
    move_in(&house, 0);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, NULL, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    move_in(&house, 0);
    EXPECT_EQ(kin_server_stop(house.sup, -EPROTO, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), -EPROTO);
    return 0;
}

KIN_TEST(a_supervisor_needs_no_children_and_ends_with_the_reason_of_its_stop, "")
{
    run_on_few(empty_one, NULL);
}

/* D9: what was started is stopped in reverse, and the start names the child. */
static int failing_start(void *arg)
{
    static struct house house;
    struct kin_addr sup = {7, 7};
    const char *failed = "nobody";
    (void)arg;

    furnish(&house, 4, KIN_PERMANENT);
    house.options.failed_child = &failed;
    atomic_store(&house.kids[2].start_status, -ENODEV);
    EXPECT_EQ(kin_nursery_open(&house.n, NULL), 0);
    EXPECT_EQ(kin_supervisor_start(&house.n, &house.options, house.specs, 4, &sup), -ENODEV);
    EXPECT_DIARY(&house.diary, "+a +b +c -b -a");
    EXPECT_PTR(failed, house.kids[2].name); /* the caller's own string */
    EXPECT_EQ(sup.id, 7);
    EXPECT_EQ(kin_nursery_state(&house.n), KIN_NURSERY_OPEN);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0); /* nobody's failure but the starter's */
    return 0;
}

KIN_TEST(a_child_that_does_not_start_undoes_the_start_in_reverse_and_is_named, "")
{
    run_on_few(failing_start, NULL);
}

static int panicking_start(void *arg)
{
    static struct house house;
    const char *failed = NULL;
    (void)arg;

    furnish(&house, 2, KIN_PERMANENT);
    house.options.failed_child = &failed;
    atomic_store(&house.kids[1].start_panics, 1);
    EXPECT_EQ(kin_nursery_open(&house.n, NULL), 0);
    EXPECT_EQ(kin_supervisor_start(&house.n, &house.options, house.specs, 2, &house.sup),
              KIN_PANICKED);
    EXPECT_DIARY(&house.diary, "+a +b -a");
    EXPECT_STR(failed, "b");
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(a_start_function_that_panics_fails_the_start_and_nothing_else, "")
{
    run_on_few(panicking_start, NULL);
}

static int bad_result(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n, (void)out;
    return *(const int *)arg;
}

static int bad_starts(void *arg)
{
    static struct house house;
    int results[] = {0, 1, 77};
    (void)arg;

    EXPECT_EQ(kin_nursery_open(&house.n, NULL), 0);
    for (int i = 0; i < 3; i++) {
        struct kin_child_spec spec = {.name = "x", .start = bad_result, .arg = &results[i]};
        EXPECT_EQ(kin_supervisor_start(&house.n, NULL, &spec, 1, &house.sup), -EBADMSG);
    }
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(a_start_that_answers_neither_an_address_nor_an_error_is_a_bad_one, "")
{
    run_on_few(bad_starts, NULL);
}

/* K072 */
static int declining(void *arg)
{
    static struct house house;
    struct kin_child_counts counts;
    struct kin_child_info infos[4];
    (void)arg;

    furnish(&house, 3, KIN_PERMANENT);
    house.specs[2].restart = KIN_TEMPORARY;
    atomic_store(&house.kids[0].start_status, KIN_IGNORE);
    atomic_store(&house.kids[2].start_status, KIN_IGNORE);
    move_in(&house, 3);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    EXPECT_EQ(counts.specs, 2); /* a temporary one that declines is gone */
    EXPECT_EQ(counts.active, 1);
    EXPECT_EQ(counts.stopped, 1);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, infos, 4, KIN_NEVER), 2);
    EXPECT_STR(infos[0].name, "a");
    EXPECT_EQ(infos[0].state, KIN_CHILD_STOPPED);
    EXPECT_EQ(infos[1].state, KIN_CHILD_RUNNING);
    move_out(&house);
    return 0;
}

KIN_TEST(a_child_that_declines_is_kept_and_no_failure, "")
{
    run_on_few(declining, NULL);
}

/* ---- what is wrong ---- */

/* K078, K089, K090, K129 */
static int refusals(void *arg)
{
    static struct house house;
    struct kin_addr out = {9, 9};
    struct kin_child_spec good = {.name = "a", .start = kid_start}, spec;
    struct kin_supervisor_options options;
    static const char *const on_b[] = {"b", NULL};
    static const char *const on_a[] = {"a", NULL};
    (void)arg;

#define REFUSED_SPEC(...)                                                                          \
    do {                                                                                           \
        spec = good;                                                                               \
        __VA_ARGS__;                                                                               \
        EXPECT_EQ(kin_supervisor_start(&house.n, NULL, &spec, 1, &out), -EINVAL);                  \
    } while (0)
#define REFUSED_OPTIONS(...)                                                                       \
    do {                                                                                           \
        options = (struct kin_supervisor_options)KIN_SUPERVISOR_OPTIONS_INIT;                      \
        __VA_ARGS__;                                                                               \
        EXPECT_EQ(kin_supervisor_start(&house.n, &options, &good, 1, &out), -EINVAL);              \
    } while (0)

    EXPECT_EQ(kin_nursery_open(&house.n, NULL), 0);
    EXPECT_EQ(kin_supervisor_start(NULL, NULL, NULL, 0, &out), -EINVAL);
    EXPECT_EQ(kin_supervisor_start(&house.n, NULL, NULL, 1, &out), -EINVAL);
    EXPECT_EQ(kin_supervisor_start(&house.n, NULL, NULL, 0, NULL), -EINVAL);
    REFUSED_SPEC(spec.name = NULL);
    REFUSED_SPEC(spec.name = "");
    REFUSED_SPEC(spec.start = NULL);
    REFUSED_SPEC(spec.arg_size = 1);
    REFUSED_SPEC(spec.restart = (enum kin_restart)4);
    REFUSED_SPEC(spec.shutdown = -2);
    REFUSED_SPEC(spec.significant = true); /* nobody shuts down for it */
    REFUSED_SPEC(spec.backoff.first = -1);
    REFUSED_SPEC(spec.backoff.jitter_pct = 101);
    REFUSED_SPEC(spec.depends_on = on_b);
    REFUSED_SPEC(spec.depends_on = on_a);
    REFUSED_OPTIONS(options.size--);
    REFUSED_OPTIONS(options.strategy = (enum kin_strategy)4);
    REFUSED_OPTIONS(options.escalation = (enum kin_escalation)3);
    REFUSED_OPTIONS(options.auto_shutdown = (enum kin_auto_shutdown)3);
    REFUSED_OPTIONS(options.on_child_stopped = (enum kin_child_stopped)3);
    REFUSED_OPTIONS(options.window = -1);
    REFUSED_OPTIONS(options.reset_backoff.max = -1);
    REFUSED_OPTIONS(options.name = "");
    options = (struct kin_supervisor_options)KIN_SUPERVISOR_OPTIONS_INIT;
    options.auto_shutdown = KIN_AUTO_SHUTDOWN_ANY;
    spec = good;
    spec.significant = true;
    spec.restart = KIN_PERMANENT; /* it never ends for good */
    EXPECT_EQ(kin_supervisor_start(&house.n, &options, &spec, 1, &out), -EINVAL);
    struct kin_child_spec two[] = {good, good};
    EXPECT_EQ(kin_supervisor_start(&house.n, NULL, two, 2, &out), -EINVAL);
    two[1].name = "b";
    two[0].depends_on = on_b;
    two[1].depends_on = on_a;
    EXPECT_EQ(kin_supervisor_start(&house.n, NULL, two, 2, &out), -EINVAL);
    options.auto_shutdown = KIN_AUTO_SHUTDOWN_NEVER;
    options.max_children = 1;
    two[0].depends_on = two[1].depends_on = NULL;
    EXPECT_EQ(kin_supervisor_start(&house.n, &options, two, 2, &out), KIN_FULL);
    options.strategy = KIN_TEMPLATE;
    EXPECT_EQ(kin_supervisor_start(&house.n, &options, two, 2, &out), -EINVAL);
    EXPECT_EQ(out.id, 9);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(what_makes_no_sense_is_refused_before_there_is_a_task, "")
{
    run_on_few(refusals, NULL);
}

KIN_TEST(outside_of_a_task_there_is_no_supervisor, "")
{
    struct kin_nursery n = {{0}};
    struct kin_addr out, sup = {0, 1};
    struct kin_child_counts counts;
    struct kin_child_spec spec = {.name = "a", .start = kid_start};

    EXPECT_EQ(kin_supervisor_start(&n, NULL, NULL, 0, &out), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_start_child(sup, &spec, &out, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_terminate_child(sup, "a", KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_terminate_addr(sup, sup, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_restart_child(sup, "a", &out, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_delete_child(sup, "a", KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_which_children(sup, NULL, 0, KIN_NEVER), KIN_NOTASK);
    EXPECT_EQ(kin_supervisor_count_children(sup, &counts, KIN_NEVER), KIN_NOTASK);
}

/* ---- copies ---- */

static _Atomic int copied_sum;

static int stay(void *arg)
{
    (void)arg;
    return kin_sleep(KIN_NEVER);
}

static int start_copied(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_task_ref ref;
    const int *numbers = arg;
    atomic_fetch_add(&copied_sum, numbers[0] + numbers[9]);
    EXPECT_EQ((uintptr_t)arg % 16, 0);
    int rc = kin_spawn_with(n, NULL, stay, NULL, 0, &ref);
    if (rc == 0)
        *out = kin_task_addr(ref);
    return rc;
}

static int copies(void *arg)
{
    static struct house house;
    char name[] = "temp";
    int numbers[10] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    struct kin_child_spec spec = {
        .name = name, .start = start_copied, .arg = numbers, .arg_size = sizeof numbers};
    struct kin_child_info info;
    struct kin_addr again;
    (void)arg;

    atomic_store(&copied_sum, 0);
    EXPECT_EQ(kin_nursery_open(&house.n, NULL), 0);
    EXPECT_EQ(kin_supervisor_start(&house.n, NULL, &spec, 1, &house.sup), 0);
    memset(name, 0, sizeof name);
    memset(numbers, 0, sizeof numbers);
    EXPECT_EQ(kin_supervisor_terminate_child(house.sup, "temp", KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_restart_child(house.sup, "temp", &again, KIN_NEVER), 0);
    EXPECT_EQ(atomic_load(&copied_sum), 6);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, &info, 1, KIN_NEVER), 1);
    EXPECT_STR(info.name, "temp");
    EXPECT(kin_addr_same(info.addr, again));
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    return 0;
}

KIN_TEST(names_and_arguments_are_the_supervisors_own_copies, "")
{
    run_on_few(copies, NULL);
}

/* ---- names ---- */

/* K007, K009 */
static int named(void *arg)
{
    static struct house house;
    struct kin_addr found, other = {0, 0};
    (void)arg;

    furnish(&house, 1, KIN_TRANSIENT);
    house.options.name = "the-house";
    move_in(&house, 1);
    EXPECT_EQ(kin_whereis("the-house", &found), 0);
    EXPECT(kin_addr_same(found, house.sup));
    EXPECT_EQ(kin_supervisor_start(&house.n, &house.options, house.specs, 1, &other), KIN_TAKEN);
    EXPECT(kin_addr_same(other, house.sup)); /* the holder */
    EXPECT_DIARY(&house.diary, "+a");        /* and nothing was started */
    move_out(&house);
    EXPECT_EQ(kin_whereis("the-house", &found), KIN_NOPROC);
    return 0;
}

KIN_TEST(a_supervisor_has_a_name_as_a_server_has, "")
{
    run_on_few(named, NULL);
}

/* ---- a supervisor is no server for others ---- */

static int not_a_server(void *arg)
{
    static struct house house;
    struct kin_addr kid;
    struct kin_child_counts counts;
    int word = 5;
    (void)arg;

    furnish(&house, 1, KIN_TRANSIENT);
    move_in(&house, 1);
    kid = info_of(&house, "a").addr;
    EXPECT_EQ(kin_call(house.sup, &word, sizeof word, NULL, 0, NULL, KIN_NEVER), -ENOSYS);
    EXPECT_EQ(kin_cast(house.sup, &word, sizeof word, KIN_NEVER), 0); /* dropped */
    EXPECT_EQ(kin_supervisor_count_children(kid, &counts, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_count_children(kin_self_addr(), &counts, KIN_NEVER), KIN_DEADLOCK);
    EXPECT_EQ(kin_supervisor_count_children((struct kin_addr){0, 0}, &counts, KIN_NEVER),
              KIN_NOPROC);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    move_out(&house);
    return 0;
}

KIN_TEST(letters_to_a_supervisor_and_orders_to_a_server_do_nothing, "")
{
    run_on_few(not_a_server, NULL);
}

/* ---- the starter leaves ---- */

struct leaver {
    struct house house;
    _Atomic int rc;
};

static int start_it(void *arg)
{
    struct leaver *leaver = arg;
    int rc = kin_supervisor_start(&leaver->house.n, &leaver->house.options, leaver->house.specs, 3,
                                  &leaver->house.sup);
    atomic_store(&leaver->rc, rc);
    return rc;
}

static int cancelled_start(void *arg)
{
    static struct leaver leaver;
    struct kin_nursery starters;
    struct kin_task_ref starter;
    (void)arg;

    memset(&leaver, 0, sizeof leaver);
    furnish(&leaver.house, 3, KIN_PERMANENT);
    atomic_store(&leaver.house.kids[2].start_waits, 1);
    EXPECT_EQ(kin_nursery_open(&leaver.house.n, NULL), 0);
    EXPECT_EQ(kin_nursery_open(&starters, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&starters, NULL, start_it, &leaver, 0, &starter), 0);
    await(&leaver.house.kids[2].starts, 1);
    EXPECT_EQ(kin_task_cancel(starter), 0);
    EXPECT_EQ(kin_nursery_join(&starters, NULL), 0);
    EXPECT_EQ(atomic_load(&leaver.rc), KIN_CANCELLED);
    EXPECT_DIARY(&leaver.house.diary, "+a +b +c -b -a");
    EXPECT_EQ(kin_nursery_join(&leaver.house.n, NULL), 0);
    return 0;
}

KIN_TEST(a_start_that_is_cancelled_stops_what_it_has_started, "")
{
    run_on_few(cancelled_start, NULL);
}

/* ---- many ---- */

static int stay_spawned(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    struct kin_task_ref ref;
    (void)arg;
    int rc = kin_spawn_with(n, NULL, stay, NULL, 0, &ref);
    if (rc == 0)
        *out = kin_task_addr(ref);
    return rc;
}

/* K113, K116: a supervisor whose work were quadratic would not end before the alarm. */
static int many(void *arg)
{
    static struct house house;
    size_t count = *(size_t *)arg;
    struct kin_child_counts counts;
    struct kin_child_spec *specs = calloc(count, sizeof *specs);
    struct kin_child_info *infos = calloc(count, sizeof *infos);
    char(*names)[24] = calloc(count, sizeof *names);

    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        specs[i] = (struct kin_child_spec){.name = names[i], .start = stay_spawned};
    }
    EXPECT_EQ(kin_nursery_open(&house.n, NULL), 0);
    EXPECT_EQ(kin_supervisor_start(&house.n, NULL, specs, count, &house.sup), 0);
    EXPECT_EQ(kin_supervisor_count_children(house.sup, &counts, KIN_NEVER), 0);
    EXPECT_EQ(counts.specs, count);
    EXPECT_EQ(counts.active, count);
    EXPECT_EQ(kin_supervisor_which_children(house.sup, infos, count, KIN_NEVER), (ssize_t)count);
    for (size_t i = 0; i < count; i++)
        EXPECT_STR(infos[i].name, names[i]);
    for (size_t i = 0; i < count; i += 100)
        EXPECT_EQ(kin_supervisor_terminate_child(house.sup, names[i], KIN_NEVER), 0);
    EXPECT_EQ(kin_server_stop(house.sup, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    free(names);
    free(infos);
    free(specs);
    return 0;
}

KIN_TEST_LIMIT(a_hundred_thousand_children_are_not_too_many, "", 120)
{
    size_t count = (SANITIZED ? 5000 : 100000) / kin_test_scale();
    EXPECT_EQ(run_reporting(2, many, &count, NULL), 0);
}

/* ---- no memory ---- */

/* Starts a supervisor, a child more, and ends, with memory that fails at the n-th request. */
static int starve(void *arg)
{
    static struct house house;
    uint64_t nth = *(uint64_t *)arg;
    struct kin_addr out;
    struct kin_child_spec more;

    furnish(&house, 2, KIN_TRANSIENT);
    more = (struct kin_child_spec){.name = "h", .start = kid_start, .arg = &house.kids[7]};
    EXPECT_EQ(kin_nursery_open(&house.n, NULL), 0);
    kin__plat_fail_after(nth, false);
    int rc = kin_supervisor_start(&house.n, NULL, house.specs, 2, &house.sup);
    if (rc == 0) {
        rc = kin_supervisor_start_child(house.sup, &more, &out, KIN_NEVER);
        EXPECT(rc == 0 || rc == -ENOMEM);
        struct kin_child_info infos[4];
        ssize_t count = kin_supervisor_which_children(house.sup, infos, 4, KIN_NEVER);
        EXPECT(count == (rc == 0 ? 3 : 2) || count == -ENOMEM);
        int stopped = kin_server_stop(house.sup, 0, KIN_NEVER);
        EXPECT_EQ(stopped, 0);
    } else {
        EXPECT_EQ(rc, -ENOMEM);
    }
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin_nursery_join(&house.n, NULL), 0);
    for (int i = 0; i < KIDS; i++)
        EXPECT_EQ(atomic_load(&house.kids[i].starts) >= atomic_load(&house.kids[i].stops), 1);
    return 0;
}

KIN_TEST(without_memory_a_start_fails_and_leaves_nothing, "")
{
    for (uint64_t nth = 1; nth < 60; nth++)
        EXPECT_EQ(run_reporting(1, starve, &nth, NULL), 0);
}
