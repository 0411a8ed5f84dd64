/* SPDX-License-Identifier: MIT */
/*
 * Goal: a recorded runtime notes what it decides, in an order in which it can have happened, and
 * one that is not recorded knows nothing of it.
 * Method: programs whose decisions are known, recorded and read back; each task's notes, put in the
 * order of time, must be a life; fast halves are disassembled.
 */
#include "taped.h"

#include "sched/sched.h"
#include "sched/tape.h"

#include <errno.h>

/* ---- lives ---- */

static int by_time(const void *a, const void *b)
{
    const struct line *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns ? -1 : 1) : x < y ? -1 : 1;
}

/* Every task is spawned once, runs, and between two runs has parked and was woken, or gave its turn
 * up. What it can do next follows from what it did last; '.' is before its birth. A wake may come
 * before the park that it ends: whoever was faster than the switch. */
static void check_lives(const struct record *record)
{
    struct line *lines = malloc(record->count * sizeof(*lines));
    char *state = malloc(record->tasks + 1);
    memcpy(lines, record->lines, record->count * sizeof(*lines));
    qsort(lines, record->count, sizeof(*lines), by_time);
    memset(state, '.', record->tasks + 1);
    for (size_t i = 0; i < record->count; i++) {
        const struct line *line = &lines[i];
        char *at = &state[line->task], was = *at;
        if (is_kind(line, "spawn"))
            EXPECT(was == '.' && (*at = 'n'));
        else if (is_kind(line, "run")) /* a host of a child that ended goes on without a note, */
            EXPECT((was == 'n' || was == 'w' || was == 'y' || was == 'l') && /* of one that rests */
                   (*at = 'r'));                                             /* with one */
        else if (is_kind(line, "park"))
            EXPECT((was == 'r' || was == 'l') && (*at = 'p'));
        else if (is_kind(line, "yield"))
            EXPECT((was == 'r' || was == 'l') && (*at = 'y'));
        else if (is_kind(line, "lend"))
            EXPECT((was == 'r' || was == 'l') && (*at = 'l'));
        else if (is_kind(line, "wake") || is_kind(line, "timer") || is_kind(line, "io") ||
                 is_kind(line, "cancel"))
            EXPECT(was == 'p' && (*at = 'w'));
        else if (is_kind(line, "end"))
            EXPECT((was == 'r' || was == 'l') && (*at = 'e'));
    }
    for (unsigned i = 1; i <= record->tasks; i++)
        EXPECT_EQ(state[i], 'e');
    free(state);
    free(lines);
}

static struct kin_chan *chan;

static int send_three(void *arg)
{
    (void)arg;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_chan_send(chan, &i, KIN_NEVER), 0);
    return 0;
}

static int rest(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(1000));
}

static int stay(void *arg)
{
    (void)arg;
    int rc = kin_sleep(kin_after(KIN_SEC(3600)));
    return rc == KIN_CANCELLED ? 0 : rc;
}

static int busy_program(void *arg)
{
    (void)arg;
    int got;
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), 0), 0);
    KIN_NURSERY(n);
    for (int i = 0; i < 4; i++) {
        EXPECT_EQ(kin_spawn(&n, send_three, NULL), 0);
        EXPECT_EQ(kin_spawn(&n, rest, NULL), 0);
    }
    for (int i = 0; i < 12; i++) {
        EXPECT_EQ(kin_chan_recv(chan, &got, KIN_NEVER), 0);
        EXPECT_EQ(kin_yield(), 0);
    }
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(chan);
    KIN_NURSERY(m);
    EXPECT_EQ(kin_spawn(&m, stay, NULL), 0);
    EXPECT_EQ(kin_yield(), 0);
    kin_nursery_cancel(&m, 0);
    (void)!kin_nursery_join(&m, NULL);
    return 0;
}

KIN_TEST(every_task_has_a_life_in_the_order_of_time, "")
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct record record = run_recorded(workers, busy_program, NULL);
        EXPECT_EQ(record.tasks, 10);
        EXPECT_EQ(record.lost, 0);
        EXPECT_EQ(count_kind(&record, "spawn"), 10);
        EXPECT_EQ(count_kind(&record, "end"), 10);
        EXPECT_LE(count_kind(&record, "timer"), 4); /* a rest may be over before it begins */
        EXPECT_EQ(find_path(&record, "root"), 1);
        EXPECT_NE(find_path(&record, "root/8"), 0);
        EXPECT_EQ(find_path(&record, "root/9"), 0);
        check_lives(&record);
        forget(&record);
    }
}

/* A task that rests has no stack, as one that has not begun, and is not born again. */
static int answer(struct kin_server *s, void *state, const void *req, size_t size,
                  struct kin_reply *reply)
{
    (void)s, (void)state, (void)req, (void)size;
    return kin_reply_send(reply, NULL, 0);
}

static int call_often(void *arg)
{
    static const struct kin_server_ops ops = {.on_call = answer};
    struct kin_addr server;
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_server_start(&n, &ops, NULL, NULL, &server), 0);
    for (int i = 0; i < 20; i++)
        EXPECT_EQ(kin_call(server, NULL, 0, NULL, 0, NULL, KIN_NEVER), 0);
    EXPECT_EQ(kin_server_stop(server, 0, KIN_NEVER), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_rest_is_a_wait_like_any_other, "")
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        struct record record = run_recorded(workers, call_often, NULL);
        EXPECT_EQ(record.tasks, 2);
        EXPECT_EQ(count_kind(&record, "spawn"), 2);
        EXPECT_EQ(count_kind(&record, "end"), 2);
        EXPECT_GT(count_kind(&record, "park"), 20);
        check_lives(&record);
        forget(&record);
    }
}

/* ---- single decisions ---- */

/* The one line of this kind about this task; NULL: there is none. */
static const struct line *only(const struct record *record, const char *kind, unsigned task)
{
    const struct line *found = NULL;
    for (size_t i = 0; i < record->count; i++) {
        if (!is_kind(&record->lines[i], kind) || record->lines[i].task != task)
            continue;
        EXPECT(found == NULL);
        found = &record->lines[i];
    }
    return found;
}

static int wait_for_one(void *arg)
{
    int got;
    (void)arg;
    return kin_chan_recv(chan, &got, KIN_NEVER);
}

static int hand_over(void *arg)
{
    (void)arg;
    int item = 5;
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), 0), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, wait_for_one, NULL), 0);
    EXPECT_EQ(kin_yield(), 0); /* it parks */
    EXPECT_EQ(kin_chan_send(chan, &item, KIN_NEVER), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(a_wait_says_for_what_and_who_ended_it, "")
{
    struct record record = run_recorded(1, hand_over, NULL);
    char other[16];
    unsigned child = find_path(&record, "root/0"), root = find_path(&record, "root");
    const struct line *park = only(&record, "park", child), *wake = only(&record, "wake", child);
    EXPECT(park && wake);
    EXPECT(strstr(park->other, "channel") != NULL);
    snprintf(other, sizeof other, "%u", root);
    EXPECT_STR(wake->other, other);
    EXPECT_EQ(wake->argument, 0);
    const struct line *spawn = only(&record, "spawn", child), *end = only(&record, "end", child);
    EXPECT(spawn && end);
    EXPECT_STR(spawn->other, other);
    EXPECT_STR(end->other, "0");
    forget(&record);
}

static int fail_so(void *arg)
{
    (void)arg;
    return -EPIPE;
}

static int see_it_fail(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, stay, NULL), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(kin_spawn(&n, fail_so, NULL), 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), -EPIPE);
    return 0;
}

KIN_TEST(ends_have_their_status_and_cancellations_their_reason, "")
{
    struct record record = run_recorded(1, see_it_fail, NULL);
    char status[16];
    unsigned stays = find_path(&record, "root/0"), fails = find_path(&record, "root/1");
    snprintf(status, sizeof status, "%d", -EPIPE);
    const struct line *end = only(&record, "end", fails);
    EXPECT(end != NULL);
    EXPECT_STR(end->other, status);
    EXPECT(only(&record, "cancel", stays) != NULL);
    EXPECT_EQ(only(&record, "cancel", stays)->argument, KIN_CANCELLED);
    forget(&record);
}

static int yield_until_asked(void *arg)
{
    (void)arg;
    while (!kin_cancelled()) /* ends: it is */
        (void)!kin_yield();
    return 0;
}

static int wait_masked(void *arg)
{
    int got;
    (void)arg;
    kin_mask();
    int rc = kin_chan_recv(chan, &got, KIN_NEVER);
    kin_unmask();
    return rc;
}

static int ask_both(void *arg)
{
    int item = 1;
    (void)arg;
    EXPECT_EQ(kin_chan_create(&chan, sizeof(int), 0), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, yield_until_asked, NULL), 0);
    EXPECT_EQ(kin_spawn(&n, wait_masked, NULL), 0);
    EXPECT_EQ(kin_yield(), 0); /* both have begun */
    EXPECT_EQ(kin_yield(), 0);
    kin_nursery_cancel(&n, 0);
    kin_nursery_cancel(&n, 0); /* no news */
    kin_mask();
    EXPECT_EQ(kin_chan_send(chan, &item, KIN_NEVER), 0);
    kin_unmask();
    (void)!kin_nursery_join(&n, NULL);
    kin_chan_unref(chan);
    return 0;
}

KIN_TEST(who_is_asked_to_stop_and_goes_on_is_noted, "")
{
    struct record record = run_recorded(1, ask_both, NULL);
    char root[16];
    snprintf(root, sizeof root, "%u", find_path(&record, "root"));
    for (unsigned i = 0; i < 2; i++) {
        const struct line *ask = only(&record, "ask", find_path(&record, i ? "root/1" : "root/0"));
        EXPECT(ask != NULL);
        EXPECT_STR(ask->other, root);
    }
    EXPECT_EQ(count_kind(&record, "cancel"), 0);
    forget(&record);
}

static bool has_begun; /* the child of late, before its deadline */

static int begin_and_stay(void *arg)
{
    has_begun = true;
    return stay(arg);
}

static int late(void *arg)
{
    (void)arg;
    KIN_NURSERY(n, .deadline = kin_after(KIN_MS(20)));
    (void)!kin_spawn(&n, begin_and_stay, NULL); /* unless the deadline is over by now */
    while (!kin_cancelled()) /* ends: at the deadline, which comes while somebody runs */
        (void)!kin_yield();
    (void)!kin_nursery_join(&n, NULL);
    return 0;
}

KIN_TEST(what_comes_with_time_is_nobodys_doing, "")
{
    struct record record = run_recorded(1, late, NULL);
    if (has_begun) { /* else the machine is so slow that there is nobody to cancel */
        const struct line *cancel = only(&record, "cancel", find_path(&record, "root/0"));
        EXPECT(cancel != NULL);
        EXPECT_STR(cancel->other, "0");
    }
    forget(&record);
}

static int took[8]; /* the index that each select answered */
static bool always_parks; /* a hard mode: nothing is ready at first */

static int select_some(void *arg)
{
    struct kin_chan *chans[3];
    int item = 1;
    (void)arg;
    always_parks = kin__worker_self()->sched->hard.park;
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kin_chan_create(&chans[i], sizeof(int), 8), 0);
    for (int i = 0; i < 24; i++)
        EXPECT_EQ(kin_chan_send(chans[i % 3], &item, KIN_NEVER), 0);
    for (int i = 0; i < 8; i++) {
        struct kin_case cases[] = {kin_case_recv(chans[0], &item), kin_case_recv(chans[1], &item),
                                   kin_case_recv(chans[2], &item)};
        took[i] = i == 7 ? kin_select_ordered(cases, 3, KIN_NEVER)
                         : kin_select(cases, 3, KIN_NEVER);
    }
    for (int i = 0; i < 3; i++)
        kin_chan_unref(chans[i]);
    return 0;
}

KIN_TEST(which_ready_case_was_taken_is_noted, "")
{
    struct record record = run_recorded(1, select_some, NULL);
    int seen = 0;
    for (size_t i = 0; i < record.count; i++) {
        const struct line *line = &record.lines[i];
        if (!is_kind(line, "case"))
            continue;
        EXPECT_EQ(line->task, 1);
        EXPECT_STR(line->other, "3");
        EXPECT_EQ(line->argument, took[seen++]);
    }
    EXPECT_EQ(seen, always_parks ? 0 : 7); /* in order there is nothing to choose */
    forget(&record);
}

static int read_pipe(void *arg)
{
    char byte;
    ssize_t got = kin_read(*(int *)arg, &byte, 1, KIN_NEVER);
    return got == 1 ? 0 : -EIO;
}

static int use_pipe(void *arg)
{
    int ends[2];
    (void)arg;
    EXPECT_EQ(pipe2(ends, O_NONBLOCK), 0);
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, read_pipe, &ends[0]), 0);
    EXPECT_EQ(kin_yield(), 0);
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

KIN_TEST(what_comes_from_outside_is_told_apart, "")
{
    struct record record = run_recorded(1, use_pipe, NULL);
    const struct line *io = only(&record, "io", find_path(&record, "root/0"));
    EXPECT(io != NULL);
    forget(&record);
}

/* ---- stealing and sleeping ---- */

static int work_a_little(void *arg)
{
    (void)arg;
    for (volatile int i = 0; i < 10000; i++)
        ;
    return kin_yield();
}

/* Goes on until some worker has robbed another; in a hard mode there is only one. */
static int be_robbed(void *arg)
{
    struct kin_stats stats = {0};
    (void)arg;
    while (stats.steals == 0 && stats.workers != 1) {
        KIN_NURSERY(n);
        for (int i = 0; i < 16; i++)
            EXPECT_EQ(kin_spawn(&n, work_a_little, NULL), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_stats_get(&stats), 0);
    }
    return 0;
}

KIN_TEST(work_that_is_taken_is_noted_by_the_thief, "")
{
    struct record record = run_recorded(3, be_robbed, NULL);
    for (size_t i = 0; i < record.count; i++) {
        const struct line *line = &record.lines[i];
        if (!is_kind(line, "steal"))
            continue;
        EXPECT(is_kind(&line[1], "run") && line[1].task == line->task);
        EXPECT(line->argument != line->ring && line->argument >= 0);
    }
    forget(&record);
}

static int sleep_a_little(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_MS(50)));
}

KIN_TEST(a_worker_without_work_sleeps_and_comes_back, "")
{
    size_t sleeps = 0;
    while (sleeps == 0) { /* ends: not every sleep of a task is over before its worker sleeps */
        struct record record = run_recorded(1, sleep_a_little, NULL);
        sleeps = count_kind(&record, "sleep");
        EXPECT_EQ(count_kind(&record, "awake"), sleeps);
        EXPECT_EQ(count_kind(&record, "park"), count_kind(&record, "timer"));
        forget(&record);
    }
}

/* ---- bounds, and off ---- */

static int yield_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(kin_yield(), 0);
    return 0;
}

static int yield_by_two(void *arg)
{
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn(&n, yield_much, arg), 0);
    EXPECT_EQ(kin_spawn(&n, yield_much, arg), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_ring_keeps_the_latest, "")
{
    EXPECT_EQ(setenv("KIN_RECORD_BYTES", "1024", 1), 0);
    struct record record = run_recorded(1, yield_by_two, NULL);
    EXPECT_GT(record.lost, 1000);
    size_t own = 0;
    for (size_t i = 0; i < record.count; i++)
        own += record.lines[i].ring == 0;
    EXPECT_EQ(own, 63); /* the oldest of 64 might be overwritten just now */
    EXPECT_EQ(record.tasks, 3);
    EXPECT(only(&record, "end", find_path(&record, "root")) != NULL);
    forget(&record);
    EXPECT_EQ(setenv("KIN_RECORD_BYTES", "99999999999999999999", 1), 0); /* too large: cut */
    record = run_recorded(1, yield_by_two, NULL);
    EXPECT_EQ(record.lost, 0);
    forget(&record);
    EXPECT_EQ(setenv("KIN_RECORD_BYTES", "nonsense", 1), 0); /* the default */
    record = run_recorded(1, yield_by_two, NULL);
    EXPECT_EQ(record.lost, 0);
    forget(&record);
}

static int ask_for_it(void *arg)
{
    (void)arg;
    EXPECT(kin__worker_self()->sched->tape == NULL);
    EXPECT_EQ(kin__worker_self()->runtime, kin__worker_self()->sched->number);
    EXPECT_EQ(kin_record_dump(1), KIN_UNSUPPORTED);
    return 0;
}

KIN_TEST(without_being_asked_nothing_is_recorded, "")
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 2;
    EXPECT_EQ(unsetenv("KIN_RECORD"), 0);
    EXPECT_EQ(kin_run(&config, ask_for_it, NULL), 0);
    EXPECT_EQ(setenv("KIN_RECORD", "0", 1), 0);
    EXPECT_EQ(kin_run(&config, ask_for_it, NULL), 0);
    EXPECT_EQ(setenv("KIN_RECORD", "", 1), 0);
    EXPECT_EQ(kin_run(&config, ask_for_it, NULL), 0);
    EXPECT_EQ(kin_record_dump(1), KIN_NOTASK);
}

/* The fast halves do not know that there is such a thing. */
KIN_TEST(no_fast_half_names_the_tape, "")
{
    static const char *const fast[] = {"kin__schedule",     "kin__schedule_last",
                                       "kin__worker_push_ready", "kin__worker_push_last",
                                       "kin_spawn",         "kin_nursery_join",
                                       "kin_chan_send",     "kin_chan_recv",
                                       "kin_yield",         "kin_checkpoint",
                                       "kin__wait"};
    size_t seen = 0;
    for (size_t i = 0; i < sizeof(fast) / sizeof(*fast); i++) {
        char command[256], line[512];
        snprintf(command, sizeof command,
                 "objdump -d --disassemble=%s /proc/%d/exe 2>/dev/null", fast[i], (int)getpid());
        FILE *out = popen(command, "r");
        EXPECT(out != NULL);
        while (fgets(line, sizeof line, out)) {
            const char *name = strstr(line, "<kin__tape"); /* constants go by the word before */
            EXPECT(!name || strncmp(name, "<kin__tape_words", 16) == 0);
            seen += strstr(line, "ret") != NULL;
        }
        (void)pclose(out);
    }
    if (!seen)
        KIN_SKIP("there is no objdump that can read this program");
}
