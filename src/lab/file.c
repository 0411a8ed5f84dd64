/* SPDX-License-Identifier: MIT */
/*
 * System calls on files in the lab: on the disk of lab/disk.c, with the statuses of Linux.
 *
 *     kin_pwrite --> wait/file.c --> kin__file_pwrite (here) --> kin__disk_write
 *
 * Outside of an execution they are the host's, as plat/linux/file.c makes them. None of them waits:
 * a call is part of the step that makes it. Paths begin at the root, also those without a slash.
 *
 * A crash takes the disk away from everybody but the task that asks for it: those that were there
 * before cannot know that there was one. What they do from then on fails with -EIO.
 *
 * Faults: each call may fail; what needs room may find the disk full, after half of a write, and
 * full it stays until something is removed; reads and writes may be short; a sync may fail, and
 * then what was written before is on the disk neither now nor after a later one.
 */
#include "base/text.h"
#include "lab/disk.h"
#include "lab/fds.h"
#include "lab/world.h"

#include "plat/file.h"
#include "sched/entry.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_BYTES 255u
#define UMASK 022u

/* What a descriptor stands for. */
struct opened {
    struct kin__node *node;
    int flags;
    uint32_t crashes; /* before it was opened */
    int64_t position;
    const struct kin__slot *listed; /* the last name that was read of a directory */
};

static struct {
    uint32_t crashes;    /* so far */
    uint32_t first;      /* of the tasks that came after the last one */
    uint32_t survivor;   /* who asked for it */
    uint32_t is_full;
} state;

void kin__lab_files_begin(void)
{
    kin__disk_begin();
    state.crashes = state.first = state.is_full = 0;
    state.survivor = KIN__WORLD_NOBODY;
}

/* ---- what may go wrong ---- */

static bool fails(const char *label)
{
    return kin__lab_fault_happens(KIN_FAULT_FILE, label);
}

/* Whether there is a disk for whoever asks: 0 or -EIO. */
static int look_for_disk(void)
{
    uint32_t player = kin__world.current;
    kin__lab_touch(&state.crashes, KIN__LAB_READ);
    return player >= state.first || player == state.survivor ? 0 : -EIO;
}

/* Something is to be added to the disk: 0 or -ENOSPC. */
static int look_for_room(void)
{
    if (!(kin__world.faults & KIN_FAULT_FILE))
        return 0;
    kin__lab_touch(&state.is_full, KIN__LAB_READ);
    if (!state.is_full && fails("disk full")) {
        kin__lab_touch(&state.is_full, KIN__LAB_WRITE);
        state.is_full = 1;
    }
    return state.is_full ? -ENOSPC : 0;
}

/* Something was taken from it. */
static void make_room(void)
{
    if (!(kin__world.faults & KIN_FAULT_FILE))
        return;
    kin__lab_touch(&state.is_full, KIN__LAB_WRITE);
    state.is_full = 0;
}

/* ---- paths ---- */

static bool is_dir(const struct kin__node *node)
{
    return node->kind == KIN__NODE_DIR;
}

/* How a path ends. */
enum last { NAME, DOT, DOTS, ROOT };

struct place {
    struct kin__slot *slot; /* NULL: it ends with no name */
    struct kin__node *node; /* what is there; NULL: nothing */
    enum last last;
    bool wants_dir;         /* it ends with a slash */
};

/* One name further. */
static int step(struct place *at, const char *name, size_t length)
{
    if (!at->node)
        return -ENOENT;
    if (!is_dir(at->node))
        return -ENOTDIR;
    if (length > NAME_BYTES)
        return -ENAMETOOLONG;
    at->slot = NULL;
    at->last = name[0] == '.' && length <= 2 && name[length - 1] == '.' ? (enum last)length : NAME;
    if (at->last != NAME) {
        at->node = at->last == DOTS ? at->node->above : at->node;
        return 0;
    }
    at->slot = kin__disk_slot(at->node, name, length);
    at->node = at->slot ? at->slot->now : NULL;
    return at->slot ? 0 : -ENOSPC;
}

/* Where a path leads; a slash at its end may stand behind anything. */
static int walk_to_name(const char *path, struct place *at)
{
    int rc = look_for_disk();
    *at = (struct place){NULL, kin__disk_root(), ROOT, false};
    if (rc == 0 && !*path)
        rc = -ENOENT;
    while (rc == 0 && *path) { /* ends: less is left each time */
        size_t slashes = strspn(path, "/"), length = strcspn(path + slashes, "/");
        at->wants_dir = length == 0;
        if (length)
            rc = step(at, path + slashes, length);
        path += slashes + length;
    }
    return rc == 0 && fails("a call on a name fails") ? -EIO : rc;
}

/* The same for a call that looks at what is there: a slash stands behind a directory. */
static int walk(const char *path, struct place *at)
{
    int rc = walk_to_name(path, at);
    return rc == 0 && at->wants_dir && at->node && !is_dir(at->node) ? -ENOTDIR : rc;
}

/* A file, or what it is, where nothing is. */
static int make(const struct place *at, enum kin__node_kind kind, unsigned mode,
                struct kin__node **out)
{
    int rc = look_for_room();
    if (rc < 0)
        return rc;
    *out = kin__disk_make(at->slot, kind, mode & ~UMASK);
    return *out ? 0 : -ENOSPC;
}

/* ---- descriptors ---- */

static bool can(const struct opened *opened, int way)
{
    int access = opened->flags & O_ACCMODE;
    return access == way || access == O_RDWR;
}

/* What a descriptor stands for, if it can be used that way (O_RDONLY or O_WRONLY): 0 or -errno. */
static int check(const struct opened *opened, int way)
{
    if (!can(opened, way))
        return -EBADF;
    int rc = look_for_disk();
    return opened->crashes == state.crashes ? rc : -EIO;
}

static int64_t read_at(const struct opened *opened, void *buf, size_t size, int64_t offset)
{
    int rc = offset < 0 ? -EINVAL : check(opened, O_RDONLY);
    if (rc < 0)
        return rc;
    if (is_dir(opened->node))
        return -EISDIR;
    if (fails("a read fails"))
        return -EIO;
    if (size > 1 && fails("short read"))
        size /= 2;
    return kin__disk_read(opened->node, buf, size, offset);
}

static int64_t write_at(const struct opened *opened, const void *buf, size_t size, int64_t offset)
{
    struct kin__node *file = opened->node;
    int rc = check(opened, O_WRONLY);
    if (rc < 0)
        return rc;
    if (fails("a write fails"))
        return -EIO;
    size_t length = kin__disk_size(file);
    if (opened->flags & O_APPEND)
        offset = (int64_t)length;
    if (size && (uint64_t)offset + size > length) {
        bool was_full = state.is_full;
        rc = look_for_room();
        if (rc < 0 && (was_full || size < 2))
            return rc;
        if (rc < 0)
            size /= 2; /* so much still fits */
    }
    if (size > 1 && fails("short write"))
        size /= 2;
    return kin__disk_write(file, buf, size, offset);
}

static int64_t read_on(void *object, void *buf, size_t size)
{
    struct opened *opened = object;
    kin__lab_touch(&opened->position, KIN__LAB_WRITE);
    int64_t got = read_at(opened, buf, size, opened->position);
    opened->position += got > 0 ? got : 0;
    return got;
}

static int64_t write_on(void *object, const void *buf, size_t size)
{
    struct opened *opened = object;
    kin__lab_touch(&opened->position, KIN__LAB_WRITE);
    int64_t put = write_at(opened, buf, size, opened->position);
    if (put > 0)
        opened->position = opened->flags & O_APPEND ? (int64_t)opened->node->now.size
                                                    : opened->position + put;
    return put;
}

static int64_t read_elsewhere(void *object, void *buf, size_t size, int64_t offset)
{
    return read_at(object, buf, size, offset);
}

static int64_t skip(void *object, int64_t bytes)
{
    struct opened *opened = object;
    kin__lab_touch(&opened->position, KIN__LAB_WRITE);
    return opened->position += bytes;
}

static int check_send(const void *object, bool is_write)
{
    const struct opened *opened = object;
    if (!can(opened, is_write ? O_WRONLY : O_RDONLY))
        return -EBADF;
    return (is_write && (opened->flags & O_APPEND)) || is_dir(opened->node) ? -EINVAL : 0;
}

static void describe(const void *object, struct kin__text *text)
{
    const struct opened *opened = object;
    kin__text_printf(text, " %s", opened->node->name);
}

static const struct kin__sim_ops file_ops = {.what = "file",
                                             .kind = KIN__FD_KIND_FILE,
                                             .read = read_on,
                                             .write = write_on,
                                             .read_at = read_elsewhere,
                                             .skip = skip,
                                             .check = check_send,
                                             .describe = describe};

/* The file of a simulated descriptor; NULL, and *rc says why not. */
static struct opened *opened_of(int fd, int *rc)
{
    struct opened *opened = kin__sim_get(fd, &file_ops);
    *rc = opened ? 0 : kin__sim_get(fd, NULL) ? -ESPIPE : -EBADF;
    return opened;
}

/* The same for a place in it, which is looked at first. */
static struct opened *opened_at(int fd, int64_t offset, int *rc)
{
    *rc = -EINVAL;
    return offset < 0 ? NULL : opened_of(fd, rc);
}

/* Gives a file another length. */
static int cut(struct kin__node *file, int64_t size)
{
    int rc = 0;
    if ((uint64_t)size > kin__disk_size(file))
        rc = look_for_room();
    else
        make_room();
    return rc < 0 ? rc : kin__disk_cut(file, size);
}

/* ---- opening ---- */

/* What is there already, as the flags want it. */
static int check_found(const struct kin__node *node, int flags)
{
    if ((flags & O_CREAT) && (flags & O_EXCL))
        return -EEXIST;
    if (is_dir(node))
        return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) ? -EISDIR : 0;
    if (flags & O_DIRECTORY)
        return -ENOTDIR;
    return node->kind == KIN__NODE_SOCKET ? -ENXIO : 0;
}

static int find_or_make(const char *path, int flags, unsigned mode, struct kin__node **out)
{
    struct place at;
    int rc = flags & O_CREAT ? walk_to_name(path, &at) : walk(path, &at);
    if (rc < 0)
        return rc;
    if ((flags & O_CREAT) && at.wants_dir && at.last == NAME)
        return -EISDIR; /* whatever is there */
    *out = at.node;
    if (at.node)
        return check_found(at.node, flags);
    if (!(flags & O_CREAT))
        return -ENOENT;
    return flags & O_DIRECTORY ? -EINVAL : make(&at, KIN__NODE_FILE, mode, out);
}

int kin__file_open(const char *path, int flags, unsigned mode, bool may_wait)
{
    struct kin__node *node;
    if (!kin__world.is_on)
        return kin__host_file_open(path, flags, mode, may_wait);
    int rc = find_or_make(path, flags, mode, &node);
    if (rc == 0 && (flags & O_TRUNC) && kin__disk_size(node) > 0)
        rc = cut(node, 0);
    if (rc < 0)
        return rc;
    struct opened *opened = kin__disk_alloc(sizeof(*opened));
    if (!opened)
        return -ENOMEM;
    *opened = (struct opened){.node = node, .flags = flags, .crashes = state.crashes};
    return kin__sim_open(&file_ops, opened);
}

/* ---- calls on descriptors ---- */

int64_t kin__file_pread(int fd, void *buf, size_t size, int64_t offset, bool may_wait)
{
    int rc;
    if (!kin__sim_is(fd))
        return kin__host_file_pread(fd, buf, size, offset, may_wait);
    const struct opened *opened = opened_at(fd, offset, &rc);
    return opened ? read_at(opened, buf, size, offset) : rc;
}

int64_t kin__file_pwrite(int fd, const void *buf, size_t size, int64_t offset, bool may_wait)
{
    int rc;
    if (!kin__sim_is(fd))
        return kin__host_file_pwrite(fd, buf, size, offset, may_wait);
    const struct opened *opened = opened_at(fd, offset, &rc);
    return opened ? write_at(opened, buf, size, offset) : rc;
}

int kin__file_sync(int fd, bool is_data)
{
    int rc;
    if (!kin__sim_is(fd))
        return kin__host_file_sync(fd, is_data);
    const struct opened *opened = opened_of(fd, &rc);
    if (!opened)
        return rc == -ESPIPE ? -EINVAL : rc;
    rc = check(opened, opened->flags & O_ACCMODE);
    if (rc < 0 || !fails("a sync fails"))
        return rc < 0 ? rc : kin__disk_sync(opened->node);
    kin__disk_lose(opened->node);
    return -EIO;
}

int kin__file_truncate(int fd, int64_t size)
{
    int rc;
    if (!kin__sim_is(fd))
        return kin__host_file_truncate(fd, size);
    const struct opened *opened = opened_of(fd, &rc);
    if (!opened || size < 0 || !can(opened, O_WRONLY))
        return rc == -EBADF ? rc : -EINVAL;
    rc = check(opened, O_WRONLY);
    if (rc == 0 && fails("a write fails"))
        rc = -EIO;
    return rc < 0 ? rc : cut(opened->node, size);
}

static int describe_node(const struct kin__node *node, struct stat *out)
{
    *out = (struct stat){0};
    out->st_ino = (ino_t)(node->key >> 16);
    static const mode_t types[] = {
        [KIN__NODE_FILE] = S_IFREG, [KIN__NODE_DIR] = S_IFDIR, [KIN__NODE_SOCKET] = S_IFSOCK};
    out->st_mode = types[node->kind] | node->mode;
    out->st_nlink = node->links;
    out->st_size = is_dir(node) ? 0 : (off_t)kin__disk_size(node);
    out->st_blksize = 4096;
    out->st_blocks = (out->st_size + 511) / 512;
    out->st_atim = out->st_mtim = out->st_ctim =
        (struct timespec){node->changed / 1000000000, node->changed % 1000000000};
    return 0;
}

int kin__file_stat(const char *path, int fd, struct stat *out)
{
    struct place at;
    int rc;
    if (path ? !kin__world.is_on : !kin__sim_is(fd))
        return kin__host_file_stat(path, fd, out);
    if (path) {
        rc = walk(path, &at);
        return rc < 0 ? rc : at.node ? describe_node(at.node, out) : -ENOENT;
    }
    const struct opened *opened = opened_of(fd, &rc);
    if (opened)
        rc = check(opened, opened->flags & O_ACCMODE);
    return rc < 0 ? rc : describe_node(opened->node, out);
}

/* One name, as plat/file.h wants it: how many bytes; 0: there is no room. */
static size_t put_entry(char *to, size_t room, const struct kin__slot *slot)
{
    static const uint8_t types[] = {
        [KIN__NODE_FILE] = DT_REG, [KIN__NODE_DIR] = DT_DIR, [KIN__NODE_SOCKET] = DT_SOCK};
    const size_t name = offsetof(struct kin__file_record, name);
    size_t length = strlen(slot->name) + 1, size = (name + length + 7) & ~(size_t)7;
    if (size > room)
        return 0;
    struct kin__file_record head = {.inode = slot->now->key >> 16,
                                    .size = (uint16_t)size,
                                    .type = types[slot->now->kind]};
    memcpy(to, &head, name);
    memcpy(to + name, slot->name, length);
    return size;
}

int64_t kin__file_entries(int fd, void *buf, size_t size)
{
    const struct kin__slot *slot;
    size_t used = 0;
    int rc;
    if (!kin__sim_is(fd))
        return kin__host_file_entries(fd, buf, size);
    struct opened *opened = opened_of(fd, &rc);
    if (!opened || !is_dir(opened->node))
        return -ENOTDIR;
    rc = check(opened, O_RDONLY);
    if (rc == 0 && fails("a read fails"))
        rc = -EIO;
    while (rc == 0 && (slot = kin__disk_next(opened->node, opened->listed))) {
        /* ends: one name further each time */
        size_t put = put_entry((char *)buf + used, size - used, slot);
        if (put == 0)
            break;
        used += put;
        opened->listed = slot;
    }
    return rc < 0 ? rc : (int64_t)used;
}

/* ---- calls on names ---- */

int kin__file_unlink(const char *path)
{
    struct place at;
    if (!kin__world.is_on)
        return kin__host_file_unlink(path);
    int rc = walk(path, &at);
    if (rc < 0)
        return rc;
    if (!at.node)
        return -ENOENT;
    if (is_dir(at.node))
        return -EISDIR;
    make_room();
    return kin__disk_set(at.slot, NULL) ? 0 : -ENOSPC;
}

int kin__file_rmdir(const char *path)
{
    struct place at;
    if (!kin__world.is_on)
        return kin__host_file_rmdir(path);
    static const int wrong[] = {[DOT] = -EINVAL, [DOTS] = -ENOTEMPTY, [ROOT] = -EBUSY};
    int rc = walk(path, &at);
    if (rc < 0)
        return rc;
    if (!at.node)
        return -ENOENT;
    if (!is_dir(at.node))
        return -ENOTDIR;
    if (!at.slot)
        return wrong[at.last];
    if (kin__disk_next(at.node, NULL))
        return -ENOTEMPTY;
    make_room();
    return kin__disk_set(at.slot, NULL) ? 0 : -ENOSPC;
}

int kin__file_mkdir(const char *path, unsigned mode)
{
    struct place at;
    struct kin__node *node;
    if (!kin__world.is_on)
        return kin__host_file_mkdir(path, mode);
    int rc = walk_to_name(path, &at);
    if (rc < 0)
        return rc;
    return at.node ? -EEXIST : make(&at, KIN__NODE_DIR, mode, &node);
}

/* Whether dir is node or somewhere below it. */
static bool is_below(const struct kin__node *dir, const struct kin__node *node)
{
    while (dir != node && dir->above != dir) /* ends: at the root */
        dir = dir->above;
    return dir == node;
}

/* Whether from may take the place of to. */
static int check_rename(const struct place *from, const struct place *to)
{
    if (!from->slot || !to->slot)
        return -EBUSY;
    if (!from->node)
        return -ENOENT;
    if (!is_dir(from->node) && (from->wants_dir || to->wants_dir))
        return -ENOTDIR;
    if (is_dir(from->node) && is_below(to->slot->dir, from->node))
        return -EINVAL;
    if (!to->node || to->node == from->node)
        return 0;
    if (is_below(from->slot->dir, to->node))
        return -ENOTEMPTY;
    if (is_dir(from->node) != is_dir(to->node))
        return is_dir(to->node) ? -EISDIR : -ENOTDIR;
    return is_dir(to->node) && kin__disk_next(to->node, NULL) ? -ENOTEMPTY : 0;
}

int kin__file_rename(const char *from, const char *to)
{
    struct place old, new;
    if (!kin__world.is_on)
        return kin__host_file_rename(from, to);
    int rc = *to ? walk_to_name(from, &old) : -ENOENT;
    if (rc == 0)
        rc = walk_to_name(to, &new);
    if (rc == 0)
        rc = check_rename(&old, &new);
    if (rc < 0 || old.node == new.node)
        return rc;
    if (new.node)
        make_room();
    else
        rc = look_for_room();
    return rc < 0 ? rc : kin__disk_move(old.slot, new.slot) ? 0 : -ENOSPC;
}

/* ---- names of sockets ---- */

int kin__lab_name_socket(const char *path, bool makes, uint64_t *name)
{
    struct place at;
    int rc = makes ? walk_to_name(path, &at) : walk(path, &at);
    if (rc == 0 && makes && !at.node)
        rc = at.wants_dir ? -ENOENT : make(&at, KIN__NODE_SOCKET, 0777, &at.node);
    else if (rc == 0 && makes)
        rc = -EADDRINUSE;
    else if (rc == 0 && (!at.node || at.node->kind != KIN__NODE_SOCKET))
        rc = at.node ? -ECONNREFUSED : -ENOENT;
    if (rc == 0)
        *name = at.node->key;
    return rc;
}

/* ---- whole files ---- */

int kin__file_load(const char *path, size_t max, char **out, size_t *size)
{
    struct place at;
    if (!kin__world.is_on)
        return kin__host_file_load(path, max, out, size);
    int rc = walk(path, &at);
    if (rc < 0)
        return rc;
    if (!at.node || is_dir(at.node))
        return at.node ? -EISDIR : -ENOENT;
    size_t length = kin__disk_size(at.node);
    if (length > max)
        return -EFBIG;
    char *text = kin__heap_alloc(length + 1);
    if (!text)
        return -ENOMEM;
    *size = (size_t)kin__disk_read(at.node, text, length, 0);
    *out = text;
    return 0;
}

/* ---- crashes ---- */

void kin_lab_crash_files(void)
{
    struct kin__world *w = &kin__world;
    struct kin__task *task = kin__task_self();
    if (!w->is_running || !task)
        return;
    kin__entry_check(task);
    kin__lab_touch(&state.crashes, KIN__LAB_WRITE);
    state.crashes++;
    state.first = w->player_count;
    state.survivor = w->current;
    kin__disk_crash();
}
