/* SPDX-License-Identifier: MIT */
/*
 * Goal: host names through the public call, as far as they need no server.
 * Method: numeric addresses, names of this machine, misuse.
 */
#include "api/in_runtime.h"

#include <kin/resolve.h>

static int resolve_plain(void *arg)
{
    static const struct {
        const char *host, *expected;
    } same[] = {{"192.0.2.1", "192.0.2.1"}, {"192.0.2.1:80", "192.0.2.1:80"},
                {"2001:DB8::1", "2001:db8::1"}, {"[2001:db8::1]:80", "[2001:db8::1]:80"},
                {"::1", "::1"}};
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        EXPECT_EQ(kin_resolve(same[i].host, out, 16, 0), 1);
        EXPECT_STR(out[0], same[i].expected);
    }
    EXPECT_EQ(kin_resolve("localhost", out, 16, KIN_NEVER), 2);
    EXPECT(strcmp(out[0], "::1") == 0 || strcmp(out[1], "::1") == 0);
    EXPECT(strcmp(out[0], "127.0.0.1") == 0 || strcmp(out[1], "127.0.0.1") == 0);
    EXPECT_EQ(kin_resolve("localhost.:7", out, 1, KIN_NEVER), 1);
    EXPECT(strcmp(out[0], "[::1]:7") == 0 || strcmp(out[0], "127.0.0.1:7") == 0);
    EXPECT_EQ(kin_resolve("a.b.localhost", out, 16, KIN_NEVER), 2);
    return 0;
}

KIN_TEST(what_needs_no_server_is_known_at_once, "")
{
    run_on_few(resolve_plain, NULL);
}

static int misuse(void *arg)
{
    char out[1][KIN_ADDR_MAX] = {"untouched"};
    char longest[600];
    (void)arg;
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    const char *const wrong[] = {"", "a..b", "a b", ".", "host:", "host:99999", "host:1x", "[::1]",
                                 "[::1", "b\xc3\xbc" "cher.test", longest};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        EXPECT_EQ(kin_resolve(wrong[i], out, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_resolve(NULL, out, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_resolve("localhost", NULL, 1, KIN_NEVER), -EINVAL);
    EXPECT_EQ(kin_resolve("localhost", out, 0, KIN_NEVER), -EINVAL);
    EXPECT_STR(out[0], "untouched");
    return 0;
}

KIN_TEST(what_cannot_be_a_name_is_refused, "")
{
    char out[1][KIN_ADDR_MAX];
    EXPECT_EQ(run_reporting(1, misuse, NULL, NULL), 0);
    EXPECT_EQ(kin_resolve("localhost", out, 1, KIN_NEVER), KIN_NOTASK);
}

static int lack_capability(void *arg)
{
    char out[1][KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_resolve("localhost", out, 1, KIN_NEVER), KIN_NOCAP);
    return 0;
}

static int give_little(void *arg)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    (void)arg;
    options.caps = KIN_CAP_ALL & ~KIN_CAP_NET;
    KIN_NURSERY(n);
    EXPECT_EQ(kin_spawn_with(&n, &options, lack_capability, NULL, 0, NULL), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(it_needs_the_capability_of_the_network, "")
{
    EXPECT_EQ(run_reporting(1, give_little, NULL, NULL), 0);
}
