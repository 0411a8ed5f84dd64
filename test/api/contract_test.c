/* SPDX-License-Identifier: MIT */
/*
 * Goal: programs that are written against the contract keep compiling: every function has exactly
 *       the type that they rely on, every constant its value, every struct its fields.
 * Method: pointers to functions of the types as they are written down; a compiler refuses the
 *         others. Numbers are compared. What the calls do is tested elsewhere.
 */
#include "api/in_runtime.h"

#include <kin/janus.h>

/* fn has exactly this type; the pointer to declare is called p. */
#define SAME(fn, ...)                                                                              \
    do {                                                                                           \
        __VA_ARGS__ = fn;                                                                          \
        EXPECT(p != NULL);                                                                         \
    } while (0)

KIN_TEST(tasks_time_and_nurseries_have_their_types, "")
{
    SAME(kin_now, kin_time (*p)(void));
    SAME(kin_after, kin_time (*p)(int64_t));
    SAME(kin_status_name, const char *(*p)(int));
    SAME(kin_status_text, const char *(*p)(int));
    SAME(kin_status_code, const char *(*p)(int));
    SAME(kin_run, int (*p)(const struct kin_config *, kin_task_fn *, void *));
    SAME(kin_nursery_open, int (*p)(struct kin_nursery *, const struct kin_nursery_options *));
    SAME(kin_spawn, int (*p)(struct kin_nursery *, kin_task_fn *, void *));
    SAME(kin_spawn_copy, int (*p)(struct kin_nursery *, kin_task_fn *, const void *, size_t));
    SAME(kin_spawn_with, int (*p)(struct kin_nursery *, const struct kin_spawn_options *,
         kin_task_fn *, const void *, size_t, struct kin_task_ref *));
    SAME(kin_nursery_close, void (*p)(struct kin_nursery *));
    SAME(kin_nursery_cancel, void (*p)(struct kin_nursery *, int));
    SAME(kin_nursery_join, int (*p)(struct kin_nursery *, struct kin_outcome *));
    SAME(kin_nursery_poll, int (*p)(struct kin_nursery *, struct kin_outcome *));
    SAME(kin_nursery_state, enum kin_nursery_state (*p)(const struct kin_nursery *));
    SAME(kin_nursery_errors, size_t (*p)(struct kin_nursery *, struct kin_outcome *, size_t));
    SAME(kin_nursery_errors_dropped, size_t (*p)(const struct kin_nursery *));
    SAME(kin_nursery_alloc, void *(*p)(struct kin_nursery *, size_t));
    SAME(kin_nursery_budget_left, struct kin_budget (*p)(const struct kin_nursery *));
    SAME(kin_task_join, int (*p)(struct kin_nursery *, struct kin_task_ref, struct kin_outcome *,
         kin_time));
    SAME(kin_task_cancel, int (*p)(struct kin_task_ref));
    SAME(kin_self, struct kin_task_ref (*p)(void));
    SAME(kin_task_id, uint64_t (*p)(struct kin_task_ref));
    SAME(kin_yield, int (*p)(void));
    SAME(kin_checkpoint, int (*p)(void));
    SAME(kin_cancelled, bool (*p)(void));
    SAME(kin_cancel_reason, int (*p)(void));
    SAME(kin_sleep, int (*p)(kin_time));
    SAME(kin_fail, void (*p)(int, const char *, ...));
    SAME(kin_panic, void (*p)(const char *, ...));
    SAME(kin_mask, void (*p)(void));
    SAME(kin_unmask, void (*p)(void));
    SAME(kin_deadline_push, kin_time (*p)(kin_time));
    SAME(kin_deadline_pop, void (*p)(kin_time));
    SAME(kin_defer, int (*p)(void (*)(void *), void *));
    SAME(kin_defer_try, int (*p)(int (*)(void *), void *));
    SAME(kin_scope_mark, void *(*p)(void));
    SAME(kin_scope_release, void (*p)(void *));
    SAME(kin_alloc, void *(*p)(size_t));
    SAME(kin_free, void (*p)(void *));
    SAME(kin_local_set, int (*p)(const struct kin_local_key *, void *));
    SAME(kin_local_get, void *(*p)(const struct kin_local_key *));
}

KIN_TEST(descriptors_sockets_and_processes_have_their_types, "")
{
    SAME(kin_tcp_listen, int (*p)(const char *, const struct kin_listen_options *, int *));
    SAME(kin_unix_listen, int (*p)(const char *, const struct kin_listen_options *, int *));
    SAME(kin_accept, int (*p)(int, int *, kin_time));
    SAME(kin_tcp_connect, int (*p)(const char *, int *, kin_time));
    SAME(kin_unix_connect, int (*p)(const char *, int *, kin_time));
    SAME(kin_udp_open, int (*p)(const char *, int *));
    SAME(kin_udp_send, ssize_t (*p)(int, const void *, size_t, const char *, kin_time));
    SAME(kin_udp_recv, ssize_t (*p)(int, void *, size_t, char *, size_t, kin_time));
    SAME(kin_local_addr, int (*p)(int, char *, size_t));
    SAME(kin_read, ssize_t (*p)(int, void *, size_t, kin_time));
    SAME(kin_read_full, int (*p)(int, void *, size_t, size_t *, kin_time));
    SAME(kin_write, int (*p)(int, const void *, size_t, size_t *, kin_time));
    SAME(kin_readv, ssize_t (*p)(int, const struct iovec *, int, kin_time));
    SAME(kin_writev, int (*p)(int, const struct iovec *, int, size_t *, kin_time));
    SAME(kin_sendfile, int (*p)(int, int, int64_t *, size_t, size_t *, kin_time));
    SAME(kin_open, int (*p)(const char *, int, mode_t, int *));
    SAME(kin_pread, ssize_t (*p)(int, void *, size_t, int64_t));
    SAME(kin_pwrite, ssize_t (*p)(int, const void *, size_t, int64_t));
    SAME(kin_fsync, int (*p)(int));
    SAME(kin_close, int (*p)(int));
    SAME(kin_shutdown, int (*p)(int, int));
    SAME(kin_resolve, int (*p)(const char *, char (*)[KIN_ADDR_MAX], size_t, kin_time));
    SAME(kin_signal_wait, int (*p)(int, kin_time));
    SAME(kin_process_start, int (*p)(const char *const *, const struct kin_process_options *,
         struct kin_process **));
    SAME(kin_process_pid, pid_t (*p)(const struct kin_process *));
    SAME(kin_process_wait, int (*p)(struct kin_process *, int *, kin_time));
    SAME(kin_blocking, int (*p)(kin_task_fn *, void *, int *, kin_time));
    SAME(kin_fd_wait, int (*p)(int, short, kin_time));
}

KIN_TEST(budgets_and_combinators_have_their_types, "")
{
    SAME(kin_race, int (*p)(struct kin_branch *, size_t, size_t *));
    SAME(kin_any, int (*p)(struct kin_branch *, size_t, size_t *));
    SAME(kin_all, int (*p)(struct kin_branch *, size_t));
    SAME(kin_quorum, int (*p)(struct kin_branch *, size_t, size_t));
    SAME(kin_timeout, int (*p)(struct kin_branch *, kin_time));
    SAME(kin_hedge, int (*p)(struct kin_branch *, size_t, int64_t, size_t *));
    SAME(kin_budget_left, struct kin_budget (*p)(void));
    SAME(kin_budget_recharge, int (*p)(struct kin_task_ref, struct kin_budget));
    SAME(kin_budget_recharge_self, int (*p)(struct kin_budget));
    SAME(kin_nursery_recharge, int (*p)(struct kin_nursery *, struct kin_budget));
    SAME(kin_budget_exhausted, enum kin_budget_part (*p)(void));
    SAME(kin_caps, uint32_t (*p)(void));
}

KIN_TEST(channels_selects_and_locks_have_their_types, "")
{
    SAME(kin_chan_create, int (*p)(struct kin_chan **, size_t, size_t));
    SAME(kin_chan_ref, struct kin_chan *(*p)(struct kin_chan *));
    SAME(kin_chan_unref, void (*p)(struct kin_chan *));
    SAME(kin_chan_send, int (*p)(struct kin_chan *, const void *, kin_time));
    SAME(kin_chan_recv, int (*p)(struct kin_chan *, void *, kin_time));
    SAME(kin_chan_close, void (*p)(struct kin_chan *));
    SAME(kin_chan_abort, void (*p)(struct kin_chan *));
    SAME(kin_chan_len, size_t (*p)(const struct kin_chan *));
    SAME(kin_chan_cap, size_t (*p)(const struct kin_chan *));
    SAME(kin_chan_is_closed, bool (*p)(const struct kin_chan *));
    SAME(kin_case_send, struct kin_case (*p)(struct kin_chan *, const void *));
    SAME(kin_case_recv, struct kin_case (*p)(struct kin_chan *, void *));
    SAME(kin_case_read, struct kin_case (*p)(int));
    SAME(kin_case_write, struct kin_case (*p)(int));
    SAME(kin_case_after, struct kin_case (*p)(int64_t));
    SAME(kin_case_task, struct kin_case (*p)(struct kin_task_ref));
    SAME(kin_case_event, struct kin_case (*p)(struct kin_event *));
    SAME(kin_case_signal, struct kin_case (*p)(int));
    SAME(kin_select, int (*p)(struct kin_case *, size_t, kin_time));
    SAME(kin_mutex_lock, int (*p)(struct kin_mutex *, kin_time));
    SAME(kin_mutex_unlock, void (*p)(struct kin_mutex *));
    SAME(kin_rwlock_read_lock, int (*p)(struct kin_rwlock *, kin_time));
    SAME(kin_rwlock_write_lock, int (*p)(struct kin_rwlock *, kin_time));
    SAME(kin_rwlock_read_unlock, void (*p)(struct kin_rwlock *));
    SAME(kin_rwlock_write_unlock, void (*p)(struct kin_rwlock *));
    SAME(kin_cond_wait, int (*p)(struct kin_cond *, struct kin_mutex *, kin_time));
    SAME(kin_cond_signal, void (*p)(struct kin_cond *));
    SAME(kin_cond_broadcast, void (*p)(struct kin_cond *));
    SAME(kin_sem_init, int (*p)(struct kin_sem *, size_t));
    SAME(kin_sem_acquire, int (*p)(struct kin_sem *, size_t, kin_time));
    SAME(kin_sem_release, void (*p)(struct kin_sem *, size_t));
    SAME(kin_event_set, void (*p)(struct kin_event *));
    SAME(kin_event_reset, void (*p)(struct kin_event *));
    SAME(kin_event_wait, int (*p)(struct kin_event *, kin_time));
    SAME(kin_group_add, void (*p)(struct kin_group *, size_t));
    SAME(kin_group_done, void (*p)(struct kin_group *));
    SAME(kin_group_wait, int (*p)(struct kin_group *, kin_time));
    SAME(kin_once_do, int (*p)(struct kin_once *, kin_task_fn *, void *, kin_time));
    SAME(kin_barrier_init, int (*p)(struct kin_barrier *, size_t));
    SAME(kin_barrier_wait, int (*p)(struct kin_barrier *, kin_time));
}

KIN_TEST(streams_have_their_types, "")
{
    SAME(kin_broadcast_create, int (*p)(struct kin_broadcast **, size_t, size_t,
         enum kin_broadcast_mode));
    SAME(kin_broadcast_send, int (*p)(struct kin_broadcast *, const void *, kin_time));
    SAME(kin_broadcast_subscribe, int (*p)(struct kin_broadcast *, struct kin_subscriber **));
    SAME(kin_broadcast_recv, int (*p)(struct kin_subscriber *, void *, uint64_t *, kin_time));
    SAME(kin_broadcast_ref, struct kin_broadcast *(*p)(struct kin_broadcast *));
    SAME(kin_broadcast_unref, void (*p)(struct kin_broadcast *));
    SAME(kin_broadcast_close, void (*p)(struct kin_broadcast *));
    SAME(kin_subscriber_unref, void (*p)(struct kin_subscriber *));
    SAME(kin_watch_create, int (*p)(struct kin_watch **, size_t, const void *));
    SAME(kin_watch_set, int (*p)(struct kin_watch *, const void *));
    SAME(kin_watch_get, int (*p)(struct kin_watch *, void *, uint64_t *));
    SAME(kin_watch_wait, int (*p)(struct kin_watch *, void *, uint64_t *, kin_time));
    SAME(kin_watch_ref, struct kin_watch *(*p)(struct kin_watch *));
    SAME(kin_watch_unref, void (*p)(struct kin_watch *));
    SAME(kin_watch_close, void (*p)(struct kin_watch *));
}

KIN_TEST(the_exports_have_their_types, "SCHED:12.1.1 SCHED:11.1.1")
{
    SAME(janus_scheduler_create, void *(*p)(SchedulerConfig));
    SAME(janus_scheduler_shutdown, void (*p)(void *));
    SAME(janus_scheduler_spawn, int (*p)(void *, void *));
    SAME(janus_scheduler_yield, int (*p)(void));
    SAME(janus_budget_get_current, Budget (*p)(void));
    SAME(janus_budget_recharge, int (*p)(Budget));
    SAME(janus_nursery_begin, void *(*p)(void));
    SAME(janus_nursery_end, int (*p)(void *));
    SAME(janus_rt_budget_check, void (*p)(void));
    SAME(janus_rt_budget_decrement, void (*p)(uint32_t));
    SAME(janus_rt_yield, void (*p)(void));
    SAME(janus_rt_task_create, uint64_t (*p)(void *, void *, Budget));
    SAME(janus_rt_task_join, int64_t (*p)(uint64_t));
    Budget budget = {.ops = UINT32_MAX, .memory = SIZE_MAX, .spawn_count = UINT16_MAX,
                     .channel_ops = UINT16_MAX, .syscalls = UINT16_MAX};
    SchedulerConfig config = {
        .worker_count = 1, .deterministic_seed = UINT64_MAX, .default_budget = budget};
    EXPECT_EQ(config.default_budget.syscalls, 65535);
}

KIN_TEST(constants_have_their_values, "")
{
    static const int statuses[] = {
        KIN_CANCELLED, KIN_TIMEOUT,  KIN_CLOSED,   KIN_FULL,     KIN_EMPTY,    KIN_BUDGET,
        KIN_NOSCOPE,   KIN_NOTASK,   KIN_STUCK,    KIN_ORPHAN,   KIN_CLEANUP,  KIN_NOCAP,
        KIN_PANICKED,  KIN_OVERFLOW, KIN_WORKER,   KIN_NOPROC,   KIN_TAKEN,    KIN_STOPPING,
        KIN_NOREPLY,   KIN_REPLIED,  KIN_GONE,     KIN_EXHAUSTED, KIN_LEAKED,  KIN_DEADLOCK,
        KIN_NOCONN,    KIN_STALE,    KIN_UNSUPPORTED, KIN_IGNORE};
    EXPECT_EQ(KIN_OK, 0);
    for (int i = 0; i < (int)(sizeof statuses / sizeof statuses[0]); i++)
        EXPECT_EQ(statuses[i], -4096 - i);
    EXPECT_EQ(KIN_NEVER, INT64_MAX);
    EXPECT_EQ(KIN_US(1), 1000);
    EXPECT_EQ(KIN_MS(1), 1000000);
    EXPECT_EQ(KIN_SEC(1), 1000000000);
    EXPECT_EQ(KIN_NURSERY_OPEN, 0);
    EXPECT_EQ(KIN_NURSERY_CLOSING, 1);
    EXPECT_EQ(KIN_NURSERY_CANCELLING, 2);
    EXPECT_EQ(KIN_NURSERY_CLOSED, 3);
    EXPECT_EQ(KIN_NURSERY_CANCELLED, 4);
    EXPECT_EQ(KIN_SEV_OK, 0);
    EXPECT_EQ(KIN_SEV_ERROR, 1);
    EXPECT_EQ(KIN_SEV_CANCELLED, 2);
    EXPECT_EQ(KIN_SEV_PANIC, 3);
    /* in options 0 is the default */
    EXPECT_EQ(KIN_SERVICE, 0);
    EXPECT_EQ(KIN_VICTIM_RANDOM, 0);
    EXPECT_EQ(KIN_POLLER_AUTO, 0);
    EXPECT_EQ(KIN_STACK_PANIC, 0);
    EXPECT_EQ(KIN_FAIL_FAST, 0);
    EXPECT_EQ(KIN_RECHARGE_PROFILE, 0);
    EXPECT_EQ(KIN_EXHAUSTED_WAIT, 0);
    EXPECT_EQ(KIN_BROADCAST_LAG, 0);
    EXPECT_EQ(KIN_BUDGET_NONE, 0);
    EXPECT_EQ(__builtin_popcount(KIN_CAP_SPAWN | KIN_CAP_BUDGET | KIN_CAP_CHANNEL | KIN_CAP_TIME |
                                 KIN_CAP_NET | KIN_CAP_FILE | KIN_CAP_PROCESS | KIN_CAP_REGISTRY |
                                 KIN_CAP_BLOCKING | KIN_CAP_RANDOM),
              10);
    EXPECT_EQ(KIN_CAP_NONE & KIN_CAP_ALL, 0);
}

/* Options as a program writes them: every field by its name. */
KIN_TEST(structs_have_their_fields, "")
{
    struct kin_config config = {.size = sizeof config, .workers = 1, .workers_max = 2, .seed = 3,
                                .profile = KIN_SOVEREIGN, .stack_bytes = 8192,
                                .stack_max_bytes = 65536, .budget = KIN_UNLIMITED_BUDGET,
                                .yield_interval = 7, .victim = KIN_VICTIM_LEAST_LOADED,
                                .poller = KIN_POLLER_EPOLL, .on_overflow = KIN_STACK_ABORT,
                                .on_report = keep_report, .report_arg = &config};
    struct kin_nursery_options open = {.size = sizeof open, .name = "n", .deadline = KIN_NEVER,
                                       .cancel_grace = KIN_SEC(1), .on_error = KIN_COLLECT,
                                       .budget = KIN_UNLIMITED_BUDGET,
                                       .recharge = KIN_RECHARGE_MANUAL,
                                       .on_exhausted = KIN_EXHAUSTED_FAIL, .tasks_max = 1,
                                       .errors_max = 2};
    struct kin_spawn_options spawn = {.size = sizeof spawn, .name = "t",
                                      .budget = KIN_UNLIMITED_BUDGET,
                                      .recharge_limit = {1, 2, 3, 4, 5}, .caps = KIN_CAP_NONE,
                                      .priority = KIN_PRIORITY_HIGH, .stack_max_bytes = 4096,
                                      .slot_deadline = KIN_NEVER};
    struct kin_outcome how = {.severity = KIN_SEV_OK, .status = 0, .value = 1, .task = UINT64_MAX};
    struct kin_branch branch = {.fn = return_it, .arg = &how.value, .out = how};
    struct kin_local_key key = {.destroy = free, .inherit = true};
    struct kin_case one = kin_case_after(1);
    EXPECT_EQ(config.budget.ops, UINT64_MAX);
    EXPECT_EQ(config.budget.memory, UINT64_MAX);
    EXPECT_EQ(open.budget.spawns, UINT32_MAX);
    EXPECT_EQ(open.budget.channel_ops, UINT32_MAX);
    EXPECT_EQ(spawn.budget.syscalls, UINT32_MAX);
    EXPECT_EQ(spawn.recharge_limit.syscalls, 5);
    EXPECT_EQ(branch.fn(branch.arg), 1);
    EXPECT(key.inherit && key.destroy != NULL);
    EXPECT_EQ(one.status, 0);
    EXPECT_NE(one.kind, 0);
    EXPECT_EQ(_Alignof(struct kin_nursery), 16);
}
