/* SPDX-License-Identifier: MIT */
/*
 * Goal: what the tests of file promise on workers holds in the lab under every strategy.
 * Method: those tests themselves, run by conform.h, in a directory of the simulated disk. One of
 * them reads a file of the machine, and stays outside; one is about bytes and not about schedules.
 */
#define CONFORM_SKIP "a_cancel_keeps_a_call_from_beginning",
#define CONFORM_ONLY_TURNS "large_pieces_arrive_whole",
#include "lab/conform.h"

#include <kin/kin.h>

#include <unistd.h>

static int make_dir(void *path)
{
    return kin_mkdir(path, 0700);
}

static int remove_dir(void *path)
{
    return kin_rmdir(path);
}

static char *make_dir_outside(char *path)
{
    return kin_run(NULL, make_dir, path) == 0 ? path : NULL;
}

static int remove_dir_outside(char *path)
{
    return kin_run(NULL, remove_dir, path);
}

#define kin_test_mkdtemp make_dir_outside
#define rmdir remove_dir_outside
#include "api/file_test.c"
