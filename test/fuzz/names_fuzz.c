/* SPDX-License-Identifier: MIT */
/*
 * Goal: no resolv.conf, hosts file or address as text harms its reader, and what is read is within
 * its limits.
 * Method: libFuzzer; one text is read as all three.
 */
#include "wait/names.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect(bool is_right)
{
    if (!is_right)
        abort();
}

/* A text of exactly its size. */
static char *text_of(const uint8_t *bytes, size_t size)
{
    char *text = kin__heap_alloc(size + 1);
    expect(text != NULL);
    memcpy(text, bytes, size);
    return text;
}

static void read_files(const uint8_t *bytes, size_t size)
{
    struct kin__names *names = kin__heap_alloc(sizeof(*names));
    struct kin__sockaddr found[4];
    char name[KIN__DNS_TEXT], out[KIN__DNS_TEXT];
    char *conf = text_of(bytes, size);
    expect(names != NULL);
    kin__names_read_conf(names, conf);
    kin__heap_free(conf);
    expect(names->server_count >= 1 && names->server_count <= KIN__NAMES_SERVERS);
    expect(names->search_count <= KIN__NAMES_SEARCH && names->ndots <= 15);
    expect(names->timeout_s >= 1 && names->timeout_s <= 30);
    expect(names->attempts >= 1 && names->attempts <= 5);
    expect(kin__names_read_hosts(names, text_of(bytes, size)) == 0);
    size_t length = size < sizeof(name) ? size : sizeof(name) - 1;
    memcpy(name, bytes, length);
    name[length] = '\0';
    name[strcspn(name, " \t\n")] = '\0';
    expect(kin__names_host(names, name, 1, found, 4) <= 4);
    unsigned candidates = 0;
    while (kin__names_candidate(names, name, candidates, out)) /* ends: the list does */
        expect(++candidates <= KIN__NAMES_SEARCH + 1 && strlen(out) < sizeof(out));
    expect(candidates > 0 || names->skips_bare);
    kin__names_destroy(names);
}

/* What is an address comes back as it was understood. */
static void read_address(const uint8_t *bytes, size_t size)
{
    struct kin__hostport from;
    struct kin__sockaddr first, second;
    char out[256], *text = text_of(bytes, size);
    if (kin__address_split(text, &from) == 0 && kin__address_numeric(&from, &first)) {
        expect(kin__address_text(&first, out, sizeof(out)) == 0);
        expect(kin__address_split(out, &from) == 0);
        expect(kin__address_numeric(&from, &second));
        expect(first.size == second.size && memcmp(first.bytes, second.bytes, first.size) == 0);
    }
    kin__heap_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    read_files(bytes, size);
    read_address(bytes, size);
    return 0;
}
