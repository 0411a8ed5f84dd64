/* SPDX-License-Identifier: MIT */
/*
 * Explanations: two things in the wrong order are named; where no order is wrong that is said.
 */
#include "kin_test.h"

#include "run_main.h"

#include <kin/kin.h>

#include <dirent.h>
#include <sys/socket.h>

static int set(void *arg)
{
    KIN_SHARED(*(int *)arg) = 1;
    return 0;
}

KIN_LAB(reads_too_early, .strategy = KIN_LAB_DPOR)
{
    int value = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, set, &value));
    int seen = KIN_SHARED(value);
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(seen == 1, "the value is set when it is read");
    return 0;
}

KIN_LAB(fails_always, .strategy = KIN_LAB_DPOR)
{
    int value = 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, set, &value));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(value == 2, "the value is two");
    return 0;
}

/* A read that is short is taken for all there is. */
static int put_two(void *arg)
{
    return kin_write(*(int *)arg, "ab", 2, NULL, KIN_NEVER);
}

KIN_LAB(fails_by_a_fault, .strategy = KIN_LAB_DPOR, .faults = KIN_FAULT_NET)
{
    int fds[2];
    char buf[2];
    kin_lab_assert(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair");
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, put_two, &fds[0]));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    ssize_t got = kin_read(fds[1], buf, 2, KIN_NEVER);
    kin_lab_assert(got < 0 || got == 2, "both bytes are there");
    return 0;
}

/* ---- one thing, sold twice through a server ---- */

enum { LOOK, TAKE };

struct shop {
    struct kin_chan *orders;
    struct kin_addr stock;
};

static int on_call(struct kin_server *s, void *state, const void *req, size_t size,
                   struct kin_reply *reply)
{
    int *taken = state;
    (void)s, (void)size;
    *taken += *(const int *)req == TAKE;
    kin_ignore(kin_reply_send(reply, taken, sizeof *taken));
    return 0;
}

static int ask(struct shop *shop, int what)
{
    int taken = 0;
    KIN_LAB_OK(kin_call(shop->stock, &what, sizeof what, &taken, sizeof taken, NULL, KIN_NEVER));
    return taken;
}

static int sell(void *arg)
{
    struct shop *shop = arg;
    int order;
    KIN_LAB_OK(kin_chan_recv(shop->orders, &order, KIN_NEVER));
    if (ask(shop, LOOK) == 0)
        kin_lab_assert(ask(shop, TAKE) == 1, "it is sold once");
    return 0;
}

/* Either clerk must be done before the other begins: no step alone is in the wrong place. A clerk
 * that comes before its order waits, and then the run passes. */
KIN_LAB(sells_twice, .strategy = KIN_LAB_RANDOM, .seed = 1)
{
    static const struct kin_server_ops ops = {.on_call = on_call};
    struct kin_server_options options = KIN_SERVER_OPTIONS_INIT;
    struct shop shop;
    options.state_size = sizeof(int);
    KIN_LAB_OK(kin_chan_create(&shop.orders, sizeof(int), 2));
    KIN_NURSERY(back);
    KIN_LAB_OK(kin_server_start(&back, &ops, &options, NULL, &shop.stock));
    KIN_NURSERY(front);
    KIN_LAB_OK(kin_spawn(&front, sell, &shop));
    KIN_LAB_OK(kin_spawn(&front, sell, &shop));
    for (int i = 0; i < 2; i++)
        KIN_LAB_OK(kin_chan_send(shop.orders, &i, KIN_NEVER));
    KIN_LAB_OK(kin_nursery_join(&front, NULL));
    KIN_LAB_OK(kin_server_stop(shop.stock, 0, KIN_NEVER));
    KIN_LAB_OK(kin_nursery_join(&back, NULL));
    kin_chan_unref(shop.orders);
    return 0;
}

static char directory[] = "/tmp/kin_explain_XXXXXX";

/* Removes the reports; how many files there were. */
static unsigned clear(void)
{
    unsigned count = 0;
    DIR *dir = opendir(directory);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char path[600];
        snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
        count += entry->d_name[0] != '.' && unlink(path) == 0;
    }
    if (dir)
        closedir(dir);
    (void)rmdir(directory);
    return count;
}

static int explain(const char *test)
{
    char line[700];
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    snprintf(line, sizeof(line), "t %s -e --report-dir %s", test, directory);
    return run_main(line);
}

KIN_TEST(the_wrong_order_is_named, "")
{
    EXPECT_EQ(explain("reads_too_early"), 1);
    EXPECT_EQ(clear(), 3); /* and nothing is left of what was tried */
    EXPECT(strstr(main_out, "explain:  it fails because this comes first:\n") != NULL);
#if defined(__x86_64__) || defined(__aarch64__)
    const char *first = strstr(main_out, ": int seen = KIN_SHARED(value)");
    EXPECT(first != NULL);
    EXPECT(strstr(first, ": KIN_SHARED(*(int *)arg) = 1") != NULL);
#endif
    EXPECT(strstr(main_out, "  the other way round the run passes\n") != NULL);
}

KIN_TEST(what_fails_in_any_order_is_said_to, "")
{
    EXPECT_EQ(explain("fails_always"), 1);
    EXPECT_EQ(clear(), 3);
    EXPECT(strstr(main_out, "explain:  no two steps can change places") != NULL);
    EXPECT(strstr(main_out, "or no order helps") != NULL);
}

KIN_TEST(who_only_comes_too_early_explains_nothing, "")
{
    EXPECT_EQ(explain("sells_twice"), 1);
    EXPECT_EQ(clear(), 3);
    EXPECT(strstr(main_out, "it is sold once") != NULL);
    const char *words = strstr(main_out, "explain:  ");
    EXPECT(words != NULL);
    EXPECT(strstr(words, "chan_send") == NULL); /* nobody is served before there is an order */
}

KIN_TEST(a_fault_is_named, "")
{
    EXPECT_EQ(explain("fails_by_a_fault"), 1);
    EXPECT_EQ(clear(), 3);
    EXPECT(strstr(main_out, "explain:  it fails because of what goes wrong here") != NULL);
    EXPECT(strstr(main_out, "FAULT short ") != NULL);
}

KIN_TEST(without_a_file_there_is_nothing_to_change, "")
{
    EXPECT_EQ(run_main("t reads_too_early -e --no-files"), 1);
    EXPECT(strstr(main_out, "which --no-files leaves out\n") != NULL);
}

KIN_TEST(a_file_that_could_not_be_written_is_missed, "")
{
    EXPECT_EQ(run_main("t reads_too_early -e --report-dir /proc/no/such/place"), 1);
    EXPECT(strstr(main_out, "files:    /proc/no/such/place cannot be written: ") != NULL);
    EXPECT(strstr(main_out, "explain:  the file of the schedule, which is needed, ") != NULL);
}
