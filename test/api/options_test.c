/* SPDX-License-Identifier: MIT */
/*
 * Goal: options can be named where a call takes them, all others have their defaults; and options
 *       that were not begun with their size are refused with a report that names the call and says
 *       what to write.
 * Method: black box. Every call that takes options gets some with size 0, and some by name.
 */
#include "api/in_runtime.h"

#include <kin/lab.h>

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

static int do_nothing(void *item, void *result, void *arg)
{
    (void)item, (void)result, (void)arg;
    return 0;
}

/* ---- by name ---- */

static int tell_the_name(void *arg)
{
    atomic_store((_Atomic int *)arg, 1);
    return kin_caps() == KIN_CAP_TIME ? 0 : -EIO;
}

static int name_options(void *arg)
{
    _Atomic int ran = 0;
    struct kin_nursery n;
    struct kin_addr server;
    static const struct kin_server_ops ops = {0};
    int numbers[3] = {1, 2, 3};
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, KIN_NURSERY_OPTIONS(.name = "named", .tasks_max = 2)), 0);
    EXPECT_EQ(KIN_SPAWN(&n, nothing, NULL), 0);
    EXPECT_EQ(kin_nursery_end(&n, 0), 0);
    EXPECT_EQ(kin_nursery_open(&n, KIN_NURSERY_OPTIONS()), 0);
    EXPECT_EQ(KIN_SPAWN(&n, nothing, NULL, .name = "a", .caps = KIN_CAP_NONE), 0);
    EXPECT_EQ(kin_spawn_with(&n, KIN_SPAWN_OPTIONS(.caps = KIN_CAP_TIME), tell_the_name, &ran, 0,
                             NULL), 0);
    EXPECT_EQ(kin_server_start(&n, &ops, KIN_SERVER_OPTIONS(.name = "clerk"), NULL, &server), 0);
    EXPECT_EQ(kin_server_stop(server, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_supervisor_start(&n, KIN_SUPERVISOR_OPTIONS(.max_restarts = 1), NULL, 0, &server),
              0);
    EXPECT_EQ(kin_server_stop(server, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin_pool_map(KIN_POOL_OPTIONS(.limit = 2), do_nothing, numbers, sizeof numbers[0], 3,
                           KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_end(&n, 0), 0);
    EXPECT_EQ(atomic_load(&ran), 1);
    return 0;
}

KIN_TEST(options_are_given_by_name, "")
{
    static struct reports reports;
    EXPECT_EQ(kin_run(KIN_CONFIG(.workers = 1, .on_report = keep_report, .report_arg = &reports),
                      name_options, NULL), 0);
    EXPECT_EQ(atomic_load(&reports.count), 0);
    EXPECT_EQ(KIN_LAB_CONFIG(.seed = 7)->seed, 7);
    EXPECT_EQ(KIN_LAB_CONFIG(.seed = 7)->size, sizeof(struct kin_lab_config));
    EXPECT_EQ(KIN_PROCESS_OPTIONS(.grace = 5)->grace, 5);
    EXPECT_EQ(KIN_LISTEN_OPTIONS(.backlog = 5)->backlog, 5);
}

/* ---- without a size ---- */

static int forget_sizes(void *arg)
{
    struct kin_nursery_options nursery = {.name = "unsized"};
    struct kin_spawn_options spawn = {.name = "unsized"};
    struct kin_server_options server = {.name = "unsized"};
    struct kin_supervisor_options supervisor = {.name = "unsized"};
    struct kin_pool_options pool = {.limit = 2};
    struct kin_process_options process = {.grace = 2};
    struct kin_listen_options listen = {.backlog = 2};
    static const struct kin_server_ops ops = {0};
    const char *argv[] = {"true", NULL};
    struct kin_process *child;
    struct kin_addr addr;
    struct kin_nursery n;
    int fd, number = 1;
    (void)arg;
    EXPECT_EQ(kin_nursery_open(&n, &nursery), -EINVAL);
    EXPECT_EQ(kin_nursery_open(&n, NULL), 0);
    EXPECT_EQ(kin_spawn_with(&n, &spawn, nothing, NULL, 0, NULL), -EINVAL);
    EXPECT_EQ(kin_server_start(&n, &ops, &server, NULL, &addr), -EINVAL);
    EXPECT_EQ(kin_supervisor_start(&n, &supervisor, NULL, 0, &addr), -EINVAL);
    EXPECT_EQ(kin_pool_map(&pool, do_nothing, &number, sizeof number, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_process_start(argv, &process, &child), -EINVAL);
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", &listen, &fd), -EINVAL);
    EXPECT_EQ(kin_unix_listen("@unsized", &listen, &fd), -EINVAL);
    EXPECT_EQ(kin_nursery_end(&n, 0), 0);
    return 0;
}

KIN_TEST(options_without_a_size_are_reported_with_the_call_and_what_to_write, "")
{
    static const char *const calls[] = {
        "kin_nursery_open: ", "kin_spawn_with: ", "kin_server_start: ", "kin_supervisor_start: ",
        "kin_pool_map: ", "kin_process_start: ", "kin_tcp_listen: ", "kin_unix_listen: "};
    static const char *const macros[] = {
        "KIN_NURSERY_OPTIONS_INIT", "KIN_SPAWN_OPTIONS(", "KIN_SERVER_OPTIONS(",
        "KIN_SUPERVISOR_OPTIONS_INIT", "KIN_POOL_OPTIONS(", "KIN_PROCESS_OPTIONS(",
        "KIN_LISTEN_OPTIONS(", "KIN_LISTEN_OPTIONS_INIT"};
    static struct reports reports;
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(1, forget_sizes, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 8);
    for (int i = 0; i < 8; i++) {
        EXPECT_EQ(reports.status[i], -EINVAL);
        EXPECT(strstr(reports.text[i], calls[i]) != NULL);
        EXPECT(strstr(reports.text[i], macros[i]) != NULL);
        EXPECT(strstr(reports.text[i], "(main)") != NULL);
    }
}

/* What kin_run writes to standard error, where no runtime is yet. */
static void run_and_read(const struct kin_config *config, char *text, size_t size)
{
    int fd = memfd_create("stderr", MFD_CLOEXEC), before = dup(2);
    EXPECT_GE(fd, 0);
    EXPECT_GE(before, 0);
    EXPECT_EQ(dup2(fd, 2), 2);
    int rc = kin_run(config, nothing, NULL);
    EXPECT_EQ(dup2(before, 2), 2);
    EXPECT_EQ(rc, -EINVAL);
    ssize_t count = pread(fd, text, size - 1, 0);
    EXPECT_GT(count, 0);
    text[count] = 0;
    close(fd);
    close(before);
}

KIN_TEST(a_config_without_a_size_or_with_that_of_another_version_is_reported, "")
{
    struct kin_config config = {.workers = 1};
    char text[512];
    run_and_read(&config, text, sizeof text);
    EXPECT(strstr(text, "kin: EINVAL: kin_run: the size of its options is 0, and should be "));
    EXPECT(strstr(text, "KIN_CONFIG_INIT, or write KIN_CONFIG(.field = value)"));
    config.size = sizeof config - 8;
    run_and_read(&config, text, sizeof text);
    EXPECT(strstr(text, "another version of kin"));
}
