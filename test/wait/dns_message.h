/* SPDX-License-Identifier: MIT */
/*
 * Messages of name servers, put together by hand: right ones, and wrong ones.
 */
#ifndef KIN_TEST_DNS_MESSAGE_H
#define KIN_TEST_DNS_MESSAGE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_SOA = 6, TYPE_TXT = 16, TYPE_AAAA = 28 };

struct message {
    size_t size;
    uint8_t bytes[65535];
};

__attribute__((unused)) static void put_bytes(struct message *m, const void *bytes, size_t size)
{
    if (size > sizeof m->bytes - m->size)
        size = sizeof m->bytes - m->size;
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

__attribute__((unused)) static void put_u16(struct message *m, unsigned value)
{
    uint8_t bytes[2] = {(uint8_t)(value >> 8), (uint8_t)value};
    put_bytes(m, bytes, 2);
}

__attribute__((unused)) static void put_u32(struct message *m, uint32_t value)
{
    put_u16(m, value >> 16);
    put_u16(m, value & 0xffff);
}

__attribute__((unused)) static void set_u16(struct message *m, size_t at, unsigned value)
{
    m->bytes[at] = (uint8_t)(value >> 8);
    m->bytes[at + 1] = (uint8_t)value;
}

__attribute__((unused)) static unsigned get_u16(const struct message *m, size_t at)
{
    return (unsigned)m->bytes[at] << 8 | m->bytes[at + 1];
}

/* A name, spelt out. */
__attribute__((unused)) static void put_name(struct message *m, const char *name)
{
    while (*name) {
        size_t size = strcspn(name, ".");
        uint8_t length = (uint8_t)size;
        put_bytes(m, &length, 1);
        put_bytes(m, name, size);
        name += size;
        name += *name == '.';
    }
    put_bytes(m, "", 1);
}

/* Header and question; flags as on the wire, without the bit that makes it an answer. */
__attribute__((unused)) static void put_head(struct message *m, unsigned id, unsigned flags,
                                             const char *name, unsigned type)
{
    m->size = 0;
    put_u16(m, id);
    put_u16(m, 0x8000 | flags);
    put_u16(m, 1);
    put_u16(m, 0);
    put_u16(m, 0);
    put_u16(m, 0);
    put_name(m, name);
    put_u16(m, type);
    put_u16(m, 1);
}

/* A record whose owner is a name or, when that is NULL, the one of the question. */
__attribute__((unused)) static void put_record(struct message *m, const char *owner, unsigned type,
                                               uint32_t ttl, const void *bytes, size_t size)
{
    if (owner)
        put_name(m, owner);
    else
        put_u16(m, 0xc00c);
    put_u16(m, type);
    put_u16(m, 1);
    put_u32(m, ttl);
    put_u16(m, (unsigned)size);
    put_bytes(m, bytes, size);
}

/* The same in the section of answers, which must be the last one so far. */
__attribute__((unused)) static void put_answer(struct message *m, const char *owner, unsigned type,
                                               uint32_t ttl, const void *bytes, size_t size)
{
    set_u16(m, 6, get_u16(m, 6) + 1);
    put_record(m, owner, type, ttl, bytes, size);
}

__attribute__((unused)) static void put_alias(struct message *m, const char *owner, uint32_t ttl,
                                              const char *target)
{
    static _Thread_local struct message name; /* too large for the stack of a task */
    name.size = 0;
    put_name(&name, target);
    put_answer(m, owner, TYPE_CNAME, ttl, name.bytes, name.size);
}

/* What says for how long something does not exist. */
__attribute__((unused)) static void put_absence(struct message *m, uint32_t ttl, uint32_t minimum)
{
    static _Thread_local struct message zone; /* as above */
    zone.size = 0;
    put_name(&zone, "ns.test");
    put_name(&zone, "admin.test");
    for (uint32_t i = 0; i < 4; i++)
        put_u32(&zone, i);
    put_u32(&zone, minimum);
    set_u16(m, 8, get_u16(m, 8) + 1);
    put_record(m, "test", TYPE_SOA, ttl, zone.bytes, zone.size);
}

#endif
