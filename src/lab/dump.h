/* SPDX-License-Identifier: MIT */
/*
 * A record of production (sched/tape_dump.c wrote it), read again: who was there, what happened in
 * the order of time; as a schedule for the lab, as a picture, as a trace.
 */
#ifndef KIN_LAB_DUMP_H
#define KIN_LAB_DUMP_H

#include "base/text.h"
#include "lab/room.h"
#include "lab/story.h"
#include "sched/tape.h"

#include <stdint.h>

#define KIN__DUMP_BYTES_MAX ((size_t)256 << 20)
#define KIN__DUMP_OUTSIDE UINT16_MAX /* the ring of everybody but workers */

struct kin__dump_task {
    const char *path, *name; /* name: "" when it has none */
};

struct kin__dump_event {
    uint64_t ns;      /* since the start of the runtime */
    const char *word; /* of a park: for what; NULL else */
    uint32_t order;   /* in the file */
    uint32_t task;    /* from 1 on; 0: nobody, or nobody knows */
    uint32_t by;      /* of a spawn, a wake or a cancellation: the other task */
    int32_t value;    /* of others: the other, a status or a count */
    int16_t argument;
    uint16_t ring;
    uint8_t kind;     /* enum kin__tape_kind */
};

struct kin__dump_ring {
    uint64_t lost;  /* entries that were overwritten before */
    uint64_t since; /* when the first began that is left; UINT64_MAX: none is */
    uint16_t ring;
};

struct kin__dump {
    struct kin__room task_room, event_room, ring_room;
    struct kin__dump_task *tasks; /* the 0th is nobody */
    struct kin__dump_event *events;
    struct kin__dump_ring *rings;
    size_t task_count, event_count, ring_count; /* tasks with the 0th */
    uint64_t lost;  /* entries that were overwritten, in all rings */
    uint64_t whole; /* from this moment on nothing was */
    unsigned workers;
    bool is_cut; /* the file ends before the record does */
};

/* Reads the text of a record, which is changed and kept by the caller as long as the dump. It may
 * be anything. 0, -EINVAL no such file at all, -EPROTONOSUPPORT another version, -EBADMSG a line
 * that makes no sense, -EFBIG too large, -ENOMEM. What a process could not write to its end is read
 * as far as it goes. The dump is empty before ({0}), and is to be released whatever this says. */
int kin__dump_read(struct kin__dump *dump, char *text, size_t size);
void kin__dump_release(struct kin__dump *dump);

/* As a .kinlab file: who went on, each until it could not, and which cases were taken. test: whose
 * schedule it is to be. False: no memory. When the text is full afterwards it is no file. */
bool kin__dump_schedule(const struct kin__dump *dump, struct kin__text *out, const char *test);

/* ---- for people (dump_view.c) ---- */

/* One event in words, without a newline. */
void kin__dump_say(const struct kin__dump *dump, const struct kin__dump_event *event,
                   struct kin__text *out);
/* Rows for a picture, of the last events. False: no memory. */
bool kin__dump_story(const struct kin__dump *dump, struct kin__story *story);
/* A trace with a track for each worker, in real time. False: no memory. When the text is full
 * afterwards it is none. */
bool kin__dump_trace(const struct kin__dump *dump, struct kin__text *out);

/* ---- the command (dump_main.c) ---- */

/* kin record; what to exit with. */
int kin__dump_main(int argc, char **argv);

#endif
