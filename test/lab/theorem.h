/* SPDX-License-Identifier: MIT */
/*
 * Small programs over the calls that tasks share state through, each made from a number.
 *
 * The same source is compiled for the lab (theorem_test.c) and for production (theorem.c). A
 * program has two or three tasks with a few calls each. Each task tells what its calls answered;
 * all of that together, with what the first task is told, is the outcome of a run. What a call does
 * is written once: as code that is compiled here, and as text that is printed when a program fails.
 *
 * A task speaks of tasks that were spawned before it only, and of nothing else that is written
 * while tasks run: what is not in kin's objects is each task's own.
 */
#ifndef KIN_TEST_LAB_THEOREM_H
#define KIN_TEST_LAB_THEOREM_H

/* Code, and its text. */
#define BOTH(text, ...)                                                                            \
    static const char text[] = #__VA_ARGS__;                                                       \
    __VA_ARGS__

#include <kin/kin.h>

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define THEOREM_TASKS 3
#define THEOREM_OPS 3
#define THEOREM_GROUPS 25

/* What the includer has: whether a run is over already, so that nothing is told any more; and what
 * happens in front of a call. */
static bool theorem_is_over(void);
static void theorem_pause(void);

/* ---- what programs share ---- */

enum { TASKS = THEOREM_TASKS, TOLD = 8 };

BOTH(theorem_things_text,
static struct {
    struct kin_nursery n, back;
    struct kin_chan *chan[2];
    struct kin_mutex mutex;
    struct kin_cond cond;
    int guarded;
    struct kin_rwlock rwlock;
    int written;
    struct kin_sem sem;
    struct kin_event event, heard;
    struct kin_group group;
    struct kin_once once;
    struct kin_barrier barrier;
    struct kin_watch *watch;
    struct kin_broadcast *topic;
    struct kin_subscriber *reader;
    struct kin_mpsc *mpsc;
    struct kin_spsc *spsc;
    struct kin_addr server, supervisor;
    struct kin_task_ref tasks[3];
    int told[4][8];
    unsigned count[4];
} it;

/* Where an address is: nowhere, with the server, or with one of the tasks before this one. */
__attribute__((unused)) static int place_of(struct kin_addr who, int me)
{
    if (kin_addr_same(who, kin_self_addr()))
        return 1;
    for (int i = 0; i < me; i++)
        if (kin_addr_same(who, kin_task_addr(it.tasks[i])))
            return 2 + i;
    return kin_addr_same(who, it.server) ? 9 : 10;
}

__attribute__((unused)) static int nothing(void *arg)
{
    return arg ? KIN_STUCK : 0;
}

__attribute__((unused)) static int wait_there(void *arg)
{
    return kin_event_wait(arg, KIN_NEVER);
}

/* Grandchildren: what they see goes to arg, which is their parent's. The first is told when to
 * look, the second looks and tells the first, and of two of the third the one that is killed
 * tells. */
__attribute__((unused)) static int look_when_told(void *arg)
{
    kin_mask();
    kin_ignore(kin_event_wait(&it.heard, KIN_NEVER));
    kin_unmask();
    *(int *)arg = 1 + kin_cancelled();
    return 0;
}

__attribute__((unused)) static int look_and_tell(void *arg)
{
    *(int *)arg = 1 + kin_cancelled();
    kin_event_set(&it.heard);
    return 0;
}

__attribute__((unused)) static int outstay(void *arg)
{
    kin_mask();
    *(int *)arg = kin_event_wait(&it.heard, KIN_NEVER) < 0 ? 1 : 2 + (kin_checkpoint() < 0);
    kin_event_set(&it.heard);
    kin_unmask();
    return 0;
}

/* Has two nurseries open, one in the other, perhaps under a mask for a while. What they see. */
__attribute__((unused)) static int own_two(int is_masked)
{
    struct kin_nursery outer;
    struct kin_nursery inner;
    int saw[2] = {0};
    if (is_masked)
        kin_mask();
    kin_ignore(kin_nursery_open(&outer, NULL));
    kin_ignore(kin_spawn(&outer, look_when_told, &saw[0]));
    kin_ignore(kin_nursery_open(&inner, NULL));
    if (kin_spawn(&inner, look_and_tell, &saw[1]) < 0)
        kin_event_set(&it.heard);
    if (is_masked)
        kin_unmask();
    kin_ignore(kin_nursery_join(&inner, NULL));
    kin_ignore(kin_nursery_join(&outer, NULL));
    return saw[0] * 4 + saw[1];
}

static int on_call(struct kin_server *s, void *state, const void *req, size_t size,
                   struct kin_reply *reply)
{
    int *sum = state;
    (void)s;
    if (size == sizeof *sum)
        *sum = *sum * 4 + *(const int *)req;
    kin_ignore(kin_reply_send(reply, sum, sizeof *sum));
    return 0;
}

/* A cast of 100 sets a timer that is due at once, one of 101 sets it for later, and one of 102
 * forgets it. */
static int on_cast(struct kin_server *s, void *state, const void *msg, size_t size)
{
    int *sum = state;
    int what = 0;
    if (size == sizeof what)
        what = *(const int *)msg;
    if (what == 100)
        return kin_server_timer_set(s, 1, kin_now());
    if (what == 101)
        return kin_server_timer_set(s, 1, kin_after(KIN_MS(1)));
    if (what == 102)
        what = kin_server_timer_cancel(s, 1) == 0 ? 2 : 1;
    *sum = *sum * 4 + what;
    return 0;
}

static int on_info(struct kin_server *s, void *state, const struct kin_info *info)
{
    int *sum = state;
    (void)s;
    *sum = *sum * 4 + (info->kind == KIN_INFO_TIMEOUT ? 3 : 0);
    return 0;
}

/* A child of the supervisor: a server with the timers above. */
static int start_child(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    static const struct kin_server_ops ops = {.on_call = on_call, .on_cast = on_cast};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    (void)arg;
    options.state_size = sizeof(int);
    return kin_server_start(n, &ops, &options, NULL, out);
}
)

/* Calls are drawn by their groups; things are made for the groups that a program has. */
BOTH(theorem_groups_text,
enum theorem_group {
    OF_CHAN = 1, OF_SELECT = 2, OF_MUTEX = 4, OF_COND = 8, OF_RWLOCK = 16, OF_SEM = 32,
    OF_EVENT = 64, OF_GROUP = 128, OF_ONCE = 256, OF_BARRIER = 512, OF_WATCH = 1024,
    OF_TOPIC = 2048, OF_MPSC = 4096, OF_SPSC = 8192, OF_NAMES = 16384, OF_SERVER = 32768,
    OF_MONITOR = 65536, OF_NEST = 131072, OF_CANCEL = 262144, OF_TIME = 524288,
    OF_OWED = 1048576, OF_END = 2097152, OF_YIELD = 4194304, OF_TIMER = 8388608,
    OF_TREE = 16777216
};
)

/* Only the first task, only others; has a deadline. */
enum { FIRST = 1, LATER = 2, TIMED = 4 };

/* X(name, group, flags, what it does to rc): me is the number of the task, item a value of its own.
 */
#define THEOREM_CALLS(X)                                                                           \
    X(send, OF_CHAN, 0, rc = kin_chan_send(it.chan[0], &item, KIN_NEVER))                          \
    X(try_send, OF_CHAN, 0, rc = kin_chan_send(it.chan[0], &item, 0))                              \
    X(recv, OF_CHAN, 0, if ((rc = kin_chan_recv(it.chan[0], &item, KIN_NEVER)) == 0) rc = item)    \
    X(try_recv, OF_CHAN, 0, if ((rc = kin_chan_recv(it.chan[0], &item, 0)) == 0) rc = item)        \
    X(recv_soon, OF_CHAN, TIMED,                                                                   \
      if ((rc = kin_chan_recv(it.chan[0], &item, kin_after(KIN_MS(1)))) == 0) rc = item)           \
    X(close, OF_CHAN, 0, kin_chan_close(it.chan[0]))                                               \
    X(abort, OF_CHAN, 0, kin_chan_abort(it.chan[0]))                                               \
    X(len, OF_CHAN, 0, rc = (int)kin_chan_len(it.chan[0]))                                         \
    X(is_closed, OF_CHAN, 0, rc = kin_chan_is_closed(it.chan[0]))                                  \
    X(select_recv, OF_SELECT, 0, int other = 0;                                                    \
      struct kin_case cases[2] = {kin_case_recv(it.chan[0], &other) COMMA                          \
                                  kin_case_recv(it.chan[1], &item)};                               \
      rc = kin_select(cases, 2, KIN_NEVER);                                                        \
      if (rc >= 0) rc = rc * 100 + (cases[rc].status < 0 ? 99 : rc ? item : other))                \
    X(select_send, OF_SELECT, 0, int other = 0;                                                    \
      struct kin_case cases[2] = {kin_case_send(it.chan[1], &item) COMMA                           \
                                  kin_case_recv(it.chan[0], &other)};                              \
      rc = kin_select(cases, 2, KIN_NEVER);                                                        \
      if (rc >= 0) rc = rc * 100 + (cases[rc].status < 0 ? 99 : other))                            \
    X(try_select, OF_SELECT, 0, int other = 0;                                                     \
      struct kin_case cases[2] = {kin_case_recv(it.chan[0], &other) COMMA                          \
                                  kin_case_event(&it.event)};                                      \
      rc = kin_select(cases, 2, 0);                                                                \
      if (rc >= 0) rc = rc * 100 + (cases[rc].status < 0 ? 99 : other))                            \
    X(select_first, OF_SELECT, 0, int other = 0;                                                   \
      struct kin_case cases[2] = {kin_case_event(&it.event) COMMA                                  \
                                  kin_case_recv(it.chan[1], &other)};                              \
      rc = kin_select_ordered(cases, 2, 0);                                                        \
      if (rc >= 0) rc = rc * 100 + (cases[rc].status < 0 ? 99 : other))                            \
    X(select_close, OF_SELECT, 0, kin_chan_close(it.chan[1]))                                      \
    X(select_set, OF_SELECT, 0, kin_event_set(&it.event))                                          \
    X(lock, OF_MUTEX, 0, if ((rc = kin_mutex_lock(&it.mutex, KIN_NEVER)) == 0) {                   \
        rc = it.guarded++; kin_mutex_unlock(&it.mutex); })                                         \
    X(try_lock, OF_MUTEX, 0, if ((rc = kin_mutex_lock(&it.mutex, 0)) == 0) {                       \
        rc = it.guarded++; kin_mutex_unlock(&it.mutex); })                                         \
    X(lock_soon, OF_MUTEX, TIMED,                                                                  \
      if ((rc = kin_mutex_lock(&it.mutex, kin_after(KIN_MS(1)))) == 0) {                           \
        rc = kin_sleep(kin_after(KIN_MS(2))); kin_mutex_unlock(&it.mutex); })                      \
    X(await, OF_COND, 0, if ((rc = kin_mutex_lock(&it.mutex, KIN_NEVER)) == 0) {                   \
        if (!it.guarded) rc = kin_cond_wait(&it.cond, &it.mutex, KIN_NEVER);                       \
        rc = rc < 0 ? rc : it.guarded; kin_mutex_unlock(&it.mutex); })                             \
    X(signal, OF_COND, 0, if ((rc = kin_mutex_lock(&it.mutex, KIN_NEVER)) == 0) {                  \
        it.guarded++; kin_cond_signal(&it.cond); kin_mutex_unlock(&it.mutex); })                   \
    X(signal_only, OF_COND, 0, kin_cond_signal(&it.cond))                                          \
    X(broadcast, OF_COND, 0, if ((rc = kin_mutex_lock(&it.mutex, KIN_NEVER)) == 0) {               \
        it.guarded++; kin_mutex_unlock(&it.mutex); } kin_cond_broadcast(&it.cond))                 \
    X(read, OF_RWLOCK, 0, if ((rc = kin_rwlock_read_lock(&it.rwlock, KIN_NEVER)) == 0) {           \
        rc = it.written; kin_rwlock_read_unlock(&it.rwlock); })                                    \
    X(write, OF_RWLOCK, 0, if ((rc = kin_rwlock_write_lock(&it.rwlock, KIN_NEVER)) == 0) {         \
        rc = it.written++; kin_rwlock_write_unlock(&it.rwlock); })                                 \
    X(try_read, OF_RWLOCK, 0, if ((rc = kin_rwlock_read_lock(&it.rwlock, 0)) == 0) {               \
        rc = it.written; kin_rwlock_read_unlock(&it.rwlock); })                                    \
    X(try_write, OF_RWLOCK, 0, if ((rc = kin_rwlock_write_lock(&it.rwlock, 0)) == 0) {             \
        rc = it.written++; kin_rwlock_write_unlock(&it.rwlock); })                                 \
    X(acquire, OF_SEM, 0, rc = kin_sem_acquire(&it.sem, 1, KIN_NEVER))                             \
    X(acquire_two, OF_SEM, 0, rc = kin_sem_acquire(&it.sem, 2, KIN_NEVER))                         \
    X(try_acquire, OF_SEM, 0, rc = kin_sem_acquire(&it.sem, 1, 0))                                 \
    X(release, OF_SEM, 0, kin_sem_release(&it.sem, 1))                                             \
    X(set, OF_EVENT, 0, kin_event_set(&it.event))                                                  \
    X(reset, OF_EVENT, 0, kin_event_reset(&it.event))                                              \
    X(wait, OF_EVENT, 0, rc = kin_event_wait(&it.event, KIN_NEVER))                                \
    X(try_wait, OF_EVENT, 0, rc = kin_event_wait(&it.event, 0))                                    \
    X(wait_soon, OF_EVENT, TIMED, rc = kin_event_wait(&it.event, kin_after(KIN_MS(1))))            \
    X(group_add, OF_GROUP, 0, kin_group_add(&it.group, 1); kin_group_done(&it.group))              \
    X(group_wait, OF_GROUP, 0, rc = kin_group_wait(&it.group, KIN_NEVER))                          \
    X(group_try, OF_GROUP, 0, rc = kin_group_wait(&it.group, 0))                                   \
    X(once, OF_ONCE, 0, rc = kin_once_do(&it.once, nothing, NULL, KIN_NEVER))                      \
    X(once_fails, OF_ONCE, 0, rc = kin_once_do(&it.once, nothing, &it, KIN_NEVER))                 \
    X(barrier, OF_BARRIER, 0, rc = kin_barrier_wait(&it.barrier, KIN_NEVER))                       \
    X(barrier_try, OF_BARRIER, 0, rc = kin_barrier_wait(&it.barrier, 0))                           \
    X(watch_set, OF_WATCH, 0, rc = kin_watch_set(it.watch, &item))                                 \
    X(watch_get, OF_WATCH, 0, uint64_t version = 0;                                                \
      if ((rc = kin_watch_get(it.watch, &item, &version)) == 0) rc = item * 16 + (int)version)     \
    X(watch_wait, OF_WATCH, 0, uint64_t version = 0; rc = kin_watch_get(it.watch, &item, &version);\
      if (rc == 0) rc = kin_watch_wait(it.watch, &item, &version, 0); if (rc == 0) rc = item)      \
    X(watch_close, OF_WATCH, 0, kin_watch_close(it.watch))                                         \
    X(watch_is_closed, OF_WATCH, 0, rc = kin_watch_is_closed(it.watch))                            \
    X(topic_send, OF_TOPIC, 0, rc = kin_broadcast_send(it.topic, &item, 0))                        \
    X(topic_recv, OF_TOPIC, FIRST, uint64_t lost = 0;                                              \
      if ((rc = kin_broadcast_recv(it.reader, &item, &lost, 0)) == 0) rc = item * 16 + (int)lost)  \
    X(topic_await, OF_TOPIC, FIRST, uint64_t lost = 0;                                             \
      if ((rc = kin_broadcast_recv(it.reader, &item, &lost, KIN_NEVER)) == 0) rc = item)           \
    X(topic_close, OF_TOPIC, 0, kin_broadcast_close(it.topic))                                     \
    X(topic_is_closed, OF_TOPIC, 0, rc = kin_broadcast_is_closed(it.topic))                        \
    X(mpsc_send, OF_MPSC, 0, rc = kin_mpsc_send(it.mpsc, &item, KIN_NEVER))                        \
    X(mpsc_try_send, OF_MPSC, 0, rc = kin_mpsc_send(it.mpsc, &item, 0))                            \
    X(mpsc_recv, OF_MPSC, FIRST,                                                                   \
      if ((rc = kin_mpsc_recv(it.mpsc, &item, KIN_NEVER)) == 0) rc = item)                         \
    X(mpsc_try_recv, OF_MPSC, FIRST,                                                               \
      if ((rc = kin_mpsc_recv(it.mpsc, &item, 0)) == 0) rc = item)                                 \
    X(mpsc_close, OF_MPSC, 0, kin_mpsc_close(it.mpsc))                                             \
    X(mpsc_len, OF_MPSC, 0, rc = (int)kin_mpsc_len(it.mpsc) * 2 + kin_mpsc_is_closed(it.mpsc))     \
    X(spsc_send, OF_SPSC, FIRST, rc = kin_spsc_send(it.spsc, &item, KIN_NEVER))                    \
    X(spsc_try_send, OF_SPSC, FIRST, rc = kin_spsc_send(it.spsc, &item, 0))                        \
    X(spsc_recv, OF_SPSC, LATER,                                                                   \
      if (me == 1 && (rc = kin_spsc_recv(it.spsc, &item, KIN_NEVER)) == 0) rc = item)              \
    X(spsc_try_recv, OF_SPSC, LATER,                                                               \
      if (me == 1 && (rc = kin_spsc_recv(it.spsc, &item, 0)) == 0) rc = item)                      \
    X(spsc_close, OF_SPSC, 0, kin_spsc_close(it.spsc))                                             \
    X(spsc_len, OF_SPSC, 0, rc = (int)kin_spsc_len(it.spsc) * 2 + kin_spsc_is_closed(it.spsc))     \
    X(enroll, OF_NAMES, 0, rc = kin_register("name", kin_self_addr(), 0))                          \
    X(enroll_or_find, OF_NAMES, 0, struct kin_addr who = {0} COMMA zero = {0}; (void)zero;         \
      if ((rc = kin_register_or_find("name", kin_self_addr(), 0, &who)) == KIN_TAKEN)              \
        rc = place_of(who, me) > 1 ? 50 : 51)                                                      \
    X(drop_name, OF_NAMES, 0, rc = kin_unregister("name"))                                         \
    X(whereis, OF_NAMES, 0, struct kin_addr who = {0};                                             \
      if ((rc = kin_whereis("name", &who)) == 0) rc = place_of(who, me))                           \
    X(call, OF_SERVER, 0, int sum = 0; size_t size = 0;                                            \
      if ((rc = kin_call(it.server, &item, sizeof item, &sum, sizeof sum, &size, KIN_NEVER)) == 0) \
        rc = sum)                                                                                  \
    X(cast, OF_SERVER, 0, rc = kin_cast(it.server, &item, sizeof item, KIN_NEVER))                 \
    X(try_cast, OF_SERVER, 0, rc = kin_cast(it.server, &item, sizeof item, 0))                     \
    X(server_state, OF_SERVER, 0, rc = (int)kin_server_state(it.server))                           \
    X(timer_set, OF_TIMER, 0, int set = 100; rc = kin_cast(it.server, &set, sizeof set, KIN_NEVER))\
    X(timer_later, OF_TIMER, TIMED, int set = 101;                                                 \
      rc = kin_cast(it.server, &set, sizeof set, KIN_NEVER))                                       \
    X(timer_forget, OF_TIMER, 0, int forget = 102;                                                 \
      rc = kin_cast(it.server, &forget, sizeof forget, KIN_NEVER))                                 \
    X(timer_call, OF_TIMER, 0, int sum = 0; size_t size = 0;                                       \
      if ((rc = kin_call(it.server, &item, sizeof item, &sum, sizeof sum, &size, KIN_NEVER)) == 0) \
        rc = sum)                                                                                  \
    X(children, OF_TREE, 0, struct kin_child_counts counts;                                        \
      if ((rc = kin_supervisor_count_children(it.supervisor, &counts, KIN_NEVER)) == 0)            \
        rc = (int)(counts.specs * 4 + counts.active))                                              \
    X(terminate, OF_TREE, 0,                                                                       \
      rc = kin_supervisor_terminate_child(it.supervisor, "child", KIN_NEVER))                      \
    X(start_again, OF_TREE, 0, struct kin_addr who;                                                \
      rc = kin_supervisor_restart_child(it.supervisor, "child", &who, KIN_NEVER))                  \
    X(delete, OF_TREE, 0, rc = kin_supervisor_delete_child(it.supervisor, "child", KIN_NEVER))     \
    X(monitor, OF_MONITOR, LATER, struct kin_monitor_ref ref; struct kin_info info;                \
      rc = kin_monitor(kin_task_addr(it.tasks[me - 1]), &ref);                                     \
      if (rc == 0) rc = kin_wait_down(ref, &info, KIN_NEVER);                                      \
      if (rc == 0) rc = 100 + (int)info.u.down.reason)                                             \
    X(monitor_try, OF_MONITOR, LATER, struct kin_monitor_ref ref; struct kin_info info;            \
      rc = kin_monitor(kin_task_addr(it.tasks[me - 1]), &ref);                                     \
      if (rc == 0) rc = kin_wait_down(ref, &info, 0);                                              \
      if (rc == 0) rc = 100 + (int)info.u.down.reason; kin_ignore(kin_demonitor(ref)))             \
    X(link, OF_MONITOR, LATER, struct kin_link_ref ref;                                            \
      rc = kin_link(kin_task_addr(it.tasks[me - 1]), KIN_EXIT_PROPAGATE, KIN_EXIT_IGNORE, &ref))   \
    X(link_both, OF_MONITOR, LATER, struct kin_link_ref ref;                                       \
      rc = kin_link(kin_task_addr(it.tasks[me - 1]), KIN_EXIT_IGNORE, KIN_EXIT_PROPAGATE, &ref);   \
      if (rc == 0) rc = kin_unlink(ref))                                                           \
    X(nest, OF_NEST, 0, struct kin_nursery n; if ((rc = kin_nursery_open(&n, NULL)) == 0) {        \
        rc = kin_spawn(&n, nothing, me ? &it : NULL); int end = kin_nursery_join(&n, NULL);        \
        rc = rc < 0 ? rc : end; })                                                                 \
    X(nest_cancel, OF_NEST, 0, struct kin_nursery n; if ((rc = kin_nursery_open(&n, NULL)) == 0) { \
        rc = kin_spawn(&n, wait_there, &it.event); kin_nursery_cancel(&n, 3);                      \
        int end = kin_nursery_join(&n, NULL); rc = rc < 0 ? rc : end; })                           \
    X(nest_poll, OF_NEST, 0, struct kin_nursery n; if ((rc = kin_nursery_open(&n, NULL)) == 0) {   \
        rc = kin_spawn(&n, nothing, me ? &it : NULL); kin_nursery_close(&n);                       \
        int poll = kin_nursery_poll(&n, NULL); kin_ignore(kin_nursery_join(&n, NULL));             \
        rc = rc < 0 ? rc : poll; })                                                                \
    X(nest_until, OF_NEST, 0, struct kin_nursery n; if ((rc = kin_nursery_open(&n, NULL)) == 0) {  \
        rc = kin_spawn(&n, wait_there, &it.event); int end = kin_nursery_join_until(&n, 0, NULL);  \
        rc = rc < 0 ? rc : end; })                                                                 \
    X(nest_set, OF_NEST, 0, kin_event_set(&it.event))                                              \
    X(state, OF_NEST, 0, rc = (int)kin_nursery_state(&it.n))                                       \
    X(spawn, OF_NEST, 0, rc = kin_spawn(&it.n, nothing, NULL))                                     \
    X(close_n, OF_NEST, 0, kin_nursery_close(&it.n))                                               \
    X(cancel, OF_CANCEL, 0, kin_nursery_cancel(&it.n, 7))                                          \
    X(cancel_one, OF_CANCEL, LATER, rc = kin_task_cancel(it.tasks[me - 1]))                        \
    X(cancelled, OF_CANCEL, 0, rc = kin_cancelled())                                               \
    X(reason, OF_CANCEL, 0, rc = kin_cancel_reason())                                              \
    X(checkpoint, OF_CANCEL, 0, rc = kin_checkpoint())                                             \
    X(masked, OF_CANCEL, 0, kin_mask(); rc = kin_event_wait(&it.event, 0);                         \
      rc = rc * 2 + kin_cancelled(); kin_unmask())                                                 \
    X(past, OF_TIME, 0, kin_time before = kin_deadline_push(1);                                    \
      rc = kin_event_wait(&it.event, KIN_NEVER); kin_deadline_pop(before))                         \
    X(time_set, OF_TIME, 0, kin_event_set(&it.event))                                              \
    X(sleep, OF_TIME, TIMED, rc = kin_sleep(kin_after(KIN_MS(1))))                                 \
    X(within, OF_TIME, TIMED, kin_time before = kin_deadline_push(kin_after(KIN_MS(1)));           \
      rc = kin_event_wait(&it.event, KIN_NEVER); kin_deadline_pop(before))                         \
    X(owe, OF_OWED, 0, struct kin_obligation *o;                                                   \
      if ((rc = kin_obligation_reserve(KIN_OBLIGATION_USER, &o)) == 0)                             \
        rc = kin_obligation_commit(o))                                                             \
    X(owe_not, OF_OWED, 0, struct kin_obligation *o;                                               \
      if ((rc = kin_obligation_reserve(KIN_OBLIGATION_SEND, &o)) == 0)                             \
        rc = kin_obligation_abort(o))                                                              \
    X(owe_cancel, OF_OWED, 0, kin_nursery_cancel(&it.n, 5))                                        \
    X(fail, OF_END, 0, kin_fail(-71, "as it should"))                                              \
    X(give_back, OF_END, 0, rc = kin_cancelled())                                                  \
    X(yield, OF_YIELD, 0, rc = kin_yield())

#define COMMA ,

/* Calls of a task that has nurseries of its own while others cancel it: for programs that have one
 * of these and little else. */
#define THEOREM_FAMILIES(X)                                                                        \
    X(family, OF_NEST, 0, struct kin_nursery n; if ((rc = kin_nursery_open(&n, NULL)) == 0) {      \
        int saw = 0; kin_ignore(kin_spawn(&n, look_when_told, &saw));                              \
        rc = kin_event_wait(&it.event, KIN_NEVER); kin_event_set(&it.heard);                       \
        kin_ignore(kin_nursery_join(&n, NULL)); rc = saw * 2 + (rc < 0); })                        \
    X(two, OF_NEST, 0, rc = own_two(0))                                                            \
    X(two_masked, OF_NEST, 0, rc = own_two(1))                                                     \
    X(overdue, OF_NEST, TIMED, struct kin_nursery n; int saw[2] = {0};                             \
      struct kin_nursery_options options = KIN_NURSERY_OPTIONS_INIT; options.cancel_grace = 1;     \
      if ((rc = kin_nursery_open(&n, &options)) == 0) {                                            \
        kin_ignore(kin_spawn(&n, outstay, &saw[0])); kin_ignore(kin_spawn(&n, outstay, &saw[1]));  \
        kin_nursery_cancel(&n, 3);                                                                 \
        kin_ignore(kin_nursery_join(&n, NULL)); rc = saw[0] * 4 + saw[1]; })

enum theorem_call {
#define X(name, group, flags, ...) CALL_##name,
    THEOREM_CALLS(X)
    CALLS,
    CALL_before_families = CALLS - 1,
    THEOREM_FAMILIES(X)
#undef X
    CALLS_ALL
};

/* ---- the calls ---- */

#define X(name, group, flags, ...)                                                                 \
    static int do_##name(int me)                                                                   \
    {                                                                                              \
        int rc = 0, item = me + 1;                                                                 \
        (void)item;                                                                                \
        __VA_ARGS__;                                                                               \
        return rc;                                                                                 \
    }
THEOREM_CALLS(X)
THEOREM_FAMILIES(X)
#undef X

static const struct {
    const char *name, *text;
    unsigned group, flags;
    int (*fn)(int me);
} theorem_calls[CALLS_ALL] = {
#define X(name, group, flags, ...) {#name, #__VA_ARGS__, group, flags, do_##name},
    THEOREM_CALLS(X)
    THEOREM_FAMILIES(X)
#undef X
};

/* ---- programs ---- */

struct theorem_program {
    unsigned tasks, groups;
    unsigned capacity;
    bool cancels; /* the first task cancels the others before it joins them */
    unsigned count[TASKS];
    uint8_t ops[TASKS][THEOREM_OPS];
};
static struct theorem_program program;

static uint32_t theorem_pick(uint64_t *state, uint32_t n)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ x >> 31) % n);
}

static bool theorem_fits(unsigned op, unsigned task)
{
    unsigned flags = theorem_calls[op].flags;
    return !((flags & FIRST) && task != 0) && !((flags & LATER) && task == 0);
}

/* A task with nurseries of its own, which is cancelled: by the first task, for itself by another
 * one, or with its nursery. */
static void theorem_make_family(uint64_t *state)
{
    static const uint8_t others[] = {CALL_cancel_one, CALL_cancel, CALL_cancelled, CALL_set};
    memset(&program, 0, sizeof(program));
    program.tasks = 2;
    program.groups = OF_NEST | OF_CANCEL;
    program.count[0] = program.count[1] = 1;
    program.ops[0][0] = (uint8_t)(CALLS + theorem_pick(state, CALLS_ALL - CALLS));
    program.ops[1][0] = others[theorem_pick(state, 4)];
    program.cancels = program.ops[1][0] == CALL_cancelled || theorem_pick(state, 4) == 0;
}

/* The program of a number: calls of one group, or of two; one in sixteen is a family's. */
static void theorem_make(uint64_t seed)
{
    uint64_t state = seed * 2 + 1;
    memset(&program, 0, sizeof(program));
    unsigned mix = 1u << theorem_pick(&state, THEOREM_GROUPS);
    mix |= theorem_pick(&state, 2) ? 1u << theorem_pick(&state, THEOREM_GROUPS) : 0;
    mix |= theorem_pick(&state, 4) == 0 ? OF_CANCEL : 0;
    program.capacity = theorem_pick(&state, 3);
    program.cancels = theorem_pick(&state, 8) == 0;
    unsigned calls = theorem_pick(&state, 3) ? 2 : 3 + theorem_pick(&state, 4) / 3;
    unsigned placed = 0;
    program.tasks = calls > 2 && theorem_pick(&state, 6) == 0 ? 3 : 2;
    for (unsigned tries = 0; placed < calls && tries < 4000; tries++) { /* some find no place */
        unsigned op = theorem_pick(&state, CALLS), task = theorem_pick(&state, program.tasks);
        if (!(theorem_calls[op].group & mix) || !theorem_fits(op, task) ||
            program.count[task] == THEOREM_OPS)
            continue;
        program.ops[task][program.count[task]++] = (uint8_t)op;
        program.groups |= theorem_calls[op].group;
        placed++;
    }
    if (theorem_pick(&state, 16) == 0)
        theorem_make_family(&state);
}

__attribute__((unused)) static bool theorem_is_timed(void)
{
    for (unsigned i = 0; i < program.tasks; i++)
        for (unsigned k = 0; k < program.count[i]; k++)
            if (theorem_calls[program.ops[i][k]].flags & TIMED)
                return true;
    return false;
}

/* ---- a run ---- */

static void tell(int who, int what)
{
    if (!theorem_is_over() && it.count[who] < TOLD)
        it.told[who][it.count[who]++] = what;
}

static int follow(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (unsigned i = 0; i < program.count[me]; i++) {
        theorem_pause();
        tell(me, theorem_calls[program.ops[me][i]].fn(me));
    }
    theorem_pause();
    return 0;
}

BOTH(theorem_make_text,
static int make_things(unsigned groups, unsigned capacity)
{
    int zero = 0, rc = kin_sem_init(&it.sem, 1);
    if (rc == 0 && (groups & (OF_CHAN | OF_SELECT)))
        rc = kin_chan_create(&it.chan[0], sizeof(int), capacity);
    if (rc == 0 && (groups & OF_SELECT))
        rc = kin_chan_create(&it.chan[1], sizeof(int), 1);
    if (rc == 0)
        rc = kin_barrier_init(&it.barrier, 2);
    if (rc == 0 && (groups & OF_WATCH))
        rc = kin_watch_create(&it.watch, sizeof(int), &zero);
    if (rc == 0 && (groups & OF_TOPIC))
        rc = kin_broadcast_create(&it.topic, sizeof(int), 1, KIN_BROADCAST_WAIT);
    if (rc == 0 && (groups & OF_TOPIC))
        rc = kin_broadcast_subscribe(it.topic, &it.reader);
    if (rc == 0 && (groups & OF_MPSC))
        rc = kin_mpsc_create(&it.mpsc, sizeof(int), 1);
    if (rc == 0 && (groups & OF_SPSC))
        rc = kin_spsc_create(&it.spsc, sizeof(int), 1);
    if (rc == 0 && (groups & (OF_SERVER | OF_TIMER))) {
        static const struct kin_server_ops ops = {
            .on_call = on_call, .on_cast = on_cast, .on_info = on_info};
        struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
        options.state_size = sizeof(int);
        options.mailbox_capacity = 1;
        rc = kin_server_start(&it.back, &ops, &options, NULL, &it.server);
    }
    if (rc == 0 && (groups & OF_TREE)) {
        const struct kin_child_spec child = {.name = "child", .start = start_child};
        struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
        rc = kin_supervisor_start(&it.back, &options, &child, 1, &it.supervisor);
    }
    return rc;
}

static void end_things(void)
{
    if (it.server.id)
        kin_ignore(kin_server_stop(it.server, 0, KIN_NEVER));
    if (it.supervisor.id)
        kin_ignore(kin_server_stop(it.supervisor, 0, KIN_NEVER));
    for (unsigned i = 0; i < 2; i++)
        if (it.chan[i])
            kin_chan_unref(it.chan[i]);
    if (it.watch)
        kin_watch_unref(it.watch);
    if (it.reader)
        kin_subscriber_unref(it.reader);
    if (it.topic)
        kin_broadcast_unref(it.topic);
    if (it.mpsc)
        kin_mpsc_unref(it.mpsc);
    if (it.spsc)
        kin_spsc_unref(it.spsc);
}
)

/* The first task of a run: makes the things, starts the tasks, tells how they ended. */
static int theorem_play(void *arg)
{
    (void)arg;
    memset(&it, 0, sizeof(it));
    int rc = kin_nursery_open(&it.back, NULL);
    if (rc == 0)
        rc = make_things(program.groups, program.capacity);
    if (rc == 0)
        rc = kin_nursery_open(&it.n, NULL);
    for (unsigned i = 0; rc == 0 && i < program.tasks; i++) {
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        rc = kin_spawn_with(&it.n, &options, follow, (void *)(intptr_t)i, 0, &it.tasks[i]);
    }
    tell(TASKS, rc);
    if (program.cancels) {
        theorem_pause();
        kin_nursery_cancel(&it.n, 9);
    }
    tell(TASKS, kin_nursery_join(&it.n, NULL));
    end_things();
    tell(TASKS, kin_nursery_join(&it.back, NULL));
    return 0;
}

/* What came out of it, as a number that is not 0. */
static uint64_t theorem_outcome(bool is_stuck)
{
    uint64_t hash = is_stuck;
    for (unsigned i = 0; i <= TASKS; i++) {
        for (unsigned k = 0; k < it.count[i]; k++) {
            uint64_t x = hash ^ ((uint64_t)(i + 1) << 40 ^ (uint64_t)(k + 1) << 33 ^
                                 (uint32_t)it.told[i][k]);
            x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
            hash = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
        }
    }
    return hash | 1;
}

/* ---- a program as C ---- */

static void theorem_write_task(FILE *out, unsigned task)
{
    fprintf(out, "static int task_%u(void *arg)\n{\n    const int me = %u;\n"
            "    (void)arg;\n", task, task);
    for (unsigned i = 0; i < program.count[task]; i++)
        fprintf(out, "    {\n        int rc = 0, item = me + 1;\n        (void)item;\n        %s;\n"
               "        tell(me, rc);\n    }\n",
               theorem_calls[program.ops[task][i]].text);
    fprintf(out, "    return 0;\n}\n");
}

/* The program of this number as it is now, alone, for the lab: cc it.c with kin-lab. */
static void theorem_write(FILE *out, uint64_t seed)
{
    fprintf(out, "/* program %llu */\n#include <kin/kin.h>\n#include <kin/lab.h>\n"
            "#include <stdio.h>\n"
           "#include <string.h>\n#define COMMA ,\n%s\n%s\n%s\n",
           (unsigned long long)seed, theorem_things_text, theorem_groups_text, theorem_make_text);
    fprintf(out,
            "static void tell(int who, int what)\n{\n"
            "    it.told[who][it.count[who]++] = what;\n}\n");
    for (unsigned i = 0; i < program.tasks; i++)
        theorem_write_task(out, i);
    fprintf(out, "static int play(void *arg)\n{\n    kin_task_fn *tasks[] = {task_0, task_1%s};\n"
           "    (void)arg;\n    memset(&it, 0, sizeof(it));\n"
           "    int rc = kin_nursery_open(&it.back, NULL);\n"
           "    rc = rc < 0 ? rc : make_things(%uu, %u);\n"
           "    rc = rc < 0 ? rc : kin_nursery_open(&it.n, NULL);\n"
           "    for (int i = 0; rc == 0 && i < %u; i++) {\n"
           "        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;\n"
           "        rc = kin_spawn_with(&it.n, &options, tasks[i], NULL, 0, &it.tasks[i]);\n    }\n"
           "    tell(3, rc);\n%s    tell(3, kin_nursery_join(&it.n, NULL));\n    end_things();\n"
           "    tell(3, kin_nursery_join(&it.back, NULL));\n    for (int i = 0; i < 4; i++)\n"
           "        for (unsigned k = 0; k < it.count[i]; k++)\n"
           "            printf(\"%%d:%%d \", i, it.told[i][k]);\n    puts(\"\");\n"
           "    return 0;\n}\n"
           "int main(void)\n{\n    struct kin_lab_report report;\n"
           "    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;\n"
           "    config.strategy = KIN_LAB_DPOR;\n"
           "    return kin_lab_run(&config, play, NULL, &report) < 0;\n}\n",
           program.tasks > 2 ? ", task_2" : "", program.groups, program.capacity, program.tasks,
           program.cancels ? "    kin_nursery_cancel(&it.n, 9);\n" : "");
}

/* Says what the tasks call, and leaves the program as C in a file. */
static void theorem_show(uint64_t seed)
{
    char name[64];
    snprintf(name, sizeof(name), "/tmp/kin_theorem_%llu.c", (unsigned long long)seed);
    for (unsigned i = 0; i < program.tasks; i++)
        for (unsigned k = 0; k < program.count[i]; k++)
            printf("task %u: %s;\n", i, theorem_calls[program.ops[i][k]].text);
    FILE *file = fopen(name, "w");
    if (!file)
        return;
    theorem_write(file, seed);
    printf("the whole program: %s\n", fclose(file) == 0 ? name : "cannot be written");
}

__attribute__((unused)) static void theorem_say_outcome(void)
{
    for (unsigned i = 0; i <= TASKS; i++) {
        if (!it.count[i])
            continue;
        if (i == TASKS)
            printf("  first task:");
        else
            printf("  task %u:", i);
        for (unsigned k = 0; k < it.count[i]; k++) {
            if (it.told[i][k] < 0)
                printf(" %s", kin_status_name(it.told[i][k]));
            else
                printf(" %d", it.told[i][k]);
        }
        printf("\n");
    }
}

#endif
