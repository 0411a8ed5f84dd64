/* SPDX-License-Identifier: MIT */
/*
 * Reply dropped: a server takes a question, which is a promise to answer, and asks its store. If
 * the order to stop comes first it returns, and the promise with it: whoever asked waits for ever.
 *
 * A promise can be written down: an obligation that its holder keeps or breaks before it ends. The
 * lab finds the one who does neither, in whichever schedule he does it. The remedy: every way out
 * of the function answers.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct office {
    struct kin_chan *questions, *answers, *store;
    struct kin_event stop;
    bool is_fixed;
};

static int answer(struct office *o, struct kin_obligation *promise, int text)
{
    int rc = kin_chan_send(o->answers, &text, KIN_NEVER);
    return rc < 0 ? kin_obligation_abort(promise) : kin_obligation_commit(promise);
}

static int serve(void *arg)
{
    struct office *o = arg;
    struct kin_obligation *promise;
    int question, found = 0, rc = kin_chan_recv(o->questions, &question, KIN_NEVER);
    if (rc < 0 || (rc = kin_obligation_reserve(KIN_OBLIGATION_ACK, &promise)) < 0)
        return rc;
    struct kin_case cases[] = {kin_case_recv(o->store, &found), kin_case_event(&o->stop)};
    int first = kin_select(cases, 2, KIN_NEVER);
    if (first == 1 && !o->is_fixed)
        return 0; /* the promise is forgotten */
    return answer(o, promise, first == 0 ? found : KIN_STOPPING);
}

static int look_up(void *arg)
{
    return kin_chan_send(((struct office *)arg)->store, &(int){42}, KIN_NEVER);
}

static int close_office(void *arg)
{
    kin_event_set(&((struct office *)arg)->stop);
    return 0;
}

static int day(bool is_fixed)
{
    struct office o = {.is_fixed = is_fixed};
    int text;
    KIN_LAB_OK(kin_chan_create(&o.questions, sizeof(int), 1));
    KIN_LAB_OK(kin_chan_create(&o.answers, sizeof(int), 1));
    KIN_LAB_OK(kin_chan_create(&o.store, sizeof(int), 1));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, serve, &o));
    KIN_LAB_OK(kin_spawn(&n, look_up, &o));
    KIN_LAB_OK(kin_spawn(&n, close_office, &o));
    KIN_LAB_OK(kin_chan_send(o.questions, &(int){6}, KIN_NEVER));
    kin_ignore(kin_chan_recv(o.answers, &text, KIN_NEVER)); /* cancelled when the server fails */
    int rc = kin_nursery_join(&n, NULL);
    kin_chan_unref(o.questions);
    kin_chan_unref(o.answers);
    kin_chan_unref(o.store);
    return rc;
}

KIN_LAB(dropped_reply_bug)
{
    return day(false);
}

KIN_LAB(dropped_reply_fixed)
{
    return day(true);
}

KIN_LAB_MAIN()
