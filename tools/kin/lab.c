/* SPDX-License-Identifier: MIT */
/*
 * kin lab: runs programs of the lab, whose main is KIN_LAB_MAIN, with the same options.
 *
 *     kin lab ./t_bank --dpor          kin lab t_bank t_shop --json
 *
 * Everything is done by the programs themselves; this finds them, runs one after the other, and
 * ends with the worst of their statuses. When it is asked to stop, so is the program that runs, and
 * none is begun after it.
 */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: kin lab program ... [options] [test ...]\n"
    "\n"
    "Runs each program with the options; `kin lab program --help` tells which there are.\n"
    "A program of the lab is one whose main is KIN_LAB_MAIN() and that is linked with\n"
    "kin-lab instead of kin.\n"
    "\n"
    "The status is 0 when no test failed, 1 when one did, 2 when a program could not do\n"
    "what was asked; whoever stops it by a signal has all of them stopped.\n";

static volatile sig_atomic_t stop_signal; /* by which it was asked to stop; 0: it was not */
static volatile pid_t running;            /* the program; 0: none */

/* The program tells what it has done, and ends by the same signal. */
static void on_stop(int signo)
{
    const int saved = errno;

    stop_signal = signo;
    if (running)
        (void)kill(running, signo);
    errno = saved;
}

/* One that is ignored stays so. */
static void watch(int signo, void (*to)(int signo))
{
    struct sigaction now;
    struct sigaction action = {.sa_handler = to};

    if (sigaction(signo, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        (void)sigaction(signo, &action, NULL);
}

static void watch_all(void (*to)(int signo))
{
    watch(SIGINT, to);
    watch(SIGTERM, to);
    watch(SIGHUP, to);
}

/* A file that can be run, and not an option. */
static bool is_program(const char *path)
{
    struct stat about;

    return path[0] != '-' && stat(path, &about) == 0 && S_ISREG(about.st_mode) &&
           access(path, X_OK) == 0;
}

/* Whether a program has the lab's main inside, or wants it from a library: by its name, which the
 * dynamic linker needs, or by the first line of what --help prints (src/lab/options.c), which is
 * there when names were stripped. What is no ELF file, such as a script that runs one, is
 * believed. */
static bool is_of_lab(const char *path)
{
    static const char name[] = "kin_lab_main";
    static const char mark[] = "Runs tests under many schedules, finds what breaks one";
    struct stat about;
    bool is_it = true;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0 || fstat(fd, &about) != 0 || about.st_size < 4) {
        if (fd >= 0)
            (void)close(fd);
        return true; /* whoever runs it is told what is wrong */
    }
    const size_t size = (size_t)about.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED) {
        is_it = memcmp(bytes, "\177ELF", 4) != 0 || memmem(bytes, size, mark, strlen(mark)) ||
                memmem(bytes, size, name, strlen(name));
        (void)munmap(bytes, size);
    }
    (void)close(fd);
    return is_it;
}

/* Becomes the program; returns only when that fails, with the status. */
static int become(char *program, char **arguments)
{
    char path[4096];

    if (strchr(program, '/')) {
        snprintf(path, sizeof(path), "%s", program);
    } else {
        snprintf(path, sizeof(path), "./%s", program); /* never one of the search path */
    }
    arguments[0] = path;
    execv(path, arguments);
    fprintf(stderr, "kin lab: %s: %s\n", program, strerror(errno));
    return 2;
}

/* Runs it in a process of its own; its status, or 1 when it died. */
static int run(char *program, char **arguments)
{
    int how = 0;
    sigset_t held, before;
    pid_t self = getpid();

    (void)sigfillset(&held);
    (void)sigprocmask(SIG_SETMASK, &held, &before); /* until everybody knows whom to ask */
    pid_t pid = stop_signal ? -1 : fork();
    if (pid == 0) {
        watch_all(SIG_DFL);
        (void)sigprocmask(SIG_SETMASK, &before, NULL);
        /* It ends with us, who may have ended already. */
        _exit(prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == self
                  ? become(program, arguments)
                  : 2);
    }
    running = pid > 0 ? pid : 0;
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0 && !stop_signal)
        perror("kin lab: fork");
    if (pid < 0)
        return 2;
    siginfo_t about;
    /* Ends: it is our child. It is nobody to ask before its number is free. */
    while (waitid(P_PID, (id_t)pid, &about, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        continue;
    running = 0;
    (void)waitpid(pid, &how, 0);
    if (WIFEXITED(how))
        return WEXITSTATUS(how);
    if (stop_signal && WTERMSIG(how) == stop_signal)
        return 1; /* it has told all there is to tell */
    fprintf(stderr, "kin lab: %s: died of signal %d (%s)\n", program, WTERMSIG(how),
            strsignal(WTERMSIG(how)));
    return 1;
}

int lab_main(int argc, char **argv)
{
    int programs = 0, worst = 0;

    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)) {
        fputs(usage, stdout);
        return 0;
    }
    while (programs < argc && is_program(argv[programs]))
        programs++;
    if (programs == 0) {
        if (argc > 0)
            fprintf(stderr, "kin lab: '%s' is no program that can be run\n", argv[0]);
        else
            fputs(usage, stderr);
        return 2;
    }
    for (int i = 0; i < programs; i++) {
        if (!is_of_lab(argv[i])) {
            fprintf(stderr, "kin lab: '%s' has no tests: its main is not KIN_LAB_MAIN(), or it is "
                            "not linked with kin-lab\n", argv[i]);
            return 2;
        }
    }
    if (programs == 1)
        return become(argv[0], argv);
    watch_all(on_stop);
    for (int i = 0; i < programs && !stop_signal; i++) {
        /* the place before the options becomes the name of each program */
        int status = run(argv[i], argv + programs - 1);
        if (status == 1 || (status > worst && worst != 1))
            worst = status;
    }
    watch_all(SIG_DFL);
    if (stop_signal)
        (void)raise((int)stop_signal);
    return worst;
}
