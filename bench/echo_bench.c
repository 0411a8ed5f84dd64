/* SPDX-License-Identifier: MIT */
/*
 * An echo server with a task for each connection, for peers/load, which kills it at the end.
 */
#include "bench.h"

#include <kin/io.h>
#include <kin/net.h>

#include <stdio.h>
#include <string.h>

static int echo(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buf[1024];
    ssize_t got;
    while ((got = kin_read(fd, buf, sizeof buf, KIN_NEVER)) > 0) { /* ends: with the connection */
        if (kin_write(fd, buf, (size_t)got, NULL, KIN_NEVER) < 0)
            break;
    }
    kin_close(fd);
    return 0;
}

static int serve(void *arg)
{
    int listener, conn;
    char addr[KIN_ADDR_MAX];
    (void)arg;
    bench_must(kin_tcp_listen("0.0.0.0:0", NULL, &listener), "kin_tcp_listen");
    bench_must(kin_local_addr(listener, addr, sizeof addr), "kin_local_addr");
    printf("port %s\n", strrchr(addr, ':') + 1);
    fflush(stdout);
    KIN_NURSERY(n);
    while (kin_accept(listener, &conn, KIN_NEVER) == 0) /* ends: the load kills it */
        bench_must(kin_spawn(&n, echo, (void *)(intptr_t)conn), "kin_spawn");
    return kin_nursery_join(&n, NULL);
}

int bench_echo(void)
{
    return bench_run(serve);
}
