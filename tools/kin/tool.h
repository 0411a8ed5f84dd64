/* SPDX-License-Identifier: MIT */
/*
 * What the files of the program kin share: the subcommands, the stations of the tour, plain
 * printing.
 */
#ifndef KIN_TOOL_H
#define KIN_TOOL_H

#include <kin/kin.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the tour was asked for and what it found out about the machine. */
struct tour {
    bool is_quick;
    bool has_million;
    unsigned workers;         /* that kin starts by default here */
    uint64_t available_bytes; /* memory that can still be had; 0: unknown */
};

/* kin demo; the exit status. */
int demo_main(int argc, char **argv);
/* kin lab; the exit status. */
int lab_main(int argc, char **argv);
/* kin record; the exit status. In src/lab/dump_main.c. */
int kin__dump_main(int argc, char **argv);

/* The stations, each in runtimes of its own. 0, or a status of kin; what they show they print. */
int demo_fanout(const struct tour *tour);
int demo_first_error(const struct tour *tour);
int demo_million(const struct tour *tour);
int demo_turns(const struct tour *tour);
int demo_channels(const struct tour *tour);
int demo_forkjoin(const struct tour *tour);
int demo_sleepers(const struct tour *tour);
int demo_blocking(const struct tour *tour);
int demo_deadline(const struct tour *tour);
int demo_hog(const struct tour *tour);
int demo_overflow(const struct tour *tour);
int demo_processes(const struct tour *tour);
int demo_servers(const struct tour *tour);

/* Runs fn(arg) as the first task of a runtime with so many workers, 0 for the default. */
int demo_run(unsigned workers, kin_task_fn *fn, void *arg);
/* Says that something is not as it must be, which ends the station with this status. */
int demo_wrong(const char *what, int status);

/* ---- printing (print.c): ASCII, at most 79 columns, bold titles on a terminal only ---- */

void print_init(void);
/* A numbered title with its rule below. */
void print_title(unsigned number, const char *text);
/* A paragraph, wrapped and indented. */
void print_text(const char *fmt, ...) KIN_PRINTF(1, 2);
/* A line "name ..... value". */
void print_figure(const char *name, const char *fmt, ...) KIN_PRINTF(2, 3);
/* Progress: words on one line, shown at once; NULL ends the line. */
void print_progress(const char *word);

/* Numbers as people read them, in a buffer that is good for the next few calls. */
const char *text_count(uint64_t count); /* 1,000,000 */
const char *text_ns(double ns);         /* 12.3 ns, 4.56 us, 7.89 ms, 1.23 s */
const char *text_bytes(uint64_t bytes); /* 512 bytes, 1.2 KiB, 3.4 GiB */

/* ---- the machine (machine.c) ---- */

/* The number behind "key:" in /proc/self/status or /proc/meminfo, in bytes; 0: not there. */
uint64_t machine_status_bytes(const char *key);
uint64_t machine_meminfo_bytes(const char *key);
/* Memory in use by this process and by the page tables that map it. */
uint64_t machine_used_bytes(void);
/* CPU time of this process so far, in ns. */
int64_t machine_cpu_ns(void);

#endif
