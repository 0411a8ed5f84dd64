/* SPDX-License-Identifier: MIT */
/*
 * How fast the lab is: bench CASE WORKERS N ROUNDS, linked with libkin-lab.
 *
 *     words    three tasks take turns at shared words, about fifty steps
 *     streams  two tasks send to a channel, two receive from it and add up under a mutex
 *     shrink   of a failure after about a thousand steps a short one is made
 *
 * N is how many executions of each strategy are measured.
 */
#include <kin/kin.h>
#include <kin/lab.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 4, TOUCHES = 14, ITEMS = 4, VISITS = 250 };

static void print(const char *name, double value, const char *unit)
{
    printf("%s %.6g %s\n", name, value, unit);
}

/* ---- words ---- */

struct words {
    int at[WORDS];
};

static int touch(void *arg)
{
    struct words *words = arg;
    for (int i = 0; i < TOUCHES; i++)
        KIN_SHARED(words->at[i % WORDS])++;
    return 0;
}

static int touch_all(void *arg)
{
    struct words words = {{0}};
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++)
        KIN_LAB_OK(kin_spawn(&n, touch, &words));
    return kin_nursery_join(&n, NULL);
}

/* ---- streams ---- */

struct stream {
    struct kin_chan *chan;
    struct kin_mutex mutex;
    int sum;
};

static int put(void *arg)
{
    struct stream *stream = arg;
    for (int i = 0; i < ITEMS; i++)
        KIN_LAB_OK(kin_chan_send(stream->chan, &i, KIN_NEVER));
    return 0;
}

static int take(void *arg)
{
    struct stream *stream = arg;
    for (int i = 0, item; i < ITEMS; i++) {
        KIN_LAB_OK(kin_chan_recv(stream->chan, &item, KIN_NEVER));
        KIN_LAB_OK(kin_mutex_lock(&stream->mutex, KIN_NEVER));
        stream->sum += item;
        kin_mutex_unlock(&stream->mutex);
    }
    return 0;
}

static int stream_all(void *arg)
{
    struct stream stream = {0};
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&stream.chan, sizeof(int), 1));
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++)
        KIN_LAB_OK(kin_spawn(&n, i % 2 ? take : put, &stream));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_chan_unref(stream.chan);
    kin_lab_assert(stream.sum == ITEMS * (ITEMS - 1), "all arrive");
    return 0;
}

/* ---- shrink ---- */

/* Updates that lose one another, somewhere in a long run. */
static int visit(void *arg)
{
    int *count = arg;
    for (int i = 0; i < VISITS; i++) {
        int seen = KIN_SHARED(*count);
        KIN_SHARED(*count) = seen + 1;
    }
    return 0;
}

static int visit_all(void *arg)
{
    int count = 0;
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 2; i++)
        KIN_LAB_OK(kin_spawn(&n, visit, &count));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(count == 2 * VISITS, "nobody is forgotten");
    return 0;
}

/* ---- measuring ---- */

static double us_since(kin_time start)
{
    return (double)(kin_now() - start) / 1e3;
}

static struct kin_lab_report explore(kin_task_fn *test, enum kin_lab_strategy strategy, uint64_t n)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report report;
    config.strategy = strategy;
    config.seed = 1;
    config.executions_max = n;
    kin_ignore(kin_lab_run(&config, test, NULL, &report)); /* the report has it */
    return report;
}

/* Time and steps of an execution. */
static int speed(kin_task_fn *test, uint64_t n)
{
    static const enum kin_lab_strategy strategies[] = {KIN_LAB_RANDOM, KIN_LAB_DPOR};
    static const char *const names[] = {"random", "dpor"};
    for (int i = 0; i < 2; i++) {
        (void)explore(test, strategies[i], n / 10);
        kin_time start = kin_now();
        struct kin_lab_report report = explore(test, strategies[i], n);
        double us = us_since(start);
        if (report.status < 0 || report.executions == 0) {
            fprintf(stderr, "lab_bench: %s\n", report.text);
            return 1;
        }
        print(names[i], us / (double)report.executions, "us");
        if (i == 0)
            print("steps", (double)report.steps / (double)report.executions, "n");
    }
    return 0;
}

static int shrink(void)
{
    kin_time start = kin_now();
    struct kin_lab_report report = explore(visit_all, KIN_LAB_RANDOM, 1000);
    double us = us_since(start);
    if (report.status == 0) {
        fprintf(stderr, "lab_bench: the failure was not found\n");
        return 1;
    }
    print("found", us / 1e3, "ms");
    print("steps", (double)report.steps / (double)report.executions, "n");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench words|streams|shrink WORKERS N ROUNDS\n");
        return 2;
    }
    uint64_t n = strtoull(argv[3], NULL, 10);
    if (strcmp(argv[1], "words") == 0)
        return speed(touch_all, n);
    if (strcmp(argv[1], "streams") == 0)
        return speed(stream_all, n);
    return shrink();
}
