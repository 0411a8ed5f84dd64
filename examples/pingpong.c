/* SPDX-License-Identifier: MIT */
/*
 * Ping-pong: two tasks that take turns, once by yielding and once by nurseries.
 *
 * With yields the ball is a word and whoever does not have it lets the other run. That is honest
 * work for the scheduler, but a task that waits this way is never asleep; on two workers it would
 * keep a CPU busy for nothing. So there is one worker, and because no two tasks run at once there
 * the ball needs no atomic. With a nursery each stroke is a child that is spawned and joined: the
 * join parks until the child is over, so nobody waits awake, and any number of workers is fine.
 */
#include <kin/kin.h>

#include <stdio.h>

enum { STROKES = 20000 };

enum { NOBODY = 2 };

struct table {
    int ball; /* whose turn it is: 0 or 1; NOBODY once a player has left */
    int strokes[2];
};

struct player {
    struct table *table;
    int side;
};

static int play(void *arg)
{
    const struct player *player = arg;
    struct table *table = player->table;

    for (int i = 0; i < STROKES; i++) {
        int rc = 0;
        while (rc == 0 && table->ball == 1 - player->side) /* ends: the other plays, or leaves */
            rc = kin_yield();
        if (rc < 0)
            table->ball = NOBODY;
        if (table->ball == NOBODY)
            return rc;
        table->strokes[player->side]++;
        table->ball = 1 - player->side;
    }
    return 0;
}

static int by_yields(void *arg)
{
    struct player players[2] = {{arg, 0}, {arg, 1}};
    KIN_NURSERY(n);

    int rc = kin_spawn(&n, play, &players[0]);
    if (rc == 0)
        rc = kin_spawn(&n, play, &players[1]);
    return kin_nursery_end(&n, rc);
}

static int stroke(void *arg)
{
    int *strokes = arg;

    ++*strokes;
    return 0;
}

static int by_nurseries(void *arg)
{
    struct table *table = arg;

    for (int i = 0; i < 2 * STROKES; i++) {
        KIN_NURSERY(n);
        int rc = kin_spawn(&n, stroke, &table->strokes[i % 2]);
        rc = kin_nursery_end(&n, rc);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Runs one way of playing; true when every stroke was played. */
static bool try(const char *name, unsigned workers, kin_task_fn *fn)
{
    struct table table = {.strokes = {0, 0}};
    struct kin_config config = KIN_CONFIG_INIT;
    kin_time start = kin_now();

    config.workers = workers;
    int rc = kin_run(&config, fn, &table);
    long long us = (long long)(kin_now() - start) / 1000;

    printf("%s: %d + %d strokes in %lld us, %s\n", name, table.strokes[0], table.strokes[1], us,
           kin_status_name(rc));
    return rc == 0 && table.strokes[0] == STROKES && table.strokes[1] == STROKES;
}

int main(void)
{
    bool is_right = try("by yields", 1, by_yields);

    return try("by nurseries", 0, by_nurseries) && is_right ? 0 : 1;
}
