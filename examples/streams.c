/* SPDX-License-Identifier: MIT */
/*
 * Streams: a thermometer with a dial, a log and a glance, three ways to read one source.
 *
 * The log must have every reading, so it subscribes to a broadcast that waits for the slowest. The
 * dial is slow and only wants to be right, so it lags, and is told how many readings it missed. And
 * whoever merely glances at it wants the latest value: that is a watch.
 */
#include <kin/kin.h>
#include <kin/stream.h>

#include <stdio.h>

enum { READINGS = 1000 };

struct house {
    struct kin_broadcast *exact;  /* for the log */
    struct kin_broadcast *recent; /* for the dial */
    struct kin_watch *latest;     /* for a glance */
};

struct reader {
    struct kin_subscriber *readings;
    long count, lost, sum;
};

static int measure(void *arg)
{
    struct house *house = arg;
    int rc = 0;

    for (int i = 0; i < READINGS && rc == 0; i++) {
        int degrees = 15 + i % 10;
        rc = kin_broadcast_send(house->exact, &degrees, KIN_NEVER); /* waits for the log */
        if (rc == 0)
            rc = kin_broadcast_send(house->recent, &degrees, KIN_NEVER); /* waits for nobody */
        if (rc == 0)
            rc = kin_watch_set(house->latest, &degrees);
    }
    kin_broadcast_close(house->exact);
    kin_broadcast_close(house->recent);
    kin_watch_close(house->latest);
    return rc;
}

static int read_all(void *arg)
{
    struct reader *reader = arg;
    int degrees, rc;
    uint64_t lost;

    while ((rc = kin_broadcast_recv(reader->readings, &degrees, &lost, KIN_NEVER)) == 0) {
        reader->count++;
        reader->lost += (long)lost;
        reader->sum += degrees;
    }
    kin_subscriber_unref(reader->readings);
    return rc == KIN_CLOSED ? 0 : rc;
}

static int glance(void *arg)
{
    struct house *house = arg;
    uint64_t version = 0;
    int degrees = 0, glances = 0, rc;

    while ((rc = kin_watch_wait(house->latest, &degrees, &version, KIN_NEVER)) == 0)
        glances++;
    printf("a glance: %d degrees after %d looks, reading %d of %d\n", degrees, glances,
           (int)version - 1, READINGS);
    return rc == KIN_CLOSED && version == READINGS + 1 ? 0 : -1;
}

static int live(void *arg)
{
    struct house *house = arg;
    struct reader log = {0}, dial = {0};
    KIN_NURSERY(n);

    int rc = kin_broadcast_subscribe(house->exact, &log.readings);
    if (rc == 0)
        rc = kin_spawn(&n, read_all, &log);
    if (rc == 0)
        rc = kin_broadcast_subscribe(house->recent, &dial.readings);
    if (rc == 0)
        rc = kin_spawn(&n, read_all, &dial);
    if (rc == 0)
        rc = kin_spawn(&n, glance, house);
    if (rc == 0)
        rc = kin_spawn(&n, measure, house);
    rc = kin_nursery_end(&n, rc);
    printf("the log: %ld readings, %ld lost\n", log.count, log.lost);
    printf("the dial: %ld readings, %ld lost\n", dial.count, dial.lost);
    if (log.count != READINGS || log.lost != 0 || dial.count + dial.lost != READINGS)
        return -1;
    return rc;
}

int main(void)
{
    struct house house = {0};
    int none = 0;

    int rc = kin_broadcast_create(&house.exact, sizeof(int), 16, KIN_BROADCAST_WAIT);
    if (rc == 0)
        rc = kin_broadcast_create(&house.recent, sizeof(int), 4, KIN_BROADCAST_LAG);
    if (rc == 0)
        rc = kin_watch_create(&house.latest, sizeof(int), &none);
    if (rc == 0)
        rc = kin_run(NULL, live, &house);
    kin_watch_unref(house.latest);
    kin_broadcast_unref(house.recent);
    kin_broadcast_unref(house.exact);
    printf("%s\n", kin_status_name(rc));
    return rc == 0 ? 0 : 1;
}
