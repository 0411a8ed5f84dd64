/* SPDX-License-Identifier: MIT */
/*
 * The slow parts of the word: tasks by name and in words, and the legality matrix as debug builds
 * check it.
 */
#include "task/word.h"

#include "base/text.h"
#include "plat/plat.h"

struct kin__task *kin__task_find(uint64_t id)
{
    struct kin__frame *frame = id ? kin__frame_at(KIN__FRAME_TASK, id) : NULL;
    /* a hint, as the header says; pairs with the release in kin__frame_free_as */
    return frame && kin__load_acquire(&frame->name) == id ? kin__task_of_frame(frame) : NULL;
}

void kin__task_say_id(struct kin__text *text, uint64_t id)
{
    uint64_t uses = kin__frame_life(id);
    kin__text_printf(text, "task %u", (unsigned)(id & ((1u << KIN__FRAME_INDEX_BITS) - 1)));
    if (uses > 1)
        kin__text_printf(text, ".%llu", (unsigned long long)uses);
}

/* Fields that the task's worker may write while somebody else asks: a moment old. */
__attribute__((no_sanitize("thread"))) static uintptr_t entry_of(const struct kin__task *task)
{
    bool has_spare = *(const volatile uint16_t *)&task->flags & KIN__TASK_SPARE;
    return has_spare ? 0 : (uintptr_t)*(kin_task_fn *const volatile *)&task->fn;
}

__attribute__((no_sanitize("thread"))) static uintptr_t site_of(const struct kin__task *task)
{
    return (uintptr_t)*(const void *const volatile *)&task->site;
}

struct kin__task_code kin__task_code(const struct kin__task *task)
{
    return (struct kin__task_code){site_of(task), entry_of(task)};
}

void kin__task_say_code(struct kin__text *text, struct kin__task_code code)
{
    kin__text_str(text, "spawned at ");
    kin__code_place(text, code.site);
    if (code.entry) {
        kin__text_str(text, ", entry ");
        kin__code_entry(text, code.entry);
    }
}

void kin__task_say(struct kin__text *text, const struct kin__task *task)
{
    kin__task_say_id(text, kin__task_id(task));
    kin__text_printf(text, " (%s), ", kin__task_name(task));
    kin__task_say_code(text, kin__task_code(task));
}

#ifdef KIN_DEBUG

/* One bit per actor that may make the transition [MX]. Rows: from. Columns: to. */
#define BY(actor) (1u << (actor))
static const uint8_t matrix[8][8] = {
    [KIN__INIT] = {[KIN__RUNNABLE] = BY(KIN__BY_SPAWNER)},
    [KIN__RUNNABLE] = {[KIN__RUNNING] = BY(KIN__BY_WORKER)},
    [KIN__RUNNING] = {[KIN__RUNNABLE] = BY(KIN__BY_TASK) | BY(KIN__BY_WORKER),
                      [KIN__PARKING] = BY(KIN__BY_TASK),
                      [KIN__DONE] = BY(KIN__BY_TASK),
                      [KIN__CANCELLED] = BY(KIN__BY_TASK)},
    [KIN__PARKING] = {[KIN__RUNNING] = BY(KIN__BY_TASK), [KIN__PARKED] = BY(KIN__BY_WORKER)},
    [KIN__PARKED] = {[KIN__WAKING] = BY(KIN__BY_WAKER) | BY(KIN__BY_WORKER)},
    [KIN__WAKING] = {[KIN__RUNNABLE] = BY(KIN__BY_WAKER) | BY(KIN__BY_WORKER)},
    [KIN__DONE] = {[KIN__INIT] = BY(KIN__BY_SPAWNER)},
    [KIN__CANCELLED] = {[KIN__INIT] = BY(KIN__BY_SPAWNER)},
};

static const char *const state_names[8] = {"INIT",   "RUNNABLE", "RUNNING", "PARKING",
                                           "PARKED", "WAKING",   "DONE",    "CANCELLED"};
static const char *const actor_names[4] = {"task", "worker", "waker", "spawner"};

void kin__word_move(struct kin__task *task, enum kin__state from, enum kin__state to,
                    enum kin__actor actor)
{
    /* relaxed: only the owner of the transition is here, ordered by the word or the run queue */
    int32_t is = kin__load_quiet(&task->shadow);
    if (is == (int32_t)from && (matrix[from][to] & BY(actor))) {
        kin__store_quiet(&task->shadow, (int32_t)to); /* relaxed: as above */
        return;
    }
    char memory[256];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__task_say_id(&text, kin__task_id(task));
    kin__text_printf(&text, ": %s -> %s by %s while %s", state_names[from], state_names[to],
                     actor_names[actor], is >= 0 && is < 8 ? state_names[is] : "corrupt");
    kin__check_failed(memory, "MX", __FILE__, __LINE__, __func__);
}

#endif
