/* SPDX-License-Identifier: MIT */
/*
 * Goal: names become addresses by the right source, in the right order, once.
 * Method: files of the test's own and a name server as a task on the loopback.
 */
#include "wait/dns_server.h"

#include "plat/plat.h"
#include "wait/offload.h"
#include "wait/resolve.h"

#include <kin/resolve.h>

#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

static char dir[64], conf[96], hosts[96];
static struct dns_server server;

static void write_file(const char *path, const char *format, ...)
{
    va_list values;
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    va_start(values, format);
    vfprintf(file, format, values);
    va_end(values);
    fclose(file);
}

static kin_task_fn *body;
static unsigned patience = 1; /* in seconds, how long a server has time */
static const char *domains, *options; /* what the environment says; NULL: nothing */

static int in_world(void *arg)
{
    dns_server_open(&server, false);
    write_file(conf, "search lan.test\noptions timeout:%u attempts:1\nnameserver 127.0.0.1#%u\n",
               patience, server.port);
    write_file(hosts, "192.0.2.77 printer printer.lan.test\n2001:db8::77 printer\n"
                      "192.0.2.78 only4\n192.0.2.79 attic-zebra\n"
                      "10.9.9.9 localhost fake.localhost\n");
    KIN_NURSERY(n);
    dns_serve(&n, &server);
    int rc = body(arg);
    kin_nursery_cancel(&n, 0);
    EXPECT_EQ(kin_nursery_join(&n, NULL), KIN_CANCELLED);
    dns_server_close(&server);
    return rc;
}

static void with_server(kin_task_fn *fn)
{
    body = fn;
    for (unsigned workers = 1; workers <= 2; workers++) {
        snprintf(dir, sizeof dir, "/tmp/kin-resolve-XXXXXX");
        EXPECT(kin_test_mkdtemp(dir) != NULL);
        snprintf(conf, sizeof conf, "%s/resolv.conf", dir);
        snprintf(hosts, sizeof hosts, "%s/hosts", dir);
        EXPECT_EQ(setenv("KIN_RESOLV_CONF", conf, 1), 0);
        EXPECT_EQ(setenv("KIN_HOSTS", hosts, 1), 0);
        EXPECT_EQ(domains ? setenv("LOCALDOMAIN", domains, 1) : unsetenv("LOCALDOMAIN"), 0);
        EXPECT_EQ(options ? setenv("RES_OPTIONS", options, 1) : unsetenv("RES_OPTIONS"), 0);
        EXPECT_EQ(run_reporting(workers, in_world, NULL, NULL), 0);
        EXPECT_EQ(kin__offload_threads(), 0); /* that of the last one has read the files */
        EXPECT_EQ(unlink(conf), 0);
        EXPECT_EQ(unlink(hosts), 0);
        EXPECT_EQ(rmdir(dir), 0);
    }
}

/* Both addresses of the truth, whatever the order: it depends on the machine's routes. */
static void expect_both(char (*out)[KIN_ADDR_MAX], const char *one, const char *other)
{
    bool is_turned = strcmp(out[0], one) != 0;
    EXPECT_STR(out[0], is_turned ? other : one);
    EXPECT_STR(out[1], is_turned ? one : other);
}

static int ask_all_sources(void *arg)
{
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_resolve("192.0.2.5", out, 16, 0), 1);
    EXPECT_STR(out[0], "192.0.2.5");
    EXPECT_EQ(kin_resolve("LocalHost:80", out, 16, 0), 2); /* not what hosts says */
    expect_both(out, "[::1]:80", "127.0.0.1:80");
    EXPECT_EQ(kin_resolve("fake.localhost", out, 16, 0), 2);
    expect_both(out, "::1", "127.0.0.1");
    EXPECT_EQ(kin_resolve("ATTIC-ZEBRA", out, 16, KIN_NEVER), 1); /* from A to Z */
    EXPECT_STR(out[0], "192.0.2.79");
    EXPECT_EQ(kin_resolve("Printer", out, 16, KIN_NEVER), 2);
    expect_both(out, "2001:db8::77", "192.0.2.77");
    EXPECT_EQ(kin_resolve("printer.", out, 16, KIN_NEVER), 2);
    EXPECT_EQ(kin_resolve("only4:9", out, 16, KIN_NEVER), 1);
    EXPECT_STR(out[0], "192.0.2.78:9");
    EXPECT_EQ(server.datagrams, 0);
    EXPECT_EQ(kin_resolve("good.test", out, 16, KIN_NEVER), 2);
    expect_both(out, "2001:db8::1", "192.0.2.1");
    EXPECT_EQ(kin_resolve("good.test:443", out, 16, KIN_NEVER), 2);
    expect_both(out, "[2001:db8::1]:443", "192.0.2.1:443");
    EXPECT_EQ(kin_resolve("good.test", out, 1, KIN_NEVER), 1);
    EXPECT_EQ(server.datagrams, 2); /* asked once, for both kinds */
    EXPECT_EQ(kin_resolve("v4only.test", out, 16, KIN_NEVER), 1);
    EXPECT_STR(out[0], "192.0.2.1");
    EXPECT_EQ(kin_resolve("long.test", out, 16, KIN_NEVER), 16); /* the kinds take turns */
    for (int i = 2; i < 16; i++)
        EXPECT_STR(out[i], out[i - 2]);
    expect_both(out, "2001:db8::1", "192.0.2.1");
    return 0;
}

KIN_TEST(each_source_has_its_turn, "")
{
    with_server(ask_all_sources);
}

static int ask_again(void *arg)
{
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_resolve("good.test.", out, 16, 0), KIN_TIMEOUT); /* nothing is known */
    EXPECT_EQ(server.existing, 0);
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(kin_resolve("good.test.", out, 16, i ? 0 : KIN_NEVER), 2);
    EXPECT_EQ(server.existing, 2);
    /* what does not exist is remembered too */
    EXPECT_EQ(kin_resolve("none.test.", out, 16, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_resolve("none.test.", out, 16, 0), KIN_NOPROC);
    EXPECT_EQ(kin_resolve("empty.test.", out, 16, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(kin_resolve("empty.test.", out, 16, 0), KIN_NOPROC);
    EXPECT_EQ(server.existing, 4);
    for (int i = 1; i <= 3; i++) { /* what must not be remembered is not */
        EXPECT_EQ(kin_resolve("once.test.", out, 16, KIN_NEVER), 2);
        EXPECT_EQ(server.existing, 4 + 2 * i);
        EXPECT_EQ(kin_resolve("absent.test.", out, 16, KIN_NEVER), KIN_NOPROC);
        EXPECT_EQ(kin_resolve("absent.test.", out, 16, 0), KIN_TIMEOUT);
    }
    kin__resolve_forget();
    EXPECT_EQ(kin_resolve("good.test.", out, 16, KIN_NEVER), 2);
    EXPECT_EQ(server.existing, 12);
    return 0;
}

KIN_TEST(answers_are_remembered_as_long_as_they_hold, "")
{
    with_server(ask_again);
}

static int take_poison(void *arg)
{
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_resolve("generous.test.", out, 16, KIN_NEVER), 2);
    expect_both(out, "2001:db8::1", "192.0.2.1");
    EXPECT_EQ(kin_resolve("victim.test.", out, 16, 0), KIN_TIMEOUT); /* nothing is known of it */
    EXPECT_EQ(kin_resolve("victim.test.", out, 16, KIN_NEVER), 2);
    expect_both(out, "2001:db8::1", "192.0.2.1");
    EXPECT_EQ(kin_resolve("alias.test.", out, 16, 0), KIN_TIMEOUT);
    return 0;
}

KIN_TEST(an_answer_says_nothing_about_other_names, "")
{
    with_server(take_poison);
}

static int search(void *arg)
{
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_resolve("web", out, 16, KIN_NEVER), 2); /* web.lan.test */
    EXPECT_EQ(server.datagrams, 2);
    EXPECT_EQ(kin_resolve("web.lan.test.", out, 16, 0), 2); /* the same */
    EXPECT_EQ(kin_resolve("absent.x", out, 16, KIN_NEVER), KIN_NOPROC); /* and absent.x.lan.test */
    EXPECT_GT(server.datagrams, 2);
    EXPECT_EQ(kin_resolve("failing", out, 16, KIN_NEVER), -EPROTO);
    EXPECT_EQ(kin_resolve("dead", out, 16, kin_after(KIN_MS(5))), KIN_TIMEOUT);
    EXPECT_EQ(kin_resolve("dead.", out, 16, KIN_NEVER), -ETIMEDOUT);
    return 0;
}

KIN_TEST(the_search_list_and_failures, "")
{
    with_server(search);
}

static int heed_environment(void *arg)
{
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_resolve("good.test", out, 16, KIN_NEVER), 1);
    EXPECT_STR(out[0], "192.0.2.1");
    EXPECT_EQ(kin_resolve("good.test", out, 16, 0), 1); /* which is all that there is to know */
    EXPECT_EQ(server.datagrams, 1);
    EXPECT_EQ(kin_resolve("printer", out, 16, KIN_NEVER), 2); /* of hosts: both kinds */
    EXPECT_EQ(kin_resolve("absent", out, 16, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(server.datagrams, 3); /* absent.a.test and absent.b.test */
    EXPECT_EQ(kin_resolve("absent.", out, 16, KIN_NEVER), KIN_NOPROC);
    EXPECT_EQ(server.datagrams, 4);
    return 0;
}

KIN_TEST(the_environment_has_the_last_word, "")
{
    domains = "a.test b.test";
    options = "no-aaaa no-tld-query";
    with_server(heed_environment);
}

static int change_files(void *arg)
{
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    EXPECT_EQ(kin_resolve("newcomer", out, 16, KIN_NEVER), 2); /* from the server */
    write_file(hosts, "192.0.2.99 newcomer\n");
    int rc = 2;
    for (int i = 0; i < 400 && rc != 1; i++) { /* it is noticed after a second */
        EXPECT_EQ(kin_sleep(kin_after(KIN_MS(10))), 0);
        rc = kin_resolve("newcomer", out, 16, KIN_NEVER);
    }
    EXPECT_EQ(rc, 1);
    EXPECT_STR(out[0], "192.0.2.99");
    return 0;
}

KIN_TEST(a_change_of_the_files_is_noticed, "")
{
    with_server(change_files);
}

#define TASKS 50

static int resolve_some(void *arg)
{
    static const char *const names[] = {"good.test", "long.test", "none.test", "printer", "web"};
    char out[16][KIN_ADDR_MAX];
    unsigned index = *(unsigned *)arg;
    for (unsigned i = 0; i < 10; i++) {
        unsigned which = (index + i) % 5;
        int rc = kin_resolve(names[which], out, 16, KIN_NEVER);
        EXPECT_EQ(rc, which == 1 ? 16 : which == 2 ? KIN_NOPROC : 2);
        if (index == 0 && i % 4 == 0)
            kin__resolve_forget(); /* under the others */
    }
    return 0;
}

static int resolve_in_a_crowd(void *arg)
{
    (void)arg;
    KIN_NURSERY(n);
    for (unsigned i = 0; i < TASKS; i++)
        EXPECT_EQ(kin_spawn_copy(&n, resolve_some, KIN_ARGS(unsigned, i)), 0);
    return kin_nursery_join(&n, NULL);
}

KIN_TEST(many_tasks_resolve_at_once, "")
{
    patience = 30; /* on a slow machine the last one of many waits long */
    with_server(resolve_in_a_crowd);
}

static int connect_by_name(void *arg)
{
    char addr[KIN_ADDR_MAX], name[KIN_ADDR_MAX];
    int listener, conn, fd;
    (void)arg;
    EXPECT_EQ(kin_tcp_listen("localhost:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof addr), 0);
    snprintf(name, sizeof name, "some.localhost%s", strrchr(addr, ':'));
    EXPECT_EQ(kin_tcp_connect(name, &fd, KIN_NEVER), 0);
    EXPECT_EQ(kin_accept(listener, &conn, KIN_NEVER), 0);
    EXPECT_EQ(kin_close(conn), 0);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(kin_close(listener), 0);
    EXPECT_EQ(kin_tcp_connect("none.test:1", &fd, KIN_NEVER), KIN_NOPROC);
    return 0;
}

KIN_TEST(sockets_take_names, "")
{
    with_server(connect_by_name);
}

static int lack_memory(void *arg)
{
    char out[16][KIN_ADDR_MAX];
    (void)arg;
    int rc = kin_resolve("long.test", out, 16, KIN_NEVER); /* the server has what it needs */
    EXPECT_EQ(rc, 16);
    for (uint64_t n = 1; n < 40; n++) { /* each request fails once */
        kin__resolve_forget();
        kin__plat_fail_after(n, false);
        rc = kin_resolve("good.test", out, 16, KIN_NEVER);
        kin__plat_fail_after(0, false);
        EXPECT(rc == 2 || rc == 1 || rc == -ENOMEM || rc == -EAGAIN);
    }
    EXPECT_EQ(rc, 2);
    return 0;
}

KIN_TEST(without_memory_it_says_so, "")
{
    with_server(lack_memory);
}

static int see_limits(void *arg)
{
    struct kin__sockaddr out[2];
    struct kin__hostport from = {.host = "", .port = 7};
    (void)arg;
    EXPECT_EQ(kin__resolve(&from, true, out, 0, KIN_NEVER), 0);
    EXPECT_EQ(kin__resolve(&from, true, out, 2, KIN_NEVER), 2); /* any */
    EXPECT_EQ(out[0].family, AF_INET6);
    EXPECT_EQ(kin__resolve(&from, false, out, 1, KIN_NEVER), 1); /* this machine */
    EXPECT_EQ(out[0].family, AF_INET);
    snprintf(from.host, sizeof from.host, "localhost");
    EXPECT_EQ(kin__resolve(&from, true, out, 1, KIN_NEVER), 1);
    EXPECT_EQ(kin__resolve(&from, false, out, 2, KIN_NEVER), 2);
    memset(from.host, 'x', sizeof from.host - 1); /* no name is so long */
    EXPECT_EQ(kin__resolve(&from, false, out, 2, KIN_NEVER), -EINVAL);
    return 0;
}

KIN_TEST(callers_inside_get_addresses_with_ports, "")
{
    EXPECT_EQ(run_reporting(1, see_limits, NULL, NULL), 0);
}
