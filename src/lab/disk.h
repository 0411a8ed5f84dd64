/* SPDX-License-Identifier: MIT */
/*
 * A disk in memory: files and directories as calls see them, and what a crash would leave of them.
 *
 *     directory --> slot "log" --> file        now:  what calls see
 *                        |          |          kept: what is on the disk for certain
 *                        |          +- changes from kept to now, oldest first
 *                        +- changes of names from kept to now, of the whole disk, oldest first
 *
 * A slot is a name in a directory, whether anything has it or not. It stays as long as the
 * execution: whoever looks for a name that is not there depends on whoever makes it. What a step
 * touches is named by hashes of paths and not by addresses, so that it has the same name whoever
 * comes first; and two names, or the contents of two files, have nothing to do with each other.
 *
 * All of it is gone with the execution. The memory is the disk's own: it is neither counted nor
 * does it fail.
 */
#ifndef KIN_LAB_DISK_H
#define KIN_LAB_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kin__slot;
struct kin__disk_change;

struct kin__image {
    char *bytes;
    size_t size, room;
};

enum kin__node_kind { KIN__NODE_FILE, KIN__NODE_DIR, KIN__NODE_SOCKET };

/* A file, a directory, or the name of a socket. */
struct kin__node {
    struct kin__node *next; /* of all there are, in the order of their making */
    uint64_t key;           /* names it in what steps touch */
    const char *name;       /* it was made with, for people */
    enum kin__node_kind kind;
    unsigned mode, links;
    int64_t changed; /* ns since 1970 */
    /* of a file */
    struct kin__image now, kept;
    struct kin__disk_change *first, **last;
    /* of a directory */
    struct kin__node *above;  /* the root's is itself */
    struct kin__slot **slots; /* by name */
    size_t slots_count, slots_room;
};

/* A name in a directory. */
struct kin__slot {
    struct kin__node *dir;
    struct kin__node *now, *kept; /* NULL: nothing has it */
    uint64_t key;
    uint32_t made;                /* so many files and directories had it when they were made */
    bool is_marked;               /* by whoever walks over the changes */
    char name[];
};

/* An execution begins: the next use finds an empty disk, with a directory /tmp. */
void kin__disk_begin(void);
struct kin__node *kin__disk_root(void);
/* Zeroed memory of the disk; NULL: it is full. */
void *kin__disk_alloc(size_t bytes);

/* ---- names ---- */

/* The name in a directory; NULL: the disk is full. */
struct kin__slot *kin__disk_slot(struct kin__node *dir, const char *name, size_t length);
/* Makes something that has this name, which nothing has; NULL: the disk is full. */
struct kin__node *kin__disk_make(struct kin__slot *slot, enum kin__node_kind kind, unsigned mode);
/* What a name stands for from here on, or that nothing has it. False: the disk is full. */
bool kin__disk_set(struct kin__slot *slot, struct kin__node *node);
/* The same for two names at once: to stands for what from stood for, which nothing has then. */
bool kin__disk_move(struct kin__slot *from, struct kin__slot *to);
/* The first name behind after (NULL: of all) that something has; NULL: there is none. */
const struct kin__slot *kin__disk_next(struct kin__node *dir, const struct kin__slot *after);

/* ---- contents ---- */

/* How many bytes, or -ENOSPC. */
int64_t kin__disk_read(struct kin__node *file, void *buf, size_t size, int64_t offset);
int64_t kin__disk_write(struct kin__node *file, const void *buf, size_t size, int64_t offset);
int kin__disk_cut(struct kin__node *file, int64_t size);
size_t kin__disk_size(const struct kin__node *file);

/* ---- what lasts ---- */

/* The contents of a file, or the names in a directory, are on the disk now. 0 or -ENOSPC. */
int kin__disk_sync(struct kin__node *node);
/* What was to be written to the disk of a file never will be. */
void kin__disk_lose(struct kin__node *file);
/* The power goes and comes back: of what was not on the disk the engine chooses what is. */
void kin__disk_crash(void);

/* ---- names of sockets (file.c) ---- */

/* What a path that is the name of a Unix socket stands for, a number of its own: makes it, or finds
 * it. 0 or -errno, as the system's bind and connect say it. */
int kin__lab_name_socket(const char *path, bool makes, uint64_t *name);

#endif
