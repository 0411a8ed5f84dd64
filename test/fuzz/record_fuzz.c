/* SPDX-License-Identifier: MIT */
/*
 * Goal: no file harms whoever reads it as a record of production, and what is made of it is whole.
 * Method: libFuzzer; a text is read, told, drawn, traced, and made a schedule of, which has no line
 * that it should not have.
 */
#include "lab/dump.h"
#include "lab/picture.h"
#include "plat/plat.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void expect(bool is_right)
{
    if (!is_right)
        abort();
}

static char memory[1 << 20];

static void check_schedule(const struct kin__dump *dump)
{
    static const char *const words[] = {"kinlab ", "test ",   "strategy ", "record ",
                                        "sched ",  "choose ", "end"};
    struct kin__text out;
    kin__text_init(&out, memory, sizeof(memory));
    expect(kin__dump_schedule(dump, &out, "fuzz"));
    for (const char *line = memory; *line; line = strchr(line, '\n') + 1) {
        bool is_known = false;
        for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++)
            is_known = is_known || strncmp(line, words[i], strlen(words[i])) == 0;
        expect(is_known && strchr(line, '\n'));
    }
}

static void check_events(const struct kin__dump *dump)
{
    struct kin__text out;
    for (size_t i = 0; i < dump->event_count; i++) {
        const struct kin__dump_event *event = &dump->events[i];
        expect(event->task < dump->task_count && event->by < dump->task_count);
        expect(i == 0 || dump->events[i - 1].ns <= event->ns);
        kin__text_init(&out, memory, sizeof(memory));
        kin__dump_say(dump, event, &out);
    }
}

static void check_drawings(const struct kin__dump *dump)
{
    struct kin__engine_failure failure = {.oracle = "record"};
    struct kin__finding finding = {.test = "fuzz", .failure = &failure};
    struct kin__story story;
    struct kin__text out;
    expect(kin__dump_story(dump, &story));
    kin__text_init(&out, memory, sizeof(memory));
    kin__picture_draw(&out, &finding, &story);
    kin__story_forget(&story);
    if (dump->workers > 64)
        return; /* as many tracks: nothing new, and slow */
    kin__text_init(&out, memory, sizeof(memory));
    expect(kin__dump_trace(dump, &out));
    for (const char *at = memory; *at; at++)
        expect((unsigned char)*at >= ' ' || *at == '\n'); /* as JSON has it */
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct kin__dump dump = {0};
    char *text = kin__heap_alloc(size + 1);
    expect(text != NULL);
    memcpy(text, bytes, size);
    if (kin__dump_read(&dump, text, size) == 0) {
        check_schedule(&dump);
        check_events(&dump);
        check_drawings(&dump);
    }
    kin__dump_release(&dump);
    kin__heap_free(text);
    return 0;
}
