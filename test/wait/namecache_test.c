/* SPDX-License-Identifier: MIT */
/*
 * Goal: answers are kept until they end and not longer, there are never too many, and forgetting
 * is complete.
 * Method: moments are arguments, so no clock is needed.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "wait/namecache.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

static struct kin__dns_answer answer_of(uint32_t ttl, unsigned count)
{
    struct kin__dns_answer answer = {.ttl_s = ttl, .count = count};
    for (unsigned i = 0; i < count; i++)
        memset(answer.addresses[i], (int)(i + 1), 16);
    return answer;
}

KIN_TEST(an_answer_is_kept_as_long_as_it_holds, "")
{
    struct kin__dns_answer in = answer_of(10, 3), out;
    EXPECT_EQ(kin__namecache_get("a.test", KIN__DNS_A, 0, &out), KIN__DNS_STRAY);
    kin__namecache_put("a.test", KIN__DNS_A, KIN__DNS_FOUND, &in, 5 * SECOND);
    EXPECT_EQ(kin__namecache_get("a.test", KIN__DNS_A, 5 * SECOND, &out), KIN__DNS_FOUND);
    EXPECT_EQ(out.count, 3);
    EXPECT_EQ(out.ttl_s, 10);
    EXPECT(memcmp(out.addresses, in.addresses, 3 * 16) == 0);
    EXPECT_EQ(kin__namecache_get("a.test", KIN__DNS_AAAA, 5 * SECOND, &out), KIN__DNS_STRAY);
    EXPECT_EQ(kin__namecache_get("b.test", KIN__DNS_A, 5 * SECOND, &out), KIN__DNS_STRAY);
    EXPECT_EQ(kin__namecache_get("a.test", KIN__DNS_A, 15 * SECOND - 1, &out), KIN__DNS_FOUND);
    EXPECT_EQ(out.ttl_s, 0);
    EXPECT_EQ(kin__namecache_get("a.test", KIN__DNS_A, 15 * SECOND, &out), KIN__DNS_STRAY);
    in = answer_of(10, 1);
    kin__namecache_put("a.test", KIN__DNS_A, KIN__DNS_FOUND, &in, 6 * SECOND); /* a newer one */
    EXPECT_EQ(kin__namecache_get("a.test", KIN__DNS_A, 6 * SECOND, &out), KIN__DNS_FOUND);
    EXPECT_EQ(out.count, 1);
    kin__namecache_clear();
    EXPECT_EQ(kin__namecache_get("a.test", KIN__DNS_A, 6 * SECOND, &out), KIN__DNS_STRAY);
}

KIN_TEST(what_does_not_exist_is_kept_too_and_failures_are_not, "")
{
    struct kin__dns_answer in = answer_of(10, 2), out;
    kin__namecache_put("a", KIN__DNS_A, KIN__DNS_NOBODY, &in, 0);
    kin__namecache_put("b", KIN__DNS_A, KIN__DNS_EMPTY, &in, 0);
    kin__namecache_put("c", KIN__DNS_A, KIN__DNS_FAILED, &in, 0);
    kin__namecache_put("d", KIN__DNS_A, KIN__DNS_STRAY, &in, 0);
    in.ttl_s = 0;
    kin__namecache_put("e", KIN__DNS_A, KIN__DNS_FOUND, &in, 0);
    EXPECT_EQ(kin__namecache_get("a", KIN__DNS_A, 1, &out), KIN__DNS_NOBODY);
    EXPECT_EQ(out.count, 0);
    EXPECT_EQ(kin__namecache_get("b", KIN__DNS_A, 1, &out), KIN__DNS_EMPTY);
    EXPECT_EQ(kin__namecache_get("c", KIN__DNS_A, 1, &out), KIN__DNS_STRAY);
    EXPECT_EQ(kin__namecache_get("d", KIN__DNS_A, 1, &out), KIN__DNS_STRAY);
    EXPECT_EQ(kin__namecache_get("e", KIN__DNS_A, 1, &out), KIN__DNS_STRAY);
    kin__namecache_clear();
}

KIN_TEST(there_is_an_end_to_what_is_kept, "")
{
    struct kin__dns_answer in, out;
    char name[32];
    unsigned kept = 0, late = 0;
    for (unsigned i = 0; i < 5000; i++) { /* the later ones end later */
        in = answer_of(100 + i, 1);
        snprintf(name, sizeof name, "name-%u.test", i);
        kin__namecache_put(name, KIN__DNS_A, KIN__DNS_FOUND, &in, 0);
        EXPECT_EQ(kin__namecache_get(name, KIN__DNS_A, 1, &out), KIN__DNS_FOUND);
    }
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "name-%u.test", i);
        bool is_there = kin__namecache_get(name, KIN__DNS_A, 1, &out) == KIN__DNS_FOUND;
        kept += is_there;
        late += is_there && i >= 2500;
    }
    EXPECT_LE(kept, 512);
    EXPECT_GT(kept, 256);
    EXPECT_GT(late, kept / 2); /* what ended first made room */
    kin__namecache_clear();
}

KIN_TEST(without_memory_nothing_is_kept, "")
{
    struct kin__dns_answer in = answer_of(10, 2), out;
    kin__plat_fail_after(1, true);
    kin__namecache_put("a", KIN__DNS_A, KIN__DNS_FOUND, &in, 0);
    kin__plat_fail_after(0, false);
    EXPECT_EQ(kin__namecache_get("a", KIN__DNS_A, 1, &out), KIN__DNS_STRAY);
}

static void *use_it(void *arg)
{
    struct kin__dns_answer in, out;
    char name[32];
    (void)arg;
    for (unsigned i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "n%u", i % 50);
        in = answer_of(1 + i % 50, 1 + i % 50 % 16);
        if (i % 3 == 0)
            kin__namecache_put(name, KIN__DNS_A, KIN__DNS_FOUND, &in, 0);
        else if (kin__namecache_get(name, KIN__DNS_A, 1, &out) == KIN__DNS_FOUND)
            EXPECT_EQ(out.count, in.count);
        if (i % 1000 == 999)
            kin__namecache_clear();
    }
    return NULL;
}

KIN_TEST(threads_share_it, "")
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pthread_create(&threads[i], NULL, use_it, NULL), 0);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pthread_join(threads[i], NULL), 0);
    kin__namecache_clear();
}
