/* SPDX-License-Identifier: MIT */
/*
 * curl's multi interface driven by a task: curl says which sockets it waits for and until when,
 * kin_select waits for all of them at once.
 *
 *     curl URL...              fetches them side by side and prints how large they are
 *     curl                     fetches from a server of this program
 */
#include <kin/kin.h>

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define IDLE KIN_SEC(30) /* how long a client of the server may say nothing */

enum { FETCHES = 30, SOCKETS_MAX = 64, PAGE = 50000 };

/* ---- what there is to write for curl ---- */

/* What curl waits for, as its callbacks told. */
struct watched {
    int fds[SOCKETS_MAX], events[SOCKETS_MAX]; /* CURL_POLL_IN, _OUT, _INOUT */
    int count;
    kin_time timer; /* when it wants to be called in any case */
};

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
    struct watched *watched = arg;
    int i = 0;
    (void)easy;
    (void)unused;
    while (i < watched->count && watched->fds[i] != fd) /* ends: at the last */
        i++;
    if (what == CURL_POLL_REMOVE) {
        if (i < watched->count) {
            watched->fds[i] = watched->fds[--watched->count];
            watched->events[i] = watched->events[watched->count];
        }
        return 0;
    }
    if (i == SOCKETS_MAX)
        return -1;
    if (i == watched->count)
        watched->fds[watched->count++] = fd;
    watched->events[i] = what;
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
    (void)multi;
    ((struct watched *)arg)->timer = ms < 0 ? KIN_NEVER : kin_after(KIN_MS(ms));
    return 0;
}

/* Waits for one of the sockets or the timer. 1: a socket; 0: the timer; or why not. */
static int wait_any(const struct watched *watched, int *fd, int *events, kin_time deadline)
{
    struct kin_case cases[2 * SOCKETS_MAX];
    size_t count = 0;
    kin_time until = watched->timer < deadline ? watched->timer : deadline;
    for (int i = 0; i < watched->count; i++) {
        if (watched->events[i] & CURL_POLL_IN)
            cases[count++] = kin_case_read(watched->fds[i]);
        if (watched->events[i] & CURL_POLL_OUT)
            cases[count++] = kin_case_write(watched->fds[i]);
    }
    int rc = kin_select(cases, count, until);
    if (rc == KIN_TIMEOUT && watched->timer <= deadline)
        return 0;
    if (rc < 0)
        return rc;
    *fd = cases[rc].on.fd;
    *events = cases[rc].status < 0 ? CURL_CSELECT_ERR
              : cases[rc].kind == KIN_CASE_KIND_READ ? CURL_CSELECT_IN : CURL_CSELECT_OUT;
    return 1;
}

/* Runs all transfers of a multi handle to their end. 0, or why not. */
static int run_transfers(CURLM *multi, kin_time deadline)
{
    struct watched watched = {.timer = KIN_NEVER};
    int running = 1;
    curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi, CURLMOPT_SOCKETDATA, &watched);
    curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(multi, CURLMOPT_TIMERDATA, &watched);
    curl_multi_socket_action(multi, CURL_SOCKET_TIMEOUT, 0, &running);
    while (running > 0) { /* ends: with the last transfer, or the deadline */
        int fd = CURL_SOCKET_TIMEOUT, events = 0;
        int rc = wait_any(&watched, &fd, &events, deadline);
        if (rc < 0)
            return rc;
        if (rc == 0)
            watched.timer = KIN_NEVER; /* it sets another one if it wants */
        curl_multi_socket_action(multi, fd, events, &running);
    }
    return 0;
}

/* ---- a server with one page ---- */

/* A connection is its child's to close, even of one that never began. */
static void hang_up(void *conn)
{
    kin_close(*(int *)conn);
}

static int serve_one(void *arg)
{
    int fd = *(int *)arg;
    static const char page[PAGE];
    char in_buf[4096], out_buf[4096], *head;
    size_t size;
    struct kin_reader in;
    struct kin_writer out;
    int rc;
    kin_reader_init(&in, fd, in_buf, sizeof(in_buf));
    kin_writer_init(&out, fd, out_buf, sizeof(out_buf));
    while ((rc = kin_reader_until(&in, "\r\n\r\n", 4, &head, &size, kin_after(IDLE))) > 0) {
        /* ends: with the client */
        rc = kin_sleep(kin_after(KIN_MS(2)));
        if (rc == 0)
            rc = kin_writer_print(&out, kin_after(IDLE),
                                  "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", (int)PAGE);
        if (rc == 0)
            rc = kin_writer_put(&out, page, sizeof(page), NULL, kin_after(IDLE));
        if (rc == 0)
            rc = kin_writer_flush(&out, kin_after(IDLE));
        if (rc < 0)
            break;
    }
    return 0;
}

static int serve(void *arg)
{
    struct kin_spawn_options owning = KIN_SPAWN_OPTIONS_INIT;
    int conn, rc;
    owning.cleanup = hang_up;
    KIN_NURSERY(n);
    while ((rc = kin_accept(*(int *)arg, &conn, KIN_NEVER)) == 0) { /* ends: when it is closed */
        rc = kin_spawn_with(&n, &owning, serve_one, &conn, sizeof(conn), NULL);
        if (rc < 0) {
            hang_up(&conn);
            break;
        }
    }
    return kin_nursery_end(&n, rc == KIN_CLOSED ? 0 : rc);
}

/* ---- the fetches ---- */

static size_t count_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    (void)bytes;
    *(size_t *)arg += size * count;
    return size * count;
}

/* Fetches count URLs side by side; sizes receives how large they are. */
static int fetch_all(const char *const *urls, int count, size_t *sizes)
{
    CURL *easy[FETCHES] = {NULL};
    CURLM *multi = curl_multi_init();
    if (!multi)
        return -ENOMEM;
    for (int i = 0; i < count; i++) {
        sizes[i] = 0;
        if (!(easy[i] = curl_easy_init()))
            continue;
        curl_easy_setopt(easy[i], CURLOPT_URL, urls[i]);
        curl_easy_setopt(easy[i], CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy[i], CURLOPT_WRITEFUNCTION, count_bytes);
        curl_easy_setopt(easy[i], CURLOPT_WRITEDATA, &sizes[i]);
        curl_multi_add_handle(multi, easy[i]);
    }
    int rc = run_transfers(multi, kin_after(KIN_SEC(60)));
    for (int i = 0; i < count; i++) {
        curl_multi_remove_handle(multi, easy[i]);
        curl_easy_cleanup(easy[i]);
    }
    curl_multi_cleanup(multi);
    return rc;
}

static int show(void *arg)
{
    char addr[KIN_ADDR_MAX], url[KIN_ADDR_MAX + 16];
    const char *urls[FETCHES];
    size_t sizes[FETCHES];
    int listener, right = 0, rc = kin_tcp_listen("127.0.0.1:0", NULL, &listener);
    (void)arg;
    if (rc == 0)
        rc = kin_local_addr(listener, addr, sizeof(addr));
    if (rc < 0)
        return rc;
    snprintf(url, sizeof(url), "http://%s/", addr);
    for (int i = 0; i < FETCHES; i++)
        urls[i] = url;
    KIN_NURSERY(n);
    rc = kin_spawn(&n, serve, &listener);
    if (rc == 0)
        rc = fetch_all(urls, FETCHES, sizes);
    for (int i = 0; rc == 0 && i < FETCHES; i++)
        right += sizes[i] == PAGE;
    kin_close(listener);
    rc = kin_nursery_end(&n, rc);
    printf("one task fetched %d pages at once with %s: %d right, %s\n", FETCHES, curl_version(),
           right, kin_status_name(rc));
    return rc < 0 ? rc : right == FETCHES ? 0 : 1;
}

static int fetch_given(void *arg)
{
    char **argv = arg;
    size_t sizes[FETCHES];
    int count = 0;
    while (argv[count] && count < FETCHES) /* ends: with the arguments */
        count++;
    int rc = fetch_all((const char *const *)argv, count, sizes);
    for (int i = 0; i < count; i++)
        printf("%8zu  %s\n", sizes[i], argv[i]);
    return rc;
}

int main(int argc, char **argv)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
    int rc = argc > 1 ? kin_run(NULL, fetch_given, argv + 1) : kin_run(NULL, show, NULL);
    curl_global_cleanup();
    return rc == 0 ? 0 : 1;
}
