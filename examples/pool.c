/* SPDX-License-Identifier: MIT */
/*
 * Pools: many items, a few at a time; then a pipeline whose last stage is a mailbox.
 *
 * First an array is mapped with at most four items in flight, and the results stand in the order of
 * the items. Then numbers come out of a channel, a pool factors each of them, and whatever it finds
 * is put into a queue that many send to and one reads.
 */
#include <kin/kin.h>
#include <kin/pool.h>
#include <kin/queue.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 2000 };

static const char *const words[] = {"data", "first", "nursery", "next", "join", "last"};
enum { WORDS = sizeof words / sizeof words[0] };

static int measure(void *item, void *result, void *arg)
{
    (void)arg;
    *(size_t *)result = strlen(*(const char **)item);
    return kin_sleep(kin_after(KIN_US(200))); /* as if it had to be fetched */
}

static int map_words(void)
{
    size_t lengths[WORDS], sum = 0;
    const char *items[WORDS];
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;

    memcpy(items, words, sizeof items);
    options.limit = 4;
    options.results = lengths;
    options.result_size = sizeof lengths[0];
    int rc = kin_pool_map(&options, measure, items, sizeof items[0], WORDS, KIN_NEVER);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < WORDS; i++)
        sum += lengths[i];
    printf("%d words, %zu letters\n", (int)WORDS, sum);
    return sum == 28 ? 0 : -EINVAL;
}

/* ---- a pipeline: numbers -> pool -> mailbox ---- */

static int count_up(void *arg)
{
    struct kin_chan *numbers = arg;
    int rc = 0;

    for (int i = 2; i < NUMBERS + 2 && rc == 0; i++)
        rc = kin_chan_send(numbers, &i, KIN_NEVER);
    kin_chan_close(numbers); /* on every way out: the next stage would wait for ever */
    return rc;
}

static int test_number(void *item, void *result, void *arg)
{
    int number = *(int *)item;

    (void)result;
    for (int i = 2; i * i <= number; i++) {
        if (number % i == 0)
            return 0;
    }
    return kin_mpsc_send(arg, &number, KIN_NEVER);
}

static int count_primes(void *arg)
{
    struct kin_mpsc *primes = arg;
    int prime, count = 0, rc;

    while ((rc = kin_mpsc_recv(primes, &prime, KIN_NEVER)) == 0)
        count++;
    kin_mpsc_close(primes); /* as above, for the stage before */
    printf("%d primes below %d\n", count, NUMBERS + 2);
    return rc == KIN_CLOSED && count == 303 ? 0 : -EINVAL;
}

static int run_pipeline(struct kin_chan *numbers, struct kin_mpsc *primes)
{
    struct kin_pool_options options = KIN_POOL_OPTIONS_INIT;
    KIN_NURSERY(n);

    options.limit = 8;
    options.arg = primes;
    int rc = kin_spawn(&n, count_up, numbers);
    if (rc == 0)
        rc = kin_spawn(&n, count_primes, primes);
    if (rc == 0)
        rc = kin_pool_each(&options, test_number, numbers, KIN_NEVER);
    kin_mpsc_close(primes);
    return kin_nursery_end(&n, rc);
}

static int work(void *arg)
{
    struct kin_chan *numbers = NULL;
    struct kin_mpsc *primes = NULL;

    (void)arg;
    int rc = map_words();
    if (rc == 0)
        rc = kin_chan_create(&numbers, sizeof(int), 16);
    if (rc == 0)
        rc = kin_mpsc_create(&primes, sizeof(int), 16);
    if (rc == 0)
        rc = run_pipeline(numbers, primes);
    kin_chan_unref(numbers);
    kin_mpsc_unref(primes);
    return rc;
}

int main(void)
{
    int rc = kin_run(NULL, work, NULL);

    printf("%s\n", kin_status_name(rc));
    return rc == 0 ? 0 : 1;
}
