/* SPDX-License-Identifier: MIT */
/*
 * What each task has acquired and not left yet, and that it leaves the newest first [NCG-3].
 *
 *     open o, defer a, open n, defer b          b before a, n before o; on the way out of a task
 *                                               that fails exactly b, n, a, o
 *
 * Cleanups and nurseries are each a stack. A program may join a nursery while cleanups that are
 * newer wait: nothing is wrong with that. But who unwinds leaves both in one order.
 */
#include "lab/world.h"

#define HOLDINGS_MAX 16384u /* at once; with more nobody looks for the rest of the execution */

/* Something that was acquired. */
struct holding {
    uint32_t below; /* the one before of the same task; 0: none */
    uint32_t place; /* of a cleanup, among those of its task */
    unsigned kind;  /* KIN__LAB_CLEANUP, KIN__LAB_NURSERY */
    const void *what;
};

static struct {
    struct holding all[HOLDINGS_MAX]; /* the first is none */
    uint32_t used; /* so many have ever been taken in this execution */
    uint32_t free; /* those that were given back */
    bool is_off;
} holdings;

void kin__lifo_begin(void)
{
    holdings.used = 1;
    holdings.free = 0;
    holdings.is_off = false;
}

/* The player whose things these are; NULL: nobody looks. */
static struct kin__player *looked_at(void)
{
    struct kin__world *w = &kin__world;
    if (!w->is_running || w->current >= w->player_count || holdings.is_off ||
        !kin__world_looks(KIN_ORACLE_ORDER))
        return NULL;
    return &w->players[w->current];
}

static void give(uint32_t i)
{
    holdings.all[i].below = holdings.free;
    holdings.free = i;
}

static uint32_t take(void)
{
    uint32_t i = holdings.free;
    if (i) {
        holdings.free = holdings.all[i].below;
        return i;
    }
    if (holdings.used < HOLDINGS_MAX)
        return holdings.used++;
    holdings.is_off = true;
    return 0;
}

void kin__lab_acquires(unsigned kind, const void *what, uint32_t place)
{
    struct kin__player *player = looked_at();
    uint32_t i = player ? take() : 0;
    if (!i)
        return;
    holdings.all[i] = (struct holding){player->newest, place, kind, what};
    player->newest = i;
}

static bool is_it(const struct holding *holding, unsigned kind, const void *what, uint32_t place)
{
    return holding->kind == kind && holding->what == what &&
           (kind == KIN__LAB_NURSERY || holding->place == place);
}

static void fail(const struct kin__player *player, unsigned kind, const char *why)
{
    kin__world_failf("lifo-cleanup", KIN_PANICKED, player->path, "%s leaves a %s %s", player->path,
                     kind == KIN__LAB_NURSERY ? "nursery" : "cleanup", why);
}

void kin__lab_leaves(unsigned kind, const void *what, uint32_t place)
{
    struct kin__player *player = looked_at();
    uint32_t *link = player ? &player->newest : NULL;
    if (!player)
        return;
    while (*link && holdings.all[*link].kind != kind) /* ends: at the first that it acquired */
        link = &holdings.all[*link].below;
    uint32_t i = *link;
    if (!i || !is_it(&holdings.all[i], kind, what, place)) {
        fail(player, kind, "that is not the newest of them");
        return;
    }
    *link = holdings.all[i].below;
    give(i);
}

void kin__lab_unwinds(unsigned kind, const void *what, uint32_t place)
{
    const struct kin__player *player = looked_at();
    if (player && !is_it(&holdings.all[player->newest], kind, what, place))
        fail(player, kind, "on its way out while it has something newer");
}

void kin__lifo_over(struct kin__player *player)
{
    bool has_cleanup = false;
    while (player->newest) { /* ends: one fewer each time */
        uint32_t i = player->newest;
        has_cleanup |= holdings.all[i].kind == KIN__LAB_CLEANUP;
        player->newest = holdings.all[i].below;
        give(i);
    }
    if (has_cleanup && !holdings.is_off && kin__world_looks(KIN_ORACLE_ORDER))
        kin__world_failf("lifo-cleanup", KIN_PANICKED, player->path,
                         "%s has ended, and a cleanup of it was never run", player->path);
}
