/* SPDX-License-Identifier: MIT */
/*
 * Tests in several processes: each prints into memory of its own, which is copied out in order.
 *
 * A process that dies of a signal is a test that failed. One that cannot be started is run here.
 * None outlives the one that started it.
 */
#include "lab/jobs.h"

#include "plat/plat.h"

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "FAIL  %s: the process died", job->name);
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
    while (waitpid(job->pid, &how, 0) < 0) /* ends: it is our child; only signals interrupt */
        continue;
    off_t size = lseek(job->fd, 0, SEEK_END) - (off_t)sizeof(its);
    bool is_whole = WIFEXITED(how) && WEXITSTATUS(how) == 0 && size >= 0 &&
                    pread(job->fd, &its, sizeof(its), size) == (ssize_t)sizeof(its);
    if (is_whole) {
        copy_output(job->fd, size);
        tally->passed += its.passed;
        tally->complete += its.complete;
        tally->failed += its.failed;
        tally->errors += its.errors;
        tally->runs += its.runs;
    } else {
        copy_output(job->fd, size + (off_t)sizeof(its));
        tell_death(job, how);
        tally->failed++;
    }
    close(job->fd);
    jobs->first = (jobs->first + 1) % KIN__OPTIONS_JOBS;
    jobs->count--;
}

/* The child: prints into fd from here on, and dies with its parent, which may be dead already. */
static _Noreturn void work(int fd, pid_t parent, const struct kin__options *options,
                           const struct kin_lab_test *test, kin__job_fn *fn)
{
    struct kin__tally tally = {0};
    bool is_good = prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent &&
                   dup2(fd, STDOUT_FILENO) >= 0;
    if (is_good) {
        (void)fn(options, test, &tally);
        kin__plat_write(STDOUT_FILENO, (const char *)&tally, sizeof(tally));
    }
    _exit(is_good ? 0 : 1);
}

static void start_one(struct kin__jobs *jobs, const struct kin__options *options,
                      const struct kin_lab_test *test, kin__job_fn *fn, struct kin__tally *tally)
{
    while (jobs->count == jobs->max) /* ends: each time one fewer */
        finish_first(jobs, tally);
    int fd = memfd_create("kin-lab", MFD_CLOEXEC);
    pid_t self = getpid(), pid = fd < 0 ? -1 : fork();
    if (pid == 0)
        work(fd, self, options, test, fn);
    if (pid < 0) {
        if (fd >= 0)
            close(fd);
        (void)fn(options, test, tally);
        return;
    }
    struct kin__job *job = &jobs->jobs[(jobs->first + jobs->count++) % KIN__OPTIONS_JOBS];
    *job = (struct kin__job){pid, fd, test->name};
}

void kin__jobs_start(struct kin__jobs *jobs, const struct kin__options *options,
                     const struct kin_lab_test *test, kin__job_fn *fn, struct kin__tally *tally)
{
    struct kin__options part = *options;
    uint64_t left = options->has_seed ? options->seeds : 1;
    uint64_t each = (left + jobs->max - 1) / jobs->max;
    if (!options->has_seed || each < 2) {
        start_one(jobs, options, test, fn, tally);
        return;
    }
    for (; left > 0; left -= part.seeds) { /* ends: each has at least one seed */
        part.seeds = left < each ? left : each;
        start_one(jobs, &part, test, fn, tally);
        part.seed += part.seeds;
        part.is_part = true;
    }
}

void kin__jobs_finish(struct kin__jobs *jobs, struct kin__tally *tally)
{
    while (jobs->count > 0) /* ends: each time one fewer */
        finish_first(jobs, tally);
}
