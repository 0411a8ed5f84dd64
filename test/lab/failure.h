/* SPDX-License-Identifier: MIT */
/*
 * A failure to tell: a tiny world under a real engine, which fails when the first actor comes last.
 */
#ifndef KIN_TEST_LAB_FAILURE_H
#define KIN_TEST_LAB_FAILURE_H

#include "lab/engine.h"
#include "lab/record.h"
#include "lab/report.h"

#define NOBODY KIN__NOTE_NOBODY

/* Runs it until the failure is found, shrunk and recorded. actors: how many take part. */
static struct kin__engine *find_failure(unsigned actors, const char *text)
{
    struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM,
                                        .seed = 7,
                                        .runs_max = 1000,
                                        .test = "tiny",
                                        .shrinks = true,
                                        .notes = ""};
    int status = 0;
    struct kin__engine *engine = kin__engine_create(&config, &status);
    if (!engine)
        return NULL;
    while (kin__engine_begin(engine)) {
        uint16_t enabled[64];
        unsigned left[64], count = actors;
        unsigned begun = 0; /* of the others */
        if (kin__engine_is_recorded(engine))
            kin__record_begin(engine);
        for (unsigned i = 0; i < actors; i++) {
            char path[16] = "root";
            if (i > 0) {
                path[4] = '/';
                path[5] = (char)('a' + i % 26);
                path[6] = '\0';
            }
            (void)kin__engine_actor(engine, path);
            enabled[i] = (uint16_t)i;
            left[i] = 2;
            if (i > 0)
                kin__record(0, KIN__NOTE_SPAWN, i, NULL, i == 1 ? "<first> & \"only\"" : NULL);
        }
        while (count > 0 && !kin__engine_is_over(engine)) {
            unsigned actor = kin__engine_pick(engine, enabled, count);
            if (kin__engine_is_over(engine))
                break;
            kin__engine_touch(engine, 64, KIN__TOUCH_WRITE);
            begun += actor != 0 && left[actor] == 2;
            if (actor == 0 && left[0] == 2 && begun == actors - 1) {
                kin__record(0, KIN__NOTE_FAIL, NOBODY, "root", text);
                kin__record_waits("root -> nobody");
                kin__engine_fail(engine, "assert", -1, "root", text);
                kin__record_end();
            }
            if (actor != 0 && left[actor] == 2)
                kin__record(actor, KIN__NOTE_PARK, NOBODY, "root#chan0", "channel: receive");
            if (actor == 0)
                kin__record(0, KIN__NOTE_WAKE, 1, NULL, NULL);
            if (--left[actor] > 0)
                continue;
            kin__record(actor, KIN__NOTE_END, NOBODY, NULL, NULL);
            for (unsigned i = 0; i < count; i++) {
                if (enabled[i] == actor)
                    enabled[i] = enabled[--count];
            }
        }
        kin__record_end();
        kin__engine_end(engine);
    }
    return engine;
}

#endif
