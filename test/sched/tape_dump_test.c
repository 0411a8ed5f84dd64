/* SPDX-License-Identifier: MIT */
/*
 * Goal: a record can be written while it goes on, after five hours, and when things go wrong; and
 * when it cannot be written, somebody is told.
 * Method: dumps by tasks while others run on other workers; clocks that are put back; programs that
 * panic, crash, get stuck or break a rule, and what they leave in their file; full disks.
 */
#include "taped.h"

#include "sched/sched.h"
#include "sched/tape.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

/* ---- while it goes on ---- */

static _Atomic int is_over;

static int work_on(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over))
        if (kin_yield() < 0)
            return -1;
    return 0;
}

static int child(void *arg)
{
    (void)arg;
    return 0;
}

static int spawn_on(void *arg)
{
    (void)arg;
    while (!atomic_load(&is_over)) {
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, child, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_yield(), 0);
    }
    return 0;
}

static int dump_meanwhile(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(kin_spawn(&n, work_on, NULL), 0);
        EXPECT_EQ(kin_spawn(&n, spawn_on, NULL), 0);
    }
    for (int i = 0; i < 20; i++) {
        for (int j = 0; j < 10; j++)
            EXPECT_EQ(kin_yield(), 0);
        struct record record = record_now(); /* which looks at every line */
        EXPECT_NE(find_path(&record, "root"), 0);
        forget(&record);
    }
    atomic_store(&is_over, 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_dump_of_rings_that_go_on_has_whole_entries_in_order, "SCHED:11.2.1")
{
    EXPECT_EQ(setenv("KIN_RECORD_BYTES", "2048", 1), 0); /* overtaken all the time */
    struct record record = run_recorded(3, dump_meanwhile, NULL);
    EXPECT_NE(find_path(&record, "root"), 0);
    forget(&record);
}

/* ---- hours ---- */

static int wait_for_hours(void *arg)
{
    struct kin__tape *tape = kin__worker_self()->sched->tape;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, child, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    tape->began -= KIN_SEC(11 * 3600);
    KIN_NURSERY(m);
    EXPECT_EQ(kin_spawn(&m, child, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&m, NULL), 0);
    return 0;
}

/* All times are of the first hour or of the eleventh, and both occur; they never go back. */
static void check_hours(const struct record *record)
{
    bool is_early = false, is_late = false;
    for (size_t i = 0; i < record->count; i++) {
        uint64_t hour = record->lines[i].ns / 1000000000 / 3600;
        if (record->lines[i].ring != 0)
            continue;
        EXPECT(hour == 0 || hour == 11);
        is_early = is_early || hour == 0;
        is_late = is_late || hour == 11;
    }
    EXPECT(is_early && is_late);
}

KIN_TEST(times_are_whole_after_more_hours_than_an_entry_can_count, "")
{
    struct record record = run_recorded(1, wait_for_hours, NULL);
    EXPECT_EQ(count_kind(&record, "clock"), 0);
    check_hours(&record);
    forget(&record);
}

/* ---- when things go wrong ---- */

static enum kin_on_overflow on_overflow;
static char said[4096]; /* by the process, on standard error */

/* Runs fn in a process of its own with KIN_RECORD=wish, in a directory of its own; what is in the
 * file with this name, NULL: there is none. */
static char *left_by(const char *wish, kin_task_fn *fn, const char *name)
{
    char directory[] = "/tmp/kin_record_XXXXXX", path[256];
    int how, words[2];
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    EXPECT_EQ(pipe(words), 0);
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = 2;
        config.on_overflow = on_overflow;
        (void)signal(SIGSEGV, SIG_DFL); /* a sanitizer may have had its own */
        (void)signal(SIGABRT, SIG_DFL);
        if (chdir(directory) != 0 || setenv("KIN_RECORD", wish, 1) != 0 || dup2(words[1], 2) != 2)
            _exit(1);
        (void)!kin_run(&config, fn, NULL);
        _exit(0);
    }
    close(words[1]);
    size_t used = 0;
    for (ssize_t part = 1; part > 0 && used < sizeof(said) - 1; used += part > 0 ? (size_t)part : 0)
        part = read(words[0], said + used, sizeof(said) - 1 - used);
    said[used] = '\0';
    close(words[0]);
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (!*name)
        snprintf(path, sizeof path, "%s/kin-%d.kinrecord", directory, (int)pid);
    int fd = open(path, O_RDONLY);
    char *text = fd < 0 ? NULL : read_all(fd);
    if (fd >= 0)
        close(fd);
    (void)unlink(path);
    (void)rmdir(directory);
    return text;
}

static int panic(void *arg)
{
    (void)arg;
    kin_panic("on purpose");
}

static int see_panic(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, panic, NULL), 0);
    (void)!kin_nursery_join(&n, NULL);
    for (int i = 0; i < 100; i++) { /* not in the record any more */
        KIN_NURSERY(m);
        EXPECT_EQ(kin_spawn(&m, child, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&m, NULL), 0);
    }
    return 0;
}

KIN_TEST(a_panic_leaves_the_record_of_its_moment, "")
{
    static const char *const wishes[] = {"1", "here"};
    for (unsigned i = 0; i < 2; i++) {
        char *text = left_by(wishes[i], see_panic, i == 0 ? "" : "here");
        EXPECT(text != NULL);
        struct record record = read_record(text);
        unsigned task = find_path(&record, "root/0");
        EXPECT_EQ(record.tasks, 2);
        EXPECT_EQ(count_kind(&record, "report"), 1);
        for (size_t j = 0; j < record.count; j++) {
            if (is_kind(&record.lines[j], "report"))
                EXPECT_EQ(record.lines[j].task, task);
        }
        forget(&record);
    }
}

static int nothing(void *arg)
{
    (void)arg;
    return 0;
}

KIN_TEST(without_trouble_a_file_is_written_only_where_one_was_named, "")
{
    EXPECT(left_by("1", nothing, "") == NULL);
    char *text = left_by("here", nothing, "here");
    EXPECT(text != NULL);
    free(text);
    EXPECT(left_by("no/such/directory", nothing, "no") == NULL);
}

static int wait_for_ever(void *arg)
{
    struct kin_chan *nobodys;
    int got;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&nobodys, sizeof(int), 0), 0);
    return kin_chan_recv(nobodys, &got, KIN_NEVER);
}

static void leave(const struct kin_report *report, void *arg)
{
    (void)arg;
    _exit(report->status == KIN_DEADLOCK ? 0 : 1);
}

KIN_TEST(a_deadlock_leaves_its_record, "")
{
    char path[] = "/tmp/kin_record_XXXXXX";
    if (kin__process_threads() != 1)
        KIN_SKIP("the process has a thread beside the program's, which might wake somebody");
    int fd = kin_test_mkstemp(path), how;
    EXPECT_GE(fd, 0);
    pid_t pid = fork();
    EXPECT_GE(pid, 0);
    if (pid == 0) {
        struct kin_config config = KIN_CONFIG_INIT;
        config.workers = 1;
        config.on_report = leave;
        if (setenv("KIN_RECORD", path, 1) == 0)
            (void)!kin_run(&config, wait_for_ever, NULL);
        _exit(1);
    }
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    EXPECT(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    close(fd);
    fd = open(path, O_RDONLY);
    struct record record = read_record(read_all(fd));
    EXPECT_EQ(count_kind(&record, "park"), 1);
    EXPECT_EQ(count_kind(&record, "end"), 0);
    EXPECT_EQ(count_kind(&record, "report"), 1);
    forget(&record);
    close(fd);
    unlink(path);
}

static int break_a_rule(void *arg)
{
    (void)arg;
    KIN__CHECK(false, "house: for the test");
    return 0;
}

KIN_TEST(a_check_that_fails_leaves_the_record, "")
{
    char *text = left_by("here", break_a_rule, "here");
    EXPECT(text != NULL);
    struct record record = read_record(text);
    EXPECT_EQ(record.tasks, 1);
    forget(&record);
}

/* ---- crashes ---- */

static int touch_nothing(void *arg)
{
    volatile int *volatile nothing = NULL; /* a compiler does not know better */
    (void)arg;
    return *nothing;
}

static int abort_here(void *arg)
{
    (void)arg;
    abort();
}

static volatile bool goes_on = true;

static int go_too_deep(void *arg)
{
    volatile char bytes[1024];
    bytes[0] = 0;
    return goes_on ? go_too_deep(arg) + bytes[0] : 0;
}

static int crash_with_the_lock(void *arg)
{
    kin__lock_take(&kin__worker_self()->sched->tape->lock, KIN__RANK_LEAF);
    return abort_here(arg);
}

static kin_task_fn *crash;

static int crash_in_a_child(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, crash, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_crash_leaves_the_record, "")
{
    static kin_task_fn *const crashes[] = {touch_nothing, abort_here, go_too_deep,
                                           crash_with_the_lock};
    on_overflow = KIN_STACK_ABORT;
    for (unsigned i = 0; i < 4; i++) {
        crash = crashes[i];
        char *text = left_by("1", crash_in_a_child, "");
        EXPECT(text != NULL);
        struct record record = read_record(text);
        EXPECT_EQ(record.tasks, 2);
        EXPECT_NE(find_path(&record, "root/0"), 0);
        EXPECT_EQ(count_kind(&record, "report"), crash != crash_with_the_lock);
        EXPECT_EQ(count_kind(&record, "spawn"), 2);
        forget(&record);
    }
}

/* A child that the program forks has the memory of the record, and is not who it is of. */
static int fork_one_that_aborts(void *arg)
{
    int how;
    (void)arg;
    pid_t pid = fork();
    if (pid == 0)
        abort();
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    EXPECT(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    int fd = open("here", O_RDONLY);
    EXPECT_LT(fd, 0); /* not yet */
    return 0;
}

KIN_TEST(a_child_of_the_process_leaves_its_file_alone, "")
{
    char *text = left_by("here", fork_one_that_aborts, "here");
    EXPECT(text != NULL);
    struct record record = read_record(text);
    EXPECT_EQ(count_kind(&record, "report"), 0);
    forget(&record);
}

/* ---- files that cannot be written ---- */

KIN_TEST(a_record_that_cannot_be_written_is_said_to_be, "")
{
    char deep[6000];
    EXPECT(left_by("no/such/directory", nothing, "no") == NULL);
    EXPECT(strstr(said, "kin: the record cannot be written to 'no/such/directory': ") != NULL);
    EXPECT(left_by("/dev/full", nothing, "full") == NULL);
    EXPECT(strstr(said, "'/dev/full': ") != NULL);
    char *text = left_by("here", nothing, "here");
    EXPECT(text != NULL);
    free(text);
    EXPECT_STR(said, "");
    memset(deep, 'x', sizeof(deep) - 1); /* longer than any path is, and not cut to one that is */
    deep[sizeof(deep) - 1] = '\0';
    EXPECT(left_by(deep, nothing, "x") == NULL);
    EXPECT(strstr(said, "cannot be written") != NULL);
}

static int dump_to_full(void *arg)
{
    int fd = open("/dev/full", O_WRONLY), closed = open("/dev/null", O_RDONLY);
    (void)arg;
    EXPECT_GE(fd, 0);
    EXPECT_EQ(kin_record_dump(fd), -ENOSPC);
    EXPECT_EQ(kin_record_dump(closed), -EBADF);
    close(fd);
    close(closed);
    return 0;
}

KIN_TEST(a_dump_answers_why_it_could_not_be_written, "")
{
    struct record record = run_recorded(1, dump_to_full, NULL);
    forget(&record);
}

/* ---- several runtimes, many workers ---- */

static pthread_barrier_t both;

static int meet(void *arg)
{
    (void)arg;
    (void)pthread_barrier_wait(&both);
    return 0;
}

static void *run_one(void *arg)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, meet, arg), 0);
    return NULL;
}

KIN_TEST(runtimes_side_by_side_have_a_file_each, "")
{
    char path[2][64] = {"/tmp/kin_record_XXXXXX"};
    pthread_t other;
    int fd = kin_test_mkstemp(path[0]);
    EXPECT_GE(fd, 0);
    close(fd);
    snprintf(path[1], sizeof path[1], "%.40s.2", path[0]);
    EXPECT_EQ(setenv("KIN_RECORD", path[0], 1), 0);
    EXPECT_EQ(pthread_barrier_init(&both, NULL, 2), 0);
    EXPECT_EQ(pthread_create(&other, NULL, run_one, NULL), 0);
    (void)run_one(NULL);
    EXPECT_EQ(pthread_join(other, NULL), 0);
    for (int i = 0; i < 2; i++) {
        fd = open(path[i], O_RDONLY);
        EXPECT_GE(fd, 0);
        struct record record = read_record(read_all(fd));
        EXPECT_EQ(count_kind(&record, "end"), 1);
        forget(&record);
        close(fd);
        EXPECT_EQ(unlink(path[i]), 0);
    }
}

static int spawn_many(void *arg)
{
    KIN_NURSERY(n);
    for (int i = 0; i < 200; i++)
        EXPECT_EQ(kin_spawn(&n, child, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(sixty_four_workers_are_recorded, "")
{
    struct record record = run_recorded(64, spawn_many, NULL);
    EXPECT_EQ(record.tasks, 201);
    EXPECT_EQ(count_kind(&record, "end"), 201);
    forget(&record);
}
