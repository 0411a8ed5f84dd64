/* SPDX-License-Identifier: MIT */
/*
 * The programs of twin.h in production: prints what each of a range of them has to say.
 *
 *     kin_twin FIRST COUNT PAUSE-IN-MICROSECONDS
 *
 * The pause is how long everybody else is given to come as far as they can. The first line says
 * whether there is IPv6; each program ends with a line "end".
 */
#include "twin.h"

static int64_t pause_ns;

static void settle(void)
{
    if (twin.has_call || pause_ns > 1000000)
        kin_ignore(kin_sleep(kin_after(pause_ns)));
}

static int first(void *arg)
{
    char **argv = arg, home[64] = "/tmp/kin_twin_XXXXXX";
    uint64_t seed = strtoull(argv[1], NULL, 10), count = strtoull(argv[2], NULL, 10);
    int fd, rc = 0;
    if (!mkdtemp(home) || chmod(home, 0755) != 0)
        return -kin_errno();
    pause_ns = (int64_t)strtoull(argv[3], NULL, 10) * 1000;
    twin.has_v6 = kin_tcp_listen("[::1]:0", NULL, &fd) == 0;
    if (twin.has_v6)
        kin_close(fd);
    printf("%d\n", twin.has_v6);
    strcat(home, "/");
    twin.home = home;
    twin.settle = settle;
    for (; count > 0 && rc == 0; count--, seed++) {
        rc = twin_run(seed);
        printf("%send\n", twin.text);
    }
    kin_ignore(kin_rmdir(home));
    return rc;
}

int main(int argc, char **argv)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 1; /* the other task has begun when this one waits */
    (void)umask(022);
    return argc < 4 ? 2 : kin_run(&config, first, argv) < 0;
}
