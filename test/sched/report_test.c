/* SPDX-License-Identifier: MIT */
/*
 * Goal: a report on standard error has the status with its code; tasks have short numbers.
 * Method: words of single statuses and ids; a task that is stuck, with standard error in a pipe.
 */
#include "api/in_runtime.h"

#include "base/text.h"
#include "sched/report.h"
#include "task/task.h"

static const char *status_words(int status)
{
    static char memory[64];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof memory);
    kin__report_status(&text, status);
    return memory;
}

KIN_TEST(a_status_is_said_with_its_code, "E7 N2002 N3002")
{
    EXPECT_STR(status_words(KIN_STUCK), "KIN_STUCK (N2002)");
    EXPECT_STR(status_words(KIN_CLEANUP), "KIN_CLEANUP (N3002)");
    EXPECT_STR(status_words(KIN_PANICKED), "KIN_PANICKED");
    EXPECT_STR(status_words(-EOWNERDEAD), "EOWNERDEAD");
}

KIN_TEST(the_number_of_a_task_is_short, "")
{
    char memory[64], expected[64];
    struct kin__text text;
    static const uint64_t ids[] = {UINT64_C(1) << 26 | 5, UINT64_C(2) << 26 | 17, UINT64_MAX};
    for (int i = 0; i < 3; i++) {
        kin__text_init(&text, memory, sizeof memory);
        kin__task_say_id(&text, ids[i]);
        EXPECT_STR(memory, said(ids[i], expected, sizeof expected));
    }
    EXPECT_STR(said(ids[0], expected, sizeof expected), "task 5");
    EXPECT_STR(said(ids[1], expected, sizeof expected), "task 17.2");
}

static int fail_to_clean(void *arg)
{
    (void)arg;
    return -EIO;
}

static int with_a_bad_cleanup(void *arg)
{
    (void)arg;
    return kin_defer_try(fail_to_clean, NULL);
}

KIN_TEST(a_report_on_standard_error_has_the_code, "E7 N3002")
{
    char text[1024];
    int ends[2], kept = dup(2);
    EXPECT_EQ(pipe(ends), 0);
    EXPECT_EQ(dup2(ends[1], 2), 2);
    int rc = kin_run(NULL, with_a_bad_cleanup, NULL);
    EXPECT_EQ(dup2(kept, 2), 2);
    ssize_t length = read(ends[0], text, sizeof text - 1);
    EXPECT_LT(rc, 0);
    EXPECT_GT(length, 0);
    text[length] = '\0';
    printf("%s", text);
    EXPECT(strncmp(text, "kin: KIN_CLEANUP (N3002): task ", 31) == 0);
    close(kept);
    close(ends[0]);
    close(ends[1]);
}
