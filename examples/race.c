/* SPDX-License-Identifier: MIT */
/*
 * Combinators: ask several, take what is needed, leave none behind.
 *
 * Three mirrors hold the same page; they differ in how long they take, and one is broken. The same
 * three are raced, hedged, asked for two equal answers and given a deadline. Each call returns only
 * when every mirror it asked has stopped, so the pages may stand on the caller's stack.
 */
#include <kin/combine.h>
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>

enum { MIRRORS = 3 };

struct mirror {
    const char *name;
    int64_t takes; /* ns until it answers */
    int answer;    /* bytes, or why it fails */
    bool is_asked, is_stopped;
};

static int fetch(void *arg)
{
    struct mirror *mirror = arg;

    mirror->is_asked = true;
    int rc = kin_sleep(kin_after(mirror->takes)); /* stands for the network */
    mirror->is_stopped = true;
    return rc < 0 ? rc : mirror->answer;
}

/* Three mirrors as branches: slow, quick, and broken at once. */
static void set_up(struct mirror mirrors[MIRRORS], struct kin_branch b[MIRRORS])
{
    mirrors[0] = (struct mirror){"slow", KIN_SEC(3600), 100, false, false};
    mirrors[1] = (struct mirror){"quick", KIN_MS(50), 200, false, false};
    mirrors[2] = (struct mirror){"broken", 0, -ECONNREFUSED, false, false};
    for (int i = 0; i < MIRRORS; i++) {
        b[i].fn = fetch;
        b[i].arg = &mirrors[i];
    }
}

/* Says how a call went, and whether every mirror that was asked has stopped. */
static bool tell(const char *what, int rc, const struct kin_branch b[MIRRORS])
{
    bool is_drained = true;

    printf("%-8s %s;", what, rc < 0 ? kin_status_name(rc) : "succeeded");
    for (int i = 0; i < MIRRORS; i++) {
        const struct mirror *mirror = b[i].arg;
        const struct kin_outcome *out = &b[i].out;
        is_drained = is_drained && mirror->is_asked == mirror->is_stopped;
        if (!mirror->is_asked)
            printf(" %s: not asked", mirror->name);
        else if (out->severity == KIN_SEV_OK)
            printf(" %s: %d bytes", mirror->name, out->value);
        else
            printf(" %s: %s", mirror->name, kin_status_name(out->status));
        printf(i + 1 < MIRRORS ? "," : "\n");
    }
    return is_drained;
}

static int ask(void *arg)
{
    struct mirror mirrors[MIRRORS];
    struct kin_branch b[MIRRORS];
    size_t winner = MIRRORS;
    bool is_right = true;

    (void)arg;
    set_up(mirrors, b);
    int rc = kin_race(b, MIRRORS, &winner); /* the first end, even a failure */
    is_right = tell("race", rc, b) && is_right && rc == -ECONNREFUSED && winner == 2;

    set_up(mirrors, b);
    rc = kin_any(b, MIRRORS, &winner); /* the first success */
    is_right = tell("any", rc, b) && is_right && rc == 0 && winner == 1;

    set_up(mirrors, b);
    mirrors[0].takes = KIN_MS(60); /* not that slow: two of three answer */
    rc = kin_quorum(b, MIRRORS, 2);
    is_right = tell("quorum", rc, b) && is_right && rc == 0;
    return is_right ? 0 : 1;
}

static int ask_in_time(void *arg)
{
    struct mirror mirrors[MIRRORS];
    struct kin_branch b[MIRRORS];
    size_t winner = MIRRORS;
    bool is_right = true;

    (void)arg;
    set_up(mirrors, b);
    int rc = kin_hedge(b, MIRRORS, KIN_MS(100), &winner); /* the second only if the first is slow */
    is_right = tell("hedge", rc, b) && is_right && rc == 0 && winner == 1;

    set_up(mirrors, b);
    rc = kin_timeout(&b[0], kin_after(KIN_MS(10)));
    b[1].out = b[2].out = (struct kin_outcome){KIN_SEV_CANCELLED, KIN_CANCELLED, 0, 0, ""};
    is_right = tell("timeout", rc, b) && is_right && rc == KIN_TIMEOUT;

    set_up(mirrors, b);
    rc = kin_all(b, MIRRORS); /* the broken one ends it */
    is_right = tell("all", rc, b) && is_right && rc == -ECONNREFUSED;
    return is_right ? 0 : 1;
}

int main(void)
{
    int rc = kin_run(NULL, ask, NULL);

    return rc == 0 ? kin_run(NULL, ask_in_time, NULL) : rc;
}
