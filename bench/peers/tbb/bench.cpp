// SPDX-License-Identifier: MIT

// The fork-join workloads of bench/README.md with tbb::task_group: bench CASE WORKERS N ROUNDS.
#include <tbb/global_control.h>
#include <tbb/task_group.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <time.h>

static long workers;

// CPU time with one worker, wall time with more.
static long long now()
{
    timespec t;
    clock_gettime(workers == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static long fib(long n)
{
    if (n < 2)
        return n;
    long left = 0;
    tbb::task_group child;
    child.run([&left, n] { left = fib(n - 1); });
    long right = fib(n - 2);
    child.wait();
    return left + right;
}

static void fork_join(long n, long rounds)
{
    long a = 0, b = 1;
    for (long i = 0; i < n; i++) {
        long c = a + b;
        a = b;
        b = c;
    }
    long spawns = b - 1; // fib(n+1) - 1 calls are above the leaves, and each spawns once
    long long start = 0;
    for (long round = -1; round < rounds; round++) {
        if (round == 0)
            start = now();
        if (fib(n) != a)
            std::abort();
    }
    std::printf("time %.6g ns\n", double(now() - start) / double(spawns * rounds));
}

static long sky(long first, long size)
{
    if (size == 1)
        return first;
    long sums[10];
    tbb::task_group children;
    for (long i = 0; i < 10; i++)
        children.run([&sums, i, first, size] {
            sums[i] = sky(first + i * (size / 10), size / 10);
        });
    children.wait();
    long sum = 0;
    for (long s : sums)
        sum += s;
    return sum;
}

static void skynet(long n, long rounds)
{
    long long start = 0;
    for (long round = -1; round < rounds; round++) {
        if (round == 0)
            start = now();
        if (sky(0, n) != n * (n - 1) / 2)
            std::abort();
    }
    std::printf("time %.6g ms\n", double(now() - start) / double(rounds) / 1e6);
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    workers = std::atol(argv[2]);
    tbb::global_control limit(tbb::global_control::max_allowed_parallelism, size_t(workers));
    std::string name = argv[1];
    long n = std::atol(argv[3]), rounds = std::atol(argv[4]);
    if (name == "fib")
        fork_join(n, rounds);
    else if (name == "skynet")
        skynet(n, rounds);
    else
        return 2;
    return 0;
}
