/* SPDX-License-Identifier: MIT */
/*
 * Explores a program of the small world, for tests of the engine.
 */
#ifndef KIN_TEST_EXPLORE_H
#define KIN_TEST_EXPLORE_H

#include "kin_test.h"
#include "lab/engine.h"
#include "small_world.h"

static struct small_world world;

/* All runs of an engine that was just made; the caller destroys it. */
static inline struct kin__engine *explore(const struct small_program *program,
                                          const struct kin__engine_config *config)
{
    int status = -1;
    struct kin__engine *e = kin__engine_create(config, &status);

    EXPECT(e != NULL);
    EXPECT_EQ(status, 0);
    world.program = program;
    world.engine = e;
    while (kin__engine_begin(e)) {
        small_run(&world);
        kin__engine_end(e);
    }
    return e;
}

/* What came out of it. */
static inline struct kin__engine_result explore_result(const struct small_program *program,
                                                       const struct kin__engine_config *config)
{
    struct kin__engine *e = explore(program, config);
    struct kin__engine_result result = *kin__engine_result(e);

    kin__engine_destroy(e);
    return result;
}

/* Two actors add one to a word by reading and writing; a third does something else. */
static inline struct small_program explore_lost_update(void)
{
    return (struct small_program){
        .actors = 3,
        .all = 3,
        .ops = {{{SMALL_READ, 1, 0, 0}, {SMALL_READ, 0, 0, 0}, {SMALL_PUT, 0, 1, 0}},
                {{SMALL_ADD, 3, 1, 0}, {SMALL_READ, 0, 0, 0}, {SMALL_PUT, 0, 1, 0}},
                {{SMALL_READ, 1, 0, 0}, {SMALL_ADD, 2, 1, 0}}},
        .at_end = {2},
        .has_end = 1,
    };
}

#endif
