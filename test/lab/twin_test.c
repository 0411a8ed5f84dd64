/* SPDX-License-Identifier: MIT */
/*
 * Goal: the network, the files and the clock of the lab are twins of the real ones.
 * Method: small programs of I/O that are made from numbers (twin.h) run in production (twin.c), by
 * workers, on the loopback and on a disk, and in the lab; each status and each byte must be the
 * same, and in the lab under several schedules. What is real may be late: a program that came out
 * otherwise is run again, with longer and longer pauses; a twin that is wrong stays wrong.
 *
 * In the environment KIN_TWIN_COUNT says how many programs, and KIN_TWIN_FIRST the number of the
 * first one; without it the seed of the test does. Without either they are some of those that are
 * known to agree: whoever looks for new differences says how many (make nightly).
 */
#include "kin_test.h"

#include "twin.h"

#include <kin/lab.h>

#include <sys/wait.h>

#define TRIES 8u
#define KNOWN_FIRST 803000u /* from here on so many programs are known to agree */
#define KNOWN 2900u

static char told[1 << 22]; /* what production has to say */

/* Has a range of programs run in production. */
static void run_real(uint64_t seed, unsigned count, unsigned pause_us)
{
    char first[24], many[16], pause[16];
    int ends[2], how;
    size_t size = 0;
    ssize_t got;
    snprintf(first, sizeof(first), "%llu", (unsigned long long)seed);
    snprintf(many, sizeof(many), "%u", count);
    snprintf(pause, sizeof(pause), "%u", pause_us);
    EXPECT_EQ(pipe(ends), 0);
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
        dup2(ends[1], 1);
        execl(KIN_TWIN, KIN_TWIN, first, many, pause, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while ((got = read(ends[0], told + size, sizeof(told) - 1 - size)) > 0) /* ends: it does */
        size += (size_t)got;
    told[size] = '\0';
    close(ends[0]);
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    EXPECT(WIFEXITED(how));
    if (WEXITSTATUS(how) == 127)
        KIN_SKIP("the program cannot be run from here");
    EXPECT_EQ(WEXITSTATUS(how), 0);
    twin.has_v6 = told[0] == '1';
}

static void settle(void)
{
    kin_ignore(kin_lab_wait_all_blocked());
}

static int run_one(void *seed)
{
    twin.home = "/tmp/twin/";
    twin.settle = settle;
    int rc = kin_mkdir(twin.home, 0777);
    return rc < 0 ? rc : twin_run(*(uint64_t *)seed);
}

/* Runs a program in the lab; what it says must not depend on the schedule. */
static void run_lab(uint64_t seed)
{
    static char before[TWIN_TEXT];
    struct kin_lab_report report;
    for (int i = 0; i < 3; i++) {
        struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
        config.strategy = i ? KIN_LAB_RANDOM : KIN_LAB_ROUND_ROBIN;
        config.executions_max = 1;
        config.seed = seed + (uint64_t)i;
        int rc = kin_lab_run(&config, run_one, &seed, &report);
        if (rc < 0)
            printf("program %llu: %s\n%s\n", (unsigned long long)seed, report.text, twin.text);
        EXPECT_EQ(rc, 0);
        if (i)
            EXPECT_STR(twin.text, before);
        memcpy(before, twin.text, twin.length + 1);
    }
}

/* Whether what production says begins with what the lab has said; *rest is what comes behind. */
static bool is_same(const char *real, const char **rest)
{
    const char *end = strstr(real, "end\n");
    EXPECT(end != NULL);
    *rest = end + 4;
    return (size_t)(end - real) == twin.length && memcmp(real, twin.text, twin.length) == 0;
}

/* Shows where two accounts part. */
static void show(uint64_t seed, const char *real)
{
    const char *lab = twin.text;
    printf("KIN_TWIN_FIRST=%llu KIN_TWIN_COUNT=1:\n", (unsigned long long)seed);
    while (*lab) { /* ends: one line fewer each time */
        size_t ours = strcspn(lab, "\n"), theirs = strcspn(real, "\n");
        bool is_equal = ours == theirs && memcmp(lab, real, ours) == 0;
        printf("   %.*s\n", (int)ours, lab);
        if (!is_equal) {
            printf("but in production\n   %.*s\n", (int)theirs, real);
            return;
        }
        lab += ours + 1;
        real += theirs + 1;
    }
    printf("production goes on: %.80s\n", real);
}

/* A program that came out otherwise has more chances, by itself and with longer pauses. */
static void try_again(uint64_t seed)
{
    const char *rest;
    for (unsigned i = 0; i < TRIES; i++) {
        run_real(seed, 1, 1000u << i);
        if (is_same(told + 2, &rest))
            return;
    }
    show(seed, told + 2);
    const bool is_a_twin = false;
    EXPECT(is_a_twin);
}

KIN_TEST_LIMIT(every_program_comes_out_as_it_does_in_production, "", 3600)
{
    static char all[sizeof(told)];
    const char *wanted = getenv("KIN_TWIN_COUNT"), *given = getenv("KIN_TWIN_FIRST");
    unsigned count = wanted ? (unsigned)atoi(wanted) : 40 / kin_test_scale() + 1;
    uint64_t seed = given    ? strtoull(given, NULL, 10)
                    : wanted ? kin_test_seed() % (UINT64_MAX >> 13) * 4096
                             : KNOWN_FIRST + kin_test_seed() % KNOWN;
    const unsigned block = 200;
    for (unsigned i = 0; i < count; i += block) {
        unsigned part = count - i < block ? count - i : block;
        run_real(seed + i, part, 1000);
        memcpy(all, told, sizeof(all));
        const char *real = all + 2;
        for (unsigned k = 0; k < part; k++) {
            run_lab(seed + i + k);
            if (!is_same(real, &real))
                try_again(seed + i + k);
        }
    }
}
