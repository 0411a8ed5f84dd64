/* SPDX-License-Identifier: MIT */
/*
 * Signs that a queue's history makes no sense, which are seen without a search for an order.
 *
 *     receive of v      the k-th that returned needs k sends of v that began before
 *     send              more sends have returned than fit, even if every receive that had begun
 *                       has taken its item
 *     FULL              so many sends had not begun, or so many receives had returned, that there
 *                       was room all the time
 *     order, EMPTY      an item whose value is sent once is surely inside from the return of its
 *                       send until the call begins that may have taken it: no later item leaves
 *                       meanwhile, and nobody finds the queue empty
 *
 * Each sign is a proof: it holds for every order. Without any the history may still be wrong.
 */
#include "lab/history.h"

static const struct kin__happening *calls;
static size_t count;

/* Items that are told apart by their value. */
static struct item {
    const struct kin__happening *send, *recv; /* recv: NULL, nobody is known to have taken it */
    uint64_t leaves;                          /* not before */
} items[KIN__HISTORY_MAX];
static size_t item_count;

static bool is_well(const struct kin__happening *call, unsigned what)
{
    return call->call == what && call->came == KIN__CAME_WELL;
}

/* The number of items that a call may have taken out. */
static uint64_t takes(const struct kin__happening *call)
{
    if (call->call == KIN__CALL_CLOSE)
        return call->value ? call->value - 1 : 0;
    return is_well(call, KIN__CALL_RECV) ? 1 : 0;
}

/* Whether more of the value had been received by then than anybody had begun to send. */
static bool is_from_nowhere(const struct kin__happening *recv)
{
    int64_t spare = 0;
    for (size_t i = 1; i < count; i++) {
        if (calls[i].value != recv->value || calls[i].is_blind)
            continue;
        if (is_well(&calls[i], KIN__CALL_SEND) && calls[i].since < recv->until)
            spare++;
        else if (is_well(&calls[i], KIN__CALL_RECV) && calls[i].until <= recv->until)
            spare--;
    }
    return spare < 0;
}

static bool is_too_many(const struct kin__happening *send)
{
    uint64_t in = 0, out = calls[0].value ? calls[0].value : 1; /* one may be in passing */
    for (size_t i = 1; i < count; i++) {
        in += is_well(&calls[i], KIN__CALL_SEND) && calls[i].until <= send->until;
        out += calls[i].since < send->until ? takes(&calls[i]) : 0;
    }
    return in > out;
}

static bool had_room(const struct kin__happening *full)
{
    uint64_t in = 0, out = calls[0].value;
    for (size_t i = 1; i < count; i++) {
        in += is_well(&calls[i], KIN__CALL_SEND) && calls[i].since < full->until;
        out += calls[i].until < full->since ? takes(&calls[i]) : 0;
    }
    return in < out;
}

/* When the first call began that may take any item without a trace of which. */
static uint64_t first_blind(void)
{
    uint64_t since = UINT64_MAX;
    for (size_t i = 1; i < count; i++) {
        bool is_any = calls[i].call == KIN__CALL_CLOSE
                          ? calls[i].value > 0
                          : is_well(&calls[i], KIN__CALL_RECV) && calls[i].is_blind;
        if (is_any && calls[i].since < since)
            since = calls[i].since;
    }
    return since;
}

static void read_items(void)
{
    uint64_t blind = first_blind();
    item_count = 0;
    for (size_t i = 1; i < count; i++) {
        if (!is_well(&calls[i], KIN__CALL_SEND) || calls[i].is_blind)
            continue;
        unsigned sends = 0, recvs = 0;
        struct item item = {.send = &calls[i], .leaves = blind};
        for (size_t k = 1; k < count; k++) {
            if (calls[k].value != calls[i].value || calls[k].is_blind)
                continue;
            sends += is_well(&calls[k], KIN__CALL_SEND);
            if (!is_well(&calls[k], KIN__CALL_RECV))
                continue;
            recvs++;
            item.recv = &calls[k];
            item.leaves = calls[k].since;
        }
        if (sends == 1 && recvs <= 1)
            items[item_count++] = item;
    }
}

/* Whether an item was inside from one moment until another. */
static bool is_inside(const struct item *item, uint64_t from, uint64_t until)
{
    return item->send->until < from && item->leaves > until;
}

/* Whether a call must have seen an item that it did not: it found nothing, or got a later one. */
static bool passes_by(const struct kin__happening *call)
{
    if (call->call == KIN__CALL_RECV && call->came == KIN__CAME_EMPTY) {
        for (size_t i = 0; i < item_count; i++) {
            if (is_inside(&items[i], call->since, call->until))
                return true;
        }
    }
    const struct item *own = NULL;
    for (size_t i = 0; i < item_count; i++)
        own = items[i].recv == call ? &items[i] : own;
    for (size_t i = 0; own && i < item_count; i++) {
        if (is_inside(&items[i], own->send->since, call->until))
            return true;
    }
    return false;
}

const struct kin__happening *kin__history_sign(const struct kin__happening *history, size_t size)
{
    calls = history;
    count = size;
    read_items();
    for (size_t i = 1; i < count; i++) {
        const struct kin__happening *call = &calls[i];
        bool is_wrong = passes_by(call);
        if (is_well(call, KIN__CALL_SEND))
            is_wrong = is_wrong || is_too_many(call);
        else if (call->call == KIN__CALL_SEND && call->came == KIN__CAME_FULL)
            is_wrong = is_wrong || had_room(call);
        else if (is_well(call, KIN__CALL_RECV) && !call->is_blind)
            is_wrong = is_wrong || is_from_nowhere(call);
        if (is_wrong)
            return call;
    }
    return NULL;
}
