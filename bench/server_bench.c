/* SPDX-License-Identifier: MIT */
/*
 * Servers: calls, casts, starts and stops.
 *
 * The server answers a number with the next one, 0 with the sum of what was cast; requests and
 * replies have 8 bytes. A number carries in its lowest byte the worker it was sent from, so that
 * the server can count the calls that changed the worker.
 */
#include "bench.h"

#include "sched/worker.h"

#include <errno.h>
#include <string.h>

struct adder {
    int64_t sum;
    int64_t crossed;
};

static kin__ai64 crossed; /* the sum of all servers that are over */

static int64_t here(void)
{
    return kin__worker_self()->index & 255;
}

static int answer(struct kin_server *s, void *state, const void *req, size_t size,
                  struct kin_reply *reply)
{
    struct adder *adder = state;
    int64_t number;
    (void)s;
    if (size != sizeof number)
        return -EBADMSG;
    memcpy(&number, req, sizeof number);
    adder->crossed += number != 0 && (number & 255) != here();
    number = number == 0 ? adder->sum : number + 256;
    return kin_reply_send(reply, &number, sizeof number);
}

static int add(struct kin_server *s, void *state, const void *msg, size_t size)
{
    struct adder *adder = state;
    int64_t number;
    (void)s;
    if (size != sizeof number)
        return -EBADMSG;
    memcpy(&number, msg, sizeof number);
    adder->sum += number;
    return 0;
}

static void count(struct kin_server *s, void *state, const struct kin_outcome *why)
{
    const struct adder *adder = state;
    (void)s;
    (void)why;
    (void)kin__add_relaxed(&crossed, adder->crossed); /* alone: a counter */
}

static struct kin_addr start(struct kin_nursery *n)
{
    static const struct kin_server_ops ops = {.on_call = answer, .on_cast = add, .on_stop = count};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct kin_addr server;
    options.state_size = sizeof(struct adder);
    bench_must(kin_server_start(n, &ops, &options, NULL, &server), "start");
    return server;
}

static void stop(struct kin_addr server)
{
    bench_must(kin_server_stop(server, 0, KIN_NEVER), "stop");
}

static int64_t call(struct kin_addr server, int64_t number)
{
    int64_t reply = -1;
    bench_must(kin_call(server, &number, sizeof number, &reply, sizeof reply, NULL, KIN_NEVER),
               "call");
    return reply;
}

static void expect(int64_t actual, int64_t expected)
{
    bench_must(actual == expected ? 0 : -EBADMSG, "a wrong reply");
}

/* What each of n took since then, by the clock and of the CPUs. */
static void print_each(int64_t begin, int64_t cpu)
{
    bench_print("time", (double)(bench_now() - begin) / (double)bench_args.n, "ns");
    bench_print("cpu", (double)(bench_cpu() - cpu) / (double)bench_args.n, "ns");
}

/* ---- calls: so many clients, each with its own server or all with one ---- */

struct client {
    struct kin_addr server;
    int64_t calls;
};

static int calls(void *arg)
{
    const struct client *client = arg;
    for (int64_t i = 1; i <= client->calls; i++) {
        int64_t number = i << 8 | here();
        expect(call(client->server, number), number + 256);
    }
    return 0;
}

/* n calls in all. */
static void call_all(struct client *clients, int64_t n)
{
    int64_t count_of = bench_args.rounds;
    for (int64_t i = 0; i < count_of; i++)
        clients[i].calls = n / count_of;
    if (count_of == 1) {
        (void)calls(clients);
        return;
    }
    KIN_NURSERY(nursery);
    for (int64_t i = 0; i < count_of; i++)
        bench_must(kin_spawn(&nursery, calls, &clients[i]), "spawn");
    bench_must(kin_nursery_join(&nursery, NULL), "join");
}

static void time_calls(struct client *clients)
{
    call_all(clients, bench_args.n / 10);
    int64_t cpu = bench_cpu(), begin = bench_now();
    call_all(clients, bench_args.n);
    print_each(begin, cpu);
}

static void print_crossed(void)
{
    double all = (double)bench_args.n * 1.1;
    /* relaxed: the join has synchronised */
    bench_print("crossed", 100.0 * (double)kin__load_relaxed(&crossed) / all, "%");
}

static int call_main(void *arg)
{
    struct client *clients = bench_alloc(bench_args.rounds, sizeof *clients);
    (void)arg;
    KIN_NURSERY(n);
    struct kin_addr server = start(&n);
    for (int64_t i = 0; i < bench_args.rounds; i++)
        clients[i].server = server;
    time_calls(clients);
    stop(server);
    bench_must(kin_nursery_join(&n, NULL), "join");
    print_crossed();
    return 0;
}

int bench_call(void)
{
    return bench_run(call_main);
}

static int callpairs_main(void *arg)
{
    struct client *clients = bench_alloc(bench_args.rounds, sizeof *clients);
    (void)arg;
    KIN_NURSERY(n);
    for (int64_t i = 0; i < bench_args.rounds; i++)
        clients[i].server = start(&n);
    time_calls(clients);
    for (int64_t i = 0; i < bench_args.rounds; i++)
        stop(clients[i].server);
    bench_must(kin_nursery_join(&n, NULL), "join");
    print_crossed();
    return 0;
}

int bench_callpairs(void)
{
    return bench_run(callpairs_main);
}

/* ---- casts: each sender ends with a call, so that all its casts are done ---- */

static int casts(void *arg)
{
    const struct client *client = arg;
    const int64_t one = 1;
    for (int64_t i = 0; i < client->calls; i++)
        bench_must(kin_cast(client->server, &one, sizeof one, KIN_NEVER), "cast");
    (void)call(client->server, 0);
    return 0;
}

/* n casts in all. */
static void cast_all(struct kin_addr server, int64_t n)
{
    struct client client = {server, n / bench_args.rounds};
    KIN_NURSERY(nursery);
    for (int64_t i = 0; i < bench_args.rounds; i++)
        bench_must(kin_spawn(&nursery, casts, &client), "spawn");
    bench_must(kin_nursery_join(&nursery, NULL), "join");
}

static int cast_main(void *arg)
{
    int64_t senders = bench_args.rounds, warm = bench_args.n / 10;
    (void)arg;
    KIN_NURSERY(n);
    struct kin_addr server = start(&n);
    cast_all(server, warm);
    int64_t cpu = bench_cpu(), begin = bench_now();
    cast_all(server, bench_args.n);
    print_each(begin, cpu);
    expect(call(server, 0), bench_args.n / senders * senders + warm / senders * senders);
    stop(server);
    bench_must(kin_nursery_join(&n, NULL), "join");
    return 0;
}

int bench_cast(void)
{
    return bench_run(cast_main);
}

/* ---- start and stop ---- */

static int serverstart_main(void *arg)
{
    int64_t begin = 0;
    (void)arg;
    KIN_NURSERY(n);
    for (int64_t i = -bench_args.n / 10; i < bench_args.n; i++) {
        if (i == 0)
            begin = bench_now();
        stop(start(&n));
    }
    bench_print("time", (double)(bench_now() - begin) / (double)bench_args.n, "ns");
    bench_must(kin_nursery_join(&n, NULL), "join");
    return 0;
}

int bench_serverstart(void)
{
    return bench_run(serverstart_main);
}

static int serveralive_main(void *arg)
{
    int64_t n = bench_args.n;
    struct kin_addr *servers = bench_alloc(n, sizeof *servers);
    (void)arg;
    KIN_NURSERY(nursery);
    int64_t before = bench_memory(), begin = bench_now();
    for (int64_t i = 0; i < n; i++)
        servers[i] = start(&nursery);
    bench_print("start", (double)(bench_now() - begin) / (double)n, "ns");
    for (int64_t i = 0; i < n; i++)
        expect(call(servers[i], 0), 0);
    bench_print("memory", (double)(bench_memory() - before) / (double)n, "B");
    begin = bench_now();
    for (int64_t i = 0; i < n; i++)
        stop(servers[i]);
    bench_print("stop", (double)(bench_now() - begin) / (double)n, "ns");
    bench_must(kin_nursery_join(&nursery, NULL), "join");
    return 0;
}

int bench_serveralive(void)
{
    return bench_run(serveralive_main);
}
