/* SPDX-License-Identifier: MIT */
/*
 * Goal: an address that is written can be read back, and nonsense is refused.
 * Method: tables of good and bad ones; random text, which must be refused or come back the same.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "wait/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

KIN_TEST(good_addresses_come_back_as_they_were, "")
{
    const char *const good[] = {"1.2.3.4:80", "0.0.0.0:0", "255.255.255.255:65535", "[::1]:80",
                                "[2001:db8::17]:443"};
    char text[200];
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct kin__hostport parts;
        struct kin__sockaddr address;
        EXPECT_EQ(kin__address_split(good[i], &parts), 0);
        EXPECT(kin__address_numeric(&parts, &address));
        EXPECT_EQ(kin__address_text(&address, text, sizeof(text)), 0);
        EXPECT_STR(text, good[i]);
        EXPECT_EQ(kin__address_text(&address, text, strlen(good[i])), -ENOSPC);
        EXPECT_EQ(kin__address_text(&address, text, strlen(good[i]) + 1), 0);
    }
}

KIN_TEST(no_host_is_any_or_this_machine, "")
{
    const char *const expected[2][2] = {{"127.0.0.1:80", "[::1]:80"}, {"[::]:80", "0.0.0.0:80"}};
    const char *const none[] = {":80", "*:80"};
    struct kin__hostport parts;
    struct kin__sockaddr both[2];
    char text[64];
    for (unsigned i = 0; i < 4; i++) {
        bool is_passive = i & 1;
        EXPECT_EQ(kin__address_split(none[i / 2], &parts), 0);
        EXPECT(!kin__address_numeric(&parts, both));
        EXPECT_EQ(kin__address_hostless(&parts, is_passive, both, 1), 1);
        EXPECT_EQ(kin__address_hostless(&parts, is_passive, both, 9), 2);
        for (unsigned j = 0; j < 2; j++) {
            EXPECT_EQ(kin__address_text(&both[j], text, sizeof(text)), 0);
            EXPECT_STR(text, expected[is_passive][j]);
        }
    }
    EXPECT_EQ(kin__address_split("0.0.0.0:80", &parts), 0);
    EXPECT_EQ(kin__address_hostless(&parts, true, both, 2), 0);
    EXPECT_EQ(kin__address_split("[::]:80", &parts), 0); /* where a listener says it is */
    EXPECT_EQ(kin__address_hostless(&parts, true, both, 2), 0);
    EXPECT_EQ(kin__address_hostless(&parts, false, both, 2), 2);
    EXPECT_EQ(kin__address_text(&both[0], text, sizeof(text)), 0);
    EXPECT_STR(text, "[::1]:80");
    EXPECT_EQ(kin__address_text(&both[1], text, sizeof(text)), 0);
    EXPECT_STR(text, "127.0.0.1:80");
}

/* A listener for both kinds sees 1.2.3.4 as ::ffff:1.2.3.4; who reads it does not. */
KIN_TEST(an_address_has_one_text, "")
{
    struct sockaddr_in6 peer = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    struct kin__hostport parts;
    struct kin__sockaddr address = {.size = sizeof(peer)};
    char text[64];
    EXPECT_EQ(kin__address_split("[::ffff:1.2.3.4]:80", &parts), 0);
    EXPECT(kin__address_numeric(&parts, &address));
    EXPECT_EQ(kin__address_text(&address, text, sizeof(text)), 0);
    EXPECT_STR(text, "1.2.3.4:80");
    EXPECT_EQ(inet_pton(AF_INET6, "::ffff:1.2.3.4", &peer.sin6_addr), 1);
    memcpy(address.bytes, &peer, sizeof(peer));
    EXPECT_EQ(kin__address_text(&address, text, sizeof(text)), 0);
    EXPECT_STR(text, "1.2.3.4:80");
}

KIN_TEST(bad_addresses_are_refused, "")
{
    const char *const bad[] = {"", ":", "a", "a:", "a:b", "a:1x", "a:65536", "a:123456", "::1:80",
                               "[::1", "[::1]", "[::1]80", "[::1]:", "a:-1", "a: 1", "a:b:1",
                               "[]:80", "[1.2.3.4]:80", "[name]:80"};
    struct kin__hostport parts;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_EQ(kin__address_split(bad[i], &parts), -EINVAL);
    EXPECT_EQ(kin__address_split(NULL, &parts), -EINVAL);
    char host[300];
    memset(host, 'a', sizeof(host));
    memcpy(host + 290, ":80", 4);
    EXPECT_EQ(kin__address_split(host, &parts), -EINVAL);
}

KIN_TEST(names_and_broken_numbers_are_not_numeric, "")
{
    const char *const names[] = {"example", "1.2.3", "1.2.3.4.5", "256.1.1.1", "::g", "1::2::3",
                                 "fe80::1%nosuchlink"};
    struct kin__sockaddr address;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct kin__hostport parts = {.port = 1};
        snprintf(parts.host, sizeof(parts.host), "%s", names[i]);
        EXPECT(!kin__address_numeric(&parts, &address));
    }
}

KIN_TEST(unix_paths_have_a_length, "")
{
    struct kin__sockaddr address;
    char path[200], text[200];
    memset(path, 'p', sizeof(path));
    for (unsigned i = 0; i < 4; i++) { /* one that fills its room, and one that is abstract */
        path[0] = i & 1 ? '@' : '/';
        path[107 + i / 2] = '\0';
        EXPECT_EQ(kin__address_unix(path, &address), 0);
        EXPECT_EQ(kin__address_text(&address, text, sizeof(text)), 0);
        EXPECT_STR(text + 5, path);
        path[107 + i / 2] = 'p';
    }
    path[109] = '\0';
    EXPECT_EQ(kin__address_unix(path, &address), -ENAMETOOLONG);
    EXPECT_EQ(kin__address_unix("unix:@", &address), -EINVAL);
    EXPECT_EQ(kin__address_unix("", &address), -EINVAL);
    EXPECT_EQ(kin__address_unix("unix:", &address), -EINVAL);
    EXPECT_EQ(kin__address_unix(NULL, &address), -EINVAL);
    EXPECT_EQ(kin__address_unix("unix:@name", &address), 0);
    EXPECT_EQ(kin__address_text(&address, text, sizeof(text)), 0);
    EXPECT_STR(text, "unix:@name");
}

/* The system counts a zero behind a path that fills its room, where there is none to be read. */
KIN_TEST(a_path_that_fills_its_room_is_read_no_further, "")
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct kin__sockaddr address = {.size = sizeof(un) + 1};
    char text[200];
    memset(un.sun_path, 'p', sizeof(un.sun_path));
    memset(address.bytes, 'x', sizeof(address.bytes));
    memcpy(address.bytes, &un, sizeof(un));
    EXPECT_EQ(kin__address_text(&address, text, sizeof(text)), 0);
    EXPECT_EQ(strlen(text), strlen("unix:") + sizeof(un.sun_path));
}

/* Writes the address of a Unix name of size bytes, and reads it back. */
static void write_unix(const char *name, size_t size, char text[500])
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct kin__sockaddr address = {0};
    struct kin__sockaddr again;
    memcpy(un.sun_path, name, size);
    memcpy(address.bytes, &un, sizeof(un));
    address.size = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + size);
    EXPECT_EQ(kin__address_text(&address, text, 500), 0);
    if (size > 1 && name[0] == '\0') {
        EXPECT_EQ(kin__address_unix(text, &again), 0);
        EXPECT_EQ(again.size, address.size);
        EXPECT_EQ(memcmp(again.bytes, address.bytes, address.size), 0);
    }
}

/* Goal: no peer can choose a name whose text is that of another one. */
KIN_TEST(names_that_differ_have_texts_that_differ, "")
{
    static const struct {
        const char *name;
        size_t size;
        const char *text;
    } each[] = {
        {"\0admin", 6, "unix:@admin"},
        {"\0admin\0", 7, "unix:@admin\\x00"},
        {"\0admin\0evil", 11, "unix:@admin\\x00evil"},
        {"\0admin\\x00evil", 14, "unix:@admin\\x5cx00evil"},
        {"\0\0admin", 7, "unix:@\\x00admin"},
        {"\0a\nb\x7f", 5, "unix:@a\\x0ab\\x7f"},
        {"\0\xc3\xa4", 3, "unix:@\xc3\xa4"},
        {"\0", 1, "unix:@"},
        {"", 0, "unix:"},
        {"@admin", 7, "unix:./@admin"}, /* a path: with the zero behind it, as the system counts */
        {"/run/a\\x2db", 12, "unix:/run/a\\x2db"},
    };
    char text[500];
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
        write_unix(each[i].name, each[i].size, text);
        EXPECT_STR(text, each[i].text);
    }
    char zeros[108] = {0};
    write_unix(zeros, sizeof(zeros), text); /* the longest text */
    EXPECT_EQ(strlen(text), strlen("unix:@") + 107 * 4);
}

/* The number of a link without a name is part of the address. */
KIN_TEST(a_link_that_is_gone_is_written_by_its_number, "")
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_scope_id = 4000000123u};
    struct kin__sockaddr address = {.size = sizeof(v6)}, again;
    struct kin__hostport parts;
    char text[200];
    v6.sin6_addr.s6_addr[0] = 0xfe;
    v6.sin6_addr.s6_addr[1] = 0x80;
    memcpy(address.bytes, &v6, sizeof(v6));
    EXPECT_EQ(kin__address_text(&address, text, sizeof(text)), 0);
    EXPECT_STR(text, "[fe80::%4000000123]:0");
    EXPECT_EQ(kin__address_split(text, &parts), 0);
    EXPECT(kin__address_numeric(&parts, &again));
    EXPECT_EQ(memcmp(again.bytes, address.bytes, sizeof(v6)), 0);
}

KIN_TEST(random_text_is_refused_or_comes_back, "")
{
    static const char letters[] = "0123456789abcdef:.[]%* ";
    struct kin__rng rng;
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (int round = 0; round < 200000; round++) {
        char text[24], back[64];
        size_t size = kin__rng_below(&rng, sizeof(text) - 1);
        for (size_t i = 0; i < size; i++)
            text[i] = letters[kin__rng_below(&rng, sizeof(letters) - 1)];
        text[size] = '\0';
        struct kin__hostport parts, again;
        struct kin__sockaddr address, same;
        if (kin__address_split(text, &parts) < 0 || !kin__address_numeric(&parts, &address))
            continue;
        EXPECT_EQ(kin__address_text(&address, back, sizeof(back)), 0);
        EXPECT_EQ(kin__address_split(back, &again), 0);
        EXPECT(kin__address_numeric(&again, &same));
        EXPECT_EQ(memcmp(&address, &same, sizeof(same)), 0);
    }
}
