/* SPDX-License-Identifier: MIT */
/*
 * The wire format of the domain name system, as far as addresses need it.
 *
 *     header: id, flags, four counts | question | answers | authority | more
 *     name:   length label ... 0, or a pointer to where the rest of it stands
 *
 * Names are compared as they are on the wire, spelt out and in lower case: as text, a label with a
 * dot inside would be the same as two labels. A pointer leads back, further than any before it,
 * and there are few of them: so no name is endless. An alias leads to a name whose records are in
 * the same message, as every server that resolves for others sends it; after a dozen aliases it is
 * a loop.
 */
#include "wait/dns.h"

#include <string.h>

#define HEAD 12u
#define WIRE_MAX 255u     /* a name on the wire, spelt out */
#define LABEL_MAX 63u
#define POINTERS_MAX 32u
#define ALIASES_MAX 12u
#define RECORDS_MAX 256u  /* looked at in one section */
#define CLASS_IN 1u
#define TYPE_CNAME 5u
#define TYPE_SOA 6u
#define TYPE_OPT 41u
#define EDNS_BYTES 1232u  /* of a datagram: fits into a packet of any network */
#define TTL_MAX_S 86400u
#define TTL_EMPTY_MAX_S 900u
#define TTL_SIGN 0x80000000u

enum { FLAG_ANSWER = 0x8000, MASK_OPCODE = 0x7800, FLAG_CUT = 0x0200, FLAG_RECURSE = 0x0100,
       MASK_CODE = 0x000f };
enum { CODE_FINE = 0, CODE_FORMAT = 1, CODE_NOBODY = 3, CODE_UNKNOWN = 4 };

/* A name on the wire, spelt out, in lower case. */
struct wire {
    size_t size;
    uint8_t bytes[WIRE_MAX];
};

struct message {
    const uint8_t *bytes;
    size_t size;
};

/* One record; data points into the message. */
struct record {
    struct wire owner;
    uint32_t type, ttl_s;
    size_t data, data_size;
};

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at) << 16 | get16(at + 2);
}

static void put16(uint8_t *at, uint32_t value)
{
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + ('a' - 'A')) : c;
}

/* ---- names ---- */

/* Text to wire. False: it is no name. */
static bool encode(const char *text, struct wire *out)
{
    const uint8_t *at = (const uint8_t *)text;
    out->size = 0;
    while (*at) { /* ends: one label fewer each time */
        size_t size = 0;
        while (at[size] && at[size] != '.' && size <= LABEL_MAX) { /* ends: at size */
            if (at[size] <= ' ' || at[size] >= 0x7f)
                return false;
            size++;
        }
        if (size == 0 || size > LABEL_MAX || out->size + size + 2 > WIRE_MAX)
            return false;
        out->bytes[out->size++] = (uint8_t)size;
        for (size_t i = 0; i < size; i++)
            out->bytes[out->size++] = lower(at[i]);
        at += size;
        if (*at == '.')
            at++;
    }
    if (out->size == 0)
        return false;
    out->bytes[out->size++] = 0;
    return true;
}

bool kin__dns_is_name(const char *text)
{
    struct wire name;
    return encode(text, &name);
}

/* Reads the name at *at and moves *at behind it. False: there is none. */
static bool read_name(const struct message *message, size_t *at, struct wire *out)
{
    size_t from = *at, earliest = *at;
    unsigned pointers = 0;
    out->size = 0;
    for (;;) { /* ends: the name gets longer, or a pointer is followed, of which there are few */
        if (from >= message->size)
            return false;
        uint8_t size = message->bytes[from];
        if ((size & 0xc0) == 0xc0) {
            if (from + 1 >= message->size || ++pointers > POINTERS_MAX)
                return false;
            if (pointers == 1)
                *at = from + 2;
            from = get16(message->bytes + from) & 0x3fff;
            if (from >= earliest)
                return false;
            earliest = from;
            continue;
        }
        if (size > LABEL_MAX || out->size + size + 1 > WIRE_MAX ||
            message->size - from < (size_t)size + 1)
            return false;
        out->bytes[out->size++] = size;
        for (size_t i = 1; i <= size; i++)
            out->bytes[out->size++] = lower(message->bytes[from + i]);
        from += (size_t)size + 1;
        if (size == 0)
            break;
    }
    if (pointers == 0)
        *at = from;
    return true;
}

static bool is_same(const struct wire *a, const struct wire *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/* ---- questions ---- */

size_t kin__dns_build(const struct kin__dns_question *question, uint8_t *out)
{
    struct wire name;
    if (!encode(question->name, &name))
        return 0;
    memset(out, 0, HEAD);
    put16(out, question->id);
    put16(out + 2, FLAG_RECURSE);
    put16(out + 4, 1); /* one question */
    memcpy(out + HEAD, name.bytes, name.size);
    put16(out + HEAD + name.size, (uint32_t)question->type);
    put16(out + HEAD + name.size + 2, CLASS_IN);
    size_t size = HEAD + name.size + 4;
    if (!question->has_edns)
        return size;
    /* a record of the root whose class is the longest datagram that can come */
    static const uint8_t edns[] = {0, 0, TYPE_OPT, EDNS_BYTES >> 8, EDNS_BYTES & 0xff, 0, 0, 0,
                                   0, 0, 0};
    put16(out + 10, 1);
    memcpy(out + size, edns, sizeof(edns));
    return size + sizeof(edns);
}

/* ---- answers ---- */

/* Reads the record at *at and moves *at behind it. */
static bool read_record(const struct message *message, size_t *at, struct record *out)
{
    if (!read_name(message, at, &out->owner) || message->size - *at < 10)
        return false;
    const uint8_t *head = message->bytes + *at;
    out->type = get16(head + 2) == CLASS_IN ? get16(head) : 0; /* 0: of no use */
    out->ttl_s = get32(head + 4);
    out->data_size = get16(head + 8);
    out->data = *at + 10;
    if (out->ttl_s & TTL_SIGN)
        out->ttl_s = 0;
    if (message->size - out->data < out->data_size)
        return false;
    *at = out->data + out->data_size;
    return true;
}

static void keep_least(uint32_t *least, uint32_t value)
{
    if (value < *least)
        *least = value;
}

static size_t address_size(enum kin__dns_type type)
{
    return type == KIN__DNS_A ? 4 : 16;
}

/* What one walk over the answers looks for. */
struct search {
    enum kin__dns_type type;
    struct wire name;  /* whose records */
    struct wire alias; /* what it is an alias of */
    bool has_alias;
};

/* Walks over the answers, which begin at *at: takes the addresses of the name, or its alias. */
static bool walk(const struct message *message, size_t *at, unsigned count, struct search *search,
                 struct kin__dns_answer *answer)
{
    struct record record;
    search->has_alias = false;
    for (unsigned i = 0; i < count; i++) {
        if (!read_record(message, at, &record))
            return false;
        if (!is_same(&record.owner, &search->name))
            continue;
        if (record.type == (uint32_t)search->type) {
            if (record.data_size != address_size(search->type))
                return false;
            keep_least(&answer->ttl_s, record.ttl_s);
            if (answer->count < KIN__DNS_ADDRESSES)
                memcpy(answer->addresses[answer->count++], message->bytes + record.data,
                       record.data_size);
        } else if (record.type == TYPE_CNAME && !search->has_alias) {
            size_t target = record.data;
            if (!read_name(message, &target, &search->alias) ||
                target != record.data + record.data_size)
                return false;
            keep_least(&answer->ttl_s, record.ttl_s);
            search->has_alias = true;
        }
    }
    return true;
}

/* How long the absence of something holds: the record of the zone that says so tells (RFC 2308).
 * Without one it is not to be remembered. */
static uint32_t ttl_of_absence(const struct message *message, size_t at, unsigned count)
{
    struct record record;
    for (unsigned i = 0; i < count && read_record(message, &at, &record); i++) {
        if (record.type != TYPE_SOA || record.data_size < 22)
            continue;
        uint32_t ttl = TTL_EMPTY_MAX_S;
        keep_least(&ttl, record.ttl_s);
        keep_least(&ttl, get32(message->bytes + record.data + record.data_size - 4));
        return ttl;
    }
    return 0;
}

static unsigned few(uint32_t count)
{
    return count < RECORDS_MAX ? count : RECORDS_MAX;
}

/* The answers begin at at; the name is the one that was asked for. */
static enum kin__dns_verdict read_answers(const struct message *message, size_t at,
                                          struct search *search, struct kin__dns_answer *answer)
{
    uint32_t total = get16(message->bytes + 6);
    bool is_nobody = (get16(message->bytes + 2) & MASK_CODE) == CODE_NOBODY;
    size_t end = at;
    answer->count = 0;
    answer->ttl_s = TTL_MAX_S;
    for (unsigned aliases = 0; aliases <= ALIASES_MAX; aliases++) {
        end = at;
        if (!walk(message, &end, few(total), search, answer))
            return KIN__DNS_BROKEN;
        if (answer->count && !is_nobody)
            return KIN__DNS_FOUND;
        if (!search->has_alias) {
            /* What follows the answers is found only when all of them were walked over. */
            answer->ttl_s = total > RECORDS_MAX ? 0
                                                : ttl_of_absence(message, end,
                                                                 few(get16(message->bytes + 8)));
            answer->count = 0;
            return is_nobody ? KIN__DNS_NOBODY : KIN__DNS_EMPTY;
        }
        search->name = search->alias;
    }
    return KIN__DNS_BROKEN; /* a loop */
}

/* Whether the message repeats the question; *at is behind it then. */
static bool is_echo(const struct kin__dns_question *question, const struct message *message,
                    size_t *at, struct wire *asked)
{
    struct wire name;
    return get16(message->bytes + 4) == 1 && encode(question->name, asked) &&
           read_name(message, at, &name) && is_same(&name, asked) && message->size - *at >= 4 &&
           get16(message->bytes + *at) == (uint32_t)question->type &&
           get16(message->bytes + *at + 2) == CLASS_IN;
}

enum kin__dns_verdict kin__dns_parse(const struct kin__dns_question *question,
                                     const uint8_t *bytes, size_t size,
                                     struct kin__dns_answer *answer)
{
    struct message message = {bytes, size};
    struct search search = {.type = question->type};
    size_t at = HEAD;
    if (size < HEAD || get16(bytes) != question->id)
        return KIN__DNS_STRAY;
    uint32_t flags = get16(bytes + 2);
    if (!(flags & FLAG_ANSWER) || (flags & MASK_OPCODE))
        return KIN__DNS_STRAY;
    uint32_t code = flags & MASK_CODE;
    bool is_told = code == CODE_FINE || code == CODE_NOBODY;
    bool is_puzzled = question->has_edns && (code == CODE_FORMAT || code == CODE_UNKNOWN);
    enum kin__dns_verdict refusal = is_puzzled ? KIN__DNS_PUZZLED : KIN__DNS_FAILED;
    if (!is_echo(question, &message, &at, &search.name)) /* some repeat nothing when they refuse */
        return !is_told && get16(bytes + 4) == 0 ? refusal : KIN__DNS_STRAY;
    if (!is_told)
        return refusal;
    if (flags & FLAG_CUT)
        return KIN__DNS_CUT;
    return read_answers(&message, at + 4, &search, answer);
}
