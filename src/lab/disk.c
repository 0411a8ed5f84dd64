/* SPDX-License-Identifier: MIT */
/*
 * The disk of an execution: memory, names, contents, and what a crash leaves.
 *
 * What a disk promises is what POSIX promises and no more. The contents of a file last when it was
 * synced, a name when its directory was. Of the rest a crash may leave anything:
 *
 *     a change of a name   it is there or not, whatever became of other names; those of one name
 *                          come in order, and a rename is there with both its names or with none
 *     a write              it is there or not, or either half of it is; or, where the file grew
 *                          with it, zeros are in its place
 *     a cut                it is there, or it is not and neither is what came behind it
 *
 * Each of these is a choice whose first answer loses nothing, so that a shrunk failure loses as
 * little as it needs. Files that have no name any more are not asked about.
 */
#include "lab/disk.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/text.h"
#include "lab/world.h"

#include <errno.h>
#include <string.h>

#define DISK_BYTES ((size_t)256 * 1024 * 1024)
#define PIECE_BITS 6u /* the least piece of memory: 64 bytes */
#define PIECES 23u    /* sizes of pieces, each twice the last */
#define FILE_MAX INT64_C(0x7fffffff)
#define KEY_BIT (UINT64_C(1) << 60) /* no address has it */
#define KEY_MASK (KEY_BIT | (KEY_BIT - 1))

/* A change of a file. */
struct kin__disk_change {
    struct kin__disk_change *next;
    bool is_cut;  /* to size offset; else a write */
    size_t size, offset;
    char bytes[];
};

/* A change of one name, or of two at once. */
struct renaming {
    struct kin__list link;
    bool is_marked;
    unsigned count;
    struct {
        struct kin__slot *slot;
        struct kin__node *node;
    } part[2];
};

static struct {
    char *base; /* reserved once */
    size_t used;
    void *free[PIECES]; /* given back, by size; each begins with the next one */
    struct kin__node *root;
    struct kin__node *nodes, **last_node;
    struct kin__list renamings; /* oldest first */
} disk;

/* ---- memory ---- */

static unsigned piece_of(size_t bytes)
{
    unsigned piece = 0;
    while (piece < PIECES && (size_t)1 << (PIECE_BITS + piece) < bytes) /* ends: so it says */
        piece++;
    return piece;
}

void *kin__disk_alloc(size_t bytes)
{
    unsigned piece = piece_of(bytes);
    if (piece == PIECES)
        return NULL;
    void *memory = disk.free[piece];
    size_t room = (size_t)1 << (PIECE_BITS + piece);
    if (memory) {
        memcpy(&disk.free[piece], memory, sizeof(void *));
    } else {
        if ((!disk.base && !(disk.base = kin__vm_reserve(DISK_BYTES))) ||
            room > DISK_BYTES - disk.used)
            return NULL;
        memory = disk.base + disk.used;
        disk.used += room;
    }
    return memset(memory, 0, bytes);
}

static void give(void *memory, size_t bytes)
{
    unsigned piece = piece_of(bytes);
    if (!memory)
        return;
    memcpy(memory, &disk.free[piece], sizeof(void *));
    disk.free[piece] = memory;
}

/* ---- what steps touch ---- */

static void touch(uint64_t key, unsigned mode)
{
    kin__lab_touch((const void *)(uintptr_t)((key & KEY_MASK) | KEY_BIT), mode);
}

/* What is on the disk, as against what calls see. */
static uint64_t kept_key(const struct kin__node *node)
{
    return kin__hash_u64(node->key + 1);
}

/* ---- nodes ---- */

static int64_t calendar(void)
{
    return KIN__WORLD_EPOCH + kin__clock_now();
}

static struct kin__node *make_node(uint64_t key, const char *name, enum kin__node_kind kind,
                                   unsigned mode)
{
    struct kin__node *node = kin__disk_alloc(sizeof(*node));
    if (!node)
        return NULL;
    node->key = key;
    node->name = name;
    node->kind = kind;
    node->mode = mode;
    node->last = &node->first;
    node->above = node;
    node->changed = calendar();
    *disk.last_node = node;
    disk.last_node = &node->next;
    return node;
}

void kin__disk_begin(void)
{
    disk.root = NULL;
}

struct kin__node *kin__disk_root(void)
{
    if (KIN__LIKELY(disk.root != NULL))
        return disk.root;
    disk.used = 0;
    memset(disk.free, 0, sizeof(disk.free));
    disk.nodes = NULL;
    disk.last_node = &disk.nodes;
    kin__list_init(&disk.renamings);
    disk.root = make_node(1, "/", KIN__NODE_DIR, 0755);
    KIN__CHECK(disk.root != NULL, "house: there is no memory for a disk");
    struct kin__slot *tmp = kin__disk_slot(disk.root, "tmp", 3);
    tmp->kept = tmp->now = make_node(2, tmp->name, KIN__NODE_DIR, 01777);
    tmp->now->above = disk.root;
    tmp->now->links = 1;
    return disk.root;
}

/* ---- names ---- */

static int compare(const char *name, size_t length, const struct kin__slot *slot)
{
    int order = strncmp(name, slot->name, length);
    return order ? order : slot->name[length] ? -1 : 0;
}

/* Where a name is among the slots of a directory, or would be. */
static size_t place_of(const struct kin__node *dir, const char *name, size_t length)
{
    size_t low = 0, high = dir->slots_count;
    while (low < high) { /* ends: half is left each time */
        size_t middle = (low + high) / 2;
        if (compare(name, length, dir->slots[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool has_room_for_slot(struct kin__node *dir)
{
    if (dir->slots_count < dir->slots_room)
        return true;
    size_t room = dir->slots_room ? 2 * dir->slots_room : 8;
    struct kin__slot **slots = kin__disk_alloc(room * sizeof(*slots));
    if (!slots)
        return false;
    if (dir->slots_count)
        memcpy(slots, dir->slots, dir->slots_count * sizeof(*slots));
    give(dir->slots, dir->slots_room * sizeof(*slots));
    dir->slots = slots;
    dir->slots_room = room;
    return true;
}

static struct kin__slot *insert(struct kin__node *dir, size_t at, const char *name, size_t length)
{
    struct kin__slot *slot =
        has_room_for_slot(dir) ? kin__disk_alloc(sizeof(*slot) + length + 1) : NULL;
    if (!slot)
        return NULL;
    slot->dir = dir;
    slot->key = kin__hash_u64(dir->key ^
                              kin__hash_bytes((struct kin__hash_key){0, 0}, name, length));
    memcpy(slot->name, name, length);
    memmove(dir->slots + at + 1, dir->slots + at, (dir->slots_count - at) * sizeof(slot));
    dir->slots[at] = slot;
    dir->slots_count++;
    return slot;
}

struct kin__slot *kin__disk_slot(struct kin__node *dir, const char *name, size_t length)
{
    size_t at = place_of(dir, name, length);
    struct kin__slot *slot = at < dir->slots_count && compare(name, length, dir->slots[at]) == 0
                                 ? dir->slots[at] : insert(dir, at, name, length);
    if (slot)
        touch(slot->key, KIN__LAB_READ);
    return slot;
}

/* One part of a change of names. */
static void set_part(struct renaming *renaming, struct kin__slot *slot, struct kin__node *node)
{
    struct kin__node *before = slot->now;
    touch(slot->key, KIN__LAB_WRITE);
    touch(slot->dir->key, KIN__LAB_ADD); /* for those who read all of its names */
    touch(kept_key(slot->dir), KIN__LAB_ADD);
    if (before)
        before->links--;
    if (node) {
        node->links++;
        node->above = slot->dir;
    }
    slot->now = node;
    slot->dir->changed = calendar();
    renaming->part[renaming->count].slot = slot;
    renaming->part[renaming->count++].node = node;
}

static struct renaming *begin_renaming(void)
{
    struct renaming *renaming = kin__disk_alloc(sizeof(*renaming));
    if (renaming)
        kin__list_push_back(&disk.renamings, &renaming->link);
    return renaming;
}

bool kin__disk_set(struct kin__slot *slot, struct kin__node *node)
{
    struct renaming *renaming = begin_renaming();
    if (renaming)
        set_part(renaming, slot, node);
    return renaming != NULL;
}

bool kin__disk_move(struct kin__slot *from, struct kin__slot *to)
{
    struct kin__node *node = from->now;
    struct renaming *renaming = begin_renaming();
    if (renaming) {
        set_part(renaming, from, NULL);
        set_part(renaming, to, node);
    }
    return renaming != NULL;
}

struct kin__node *kin__disk_make(struct kin__slot *slot, enum kin__node_kind kind, unsigned mode)
{
    uint64_t key = kin__hash_u64(slot->key + ++slot->made);
    struct kin__node *node = make_node(key, slot->name, kind, mode);
    return node && kin__disk_set(slot, node) ? node : NULL;
}

const struct kin__slot *kin__disk_next(struct kin__node *dir, const struct kin__slot *after)
{
    size_t at = after ? place_of(dir, after->name, strlen(after->name)) + 1 : 0;
    touch(dir->key, KIN__LAB_READ);
    while (at < dir->slots_count && !dir->slots[at]->now) /* ends: one further each time */
        at++;
    return at < dir->slots_count ? dir->slots[at] : NULL;
}

/* ---- contents ---- */

/* Makes an image so large; what is added is zero. */
static bool resize(struct kin__image *image, size_t size)
{
    if (size > image->room) {
        size_t room = (size_t)1 << (PIECE_BITS + piece_of(size));
        char *bytes = kin__disk_alloc(room);
        if (!bytes)
            return false;
        if (image->size)
            memcpy(bytes, image->bytes, image->size);
        give(image->bytes, image->room);
        image->bytes = bytes;
        image->room = room;
    } else if (size > image->size) {
        memset(image->bytes + image->size, 0, size - image->size);
    }
    image->size = size;
    return true;
}

static bool overwrite(struct kin__image *image, const void *bytes, size_t size, size_t offset)
{
    if (offset + size > image->size && !resize(image, offset + size))
        return false;
    if (size)
        memcpy(image->bytes + offset, bytes, size);
    return true;
}

/* A change that will be noted; NULL: the disk is full. */
static struct kin__disk_change *make_change(const void *bytes, size_t size, int64_t offset)
{
    struct kin__disk_change *change = kin__disk_alloc(sizeof(*change) + size);
    if (!change)
        return NULL;
    change->is_cut = !bytes;
    change->size = size;
    change->offset = (size_t)offset;
    if (bytes)
        memcpy(change->bytes, bytes, size);
    return change;
}

/* What calls see has changed, and the disk will have to. 0, or -ENOSPC for one that was not made
 * or was not done. */
static int note(struct kin__node *file, struct kin__disk_change *change, bool is_done)
{
    touch(file->key, KIN__LAB_WRITE);
    touch(kept_key(file), KIN__LAB_WRITE);
    if (!is_done) {
        give(change, change ? sizeof(*change) + change->size : 0);
        return -ENOSPC;
    }
    *file->last = change;
    file->last = &change->next;
    file->changed = calendar();
    return 0;
}

int64_t kin__disk_read(struct kin__node *file, void *buf, size_t size, int64_t offset)
{
    touch(file->key, KIN__LAB_READ);
    if ((uint64_t)offset >= file->now.size)
        return 0;
    size_t left = file->now.size - (size_t)offset;
    size_t part = size < left ? size : left;
    if (part)
        memcpy(buf, file->now.bytes + offset, part);
    return (int64_t)part;
}

int64_t kin__disk_write(struct kin__node *file, const void *buf, size_t size, int64_t offset)
{
    if (size == 0)
        return 0;
    if (offset > FILE_MAX || size > (size_t)(FILE_MAX - offset))
        return -EFBIG;
    struct kin__disk_change *change = make_change(buf, size, offset);
    int rc = note(file, change, change && overwrite(&file->now, buf, size, (size_t)offset));
    return rc < 0 ? rc : (int64_t)size;
}

int kin__disk_cut(struct kin__node *file, int64_t size)
{
    if (size > FILE_MAX)
        return -EFBIG;
    struct kin__disk_change *change = make_change(NULL, 0, size);
    return note(file, change, change && resize(&file->now, (size_t)size));
}

size_t kin__disk_size(const struct kin__node *file)
{
    touch(file->key, KIN__LAB_READ);
    return file->now.size;
}

/* ---- what lasts ---- */

/* What may have become of a change. */
enum way { DONE, LOST, FIRST_HALF, SECOND_HALF, ZEROS };

/* How many there are of a change: the first so many. */
static uint32_t ways_of(const struct kin__node *file, const struct kin__disk_change *change)
{
    if (change->is_cut || change->size < 2)
        return LOST + 1;
    return change->offset + change->size > file->kept.size ? ZEROS + 1 : SECOND_HALF + 1;
}

/* A change, or what is left of it, on the disk. */
static bool apply(struct kin__node *file, const struct kin__disk_change *change, enum way way)
{
    size_t half = change->size / 2;
    switch (way) {
    case DONE:
        return change->is_cut
                   ? resize(&file->kept, change->offset)
                   : overwrite(&file->kept, change->bytes, change->size, change->offset);
    case FIRST_HALF:
        return overwrite(&file->kept, change->bytes, half, change->offset);
    case SECOND_HALF:
        return overwrite(&file->kept, change->bytes + half, change->size - half,
                         change->offset + half);
    case ZEROS:
        return resize(&file->kept, change->offset + change->size);
    case LOST:
        break;
    }
    return true;
}

void kin__disk_lose(struct kin__node *file)
{
    touch(kept_key(file), KIN__LAB_WRITE);
    while (file->first) { /* ends: one fewer each time */
        struct kin__disk_change *change = file->first;
        file->first = change->next;
        give(change, sizeof(*change) + change->size);
    }
    file->last = &file->first;
}

static void apply_name(const struct renaming *renaming)
{
    for (unsigned i = 0; i < renaming->count; i++)
        renaming->part[i].slot->kept = renaming->part[i].node;
}

static bool has_marked(const struct renaming *renaming, const struct kin__node *dir)
{
    for (unsigned i = 0; i < renaming->count; i++) {
        if (renaming->part[i].slot->is_marked || renaming->part[i].slot->dir == dir)
            return true;
    }
    return false;
}

static void mark(const struct renaming *renaming, bool is_marked)
{
    for (unsigned i = 0; i < renaming->count; i++)
        renaming->part[i].slot->is_marked = is_marked;
}

/* The changes of names in a directory, and what came before to names that share one with them. */
static void sync_names(struct kin__node *dir)
{
    struct kin__list *link;
    for (link = disk.renamings.prev; link != &disk.renamings; link = link->prev) {
        struct renaming *renaming = KIN__CONTAINER_OF(link, struct renaming, link);
        renaming->is_marked = has_marked(renaming, dir);
        if (renaming->is_marked)
            mark(renaming, true);
    }
    for (link = disk.renamings.next; link != &disk.renamings;) {
        struct renaming *renaming = KIN__CONTAINER_OF(link, struct renaming, link);
        link = link->next;
        mark(renaming, false);
        if (!renaming->is_marked)
            continue;
        apply_name(renaming);
        kin__list_remove(&renaming->link);
        give(renaming, sizeof(*renaming));
    }
}

int kin__disk_sync(struct kin__node *node)
{
    touch(kept_key(node), KIN__LAB_WRITE);
    if (node->kind == KIN__NODE_DIR) {
        sync_names(node);
        return 0;
    }
    for (const struct kin__disk_change *change = node->first; change; change = change->next) {
        if (!apply(node, change, DONE))
            return -ENOSPC;
    }
    kin__disk_lose(node); /* nothing is left to be written */
    return 0;
}

/* ---- a crash ---- */

/* Tells people what is lost, if anybody listens. */
static void tell(const char *what, const char *name)
{
    char memory[96];
    struct kin__text text;
    if (!kin__record_is_on)
        return;
    kin__text_init(&text, memory, sizeof(memory));
    kin__text_printf(&text, "%s %s", what, name);
    kin__record(kin__world.current, KIN__NOTE_FAULT, KIN__NOTE_NOBODY, NULL, memory);
}

static void crash_names(void)
{
    struct kin__list *link;
    for (link = disk.renamings.next; link != &disk.renamings; link = link->next) {
        const struct renaming *renaming = KIN__CONTAINER_OF(link, struct renaming, link);
        const struct kin__slot *slot = renaming->part[renaming->count - 1].slot;
        if (!has_marked(renaming, NULL) &&
            kin__lab_choose(KIN__CHOICE_CASE, 2, "a name after a crash") == 0) {
            apply_name(renaming);
            continue;
        }
        tell(renaming->count > 1                       ? "the crash undoes the rename to"
             : renaming->part[0].node                  ? "the crash undoes the making of"
                                                       : "the crash undoes the removal of",
             slot->name);
        mark(renaming, true); /* nor what comes behind it */
    }
    while (!kin__list_is_empty(&disk.renamings)) { /* ends: one fewer each time */
        link = kin__list_pop_front(&disk.renamings);
        struct renaming *renaming = KIN__CONTAINER_OF(link, struct renaming, link);
        mark(renaming, false);
        give(renaming, sizeof(*renaming));
    }
}

/* What calls see is what is on the disk. */
static void restore_names(void)
{
    for (struct kin__node *node = disk.nodes; node; node = node->next)
        node->links = 0;
    for (struct kin__node *dir = disk.nodes; dir; dir = dir->next) {
        for (size_t i = 0; i < dir->slots_count; i++) {
            struct kin__slot *slot = dir->slots[i];
            slot->now = slot->kept;
            if (slot->now) {
                slot->now->links++;
                slot->now->above = dir;
            }
        }
    }
}

static void crash_file(struct kin__node *file)
{
    static const char *const told[] = {
        [LOST] = "the crash loses a write to",
        [FIRST_HALF] = "the crash leaves the first half of a write to",
        [SECOND_HALF] = "the crash leaves the second half of a write to",
        [ZEROS] = "the crash leaves zeros for a write to",
    };
    for (const struct kin__disk_change *change = file->first; change; change = change->next) {
        enum way way = (enum way)kin__lab_choose(
            KIN__CHOICE_CASE, ways_of(file, change),
            change->is_cut ? "a cut after a crash" : "a write after a crash");
        if (way != DONE)
            tell(change->is_cut ? "the crash undoes the cutting of" : told[way], file->name);
        if (way == LOST && change->is_cut)
            break; /* nor what comes behind it */
        (void)apply(file, change, way);
    }
}

static void restore_file(struct kin__node *file)
{
    kin__disk_lose(file);
    file->now.size = 0;
    (void)overwrite(&file->now, file->kept.bytes, file->kept.size, 0);
}

void kin__disk_crash(void)
{
    (void)kin__disk_root();
    crash_names();
    restore_names();
    for (struct kin__node *node = disk.nodes; node; node = node->next) {
        if (node->kind == KIN__NODE_DIR)
            continue;
        if (node->links)
            crash_file(node);
        restore_file(node);
    }
}
