/* SPDX-License-Identifier: MIT */
/*
 * Functions and lines of addresses, from the program's own file.
 *
 * Of the program's file, or of the shared object's, the parts that are needed are read: the table
 * of symbols names functions, the line table of the debugging information (DWARF 2 to 5,
 * uncompressed) names lines. Reports are all that asks, so nothing is indexed and nothing is kept
 * open: each question reads the tables from their start, and answers are remembered, because the
 * same few addresses are asked for again and again. Every read is bounded by the part it is in; a
 * file that makes no sense, or is too large, answers nothing. A part is read, not mapped: a file
 * that is cut while it is mapped would raise SIGBUS.
 *
 * Whoever asks may be in a signal handler, hold a lock or be in a run of the lab. So memory comes
 * from the kernel, which is called by numbers (the lab has its own open and mmap), the remembered
 * answers are passed over while somebody else has them, and the loader is asked only by a call of
 * its own that takes no lock. Where the loader lacks that call (glibc before 2.35), the addresses
 * of the program itself are known and those of shared objects are not.
 *
 * The loader's dladdr knows only what is exported, which static programs are not, and an unwinding
 * library or a second program would have to be there when a report is written.
 */
#define _GNU_SOURCE 1
#include "plat/source.h"

#include "base/atomic.h"
#include "base/text.h"
#include "plat/plat.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PART_MAX_BYTES (UINT64_C(64) << 20) /* of a section that is read */
#define PARTS 8u                            /* that one question needs at most */
#define ANSWERS 256u                        /* that are remembered */
#define PLACES 8u                           /* where the answer for one address may be */

/* Bytes that are read from the front. */
struct bytes {
    const uint8_t *at, *end;
};

/* A part of the file that was read. */
struct part {
    uint64_t offset, size;
    uint8_t *bytes;
};

/* The file of the object that an address lies in. */
struct image {
    int fd;         /* -1: none */
    uintptr_t base; /* what the loader adds to the file's addresses */
    Elf64_Ehdr head;
    struct part parts[PARTS];
    unsigned count;
};

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

static void copy(char *to, size_t size, const char *from)
{
    struct kin__text text;
    kin__text_init(&text, to, size);
    kin__text_str(&text, from);
}

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
/* Weak: the loader of an older system lacks it. */
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak));

static const char *path_of_object(uintptr_t pc, uintptr_t *base)
{
    struct dl_find_object found;
    if (!_dl_find_object || _dl_find_object((void *)pc, &found) != 0)
        return NULL;
    const struct link_map *map = found.dlfo_link_map;
    *base = map->l_addr;
    return map->l_name && *map->l_name ? map->l_name : NULL;
}
#else
static const char *path_of_object(uintptr_t pc, uintptr_t *base)
{
    (void)pc, (void)base;
    return NULL;
}
#endif

bool kin__source_is_program(uintptr_t pc, uintptr_t *base)
{
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    unsigned long count = getauxval(AT_PHNUM);
    bool is_inside = false;
    *base = 0;
    for (unsigned long i = 0; parts && i < count; i++) {
        if (parts[i].p_type == PT_PHDR) /* the first of them, if it is there */
            *base = (uintptr_t)parts - parts[i].p_vaddr;
        if (parts[i].p_type == PT_LOAD && pc - *base - parts[i].p_vaddr < parts[i].p_memsz)
            is_inside = true;
    }
    return is_inside;
}

static bool read_at(int fd, uint64_t offset, void *to, uint64_t size)
{
    uint64_t got = 0;
    while (got < size) { /* ends: each round reads something */
        long part = syscall(SYS_pread64, fd, (char *)to + got, size - got, offset + got);
        if (part <= 0)
            return false;
        got += (uint64_t)part;
    }
    return true;
}

static bool open_image(struct image *image, uintptr_t pc)
{
    const char *path = "/proc/self/exe";
    image->count = 0;
    if (!kin__source_is_program(pc, &image->base))
        path = path_of_object(pc, &image->base);
    image->fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC) : -1;
    return image->fd >= 0 && read_at(image->fd, 0, &image->head, sizeof(image->head)) &&
           memcmp(image->head.e_ident, ELFMAG, SELFMAG) == 0 &&
           image->head.e_ident[EI_CLASS] == ELFCLASS64 &&
           image->head.e_ident[EI_DATA] == ELFDATA2LSB &&
           image->head.e_shentsize == sizeof(Elf64_Shdr) &&
           image->head.e_shstrndx < image->head.e_shnum;
}

static void close_image(struct image *image)
{
    for (unsigned i = 0; i < image->count; i++)
        (void)syscall(SYS_munmap, image->parts[i].bytes, image->parts[i].size);
    if (image->fd >= 0)
        (void)syscall(SYS_close, image->fd);
}

/* Bytes of the file, read once; empty when they cannot be. */
static struct bytes part_of(struct image *image, uint64_t offset, uint64_t size)
{
    struct bytes none = {NULL, NULL};
    for (unsigned i = 0; i < image->count; i++)
        if (image->parts[i].offset == offset && image->parts[i].size == size)
            return (struct bytes){image->parts[i].bytes, image->parts[i].bytes + size};
    if (image->count == PARTS || size == 0 || size > PART_MAX_BYTES)
        return none;
    long at = syscall(SYS_mmap, NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0L);
    if (at == -1)
        return none;
    uint8_t *bytes = (uint8_t *)at;
    if (!read_at(image->fd, offset, bytes, size)) {
        (void)syscall(SYS_munmap, bytes, size);
        return none;
    }
    image->parts[image->count++] = (struct part){offset, size, bytes};
    return (struct bytes){bytes, bytes + size};
}

/* A section by its name; empty when there is none. */
static struct bytes section(struct image *image, const char *name)
{
    struct bytes none = {NULL, NULL};
    uint64_t count = image->head.e_shnum;
    struct bytes table = part_of(image, image->head.e_shoff, count * sizeof(Elf64_Shdr));
    Elf64_Shdr one;
    if (!table.at)
        return none;
    memcpy(&one, table.at + image->head.e_shstrndx * sizeof(one), sizeof(one));
    struct bytes names = part_of(image, one.sh_offset, one.sh_size);
    for (uint64_t i = 0; names.at && i < count; i++) {
        memcpy(&one, table.at + i * sizeof(one), sizeof(one));
        if (one.sh_type != SHT_NOBITS && !(one.sh_flags & SHF_COMPRESSED) &&
            strcmp(string_at(names, one.sh_name), name) == 0)
            return part_of(image, one.sh_offset, one.sh_size);
    }
    return none;
}

/* Copies the name of the function that the address lies in, as one pair of tables tells. */
static bool find_function(struct image *image, const char *symbols_name, const char *strings_name,
                          uint64_t address, struct kin__place *out)
{
    struct bytes symbols = section(image, symbols_name);
    struct bytes strings = section(image, strings_name);
    Elf64_Sym symbol;
    for (; (size_t)(symbols.end - symbols.at) >= sizeof(symbol); symbols.at += sizeof(symbol)) {
        memcpy(&symbol, symbols.at, sizeof(symbol));
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_shndx != SHN_UNDEF &&
            address - symbol.st_value < symbol.st_size) {
            copy(out->function, sizeof(out->function), string_at(strings, symbol.st_name));
            out->offset = (size_t)(address - symbol.st_value);
            return true;
        }
    }
    return false;
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
    struct bytes line_strings, strings; /* sections that the tables refer to */
};

/* What one entry of a version 5 table says of the two things that are of interest. */
struct entry {
    const char *path;
    uint64_t directory;
};

static void take_form(const struct unit *unit, struct bytes *from, uint64_t form,
                      struct entry *out, uint64_t content)
{
    unsigned size = unit->is_wide ? 8 : 4;
    uint64_t number = 0;
    const char *string = "";
    switch (form) {
    case 0x08: string = take_string(from); break;
    case 0x1f: string = string_at(unit->line_strings, take(from, size)); break;
    case 0x0e: string = string_at(unit->strings, take(from, size)); break;
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
static void take_table(const struct unit *unit, struct bytes *from, uint64_t wanted,
                       struct entry *out)
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
            take_form(unit, from, take_uleb(&shape), &entry, content);
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
    take_table(unit, &from, UINT64_MAX, &parent);
    take_table(unit, &from, number, &file);
    take_table(unit, &directories, file.directory, &parent);
    *directory = parent.path;
    return file;
}

/* Where the compiler ran, if the table tells. */
static const char *root_of(const struct unit *unit)
{
    struct bytes from = unit->tables;
    struct entry root = {"", 0};
    if (unit->version >= 5)
        take_table(unit, &from, 0, &root);
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
    static const char *const floors[] = {"src/base/",  "src/plat/", "src/mem/",   "src/task/",
                                         "src/sched/", "src/park/", "src/wait/",  "src/scope/",
                                         "src/otp/",   "src/view/", "src/lab/"};
    for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
        const char *at = strstr(path, floors[i]);
        const char *rest = at ? at + strlen(floors[i]) : NULL;
        if (rest && (at == path || at[-1] == '/') &&
            (!strchr(rest, '/') || strncmp(rest, "linux/", 6) == 0))
            return true;
    }
    return false;
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

/* Adds file and line to a place. */
static void find_line(struct image *image, uint64_t address, struct kin__place *out)
{
    struct bytes lines = section(image, ".debug_line");
    struct unit unit;
    struct row row;
    bool is_found = false;
    while (lines.at < lines.end && !is_found) /* ends: a unit has a length */
        is_found = take_unit(&lines, &unit) && find_row(&unit, address, &row);
    if (!is_found)
        return;
    const char *directory;
    unit.line_strings = section(image, ".debug_line_str");
    unit.strings = section(image, ".debug_str");
    struct entry file = file_of(&unit, row.file, &directory);
    const char *slash = strrchr(file.path, '/');
    copy(out->file, sizeof(out->file), slash ? slash + 1 : file.path);
    join(out->path, sizeof(out->path), root_of(&unit), directory, file.path);
    out->line = (unsigned)row.line;
    out->column = (unsigned)row.column;
    out->is_ours = is_on_floor(out->path);
}

/* ---- answers ---- */

/* An answer that was given. */
struct answer {
    uintptr_t pc; /* 0: none */
    bool has_line;
    struct kin__place place;
};

static kin__a32 is_taken; /* 1: somebody has the answers; nobody waits */
static struct answer answers[ANSWERS]; /* by address; whoever has taken them */
static unsigned oldest;                /* whose place is used next; likewise */

/* The first of the PLACES where the answer for an address may be; NULL: somebody else has them,
 * perhaps the code that a signal has interrupted. Whoever gets them calls
 * kin__store_release(&is_taken, 0u). */
static struct answer *take_answers(uintptr_t pc)
{
    if (kin__xchg_acquire(&is_taken, 1u) != 0) /* pairs with the release of whoever had them */
        return NULL;
    return &answers[(pc * UINT64_C(0x9e3779b97f4a7c15) >> 40) % (ANSWERS / PLACES) * PLACES];
}

static void remember(uintptr_t pc, const struct kin__place *place, bool has_line)
{
    struct answer *first = take_answers(pc);
    if (!first)
        return;
    unsigned i = 0;
    while (i < PLACES && first[i].pc && first[i].pc != pc)
        i++;
    first[i < PLACES ? i : oldest++ % PLACES] = (struct answer){pc, has_line, *place};
    kin__store_release(&is_taken, 0u); /* pairs with the exchange in take_answers */
}

static bool recall(uintptr_t pc, bool has_line, struct kin__place *out)
{
    struct answer *first = take_answers(pc);
    if (!first)
        return false;
    bool is_known = false;
    for (unsigned i = 0; i < PLACES && !is_known; i++) {
        is_known = pc && first[i].pc == pc && first[i].has_line >= has_line;
        if (is_known)
            *out = first[i].place;
    }
    kin__store_release(&is_taken, 0u); /* pairs with the exchange in take_answers */
    return is_known;
}

static void find(uintptr_t pc, bool has_line, struct kin__place *out)
{
    struct image image;
    if (recall(pc, has_line, out))
        return;
    memset(out, 0, sizeof(*out));
    if (open_image(&image, pc - 1)) {
        uint64_t address = pc - 1 - image.base;
        if (!find_function(&image, ".symtab", ".strtab", address, out))
            (void)find_function(&image, ".dynsym", ".dynstr", address, out);
        if (has_line)
            find_line(&image, address, out);
    }
    close_image(&image);
    remember(pc, out, has_line);
}

bool kin__source_function(uintptr_t pc, struct kin__place *out)
{
    find(pc, false, out);
    return out->function[0] != '\0';
}

bool kin__source_find(uintptr_t pc, struct kin__place *out)
{
    find(pc, true, out);
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
