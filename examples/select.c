/* SPDX-License-Identifier: MIT */
/*
 * Select: a shop that serves two counters, collects its takings, and closes when nobody comes.
 *
 * The shopkeeper waits for several things at once and does exactly one of them: a customer at
 * either counter, a van that takes the takings away, or that a while has passed without anybody.
 * A case on NULL never happens, which is how the van is sent away while there is nothing to take.
 */
#include <kin/kin.h>

#include <stdio.h>

enum { CUSTOMERS = 500, VAN_TAKES = 400 };

struct shop {
    struct kin_chan *counters[2]; /* what customers pay */
    struct kin_chan *van;         /* takings on their way to the bank */
    int served[2];
    int paid, banked;
};

struct customers {
    struct shop *shop;
    int counter;
};

static int buy(void *arg)
{
    const struct customers *customers = arg;

    for (int i = 0; i < CUSTOMERS; i++) {
        int price = 1 + i % 7;
        int rc = kin_chan_send(customers->shop->counters[customers->counter], &price, KIN_NEVER);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int drive(void *arg)
{
    struct shop *shop = arg;
    int takings, rc;

    while ((rc = kin_chan_recv(shop->van, &takings, KIN_NEVER)) == 0)
        shop->banked += takings;
    kin_chan_close(shop->van); /* whatever the reason: nobody shall wait for a van that is gone */
    return rc == KIN_CLOSED ? 0 : rc;
}

/* Returns when nobody has come for 200 ms, or with what went wrong. */
static int keep_shop(struct shop *shop)
{
    int till = 0;

    for (;;) {
        int price;
        struct kin_case cases[] = {
            kin_case_recv(shop->counters[0], &price),
            kin_case_recv(shop->counters[1], &price),
            kin_case_send(till >= VAN_TAKES ? shop->van : NULL, &till),
            kin_case_after(KIN_MS(200)),
        };
        int index = kin_select(cases, 4, KIN_NEVER);
        if (index < 0)
            return index;
        switch (index) {
        case 0:
        case 1:
            till += price;
            shop->paid += price;
            shop->served[index]++;
            break;
        case 2:
            till = 0;
            break;
        default: /* the last takings go by hand */
            return kin_chan_send(shop->van, &till, KIN_NEVER);
        }
    }
}

static int run_shop(void *arg)
{
    struct shop *shop = arg;
    struct customers customers[2] = {{shop, 0}, {shop, 1}};
    KIN_NURSERY(n, .name = "street");
    int rc = kin_spawn(&n, drive, shop);

    for (int i = 0; i < 2 && rc == 0; i++)
        rc = kin_spawn(&n, buy, &customers[i]);
    if (rc == 0)
        rc = keep_shop(shop);
    kin_chan_close(shop->van);
    return kin_nursery_end(&n, rc);
}

int main(void)
{
    struct shop shop = {.paid = 0};
    int rc = kin_chan_create(&shop.counters[0], sizeof(int), 0);

    if (rc == 0)
        rc = kin_chan_create(&shop.counters[1], sizeof(int), 3);
    if (rc == 0)
        rc = kin_chan_create(&shop.van, sizeof(int), 0);
    if (rc == 0)
        rc = kin_run(NULL, run_shop, &shop);
    for (int i = 0; i < 2; i++)
        kin_chan_unref(shop.counters[i]);
    kin_chan_unref(shop.van);
    printf("served %d and %d, paid %d, banked %d, %s\n", shop.served[0], shop.served[1], shop.paid,
           shop.banked, kin_status_name(rc));
    return rc == 0 && shop.served[0] == CUSTOMERS && shop.served[1] == CUSTOMERS &&
                   shop.paid == shop.banked
               ? 0
               : 1;
}
