/* SPDX-License-Identifier: MIT */
/*
 * Names: src/otp/{registry,intern,party,note}.c as they are: taken by two, given up, looked for,
 * and lost by time and by the end of their holders, each against each.
 *
 * A name has one holder at a time; whoever has given it up, or has seen the end of its holder,
 * finds it free; a lease that runs out is told its holder once, and only if nobody gave it up; and
 * the memory of a lease goes back once, whoever ended it, so that a timer that comes late finds
 * another lease there and leaves it alone.
 */
#include "under.h"

#include "otp/registry.h"
#include "plat/plat.h"
#include "sched/blocks.h"
#include "scope/scope.h"

#include <kin/name.h>

#include <errno.h>
#include <string.h>

#define SOON ((int64_t)1 << 20)
#define LATER ((int64_t)1 << 22)
#define LEASES 3u /* frames of each worker */

enum { TOOK = 1, WAS_TAKEN, GAVE_UP, WAS_FREE, RAN_OUT, FOUND_IT, FOUND_ANOTHER, FOUND_NONE };

/* Somebody who may hold a name: a task that runs nowhere. */
struct person {
    struct kin__task *task;
    uint64_t id;
};

static struct person people[2];
static kin__a32 held; /* by whom, as those who took it say */
static int told;      /* of leases that ran out */
static unsigned threads;

/* ---- what is not there ---- */

uint64_t kin__plat_entropy(void)
{
    return UINT64_C(0x9e3779b97f4a7c15); /* the same names in the same places, always */
}

/* Parties lie where they always lie, as the directory says. */
void *kin__vm_reserve(size_t bytes)
{
    static char memory[1 << 20] __attribute__((aligned(64)));
    kin_atoms_assert(bytes <= sizeof(memory), "one chunk is enough");
    return memory;
}

/* The lane goes back as src/otp/watch.c does it. */
void kin__watches_end(struct kin__party *party, const struct kin_outcome *how)
{
    struct kin__note *note;
    (void)how;
    do { /* ends: one fewer each time */
        kin__party_take(party);
        note = kin__note_take_locked(party, NULL, 0);
        kin__party_unlock(party);
        if (note) {
            told++;
            note->done(note);
        }
    } while (note);
}

/* ---- people ---- */

static struct kin_addr addr_of(const struct person *person)
{
    return (struct kin_addr){0, person->id};
}

/* A task in a nursery of its own, known to others. */
static void make_person(struct person *person)
{
    struct kin_outcome how;
    int rc;
    struct kin__scope *scope = kin_atoms_alloc(sizeof(*scope));
    person->task = kin__task_of_frame(kin__block_take(KIN__FRAME_TASK));
    person->id = kin__task_id(person->task);
    kin__list_init(&scope->children);
    kin__store_relaxed(&scope->sched, under_sched()); /* alone: nobody runs yet */
    atomic_store_explicit(&scope->word, KIN__LIVE_ONE | KIN_NURSERY_OPEN, memory_order_relaxed);
    atomic_store_explicit(&person->task->scope, scope, memory_order_relaxed);
    person->task->over = 0;
    struct kin__party *party = kin__party_need(person->id, under_sched(), &rc, &how);
    kin_atoms_assert(party != NULL, "it is a party");
    kin__party_unlock(party);
}

/* What src/scope/ended.c does at the end of a task that others know. */
static void end_person(struct person *person)
{
    struct kin_outcome how = {KIN_SEV_OK, 0, 0, person->id, ""};
    /* relaxed: constant */
    struct kin__scope *scope = atomic_load_explicit(&person->task->scope, memory_order_relaxed);
    kin__lock_take(&scope->lock, KIN__RANK_NURSERY);
    person->task->over = 1 + KIN_SEV_OK;
    kin__lock_give(&scope->lock, KIN__RANK_NURSERY);
    kin__party_end(person->id, &how);
}

/* Nobody's memory is anybody's party when a run begins. */
static void forget_parties(void)
{
    struct kin__party *chunk = kin__vm_reserve(0);
    memset(chunk, 0, 16 * sizeof(*chunk));
}

static void start(unsigned count)
{
    under_begin();
    forget_parties();
    threads = count;
    held = 0;
    told = 0;
    under_set_now(1000);
    for (unsigned i = 0; i <= threads; i++) {
        under_frames(KIN__FRAME_LEASE, i, LEASES);
        kin_atoms_assert(kin__timer_source.init(under_worker(i)) == 0, "a wheel is made");
    }
    under_frames(KIN__FRAME_TASK, 0, 2);
    kin__self_set(under_worker(0));
    make_person(&people[0]);
    make_person(&people[1]);
    kin__self_set(NULL);
}

/* A name that was registered before by the n-th thread, for the first person. */
static void hold_before(unsigned registrar, int64_t ttl)
{
    kin__self_set(under_worker(0));
    int rc = kin__name_register("n", people[0].id, kin__task_id(under_task(registrar)), ttl, NULL);
    kin_atoms_assert(rc == 0, "it is free");
    kin__self_set(NULL);
}

/* ---- what may be done ---- */

static int take(const char *name, struct person *person, int64_t ttl)
{
    int rc = kin_register(name, addr_of(person), ttl);
    kin_atoms_assert(rc == 0 || rc == KIN_TAKEN || rc == KIN_NOPROC, "how taking a name ends");
    harness_outcome(rc == 0 ? TOOK : WAS_TAKEN);
    return rc;
}

static int give_up(const char *name)
{
    int rc = kin_unregister(name);
    kin_atoms_assert(rc == 0 || rc == KIN_NOPROC, "how giving a name up ends");
    harness_outcome(rc == 0 ? GAVE_UP : WAS_FREE);
    return rc;
}

/* Who has it: 0 nobody, 1 the first, 2 the second. */
static int look(const char *name)
{
    struct kin_addr found = {0, 0};
    int rc = kin_whereis(name, &found);
    kin_atoms_assert(rc == (found.id ? 0 : KIN_NOPROC), "how looking a name up ends");
    kin_atoms_assert(rc < 0 || found.id == people[0].id || found.id == people[1].id, "a person");
    int who = rc < 0 ? 0 : found.id == people[0].id ? 1 : 2;
    harness_outcome(who == 0 ? FOUND_NONE : who == 1 ? FOUND_IT : FOUND_ANOTHER);
    return who;
}

/* All are over: nothing is left of anybody. */
static void end_all(void)
{
    unsigned count = 0;
    kin__self_set(under_worker(0));
    for (int i = 0; i < 2; i++) {
        if (!people[i].task->over)
            end_person(&people[i]);
    }
    kin_atoms_assert(kin__names_count(under_sched()) == 0, "no name is left");
    for (unsigned i = 0; i <= threads; i++) {
        kin_atoms_assert(kin__timer_count(under_worker(i)) == 0, "no timer is left");
        count += under_worker(i)->blocks[KIN__FRAME_LEASE].count;
    }
    kin_atoms_assert(count == (threads + 1) * LEASES, "every lease has gone back, once");
    kin__names_close(under_sched());
    kin__self_set(NULL);
}

static void end(void *arg)
{
    (void)arg;
    end_all();
}

/* ---- two take one name, with no registry to begin with ---- */

static int rounds;

static void take_and_give(void *arg)
{
    struct person *person = arg;
    uint32_t me = 1 + (uint32_t)(person - people);
    for (int i = 0; i < rounds; i++) {
        if (take("n", person, 0) < 0)
            continue;
        kin_atoms_assert(atomic_exchange_explicit(&held, me, memory_order_relaxed) == 0,
                         "a name has one holder");
        atomic_store_explicit(&held, 0, memory_order_relaxed);
        kin_atoms_assert(kin_unregister("n") == 0, "it is the holder's to give up");
    }
}

static void begin_takers(void *arg)
{
    start(2);
    rounds = *(const int *)arg;
    under_spawn("taker 1", take_and_give, &people[0]);
    under_spawn("taker 2", take_and_give, &people[1]);
}

/* ---- given up by one, while the holder ends ---- */

/* Gives it up and gives it to another, twice. */
static void hand_over(void *arg)
{
    (void)arg;
    (void)give_up("n");
    kin_atoms_assert(take("n", &people[1], 0) == 0, "it is free by now");
    kin_atoms_assert(look("n") == 2, "and the other's");
    kin_atoms_assert(kin_unregister("n") == 0, "it is its registrar's to give up");
}

static void end_first(void *arg)
{
    (void)arg;
    end_person(&people[0]);
    kin_atoms_assert(look("n") != 1, "who is over has no name");
}

/* Beside two others it does nothing else. */
static void only_end_first(void *arg)
{
    (void)arg;
    end_person(&people[0]);
}

static void begin_hand_over(void *arg)
{
    (void)arg;
    start(2);
    under_spawn("registrar", hand_over, NULL);
    under_spawn("end", end_first, NULL);
    hold_before(0, 0);
}

/* ---- taken for one who ends ---- */

static void take_twice(void *arg)
{
    (void)arg;
    int first = take("n", &people[0], 0), second = take("m", &people[0], SOON);
    kin_atoms_assert(first == 0 || second < 0, "who is over stays over");
}

static void begin_take_and_end(void *arg)
{
    (void)arg;
    start(2);
    under_spawn("registrar", take_twice, NULL);
    under_spawn("end", end_first, NULL);
}

/* ---- looked for meanwhile ---- */

static void look_twice(void *arg)
{
    (void)arg;
    int first = look("n"), second = look("n");
    kin_atoms_assert(!(first != 1 && second == 1), "it does not come back");
}

static void give_to_second(void *arg)
{
    (void)arg;
    (void)give_up("n");
    kin_atoms_assert(take("n", &people[1], 0) == 0, "it is free by now");
}

static void begin_look(void *arg)
{
    start(arg ? 3 : 2);
    under_spawn("registrar", give_to_second, NULL);
    under_spawn("looker", look_twice, NULL);
    if (arg)
        under_spawn("end", only_end_first, NULL);
    hold_before(0, 0);
}

/* ---- time ---- */

/* What a worker does whose wheel has the lease. */
static void pass_time(void *arg)
{
    (void)arg;
    under_set_now(LATER);
    (void)kin__timer_source.poll(under_worker(0), LATER);
    (void)kin__timer_source.poll(under_worker(0), LATER);
}

static int given_up;

/* Gives it up, and has other names in its memory at once. */
static void give_up_and_take(void *arg)
{
    (void)arg;
    given_up = give_up("n") == 0;
    kin_atoms_assert(take("m", &people[1], 2 * LATER) == 0, "it is free");
    kin_atoms_assert(look("m") == 2, "and taken then");
}

static void begin_expire_and_give_up(void *arg)
{
    (void)arg;
    start(2);
    given_up = 0;
    under_spawn("registrar", give_up_and_take, NULL);
    under_spawn("clock", pass_time, NULL);
    hold_before(0, SOON);
}

static void end_given_up(void *arg)
{
    (void)arg;
    kin__self_set(under_worker(0));
    under_worker(0)->current = under_task(0);
    kin_atoms_assert(look("n") == 0, "its time is over");
    kin_atoms_assert(look("m") == 2, "a late timer leaves others alone");
    end_all();
    kin_atoms_assert(told == !given_up, "given up or told, and once");
}

/* The holder ends. */
static void begin_expire_and_end(void *arg)
{
    (void)arg;
    start(2);
    under_spawn("end", end_first, NULL);
    under_spawn("clock", pass_time, NULL);
    hold_before(0, SOON);
}

static int renewed;

static void renew_twice(void *arg)
{
    (void)arg;
    for (int i = 0; i < 2; i++) {
        int rc = kin_lease_renew("n", (i + 1) * 2 * LATER);
        kin_atoms_assert(rc == 0 || rc == KIN_NOPROC, "how a renewal ends");
        kin_atoms_assert(rc < 0 || i == renewed, "what has run out is not renewed");
        harness_outcome(rc == 0 ? TOOK : RAN_OUT);
        renewed += rc == 0;
    }
}

static void begin_expire_and_renew(void *arg)
{
    (void)arg;
    start(2);
    renewed = 0;
    under_spawn("registrar", renew_twice, NULL);
    under_spawn("clock", pass_time, NULL);
    hold_before(0, SOON);
}

static void end_renewed(void *arg)
{
    (void)arg;
    kin__self_set(under_worker(0));
    under_worker(0)->current = under_task(0);
    kin_atoms_assert(look("n") == (renewed == 2 ? 1 : 0), "renewed and there, or lost");
    end_all();
    kin_atoms_assert(told == (renewed != 2), "lost and told, or neither");
}

/* Its time is over, and nobody has noticed: whoever wants the name gets it. */
static void take_what_is_over(void *arg)
{
    (void)arg;
    kin_atoms_assert(take("n", &people[1], 0) == 0, "it is free");
}

static void poll_once(void *arg)
{
    (void)arg;
    (void)kin__timer_source.poll(under_worker(0), LATER);
}

static void begin_expire_and_take(void *arg)
{
    start(arg ? 3 : 2);
    under_spawn("taker", take_what_is_over, NULL);
    under_spawn("clock", poll_once, NULL);
    if (arg)
        under_spawn("end", end_first, NULL);
    hold_before(0, SOON);
    under_set_now(LATER);
}

static void end_taken(void *arg)
{
    kin__self_set(under_worker(0));
    under_worker(0)->current = under_task(0);
    kin_atoms_assert(look("n") == 2, "it is the taker's");
    end_all();
    kin_atoms_assert(arg ? told <= 1 : told == 1, "told once");
}

static int one = 1, two = 2;

const struct harness harnesses[] = {
    {.name = "registry_two_takers_once", .begin = begin_takers, .end = end, .arg = &one},
    {.name = "registry_two_takers_once_c11", .begin = begin_takers, .end = end, .arg = &one,
     .memory = KIN_ATOMS_C11},
    {.name = "registry_unregister_and_end", .begin = begin_hand_over, .end = end},
    {.name = "registry_unregister_and_end_c11", .begin = begin_hand_over, .end = end,
     .memory = KIN_ATOMS_C11, .is_deep = true},
    {.name = "registry_take_and_end", .begin = begin_take_and_end, .end = end},
    {.name = "registry_take_and_end_c11", .begin = begin_take_and_end, .end = end,
     .memory = KIN_ATOMS_C11},
    {.name = "registry_look_and_change", .begin = begin_look, .end = end},
    {.name = "registry_look_and_change_c11", .begin = begin_look, .end = end,
     .memory = KIN_ATOMS_C11},
    {.name = "registry_expire_and_unregister", .begin = begin_expire_and_give_up,
     .end = end_given_up},
    {.name = "registry_expire_and_unregister_c11", .begin = begin_expire_and_give_up,
     .end = end_given_up, .memory = KIN_ATOMS_C11},
    {.name = "registry_expire_and_end", .begin = begin_expire_and_end, .end = end},
    {.name = "registry_expire_and_end_c11", .begin = begin_expire_and_end, .end = end,
     .memory = KIN_ATOMS_C11},
    {.name = "registry_expire_and_renew", .begin = begin_expire_and_renew, .end = end_renewed},
    {.name = "registry_expire_and_renew_c11", .begin = begin_expire_and_renew, .end = end_renewed,
     .memory = KIN_ATOMS_C11},
    {.name = "registry_expire_and_take", .begin = begin_expire_and_take, .end = end_taken},
    {.name = "registry_expire_and_take_c11", .begin = begin_expire_and_take, .end = end_taken,
     .memory = KIN_ATOMS_C11},
    {.name = "registry_look_and_change_and_end", .begin = begin_look, .end = end, .arg = &one},
    {.name = "registry_two_takers", .begin = begin_takers, .end = end, .arg = &two},
    {.name = "registry_expire_and_take_and_end", .begin = begin_expire_and_take, .end = end_taken,
     .arg = &one, .preemptions = 3},
    {0},
};
