/* SPDX-License-Identifier: MIT */
/*
 * Goal: no answer of a name server harms the reader, or makes it say what is not in the message.
 * Method: libFuzzer, which sees how far each message comes. The first byte says what is fixed: all
 * of the header and the question, so that what follows is read as records; or nothing.
 */
#include "wait/dns.h"
#include "wait/dns_message.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect(bool is_right)
{
    if (!is_right)
        abort();
}

/* Whether the message has these bytes anywhere. */
static bool has(const uint8_t *message, size_t size, const uint8_t *bytes, size_t count)
{
    for (size_t at = 0; at + count <= size; at++) {
        if (memcmp(message + at, bytes, count) == 0)
            return true;
    }
    return false;
}

static void read_message(uint8_t how, const uint8_t *message, size_t size)
{
    enum kin__dns_type type = how & 1 ? KIN__DNS_AAAA : KIN__DNS_A;
    struct kin__dns_question question = {
        .id = 0x1234, .type = type, .name = "www.test", .has_edns = how & 8};
    struct kin__dns_answer answer = {0};
    uint8_t *exact = malloc(size ? size : 1); /* the sanitizer sees every step beyond it */
    memcpy(exact, message, size);
    enum kin__dns_verdict verdict = kin__dns_parse(&question, exact, size, &answer);
    free(exact);
    expect(verdict <= KIN__DNS_NOBODY);
    expect(verdict != KIN__DNS_PUZZLED || question.has_edns);
    if (verdict == KIN__DNS_FOUND) {
        expect(answer.count > 0 && answer.count <= KIN__DNS_ADDRESSES && answer.ttl_s <= 86400);
        for (unsigned i = 0; i < answer.count; i++)
            expect(has(message, size, answer.addresses[i], type == KIN__DNS_A ? 4 : 16));
    } else if (verdict > KIN__DNS_FOUND) {
        expect(answer.count == 0 && answer.ttl_s <= 900);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct message m;
    if (size < 9)
        return 0;
    if (bytes[0] & 2) {
        read_message(bytes[0], bytes + 1, size - 1);
        return 0;
    }
    put_head(&m, 0x1234, bytes[0] & 4 ? 3 : 0, "www.test", bytes[0] & 1 ? TYPE_AAAA : TYPE_A);
    for (size_t i = 0; i < 3; i++) /* how many of each there are */
        set_u16(&m, 6 + 2 * i, (unsigned)bytes[1 + 2 * i] << 8 | bytes[2 + 2 * i]);
    put_bytes(&m, bytes + 7, size - 7);
    read_message(bytes[0], m.bytes, m.size);
    return 0;
}
