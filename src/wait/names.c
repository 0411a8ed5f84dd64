/* SPDX-License-Identifier: MIT */
/*
 * What the machine's own files say about host names.
 *
 * The text of hosts is kept and cut into words in place; a table leads from a name to its lines.
 * Some people have a hundred thousand of them there: whoever looks one up must not walk over all.
 * Reading happens on a thread that may block, so its length harms nobody.
 *
 * What these files say that makes no sense is passed over, as everybody does.
 */
#include "wait/names.h"

#include "plat/file.h"
#include "plat/plat.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define CONF_MAX ((size_t)64 * 1024)
#define HOSTS_MAX ((size_t)16 * 1024 * 1024)
#define PORT 53u
#define TIMEOUT_S 5u
#define TIMEOUT_MAX_S 30u
#define ATTEMPTS 2u
#define ATTEMPTS_MAX 5u
#define NDOTS_MAX 15u
#define NONE UINT32_MAX

/* One name of a line of hosts. */
struct kin__host {
    uint32_t name, address; /* where the words begin in the text */
    uint32_t next;          /* with the same hash, further down in the file; NONE */
};

/* ---- words ---- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Cuts the next line out of *text: without its comment. NULL at the end. */
static char *next_line(char **text, const char *comments)
{
    char *line = *text;
    if (!line || !*line)
        return NULL;
    char *end = line + strcspn(line, "\n");
    *text = *end ? end + 1 : end;
    *end = '\0';
    line[strcspn(line, comments)] = '\0';
    return line;
}

/* Cuts the next word out of *line, in lower case. NULL: there is none. */
static char *next_word(char **line)
{
    char *word = *line;
    while (is_blank(*word)) /* ends: the line does */
        word++;
    char *end = word;
    for (; *end && !is_blank(*end); end++) {
        if (*end >= 'A' && *end <= 'Z')
            *end = (char)(*end + ('a' - 'A'));
    }
    *line = *end ? end + 1 : end;
    *end = '\0';
    return *word ? word : NULL;
}

/* A decimal number, or max when it is larger; 0 when there is none. */
static unsigned read_number(const char *text, unsigned max)
{
    unsigned value = 0;
    for (; *text >= '0' && *text <= '9' && value <= max; text++)
        value = value * 10 + (unsigned)(*text - '0');
    return value < max ? value : max;
}

/* ---- resolv.conf ---- */

/* An address, or one with its port: "127.0.0.1#5353". */
static void add_server(struct kin__names *names, char *word)
{
    struct kin__hostport from = {.port = PORT};
    size_t size = strcspn(word, "#");
    if (word[size]) {
        const char *port = word + size + 1;
        if (port[strspn(port, "0123456789")])
            return;
        from.port = (uint16_t)read_number(port, UINT16_MAX);
        word[size] = '\0';
    }
    if (size == 0 || size >= sizeof(from.host) || from.port == 0 ||
        names->server_count == KIN__NAMES_SERVERS)
        return;
    memcpy(from.host, word, size + 1);
    if (kin__address_numeric(&from, &names->servers[names->server_count]))
        names->server_count++;
}

/* The last list in the file counts. */
static void read_search(struct kin__names *names, char *line)
{
    char *word;
    names->search_count = 0;
    while ((word = next_word(&line))) { /* ends: the line does */
        size_t size = strlen(word);
        if (*word == '#') /* what follows is a comment */
            break;
        if (word[size - 1] == '.')
            word[--size] = '\0';
        if (size >= KIN__DNS_TEXT || names->search_count == KIN__NAMES_SEARCH ||
            !kin__dns_is_name(word))
            continue;
        memcpy(names->search[names->search_count++], word, size + 1);
    }
}

/* The options that are there or not. */
static void read_flag(struct kin__names *names, const char *word)
{
    const struct {
        const char *word;
        bool *flag;
    } flags[] = {{"rotate", &names->rotates},          {"use-vc", &names->by_stream},
                 {"no-aaaa", &names->skips_v6},        {"single-request", &names->in_turn},
                 {"no-tld-query", &names->skips_bare}, {"edns0", &names->has_edns}};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (strcmp(word, flags[i].word) == 0)
            *flags[i].flag = true;
    }
}

static void read_options(struct kin__names *names, char *line)
{
    char *word;
    while ((word = next_word(&line))) { /* ends: the line does */
        if (strncmp(word, "ndots:", 6) == 0)
            names->ndots = read_number(word + 6, NDOTS_MAX);
        else if (strncmp(word, "timeout:", 8) == 0)
            names->timeout_s = read_number(word + 8, TIMEOUT_MAX_S);
        else if (strncmp(word, "attempts:", 9) == 0)
            names->attempts = read_number(word + 9, ATTEMPTS_MAX);
        else
            read_flag(names, word);
    }
    if (names->timeout_s == 0)
        names->timeout_s = 1;
    if (names->attempts == 0)
        names->attempts = 1;
}

void kin__names_read_conf(struct kin__names *names, char *text)
{
    char *line, *word;
    names->ndots = 1;
    names->timeout_s = TIMEOUT_S;
    names->attempts = ATTEMPTS;
    while ((line = next_line(&text, ";"))) { /* ends: the file does */
        if (*line == '#' || !(word = next_word(&line)))
            continue;
        if (strcmp(word, "nameserver") == 0 && (word = next_word(&line)))
            add_server(names, word);
        else if (word && (strcmp(word, "search") == 0 || strcmp(word, "domain") == 0))
            read_search(names, line);
        else if (word && strcmp(word, "options") == 0)
            read_options(names, line);
    }
    if (names->server_count == 0) { /* as everybody does: one on this machine */
        struct kin__hostport here = {.host = "127.0.0.1", .port = PORT};
        names->server_count = kin__address_numeric(&here, &names->servers[0]);
    }
}

/* ---- hosts ---- */

/* How many words a text has at most. */
static uint32_t count_words(const char *text)
{
    uint32_t count = 0;
    for (bool is_in = false; *text; text++) {
        bool is_word = !is_blank(*text) && *text != '\n';
        count += is_word && !is_in;
        is_in = is_word;
    }
    return count;
}

static void cut_lines(struct kin__names *names)
{
    char *text = names->hosts;
    char *line, *word;
    while ((line = next_line(&text, "#"))) { /* ends: the file does */
        char *address = next_word(&line);
        while (address && (word = next_word(&line))) { /* ends: the line does */
            struct kin__host *host = &names->lines[names->line_count++];
            host->name = (uint32_t)(word - names->hosts);
            host->address = (uint32_t)(address - names->hosts);
        }
    }
}

static uint32_t *head_of(const struct kin__names *names, const char *name)
{
    uint64_t hash = kin__hash_bytes(names->key, name, strlen(name));
    return &names->heads[(uint32_t)hash & names->head_mask];
}

int kin__names_read_hosts(struct kin__names *names, char *text)
{
    uint32_t words = count_words(text), heads = 16;
    while (heads < words) /* ends: it doubles, and a text has not so many words */
        heads *= 2;
    names->hosts = text;
    names->key = (struct kin__hash_key){kin__plat_entropy(), kin__plat_entropy()};
    names->lines = kin__heap_alloc(words * sizeof(*names->lines));
    names->heads = kin__heap_alloc(heads * sizeof(*names->heads));
    if (!names->lines || !names->heads)
        return -ENOMEM;
    names->head_mask = heads - 1;
    cut_lines(names);
    for (uint32_t i = 0; i < heads; i++)
        names->heads[i] = NONE;
    for (uint32_t i = names->line_count; i-- > 0;) { /* from behind: chains keep the file's order */
        uint32_t *head = head_of(names, names->hosts + names->lines[i].name);
        names->lines[i].next = *head;
        *head = i;
    }
    return 0;
}

unsigned kin__names_host(const struct kin__names *names, const char *name, uint16_t port,
                         struct kin__sockaddr *out, unsigned cap)
{
    unsigned count = 0;
    if (names->line_count == 0)
        return 0;
    for (uint32_t i = *head_of(names, name); i != NONE && count < cap; i = names->lines[i].next) {
        /* ends: chains lead down in the file */
        struct kin__hostport from = {.port = port};
        const char *address = names->hosts + names->lines[i].address;
        size_t size = strlen(address);
        if (strcmp(names->hosts + names->lines[i].name, name) != 0 || size >= sizeof(from.host))
            continue;
        memcpy(from.host, address, size + 1);
        count += kin__address_numeric(&from, &out[count]);
    }
    return count;
}

/* ---- the search list ---- */

static unsigned count_dots(const char *name)
{
    unsigned dots = 0;
    for (; *name; name++)
        dots += *name == '.';
    return dots;
}

bool kin__names_candidate(const struct kin__names *names, const char *name, unsigned i,
                          char out[KIN__DNS_TEXT])
{
    size_t size = strlen(name);
    bool is_full = size && name[size - 1] == '.'; /* "here.": nothing is to be added */
    unsigned dots = count_dots(name);
    bool is_asked = dots > 0 || !names->skips_bare; /* as it is */
    bool is_first = is_asked && dots >= names->ndots;
    unsigned search_count = is_full ? 0 : names->search_count;
    if (i >= search_count + is_asked)
        return false;
    size -= is_full;
    memcpy(out, name, size);
    out[size] = '\0';
    if (is_asked && i == (is_first ? 0 : search_count))
        return true;
    const char *domain = names->search[i - is_first];
    size_t more = strlen(domain);
    if (size + 1 + more < KIN__DNS_TEXT) { /* else the name alone, once more: it is harmless */
        out[size] = '.';
        memcpy(out + size + 1, domain, more + 1);
    }
    return true;
}

/* ---- files ---- */

/* What tells one state of a file from another; all zero: it is not there. */
static void take_stamp(const char *path, uint64_t stamp[4])
{
    struct stat is;
    memset(stamp, 0, 4 * sizeof(*stamp));
    if (kin__file_stat(path, -1, &is) < 0)
        return;
    stamp[0] = (uint64_t)is.st_ino ^ (uint64_t)is.st_dev << 32;
    stamp[1] = (uint64_t)is.st_size;
    stamp[2] = (uint64_t)is.st_mtim.tv_sec * 1000000000u + (uint64_t)is.st_mtim.tv_nsec;
    stamp[3] = (uint64_t)is.st_ctim.tv_sec * 1000000000u + (uint64_t)is.st_ctim.tv_nsec;
}

/* The text of a file; an empty one when it cannot be read; NULL without memory. */
static char *load(const char *path, size_t max)
{
    char *text = NULL;
    size_t size;
    int rc = kin__file_load(path, max, &text, &size);
    return rc == 0 ? text : rc == -ENOMEM ? NULL : kin__heap_alloc(1);
}

/* Reads a text that is not to be cut, if there is one. */
static int read_copy(struct kin__names *names, void (*read)(struct kin__names *names, char *line),
                     const char *text)
{
    if (!text)
        return 0;
    size_t size = strlen(text) + 1;
    char *copy = kin__heap_alloc(size);
    if (!copy)
        return -ENOMEM;
    memcpy(copy, text, size);
    read(names, copy);
    kin__heap_free(copy);
    return 0;
}

static int load_all(struct kin__names *names, const struct kin__names_files *files)
{
    char *conf = load(files->conf, CONF_MAX);
    if (!conf)
        return -ENOMEM;
    kin__names_read_conf(names, conf);
    kin__heap_free(conf);
    if (read_copy(names, read_search, files->search) < 0 ||
        read_copy(names, read_options, files->options) < 0)
        return -ENOMEM;
    char *hosts = load(files->hosts, HOSTS_MAX);
    return hosts ? kin__names_read_hosts(names, hosts) : -ENOMEM;
}

int kin__names_load(const struct kin__names_files *files, const struct kin__names *before,
                    struct kin__names **out)
{
    uint64_t stamps[2][4];
    /* before they are read: a change in between is seen the next time */
    take_stamp(files->conf, stamps[0]);
    take_stamp(files->hosts, stamps[1]);
    *out = NULL;
    if (before && memcmp(stamps, before->stamps, sizeof(stamps)) == 0)
        return 0;
    struct kin__names *names = kin__heap_alloc(sizeof(*names));
    if (!names)
        return -ENOMEM;
    memcpy(names->stamps, stamps, sizeof(stamps));
    int rc = load_all(names, files);
    if (rc < 0)
        kin__names_destroy(names);
    else
        *out = names;
    return rc;
}

void kin__names_destroy(struct kin__names *names)
{
    if (!names)
        return;
    kin__heap_free(names->hosts);
    kin__heap_free(names->lines);
    kin__heap_free(names->heads);
    kin__heap_free(names);
}
