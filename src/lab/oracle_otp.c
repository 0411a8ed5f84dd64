/* SPDX-License-Identifier: MIT */
/*
 * Oracles for what servers, names and supervisors promise.
 *
 *     system-message-order  whoever reads news in turn reads those first that are first by
 *                           (time, kind, subject), of all that it could read then [SINV-4]
 *     registry-clean        nobody holds a name who is over [SINV-3]
 *     reply-linearity       a callback that returns has answered its call, or moved the right to,
 *                           also when the caller has left and nobody misses the answer
 *     restart-monotone      a child that was cancelled or panicked is not started again for it,
 *                           and no more restarts than allowed lie in one window [SINV-2]
 *
 * Each keeps books of its own: what it is told of are events, never the answer of the code that it
 * looks at. Of calls the rest is seen elsewhere: one that is never answered is a deadlock, one that
 * is dropped an obligation-leak, and the claim of the caller's park lets nobody answer twice.
 */
#include "lab/oracle.h"

#include "lab/world.h"
#include "otp/registry.h"

#include <kin/monitor.h>
#include <kin/task.h>

#include <string.h>

#define TOLD_MAX 4096u   /* news that nobody has read; with more nobody looks for the rest of it */
#define PLANS_MAX 16384u /* restarts in an execution; likewise */

/* News on their way. */
struct told {
    const struct kin_info *info; /* which they are */
    uint64_t task, after;
    struct kin_info copy;
};

/* A supervisor has started something again. */
struct plan {
    uint64_t supervisor;
    int64_t when;
};

static struct {
    struct told told[TOLD_MAX];
    uint32_t told_count;
    struct plan plans[PLANS_MAX];
    uint32_t plan_count;
    bool is_off;
} books;

void kin__oracle_otp_begin(void)
{
    books.told_count = 0;
    books.plan_count = 0;
    books.is_off = false;
}

static bool is_looking(void)
{
    return kin__world.is_running && !kin__world.is_closed && !books.is_off &&
           kin__world_looks(KIN_ORACLE_SERVERS);
}

/* ---- the order of news ---- */

static uint64_t subject_of(const struct kin_info *info)
{
    switch (info->kind) {
    case KIN_INFO_DOWN:
        return info->u.down.who.id;
    case KIN_INFO_EXIT:
        return info->u.exit.from.id;
    case KIN_INFO_TIMEOUT:
        return info->u.timeout.id;
    case KIN_INFO_LEASE:
        return 0; /* by its name */
    case KIN_INFO_NODE_UP:
    case KIN_INFO_NODE_DOWN:
        break;
    }
    return info->u.node.node;
}

static bool is_before(const struct kin_info *a, const struct kin_info *b)
{
    if (a->vt != b->vt || a->kind != b->kind)
        return a->vt != b->vt ? a->vt < b->vt : a->kind < b->kind;
    if (a->kind == KIN_INFO_LEASE)
        return strcmp(a->u.lease.name, b->u.lease.name) < 0;
    return subject_of(a) < subject_of(b);
}

void kin__lab_told(uint64_t task, const struct kin_info *info, uint64_t after)
{
    if (!is_looking())
        return;
    if (books.told_count == TOLD_MAX) {
        books.is_off = true;
        return;
    }
    books.told[books.told_count++] = (struct told){info, task, after, *info};
}

void kin__lab_untold(const struct kin_info *info)
{
    for (uint32_t i = 0; i < books.told_count; i++) {
        if (books.told[i].info == info) {
            books.told[i] = books.told[--books.told_count];
            return;
        }
    }
}

void kin__lab_heard(uint64_t task, const struct kin_info *info, uint64_t oldest)
{
    static const char *const kinds[] = {"Down", "Exit", "Timeout", "Lease", "NodeUp", "NodeDown"};
    kin__lab_untold(info);
    for (uint32_t i = 0; i < books.told_count && is_looking(); i++) {
        const struct told *told = &books.told[i];
        bool is_readable = told->task == task && (oldest == 0 || oldest > told->after);
        if (is_readable && is_before(&told->copy, info))
            kin__world_failf("system-message-order", KIN_PANICKED,
                             kin__player_path(kin__world.current),
                             "%s of %llu is read before %s of %llu, which comes first",
                             kinds[info->kind], (unsigned long long)subject_of(info),
                             kinds[told->copy.kind], (unsigned long long)subject_of(&told->copy));
    }
}

/* ---- names ---- */

void kin__oracle_names(void)
{
    uint64_t holder = 0;
    const char *name = is_looking() ? kin__names_stale(kin__world.sched, &holder) : NULL;
    if (name)
        kin__world_failf("registry-clean", KIN_LEAKED, kin__player_path(kin__world.current),
                         "the name %s is held by task %llu, which is over", name,
                         (unsigned long long)holder);
}

/* ---- restarts ---- */

void kin__lab_forgets(uint64_t server)
{
    (void)server;
    if (is_looking())
        kin__world_failf("reply-linearity", KIN_LEAKED, kin__player_path(kin__world.current),
                         "%s returned from a call without an answer; its caller had left",
                         kin__player_path(kin__world.current));
}

void kin__lab_decides(uint64_t supervisor, unsigned severity, unsigned what, int64_t window,
                      uint32_t max)
{
    int64_t now = kin__clock_now();
    uint32_t count = 0;
    if (!is_looking())
        return;
    for (uint32_t i = 0; what == KIN__LAB_FORGIVES && i < books.plan_count; i++) {
        if (books.plans[i].supervisor == supervisor)
            books.plans[i].supervisor = 0;
    }
    if (what != KIN__LAB_RESTARTS)
        return;
    if (books.plan_count == PLANS_MAX) {
        books.is_off = true;
        return;
    }
    books.plans[books.plan_count++] = (struct plan){supervisor, now};
    for (uint32_t i = 0; i < books.plan_count; i++)
        count += books.plans[i].supervisor == supervisor && now - books.plans[i].when < window;
    if (severity == KIN_SEV_CANCELLED || severity == KIN_SEV_PANIC)
        kin__world_failf("restart-monotone", KIN_PANICKED, kin__player_path(kin__world.current),
                         "a child that %s is started again for it",
                         severity == KIN_SEV_PANIC ? "panicked" : "was cancelled");
    else if (count > max)
        kin__world_failf("restart-monotone", KIN_PANICKED, kin__player_path(kin__world.current),
                         "%u restarts in one window, and %u are allowed", count, max);
}
