/* SPDX-License-Identifier: MIT */
/*
 * Host names to addresses, many at once.
 *
 *     resolve NAME...          looks them all up side by side and prints them in this order
 *     resolve -                answers each line that it reads
 *     resolve                  looks up names that need no server
 *
 * Each line has the name and its addresses in the order in which a connection would try them, or
 * why there is none. With KIN_RESOLV_CONF=file other servers are asked than the machine's.
 */
#include <kin/kin.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 64, ADDRESSES_MAX = 16 };

#define PATIENCE KIN_SEC(30)

struct lookup {
    const char *name;
    int count; /* of addresses, or why there is none */
    char addresses[ADDRESSES_MAX][KIN_ADDR_MAX];
};

static int look_up(void *arg)
{
    struct lookup *lookup = arg;
    lookup->count = kin_resolve(lookup->name, lookup->addresses, ADDRESSES_MAX,
                                kin_after(PATIENCE));
    return 0; /* a name that does not exist is an answer, too */
}

static void print(const struct lookup *lookup)
{
    printf("%s", lookup->name);
    for (int i = 0; i < lookup->count; i++)
        printf(" %s", lookup->addresses[i]);
    if (lookup->count < 0)
        printf(" ! %s", kin_status_name(lookup->count));
    putchar('\n');
    fflush(stdout);
}

/* All names of a list that ends with NULL. */
static int look_up_all(const char *const *names)
{
    static struct lookup lookups[NAMES_MAX];
    int count = 0, rc = 0;
    KIN_NURSERY(n, .name = "lookups");
    for (; names[count] && rc == 0; count++) {
        if (count == NAMES_MAX) { /* nobody is left out in silence */
            rc = -E2BIG;
            break;
        }
        lookups[count].name = names[count];
        rc = kin_spawn(&n, look_up, &lookups[count]);
    }
    rc = kin_nursery_end(&n, rc);
    for (int i = 0; i < count && rc == 0; i++)
        print(&lookups[i]);
    return rc;
}

/* One name per line of the standard input. */
static int look_up_lines(void)
{
    static struct lookup lookup;
    char buf[512], *line;
    size_t size;
    struct kin_reader in;
    int rc;
    kin_reader_init(&in, 0, buf, sizeof(buf));
    while ((rc = kin_reader_line(&in, &line, &size, KIN_NEVER)) > 0) { /* ends: with the input */
        lookup.name = line;
        if (strlen(line) < size) /* a name with a zero in it would be taken for another one */
            lookup.count = -EINVAL;
        else
            (void)look_up(&lookup);
        print(&lookup);
    }
    return rc;
}

static int look_up_given(void *arg)
{
    static const char *const local[] = {"localhost", "localhost:80", "192.0.2.1", "[::1]:80", NULL};
    const char *const *names = (const char *const *)arg + 1;
    if (names[0] && strcmp(names[0], "-") == 0)
        return look_up_lines();
    return look_up_all(names[0] ? names : local);
}

int main(int argc, char **argv)
{
    (void)argc;
    int rc = kin_run(NULL, look_up_given, argv);
    if (rc < 0)
        fprintf(stderr, "resolve: %s\n", kin_status_text(rc));
    return rc == 0 ? 0 : 1;
}
