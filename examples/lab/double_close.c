/* SPDX-License-Identifier: MIT */
/*
 * Double close: a reader and a writer share a connection, and whoever sees the end first says
 * goodbye and closes it. Saying goodbye waits for room in the outgoing queue, and while one waits
 * the other finds the connection still open. Both close it. With descriptors the second close hits
 * whoever was given the same number meanwhile.
 *
 * The remedy: decide first, wait afterwards. Between the look and the mark nothing may wait.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct connection {
    struct kin_chan *outgoing;
    bool is_closing;
    int closed; /* how often it was given back to the system */
};

static int say_goodbye(struct connection *c)
{
    return kin_chan_send(c->outgoing, &(char){'.'}, KIN_NEVER);
}

static int end_bug(void *arg)
{
    struct connection *c = arg;
    if (KIN_SHARED(c->is_closing))
        return 0;
    int rc = say_goodbye(c);
    KIN_SHARED(c->is_closing) = true;
    c->closed++;
    return rc;
}

static int end_fixed(void *arg)
{
    struct connection *c = arg;
    if (KIN_SHARED(c->is_closing))
        return 0;
    c->is_closing = true; /* in the same breath: nobody runs between the look and this */
    int rc = say_goodbye(c);
    c->closed++;
    return rc;
}

static int hang_up(kin_task_fn *end)
{
    struct connection c = {0};
    KIN_LAB_OK(kin_chan_create(&c.outgoing, sizeof(char), 2));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, end, &c)); /* the reader's end */
    KIN_LAB_OK(kin_spawn(&n, end, &c)); /* the writer's end */
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_chan_unref(c.outgoing);
    kin_lab_assert(c.closed == 1, "a connection is closed once");
    return 0;
}

KIN_LAB(double_close_bug)
{
    return hang_up(end_bug);
}

KIN_LAB(double_close_fixed)
{
    return hang_up(end_fixed);
}

KIN_LAB_MAIN()
