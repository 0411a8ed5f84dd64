/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the command line do for each other.
 */
#ifndef KIN_LAB_MAIN_H
#define KIN_LAB_MAIN_H

#include "lab/options.h"
#include "lab/report.h"

/* What came of a test. */
struct kin__verdict {
    int status;        /* of kin_lab_run */
    bool is_error;     /* it could not run */
    bool is_stopped;   /* it would have gone on, had nobody said stop */
    uint64_t runs, steps;
    int64_t ns;
    enum kin_lab_strategy strategy;
    struct kin_lab_report report;     /* its texts live until the next run */
    struct kin__engine_result result;
};

/* How many came out how. */
struct kin__tally {
    unsigned passed, complete, failed, errors, stopped;
    uint64_t runs;
};

static inline void kin__tally_add(struct kin__tally *tally, int status, bool is_complete,
                                  uint64_t runs)
{
    tally->passed += status == 0;
    tally->complete += status == 0 && is_complete;
    tally->failed += status == 1;
    tally->errors += status == 2;
    tally->stopped += status == 3;
    tally->runs += runs;
}

/* A test by its whole name; NULL: there is none. */
const struct kin_lab_test *kin__main_find(const char *name);
/* Runs a test as config says; nothing is printed but progress. */
void kin__main_run(const struct kin__options *options, const struct kin_lab_config *config,
                   const struct kin_lab_test *test, struct kin__verdict *out);
/* Prints what came of it. 0: passed, 1: failed, 2: could not run, 3: was stopped. */
int kin__main_tell(const struct kin__options *options, const struct kin_lab_test *test,
                   const struct kin__verdict *verdict);
void kin__main_say(int fd, const struct kin__text *text);
/* Every byte for standard output goes through here: what cannot be written is a failure. */
void kin__main_write(const char *bytes, size_t size);
/* Whether some could not be written. */
bool kin__main_is_unsaid(void);

/* --replay, --shrink and --regress (replay.c); what the program exits with. */
int kin__replay_files(const struct kin__options *options);

#endif
