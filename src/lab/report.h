/* SPDX-License-Identifier: MIT */
/*
 * What kin_lab_run says to the faces of the lab, and they to it.
 *
 * The command line wants more than struct kin_lab_config has room for; it says so in
 * kin__lab_wish, which kin_lab_run reads. When a failure was found and recorded, kin_lab_run
 * describes it in a struct kin__finding and gets the report.
 */
#ifndef KIN_LAB_REPORT_H
#define KIN_LAB_REPORT_H

#include "base/text.h"
#include "lab/engine.h"

struct kin__story;
struct kin_lab_report;

/* All zero: nothing is wished for. Lives from the command line's start to its end. */
struct kin__lab_wish {
    const char *program;  /* as it was called, for the replay command; NULL: unknown */
    const char *test;     /* name of the test; NULL: kin_lab_run was called by a program */
    const char *strategy; /* as the command line has it, "pct:3"; NULL: as kin_lab_run says */
    const char *sweep;    /* faults that the command line asked for; NULL: none */
    int64_t began;        /* when, in real time; 0: now */
    int64_t wall_max;     /* ns of real time; 0: no limit but executions_max */
    bool keeps_order;     /* tests of the order that one worker has in production: a task of such a
                           * runtime goes on until it waits, yields or ends; never complete */
    bool is_lenient;      /* a replay that parts from its file goes on */
    bool is_near;         /* a replay goes on around its file: strategy_near.c */
    bool keeps_going;     /* failures are counted, not shrunk */
    bool is_unshrunk;     /* a failure stays as it was found */
    enum kin__strategy other; /* which enum kin_lab_strategy has no name for: a uniform walk, plain
                               * search; AUTO: none of them */
    uint64_t seeds;       /* so many runs are drawn, with seed, seed + 1, ...; 0: no such range */
    /* Called now and then between two runs, with what is known so far; may be NULL. */
    void (*progress)(const struct kin__engine_result *so_far, void *arg);
    void *progress_arg;
    int64_t patience;     /* ns that a step may last in real time; 0: as death.c has it */
    /* Called in the handler of a signal before the process ends by it; NULL: the report goes to
     * the standard error. */
    void (*died)(const struct kin_lab_report *report);
    struct kin__engine_result result; /* set by kin_lab_run: what the engine says */
    char unwritten[300]; /* set by kin_lab_run: why a report's files are not there; "": they are */
    char wrong[100];     /* set by kin_lab_run: what is wrong with the config; "": nothing */
    char misread[200];   /* set by kin_lab_run: what is wrong with a replay's file; "": nothing */
};
extern struct kin__lab_wish kin__lab_wish;

/* In the handler of a signal, in the middle of kin_lab_run, which does not go on after it: what is
 * known so far. */
void kin__lab_interrupt(struct kin_lab_report *out);

/* A failure that was found. Everything is borrowed. */
struct kin__finding {
    const char *test;       /* never NULL */
    const char *strategy;   /* "random", "pct:3", "dpor", ... */
    const char *directory;  /* where files go; NULL: none are written */
    int64_t wall_ns;        /* how long it took until it was found; 0: unknown */
    const struct kin__engine *engine;
    const struct kin__engine_failure *failure; /* of the engine, or what else a picture is of */
};

/* Where the files of a report are; "": it was not written. */
struct kin__report_files {
    char schedule[256], picture[256], trace[256];
};

/* Makes the text, and in the directory the schedule, the picture and the trace. The texts are good
 * until the next call. file: path of the schedule, NULL when there is none. */
const char *kin__report_make(const struct kin__finding *finding, const char **file);

/* Hands over the rows of the last report, which the caller forgets. */
void kin__report_take_story(struct kin__story *out);

/* The text alone. */
void kin__report_text(struct kin__text *out, const struct kin__finding *finding,
                      const struct kin__story *of, const struct kin__report_files *files);

/* A line for people: what the runs went through, and what they left out. */
struct kin__engine_result;
void kin__report_covers(struct kin__text *out, const struct kin__engine_result *result);

#endif
