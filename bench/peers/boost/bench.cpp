// SPDX-License-Identifier: MIT

// The workloads of bench/README.md on Boost.Context and Boost.Fiber: bench CASE WORKERS N ROUNDS.
#include <boost/context/continuation.hpp>
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <boost/fiber/all.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <time.h>
#include <vector>

namespace fibers = boost::fibers;
namespace context = boost::context;

static long long now()
{
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
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

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    std::string name = argv[1];
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
    else
        return 2;
    return 0;
}
