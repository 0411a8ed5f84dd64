/* SPDX-License-Identifier: MIT */
/*
 * Functions and lines of addresses, from the program's own file.
 *
 * The program's file, or the shared object's, is read as a whole when the first address in it is
 * asked for: the table of symbols names functions, the line table of the debugging information
 * (DWARF 2 to 5, uncompressed) names lines. Reports of failures are all that asks, so nothing is
 * indexed: each question reads the tables from their start, and answers are remembered, because
 * the same few addresses are asked for again and again. Every read is bounded by the section it is
 * in; a file that makes no sense answers nothing.
 *
 * The loader's dladdr knows only what is exported, which static programs are not, and an unwinding
 * library or a second program would have to be there when a test fails.
 */
#include "lab/source.h"

#include "base/text.h"
#include "lab/room.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX_BYTES (UINT64_C(1) << 30)
#define ANSWERS (size_t)1024 /* that are remembered */

/* Bytes that are read from the front. */
struct bytes {
    const uint8_t *at, *end;
};

static struct {
    struct kin__room room;
    uint64_t size;
    uintptr_t base; /* what the loader adds to the file's addresses */
    char path[256];
} image;

static struct kin__room answers; /* struct answer, by address */

/* ---- reading ---- */

static uint64_t take(struct bytes *from, unsigned size)
{
    uint64_t value = 0;
    if ((size_t)(from->end - from->at) < size) {
        from->at = from->end;
        return 0;
    }
    memcpy(&value, from->at, size); /* little endian: others are refused */
    from->at += size;
    return value;
}

static uint64_t take_uleb(struct bytes *from)
{
    uint64_t value = 0;
    for (unsigned shift = 0; from->at < from->end; shift += 7) {
        uint8_t byte = *from->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            break;
    }
    return value;
}

static int64_t take_sleb(struct bytes *from)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    while (from->at < from->end) {
        byte = *from->at++;
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
        if (!(byte & 0x80))
            break;
    }
    if (shift < 64 && (byte & 0x40))
        value |= ~UINT64_C(0) << shift;
    return (int64_t)value;
}

static void skip(struct bytes *from, uint64_t size)
{
    from->at = size > (uint64_t)(from->end - from->at) ? from->end : from->at + size;
}

/* A string that ends inside; "" when it does not. */
static const char *take_string(struct bytes *from)
{
    const char *string = (const char *)from->at;
    const uint8_t *zero = memchr(from->at, 0, (size_t)(from->end - from->at));
    if (!zero) {
        from->at = from->end;
        return "";
    }
    from->at = zero + 1;
    return string;
}

static const char *string_at(struct bytes strings, uint64_t offset)
{
    skip(&strings, offset);
    return take_string(&strings);
}

/* ---- the file ---- */

struct asked {
    uintptr_t pc, base;
    const char *path; /* NULL: in no object */
};

static int look_at_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct asked *asked = arg;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD || asked->pc - begin >= segment->p_memsz)
            continue;
        asked->base = info->dlpi_addr;
        asked->path = info->dlpi_name && *info->dlpi_name ? info->dlpi_name : "/proc/self/exe";
        return 1;
    }
    return 0;
}

static bool read_whole(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    off_t size = lseek(fd, 0, SEEK_END);
    bool is_read = size > 0 && (uint64_t)size <= FILE_MAX_BYTES &&
                   kin__room_fits(&image.room, (size_t)size, 1);
    uint64_t got = 0;
    while (is_read && got < (uint64_t)size) {
        ssize_t part = pread(fd, (char *)image.room.base + got, (size_t)size - got, (off_t)got);
        is_read = part > 0;
        got += is_read ? (uint64_t)part : 0;
    }
    close(fd);
    image.size = is_read ? got : 0;
    return is_read;
}

/* Makes the object that pc lies in the one that is read. */
static bool open_image(uintptr_t pc)
{
    struct asked asked = {pc, 0, NULL};
    struct kin__text path;
    (void)dl_iterate_phdr(look_at_object, &asked);
    if (!asked.path)
        return false;
    if (image.size && image.base == asked.base && strcmp(image.path, asked.path) == 0)
        return true;
    kin__text_init(&path, image.path, sizeof(image.path));
    kin__text_str(&path, asked.path);
    image.base = asked.base;
    return read_whole(asked.path);
}

void kin__source_forget(void)
{
    kin__room_release(&image.room);
    kin__room_release(&answers);
    image.size = 0;
}

/* A section by its name; empty when there is none. */
static struct bytes section(const char *name)
{
    const uint8_t *file = image.room.base;
    Elf64_Ehdr head;
    struct bytes none = {file, file};
    if (image.size < sizeof(head))
        return none;
    memcpy(&head, file, sizeof(head));
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_shentsize != sizeof(Elf64_Shdr) ||
        head.e_shoff > image.size || head.e_shstrndx >= head.e_shnum ||
        (image.size - head.e_shoff) / sizeof(Elf64_Shdr) < head.e_shnum)
        return none;
    Elf64_Shdr names, one;
    memcpy(&names, file + head.e_shoff + head.e_shstrndx * sizeof(one), sizeof(names));
    for (unsigned i = 0; i < head.e_shnum; i++) {
        memcpy(&one, file + head.e_shoff + i * sizeof(one), sizeof(one));
        if (one.sh_type == SHT_NOBITS || (one.sh_flags & SHF_COMPRESSED) ||
            one.sh_offset > image.size || one.sh_size > image.size - one.sh_offset ||
            names.sh_offset > image.size || names.sh_size > image.size - names.sh_offset)
            continue;
        struct bytes strings = {file + names.sh_offset, file + names.sh_offset + names.sh_size};
        if (strcmp(string_at(strings, one.sh_name), name) == 0)
            return (struct bytes){file + one.sh_offset, file + one.sh_offset + one.sh_size};
    }
    return none;
}

static const char *function_of(uint64_t address)
{
    struct bytes symbols = section(".symtab");
    struct bytes strings = section(".strtab");
    Elf64_Sym symbol;
    for (; (size_t)(symbols.end - symbols.at) >= sizeof(symbol); symbols.at += sizeof(symbol)) {
        memcpy(&symbol, symbols.at, sizeof(symbol));
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && address - symbol.st_value < symbol.st_size)
            return string_at(strings, symbol.st_name);
    }
    return "";
}

/* ---- the line table ---- */

/* The head of one unit of it. */
struct unit {
    unsigned version;
    bool is_wide; /* 64-bit DWARF */
    uint8_t step, line_range, opcode_base;
    int8_t line_base;
    const uint8_t *lengths;      /* operands of the standard opcodes */
    struct bytes tables, program; /* names of directories and files; instructions */
};

/* What one entry of a version 5 table says of the two things that are of interest. */
struct entry {
    const char *path;
    uint64_t directory;
};

static void take_form(struct bytes *from, uint64_t form, bool is_wide, struct entry *out,
                      uint64_t content)
{
    uint64_t number = 0;
    const char *string = "";
    switch (form) {
    case 0x08: string = take_string(from); break;
    case 0x1f: string = string_at(section(".debug_line_str"), take(from, is_wide ? 8 : 4)); break;
    case 0x0e: string = string_at(section(".debug_str"), take(from, is_wide ? 8 : 4)); break;
    case 0x0b: number = take(from, 1); break;
    case 0x05: number = take(from, 2); break;
    case 0x06: number = take(from, 4); break;
    case 0x07: number = take(from, 8); break;
    case 0x0f: number = take_uleb(from); break;
    case 0x09: skip(from, take_uleb(from)); break;
    case 0x1e: skip(from, 16); break;
    default: from->at = from->end; break;
    }
    if (content == 1)
        out->path = string;
    else if (content == 2)
        out->directory = number;
}

/* Reads a table of version 5 to its end; entry number wanted goes to out. */
static void take_table(struct bytes *from, bool is_wide, uint64_t wanted, struct entry *out)
{
    unsigned formats = (unsigned)take(from, 1);
    struct bytes format = *from;
    for (unsigned i = 0; i < 2 * formats; i++)
        (void)take_uleb(from);
    uint64_t count = take_uleb(from);
    for (uint64_t i = 0; i < count && from->at < from->end; i++) {
        struct bytes shape = format;
        struct entry entry = {"", 0};
        for (unsigned j = 0; j < formats; j++) {
            uint64_t content = take_uleb(&shape);
            take_form(from, take_uleb(&shape), is_wide, &entry, content);
        }
        if (i == wanted)
            *out = entry;
    }
}

/* The same for the tables before: directories count from 1, files too. */
static struct entry file_before_5(struct bytes from, uint64_t wanted, const char **directory)
{
    struct bytes directories = from;
    struct entry file = {"", 0};
    const char *string;
    while (*(string = take_string(&from)) && from.at < from.end)
        ;
    for (uint64_t i = 1; i <= wanted && from.at < from.end; i++) {
        file.path = take_string(&from);
        file.directory = take_uleb(&from);
        (void)take_uleb(&from);
        (void)take_uleb(&from);
        if (!*file.path)
            break;
    }
    *directory = "";
    for (uint64_t i = 1; i <= file.directory && directories.at < directories.end; i++)
        *directory = take_string(&directories);
    return file;
}

static struct entry file_of(const struct unit *unit, uint64_t number, const char **directory)
{
    struct bytes from = unit->tables;
    struct entry file = {"", 0}, parent = {"", 0};
    if (unit->version < 5)
        return file_before_5(from, number, directory);
    struct bytes directories = from;
    take_table(&from, unit->is_wide, UINT64_MAX, &parent);
    take_table(&from, unit->is_wide, number, &file);
    take_table(&directories, unit->is_wide, file.directory, &parent);
    *directory = parent.path;
    return file;
}

/* Where the compiler ran, if the table tells. */
static const char *root_of(const struct unit *unit)
{
    struct bytes from = unit->tables;
    struct entry root = {"", 0};
    if (unit->version >= 5)
        take_table(&from, unit->is_wide, 0, &root);
    return root.path;
}

/* Reads a unit's head; what follows it is left in *from. False: not one that is understood. */
static bool take_unit(struct bytes *from, struct unit *unit)
{
    uint64_t length = take(from, 4);
    unit->is_wide = length == 0xffffffff;
    if (unit->is_wide)
        length = take(from, 8);
    struct bytes whole = {from->at, from->at};
    skip(from, length);
    whole.end = from->at;
    unit->version = (unsigned)take(&whole, 2);
    if (unit->version < 2 || unit->version > 5)
        return false;
    if (unit->version >= 5)
        skip(&whole, 2);
    uint64_t head = take(&whole, unit->is_wide ? 8 : 4);
    unit->program = whole;
    skip(&unit->program, head);
    unit->step = (uint8_t)take(&whole, 1);
    if (unit->version >= 4)
        skip(&whole, 1);
    skip(&whole, 1);
    unit->line_base = (int8_t)take(&whole, 1);
    unit->line_range = (uint8_t)take(&whole, 1);
    unit->opcode_base = (uint8_t)take(&whole, 1);
    unit->lengths = whole.at;
    if (unit->line_range == 0 || unit->opcode_base == 0)
        return false;
    skip(&whole, (uint64_t)unit->opcode_base - 1);
    unit->tables = (struct bytes){whole.at, unit->program.at};
    return true;
}

struct row {
    uint64_t address, file, column;
    int64_t line;
    bool is_valid; /* a row of this sequence came before */
};

/* One instruction. True: it makes a row of what *row says now; *ends: the last of its sequence. */
static bool run_one(const struct unit *unit, struct bytes *program, struct row *row, bool *ends)
{
    uint8_t opcode = (uint8_t)take(program, 1);
    *ends = false;
    if (opcode >= unit->opcode_base) {
        unsigned special = (unsigned)(opcode - unit->opcode_base);
        row->address += (uint64_t)(special / unit->line_range) * unit->step;
        row->line += unit->line_base + (int)(special % unit->line_range);
        return true;
    }
    switch (opcode) {
    case 0: {
        uint64_t size = take_uleb(program);
        struct bytes operand = *program;
        skip(program, size);
        operand.end = program->at;
        uint64_t kind = take(&operand, 1);
        *ends = kind == 1;
        if (kind == 2)
            row->address = take(&operand, size == 9 ? 8 : 4);
        return *ends;
    }
    case 1: return true;
    case 2: row->address += take_uleb(program) * unit->step; return false;
    case 3: row->line += take_sleb(program); return false;
    case 4: row->file = take_uleb(program); return false;
    case 5: row->column = take_uleb(program); return false;
    case 8:
        row->address += (uint64_t)((255 - unit->opcode_base) / unit->line_range) * unit->step;
        return false;
    case 9: row->address += take(program, 2); return false;
    default:
        for (uint8_t i = unit->lengths[opcode - 1]; i > 0; i--)
            (void)take_uleb(program);
        return false;
    }
}

/* Runs a unit's program until a row covers the address. */
static bool find_row(const struct unit *unit, uint64_t address, struct row *found)
{
    struct bytes program = unit->program;
    const struct row start = {.file = 1, .line = 1};
    struct row row = start, before = start;
    while (program.at < program.end) {
        bool ends;
        if (!run_one(unit, &program, &row, &ends))
            continue;
        if (before.is_valid && before.address <= address && address < row.address) {
            *found = before;
            return true;
        }
        if (ends)
            row = start;
        before = row;
        before.is_valid = !ends;
    }
    return false;
}

/* ---- what is asked ---- */

/* Whether a file lies on one of kin's own floors: .../src/wait/chan.c. */
static bool is_on_floor(const char *path)
{
    static const char *const floors[] = {"/src/base/",  "/src/plat/", "/src/mem/",   "/src/task/",
                                         "/src/sched/", "/src/park/", "/src/wait/",  "/src/scope/",
                                         "/src/otp/",   "/src/view/", "/src/lab/"};
    for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
        const char *at = strstr(path, floors[i]);
        const char *rest = at ? at + strlen(floors[i]) : NULL;
        if (rest && (!strchr(rest, '/') || strncmp(rest, "linux/", 6) == 0))
            return true;
    }
    return false;
}

static void copy(char *to, size_t size, const char *from)
{
    struct kin__text text;
    kin__text_init(&text, to, size);
    kin__text_str(&text, from);
}

/* A path of three parts, of which a later one may be absolute. */
static void join(char *to, size_t size, const char *root, const char *directory, const char *file)
{
    struct kin__text text;
    kin__text_init(&text, to, size);
    if (file[0] != '/') {
        if (directory[0] != '/' && root[0])
            kin__text_printf(&text, "%s/", root);
        if (directory[0])
            kin__text_printf(&text, "%s/", directory);
    }
    kin__text_str(&text, file);
}

/* An answer that was given. */
struct answer {
    uintptr_t pc; /* 0: none */
    bool has_line;
    struct kin__place place;
};

/* Where the answer for an address is, or goes; NULL: no memory, and nothing is remembered. */
static struct answer *answer_of(uintptr_t pc)
{
    if (!kin__room_fits(&answers, ANSWERS, sizeof(struct answer)))
        return NULL;
    return (struct answer *)answers.base + (pc * UINT64_C(0x9e3779b97f4a7c15) >> 40) % ANSWERS;
}

static void remember(uintptr_t pc, const struct kin__place *place, bool has_line)
{
    struct answer *answer = answer_of(pc);
    if (!answer)
        return;
    answer->pc = pc;
    answer->has_line = has_line;
    answer->place = *place;
}

static bool recall(uintptr_t pc, bool has_line, struct kin__place *out)
{
    const struct answer *answer = answer_of(pc);
    if (!answer || !pc || answer->pc != pc || answer->has_line < has_line)
        return false;
    *out = answer->place;
    return true;
}

bool kin__source_function(uintptr_t pc, struct kin__place *out)
{
    if (!recall(pc, false, out)) {
        memset(out, 0, sizeof(*out));
        if (open_image(pc - 1))
            copy(out->function, sizeof(out->function), function_of(pc - 1 - image.base));
        remember(pc, out, false);
    }
    return out->function[0] != '\0';
}

/* Adds file and line to a place. */
static void add_line(uintptr_t pc, struct kin__place *out)
{
    uint64_t address = pc - 1 - image.base;
    struct bytes lines = section(".debug_line");
    while (lines.at < lines.end) { /* ends: a unit has a length */
        struct unit unit;
        struct row row;
        if (!take_unit(&lines, &unit) || !find_row(&unit, address, &row))
            continue;
        const char *directory;
        struct entry file = file_of(&unit, row.file, &directory);
        const char *slash = strrchr(file.path, '/');
        copy(out->file, sizeof(out->file), slash ? slash + 1 : file.path);
        join(out->path, sizeof(out->path), root_of(&unit), directory, file.path);
        out->line = (unsigned)row.line;
        out->column = (unsigned)row.column;
        out->is_ours = is_on_floor(out->path);
        break;
    }
}

bool kin__source_find(uintptr_t pc, struct kin__place *out)
{
    if (!recall(pc, true, out)) {
        (void)kin__source_function(pc, out);
        if (open_image(pc - 1))
            add_line(pc, out);
        remember(pc, out, true);
    }
    return out->function[0] || out->file[0];
}

/* ---- lines of text ---- */

size_t kin__source_line(const struct kin__place *place, char *out, size_t size)
{
    char bytes[4096];
    size_t blanks = 0;
    struct kin__text text;
    unsigned line = 1;
    off_t offset = 0;
    ssize_t got = 1;
    int fd = open(place->path, O_RDONLY | O_CLOEXEC);
    kin__text_init(&text, out, size);
    while (fd >= 0 && line <= place->line && got > 0) { /* ends: at that line or at the end */
        got = pread(fd, bytes, sizeof(bytes), offset);
        for (ssize_t i = 0; i < got && line <= place->line; i++) {
            if (bytes[i] == '\n')
                line++;
            else if (line == place->line && text.len == 0 && (bytes[i] == ' ' || bytes[i] == '\t'))
                blanks++;
            else if (line == place->line)
                kin__text_char(&text, bytes[i]);
        }
        offset += got;
    }
    if (fd >= 0)
        close(fd);
    return blanks;
}
