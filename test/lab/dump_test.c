/* SPDX-License-Identifier: MIT */
/*
 * Goal: a record of production is read as it was written, put into the order of time, and becomes a
 * schedule; what is no record is refused by name, and what is hostile does no harm.
 * Method: small records by hand; then thousands of mutations of one, from a seed.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "lab/dump.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char small[] = "kinrecord 1\n"
                            "workers 2\n"
                            "task 1 root main 0x10\n"
                            "task 2 root/0 the%20first 0x20\n"
                            "task 3 root/1 - 0x30\n"
                            "ring 0 0\n"
                            "100 run 1 0 0\n"
                            "200 spawn 2 1 0\n"
                            "300 spawn 3 1 0\n"
                            "400 park 1 nursery 0\n"
                            "400 run 3 0 0\n"
                            "900 end 3 -32 0\n"
                            "900 wake 1 3 0\n"
                            "910 run 1 0 0\n"
                            "990 end 1 0 0\n"
                            "ring 1 7\n"
                            "350 steal 2 1 0\n"
                            "350 run 2 0 0\n"
                            "500 yield 2 0 0\n"
                            "510 run 2 0 0\n"
                            "800 end 2 0 0\n"
                            "ring - 0\n"
                            "16 spawn 1 0 0\n"
                            "end\n";

/* Reads a copy of size bytes that ends where they do, so that a sanitizer sees who reads on. */
static int read_copy(struct kin__dump *dump, const char *bytes, size_t size, char **copy)
{
    *copy = malloc(size ? size : 1);
    EXPECT(*copy != NULL);
    memcpy(*copy, bytes, size);
    *dump = (struct kin__dump){0};
    return kin__dump_read(dump, *copy, size);
}

static int read_text(const char *text)
{
    struct kin__dump dump;
    char *copy;
    int rc = read_copy(&dump, text, strlen(text), &copy);
    kin__dump_release(&dump);
    free(copy);
    return rc;
}

KIN_TEST(events_come_in_the_order_of_time, "")
{
    struct kin__dump dump;
    char *copy;
    EXPECT_EQ(read_copy(&dump, small, strlen(small), &copy), 0);
    EXPECT_EQ(dump.task_count, 4);
    EXPECT_EQ(dump.event_count, 15);
    EXPECT_EQ(dump.lost, 7);
    EXPECT_EQ(dump.workers, 2);
    EXPECT_STR(dump.tasks[2].path, "root/0");
    EXPECT_STR(dump.tasks[2].name, "the first");
    EXPECT_STR(dump.tasks[3].name, "");
    for (size_t i = 1; i < dump.event_count; i++)
        EXPECT_LE(dump.events[i - 1].ns, dump.events[i].ns);
    EXPECT_EQ(dump.events[0].kind, KIN__TAPE_SPAWN);
    EXPECT_EQ(dump.events[0].ring, KIN__DUMP_OUTSIDE);
    EXPECT_EQ(dump.events[12].kind, KIN__TAPE_END); /* behind the wake of the same moment */
    EXPECT_EQ(dump.events[12].value, -EPIPE);
    EXPECT_EQ(dump.events[11].kind, KIN__TAPE_WAKE);
    EXPECT_EQ(dump.events[11].by, 3);
    kin__dump_release(&dump);
    free(copy);
}

static const char *schedule_of(const char *text)
{
    static char memory[4096];
    struct kin__dump dump;
    struct kin__text out;
    char *copy;
    EXPECT_EQ(read_copy(&dump, text, strlen(text), &copy), 0);
    kin__text_init(&out, memory, sizeof(memory));
    EXPECT(kin__dump_schedule(&dump, &out, "name"));
    kin__dump_release(&dump);
    free(copy);
    return memory;
}

KIN_TEST(slices_become_blocks_in_the_order_of_their_begin, "")
{
    EXPECT_STR(schedule_of(small), "kinlab 1\ntest name\nstrategy replay\n"
                                   "record 15 of 22 decisions\n"
                                   "sched root:* root/0:* root/1:* root/0:* root:*\nend\n");
    EXPECT_STR(schedule_of("kinrecord 1\nend\n"),
               "kinlab 1\ntest name\nstrategy replay\nrecord 0 of 0 decisions\nend\n");
}

KIN_TEST(who_lends_its_stack_goes_on_behind_the_child, "")
{
    const char *lends = "kinrecord 1\nworkers 1\ntask 1 root - 0x1\ntask 2 root/0 - 0x1\n"
                        "task 3 root/1 - 0x1\ntask 4 ? - 0x1\nring 0 0\n"
                        "1 run 1 0 0\n2 lend 1 0 0\n2 run 3 0 0\n3 park 3 x 0\n4 run 2 0 0\n"
                        "5 end 2 0 0\n6 run 4 0 0\n7 run 0 0 0\n8 run 3 0 0\n9 end 3 0 0\nend\n";
    EXPECT(strstr(schedule_of(lends), "sched root:* root/1:* root/0:* root/1:*\n") != NULL);
    lends = "kinrecord 1\nworkers 1\ntask 1 root - 0x1\ntask 2 root/0 - 0x1\nring 0 0\n"
            "1 run 1 0 0\n2 lend 1 0 0\n2 run 2 0 0\n3 end 2 0 0\nend\n";
    EXPECT(strstr(schedule_of(lends), "sched root:* root/0:* root:*\n") != NULL);
}

KIN_TEST(what_is_no_record_is_refused_by_name, "")
{
    static const struct {
        const char *text;
        int rc;
    } cases[] = {
        {"", -EINVAL},
        {"kinlab 1\n", -EINVAL},
        {"kinrecord 2\nend\n", -EPROTONOSUPPORT},
        {"kinrecord 11\nend\n", -EPROTONOSUPPORT},
        {"kinrecord 1\nworkers 99999999999999999999\nend\n", -EBADMSG},
        {"kinrecord 1\nworkers 1\ntenancy GPU\nend\n", -EBADMSG},
        {"kinrecord 1\nwhat is this\nend\n", -EBADMSG},
        {"kinrecord 1\ntask 2 root - 0x1\nend\n", -EBADMSG}, /* numbers have no gaps */
        {"kinrecord 1\ntask 1 root -\nend\n", -EBADMSG},
        {"kinrecord 1\ntask 1 root:9 - 0x1\nend\n", -EBADMSG}, /* would forge a block */
        {"kinrecord 1\ntask 1 root %zz 0x1\nend\n", -EBADMSG},
        {"kinrecord 1\ntask 1 root %00 0x1\nend\n", -EBADMSG},
        {"kinrecord 1\n1 run 0 0 0\nend\n", -EBADMSG}, /* in no ring */
        {"kinrecord 1\nring 0 0\n1 run 1 0 0\nend\n", -EBADMSG}, /* of no task */
        {"kinrecord 1\nring 0 0\n1 walk 0 0 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n1 ? 0 0 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n-1 run 0 0 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n1 run 0 0 0 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n1 run 0 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n1 run 0 99999999999 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n1 spawn 0 1 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n1 run 0 0 32768\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\n1 run 0 0 -32769\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 18446744073709551615\nend\n", -EBADMSG},
        {"kinrecord 1\nring 65535 0\nend\n", -EBADMSG},
        {"kinrecord 1\nring 0 0\ntask 1 root - 0x1\nend\n", -EBADMSG},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        printf("%s\n", cases[i].text);
        EXPECT_EQ(read_text(cases[i].text), cases[i].rc);
    }
    struct kin__dump dump;
    char *copy;
    EXPECT_EQ(read_copy(&dump, "kinrecord 1\nend\0x\n", 18, &copy), -EBADMSG);
    kin__dump_release(&dump);
    free(copy);
}

KIN_TEST(a_file_that_ends_early_is_read_as_far_as_it_goes, "")
{
    size_t before = 0;
    for (size_t size = sizeof("kinrecord 1"); size < sizeof(small); size++) {
        struct kin__dump dump;
        char *copy;
        int rc = read_copy(&dump, small, size, &copy);
        EXPECT_EQ(rc, 0);
        EXPECT_EQ(dump.is_cut, size + 1 < sizeof(small));
        EXPECT_GE(dump.event_count, before);
        before = dump.event_count;
        kin__dump_release(&dump);
        free(copy);
    }
    EXPECT_EQ(before, 15);
}

KIN_TEST(what_time_wakes_needs_the_clock_first, "")
{
    const char *text = "kinrecord 1\nworkers 1\ntask 1 root - 0x1\ntask 2 root/0 - 0x1\nring 0 0\n"
                       "1 run 1 0 0\n2 park 1 sleep 0\n3 timer 1 0 0\n3 timer 2 0 0\n4 run 1 0 0\n"
                       "5 cancel 2 0 -4097\n6 run 2 0 0\n7 cancel 1 2 -4097\n8 run 1 0 0\n"
                       "ring - 0\n9 ask 2 0 0\nend\n";
    EXPECT(strstr(schedule_of(text), "sched root:* clock:* root:* clock:* root/0:* root:*\nend\n"));
}

KIN_TEST(cases_that_were_taken_are_pledged_behind_the_blocks_of_their_tasks, "")
{
    const char *whole = "kinrecord 1\nworkers 2\ntask 1 root - 0x1\ntask 2 root/0 - 0x1\n"
                        "ring 0 0\n1 spawn 1 0 0\n2 run 1 0 0\n3 spawn 2 1 0\n6 case 1 3 2\n"
                        "7 case 1 2 0\nring 1 0\n4 run 2 0 0\n5 case 2 2 1\nend\n";
    EXPECT(strstr(schedule_of(whole), "sched root:* root/0:*\n"
                                      "choose 1 case 2/3 select\nchoose 1 case 0/2 select\n"
                                      "choose 2 case 1/2 select\nend\n"));
    /* of one whose beginning is lost, or may be, nobody knows which select it was */
    const char *cut = "kinrecord 1\nworkers 2\ntask 1 root - 0x1\ntask 2 root/0 - 0x1\n"
                      "ring 0 1\n2 run 1 0 0\n3 spawn 2 1 0\n6 case 1 3 2\nring 1 0\n"
                      "4 run 2 0 0\n5 case 2 2 1\nend\n";
    EXPECT(strstr(schedule_of(cut), "sched root:* root/0:*\nchoose 2 case 1/2 select\nend\n"));
    const char *mad = "kinrecord 1\ntask 1 root - 0x1\nring 0 0\n1 spawn 1 0 0\n2 run 1 0 0\n"
                      "3 case 1 3 3\n3 case 1 3 -1\n3 case 1 -3 -3\nend\n";
    EXPECT(strstr(schedule_of(mad), "sched root:*\nend\n"));
}

/* Changes, drops or doubles a few bytes, or words that the format knows. */
static size_t mutate(struct kin__rng *rng, char *text, size_t size, size_t cap)
{
    static const char *const words[] = {"\n", " ", "%", "-", "ring 1 0\n", "18446744073709551615",
                                        "end\n", "task 4 root/2 - 0x1\n", "2147483648", "\0"};
    size_t at = size ? kin__rng_below(rng, size) : 0, count = kin__rng_below(rng, 12);
    switch (kin__rng_below(rng, 4)) {
    case 0:
        text[at] = (char)kin__rng_below(rng, 256);
        return size;
    case 1:
        count = count < size - at ? count : size - at;
        memmove(text + at, text + at + count, size - at - count);
        return size - count;
    case 2: {
        const char *word = words[kin__rng_below(rng, 10)];
        size_t length = *word ? strlen(word) : 1;
        if (size + length > cap)
            return size;
        memmove(text + at + length, text + at, size - at);
        memcpy(text + at, word, length);
        return size + length;
    }
    default:
        count = count < size - at ? count : size - at;
        if (size + count > cap)
            return size;
        memmove(text + at + count, text + at, size - at);
        return size + count;
    }
}

KIN_TEST(mutated_records_do_no_harm, "")
{
    struct kin__rng rng;
    static char text[8192], memory[1 << 16];
    unsigned good = 0;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < 5000; i++) {
        struct kin__dump dump;
        struct kin__text out;
        struct kin__story story;
        char *copy;
        size_t size = sizeof(small) - 1;
        memcpy(text, small, size);
        for (uint64_t changes = 1 + kin__rng_below(&rng, 4); changes > 0 && size > 0; changes--)
            size = mutate(&rng, text, size, sizeof(text));
        if (read_copy(&dump, text, size, &copy) == 0) {
            good++;
            kin__text_init(&out, memory, sizeof(memory));
            EXPECT(kin__dump_schedule(&dump, &out, "name"));
            EXPECT(kin__dump_trace(&dump, &out));
            EXPECT(kin__dump_story(&dump, &story));
            kin__story_forget(&story);
        }
        kin__dump_release(&dump);
        free(copy);
    }
    EXPECT_GT(good, 20); /* else the rest was not reached */
}
