/* SPDX-License-Identifier: MIT */
/*
 * A supervisor: a counter that is lost in a crash and started again, and a reporter that depends on
 * it and goes down and comes up with it.
 *
 *     shop (rest for one) --- counter --- reporter
 *
 * "Let it crash": the counter does not handle a request that it cannot understand; it fails, and
 * the supervisor starts a new one. Clients find it by its name, so they need not know.
 */
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>

enum { SOLD = 1, CRASH = 2, COUNT = 3 };

static _Atomic int counters, reporters; /* how many were started */

/* ---- the counter ---- */

static int counter_start(struct kin_server *s, void *state, const void *arg)
{
    (void)s, (void)state, (void)arg;
    counters++;
    return 0;
}

static int counter_call(struct kin_server *s, void *state, const void *req, size_t size,
                        struct kin_reply *reply)
{
    long *sold = state;

    (void)s;
    if (size != sizeof(int))
        return -EBADMSG;
    if (*(const int *)req == CRASH)
        kin_fail(-EIO, "the counter has lost its books");
    *sold += *(const int *)req == SOLD;
    kin_ignore(kin_reply_send(reply, sold, sizeof *sold));
    return 0;
}

static int start_counter(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    static const struct kin_server_ops ops = {.on_start = counter_start, .on_call = counter_call};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;

    options.name = "counter";
    options.state_size = sizeof(long);
    return kin_server_start(n, &ops, &options, arg, out);
}

/* ---- the reporter ---- */

static int reporter_start(struct kin_server *s, void *state, const void *arg)
{
    (void)state, (void)arg;
    reporters++;
    return kin_server_timer_set(s, 1, kin_after(KIN_MS(1)));
}

static int reporter_info(struct kin_server *s, void *state, const struct kin_info *info)
{
    struct kin_addr counter;
    int what = COUNT;
    long sold = 0;

    (void)state;
    if (info->kind != KIN_INFO_TIMEOUT)
        return 0;
    int rc = kin_whereis("counter", &counter);
    if (rc == 0)
        rc = kin_call(counter, &what, sizeof what, &sold, sizeof sold, NULL, kin_after(KIN_SEC(1)));
    if (rc < 0)
        return rc; /* it is gone: the supervisor knows what to do with us, too */
    return kin_server_timer_set(s, 1, kin_after(KIN_MS(1)));
}

static int start_reporter(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    static const struct kin_server_ops ops = {.on_start = reporter_start, .on_info = reporter_info};

    return kin_server_start(n, &ops, NULL, arg, out);
}

/* ---- a client ---- */

/* Asks whoever is the counter now; one that is just being started again is waited for. */
static int ask(int what, long *sold)
{
    struct kin_addr counter;
    int rc;

    do {
        rc = kin_whereis("counter", &counter);
        if (rc == 0)
            rc = kin_call(counter, &what, sizeof what, sold, sizeof *sold, NULL,
                          kin_after(KIN_SEC(10)));
        if (rc == KIN_NOPROC && kin_sleep(kin_after(KIN_MS(1))) < 0)
            return KIN_CANCELLED;
    } while (rc == KIN_NOPROC);
    return rc;
}

static int run_shop(void *arg)
{
    static const char *const first[] = {"counter", NULL};
    const struct kin_child_spec children[] = {
        {.name = "counter", .start = start_counter, .restart = KIN_PERMANENT},
        {.name = "reporter", .start = start_reporter, .depends_on = first},
    };
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_addr shop;
    long sold = 0;

    (void)arg;
    KIN_NURSERY(n);
    options.name = "shop";
    options.strategy = KIN_REST_FOR_ONE;
    int rc = kin_supervisor_start(&n, &options, children, 2, &shop);
    for (int i = 0; i < 5 && rc == 0; i++)
        rc = ask(SOLD, &sold);
    printf("sold %ld\n", sold);
    if (rc == 0 && ask(CRASH, &sold) == -EIO)
        printf("the counter has failed\n");
    if (rc == 0)
        rc = ask(COUNT, &sold);
    printf("a new one begins at %ld\n", sold);
    if (rc == 0)
        rc = kin_server_stop(shop, 0, KIN_NEVER);
    printf("%d counters, %d reporters\n", counters, reporters);
    return kin_nursery_end(&n, rc);
}

int main(void)
{
    int rc = kin_run(NULL, run_shop, NULL);

    printf("%s\n", kin_status_name(rc));
    return rc == 0 && counters == 2 ? 0 : 1;
}
