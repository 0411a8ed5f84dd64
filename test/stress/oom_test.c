/* SPDX-License-Identifier: MIT */
/*
 * Exhausted resources: the n-th request for memory, address space or a thread fails, for every n.
 *
 * Method: a program that needs every kind of resource runs once undisturbed, which tells how many
 * requests it makes. Then for each n a fresh process, in which nothing is cached yet, runs it with
 * the n-th request failing, once or from then on; afterwards the same process runs it again without
 * failures, which must succeed. Every call may answer with an error and none may lose or invent a
 * task; leaks are seen by the leak sanitizer at the exit of each process.
 */
#include "kin_test.h"

#include "plat/plat.h"

#include <kin/kin.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 100, SPAWN_KINDS = 3, REQUESTS_MAX = 4096 };

struct tally {
    int accepted;    /* spawns that answered 0 */
    _Atomic int ran; /* bodies that ran */
    int refused;     /* calls that answered with an error */
};

static bool is_shortage(int rc)
{
    return rc == -ENOMEM || rc == -EAGAIN;
}

static int child(void *arg)
{
    struct tally *tally = *(struct tally **)arg;

    atomic_fetch_add(&tally->ran, 1);
    return 0;
}

static int sleeping_child(void *arg)
{
    struct tally *tally = *(struct tally **)arg;
    const int rc = kin_sleep(kin_after(KIN_US(100)));

    EXPECT(rc == 0 || rc == KIN_CANCELLED || is_shortage(rc));
    atomic_fetch_add(&tally->ran, 1);
    return 0;
}

/* Starts one child in one of three ways; counts what came of it. */
static void spawn_one(struct kin_nursery *n, struct tally **tally, int i)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    int rc = 0;

    options.stack_max_bytes = (size_t)1 << 20; /* another class of stacks */
    if (i % SPAWN_KINDS == 0)
        rc = kin_spawn(n, sleeping_child, tally);
    else if (i % SPAWN_KINDS == 1)
        rc = kin_spawn_copy(n, child, tally, sizeof *tally);
    else
        rc = kin_spawn_with(n, &options, child, tally, sizeof *tally, NULL);
    EXPECT(rc == 0 || is_shortage(rc) || rc == KIN_NOSCOPE);
    (*tally)->accepted += rc == 0;
    (*tally)->refused += rc != 0;
}

/* The first task: children of every kind, memory of the nursery, a join. */
static int program(void *arg)
{
    struct tally *tally = arg;
    struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT;
    struct kin_nursery n;

    options.on_error = KIN_COLLECT; /* a child that finds no stack does not cancel the others */
    int rc = kin_nursery_open(&n, &options);
    if (rc < 0) {
        EXPECT(is_shortage(rc));
        return rc;
    }
    for (int i = 0; i < CHILDREN; i++)
        spawn_one(&n, &tally, i);
    char *memory = kin_nursery_alloc(&n, 100000);
    if (memory)
        memset(memory, 1, 100000);
    tally->refused += memory == NULL;
    rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || is_shortage(rc));
    EXPECT_LE(atomic_load(&tally->ran), tally->accepted);
    if (rc == 0)
        EXPECT_EQ(atomic_load(&tally->ran), tally->accepted);
    return rc;
}

static int run_program(struct tally *tally)
{
    struct kin_config config = KIN_CONFIG_INIT;

    *tally = (struct tally){0};
    config.workers = 2;
    return kin_run(&config, program, tally);
}

/* In a process of its own: the program with the n-th request failing, then without. */
static void run_short_of(uint64_t n, bool forever)
{
    struct tally tally;

    kin__plat_fail_after(n, forever);
    const int rc = run_program(&tally);
    kin__plat_fail_after(0, false);
    if (rc != 0 && !is_shortage(rc)) {
        fprintf(stderr, "request %llu failing: kin_run answered %s\n", (unsigned long long)n,
                kin_status_name(rc));
        exit(3);
    }
    EXPECT_EQ(run_program(&tally), 0);
    EXPECT_EQ(tally.accepted, CHILDREN);
    EXPECT_EQ(atomic_load(&tally.ran), CHILDREN);
    EXPECT_EQ(tally.refused, 0);
}

/* How many requests the program makes in a process that has nothing cached. */
static uint64_t count_requests(void)
{
    uint64_t requests = 0;
    int ends[2];

    EXPECT_EQ(pipe(ends), 0);
    const pid_t process = fork();
    EXPECT_GE(process, 0);
    if (process == 0) {
        struct tally tally;
        kin__plat_fail_after(0, false);
        EXPECT_EQ(run_program(&tally), 0);
        requests = kin__plat_requests();
        const ssize_t wrote = write(ends[1], &requests, sizeof requests);
        exit(wrote == (ssize_t)sizeof requests ? 0 : 1);
    }
    close(ends[1]); /* a child that dies early ends the read below */
    EXPECT_EQ(read(ends[0], &requests, sizeof requests), sizeof requests);
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
    close(ends[0]);
    return requests;
}

static void sweep(bool forever)
{
    const uint64_t requests = count_requests();

    printf("%llu requests\n", (unsigned long long)requests);
    fflush(stdout);
    EXPECT_GT(requests, 5);
    EXPECT_LT(requests, REQUESTS_MAX);
    for (uint64_t n = 1; n <= requests; n++) {
        const pid_t process = fork();
        EXPECT_GE(process, 0);
        if (process == 0) {
            alarm(KIN_TEST_S / 2 * kin_test_scale());
            run_short_of(n, forever);
            exit(0);
        }
        int status = 0;
        EXPECT_EQ(waitpid(process, &status, 0), process);
        if (status != 0)
            printf("with request %llu failing\n", (unsigned long long)n);
        EXPECT_EQ(status, 0);
    }
}

KIN_TEST_LIMIT(one_failing_request_costs_an_error_and_nothing_else, "", 120)
{
    sweep(false);
}

KIN_TEST_LIMIT(no_more_resources_from_some_point_on_cost_an_error_and_nothing_else, "", 120)
{
    sweep(true);
}
