/* SPDX-License-Identifier: MIT */
/*
 * A pipeline: numbers go through stages, each of several workers, with a channel between any two.
 *
 *     generate --numbers--> square x 3 --squares--> sum
 *
 * The channels are small, so that a slow stage slows the stages before it down instead of filling
 * memory. A stage closes its output when its last worker is over; close ends admission and never
 * loses an item, so the end of the input travels down the pipeline behind the last number.
 */
#include <kin/kin.h>

#include <inttypes.h>
#include <stdio.h>

enum { NUMBERS = 100000, SQUARERS = 3 };

struct pipeline {
    struct kin_chan *numbers, *squares;
    int64_t sum, count;
};

static int generate(void *arg)
{
    const struct pipeline *p = arg;
    int rc = 0;

    for (int64_t i = 1; i <= NUMBERS && rc == 0; i++)
        rc = kin_chan_send(p->numbers, &i, KIN_NEVER);
    kin_chan_close(p->numbers);
    return rc;
}

static int square(void *arg)
{
    const struct pipeline *p = arg;
    int64_t number;
    int rc;

    while ((rc = kin_chan_recv(p->numbers, &number, KIN_NEVER)) == 0) {
        number *= number;
        rc = kin_chan_send(p->squares, &number, KIN_NEVER);
        if (rc < 0)
            return rc;
    }
    return rc == KIN_CLOSED ? 0 : rc;
}

/* A stage: its workers, and the end of its output when all of them are over. */
static int square_all(void *arg)
{
    const struct pipeline *p = arg;
    int rc = 0;
    KIN_NURSERY(n, .name = "squarers");

    for (int i = 0; i < SQUARERS && rc == 0; i++)
        rc = kin_spawn(&n, square, arg);
    rc = kin_nursery_end(&n, rc);
    kin_chan_close(p->squares);
    return rc;
}

static int sum_up(struct pipeline *p)
{
    int64_t number;
    int rc;

    while ((rc = kin_chan_recv(p->squares, &number, KIN_NEVER)) == 0) {
        p->sum += number;
        p->count++;
    }
    return rc == KIN_CLOSED ? 0 : rc;
}

static int run_pipeline(void *arg)
{
    struct pipeline *p = arg;
    int rc = kin_chan_create(&p->numbers, sizeof(int64_t), 64);

    if (rc == 0)
        rc = kin_chan_create(&p->squares, sizeof(int64_t), 64);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n, .name = "pipeline");
    rc = kin_spawn(&n, generate, p);
    if (rc == 0)
        rc = kin_spawn(&n, square_all, p);
    if (rc == 0)
        rc = sum_up(p);
    return kin_nursery_end(&n, rc);
}

int main(void)
{
    struct pipeline p = {NULL, NULL, 0, 0};
    int64_t expected = (int64_t)NUMBERS * (NUMBERS + 1) / 2 * (2 * NUMBERS + 1) / 3;
    kin_time start = kin_now();
    int rc = kin_run(NULL, run_pipeline, &p);
    long long us = (long long)(kin_now() - start) / 1000;

    kin_chan_unref(p.squares);
    kin_chan_unref(p.numbers);
    printf("%" PRId64 " squares in %lld us, their sum is %" PRId64 ", %s\n", p.count, us, p.sum,
           kin_status_name(rc));
    return rc == 0 && p.count == NUMBERS && p.sum == expected ? 0 : 1;
}
