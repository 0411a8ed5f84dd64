/* SPDX-License-Identifier: MIT */
/*
 * The program of visits.h in production, on as many workers as the argument says: exits with the
 * number of visits that were counted. Its record goes where KIN_RECORD says.
 */
#include "visits.h"

#include <stdlib.h>

static int first(void *arg)
{
    (void)arg;
    return open_hall();
}

int main(int argc, char **argv)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = argc > 1 ? (unsigned)atoi(argv[1]) : 2;
    int rc = kin_run(&config, first, NULL);
    return rc < 0 ? 100 : rc;
}
