/* SPDX-License-Identifier: MIT */
/*
 * Goal: programs start with what they are given and nothing else, and failures to start are told.
 * Method: a shell that reports what it sees through a pipe; system features taken away one by one.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "plat/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the loop body with every combination of features that a system may lack. */
#define WITH_EVERY_SYSTEM                                                                          \
    for (int lacks_ = 0; lacks_ < 4; lacks_++)                                                     \
        if (kin__program_force((struct kin__program_lacks){lacks_ & 1, (lacks_ & 2) != 0}), true)

static int reap(const struct kin__child *child)
{
    int wstatus = -1, rc;
    while ((rc = kin__child_reap(child, false, &wstatus)) == 0) /* ends: by the test's alarm */
        usleep(500);
    EXPECT_EQ(rc, 1);
    EXPECT_EQ(kin__child_reap(child, false, &wstatus), -ECHILD);
    if (child->fd >= 0)
        EXPECT_EQ(kin__fd_close(child->fd), 0);
    return wstatus;
}

static struct kin__program program_of(const char *const *argv)
{
    return (struct kin__program){.argv = argv, .fds = {-1, -1, -1}};
}

/* What a shell command writes, with *base as the rest of the program. */
static void output_of(struct kin__program *base, const char *command, char *text, size_t size)
{
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    struct kin__child child;
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    base->argv = argv;
    base->fds[1] = ends[1];
    EXPECT_EQ(kin__program_start(base, &child), 0);
    EXPECT_EQ(close(ends[1]), 0);
    size_t have = 0;
    ssize_t got;
    while (have < size - 1 && (got = read(ends[0], text + have, size - 1 - have)) > 0)
        have += (size_t)got;
    text[have] = '\0';
    EXPECT_EQ(close(ends[0]), 0);
    EXPECT_EQ(reap(&child), 0);
}

KIN_TEST(a_program_runs_and_its_end_is_told, "")
{
    const char *yes[] = {"/bin/true", NULL}, *no[] = {"/bin/false", NULL};
    const char *seven[] = {"/bin/sh", "-c", "exit 7", NULL};
    const char *dies[] = {"/bin/sh", "-c", "kill -9 $$", NULL};
    WITH_EVERY_SYSTEM {
        struct kin__program program = program_of(yes);
        struct kin__child child;
        EXPECT_EQ(kin__program_start(&program, &child), 0);
        EXPECT_GT(child.pid, 0);
        if (lacks_ & 1)
            EXPECT_EQ(child.fd, -1);
        EXPECT_EQ(reap(&child), 0);
        program.argv = no;
        EXPECT_EQ(kin__program_start(&program, &child), 0);
        EXPECT_EQ(WEXITSTATUS(reap(&child)), 1);
        program.argv = seven;
        EXPECT_EQ(kin__program_start(&program, &child), 0);
        int wstatus = reap(&child);
        EXPECT(WIFEXITED(wstatus));
        EXPECT_EQ(WEXITSTATUS(wstatus), 7);
        program.argv = dies;
        EXPECT_EQ(kin__program_start(&program, &child), 0);
        wstatus = reap(&child);
        EXPECT(WIFSIGNALED(wstatus));
        EXPECT_EQ(WTERMSIG(wstatus), SIGKILL);
    }
}

/* No process and no descriptor is left by any of these. */
static void expect_failure(struct kin__program *program, int expected)
{
    struct kin__child child;
    int before = dup(0), status;
    EXPECT_EQ(close(before), 0);
    EXPECT_EQ(kin__program_start(program, &child), expected);
    EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
    int after = dup(0);
    EXPECT_EQ(after, before);
    EXPECT_EQ(close(after), 0);
}

KIN_TEST(a_program_that_cannot_start_is_its_errno, "")
{
    const char *missing[] = {"/nowhere/at-all", NULL}, *unknown[] = {"kin-no-such-program", NULL};
    const char *empty[] = {"", NULL}, *directory[] = {"/", NULL}, *yes[] = {"/bin/true", NULL};
    char name[] = "process_test_XXXXXX";
    int fd = kin_test_mkstemp(name);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(write(fd, "\x7f not a program", 15), 15);
    EXPECT_EQ(fchmod(fd, 0755), 0);
    EXPECT_EQ(close(fd), 0);
    char path[64];
    snprintf(path, sizeof path, "./%s", name);
    const char *broken[] = {path, NULL};
    WITH_EVERY_SYSTEM {
        struct kin__program program = program_of(missing);
        expect_failure(&program, -ENOENT);
        program.argv = unknown;
        expect_failure(&program, -ENOENT);
        program.argv = empty;
        expect_failure(&program, -ENOENT);
        program.argv = directory;
        expect_failure(&program, -EACCES);
        program.argv = broken;
        expect_failure(&program, -ENOEXEC);
        program.argv = yes;
        program.cwd = "/nowhere/at-all";
        expect_failure(&program, -ENOENT);
        program.cwd = NULL;
        program.fds[2] = 999;
        expect_failure(&program, -EBADF);
    }
    EXPECT_EQ(unlink(name), 0);
}

KIN_TEST(want_of_resources_is_told, "")
{
    const char *yes[] = {"true", NULL};
    struct kin__program program = program_of(yes);
    struct kin__child child;
    int ends[2];
    for (uint64_t n = 1; n <= 3; n++) { /* itself, paths, stack */
        kin__plat_fail_after(n, false);
        int rc = kin__program_start(&program, &child);
        EXPECT(rc == -EAGAIN || rc == -ENOMEM);
    }
    kin__plat_fail_after(4, false);
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__pipe_open(ends, 0), -EMFILE);
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__null_open(), -EMFILE);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(reap(&child), 0);
}

/* In a process that may have no further one: itself counts. The superuser is bound by no limit. */
static int start_without_room(void)
{
    const char *yes[] = {"/bin/true", NULL};
    struct kin__program program = program_of(yes);
    struct kin__child child;
    struct rlimit none = {1, 1};
    int before = dup(0), wstatus;
    if (geteuid() == 0 && setuid(65534) != 0)
        return 77;
    if (setrlimit(RLIMIT_NPROC, &none) != 0 || kin__program_start(&program, &child) != -EAGAIN)
        return 1;
    int after = dup(0);
    return after == before + 1 && waitpid(-1, &wstatus, WNOHANG) < 0 ? 0 : 2;
}

KIN_TEST(a_system_without_room_for_a_process_is_told, "")
{
    int wstatus;
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0)
        _exit(start_without_room());
    EXPECT_EQ(waitpid(pid, &wstatus, 0), pid);
    EXPECT(WIFEXITED(wstatus));
    if (WEXITSTATUS(wstatus) == 77)
        KIN_SKIP("there is no user beside the superuser");
    EXPECT_EQ(WEXITSTATUS(wstatus), 0);
}

/* With few descriptors left it starts, or says so and leaves nothing. */
KIN_TEST(want_of_descriptors_is_told, "")
{
    const char *yes[] = {"/bin/true", NULL};
    struct kin__program program = program_of(yes);
    struct rlimit limit;
    int first = dup(0), failed = 0;
    EXPECT_EQ(close(first), 0);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    WITH_EVERY_SYSTEM {
        for (int more = 0; more < 6; more++) {
            struct kin__child child;
            limit.rlim_cur = (rlim_t)(first + more);
            EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
            int rc = kin__program_start(&program, &child);
            if (rc == 0)
                EXPECT_EQ(reap(&child), 0);
            else
                EXPECT_EQ(rc, -EMFILE);
            failed += rc < 0;
        }
        limit.rlim_cur = (rlim_t)first + 20;
        EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
        int after = dup(0), status;
        EXPECT_EQ(after, first);
        EXPECT_EQ(close(after), 0);
        EXPECT_EQ(waitpid(-1, &status, WNOHANG), -1);
    }
    EXPECT_GE(failed, 2 * 4);
}

/* A fork that never execs has copies of whatever was open, the pipe for failures among it. Starts
 * do not wait for it. */
struct holder {
    atomic_int ends;
    pid_t forks[64];
    int count;
};

static void *fork_all_the_time(void *arg)
{
    struct holder *holder = arg;
    while (!atomic_load(&holder->ends) && holder->count < 64) {
        pid_t pid = fork();
        if (pid == 0) {
            for (;;)
                (void)pause();
        }
        EXPECT_GT(pid, 0);
        holder->forks[holder->count++] = pid;
    }
    return NULL;
}

KIN_TEST(forks_of_others_delay_nobody, "")
{
    const char *yes[] = {"/bin/true", NULL};
    struct kin__program program = program_of(yes);
    struct holder holder = {.count = 0};
    struct kin__child child;
    pthread_t thread;
    int wstatus;
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(reap(&child), 0);
    if (!kin__program_shares())
        KIN_SKIP("an emulator makes a copy of the memory: the pipe has to be waited for");
    EXPECT_EQ(pthread_create(&thread, NULL, fork_all_the_time, &holder), 0);
    for (int i = 0; i < 30; i++) { /* each would wait for ever for the pipe to close */
        EXPECT_EQ(kin__program_start(&program, &child), 0);
        EXPECT_EQ(reap(&child), 0);
    }
    atomic_store(&holder.ends, 1);
    EXPECT_EQ(pthread_join(thread, NULL), 0);
    for (int i = 0; i < holder.count; i++) {
        EXPECT_EQ(kill(holder.forks[i], SIGKILL), 0);
        EXPECT_EQ(waitpid(holder.forks[i], &wstatus, 0), holder.forks[i]);
    }
}

KIN_TEST(names_are_looked_for_in_the_path, "")
{
    struct kin__child child;
    const char *yes[] = {"true", NULL};
    struct kin__program program = program_of(yes);
    EXPECT_EQ(setenv("PATH", "/nowhere:/dev/null:/:/bin:/usr/bin", 1), 0);
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(reap(&child), 0);
    EXPECT_EQ(unsetenv("PATH"), 0);
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(reap(&child), 0);
    EXPECT_EQ(setenv("PATH", "", 1), 0); /* the current directory */
    expect_failure(&program, -ENOENT);
    program.cwd = "/bin";
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(reap(&child), 0);
    char room[] = "process_test_XXXXXX", path[64];
    EXPECT(kin_test_mkdtemp(room) != NULL); /* a file that is there, but is no program */
    snprintf(path, sizeof path, "%s/true", room);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(close(fd), 0);
    EXPECT_EQ(setenv("PATH", room, 1), 0);
    program.cwd = NULL;
    expect_failure(&program, -EACCES);
    snprintf(path, sizeof path, "%s:/bin", room);
    EXPECT_EQ(setenv("PATH", path, 1), 0);
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(reap(&child), 0);
    snprintf(path, sizeof path, "%s/true", room);
    EXPECT_EQ(unlink(path), 0);
    EXPECT_EQ(rmdir(room), 0);
}

KIN_TEST(environment_and_directory_are_as_given, "")
{
    const char *env[] = {"COLOUR=blue", "PATH=/bin:/usr/bin", NULL};
    struct kin__program program = program_of(NULL);
    char text[512];
    EXPECT_EQ(setenv("KIN_PROCESS_TEST", "here", 1), 0);
    output_of(&program, "echo \"$KIN_PROCESS_TEST,$COLOUR\"", text, sizeof text);
    EXPECT_STR(text, "here,\n");
    program.env = env;
    program.cwd = "/usr";
    output_of(&program, "echo \"$KIN_PROCESS_TEST,$COLOUR\"; pwd", text, sizeof text);
    EXPECT_STR(text, ",blue\n/usr\n");
}

KIN_TEST(no_other_descriptor_gets_in, "")
{
    struct kin__program program = program_of(NULL);
    char text[512];
    int fds[20];
    for (int i = 0; i < 20; i++) /* not close-on-exec */
        EXPECT_GE(fds[i] = open("/dev/null", O_RDONLY), 0);
    EXPECT_GE(dup2(0, 200), 0);
    WITH_EVERY_SYSTEM {
        output_of(&program, "ls /proc/self/fd | sort -n | tr '\\n' ' '", text, sizeof text);
        EXPECT_STR(text, "0 1 2 3 "); /* 3 is the directory itself */
    }
}

KIN_TEST(descriptors_may_trade_places, "")
{
    struct kin__program program = program_of(NULL);
    int in[2], out[2];
    char text[64] = {0};
    struct kin__child child;
    const char *argv[] = {"/bin/sh", "-c", "read line; echo got $line; echo err >&2", NULL};
    EXPECT_EQ(pipe(in), 0);
    EXPECT_EQ(pipe(out), 0);
    int keep = dup(2);
    EXPECT_GE(keep, 0);
    EXPECT_EQ(write(in[1], "it\n", 3), 3);
    EXPECT_EQ(dup2(out[1], 0), 0); /* its output is our 0, its input our 1 */
    EXPECT_EQ(dup2(in[0], 1), 1);
    program.argv = argv;
    program.fds[0] = 1;
    program.fds[1] = 0;
    program.fds[2] = 0;
    int rc = kin__program_start(&program, &child);
    EXPECT_EQ(rc, 0);
    EXPECT_EQ(reap(&child), 0);
    EXPECT_EQ(read(out[0], text, sizeof text - 1), 11);
    EXPECT_STR(text, "got it\nerr\n");
}

KIN_TEST(it_starts_without_standard_descriptors_of_our_own, "")
{
    struct kin__program program = program_of(NULL);
    const char *argv[] = {"/bin/sh", "-c", "echo hello", NULL};
    struct kin__child child;
    char text[64] = {0};
    int ends[2], keep = dup(2);
    EXPECT_GE(keep, 3);
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_GE(ends[0], 3);
    EXPECT_EQ(close(0), 0);
    EXPECT_EQ(close(1), 0);
    program.argv = argv;
    program.fds[1] = ends[1];
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(reap(&child), 0);
    EXPECT_EQ(read(ends[0], text, sizeof text - 1), 6);
    EXPECT_STR(text, "hello\n");
}

static void handle(int signo)
{
    (void)signo;
}

KIN_TEST(signals_are_at_their_default_and_open, "")
{
    EXPECT(signal(SIGINT, SIG_DFL) != SIG_ERR);
    EXPECT(signal(SIGQUIT, SIG_DFL) != SIG_ERR);
    struct kin__program program = program_of(NULL);
    char text[512];
    sigset_t all, before, blocked, now;
    EXPECT(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    EXPECT(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    EXPECT(signal(SIGUSR1, handle) != SIG_ERR);
    sigfillset(&all);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &blocked), 0);
    output_of(&program, "grep -E 'SigBlk|SigIgn' /proc/self/status", text, sizeof text);
    EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &before, &now), 0);
    unsigned long long closed = ~0ull, ignored = ~0ull;
    EXPECT_EQ(sscanf(text, "SigBlk: %llx SigIgn: %llx", &closed, &ignored), 2);
    EXPECT_EQ(closed, 0);
    /* but for SIGHUP: nohup means whatever descends from it. Signals 32 and 33 belong to the C
       library, and an emulator lets nobody change what it inherited of them. */
    EXPECT_EQ(ignored & ~(3ull << 31), 1);
    for (int signo = 1; signo <= SIGRTMAX; signo++) /* our own mask is as it was */
        EXPECT_EQ(sigismember(&now, signo), sigismember(&blocked, signo));
    struct sigaction action;
    EXPECT_EQ(sigaction(SIGUSR1, NULL, &action), 0);
    EXPECT(action.sa_handler == handle);
    EXPECT_EQ(sigaction(SIGHUP, NULL, &action), 0);
    EXPECT(action.sa_handler == SIG_IGN);
}

KIN_TEST(groups_and_sessions, "")
{
    struct kin__program program = program_of(NULL);
    const char *argv[] = {"/bin/sleep", "100", NULL};
    struct kin__child child;
    program.argv = argv;
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(getpgid(child.pid), getpgid(0));
    EXPECT_EQ(kin__child_signal(&child, SIGKILL, false), 0);
    EXPECT_EQ(WTERMSIG(reap(&child)), SIGKILL);
    program.group = KIN__PROGRAM_GROUP;
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(getpgid(child.pid), child.pid);
    EXPECT_EQ(getsid(child.pid), getsid(0));
    EXPECT_EQ(kin__child_signal(&child, SIGTERM, true), 0);
    EXPECT_EQ(WTERMSIG(reap(&child)), SIGTERM);
    program.group = KIN__PROGRAM_SESSION;
    EXPECT_EQ(kin__program_start(&program, &child), 0);
    EXPECT_EQ(getpgid(child.pid), child.pid);
    EXPECT_EQ(getsid(child.pid), child.pid);
    EXPECT_EQ(kin__child_signal(&child, SIGTERM, true), 0);
    EXPECT_EQ(WTERMSIG(reap(&child)), SIGTERM);
}

KIN_TEST(looking_need_not_reap, "")
{
    WITH_EVERY_SYSTEM {
        const char *argv[] = {"/bin/sleep", "100", NULL};
        struct kin__program program = program_of(argv);
        struct kin__child child;
        int wstatus = -1;
        EXPECT_EQ(kin__program_start(&program, &child), 0);
        EXPECT_EQ(kin__child_reap(&child, true, &wstatus), 0);
        EXPECT_EQ(kin__child_reap(&child, false, &wstatus), 0);
        EXPECT_EQ(kin__child_signal(&child, 0, false), 0);
        EXPECT_EQ(kin__child_signal(&child, SIGTERM, false), 0);
        while (kin__child_reap(&child, true, &wstatus) == 0) /* ends: by the test's alarm */
            usleep(500);
        EXPECT_EQ(WTERMSIG(wstatus), SIGTERM);
        EXPECT_EQ(WTERMSIG(reap(&child)), SIGTERM);
    }
}

/* Several threads at once: the clones do not disturb each other or those that only work. */
enum { THREADS = 4, EACH = 10 };

static void *start_many(void *arg)
{
    const char *argv[] = {"/bin/true", NULL};
    struct kin__program program = program_of(argv);
    for (int i = 0; i < EACH; i++) {
        struct kin__child child;
        EXPECT_EQ(kin__program_start(&program, &child), 0);
        EXPECT_EQ(reap(&child), 0);
    }
    return arg;
}

KIN_TEST(several_threads_start_programs, "")
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, start_many, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
}

KIN_TEST(our_end_of_a_pipe_does_not_block, "")
{
    int ends[2];
    char byte;
    for (int ours = 0; ours < 2; ours++) {
        EXPECT_EQ(kin__pipe_open(ends, ours), 0);
        for (int i = 0; i < 2; i++) {
            EXPECT_EQ(fcntl(ends[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
            EXPECT_EQ((fcntl(ends[i], F_GETFL) & O_NONBLOCK) != 0, i == ours);
        }
        EXPECT_EQ(close(ends[0]), 0);
        EXPECT_EQ(close(ends[1]), 0);
    }
    int null = kin__null_open();
    EXPECT_GE(null, 0);
    EXPECT_EQ(read(null, &byte, 1), 0);
    EXPECT_EQ(write(null, &byte, 1), 1);
    EXPECT_EQ(close(null), 0);
}
