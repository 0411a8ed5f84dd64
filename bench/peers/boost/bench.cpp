// SPDX-License-Identifier: MIT

// The workloads of bench/README.md on Boost.Context and Boost.Fiber: bench CASE WORKERS N ROUNDS.
#include <boost/context/continuation.hpp>
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/fiber/all.hpp>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <time.h>
#include <vector>

namespace fibers = boost::fibers;
namespace context = boost::context;

static long workers;

// CPU time with one worker, wall time with more.
static long long now()
{
    timespec t;
    clock_gettime(workers == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void print(const char *name, double value, const char *unit)
{
    std::printf("%s %.6g %s\n", name, value, unit);
}

// The bare jump below every class of the library; there and back are two switches.
static void echo(context::detail::transfer_t from)
{
    for (;;)
        from = context::detail::jump_fcontext(from.fctx, from.data);
}

static void bare_switch(long n)
{
    context::fixedsize_stack allocator(64 * 1024);
    context::stack_context stack = allocator.allocate();
    context::detail::transfer_t other = {
        context::detail::make_fcontext(stack.sp, stack.size, echo), nullptr};
    long long start = 0;
    for (long i = -n / 10; i < n; i += 2) {
        if (i == 0 || i == 1)
            start = now();
        other = context::detail::jump_fcontext(other.fctx, nullptr);
    }
    print("time", double(now() - start) / double(n), "ns");
    allocator.deallocate(stack);
}

// Stacks come from a pool: the kinder of the library's two choices.
static fibers::pooled_fixedsize_stack &stacks()
{
    static fibers::pooled_fixedsize_stack pool(64 * 1024);
    return pool;
}

template <typename F> static fibers::fiber go(F f)
{
    return fibers::fiber(fibers::launch::post, std::allocator_arg, stacks(), f);
}

static void yield(long tasks, long each)
{
    std::vector<fibers::fiber> all;
    long long start = now();
    for (long i = 0; i < tasks; i++)
        all.push_back(go([each] {
            for (long k = 0; k < each; k++)
                boost::this_fiber::yield();
        }));
    for (auto &f : all)
        f.join();
    print("time", double(now() - start) / double(tasks * each), "ns");
}

static void spawn1(long n)
{
    long long start = 0;
    for (long i = -n / 10; i < n; i++) {
        if (i == 0)
            start = now();
        go([] {}).join();
    }
    print("time", double(now() - start) / double(n), "ns");
}

static void batch(long n, long rounds)
{
    long long start = 0;
    for (long round = -1; round < rounds; round++) {
        if (round == 0)
            start = now();
        std::vector<fibers::fiber> all;
        for (long i = 0; i < n; i++)
            all.push_back(go([] {}));
        for (auto &f : all)
            f.join();
    }
    print("time", double(now() - start) / double(n * rounds), "ns");
}

// Two fibers take turns under a condition variable; every turn parks one and wakes the other.
static void ping_pong(long n)
{
    fibers::mutex mutex;
    fibers::condition_variable turned;
    int turn = 0;
    auto player = [&](int me) {
        for (long i = 0; i < n; i++) {
            std::unique_lock<fibers::mutex> lock(mutex);
            while (turn != me)
                turned.wait(lock);
            turn = !me;
            turned.notify_one();
        }
    };
    long long start = now();
    fibers::fiber a = go([&] { player(0); }), b = go([&] { player(1); });
    a.join();
    b.join();
    print("time", double(now() - start) / double(2 * n), "ns");
}

static void expect(long actual, long expected)
{
    if (actual != expected) {
        std::fprintf(stderr, "wrong: %ld, expected %ld\n", actual, expected);
        std::exit(1);
    }
}

using channel = fibers::unbuffered_channel<long>;
using buffer = fibers::buffered_channel<long>;

// Every message of a channel without a buffer parks one side and wakes the other. When forced, the
// other side is on a thread of its own.
static void chan_ping(long n, bool is_forced)
{
    channel ping, pong;
    auto echo = [&] {
        long item;
        while (ping.pop(item) == fibers::channel_op_status::success)
            pong.push(item);
    };
    std::thread far;
    fibers::fiber near;
    if (is_forced)
        far = std::thread(echo);
    else
        near = go(echo);
    long long start = 0;
    for (long i = -n / 10; i < n; i++) {
        if (i == 0)
            start = now();
        ping.push(i);
        expect(pong.value_pop(), i);
    }
    print("time", double(now() - start) / double(2 * n), "ns");
    ping.close();
    is_forced ? far.join() : near.join();
}

// Passes n items from so many senders to as many receivers.
static void pour(long n, long pairs)
{
    buffer items(128);
    std::vector<fibers::fiber> senders, receivers;
    long each = n / pairs, received = 0;
    for (long i = 0; i < pairs; i++) {
        receivers.push_back(go([&] {
            long item, sum = 0;
            while (items.pop(item) == fibers::channel_op_status::success)
                sum += item;
            received += sum;
        }));
        senders.push_back(go([&items, each] {
            for (long k = 0; k < each; k++)
                items.push(k);
        }));
    }
    for (auto &f : senders)
        f.join();
    items.close();
    for (auto &f : receivers)
        f.join();
    expect(received, pairs * (each * (each - 1) / 2));
}

static void buffered(long n, long pairs)
{
    pour(n / 10, pairs);
    long long start = now();
    pour(n, pairs);
    print("time", double(now() - start) / double(n), "ns");
}

static void cross_buffered(long n)
{
    buffer items(128);
    long warm = n / 10, count = 0, item;
    std::thread far([&] {
        for (long i = 0; i < warm + n; i++)
            items.push(i);
        items.close();
    });
    long long start = 0;
    while (items.pop(item) == fibers::channel_op_status::success) {
        if (count++ == warm)
            start = now();
    }
    print("time", double(now() - start) / double(n), "ns");
    expect(count, warm + n);
    far.join();
}

// A token goes round so many channels; returns how long it took.
static long long go_round(std::vector<std::unique_ptr<channel>> &ring, channel &finish, long laps)
{
    std::vector<fibers::fiber> all;
    long n = long(ring.size());
    for (long i = 0; i < n; i++)
        all.push_back(go([&, i] {
            channel &from = *ring[i], &to = *ring[(i + 1) % n];
            for (long lap = 1; lap <= laps; lap++) {
                long token = from.value_pop();
                (i == n - 1 && lap == laps ? finish : to).push(token + 1);
            }
        }));
    boost::this_fiber::yield();
    long long start = now();
    ring[0]->push(0);
    expect(finish.value_pop(), laps * n);
    long long took = now() - start;
    for (auto &f : all)
        f.join();
    return took;
}

static void ring_of(long n, long laps)
{
    std::vector<std::unique_ptr<channel>> ring;
    channel finish;
    for (long i = 0; i < n; i++)
        ring.push_back(std::make_unique<channel>());
    go_round(ring, finish, laps / 10 + 1);
    print("time", double(go_round(ring, finish, laps)) / double(n * laps), "ns");
}

static void lock_all(long tasks, long each, bool yields)
{
    fibers::mutex mutex;
    std::vector<fibers::fiber> all;
    long sum = 0;
    for (long i = 0; i < tasks; i++)
        all.push_back(go([&] {
            for (long k = 0; k < each; k++) {
                std::unique_lock<fibers::mutex> lock(mutex);
                sum++;
                if (yields)
                    boost::this_fiber::yield();
            }
        }));
    for (auto &f : all)
        f.join();
    expect(sum, tasks * each);
}

static void mutex(long n, long tasks, bool yields)
{
    long each = n / tasks;
    lock_all(tasks, each / 10, yields);
    long long start = now();
    lock_all(tasks, each, yields);
    print("time", double(now() - start) / double(tasks * each), "ns");
}

// Adds to took: the close itself, the last receiver awake, all over.
static void close_once(long n, long long took[3])
{
    channel items;
    std::vector<fibers::fiber> all;
    long waiting = 0;
    long long awake = 0;
    for (long i = 0; i < n; i++)
        all.push_back(go([&] {
            long item;
            waiting++;
            items.pop(item);
            if (--waiting == 0)
                awake = now();
        }));
    while (waiting < n)
        boost::this_fiber::yield();
    long long start = now();
    items.close();
    took[0] += now() - start;
    for (auto &f : all)
        f.join();
    took[1] += awake - start;
    took[2] += now() - start;
}

static void closing(long n, long rounds)
{
    long long took[3] = {0, 0, 0};
    close_once(n, took);
    took[0] = took[1] = took[2] = 0;
    for (long i = 0; i < rounds; i++)
        close_once(n, took);
    print("close", double(took[0]) / double(rounds) / 1e6, "ms");
    print("awake", double(took[1]) / double(rounds) / 1e6, "ms");
    print("over", double(took[2]) / double(rounds) / 1e6, "ms");
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    std::string name = argv[1];
    workers = std::atol(argv[2]);
    long n = std::atol(argv[3]), rounds = std::atol(argv[4]);
    if (name == "switch")
        bare_switch(n);
    else if (name == "yield")
        yield(n, rounds);
    else if (name == "spawn1")
        spawn1(n);
    else if (name == "batch")
        batch(n, rounds);
    else if (name == "parkwake")
        ping_pong(n);
    else if (name == "pingpong" || name == "crossping")
        chan_ping(n, name == "crossping");
    else if (name == "chan")
        buffered(n, rounds);
    else if (name == "crossbuf")
        cross_buffered(n);
    else if (name == "ring")
        ring_of(n, rounds);
    else if (name == "mutex" || name == "mutexheld")
        mutex(n, rounds, name == "mutexheld");
    else if (name == "close")
        closing(n, rounds);
    else
        return 2;
    return 0;
}
