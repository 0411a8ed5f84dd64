/* SPDX-License-Identifier: MIT */
/*
 * Machines, their names and addresses, and the links between them.
 *
 * Whatever changes here concerns everybody: it is a barrier, before and behind which everything
 * keeps its order. So steps need not say that they have looked.
 *
 * The fault: a partition between two machines, where something goes from one to the other; a timer
 * heals it, so that after chaos every link is whole before long.
 */
#include "lab/hosts.h"

#include "lab/net.h"
#include "lab/stream.h"
#include "lab/world.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define NAME_BYTES 64u
#define FIRST_V4 UINT32_C(0x0a000001) /* 10.0.0.1 */
#define LONG_NS INT64_C(30000000000)  /* how long a partition lasts: */
#define BRIEF_NS INT64_C(1000000000)

struct link {
    int64_t latency;
    bool is_cut;
    struct kin__timer heal; /* armed as long as a fault has cut it; in one of the halves */
};

static char names[KIN__HOSTS_MAX][NAME_BYTES] = {"lab"};
static struct link links[KIN__HOSTS_MAX][KIN__HOSTS_MAX]; /* both halves are the same */
static unsigned count = 1;

void kin__hosts_end(void)
{
    for (unsigned i = 0; i < count; i++)
        memset(links[i], 0, count * sizeof(links[i][0]));
    count = 1;
}

void kin__hosts_over(void)
{
    for (unsigned i = 0; i < count * count; i++)
        kin__timer_disarm(&links[i / count][i % count].heal);
}

uint16_t kin__host_here(void)
{
    const struct kin__world *w = &kin__world;
    return w->current < w->player_count ? w->players[w->current].host : 0;
}

/* ---- addresses ---- */

static struct sockaddr_in *v4_of(const struct kin__sockaddr *address)
{
    return address->family == AF_INET ? (struct sockaddr_in *)(uintptr_t)address->bytes : NULL;
}

static struct sockaddr_in6 *v6_of(const struct kin__sockaddr *address)
{
    return address->family == AF_INET6 ? (struct sockaddr_in6 *)(uintptr_t)address->bytes : NULL;
}

bool kin__address_is_any(const struct kin__sockaddr *address)
{
    const struct sockaddr_in *v4 = v4_of(address);
    const struct sockaddr_in6 *v6 = v6_of(address);
    return v4 ? v4->sin_addr.s_addr == htonl(INADDR_ANY)
              : v6 && memcmp(&v6->sin6_addr, &in6addr_any, sizeof(in6addr_any)) == 0;
}

void kin__address_settle(struct kin__sockaddr *address)
{
    if (!kin__address_is_any(address))
        return;
    if (v4_of(address))
        v4_of(address)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else
        v6_of(address)->sin6_addr = in6addr_loopback;
}

static bool is_loopback(const struct kin__sockaddr *address)
{
    const struct sockaddr_in *v4 = v4_of(address);
    const struct sockaddr_in6 *v6 = v6_of(address);
    return v4 ? ntohl(v4->sin_addr.s_addr) >> 24 == 127
              : v6 && memcmp(&v6->sin6_addr, &in6addr_loopback, sizeof(in6addr_loopback)) == 0;
}

uint16_t kin__address_port(const struct kin__sockaddr *address)
{
    const struct sockaddr_in *v4 = v4_of(address);
    const struct sockaddr_in6 *v6 = v6_of(address);
    return v4 ? ntohs(v4->sin_port) : v6 ? ntohs(v6->sin6_port) : 0;
}

void kin__address_set_port(struct kin__sockaddr *address, uint16_t port)
{
    if (v4_of(address))
        v4_of(address)->sin_port = htons(port);
    else if (v6_of(address))
        v6_of(address)->sin6_port = htons(port);
}

void kin__address_map(struct kin__sockaddr *address, int family)
{
    const struct sockaddr_in *v4 = v4_of(address);
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (!v4 || family != AF_INET6)
        return;
    v6.sin6_port = v4->sin_port;
    v6.sin6_addr.s6_addr[10] = v6.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&v6.sin6_addr.s6_addr[12], &v4->sin_addr, 4);
    address->size = sizeof(v6);
    memcpy(address->bytes, &v6, sizeof(v6));
}

uint16_t kin__host_at(uint16_t from, const struct kin__sockaddr *address)
{
    const struct sockaddr_in *v4 = v4_of(address);
    if (address->family == AF_UNIX || kin__address_is_any(address) || is_loopback(address))
        return from;
    uint32_t host = v4 ? ntohl(v4->sin_addr.s_addr) - FIRST_V4 : UINT32_MAX;
    return host < count ? (uint16_t)host : KIN__NO_HOST;
}

void kin__host_source(uint16_t from, const struct kin__sockaddr *to, struct kin__sockaddr *out)
{
    *out = *to;
    if (v4_of(out) && !is_loopback(to))
        v4_of(out)->sin_addr.s_addr = htonl(FIRST_V4 + from);
}

/* ---- links ---- */

bool kin__link_is_cut(uint16_t from, uint16_t to)
{
    return links[from][to].is_cut;
}

int64_t kin__link_latency(uint16_t from, uint16_t to)
{
    return links[from][to].latency;
}

static void barrier(void)
{
    struct kin__world *w = &kin__world;
    if (w->engine && !w->is_closed)
        kin__engine_barrier(w->engine);
}

static void set_cut(struct link *link, int64_t is_cut)
{
    kin__timer_disarm(&link->heal); /* whoever changes it last decides */
    link->is_cut = is_cut != 0;
}

static void set_both(uint16_t a, uint16_t b, bool is_cut)
{
    barrier();
    set_cut(&links[a][b], is_cut);
    set_cut(&links[b][a], is_cut);
}

static void fire_heal(void *object, uint64_t name)
{
    size_t at = (size_t)((struct link *)object - &links[0][0]);
    (void)name;
    kin__record(KIN__NOTE_NOBODY, KIN__NOTE_FAULT, KIN__NOTE_NOBODY, NULL, "end of the partition");
    set_both((uint16_t)(at / KIN__HOSTS_MAX), (uint16_t)(at % KIN__HOSTS_MAX), false);
    kin__net_healed();
}

void kin__link_hinder(uint16_t from, uint16_t to)
{
    struct link *link = &links[from][to];
    if (from == to || link->is_cut || !kin__lab_fault_happens(KIN_FAULT_NET, "partition"))
        return;
    set_both(from, to, true);
    bool is_brief = kin__lab_choose(KIN__CHOICE_NET, 2, "how brief") != 0;
    kin__sim_arm(&link->heal, fire_heal, link, is_brief ? BRIEF_NS : LONG_NS);
}

/* ---- names ---- */

static uint16_t named(const char *name)
{
    size_t size = strlen(name);
    if (size && name[size - 1] == '.')
        size--;
    for (unsigned i = 0; i < count; i++) {
        if (strlen(names[i]) == size && memcmp(names[i], name, size) == 0)
            return (uint16_t)i;
    }
    return KIN__NO_HOST;
}

int kin__lab_lookup(const char *name, uint8_t v4[4])
{
    if (kin__lab_fault_happens(KIN_FAULT_NET, "no name server"))
        return -EPROTO;
    uint16_t host = named(name);
    if (host == KIN__NO_HOST)
        return KIN_NOPROC;
    uint32_t address = htonl(FIRST_V4 + host);
    memcpy(v4, &address, sizeof(address));
    return 0;
}

/* ---- the public face ---- */

static bool is_name(const char *name)
{
    static const char fits[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    return name && *name && strlen(name) < NAME_BYTES && name[strspn(name, fits)] == '\0';
}

int kin_lab_host(const char *name)
{
    if (!is_name(name))
        return -EINVAL;
    if (!kin__world.is_running)
        return KIN_UNSUPPORTED;
    if (named(name) != KIN__NO_HOST)
        return -EEXIST;
    if (count == KIN__HOSTS_MAX)
        return -ENOSPC;
    barrier();
    memcpy(names[count++], name, strlen(name) + 1);
    return 0;
}

int kin_lab_move(const char *name)
{
    struct kin__world *w = &kin__world;
    uint16_t host = name ? named(name) : KIN__NO_HOST;
    if (!w->is_running || w->current >= w->player_count)
        return KIN_UNSUPPORTED;
    if (host == KIN__NO_HOST)
        return KIN_NOPROC;
    w->players[w->current].host = host;
    return 0;
}

/* Changes what lies between one machine and another, or all others. */
static int change(const char *a, const char *b, void (*how)(struct link *link, int64_t value),
                  int64_t value)
{
    uint16_t from = a ? named(a) : KIN__NO_HOST, to = b ? named(b) : KIN__NO_HOST;
    if (!kin__world.is_running)
        return KIN_UNSUPPORTED;
    if (from == KIN__NO_HOST || (b && to == KIN__NO_HOST))
        return KIN_NOPROC;
    barrier();
    for (uint16_t i = 0; i < count; i++) {
        if (b ? i != to : i == from)
            continue;
        how(&links[from][i], value);
        how(&links[i][from], value);
    }
    return 0;
}

static void set_latency(struct link *link, int64_t ns)
{
    link->latency = ns;
}

int kin_lab_partition(const char *a, const char *b, bool is_cut)
{
    int rc = change(a, b, set_cut, is_cut);
    if (rc == 0 && !is_cut)
        kin__net_healed();
    return rc;
}

int kin_lab_latency(const char *a, const char *b, int64_t ns)
{
    return ns < 0 ? -EINVAL : change(a, b, set_latency, ns);
}
