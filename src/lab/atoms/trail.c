/* SPDX-License-Identifier: MIT */
/*
 * What happened in the run that is reported: a line for each access, with what names there are.
 */
#include "lab/atoms/atoms.h"

#include "base/text.h"
#include "plat/source.h"
#include "plat/plat.h"

#include <string.h>

#define EVENTS_MAX 4096u

struct event {
    uint64_t step;
    const char *what; /* a constant */
    const char *thread;
    uintptr_t address, pc;
    uint64_t value;
    uint32_t size; /* 0: no access */
    int order;     /* -1: none */
};

static struct event events[EVENTS_MAX]; /* the last ones; a ring */
static uint64_t count;

static const char *const orders[] = {"relaxed", "consume", "acquire", "release", "acq_rel", "seq"};

void kin__trail_begin(void)
{
    count = 0;
}

void kin__trail_note(const char *what, uintptr_t address, uint32_t size, uint64_t value, int order,
                     uintptr_t pc)
{
    events[count++ % EVENTS_MAX] = (struct event){kin__engine_step(kin__atoms.engine), what,
                                                  kin__atoms.current->name, address, pc, value,
                                                  size, order};
}

void kin__trail_text(const char *text)
{
    kin__trail_note(text, 0, 0, 0, -1, 0);
}

/* Function, file and line; without the address, which is another one in each process. */
void kin__trail_code(struct kin__text *out, uintptr_t pc)
{
    struct kin__place place;
    if (kin__source_find(pc, &place) && place.line) {
        kin__text_printf(out, "%s (%s:%u)", place.function, place.file, place.line);
        return;
    }
    char memory[256];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__code_name(&text, pc);
    const char *name = strchr(memory, ' ');
    kin__text_str(out, name ? name + 1 : memory);
}

void kin__trail_memory(struct kin__text *out, uintptr_t address)
{
    unsigned block;
    size_t offset;
    if (kin__block_find(address, &block, &offset)) {
        kin__text_printf(out, "block %u+%zu", block, offset);
        return;
    }
    for (unsigned i = 1; i < kin__atoms.count; i++) {
        uintptr_t low = (uintptr_t)kin__atoms.flows[i].stack;
        if (address >= low && address < low + KIN__ATOMS_STACK) {
            kin__text_printf(out, "stack of %s-%zu", kin__atoms.flows[i].name,
                             (size_t)(low + KIN__ATOMS_STACK - address));
            return;
        }
    }
    kin__trail_code(out, address + 1); /* which is meant for return addresses */
}

static void write_event(struct kin__text *out, const struct event *event)
{
    size_t begin = out->len;
    kin__text_printf(out, "%5llu  %s", (unsigned long long)event->step, event->thread);
    while (out->len - begin < 20 && !kin__text_is_full(out)) /* ends: longer each time */
        kin__text_char(out, ' ');
    kin__text_printf(out, " %s", event->what);
    if (event->size) {
        kin__text_char(out, ' ');
        kin__trail_memory(out, event->address);
        kin__text_printf(out, " = 0x%llx", (unsigned long long)event->value);
    }
    if (event->order >= 0 && event->order < 6)
        kin__text_printf(out, " (%s)", orders[event->order]);
    if (event->pc) {
        kin__text_str(out, "  ");
        kin__trail_code(out, event->pc);
    }
    kin__text_end_line(out);
}

void kin__trail_write(struct kin__text *out)
{
    uint64_t from = count > EVENTS_MAX ? count - EVENTS_MAX : 0;
    if (count)
        kin__text_str(out, " step  thread\n");
    for (uint64_t i = from; i < count; i++)
        write_event(out, &events[i % EVENTS_MAX]);
}
