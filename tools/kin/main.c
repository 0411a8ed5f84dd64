/* SPDX-License-Identifier: MIT */
/*
 * The program kin: a tour of the library, tests of the lab, records, and which library it is.
 *
 *     kin demo [--quick] [--no-million]     kin lab program ...     kin record file
 *     kin version     kin help
 */
#include "tool.h"

#include <stdio.h>
#include <string.h>

static const char help_text[] =
    "kin - structured concurrency for C\n"
    "\n"
    "  kin demo [--quick] [--no-million]\n"
    "               a tour of what kin does, with figures of this machine; less than a\n"
    "               minute. --quick does less of everything, --no-million leaves the\n"
    "               million tasks out, which need about 5 GiB of memory\n"
    "  kin lab program ... [options]\n"
    "               runs programs of the lab, which find, shrink and replay bugs of\n"
    "               concurrency; kin lab program --help tells the options\n"
    "  kin record file [options]\n"
    "               what a program that ran with KIN_RECORD=file did, in words, as a picture,\n"
    "               as a trace, as a schedule for the lab; kin record --help tells the options\n"
    "  kin version  the version of the library\n"
    "  kin help     this text\n";

static int version_main(void)
{
    printf("kin %s\n", kin_version());
    return 0;
}

static int help_main(FILE *file)
{
    fputs(help_text, file);
    return file == stderr ? 2 : 0;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    bool is_curious = argc == 3 && strcmp(argv[2], "--help") == 0;
    int status;

    if (strcmp(command, "demo") == 0 && !is_curious)
        status = demo_main(argc - 2, argv + 2);
    else if (strcmp(command, "lab") == 0)
        status = lab_main(argc - 2, argv + 2);
    else if (strcmp(command, "record") == 0)
        status = kin__dump_main(argc - 2, argv + 2);
    else if (strcmp(command, "version") == 0 || strcmp(command, "--version") == 0)
        status = version_main();
    else if (strcmp(command, "help") == 0 || strcmp(command, "--help") == 0 || is_curious)
        status = help_main(stdout);
    else {
        if (*command)
            fprintf(stderr, "kin: unknown command '%s'\n\n", command);
        status = help_main(stderr);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        perror("kin: standard output");
        status = 1;
    }
    return status;
}
