/* SPDX-License-Identifier: MIT */
/*
 * What the command line of a lab program asks for.
 */
#ifndef KIN_LAB_OPTIONS_H
#define KIN_LAB_OPTIONS_H

#include "base/text.h"
#include "lab/engine.h"

#include <kin/lab.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kin__ask {
    KIN__ASK_RUN,
    KIN__ASK_LIST,
    KIN__ASK_HELP,
    KIN__ASK_VERSION,
    KIN__ASK_REPLAY,
    KIN__ASK_SHRINK,
    KIN__ASK_REGRESS
};

#define KIN__OPTIONS_NAMES 128u
#define KIN__OPTIONS_JOBS 256u

struct kin__options {
    enum kin__ask ask;
    const char *program;                   /* as it was called */
    const char *names[KIN__OPTIONS_NAMES]; /* parts of names of tests */
    unsigned names_count;                  /* 0: all tests */
    bool has_strategy;
    enum kin_lab_strategy strategy;
    enum kin__strategy other; /* what the former has no name for; AUTO: none */
    unsigned depth, preemptions;
    const char *bytes_file; /* of -s bytes; NULL: none */
    const void *bytes;      /* and what is in it, once somebody has read it */
    size_t bytes_count;
    bool has_seed;
    uint64_t seed, seeds; /* the first, and how many */
    uint64_t runs;        /* 0: the test's own number */
    uint64_t break_at;    /* step before which a debugger gets the word; 0: never */
    int64_t time_ns;      /* 0: the test's own time */
    int64_t patience_ns;  /* with a step that does not end; 0: the lab's own */
    uint32_t faults;      /* in addition to those of the test */
    const char *file;     /* of --replay and --shrink; directory of --regress */
    const char *reports;  /* directory; NULL: none */
    bool is_json, explains, is_lenient, keeps_going, is_quiet, is_unshrunk;
    bool is_near;         /* what is around a file is explored, too; not asked for by an option */
    bool is_death_known;  /* a crash is what a file says: nothing is told of it */
    int64_t began;        /* when, in real time: of a run that another process began; 0: now */
    bool is_part;         /* of a range of seeds: counted once, with the first part */
    unsigned jobs;        /* processes; 1: none but this one */
};

/* 0; or -1 with one line in *error that says what is wrong. */
int kin__options_read(struct kin__options *out, int argc, char **argv, struct kin__text *error);
/* What --help prints. */
void kin__options_help(struct kin__text *out, const char *program);
/* A strategy as the command line has it: "pct:3"; the file of bytes is left to the caller. */
void kin__options_strategy(struct kin__text *out, enum kin_lab_strategy strategy,
                           enum kin__strategy other, unsigned depth, unsigned preemptions);

/* Faults as the command line has them: "oom,cancel"; nothing for none. */
void kin__options_faults(struct kin__text *out, uint32_t bits);
/* A number at the front of a text; 0: there is none, or it is larger than max. */
unsigned kin__options_number(const char *text, unsigned max);
/* The bits of such a list; words that are unknown count for nothing. */
uint32_t kin__options_fault_bits(const char *words);

#endif
