/* SPDX-License-Identifier: MIT */
/*
 * Signals that ask a program of the lab to stop: it does so in whatever it is doing, tells what has
 * come of it so far, keeps what it found, leaves nobody and nothing behind, and ends by the signal.
 *
 * Goal: every way of the command line (alone, in several processes, while it shrinks, explains or
 * replays) ends by the signal that it is sent, with its words. Method: the program is a child whose
 * tests tell through a pipe that they are under way; whatever it prints goes to memory.
 */
#include "kin_test.h"

#include "lab/stop.h"
#include "run_main.h"

#include <kin/kin.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int tells[2]; /* a pipe from the tests below: who is under way */
static int news;     /* runs of a test that are over */

static void tell(void)
{
    pid_t self = getpid();
    while (write(tells[1], &self, sizeof(self)) != (ssize_t)sizeof(self)) /* ends: there is room */
        continue;
}

/* ---- the program ---- */

/* Many short runs. */
KIN_LAB(searches, .strategy = KIN_LAB_RANDOM, .executions_max = UINT64_MAX)
{
    if (++news == 100)
        tell();
    return kin_yield();
}

/* One run of many steps. */
KIN_LAB(runs_long, .strategy = KIN_LAB_ROUND_ROBIN)
{
    int sum = 0;
    tell();
    for (int i = 0; i < 240000; i++) {
        usleep(100);
        KIN_SHARED(sum)++; /* it is no livelock */
    }
    return 0;
}

/* One step that does not end. */
KIN_LAB(stays, .strategy = KIN_LAB_ROUND_ROBIN)
{
    tell();
    for (;;) /* ends: the process does */
        (void)pause();
    return 0;
}

static int add_one(void *arg)
{
    int before = KIN_SHARED(*(int *)arg);
    kin_ignore(kin_yield());
    KIN_SHARED(*(int *)arg) = before + 1;
    return 0;
}

/* Fails often, and takes its time for it, so that there is some for a signal. */
KIN_LAB(shrinks, .strategy = KIN_LAB_RANDOM, .executions_max = UINT64_MAX)
{
    int sum = 0;
    KIN_NURSERY(n);
    for (int i = 0; i < 8; i++)
        KIN_LAB_OK(kin_spawn(&n, add_one, &sum));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    usleep(20000);
    if (sum != 8 && ++news == 3)
        tell();
    kin_lab_assert(sum == 8, "each adds one");
    return 0;
}

static pid_t finder; /* the process that finds a crash, and not one that tries to repeat it */

static int die_slowly(void *arg)
{
    (void)arg;
    if (getpid() != finder && ++news == 1) {
        tell();
        usleep(50000);
    }
    for (int i = 0; i < 20; i++)
        kin_ignore(kin_yield());
    abort();
}

KIN_LAB(dies_slowly, .strategy = KIN_LAB_RANDOM)
{
    int sum = 0;
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++)
        KIN_LAB_OK(kin_spawn(&n, add_one, &sum));
    KIN_LAB_OK(kin_spawn(&n, die_slowly, NULL));
    return kin_nursery_join(&n, NULL);
}

KIN_LAB(waits_its_turn, .strategy = KIN_LAB_ROUND_ROBIN)
{
    return 0;
}

/* ---- its end ---- */

static int how, out_fd; /* the last child */
static unsigned patience = 20; /* of a program in which every step ends, on any machine */

static pid_t start(const char *line)
{
    EXPECT_EQ(pipe(tells), 0);
    out_fd = memfd_create("out", 0);
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        dup2(out_fd, STDOUT_FILENO);
        dup2(out_fd, STDERR_FILENO);
        close(tells[0]);
        finder = getpid();
        kin__stop_patience = patience;
        _exit(call_main(line));
    }
    close(tells[1]);
    return pid;
}

/* The process in which a test is under way. */
static pid_t await(void)
{
    pid_t pid = 0;
    EXPECT_EQ(read(tells[0], &pid, sizeof(pid)), (ssize_t)sizeof(pid));
    return pid;
}

static void finish(pid_t pid)
{
    EXPECT_EQ(waitpid(pid, &how, 0), pid);
    read_back(out_fd, main_out, sizeof(main_out));
    fputs(main_out, stdout);
    /* Nobody has the other end any more: every process of it is gone. */
    struct pollfd end = {.fd = tells[0], .events = POLLIN};
    EXPECT_EQ(poll(&end, 1, 10000), 1);
    char byte[64];
    while (read(tells[0], byte, sizeof(byte)) > 0) /* ends: at the end */
        continue;
    close(tells[0]);
}

static void stop(const char *line, int signo)
{
    pid_t pid = start(line);
    (void)await();
    EXPECT_EQ(kill(pid, signo), 0);
    finish(pid);
}

static bool says(const char *text)
{
    return strstr(main_out, text) != NULL;
}

static bool died_of(int signo)
{
    return WIFSIGNALED(how) && WTERMSIG(how) == signo;
}

static char directory[] = "/tmp/kin-stop-XXXXXX";

/* How many files there are whose name ends so; they are removed, with the directory. */
static int take_files(const char *ending)
{
    int count = 0;
    DIR *dir = opendir(directory);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[512];
        size_t length = strlen(entry->d_name);
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        if (entry->d_name[0] == '.' || unlink(path) != 0)
            continue;
        count += length > strlen(ending) &&
                 strcmp(entry->d_name + length - strlen(ending), ending) == 0;
    }
    if (dir)
        closedir(dir);
    EXPECT_EQ(rmdir(directory), 0);
    return count;
}

KIN_TEST(a_search_stops_and_tells_what_it_has_done, "")
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        stop("t searches waits --no-files", signals[i]);
        EXPECT(died_of(signals[i]));
        EXPECT(says("stop  searches"));
        EXPECT(says("  no failure in "));
        EXPECT(says("1 test: 0 passed (0 completely), 0 failed, 1 stopped by signal "));
        EXPECT(says(", 1 not begun; "));
        EXPECT(!says("ok  "));
    }
}

KIN_TEST(a_long_run_is_abandoned, "")
{
    stop("t runs_long --no-files --quiet", SIGTERM);
    EXPECT(died_of(SIGTERM));
    EXPECT(says("stop  runs_long"));
    EXPECT(says("  no failure in 0 runs"));
    EXPECT(!says("livelock"));
}

KIN_TEST(a_step_that_does_not_end_is_left, "")
{
    patience = 1;
    stop("t stays waits --no-files", SIGINT);
    EXPECT(died_of(SIGINT));
    EXPECT(says("stop  stays"));
    EXPECT(says("1 stopped by signal 2 (Interrupt)"));
}

KIN_TEST(a_stopped_test_has_a_line_of_json, "")
{
    stop("t searches --json --no-files", SIGINT);
    EXPECT(died_of(SIGINT));
    EXPECT(says("{\"test\":\"searches\",\"verdict\":\"stopped\""));
}

KIN_TEST(a_failure_that_is_being_shrunk_is_told_and_written, "")
{
    char line[128];
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t shrinks --explain --report-dir %s", directory);
    stop(line, SIGINT);
    EXPECT(died_of(SIGINT));
    EXPECT(says("FAIL  shrinks: assert, root"));
    EXPECT(says("--replay "));
    EXPECT(says("1 test: 0 passed (0 completely), 1 failed, 0 stopped by signal 2"));
    EXPECT_EQ(take_files(".kinlab"), 1);
}

KIN_TEST(a_crash_that_is_being_shrunk_is_told_once, "")
{
    stop("t dies_slowly --no-files", SIGINT);
    EXPECT(died_of(SIGINT));
    EXPECT(says("FAIL  dies_slowly: crash, root/4"));
    EXPECT(strstr(strstr(main_out, "FAIL ") + 1, "FAIL ") == NULL);
}

KIN_TEST(failures_that_were_counted_are_told_and_written, "")
{
    char line[128];
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t shrinks --keep-going --report-dir %s", directory);
    stop(line, SIGINT);
    EXPECT(died_of(SIGINT));
    EXPECT(says(" runs fail, the first by assert"));
    EXPECT(says("FAIL  shrinks: assert, root"));
    EXPECT_EQ(take_files(".kinlab"), 1);
}

KIN_TEST(processes_that_share_the_work_stop_too, "")
{
    patience = 1;
    pid_t pid = start("t searches stays runs_long waits -j3 --no-files");
    for (int i = 0; i < 3; i++)
        EXPECT(await() != pid);
    EXPECT_EQ(kill(pid, SIGINT), 0);
    finish(pid);
    EXPECT(died_of(SIGINT));
    EXPECT(says("stop  searches"));
    EXPECT(says("stop  stays"));
    EXPECT(says("stop  runs_long"));
    EXPECT(!says("FAIL"));
    EXPECT(says("3 stopped by signal 2 (Interrupt)"));
}

KIN_TEST(a_range_of_seeds_in_several_processes_stops, "")
{
    pid_t pid = start("t searches -s random --seeds 1..1000000000000 -j2 --no-files");
    for (int i = 0; i < 2; i++)
        (void)await();
    EXPECT_EQ(kill(pid, SIGTERM), 0);
    finish(pid);
    EXPECT(died_of(SIGTERM));
    EXPECT(says("1 test: 0 passed (0 completely), 0 failed, 1 stopped by signal 15"));
}

/* A terminal asks everybody, and its program then asks its own. The signals wait for a program that
 * was stopped, so that they arrive at once on any machine. */
KIN_TEST(who_is_asked_twice_at_once_still_tells, "")
{
    pid_t pid = start("t searches --no-files");
    (void)await();
    EXPECT_EQ(kill(pid, SIGSTOP), 0);
    EXPECT_EQ(waitpid(pid, &how, WUNTRACED), pid);
    EXPECT(WIFSTOPPED(how));
    EXPECT_EQ(kill(pid, SIGINT), 0);
    EXPECT_EQ(kill(pid, SIGTERM), 0);
    EXPECT_EQ(kill(pid, SIGHUP), 0);
    EXPECT_EQ(kill(pid, SIGCONT), 0);
    finish(pid);
    EXPECT(died_of(SIGINT) || died_of(SIGTERM) || died_of(SIGHUP)); /* by the first to arrive */
    EXPECT(says("stop  searches"));
}

KIN_TEST(a_signal_that_is_ignored_stays_so, "")
{
    (void)signal(SIGINT, SIG_IGN);
    pid_t pid = start("t searches --no-files");
    (void)await();
    EXPECT_EQ(kill(pid, SIGINT), 0);
    EXPECT_EQ(kill(pid, SIGTERM), 0);
    finish(pid);
    (void)signal(SIGINT, SIG_DFL);
    EXPECT(died_of(SIGTERM));
    EXPECT(says("stopped by signal 15 (Terminated)"));
}

KIN_TEST(files_that_are_replayed_stop_too, "")
{
    char path[64], line[128];
    patience = 1;
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    for (char c = 'a'; c <= 'c'; c++) {
        snprintf(path, sizeof(path), "%s/%c.kinlab", directory, c);
        FILE *file = fopen(path, "w");
        EXPECT(file != NULL);
        fprintf(file, "kinlab 1\ntest %s\nseed 0x1\nsched root:%d\nend\n",
                c == 'a' ? "waits_its_turn" : "stays", c == 'a' ? 2 : 1);
        EXPECT_EQ(fclose(file), 0);
    }
    snprintf(line, sizeof(line), "t --regress %s --lenient --no-files", directory);
    stop(line, SIGINT);
    EXPECT(died_of(SIGINT));
    EXPECT(says("3 regression files: 1 as expected, 0 not, 2 left when it was stopped by signal"));
    snprintf(line, sizeof(line), "t --replay %s/b.kinlab --lenient --no-files", directory);
    stop(line, SIGTERM);
    EXPECT(died_of(SIGTERM));
    EXPECT(says("stop  stays"));
    EXPECT_EQ(take_files(".kinlab"), 3);
}

KIN_TEST(actions_are_put_back, "")
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction after;
    EXPECT_EQ(run_main("t waits"), 0);
    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        EXPECT_EQ(sigaction(signals[i], NULL, &after), 0);
        EXPECT(after.sa_handler == SIG_DFL);
    }
}
