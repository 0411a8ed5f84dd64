/* SPDX-License-Identifier: MIT */
/*
 * Runs the explorations of a harness.
 */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t outcomes;

void harness_outcome(unsigned number)
{
    outcomes |= UINT64_C(1) << number;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may use the CPU, too */
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Indented, so that nobody takes it for the line of a test. */
static void print_text(int rc, const char *text)
{
    printf("     status %d\n", rc);
    while (*text) {
        int length = (int)strcspn(text, "\n");
        printf("     %.*s\n", length, text);
        text += length + (text[length] == '\n');
    }
}

static bool run(const struct harness *h)
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    struct kin_atoms_report report;
    const char *random = getenv("KIN_ATOMS_RANDOM"), *memory = getenv("KIN_ATOMS_MEMORY");
    config.name = h->name;
    config.memory = h->memory;
    config.preemptions = h->preemptions;
    config.stale_max = h->stale_max;
    config.executions_max = h->executions_max;
    if (memory)
        config.memory = (enum kin_atoms_memory)(memory[0] - '0');
    if (getenv("KIN_ATOMS_DFS"))
        config.strategy = KIN_ATOMS_DFS;
    if (random) {
        config.strategy = KIN_ATOMS_RANDOM;
        config.executions_max = strtoull(random, NULL, 10);
    }
    bool is_quick = getenv("KIN_ATOMS_QUICK") != NULL;
    if (is_quick)
        config.executions_max = 20000;
    outcomes = 0;
    double begin = now();
    int rc = kin_atoms_run(&config, h->begin, h->end, h->arg, &report);
    double seconds = now() - begin;
    unsigned long long all = report.executions + report.redundant;
    bool is_whole = report.exhausted || random || is_quick;
    bool is_right = (!h->executions || h->executions == report.executions || !report.exhausted) &&
                    (!h->outcomes || h->outcomes == outcomes);
    printf("%s %s %llu executions, %llu given up, %llu steps each, %.2f s, %.0f per second%s%s\n",
           rc == 0 && is_whole && is_right ? "ok  " : "FAIL", h->name,
           (unsigned long long)report.executions, (unsigned long long)report.redundant,
           (unsigned long long)(report.executions ? report.steps / all : 0), seconds,
           seconds > 0 ? (double)all / seconds : 0,
           is_whole || rc ? "" : ": not all of them",
           is_right ? "" : ": something else was expected");
    if (h->outcomes && h->outcomes != outcomes)
        printf("     outcomes %#llx instead of %#llx\n", (unsigned long long)outcomes,
               (unsigned long long)h->outcomes);
    if (rc < 0)
        print_text(rc, report.text);
    fflush(stdout);
    return rc == 0 && is_whole && is_right;
}

int main(int argc, char **argv)
{
    bool is_deep = getenv("KIN_ATOMS_DEEP") != NULL;
    int passed = 0, failed = 0;
    for (const struct harness *h = harnesses; h->name; h++) {
        if ((argc > 1 && !strstr(h->name, argv[1])) || (h->is_deep && !is_deep))
            continue;
        if (run(h))
            passed++;
        else
            failed++;
        if (failed && getenv("KIN_ATOMS_FIRST"))
            break;
    }
    printf("%s: %d passed, %d failed, 0 skipped\n", argv[0], passed, failed);
    return failed != 0;
}

/* Threads of a harness work for nobody: they lack nothing, and nobody pays for what they make. */
uint32_t kin__thread_lacks(void);
uint32_t kin__thread_lacks(void)
{
    return 0;
}

void *kin__thread_client(void);
void *kin__thread_client(void)
{
    return NULL;
}
