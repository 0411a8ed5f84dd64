/* SPDX-License-Identifier: MIT */
/*
 * Runs the command line of the lab as a program would, and keeps what it prints.
 */
#ifndef KIN_TEST_LAB_RUN_MAIN_H
#define KIN_TEST_LAB_RUN_MAIN_H

#include <kin/lab.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char main_out[1 << 16], main_err[1 << 14]; /* of the last call */

static void read_back(int fd, char *to, size_t size)
{
    ssize_t got = pread(fd, to, size - 1, 0);
    to[got > 0 ? got : 0] = '\0';
    close(fd);
}

/* The words of a line, cut at blanks, as arguments; what main returns. */
static int call_main(const char *line)
{
    static char words[2048];
    static char *argv[64];
    int argc = 0;
    snprintf(words, sizeof(words), "%s", line);
    for (char *word = strtok(words, " "); word && argc < 64; word = strtok(NULL, " "))
        argv[argc++] = word;
    return kin_lab_main(argc, argv);
}

/* The same, with what it prints. */
static int run_main(const char *line)
{
    int saved[2] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    int fds[2] = {memfd_create("out", 0), memfd_create("err", 0)};
    dup2(fds[0], STDOUT_FILENO);
    dup2(fds[1], STDERR_FILENO);
    int status = call_main(line);
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    close(saved[0]);
    close(saved[1]);
    read_back(fds[0], main_out, sizeof(main_out));
    read_back(fds[1], main_err, sizeof(main_err));
    fputs(main_out, stdout); /* shown when the test fails */
    fputs(main_err, stdout);
    return status;
}

#endif
