/* SPDX-License-Identifier: MIT */
/*
 * The whole contract with the outside: threads, clocks, memory of the operating system, CPU state.
 *
 * Nothing above this floor calls the operating system or libc for any of these; the lab implements
 * the same header on one thread and virtual time. No function here reads or sets errno as part of
 * its contract: failures are returned as -errno. Functions that may fail for want of a resource can
 * be told to fail on purpose (kin__plat_fail_after), which is how exhausted memory is tested.
 */
#ifndef KIN_PLAT_PLAT_H
#define KIN_PLAT_PLAT_H

#include "base/atomic.h"
#include "base/bits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIN__PAGE 4096u /* smallest page of every supported machine; the real one is asked for */
#define KIN__LINE 64u   /* cache line that shared fields are kept apart by */

/* ---- threads (linux/thread.c) ---- */

struct kin__thread {
    uint64_t handle; /* the system's name for it; 0: none */
    kin__ai32 tid;   /* kernel id, 0 until it runs */
};

/* Starts a thread that runs fn(arg) with a stack of stack_bytes and every signal blocked but the
 * synchronous ones; name is cut to 15 bytes. 0 or -errno. */
int kin__thread_start(struct kin__thread *thread, void (*fn)(void *), void *arg, size_t stack_bytes,
                      const char *name);
void kin__thread_join(struct kin__thread *thread);
/* The same without waiting: nobody joins it any more. Also by the thread itself. */
void kin__thread_leave(struct kin__thread *thread);
/* Calls fn(arg). If that ends the thread instead of returning (pthread_exit), gone(arg) is called
 * on it as one of its last acts; it may take locks and start threads. */
void kin__thread_call(void (*fn)(void *), void (*gone)(void *), void *arg);
/* CPU time the thread has used so far in ns; -errno when it cannot be told. */
int64_t kin__thread_cpu_ns(const struct kin__thread *thread);
/* Whether the thread sleeps in the kernel right now, as against running or waiting for a CPU. */
bool kin__thread_is_asleep(const struct kin__thread *thread);
/* Whether the thread has ended without its function having returned. */
bool kin__thread_is_gone(const struct kin__thread *thread);
/* How many threads the process has that might wake a task, that is without those that the kernel
 * has in it and without passive ones; 0: cannot be told now. */
unsigned kin__process_threads(void);
/* One thread of kin's own more (by = 1) or less (-1) is passive: it sleeps, and whoever it could
 * wake is counted as waiting for something outside, or can only be cancelled by it [A13]. Said by
 * the thread itself or by whoever gives it work, before that. */
void kin__thread_passive(int by);
/* The number of the process. */
unsigned kin__process_id(void);
/* Describes the calling thread, for the two functions above; never joined. */
void kin__thread_adopt(struct kin__thread *thread);
/* Offers the CPU to another thread of the system. */
void kin__thread_yield(void);

/* One pointer per thread. Never remembered by the compiler: after a switch a task may be on another
 * thread, and a cached TLS address would be the old thread's. On x86-64 two volatile instructions,
 * which read the thread register anew each time and cost a third of a call; a call elsewhere. */
#if defined(__x86_64__) && defined(__LP64__)
#define KIN__SELF_INLINE 1
static inline void *kin__self_get(void)
{
    void *self;

    __asm__ volatile("movq kin__self@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(self));
    return self;
}
#else
void *kin__self_get(void);
#endif
void kin__self_set(void *self);
/* A number of the calling thread that no other thread of the process has or ever had. */
uint64_t kin__thread_number(void);
/* One flag per thread: it runs a program of the core profile, which has no scheduler. */
bool kin__thread_is_core(void);
void kin__thread_set_core(bool is_core);
/* Capabilities that the thread lacks, because it works for a task that lacks them; 0: none. */
uint32_t kin__thread_lacks(void);
void kin__thread_set_lacks(uint32_t caps);
/* The task that the thread works for, and that waits until it is done; NULL: none. */
void *kin__thread_client(void);
void kin__thread_set_client(void *task);

/* ---- sleeping and waking a thread (linux/futex.c) ---- */

/* Sleeps while *word == expected, at most timeout_ns (negative: without end). 0 when woken or the
 * word differed, -ETIMEDOUT, -EINTR. May return early: the caller looks again. */
int kin__futex_wait(kin__a32 *word, uint32_t expected, int64_t timeout_ns);
void kin__futex_wake(kin__a32 *word, int count);

/* Makes every other running thread of the process pass a full fence. True when the kernel has it;
 * kin__membarrier may be called only then. */
bool kin__membarrier_init(void);
void kin__membarrier(void);

/* ---- time (linux/clock.c) ---- */

int64_t kin__clock_now(void); /* CLOCK_MONOTONIC in ns */
/* So many nanoseconds from now. */
static inline int64_t kin__clock_after(int64_t ns)
{
    return kin__add_sat(kin__clock_now(), ns);
}
#ifdef KIN__LAB
int64_t kin__host_now(void); /* the same, in a run of the lab too */
#endif

/* ---- memory (linux/vm.c) ---- */

size_t kin__vm_page(void);
/* Reserves address space that becomes memory when touched, never by huge pages. NULL: none left. */
void *kin__vm_reserve(size_t bytes);
void kin__vm_release(void *base, size_t bytes);
/* How much of what was released the system did not take back: pieces that are kept for later. */
size_t kin__vm_kept(void);
/* Asks for huge pages after all: for large arrays that are used densely. A hint. */
void kin__vm_prefer_huge(void *base, size_t bytes);
/* Gives the pages back; they read as zero when touched again. Where memory is locked (mlockall) and
 * the kernel cannot discard locked pages, it does nothing. */
void kin__vm_discard(void *base, size_t bytes);
/* Makes [base + i*stride, base + i*stride + guard_bytes), i < count, fault on any access, in as few
 * system calls as possible. Returns how many of the count are guarded (from 0 on): less than count
 * when the kernel has no guard regions and the cap on mprotect guards is reached. */
size_t kin__vm_guard(void *base, size_t stride, size_t guard_bytes, size_t count);
/* Makes memory that was reserved fault on any access, and accessible again, by splitting mappings.
 * False: the process has none left, and nothing has changed. */
bool kin__vm_close(void *base, size_t bytes);
void kin__vm_open(void *base, size_t bytes);
/* How guards are made on this machine: "madvise", "mprotect" or "none"; for reports. */
const char *kin__vm_guard_kind(void);
/* For tests: guards are made this way from here on; each way still falls back to the next one. */
enum kin__vm_way { KIN__VM_PROBE, KIN__VM_BATCH, KIN__VM_MADVISE, KIN__VM_MPROTECT, KIN__VM_NONE };
void kin__vm_force(enum kin__vm_way way);
/* Guards that mprotect may make in one process: each costs up to two of the mappings that
 * vm.max_map_count (65,530 as a rule) allows, and others need some too. */
#define KIN__VM_MPROTECT_MAX 16000u

/* ---- heap (linux/heap.c) ---- */

void *kin__heap_alloc(size_t bytes);       /* zeroed, 16-aligned; NULL when there is none */
void kin__heap_free(void *p);              /* NULL is fine */
void *kin__heap_alloc_lines(size_t bytes); /* the same, aligned to a cache line */
void kin__heap_free_lines(void *p);
#ifdef KIN__LAB
void *kin__host_alloc(size_t bytes); /* the same, for the lab itself: outlives a run */
void kin__host_free(void *p);
void *kin__host_alloc_lines(size_t bytes);
void kin__host_free_lines(void *p);
#endif

/* ---- failing on purpose (linux/heap.c) ---- */

/* The n-th resource request from now on fails once (n >= 1), or every one from the n-th on when
 * forever; 0 turns it off. Requests: heap_alloc, vm_reserve, thread_start. */
void kin__plat_fail_after(uint64_t n, bool forever);
/* Requests so far since the last kin__plat_fail_after. */
uint64_t kin__plat_requests(void);
/* Counts one request; false when it must fail. Called by the functions of this floor. */
bool kin__plat_request(void);

/* ---- descriptors (linux/fd.c; who watches them: poller.h) ---- */

struct kin__ready {
    uint64_t data;
    uint32_t bits; /* KIN__READY_ */
};
#define KIN__READY_READ 1u
#define KIN__READY_WRITE 2u
#define KIN__READY_MORE 4u /* beside data to read: an end, an error, urgent data */

int kin__fd_close(int fd);
/* Makes sure that calls on it do not block, for a descriptor of kin's own: 0 or -errno. */
int kin__fd_unblock(int fd);
/* What keeps a call on a descriptor from blocking. One that the program opened shares its flags
 * with whoever else has the open file, so they stay as they are. */
enum kin__fd_manner {
    KIN__FD_FREE,   /* nothing: it does not block, or is a file, for which nobody can wait */
    KIN__FD_SOCKET, /* MSG_DONTWAIT */
    KIN__FD_PIPE,   /* RWF_NOWAIT, else an open file of our own for the length of the call */
    KIN__FD_TTY,    /* likewise */
    KIN__FD_LOOK    /* RWF_NOWAIT, else a look before a thread makes the call */
};
/* Which of them, or -EBADF. */
int kin__fd_manner(int fd);
/* Calls that never block and never raise a signal: how many bytes, or -errno. */
struct iovec;
int64_t kin__fd_read(int fd, void *buf, size_t size);
int64_t kin__fd_receive(int fd, void *buf, size_t size); /* of a socket: cheaper than a read */
int64_t kin__fd_write(int fd, const void *buf, size_t size);
int64_t kin__fd_readv(int fd, const struct iovec *parts, int count);
int64_t kin__fd_writev(int fd, const struct iovec *parts, int count);
int64_t kin__fd_sendfile(int to, int from, int64_t *offset, size_t size);
/* The same for descriptors of any manner, which are left as they are; -EOPNOTSUPP: it seems to be
 * ready, and only a call that may wait can tell. */
int64_t kin__fd_readv_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count);
int64_t kin__fd_writev_as(int fd, enum kin__fd_manner manner, const struct iovec *parts, int count);
int64_t kin__fd_sendfile_as(int to, enum kin__fd_manner manner, int from, int64_t *offset,
                            size_t size);
/* A write that may wait, of no more than a pipe that is ready has room for. */
int64_t kin__fd_writev_little(int fd, const struct iovec *parts, int count);
/* Whether it can be written to at all: 0; -EBADF; -EPIPE: a pipe that nobody reads. */
int kin__fd_takes(int fd);
/* Moves bytes without copying them through the program: -EINVAL unless one of the two is a pipe;
 * -EAGAIN when either is not ready. */
int64_t kin__fd_splice(int to, int from, size_t size);
/* A pipe, both ends non-blocking: 0 or -errno. */
int kin__fd_pipe(int fds[2]);
int kin__fd_shutdown(int fd, int how);
/* Which of bits (KIN__READY_) it is ready for now; 0: none; -errno. */
int kin__fd_look(int fd, unsigned bits);
/* What the number stands for. */
enum kin__fd_kind { KIN__FD_KIND_OTHER, KIN__FD_KIND_SOCKET, KIN__FD_KIND_FILE };
enum kin__fd_kind kin__fd_kind(int fd);

/* ---- sockets (linux/socket.c) ---- */

/* An address as the system wants it. */
struct kin__sockaddr {
    uint32_t size;
    union {
        uint16_t family;
        uint64_t align;
        unsigned char bytes[128]; /* struct sockaddr_storage */
    };
};

struct kin__socket_options {
    int backlog;          /* of a listener */
    bool shares_port;     /* several sockets may have one address, each gets a part */
    bool only_v6;
};

/* A new non-blocking socket, or -errno. is_stream: TCP or a Unix stream; else datagrams. */
int kin__socket_open(int family, bool is_stream);
/* Binds and listens, or only binds a socket for datagrams. 0 or -errno. */
int kin__socket_listen(int fd, const struct kin__sockaddr *address,
                       const struct kin__socket_options *options);
int kin__socket_bind(int fd, const struct kin__sockaddr *address);
/* 0: connected; -EINPROGRESS: wait until it can be written, then ask kin__socket_error. */
int kin__socket_connect(int fd, const struct kin__sockaddr *address);
int kin__socket_error(int fd); /* 0 or -errno of what went wrong last */
/* Whether it is a socket that listens: accept(2) never waits on anything else. */
bool kin__socket_listens(int fd);
/* The next connection, non-blocking, or -errno. */
int kin__socket_accept(int fd);
int64_t kin__socket_send_to(int fd, const void *buf, size_t size, const struct kin__sockaddr *to);
int64_t kin__socket_receive_from(int fd, void *buf, size_t size, struct kin__sockaddr *from);
int kin__socket_name(int fd, bool is_peer, struct kin__sockaddr *out);
/* Small writes leave at once; harmless where it makes no sense. */
void kin__socket_no_delay(int fd);

/* ---- machine (linux/topology.c) ---- */

/* CPUs this process may use: affinity and cgroup v1/v2 quota respected, at least 1. */
unsigned kin__cpu_count(void);
/* The quota alone, read below root ("" for the real one), in CPUs rounded up; 0: no limit. */
unsigned kin__cpu_quota(const char *root);

/* Copies memory that may be gone: false when it is. For peeks, through the kernel. */
bool kin__plat_peek(const void *from, void *to, size_t size);
/* Writes text to a descriptor, whole, retrying; usable in a signal handler. 0 or -errno, for
 * whoever can do something about it. */
int kin__plat_write(int fd, const char *text, size_t size);
_Noreturn void kin__plat_abort(void);
/* Environment variable or NULL; always NULL in a program with raised privileges. */
const char *kin__plat_env(const char *name);
/* Unpredictable seed. */
uint64_t kin__plat_entropy(void);
/* Unpredictable bytes, fit for keys: 0 or -errno, with none of them left there. */
int kin__plat_random(void *buf, size_t size);

/* ---- faults (linux/fault.c) ---- */

struct kin__fault {
    uintptr_t address; /* what was touched */
    bool is_fatal;     /* PASS ends the process: nobody else has a handler */
    uintptr_t pc, sp;  /* where the code was */
    bool in_libc;      /* pc lies in libc or the dynamic loader: their locks may be held */
    /* filled in by the resolver for KIN__FAULT_JUMP: call target(argument) on stack */
    uintptr_t stack;
    void (*target)(void *);
    void *argument;
};
enum kin__fault_action { KIN__FAULT_PASS, KIN__FAULT_JUMP, KIN__FAULT_ABORT };

/* Installs the SIGSEGV/SIGBUS handler once per process, keeping what was there for PASS. The
 * resolver runs on the alternate stack of the faulting thread. Counted: fini restores when the
 * last user has gone. */
int kin__fault_init(enum kin__fault_action (*resolve)(struct kin__fault *fault));
void kin__fault_fini(void);
/* Where the code was that a signal has interrupted, by the third argument of its handler; 0 where
 * that is not known. */
void kin__fault_where(const void *context, uintptr_t *pc, uintptr_t *sp);
/* Gives the calling thread its alternate stack, takes it away again. 0 or -errno. */
int kin__fault_thread_init(void);
void kin__fault_thread_fini(void);

/* ---- crashes (linux/crash.c) ---- */

/* The hook is called, in a signal handler, when a signal is about to end the process that it has
 * caused itself, other than by the faults above: SIGABRT and such, where nobody has a handler.
 * Counted, with one hook for all. */
void kin__crash_init(void (*hook)(void));
void kin__crash_fini(void);

/* ---- where a suspended flow stands (linux/backtrace.c) ---- */

#define KIN__CODE_PARTS 64u

/* The executable parts of the process. */
struct kin__code {
    unsigned count;
    uintptr_t begin[KIN__CODE_PARTS], end[KIN__CODE_PARTS];
};
struct kin__text;

/* Takes the loader's lock for a moment. */
void kin__code_read(struct kin__code *code);
/* Return addresses between a saved stack pointer and end, the innermost first: how many. Frames
 * that have ended may be among them. Takes no lock; the memory must be mapped, and may change. */
unsigned kin__code_frames(const struct kin__code *code, const void *sp, const void *end,
                          uintptr_t *frames, unsigned max);
/* A thread that is asked where it stands (linux/where.c). */
struct kin__where {
    const struct kin__thread *thread;
    const void *self; /* what kin__self_get answers there */
    /* Whether it still does what the question is about; also called in a signal handler there. */
    bool (*is_there)(const void *arg);
    const void *arg;
    const char *low, *end; /* the stack that is read */
};

/* The innermost address and return addresses of a thread that runs or sleeps in a system call, as
 * kin__code_frames finds them: how many. 0: it cannot be told; the thread has gone, does something
 * else by now, or does not answer within a second. A sleep is not disturbed. */
unsigned kin__thread_where(const struct kin__where *where, const struct kin__code *code,
                           uintptr_t *frames, unsigned max);
/* Appends the place of the call that returns to pc: "crawl (spider.c:88)" where the file of the
 * program has debugging information, "crawl+0x1c (+0x31f4)" or "0x55.. (+0x31f4)" where not; the
 * number in brackets is what tools need to find it in the file after the process is gone. Takes no
 * lock; may run in a signal handler. */
void kin__code_place(struct kin__text *text, uintptr_t pc);
/* The same for the beginning of a function. */
void kin__code_entry(struct kin__text *text, uintptr_t fn);
/* The same as kin__code_place, but where no line is known with the object and the offset in it, as
 * the loader knows them; takes the loader's lock. For lines of a backtrace. */
void kin__code_name(struct kin__text *text, uintptr_t pc);

#endif
