/* SPDX-License-Identifier: MIT */
/*
 * The bare switch: two flows that hand control to each other, with no scheduler in between.
 */
#include "bench.h"

#include "plat/context.h"

#define STACK_BYTES (64 * 1024)

static struct kin__context here, there;

static void echo(void *pass)
{
    for (;;)
        pass = kin__context_switch(&there, &here, pass);
}

/* There and back are two switches. */
static void switches(int64_t n)
{
    for (int64_t i = 0; i < n; i += 2)
        (void)kin__context_switch(&here, &there, NULL);
}

int bench_switch(void)
{
    char *stack = bench_alloc(1, STACK_BYTES);
    uintptr_t base = (uintptr_t)(stack + STACK_BYTES) & ~(uintptr_t)63;
    kin__context_adopt(&here);
    kin__context_make(&there, stack, (void *)base, echo);
    switches(bench_args.n / 10);
    int64_t start = bench_now();
    switches(bench_args.n);
    bench_print("time", (double)(bench_now() - start) / (double)bench_args.n, "ns");
    return 0;
}
