/* SPDX-License-Identifier: MIT */
/*
 * Addresses as text, taken apart and put together.
 */
#define _GNU_SOURCE 1
#include "wait/address.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* A number of up to five digits. */
static int read_port(const char *text, uint16_t *out)
{
    uint32_t port = 0;
    unsigned digits = 0;
    for (; *text >= '0' && *text <= '9' && digits < 5; text++, digits++)
        port = port * 10 + (uint32_t)(*text - '0');
    if (*text || digits == 0 || port > UINT16_MAX)
        return -EINVAL;
    *out = (uint16_t)port;
    return 0;
}

int kin__address_split(const char *text, struct kin__hostport *out)
{
    const char *host = text, *end, *port;
    if (!text)
        return -EINVAL;
    if (*text == '[') {
        host = text + 1;
        end = strchr(host, ']');
        if (!end || end[1] != ':' || !memchr(host, ':', (size_t)(end - host)))
            return -EINVAL;
        port = end + 2;
    } else {
        end = strrchr(text, ':');
        if (!end || memchr(text, ':', (size_t)(end - text))) /* v6 needs its brackets */
            return -EINVAL;
        port = end + 1;
    }
    size_t size = (size_t)(end - host);
    if (size >= sizeof(out->host))
        return -EINVAL;
    memcpy(out->host, host, size);
    out->host[size] = '\0';
    return read_port(port, &out->port);
}

static void fill(struct kin__sockaddr *out, const void *address, size_t size)
{
    memset(out, 0, sizeof(*out));
    out->size = (uint32_t)size;
    memcpy(out->bytes, address, size);
}

static void fill_v4(struct kin__sockaddr *out, struct in_addr host, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};
    fill(out, &v4, sizeof(v4));
}

/* "fe80::1%eth0": the part behind the % is the link. */
static bool read_v6(const char *text, struct sockaddr_in6 *out)
{
    char host[KIN__HOST_BYTES];
    const char *zone = strchr(text, '%');
    size_t size = zone ? (size_t)(zone - text) : strlen(text);
    memcpy(host, text, size);
    host[size] = '\0';
    if (inet_pton(AF_INET6, host, &out->sin6_addr) != 1)
        return false;
    out->sin6_scope_id = zone ? if_nametoindex(zone + 1) : 0;
    return !zone || out->sin6_scope_id != 0;
}

/* Whether it stands for an IPv4 address: so a listener for both kinds sees its IPv4 peers. */
static bool is_mapped(const struct sockaddr_in6 *v6, struct in_addr *out)
{
    if (!IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        return false;
    memcpy(out, &v6->sin6_addr.s6_addr[12], sizeof(*out));
    return true;
}

bool kin__address_numeric(const struct kin__hostport *from, struct kin__sockaddr *out)
{
    struct in_addr v4;
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
    bool is_v4 = inet_pton(AF_INET, from->host, &v4) == 1;
    if (!is_v4 && !read_v6(from->host, &v6))
        return false;
    if (is_v4 || is_mapped(&v6, &v4))
        fill_v4(out, v4, from->port);
    else
        fill(out, &v6, sizeof(v6));
    return true;
}

unsigned kin__address_hostless(const struct kin__hostport *from, bool is_passive,
                               struct kin__sockaddr *out, unsigned cap)
{
    struct in_addr v4 = {htonl(is_passive ? INADDR_ANY : INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(from->port),
                              .sin6_addr = is_passive ? in6addr_any : in6addr_loopback};
    struct kin__sockaddr both[2];
    unsigned count = cap < 2 ? cap : 2;
    bool is_any = !is_passive && strcmp(from->host, "::") == 0;
    if (from->host[0] && strcmp(from->host, "*") != 0 && !is_any)
        return 0;
    bool is_v6_first = is_passive || is_any;
    fill_v4(&both[is_v6_first], v4, from->port);
    fill(&both[!is_v6_first], &v6, sizeof(v6));
    memcpy(out, both, count * sizeof(both[0]));
    return count;
}

int kin__address_unix(const char *path, struct kin__sockaddr *out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (!path)
        return -EINVAL;
    if (strncmp(path, "unix:", 5) == 0)
        path += 5;
    size_t size = strlen(path);
    bool is_abstract = path[0] == '@';
    if (size == is_abstract)
        return -EINVAL;
    if (size > sizeof(un.sun_path)) /* the system needs no zero behind it */
        return -ENAMETOOLONG;
    memcpy(un.sun_path, path, size);
    if (is_abstract)
        un.sun_path[0] = '\0';
    fill(out, &un, offsetof(struct sockaddr_un, sun_path) + size);
    return 0;
}

static void put_v4(struct kin__text *text, const struct in_addr *host, uint16_t port)
{
    char memory[INET_ADDRSTRLEN];
    const char *known = inet_ntop(AF_INET, host, memory, sizeof(memory));
    kin__text_printf(text, "%s:%u", known ? known : "?", (unsigned)ntohs(port));
}

static void put_v6(struct kin__text *text, const struct sockaddr_in6 *v6)
{
    char host[INET6_ADDRSTRLEN], link[IF_NAMESIZE];
    struct in_addr v4;
    if (is_mapped(v6, &v4)) {
        put_v4(text, &v4, v6->sin6_port);
        return;
    }
    kin__text_str(text, "[");
    kin__text_str(text, inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)) ? host : "?");
    if (v6->sin6_scope_id && if_indextoname(v6->sin6_scope_id, link))
        kin__text_printf(text, "%%%s", link);
    kin__text_printf(text, "]:%u", (unsigned)ntohs(v6->sin6_port));
}

static void put_unix(struct kin__text *text, const struct sockaddr_un *un, uint32_t size)
{
    char path[sizeof(un->sun_path) + 1] = {0};
    size_t head = offsetof(struct sockaddr_un, sun_path);
    size_t length = size > head ? size - head : 0;
    if (length > sizeof(un->sun_path)) /* a path that fills it is counted with the zero behind it */
        length = sizeof(un->sun_path);
    memcpy(path, un->sun_path, length);
    if (length > 0 && path[0] == '\0')
        path[0] = '@';
    kin__text_printf(text, "unix:%s", path);
}

int kin__address_text(const struct kin__sockaddr *address, char *buf, size_t cap)
{
    char memory[160];
    struct kin__text text;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
    kin__text_init(&text, memory, sizeof(memory));
    switch (address->family) {
    case AF_INET:
        memcpy(&v4, address->bytes, sizeof(v4));
        put_v4(&text, &v4.sin_addr, v4.sin_port);
        break;
    case AF_INET6:
        memcpy(&v6, address->bytes, sizeof(v6));
        put_v6(&text, &v6);
        break;
    case AF_UNIX:
        memcpy(&un, address->bytes, sizeof(un));
        put_unix(&text, &un, address->size);
        break;
    default:
        return -EAFNOSUPPORT;
    }
    if (!buf || text.len >= cap)
        return -ENOSPC;
    memcpy(buf, memory, text.len + 1);
    return 0;
}
