/* SPDX-License-Identifier: MIT */
/*
 * What the kernel knows about this process: what a thread is doing, how many there are, whether an
 * address is mapped.
 */
#define _GNU_SOURCE 1
#include "plat/plat.h"

#include "base/text.h"
#include "plat/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
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

/* The first bytes of a file, as a string; false when it cannot be read. */
static bool read_start(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, buf, size - 1);
    (void)close(fd);
    buf[got > 0 ? got : 0] = '\0';
    return got > 0;
}

/* What a thread is doing, as a letter of proc(5); 0 when it cannot be told. */
static char letter_of(int32_t tid)
{
    char path[64], stat[256];
    struct kin__text text;
    if (tid <= 0)
        return '\0';
    kin__text_init(&text, path, sizeof(path));
    kin__text_printf(&text, "/proc/self/task/%d/stat", (int)tid);
    return read_start(path, stat, sizeof(stat)) ? state_letter(stat) : '\0';
}

bool kin__thread_is_asleep(const struct kin__thread *thread)
{
    char letter = letter_of(kin__load_relaxed(&thread->tid)); /* relaxed: a number for reports */
    return letter == 'S' || letter == 'D' || letter == 'T' || letter == 't';
}

/* The first thread of a process stays as a zombie; any other is not found any more. A descriptor
 * for the letter may be lacking, which is no proof of anything. */
static bool has_ended(int32_t tid)
{
    if (syscall(SYS_tgkill, (long)getpid(), (long)tid, 0L) < 0 && errno == ESRCH)
        return true;
    char letter = letter_of(tid);
    return letter == 'Z' || letter == 'X';
}

/* A thread whose function returns takes its number back before it ends, and so does whoever leaves
 * it: a number that was read before and is still there after the kernel has said that the thread is
 * over was not taken back at all. */
bool kin__thread_is_gone(const struct kin__thread *thread)
{
    int32_t tid = kin__load_relaxed(&thread->tid); /* relaxed: looked at again below */
    if (tid <= 0 || !has_ended(tid))
        return false;
    /* pairs with the releases in run_thread and kin__thread_leave; the end is in between */
    return kin__load_acquire(&thread->tid) == tid;
}

/* Whether a thread runs code of the process: threads of the kernel that work for its rings do not,
 * and what they end somebody waits for who is known. */
static bool is_of_program(const char *tid)
{
    static const char worker[] = "iou-wrk-";
    char path[64], name[32];
    struct kin__text text;
    kin__text_init(&text, path, sizeof(path));
    kin__text_printf(&text, "/proc/self/task/%s/comm", tid);
    return read_start(path, name, sizeof(name)) && strncmp(name, worker, sizeof worker - 1) != 0;
}

unsigned kin__process_id(void)
{
    return (unsigned)getpid();
}

static kin__a32 passive; /* threads of kin's own that wake nobody by themselves */

void kin__thread_passive(int by)
{
    (void)kin__add_acq_rel(&passive, (uint32_t)by); /* pairs with the loads in process_threads */
}

/* How many threads run code of the process. */
static unsigned count_threads(void)
{
    _Alignas(8) char bytes[1024];
    struct kin__file_entry entry;
    unsigned count = 0;
    int64_t size;
    int dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return 0;
    while ((size = kin__file_entries(dir, bytes, sizeof(bytes))) > 0) { /* ends: threads do */
        for (size_t at = 0; at < (size_t)size;) { /* ends: an entry further each time */
            at = kin__file_entry(bytes, at, &entry);
            count += entry.name[0] != '.' && is_of_program(entry.name);
        }
    }
    (void)close(dir);
    return count;
}

unsigned kin__process_threads(void)
{
    uint32_t before = kin__load_acquire(&passive); /* pairs with kin__thread_passive */
    unsigned count = count_threads();
    /* pairs with the same: one that has changed meanwhile was counted as one or the other */
    return kin__load_acquire(&passive) == before && count >= before ? count - before : 0;
}

/* The same where the other way is not allowed: by an emulator, by a filter of system calls. */
static bool peek_through_pipe(const void *from, void *to, size_t size)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    bool is_there = syscall(SYS_write, ends[1], from, size) == (long)size &&
                    syscall(SYS_read, ends[0], to, size) == (long)size;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return is_there;
}

/* The kernel looks at the memory for us and says EFAULT instead of raising a signal. By number: a
 * sanitizer must not take the kernel's look for one of the program's own. */
bool kin__plat_peek(const void *from, void *to, size_t size)
{
    const struct iovec there = {(void *)(uintptr_t)from, size}, here = {to, size};
    long got = syscall(SYS_process_vm_readv, (long)getpid(), &here, 1L, &there, 1L, 0L);
    if (got < 0 && errno != EFAULT)
        return peek_through_pipe(from, to, size);
    return got == (long)size;
}
