/* SPDX-License-Identifier: MIT */
/*
 * The end of a failed check: one line on stderr, then abort.
 *
 *     kin: check failed: bits == 0 [F2] at src/task/word.c:41 in kin__word_run, task fetch#17
 *
 * The line leaves in one write, so that failures of several threads do not mix. It is put together
 * on the stack, without allocation and without stdio, because checks also fail in signal handlers
 * and with every lock held.
 */
#include "base/check.h"

#include "base/assert.h"
#include "base/atomic.h"

#include <stddef.h>

#define CHECK_LINE_BYTES 1024
#define CHECK_STDERR 2

/* Declared here, defined above in plat, like kin__lock_slow of base/lock.h: to write and to abort
 * belongs to the operating system, yet every floor may fail a check. Their contract is plat.h. */
int kin__plat_write(int fd, const char *text, size_t size);
_Noreturn void kin__plat_abort(void);

_Atomic(kin__check_hook_fn *) kin__check_hook;

static void check_append_task(struct kin__text *line)
{
    /* pairs with the store of whoever set the hook: a function and nothing behind it */
    kin__check_hook_fn *hook = kin__xchg_relaxed(&kin__check_hook, NULL);
    if (hook == NULL)
        return;
    size_t before = line->len;
    kin__text_str(line, ", ");
    size_t empty = line->len;
    hook(line);
    if (line->len == empty)
        kin__text_cut(line, before);
}

_Noreturn void kin__check_failed(const char *condition, const char *clause, const char *file,
                                 int line, const char *function)
{
    char memory[CHECK_LINE_BYTES];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "kin: check failed: %s [%s] at %s:%d in %s", condition, clause, file,
                     line, function);
    check_append_task(&text);
    KIN__LAB_ABORT(memory);
    kin__text_end_line(&text);
    kin__plat_write(CHECK_STDERR, text.buf, text.len);
    kin__plat_abort();
}
