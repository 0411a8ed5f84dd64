/* SPDX-License-Identifier: MIT */
/*
 * Atomic accesses as instrumented code makes them, for tests that are compiled without.
 */
#ifndef KIN_ATOMS_WORDS_H
#define KIN_ATOMS_WORDS_H

#include "lab/atoms/hooks.h"

#define RELAXED KIN__ORDER_RELAXED
#define ACQUIRE KIN__ORDER_ACQUIRE
#define RELEASE KIN__ORDER_RELEASE
#define ACQ_REL KIN__ORDER_ACQ_REL
#define SEQ KIN__ORDER_SEQ

static inline uint32_t load(const uint32_t *word, int order)
{
    return __tsan_atomic32_load(word, order);
}

static inline void store(uint32_t *word, uint32_t value, int order)
{
    __tsan_atomic32_store(word, value, order);
}

static inline uint32_t add(uint32_t *word, uint32_t value, int order)
{
    return __tsan_atomic32_fetch_add(word, value, order);
}

static inline uint32_t exchange(uint32_t *word, uint32_t value, int order)
{
    return __tsan_atomic32_exchange(word, value, order);
}

static inline bool cas(uint32_t *word, uint32_t expected, uint32_t desired, int order)
{
    return __tsan_atomic32_compare_exchange_strong(word, &expected, desired, order, RELAXED);
}

/* Plain accesses of an int. */
static inline int get(int *plain)
{
    __tsan_read4(plain);
    return *plain;
}

static inline void put(int *plain, int value)
{
    __tsan_write4(plain);
    *plain = value;
}

/* Explores with a strategy and a kind of memory; what came out is in *report. */
static inline int explore(enum kin_atoms_strategy strategy, enum kin_atoms_memory memory,
                          void (*begin)(void *arg), void *arg, struct kin_atoms_report *report)
{
    struct kin_atoms_config config = KIN_ATOMS_CONFIG_INIT;
    config.strategy = strategy;
    config.memory = memory;
    return kin_atoms_run(&config, begin, NULL, arg, report);
}

#endif
