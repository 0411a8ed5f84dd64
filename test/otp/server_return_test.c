/* SPDX-License-Identifier: MIT */
/*
 * Goal: a callback that returns what means nothing is named: which one, of which server, and what
 * it has returned; a callback that returns what it should is not.
 * Method: each callback returns a positive value, a negative one that is no status, and each of
 * those that it may return; the reports are looked at.
 */
#include "otp/desk.h"

static struct reports reports;

struct slip {
    const char *callback;
    int value;
};

static int slip_once(struct desk *desk)
{
    return (int)(intptr_t)desk->plan.p;
}

static int slip_on_info(struct desk *desk, const struct kin_info *info)
{
    (void)info;
    return slip_once(desk);
}

/* What the server ends with. */
static int end_with(const struct slip *slip, bool is_named)
{
    struct desk_plan plan = {.on_info = slip_on_info,
                             .on_continue = slip_once,
                             .p = (void *)(intptr_t)slip->value};
    struct kin_monitor_ref ref;
    struct kin_addr desk;
    DESK_OPTIONS(o);
    o.name = is_named ? "till" : NULL;
    HOUSE(n);
    if (strcmp(slip->callback, "on_start") == 0) {
        plan.on_start = slip_once;
        int rc = try_open_desk(&n, &plan, &o, &desk);
        kin_ignore(kin_nursery_join(&n, NULL));
        return rc;
    }
    EXPECT_EQ(kin_server_start_monitor(&n, &desk_ops, &o, &plan, &desk, &ref), 0);
    if (strcmp(slip->callback, "on_call") == 0) {
        EXPECT(ask(desk, do_return, slip->value, NULL) <= 0);
    } else if (strcmp(slip->callback, "on_cast") == 0) {
        EXPECT_EQ(send_to(desk, do_return, slip->value, NULL), 0);
    } else if (strcmp(slip->callback, "on_continue") == 0) {
        EXPECT_EQ(send_to(desk, do_return, KIN_CONTINUE, NULL), 0);
    } else {
        EXPECT_EQ(kin_register("shortly", desk, 1), 0); /* a lease that is over at once */
    }
    struct kin_info end = end_of(ref);
    kin_ignore(kin_nursery_join(&n, NULL));
    return end.u.down.status;
}

static int in_slip(void *arg)
{
    const struct slip *slip = arg;
    EXPECT_EQ(end_with(slip, true), slip->value > 0 ? -EBADMSG : slip->value);
    EXPECT_EQ(end_with(slip, false), slip->value > 0 ? -EBADMSG : slip->value);
    return 0;
}

static void expect_words(int i, const char *words)
{
    if (!strstr(reports.text[i], words))
        EXPECT_STR(reports.text[i], words);
}
KIN_TEST(a_return_that_means_nothing_is_reported, "GS-STOPPED")
{
    static const char *const callbacks[] = {"on_start", "on_call", "on_cast", "on_info",
                                            "on_continue"};
    for (size_t i = 0; i < sizeof callbacks / sizeof *callbacks; i++) {
        for (int k = 0; k < 2; k++) {
            struct slip slip = {callbacks[i], k ? -123456 : 7};
            char words[64];
            memset(&reports, 0, sizeof reports);
            EXPECT_EQ(run_reporting(2, in_slip, &slip, &reports), 0);
            EXPECT_EQ(atomic_load(&reports.count), 2);
            EXPECT_EQ(reports.status[0], k ? -123456 : -EBADMSG);
            snprintf(words, sizeof words, "): %s returned %d, which is ", slip.callback,
                     slip.value);
            expect_words(0, "server till (task ");
            expect_words(0, words);
            expect_words(1, "server task ");
            expect_words(1, words + 1);
        }
    }
}

static int in_order(void *arg)
{
    static const int values[] = {-EIO, KIN_CANCELLED, KIN_FULL, -EPERM};
    struct slip slip = {"on_cast", 0};
    (void)arg;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        slip.value = values[i];
        EXPECT_EQ(end_with(&slip, true), values[i]);
    }
    slip = (struct slip){"on_start", KIN_IGNORE};
    EXPECT_EQ(end_with(&slip, true), KIN_IGNORE);
    return 0;
}
KIN_TEST(a_return_that_means_something_is_not_reported, "GS-STOPPED")
{
    memset(&reports, 0, sizeof reports);
    EXPECT_EQ(run_reporting(2, in_order, NULL, &reports), 0);
    EXPECT_EQ(atomic_load(&reports.count), 0);
}

/* ---- start functions of children ---- */

static int start_oddly(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    (void)n, (void)out;
    return *(const int *)arg;
}

static int in_odd_start(void *arg)
{
    struct kin_child_spec child = {
        .name = "odd", .start = start_oddly, .arg = arg, .arg_size = sizeof(int)};
    struct kin_addr sup;
    HOUSE(n);
    EXPECT_EQ(kin_supervisor_start(&n, NULL, &child, 1, &sup), -EBADMSG);
    return kin_nursery_join(&n, NULL);
}
KIN_TEST(a_start_function_that_returns_nothing_useful_is_reported, "D9")
{
    for (int value = 0; value < 10; value += 9) {
        memset(&reports, 0, sizeof reports);
        EXPECT_EQ(run_reporting(2, in_odd_start, &value, &reports), 0);
        EXPECT_EQ(atomic_load(&reports.count), 1);
        EXPECT_EQ(reports.status[0], -EBADMSG);
        expect_words(0, value ? "the start function of child odd returned 9"
                              : "the start function of child odd returned 0 and no address");
    }
}
