/* SPDX-License-Identifier: MIT */
/*
 * The picture: well-formed, with a lane for each task, its arrows and the red mark.
 */
#include "kin_test.h"

#include "failure.h"
#include "lab/picture.h"

#include <stdlib.h>
#include <string.h>

static char memory[4 << 20];

static void draw(struct kin__engine *engine)
{
    struct kin__finding finding = {.test = "tiny<&>", .strategy = "random", .engine = engine,
                                   .failure = &kin__engine_result(engine)->failure};
    struct kin__story story = {0};
    struct kin__text text;
    EXPECT(kin__story_tell(&story, engine));
    kin__text_init(&text, memory, sizeof(memory));
    kin__picture_draw(&text, &finding, &story);
    EXPECT(!kin__text_is_full(&text));
    kin__story_forget(&story);
}

/* Whether an & begins one of the five names that XML has. */
static bool is_entity(const char *at)
{
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&apos;"};
    for (size_t i = 0; i < 5; i++) {
        if (strncmp(at, names[i], strlen(names[i])) == 0)
            return true;
    }
    return false;
}

/* Every element is closed by its own name, in order, and text has no stray characters. */
static void check_xml(const char *xml)
{
    char open[64][32];
    unsigned depth = 0;
    EXPECT(strncmp(xml, "<?xml ", 6) == 0);
    for (const char *at = strchr(xml, '\n'); *at; at++) {
        EXPECT(*at == '\n' || (*at >= ' ' && *at < 0x7f));
        if (*at == '&')
            EXPECT(is_entity(at));
        if (*at != '<')
            continue;
        const char *end = strchr(at, '>');
        EXPECT(end != NULL);
        EXPECT(memchr(at + 1, '<', (size_t)(end - at - 1)) == NULL);
        size_t length = strcspn(at + 1 + (at[1] == '/'), " />\n");
        EXPECT_LT(length, 32);
        if (at[1] == '/') {
            EXPECT_GT(depth, 0);
            depth--;
            EXPECT(strncmp(open[depth], at + 2, length) == 0 && open[depth][length] == '\0');
        } else if (end[-1] != '/') {
            EXPECT_LT(depth, 64);
            memcpy(open[depth], at + 1, length);
            open[depth++][length] = '\0';
        }
        at = end;
    }
    EXPECT_EQ(depth, 0);
}

static unsigned count_of(const char *what)
{
    unsigned count = 0;
    for (const char *at = memory; (at = strstr(at, what)); at++)
        count++;
    return count;
}

KIN_TEST(a_picture_is_well_formed, "")
{
    struct kin__engine *engine = find_failure(3, "a < b && \"c\" > d");
    draw(engine);
    check_xml(memory);
    EXPECT_EQ(count_of("class=\"name\""), 3);
    EXPECT_EQ(count_of("<circle "), 1);
    EXPECT_GT(count_of("class=\"spawn\""), 0);
    EXPECT(strstr(memory, "a &lt; b &amp;&amp; &quot;c&quot; &gt; d") != NULL);
    EXPECT(strstr(memory, "(&lt;first&gt; &amp; &quot;only&quot;)") != NULL);
    EXPECT(strstr(memory, "tiny&lt;&amp;&gt;: assert") != NULL);
    kin__engine_destroy(engine);
}

KIN_TEST(bytes_that_xml_does_not_know_are_replaced, "")
{
    struct kin__engine *engine = find_failure(2, "bell \a, tab \t, \xff\xfe and \x7f");
    draw(engine);
    check_xml(memory);
    kin__engine_destroy(engine);
}

KIN_TEST(more_tasks_than_lanes_and_no_rows_at_all, "")
{
    struct kin__engine *engine = find_failure(40, "late");
    draw(engine);
    check_xml(memory);
    EXPECT_LE(count_of("class=\"name\""), 24);
    kin__record_begin(engine); /* a run of which nothing is known */
    kin__record_end();
    draw(engine);
    check_xml(memory);
    kin__engine_destroy(engine);
}

KIN_TEST(a_long_run_is_drawn_from_its_end, "")
{
    struct kin__engine *engine = find_failure(2, "late");
    kin__record_begin(engine);
    for (unsigned i = 0; i < 9000; i++)
        kin__record(i % 2, i % 3 ? KIN__NOTE_PARK : KIN__NOTE_WAKE, 1 - i % 2, NULL, "it");
    kin__record(0, KIN__NOTE_FAIL, NOBODY, "root", "at last");
    kin__record_end();
    draw(engine);
    check_xml(memory);
    EXPECT(strstr(memory, "earlier events are left out") != NULL);
    EXPECT(strstr(memory, "at last") != NULL);
    kin__engine_destroy(engine);
}
