/* SPDX-License-Identifier: MIT */
/*
 * The one door to the C heap, and the way to make resource requests fail on purpose.
 *
 * A test runs an operation with the first request failing, then with the second, and so on until
 * it meets no failure: kin__plat_requests tells how many there were. The counters are atomics
 * without order, because each is looked at by itself; a test sets them while nothing else runs.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#ifdef KIN__LAB /* the lab has a heap in front of this one: lab/heap.c */
#define kin__heap_alloc kin__host_alloc
#define kin__heap_free kin__host_free
#define kin__heap_alloc_lines kin__host_alloc_lines
#define kin__heap_free_lines kin__host_free_lines
#endif

static kin__a64 requests;     /* since the last kin__plat_fail_after */
static kin__a64 fail_at;      /* the request that fails; 0: none */
static kin__a32 fail_forever; /* and every later one too */

void *kin__heap_alloc(size_t bytes)
{
    _Static_assert(_Alignof(max_align_t) >= 16, "calloc aligns to 16");
    if (!kin__plat_request())
        return NULL;
    /* Never 0 bytes: NULL means "there is none" to every caller. */
    return calloc(1, bytes ? bytes : 1);
}

void kin__heap_free(void *p)
{
    free(p);
}

void *kin__heap_alloc_lines(size_t bytes)
{
    size_t size = (bytes + KIN__LINE - 1) & ~(size_t)(KIN__LINE - 1);
    if (size < bytes || !kin__plat_request())
        return NULL;
    void *p = aligned_alloc(KIN__LINE, size ? size : KIN__LINE);
    return p ? memset(p, 0, size) : NULL;
}

void kin__heap_free_lines(void *p)
{
    free(p);
}

void kin__plat_fail_after(uint64_t n, bool forever)
{
    /* relaxed: set while nothing else runs, see the head */
    kin__store_relaxed(&fail_at, 0);
    kin__store_relaxed(&requests, 0);           /* relaxed: as above */
    kin__store_relaxed(&fail_forever, forever); /* relaxed: as above */
    kin__store_relaxed(&fail_at, n);            /* relaxed: as above */
}

uint64_t kin__plat_requests(void)
{
    return kin__load_relaxed(&requests); /* relaxed: a number for reports */
}

bool kin__plat_request(void)
{
    uint64_t mine = kin__add_relaxed(&requests, 1) + 1; /* relaxed: a number per request */
    uint64_t at = kin__load_relaxed(&fail_at);          /* relaxed: set while nothing else runs */

    if (KIN__LIKELY(at == 0) || mine < at)
        return true;
    return mine > at && !kin__load_relaxed(&fail_forever); /* relaxed: as fail_at */
}
