/* SPDX-License-Identifier: MIT */
/*
 * Cancel that loses an item: a carrier takes items out of one channel and puts them into another
 * that has less room. When it is cancelled while it waits for room, the second call answers
 * KIN_CANCELLED, and the item in its hands is in neither channel.
 *
 * What was taken and cannot be given on must be put back. The remedy does, with cancellation held
 * back: there is room, for that is where the item came from.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct belt {
    struct kin_chan *in, *out;
};

static int carry_bug(void *arg)
{
    struct belt *belt = arg;
    int item, rc = 0;
    while (rc == 0 && (rc = kin_chan_recv(belt->in, &item, KIN_NEVER)) == 0)
        rc = kin_chan_send(belt->out, &item, KIN_NEVER); /* cancelled: the item is gone */
    return rc;
}

static int carry_fixed(void *arg)
{
    struct belt *belt = arg;
    int item, rc = 0;
    while (rc == 0 && (rc = kin_chan_recv(belt->in, &item, KIN_NEVER)) == 0) {
        rc = kin_chan_send(belt->out, &item, KIN_NEVER);
        if (rc == 0)
            continue;
        kin_mask();
        kin_ignore(kin_chan_send(belt->in, &item, KIN_NEVER));
        kin_unmask();
    }
    return rc;
}

static int work(kin_task_fn *carry)
{
    struct belt belt;
    KIN_LAB_OK(kin_chan_create(&belt.in, sizeof(int), 2));
    KIN_LAB_OK(kin_chan_create(&belt.out, sizeof(int), 1));
    KIN_LAB_OK(kin_chan_send(belt.in, &(int){7}, KIN_NEVER));
    KIN_LAB_OK(kin_chan_send(belt.in, &(int){8}, KIN_NEVER));
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, carry, &belt));
    kin_nursery_cancel(&n, KIN_CANCELLED); /* closing time, whatever the carrier does */
    kin_ignore(kin_nursery_join(&n, NULL));
    size_t items = kin_chan_len(belt.in) + kin_chan_len(belt.out);
    kin_chan_unref(belt.in);
    kin_chan_unref(belt.out);
    kin_lab_assert(items == 2, "every item is in one channel or in the other");
    return 0;
}

KIN_LAB(lost_item_bug)
{
    return work(carry_bug);
}

KIN_LAB(lost_item_fixed)
{
    return work(carry_fixed);
}

KIN_LAB_MAIN()
