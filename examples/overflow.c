/* SPDX-License-Identifier: MIT */
/*
 * Stack overflow: the task that runs out of stack panics, is reported, and the rest goes on.
 *
 * Every stack ends in a guard. A task that hits it in its own code ends with KIN_OVERFLOW and
 * severity KIN_SEV_PANIC; its siblings in a collecting nursery, and the process, live on. (Inside
 * libc the process aborts instead, because libc may hold locks.)
 */
#include <kin/kin.h>

#include <stdio.h>

enum { WORKERS_TOO = 3 };

/* Calls itself without end, as deep as depth says; each frame is touched. */
static __attribute__((noinline)) int dive(volatile int depth)
{
    volatile char frame[256];

    frame[0] = (char)depth;
    if (depth == 0)
        return 0;
    return dive(depth - 1) + frame[0];
}

static int dive_too_deep(void *arg)
{
    (void)arg;
    return dive(1 << 30);
}

static int compute(void *arg)
{
    int *sum = arg;

    for (int i = 1; i <= 1000; i++) {
        *sum += i;
        int rc = kin_checkpoint();
        if (rc < 0)
            return rc;
    }
    return 0;
}

struct result {
    int sums[WORKERS_TOO];
    int reports;
    struct kin_outcome how;
};

/* Called on the thread of the task that overflowed; the text is gone when it returns. */
static void on_report(const struct kin_report *report, void *arg)
{
    struct result *result = arg;

    if (report->status == KIN_OVERFLOW)
        result->reports++;
    printf("reported: %s\n", report->text);
}

static int run(void *arg)
{
    struct result *result = arg;
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    options.name = "diver";
    int rc = kin_spawn_with(&n, &options, dive_too_deep, NULL, 0, NULL);
    for (int i = 0; rc == 0 && i < WORKERS_TOO; i++)
        rc = kin_spawn(&n, compute, &result->sums[i]);
    rc = kin_nursery_end(&n, rc);
    kin_nursery_errors(&n, &result->how, 1);
    printf("the end returned %s, severity %s\n", kin_status_name(rc),
           result->how.severity == KIN_SEV_PANIC ? "panic" : "something else");
    return rc == KIN_OVERFLOW ? 0 : -1;
}

int main(void)
{
    struct kin_config config = KIN_CONFIG_INIT;
    struct result result = {.reports = 0};

    config.on_report = on_report;
    config.report_arg = &result;
    int rc = kin_run(&config, run, &result);
    bool is_right = rc == 0 && result.reports == 1 && result.how.severity == KIN_SEV_PANIC;
    for (int i = 0; i < WORKERS_TOO; i++)
        is_right = is_right && result.sums[i] == 500500;
    printf("the others went on: %s\n", is_right ? "yes" : "no");
    return is_right ? 0 : 1;
}
