/* SPDX-License-Identifier: MIT */
/*
 * Names: a service that is found by what it is called, and a spare that takes its place.
 *
 * Two servers can do the work. Whoever gets the name "clerk" does it, and keeps the name only as
 * long as it renews its lease; the other one waits for the name to be free. Clients know neither:
 * they look the name up for each call. After a while the first clerk falls asleep over its work. It
 * does not fail, so nobody would be told; but it no longer renews, its lease runs out, and the
 * spare is the clerk from then on. When the first wakes up it is told that it has lost its name.
 */
#include <kin/kin.h>

#include <stdio.h>
#include <string.h>

enum { TRY = 1, CALLS = 40, NAPS_AT = 10 };

#define LEASE KIN_MS(50)
#define RENEWS KIN_MS(10)

struct clerk {
    int number;
    bool has_name;
    int answers;
};

/* Takes the name if it is free, renews it if it is this clerk's, and will look again soon. */
static int try_for_name(struct kin_server *s, struct clerk *clerk)
{
    int rc = clerk->has_name ? kin_lease_renew("clerk", LEASE)
                             : kin_register("clerk", kin_self_addr(), LEASE);

    if (rc == 0 && !clerk->has_name)
        printf("clerk %d is on duty\n", clerk->number);
    clerk->has_name = rc == 0;
    return kin_server_timer_set(s, TRY, kin_after(RENEWS));
}

static int begin(struct kin_server *s, void *state, const void *arg)
{
    struct clerk *clerk = state;

    clerk->number = *(const int *)arg;
    return try_for_name(s, clerk);
}

static int on_call(struct kin_server *s, void *state, const void *req, size_t size,
                   struct kin_reply *reply)
{
    struct clerk *clerk = state;

    (void)s, (void)req, (void)size;
    clerk->answers++;
    kin_ignore(kin_reply_send(reply, &clerk->number, sizeof clerk->number));
    if (clerk->number == 1 && clerk->answers == NAPS_AT)
        return kin_sleep(kin_after(3 * LEASE)); /* stuck, and everybody who asks it with it */
    return 0;
}

static int on_info(struct kin_server *s, void *state, const struct kin_info *info)
{
    struct clerk *clerk = state;

    if (info->kind == KIN_INFO_LEASE) {
        printf("clerk %d has lost the name %s\n", clerk->number, info->u.lease.name);
        clerk->has_name = false;
        return 0;
    }
    return info->kind == KIN_INFO_TIMEOUT ? try_for_name(s, clerk) : 0;
}

static const struct kin_server_ops clerk_ops = {
    .on_start = begin, .on_call = on_call, .on_info = on_info};

/* Asks whoever is the clerk at this moment; again when nobody is, or it does not answer. */
static int ask_clerk(int *who)
{
    for (;;) { /* ends: somebody is always there to take the name */
        struct kin_addr clerk;
        int rc = kin_whereis("clerk", &clerk);

        if (rc == 0)
            rc = kin_call(clerk, NULL, 0, who, sizeof *who, NULL, kin_after(LEASE / 2));
        if (rc != KIN_NOPROC && rc != KIN_STOPPING && rc != KIN_TIMEOUT)
            return rc;
        rc = kin_sleep(kin_after(RENEWS));
        if (rc < 0)
            return rc;
    }
}

static int run_office(void *arg)
{
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct kin_addr clerks[2];
    int *answers = arg;

    KIN_NURSERY(office);
    options.state_size = sizeof(struct clerk);
    int rc = 0;
    for (int number = 1; number <= 2 && rc == 0; number++)
        rc = kin_server_start(&office, &clerk_ops, &options, &number, &clerks[number - 1]);
    for (int i = 0; i < CALLS && rc == 0; i++) {
        int who = 0;
        rc = ask_clerk(&who);
        answers[who]++;
    }
    for (int i = 0; i < 2 && rc == 0; i++)
        rc = kin_server_stop(clerks[i], 0, KIN_NEVER);
    return kin_nursery_end(&office, rc);
}

int main(void)
{
    int answers[3] = {0};
    int rc = kin_run(NULL, run_office, answers);

    printf("%d answers of clerk 1, %d of clerk 2: %s\n", answers[1], answers[2],
           kin_status_name(rc));
    return rc == 0 && answers[1] + answers[2] == CALLS ? 0 : 1;
}
