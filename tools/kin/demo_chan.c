/* SPDX-License-Identifier: MIT */
/*
 * The station about channels: a rendezvous, a pipeline, a select.
 */
#include "tool.h"

#include <stdio.h>

enum { STAGES = 4, ROOM = 128, SOURCES = 4 };

/* ---- a rendezvous: every operation switches to the partner ---- */

struct table {
    struct kin_chan *there, *back;
    unsigned strokes;
    int64_t ns;
};

static int answer(void *arg)
{
    const struct table *table = arg;
    unsigned ball;
    int rc;

    while ((rc = kin_chan_recv(table->there, &ball, KIN_NEVER)) == 0) {
        rc = kin_chan_send(table->back, &ball, KIN_NEVER);
        if (rc < 0)
            return rc;
    }
    return rc == KIN_CLOSED ? 0 : rc;
}

static int serve(void *arg)
{
    struct table *table = arg;
    KIN_NURSERY(n);
    int rc = kin_spawn(&n, answer, table);
    kin_time start = kin_now();

    for (unsigned i = 0; i < table->strokes && rc == 0; i++) {
        unsigned ball = i;
        rc = kin_chan_send(table->there, &ball, KIN_NEVER);
        if (rc == 0)
            rc = kin_chan_recv(table->back, &ball, KIN_NEVER);
        if (rc == 0 && ball != i)
            rc = KIN_PANICKED;
    }
    table->ns = kin_now() - start;
    kin_chan_close(table->there);
    return kin_nursery_end(&n, rc);
}

/* ---- a pipeline: each stage adds one, the last one adds up ---- */

struct pipeline {
    struct kin_chan *chans[STAGES];
    unsigned count;
    uint64_t sum;
    int64_t ns;
};

struct stage {
    struct kin_chan *from, *to;
};

static int pass_on(void *arg)
{
    const struct stage *stage = arg;
    uint64_t number;
    int rc;

    while ((rc = kin_chan_recv(stage->from, &number, KIN_NEVER)) == 0) {
        number++;
        rc = kin_chan_send(stage->to, &number, KIN_NEVER);
        if (rc < 0)
            break;
    }
    kin_chan_close(stage->to);
    return rc == KIN_CLOSED ? 0 : rc;
}

static int fill(void *arg)
{
    const struct pipeline *pipeline = arg;
    int rc = 0;

    for (uint64_t i = 0; i < pipeline->count && rc == 0; i++)
        rc = kin_chan_send(pipeline->chans[0], &i, KIN_NEVER);
    kin_chan_close(pipeline->chans[0]);
    return rc;
}

static int flow(void *arg)
{
    struct pipeline *pipeline = arg;
    struct stage stages[STAGES - 1];
    uint64_t number;
    KIN_NURSERY(n, .name = "pipeline");
    kin_time start = kin_now();
    int rc = kin_spawn(&n, fill, pipeline);

    for (unsigned i = 0; i < STAGES - 1 && rc == 0; i++) {
        stages[i] = (struct stage){pipeline->chans[i], pipeline->chans[i + 1]};
        rc = kin_spawn(&n, pass_on, &stages[i]);
    }
    while (rc == 0 && (rc = kin_chan_recv(pipeline->chans[STAGES - 1], &number, KIN_NEVER)) == 0)
        pipeline->sum += number;
    rc = kin_nursery_end(&n, rc == KIN_CLOSED ? 0 : rc); /* closed: all numbers are there */
    pipeline->ns = kin_now() - start;
    return rc;
}

/* ---- a select: whoever has something is served ---- */

struct counter {
    struct kin_chan *sources[SOURCES];
    struct kin_event is_empty; /* set when every source is dry */
    unsigned each;
    unsigned served[SOURCES];
    unsigned first_half[SOURCES]; /* served when half of all were */
    int64_t ns;
};

struct source {
    struct kin_chan *to;
    unsigned count;
};

static int supply(void *arg)
{
    const struct source *source = arg;
    int rc = 0;

    for (unsigned i = 0; i < source->count && rc == 0; i++)
        rc = kin_chan_send(source->to, &i, KIN_NEVER);
    kin_chan_close(source->to);
    return rc;
}

/* Serves until every channel is closed. A case on NULL never happens. */
static int attend(void *arg)
{
    struct counter *counter = arg;
    struct kin_chan *open[SOURCES];
    unsigned left = SOURCES, served = 0, item;

    for (unsigned i = 0; i < SOURCES; i++)
        open[i] = counter->sources[i];
    while (left > 0) { /* ends: every source closes its channel */
        struct kin_case cases[SOURCES];
        for (unsigned i = 0; i < SOURCES; i++)
            cases[i] = kin_case_recv(open[i], &item);
        int index = kin_select(cases, SOURCES, KIN_NEVER);
        if (index < 0)
            return index;
        if (cases[index].status == KIN_CLOSED) {
            open[index] = NULL;
            left--;
            continue;
        }
        counter->served[index]++;
        if (++served == counter->each * SOURCES / 2) {
            for (unsigned i = 0; i < SOURCES; i++)
                counter->first_half[i] = counter->served[i];
        }
    }
    kin_event_set(&counter->is_empty);
    return 0;
}

static int attend_all(void *arg)
{
    struct counter *counter = arg;
    struct source sources[SOURCES];
    KIN_NURSERY(n, .name = "counter");
    kin_time start = kin_now();
    int rc = kin_spawn(&n, attend, counter);

    for (unsigned i = 0; i < SOURCES && rc == 0; i++) {
        sources[i] = (struct source){counter->sources[i], counter->each};
        rc = kin_spawn(&n, supply, &sources[i]);
    }
    if (rc == 0)
        rc = kin_event_wait(&counter->is_empty, KIN_NEVER);
    rc = kin_nursery_end(&n, rc);
    counter->ns = kin_now() - start;
    return rc;
}

/* ---- the station ---- */

static int make_chans(struct kin_chan **chans, unsigned count, size_t size, size_t room)
{
    int rc = 0;

    for (unsigned i = 0; i < count && rc == 0; i++)
        rc = kin_chan_create(&chans[i], size, room);
    return rc;
}

static void drop_chans(struct kin_chan **chans, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        kin_chan_unref(chans[i]);
        chans[i] = NULL;
    }
}

static int show_rendezvous(unsigned scale)
{
    struct table table = {.strokes = 50000 * scale};
    struct kin_chan *chans[2] = {NULL, NULL};
    int rc = make_chans(chans, 2, sizeof(unsigned), 0);

    table.there = chans[0];
    table.back = chans[1];
    if (rc == 0)
        rc = demo_run(1, serve, &table);
    drop_chans(chans, 2);
    if (rc == 0)
        print_figure("rendezvous", "%s per operation",
                     text_ns((double)table.ns / (double)table.strokes / 4));
    return rc;
}

static int show_pipeline(unsigned workers, const char *name, unsigned scale)
{
    struct pipeline pipeline = {.count = 50000 * scale};
    uint64_t last = pipeline.count - 1;
    int rc = make_chans(pipeline.chans, STAGES, sizeof(uint64_t), ROOM);

    if (rc == 0)
        rc = demo_run(workers, flow, &pipeline);
    drop_chans(pipeline.chans, STAGES);
    if (rc < 0)
        return rc;
    if (pipeline.sum != last * (last + 1) / 2 + pipeline.count * (uint64_t)(STAGES - 1))
        return demo_wrong("the sum at the end of the pipeline is not right", KIN_PANICKED);
    print_figure(name, "%s per number and channel",
                 text_ns((double)pipeline.ns / (double)pipeline.count / STAGES));
    return 0;
}

static int show_select(unsigned scale)
{
    struct counter counter = {.each = 10000 * scale};
    int rc = make_chans(counter.sources, SOURCES, sizeof(unsigned), 0);

    if (rc == 0)
        rc = demo_run(1, attend_all, &counter);
    drop_chans(counter.sources, SOURCES);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < SOURCES; i++) {
        if (counter.served[i] != counter.each)
            return demo_wrong("a source was not served to its end", KIN_PANICKED);
    }
    print_figure("select over 4", "%s per item",
                 text_ns((double)counter.ns / (double)counter.each / SOURCES));
    print_figure("half way each had had", "%s, %s, %s, %s", text_count(counter.first_half[0]),
                 text_count(counter.first_half[1]), text_count(counter.first_half[2]),
                 text_count(counter.first_half[3]));
    return 0;
}

int demo_channels(const struct tour *tour)
{
    unsigned scale = tour->is_quick ? 1 : 10;

    print_text(
        "Two tasks hand a ball to and fro over channels without room: each operation switches to "
        "the partner, who sleeps meanwhile. Then numbers flow through %u channels with room for "
        "%u, and one task selects among %u sources; whoever is ready is served, each equally "
        "often.",
        (unsigned)STAGES, (unsigned)ROOM, (unsigned)SOURCES);
    int rc = show_rendezvous(scale);
    if (rc == 0)
        rc = show_pipeline(1, "pipeline, 1 worker", scale);
    if (rc == 0)
        rc = show_pipeline(0, "pipeline, all workers", scale);
    if (rc == 0)
        rc = show_select(scale);
    return rc;
}
