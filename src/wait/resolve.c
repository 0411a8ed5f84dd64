/* SPDX-License-Identifier: MIT */
/*
 * Host names to addresses: by themselves, by rule, by the machine's files, by name servers.
 *
 *     numeric? -> localhost? -> hosts -> for each name of the search list: cache -> servers
 *                                                                                    |
 *              alternate the families, first the one that has a route <--------------+
 *
 * The machine's files are looked at when the last look is a second ago, and read when they have
 * changed; whoever looks first does so for all, the others go on with what is there. Nothing of
 * libc is asked: its resolver blocks and cannot be cancelled.
 */
#include "wait/resolve.h"

#include "base/lock.h"
#include "sched/entry.h"
#include "task/budget.h"
#include "wait/namecache.h"
#include "wait/names.h"
#include "wait/offload.h"
#include "wait/query.h"

#include <kin/resolve.h>

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define LOOK_EVERY_NS INT64_C(1000000000)

static struct kin__lock lock; /* rank WAIT; the rest */
static struct kin__names *current;
static kin_time looked_at;

/* ---- what the machine's files say ---- */

static void unref_locked(struct kin__names *names, struct kin__names **dead)
{
    if (names && --names->refs == 0)
        *dead = names;
}

static void unref(struct kin__names *names)
{
    struct kin__names *dead = NULL;
    kin__lock_take(&lock, KIN__RANK_WAIT);
    unref_locked(names, &dead);
    kin__lock_give(&lock, KIN__RANK_WAIT);
    kin__names_destroy(dead);
}

struct look {
    struct kin__names *before, *after;
    int rc;
};

/* The machine's files, or those that the environment names instead. */
static void look_at_files(void *arg)
{
    struct look *look = arg;
    struct kin__names_files files = {kin__plat_env("KIN_RESOLV_CONF"), kin__plat_env("KIN_HOSTS"),
                                     kin__plat_env("LOCALDOMAIN"), kin__plat_env("RES_OPTIONS")};
    if (!files.conf)
        files.conf = "/etc/resolv.conf";
    if (!files.hosts)
        files.hosts = "/etc/hosts";
    look->rc = kin__names_load(&files, look->before, &look->after);
}

/* What is known, and whether it is time to look again. */
static bool begin_look(struct look *look)
{
    kin_time now = kin__clock_now();
    kin__lock_take(&lock, KIN__RANK_WAIT);
    *look = (struct look){.before = current};
    if (current)
        current->refs++;
    bool is_time = !current || now - looked_at >= LOOK_EVERY_NS;
    if (is_time)
        looked_at = now;
    kin__lock_give(&lock, KIN__RANK_WAIT);
    return is_time;
}

/* What was read takes the place of what was known. */
static void end_look(struct look *look)
{
    struct kin__names *dead = NULL;
    if (!look->after)
        return;
    look->after->refs = 1;
    kin__lock_take(&lock, KIN__RANK_WAIT);
    unref_locked(current, &dead);
    current = look->after;
    current->refs++;
    kin__lock_give(&lock, KIN__RANK_WAIT);
    kin__names_destroy(dead);
}

/* What the files say, to be given back with unref; the old state will do when there is one. */
static int get_names(struct kin__names **out, kin_time deadline)
{
    struct look look;
    int rc = 0;
    if (begin_look(&look)) {
        rc = kin__offload(KIN__OFFLOAD_NAMES, look_at_files, &look, deadline);
        if (rc == 0)
            rc = look.rc;
        end_look(&look);
    }
    if (look.after) {
        unref(look.before);
        *out = look.after;
        return 0;
    }
    *out = look.before;
    return look.before ? 0 : rc;
}

/* ---- one lookup ---- */

/* On the heap: stacks of tasks are small. */
struct lookup {
    uint16_t port;
    char name[KIN__DNS_TEXT]; /* in lower case, as it was given */
    struct kin__query query;
    unsigned counts[KIN__QUERY_KINDS];
    struct kin__sockaddr found[KIN__QUERY_KINDS][KIN__ADDRESSES_MAX];
    struct kin__sockaddr in_hosts[KIN__ADDRESSES_MAX];
};

static void add_address(struct lookup *lookup, unsigned kind, const uint8_t *bytes)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(lookup->port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(lookup->port)};
    if (lookup->counts[kind] == KIN__ADDRESSES_MAX)
        return;
    struct kin__sockaddr *out = &lookup->found[kind][lookup->counts[kind]++];
    if (kind == KIN__QUERY_V6) {
        memcpy(&v6.sin6_addr, bytes, sizeof(v6.sin6_addr));
        out->size = sizeof(v6);
        memcpy(out->bytes, &v6, sizeof(v6));
    } else {
        memcpy(&v4.sin_addr, bytes, sizeof(v4.sin_addr));
        out->size = sizeof(v4);
        memcpy(out->bytes, &v4, sizeof(v4));
    }
}

/* "localhost" and everything below it is this machine, whatever anybody says (RFC 6761). */
static bool find_localhost(struct lookup *lookup)
{
    static const uint8_t v6[16] = {[15] = 1}, v4[16] = {127, 0, 0, 1};
    static const char word[] = "localhost";
    size_t size = strlen(lookup->name), tail = sizeof(word) - 1;
    if (size && lookup->name[size - 1] == '.')
        size--;
    if (size < tail || memcmp(lookup->name + size - tail, word, tail) != 0 ||
        (size > tail && lookup->name[size - tail - 1] != '.'))
        return false;
    add_address(lookup, KIN__QUERY_V6, v6);
    add_address(lookup, KIN__QUERY_V4, v4);
    return true;
}

static bool find_in_hosts(struct lookup *lookup, const struct kin__names *names)
{
    struct kin__sockaddr *found = lookup->in_hosts;
    char *name = lookup->query.name; /* not used yet */
    size_t size = strlen(lookup->name);
    memcpy(name, lookup->name, size + 1);
    if (name[size - 1] == '.')
        name[size - 1] = '\0';
    unsigned count = kin__names_host(names, name, lookup->port, found, KIN__ADDRESSES_MAX);
    for (unsigned i = 0; i < count; i++) {
        unsigned kind = found[i].family == AF_INET6 ? KIN__QUERY_V6 : KIN__QUERY_V4;
        lookup->found[kind][lookup->counts[kind]++] = found[i];
    }
    return count > 0;
}

/* Asks for one name: in the cache, then the servers. */
static int ask_one(struct lookup *lookup, const struct kin__names *names, kin_time deadline)
{
    struct kin__query *query = &lookup->query;
    bool is_known[KIN__QUERY_KINDS], is_all_known = true;
    kin_time now = kin__clock_now();
    for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
        query->kinds[i].error = 0;
        query->kinds[i].verdict = kin__namecache_get(query->name, kin__query_type(i), now,
                                                     &query->kinds[i].answer);
        if (i == KIN__QUERY_V6 && names->skips_v6)
            query->kinds[i].verdict = KIN__DNS_EMPTY;
        is_known[i] = query->kinds[i].verdict != KIN__DNS_STRAY;
        is_all_known = is_all_known && is_known[i];
    }
    if (is_all_known)
        return 0;
    int rc = kin__query_ask(query, names, deadline);
    now = kin__clock_now();
    for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
        if (!is_known[i])
            kin__namecache_put(query->name, kin__query_type(i), query->kinds[i].verdict,
                               &query->kinds[i].answer, now);
    }
    return rc;
}

/* What came out of asking for one name: addresses, or why there are none. */
static int take_answers(struct lookup *lookup)
{
    int error = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < KIN__QUERY_KINDS; i++) {
        const struct kin__dns_answer *answer = &lookup->query.kinds[i].answer;
        if (lookup->query.kinds[i].verdict == KIN__DNS_STRAY)
            error = lookup->query.kinds[i].error;
        if (lookup->query.kinds[i].verdict != KIN__DNS_FOUND)
            continue;
        for (unsigned j = 0; j < answer->count; j++)
            add_address(lookup, i, answer->addresses[j]);
        count += answer->count;
    }
    return count ? 0 : error ? error : KIN_NOPROC;
}

/* Asks for the name with each domain of the search list. A server that fails on one may still know
 * another; without an answer from anybody there is no point. */
static int ask_servers(struct lookup *lookup, const struct kin__names *names, kin_time deadline)
{
    int failure = KIN_NOPROC;
    for (unsigned i = 0; kin__names_candidate(names, lookup->name, i, lookup->query.name); i++) {
        if (!kin__dns_is_name(lookup->query.name))
            continue;
        int rc = ask_one(lookup, names, deadline);
        if (rc == 0)
            rc = take_answers(lookup);
        if (rc == -EPROTO)
            failure = rc;
        else if (rc != KIN_NOPROC)
            return rc;
    }
    return failure;
}

/* ---- the order to try them in ---- */

/* Whether this machine has a way to an address: connecting a socket for datagrams sends nothing. */
static bool has_route(const struct kin__sockaddr *address)
{
    int fd = kin__socket_open(address->family, false);
    if (fd < 0)
        return false;
    int rc = kin__socket_connect(fd, address);
    (void)kin__fd_close(fd);
    return rc == 0;
}

/* Alternates the families (RFC 8305): IPv6 begins, unless there is only a way for IPv4. */
static int put_in_order(const struct lookup *lookup, struct kin__sockaddr *out, unsigned cap)
{
    unsigned used[KIN__QUERY_KINDS] = {0}, count = 0;
    unsigned kind = KIN__QUERY_V6;
    if (lookup->counts[KIN__QUERY_V6] && lookup->counts[KIN__QUERY_V4] &&
        !has_route(&lookup->found[KIN__QUERY_V6][0]) &&
        has_route(&lookup->found[KIN__QUERY_V4][0]))
        kind = KIN__QUERY_V4;
    while (count < cap && count < lookup->counts[0] + lookup->counts[1]) { /* ends: one more */
        if (used[kind] < lookup->counts[kind])
            out[count++] = lookup->found[kind][used[kind]++];
        kind = !kind;
    }
    return (int)count;
}

/* Takes the name over in lower case. False: it is none. */
static bool take_name(struct lookup *lookup, const char *name)
{
    size_t i = 0;
    for (; name[i] && i < sizeof(lookup->name) - 1; i++) {
        bool is_upper = name[i] >= 'A' && name[i] <= 'Z';
        lookup->name[i] = is_upper ? (char)(name[i] + ('a' - 'A')) : name[i];
    }
    lookup->name[i] = '\0';
    return !name[i] && kin__dns_is_name(lookup->name);
}

static int find(struct lookup *lookup, kin_time deadline)
{
    struct kin__names *names;
    if (find_localhost(lookup))
        return 0;
#ifdef KIN__LAB
    uint8_t v4[16];
    int found = kin__lab_lookup(lookup->name, v4);
    if (found == 0)
        add_address(lookup, KIN__QUERY_V4, v4);
    if (KIN__LAB_INSIDE())
        return found;
#endif
    int rc = get_names(&names, deadline);
    if (rc < 0)
        return rc;
    if (!find_in_hosts(lookup, names))
        rc = ask_servers(lookup, names, deadline);
    unref(names);
    return rc;
}

int kin__resolve(const struct kin__hostport *from, bool is_passive, struct kin__sockaddr *out,
                 unsigned cap, kin_time deadline)
{
    if (cap == 0)
        return 0;
    unsigned count = kin__address_hostless(from, is_passive, out, cap);
    if (count == 0)
        count = kin__address_numeric(from, out);
    if (count > 0)
        return (int)count;
    struct lookup *lookup = kin__heap_alloc(sizeof(*lookup));
    if (!lookup)
        return -ENOMEM;
    lookup->port = from->port;
    int rc = take_name(lookup, from->host) ? find(lookup, deadline) : -EINVAL;
    if (rc == 0)
        rc = put_in_order(lookup, out, cap);
    kin__heap_free(lookup);
    return rc;
}

void kin__resolve_forget(void)
{
    struct kin__names *dead = NULL;
    kin__lock_take(&lock, KIN__RANK_WAIT);
    unref_locked(current, &dead);
    current = NULL;
    kin__lock_give(&lock, KIN__RANK_WAIT);
    kin__names_destroy(dead);
    kin__namecache_clear();
}

/* ---- the public face ---- */

/* Takes a host apart that may have a port; true: it has one. A bare IPv6 address has colons, and no
 * port. */
static int split(const char *host, struct kin__hostport *out, bool *has_port)
{
    const char *colon = strchr(host, ':');
    *has_port = *host == '[' || (colon && !strchr(colon + 1, ':'));
    if (*has_port)
        return kin__address_split(host, out);
    size_t size = strlen(host);
    if (size >= sizeof(out->host))
        return -EINVAL;
    memcpy(out->host, host, size + 1);
    out->port = 0;
    return 0;
}

/* An address without its port and brackets. */
static int host_text(const struct kin__sockaddr *address, char out[KIN_ADDR_MAX])
{
    char text[KIN_ADDR_MAX];
    int rc = kin__address_text(address, text, sizeof(text));
    if (rc < 0)
        return rc;
    bool is_v6 = text[0] == '[';
    size_t size = is_v6 ? strcspn(text, "]") - 1 : strcspn(text, ":");
    memcpy(out, text + is_v6, size);
    out[size] = '\0';
    return 0;
}

/* Looks up what split has found; found has room for KIN__ADDRESSES_MAX. */
static int resolve_to(const struct kin__hostport *from, bool has_port, struct kin__sockaddr *found,
                      char (*out)[KIN_ADDR_MAX], size_t cap, kin_time deadline)
{
    unsigned most = cap < KIN__ADDRESSES_MAX ? (unsigned)cap : KIN__ADDRESSES_MAX;
    int count = kin__resolve(from, false, found, most, deadline);
    for (int i = 0; i < count; i++) {
        int rc = has_port ? kin__address_text(&found[i], out[i], KIN_ADDR_MAX)
                          : host_text(&found[i], out[i]);
        if (rc < 0)
            return rc;
    }
    return count;
}

int kin_resolve(const char *host, char (*out)[KIN_ADDR_MAX], size_t cap, kin_time deadline)
{
    struct kin__hostport from;
    bool has_port;
    if (!host || !*host || !out || cap == 0)
        return -EINVAL;
    int rc = kin__entry_begin(kin__task_self(), KIN_CAP_NET | KIN__COST_SYSCALL, deadline);
    if (rc == 0)
        rc = split(host, &from, &has_port);
    if (rc < 0)
        return rc;
    struct kin__sockaddr *found = kin__heap_alloc(KIN__ADDRESSES_MAX * sizeof(*found));
    if (!found)
        return -ENOMEM;
    rc = resolve_to(&from, has_port, found, out, cap, deadline);
    kin__heap_free(found);
    return rc;
}
