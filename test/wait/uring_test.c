/* SPDX-License-Identifier: MIT */
/*
 * Goal: a call behind a ring ends once, with its result, and its memory is not touched after that.
 * Method: white box: reads of pipes that block, which stay under way for as long as the test likes.
 */
#include "api/in_runtime.h"

#include "plat/plat.h"
#include "sched/sched.h"
#include "wait/poll.h"
#include "wait/poller.h"
#include "wait/uring.h"

#include <kin/file.h>

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

/* The ring of the runtime that the caller is in. Whoever asks first makes it, and others have none
 * until it is there. */
static struct kin__files *ring_here(void)
{
    struct kin__files *files = kin__poll_files();
    EXPECT(files != NULL);
    return files;
}

static int look_for_ring(void *arg)
{
    *(bool *)arg = kin__poll_files() != NULL;
    kin__files_patience(INT64_MAX / 4); /* these calls take as long as the test likes */
    return 0;
}

/* Runs fn on few workers, if there are rings here. */
static void run_with_ring(kin_task_fn *fn)
{
    bool has_ring = false;
    unsetenv("KIN_POLLER"); /* whatever watches descriptors */
    EXPECT_EQ(run_reporting(1, look_for_ring, &has_ring, NULL), 0);
    if (!has_ring)
        KIN_SKIP("io_uring is refused here");
    run_on_few(fn, NULL);
}

struct reading {
    int fd;
    char byte;
    _Atomic int begun;
    int64_t result;
};

static int64_t read_byte(int fd, char *byte)
{
    int64_t result = -1;
    struct kin__uring_call call = {.verb = KIN__URING_READ, .fd = fd, .size = 1,
                                   .address = (uintptr_t)byte};
    EXPECT(kin__files_perform(ring_here(), &call, &result));
    return result;
}

static int read_one(void *arg)
{
    struct reading *reading = arg;
    atomic_store(&reading->begun, 1);
    reading->result = read_byte(reading->fd, &reading->byte);
    return 0;
}

/* Lets others run until the call is with the kernel, as far as can be seen. */
static void let_begin(struct reading *reading)
{
    await(&reading->begun, 1);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
}

static int complete(void *arg)
{
    int fds[2];
    struct reading reading = {.byte = '-'};
    (void)arg;
    (void)ring_here();
    EXPECT_EQ(pipe(fds), 0);
    reading.fd = fds[0];
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_one, &reading), 0);
    let_begin(&reading);
    EXPECT_EQ(write(fds[1], "k", 1), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(reading.result, 1);
    EXPECT_EQ(reading.byte, 'k');
    EXPECT_EQ(close(fds[1]), 0);
    EXPECT_EQ(read_byte(fds[0], &reading.byte), 0); /* the end, at once */
    EXPECT_EQ(read_byte(-1, &reading.byte), -EBADF);
    EXPECT_EQ(close(fds[0]), 0);
    return 0;
}

KIN_TEST(a_task_gets_the_result_of_its_call, "")
{
    run_with_ring(complete);
}

/* The byte is in the pipe or in the task's hands, never both and never lost. */
static int cancel_one(void *arg)
{
    int fds[2];
    char byte = 0;
    struct reading reading = {.byte = '-'};
    (void)arg;
    (void)ring_here();
    EXPECT_EQ(pipe(fds), 0);
    reading.fd = fds[0];
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_one, &reading), 0);
    let_begin(&reading);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    EXPECT_EQ(reading.result, KIN_CANCELLED);
    EXPECT_EQ(write(fds[1], "k", 1), 1);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(1))), 0);
    EXPECT_EQ(reading.byte, '-'); /* it is nobody's any more */
    EXPECT_EQ(read(fds[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'k');
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_cancelled_call_is_over_when_the_task_goes_on, "")
{
    run_with_ring(cancel_one);
}

static int time_out(void *arg)
{
    int fds[2];
    char byte = '-';
    (void)arg;
    (void)ring_here();
    EXPECT_EQ(pipe(fds), 0);
    kin_time before = kin_deadline_push(kin_after(KIN_MS(2)));
    EXPECT_EQ(read_byte(fds[0], &byte), KIN_TIMEOUT);
    kin_deadline_pop(before);
    EXPECT_EQ(byte, '-');
    EXPECT_EQ(write(fds[1], "k", 1), 1);
    EXPECT_EQ(read_byte(fds[0], &byte), 1);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_deadline_ends_a_call_that_waits, "")
{
    run_with_ring(time_out);
}

struct racer {
    int fd;
    _Atomic int may_go;
};

static int write_soon(void *arg)
{
    struct racer *racer = arg;
    await(&racer->may_go, 1);
    EXPECT_EQ(write(racer->fd, "k", 1), 1);
    return 0;
}

/* The result and the cancellation come at once, again and again. */
#define RACES 200

static int race(void *arg)
{
    int fds[2], got = 0;
    (void)arg;
    (void)ring_here();
    EXPECT_EQ(pipe(fds), 0);
    for (int i = 0; i < RACES; i++) {
        struct reading reading = {.fd = fds[0], .byte = '-'};
        struct racer racer = {.fd = fds[1]};
        char byte = 0;
        KIN_NURSERY(outer);
        EXPECT_EQ(kin_spawn(&outer, write_soon, &racer), 0);
        KIN_NURSERY(inner);
        EXPECT_EQ(kin_spawn(&inner, read_one, &reading), 0);
        for (int k = 0; k < i % 4; k++)
            EXPECT_EQ(kin_yield(), 0);
        atomic_store(&racer.may_go, 1);
        for (int k = 0; k < i % 3; k++)
            EXPECT_EQ(kin_yield(), 0);
        kin_nursery_cancel(&inner, 0);
        kin_ignore(kin_nursery_join(&inner, NULL));
        EXPECT_EQ(kin_nursery_join(&outer, NULL), 0);
        bool is_read = atomic_load(&reading.begun) && reading.result == 1;
        EXPECT(is_read || reading.result == KIN_CANCELLED || !atomic_load(&reading.begun));
        EXPECT_EQ(reading.byte, is_read ? 'k' : '-');
        if (!is_read) {
            EXPECT_EQ(read(fds[0], &byte, 1), 1);
            EXPECT_EQ(byte, 'k');
        }
        got += is_read;
    }
    EXPECT_LE(got, RACES);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_cancellation_and_a_result_at_once_are_one_of_the_two, "")
{
    run_with_ring(race);
}

/* ---- limits ---- */

#define CALLS 300 /* more than may be under way */

struct crowd {
    int fd;
    _Atomic int begun, refused, done;
};

static int read_or_not(void *arg)
{
    struct crowd *crowd = arg;
    char byte;
    int64_t result = -1;
    struct kin__uring_call call = {.verb = KIN__URING_READ, .fd = crowd->fd, .size = 1,
                                   .address = (uintptr_t)&byte};
    atomic_fetch_add(&crowd->begun, 1);
    if (!kin__files_perform(ring_here(), &call, &result))
        atomic_fetch_add(&crowd->refused, 1);
    else if (result == 1)
        atomic_fetch_add(&crowd->done, 1);
    return 0;
}

static int overfill(void *arg)
{
    int fds[2];
    struct crowd crowd = {0};
    char bytes[CALLS] = "";
    (void)arg;
    (void)ring_here();
    EXPECT_EQ(pipe(fds), 0);
    crowd.fd = fds[0];
    KIN_NURSERY(n);
    for (int i = 0; i < CALLS; i++)
        EXPECT_EQ(kin_spawn(&n, read_or_not, &crowd), 0);
    await(&crowd.begun, CALLS);
    while (atomic_load(&crowd.refused) == 0) /* ends: more came than may be under way */
        EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(write(fds[1], bytes, CALLS), CALLS);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    EXPECT_EQ(atomic_load(&crowd.done) + atomic_load(&crowd.refused), CALLS);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(more_calls_than_the_ring_has_results_for_are_refused, "")
{
    run_with_ring(overfill);
}

static int cancel_many(void *arg)
{
    int fds[2];
    struct crowd crowd = {0};
    (void)arg;
    (void)ring_here();
    EXPECT_EQ(pipe(fds), 0);
    crowd.fd = fds[0];
    KIN_NURSERY(n);
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kin_spawn(&n, read_or_not, &crowd), 0);
    await(&crowd.begun, 100);
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    EXPECT_EQ(atomic_load(&crowd.done), 0);
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(all_calls_of_a_scope_end_with_it, "")
{
    run_with_ring(cancel_many);
}

/* ---- threads that end ---- */

static int block_worker(void *arg)
{
    atomic_fetch_add((_Atomic int *)arg, 1);
    usleep(30000);
    return 0;
}

/* The workers that began the calls are replaced and end meanwhile. */
static int lose_workers(void *arg)
{
    int fds[2];
    struct reading readings[8];
    _Atomic int blocked = 0;
    (void)arg;
    (void)ring_here();
    EXPECT_EQ(pipe(fds), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < 8; i++) {
        readings[i] = (struct reading){.fd = fds[0], .byte = '-'};
        EXPECT_EQ(kin_spawn(&n, read_one, &readings[i]), 0);
    }
    for (int i = 0; i < 8; i++)
        let_begin(&readings[i]);
    for (int i = 0; i < 4; i++)
        EXPECT_EQ(kin_spawn(&n, block_worker, (void *)&blocked), 0);
    await(&blocked, 4);
    EXPECT_EQ(kin_sleep(kin_after(KIN_MS(60))), 0);
    EXPECT_EQ(write(fds[1], "12345678", 8), 8);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(readings[i].result, 1);
        EXPECT_NE(readings[i].byte, '-');
    }
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(calls_outlive_the_threads_that_began_them, "")
{
    bool has_ring = false;
    struct kin_config config = KIN_CONFIG_INIT;
    unsetenv("KIN_POLLER");
    EXPECT_EQ(run_reporting(1, look_for_ring, &has_ring, NULL), 0);
    if (!has_ring)
        KIN_SKIP("io_uring is refused here");
    config.workers = 2;
    config.workers_max = 6;
    config.stall_threshold = KIN_MS(1);
    EXPECT_EQ(kin_run(&config, lose_workers, NULL), 0);
}

/* ---- a ring that is made while somebody polls ---- */

static struct {
    _Atomic int is_armed; /* the next to look is held up before it asks the kernel, */
    _Atomic int is_held;
    _Atomic int ring;     /* until a call behind this ring is under way and has its result */
    struct kin__worker *worker;
    int fd;
} hold;

static void be_held(void)
{
    struct pollfd result = {.events = POLLIN};
    atomic_store(&hold.is_held, 1);
    while ((result.fd = atomic_load(&hold.ring)) < 0 ||
           /* relaxed: so */
           kin__load_relaxed(&hold.worker->outside) == 0) /* ends: the call begins */
        usleep(100);
    EXPECT_EQ(write(hold.fd, "k", 1), 1);
    EXPECT_EQ(poll(&result, 1, -1), 1);
    usleep(20000); /* for all that the kernel tells of it; if it tells more, less is tested */
}

/* In place of the C library's. */
int epoll_wait(int set, struct epoll_event *events, int max, int ms)
{
    if (ms == 0 && atomic_exchange(&hold.is_armed, 0))
        be_held();
    return epoll_pwait(set, events, max, ms, NULL);
}

/* The monitor has begun to look when there is no ring yet, and is told of the ring and of its first
 * result at the same time: nobody else is told of them. */
static int make_ring_late(void *arg)
{
    int fds[2];
    char byte = '-';
    (void)arg;
    hold.worker = kin__worker_self();
    EXPECT_EQ(pipe(fds), 0);
    hold.fd = fds[1];
    EXPECT_EQ(kin__watcher_start(hold.worker->sched), 0);
    atomic_store(&hold.is_armed, 1);
    while (!atomic_load(&hold.is_held)) /* ends: the monitor looks for a worker that does not */
        usleep(1000);
    atomic_store(&hold.ring, kin__files_fd(ring_here()));
    EXPECT_EQ(read_byte(fds[0], &byte), 1); /* ends, or the alarm comes */
    EXPECT_EQ(byte, 'k');
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(who_polls_since_before_the_ring_takes_its_results, "F4 C7")
{
    bool has_ring = false;
    struct kin_config config = KIN_CONFIG_INIT;
    unsetenv("KIN_POLLER");
    unsetenv("KIN_HARD"); /* the number of workers is the point */
    EXPECT_EQ(run_reporting(1, look_for_ring, &has_ring, NULL), 0);
    if (!has_ring)
        KIN_SKIP("io_uring is refused here");
    config.workers = 1;
    config.workers_max = 1; /* nobody takes its place */
    atomic_store(&hold.ring, -1);
    EXPECT_EQ(kin_run(&config, make_ring_late, NULL), 0);
}

/* ---- calls that do not begin ---- */

static int give_back(void *arg)
{
    int fds[2];
    char byte = '-';
    int64_t result = -1;
    struct kin__uring_call call = {.verb = KIN__URING_READ, .size = 1, .address = (uintptr_t)&byte};
    (void)arg;
    EXPECT_EQ(pipe(fds), 0);
    call.fd = fds[0];
    kin__files_patience(KIN_MS(1));
    EXPECT(!kin__files_perform(ring_here(), &call, &result));
    kin__files_patience(INT64_MAX / 4);
    EXPECT_EQ(result, -1);
    EXPECT_EQ(write(fds[1], "k", 1), 1);
    EXPECT_EQ(byte, '-'); /* it is nobody's any more */
    EXPECT_EQ(read(fds[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'k');
    EXPECT_EQ(close(fds[0]), 0);
    EXPECT_EQ(close(fds[1]), 0);
    return 0;
}

KIN_TEST(a_call_without_a_result_is_asked_back_and_somebody_else_does_it, "")
{
    run_with_ring(give_back);
}

KIN_TEST(without_memory_there_is_no_ring_and_nothing_is_left, "")
{
    struct kin__files *files = NULL;
    int rc = kin__files_create(&files);
    if (rc == -ENOSYS || rc == -EPERM || rc == -EOPNOTSUPP)
        KIN_SKIP("io_uring is refused here");
    EXPECT_EQ(rc, 0);
    EXPECT_GE(kin__files_fd(files), 0);
    EXPECT(kin__files_has(files, KIN__URING_READ));
    EXPECT_EQ(kin__files_reap(files), 0);
    kin__files_destroy(files);
    for (uint64_t n = 1; n <= 4; n++) {
        kin__plat_fail_after(n, false);
        EXPECT_EQ(kin__files_create(&files), -ENOMEM);
    }
    kin__plat_fail_after(0, false);
}
