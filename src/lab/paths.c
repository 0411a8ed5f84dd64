/* SPDX-License-Identifier: MIT */
/*
 * Names of actors: each path is kept once, and its place in the table is its name.
 *
 * The table is open addressing with a load of at most one half, and holds name + 1.
 */
#include "lab/state.h"

#include <string.h>

static const struct kin__hash_key path_key = {0x6b696e206c616220, 0x7061746873206f66};

const char *kin__path_text(const struct kin__lab *s, uint32_t name)
{
    return name < s->name_count ? (const char *)s->texts.base + kin__lab_names(s)[name].text : "?";
}

static bool grow_table(struct kin__lab *s)
{
    size_t size = s->table_size ? 2 * s->table_size : 64;
    struct kin__room room = {NULL, 0};

    if (!kin__room_grow(&room, size * sizeof(uint32_t)))
        return false;
    uint32_t *table = room.base;
    for (uint32_t name = 0; name < s->name_count; name++) {
        size_t at = (kin__lab_names(s)[name].hash >> 8) & (size - 1);
        /* Ends: the table is at most half full. */
        while (table[at])
            at = (at + 1) & (size - 1);
        table[at] = name + 1;
    }
    kin__room_release(&s->table);
    s->table = room;
    s->table_size = size;
    return true;
}

uint32_t kin__path_name(struct kin__lab *s, const char *path)
{
    size_t size = strnlen(path, KIN__PATH_MAX - 1);
    uint64_t hash = kin__hash_bytes(path_key, path, size) | 1;

    if (2 * ((size_t)s->name_count + 1) > s->table_size && !grow_table(s))
        return KIN__NO_NAME;
    uint32_t *table = s->table.base;
    size_t at = (hash >> 8) & (s->table_size - 1);
    /* Ends: the table is at most half full. */
    for (; table[at]; at = (at + 1) & (s->table_size - 1)) {
        uint32_t name = table[at] - 1;
        const char *text = kin__path_text(s, name);
        if (kin__lab_names(s)[name].hash == hash && !strncmp(text, path, size) && !text[size])
            return name;
    }
    if (s->name_count == KIN__NAMES_MAX ||
        !kin__room_fits(&s->names, s->name_count + 1u, sizeof(struct kin__name)) ||
        !kin__room_fits(&s->texts, s->text_bytes + size + 1, 1))
        return KIN__NO_NAME;
    char *text = (char *)s->texts.base + s->text_bytes;
    memcpy(text, path, size);
    text[size] = 0;
    kin__lab_names(s)[s->name_count] =
        (struct kin__name){.hash = hash, .text = (uint32_t)s->text_bytes};
    s->text_bytes += size + 1;
    table[at] = ++s->name_count;
    return s->name_count - 1;
}
