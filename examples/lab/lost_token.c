/* SPDX-License-Identifier: MIT */
/*
 * Lost token: a baker that is out of bread keeps the customer's call open and answers it when the
 * next loaf is done. It has one place to note who waits. A second customer who comes before the
 * loaf takes the place of the first, whose call nobody can answer any more.
 *
 * A call that was put off (kin_reply_move) is owed an answer. The lab finds the one that is lost,
 * in whichever schedule two customers come first. The remedy: a place for everybody who may wait.
 */
#include <kin/kin.h>
#include <kin/lab.h>

enum { PLACES = 2 };

struct baker {
    int loaves;
    bool is_fixed;
    int count;
    struct kin_reply *waiting[PLACES];
};

static int open_shop(struct kin_server *s, void *state, const void *arg)
{
    (void)s;
    ((struct baker *)state)->is_fixed = *(const bool *)arg;
    return 0;
}

static int on_customer(struct kin_server *s, void *state, const void *req, size_t size,
                       struct kin_reply *reply)
{
    struct baker *baker = state;
    (void)s, (void)req, (void)size;
    if (baker->loaves == 0) {
        int place = baker->is_fixed ? baker->count++ : 0; /* the bug: the place may be taken */
        return kin_reply_move(reply, &baker->waiting[place]);
    }
    baker->loaves--;
    kin_ignore(kin_reply_send(reply, NULL, 0)); /* KIN_GONE: the customer has left */
    return 0;
}

static int on_loaf(struct kin_server *s, void *state, const void *msg, size_t size)
{
    struct baker *baker = state;
    (void)s, (void)msg, (void)size;
    struct kin_reply *first = baker->waiting[0];
    if (!first) {
        baker->loaves++;
        return 0;
    }
    baker->waiting[0] = baker->waiting[1];
    baker->waiting[1] = NULL;
    baker->count -= baker->is_fixed;
    kin_ignore(kin_reply_send(first, NULL, 0));
    kin_reply_drop(first);
    return 0;
}

static int buy(void *baker)
{
    return kin_call(*(struct kin_addr *)baker, NULL, 0, NULL, 0, NULL, KIN_NEVER);
}

static int bake(void *baker)
{
    int rc = kin_cast(*(struct kin_addr *)baker, NULL, 0, KIN_NEVER);
    return rc < 0 ? rc : kin_cast(*(struct kin_addr *)baker, NULL, 0, KIN_NEVER);
}

static int morning(bool is_fixed)
{
    static const struct kin_server_ops ops = {
        .on_start = open_shop, .on_call = on_customer, .on_cast = on_loaf};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct kin_addr baker;
    options.state_size = sizeof(struct baker);
    KIN_NURSERY(shop);
    KIN_LAB_OK(kin_server_start(&shop, &ops, &options, &is_fixed, &baker));
    KIN_NURSERY(street);
    KIN_LAB_OK(kin_spawn(&street, buy, &baker));
    KIN_LAB_OK(kin_spawn(&street, buy, &baker));
    KIN_LAB_OK(kin_spawn(&street, bake, &baker));
    KIN_LAB_OK(kin_nursery_join(&street, NULL));
    KIN_LAB_OK(kin_server_stop(baker, 0, KIN_NEVER));
    return kin_nursery_join(&shop, NULL);
}

KIN_LAB(lost_token_bug)
{
    return morning(false);
}

KIN_LAB(lost_token_fixed)
{
    return morning(true);
}

KIN_LAB_MAIN()
