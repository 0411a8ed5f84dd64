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
        if (!end || end[1] != ':')
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

static void fill_v4(struct kin__sockaddr *out, struct in_addr host, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};
    out->size = sizeof(v4);
    memcpy(out->bytes, &v4, sizeof(v4));
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

bool kin__address_numeric(const struct kin__hostport *from, bool is_passive,
                          struct kin__sockaddr *out)
{
    struct in_addr v4 = {htonl(is_passive ? INADDR_ANY : INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(from->port)};
    memset(out, 0, sizeof(*out));
    if (from->host[0] == '\0' || strcmp(from->host, "*") == 0 ||
        inet_pton(AF_INET, from->host, &v4) == 1) {
        fill_v4(out, v4, from->port);
        return true;
    }
    if (!read_v6(from->host, &v6))
        return false;
    out->size = sizeof(v6);
    memcpy(out->bytes, &v6, sizeof(v6));
    return true;
}

int kin__address_unix(const char *path, struct kin__sockaddr *out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (!path)
        return -EINVAL;
    if (strncmp(path, "unix:", 5) == 0)
        path += 5;
    size_t size = strlen(path);
    if (size == 0)
        return -EINVAL;
    if (size >= sizeof(un.sun_path))
        return -ENAMETOOLONG;
    memcpy(un.sun_path, path, size);
    bool is_abstract = path[0] == '@';
    if (is_abstract)
        un.sun_path[0] = '\0';
    memset(out, 0, sizeof(*out));
    out->size = (uint32_t)(offsetof(struct sockaddr_un, sun_path) + size + !is_abstract);
    memcpy(out->bytes, &un, sizeof(un));
    return 0;
}

static void put_v6(struct kin__text *text, const struct sockaddr_in6 *v6)
{
    char host[INET6_ADDRSTRLEN], link[IF_NAMESIZE];
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
    memcpy(path, un->sun_path, size > head ? size - head : 0);
    if (size > head && path[0] == '\0')
        path[0] = '@';
    kin__text_printf(text, "unix:%s", path);
}

int kin__address_text(const struct kin__sockaddr *address, char *buf, size_t cap)
{
    char memory[160], host[INET_ADDRSTRLEN];
    struct kin__text text;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
    kin__text_init(&text, memory, sizeof(memory));
    switch (address->family) {
    case AF_INET:
        memcpy(&v4, address->bytes, sizeof(v4));
        kin__text_printf(&text, "%s:%u",
                         inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host)) ? host : "?",
                         (unsigned)ntohs(v4.sin_port));
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
