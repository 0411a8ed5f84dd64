/* SPDX-License-Identifier: MIT */
/*
 * A fuzzer's bytes decide: each choice among several takes one byte, or as many as n needs.
 *
 * Where there is nothing to choose no byte is taken, so that a byte more or less at one place
 * moves as little as possible of the rest. Behind the last byte whoever runs goes on, every choice
 * is its first, and there are no faults.
 */
#include "lab/state.h"

static void bytes_begin(struct kin__lab *s)
{
    s->byte_at = 0;
}

/* Less than n; false: there are no more bytes. n: 0 is 2^32. */
static bool take(struct kin__lab *s, uint32_t n, uint32_t *out)
{
    const uint32_t most = n - 1; /* of n = 0 the greatest */
    uint64_t value = 0;

    for (uint64_t room = most; room; room >>= 8) {
        if (s->byte_at == s->config.bytes_count)
            return false;
        value = value << 8 | s->config.bytes[s->byte_at++];
    }
    *out = (uint32_t)(value % ((uint64_t)most + 1));
    return true;
}

static unsigned bytes_pick(struct kin__lab *s, const struct kin__menu *menu)
{
    uint32_t k = 0;

    return take(s, menu->count, &k) ? menu->enabled[k] : kin__lazy_pick(s, menu);
}

static uint32_t bytes_choose(struct kin__lab *s, enum kin__choice kind, uint32_t n,
                             const char *label)
{
    uint32_t answer = 0;

    (void)kind;
    (void)label;
    (void)take(s, n, &answer);
    return answer;
}

const struct kin__plan kin__plan_bytes = {
    .name = "bytes", .begin = bytes_begin, .pick = bytes_pick, .choose = bytes_choose};
