/* SPDX-License-Identifier: MIT */
/*
 * Files of schedules (.kinlab): text, one thing per line, readable and fit for a commit.
 *
 *     kinlab 1
 *     test bank_balances
 *     strategy replay
 *     seed 0x5eed
 *     workers 2                       notes, which are the world's: workers, faults, known (a bug
 *     faults cancel                   that is still there), record (made of one of production)
 *     expect fail
 *     oracle lost-wake
 *     where root/1
 *     status -4119
 *     text root/1 is parked though an item is available
 *     sched root:4 root/1:2 root:*    who goes on, for how many steps; *: until it cannot, which
 *                                     is for lenient runs: a record of production has it
 *     choose 3 case 1/3 select        in step 3 one of three was chosen, number 1, at this label
 *     marks 4f2b:1 91c3:3             per step a hash of who could go on, and the set of them
 *     hash 0x8a3e
 *     end
 *     # 2026-11-16                    comments, and lines without a word, may stand anywhere else
 *
 * Every other line is an error: half a line of something else in a file would change what it says.
 * Paths and labels have no blanks, colons, percent signs or bytes outside of ASCII: these are
 * written as %xx. A file comes from anywhere: every number is checked and everything has a limit.
 * Errors: -EINVAL no such file at all, -EPROTONOSUPPORT another version, -EBADMSG a line that makes
 * no sense, -ENODATA the end is missing, -EFBIG too large, -E2BIG too many names. Who asked for the
 * file is told in words, with the line.
 */
#include "lab/state.h"
#include "plat/file.h"
#include "plat/plat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)64 << 20)
#define STEPS_MAX ((size_t)1 << 22)
#define CHOICES_MAX ((size_t)1 << 22)
#define NOTES_MAX ((size_t)64 << 10)
#define LINE_COLUMNS 88u /* lines of many words are broken behind this */

static const char *const kinds[] = {"task", "case", "timer", "fault", "net", "random"};
#define KINDS (sizeof(kinds) / sizeof(*kinds))

/* First words that are only for people: what stands behind them is not looked at. */
static const char *const for_people[] = {"test",   "strategy", "expect", "oracle", "where",
                                         "status", "text",     "hash",   "found"};
/* First words of the world's lines. */
static const char *const for_world[] = {"workers", "faults", "known", "record"};
#define COUNT(words) (sizeof(words) / sizeof(*(words)))

/* ---- writing ---- */

static void write_word(struct kin__text *text, const char *word)
{
    for (; *word; word++) {
        const unsigned char c = (unsigned char)*word;
        if (c <= ' ' || c == ':' || c == '%' || c >= 127)
            kin__text_printf(text, "%%%02x", c);
        else
            kin__text_char(text, *word);
    }
}

/* A line of free text: what would end it is written as a blank. */
static void write_line(struct kin__text *text, const char *key, const char *words)
{
    kin__text_printf(text, "%s ", key);
    for (; *words; words++)
        kin__text_char(text, (unsigned char)*words < ' ' ? ' ' : *words);
    kin__text_char(text, '\n');
}

/* Whether the first word of a line is one of these. */
static bool begins_with(const char *line, const char *const *words, size_t count)
{
    const size_t size = strcspn(line, " \n");

    for (size_t i = 0; i < count; i++)
        if (strlen(words[i]) == size && !strncmp(words[i], line, size))
            return true;
    return false;
}

bool kin__engine_note(const char *text, const char *word, char *out, size_t size)
{
    const size_t length = strlen(word);

    while (*text) { /* ends: one line fewer each time */
        const size_t line = strcspn(text, "\r\n");
        if (line > length && strncmp(text, word, length) == 0 && text[length] == ' ') {
            struct kin__text to;
            kin__text_init(&to, out, size);
            kin__text_mem(&to, text + length + 1, line - length - 1);
            return true;
        }
        text += line + (text[line] != '\0');
    }
    return false;
}

/* The world's lines, without those that would not be read as such. */
static void write_notes(struct kin__text *text, const char *notes)
{
    while (notes && *notes) {
        const size_t size = strcspn(notes, "\n");
        if (begins_with(notes, for_world, COUNT(for_world))) {
            kin__text_mem(text, notes, size);
            kin__text_char(text, '\n');
        }
        notes += size + (notes[size] == '\n');
    }
}

static void write_head(struct kin__text *text, const struct kin__lab *s, const struct kin__log *log,
                       const struct kin__engine_failure *failure)
{
    kin__text_str(text, "kinlab 1\n");
    write_line(text, "test", s->config.test && *s->config.test ? s->config.test : "test");
    kin__text_printf(text, "strategy replay\nseed 0x%llx\n", (unsigned long long)log->seed);
    write_notes(text, s->config.notes);
    kin__text_printf(text, "expect %s\n", failure ? "fail" : "pass");
    if (!failure)
        return;
    write_line(text, "oracle", failure->oracle);
    write_line(text, "where", failure->where);
    kin__text_printf(text, "status %d\n", failure->status);
    write_line(text, "text", failure->text);
}

/* Begins a new line when this one is long enough. */
static void break_line(struct kin__text *text, size_t *begin, const char *key)
{
    if (*begin && text->len - *begin < LINE_COLUMNS)
        return;
    kin__text_str(text, *begin ? "\n" : "");
    *begin = text->len;
    kin__text_str(text, key);
}

static void write_schedule(struct kin__text *text, const struct kin__lab *s,
                           const struct kin__log *log)
{
    size_t begin = 0;
    uint32_t name = KIN__NO_NAME;
    uint64_t count = 0;

    for (size_t i = 0; i <= log->count; i++) {
        const struct kin__decision *decision = kin__log_at(log, i);
        if (i < log->count && decision->kind != KIN__CHOICE_TASK)
            continue;
        if (count && (i == log->count || decision->answer != name)) {
            break_line(text, &begin, "sched");
            kin__text_char(text, ' ');
            write_word(text, kin__path_text(s, name));
            kin__text_printf(text, ":%llu", (unsigned long long)count);
            count = 0;
        }
        if (i < log->count) {
            name = decision->answer;
            count++;
        }
    }
    kin__text_str(text, begin ? "\n" : "");
}

static void write_choices(struct kin__text *text, const struct kin__log *log)
{
    size_t step = 0, choice = 0;

    for (size_t i = 0; i < log->count; i++) {
        const struct kin__decision *decision = kin__log_at(log, i);
        if (decision->kind == KIN__CHOICE_TASK) {
            step++;
            continue;
        }
        kin__text_printf(text, "choose %zu %s %u/%u ", step,
                         kinds[decision->kind < KINDS ? decision->kind : 0], decision->answer,
                         (unsigned)decision->seen);
        write_word(text, kin__log_label(log, choice++));
        kin__text_char(text, '\n');
    }
}

static void write_marks(struct kin__text *text, const struct kin__log *log)
{
    size_t begin = 0;

    for (size_t i = 0; i < log->count; i++) {
        const struct kin__decision *decision = kin__log_at(log, i);
        if (decision->kind != KIN__CHOICE_TASK)
            continue;
        break_line(text, &begin, "marks");
        kin__text_printf(text, " %x:%llx%s", decision->mark, (unsigned long long)decision->seen,
                         decision->has_more ? "+" : "");
    }
    kin__text_str(text, begin ? "\n" : "");
}

static int write_file(const char *path, const struct kin__text *text)
{
    const int fd = kin__file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644, true);
    size_t done = 0;
    int64_t part = fd;

    while (fd >= 0 && part >= 0 && done < text->len) {
        part = kin__file_pwrite(fd, text->buf + done, text->len - done, (int64_t)done, true);
        if (part == 0)
            part = -EIO;
        done += part > 0 ? (size_t)part : 0;
    }
    if (fd < 0)
        return fd;
    const int closed = kin__fd_close(fd);
    return part < 0 ? (int)part : closed;
}

int kin__engine_save(const struct kin__engine *e, const char *path)
{
    const struct kin__lab *s = kin__lab_of_const(e);
    const struct kin__log *log = s->has_kept ? &s->kept : &s->log;
    struct kin__room room = {NULL, 0};
    struct kin__text text;

    /* Ends: the room doubles until everything fits, or the largest is not enough. */
    do {
        if (room.bytes > FILE_BYTES_MAX || !kin__room_grow(&room, room.bytes + 1)) {
            const int status = room.bytes > FILE_BYTES_MAX ? -EFBIG : -ENOMEM;
            kin__room_release(&room);
            return status;
        }
        kin__text_init(&text, room.base, room.bytes);
        write_head(&text, s, log, s->has_kept ? &s->kept_failure : NULL);
        write_schedule(&text, s, log);
        write_choices(&text, log);
        write_marks(&text, log);
        kin__text_printf(&text, "hash 0x%llx\nend\n", (unsigned long long)log->hash);
    } while (kin__text_is_full(&text));
    const int status = write_file(path, &text);
    kin__room_release(&room);
    return status;
}

/* ---- reading ---- */

/* A choice as the file has it. */
struct pick_mark {
    uint64_t seen;
    uint16_t mark;
    bool has_more;
};

struct file_choice {
    size_t step, line;
    const char *label;
    uint32_t n, answer;
    uint8_t kind;
};

struct reader {
    struct kin__lab *lab;
    struct kin__room picks, choices, marks; /* uint32_t, struct file_choice, struct pick_mark */
    size_t pick_count, choice_count, mark_count;
    size_t notes_size;
    size_t line; /* that is read, from 1 on */
    uint64_t seed;
    bool has_end;
};

/* Says what is wrong, in which line; answers with the status. */
static int refuse(const struct reader *reader, size_t line, int status, const char *what)
{
    if (reader->lab->config.misread)
        kin__text_printf(reader->lab->config.misread, "line %zu: %s", line, what);
    return status;
}

/* The next word of a line, ended in place; NULL: there is none. */
static char *take_word(char **line)
{
    char *word = *line + strspn(*line, " ");

    if (!*word)
        return NULL;
    *line = word + strcspn(word, " ");
    if (**line)
        *(*line)++ = 0;
    return word;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return 99;
}

/* Reads a number up to most from the digits at *at; false: none, or too large. */
static bool take_number(const char **at, unsigned base, uint64_t most, uint64_t *out)
{
    const char *c = *at;
    uint64_t value = 0;

    for (; digit_of(*c) < (int)base; c++) {
        const uint64_t digit = (uint64_t)digit_of(*c);
        if (value > (most - digit) / base || digit > most)
            return false;
        value = value * base + digit;
    }
    if (c == *at)
        return false;
    *at = c;
    *out = value;
    return true;
}

/* Puts back what was written as %xx, in place. */
static bool unescape(char *word)
{
    char *to = word;

    for (const char *from = word; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        const int high = digit_of(from[1]), low = high > 15 ? 99 : digit_of(from[2]);
        if (high > 15 || low > 15 || (high | low) == 0)
            return false;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = 0;
    return true;
}

static int read_schedule(struct reader *reader, char *line)
{
    for (char *word; (word = take_word(&line));) {
        char *colon = strrchr(word, ':');
        uint64_t count = 0;
        const char *at = colon ? colon + 1 : "";
        const uint32_t until = strcmp(at, "*") == 0 ? KIN__UNTIL : 0;
        if (until)
            at = "1";
        if (!colon || colon == word ||
            !take_number(&at, 10, STEPS_MAX - reader->pick_count, &count) || *at)
            return -EBADMSG;
        *colon = 0;
        if (!unescape(word) || strlen(word) >= KIN__PATH_MAX)
            return -EBADMSG;
        const uint32_t name = kin__path_name(reader->lab, word);
        if (name == KIN__NO_NAME)
            return reader->lab->name_count == KIN__NAMES_MAX ? -E2BIG : -ENOMEM;
        if (!kin__room_fits(&reader->picks, reader->pick_count + (size_t)count, sizeof(uint32_t)))
            return -ENOMEM;
        for (; count; count--)
            ((uint32_t *)reader->picks.base)[reader->pick_count++] = name | until;
    }
    return 0;
}

static bool read_kind(const char *word, uint8_t *kind)
{
    for (size_t i = KIN__CHOICE_CASE; i < KINDS; i++)
        if (!strcmp(word, kinds[i])) {
            *kind = (uint8_t)i;
            return true;
        }
    return false;
}

static int read_choice(struct reader *reader, char *line)
{
    struct file_choice choice = {.label = ""};
    const char *step = take_word(&line), *kind = take_word(&line), *answer = take_word(&line);
    char *label = take_word(&line);
    uint64_t number = 0, n = 0, at_step = 0;

    if (!answer || take_word(&line) || !read_kind(kind, &choice.kind) ||
        !take_number(&step, 10, STEPS_MAX, &at_step) || *step ||
        !take_number(&answer, 10, UINT32_MAX, &number) || *answer++ != '/' ||
        !take_number(&answer, 10, UINT32_MAX, &n) || *answer || (n && number >= n) ||
        (label && !unescape(label)))
        return -EBADMSG;
    choice.step = (size_t)at_step;
    choice.line = reader->line;
    choice.answer = (uint32_t)number;
    choice.n = (uint32_t)n;
    choice.label = label ? label : "";
    if (reader->choice_count == CHOICES_MAX)
        return -EFBIG;
    if (!kin__room_fits(&reader->choices, reader->choice_count + 1, sizeof(choice)))
        return -ENOMEM;
    ((struct file_choice *)reader->choices.base)[reader->choice_count++] = choice;
    return 0;
}

static int read_marks(struct reader *reader, char *line)
{
    for (const char *word; (word = take_word(&line));) {
        struct pick_mark mark = {0, 0, false};
        uint64_t hash = 0;
        if (!take_number(&word, 16, UINT16_MAX, &hash) || *word++ != ':' ||
            !take_number(&word, 16, UINT64_MAX, &mark.seen))
            return -EBADMSG;
        mark.mark = (uint16_t)hash;
        mark.has_more = *word == '+';
        if (word[mark.has_more])
            return -EBADMSG;
        if (reader->mark_count == STEPS_MAX)
            return -EFBIG;
        if (!kin__room_fits(&reader->marks, reader->mark_count + 1, sizeof(mark)))
            return -ENOMEM;
        ((struct pick_mark *)reader->marks.base)[reader->mark_count++] = mark;
    }
    return 0;
}

static int read_seed(struct reader *reader, char *line)
{
    const char *word = take_word(&line);

    if (!word || strncmp(word, "0x", 2) != 0)
        return -EBADMSG;
    word += 2;
    return take_number(&word, 16, UINT64_MAX, &reader->seed) && !*word ? 0 : -EBADMSG;
}

/* A line that is the world's. */
static int read_note(struct reader *reader, const char *line)
{
    struct kin__room *notes = &reader->lab->notes_room;
    const size_t size = strlen(line);

    if (reader->notes_size + size + 2 > NOTES_MAX)
        return -EFBIG;
    if (!kin__room_fits(notes, reader->notes_size + size + 2, 1))
        return -ENOMEM;
    char *to = (char *)notes->base + reader->notes_size;
    memcpy(to, line, size);
    memcpy(to + size, "\n", 2);
    reader->notes_size += size + 1;
    return 0;
}

/* Whether a line is for nobody: empty, or a comment. */
static bool is_comment(const char *line)
{
    return line[0] == '#' || line[strspn(line, " \t")] == 0;
}

static int read_line(struct reader *reader, char *line)
{
    const size_t size = strcspn(line, " ");
    char *rest = line + size + (line[size] == ' ');

    if (size == 5 && !strncmp(line, "sched", size))
        return read_schedule(reader, rest);
    if (size == 6 && !strncmp(line, "choose", size))
        return read_choice(reader, rest);
    if (size == 5 && !strncmp(line, "marks", size))
        return read_marks(reader, rest);
    if (size == 4 && !strncmp(line, "seed", size))
        return read_seed(reader, rest);
    if (begins_with(line, for_world, COUNT(for_world)))
        return read_note(reader, line);
    reader->has_end = !strcmp(line, "end");
    return reader->has_end || is_comment(line) ||
                   begins_with(line, for_people, COUNT(for_people))
               ? 0
               : -EBADMSG;
}

/* What is wrong with a line that reads as status says; its first word is as it was. */
static const char *what_of(const char *line, int status)
{
    static const char *const sentences[] = {
        "'sched' wants who goes on for how many steps, such as root/1:3",
        "'choose' wants step, kind, answer/count and label, such as 3 case 1/3 select",
        "'marks' wants pairs of numbers to the base of 16, such as 4f2b:1",
        "'seed' wants a number such as 0x5eed",
    };
    const char *what = "no line of a schedule begins like this; a comment begins with '#'";

    if (status == -EFBIG)
        return "there are more steps, choices or notes than one run has";
    if (status == -E2BIG)
        return "there are more tasks than one run has";
    if (status == -ENOMEM)
        return "there is no memory for more";
    for (size_t i = 0; i < sizeof(sentences) / sizeof(*sentences); i++) {
        const size_t size = strcspn(sentences[i] + 1, "'");
        if (!strncmp(sentences[i] + 1, line, size) && (line[size] == ' ' || !line[size]))
            what = sentences[i];
    }
    return what;
}

/* Puts picks and choices into one log, in their order. */
static int merge(struct reader *reader)
{
    const uint32_t *picks = reader->picks.base;
    const struct file_choice *choice = reader->choices.base;
    const struct pick_mark *marks = reader->marks.base;
    struct kin__log *log = &reader->lab->file;
    size_t at = 0;

    if (reader->mark_count && reader->mark_count != reader->pick_count)
        return refuse(reader, reader->line, -EBADMSG,
                      "the file ends, and has not as many 'marks' as steps in 'sched'");
    kin__log_clear(log, reader->seed ? reader->seed : 1);
    for (size_t step = 0; step <= reader->pick_count; step++) {
        for (; at < reader->choice_count && choice[at].step == step; at++) {
            const uint64_t hash =
                kin__choice_hash((enum kin__choice)choice[at].kind, choice[at].n, choice[at].label);
            const struct kin__decision decision = {choice[at].n, choice[at].answer,
                                                   (uint16_t)(hash >> 48), choice[at].kind, false};
            if (!kin__log_add(log, &decision, choice[at].label))
                return -ENOMEM;
        }
        if (step == reader->pick_count)
            break;
        struct kin__decision decision = {.answer = picks[step], .kind = KIN__CHOICE_TASK};
        if (reader->mark_count) {
            decision.seen = marks[step].seen;
            decision.mark = marks[step].mark;
            decision.has_more = marks[step].has_more;
        }
        if (!kin__log_add(log, &decision, NULL))
            return -ENOMEM;
    }
    if (at < reader->choice_count)
        return refuse(reader, choice[at].line, -EBADMSG,
                      "this 'choose' is of an earlier step than the one before, or of none");
    return 0;
}

static int read_lines(struct reader *reader, char *text, size_t size)
{
    int status;
    char *line = text, *end = text + size;

    while (line < end) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        reader->line++;
        if (!stop && !reader->has_end)
            break; /* the last line is not whole */
        if (!stop)
            return refuse(reader, reader->line, -EBADMSG, "there is something behind 'end'");
        *stop = 0;
        if (stop > line && stop[-1] == '\r')
            stop[-1] = 0;
        /* A NUL within the line hides the rest of it from the functions for strings. */
        if (strlen(line) + 1 < (size_t)(stop - line))
            return refuse(reader, reader->line, -EBADMSG, "there is a zero byte in it");
        if (reader->has_end && !is_comment(line))
            return refuse(reader, reader->line, -EBADMSG, "there is something behind 'end'");
        status = reader->has_end || reader->line == 1 ? 0 : read_line(reader, line);
        if (status < 0)
            return refuse(reader, reader->line, status, what_of(line, status));
        line = stop + 1;
    }
    if (!reader->has_end)
        return refuse(reader, reader->line, -ENODATA,
                      "the file is cut off here: its last line must be 'end'");
    return 0;
}

static int check_version(const char *text, size_t size)
{
    if (size < 9 || memcmp(text, "kinlab ", 7) != 0)
        return -EINVAL;
    return text[7] == '1' && (text[8] == '\n' || text[8] == '\r') ? 0 : -EPROTONOSUPPORT;
}

const char *kin__engine_misread(const char *text, size_t size)
{
    switch (check_version(text, size)) {
    case 0:
        return NULL;
    case -EINVAL:
        return "line 1: it is no schedule of the lab, which begins with 'kinlab 1'";
    default:
        return "line 1: it is of another version; this program reads 'kinlab 1'";
    }
}

int kin__kinlab_parse(struct kin__lab *s, char *text, size_t size)
{
    struct reader reader = {.lab = s};
    int status = check_version(text, size);

    if (status == 0)
        status = read_lines(&reader, text, size);
    if (status == 0)
        status = merge(&reader);
    if (status == 0 && !kin__script_read(&s->file_script, &s->file))
        status = -ENOMEM;
    kin__room_release(&reader.picks);
    kin__room_release(&reader.choices);
    kin__room_release(&reader.marks);
    return status;
}

int kin__kinlab_load(struct kin__lab *s, const char *path)
{
    size_t size = 0;
    const int status = kin__room_read(&s->file_room, path, FILE_BYTES_MAX, &size);

    return status < 0 ? status : kin__kinlab_parse(s, s->file_room.base, size);
}
