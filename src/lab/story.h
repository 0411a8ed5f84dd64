/* SPDX-License-Identifier: MIT */
/*
 * A recorded run in words: rows of who does what, and where in the program.
 *
 * The report, the picture and the trace all show the same rows. A call, and what comes of it in
 * the same step, are one row: "mutex_unlock: wakes root/1".
 */
#ifndef KIN_LAB_STORY_H
#define KIN_LAB_STORY_H

#include "lab/record.h"
#include "lab/room.h"

#define KIN__ROW_LINKS 8u

struct kin__row {
    uint64_t step;
    int64_t time;
    uint16_t actor;       /* KIN__NOTE_NOBODY: the world */
    uint8_t what;         /* enum kin__noted, the last of those that make the row */
    bool is_failure;      /* the row in which the run failed */
    unsigned links_count; /* of others it acts on; more than there is room for are not kept */
    struct {
        uint16_t other;
        uint8_t what; /* KIN__NOTE_SPAWN, _WAKE or _CANCEL */
    } links[KIN__ROW_LINKS];
    char call[96];         /* of kin, without kin_, as the source has it; "": unknown */
    char words[192];       /* what happens */
    char place[80];        /* "file.c:12"; "": unknown */
};

struct kin__actor_line {
    char name[64]; /* "root/1 (deposit)" */
    bool is_seen;  /* a row is its; the clock is nobody who is seen */
};

struct kin__story {
    struct kin__room rows_room, actors_room;
    struct kin__row *rows;
    struct kin__actor_line *actors;
    size_t count, actors_count;
    uint64_t dropped; /* events before the first row */
};

/* Tells the run that was recorded last. False: no memory. The story is empty after init ({0}). */
bool kin__story_tell(struct kin__story *story, const struct kin__engine *engine);
static inline void kin__story_forget(struct kin__story *story)
{
    kin__room_release(&story->rows_room);
    kin__room_release(&story->actors_room);
    *story = (struct kin__story){0};
}

#endif
