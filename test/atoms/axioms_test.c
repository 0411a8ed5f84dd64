/* SPDX-License-Identifier: MIT */
/*
 * Goal: each kind of memory allows exactly what its axioms allow.
 * Method: the classic litmus tests with every combination of orders, and with fences and
 * read-modify-writes put in by dice. A program's outcomes are computed a second time without
 * running anything: every way in which its loads may see its stores, and every order of the stores
 * to one place, is held against the axioms. The two sets must be equal.
 *
 *     rf   a store, and a load that sees it             hb   happens before
 *     mo   stores to one place, in their order          eco  rf, mo, rb, one after the other
 *     rb   a load, and the stores behind what it saw
 *
 *     SC    program order, rf, mo and rb have no cycle
 *     TSO   the same, but a store may be overtaken by loads behind it, until a fence or a
 *           read-modify-write; and for each place alone as SC
 *     C11   that of C++20, with two limits: no load sees what comes later, and the one total order
 *           of sequentially consistent accesses is that of the execution
 */
#include "kin_test.h"

#include "base/rng.h"
#include "words.h"

#include <stdio.h>
#include <string.h>

#define THREADS 4u
#define OPS 4u       /* of one thread */
#define PLACES 2u
#define EVENTS (PLACES + 10u) /* the initial stores come first */

enum kind { NOTHING, LOAD, STORE, ADD, CAS, FENCE };

struct op {
    enum kind kind;
    unsigned place;
    uint32_t value;
    int order, failed; /* failed: of a compare-exchange that finds something else than 0 */
};

static struct op program[THREADS][OPS];
static struct kin_atoms_report report;

/* ---- sets of outcomes ---- */

/* Five bits for each value that was seen and for what is left in the end. */
#define OUTCOMES_MAX 4096u
struct outcomes {
    uint64_t all[OUTCOMES_MAX];
    unsigned count;
};
static struct outcomes allowed, found;

static void add_outcome(struct outcomes *to, const uint32_t *seen, unsigned count,
                        const uint32_t *left)
{
    uint64_t outcome = 0;
    for (unsigned i = 0; i < count; i++)
        outcome = outcome << 5 | (seen[i] & 31);
    for (unsigned i = 0; i < PLACES; i++)
        outcome = outcome << 5 | (left[i] & 31);
    for (unsigned i = 0; i < to->count; i++) {
        if (to->all[i] == outcome)
            return;
    }
    EXPECT_LT(to->count, OUTCOMES_MAX);
    to->all[to->count++] = outcome;
}

static bool has(const struct outcomes *in, uint64_t outcome)
{
    for (unsigned i = 0; i < in->count; i++) {
        if (in->all[i] == outcome)
            return true;
    }
    return false;
}

/* ---- one way in which a program may have gone ---- */

struct event {
    struct op op;
    unsigned thread; /* THREADS: an initial store */
    unsigned from;   /* whose store a read sees */
    uint32_t seen, written;
    bool reads, writes;
    int order; /* that counts */
};

static struct event events[EVENTS];
static unsigned event_count;
static unsigned line[PLACES][EVENTS], line_length[PLACES]; /* mo */

/* A relation: bit b of the row of a says that it goes from a to b. */
struct relation {
    uint32_t of[EVENTS];
};

static bool relates(const struct relation *r, unsigned a, unsigned b)
{
    return r->of[a] >> b & 1;
}

static void relate(struct relation *r, unsigned a, unsigned b)
{
    r->of[a] |= UINT32_C(1) << b;
}

/* Whatever is reached by several steps is reached by one. */
static void close_over(struct relation *r)
{
    for (unsigned k = 0; k < event_count; k++) {
        for (unsigned a = 0; a < event_count; a++)
            r->of[a] |= relates(r, a, k) ? r->of[k] : 0;
    }
}

static bool has_cycle(struct relation r)
{
    close_over(&r);
    for (unsigned a = 0; a < event_count; a++) {
        if (relates(&r, a, a))
            return true;
    }
    return false;
}

static struct relation joined(const struct relation *a, const struct relation *b)
{
    struct relation both = *a;
    for (unsigned i = 0; i < event_count; i++)
        both.of[i] |= b->of[i];
    return both;
}

static bool is_before(unsigned a, unsigned b) /* in program order; initial stores come first */
{
    return a < b && (events[a].thread == THREADS ? events[b].thread != THREADS
                                                 : events[a].thread == events[b].thread);
}

static struct relation program_order(bool (*is_kept)(unsigned a, unsigned b))
{
    struct relation r = {{0}};
    for (unsigned a = 0; a < event_count; a++) {
        for (unsigned b = a + 1; b < event_count; b++) {
            if (is_before(a, b) && (!is_kept || is_kept(a, b)))
                relate(&r, a, b);
        }
    }
    return r;
}

static struct relation reads_from(bool is_own_kept)
{
    struct relation r = {{0}};
    for (unsigned b = 0; b < event_count; b++) {
        if (events[b].reads && (is_own_kept || events[events[b].from].thread != events[b].thread))
            relate(&r, events[b].from, b);
    }
    return r;
}

/* mo and rb. */
static struct relation overwrites(void)
{
    struct relation r = {{0}};
    for (unsigned place = 0; place < PLACES; place++) {
        for (unsigned i = 0; i < line_length[place]; i++) {
            for (unsigned k = i + 1; k < line_length[place]; k++)
                relate(&r, line[place][i], line[place][k]);
        }
    }
    for (unsigned b = 0; b < event_count; b++)
        r.of[b] |= events[b].reads ? r.of[events[b].from] & ~(UINT32_C(1) << b) : 0;
    return r;
}

/* Nothing is between a read-modify-write and what it read. */
static bool is_atomic(void)
{
    for (unsigned place = 0; place < PLACES; place++) {
        for (unsigned i = 1; i < line_length[place]; i++) {
            const struct event *event = &events[line[place][i]];
            if (event->reads && event->from != line[place][i - 1])
                return false;
        }
    }
    return true;
}

/* ---- the axioms ---- */

static bool is_sc(void)
{
    struct relation po = program_order(NULL), rf = reads_from(true), mo = overwrites();
    struct relation all = joined(&po, &rf);
    return !has_cycle(joined(&all, &mo));
}

static bool is_of_one_place(unsigned a, unsigned b)
{
    return events[a].op.kind != FENCE && events[b].op.kind != FENCE &&
           events[a].op.place == events[b].op.place;
}

/* Whether the buffer of its thread is empty behind it. */
static bool drains(const struct event *event)
{
    return event->op.kind == ADD || event->op.kind == CAS ||
           (event->op.kind != LOAD && event->op.order == SEQ);
}

/* Whether a store comes to memory before what its thread does later. */
static bool is_kept_by_buffers(unsigned a, unsigned b)
{
    if (events[a].op.kind == FENCE || events[b].op.kind == FENCE)
        return false; /* they are seen below, by what is between */
    if (events[a].op.kind != STORE || events[b].op.kind != LOAD || events[a].thread == THREADS)
        return true;
    for (unsigned i = a; i <= b; i++) {
        if (drains(&events[i]))
            return true;
    }
    return false;
}

static bool is_tso(void)
{
    struct relation po = program_order(is_kept_by_buffers), one = program_order(is_of_one_place);
    struct relation rf = reads_from(true), rfe = reads_from(false), mo = overwrites();
    struct relation alone = joined(&one, &rf), all = joined(&po, &rfe);
    return !has_cycle(joined(&alone, &mo)) && !has_cycle(joined(&all, &mo));
}

static bool acquires(int order)
{
    return order == ACQUIRE || order == ACQ_REL || order == SEQ;
}

static bool releases(int order)
{
    return order == RELEASE || order == ACQ_REL || order == SEQ;
}

/* A release, by a store or by a fence in front of it, reaches whoever reads it by an acquire, or
 * has an acquire fence behind the read. */
static void synchronize(struct relation *hb, unsigned store, unsigned read)
{
    for (unsigned a = PLACES; a < event_count; a++) {
        bool gives = a == store ? releases(events[a].order)
                                : events[a].op.kind == FENCE && releases(events[a].order) &&
                                      is_before(a, store);
        for (unsigned b = PLACES; gives && b < event_count; b++) {
            bool takes = b == read ? acquires(events[b].order)
                                   : events[b].op.kind == FENCE && acquires(events[b].order) &&
                                         is_before(read, b);
            if (takes)
                relate(hb, a, b);
        }
    }
}

static struct relation happens_before(void)
{
    struct relation hb = program_order(NULL);
    for (unsigned b = PLACES; b < event_count; b++) {
        if (!events[b].reads)
            continue;
        unsigned store = events[b].from;
        synchronize(&hb, store, b);
        while (events[store].reads) { /* ends: nobody reads what comes later */
            store = events[store].from;
            synchronize(&hb, store, b);
        }
    }
    close_over(&hb);
    return hb;
}

static bool is_full_fence(unsigned a)
{
    return events[a].op.kind == FENCE && events[a].order == SEQ;
}

/* Which accesses of the total order come first: those that eco puts first, and the full fences in
 * front of the one and behind the other. */
static void order_totally(struct relation *total, const struct relation *hb, unsigned a, unsigned b)
{
    for (unsigned x = PLACES; x < event_count; x++) {
        if (!(x == a ? events[a].order == SEQ : is_full_fence(x) && relates(hb, x, a)))
            continue;
        for (unsigned y = PLACES; y < event_count; y++) {
            if (y == b ? events[b].order == SEQ : is_full_fence(y) && relates(hb, b, y))
                relate(total, x, y);
        }
    }
}

static bool is_c11(void)
{
    struct relation rf = reads_from(true), mo = overwrites(), hb = happens_before();
    struct relation eco = joined(&rf, &mo), order = joined(&hb, &rf);
    close_over(&eco);
    for (unsigned a = 0; a < event_count; a++) {
        for (unsigned b = 0; b < event_count; b++) {
            if (relates(&eco, a, b) && relates(&hb, b, a))
                return false;
            if (a != b && relates(&eco, a, b))
                order_totally(&order, &hb, a, b);
        }
    }
    return !has_cycle(order);
}

/* ---- all ways in which a program may go ---- */

static void make_events(void)
{
    memset(events, 0, sizeof(events));
    for (event_count = 0; event_count < PLACES; event_count++) {
        events[event_count].op = (struct op){STORE, event_count, 0, RELAXED, RELAXED};
        events[event_count].thread = THREADS;
        events[event_count].writes = true;
    }
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < OPS && program[t][i].kind != NOTHING; i++) {
            EXPECT_LT(event_count, EVENTS);
            events[event_count].op = program[t][i];
            events[event_count++].thread = t;
        }
    }
}

static bool may_read(const struct event *event)
{
    return event->op.kind == LOAD || event->op.kind == ADD || event->op.kind == CAS;
}

/* What everybody sees and writes, given who reads from whom; false: that cannot be. */
static bool find_values(void)
{
    uint32_t known = (UINT32_C(1) << PLACES) - 1; /* the initial ones */
    for (unsigned round = 0; round < event_count; round++) {
        for (unsigned e = PLACES; e < event_count; e++) {
            struct event *event = &events[e];
            bool is_next = events[e - 1].thread != event->thread || (known >> (e - 1) & 1);
            if ((known >> e & 1) || !is_next || (may_read(event) && !(known >> event->from & 1)))
                continue;
            if (may_read(event) && !events[event->from].writes)
                return false;
            event->reads = may_read(event);
            event->seen = event->reads ? events[event->from].written : 0;
            event->writes = event->op.kind == STORE || event->op.kind == ADD ||
                            (event->op.kind == CAS && event->seen == 0);
            event->written = event->op.value + (event->op.kind == ADD ? event->seen : 0);
            event->order = event->op.kind == CAS && !event->writes ? event->op.failed
                                                                   : event->op.order;
            known |= UINT32_C(1) << e;
        }
    }
    return known == (UINT32_C(1) << event_count) - 1;
}

/* The next order of the stores to a place; false: that was the last. The initial one stays. */
static bool permute(unsigned *of, unsigned count)
{
    unsigned i = count, k = count;
    while (i > 2 && of[i - 2] > of[i - 1])
        i--;
    if (i <= 2)
        return false;
    while (of[k - 1] < of[i - 2])
        k--;
    unsigned swapped = of[i - 2];
    of[i - 2] = of[k - 1];
    of[k - 1] = swapped;
    for (unsigned a = i - 1, b = count - 1; a < b; a++, b--) {
        swapped = of[a];
        of[a] = of[b];
        of[b] = swapped;
    }
    return true;
}

static void sort_line(unsigned place)
{
    line_length[place] = 0;
    for (unsigned e = 0; e < event_count; e++) {
        if (events[e].writes && events[e].op.place == place && events[e].op.kind != FENCE)
            line[place][line_length[place]++] = e;
    }
}

/* Every order of the stores, given who reads from whom. */
static void try_lines(bool (*is_allowed)(void))
{
    uint32_t seen[EVENTS], left[PLACES];
    sort_line(0);
    do { /* ends: there are finitely many */
        sort_line(1);
        do { /* ends: so */
            if (!is_atomic() || !is_allowed())
                continue;
            for (unsigned e = PLACES; e < event_count; e++)
                seen[e - PLACES] = events[e].seen;
            for (unsigned place = 0; place < PLACES; place++)
                left[place] = events[line[place][line_length[place] - 1]].written;
            add_outcome(&allowed, seen, event_count - PLACES, left);
        } while (permute(line[1], line_length[1]));
    } while (permute(line[0], line_length[0]));
}

/* The next store that a read may see; false: that was the last. */
static bool next_source(unsigned e)
{
    do { /* ends: there are so many events */
        if (++events[e].from == event_count)
            return false;
    } while (events[events[e].from].op.kind == FENCE || events[events[e].from].op.kind == LOAD ||
             events[events[e].from].op.place != events[e].op.place || events[e].from == e);
    return true;
}

static void first_source(unsigned e)
{
    events[e].from = events[e].op.place; /* the initial one */
}

static void allow(bool (*is_allowed)(void))
{
    unsigned e = 0;
    allowed.count = 0;
    for (unsigned i = 0; i < event_count; i++)
        first_source(i);
    while (e < event_count) { /* ends: as a number that is counted up */
        if (find_values())
            try_lines(is_allowed);
        for (e = PLACES; e < event_count; e++) {
            if (may_read(&events[e]) && next_source(e))
                break;
            first_source(e);
        }
    }
}

/* ---- the same by running it ---- */

static uint32_t places[PLACES], values[THREADS][OPS];

static void interpret(void *arg)
{
    unsigned self = kin_atoms_self() - 1;
    (void)arg;
    for (unsigned i = 0; i < OPS; i++) {
        const struct op *op = &program[self][i];
        uint32_t *place = &places[op->place], *value = &values[self][i];
        if (op->kind == LOAD)
            *value = load(place, op->order);
        else if (op->kind == STORE)
            store(place, op->value, op->order);
        else if (op->kind == ADD)
            *value = add(place, op->value, op->order);
        else if (op->kind == CAS)
            *value = __tsan_atomic32_compare_exchange_val(place, 0, op->value, op->order,
                                                          op->failed);
        else if (op->kind == FENCE)
            __tsan_atomic_thread_fence(op->order);
    }
}

static void begin(void *arg)
{
    static const char *const names[] = {"P0", "P1", "P2", "P3"};
    (void)arg;
    memset(places, 0, sizeof(places));
    memset(values, 0, sizeof(values));
    for (unsigned i = 0; i < THREADS && program[i][0].kind != NOTHING; i++)
        kin_atoms_spawn(names[i], interpret, NULL);
}

static void end(void *arg)
{
    uint32_t seen[EVENTS];
    unsigned count = 0;
    (void)arg;
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < OPS && program[t][i].kind != NOTHING; i++)
            seen[count++] = values[t][i];
    }
    add_outcome(&found, seen, count, places);
}

/* ---- both ---- */

static const char *const kinds[] = {"", "load", "store", "add", "cas", "fence"};
static const char *const orders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq"};

static void print_outcome(const char *what, uint64_t outcome)
{
    printf("    %s:", what);
    for (unsigned i = event_count; i-- > 0;)
        printf(" %llu", (unsigned long long)(outcome >> (5 * i) & 31));
    printf("\n");
}

/* For people, when the two are not equal. */
static void print_difference(const char *memory)
{
    printf("%s: %u outcomes, %u are allowed\n", memory, found.count, allowed.count);
    for (unsigned t = 0; t < THREADS; t++) {
        for (unsigned i = 0; i < OPS && program[t][i].kind != NOTHING; i++) {
            const struct op *op = &program[t][i];
            printf("    P%u %s %c %u %s %s\n", t, kinds[op->kind], "xy"[op->place], op->value,
                   orders[op->order], op->kind == CAS ? orders[op->failed] : "");
        }
    }
    for (unsigned i = 0; i < found.count; i++) {
        if (!has(&allowed, found.all[i]))
            print_outcome("not allowed", found.all[i]);
    }
    for (unsigned i = 0; i < allowed.count; i++) {
        if (!has(&found, allowed.all[i]))
            print_outcome("not found", allowed.all[i]);
    }
}

static void compare(void)
{
    static bool (*const axioms[])(void) = {is_sc, is_tso, is_c11};
    static const char *const names[] = {"SC", "TSO", "C11"};
    for (int memory = KIN_ATOMS_SC; memory <= KIN_ATOMS_C11; memory++) {
        struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
        config.memory = (enum kin_atoms_memory)memory;
        make_events();
        allow(axioms[memory]);
        found.count = 0;
        EXPECT_EQ(kin_atoms_run(&config, begin, end, NULL, &report), 0);
        EXPECT(report.exhausted);
        bool is_equal = found.count == allowed.count;
        for (unsigned i = 0; i < found.count; i++)
            is_equal = is_equal && has(&allowed, found.all[i]);
        if (!is_equal)
            print_difference(names[memory]);
        EXPECT(is_equal);
    }
}

/* ---- the programs ---- */

/* W and R of x and y; a space ends a thread. The first are small. */
#define SMALL 9u
static const char *const shapes[] = {
    "WxRy WyRx",           /* SB */
    "WxWy RyRx",           /* MP */
    "RyWx RxWy",           /* LB */
    "WxWy WyWx",           /* 2+2W */
    "WxWx RxRx",           /* CoRR */
    "WxRx WxRx",           /* CoWR */
    "RxWx RxWx",           /* CoRW */
    "WxWy WyRx",           /* R */
    "WxWy RyWx",           /* S */
    "Wx Wy RxRy RyRx",     /* IRIW */
    "Wx RxWy RyRx",        /* WRC */
    "Wx RxRy WyRx",        /* RWC */
    "WxWy RyWy RyRx",      /* ISA2, with one place for both flags */
    "WxWy RyRy WyRx",      /* Z6.U */
    "WxWy RyWy WyRx",      /* Z6 */
    "WxWy RyRx RyRx",      /* MP with two readers */
    "WxWyRx RyRxWy",       /* three accesses each, of no name */
    "WxRyWx WyRxWy",
    "WxWx RxRx RxRx",      /* CoRR with two readers */
    "Wx Wx RxRx RxRx",     /* CoRR2 */
};

static struct op op_of(const char *text, uint32_t value)
{
    return (struct op){text[0] == 'W' ? STORE : LOAD, text[1] == 'y', value, RELAXED, RELAXED};
}

/* Lays a shape out; how many accesses it has. */
static unsigned lay_out(const char *shape, struct op **accesses)
{
    unsigned thread = 0, count = 0, at = 0;
    memset(program, 0, sizeof(program));
    for (; *shape; shape++) {
        if (*shape == ' ') {
            thread++;
            at = 0;
            continue;
        }
        accesses[count] = &program[thread][at++];
        *accesses[count] = op_of(shape, count + 1);
        count++;
        shape++;
    }
    return count;
}

static int order_at(enum kind kind, unsigned which)
{
    static const int loads[] = {RELAXED, ACQUIRE, SEQ}, stores[] = {RELAXED, RELEASE, SEQ};
    return kind == LOAD ? loads[which] : stores[which];
}

KIN_TEST(every_order_of_the_small_tests_allows_what_it_should, "")
{
    struct op *accesses[EVENTS];
    for (unsigned shape = 0; shape < SMALL; shape++) {
        unsigned count = lay_out(shapes[shape], accesses);
        for (unsigned which = 0; which < 81; which++) {
            for (unsigned i = 0, rest = which; i < count; i++, rest /= 3)
                accesses[i]->order = order_at(accesses[i]->kind, rest % 3);
            compare();
        }
    }
}

/* Some accesses become read-modify-writes. */
static void roll_access(struct kin__rng *rng, struct op *op)
{
    static const int updates[] = {RELAXED, ACQUIRE, RELEASE, ACQ_REL, SEQ};
    static const int failures[] = {RELAXED, ACQUIRE, SEQ};
    op->order = order_at(op->kind, (unsigned)kin__rng_below(rng, 3));
    if (kin__rng_below(rng, 5) == 0) {
        op->kind = op->kind == LOAD ? CAS : ADD;
        op->order = updates[kin__rng_below(rng, 5)];
        op->failed = failures[kin__rng_below(rng, 3)];
    }
}

/* Some accesses have a fence behind them. */
static void roll_fences(struct kin__rng *rng)
{
    static const int fences[] = {ACQUIRE, RELEASE, ACQ_REL, SEQ, SEQ};
    unsigned left = 3;
    for (unsigned t = 0; t < THREADS; t++) {
        if (program[t][1].kind == NOTHING || !left || kin__rng_below(rng, 2))
            continue;
        memmove(&program[t][2], &program[t][1], 2 * sizeof(program[t][1]));
        program[t][1] = (struct op){FENCE, 0, 0, fences[kin__rng_below(rng, 5)], RELAXED};
        left--;
    }
}

KIN_TEST(whatever_dice_make_of_them_allows_what_it_should, "")
{
    struct op *accesses[EVENTS];
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned i = 0; i < 200; i++) {
        size_t shape = kin__rng_below(&rng, sizeof(shapes) / sizeof(shapes[0]));
        unsigned count = lay_out(shapes[shape], accesses);
        for (unsigned k = 0; k < count; k++)
            roll_access(&rng, accesses[k]);
        roll_fences(&rng);
        compare();
    }
}
