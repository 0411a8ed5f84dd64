/* SPDX-License-Identifier: MIT */
/*
 * A program of a user: a hundred tasks in a nursery, joined. Compiled as C11 against kin as it is
 * installed, embedded or amalgamated; it prints the version and exits with 0 when the sum is right.
 */
#ifdef KIN_SINGLE_FILE
#include "kin.h"
#else
#include <kin/kin.h>
#endif

#include <stdio.h>

enum { TASKS = 100 };

struct work {
    int input;
    int output;
};

static int square(void *arg)
{
    struct work *work = arg;

    kin_ignore(kin_yield());
    work->output = work->input * work->input;
    return 0;
}

static int squares(void *arg)
{
    struct work work[TASKS];
    int *sum = arg;
    KIN_NURSERY(n, .name = "squares");

    for (int i = 0; i < TASKS; i++) {
        work[i] = (struct work){.input = i, .output = -1};
        int rc = kin_spawn(&n, square, &work[i]);
        if (rc < 0)
            return rc;
    }
    int rc = kin_nursery_join(&n, NULL);
    for (int i = 0; i < TASKS; i++)
        *sum += work[i].output;
    return rc;
}

int main(void)
{
    int sum = 0;
    int rc = kin_run(NULL, squares, &sum);

    printf("kin %s: %s, sum %d\n", kin_version(), kin_status_name(rc), sum);
    return rc == 0 && sum == 328350 ? 0 : 1;
}
