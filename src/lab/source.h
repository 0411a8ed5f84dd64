/* SPDX-License-Identifier: MIT */
/*
 * Which function, file and line an address of the running program belongs to.
 */
#ifndef KIN_LAB_SOURCE_H
#define KIN_LAB_SOURCE_H

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
};

/* The function alone, which is less work. */
bool kin__source_function(uintptr_t pc, struct kin__place *out);
/* pc is a return address: the place is that of the call before it. False: nothing is known. */
bool kin__source_find(uintptr_t pc, struct kin__place *out);
/* The text of a line, without the blanks before it, and how many these are; "" when the file is not
 * there. Cut at size. */
size_t kin__source_line(const struct kin__place *place, char *out, size_t size);
/* Gives back what was read. */
void kin__source_forget(void);

#endif
