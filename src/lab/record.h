/* SPDX-License-Identifier: MIT */
/*
 * What happens in the one run of a failure that is told to people: notes in the order of events.
 *
 * A run is recorded when the engine says so (kin__engine_is_recorded): the last, shrunk one. Then
 * the world calls kin__record_begin before its first step, notes what happens, and calls
 * kin__record_end when the run is over or has failed, so that its clearing away is not told. In
 * every other run a note costs the look at one flag.
 *
 *     at a point, before others may run:    kin__record(actor, KIN__NOTE_CALL, NOBODY, NULL, NULL)
 *                                           (also where nothing was touched and nobody may run)
 *     kin_spawn:       KIN__NOTE_SPAWN      other is the child, text its name or NULL
 *     before parking:  KIN__NOTE_PARK       object: path of what it waits for or NULL,
 *                                           text: what kind of thing ("channel: receive")
 *     a wake:          KIN__NOTE_WAKE       other is who goes on
 *     a request:       KIN__NOTE_CANCEL     other is who is asked to stop
 *     the clock jumps: KIN__NOTE_TIME       actor is NOBODY
 *     a planned fault: KIN__NOTE_FAULT      text: which
 *     the end:         KIN__NOTE_END        text: how, if not well
 *     an oracle:       KIN__NOTE_FAIL       object and text as given to kin__engine_fail
 *
 * Call it on the stack of the actor: the note keeps where it was made, which becomes a line of the
 * program's source in the report. Texts are copied and cut to 95 bytes. When there are more events
 * than room the oldest go; the report says how many.
 */
#ifndef KIN_LAB_RECORD_H
#define KIN_LAB_RECORD_H

#include "lab/engine.h"

enum kin__noted {
    KIN__NOTE_CALL,
    KIN__NOTE_SPAWN,
    KIN__NOTE_PARK,
    KIN__NOTE_WAKE,
    KIN__NOTE_CANCEL,
    KIN__NOTE_TIME,
    KIN__NOTE_FAULT,
    KIN__NOTE_END,
    KIN__NOTE_FAIL
};

#define KIN__NOTE_NOBODY UINT16_MAX

extern bool kin__record_is_on;
/* The step in which a debugger gets the word, once; 0: none. */
extern uint64_t kin__record_break_at;

void kin__record_begin(const struct kin__engine *engine);
void kin__record_end(void);
void kin__record_slow(unsigned actor, enum kin__noted what, unsigned other, const char *object,
                      const char *text);

static inline void kin__record(unsigned actor, enum kin__noted what, unsigned other,
                               const char *object, const char *text)
{
    if (__builtin_expect(kin__record_is_on, 0))
        kin__record_slow(actor, what, other, object, text);
}

/* Who waits for whom, in the words of the oracle; several lines; copied. Part of the report. */
void kin__record_waits(const char *text);

/* ---- for those who read it ---- */

#define KIN__RECORD_FRAMES 12u
#define KIN__RECORD_TEXT 96u

struct kin__event {
    uint64_t step;    /* of the engine */
    int64_t time;     /* of the virtual clock */
    uint16_t actor;   /* NOBODY: the world itself */
    uint16_t other;
    uint8_t what;     /* enum kin__noted */
    uint8_t frames_count;
    char text[KIN__RECORD_TEXT];
    char path[KIN__RECORD_TEXT];            /* of the object */
    uintptr_t frames[KIN__RECORD_FRAMES];   /* return addresses, innermost first */
};

/* The i-th event that was kept, the oldest is 0; NULL: there are fewer. */
const struct kin__event *kin__record_get(size_t i);
size_t kin__record_count(void);
/* How many did not fit. */
uint64_t kin__record_dropped(void);
const char *kin__record_waits_text(void); /* never NULL */

#endif
