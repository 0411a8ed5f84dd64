/* SPDX-License-Identifier: MIT */
/*
 * kin lab: runs programs of the lab, whose main is KIN_LAB_MAIN, with the same options.
 *
 *     kin lab ./t_bank --dpor          kin lab t_bank t_shop --json
 *
 * Everything is done by the programs themselves; this finds them, runs one after the other, and
 * ends with the worst of their statuses.
 */
#include "tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
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
    "what was asked.\n";

/* A file that can be run, and not an option. */
static bool is_program(const char *path)
{
    struct stat about;

    return path[0] != '-' && stat(path, &about) == 0 && S_ISREG(about.st_mode) &&
           access(path, X_OK) == 0;
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
    pid_t pid = fork();

    if (pid == 0)
        _exit(become(program, arguments));
    if (pid < 0) {
        perror("kin lab: fork");
        return 2;
    }
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR) /* ends: it is our child */
        continue;
    if (WIFEXITED(how))
        return WEXITSTATUS(how);
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
    if (programs == 1)
        return become(argv[0], argv);
    for (int i = 0; i < programs; i++) {
        /* the place before the options becomes the name of each program */
        int status = run(argv[i], argv + programs - 1);
        if (status == 1 || (status > worst && worst != 1))
            worst = status;
    }
    return worst;
}
