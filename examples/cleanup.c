/* SPDX-License-Identifier: MIT */
/*
 * Cleanups: what a task has acquired is given back in reverse order, however the task ends.
 *
 * Each worker acquires a connection for as long as it lives, opens a nursery with a helper in it,
 * and uses a buffer and a lock for a while. One returns, one returns an error, one is cancelled,
 * one calls kin_fail in the middle of a loop, where no C scope is left in the ordinary way. The
 * same four lines come each time: lock, buffer, then the helper, which is cancelled and joined at
 * its place, then the connection; only when they are cancelled together may the helper be faster.
 * The last worker has a cleanup that fails: it would have succeeded and ends with KIN_CLEANUP
 * instead.
 */
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>

enum way { RETURNS, RETURNS_ERROR, IS_CANCELLED, FAILS, CLEANUP_FAILS, WAYS };

static const char *const names[WAYS] = {"returns", "returns an error", "is cancelled",
                                        "calls kin_fail", "has a cleanup that fails"};

static char connection[] = "connection", buffer[] = "buffer", lock[] = "lock",
            helpers[] = "helper's buffer", log_file[] = "log";
static int given_back; /* in all */

static void give_back(void *arg)
{
    printf("    gives back the %s\n", (const char *)arg);
    given_back++;
}

static int fail_to_give_back(void *arg)
{
    printf("    cannot give back the %s\n", (const char *)arg);
    return -EIO;
}

/* Lives until it is cancelled, and cleans up as well. */
static int helper(void *arg)
{
    KIN_USING(give_back, arg);
    return kin_sleep(KIN_NEVER);
}

static int work(void *arg)
{
    enum way way = *(const enum way *)arg;

    int rc = kin_defer(give_back, connection); /* until the task is over */
    if (rc == 0 && way == CLEANUP_FAILS)
        rc = kin_defer_try(fail_to_give_back, log_file);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n);
    rc = kin_spawn(&n, helper, helpers);
    if (rc < 0)
        return rc;
    kin_ignore(kin_yield());      /* the helper begins */
    KIN_USING(give_back, buffer); /* until the C scope is left */
    KIN_USING(give_back, lock);
    for (int step = 0; step < 3; step++) {
        if (way == FAILS && step == 1)
            kin_fail(-ECONNRESET, "in step %d", step);
        rc = way == IS_CANCELLED ? kin_sleep(KIN_NEVER) : kin_checkpoint();
        if (rc < 0)
            return rc;
    }
    return way == RETURNS_ERROR ? -EPROTO : 0;
}

static int try_every_way(void *arg)
{
    int *statuses = arg;

    for (int i = 0; i < WAYS; i++) {
        enum way way = (enum way)i;
        KIN_NURSERY(n, .deadline = way == IS_CANCELLED ? kin_after(KIN_MS(20)) : 0);
        printf("a task that %s:\n", names[i]);
        statuses[i] = kin_nursery_end(&n, kin_spawn(&n, work, &way));
        printf("    the end returned %s\n", kin_status_name(statuses[i]));
    }
    return 0;
}

static void drop_report(const struct kin_report *report, void *arg)
{
    (void)arg;
    printf("    reported: %s\n", kin_status_name(report->status));
}

int main(void)
{
    static const int expected[WAYS] = {0, -EPROTO, KIN_TIMEOUT, -ECONNRESET, KIN_CLEANUP};
    struct kin_config config = KIN_CONFIG_INIT;
    int statuses[WAYS] = {0};
    bool is_right = true;

    config.workers = 1;
    config.on_report = drop_report;
    int rc = kin_run(&config, try_every_way, statuses);
    for (int i = 0; i < WAYS; i++)
        is_right = is_right && statuses[i] == expected[i];
    return rc == 0 && is_right && given_back == 4 * WAYS ? 0 : 1;
}
