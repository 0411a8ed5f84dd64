/* SPDX-License-Identifier: MIT */
/*
 * The machine as this process sees it: CPUs, environment, randomness, and the last words.
 *
 * A process may use the CPUs of its affinity mask, and no more than its control groups let it: a
 * quota of 150 ms every 100 ms is two CPUs at most. The groups are those of /proc/self/cgroup, and
 * every group above them counts too, because any of them may be the tighter one. Version 2 keeps
 * "quota period" or "max period" in cpu.max, version 1 keeps two numbers in two files, -1 for no
 * quota. They are looked for where every distribution mounts them; in a container whose own group
 * is mounted as the root, the walk upwards ends at that root and finds it.
 *
 * All reads are bounded, and a file that is missing, cut or nonsense is a file without a limit.
 */
#define _GNU_SOURCE 1
#include "base/assert.h"
#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#define AFFINITY_WORDS 1024u /* 65,536 CPUs */
#define CGROUP_BYTES 8192u   /* of /proc/self/cgroup */
#define PATH_BYTES 4096u
#define NUMBER_MAX 1000000000000u /* 1000 s in ns would still fit; larger is nonsense */
#define WRITE_WAITS 50            /* a full pipe is waited for this often, 100 ms each */

/* ---- CPUs ---- */

static unsigned cpus_by_affinity(void)
{
    unsigned long mask[AFFINITY_WORDS];
    unsigned count = 0;
    long bytes = syscall(SYS_sched_getaffinity, 0, sizeof mask, mask);

    for (size_t i = 0; bytes > 0 && i < (size_t)bytes / sizeof mask[0]; i++)
        count += (unsigned)__builtin_popcountl(mask[i]);
    return count;
}

/* Reads at most size - 1 bytes of the file root/a/b/c into text and ends it with a zero. */
static bool read_text(char *text, size_t size, const char *const parts[4])
{
    char path[PATH_BYTES];
    size_t at = 0, got = 0;

    for (int i = 0; i < 4; i++) {
        size_t length = strlen(parts[i]);
        if (length >= sizeof path - at)
            return false;
        memcpy(path + at, parts[i], length);
        at += length;
    }
    path[at] = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return false;
    while (got < size - 1) {
        ssize_t n = read(fd, text + got, size - 1 - got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    (void)close(fd);
    text[got] = 0;
    return got > 0;
}

/* A decimal number at *text, which moves behind it; 0 when there is none or it is nonsense. */
static uint64_t parse_number(const char **text)
{
    uint64_t value = 0;
    const char *p = *text;

    while (*p == ' ' || *p == '\t')
        p++;
    for (; *p >= '0' && *p <= '9'; p++) {
        value = value * 10 + (uint64_t)(*p - '0');
        if (value > NUMBER_MAX)
            value = NUMBER_MAX;
    }
    *text = p;
    return value < NUMBER_MAX ? value : 0;
}

/* How many CPUs a quota is; 0: no limit. */
static unsigned cpus_of(uint64_t quota, uint64_t period)
{
    if (quota == 0 || period == 0)
        return 0;
    uint64_t cpus = (quota + period - 1) / period;
    return cpus < 65536 ? (unsigned)cpus : 0;
}

/* The limit of one group. */
static unsigned group_limit(const char *root, const char *mount, const char *path, bool is_v1)
{
    char text[64];
    const char *p = text;

    if (!is_v1) {
        if (!read_text(text, sizeof text, (const char *[4]){root, mount, path, "/cpu.max"}))
            return 0;
        uint64_t quota = parse_number(&p);
        return cpus_of(quota, parse_number(&p));
    }
    if (!read_text(text, sizeof text, (const char *[4]){root, mount, path, "/cpu.cfs_quota_us"}))
        return 0;
    uint64_t quota = parse_number(&p);
    p = text;
    if (!read_text(text, sizeof text, (const char *[4]){root, mount, path, "/cpu.cfs_period_us"}))
        return 0;
    return cpus_of(quota, parse_number(&p));
}

/* The lowest limit of a group and all groups above it; cuts path off from its end. */
static unsigned walk_up(const char *root, const char *mount, char *path, bool is_v1)
{
    unsigned limit = 0;

    /* Ends: each round makes path shorter. */
    for (;;) {
        size_t length = strlen(path);
        while (length > 0 && path[length - 1] == '/')
            path[--length] = 0;
        unsigned here = group_limit(root, mount, path, is_v1);
        if (here && (!limit || here < limit))
            limit = here;
        if (length == 0)
            return limit;
        while (length > 0 && path[length - 1] != '/')
            path[--length] = 0;
    }
}

/* Whether the comma-separated list has "cpu" in it. */
static bool lists_cpu(const char *list)
{
    for (const char *p = list; *p; p++) {
        bool at_start = p == list || p[-1] == ',';
        if (at_start && strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == 0))
            return true;
    }
    return false;
}

/* The limit by one line of /proc/self/cgroup, "number:controllers:path". */
static unsigned line_limit(const char *root, char *line)
{
    static const char *const mounts_v2[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    static const char *const mounts_v1[] = {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"};
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    unsigned limit = 0;

    if (!path)
        return 0;
    *path++ = 0;
    controllers++;
    bool is_v1 = *controllers != 0;
    if (is_v1 && !lists_cpu(controllers))
        return 0;
    /* A group outside of what this namespace shows: only the root is ours to read. */
    if (strstr(path, ".."))
        *path = 0;
    char *rest = strdup(path);
    for (int i = 0; i < 2 && rest; i++) {
        memcpy(rest, path, strlen(path) + 1);
        unsigned here = walk_up(root, (is_v1 ? mounts_v1 : mounts_v2)[i], rest, is_v1);
        if (here && (!limit || here < limit))
            limit = here;
    }
    free(rest);
    return limit;
}

unsigned kin__cpu_quota(const char *root)
{
    char text[CGROUP_BYTES];
    unsigned limit = 0;
    char *next;

    if (!read_text(text, sizeof text, (const char *[4]){root, "/proc/self/cgroup", "", ""}))
        return 0;
    for (char *line = text; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        unsigned here = line_limit(root, line);
        if (here && (!limit || here < limit))
            limit = here;
    }
    return limit;
}

unsigned kin__cpu_count(void)
{
    unsigned cpus = cpus_by_affinity();
    unsigned limit = kin__cpu_quota("");

    if (limit && limit < cpus)
        cpus = limit;
    return cpus ? cpus : 1;
}

/* ---- last words ---- */

int kin__plat_write(int fd, const char *text, size_t size)
{
    const int error = errno;
    int waits = 0, rc = 0;

    while (size > 0) {
        ssize_t n = write(fd, text, size);
        if (n > 0) {
            text += n;
            size -= (size_t)n;
            waits = 0;
        } else if (n < 0 && errno == EAGAIN && waits++ < WRITE_WAITS) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, 100);
        } else if (n == 0 || errno != EINTR) {
            rc = n == 0 ? -EIO : -errno; /* nobody is left to be told */
            break;
        }
    }
    errno = error;
    return rc;
}

void kin__plat_abort(void)
{
    abort();
}

/* ---- environment and randomness ---- */

const char *kin__plat_env(const char *name)
{
    /* A program with raised privileges is not steered by the environment of its caller. */
    return secure_getenv(name);
}

/* A good mix of 64 bits: every input bit changes half of the output bits. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

int kin__plat_random(void *buf, size_t size)
{
    size_t done = 0;
    while (done < size) { /* ends: each call gives some, or fails */
        /* the library's: in the lab it is the lab's */
        ssize_t got = getrandom((char *)buf + done, size - done, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int rc = -errno;
            memset(buf, 0, done); /* nobody is to take a part for the whole */
            return rc;
        }
        done += (size_t)got;
    }
    return 0;
}

uint64_t kin__plat_entropy(void)
{
    static kin__a64 calls;
    uint64_t seed;

    if (syscall(SYS_getrandom, &seed, sizeof seed, 1 /* GRND_NONBLOCK */) == (long)sizeof seed)
        return seed;
    /* No randomness yet or no such call: differs between processes, calls and moments at least. */
    uint64_t call = kin__add_relaxed(&calls, 1); /* relaxed: a number per call */
    seed = mix((uint64_t)kin__clock_now()) ^ mix((uint64_t)getpid() << 32 | call);
    return mix(seed ^ (uint64_t)(uintptr_t)&seed);
}
