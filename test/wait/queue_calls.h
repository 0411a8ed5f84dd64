/* SPDX-License-Identifier: MIT */
/*
 * What the tests of both fast queues share: one table of functions for each, and tasks that make
 * one call and say when they are about to and what came of it.
 */
#ifndef KIN_TEST_QUEUE_CALLS_H
#define KIN_TEST_QUEUE_CALLS_H

#include "api/in_runtime.h"

#include <kin/queue.h>

/* The two queues as one: void pointers, functions with the same meaning. */
struct kind {
    const char *name;
    int (*create)(void **out, size_t item_size, size_t capacity);
    void (*ref)(void *q);
    void (*unref)(void *q);
    void (*close)(void *q);
    int (*send)(void *q, const void *item, kin_time deadline);
    int (*recv)(void *q, void *item, kin_time deadline);
    size_t (*len)(const void *q);
    size_t (*cap)(const void *q);
    bool (*is_closed)(const void *q);
};

#define KIND(x)                                                                                    \
    static int x##_create(void **out, size_t item_size, size_t capacity)                           \
    {                                                                                              \
        struct kin_##x *q = NULL;                                                                  \
        int rc = kin_##x##_create(out ? &q : NULL, item_size, capacity);                           \
        if (rc == 0)                                                                               \
            *out = q;                                                                              \
        return rc;                                                                                 \
    }                                                                                              \
    static void x##_ref(void *q) { EXPECT_PTR(kin_##x##_ref(q), q); }                              \
    static void x##_unref(void *q) { kin_##x##_unref(q); }                                         \
    static void x##_close(void *q) { kin_##x##_close(q); }                                         \
    static int x##_send(void *q, const void *item, kin_time deadline)                              \
    {                                                                                              \
        return kin_##x##_send(q, item, deadline);                                                  \
    }                                                                                              \
    static int x##_recv(void *q, void *item, kin_time deadline)                                    \
    {                                                                                              \
        return kin_##x##_recv(q, item, deadline);                                                  \
    }                                                                                              \
    static size_t x##_len(const void *q) { return kin_##x##_len(q); }                              \
    static size_t x##_cap(const void *q) { return kin_##x##_cap(q); }                              \
    static bool x##_is_closed(const void *q) { return kin_##x##_is_closed(q); }                    \
    __attribute__((unused)) static const struct kind x##_kind = {                                  \
        #x,       x##_create, x##_ref, x##_unref, x##_close,                                       \
        x##_send, x##_recv,   x##_len, x##_cap,   x##_is_closed};

KIND(spsc)
KIND(mpsc)

/* A queue of ints. */
__attribute__((unused)) static void *make(const struct kind *kind, size_t capacity)
{
    void *q = NULL;
    EXPECT_EQ(kind->create(&q, sizeof(int), capacity), 0);
    return q;
}

struct call {
    const struct kind *kind;
    void *q;
    int item;
    kin_time deadline; /* 0: KIN_NEVER */
    _Atomic int begun, over;
    int status;
};

__attribute__((unused)) static int call_send(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->begun, 1);
    call->status = call->kind->send(call->q, &call->item,
                                    call->deadline ? call->deadline : KIN_NEVER);
    atomic_store(&call->over, 1);
    return 0;
}

__attribute__((unused)) static int call_recv(void *arg)
{
    struct call *call = arg;
    atomic_store(&call->begun, 1);
    call->status = call->kind->recv(call->q, &call->item,
                                    call->deadline ? call->deadline : KIN_NEVER);
    atomic_store(&call->over, 1);
    return 0;
}

/* Starts it and lets it park, which on one worker it does before this task runs again. */
__attribute__((unused)) static struct kin_task_ref start_call(struct kin_nursery *n,
                                                              kin_task_fn *fn, struct call *call)
{
    struct kin_task_ref ref;
    EXPECT_EQ(kin_spawn_with(n, NULL, fn, call, 0, &ref), 0);
    await(&call->begun, 1);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(atomic_load(&call->over), 0);
    return ref;
}

__attribute__((unused)) static void expect_over(struct call *call, int status)
{
    await(&call->over, 1);
    EXPECT_EQ(call->status, status);
}

__attribute__((unused)) static int send_now(const struct kind *kind, void *q, int item)
{
    return kind->send(q, &item, 0);
}

__attribute__((unused)) static void expect_item(const struct kind *kind, void *q, int expected)
{
    int item = -1;
    EXPECT_EQ(kind->recv(q, &item, 0), 0);
    EXPECT_EQ(item, expected);
}

__attribute__((unused)) static void expect_nothing(const struct kind *kind, void *q, int status)
{
    int item = -1;
    EXPECT_EQ(kind->recv(q, &item, 0), status);
    EXPECT_EQ(item, -1);
}

#endif
