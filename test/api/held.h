/* SPDX-License-Identifier: MIT */
/*
 * What tests that go on for long share: what a process holds, how far they are, and chance.
 */
#ifndef KIN_TEST_HELD_H
#define KIN_TEST_HELD_H

#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct held {
    int descriptors, threads, children;
    int64_t heap_bytes, mapped_bytes;
};

static int count_entries(const char *path)
{
    int count = 0;
    DIR *dir = opendir(path);
    EXPECT(dir != NULL);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static int count_threads(void)
{
    return count_entries("/proc/self/task") - 2; /* . and .. are none */
}

__attribute__((unused)) static struct held hold(void)
{
    struct held held = {0};
    long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL);
    EXPECT_EQ(fscanf(file, "%lld", &pages), 1);
    fclose(file);
    held.descriptors = count_descriptors();
    held.threads = count_threads();
    for (int i = 0; i < 1000 && held.threads > 1; i++) {
        usleep(1000); /* a thread that was joined is still seen for a moment */
        held.threads = count_threads();
    }
    held.children = waitpid(-1, NULL, WNOHANG) != -1 || kin_errno() != ECHILD;
    held.mapped_bytes = pages * sysconf(_SC_PAGESIZE);
#if defined(__GLIBC__) && !SANITIZED /* a sanitizer finds leaks itself */
#if __GLIBC_PREREQ(2, 33)
    held.heap_bytes = (int64_t)mallinfo2().uordblks;
#endif
#endif
    return held;
}

/* What the process has of memory right now, while others run. */
struct grown {
    int64_t heap_bytes, resident_bytes;
};

__attribute__((unused)) static struct grown measure_memory(void)
{
    struct grown now = {0, 0};
    long long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL);
    EXPECT_EQ(fscanf(file, "%lld %lld", &all, &resident), 2);
    fclose(file);
    now.resident_bytes = resident * sysconf(_SC_PAGESIZE);
#if defined(__GLIBC__) && !SANITIZED
#if __GLIBC_PREREQ(2, 33)
    now.heap_bytes = (int64_t)mallinfo2().uordblks;
#endif
#endif
    return now;
}

/* Between two moments of a program that does the same thing all the time. A sanitizer keeps what is
 * freed for a while. */
__attribute__((unused)) static void expect_flat(struct grown now, struct grown before,
                                                int64_t resident_most)
{
    EXPECT_LT(now.heap_bytes - before.heap_bytes, 64 * 1024);
    if (!SANITIZED)
        EXPECT_LT(now.resident_bytes - before.resident_bytes, resident_most);
}

/* Call it before anything is held: another thread, another arena, which would look like a leak. */
__attribute__((unused)) static void hold_one_arena(void)
{
    mallopt(M_ARENA_MAX, 1);
}

/* The C library keeps up to 40 MiB of stacks of threads that have ended. */
#define KEPT_MAX (48 * 1024 * 1024)

/* Nothing more is held than before, but for what the allocator and an emulator keep. A thread that
 * was joined may be seen for as long as the machine has no time for its end. */
__attribute__((unused)) static void expect_held(struct held now, struct held before)
{
    EXPECT_EQ(now.descriptors, before.descriptors);
    while (now.threads > before.threads) { /* ends: with the thread, or with the test's time */
        usleep(1000);
        now.threads = count_threads();
    }
    EXPECT_EQ(now.children, 0);
    EXPECT_LT(now.heap_bytes - before.heap_bytes, 32 * 1024);
    if (!SANITIZED)
        EXPECT_LT(now.mapped_bytes - before.mapped_bytes, KEPT_MAX);
}

__attribute__((unused)) static void print_held(struct held held)
{
    printf("%d descriptors, %d threads, %lld bytes of heap, %lld mapped\n", held.descriptors,
           held.threads, (long long)held.heap_bytes, (long long)held.mapped_bytes);
    fflush(stdout);
}

/* Says every few seconds how far it is, and fails as soon as the process grows with what it has
 * done; ends when it is cancelled. */
struct progress {
    const char *what;
    _Atomic int64_t *count;
};

#define SOAK_RESIDENT_MOST (8 * 1024 * 1024) /* stacks that one round needs and another does not */

__attribute__((unused)) static int show_progress(void *arg)
{
    struct progress *progress = arg;
    struct grown first = {0, 0};
    for (int seconds = 5; kin_sleep(kin_after(KIN_SEC(5))) == 0; seconds += 5) {
        struct grown now = measure_memory();
        printf("  %d s: %lld %s, %lld KiB of heap, %lld KiB resident\n", seconds,
               (long long)atomic_load(progress->count), progress->what,
               (long long)now.heap_bytes / 1024, (long long)now.resident_bytes / 1024);
        fflush(stdout);
        if (seconds == 5)
            first = now; /* everything has been used by then */
        EXPECT_LT(now.heap_bytes - first.heap_bytes, 1024 * 1024);
        EXPECT_LT(now.resident_bytes - first.resident_bytes, SOAK_RESIDENT_MOST);
    }
    return 0;
}

/* Random numbers: where the one with this number begins, and how it goes on. */
__attribute__((unused)) static uint64_t first_random(unsigned number)
{
    uint64_t state = kin_test_seed() + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);
    state = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    return (state ^ state >> 31) | 1;
}

__attribute__((unused)) static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* A number in the environment, or what it is without. */
__attribute__((unused)) static int64_t number_or(const char *name, int64_t otherwise)
{
    const char *given = getenv(name);
    return given && *given ? atoll(given) : otherwise;
}

#endif
