/* SPDX-License-Identifier: MIT */
/*
 * Shrinking: smaller runs are tried until none of them fails in the same way.
 *
 *     FAULTS   all, then halves, then quarters of the faults are left out
 *     COARSE   in windows of blocks, from all down to three, everybody's steps are put together
 *     FINE     single blocks are dropped, merged with others of the same actor, swapped, shortened
 *     ZERO     all, then halves, then quarters of the other answers become 0
 *     LESS     single answers go half way, or one down
 *     SEARCH   all runs with fewer preemptions, if the run is short and these are not too many
 *
 * The stages are gone through again as long as something became smaller. A try is a script that a
 * lenient run follows; what counts is the run that came of it, not the script: when it fails by the
 * same oracle at the same place and is smaller, its log is the new base. Smaller is: fewer faults,
 * else fewer switches, else fewer steps, else smaller answers. So every accepted try is a step down
 * in an order that has an end.
 */
#include "lab/shrink.h"

#include "base/assert.h"
#include "lab/state.h"

#include <errno.h>
#include <string.h>

#define RUNS_MAX 20000u
#define STEPS_MAX UINT64_C(8000000) /* about a second in a world of some weight */
#define WALL_NS INT64_C(3000000000) /* where everything is slow */
#define HANG_WALL_NS INT64_C(10000000000) /* where each run that fails lasts a while */
#define SEARCH_RUNS_MAX 1000u
#define SEARCH_STEPS_MAX 300u /* of the run that is to become smaller */
#define SMALL_ANSWER 8u       /* from here on an answer goes down one by one */
enum { DROP, MERGE_UP, MERGE_DOWN, SWAP, HALVE, BEHEAD, CURTAIL, CUT_OFF, BLOCK_WAYS };
enum { TO_HALF, TO_LESS, ANSWER_WAYS };

static struct kin__pledge *pledges_of(const struct kin__script *script)
{
    return script->pledges.base;
}

static uint32_t *picks_of(const struct kin__script *script)
{
    return script->picks.base;
}

static struct kin__block *block_at(const struct kin__shrink *shrink, size_t i)
{
    return (struct kin__block *)shrink->blocks.base + i;
}

void kin__shrink_release(struct kin__shrink *shrink)
{
    kin__script_release(&shrink->base);
    kin__script_release(&shrink->tried);
    kin__room_release(&shrink->blocks);
}

/* ---- how small a run is ---- */

static struct kin__size measure(const struct kin__log *log)
{
    struct kin__size size = {0, kin__log_switches(log), log->steps, 0, 0};

    for (size_t i = 0; i < log->count; i++) {
        const struct kin__decision *decision = kin__log_at(log, i);
        if (decision->kind == KIN__CHOICE_TASK)
            continue;
        if (decision->answer && decision->kind == KIN__CHOICE_FAULT)
            size.faults++;
        else if (decision->answer)
            size.others++;
        size.sum += decision->answer;
    }
    return size;
}

static bool is_smaller(const struct kin__size *a, const struct kin__size *b)
{
    if (a->faults != b->faults)
        return a->faults < b->faults;
    if (a->switches != b->switches)
        return a->switches < b->switches;
    if (a->steps != b->steps)
        return a->steps < b->steps;
    return a->sum < b->sum;
}

/* ---- the base ---- */

/* How many answers the stage could make 0. */
static uint64_t candidates(const struct kin__shrink *shrink)
{
    return shrink->stage == KIN__SHRINK_FAULTS ? shrink->size.faults : shrink->size.others;
}

static bool read_blocks(struct kin__shrink *shrink)
{
    const uint32_t *picks = picks_of(&shrink->base);

    shrink->block_count = 0;
    if (!kin__room_fits(&shrink->blocks, shrink->base.pick_count + 1, sizeof(struct kin__block)))
        return false;
    for (size_t i = 0; i < shrink->base.pick_count; i++) {
        if (i == 0 || picks[i] != picks[i - 1])
            *block_at(shrink, shrink->block_count++) =
                (struct kin__block){picks[i], (uint32_t)i, 0};
        block_at(shrink, shrink->block_count - 1)->count++;
    }
    return true;
}

/* The kept run is what tries start from. */
static bool read_base(struct kin__lab *s)
{
    struct kin__shrink *shrink = &s->shrink;

    shrink->size = measure(&s->kept);
    if (kin__script_read(&shrink->base, &s->kept) && read_blocks(shrink) &&
        kin__room_fits(&shrink->tried.picks, shrink->base.pick_count, sizeof(uint32_t)) &&
        kin__room_fits(&shrink->tried.pledges, shrink->base.pledge_count,
                       sizeof(struct kin__pledge)))
        return true;
    s->broken = -ENOMEM; /* the failure stands as it was found */
    s->phase = KIN__PHASE_DONE;
    return false;
}

static void enter(struct kin__lab *s, enum kin__shrink_stage stage)
{
    struct kin__shrink *shrink = &s->shrink;

    shrink->stage = stage;
    shrink->at = 0;
    shrink->way = 0;
    shrink->chunk = stage == KIN__SHRINK_COARSE ? shrink->block_count : (size_t)candidates(shrink);
    shrink->has_passed = false;
    if (stage == KIN__SHRINK_SEARCH)
        kin__tree_start(&s->tree, true, s->kept_preemptions);
}

void kin__shrink_start(struct kin__lab *s)
{
    s->shrink.runs_left = RUNS_MAX;
    s->shrink.steps_left = STEPS_MAX;
    s->shrink.search_left = SEARCH_RUNS_MAX;
    s->shrink.wall_end = kin__lab_wall() +
                         (strcmp(s->kept_failure.oracle, "hang") == 0 ? HANG_WALL_NS : WALL_NS);
    s->shrink.has_shrunk = false;
    if (read_base(s))
        enter(s, KIN__SHRINK_FAULTS);
}

/* ---- tries ---- */

/* The try begins as a copy of the base's choices, without steps. */
static void copy_pledges(struct kin__shrink *shrink)
{
    shrink->tried.pledge_count = shrink->base.pledge_count;
    if (shrink->base.pledge_count)
        memcpy(shrink->tried.pledges.base, shrink->base.pledges.base,
               shrink->base.pledge_count * sizeof(struct kin__pledge));
    shrink->tried.pick_count = 0;
}

/* Appends steps of the base. A try has room for as many as the base has. */
static void append(struct kin__shrink *shrink, size_t begin, size_t count)
{
    KIN__ASSERT(shrink->tried.pick_count + count <= shrink->base.pick_count, "house");
    memcpy(picks_of(&shrink->tried) + shrink->tried.pick_count, picks_of(&shrink->base) + begin,
           count * sizeof(uint32_t));
    shrink->tried.pick_count += count;
}

static void append_blocks(struct kin__shrink *shrink, size_t from, size_t to)
{
    if (from < to)
        append(shrink, block_at(shrink, from)->begin,
               block_at(shrink, to - 1)->begin + block_at(shrink, to - 1)->count -
                   block_at(shrink, from)->begin);
}

/* Makes those answers 0 which are number at to at + chunk among the faults, or among the others. */
static bool try_zeros(struct kin__shrink *shrink)
{
    const bool are_faults = shrink->stage == KIN__SHRINK_FAULTS;
    size_t nth = 0;

    if (shrink->at >= candidates(shrink)) {
        shrink->at = 0;
        shrink->chunk /= 2;
    }
    if (shrink->chunk == 0 || candidates(shrink) == 0)
        return false;
    copy_pledges(shrink);
    append(shrink, 0, shrink->base.pick_count);
    for (size_t i = 0; i < shrink->tried.pledge_count; i++) {
        struct kin__pledge *pledge = &pledges_of(&shrink->tried)[i];
        if ((pledge->kind == KIN__CHOICE_FAULT) != are_faults || !pledge->answer)
            continue;
        if (nth >= shrink->at && nth < shrink->at + shrink->chunk)
            pledge->answer = 0;
        nth++;
    }
    return true;
}

/* Whether a block of this name is among those from begin to end. */
static bool has_name(const struct kin__shrink *shrink, uint32_t name, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++)
        if (block_at(shrink, i)->name == name)
            return true;
    return false;
}

/* Puts the blocks of each actor in the window together, where its first one is or its last. */
static void group(struct kin__shrink *shrink, size_t begin, size_t end, bool at_last)
{
    for (size_t i = begin; i < end; i++) {
        const uint32_t name = block_at(shrink, i)->name;
        if (at_last ? has_name(shrink, name, i + 1, end) : has_name(shrink, name, begin, i))
            continue;
        for (size_t k = begin; k < end; k++)
            if (block_at(shrink, k)->name == name)
                append_blocks(shrink, k, k + 1);
    }
}

static bool try_window(struct kin__shrink *shrink)
{
    if (shrink->at > 0 && shrink->at + 2 >= shrink->block_count) {
        shrink->at = 0;
        shrink->chunk /= 2;
    }
    if (shrink->chunk < 3 || shrink->block_count < 3)
        return false;
    size_t end = shrink->at + shrink->chunk;
    end = end < shrink->block_count ? end : shrink->block_count;
    copy_pledges(shrink);
    append_blocks(shrink, 0, shrink->at);
    group(shrink, shrink->at, end, shrink->way == 1);
    append_blocks(shrink, end, shrink->block_count);
    return true;
}

/* The nearest block of the same actor before block i, or after it; i: none. */
static size_t partner(const struct kin__shrink *shrink, size_t i, bool is_after)
{
    const uint32_t name = block_at(shrink, i)->name;

    if (is_after) {
        for (size_t k = i + 1; k < shrink->block_count; k++)
            if (block_at(shrink, k)->name == name)
                return k;
    } else {
        for (size_t k = i; k-- > 0;)
            if (block_at(shrink, k)->name == name)
                return k;
    }
    return i;
}

/* Changes block i in one way. False: that way makes no sense for it. */
static bool change_block(struct kin__shrink *shrink, size_t i, unsigned way)
{
    const struct kin__block *block = block_at(shrink, i);
    const size_t count = shrink->block_count;
    const size_t before = partner(shrink, i, false), after = partner(shrink, i, true);

    copy_pledges(shrink);
    switch (way) {
    case DROP:
        append_blocks(shrink, 0, i);
        append_blocks(shrink, i + 1, count);
        return true;
    case MERGE_UP:
        if (before == i)
            return false;
        append_blocks(shrink, 0, before + 1);
        append_blocks(shrink, i, i + 1);
        append_blocks(shrink, before + 1, i);
        append_blocks(shrink, i + 1, count);
        return true;
    case MERGE_DOWN:
        if (after == i)
            return false;
        append_blocks(shrink, 0, i);
        append_blocks(shrink, i + 1, after);
        append_blocks(shrink, i, i + 1);
        append_blocks(shrink, after, count);
        return true;
    case SWAP:
        if (i + 1 == count)
            return false;
        append_blocks(shrink, 0, i);
        append_blocks(shrink, i + 1, i + 2);
        append_blocks(shrink, i, i + 1);
        append_blocks(shrink, i + 2, count);
        return true;
    case CUT_OFF:
        append_blocks(shrink, 0, i + 1);
        return i + 1 < count;
    default:
        break;
    }
    const size_t drop = way == HALVE ? block->count / 2 : 1;
    append_blocks(shrink, 0, i);
    append(shrink, block->begin + (way == BEHEAD ? drop : 0), block->count - drop);
    append_blocks(shrink, i + 1, count);
    return block->count > 1;
}

static bool try_block(struct kin__shrink *shrink)
{
    /* Ends: the place moves on, and a pass without success is the last one. */
    for (;;) {
        if (shrink->at >= shrink->block_count) {
            if (!shrink->has_passed)
                return false;
            shrink->has_passed = false;
            shrink->at = 0;
            shrink->way = 0;
            continue;
        }
        if (change_block(shrink, shrink->at, shrink->way))
            return true;
        if (++shrink->way == BLOCK_WAYS) {
            shrink->way = 0;
            shrink->at++;
        }
    }
}

static uint32_t less(uint32_t answer, unsigned way, bool is_fault)
{
    const uint32_t least = is_fault; /* that there is a fault is not for this stage to change */

    if (way == TO_HALF)
        return answer / 2 > least ? answer / 2 : least;
    return answer > least && answer <= SMALL_ANSWER ? answer - 1 : answer;
}

static bool try_less(struct kin__shrink *shrink)
{
    for (; shrink->at < shrink->base.pledge_count; shrink->at++, shrink->way = 0) {
        const struct kin__pledge *pledge = &pledges_of(&shrink->base)[shrink->at];
        for (; shrink->way < ANSWER_WAYS; shrink->way++) {
            uint32_t answer = less(pledge->answer, shrink->way, pledge->kind == KIN__CHOICE_FAULT);
            if (answer >= pledge->answer)
                continue;
            copy_pledges(shrink);
            append(shrink, 0, shrink->base.pick_count);
            pledges_of(&shrink->tried)[shrink->at].answer = answer;
            return true;
        }
    }
    return false;
}

/* A run that becomes much longer than the base is of no use, and may be one that does not end. */
static void limit_steps(struct kin__lab *s)
{
    const uint64_t most = 4 * s->shrink.size.steps + 1000;

    if (most < s->steps_max && strcmp(s->kept_failure.oracle, "livelock") != 0)
        s->steps_max = most;
}

/* A run with fewer preemptions, whatever it is. */
static bool try_search(struct kin__lab *s)
{
    struct kin__shrink *shrink = &s->shrink;

    if (s->kept_preemptions == 0 || shrink->search_left == 0 ||
        shrink->size.steps > SEARCH_STEPS_MAX || !kin__tree_next(s))
        return false;
    shrink->search_left--;
    kin__lab_start(s, &kin__plan_tree, s->kept.seed);
    limit_steps(s);
    return true;
}

/* ---- one after the other ---- */

static bool is_spent(const struct kin__lab *s)
{
    const struct kin__shrink *shrink = &s->shrink;

    if (shrink->runs_left == 0 || shrink->steps_left == 0 || kin__lab_is_asked_to_stop(s))
        return true;
    return (s->is_adopted || (shrink->runs_left & 15) == 0) && kin__lab_wall() >= shrink->wall_end;
}

/* The next try of the stage. False: it has none left. */
static bool start_try(struct kin__lab *s)
{
    struct kin__shrink *shrink = &s->shrink;
    bool has_try = false;

    switch (shrink->stage) {
    case KIN__SHRINK_FAULTS:
    case KIN__SHRINK_ZERO:
        has_try = try_zeros(shrink);
        break;
    case KIN__SHRINK_COARSE:
        has_try = try_window(shrink);
        break;
    case KIN__SHRINK_FINE:
        has_try = try_block(shrink);
        break;
    case KIN__SHRINK_LESS:
        has_try = try_less(shrink);
        break;
    case KIN__SHRINK_SEARCH:
        return try_search(s);
    case KIN__SHRINK_END:
        break;
    }
    if (!has_try)
        return false;
    s->follow.script = &shrink->tried;
    s->follow.by_turns = false;
    kin__lab_start(s, &kin__plan_lenient, s->kept.seed);
    limit_steps(s);
    return true;
}

bool kin__shrink_next(struct kin__lab *s)
{
    struct kin__shrink *shrink = &s->shrink;

    while (s->phase == KIN__PHASE_SHRINK && shrink->stage != KIN__SHRINK_END && !is_spent(s)) {
        if (start_try(s))
            return true;
        if (shrink->stage == KIN__SHRINK_LESS && shrink->has_shrunk) {
            shrink->has_shrunk = false;
            enter(s, KIN__SHRINK_FAULTS);
        } else {
            enter(s, (enum kin__shrink_stage)(shrink->stage + 1));
        }
    }
    s->result.is_cut = s->phase == KIN__PHASE_SHRINK && shrink->stage != KIN__SHRINK_END;
    return false;
}

/* Moves on to the next try of the stage after one that was of no use. */
static void move_on(struct kin__shrink *shrink)
{
    switch (shrink->stage) {
    case KIN__SHRINK_FAULTS:
    case KIN__SHRINK_ZERO:
        shrink->at += shrink->chunk;
        break;
    case KIN__SHRINK_COARSE:
        if (shrink->way++ == 0)
            break;
        shrink->way = 0;
        shrink->at += (shrink->chunk + 1) / 2;
        break;
    case KIN__SHRINK_FINE:
        if (++shrink->way < BLOCK_WAYS)
            break;
        shrink->way = 0;
        shrink->at++;
        break;
    case KIN__SHRINK_LESS:
        shrink->way++; /* the last way is followed by the next choice */
        break;
    case KIN__SHRINK_SEARCH:
    case KIN__SHRINK_END:
        break;
    }
}

/* The run is the new base; the stage goes on where it is. */
static void accept(struct kin__lab *s)
{
    struct kin__shrink *shrink = &s->shrink;
    struct kin__log other = s->kept;

    s->kept_preemptions = kin__lab_preemptions(s);
    s->kept = s->log;
    s->log = other;
    s->kept_failure = s->run_failure;
    shrink->has_shrunk = shrink->has_passed = true;
    if (!read_base(s))
        return;
    if (shrink->stage != KIN__SHRINK_COARSE && shrink->chunk > candidates(shrink))
        shrink->chunk = (size_t)candidates(shrink);
    if (shrink->stage == KIN__SHRINK_COARSE && shrink->chunk > shrink->block_count)
        shrink->chunk = shrink->block_count;
    if (shrink->stage == KIN__SHRINK_FINE && shrink->at > 0)
        shrink->at--;
    if (shrink->stage == KIN__SHRINK_FINE)
        shrink->way = 0;
    if (shrink->stage == KIN__SHRINK_SEARCH)
        enter(s, KIN__SHRINK_FAULTS); /* whatever was found is made small as the first was */
}

void kin__shrink_learn(struct kin__lab *s)
{
    struct kin__shrink *shrink = &s->shrink;
    const struct kin__size size = measure(&s->log);
    const struct kin__engine_failure *now = &s->run_failure, *kept = &s->kept_failure;

    s->result.shrink_runs++;
    shrink->runs_left--;
    shrink->steps_left -= s->log.steps < shrink->steps_left ? s->log.steps : shrink->steps_left;
    if (s->broken)
        return;
    if (s->has_diverged)
        shrink->search_left = 0; /* what is searched is no tree */
    if (!s->is_abandoned && !s->has_diverged && now->oracle &&
        strcmp(now->oracle, kept->oracle) == 0 && strcmp(now->where, kept->where) == 0 &&
        is_smaller(&size, &shrink->size))
        accept(s);
    else
        move_on(shrink);
}
