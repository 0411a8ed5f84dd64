/* SPDX-License-Identifier: MIT */
/*
 * Reads a file that is in memory, in pieces, from one end to the other; peers/plain does the same.
 *
 * The file is all hole, so making it writes nothing to a disk; the first pass, which is not
 * counted, brings its pages into memory. It has no name by then.
 */
#include "bench.h"

#include <kin/file.h>
#include <kin/io.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PIECE ((size_t)128 * 1024)
#define PAGE ((size_t)4096)

static int64_t wall(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void read_all(int fd, char *buf, int64_t bytes)
{
    for (int64_t at = 0; at < bytes;) { /* ends: more is read each time */
        ssize_t got = kin_pread(fd, buf, PIECE, at);
        bench_must((int)got, "kin_pread");
        if (got == 0)
            bench_die(-EIO, "the file has become short");
        at += got;
    }
}

static int read_file(void *arg)
{
    const char *directory = getenv("TMPDIR");
    char path[4096];
    int fd;
    (void)arg;
    snprintf(path, sizeof path, "%s/kin-bench-%d", directory ? directory : "/tmp", (int)getpid());
    bench_must(kin_open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &fd), path);
    bench_must(kin_remove(path), "kin_remove");
    int64_t bytes = bench_args.n * 1024 * 1024;
    bench_must(kin_ftruncate(fd, bytes), "kin_ftruncate");
    /* A copy to where malloc puts large things is slower by a half on some CPUs. */
    char *buf = aligned_alloc(PAGE, PIECE);
    if (!buf)
        bench_die(-ENOMEM, "aligned_alloc");
    read_all(fd, buf, bytes);
    int64_t start = wall(), start_cpu = bench_cpu();
    for (int64_t i = 0; i < bench_args.rounds; i++)
        read_all(fd, buf, bytes);
    double rounds = (double)bench_args.rounds;
    bench_print("time", (double)(wall() - start) / 1e6 / rounds, "ms");
    bench_print("cpu", (double)(bench_cpu() - start_cpu) / 1e6 / rounds, "ms");
    free(buf);
    return kin_close(fd);
}

int bench_file(void)
{
    return bench_run(read_file);
}
