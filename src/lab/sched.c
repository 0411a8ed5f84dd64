/* SPDX-License-Identifier: MIT */
/*
 * The life of a runtime in the lab: one scheduler with one worker, kept from run to run.
 */
#include "lab/world.h"

#include "lab/net.h"
#include "lab/oracle.h"
#include "lab/report.h"
#include "otp/party.h"
#include "sched/report.h"
#include "wait/timer.h"

#include <errno.h>

_Atomic(struct kin__sched *) kin__scheds[KIN__SCHEDS_MAX];

#define NUMBER 1u /* of the one there is */

static bool is_alone; /* kin_run was called outside of kin_lab_run: it is an execution by itself */

/* Makes what is kept. */
static int make(const struct kin__source *source)
{
    struct kin__world *w = &kin__world;
    struct kin__sched *sched = kin__host_alloc_lines(sizeof(*sched));
    struct kin__worker *worker = kin__host_alloc_lines(sizeof(*worker));
    int rc = -ENOMEM;
    if (!sched || !worker)
        goto fail;
    sched->workers = worker;
    sched->workers_max = 1;
    sched->number = NUMBER;
    kin__stack_pool_init(&sched->stacks);
    worker->sched = sched;
    kin__store_relaxed(&worker->runtime, NUMBER); /* alone: there is one thread */
    for (unsigned kind = 0; kind < KIN__FRAME_KINDS; kind++)
        worker->blocks[kind].kind = kind;
    kin__store_relaxed(&worker->next_deadline, KIN_NEVER); /* alone: there is one thread */
    kin__lab_heap_keep(true); /* the wheel */
    rc = source->init(worker);
    kin__lab_heap_keep(false);
    if (rc < 0)
        goto fail;
    kin__store_relaxed(&kin__scheds[NUMBER], sched); /* alone: there is one thread */
    w->sched = sched;
    w->worker = worker;
    return 0;
fail:
    kin__host_free_lines(worker);
    kin__host_free_lines(sched);
    return rc;
}

/* What a config makes of the scheduler; the common one is remembered. */
static int configure(struct kin__sched *sched, const struct kin_config *given)
{
    struct kin_config config = KIN_CONFIG_INIT;
    if (given) {
        if (!KIN__SIZED(given, "kin_run", "CONFIG"))
            return -EINVAL;
        config = *given;
    }
    if (config.workers == 0)
        config.workers = kin__world.workers;
    if (!config.on_report && kin__world.engine)
        config.on_report = kin__oracle_report;
    int rc = kin__config_fill(sched, &config);
    sched->hard = (struct kin__hard){0}; /* every way is common here */
    sched->workers_base = config.workers;
    kin__world.is_single = kin__lab_wish.keeps_order && config.workers == 1;
    if (kin__world.is_single && kin__world.engine)
        kin__engine_caps(kin__world.engine);
    sched->birth = (struct kin__birth){.slice = sched->slice,
                                       .runtime = NUMBER,
                                       .caps = KIN_CAP_ALL,
                                       .stack_class = (uint8_t)sched->stack_class};
    return rc;
}

int kin__sched_create(const struct kin_config *config, const struct kin__owner_ops *owner,
                      const struct kin__source *source, struct kin__sched **out)
{
    struct kin__world *w = &kin__world;
    int rc = kin__world_init();
    if (rc == 0 && !w->sched)
        rc = make(source);
    if (rc == 0)
        rc = configure(w->sched, config);
    if (rc < 0)
        return rc;
    is_alone = !w->is_on;
    if (is_alone)
        kin__world_begin(NULL);
    struct kin__sched *sched = w->sched;
    sched->owner = owner;
    sched->source = source;
    sched->root = NULL;
    kin__store_relaxed(&sched->is_stopping, 0u); /* alone: there is one thread, here and below */
    kin__store_relaxed(&sched->leaks, 0u);
    kin__store_relaxed(&sched->spawned_outside, 0u);
    kin__store_relaxed(&sched->alive, sched->workers_base);
    kin__store_relaxed(&w->worker->live, 0);
    kin__store_relaxed(&w->worker->outside, 0);
    w->worker->now = w->now;
    kin__timer_rewind(w->worker, w->now);
    kin__party_rewind();
    *out = sched;
    return 0;
}

int kin__sched_run(struct kin__sched *sched, struct kin__task *first)
{
    kin__schedule_new(NULL, first);
    kin__worker_main(sched->workers);
    kin__net_over();
    if (!kin__world.is_closed)
        kin__oracle_over();
    return 0;
}

void kin__sched_stop(struct kin__sched *sched)
{
    kin__store_relaxed(&sched->is_stopping, 1u); /* alone: there is one thread */
}

void kin__sched_destroy(struct kin__sched *sched)
{
    const struct kin__outside *io = kin__load_relaxed(&sched->io); /* alone: there is one thread */
    if (io)
        io->fini(sched);
    kin__store_relaxed(&sched->io, NULL); /* alone: as above */
    if (is_alone)
        kin__world_end();
}

/* ---- what the floors above ask besides ---- */

void kin__idle_wake_all(struct kin__sched *sched)
{
    (void)sched; /* nobody sleeps */
}

uint32_t kin__idle_poll(struct kin__sched *sched, int64_t now)
{
    (void)sched, (void)now; /* nothing outside is watched */
    return 0;
}

int64_t kin__sched_pressure(struct kin__sched *sched)
{
    (void)sched;
    return kin__world.enabled_count;
}

uint64_t kin__worker_load(struct kin__worker *worker)
{
    (void)worker;
    return kin__world.enabled_count;
}
