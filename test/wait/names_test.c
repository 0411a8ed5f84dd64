/* SPDX-License-Identifier: MIT */
/*
 * Goal: resolv.conf and hosts are read as others read them, and nonsense in them harms nobody.
 * Method: texts, and files that the test writes.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "plat/plat.h"
#include "wait/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A text as it comes from a file: in memory of its own. */
static char *text_of(const char *text)
{
    char *copy = kin__heap_alloc(strlen(text) + 1);
    strcpy(copy, text);
    return copy;
}

static struct kin__names *conf_of(const char *text)
{
    struct kin__names *names = kin__heap_alloc(sizeof *names);
    char *copy = text_of(text);
    kin__names_read_conf(names, copy);
    kin__heap_free(copy);
    return names;
}

static void expect_server(const struct kin__names *names, unsigned i, const char *expected)
{
    char text[160];
    EXPECT_LT(i, names->server_count);
    EXPECT_EQ(kin__address_text(&names->servers[i], text, sizeof text), 0);
    EXPECT_STR(text, expected);
}

KIN_TEST(resolv_conf_is_read, "")
{
    struct kin__names *names = conf_of("# a comment\n"
                                       "; another\n"
                                       "nameserver 192.0.2.1\n"
                                       "  nameserver\t2001:db8::1 # trailing\n"
                                       "nameserver nonsense\nnameserver *\nnameserver\n"
                                       "nameserver 192.0.2.3#\nnameserver 192.0.2.3#0\n"
                                       "nameserver 192.0.2.3#dns\nnameserver #53\n"
                                       "search old.test\n"
                                       "search One.test two.test. bad..name # three.test\n"
                                       "options ndots:3 timeout:7 attempts:4 rotate unknown\n"
                                       "options use-vc no-aaaa\toptions single-request\n"
                                       "options Edns0 no-tld-query inet6\n"
                                       "sortlist whatever\n"
                                       "nameserver 192.0.2.2");
    EXPECT_EQ(names->server_count, 3);
    expect_server(names, 0, "192.0.2.1:53");
    expect_server(names, 1, "[2001:db8::1]:53");
    expect_server(names, 2, "192.0.2.2:53");
    EXPECT_EQ(names->search_count, 2);
    EXPECT_STR(names->search[0], "one.test");
    EXPECT_STR(names->search[1], "two.test");
    EXPECT_EQ(names->ndots, 3);
    EXPECT_EQ(names->timeout_s, 7);
    EXPECT_EQ(names->attempts, 4);
    EXPECT(names->rotates && names->by_stream && names->skips_v6 && names->in_turn);
    EXPECT(names->has_edns && names->skips_bare);
    kin__names_destroy(names);
}

KIN_TEST(resolv_conf_has_defaults_and_limits, "")
{
    struct kin__names *names = conf_of("");
    EXPECT_EQ(names->server_count, 1);
    expect_server(names, 0, "127.0.0.1:53");
    EXPECT_EQ(names->search_count, 0);
    EXPECT_EQ(names->ndots, 1);
    EXPECT_EQ(names->timeout_s, 5);
    EXPECT_EQ(names->attempts, 2);
    EXPECT(!names->rotates && !names->by_stream && !names->skips_v6 && !names->in_turn);
    EXPECT(!names->has_edns && !names->skips_bare);
    kin__names_destroy(names);
    names = conf_of("options ndots:99999999999999 timeout:1000000 attempts:55\ndomain a.test\n"
                    "nameserver 127.0.0.1#5353\n");
    EXPECT_EQ(names->ndots, 15);
    EXPECT_EQ(names->timeout_s, 30);
    EXPECT_EQ(names->attempts, 5);
    EXPECT_STR(names->search[0], "a.test");
    expect_server(names, 0, "127.0.0.1:5353");
    kin__names_destroy(names);
    names = conf_of("options timeout:0 attempts:x\n");
    EXPECT_EQ(names->timeout_s, 1);
    EXPECT_EQ(names->attempts, 1);
    kin__names_destroy(names);
    char many[4096] = "search";
    for (int i = 0; i < 20; i++)
        sprintf(many + strlen(many), " d%d.test", i);
    for (int i = 0; i < 20; i++)
        sprintf(many + strlen(many), "\nnameserver 192.0.2.%d", i);
    names = conf_of(many);
    EXPECT_EQ(names->server_count, KIN__NAMES_SERVERS);
    EXPECT_EQ(names->search_count, KIN__NAMES_SEARCH);
    kin__names_destroy(names);
}

static struct kin__names *hosts_of(const char *text)
{
    struct kin__names *names = kin__heap_alloc(sizeof *names);
    EXPECT_EQ(kin__names_read_hosts(names, text_of(text)), 0);
    return names;
}

KIN_TEST(hosts_are_found_in_the_order_of_the_file, "")
{
    struct kin__names *names = hosts_of("127.0.0.1 localhost\n"
                                        "# 192.0.2.9 web\n"
                                        "192.0.2.1\tWeb.test web # not this\n"
                                        "2001:db8::1 other web\n"
                                        "nonsense web\n* web\n"
                                        "192.0.2.7\n"
                                        "192.0.2.2 web");
    struct kin__sockaddr found[16];
    char text[160];
    EXPECT_EQ(kin__names_host(names, "web", 80, found, 16), 3);
    EXPECT_EQ(kin__address_text(&found[0], text, sizeof text), 0);
    EXPECT_STR(text, "192.0.2.1:80");
    EXPECT_EQ(kin__address_text(&found[1], text, sizeof text), 0);
    EXPECT_STR(text, "[2001:db8::1]:80");
    EXPECT_EQ(kin__address_text(&found[2], text, sizeof text), 0);
    EXPECT_STR(text, "192.0.2.2:80");
    EXPECT_EQ(kin__names_host(names, "web", 80, found, 2), 2);
    EXPECT_EQ(kin__names_host(names, "web.test", 80, found, 16), 1);
    EXPECT_EQ(kin__names_host(names, "other", 80, found, 16), 1);
    EXPECT_EQ(kin__names_host(names, "not", 80, found, 16), 0);
    EXPECT_EQ(kin__names_host(names, "this", 80, found, 16), 0);
    EXPECT_EQ(kin__names_host(names, "192.0.2.7", 80, found, 16), 0);
    kin__names_destroy(names);
    names = hosts_of("");
    EXPECT_EQ(kin__names_host(names, "web", 80, found, 16), 0);
    kin__names_destroy(names);
}

KIN_TEST(a_large_hosts_file_is_searched_all_the_same, "")
{
    char *text = kin__heap_alloc(20000 * 40);
    struct kin__sockaddr found[2];
    char name[32];
    size_t size = 0;
    for (int i = 0; i < 20000; i++)
        size += (size_t)sprintf(text + size, "10.1.%d.%d host-%d\n", i / 256, i % 256, i);
    struct kin__names *names = kin__heap_alloc(sizeof *names);
    EXPECT_EQ(kin__names_read_hosts(names, text), 0);
    for (int i = 0; i < 20000; i += 7) {
        sprintf(name, "host-%d", i);
        EXPECT_EQ(kin__names_host(names, name, 1, found, 2), 1);
        EXPECT_EQ(found[0].bytes[7], i % 256);
    }
    EXPECT_EQ(kin__names_host(names, "host-20000", 1, found, 2), 0);
    kin__names_destroy(names);
}

static void expect_candidates(const struct kin__names *names, const char *name,
                              const char *const *expected)
{
    char out[KIN__DNS_TEXT];
    unsigned i = 0;
    for (; expected[i]; i++) {
        EXPECT(kin__names_candidate(names, name, i, out));
        EXPECT_STR(out, expected[i]);
    }
    EXPECT(!kin__names_candidate(names, name, i, out));
}

KIN_TEST(names_are_looked_for_in_the_search_list, "")
{
    struct kin__names *names = conf_of("search a.test b.test\n");
    expect_candidates(names, "web", (const char *const[]){"web.a.test", "web.b.test", "web", NULL});
    expect_candidates(names, "x.web", (const char *const[]){"x.web", "x.web.a.test",
                                                            "x.web.b.test", NULL});
    expect_candidates(names, "web.", (const char *const[]){"web", NULL});
    names->ndots = 2;
    expect_candidates(names, "x.web", (const char *const[]){"x.web.a.test", "x.web.b.test",
                                                            "x.web", NULL});
    names->ndots = 0;
    expect_candidates(names, "web", (const char *const[]){"web", "web.a.test", "web.b.test", NULL});
    names->skips_bare = true;
    for (names->ndots = 0; names->ndots < 3; names->ndots++) {
        expect_candidates(names, "web", (const char *const[]){"web.a.test", "web.b.test", NULL});
        expect_candidates(names, "web.", (const char *const[]){"web", NULL});
    }
    names->ndots = 1;
    expect_candidates(names, "x.web", (const char *const[]){"x.web", "x.web.a.test",
                                                            "x.web.b.test", NULL});
    names->search_count = 0;
    expect_candidates(names, "web", (const char *const[]){NULL});
    names->search_count = 2;
    names->skips_bare = false;
    char longest[KIN__DNS_TEXT];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    char out[KIN__DNS_TEXT];
    for (unsigned i = 0; kin__names_candidate(names, longest, i, out); i++)
        EXPECT_STR(out, longest);
    kin__names_destroy(names);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    fputs(text, file);
    fclose(file);
}

KIN_TEST(files_are_read_again_only_when_they_have_changed, "")
{
    char dir[] = "/tmp/kin-names-XXXXXX", conf[64], hosts[64];
    struct kin__sockaddr found[1];
    struct kin__names *first, *second;
    EXPECT(kin_test_mkdtemp(dir) != NULL);
    snprintf(conf, sizeof conf, "%s/resolv.conf", dir);
    snprintf(hosts, sizeof hosts, "%s/hosts", dir);
    struct kin__names_files files = {.conf = conf, .hosts = hosts};
    EXPECT_EQ(kin__names_load(&files, NULL, &first), 0); /* neither is there */
    EXPECT_EQ(first->server_count, 1);
    EXPECT_EQ(kin__names_load(&files, first, &second), 0);
    EXPECT_PTR(second, NULL);
    write_file(hosts, "192.0.2.1 web\n");
    EXPECT_EQ(kin__names_load(&files, first, &second), 0);
    EXPECT(second != NULL);
    kin__names_destroy(first);
    EXPECT_EQ(kin__names_host(second, "web", 80, found, 1), 1);
    EXPECT_EQ(kin__names_load(&files, second, &first), 0);
    EXPECT_PTR(first, NULL);
    write_file(conf, "nameserver 192.0.2.53\n");
    EXPECT_EQ(kin__names_load(&files, second, &first), 0);
    expect_server(first, 0, "192.0.2.53:53");
    kin__names_destroy(first);
    files.search = "c.test d.test";
    files.options = "ndots:4 use-vc";
    EXPECT_EQ(kin__names_load(&files, NULL, &first), 0);
    EXPECT_EQ(first->search_count, 2); /* instead */
    EXPECT_STR(first->search[0], "c.test");
    EXPECT(first->ndots == 4 && first->by_stream);
    kin__names_destroy(first);
    uint64_t n = 1;
    for (int rc = -ENOMEM; rc < 0; n++) { /* each request fails once */
        kin__plat_fail_after(n, true);
        rc = kin__names_load(&files, NULL, &first);
        kin__plat_fail_after(0, false);
        EXPECT(rc == -ENOMEM || rc == 0);
    }
    EXPECT_GT(n, 6);
    kin__names_destroy(first);
    kin__names_destroy(second);
    kin__names_destroy(NULL);
    EXPECT_EQ(unlink(conf), 0);
    EXPECT_EQ(unlink(hosts), 0);
    EXPECT_EQ(rmdir(dir), 0);
}

KIN_TEST(nonsense_in_files_harms_nobody, "")
{
    static const char letters[] =
        "nameserver search options no-tld-query 1.2.3.4 ::1 #;.:%*\t\n\n\r -x";
    struct kin__rng rng;
    struct kin__sockaddr found[4];
    char out[KIN__DNS_TEXT];
    kin__rng_init(&rng, kin_test_seed(), 0);
    for (unsigned round = 0; round < 5000 / kin_test_scale(); round++) {
        char text[400];
        size_t size = kin__rng_next(&rng) % sizeof text;
        for (size_t i = 0; i + 1 < size; i++) {
            size_t at = kin__rng_next(&rng) % (sizeof letters - 1);
            text[i] = kin__rng_next(&rng) % 50 ? letters[at] : (char)kin__rng_next(&rng);
            if (kin__rng_next(&rng) % 4 == 0) { /* a whole word */
                size_t more = sizeof letters - 1 - at < 10 ? sizeof letters - 1 - at : 10;
                more = size - i - 1 < more ? size - i - 1 : more;
                memcpy(text + i, letters + at, more);
                i += more ? more - 1 : 0;
            }
        }
        text[size ? size - 1 : 0] = '\0';
        struct kin__names *names = conf_of(text);
        EXPECT_EQ(kin__names_read_hosts(names, text_of(text)), 0);
        EXPECT_LE(kin__names_host(names, "x", 1, found, 4), 4);
        EXPECT_GT(names->server_count, 0);
        for (unsigned i = 0; kin__names_candidate(names, "x", i, out); i++)
            EXPECT_LE(i, KIN__NAMES_SEARCH);
        kin__names_destroy(names);
    }
}
