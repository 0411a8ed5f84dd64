/* SPDX-License-Identifier: MIT */
/*
 * Goal: questions are built as servers want them; answers are believed only as far as they are
 * right, and no message whatever harms the reader.
 * Method: messages put together by hand, in memory of exactly their size; random ones by a seed.
 */
#include "kin_test.h"

#include "base/rng.h"
#include "wait/dns.h"
#include "wait/dns_message.h"

#include <stdio.h>
#include <stdlib.h>

static const uint8_t v4[4] = {192, 0, 2, 1}, other_v4[4] = {192, 0, 2, 2};
static const uint8_t v6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};

static struct kin__dns_question ask(const char *name, enum kin__dns_type type)
{
    struct kin__dns_question question = {.id = 0x1234, .type = type};
    snprintf(question.name, sizeof question.name, "%s", name);
    return question;
}

/* Parses a copy that is exactly as large as the message. */
static enum kin__dns_verdict parse(const struct kin__dns_question *question,
                                   const struct message *m, struct kin__dns_answer *answer)
{
    uint8_t *exact = malloc(m->size ? m->size : 1);
    memcpy(exact, m->bytes, m->size);
    enum kin__dns_verdict verdict = kin__dns_parse(question, exact, m->size, answer);
    free(exact);
    return verdict;
}

KIN_TEST(a_question_is_as_the_wire_wants_it, "")
{
    struct kin__dns_question question = ask("www.Kin.test", KIN__DNS_AAAA);
    static const uint8_t expected[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 'w', 'w', 'w',
                                       3, 'k', 'i', 'n', 4, 't', 'e', 's', 't', 0, 0, 28, 0, 1};
    uint8_t out[KIN__DNS_QUERY_MAX];
    EXPECT_EQ(kin__dns_build(&question, out), sizeof expected);
    EXPECT(memcmp(out, expected, sizeof expected) == 0);
    question = ask("www.kin.test.", KIN__DNS_AAAA);
    EXPECT_EQ(kin__dns_build(&question, out), sizeof expected);
    EXPECT(memcmp(out, expected, sizeof expected) == 0);
    question = ask("a..b", KIN__DNS_A);
    EXPECT_EQ(kin__dns_build(&question, out), 0);
    static const uint8_t extended[] = {0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 'a', 0, 0, 1, 0,
                                       1, 0, 0, 41, 0x04, 0xd0, 0, 0, 0, 0, 0, 0};
    question = ask("a", KIN__DNS_A);
    question.has_edns = true; /* 1232 bytes may come */
    EXPECT_EQ(kin__dns_build(&question, out), sizeof extended);
    EXPECT(memcmp(out, extended, sizeof extended) == 0);
}

KIN_TEST(names_are_checked, "")
{
    char name[600];
    EXPECT(kin__dns_is_name("a"));
    EXPECT(kin__dns_is_name("a.b.c."));
    EXPECT(kin__dns_is_name("_sip._tcp.x-y.test"));
    const char *const wrong[] = {"", ".", "..", ".a", "a..", "a b", "a\tb", "\x7f", "\xc3\xa4.de",
                                 "a.\n"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        EXPECT(!kin__dns_is_name(wrong[i]));
    for (size_t size = 1; size < 80; size++) { /* one label */
        memset(name, 'x', size);
        name[size] = '\0';
        EXPECT_EQ(kin__dns_is_name(name), size <= 63);
    }
    for (size_t size = 1; size < 300; size++) { /* many labels */
        for (size_t i = 0; i < size; i++)
            name[i] = i % 2 ? '.' : 'x';
        name[size] = '\0';
        EXPECT_EQ(kin__dns_is_name(name), size <= 254); /* the last one ends with a dot */
    }
    struct kin__dns_question question = {.type = KIN__DNS_A};
    for (size_t i = 0; i < 253; i++)
        question.name[i] = i % 64 == 63 ? '.' : 'y';
    question.name[253] = '\0';
    uint8_t out[KIN__DNS_QUERY_MAX];
    EXPECT_EQ(kin__dns_build(&question, out), 12 + 255 + 4);
    question.has_edns = true;
    EXPECT_EQ(kin__dns_build(&question, out), 12 + 255 + 4 + 11);
}

KIN_TEST(addresses_are_taken_from_an_answer, "")
{
    struct kin__dns_question question = ask("www.test", KIN__DNS_A);
    struct kin__dns_answer answer;
    struct message m;
    put_head(&m, 0x1234, 0, "WWW.Test", TYPE_A); /* the case may differ */
    put_answer(&m, NULL, TYPE_A, 300, v4, 4);
    put_answer(&m, NULL, TYPE_TXT, 1, "xx", 2); /* of no interest */
    put_answer(&m, "www.TEST", TYPE_A, 200, other_v4, 4);
    put_answer(&m, "other.test", TYPE_A, 1, v4, 4); /* nobody asked for it */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_FOUND);
    EXPECT_EQ(answer.count, 2);
    EXPECT_EQ(answer.ttl_s, 200);
    EXPECT(memcmp(answer.addresses[0], v4, 4) == 0);
    EXPECT(memcmp(answer.addresses[1], other_v4, 4) == 0);
    question = ask("www.test", KIN__DNS_AAAA);
    put_head(&m, 0x1234, 0, "www.test", TYPE_AAAA);
    put_answer(&m, NULL, TYPE_AAAA, 0x80000001u, v6, 16); /* a time below zero */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_FOUND);
    EXPECT_EQ(answer.count, 1);
    EXPECT_EQ(answer.ttl_s, 0);
    EXPECT(memcmp(answer.addresses[0], v6, 16) == 0);
    for (int i = 0; i < 100; i++)
        put_answer(&m, NULL, TYPE_AAAA, 1000000, v6, 16);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_FOUND);
    EXPECT_EQ(answer.count, KIN__DNS_ADDRESSES);
}

KIN_TEST(aliases_are_followed_in_any_order, "")
{
    struct kin__dns_question question = ask("a.test", KIN__DNS_A);
    struct kin__dns_answer answer;
    struct message m;
    put_head(&m, 0x1234, 0, "a.test", TYPE_A);
    put_answer(&m, "c.test", TYPE_A, 500, v4, 4);
    put_alias(&m, "b.test", 400, "c.test");
    put_alias(&m, "a.test", 600, "B.test");
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_FOUND);
    EXPECT_EQ(answer.count, 1);
    EXPECT_EQ(answer.ttl_s, 400);
    put_head(&m, 0x1234, 0, "a.test", TYPE_A); /* it leads to nothing */
    put_alias(&m, "a.test", 600, "b.test");
    put_absence(&m, 100, 50);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_EMPTY);
    EXPECT_EQ(answer.ttl_s, 50);
    put_head(&m, 0x1234, 0, "a.test", TYPE_A); /* it leads in a circle */
    put_alias(&m, "a.test", 600, "b.test");
    put_alias(&m, "b.test", 600, "a.test");
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
    char from[16], to[16];
    for (int length = 1; length < 30; length++) {
        put_head(&m, 0x1234, 0, "n0", TYPE_A);
        for (int i = 0; i < length; i++) {
            snprintf(from, sizeof from, "n%d", i);
            snprintf(to, sizeof to, "n%d", i + 1);
            put_alias(&m, from, 600, to);
        }
        put_answer(&m, to, TYPE_A, 500, v4, 4);
        question = ask("n0", KIN__DNS_A);
        EXPECT_EQ(parse(&question, &m, &answer), length <= 12 ? KIN__DNS_FOUND : KIN__DNS_BROKEN);
    }
}

KIN_TEST(absence_holds_as_long_as_the_zone_says, "")
{
    struct kin__dns_question question = ask("no.test", KIN__DNS_A);
    struct kin__dns_answer answer;
    struct message m;
    put_head(&m, 0x1234, 3, "no.test", TYPE_A);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_NOBODY);
    EXPECT_EQ(answer.ttl_s, 0);
    put_absence(&m, 70, 80);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_NOBODY);
    EXPECT_EQ(answer.ttl_s, 70);
    put_head(&m, 0x1234, 0, "no.test", TYPE_A);
    put_absence(&m, 100000, 100000);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_EMPTY);
    EXPECT_EQ(answer.ttl_s, 900); /* never longer than that */
    put_head(&m, 0x1234, 3, "no.test", TYPE_A); /* says no, and yes */
    put_answer(&m, NULL, TYPE_A, 500, v4, 4);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_NOBODY);
    EXPECT_EQ(answer.count, 0);
}

KIN_TEST(what_does_not_answer_the_question_is_stray, "")
{
    struct kin__dns_question question = ask("www.test", KIN__DNS_A);
    struct kin__dns_answer answer;
    struct message good, m;
    put_head(&good, 0x1234, 0, "www.test", TYPE_A);
    put_answer(&good, NULL, TYPE_A, 300, v4, 4);
    EXPECT_EQ(parse(&question, &good, &answer), KIN__DNS_FOUND);
    m = good;
    m.bytes[1] ^= 1; /* another id */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
    m = good;
    m.bytes[2] &= 0x7f; /* a question */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
    m = good;
    m.bytes[2] |= 0x28; /* another operation */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
    m = good;
    m.bytes[13] = 'v'; /* another name */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
    m = good;
    m.bytes[23] = TYPE_AAAA; /* another type */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
    m = good;
    m.bytes[25] = 3; /* another class */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
    m = good;
    set_u16(&m, 4, 0); /* no question at all */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
    set_u16(&m, 2, 0x8005); /* but it refuses */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_FAILED);
    for (m.size = 0; m.size < 12; m.size++)
        EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_STRAY);
}

KIN_TEST(refusals_and_cuts_are_told_apart, "")
{
    struct kin__dns_question question = ask("www.test", KIN__DNS_A);
    struct kin__dns_answer answer;
    struct message m;
    for (unsigned code = 1; code < 16; code++) {
        put_head(&m, 0x1234, code, "www.test", TYPE_A);
        EXPECT_EQ(parse(&question, &m, &answer), code == 3 ? KIN__DNS_NOBODY : KIN__DNS_FAILED);
    }
    put_head(&m, 0x1234, 0x0200, "www.test", TYPE_A);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_CUT);
    question.has_edns = true; /* which puzzles some */
    for (unsigned code = 1; code < 16; code++) {
        bool is_puzzled = code == 1 || code == 4;
        put_head(&m, 0x1234, code, "www.test", TYPE_A);
        EXPECT_EQ(parse(&question, &m, &answer), code == 3    ? KIN__DNS_NOBODY
                                                 : is_puzzled ? KIN__DNS_PUZZLED
                                                              : KIN__DNS_FAILED);
        set_u16(&m, 4, 0); /* and they do not even repeat the question */
        m.size = 12;
        EXPECT_EQ(parse(&question, &m, &answer), code == 3    ? KIN__DNS_STRAY
                                                 : is_puzzled ? KIN__DNS_PUZZLED
                                                              : KIN__DNS_FAILED);
    }
}

KIN_TEST(broken_answers_are_refused, "")
{
    struct kin__dns_question question = ask("www.test", KIN__DNS_A);
    struct kin__dns_answer answer;
    struct message good, m;
    put_head(&good, 0x1234, 0, "www.test", TYPE_A);
    size_t end = good.size;
    put_answer(&good, NULL, TYPE_A, 300, v4, 4);
    m = good;
    for (m.size = end; m.size < good.size; m.size++) /* it ends early */
        EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
    put_head(&m, 0x1234, 0, "www.test", TYPE_A); /* an address of five bytes */
    put_answer(&m, NULL, TYPE_A, 300, "12345", 5);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
    m = good;
    set_u16(&m, end, 0xc000 | (unsigned)end); /* a name that is where it says it is */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
    m = good;
    set_u16(&m, end, 0xc000 | (unsigned)(end + 2)); /* one further on */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
    m = good;
    m.bytes[end] = 0x80; /* a kind of label that does not exist */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
    m = good;
    set_u16(&m, 6, 65535); /* more answers than there are */
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
}

KIN_TEST(pointers_may_not_lead_in_circles_or_for_ever, "")
{
    struct kin__dns_question question = ask("www.test", KIN__DNS_A);
    struct kin__dns_answer answer;
    for (unsigned chain = 1; chain < 60; chain++) {
        struct message m;
        put_head(&m, 0x1234, 0, "www.test", TYPE_A);
        /* each record's name points at the name of the one before, the first at the question */
        unsigned before = 12;
        for (unsigned i = 0; i < chain; i++) {
            unsigned at = (unsigned)m.size;
            set_u16(&m, 6, i + 1);
            put_u16(&m, 0xc000 | before);
            put_u16(&m, TYPE_A);
            put_u16(&m, 1);
            put_u32(&m, 5);
            put_u16(&m, 4);
            put_bytes(&m, v4, 4);
            before = at;
        }
        EXPECT_EQ(parse(&question, &m, &answer), chain <= 32 ? KIN__DNS_FOUND : KIN__DNS_BROKEN);
    }
    struct message m; /* two that point at each other, inside of an alias */
    put_head(&m, 0x1234, 0, "www.test", TYPE_A);
    set_u16(&m, 6, 1);
    put_u16(&m, 0xc00c);
    put_u16(&m, TYPE_CNAME);
    put_u16(&m, 1);
    put_u32(&m, 5);
    put_u16(&m, 4);
    unsigned at = (unsigned)m.size;
    put_u16(&m, 0xc000 | (at + 2));
    put_u16(&m, 0xc000 | at);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
    put_head(&m, 0x1234, 0, "www.test", TYPE_A); /* labels without end: back to their own begin */
    set_u16(&m, 6, 1);
    at = (unsigned)m.size;
    put_bytes(&m, "\1x", 2);
    put_u16(&m, 0xc000 | at);
    put_bytes(&m, "\0\1\0\1\0\0\0\5\0\4abcd", 14);
    EXPECT_EQ(parse(&question, &m, &answer), KIN__DNS_BROKEN);
}

/* ---- random messages ---- */

static uint32_t below(struct kin__rng *rng, uint32_t limit)
{
    return (uint32_t)(kin__rng_next(rng) % limit);
}

static void put_random_record(struct kin__rng *rng, struct message *m)
{
    static const char *const names[] = {NULL, "www.test", "a.test", "b.test"};
    const char *owner = names[below(rng, 4)];
    switch (below(rng, 5)) {
    case 0:
        put_answer(m, owner, TYPE_A, (uint32_t)kin__rng_next(rng), v4, 4);
        break;
    case 1:
        put_answer(m, owner, TYPE_AAAA, (uint32_t)kin__rng_next(rng), v6, 16);
        break;
    case 2:
    case 3:
        put_alias(m, owner, (uint32_t)kin__rng_next(rng), names[1 + below(rng, 3)]);
        break;
    default:
        put_answer(m, owner, TYPE_TXT, 1, "some text", 1 + below(rng, 9));
    }
}

/* Changes a right message in a few places. */
static void damage(struct kin__rng *rng, struct message *m)
{
    for (uint32_t i = below(rng, 6); i > 0 && m->size > 0; i--) {
        uint32_t at = below(rng, (uint32_t)m->size);
        switch (below(rng, 5)) {
        case 0:
            m->bytes[at] = (uint8_t)kin__rng_next(rng);
            break;
        case 1:
            m->bytes[at] ^= (uint8_t)(1u << below(rng, 8));
            break;
        case 2:
            m->size = at;
            break;
        case 3: /* a pointer to anywhere */
            if (at + 1 < m->size)
                set_u16(m, at, 0xc000 | below(rng, (uint32_t)m->size + 4));
            break;
        default:
            memmove(m->bytes + at, m->bytes + below(rng, (uint32_t)m->size), m->size - at > 8
                    ? 8 : m->size - at);
        }
    }
}

KIN_TEST(no_message_whatever_harms_the_reader, "")
{
    struct kin__rng rng;
    static struct message m;
    unsigned verdicts[KIN__DNS_NOBODY + 1] = {0};
    kin__rng_init(&rng, kin_test_seed(), 0);
    unsigned rounds = 200000 / kin_test_scale();
    for (unsigned round = 0; round < rounds; round++) {
        enum kin__dns_type type = below(&rng, 2) ? KIN__DNS_A : KIN__DNS_AAAA;
        struct kin__dns_question question = ask("www.test", type);
        struct kin__dns_answer answer = {0};
        question.has_edns = below(&rng, 2);
        put_head(&m, 0x1234, below(&rng, 4) ? 0 : 3, "www.test", (unsigned)type);
        for (uint32_t i = below(&rng, 8); i > 0; i--)
            put_random_record(&rng, &m);
        if (below(&rng, 2))
            put_absence(&m, (uint32_t)kin__rng_next(&rng), 60);
        damage(&rng, &m);
        enum kin__dns_verdict verdict = parse(&question, &m, &answer);
        EXPECT_LE(verdict, KIN__DNS_NOBODY);
        EXPECT_LE(answer.count, KIN__DNS_ADDRESSES);
        if (verdict == KIN__DNS_FOUND) {
            EXPECT_GT(answer.count, 0);
            EXPECT_LE(answer.ttl_s, 86400);
        }
        verdicts[verdict]++;
    }
    for (unsigned i = 0; i <= KIN__DNS_NOBODY; i++) /* the rounds have reached all of it */
        EXPECT_GT(verdicts[i], 0);
    for (unsigned round = 0; round < rounds / 10; round++) { /* nothing but noise behind the head */
        struct kin__dns_question question = ask("www.test", KIN__DNS_A);
        struct kin__dns_answer answer = {0};
        put_head(&m, 0x1234, 0, "www.test", TYPE_A);
        set_u16(&m, 6, below(&rng, 65536));
        for (uint32_t i = below(&rng, 600); i > 0; i--) {
            uint8_t byte = (uint8_t)(below(&rng, 3) ? below(&rng, 4) : kin__rng_next(&rng));
            put_bytes(&m, &byte, 1);
        }
        EXPECT_LE(parse(&question, &m, &answer), KIN__DNS_NOBODY);
        EXPECT_LE(answer.count, KIN__DNS_ADDRESSES);
    }
}
