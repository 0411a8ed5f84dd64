/* SPDX-License-Identifier: MIT */
/*
 * Schedules in files: found, replayed, shrunk, kept as regressions, and files that are none.
 */
#include "kin_test.h"

#include "run_main.h"

#include "lab/main.h"

#include <kin/kin.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

/* ---- the program; is_fixed is what somebody changes between two builds ---- */

static bool is_fixed, is_changed;

static int add(void *arg)
{
    int *sum = arg;
    if (is_fixed) {
        KIN_SHARED(*sum)++;
        return 0;
    }
    int seen = KIN_SHARED(*sum);
    kin_ignore(kin_yield());
    KIN_SHARED(*sum) = seen + 1;
    return 0;
}

KIN_LAB(adds, .strategy = KIN_LAB_RANDOM, .executions_max = 1000)
{
    int sum = 0, other = 0;
    KIN_NURSERY(n);
    if (is_changed || sysconf(_SC_NPROCESSORS_ONLN) == 1)
        KIN_LAB_OK(kin_spawn(&n, add, &other));
    KIN_LAB_OK(kin_spawn(&n, add, &sum));
    KIN_LAB_OK(kin_spawn(&n, add, &sum));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(sum == 2, "both are counted");
    return 0;
}

/* ---- programs that each kind of fault breaks ---- */

static int give(void *chan)
{
    int rc = kin_yield();
    return rc < 0 ? rc : kin_chan_send(chan, &(int){1}, KIN_NEVER);
}

/* What comes of one that gives and one that takes in time. */
static int take_in_time(struct kin_budget budget)
{
    struct kin_chan *chan;
    int value, rc = kin_chan_create(&chan, sizeof(int), 1);
    if (rc < 0)
        return rc;
    KIN_NURSERY(n, .on_error = KIN_COLLECT, .budget = budget);
    rc = kin_spawn(&n, give, chan);
    int took = rc < 0 ? 0 : kin_chan_recv(chan, &value, kin_after(KIN_SEC(1)));
    if (took < 0)
        kin_nursery_cancel(&n, KIN_CANCELLED);
    int joined = kin_nursery_join(&n, NULL);
    kin_chan_unref(chan);
    return rc < 0 ? rc : joined < 0 && joined != KIN_CANCELLED ? joined : took;
}

static int bear(int status, struct kin_budget budget)
{
    kin_lab_assert(take_in_time(budget) != status, "this does not happen");
    return 0;
}

#define BREAKS(kind, status, ...)                                                                  \
    KIN_LAB(breaks_by_##kind, .strategy = KIN_LAB_ROUND_ROBIN)                                     \
    {                                                                                              \
        return bear(status, (struct kin_budget){__VA_ARGS__});                                     \
    }
BREAKS(oom, -ENOMEM, 0)
BREAKS(fail, -EIO, 0)
BREAKS(panic, KIN_PANICKED, 0)
BREAKS(deadline, KIN_TIMEOUT, 0)
BREAKS(delay, KIN_TIMEOUT, 0)
BREAKS(budget, KIN_BUDGET, 1000, 1000, 10, 1000, 1000)

static int is_cancelled(void *arg)
{
    (void)arg;
    kin_lab_assert(kin_checkpoint() == 0 && kin_yield() == 0, "nobody cancels this");
    return 0;
}

KIN_LAB(breaks_by_cancel, .strategy = KIN_LAB_ROUND_ROBIN)
{
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    kin_ignore(kin_spawn(&n, is_cancelled, NULL));
    kin_ignore(kin_nursery_join(&n, NULL));
    return 0;
}

KIN_LAB(breaks_by_each, .strategy = KIN_LAB_ROUND_ROBIN)
{
    kin_lab_assert(!KIN_BUGGIFY("a rare case"), "nothing is rare");
    return 0;
}

/* ---- a directory of its own for each test ---- */

static char directory[] = "/tmp/kin_replay_XXXXXX";
static char file[600]; /* the schedule that was found */

static void remove_all(void)
{
    DIR *dir = opendir(directory);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        (void)unlink(path);
    }
    if (dir)
        closedir(dir);
    (void)rmdir(directory);
}

/* Finds a bug as the words say; its schedule is in file. */
static void find(const char *words)
{
    char line[700];
    snprintf(line, sizeof(line), "t %s --report-dir %s", words, directory);
    EXPECT_EQ(run_main(line), 1);
    const char *at = strstr(main_out, "--replay ");
    EXPECT(at != NULL);
    snprintf(file, sizeof(file), "%.*s", (int)strcspn(at + 9, "\n"), at + 9);
    EXPECT_EQ(access(file, R_OK), 0);
}

static void find_it(void)
{
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    atexit(remove_all);
    find("adds");
}

static int with_file(const char *what, const char *rest)
{
    char line[1400];
    snprintf(line, sizeof(line), "t %s %s %s", what, file, rest);
    return run_main(line);
}

static int regress(void)
{
    char line[700];
    snprintf(line, sizeof(line), "t --regress %s --no-files", directory);
    return run_main(line);
}

static bool says(const char *text)
{
    return strstr(main_out, text) != NULL;
}

/* Puts a line behind the first one of the file. */
static void insert(const char *line)
{
    static char bytes[65536];
    FILE *of = fopen(file, "r+");
    EXPECT(of != NULL);
    size_t size = fread(bytes, 1, sizeof(bytes) - 1, of);
    size_t first = strcspn(bytes, "\n") + 1;
    rewind(of);
    fwrite(bytes, 1, first, of);
    fputs(line, of);
    fwrite(bytes + first, 1, size - first, of);
    EXPECT_EQ(fclose(of), 0);
}

static void write_file(const char *name, const char *bytes, size_t size)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT_EQ(write(fd, bytes, size), (ssize_t)size);
    close(fd);
}

KIN_TEST(a_failure_replays_every_time, "")
{
    find_it();
    for (unsigned i = 0; i < 100; i++) {
        EXPECT_EQ(with_file("--replay", "--json"), 1);
        EXPECT(says("\"oracle\":\"assert\""));
        EXPECT(says("\"runs\":1,"));
    }
    EXPECT_EQ(with_file("--replay", ""), 1);
    EXPECT(says("FAIL  adds: assert, root\n"));
    EXPECT(says("<-- here"));
}

KIN_TEST(a_fixed_bug_passes_its_regression_file, "")
{
    find_it();
    EXPECT_EQ(regress(), 1);
    EXPECT(says("FAIL  adds: assert"));
    EXPECT(says("1 regression file: 0 as expected, 1 not"));
    is_fixed = true;
    EXPECT_EQ(regress(), 0);
    EXPECT(says("1 regression file: 1 as expected, 0 not"));
}

KIN_TEST(a_file_that_no_longer_fits_is_explored_around, "")
{
    find_it();
    is_changed = true;
    EXPECT_EQ(regress(), 1); /* the bug is still there */
    is_fixed = true;
    EXPECT_EQ(regress(), 0);
    EXPECT(says("no longer fits; "));
}

KIN_TEST(a_known_bug_may_go_on_failing, "")
{
    find_it();
    insert("known issue 12\n");
    EXPECT_EQ(regress(), 0);
    is_fixed = true;
    EXPECT_EQ(regress(), 1);
}

KIN_TEST(a_schedule_can_be_shrunk_again, "")
{
    char rest[700];
    find_it();
    snprintf(rest, sizeof(rest), "--report-dir %s", directory);
    EXPECT_EQ(with_file("--shrink", rest), 1);
    EXPECT(says("FAIL  adds: assert"));
    EXPECT(says(".kinlab\n"));
}

KIN_TEST(files_that_are_none_are_refused_in_one_line, "")
{
    static const char *const contents[] = {
        "", "\n", "kinlab", "kinlab \n", "nonsense\n", "kinlab 1\n", "kinlab 99\ntest adds\n",
        "kinlab 1\ntest nobody\n", "kinlab 1\ntest adds", "kinlab 1\ntest adds\nsched\n",
        "kinlab 1\ntest adds\nsched root:x\n",
        "kinlab 1\ntest adds\nsched root:99999999999999999999\n",
        "kinlab 1\ntest adds\nsched :3 : a: ::\n",
        "kinlab 1\ntest adds\nseed 18446744073709551616\n",
        "kinlab 1\ntest adds\nfaults oom,nonsense\nworkers -1\n",
    };
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    atexit(remove_all);
    snprintf(file, sizeof(file), "%s/x.kinlab", directory);
    for (size_t i = 0; i < sizeof(contents) / sizeof(contents[0]); i++) {
        write_file("x.kinlab", contents[i], strlen(contents[i]));
        int status = with_file("--replay", "--lenient");
        EXPECT(status == 0 || status == 1 || status == 2); /* and not a crash */
        EXPECT_LE(strlen(main_err), 1000);
    }
    static char garbage[200000];
    for (size_t i = 0; i < sizeof(garbage); i++)
        garbage[i] = (char)(i * 2654435761u >> 13);
    write_file("x.kinlab", garbage, sizeof(garbage));
    EXPECT_EQ(with_file("--replay", ""), 2);
    memcpy(garbage, "kinlab 1\ntest adds\nsched ", 25);
    memset(garbage + 25, 'r', sizeof(garbage) - 25);
    write_file("x.kinlab", garbage, sizeof(garbage));
    EXPECT_NE(with_file("--replay", ""), 0);
}

KIN_TEST(an_empty_directory_has_no_regressions, "")
{
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    atexit(remove_all);
    EXPECT_EQ(regress(), 0);
    EXPECT(says("0 regression files"));
    write_file("readme.txt", "x", 1);
    EXPECT_EQ(regress(), 0);
}

/* ---- faults ---- */

static bool file_says(const char *text)
{
    static char bytes[65536];
    FILE *of = fopen(file, "r");
    EXPECT(of != NULL);
    size_t size = fread(bytes, 1, sizeof(bytes) - 1, of);
    EXPECT_EQ(fclose(of), 0);
    bytes[size] = '\0';
    return strstr(bytes, text) != NULL;
}

/* The same file without the command line: whoever calls does not know of the faults. */
static int run_file(const char *name)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report report;
    const struct kin_lab_test *test = kin__main_find(name);
    EXPECT(test != NULL);
    config.strategy = KIN_LAB_REPLAY;
    config.replay_file = file;
    int rc = kin_lab_run(&config, test->fn, NULL, &report);
    EXPECT_STR(report.oracle ? report.oracle : "none", "assert");
    return rc;
}

KIN_TEST(each_kind_of_fault_is_found_written_replayed_and_shrunk, "")
{
    static const char *const kinds[] = {"oom",      "cancel", "fail",  "panic",
                                        "deadline", "budget", "delay", "each"};
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    atexit(remove_all);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char words[128], rest[700], name[64];
        snprintf(name, sizeof(name), "breaks_by_%s", kinds[i]);
        snprintf(words, sizeof(words), "%s -s rr --sweep %s", name, kinds[i]);
        find(words);
        snprintf(words, sizeof(words), "faults %s%s\n", kinds[i], i < 7 ? ",each" : "");
        EXPECT(file_says(words));
        for (unsigned k = 0; k < 10; k++) {
            EXPECT_EQ(with_file("--replay", "--json"), 1);
            EXPECT(says("\"oracle\":\"assert\""));
            EXPECT(says("\"runs\":1,"));
        }
        EXPECT_EQ(with_file("--replay", ""), 1);
        EXPECT(says("fault: ") || says("FAULT"));
        EXPECT_EQ(run_file(name), KIN_PANICKED);
        snprintf(rest, sizeof(rest), "--report-dir %s", directory);
        EXPECT_EQ(with_file("--shrink", rest), 1);
        EXPECT(says("assert"));
    }
}

KIN_TEST(the_number_of_workers_is_read_back, "")
{
    find_it();
    insert("workers 2\n");
    EXPECT_EQ(with_file("--replay", "--json"), 1);
    EXPECT(says("\"oracle\":\"assert\""));
    find("adds");
    insert("workers 1\n"); /* then the test does something else, and the file does not fit */
    EXPECT_EQ(with_file("--replay", "--json"), 1);
    EXPECT(!says("\"oracle\":\"assert\""));
}

KIN_TEST(a_file_that_makes_no_sense_is_told_with_its_line, "")
{
#define HEAD "kinlab 1\ntest adds\n"
    static const struct {
        const char *text, *answer;
    } files[] = {
        {"what is this\n", "line 1: it is no schedule of the lab, which begins with 'kinlab 1'"},
        {"", "line 1: it is no schedule of the lab, which begins with 'kinlab 1'"},
        {"kinlab 2\ntest adds\nend\n",
         "line 1: it is of another version; this program reads 'kinlab 1'"},
        {"kinlab 1\nend\n", "it names no test: there is no line 'test NAME' near its beginning"},
        {"kinlab 1\ntest no\001body\nend\n", "it is of a test that this program does not have: "
                                            "'no?body'; --list tells those it has"},
        {HEAD "sched root:1\n", "line 3: the file is cut off here: its last line must be 'end'"},
        {HEAD "sched root:1 ro", "line 3: the file is cut off here: its last line must be 'end'"},
        {HEAD "sched root\nend\n",
         "line 3: 'sched' wants who goes on for how many steps, such as root/1:3"},
        {HEAD "sched root:1\nchoose 1 case\nend\n",
         "line 4: 'choose' wants step, kind, answer/count and label, such as 3 case 1/3 select"},
        {HEAD "sched root:1\nchoose 9 case 1/3 x\nend\n",
         "line 4: this 'choose' is of an earlier step than the one before, or of none"},
        {HEAD "marks 1:zz\nend\n",
         "line 3: 'marks' wants pairs of numbers to the base of 16, such as 4f2b:1"},
        {HEAD "sched root:2\nmarks 1:1\nend\n",
         "line 5: the file ends, and has not as many 'marks' as steps in 'sched'"},
        {HEAD "seed 12\nend\n", "line 3: 'seed' wants a number such as 0x5eed"},
    };
    find_it();
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char answer[1024];
        FILE *of = fopen(file, "w");
        EXPECT(of != NULL);
        fputs(files[i].text, of);
        EXPECT_EQ(fclose(of), 0);
        EXPECT_EQ(with_file("--replay", ""), 2);
        snprintf(answer, sizeof(answer), "t: %s: %s\n", file, files[i].answer);
        EXPECT_STR(main_err, answer);
        EXPECT_STR(main_out, "");
        EXPECT_EQ(regress(), 2);
        EXPECT(strstr(main_err, files[i].answer) != NULL);
    }
    EXPECT_EQ(unlink(file), 0);
    EXPECT_EQ(with_file("--replay", ""), 2);
    EXPECT(strstr(main_err, kin_status_text(-ENOENT)) != NULL);
}
