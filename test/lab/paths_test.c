/* SPDX-License-Identifier: MIT */
/*
 * Tests of the names of actors.
 */
#include "kin_test.h"
#include "lab/state.h"

#include <stdio.h>
#include <string.h>

static struct kin__lab *make(void)
{
    const struct kin__engine_config config = {.strategy = KIN__STRATEGY_RANDOM};
    int status = -1;
    struct kin__engine *e = kin__engine_create(&config, &status);

    EXPECT(e != NULL);
    return kin__lab_of(e);
}

KIN_TEST(a_path_has_one_name_for_good, "")
{
    struct kin__lab *s = make();
    char path[32];

    for (unsigned round = 0; round < 2; round++)
        for (unsigned i = 0; i < 5000; i++) {
            (void)snprintf(path, sizeof(path), "root/%u", i);
            EXPECT_EQ(kin__path_name(s, path), i);
        }
    EXPECT_STR(kin__path_text(s, 4321), "root/4321");
    EXPECT_STR(kin__path_text(s, 5000), "?");
    EXPECT_STR(kin__path_text(s, KIN__NO_NAME), "?");
    kin__engine_destroy(&s->head);
}

KIN_TEST(a_path_that_begins_like_another_is_another, "")
{
    struct kin__lab *s = make();

    EXPECT_NE(kin__path_name(s, "root/1"), kin__path_name(s, "root/11"));
    EXPECT_NE(kin__path_name(s, "root/11"), kin__path_name(s, "root/1/1"));
    EXPECT_NE(kin__path_name(s, ""), kin__path_name(s, "r"));
    kin__engine_destroy(&s->head);
}

KIN_TEST(a_path_is_cut_where_it_is_too_long, "")
{
    struct kin__lab *s = make();
    char path[2 * KIN__PATH_MAX];

    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = 0;
    uint32_t name = kin__path_name(s, path);
    EXPECT_EQ(strlen(kin__path_text(s, name)), KIN__PATH_MAX - 1);
    path[KIN__PATH_MAX] = 'y';
    EXPECT_EQ(kin__path_name(s, path), name);
    kin__engine_destroy(&s->head);
}
