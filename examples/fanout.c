/* SPDX-License-Identifier: MIT */
/*
 * Fan-out and join: the primes below 200,000, counted by eight tasks on all cores.
 *
 * Data first, nursery next, join last. The file from the first include on is the program of
 * README.
 */
#include <kin/kin.h>
#include <stdio.h>

enum { PARTS = 8, PART = 25000 };
struct part {
    int from, primes;
};

static int count(void *arg)
{
    struct part *part = arg;
    for (int n = part->from; n < part->from + PART; n++) {
        int rc = kin_checkpoint(); /* lets others run, notices a cancellation */
        if (rc < 0)
            return rc; /* a failing task cancels its siblings */
        int d = 2;
        while (d * d <= n && n % d != 0)
            d++;
        part->primes += n > 1 && d * d > n;
    }
    return 0;
}

static int count_all(void *primes)
{
    struct part parts[PARTS] = {{0, 0}}; /* data first ... */
    KIN_NURSERY(n);                      /* ... nursery next ... */
    for (int i = 0; i < PARTS; i++) {
        parts[i].from = i * PART;
        int rc = kin_spawn(&n, count, &parts[i]);
        if (rc < 0)
            return rc; /* leaving cancels and joins what was started */
    }
    int rc = kin_nursery_join(&n, NULL); /* ... join last: no task outlives this line */
    for (int i = 0; i < PARTS; i++)
        *(int *)primes += parts[i].primes;
    return rc;
}

int main(void)
{
    int primes = 0, rc = kin_run(NULL, count_all, &primes);
    printf("%d primes below %d, %s\n", primes, PARTS * PART, kin_status_name(rc));
    return rc == 0 && primes == 17984 ? 0 : 1;
}
