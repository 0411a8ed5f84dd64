/* SPDX-License-Identifier: MIT */
/*
 * Answers of name servers, for as long as they hold.
 *
 * A table of sets with four places each; who comes into a full set takes the place of what ends
 * first. So it is bounded without a list of who was used when, and a lookup is four comparisons.
 * Entries are made and freed outside of the lock. The key of the hash is secret: names come from
 * outside, and somebody might choose them to fall into one set.
 */
#include "wait/namecache.h"

#include "base/hash.h"
#include "base/lock.h"
#include "plat/plat.h"

#include <string.h>

#define SETS 128u /* a power of two */
#define WAYS 4u
#define SECOND_NS INT64_C(1000000000)

struct entry {
    kin_time until;
    enum kin__dns_type type;
    enum kin__dns_verdict verdict;
    unsigned count;
    uint8_t (*addresses)[16]; /* behind the struct */
    char *name;               /* behind those */
};

static struct kin__lock lock; /* rank WAIT; the rest */
static struct entry *table[SETS][WAYS];
static struct kin__hash_key key;
static bool has_key;
static bool is_used; /* there may be an entry */

/* The set of a name. */
static struct entry **set_of_locked(const char *name)
{
    if (KIN__UNLIKELY(!has_key)) {
        key = (struct kin__hash_key){kin__plat_entropy(), kin__plat_entropy()};
        has_key = true;
    }
    return table[kin__hash_bytes(key, name, strlen(name)) & (SETS - 1)];
}

static bool is_it(const struct entry *entry, const char *name, enum kin__dns_type type)
{
    return entry && entry->type == type && strcmp(entry->name, name) == 0;
}

enum kin__dns_verdict kin__namecache_get(const char *name, enum kin__dns_type type, kin_time now,
                                         struct kin__dns_answer *answer)
{
    enum kin__dns_verdict verdict = KIN__DNS_STRAY;
    kin__lock_take(&lock, KIN__RANK_WAIT);
    struct entry **set = set_of_locked(name);
    for (unsigned i = 0; i < WAYS; i++) {
        if (!is_it(set[i], name, type) || set[i]->until <= now)
            continue;
        verdict = set[i]->verdict;
        answer->ttl_s = (uint32_t)((set[i]->until - now) / SECOND_NS);
        answer->count = set[i]->count;
        memcpy(answer->addresses, set[i]->addresses, set[i]->count * sizeof(*set[i]->addresses));
        break;
    }
    kin__lock_give(&lock, KIN__RANK_WAIT);
    return verdict;
}

static struct entry *make_entry(const char *name, const struct kin__dns_answer *answer,
                                unsigned count)
{
    size_t name_bytes = strlen(name) + 1;
    size_t bytes = count * sizeof(answer->addresses[0]);
    struct entry *entry = kin__heap_alloc(sizeof(*entry) + bytes + name_bytes);
    if (!entry)
        return NULL;
    entry->addresses = (uint8_t(*)[16])(void *)(entry + 1);
    entry->name = (char *)(entry + 1) + bytes;
    entry->count = count;
    memcpy(entry->addresses, answer->addresses, bytes);
    memcpy(entry->name, name, name_bytes);
    return entry;
}

/* The place for an entry: its predecessor's, an empty one, or that of what ends first. */
static struct entry **place_locked(const char *name, enum kin__dns_type type)
{
    struct entry **set = set_of_locked(name);
    struct entry **place = &set[0];
    for (unsigned i = 0; i < WAYS; i++) {
        if (is_it(set[i], name, type))
            return &set[i];
        if (*place && (!set[i] || set[i]->until < (*place)->until))
            place = &set[i];
    }
    return place;
}

void kin__namecache_put(const char *name, enum kin__dns_type type, enum kin__dns_verdict verdict,
                        const struct kin__dns_answer *answer, kin_time now)
{
    if (answer->ttl_s == 0 || verdict < KIN__DNS_FOUND)
        return;
    struct entry *entry = make_entry(name, answer, verdict == KIN__DNS_FOUND ? answer->count : 0);
    if (!entry)
        return;
    entry->type = type;
    entry->verdict = verdict;
    entry->until = now + (int64_t)answer->ttl_s * SECOND_NS;
    kin__lock_take(&lock, KIN__RANK_WAIT);
    struct entry **place = place_locked(name, type);
    struct entry *before = *place;
    *place = entry;
    is_used = true;
    kin__lock_give(&lock, KIN__RANK_WAIT);
    kin__heap_free(before);
}

void kin__namecache_clear(void)
{
    kin__lock_take(&lock, KIN__RANK_WAIT);
    bool was_used = is_used;
    is_used = false;
    kin__lock_give(&lock, KIN__RANK_WAIT);
    if (!was_used)
        return; /* most programs look up no name, and some run one runtime after the other */
    for (unsigned i = 0; i < SETS * WAYS; i++) {
        kin__lock_take(&lock, KIN__RANK_WAIT);
        struct entry *entry = table[i / WAYS][i % WAYS];
        table[i / WAYS][i % WAYS] = NULL;
        kin__lock_give(&lock, KIN__RANK_WAIT);
        kin__heap_free(entry);
    }
}
