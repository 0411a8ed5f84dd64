/* SPDX-License-Identifier: MIT */
/*
 * Goal: a record of production can be looked at: in words, as a picture, as a trace.
 * Method: one record with every kind of event, and what is made of it.
 */
#include "kin_test.h"

#include "json.h"

#include "lab/dump.h"
#include "lab/picture.h"

#include <stdio.h>
#include <string.h>

static struct kin__dump dump;
static char text[2048], memory[1 << 20];

static void read_all_kinds(void)
{
    snprintf(text, sizeof text, "%s",
             "kinrecord 1\nworkers 2\ntask 1 root main 0x1\ntask 2 root/0 a<b 0x2\n"
             "task 3 root/1 - 0x2\nring 0 5\n"
             "1000 run 1 0 0\n1100 spawn 2 1 0\n1150 spawn 3 1 0\n1200 lend 1 0 0\n1210 run 3 0 0\n"
             "1300 yield 3 0 0\n1310 run 3 0 0\n1400 end 3 -4112 0\n1500 park 1 nursery 0\n"
             "1600 sleep 0 0 0\n1700 timer 2 -4098 -4098\n1800 awake 0 0 0\n1900 run 2 0 0\n"
             "2000 io 2 77 77\n2100 cancel 1 2 -4097\n2150 ask 1 2 0\n2160 case 2 3 1\n"
             "2200 wake 1 2 0\n"
             "ring 1 0\n1120 steal 2 1 0\n1130 run 2 0 0\n1140 park 2 sleep 0\n"
             "ring - 0\n16 spawn 1 0 0\n2300 report 2 -4105 0\nend\n");
    dump = (struct kin__dump){0};
    EXPECT_EQ(kin__dump_read(&dump, text, strlen(text)), 0);
    memset(memory, 0, sizeof(memory));
}

KIN_TEST(every_event_has_its_words, "")
{
    struct kin__text out;
    read_all_kinds();
    kin__text_init(&out, memory, sizeof(memory));
    for (size_t i = 0; i < dump.event_count; i++) {
        size_t before = out.len;
        kin__dump_say(&dump, &dump.events[i], &out);
        EXPECT_GT(out.len, before + 5);
        kin__text_char(&out, '\n');
    }
    puts(memory);
    EXPECT(strstr(memory, "root/0 is spawned by root\n") != NULL);
    EXPECT(strstr(memory, "root is spawned by somebody\n") != NULL);
    EXPECT(strstr(memory, "root/0 is taken from worker 0\n") != NULL);
    EXPECT(strstr(memory, "root/0 waits, sleep\n") != NULL);
    EXPECT(strstr(memory, "root/0 is woken by time, its wait answers KIN_") != NULL);
    EXPECT(strstr(memory, "root/0 is woken by I/O, its wait answers 77\n") != NULL);
    EXPECT(strstr(memory, "root is cancelled by root/0") != NULL);
    EXPECT(strstr(memory, "root is asked to stop by root/0, and goes on\n") != NULL);
    EXPECT(strstr(memory, "root/0 selects: case 2 of 3 that are ready\n") != NULL);
    EXPECT(strstr(memory, "worker 0 sleeps\n") != NULL);
    EXPECT(strstr(memory, "root/0 REPORT: KIN_") != NULL);
    kin__dump_release(&dump);
}

KIN_TEST(a_record_becomes_a_picture, "")
{
    struct kin__engine_failure failure = {.oracle = "record"};
    struct kin__finding finding = {.test = "crash", .failure = &failure};
    struct kin__story story;
    struct kin__text out;
    read_all_kinds();
    EXPECT(kin__dump_story(&dump, &story));
    EXPECT_EQ(story.actors_count, 4);
    EXPECT_EQ(story.dropped, 5);
    EXPECT_EQ(story.count, dump.event_count - 2); /* workers are not in it */
    for (size_t i = 0; i < story.count; i++)
        EXPECT_LT(story.rows[i].actor, story.actors_count);
    EXPECT(story.rows[story.count - 1].is_failure);
    kin__text_init(&out, memory, sizeof(memory));
    kin__picture_draw(&out, &finding, &story);
    EXPECT(!kin__text_is_full(&out));
    EXPECT(strstr(memory, "<svg ") && strstr(memory, "</svg>\n"));
    EXPECT(strstr(memory, "root/0 (a&lt;b)") != NULL);
    EXPECT(strstr(memory, "waits, nursery") != NULL);
    kin__story_forget(&story);
    kin__dump_release(&dump);
}

/* The spans of each track come one after the other. */
static void check_tracks(const char *trace)
{
    double until[8] = {0};
    unsigned spans = 0;
    for (const char *at = trace; (at = strstr(at, "{\"ph\":\"X\"")); at++) {
        unsigned track;
        double begin, length;
        EXPECT_EQ(sscanf(at, "{\"ph\":\"X\",\"pid\":1,\"tid\":%u,\"ts\":%lf,\"dur\":%lf", &track,
                         &begin, &length), 3);
        EXPECT_LT(track, 8);
        EXPECT(begin + 0.0001 >= until[track] && length >= 0);
        until[track] = begin + length;
        spans++;
    }
    EXPECT_EQ(spans, 7);
}

KIN_TEST(a_record_becomes_a_trace_in_real_time, "")
{
    struct kin__text out;
    read_all_kinds();
    kin__text_init(&out, memory, sizeof(memory));
    EXPECT(kin__dump_trace(&dump, &out));
    check_json(memory);
    check_tracks(memory);
    EXPECT(strstr(memory, "\"tid\":0,\"ts\":1.000,\"dur\":0.200,\"name\":\"root\"") != NULL);
    EXPECT(strstr(memory, "\"tid\":1,\"ts\":1.130,\"dur\":0.010,\"name\":\"root/0\"") != NULL);
    EXPECT(strstr(memory, "\"ts\":1.600,\"dur\":0.200,\"name\":\"sleeps\"") != NULL);
    EXPECT(strstr(memory, "\"ts\":1.900,\"dur\":0.400,\"name\":\"root/0\"") != NULL); /* open */
    EXPECT(strstr(memory, "\"tid\":2,\"ts\":2.300") != NULL);
    /* what worker 0 has lost */
    EXPECT(strstr(memory,
                  "\"tid\":0,\"ts\":0.000,\"dur\":1.000,\"name\":\"5 decisions are lost\""));
    EXPECT(strstr(memory, "\"worker 0\"") && strstr(memory, "\"others\""));
    kin__dump_release(&dump);
}

KIN_TEST(who_lends_its_stack_goes_on_in_the_trace_when_the_child_ends, "")
{
    struct kin__text out;
    snprintf(text, sizeof text, "%s",
             "kinrecord 1\nworkers 1\ntask 1 root - 0x1\ntask 2 root/0 - 0x2\nring 0 0\n"
             "1000 run 1 0 0\n1100 lend 1 0 0\n1100 run 2 0 0\n1200 end 2 0 0\n1500 end 1 0 0\n"
             "end\n");
    dump = (struct kin__dump){0};
    EXPECT_EQ(kin__dump_read(&dump, text, strlen(text)), 0);
    kin__text_init(&out, memory, sizeof(memory));
    EXPECT(kin__dump_trace(&dump, &out));
    check_json(memory);
    EXPECT(strstr(memory, "\"ts\":1.200,\"dur\":0.300,\"name\":\"root\"") != NULL);
    kin__dump_release(&dump);
}

KIN_TEST(any_name_and_no_event_make_a_trace, "")
{
    static const char *const texts[] = {
        "kinrecord 1\nend\n", "kinrecord 1\nring 0 7\nend\n",
        ("kinrecord 1\nworkers 1\ntask 1 root %ff%0a%22\\ 0x1\nring 0 0\n1 run 1 0 0\n"
         "2 park 1 %22%01%c3%a4\\ 0\n3 report 1 -9999 0\nend\n")};
    for (unsigned i = 0; i < 3; i++) {
        struct kin__text out;
        snprintf(text, sizeof text, "%s", texts[i]);
        dump = (struct kin__dump){0};
        EXPECT_EQ(kin__dump_read(&dump, text, strlen(text)), 0);
        kin__text_init(&out, memory, sizeof(memory));
        EXPECT(kin__dump_trace(&dump, &out));
        check_json(memory);
        kin__dump_release(&dump);
    }
}
