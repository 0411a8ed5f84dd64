/* SPDX-License-Identifier: MIT */
/*
 * Locks and friends in one small program: a bank that closes for a moment to take stock.
 *
 *     clerks      move money between accounts, each account under its own mutex
 *     counters    the bank has three, a semaphore: so many clerks work at once
 *     auditor     a writer among readers: when it is in, nobody moves anything, and the sum of all
 *                 accounts must be what it was
 *     opening     an event that everybody waits for
 *     accounts    filled once, by whoever needs them first
 *
 * Nobody locks two accounts in a different order than the others do, so nobody waits for ever; and
 * every wait is cancellable, so the program could be stopped at any point.
 */
#include <kin/kin.h>
#include <kin/sync.h>

#include <stdio.h>

enum { ACCOUNTS = 16, CLERKS = 40, MOVES = 200, AUDITS = 20, EACH = 1000 };

struct account {
    struct kin_mutex mutex;
    long balance;
};

struct bank {
    struct kin_once filling;
    struct account accounts[ACCOUNTS];
    struct kin_sem counters;
    struct kin_rwlock books; /* clerks read: many at once; the auditor writes: alone */
    struct kin_event opening;
    struct kin_group at_work;
    int audits_failed;
};

struct clerk {
    struct bank *bank;
    unsigned number;
};

static int fill(void *arg)
{
    struct bank *bank = arg;
    for (int i = 0; i < ACCOUNTS; i++)
        bank->accounts[i].balance = EACH;
    return 0;
}

/* Moves money from one account to another one. */
static int move(struct bank *bank, unsigned from, unsigned to, long amount)
{
    struct account *first = &bank->accounts[from < to ? from : to];
    struct account *second = &bank->accounts[from < to ? to : from];
    int rc = kin_mutex_lock(&first->mutex, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_mutex_lock(&second->mutex, KIN_NEVER);
    if (rc == 0) {
        bank->accounts[from].balance -= amount;
        kin_ignore(kin_yield()); /* somebody may come by just now */
        bank->accounts[to].balance += amount;
        kin_mutex_unlock(&second->mutex);
    }
    kin_mutex_unlock(&first->mutex);
    return rc;
}

/* One customer: a counter, the books, two accounts. */
static int serve(struct bank *bank, unsigned ticket)
{
    unsigned from = ticket % ACCOUNTS, to = (ticket * 7 + 3) % ACCOUNTS;
    int rc = kin_sem_acquire(&bank->counters, 1, KIN_NEVER);
    if (rc < 0)
        return rc;
    rc = kin_rwlock_read_lock(&bank->books, KIN_NEVER);
    if (rc == 0) {
        if (from != to)
            rc = move(bank, from, to, (long)(ticket % 50));
        kin_rwlock_read_unlock(&bank->books);
    }
    kin_sem_release(&bank->counters, 1);
    return rc;
}

static int clerk(void *arg)
{
    struct clerk *clerk = arg;
    struct bank *bank = clerk->bank;
    int rc = kin_event_wait(&bank->opening, KIN_NEVER);
    if (rc == 0)
        rc = kin_once_do(&bank->filling, fill, bank, KIN_NEVER);
    for (unsigned i = 0; i < MOVES && rc == 0; i++)
        rc = serve(bank, clerk->number * MOVES + i);
    kin_group_done(&bank->at_work);
    return rc;
}

static int auditor(void *arg)
{
    struct bank *bank = arg;
    int rc = kin_event_wait(&bank->opening, KIN_NEVER);
    if (rc == 0)
        rc = kin_once_do(&bank->filling, fill, bank, KIN_NEVER);
    for (int i = 0; i < AUDITS && rc == 0; i++) {
        rc = kin_rwlock_write_lock(&bank->books, KIN_NEVER);
        if (rc < 0)
            break;
        long sum = 0;
        for (int j = 0; j < ACCOUNTS; j++)
            sum += bank->accounts[j].balance;
        bank->audits_failed += sum != ACCOUNTS * EACH;
        kin_rwlock_write_unlock(&bank->books);
        rc = kin_sleep(kin_after(KIN_US(100)));
    }
    kin_group_done(&bank->at_work);
    return rc;
}

static int run_bank(void *arg)
{
    struct bank *bank = arg;
    struct clerk clerks[CLERKS];
    KIN_NURSERY(n, .name = "bank");

    int rc = kin_sem_init(&bank->counters, 3);
    kin_group_add(&bank->at_work, CLERKS + 1);
    for (unsigned i = 0; i < CLERKS && rc == 0; i++) {
        clerks[i] = (struct clerk){bank, i};
        rc = kin_spawn(&n, clerk, &clerks[i]);
    }
    if (rc == 0)
        rc = kin_spawn(&n, auditor, bank);
    kin_event_set(&bank->opening);
    if (rc == 0)
        rc = kin_group_wait(&bank->at_work, kin_after(KIN_SEC(60)));
    return kin_nursery_end(&n, rc);
}

int main(void)
{
    static struct bank bank; /* all zero: everything in it is ready */
    int rc = kin_run(NULL, run_bank, &bank);
    long sum = 0;
    for (int i = 0; i < ACCOUNTS; i++)
        sum += bank.accounts[i].balance;
    printf("%d clerks moved money %d times: %s\n", CLERKS, CLERKS * MOVES, kin_status_name(rc));
    printf("the books show %ld of %d, %d of %d audits failed\n", sum, ACCOUNTS * EACH,
           bank.audits_failed, AUDITS);
    return rc == 0 && sum == ACCOUNTS * EACH && bank.audits_failed == 0 ? 0 : 1;
}
