/* SPDX-License-Identifier: MIT */
/*
 * Runs the command line of the lab, or anything else, in a process that is to die.
 */
#ifndef KIN_TEST_LAB_RUN_CHILD_H
#define KIN_TEST_LAB_RUN_CHILD_H

#include "run_main.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

static int how; /* the last child has ended */

/* Runs the command line, or else what, in a process that is to die; its words are in main_out. */
static void run_child(const char *line, void (*what)(void))
{
    int fd = memfd_create("out", 0);
    pid_t pid = fork();
    EXPECT(fd >= 0 && pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        if (line)
            _exit(call_main(line));
        what();
        _exit(0);
    }
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    read_back(fd, main_out, sizeof(main_out));
    fputs(main_out, stdout);
}

static bool says(const char *text)
{
    return strstr(main_out, text) != NULL;
}

static bool died_of(int signo)
{
    return WIFSIGNALED(how) && WTERMSIG(how) == signo;
}

/* The command behind "replay:" in the report, without the program. */
static const char *replay_line(void)
{
    static char line[512];
    const char *at = strstr(main_out, "--replay ");
    EXPECT(at != NULL);
    snprintf(line, sizeof(line), "t %.*s", (int)strcspn(at, "\n"), at);
    return line;
}

static char directory[] = "/tmp/kin-child-XXXXXX"; /* once it is made */

static void remove_directory(void)
{
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", directory);
    EXPECT_EQ(system(command), 0);
}

#endif
