/* SPDX-License-Identifier: MIT */
/*
 * The peer without any runtime: bench file WORKERS MEBIBYTES ROUNDS.
 *
 * One thread and read(2), in a loop. What is read is described in file_bench.c.
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)128 * 1024)
#define PAGE ((size_t)4096)

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void read_all(int fd, char *buf, int64_t bytes)
{
    if (lseek(fd, 0, SEEK_SET) < 0)
        die("lseek");
    for (int64_t at = 0; at < bytes;) { /* ends: more is read each time */
        ssize_t got = read(fd, buf, PIECE);
        if (got <= 0)
            die("read");
        at += got;
    }
}

int main(int argc, char **argv)
{
    const char *directory = getenv("TMPDIR");
    char path[4096], *buf = aligned_alloc(PAGE, PIECE);
    if (argc < 5 || strcmp(argv[1], "file") != 0 || !buf)
        return 2;
    int64_t bytes = atoll(argv[3]) * 1024 * 1024, rounds = atoll(argv[4]);
    snprintf(path, sizeof path, "%s/kin-bench-%d", directory ? directory : "/tmp", (int)getpid());
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || unlink(path) < 0 || ftruncate(fd, (off_t)bytes) < 0)
        die(path);
    read_all(fd, buf, bytes);
    int64_t start = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int64_t i = 0; i < rounds; i++)
        read_all(fd, buf, bytes);
    double passes = (double)rounds;
    printf("time %.6g ms\n", (double)(clock_ns(CLOCK_MONOTONIC) - start) / 1e6 / passes);
    printf("cpu %.6g ms\n", (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e6 / passes);
    return 0;
}
