/* SPDX-License-Identifier: MIT */
/*
 * Goal: a dump is cut rather than broken by long names, and tells two runtimes apart.
 * Method: white box where the black box cannot reach: names beyond the line, two runtimes at once.
 */
#include "api/in_runtime.h"

#include <pthread.h>
#include <unistd.h>

/* What a dump of the running task's runtime prints, at most size - 1 bytes of it. */
static size_t dump_into(char *text, size_t size)
{
    FILE *file = tmpfile();

    EXPECT(file);
    EXPECT_EQ(kin_dump(fileno(file)), 0);
    ssize_t got = pread(fileno(file), text, size - 1, 0);
    EXPECT_GE(got, 0);
    text[got] = '\0';
    fclose(file);
    return (size_t)got;
}

static int dump_long_names(void *arg)
{
    static char name[2000], text[20000];
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    _Atomic int started = 0;
    KIN_NURSERY(n);

    (void)arg;
    memset(name, 'x', sizeof name - 1);
    options.name = name;
    EXPECT_EQ(kin_spawn_with(&n, &options, sleep_for_ever, &started, 0, NULL), 0);
    await(&started, 1);
    dump_into(text, sizeof text);
    EXPECT(strstr(text, "xxxxxxxxxx"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        EXPECT_LT(strlen(line), 640);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_long_name_is_cut_and_every_line_ends, "")
{
    EXPECT_EQ(run_reporting(1, dump_long_names, NULL, NULL), 0);
}

enum { TEXT_BYTES = 20000 };

struct meeting {
    pthread_barrier_t all_in, all_seen;
};

static int dump_own_runtime(void *arg)
{
    struct meeting *meeting = arg;
    char *text = malloc(TEXT_BYTES); /* not of the thread: the task may change its thread */
    struct kin_stats stats;
    char *at;
    int tasks = 0;

    pthread_barrier_wait(&meeting->all_in);
    EXPECT(text != NULL);
    dump_into(text, TEXT_BYTES);
    for (at = text; (at = strstr(at, "task ")); at++)
        tasks++;
    free(text);
    EXPECT_EQ(tasks, 1); /* not the other runtime's */
    EXPECT_EQ(kin_stats_get(&stats), 0);
    EXPECT_EQ(stats.tasks_live, 1);
    pthread_barrier_wait(&meeting->all_seen);
    return 0;
}

static void *run_apart(void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = 1;
    config.stall_threshold = KIN_NEVER; /* the barrier is no stall */
    EXPECT_EQ(kin_run(&config, dump_own_runtime, arg), 0);
    return NULL;
}

KIN_TEST(a_dump_shows_the_runtime_it_is_made_in_only, "")
{
    struct meeting meeting;
    pthread_t threads[2];

    EXPECT_EQ(pthread_barrier_init(&meeting.all_in, NULL, 2), 0);
    EXPECT_EQ(pthread_barrier_init(&meeting.all_seen, NULL, 2), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, run_apart, &meeting), 0);
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}
