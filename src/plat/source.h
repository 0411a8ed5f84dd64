/* SPDX-License-Identifier: MIT */
/*
 * Which function, file and line an address of the running program belongs to.
 */
#ifndef KIN_PLAT_SOURCE_H
#define KIN_PLAT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin__place {
    char function[64]; /* "": unknown */
    char file[64];     /* without its directory; "": unknown */
    char path[256];    /* with it */
    unsigned line;
    unsigned column;   /* in bytes, from 1 on; 0: unknown */
    bool is_ours;      /* a file of kin itself */
    size_t offset;     /* of the call from the beginning of the function */
};

/* pc is a return address: the place is that of the call before it. False: nothing is known. Reads
 * the object's file, unless the same was asked for lately. Takes no lock, allocates nothing on the
 * heap and calls the kernel directly, so that it may run in a signal handler and in the lab. */
bool kin__source_find(uintptr_t pc, struct kin__place *out);
/* The function alone, which is less work. */
bool kin__source_function(uintptr_t pc, struct kin__place *out);
/* Whether pc lies in the program itself, and what the loader has added to the addresses of its
 * file. */
bool kin__source_is_program(uintptr_t pc, uintptr_t *base);
/* The text of a line, without the blanks before it, and how many these are; "" when the file is not
 * there. Cut at size. */
size_t kin__source_line(const struct kin__place *place, char *out, size_t size);

#endif
