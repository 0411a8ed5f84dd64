/* SPDX-License-Identifier: MIT */
/*
 * Goal: an operator sees every live task once, nothing that is over, and counters that are right.
 * Method: programs that stand still while they are looked at; the dump is read back and compared.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"

#include <stdio.h>
#include <fcntl.h>
#include <unistd.h>

/* What kin_dump prints, as one string to be freed. */
static char *dump(void)
{
    FILE *file = tmpfile();

    EXPECT(file);
    EXPECT_EQ(kin_dump(fileno(file)), 0);
    long size = lseek(fileno(file), 0, SEEK_END);
    EXPECT_GE(size, 0);
    char *text = malloc((size_t)size + 1);
    EXPECT(text);
    EXPECT_EQ(pread(fileno(file), text, (size_t)size, 0), size);
    text[size] = '\0';
    fclose(file);
    return text;
}

static int occurrences(const char *text, const char *what)
{
    int count = 0;

    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        count++;
    return count;
}

/* The line about a task; fails unless there is exactly one. */
static const char *line_of(const char *text, struct kin_task_ref task, char *line, size_t size)
{
    char key[40];

    said(task.id, key, sizeof key - 2);
    strcat(key, " (");
    int count = 0;
    for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
        if (strncmp(at, key, strlen(key)) == 0 && count++ == 0)
            snprintf(line, size, "%.*s", (int)strcspn(at, "\n"), at);
    }
    if (count != 1)
        printf("%s\nlooked for %s\n", text, key);
    EXPECT_EQ(count, 1);
    return line;
}

struct cast {
    _Atomic int started, go;
};

static int sleep_till_cancelled(void *arg)
{
    struct cast *cast = arg;

    atomic_fetch_add(&cast->started, 1);
    return kin_sleep(kin_after(KIN_SEC(3600))); /* a timer, which a sleep for ever is not */
}

static int wait_for_go(void *arg)
{
    struct cast *cast = arg;

    atomic_fetch_add(&cast->started, 1);
    await(&cast->go, 1);
    return 0;
}

static int join_a_sleeper(void *arg)
{
    struct cast *cast = arg;
    KIN_NURSERY(n);

    EXPECT_EQ(kin_spawn(&n, sleep_till_cancelled, cast), 0);
    return kin_nursery_join(&n, NULL);
}

static int look_at_all(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    struct kin_task_ref sleeper, yielder, joiner, over;
    struct cast cast = {0};
    struct kin_stats stats;
    char line[512], entry[64];
    int zero = 0;
    KIN_NURSERY(n);

    (void)arg;
    options.name = "the sleeper";
    EXPECT_EQ(kin_spawn_with(&n, &options, sleep_till_cancelled, &cast, 0, &sleeper), 0);
    options.name = "the yielder";
    EXPECT_EQ(kin_spawn_with(&n, &options, wait_for_go, &cast, 0, &yielder), 0);
    options.name = "the joiner";
    EXPECT_EQ(kin_spawn_with(&n, &options, join_a_sleeper, &cast, 0, &joiner), 0);
    await(&cast.started, 3);
    {
        KIN_NURSERY(gone);
        options.name = "the gone";
        EXPECT_EQ(kin_spawn_with(&gone, &options, return_it, &zero, 0, &over), 0);
        EXPECT_EQ(kin_nursery_join(&gone, NULL), 0);
    }
    do { /* until the two have left their stacks */
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_stats_get(&stats), 0);
    } while (stats.timers < 2);
    for (int i = 0; i < 100; i++)
        kin_ignore(kin_yield());
    char *text = dump();
    printf("%s\n", text);
    EXPECT(strstr(line_of(text, sleeper, line, sizeof line), "the sleeper"));
    EXPECT(strstr(line, "sleep"));
    snprintf(entry, sizeof entry, "entry %s (view_test.c:", "sleep_till_cancelled");
    EXPECT(strstr(line, entry));
    EXPECT(strstr(line, "spawned at "));
    EXPECT(strstr(line_of(text, yielder, line, sizeof line), "the yielder"));
    EXPECT(strstr(line_of(text, joiner, line, sizeof line), "the joiner"));
    EXPECT(strstr(line_of(text, kin_self(), line, sizeof line), "main"));
    EXPECT(strstr(line, "running"));
    EXPECT_EQ(occurrences(text, "the gone"), 0);
    EXPECT_EQ(occurrences(text, "\ntask ") + (strncmp(text, "task ", 5) == 0), 5);
    EXPECT_GE(occurrences(text, "worker "), 1);
    EXPECT_GE(occurrences(text, "scale 0: start"), 1);
    free(text);
    atomic_store(&cast.go, 1);
    kin_nursery_cancel(&n, 0);
    text = dump();
    EXPECT_LE(occurrences(text, "\ntask ") + (strncmp(text, "task ", 5) == 0), 5);
    free(text);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    text = dump();
    printf("%s\n", text);
    EXPECT_EQ(occurrences(text, "\ntask ") + (strncmp(text, "task ", 5) == 0), 1);
    free(text);
    return 0;
}

/* The words with which a line names the parent of its task. */
static const char *child_of(struct kin_task_ref parent, char *words, size_t size)
{
    char number[32];
    snprintf(words, size, ", child of %s (", said(kin_task_id(parent), number, sizeof number));
    return words;
}

struct branch {
    struct cast *cast;
    struct kin_task_ref self, leaf;
};

static int grow_a_leaf(void *arg)
{
    struct branch *branch = arg;
    KIN_NURSERY(n, .name = "leaves");

    branch->self = kin_self();
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_for_go, branch->cast, 0, &branch->leaf), 0);
    atomic_fetch_add(&branch->cast->started, 1);
    return kin_nursery_join(&n, NULL);
}

static int look_at_the_tree(void *arg)
{
    struct cast cast = {0};
    struct branch branches[2] = {{.cast = &cast}, {.cast = &cast}};
    char line[512], words[64];
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < 2; i++)
        EXPECT_EQ(kin_spawn(&n, grow_a_leaf, &branches[i]), 0);
    await(&cast.started, 4);
    char *text = dump();
    EXPECT(!strstr(line_of(text, kin_self(), line, sizeof line), "child of"));
    for (int i = 0; i < 2; i++) {
        EXPECT(strstr(line_of(text, branches[i].self, line, sizeof line),
                      child_of(kin_self(), words, sizeof words)));
        EXPECT(strstr(line, "(main) in nursery "));
        EXPECT(strstr(line_of(text, branches[i].leaf, line, sizeof line),
                      child_of(branches[i].self, words, sizeof words)));
        EXPECT(strstr(line, " (leaves), spawned at "));
    }
    EXPECT(strstr(text, "\n5 tasks: "));
    free(text);
    atomic_store(&cast.go, 1);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_dump_shows_whose_child_each_task_is, "T043")
{
    run_on_few(look_at_the_tree, NULL);
}

/* Many that do the same are one number at the end. */
static int look_at_many(void *arg)
{
    enum { MANY = 300 };
    _Atomic int started = 0;
    KIN_NURSERY(n);

    (void)arg;
    for (int i = 0; i < MANY; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_for_ever, &started), 0);
    await(&started, MANY);
    for (int i = 0; i < MANY; i++) /* on one worker: until they are off their stacks */
        kin_ignore(kin_yield());
    char *text = dump();
    EXPECT(strstr(text, "\n301 tasks: "));
    EXPECT(strstr(text, " 300 parked on sleep"));
    EXPECT_EQ(occurrences(text, "\ntask ") + (strncmp(text, "task ", 5) == 0), 301);
    free(text);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    return 0;
}

KIN_TEST(a_dump_counts_those_that_do_the_same, "")
{
    EXPECT_EQ(run_reporting(1, look_at_many, NULL, NULL), 0);
}

static int look_into_nothing(void *arg)
{
    int closed = open("/dev/null", O_RDONLY), full = open("/dev/full", O_WRONLY);

    (void)arg;
    EXPECT_GE(closed, 0);
    closed = renumber(closed, NUMBER_OF_OURS);
    EXPECT_EQ(kin_dump(-1), -EBADF);
    EXPECT_EQ(kin_lock_cycles(-1), -EBADF);
    EXPECT_EQ(kin_dump(closed), -EBADF); /* it is for reading */
    EXPECT_EQ(kin_lock_cycles(closed), -EBADF);
    (void)close(closed);
    EXPECT_EQ(kin_dump(closed), -EBADF);
    EXPECT_EQ(kin_lock_cycles(closed), -EBADF);
    if (full >= 0) {
        EXPECT_EQ(kin_dump(full), -ENOSPC);
        EXPECT_EQ(kin_lock_cycles(full), 0); /* there is nothing to say */
        (void)close(full);
    }
    return 0;
}

KIN_TEST(a_dump_that_cannot_be_written_says_so, "")
{
    EXPECT_EQ(run_reporting(1, look_into_nothing, NULL, NULL), 0);
}

KIN_TEST(a_dump_shows_every_live_task_once_and_nothing_that_is_over, "")
{
    run_on_few(look_at_all, NULL);
}

static int cancel_and_look(void *arg)
{
    struct kin_task_ref ref;
    struct cast cast = {0};
    char line[512];
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, wait_for_go, &cast, 0, &ref), 0);
    await(&cast.started, 1);
    char *text = dump();
    EXPECT(!strstr(line_of(text, ref, line, sizeof line), "cancelled"));
    free(text);
    EXPECT_EQ(kin_task_cancel(ref), 0);
    text = dump();
    EXPECT(strstr(line_of(text, ref, line, sizeof line), "cancelled"));
    free(text);
    atomic_store(&cast.go, 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_dump_tells_who_was_asked_to_stop, "")
{
    run_on_few(cancel_and_look, NULL);
}

static int look_before_it_runs(void *arg)
{
    struct kin_task_ref ref;
    char line[512];
    int zero = 0;
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_spawn_with(&n, NULL, return_it, &zero, 0, &ref), 0);
    char *text = dump();
    EXPECT(strstr(line_of(text, ref, line, sizeof line), "new"));
    free(text);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    return 0;
}

KIN_TEST(a_dump_tells_who_has_not_begun, "")
{
    EXPECT_EQ(run_reporting(1, look_before_it_runs, NULL, NULL), 0);
}

static int look_while_all_move(void *arg)
{
    struct cast cast = {0};
    (void)arg;
    for (int i = 0; i < 20; i++) {
        KIN_NURSERY(n);
        struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
        for (int k = 0; k < 20; k++) {
            char *name = kin_nursery_alloc(&n, 20);
            EXPECT(name);
            snprintf(name, 20, "mover %d", k);
            options.name = name; /* gone with the nursery: a dump must not keep it */
            EXPECT_EQ(kin_spawn_with(&n, &options, k % 2 ? count_it : sleep_till_cancelled,
                                     &cast.started, 0, NULL),
                      0);
        }
        free(dump());
        kin_nursery_cancel(&n, 0);
        free(dump());
        EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
        char *text = dump();
        EXPECT_EQ(occurrences(text, "mover"), 0);
        free(text);
    }
    return 0;
}

KIN_TEST(a_dump_is_safe_while_tasks_come_and_go, "")
{
    run_on_few(look_while_all_move, NULL);
}

static int count_tasks(void *arg)
{
    struct kin_stats start, full, end;
    struct cast cast = {0};
    KIN_NURSERY(n);

    (void)arg;
    EXPECT_EQ(kin_stats_get(NULL), -EINVAL);
    EXPECT_EQ(kin_stats_get(&start), 0);
    EXPECT_EQ(start.tasks_live, 1);
    EXPECT_GE(start.workers, 1);
    EXPECT_GE(start.workers_started, start.workers);
    EXPECT_EQ(start.timers, 0);
    for (int i = 0; i < 50; i++)
        EXPECT_EQ(kin_spawn(&n, sleep_till_cancelled, &cast), 0);
    EXPECT_EQ(kin_stats_get(&full), 0);
    EXPECT_EQ(full.tasks_live, 51);
    await(&cast.started, 50);
    do {
        kin_ignore(kin_yield());
        EXPECT_EQ(kin_stats_get(&full), 0);
    } while (full.timers < 50);
    EXPECT_EQ(full.timers, 50);
    EXPECT_EQ(full.tasks_live, 51);
    EXPECT_GE(full.stacks, 50);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    do { /* a worker counts its last task after it has told the nursery */
        EXPECT_EQ(kin_stats_get(&end), 0);
    } while (end.tasks_live != 1);
    EXPECT_EQ(end.timers, 0);
    EXPECT_GE(end.slices, start.slices);
    return 0;
}

KIN_TEST(counters_follow_the_tasks, "EP:7.1")
{
    run_on_few(count_tasks, NULL);
}

static int record_in_vain(void *arg)
{
    (void)arg;
    EXPECT_EQ(kin_record_dump(-1), -EBADF);
    EXPECT_EQ(kin_record_dump(1), KIN_UNSUPPORTED);
    return 0;
}

KIN_TEST(a_runtime_that_is_not_recorded_says_so, "")
{
    EXPECT_EQ(unsetenv("KIN_RECORD"), 0);
    EXPECT_EQ(kin_record_dump(1), KIN_NOTASK);
    EXPECT_EQ(kin_run(NULL, record_in_vain, NULL), 0);
}

static int record_twice(void *arg)
{
    FILE *file = tmpfile();
    (void)arg;
    EXPECT(file);
    EXPECT_EQ(kin_record_dump(fileno(file)), 0);
    EXPECT_EQ(kin_record_dump(fileno(file)), 0);
    EXPECT_GT(lseek(fileno(file), 0, SEEK_END), 0);
    fclose(file);
    return 0;
}

KIN_TEST(a_recorded_runtime_can_be_asked_for_its_record, "")
{
    EXPECT_EQ(setenv("KIN_RECORD", "1", 1), 0);
    EXPECT_EQ(kin_run(NULL, record_twice, NULL), 0);
}
