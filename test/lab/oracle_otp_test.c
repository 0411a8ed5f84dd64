/* SPDX-License-Identifier: MIT */
/*
 * Goal: the oracles for servers, names and supervisors see the bug that each is there for, and
 * nothing else.
 * Method: a runtime that is made wrong from inside, each time in one way; the same without that.
 */
#include "lab/in_lab.h"

#include "base/lab.h"
#include "otp/party.h"

static void expect_silence(kin_task_fn *test, void *arg)
{
    int rc = lab(KIN_LAB_ROUND_ROBIN, 1, test, arg);
    if (rc < 0)
        printf("%s\n", report.text);
    EXPECT_EQ(rc, 0);
}

/* ---- the order of news ---- */

struct news {
    struct kin_info first, second;
    bool is_swapped;
    uint64_t oldest; /* letter in the mailbox when the first to be read is read */
};

static int read_two(void *arg)
{
    struct news news = *(struct news *)arg;
    uint64_t me = kin_self_addr().id;
    kin__lab_told(me, &news.second, 3);
    kin__lab_told(me, &news.first, 5);
    kin__lab_told(me + 1, &news.first, 0); /* somebody else's are nobody's here */
    kin__lab_heard(me, news.is_swapped ? &news.second : &news.first, news.oldest);
    kin__lab_untold(&news.first);
    kin__lab_untold(&news.first);
    kin__lab_untold(&news.second);
    return 0;
}

static struct kin_info down(uint64_t vt, uint64_t who)
{
    struct kin_info info = {.kind = KIN_INFO_DOWN, .vt = vt};
    info.u.down.who.id = who;
    return info;
}

static void expect_order(struct kin_info first, struct kin_info second)
{
    struct news news = {first, second, true, 0};
    expect_oracle(read_two, &news, "system-message-order", KIN_PANICKED);
    news.is_swapped = false;
    expect_silence(read_two, &news);
    news.is_swapped = true;
    news.oldest = 5; /* the first cannot be read before that letter is */
    expect_silence(read_two, &news);
}

KIN_TEST(news_in_another_order_than_the_sorted_one_are_seen, "SINV-4")
{
    struct kin_info leave = {.kind = KIN_INFO_EXIT, .vt = 7};
    struct kin_info lease_a = {.kind = KIN_INFO_LEASE, .vt = 7};
    struct kin_info lease_b = lease_a;
    leave.u.exit.from.id = 1;
    lease_a.u.lease.name = "a";
    lease_b.u.lease.name = "b";
    expect_order(down(6, 9), down(7, 1));
    expect_order(down(7, 1), down(7, 2));
    expect_order(down(7, 9), leave);
    expect_order(leave, lease_a);
    expect_order(lease_a, lease_b);
}

/* ---- names ---- */

static int hold_a_name(void *is_forgotten)
{
    KIN_LAB_OK(kin_register("somebody", kin_self_addr(), 0));
    struct kin__party *party = kin__party_lock(kin_self_addr().id);
    if (is_forgotten)
        kin__list_init(&party->names); /* its end does not find it there */
    kin__party_unlock(party);
    return 0;
}

static int hold_in_a_nursery(void *is_forgotten)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, hold_a_name, is_forgotten));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_name_whose_holder_is_over_is_seen, "SINV-3")
{
    expect_oracle(hold_in_a_nursery, &report, "registry-clean", KIN_LEAKED);
    EXPECT(strstr(report.text, "somebody") != NULL);
    expect_silence(hold_in_a_nursery, NULL);
}

/* ---- restarts ---- */

struct decisions {
    unsigned severity, count, max;
    int64_t apart;
    bool forgives;
};

static int decide(void *arg)
{
    const struct decisions *d = arg;
    for (unsigned i = 0; i < d->count; i++) {
        kin__lab_decides(17, d->severity, KIN__LAB_RESTARTS, KIN_SEC(5), d->max);
        kin__lab_decides(18, KIN_SEV_PANIC, KIN__LAB_LEAVES_BE, KIN_SEC(5), d->max);
        if (d->forgives)
            kin__lab_decides(17, d->severity, KIN__LAB_FORGIVES, KIN_SEC(5), d->max);
        KIN_LAB_OK(kin_sleep(kin_after(d->apart)));
    }
    return 0;
}

static void expect_decisions(struct decisions decisions, bool are_right)
{
    if (are_right)
        expect_silence(decide, &decisions);
    else
        expect_oracle(decide, &decisions, "restart-monotone", KIN_PANICKED);
}

KIN_TEST(restarts_that_may_not_be_are_seen, "SINV-2")
{
    expect_decisions((struct decisions){KIN_SEV_PANIC, 1, 3, 0, false}, false);
    expect_decisions((struct decisions){KIN_SEV_CANCELLED, 1, 3, 0, false}, false);
    expect_decisions((struct decisions){KIN_SEV_ERROR, 3, 3, 0, false}, true);
    expect_decisions((struct decisions){KIN_SEV_ERROR, 4, 3, 0, false}, false);
    expect_decisions((struct decisions){KIN_SEV_ERROR, 9, 1, KIN_SEC(5), false}, true);
    expect_decisions((struct decisions){KIN_SEV_ERROR, 2, 1, KIN_SEC(5) - 1, false}, false);
    expect_decisions((struct decisions){KIN_SEV_ERROR, 9, 1, 0, true}, true);
}

/* ---- answers ---- */

static bool answers;

static int think_long(struct kin_server *s, void *state, const void *req, size_t size,
                      struct kin_reply *reply)
{
    (void)s, (void)state, (void)req, (void)size;
    kin_ignore(kin_sleep(kin_after(KIN_SEC(10)))); /* the caller has left by then */
    if (answers)
        EXPECT_EQ(kin_reply_send(reply, NULL, 0), KIN_GONE);
    return 0;
}

static int call_and_leave(void *arg)
{
    static const struct kin_server_ops ops = {.on_call = think_long};
    struct kin_addr server;
    answers = *(bool *)arg;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_server_start(&n, &ops, NULL, NULL, &server), 0);
    EXPECT_EQ(kin_call(server, NULL, 0, NULL, 0, NULL, kin_after(KIN_SEC(1))), KIN_TIMEOUT);
    kin_ignore(kin_sleep(kin_after(KIN_SEC(100)))); /* the run ends here if it is seen */
    kin_ignore(kin_server_stop(server, 0, KIN_NEVER));
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(a_call_that_is_forgotten_is_seen_though_its_caller_has_left, "GS-REPLY-LEAK D6")
{
    bool is_good = false;
    expect_oracle(call_and_leave, &is_good, "reply-linearity", KIN_LEAKED);
    is_good = true;
    expect_silence(call_and_leave, &is_good);
}
