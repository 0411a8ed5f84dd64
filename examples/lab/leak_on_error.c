/* SPDX-License-Identifier: MIT */
/*
 * Leak on the error path: a pipe is made of two channels. When the second cannot be had, the
 * function answers with the error, and the first channel has no owner any more. Nobody sees it on a
 * machine with memory enough; the lab lets each allocation fail in its turn.
 *
 * The remedy is one way out that undoes what was done, in reverse order.
 */
#include <kin/kin.h>
#include <kin/lab.h>

struct pipe {
    struct kin_chan *there, *back;
};

static int open_bug(struct pipe *pipe)
{
    int rc = kin_chan_create(&pipe->there, sizeof(int), 4);
    return rc < 0 ? rc : kin_chan_create(&pipe->back, sizeof(int), 4); /* fails: one is lost */
}

static int open_fixed(struct pipe *pipe)
{
    int rc = kin_chan_create(&pipe->there, sizeof(int), 4);
    if (rc == 0 && (rc = kin_chan_create(&pipe->back, sizeof(int), 4)) < 0)
        kin_chan_unref(pipe->there);
    return rc;
}

static int talk(int (*open)(struct pipe *pipe))
{
    struct pipe pipe;
    if (open(&pipe) < 0)
        return 0; /* no memory, no talk: that is all right */
    kin_chan_unref(pipe.there);
    kin_chan_unref(pipe.back);
    return 0;
}

static int talk_bug(void *arg)
{
    (void)arg;
    return talk(open_bug);
}

static int talk_fixed(void *arg)
{
    (void)arg;
    return talk(open_fixed);
}

KIN_LAB(leak_on_error_bug, .faults = KIN_FAULT_OOM)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, talk_bug, NULL));
    return kin_nursery_join(&n, NULL);
}

KIN_LAB(leak_on_error_fixed, .faults = KIN_FAULT_OOM)
{
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, talk_fixed, NULL));
    return kin_nursery_join(&n, NULL);
}

KIN_LAB_MAIN()
