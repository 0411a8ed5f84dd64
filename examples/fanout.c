/* SPDX-License-Identifier: MIT */
/*
 * Fan-out and join: eight tasks add up a part of the numbers each, on all cores.
 *
 * Data first, nursery next, join last. From the first include on this is the program of README.md.
 */
#include <kin/kin.h>
#include <stdio.h>

struct part {
    int from, to, sum;
};

static int add(void *arg)
{
    struct part *part = arg;
    for (int i = part->from; i < part->to; i++)
        part->sum += i;
    return 0; /* less than 0 would cancel the other parts */
}

static int add_all(void *total)
{
    struct part parts[8]; /* data first ... */
    int rc = 0;
    KIN_NURSERY(n);       /* ... nursery next ... */
    for (int i = 0; i < 8 && rc == 0; i++) {
        parts[i] = (struct part){i * 1000, (i + 1) * 1000, 0};
        rc = kin_spawn(&n, add, &parts[i]);
    }
    rc = kin_nursery_end(&n, rc); /* ... end last: no task and no error gets past this line */
    for (int i = 0; i < 8 && rc == 0; i++)
        *(int *)total += parts[i].sum;
    return rc;
}

int main(void)
{
    int total = 0, rc = kin_run(NULL, add_all, &total);
    printf("%d (%s)\n", total, kin_status_name(rc));
    return rc == 0 && total == 31996000 ? 0 : 1;
}
