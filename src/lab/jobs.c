/* SPDX-License-Identifier: MIT */
/*
 * Tests in several processes: each prints into memory of its own, which is copied out in order.
 *
 * A process that dies of a signal is a test that failed, unless all of them were asked to stop.
 * One that cannot be started is run here. None outlives the one that started it.
 */
#include "lab/jobs.h"

#include "lab/crash.h"
#include "lab/stop.h"
#include "plat/plat.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void kin__jobs_init(struct kin__jobs *jobs, unsigned max)
{
    jobs->max = max;
    jobs->first = jobs->count = 0;
}

/* Copies what a job printed, without the tally behind it. */
static void copy_output(int fd, off_t size)
{
    char buffer[4096];
    for (off_t at = 0; at < size;) { /* ends: each part is at least one byte */
        size_t want = size - at < (off_t)sizeof(buffer) ? (size_t)(size - at) : sizeof(buffer);
        ssize_t got = pread(fd, buffer, want, at);
        if (got <= 0)
            return;
        kin__main_write(buffer, (size_t)got);
        at += got;
    }
}

static void tell_death(const struct kin__job *job, int how)
{
    char memory[256];
    struct kin__text text;
    if (kin__stop_signal && WIFSIGNALED(how) && WTERMSIG(how) == kin__stop_signal)
        return; /* it has told what it had done */
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s  %s: the process died", kin__stop_signal ? "stop" : "FAIL",
                     job->name);
    if (WIFSIGNALED(how))
        kin__text_printf(&text, " of signal %d (%s)", WTERMSIG(how), strsignal(WTERMSIG(how)));
    kin__text_char(&text, '\n');
    kin__main_say(STDOUT_FILENO, &text);
}

/* Waits for the oldest job and tells it. */
static void finish_first(struct kin__jobs *jobs, struct kin__tally *tally)
{
    struct kin__job *job = &jobs->jobs[jobs->first];
    struct kin__tally its = {0};
    int how = 0;
    kin__stop_reap(job->pid, &how);
    off_t size = lseek(job->fd, 0, SEEK_END) - (off_t)sizeof(its);
    bool is_whole = WIFEXITED(how) && WEXITSTATUS(how) == 0 && size >= 0 &&
                    pread(job->fd, &its, sizeof(its), size) == (ssize_t)sizeof(its);
    if (is_whole) {
        copy_output(job->fd, size);
        tally->passed += its.passed;
        tally->complete += its.complete;
        tally->failed += its.failed;
        tally->errors += its.errors;
        tally->stopped += its.stopped;
        tally->runs += its.runs;
    } else {
        copy_output(job->fd, size + (off_t)sizeof(its));
        tell_death(job, how);
        tally->stopped += kin__stop_signal != 0;
        tally->failed += kin__stop_signal == 0;
    }
    close(job->fd);
    jobs->first = (jobs->first + 1) % KIN__OPTIONS_JOBS;
    jobs->count--;
}

/* The child: prints into fd from here on. */
static _Noreturn void work(int fd, const struct kin__options *options,
                           const struct kin_lab_test *test, kin__job_fn *fn)
{
    struct kin__tally tally = {0};
    bool is_good = dup2(fd, STDOUT_FILENO) >= 0;
    if (is_good) {
        kin__crash_prepare(options);
        (void)fn(options, test, &tally);
        kin__crash_release();
        kin__plat_write(STDOUT_FILENO, (const char *)&tally, sizeof(tally));
    }
    _exit(is_good ? 0 : 1);
}

static bool start_one(struct kin__jobs *jobs, const struct kin__options *options,
                      const struct kin_lab_test *test, kin__job_fn *fn, struct kin__tally *tally)
{
    while (jobs->count == jobs->max) /* ends: each time one fewer */
        finish_first(jobs, tally);
    if (kin__stop_signal)
        return false;
    int fd = memfd_create("kin-lab", MFD_CLOEXEC);
    pid_t pid = fd < 0 ? -1 : kin__stop_fork(true);
    if (pid == 0)
        work(fd, options, test, fn);
    if (pid < 0) {
        if (fd >= 0)
            close(fd);
        (void)fn(options, test, tally);
        return true;
    }
    struct kin__job *job = &jobs->jobs[(jobs->first + jobs->count++) % KIN__OPTIONS_JOBS];
    *job = (struct kin__job){pid, fd, test->name};
    return true;
}

/* Whether its runs are drawn, one for each seed; a search has none that could be dealt out. */
static bool has_parts(const struct kin__options *options, const struct kin_lab_test *test)
{
    const enum kin_lab_strategy strategy =
        options->has_strategy ? options->strategy : test->config.strategy;
    return options->has_seed && strategy != KIN_LAB_DPOR &&
           !(options->faults && !options->has_strategy);
}

bool kin__jobs_start(struct kin__jobs *jobs, const struct kin__options *options,
                     const struct kin_lab_test *test, kin__job_fn *fn, struct kin__tally *tally)
{
    struct kin__options part = *options;
    uint64_t left = has_parts(options, test) ? options->seeds : 1;
    uint64_t each = left / jobs->max + (left % jobs->max != 0);
    if (each < 2)
        return start_one(jobs, options, test, fn, tally);
    for (; left > 0; left -= part.seeds) { /* ends: each has at least one seed */
        part.seeds = left < each ? left : each;
        if (!start_one(jobs, &part, test, fn, tally))
            return part.is_part;
        part.seed += part.seeds;
        part.is_part = true;
    }
    return true;
}

void kin__jobs_finish(struct kin__jobs *jobs, struct kin__tally *tally)
{
    while (jobs->count > 0) /* ends: each time one fewer */
        finish_first(jobs, tally);
}
