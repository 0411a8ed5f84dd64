/* SPDX-License-Identifier: MIT */
/*
 * The station about servers: calls that are answered, and a server that fails and comes back.
 */
#include "tool.h"

#include <errno.h>
#include <stdatomic.h>

enum { COUNT = 1, FAIL = 2 };

struct desk {
    unsigned calls;       /* to make */
    int64_t ns;           /* that they took, */
    int64_t back_ns;      /* and that it took until a new one answered after a failure */
    long before, after;   /* what the old one and the new one had counted */
    atomic_uint starts;
};

static struct desk *desk; /* the one of this station; a start function has no other way to it */

static int on_start(struct kin_server *s, void *state, const void *arg)
{
    (void)s, (void)state, (void)arg;
    atomic_fetch_add(&desk->starts, 1);
    return 0;
}

static int on_call(struct kin_server *s, void *state, const void *req, size_t size,
                   struct kin_reply *reply)
{
    long *count = state;

    (void)s;
    if (size != sizeof(int))
        return -EBADMSG;
    if (*(const int *)req == FAIL)
        return -EIO;
    ++*count;
    kin_ignore(kin_reply_send(reply, count, sizeof *count));
    return 0;
}

static int start_clerk(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    static const struct kin_server_ops ops = {on_start, on_call, NULL, NULL, NULL, NULL};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;

    options.name = "clerk";
    options.state_size = sizeof(long);
    return kin_server_start(n, &ops, &options, arg, out);
}

static int ask(int what, long *count)
{
    struct kin_addr clerk;
    int rc = kin_whereis("clerk", &clerk);

    return rc < 0 ? rc : kin_call(clerk, &what, sizeof what, count, sizeof *count, NULL, KIN_NEVER);
}

/* Fails it, and waits until another one answers. */
static int replace_clerk(void)
{
    kin_time start = kin_now();
    int rc = ask(FAIL, &desk->after);

    if (rc != -EIO)
        return rc < 0 ? rc : KIN_PANICKED;
    while ((rc = ask(COUNT, &desk->after)) == KIN_NOPROC) /* ends: it is started again */
        kin_ignore(kin_yield());
    desk->back_ns = kin_now() - start;
    return rc;
}

static int work_at_desk(void *arg)
{
    struct kin_child_spec spec = {0};
    struct kin_addr supervisor;
    KIN_NURSERY(n);

    (void)arg;
    spec.name = "clerk";
    spec.start = start_clerk;
    int rc = kin_supervisor_start(&n, NULL, &spec, 1, &supervisor);
    kin_time start = kin_now();
    for (unsigned i = 0; i < desk->calls && rc == 0; i++)
        rc = ask(COUNT, &desk->before);
    desk->ns = kin_now() - start;
    if (rc == 0)
        rc = replace_clerk();
    if (rc == 0)
        rc = kin_server_stop(supervisor, 0, KIN_NEVER);
    return kin_nursery_end(&n, rc);
}

int demo_servers(const struct tour *tour)
{
    struct desk here = {.calls = tour->is_quick ? 20000 : 200000};

    print_text("A server is a task with a state of its own: whoever calls it waits for the answer. "
               "This one is found by its name, is asked %s times, and then fails; its supervisor "
               "starts another one, which begins anew.", text_count(here.calls));
    desk = &here;
    int rc = demo_run(1, work_at_desk, NULL);
    desk = NULL;
    if (rc < 0)
        return demo_wrong("the server did not answer", rc);
    if (here.before != (long)here.calls || here.after != 1 || atomic_load(&here.starts) != 2)
        return demo_wrong("calls were lost or made twice", KIN_PANICKED);
    print_figure("lookup and call", "%s", text_ns((double)here.ns / (double)here.calls));
    print_figure("failure to next answer", "%s", text_ns((double)here.back_ns));
    return 0;
}
