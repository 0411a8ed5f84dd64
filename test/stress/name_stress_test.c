/* SPDX-License-Identifier: MIT */
/*
 * Goal: when names are taken, given up, renewed, lost by time and lost by the end of their holders
 * all at once, each has at most one holder at every moment, everybody who looks sees a holder that
 * may have been there, every loss is told once, and nothing is left.
 * Method: actors do random things to a few names and read the clock on both sides of each call. So
 * for each hold of a name there is a span in which it surely was held, and a longer one in which it
 * may have been:
 *
 *         register          renew           unregister
 *         |-----|          |-----|          |-----|            calls
 *               ============================                   surely held
 *         ========================================             perhaps held
 *
 * A lease surely lasts until its ttl after the begin of the call that set it, and perhaps until its
 * ttl after the end of that call. Afterwards: no two sure spans of one name overlap; who found
 * nobody did not look within a sure span, and who found somebody looked within a span of that one
 * in which it may have been there. The seed is printed and KIN_SEED repeats the choices, though not
 * the order in which several workers make them.
 */
#include "api/in_runtime.h"

enum { NAMES = 10, ACTORS = 12, WAVES = 3, ROUNDS = 2000, ANYBODY = 1, NOBODY = 0 };

struct hold {
    int name;
    bool is_open;    /* its actor has not seen its end */
    uint64_t holder; /* a task */
    kin_time sure_from, sure_to, may_from, may_to;
};

struct look {
    int name;
    uint64_t found; /* a task, ANYBODY, or NOBODY */
    kin_time from, to;
};

struct actor {
    uint64_t state; /* of its chance */
    bool lets_go;   /* of all names before its end */
    struct hold *mine[NAMES]; /* the newest that it holds itself; NULL: never had one */
    int lost, told;           /* leases that ran out, and how many of those it was told of */
    int hold_count, look_count;
    struct hold holds[ROUNDS + 1];
    struct look looks[2 * ROUNDS];
};

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static const char *name_of(int i)
{
    static const char *const names[NAMES] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    return names[i];
}

/* Mostly none or short. */
static int64_t some_ttl(uint64_t *state)
{
    uint32_t choice = draw(state) % 4;
    return choice == 0 ? 0 : choice == 1 ? KIN_SEC(100) : (int64_t)(1 + draw(state) % 300000);
}

static kin_time sooner(kin_time a, kin_time b)
{
    return a < b ? a : b;
}

/* ---- what actors note ---- */

static void note_look(struct actor *actor, int name, uint64_t found, kin_time from)
{
    if (actor->look_count < 2 * ROUNDS)
        actor->looks[actor->look_count++] = (struct look){name, found, from, kin_now()};
}

/* The hold is over, and was at the latest just now. */
static void end_hold(struct hold *hold, kin_time sure_to)
{
    hold->is_open = false;
    hold->sure_to = sooner(hold->sure_to, sure_to);
    hold->may_to = sooner(hold->may_to, kin_now());
}

/* A call says that the lease has run out: it must have been able to. */
static void lose_hold(struct actor *actor, struct hold *hold)
{
    EXPECT_GE(kin_now(), hold->sure_to);
    end_hold(hold, hold->sure_to);
    actor->lost++;
}

/* From now on it lasts this long. */
static void set_times(struct hold *hold, int64_t ttl, kin_time before)
{
    hold->sure_to = ttl ? before + ttl : KIN_NEVER;
    hold->may_to = ttl ? kin_now() + ttl : KIN_NEVER;
}

/* Registers a name; NULL: it is taken. */
static struct hold *take_name(struct actor *actor, int name, struct kin_addr holder)
{
    int64_t ttl = some_ttl(&actor->state);
    kin_time before = kin_now();
    int rc = kin_register(name_of(name), holder, ttl);
    EXPECT(rc == 0 || rc == KIN_TAKEN);
    if (rc < 0) {
        note_look(actor, name, ANYBODY, before);
        return NULL;
    }
    EXPECT_LE(actor->hold_count, ROUNDS); /* at most one in a round */
    struct hold *hold = &actor->holds[actor->hold_count++];
    *hold = (struct hold){.name = name, .is_open = true, .holder = holder.id};
    hold->may_from = before;
    set_times(hold, ttl, before);
    hold->sure_from = kin_now();
    return hold;
}

/* ---- what actors do ---- */

static void take_for_itself(struct actor *actor, int name)
{
    struct hold *before = actor->mine[name];
    struct hold *hold = take_name(actor, name, kin_self_addr());
    if (!hold)
        return;
    if (before && before->is_open)
        lose_hold(actor, before);
    actor->mine[name] = hold;
}

static void give_up(struct actor *actor, int name)
{
    struct hold *hold = actor->mine[name];
    kin_time before = kin_now();
    int rc = kin_unregister(name_of(name));
    EXPECT(rc == 0 || rc == KIN_NOPROC || rc == -EPERM);
    if (rc < 0)
        note_look(actor, name, rc == -EPERM ? ANYBODY : NOBODY, before);
    if (!hold || !hold->is_open)
        EXPECT_NE(rc, 0); /* only its own */
    else if (rc == 0)
        end_hold(hold, before);
    else
        lose_hold(actor, hold);
}

static void renew(struct actor *actor, int name)
{
    struct hold *hold = actor->mine[name];
    int64_t ttl = some_ttl(&actor->state);
    kin_time before = kin_now();
    int rc = kin_lease_renew(name_of(name), ttl);
    EXPECT(rc == 0 || rc == KIN_NOPROC || rc == -EPERM);
    if (rc < 0)
        note_look(actor, name, rc == -EPERM ? ANYBODY : NOBODY, before);
    if (!hold || !hold->is_open)
        EXPECT_NE(rc, 0);
    else if (rc == 0)
        set_times(hold, ttl, before);
    else
        lose_hold(actor, hold);
}

static void look_up(struct actor *actor, int name)
{
    struct kin_addr found = {0, 0};
    kin_time before = kin_now();
    int rc = kin_whereis(name_of(name), &found);
    EXPECT(rc == 0 || rc == KIN_NOPROC);
    EXPECT_EQ(rc == 0, found.id != 0);
    note_look(actor, name, found.id, before);
}

static void listen(struct actor *actor)
{
    struct kin_info info;
    int rc;
    while ((rc = kin_wait_info(&info, 0)) == 0) {
        EXPECT_EQ(info.kind, KIN_INFO_LEASE);
        EXPECT_EQ(strlen(info.u.lease.name), 1);
        EXPECT_LE((kin_time)info.vt, kin_now());
        actor->told++;
    }
    EXPECT_EQ(rc, KIN_TIMEOUT);
}

struct mayfly {
    struct kin_event go;
    int how;
};

static int live_shortly(void *arg)
{
    struct mayfly *mayfly = arg;
    int rc = kin_event_wait(&mayfly->go, KIN_NEVER);
    if (mayfly->how == 1)
        kin_fail(-EIO, "on purpose");
    return mayfly->how == 2 ? -ENOENT : rc;
}

/* Gives a name to somebody else, who ends soon. */
static void name_a_mayfly(struct actor *actor, int name)
{
    struct kin_nursery_options collect = KIN_NURSERY_OPTIONS_INIT;
    struct mayfly mayfly = {.how = (int)(draw(&actor->state) % 4)};
    struct kin_addr found;
    struct kin_task_ref ref;
    struct kin_nursery n;
    collect.on_error = KIN_COLLECT;
    EXPECT_EQ(kin_nursery_open(&n, &collect), 0);
    EXPECT_EQ(kin_spawn_with(&n, NULL, live_shortly, &mayfly, 0, &ref), 0);
    struct hold *hold = take_name(actor, name, kin_task_addr(ref));
    for (uint32_t i = draw(&actor->state) % 4; i > 0; i--)
        kin_ignore(kin_yield());
    kin_time before = kin_now();
    if (mayfly.how == 3)
        EXPECT_EQ(kin_task_cancel(ref), 0);
    else
        kin_event_set(&mayfly.go);
    kin_ignore(kin_nursery_join(&n, NULL));
    if (hold)
        end_hold(hold, before);
    if (kin_whereis(name_of(name), &found) == 0)
        EXPECT_NE(found.id, ref.id); /* once joined, nothing of it is left */
}

/* One that it may still hold, or any. */
static int some_name(struct actor *actor)
{
    int first = (int)(draw(&actor->state) % NAMES);
    for (int i = 0; i < NAMES; i++) {
        struct hold *hold = actor->mine[(first + i) % NAMES];
        if (hold && hold->is_open)
            return (first + i) % NAMES;
    }
    return first;
}

static void act_once(struct actor *actor)
{
    int name = (int)(draw(&actor->state) % NAMES);
    switch (draw(&actor->state) % 12) {
    case 0:
    case 1:
        take_for_itself(actor, name);
        break;
    case 2:
    case 3:
        give_up(actor, some_name(actor));
        break;
    case 4:
        give_up(actor, name);
        break;
    case 5:
        renew(actor, some_name(actor));
        break;
    case 6:
    case 7:
        look_up(actor, name);
        break;
    case 8:
        name_a_mayfly(actor, name);
        break;
    case 9:
        listen(actor);
        break;
    case 10:
        kin_ignore(kin_sleep(kin_after((int64_t)(draw(&actor->state) % 100000))));
        break;
    default:
        kin_ignore(kin_yield());
    }
}

static int act(void *arg)
{
    struct actor *actor = *(struct actor **)arg;
    int rounds = ROUNDS / (int)kin_test_scale() + 10;
    for (int i = 0; i < rounds && i < ROUNDS; i++)
        act_once(actor);
    for (int name = 0; name < NAMES && actor->lets_go; name++) {
        if (actor->mine[name] && actor->mine[name]->is_open)
            give_up(actor, name);
    }
    if (actor->lets_go) {
        listen(actor);
        EXPECT_EQ(actor->told, actor->lost); /* each once */
    }
    for (int i = 0; i < actor->hold_count; i++) { /* what it has left ends with it */
        if (actor->holds[i].is_open)
            actor->holds[i].sure_to = sooner(actor->holds[i].sure_to, kin_now());
    }
    return 0;
}

/* ---- afterwards ---- */

/* Everything that was noted, of all actors. */
struct record {
    struct hold *holds;
    struct look *looks;
    size_t hold_count, look_count;
};

static int by_name_and_time(const void *a, const void *b)
{
    const struct hold *x = a, *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->sure_from < y->sure_from ? -1 : x->sure_from > y->sure_from;
}

static void check_holds(struct record *record)
{
    kin_time held_to = 0;
    qsort(record->holds, record->hold_count, sizeof(struct hold), by_name_and_time);
    for (size_t i = 0; i < record->hold_count; i++) {
        const struct hold *hold = &record->holds[i];
        if (i == 0 || hold->name != hold[-1].name)
            held_to = 0;
        if (hold->sure_from >= hold->sure_to)
            continue; /* over before the call that began it had returned */
        EXPECT_GE(hold->sure_from, held_to); /* one holder at a time */
        held_to = hold->sure_to;
    }
}

/* Those of one name stand together: the first of name is at first[name]. */
static void check_look(const struct record *record, const size_t *first, const struct look *look)
{
    bool may_be = false;
    for (size_t i = first[look->name]; i < first[look->name + 1]; i++) {
        const struct hold *hold = &record->holds[i];
        if (look->found == NOBODY)
            EXPECT(!(hold->sure_from <= look->from && look->to < hold->sure_to));
        may_be |= (look->found == ANYBODY || look->found == hold->holder) &&
                  hold->may_from <= look->to && look->from <= hold->may_to;
    }
    EXPECT(look->found == NOBODY || may_be);
}

static void check_looks(const struct record *record)
{
    size_t first[NAMES + 1] = {0};
    for (size_t i = 0; i < record->hold_count; i++)
        first[record->holds[i].name + 1]++;
    for (int name = 0; name < NAMES; name++)
        first[name + 1] += first[name];
    for (size_t i = 0; i < record->look_count; i++)
        check_look(record, first, &record->looks[i]);
}

static void check(struct actor **actors, int count)
{
    struct record record = {NULL, NULL, 0, 0};
    for (int i = 0; i < count; i++) {
        record.hold_count += (size_t)actors[i]->hold_count;
        record.look_count += (size_t)actors[i]->look_count;
    }
    record.holds = malloc((record.hold_count + 1) * sizeof(struct hold));
    record.looks = malloc((record.look_count + 1) * sizeof(struct look));
    EXPECT(record.holds && record.looks);
    record.hold_count = record.look_count = 0;
    for (int i = 0; i < count; i++) {
        for (int j = 0; j < actors[i]->hold_count; j++)
            record.holds[record.hold_count++] = actors[i]->holds[j];
        for (int j = 0; j < actors[i]->look_count; j++)
            record.looks[record.look_count++] = actors[i]->looks[j];
    }
    check_holds(&record);
    check_looks(&record);
    printf("%zu holds, %zu looks\n", record.hold_count, record.look_count);
    EXPECT(record.hold_count > 50 && record.look_count > 50);
    free(record.holds);
    free(record.looks);
}

/* ---- programs ---- */

static int act_in_waves(void *arg)
{
    struct actor **actors = arg;
    for (int wave = 0; wave < WAVES; wave++) {
        struct kin_addr found;
        KIN_NURSERY(n);
        for (int i = 0; i < ACTORS; i++)
            EXPECT_EQ(kin_spawn(&n, act, &actors[wave * ACTORS + i]), 0);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        for (int i = wave * ACTORS; i < (wave + 1) * ACTORS; i++) {
            for (int j = 0; j < actors[i]->hold_count; j++)
                actors[i]->holds[j].may_to = sooner(actors[i]->holds[j].may_to, kin_now());
        }
        for (int name = 0; name < NAMES; name++) /* they are over, and so are their names */
            EXPECT_EQ(kin_whereis(name_of(name), &found), KIN_NOPROC);
    }
    return 0;
}

static void run_waves(unsigned workers)
{
    static struct actor *actors[WAVES * ACTORS];
    uint64_t seed = kin_test_seed();
    for (int i = 0; i < WAVES * ACTORS; i++) {
        actors[i] = calloc(1, sizeof(struct actor));
        EXPECT(actors[i] != NULL);
        actors[i]->state = seed + (uint64_t)i * 0x9e3779b97f4a7c15u;
        actors[i]->lets_go = i % 3 != 0;
    }
    EXPECT_EQ(run_reporting(workers, act_in_waves, actors, NULL), 0);
    check(actors, WAVES * ACTORS);
    for (int i = 0; i < WAVES * ACTORS; i++)
        free(actors[i]);
}

KIN_TEST_LIMIT(names_on_one_worker, "REG-COLLISION REG-EXPIRE SINV-3", 120)
{
    run_waves(1);
}

KIN_TEST_LIMIT(names_on_two_workers, "REG-COLLISION REG-EXPIRE SINV-3", 120)
{
    run_waves(2);
}

KIN_TEST_LIMIT(names_on_four_workers, "REG-COLLISION REG-EXPIRE SINV-3", 120)
{
    run_waves(4);
}
