/* SPDX-License-Identifier: MIT */
/*
 * Select: one task sends to so many channels without a buffer in turn, another one selects over
 * receives from all of them.
 *
 * Half of the selects find a sender that waits already, the other half wait themselves: whoever is
 * woken finds the other side one item ahead.
 */
#include "bench.h"

#include <kin/chan.h>
#include <kin/select.h>

#include <errno.h>

#define CASES_MAX 64

static struct kin_chan *chans[CASES_MAX];

static int sends(void *arg)
{
    int64_t count = bench_args.n / 10 + bench_args.n, at = 0;
    (void)arg;
    for (int64_t i = 0; i < count; i++) {
        bench_must(kin_chan_send(chans[at], &i, KIN_NEVER), "send");
        if (++at == bench_args.rounds)
            at = 0;
    }
    return 0;
}

/* Each item must come from the channel it was sent to, and in order. */
static void selects(int64_t first, int64_t count)
{
    struct kin_case cases[CASES_MAX];
    int64_t item = -1, k = bench_args.rounds, at = first % k;
    for (int64_t i = 0; i < k; i++)
        cases[i] = kin_case_recv(chans[i], &item);
    for (int64_t i = first; i < first + count; i++) {
        int index = kin_select(cases, (size_t)k, KIN_NEVER);
        bench_must(index, "select");
        bench_must(index == at && item == i ? cases[index].status : -EBADMSG, "wrong item");
        if (++at == k)
            at = 0;
    }
}

static int select_main(void *arg)
{
    (void)arg;
    bench_must(bench_args.rounds <= CASES_MAX ? 0 : -E2BIG, "cases");
    for (int64_t i = 0; i < bench_args.rounds; i++)
        bench_must(kin_chan_create(&chans[i], sizeof(int64_t), 0), "create");
    KIN_NURSERY(n);
    bench_must(kin_spawn(&n, sends, NULL), "spawn");
    selects(0, bench_args.n / 10);
    int64_t start = bench_now();
    selects(bench_args.n / 10, bench_args.n);
    bench_print("time", (double)(bench_now() - start) / (double)bench_args.n, "ns");
    bench_must(kin_nursery_join(&n, NULL), "join");
    return 0;
}

int bench_select(void)
{
    return bench_run(select_main);
}
