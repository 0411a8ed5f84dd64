/* SPDX-License-Identifier: MIT */
/*
 * kin demo: the tour, station by station.
 *
 * Every station runs real tasks, checks what came out and prints figures of this machine as it
 * found it, busy or not; they are a demonstration, not a benchmark (that is `make bench`).
 */
#include "tool.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

struct station {
    const char *title;
    int (*show)(const struct tour *tour);
};

static const struct station stations[] = {
    {"Fan out and join", demo_fanout},
    {"A failing child cancels its siblings", demo_first_error},
    {"Many parked tasks", demo_million},
    {"Taking turns", demo_turns},
    {"Channels and select", demo_channels},
    {"Fork and join all the way down", demo_forkjoin},
    {"Sleeping tasks", demo_sleepers},
    {"A tree that ends at its deadline", demo_deadline},
    {"A hog and its neighbours", demo_hog},
    {"A blocking call does not stop the others", demo_blocking},
    {"A stack overflow ends one task", demo_overflow},
    {"Programs, and a signal to stop", demo_processes},
    {"A server that fails and comes back", demo_servers},
};
#define STATIONS (sizeof(stations) / sizeof(stations[0]))

int demo_run(unsigned workers, kin_task_fn *fn, void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;

    config.workers = workers;
    return kin_run(&config, fn, arg);
}

int demo_wrong(const char *what, int status)
{
    print_progress(NULL);
    print_text("WRONG: %s (%s: %s)", what, kin_status_name(status), kin_status_text(status));
    return status < 0 ? status : KIN_PANICKED;
}

/* A first runtime, only to ask how many workers there are by default. */
static int ask_workers(void *arg)
{
    unsigned *workers = arg;
    struct kin_stats stats;
    int rc = kin_stats_get(&stats);

    if (rc == 0)
        *workers = stats.workers;
    return rc;
}

static int look_at_machine(struct tour *tour)
{
    struct utsname name;
    int rc = demo_run(0, ask_workers, &tour->workers);

    if (rc < 0)
        return demo_wrong("no runtime could be started", rc);
    tour->available_bytes = machine_meminfo_bytes("MemAvailable");
    printf("kin %s: a tour\n\n", kin_version());
    print_text(
        "kin runs many cheap tasks on a few threads, called workers, and every task lives in a "
        "nursery that it cannot outlive. Each station below runs such a program and says what "
        "happened; the figures are those of this machine, now.");
    putchar('\n');
    if (uname(&name) == 0)
        print_figure("machine", "%s, Linux %s", name.machine, name.release);
    print_figure("workers by default", "%u (the CPUs this process may use)", tour->workers);
    print_figure("memory available", "%s", text_bytes(tour->available_bytes));
    return 0;
}

static int run_stations(const struct tour *tour)
{
    unsigned failed = 0;
    kin_time start = kin_now();

    for (unsigned i = 0; i < STATIONS; i++) {
        print_title(i + 1, stations[i].title);
        int rc = stations[i].show(tour);
        if (rc < 0) {
            failed++;
            print_text("FAILED: %s (%s)", kin_status_name(rc), kin_status_text(rc));
        }
    }
    putchar('\n');
    if (failed)
        print_text("%u of %u stations failed.", failed, (unsigned)STATIONS);
    else
        print_text("All %u stations went as they must, in %s. Next: README.md, doc/tutorial.md, "
                   "examples/.",
                   (unsigned)STATIONS, text_ns((double)(kin_now() - start)));
    return failed ? 1 : 0;
}

int demo_main(int argc, char **argv)
{
    struct tour tour = {.has_million = true};

    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            tour.is_quick = true;
        else if (strcmp(argv[i], "--no-million") == 0)
            tour.has_million = false;
        else {
            fprintf(stderr, "kin demo: unknown option '%s'; there are --quick and --no-million\n",
                    argv[i]);
            return 2;
        }
    }
    print_init();
    return look_at_machine(&tour) < 0 ? 1 : run_stations(&tour);
}
