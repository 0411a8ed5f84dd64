/* SPDX-License-Identifier: MIT */
/*
 * The engine's door: what worlds call while a run is under way, and the log of it.
 *
 * The hash of a pick is that of the set of those who could go on, by their paths: a sum, which does
 * not mind the order in which a world names them. What a run is for is the business of course.c;
 * who goes on is that of the plan.
 */
#include "lab/engine.h"

#include "lab/state.h"
#include "plat/plat.h"

#include <kin/status.h>

#include <errno.h>
#include <string.h>

#define STEPS_MAX UINT64_C(1000000)
#define TOUCHES_MAX (1u << 20) /* of one step */
#define MIX UINT64_C(0x9fb21c651e98df25)
#define ROOMS 26u
#define ROOM_BYTES (size_t)16384
#define ENGINE_BYTES ((sizeof(struct kin__lab) + 63) / 64 * 64)

/* ---- life ---- */

/* The room for the touches of a step: one before the first can be read and is no touch. */
static void lay_touches(struct kin__lab *s, size_t count)
{
    s->head.touch_begin = (uint64_t *)s->touch_room.base + 1;
    s->head.touch_at = s->head.touch_begin + count;
    s->head.touch_end = (uint64_t *)s->touch_room.base + s->touch_room.bytes / sizeof(uint64_t);
}

/* Every room begins in the memory of the engine itself. */
static void make_rooms(struct kin__lab *s)
{
    struct kin__room *const rooms[] = {
        &s->touch_room,
        &s->schedule_room,
        &s->actor_room,
        &s->log.decisions,
        &s->log.labels,
        &s->kept.decisions,
        &s->kept.labels,
        &s->compare.decisions,
        &s->compare.labels,
        &s->file.decisions,
        &s->file.labels,
        &s->file_room,
        &s->file_script.picks,
        &s->file_script.pledges,
        &s->names,
        &s->texts,
        &s->tree.nodes,
        &s->tree.forks,
        &s->tree.touches,
        &s->tree.sleepers,
        &s->tree.clocks,
        &s->shrink.base.picks,
        &s->shrink.base.pledges,
        &s->shrink.tried.picks,
        &s->shrink.tried.pledges,
        &s->shrink.blocks,
    };
    char *at = (char *)s + ENGINE_BYTES;

    _Static_assert(sizeof(rooms) / sizeof(*rooms) == ROOMS, "each has its place");
    for (size_t i = 0; i < ROOMS; i++, at += ROOM_BYTES)
        kin__room_lend(rooms[i], at, ROOM_BYTES);
    lay_touches(s, 0);
    s->schedule = s->schedule_room.base;
    s->schedule_cap = s->schedule_room.bytes / sizeof(uint16_t);
    s->actors = s->actor_room.base;
}

static int check_config(const struct kin__engine_config *config)
{
    if ((unsigned)config->strategy > KIN__STRATEGY_REPLAY || config->wall_max < 0 ||
        config->depth > KIN__PCT_DEPTH_MAX)
        return -EINVAL;
    if (config->strategy == KIN__STRATEGY_REPLAY && !config->replay)
        return -EINVAL;
    if (config->strategy == KIN__STRATEGY_BYTES && !config->bytes && config->bytes_count)
        return -EINVAL;
    return 0;
}

struct kin__engine *kin__engine_create(const struct kin__engine_config *config, int *status)
{
    *status = check_config(config);
    if (*status)
        return NULL;
    struct kin__lab *s = kin__vm_reserve(ENGINE_BYTES + ROOMS * ROOM_BYTES);
    if (!s) {
        *status = -ENOMEM;
        return NULL;
    }
    s->config = *config;
    s->config.seed = config->seed ? config->seed : 1; /* 0 says that there is no failing seed */
    s->result.seed = s->config.seed;
    s->config.depth = config->depth ? config->depth : 3;
    s->config.steps_max = config->steps_max ? config->steps_max : STEPS_MAX;
    s->head.is_over = true;
    s->current = KIN__NOBODY;
    s->plan = &kin__plan_turns;
    kin__tree_start(&s->tree, config->strategy != KIN__STRATEGY_DFS,
                    config->preemptions ? config->preemptions + 1 : 0);
    make_rooms(s);
    if (config->strategy == KIN__STRATEGY_REPLAY)
        *status = kin__kinlab_load(s, config->replay);
    if (*status) {
        kin__engine_destroy(&s->head);
        return NULL;
    }
    return &s->head;
}

void kin__engine_destroy(struct kin__engine *e)
{
    struct kin__lab *s = kin__lab_of(e);

    if (!s)
        return;
    kin__log_release(&s->log);
    kin__log_release(&s->kept);
    kin__log_release(&s->compare);
    kin__log_release(&s->file);
    kin__script_release(&s->file_script);
    kin__shrink_release(&s->shrink);
    kin__tree_release(&s->tree);
    kin__room_release(&s->file_room);
    kin__room_release(&s->notes_room);
    kin__room_release(&s->actor_room);
    kin__room_release(&s->schedule_room);
    kin__room_release(&s->touch_room);
    kin__room_release(&s->names);
    kin__room_release(&s->texts);
    kin__room_release(&s->table);
    kin__vm_release(s, ENGINE_BYTES + ROOMS * ROOM_BYTES);
}

/* ---- a run's beginning and end ---- */

void kin__lab_start(struct kin__lab *s, const struct kin__plan *plan, uint64_t seed)
{
    s->plan = plan;
    s->actor_count = 0;
    s->current = KIN__NOBODY;
    s->stamp++;
    s->head.is_over = s->is_abandoned = s->has_diverged = s->head.collects = s->is_swept = false;
    s->is_stopped = false;
    s->lazy_steps = 0;
    s->menu.count = 0;
    s->gave_way = false;
    s->steps_max = s->config.steps_max;
    s->run_failure.oracle = NULL;
    kin__log_clear(&s->log, seed);
    s->head.touch_at = s->head.touch_begin;
    s->draws = kin__hash_u64(seed + KIN__RNG_STEP);
    plan->begin(s);
}

void kin__lab_over(struct kin__lab *s)
{
    if (s->head.is_over)
        return;
    s->head.is_over = true;
    if (s->plan->over)
        s->plan->over(s);
    s->head.collects = false;
}

void kin__lab_broke(struct kin__lab *s, int status, const char *text)
{
    if (s->broken)
        return;
    s->broken = status;
    s->head.is_over = false; /* this failure comes before any other */
    s->plan = &kin__plan_turns;
    kin__engine_fail(&s->head, "engine", status, "", text);
}

/* ---- actors ---- */

/* A name that nobody has in this run: that of the path, or of the path with a number. */
static uint32_t name_of(struct kin__lab *s, const char *path)
{
    uint32_t name = kin__path_name(s, path);
    char other[KIN__PATH_MAX];

    for (unsigned nth = 2; nth <= KIN__ACTORS_MAX; nth++) {
        struct kin__text text;
        if (name == KIN__NO_NAME || kin__lab_names(s)[name].stamp != s->stamp)
            return name;
        kin__text_init(&text, other, sizeof(other));
        kin__text_printf(&text, "%.*s~%u", (int)(KIN__PATH_MAX - 16), path, nth);
        name = kin__path_name(s, other);
    }
    return KIN__NO_NAME;
}

/* The name of the next actor; most often that of the same number in the run before. */
static uint32_t find_name(struct kin__lab *s, const char *path)
{
    unsigned actor = s->actor_count;

    if (actor < s->actor_known) {
        uint32_t name = s->actors[actor].name;
        if (kin__lab_names(s)[name].stamp != s->stamp && strcmp(kin__path_text(s, name), path) == 0)
            return name;
    }
    if (actor == KIN__ACTORS_MAX ||
        !kin__room_fits(&s->actor_room, actor + 1u, sizeof(struct kin__actor)))
        return KIN__NO_NAME;
    s->actors = s->actor_room.base;
    return name_of(s, path);
}

unsigned kin__engine_actor(struct kin__engine *e, const char *path)
{
    struct kin__lab *s = kin__lab_of(e);
    unsigned actor = s->actor_count;
    uint32_t name = find_name(s, path);

    if (KIN__UNLIKELY(name == KIN__NO_NAME)) {
        kin__lab_broke(s, actor == KIN__ACTORS_MAX ? -E2BIG : -ENOMEM,
                       "there is no room for one more actor");
        return actor < KIN__ACTORS_MAX ? actor : KIN__ACTORS_MAX - 1;
    }
    struct kin__name *known = &kin__lab_names(s)[name];
    known->stamp = s->stamp;
    known->actor = (uint16_t)actor;
    known->parent = (uint16_t)s->current;
    s->actors[actor] = (struct kin__actor){.hash = known->hash, .name = name};
    s->actor_count++;
    if (s->actor_count > s->actor_known)
        s->actor_known = s->actor_count;
    if (s->plan->born && !s->head.is_over)
        s->plan->born(s, actor);
    return actor;
}

unsigned kin__menu_find(const struct kin__lab *s, const struct kin__menu *menu, uint32_t name)
{
    if (name >= s->name_count || kin__lab_names(s)[name].stamp != s->stamp)
        return KIN__NOBODY;
    const struct kin__name *known = &kin__lab_names(s)[name];
    if (known->actor < 64)
        return menu->mask >> known->actor & 1 ? known->actor : KIN__NOBODY;
    for (unsigned i = 0; i < menu->count; i++)
        if (menu->enabled[i] == known->actor)
            return known->actor;
    return KIN__NOBODY;
}

/* ---- picks ---- */

/* Reads who is enabled, and the hash of it. */
static void read_menu(const struct kin__lab *s, struct kin__menu *menu)
{
    uint64_t sum = menu->count, mask = 0;
    unsigned all = 0;

    for (unsigned i = 0; i < menu->count; i++) {
        unsigned actor = menu->enabled[i];
        KIN__CHECK(actor < s->actor_count, "house: who is enabled has been announced");
        sum += s->actors[actor].hash;
        all |= actor;
        mask |= (uint64_t)(actor < 64) << (actor & 63);
    }
    menu->mask = mask;
    menu->is_small = all < 64;
    sum *= MIX;
    menu->mark = (uint16_t)(sum >> 48 | 1); /* 0 is no mark */
    menu->hash = sum;
}

/* Whether what is known of the menu is what it says. */
__attribute__((unused)) static bool is_read(const struct kin__lab *s)
{
    struct kin__menu again = s->menu;

    read_menu(s, &again);
    return again.hash == s->menu.hash && again.mask == s->menu.mask;
}

static inline void mix_hash(struct kin__log *log, uint64_t hash)
{
    log->hash = (log->hash ^ hash) * MIX;
    log->hash ^= log->hash >> 29;
}

/* Makes room for the next step. False: no memory, and the run is over. */
static bool grow_log(struct kin__lab *s)
{
    if (kin__room_fits(&s->log.decisions, s->log.count + 1, sizeof(struct kin__decision)) &&
        kin__room_fits(&s->schedule_room, s->log.steps + 1, sizeof(uint16_t))) {
        s->schedule = s->schedule_room.base;
        s->schedule_cap = s->schedule_room.bytes / sizeof(uint16_t);
        return true;
    }
    kin__lab_broke(s, -ENOMEM, "there is no memory for one more step");
    return false;
}

/* The log is full, or the run has as many steps as one may have; false: it is over. */
static __attribute__((noinline)) bool may_step_slow(struct kin__lab *s)
{
    if (s->log.steps >= s->steps_max) {
        const char *who = s->current == KIN__NOBODY ? "" : kin__engine_path(&s->head, s->current);
        kin__engine_fail(&s->head, "livelock", KIN_STUCK, who,
                         "the run goes on and on: it has as many steps as one may have, and in the "
                         "second half of them everybody who could go on had its turns");
        return false;
    }
    return grow_log(s);
}

/* What ends a run that would go on; false: it is over. */
static inline bool may_step(struct kin__lab *s)
{
    const struct kin__log *log = &s->log;

    return KIN__LIKELY(log->steps < s->steps_max && log->steps < s->schedule_cap &&
                       log->count < log->decisions.bytes / sizeof(struct kin__decision)) ||
           may_step_slow(s);
}

/* Who goes on. A run that is long becomes a fair one before it is called endless: the plan has no
 * say in its second half, unless it searches, where nobody is passed over for long anyway, or
 * repeats a run. */
static unsigned ask_plan(struct kin__lab *s, const struct kin__menu *menu)
{
    if (KIN__LIKELY(s->log.steps < s->steps_max / 2) || s->plan == &kin__plan_tree ||
        s->plan == &kin__plan_strict)
        return s->plan->pick(s, menu);
    if (s->log.steps == s->steps_max / 2)
        s->turn = s->current;
    return kin__turns_pick(s, menu);
}

unsigned kin__engine_pick(struct kin__engine *e, const uint16_t *enabled, unsigned count)
{
    struct kin__lab *s = kin__lab_of(e);
    struct kin__menu *menu = &s->menu;
    const bool is_known = e->is_same && menu->count == count;

    KIN__CHECK(count > 0, "house: somebody can go on");
    e->is_same = false;
    menu->enabled = enabled;
    menu->count = count;
    if (KIN__UNLIKELY(s->head.is_over) || KIN__UNLIKELY(!may_step(s)))
        return kin__turns_pick(s, menu);
    if (!is_known)
        read_menu(s, menu);
    KIN__ASSERT(is_read(s), "house: a world that says so has the same actors enabled");
    unsigned actor = ask_plan(s, menu);
    if (KIN__UNLIKELY(s->head.is_over))
        return kin__turns_pick(s, menu);
    const struct kin__actor *of = &s->actors[actor];
    *kin__log_at(&s->log, s->log.count++) = (struct kin__decision){
        menu->mask, of->name, menu->mark, KIN__CHOICE_TASK, !menu->is_small};
    s->schedule[s->log.steps++] = (uint16_t)actor;
    mix_hash(&s->log, menu->hash + of->hash);
    e->touch_at = e->touch_begin;
    s->gave_way = false;
    return s->current = actor;
}

uint32_t kin__lab_preemptions(const struct kin__lab *s)
{
    uint32_t preemptions = 0;
    size_t step = 0;

    if (s->is_adopted)
        return 0; /* the run was made elsewhere: there is no schedule of it */
    for (size_t i = 0; i < s->log.count; i++) {
        const struct kin__decision *decision = kin__log_at(&s->log, i);
        if (decision->kind != KIN__CHOICE_TASK)
            continue;
        unsigned before = step ? s->schedule[step - 1] : KIN__NOBODY;
        if (before < 64 && s->schedule[step] != before)
            preemptions += decision->seen >> before & 1;
        step++;
    }
    return preemptions;
}

/* ---- what a step does ---- */

void kin__engine_barrier(struct kin__engine *e)
{
    kin__lab_of(e)->tree.is_barrier = true;
}

void kin__engine_idle(struct kin__engine *e)
{
    kin__lab_of(e)->tree.is_idle = true;
}

void kin__engine_yield(struct kin__engine *e)
{
    kin__lab_of(e)->gave_way = true;
}

void kin__engine_draws(struct kin__engine *e, const char *who)
{
    struct kin__lab *s = kin__lab_of(e);

    s->has_dice = true;
    if (!s->result.dice)
        s->result.dice = who;
}

void kin__engine_caps(struct kin__engine *e)
{
    kin__lab_of(e)->result.is_capped = true;
}

void kin__engine_touch_slow(struct kin__engine *e, uint64_t touch)
{
    struct kin__lab *s = kin__lab_of(e);
    size_t count = (size_t)(e->touch_at - e->touch_begin);

    if (!s->head.collects) {
        e->touch_at = e->touch_begin;
    } else if (count >= TOUCHES_MAX || !kin__room_grow(&s->touch_room, s->touch_room.bytes + 1)) {
        kin__lab_broke(s, count >= TOUCHES_MAX ? -E2BIG : -ENOMEM,
                       "a step touches more than there is room for");
        e->touch_at = e->touch_begin;
    } else {
        lay_touches(s, count);
    }
    *e->touch_at++ = touch;
}

uint32_t kin__lab_dice(struct kin__lab *s, uint32_t n)
{
    const struct kin__actor *actor = s->current == KIN__NOBODY ? NULL : &s->actors[s->current];
    uint64_t hash = kin__hash_u64(s->log.seed + KIN__RNG_STEP);

    kin__engine_draws(&s->head, "kin_lab_random");
    hash = kin__hash_u64(hash ^ (actor ? actor->hash : 0));
    hash = kin__hash_u64(hash + KIN__RNG_STEP * (actor ? actor->choices : s->log.choices));
    return n ? (uint32_t)((hash >> 32) * n >> 32) : (uint32_t)(hash >> 32);
}

uint64_t kin__choice_hash(enum kin__choice kind, uint32_t n, const char *label)
{
    uint64_t hash = (uint64_t)kind << 32 | n;

    for (; *label; label++)
        hash = (hash ^ (unsigned char)*label) * MIX;
    hash *= MIX;
    return hash | UINT64_C(1) << 48; /* 0 is no mark */
}

uint32_t kin__engine_choose(struct kin__engine *e, enum kin__choice kind, uint32_t n,
                            const char *label)
{
    struct kin__lab *s = kin__lab_of(e);

    KIN__CHECK(kind > KIN__CHOICE_TASK && kind <= KIN__CHOICE_RANDOM, "house: kinds of choices");
    if (s->head.is_over)
        return 0;
    uint64_t hash = kin__choice_hash(kind, n, label);
    s->mark = (uint16_t)(hash >> 48);
    uint32_t answer = KIN__UNLIKELY(s->is_swept) && kind == KIN__CHOICE_FAULT
                          ? kin__sweep_choose(s, n)
                          : s->plan->choose(s, kind, n, label);
    if (s->head.is_over)
        return 0;
    struct kin__decision decision = {n, answer, s->mark, (uint8_t)kind, false};
    if (!kin__log_add(&s->log, &decision, label))
        kin__lab_broke(s, -ENOMEM, "there is no memory for one more choice");
    mix_hash(&s->log, hash + answer);
    if (s->current != KIN__NOBODY)
        s->actors[s->current].choices++;
    return answer;
}

static void copy_text(char *to, size_t cap, const char *from)
{
    struct kin__text text;

    kin__text_init(&text, to, cap);
    kin__text_str(&text, from ? from : "");
}

void kin__engine_fail(struct kin__engine *e, const char *oracle, int status, const char *where,
                      const char *text)
{
    struct kin__lab *s = kin__lab_of(e);
    struct kin__engine_failure *failure = &s->run_failure;

    if (s->head.is_over)
        return;
    failure->oracle = oracle;
    failure->status = status;
    copy_text(failure->where, sizeof(failure->where), where);
    copy_text(failure->text, sizeof(failure->text), text);
    kin__lab_over(s);
}

/* ---- what can be asked ---- */

bool kin__engine_is_recorded(const struct kin__engine *e)
{
    return kin__lab_of_const(e)->is_recorded;
}

bool kin__engine_is_search(const struct kin__engine *e)
{
    return kin__lab_of_const(e)->plan == &kin__plan_tree;
}

uint64_t kin__engine_step(const struct kin__engine *e)
{
    return kin__lab_of_const(e)->log.steps;
}

const uint16_t *kin__engine_schedule(const struct kin__engine *e, size_t *count)
{
    const struct kin__lab *s = kin__lab_of_const(e);

    *count = s->log.steps;
    return s->schedule;
}

const char *kin__engine_path(const struct kin__engine *e, unsigned actor)
{
    const struct kin__lab *s = kin__lab_of_const(e);

    return actor < s->actor_count ? kin__path_text(s, s->actors[actor].name) : "?";
}

const char *kin__engine_notes(const struct kin__engine *e)
{
    const struct kin__lab *s = kin__lab_of_const(e);

    return s->notes_room.base ? s->notes_room.base : "";
}
