/* SPDX-License-Identifier: MIT */
/*
 * The echo server of the benchmarks with libuv: bench echo WORKERS N ROUNDS.
 *
 * One loop. All connections share a buffer; a write is tried at once, as libuv recommends, and
 * queued only when it does not fit.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

static char buffer[65536];

static void must(int rc, const char *what)
{
    if (rc < 0) {
        fprintf(stderr, "%s: %s\n", what, uv_strerror(rc));
        exit(1);
    }
}

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void on_room(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    (void)handle;
    (void)size;
    *buf = uv_buf_init(buffer, 1024);
}

static void on_bytes(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    uv_buf_t part = uv_buf_init(buf->base, got > 0 ? (unsigned)got : 0);
    if (got == 0)
        return;
    if (got < 0 || uv_try_write(stream, &part, 1) != (int)got)
        uv_close((uv_handle_t *)stream, on_closed);
}

static void on_connection(uv_stream_t *listener, int status)
{
    uv_tcp_t *conn = malloc(sizeof *conn);
    must(status, "connection");
    must(uv_tcp_init(listener->loop, conn), "uv_tcp_init");
    must(uv_accept(listener, (uv_stream_t *)conn), "uv_accept");
    uv_tcp_nodelay(conn, 1);
    must(uv_read_start((uv_stream_t *)conn, on_room, on_bytes), "uv_read_start");
}

int main(void)
{
    uv_loop_t *loop = uv_default_loop();
    uv_tcp_t listener;
    struct sockaddr_in at = {.sin_family = AF_INET};
    int size = sizeof at;
    must(uv_tcp_init(loop, &listener), "uv_tcp_init");
    must(uv_tcp_bind(&listener, (struct sockaddr *)&at, 0), "uv_tcp_bind");
    must(uv_listen((uv_stream_t *)&listener, 4096, on_connection), "uv_listen");
    must(uv_tcp_getsockname(&listener, (struct sockaddr *)&at, &size), "uv_tcp_getsockname");
    printf("port %d\n", ntohs(at.sin_port));
    fflush(stdout);
    return uv_run(loop, UV_RUN_DEFAULT);
}
