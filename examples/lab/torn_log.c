/* SPDX-License-Identifier: MIT */
/*
 * Torn log: a log of records, each written at the end and synced before anybody is told that it is
 * kept. The power goes in the middle of a write, and half a record is on the disk. When the program
 * starts again it goes on where the file ends. Everything it writes from then on is out of step by
 * half a record, and what it has promised to keep cannot be read.
 *
 * The remedy: a record has a sum. The log ends behind the last record that is whole, and what comes
 * behind that is cut off.
 */
#include <kin/kin.h>
#include <kin/lab.h>

#include <errno.h>
#include <string.h>

struct record {
    uint32_t sum;
    char text[12];
};

struct log {
    int fd;
    int64_t end;
    bool is_careful; /* the remedy */
    bool has_two;    /* somebody was told that the second record is kept */
};

static uint32_t sum_of(const char *text)
{
    uint32_t sum = 1;
    for (size_t i = 0; i < sizeof ((struct record *)0)->text; i++)
        sum = sum * 31 + (unsigned char)text[i];
    return sum;
}

/* Reads the record at a place: 1, 0 when there is none that is whole, or -errno. */
static int log_read(const struct log *log, int64_t at, struct record *out)
{
    ssize_t got = kin_pread(log->fd, out, sizeof *out, at);
    return got < 0 ? (int)got : got == sizeof *out && out->sum == sum_of(out->text);
}

static int log_open(struct log *log)
{
    struct record record;
    struct stat is;
    int rc = kin_open("log", O_RDWR | O_CREAT, 0600, &log->fd);
    if (rc == 0)
        rc = kin_fstat(log->fd, &is);
    if (rc < 0)
        return rc;
    log->end = is.st_size;
    if (!log->is_careful)
        return 0;
    log->end = 0;
    while ((rc = log_read(log, log->end, &record)) > 0)
        log->end += (int64_t)sizeof record;
    return rc < 0 ? rc : kin_ftruncate(log->fd, log->end);
}

/* When this returns 0 the record is kept. */
static int log_append(struct log *log, const char *text)
{
    struct record record = {0};
    strncpy(record.text, text, sizeof record.text - 1);
    record.sum = sum_of(record.text);
    ssize_t put = kin_pwrite(log->fd, &record, sizeof record, log->end);
    if (put != sizeof record)
        return put < 0 ? (int)put : -ENOSPC;
    log->end += put;
    return kin_fsync(log->fd);
}

/* Whether a record can be read: 1, 0 when there is no such record, or -errno. */
static int log_has(const struct log *log, const char *text)
{
    struct record record;
    int rc;
    for (int64_t at = 0; (rc = log_read(log, at, &record)) > 0; at += (int64_t)sizeof record) {
        if (strcmp(record.text, text) == 0)
            return 1;
    }
    return rc;
}

/* Names are on the disk when their directory is. */
static int sync_names(void)
{
    int fd;
    int rc = kin_open("/", O_RDONLY | O_DIRECTORY, 0, &fd);
    if (rc < 0)
        return rc;
    rc = kin_fsync(fd);
    kin_ignore(kin_close(fd));
    return rc;
}

static int append_two(void *arg)
{
    struct log *log = arg;
    if (log_append(log, "two") == 0)
        KIN_SHARED(log->has_two) = true;
    return 0;
}

static int live_twice(bool is_careful)
{
    struct log log = {.is_careful = is_careful};
    KIN_LAB_OK(log_open(&log));
    KIN_LAB_OK(sync_names());
    KIN_LAB_OK(log_append(&log, "one"));

    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, append_two, &log));
    bool has_two = KIN_SHARED(log.has_two);
    kin_lab_crash_files();
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    KIN_LAB_OK(kin_close(log.fd));

    KIN_LAB_OK(log_open(&log));
    KIN_LAB_OK(log_append(&log, "three"));
    kin_lab_assert(log_has(&log, "one") != 0, "what was kept before the crash is there");
    kin_lab_assert(!has_two || log_has(&log, "two") != 0, "up to the last record");
    kin_lab_assert(log_has(&log, "three") != 0, "and so is what was kept after it");
    return kin_close(log.fd);
}

KIN_LAB(torn_log_bug)
{
    return live_twice(false);
}

KIN_LAB(torn_log_fixed)
{
    return live_twice(true);
}

KIN_LAB_MAIN()
