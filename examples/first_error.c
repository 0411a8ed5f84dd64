/* SPDX-License-Identifier: MIT */
/*
 * The first error: a child that fails cancels its siblings, and the join says why.
 *
 * Five fetchers are started. Four of them would wait for ever; the third fails. The others wake
 * from their sleep with KIN_CANCELLED, can ask for the reason, clean up and return. The join
 * returns the error, not the cancellations it caused. The same nursery with KIN_COLLECT lets the
 * siblings go on and keeps every error.
 */
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>

enum { FETCHERS = 5, BROKEN = 2 };

struct fetcher {
    int index;
    int seen;   /* what its wait returned */
    int reason; /* why it was asked to stop */
};

static int fetch(void *arg)
{
    struct fetcher *fetcher = arg;

    if (fetcher->index == BROKEN) {
        kin_ignore(kin_sleep(kin_after(KIN_MS(5)))); /* the others wait by now */
        return -ECONNREFUSED;
    }
    fetcher->seen = kin_sleep(KIN_NEVER); /* stands for a read that never completes */
    fetcher->reason = kin_cancel_reason();
    return fetcher->seen;
}

/* The third fails, so everybody stops. */
static int fail_fast(void *arg)
{
    struct fetcher *fetchers = arg;
    KIN_NURSERY(n, .name = "fetchers");

    int rc = 0;
    for (int i = 0; i < FETCHERS && rc == 0; i++) {
        fetchers[i].index = i;
        rc = kin_spawn(&n, fetch, &fetchers[i]);
    }
    struct kin_outcome how = {0};
    rc = kin_nursery_end(&n, rc);
    kin_nursery_errors(&n, &how, 1); /* the first one */
    printf("fail fast: the end returned %s, of task %llu\n", kin_status_name(rc),
           (unsigned long long)how.task);
    return rc;
}

static int fail_with_index(void *arg)
{
    return -1 - *(const int *)arg; /* -EPERM, -ENOENT, ... */
}

/* Everybody fails, everybody is heard. */
static int collect(void *arg)
{
    static const int index[FETCHERS] = {0, 1, 2, 3, 4};
    size_t *errors = arg;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);

    int rc = 0;
    for (int i = 0; i < FETCHERS && rc == 0; i++)
        rc = kin_spawn_copy(&n, fail_with_index, &index[i], sizeof(index[i]));
    rc = kin_nursery_end(&n, rc);
    struct kin_outcome kept[FETCHERS];
    *errors = kin_nursery_errors(&n, kept, FETCHERS);
    printf("collect: the end returned %s, kept were", kin_status_name(rc));
    for (size_t i = 0; i < *errors; i++)
        printf(" %s", kin_status_name(kept[i].status));
    printf("\n");
    return rc;
}

int main(void)
{
    struct fetcher fetchers[FETCHERS] = {{0, 0, 0}};
    bool is_right = kin_run(NULL, fail_fast, fetchers) == -ECONNREFUSED;

    for (int i = 0; i < FETCHERS; i++) {
        if (i == BROKEN)
            continue;
        /* A fetcher that had not begun when the third failed never ran: it saw nothing. */
        bool has_run = fetchers[i].seen != 0;
        printf("fetcher %d: %s, because of %s\n", i,
               has_run ? kin_status_name(fetchers[i].seen) : "never began",
               has_run ? kin_status_name(fetchers[i].reason) : "the same");
        if (has_run)
            is_right = is_right && fetchers[i].seen == KIN_CANCELLED &&
                       fetchers[i].reason == -ECONNREFUSED;
    }

    size_t errors = 0;
    int rc = kin_run(NULL, collect, &errors);
    is_right = is_right && rc < 0 && errors == FETCHERS;
    return is_right ? 0 : 1;
}
