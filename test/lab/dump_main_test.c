/* SPDX-License-Identifier: MIT */
/*
 * Goal: kin record tells, draws and converts what is in a file, and says what it cannot do.
 * Method: the command with its arguments, on files of a directory of its own.
 */
#include "kin_test.h"

#include "lab/dump.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char record[] = "kinrecord 1\nworkers 1\ntask 1 root main 0x1\ntask 2 root/0 - 0x2\n"
                             "ring 0 3\n1000 run 1 0 0\n1100 spawn 2 1 0\n1200 park 1 nursery 0\n"
                             "1234 run 2 0 0\n1300 end 2 0 0\nend\n";
static char directory[64], out[1 << 16];

static void begin(void)
{
    snprintf(directory, sizeof directory, "/tmp/kin_record_XXXXXX");
    EXPECT(kin_test_mkdtemp(directory) != NULL);
    EXPECT_EQ(chdir(directory), 0);
    FILE *file = fopen("good", "w");
    EXPECT(file && fputs(record, file) >= 0 && fclose(file) == 0);
    file = fopen("bad", "w");
    EXPECT(file && fputs("something else\n", file) >= 0 && fclose(file) == 0);
    file = fopen("short", "w");
    size_t size = (size_t)(strstr(record, "1234") - record) + 2;
    EXPECT(file && fwrite(record, 1, size, file) == size && fclose(file) == 0);
}

static void end(void)
{
    char command[128];
    EXPECT_EQ(chdir("/"), 0);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    EXPECT_EQ(system(command), 0);
}

/* The words of a line, cut at blanks, as arguments; what it would exit with. out: what it said. */
static int command(const char *line)
{
    char words[256], *argv[16];
    int argc = 0, saved[2] = {dup(1), dup(2)}, fd = memfd_create("out", 0);
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word && argc < 16; word = strtok(NULL, " "))
        argv[argc++] = word;
    dup2(fd, 1);
    dup2(fd, 2);
    int status = kin__dump_main(argc, argv);
    for (int i = 0; i < 2; i++) {
        dup2(saved[i], i + 1);
        close(saved[i]);
    }
    ssize_t size = pread(fd, out, sizeof(out) - 1, 0);
    out[size > 0 ? size : 0] = '\0';
    close(fd);
    printf("%s: %d\n%s", line, status, out);
    return status;
}

static bool has(const char *path, const char *what)
{
    int fd = open(path, O_RDONLY);
    ssize_t size = fd < 0 ? -1 : read(fd, out, sizeof(out) - 1);
    if (fd >= 0)
        close(fd);
    out[size > 0 ? size : 0] = '\0';
    return strstr(out, what) != NULL;
}

KIN_TEST(a_record_is_told, "")
{
    begin();
    EXPECT_EQ(command("good"), 0);
    EXPECT(strstr(out, "2 tasks, 5 decisions, 3 earlier ones are lost\n") != NULL);
    EXPECT(strstr(out, "1.234 us  root/0 goes on, worker 0\n") != NULL);
    EXPECT(strstr(out, "root waits, nursery\n") != NULL);
    EXPECT_EQ(command("good --last 1"), 0);
    EXPECT(strstr(out, "root/0 ends with 0\n") && !strstr(out, "nursery"));
    EXPECT_EQ(command("short"), 0);
    EXPECT(strstr(out, "2 tasks, 3 decisions, 3 earlier ones are lost; the file ends before the "
                       "record does\n") != NULL);
    end();
}

KIN_TEST(a_record_is_drawn_and_converted, "")
{
    begin();
    EXPECT_EQ(command("good --svg a.svg --trace a.json --kinlab a.kinlab --test name"), 0);
    EXPECT_STR(out, "");
    EXPECT(has("a.svg", "</svg>"));
    EXPECT(has("a.json", "\"traceEvents\""));
    EXPECT(has("a.kinlab", "test name\n"));
    EXPECT(has("a.kinlab", "sched root:* root/0:*\nend\n"));
    end();
}

KIN_TEST(what_cannot_be_done_is_said, "")
{
    begin();
    EXPECT_EQ(command("bad"), 2);
    EXPECT(strstr(out, "bad: it is no record") != NULL);
    EXPECT_EQ(command("missing"), 2);
    EXPECT_EQ(command("good --svg no/such/directory"), 2);
    EXPECT_EQ(command("good --kinlab a.kinlab"), 2); /* of which test? */
    EXPECT_EQ(command("good --last many"), 2);
    EXPECT_EQ(command("good --svg"), 2);
    EXPECT_EQ(command("good good"), 2);
    EXPECT_EQ(command("--nonsense good"), 2);
    EXPECT(strstr(out, "usage:") != NULL);
    EXPECT_EQ(command(""), 2);
    EXPECT_EQ(command("--help"), 0);
    EXPECT(strstr(out, "usage:") != NULL);
    end();
}
