/* SPDX-License-Identifier: MIT */
/*
 * The exports of SPEC-021, and nothing else: what code of another compiler sees of kin.
 *
 * The main thread creates a scheduler, opens a nursery and spawns into it; its tasks open nurseries
 * of their own. Then a task loops until its budget is used up, one fails, and each nursery says how
 * it ended.
 */
#include <kin/janus.h>

#include <stdio.h>
#include <string.h>

typedef int task(void *arg);

/* The exports take functions as plain pointers. */
static void *pointer_to(task *function)
{
    void *pointer;

    memcpy(&pointer, &function, sizeof pointer);
    return pointer;
}

struct sum {
    const int *numbers;
    size_t count;
    int64_t result;
};

/* Adds numbers up: halves are tasks of a nursery that is this task's own. */
static int add_up(void *arg)
{
    struct sum *sum = arg;
    struct sum left = {sum->numbers, sum->count / 2, 0};
    struct sum right = {sum->numbers + left.count, sum->count - left.count, 0};

    if (sum->count <= 100) {
        for (size_t i = 0; i < sum->count; i++) {
            sum->result += sum->numbers[i];
            janus_rt_budget_check(); /* what a compiler puts into every loop */
        }
        return 0;
    }
    void *nursery = janus_nursery_begin();
    if (!nursery)
        return -1;
    int rc = janus_scheduler_spawn(pointer_to(add_up), &left);
    if (rc == 0)
        rc = janus_scheduler_spawn(pointer_to(add_up), &right);
    int ended = janus_nursery_end(nursery);
    sum->result = left.result + right.result;
    return rc < 0 ? rc : ended;
}

static int loop(void *arg)
{
    unsigned long *rounds = arg;

    for (*rounds = 0; *rounds < 1000000000; ++*rounds)
        janus_rt_budget_check();
    return 0;
}

static int answer(void *arg)
{
    (void)arg;
    return 42;
}

static int refuse(void *arg)
{
    (void)arg;
    return -111; /* a failure, and its code */
}

/* A million numbers under a scheduler without limits. */
static int compute(void)
{
    static int numbers[1000000];
    SchedulerConfig config = {0, 42, {0, 0, 0, 0, 0}};
    struct sum sum = {numbers, sizeof numbers / sizeof numbers[0], 0};
    const Budget small = {500, 0, 0, 0, 0};

    for (int i = 0; i < 1000000; i++)
        numbers[i] = i % 7;
    void *scheduler = janus_scheduler_create(config);
    void *nursery = janus_nursery_begin();
    if (!scheduler || !nursery)
        return 1;
    int spawned = janus_scheduler_spawn(pointer_to(add_up), &sum);
    uint64_t task_id = janus_rt_task_create(pointer_to(answer), NULL, small);
    int64_t joined = janus_rt_task_join(task_id);
    int ended = janus_nursery_end(nursery);
    printf("the sum is %lld, the answer %lld, the nursery ended with %d\n", (long long)sum.result,
           (long long)joined, ended);

    nursery = janus_nursery_begin();
    int refused = janus_scheduler_spawn(pointer_to(refuse), NULL);
    int code = janus_nursery_end(nursery);
    printf("a failing task: the nursery ended with %d\n", code);
    janus_scheduler_shutdown(scheduler);
    return spawned || ended || refused || joined != 42 || code != -111 || sum.result != 2999997;
}

/* A loop under a scheduler whose tasks may make 10,000 operations in all. */
static int run_out(void)
{
    SchedulerConfig config = {1, 42, {10000, 0, 10, 0, 0}};
    unsigned long rounds = 0;
    void *scheduler = janus_scheduler_create(config);
    void *nursery = janus_nursery_begin();

    if (!scheduler || !nursery)
        return 1;
    int spawned = janus_scheduler_spawn(pointer_to(loop), &rounds);
    int ended = janus_nursery_end(nursery);
    Budget left = janus_budget_get_current();
    printf("a loop without budget: ended with %d after %lu rounds, %lu operations and %u spawns "
           "left\n", ended, rounds, (unsigned long)left.ops, (unsigned)left.spawn_count);
    janus_scheduler_shutdown(scheduler);
    return spawned || ended != JANUS_BUDGET || rounds != 10000 || left.spawn_count != 9;
}

int main(void)
{
    int rc = compute();

    return run_out() || rc;
}
