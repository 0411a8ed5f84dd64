/* SPDX-License-Identifier: MIT */
/*
 * Running recorded programs, and reading what they recorded.
 */
#ifndef KIN_TEST_TAPED_H
#define KIN_TEST_TAPED_H

#include "kin_test.h"

#include <kin/kin.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of a record. */
struct line {
    uint64_t ns;
    char kind[16], other[64];
    unsigned task;
    int argument;
    int ring; /* -1: everybody else */
};

struct record {
    char *text;
    struct line *lines; /* ring by ring */
    size_t count;
    unsigned tasks;
    uint64_t lost; /* in all rings */
};

/* Everything in an open file, as one string to be freed. */
__attribute__((unused)) static char *read_all(int fd)
{
    long size = lseek(fd, 0, SEEK_END);
    EXPECT_GE(size, 0);
    char *text = malloc((size_t)size + 1);
    EXPECT(text != NULL);
    EXPECT_EQ(pread(fd, text, (size_t)size, 0), size);
    text[size] = '\0';
    return text;
}

/* Reads a record; fails the test when a line is not as it must be. */
__attribute__((unused)) static struct record read_record(char *text)
{
    struct record record = {.text = text, .lines = calloc(strlen(text) + 1, sizeof(struct line))};
    int ring = -2;
    unsigned number;
    unsigned long long ns, lost;
    EXPECT(record.lines != NULL);
    EXPECT(strncmp(text, "kinrecord 1\n", 12) == 0);
    EXPECT(strstr(text, "\ntenancy CPU_Parallel\n") != NULL); /* [SCHED:11.2.1] */
    EXPECT(strlen(text) > 16 && strcmp(text + strlen(text) - 5, "\nend\n") == 0);
    for (const char *at = text; *at; at = strchr(at, '\n') + 1) {
        struct line *line = &record.lines[record.count];
        char who[16];
        if (sscanf(at, "task %u ", &number) == 1) {
            EXPECT_EQ(ring, -2);
            EXPECT_EQ(number, record.tasks + 1);
            record.tasks++;
        } else if (sscanf(at, "ring %15s %llu\n", who, &lost) == 2) {
            ring = who[0] == '-' ? -1 : atoi(who);
            record.lost += lost;
        } else if (sscanf(at, "%llu %15s %u %63s %d\n", &ns, line->kind, &line->task, line->other,
                          &line->argument) == 5) {
            EXPECT_NE(ring, -2);
            EXPECT(line->task <= record.tasks);
            line->ns = ns;
            line->ring = ring;
            if (record.count > 0 && line[-1].ring == ring)
                EXPECT_GE(line->ns, line[-1].ns);
            record.count++;
        } else {
            EXPECT(strncmp(at, "kinrecord 1\n", 12) == 0 || strncmp(at, "workers ", 8) == 0 ||
                   strncmp(at, "tenancy CPU_Parallel\n", 21) == 0 ||
                   strcmp(at, "end\n") == 0);
        }
    }
    return record;
}

__attribute__((unused)) static void forget(struct record *record)
{
    free(record->lines);
    free(record->text);
}

__attribute__((unused)) static bool is_kind(const struct line *line, const char *kind)
{
    return strcmp(line->kind, kind) == 0;
}

__attribute__((unused)) static size_t count_kind(const struct record *record, const char *kind)
{
    size_t count = 0;
    for (size_t i = 0; i < record->count; i++)
        count += is_kind(&record->lines[i], kind);
    return count;
}

/* The number of the task with this path; 0: there is none. */
__attribute__((unused)) static unsigned find_path(const struct record *record, const char *path)
{
    char line[256], seen[200];
    unsigned number;
    for (const char *at = record->text; *at; at = strchr(at, '\n') + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        if (sscanf(line, "task %u %199s ", &number, seen) == 2 && strcmp(seen, path) == 0)
            return number;
    }
    return 0;
}

/* The record of the runtime that the caller is in. */
__attribute__((unused)) static struct record record_now(void)
{
    FILE *file = tmpfile();
    EXPECT(file != NULL);
    EXPECT_EQ(kin_record_dump(fileno(file)), 0);
    char *text = read_all(fileno(file));
    fclose(file);
    return read_record(text);
}

/* Runs fn recorded; what it left behind. */
__attribute__((unused)) static struct record run_recorded(unsigned workers, kin_task_fn *fn,
                                                          void *arg)
{
    char path[] = "/tmp/kin_record_XXXXXX";
    struct kin_config config = KIN_CONFIG_INIT;
    int fd = kin_test_mkstemp(path);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(setenv("KIN_RECORD", path, 1), 0);
    config.workers = workers;
    config.stall_threshold = KIN_NEVER;
    EXPECT_EQ(kin_run(&config, fn, arg), 0);
    close(fd);
    fd = open(path, 0); /* written anew */
    char *text = read_all(fd);
    close(fd);
    unlink(path);
    return read_record(text);
}

#endif
