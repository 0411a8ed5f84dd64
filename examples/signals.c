/* SPDX-License-Identifier: MIT */
/*
 * Signals in a small program: a service that reloads on SIGHUP and shuts down on SIGINT or SIGTERM.
 *
 *     workers     do their work until they are asked to stop, and then tidy up
 *     reloader    waits for SIGHUP in a loop
 *     main        kin_shutdown_on_signals(&n): no task waits for that
 *
 * Run with an argument it serves until you press Ctrl-C or send it a signal; press again
 * if it should hang. Without one it sends the signals itself.
 */
#include <kin/kin.h>
#include <kin/signal.h>

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { WORKERS = 4, RELOADS = 3 };

struct service {
    bool is_demo;
    _Atomic int running, reloads, tidied;
};

static int worker(void *arg)
{
    struct service *service = arg;
    int rc;
    atomic_fetch_add(&service->running, 1);
    while ((rc = kin_sleep(kin_after(KIN_MS(5)))) == 0)
        continue; /* one piece of work after the other */
    kin_mask(); /* what has to be done at the end may take its time */
    kin_ignore(kin_sleep(kin_after(KIN_MS(1))));
    kin_unmask();
    atomic_fetch_add(&service->tidied, 1);
    return rc;
}

static int reloader(void *arg)
{
    struct service *service = arg;
    int rc;
    while ((rc = kin_signal_wait(SIGHUP, KIN_NEVER)) == 0) {
        atomic_fetch_add(&service->reloads, 1);
        printf("reloaded\n");
    }
    return rc;
}

/* Somebody who sends signals. */
static int operator(void *arg)
{
    struct service *service = arg;
    for (int i = 1; i <= RELOADS; i++) {
        kill(getpid(), SIGHUP);
        while (atomic_load(&service->reloads) < i) { /* or it could count as the same one */
            int rc = kin_sleep(kin_after(KIN_MS(1)));
            if (rc < 0)
                return rc;
        }
    }
    kill(getpid(), SIGTERM);
    return 0;
}

static int serve(void *arg)
{
    struct service *service = arg;
    int rc = kin_signal_wait(SIGHUP, 0); /* from here on it no longer ends the process */
    if (rc < 0 && rc != KIN_TIMEOUT)
        return rc;
    KIN_NURSERY(n, .name = "service");
    rc = kin_shutdown_on_signals(&n);
    if (rc == 0)
        rc = kin_spawn(&n, reloader, service);
    for (int i = 0; i < WORKERS && rc == 0; i++)
        rc = kin_spawn(&n, worker, service);
    if (rc == 0 && service->is_demo)
        rc = kin_spawn(&n, operator, service);
    if (rc == 0)
        printf("process %d serves\n", (int)getpid());
    rc = kin_nursery_end(&n, rc);
    return rc == KIN_CANCELLED ? 0 : rc; /* that is how it is meant to end */
}

int main(int argc, char **argv)
{
    static struct service service;
    (void)argv;
    service.is_demo = argc < 2;
    int rc = kin_run(NULL, serve, &service);
    printf("%d reloads; %d of %d workers tidied up: %s\n", atomic_load(&service.reloads),
           atomic_load(&service.tidied), atomic_load(&service.running), kin_status_name(rc));
    return rc == 0 && atomic_load(&service.tidied) == atomic_load(&service.running) ? 0 : 1;
}
