/* SPDX-License-Identifier: MIT */
/*
 * A server: a bank whose books one task keeps, and which everybody may ask.
 *
 * The state belongs to the server alone, so there is no lock. Whoever calls waits for the answer,
 * and no longer than its deadline; whoever casts goes on at once. A hundred customers move money to
 * and fro; then the bank is stopped, does what was still in its mailbox, and closes its books.
 */
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>

enum { ACCOUNTS = 10, CUSTOMERS = 100, MOVES = 50, MONEY = 1000 };

struct order {
    int from, to;
    long amount;
};

struct bank {
    long balances[ACCOUNTS];
    long moves, refused, visits;
};

static int open_bank(struct kin_server *s, void *state, const void *arg)
{
    struct bank *bank = state;

    (void)s;
    for (int i = 0; i < ACCOUNTS; i++)
        bank->balances[i] = *(const long *)arg;
    return 0;
}

/* Whatever a caller sends is looked at before it is used. */
static bool is_sound(const struct order *order, size_t size)
{
    return size == sizeof *order && order->amount >= 0 && order->from >= 0 &&
           order->from < ACCOUNTS && order->to >= 0 && order->to < ACCOUNTS;
}

/* A move of money. The answer is what is left on the account that it came from. */
static int on_order(struct kin_server *s, void *state, const void *req, size_t size,
                    struct kin_reply *reply)
{
    struct bank *bank = state;
    const struct order *order = req;

    (void)s;
    if (!is_sound(order, size) || order->amount > bank->balances[order->from]) {
        bank->refused++;
        kin_ignore(kin_reply_abort(reply, -EDOM));
        return 0;
    }
    bank->balances[order->from] -= order->amount;
    bank->balances[order->to] += order->amount;
    bank->moves++;
    kin_ignore(kin_reply_send(reply, &bank->balances[order->from], sizeof(long)));
    return 0; /* KIN_GONE: the customer has left, and the move is done all the same */
}

static int on_visit(struct kin_server *s, void *state, const void *msg, size_t size)
{
    struct bank *bank = state;

    (void)s, (void)msg, (void)size;
    bank->visits++;
    return 0;
}

static void close_bank(struct kin_server *s, void *state, const struct kin_outcome *why)
{
    const struct bank *bank = state;
    long sum = 0;

    (void)s;
    for (int i = 0; i < ACCOUNTS; i++)
        sum += bank->balances[i];
    printf("%ld visits, %ld moves, %ld refused, %ld in the bank, closed: %s\n", bank->visits,
           bank->moves, bank->refused, sum, kin_status_name(why->status));
}

static const struct kin_server_ops bank_ops = {
    .on_start = open_bank, .on_call = on_order, .on_cast = on_visit, .on_stop = close_bank};

/* ---- who uses it ---- */

struct customer {
    struct kin_addr bank;
    int number;
};

static int visit(void *arg)
{
    const struct customer *me = arg;
    int rc = kin_cast(me->bank, NULL, 0, kin_after(KIN_SEC(10)));

    for (int i = 0; i < MOVES && rc == 0; i++) {
        struct order order = {(me->number + i) % ACCOUNTS, (me->number * 7 + i * 3) % ACCOUNTS,
                              10 * (i % 30)};
        long left = 0;
        rc = kin_call(me->bank, &order, sizeof order, &left, sizeof left, NULL,
                      kin_after(KIN_SEC(10)));
        if (rc == -EDOM) /* there was not enough: that is an answer, not a failure */
            rc = 0;
    }
    return rc;
}

static int run_bank(void *arg)
{
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct kin_addr bank;
    long money = MONEY;

    (void)arg;
    KIN_NURSERY(servers);
    options.name = "bank";
    options.state_size = sizeof(struct bank);
    int rc = kin_server_start(&servers, &bank_ops, &options, &money, &bank);
    KIN_NURSERY(customers);
    for (int i = 0; i < CUSTOMERS && rc == 0; i++)
        rc = kin_spawn_copy(&customers, visit, KIN_ARGS(struct customer, bank, i));
    rc = kin_nursery_end(&customers, rc);
    if (rc == 0)
        rc = kin_server_stop(bank, 0, KIN_NEVER);
    return kin_nursery_end(&servers, rc);
}

int main(void)
{
    int rc = kin_run(NULL, run_bank, NULL);

    printf("%s\n", kin_status_name(rc));
    return rc == 0 ? 0 : 1;
}
