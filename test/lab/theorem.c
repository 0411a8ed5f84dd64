/* SPDX-License-Identifier: MIT */
/*
 * The programs of theorem.h in production: none may come out in a way that the lab has not seen.
 *
 *     kin_theorem SEED TIMES < what the lab has seen
 *
 * Each line of the input is a program and the ways in which it may come out: its number, how many
 * there are, and so many numbers. Each program is run so many times, on two workers and then on
 * four, with delays in front of calls that come from the seed. The first outcome that is not among
 * them is shown, and the exit status is 1. So it is if a program comes to no end.
 */
#include "theorem.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WAYS = 512, PATIENCE_S = 600 };

static _Atomic uint64_t dice;
static _Atomic uint32_t pauses; /* of everybody */

static bool theorem_is_over(void)
{
    return false;
}

/* Lets others come to some of their pauses, if they do so soon: calls lie between any two. */
static void let_others(uint32_t count)
{
    const uint32_t before = atomic_load(&pauses);
    for (unsigned i = 0; i < 40 && atomic_load(&pauses) - before < count; i++)
        sched_yield();
}

/* Mostly nothing; or a few turns, a yield of the thread, a short sleep of it, some calls of
 * others. */
static void theorem_pause(void)
{
    uint64_t state = atomic_fetch_add(&dice, UINT64_C(0x9e3779b97f4a7c15));
    uint32_t which = theorem_pick(&state, 64);
    atomic_fetch_add(&pauses, 1);
    if (which >= 52)
        let_others(1 + theorem_pick(&state, 3));
    else if (which == 0)
        nanosleep(&(struct timespec){0, (long)theorem_pick(&state, 50000)}, NULL);
    else if (which < 6)
        sched_yield();
    else if (which < 40)
        for (volatile uint32_t i = theorem_pick(&state, 400); i > 0; i--)
            ;
}

static struct {
    uint64_t seed, ways[WAYS];
    unsigned count;
} line;

static bool read_line(void)
{
    unsigned long long seed, way;
    if (scanf("%llu %u", &seed, &line.count) != 2 || line.count > WAYS)
        return false;
    line.seed = seed;
    for (unsigned i = 0; i < line.count; i++) {
        if (scanf("%llx", &way) != 1)
            return false;
        line.ways[i] = way;
    }
    return true;
}

static bool is_known(uint64_t outcome)
{
    for (unsigned i = 0; i < line.count; i++)
        if (line.ways[i] == outcome)
            return true;
    return false;
}

static struct {
    unsigned times, workers, programs;
    bool is_wrong;
} how;

static void on_alarm(int signal)
{
    char text[96];
    int size = snprintf(text, sizeof(text), "program %llu on %u workers comes to no end\n",
                        (unsigned long long)line.seed, how.workers);
    (void)signal;
    _exit(write(1, text, (size_t)size) < 0 ? 2 : 1);
}

/* Runs every program of the input. */
static int run_all(void *arg)
{
    (void)arg;
    for (; !how.is_wrong && read_line(); how.programs++) {
        theorem_make(line.seed);
        alarm(PATIENCE_S);
        for (unsigned i = 0; i < how.times && !how.is_wrong; i++) {
            int rc = theorem_play(NULL);
            how.is_wrong = rc < 0 || !is_known(theorem_outcome(false));
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    signal(SIGALRM, on_alarm);
    how.times = (unsigned)strtoul(argv[2], NULL, 10);
    for (how.workers = 2; how.workers <= 4 && !how.is_wrong; how.workers += 2) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = how.workers;
        atomic_store(&dice, strtoull(argv[1], NULL, 10));
        rewind(stdin);
        if (kin_run(&config, run_all, NULL) < 0)
            return 2;
    }
    printf("%u runs of programs in production\n", how.programs * how.times);
    if (!how.is_wrong)
        return 0;
    printf("program %llu on %u workers came out in a way that the lab has not seen:\n",
           (unsigned long long)line.seed, how.workers - 2);
    theorem_say_outcome();
    theorem_show(line.seed);
    return 1;
}
