/* SPDX-License-Identifier: MIT */
/*
 * Explaining a failure by the nearest schedule that passes.
 *
 * A schedule is a row of blocks, each so many steps of one task. A block is moved forward, step by
 * step over those before it, the last block first, and the run is followed as far as it goes:
 *
 *     fails     root:4                  root/0:3  root:2
 *     fails     root:4          root/0:2  root:2  root/0:1
 *     passes    root:4  root/0:1  root:2  root/0:2
 *
 * When it passes, the step that was just overtaken and the last one that had to overtake it are the
 * answer: they are the pair that must not come in this order. A block cannot overtake whoever
 * spawns or wakes its task, and all of its steps must be made where they are now: a task that waits
 * there for what it has overtaken shows nothing. A failure that no such change removes does not
 * depend on the order of two steps, and that is said, too. Changed schedules lie in memory: nobody
 * has to clear them away.
 */
#include "lab/explain.h"

#include "lab/room.h"
#include "lab/stop.h"
#include "lab/story.h"
#include "plat/plat.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCKS_MAX (size_t)4096
#define TRIES_MAX 400u
#define FILE_BYTES (size_t)(4u << 20)
#define LINE_BYTES 160u

/* So many steps of one task, as the file says it: "root/1:3". */
struct block {
    const char *path;
    size_t path_length;
    uint64_t steps, first; /* how many, and the number of the first */
};

/* A choice that was made in a step: "choose 3 case 1/3 select". */
struct choice {
    uint64_t step;
    const char *rest; /* behind the step, with the blank */
    size_t length;
};

/* The first steps of a block go before the last ones of an earlier block. */
struct change {
    size_t from, to;     /* the block, and the earlier one */
    uint64_t back;       /* how many steps of that are overtaken */
    uint64_t front;      /* by how many */
    bool is_found;
};

struct schedule {
    struct kin__room text_room, blocks_room, choices_room;
    const char *text; /* the file */
    struct block *blocks;
    struct choice *choices;
    size_t count, choices_count;
    uint64_t steps;
};

/* ---- reading ---- */

static bool load(struct schedule *schedule, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    if (fd < 0)
        return false;
    bool is_good = kin__room_fits(&schedule->text_room, FILE_BYTES, 1) &&
                   kin__room_fits(&schedule->blocks_room, BLOCKS_MAX, sizeof(struct block)) &&
                   kin__room_fits(&schedule->choices_room, BLOCKS_MAX, sizeof(struct choice));
    while (is_good) { /* ends: at the end of the file, or when it is too large */
        ssize_t part = pread(fd, (char *)schedule->text_room.base + size, FILE_BYTES - 1 - size,
                             (off_t)size);
        if (part <= 0)
            break;
        size += (size_t)part;
    }
    close(fd);
    if (!is_good)
        return false;
    ((char *)schedule->text_room.base)[size] = '\0';
    schedule->text = schedule->text_room.base;
    schedule->blocks = schedule->blocks_room.base;
    schedule->choices = schedule->choices_room.base;
    return size > 0 && size < FILE_BYTES - 1;
}

static uint64_t take_number(const char **at)
{
    uint64_t number = 0;
    for (; **at >= '0' && **at <= '9'; (*at)++)
        number = number * 10 + (uint64_t)(**at - '0');
    return number;
}

static bool is_line(const char *line, const char *word)
{
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 && (line[length] == ' ' || line[length] == '\n');
}

/* Adds the blocks of a line "sched a:4 b:2". */
static void cut_blocks(struct schedule *schedule, const char *at)
{
    while (*at == ' ' && schedule->count < BLOCKS_MAX) {
        struct block *block = &schedule->blocks[schedule->count];
        block->path = ++at;
        block->path_length = strcspn(at, ": \n");
        at += block->path_length + (at[block->path_length] == ':');
        block->steps = take_number(&at);
        block->first = schedule->steps + 1;
        schedule->steps += block->steps;
        schedule->count += block->path_length > 0;
    }
}

/* What is in the file. False: there is nothing that could be put in another order. */
static bool cut(struct schedule *schedule)
{
    for (const char *line = schedule->text; line && *line;) {
        const char *end = strchr(line, '\n');
        if (is_line(line, "sched")) {
            cut_blocks(schedule, line + 5);
        } else if (is_line(line, "choose") && schedule->choices_count < BLOCKS_MAX) {
            const char *at = line + 7;
            struct choice *choice = &schedule->choices[schedule->choices_count++];
            choice->step = take_number(&at);
            choice->rest = at;
            choice->length = strcspn(at, "\n");
        }
        line = end ? end + 1 : NULL;
    }
    return schedule->count > 1 && schedule->count < BLOCKS_MAX &&
           schedule->choices_count < BLOCKS_MAX;
}

/* ---- trying ---- */

/* The choices that were made in the steps of a block, which begin later or earlier now. */
static void put_choices(struct kin__text *out, const struct schedule *schedule, uint64_t first,
                        uint64_t end, int64_t shift)
{
    for (size_t i = 0; i < schedule->choices_count; i++) {
        const struct choice *choice = &schedule->choices[i];
        if (choice->step < first || choice->step >= end)
            continue;
        kin__text_printf(out, "choose %llu", (unsigned long long)(choice->step + (uint64_t)shift));
        kin__text_mem(out, choice->rest, choice->length);
        kin__text_char(out, '\n');
    }
}

/* What is not about the order stays. */
static void put_others(struct kin__text *out, const struct schedule *schedule)
{
    static const char *const ours[] = {"sched", "choose", "marks", "hash", "end"};
    for (const char *line = schedule->text; line && *line;) {
        size_t length = strcspn(line, "\n"), i = 0;
        while (i < sizeof(ours) / sizeof(ours[0]) && !is_line(line, ours[i]))
            i++;
        if (i == sizeof(ours) / sizeof(ours[0])) {
            kin__text_mem(out, line, length);
            kin__text_char(out, '\n');
        }
        line += length + (line[length] == '\n');
    }
}

static void put_block(struct kin__text *out, const struct block *block, uint64_t steps)
{
    if (!steps)
        return;
    kin__text_str(out, "sched ");
    kin__text_mem(out, block->path, block->path_length);
    kin__text_printf(out, ":%llu\n", (unsigned long long)steps);
}

/* The step before which the others go. */
static uint64_t place_of(const struct schedule *schedule, const struct change *change)
{
    const struct block *a = &schedule->blocks[change->to];
    return a->first + a->steps - change->back;
}

/* Writes the schedule with a change; false: it could not be written. */
static bool write_changed(const struct schedule *schedule, const struct change *change, int fd,
                          struct kin__room *room)
{
    const struct block *b = &schedule->blocks[change->from];
    struct kin__text text;
    if (!kin__room_fits(room, FILE_BYTES, 1))
        return false;
    kin__text_init(&text, room->base, FILE_BYTES);
    put_others(&text, schedule);
    for (size_t i = 0; i < schedule->count; i++) {
        const struct block *block = &schedule->blocks[i];
        if (i == change->to) {
            put_block(&text, block, block->steps - change->back);
            put_block(&text, b, change->front);
            put_block(&text, block, change->back);
        } else {
            put_block(&text, block, block->steps - (i == change->from ? change->front : 0));
        }
    }
    uint64_t place = place_of(schedule, change), behind = b->first + change->front;
    put_choices(&text, schedule, 0, place, 0);
    put_choices(&text, schedule, b->first, behind, -(int64_t)(b->first - place));
    put_choices(&text, schedule, place, b->first, (int64_t)change->front);
    put_choices(&text, schedule, behind, UINT64_MAX, 0);
    kin__text_str(&text, "end\n");
    return !kin__text_is_full(&text) && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0 &&
           kin__plat_write(fd, text.buf, text.len) == 0;
}

/* Whether a run follows so many steps of the schedule and passes. */
static bool passes(const struct kin__options *options, const struct kin_lab_config *config,
                   const struct kin_lab_test *test, const char *path, uint64_t steps)
{
    struct kin__options used = *options;
    struct kin_lab_config replay = *config;
    struct kin__verdict verdict;
    used.is_lenient = used.is_unshrunk = used.is_quiet = true;
    used.has_seed = used.keeps_going = false;
    used.time_ns = 0;
    replay.strategy = KIN_LAB_REPLAY;
    replay.replay_file = path;
    replay.executions_max = 1;
    replay.report_dir = NULL;
    kin__main_run(&used, &replay, test, &verdict);
    return verdict.status == 0 && verdict.result.followed >= steps;
}

/* ---- telling ---- */

/* What happens in one step. */
static void put_step(struct kin__text *out, const struct kin__story *story,
                     const struct block *block, uint64_t step)
{
    bool has_any = false;
    for (size_t i = 0; i < story->count; i++) {
        const struct kin__row *row = &story->rows[i];
        if (row->step != step || row->is_failure || row->actor >= story->actors_count ||
            (row->what == KIN__NOTE_END && has_any))
            continue;
        kin__text_printf(out, "    %s, step %llu: %s", story->actors[row->actor].name,
                         (unsigned long long)step, row->words);
        if (row->place[0])
            kin__text_printf(out, "  (%s)", row->place);
        kin__text_char(out, '\n');
        has_any = true;
    }
    if (!has_any) {
        kin__text_str(out, "    ");
        kin__text_mem(out, block->path, block->path_length);
        kin__text_printf(out, ", step %llu\n", (unsigned long long)step);
    }
}

/* What was made to go wrong, if anything was: it is needed, or shrinking had dropped it. */
static bool put_fault(struct kin__text *out, const struct kin__story *story, const char *behind)
{
    bool has_any = false;
    for (size_t i = 0; i < story->count; i++) {
        const struct kin__row *row = &story->rows[i];
        if (row->what != KIN__NOTE_FAULT && !strstr(row->words, "FAULT "))
            continue;
        if (!has_any)
            kin__text_printf(out, "explain:  it fails because of what goes wrong here%s:\n",
                             behind);
        has_any = true;
        kin__text_printf(out, "    step %llu: %s  (%s)\n", (unsigned long long)row->step,
                         row->words, row->place);
    }
    return has_any;
}

static void tell(const struct schedule *schedule, const struct change *change,
                 const struct kin__story *story)
{
    char memory[8192];
    struct kin__text text;
    kin__text_init(&text, memory, sizeof(memory));
    bool has_fault = put_fault(&text, story, change->is_found ? "" : ", in any order");
    if (change->is_found) {
        const struct block *a = &schedule->blocks[change->to];
        const struct block *b = &schedule->blocks[change->from];
        kin__text_str(&text, has_fault ? "  and because this comes first:\n"
                                       : "explain:  it fails because this comes first:\n");
        put_step(&text, story, a, place_of(schedule, change));
        kin__text_str(&text, "  and this second:\n");
        put_step(&text, story, b, b->first + change->front - 1);
        kin__text_str(&text, "  the other way round the run passes\n");
    } else if (!has_fault) {
        kin__text_str(&text, "explain:  no two steps can change places so that the run passes; it "
                             "takes more than\n          one change, or no order helps\n");
    }
    kin__text_char(&text, '\n');
    kin__main_say(STDOUT_FILENO, &text);
}

/* What is run again and again. */
struct search {
    const struct schedule *schedule;
    const struct kin__options *options;
    const struct kin_lab_config *config;
    const struct kin_lab_test *test;
    const struct kin__story *story;
    char path[32]; /* by which fd is read */
    int fd;        /* the changed schedule, in memory */
    struct kin__room room;
    unsigned tries;
};

static bool is_answer(struct search *search, const struct change *change)
{
    const uint64_t moved = place_of(search->schedule, change) - 1 + change->front;
    return search->tries++ < TRIES_MAX && !kin__stop_signal &&
           write_changed(search->schedule, change, search->fd, &search->room) &&
           passes(search->options, search->config, search->test, search->path, moved);
}

/* Whether an actor is the one of a block: its name begins with the path. */
static bool is_of(const struct kin__story *story, unsigned actor, const struct block *block)
{
    const char *name = story->actors[actor].name;
    return strncmp(name, block->path, block->path_length) == 0 &&
           (name[block->path_length] == '\0' || name[block->path_length] == ' ');
}

/* Whether the task of the block that moves is spawned or woken in a step that it overtakes. */
static bool is_forced(const struct search *search, const struct change *change)
{
    const struct block *b = &search->schedule->blocks[change->from];
    uint64_t place = place_of(search->schedule, change);
    for (size_t i = 0; i < search->story->count; i++) {
        const struct kin__row *row = &search->story->rows[i];
        for (unsigned j = 0; row->step == place && j < row->links_count; j++) {
            if (is_of(search->story, row->links[j].other, b))
                return true;
        }
    }
    return false;
}

static bool is_same(const struct block *a, const struct block *b)
{
    return a->path_length == b->path_length && memcmp(a->path, b->path, a->path_length) == 0;
}

/* Moves one block forward until the run passes; then as few of its steps as will do. */
static void search_block(struct search *search, struct change *change)
{
    const struct block *blocks = search->schedule->blocks, *b = &blocks[change->from];
    change->front = b->steps;
    for (change->to = change->from; change->to-- > 0 && !is_same(&blocks[change->to], b);) {
        for (change->back = 1; change->back <= blocks[change->to].steps; change->back++) {
            if (search->tries >= TRIES_MAX || kin__stop_signal || is_forced(search, change))
                return;
            change->is_found = is_answer(search, change);
            if (!change->is_found)
                continue;
            for (change->front = 1; change->front < b->steps; change->front++) {
                if (is_answer(search, change))
                    break;
            }
            return;
        }
    }
}

static const char *why_no_file(const struct kin__options *options,
                               const struct kin__verdict *verdict)
{
    if (verdict->result.has_diverged)
        return "no schedule repeats this failure, so that none can be changed";
    return options->reports ? "the file of the schedule, which is needed, could not be written"
                            : "it needs the file of the schedule, which --no-files leaves out";
}

/* Looks for the change, and tells what it is. */
static void explain(struct search *search)
{
    struct change change = {.from = search->schedule->count};
    struct kin__text text;
    kin__text_init(&text, search->path, sizeof(search->path));
    kin__text_printf(&text, "/proc/self/fd/%d", search->fd);
    while (!change.is_found && change.from-- > 1) /* ends: at the first block */
        search_block(search, &change);
    if (!kin__stop_signal || change.is_found)
        tell(search->schedule, &change, search->story);
    kin__room_release(&search->room);
}

void kin__explain(const struct kin__options *options, const struct kin_lab_config *config,
                  const struct kin_lab_test *test, const struct kin__verdict *verdict)
{
    const char *file = verdict->report.replay_file ? verdict->report.replay_file
                                                   : config->replay_file;
    struct schedule schedule = {0};
    struct kin__story story = {0};
    struct kin__text text;
    char line[LINE_BYTES];
    kin__report_take_story(&story);
    int fd = memfd_create("kin-explain", MFD_CLOEXEC);
    const char *none =
        !file                    ? why_no_file(options, verdict)
        : !load(&schedule, file) ? "the schedule cannot be read"
        : !cut(&schedule)        ? "there is no order of tasks to change, or too much of it"
        : fd < 0                 ? "there is no room for changed schedules"
                                 : NULL;
    if (none) {
        kin__text_init(&text, line, sizeof(line));
        kin__text_printf(&text, "explain:  %s\n\n", none);
        kin__main_say(STDOUT_FILENO, &text);
    } else {
        struct search search = {.schedule = &schedule,
                                .options = options,
                                .config = config,
                                .test = test,
                                .story = &story,
                                .fd = fd};
        explain(&search);
    }
    if (fd >= 0)
        close(fd);
    kin__story_forget(&story);
    kin__room_release(&schedule.text_room);
    kin__room_release(&schedule.blocks_room);
    kin__room_release(&schedule.choices_room);
}
