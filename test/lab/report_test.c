/* SPDX-License-Identifier: MIT */
/*
 * The text of a failure: why, how to see it again, and a table that holds still.
 */
#include "kin_test.h"

#include "failure.h"
#include "lab/story.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *tell(struct kin__engine *engine, const char *directory, const char **file)
{
    struct kin__finding finding = {
        .test = "tiny", .strategy = "random", .directory = directory, .engine = engine,
        .failure = &kin__engine_result(engine)->failure};
    kin__lab_wish.program = "./t_tiny";
    return kin__report_make(&finding, file);
}

KIN_TEST(a_report_says_what_why_and_how_again, "")
{
    const char *file;
    struct kin__engine *engine = find_failure(2, "the first was too late");
    EXPECT(engine != NULL);
    EXPECT_STR(kin__engine_result(engine)->failure.oracle, "assert");
    const char *text = tell(engine, NULL, &file);
    fputs(text, stdout);
    EXPECT_PTR(file, NULL);
    EXPECT(strncmp(text, "FAIL  tiny: assert, root\n", 25) == 0);
    EXPECT(strstr(text, "why:      the first was too late\n") != NULL);
    EXPECT(strstr(text, "replay:   ./t_tiny tiny -s random --seed ") != NULL);
    EXPECT(strstr(text, "<-- here") != NULL);
    EXPECT(strstr(text, "FAILS: the first was") != NULL);
    EXPECT(strstr(text, "root -> nobody\n") != NULL);
    kin__engine_destroy(engine);
}

/* Every line of the table has its bars below those of the first one. */
static void check_bars(const char *text)
{
    const char *head = strstr(text, "step | ");
    EXPECT(head != NULL);
    size_t width = strcspn(head, "\n");
    for (const char *line = head; line && *line && *line != '\n';) {
        size_t length = strcspn(line, "\n");
        EXPECT_LE(length, 160);
        EXPECT_EQ(line[5], '|');
        EXPECT(line[length - 1] != ' ');
        for (size_t i = 0; i < length && i < width && line[7] != '-'; i++) {
            if (head[i] == '|')
                EXPECT_EQ(line[i], '|');
        }
        line += length + 1;
    }
}

KIN_TEST(few_tasks_have_columns, "")
{
    const char *file;
    struct kin__engine *engine = find_failure(4, "a text that is much longer than one column of a "
                                                 "table may be, and goes on below");
    const char *text = tell(engine, NULL, &file);
    check_bars(text);
    EXPECT(strstr(text, "| root ") != NULL);
    EXPECT(strstr(text, "goes on below") != NULL);
    kin__engine_destroy(engine);
}

KIN_TEST(many_tasks_are_a_list, "")
{
    const char *file;
    struct kin__engine *engine = find_failure(12, "late");
    const char *text = tell(engine, NULL, &file);
    EXPECT(strstr(text, "step | who ") != NULL);
    check_bars(text);
    kin__engine_destroy(engine);
}

KIN_TEST(files_are_written_where_they_are_wanted, "")
{
    char directory[] = "/tmp/kin_report_XXXXXX", path[300];
    const char *file;
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(path, sizeof(path), "%s/new", directory); /* made if need be */
    struct kin__engine *engine = find_failure(3, "late");
    const char *text = tell(engine, path, &file);
    EXPECT(file != NULL);
    EXPECT_EQ(access(file, R_OK), 0);
    EXPECT(strstr(text, file) != NULL);
    EXPECT(strstr(text, ".svg\n") != NULL);
    EXPECT(strstr(text, ".trace.json (") != NULL);
    DIR *dir = opendir(path);
    unsigned count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char name[600];
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.' && unlink(name) == 0)
            count++;
    }
    closedir(dir);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(rmdir(path) + rmdir(directory), 0);
    kin__engine_destroy(engine);
}

KIN_TEST(a_directory_that_cannot_be_made_is_no_failure_of_the_report, "")
{
    const char *file;
    struct kin__engine *engine = find_failure(2, "late");
    const char *text = tell(engine, "/proc/no/such/place", &file);
    EXPECT_PTR(file, NULL);
    EXPECT(strstr(text, "picture:") == NULL);
    EXPECT(strstr(text, "replay:   ./t_tiny tiny -s random --seed ") != NULL);
    EXPECT(strstr(text, "files:    /proc/no/such/place cannot be written: ") != NULL);
    kin__engine_destroy(engine);
}

KIN_TEST(the_rows_can_be_taken, "")
{
    const char *file;
    struct kin__story story = {0};
    struct kin__engine *engine = find_failure(2, "late");
    (void)tell(engine, NULL, &file);
    kin__report_take_story(&story);
    EXPECT_GT(story.count, 1);
    EXPECT(story.rows[story.count - 1].is_failure);
    kin__story_forget(&story);
    kin__report_take_story(&story);
    EXPECT_EQ(story.count, 0);
    kin__engine_destroy(engine);
}
