/* SPDX-License-Identifier: MIT */
/*
 * What the kernel says a thread is doing, read from its state in /proc.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include "base/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

void kin__thread_adopt(struct kin__thread *thread)
{
    thread->handle = 0;
    /* relaxed: a number for reports */
    kin__store_relaxed(&thread->tid, (int32_t)syscall(SYS_gettid));
}

/* The letter behind the last ")" of a stat line: the name before it may contain anything. */
static char state_letter(const char *stat)
{
    const char *close = strrchr(stat, ')');
    return close && close[1] == ' ' ? close[2] : '\0';
}

bool kin__thread_is_asleep(const struct kin__thread *thread)
{
    int32_t tid = kin__load_relaxed(&thread->tid); /* relaxed: a number for reports */
    char path[64], stat[256];
    struct kin__text text;
    if (tid <= 0)
        return false;
    kin__text_init(&text, path, sizeof(path));
    kin__text_printf(&text, "/proc/self/task/%d/stat", (int)tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, stat, sizeof(stat) - 1);
    (void)close(fd);
    if (got <= 0)
        return false;
    stat[got] = '\0';
    char letter = state_letter(stat);
    return letter == 'S' || letter == 'D' || letter == 'T' || letter == 't';
}
