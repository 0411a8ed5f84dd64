/* SPDX-License-Identifier: MIT */
/*
 * Addresses as text, taken apart and put together.
 *
 * Two addresses never have the same text: whoever decides by the name of a peer decides about that
 * peer. An abstract Unix name is any bytes, zeros among them; what is no plain character in it, and
 * the backslash, is written as \xHH and read so. A path that begins with @ would look abstract and
 * is written as ./@, which is the same file.
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

#define TEXT_MAX 512 /* more than an abstract name of which every byte is escaped */

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

/* The number of a link, given by its name or, as one that is gone is written, by its number; 0:
 * there is none. */
static uint32_t link_of(const char *text)
{
    uint64_t number = 0;
    unsigned digits = 0;
    uint32_t named = if_nametoindex(text);
    if (named)
        return named;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 10; digits++)
        number = number * 10 + (uint64_t)(text[digits] - '0');
    return text[digits] || number > UINT32_MAX ? 0 : (uint32_t)number;
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
    out->sin6_scope_id = zone ? link_of(zone + 1) : 0;
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

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that \xHH stands for: how many characters that took; 0: it is no escape. */
static size_t read_escape(const char *text, char *out)
{
    if (text[0] != '\\' || text[1] != 'x')
        return 0;
    int high = hex_digit(text[2]);
    int low = high < 0 ? -1 : hex_digit(text[3]);
    if (low < 0)
        return 0;
    *out = (char)(high * 16 + low);
    return 4;
}

int kin__address_unix(const char *path, struct kin__sockaddr *out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    if (!path)
        return -EINVAL;
    if (strncmp(path, "unix:", 5) == 0)
        path += 5;
    bool is_abstract = path[0] == '@';
    size_t size = 0;
    for (size_t used; *path; path += used, size++) {
        if (size == sizeof(un.sun_path)) /* the system needs no zero behind it */
            return -ENAMETOOLONG;
        used = is_abstract ? read_escape(path, &un.sun_path[size]) : 0;
        if (used == 0) {
            un.sun_path[size] = *path;
            used = 1;
        }
    }
    if (size == is_abstract)
        return -EINVAL;
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
    else if (v6->sin6_scope_id) /* the link is gone by now */
        kin__text_printf(text, "%%%u", (unsigned)v6->sin6_scope_id);
    kin__text_printf(text, "]:%u", (unsigned)ntohs(v6->sin6_port));
}

static void put_abstract(struct kin__text *text, const char *name, size_t size)
{
    kin__text_str(text, "@");
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < ' ' || c == 0x7f || c == '\\')
            kin__text_printf(text, "\\x%02x", (unsigned)c);
        else
            kin__text_char(text, name[i]);
    }
}

static void put_unix(struct kin__text *text, const struct sockaddr_un *un, uint32_t size)
{
    size_t head = offsetof(struct sockaddr_un, sun_path);
    size_t length = size > head ? size - head : 0;
    if (length > sizeof(un->sun_path)) /* a path that fills it is counted with the zero behind it */
        length = sizeof(un->sun_path);
    kin__text_str(text, length > 0 && un->sun_path[0] == '@' ? "unix:./" : "unix:");
    if (length > 0 && un->sun_path[0] == '\0')
        put_abstract(text, un->sun_path + 1, length - 1);
    else
        kin__text_mem(text, un->sun_path, strnlen(un->sun_path, length));
}

int kin__address_text(const struct kin__sockaddr *address, char *buf, size_t cap)
{
    char memory[TEXT_MAX];
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
