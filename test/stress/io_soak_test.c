/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever a task waits for outside of the process, a cancellation or a deadline at any
 * moment ends it, breaks nothing else and leaves nothing behind: no descriptor, no byte, no thread,
 * no process.
 * Method: actors open nurseries of a few tasks, each of which uses a socket, a pipe, a file, a host
 * name, a process or a thread in a random way, and cancel them after a random moment, or let a
 * deadline do it. Three runtimes one after the other; what the process holds after the last is
 * held against what it held after the first. KIN_SOAK_S=n runs for n seconds in all and says how
 * far it is; `make soak` does that.
 */
#include "api/held.h"

#include <kin/blocking.h>
#include <kin/file.h>
#include <kin/io.h>
#include <kin/net.h>
#include <kin/process.h>
#include <kin/reader.h>
#include <kin/resolve.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#define ROUNDS 3000 /* nurseries in all, without KIN_SOAK_S */
#define RUNS 3      /* the second with one worker, the others with two */
#define ACTORS 12
#define TASKS_MAX 4

enum way { STREAM, DATAGRAM, PIPE, LINES, FILE_, NAME, PROCESS, THREAD, LISTEN, POLL, WAYS };

static const char *const words[WAYS] = {"stream", "datagram", "pipe",   "lines",  "file",
                                        "name",   "process",  "thread", "listen", "poll"};

struct soak {
    char tcp[KIN_ADDR_MAX], udp[KIN_ADDR_MAX];
    int listener, socket;
    char dir[64];
    kin_time until;       /* 0: by rounds */
    _Atomic int64_t left; /* rounds that nobody has begun */
    _Atomic int64_t rounds, whole[WAYS], ended[WAYS]; /* tasks that came to their end, or did not */
};

struct user {
    struct soak *soak;
    uint64_t random;
};

/* ---- what there is to talk to ---- */

static void close_first(void *arg)
{
    EXPECT_EQ(kin_close(*(int *)arg), 0);
}

/* Starts a child that owns the descriptor that its argument begins with, even if it never runs. */
static int spawn_owning(struct kin_nursery *n, kin_task_fn *fn, void *arg, size_t size)
{
    struct kin_spawn_options options = KIN_SPAWN_OPTIONS_INIT;
    options.cleanup = close_first;
    int rc = kin_spawn_with(n, &options, fn, arg, size, NULL);
    if (rc < 0)
        close_first(arg);
    return rc;
}

static int echo(void *arg)
{
    int fd = *(int *)arg;
    int rc = kin_copy(fd, fd, UINT64_MAX, NULL, KIN_NEVER);
    return rc == -EPIPE || rc == -ECONNRESET ? 0 : rc; /* a client may break off */
}

static int serve_streams(void *arg)
{
    struct soak *soak = arg;
    int fd, rc = 0;
    KIN_NURSERY(n);
    while (rc == 0 && (rc = kin_accept(soak->listener, &fd, KIN_NEVER)) == 0) /* ends: cancelled */
        rc = spawn_owning(&n, echo, &fd, sizeof(fd));
    return rc == KIN_NOSCOPE ? KIN_CANCELLED : rc;
}

static int serve_datagrams(void *arg)
{
    struct soak *soak = arg;
    char buf[256], from[KIN_ADDR_MAX];
    ssize_t got;
    while ((got = kin_udp_recv(soak->socket, buf, sizeof(buf), from, sizeof(from), KIN_NEVER)) >=
           0 || got == -ECONNREFUSED) { /* ends: when it is cancelled; a client may be gone */
        if (got >= 0)
            kin_ignore((int)kin_udp_send(soak->socket, buf, (size_t)got, from, KIN_NEVER));
    }
    return (int)got;
}

/* ---- ways to use something; each gives back what it has, however it ends ---- */

/* Sends bytes and expects them back. */
static int use_stream(struct soak *soak, uint64_t random)
{
    char there[700], back[700];
    size_t size = 1 + random % sizeof(there), done = 0;
    int fd, rc = kin_tcp_connect(soak->tcp, &fd, KIN_NEVER);
    if (rc < 0)
        return rc;
    memset(there, (int)(random >> 20) & 0xff, size);
    rc = kin_write(fd, there, size, NULL, KIN_NEVER);
    if (rc == 0)
        rc = kin_read_full(fd, back, size, &done, KIN_NEVER);
    if (rc == 0)
        EXPECT(done == size && memcmp(there, back, size) == 0);
    if (rc == 0 && (random >> 30) % 2) /* waits for what never comes */
        rc = (int)kin_read(fd, back, 1, KIN_NEVER);
    EXPECT_EQ(kin_close(fd), 0);
    return rc;
}

static int use_datagram(struct soak *soak, uint64_t random)
{
    char buf[200] = "datagram", from[KIN_ADDR_MAX];
    int fd, rc = kin_udp_open("127.0.0.1:0", &fd);
    if (rc < 0)
        return rc;
    ssize_t moved = kin_udp_send(fd, buf, 1 + random % sizeof(buf), soak->udp, KIN_NEVER);
    for (int i = 0; i < 2 && moved >= 0; i++) /* the second one never comes */
        moved = kin_udp_recv(fd, buf, sizeof(buf), from, sizeof(from),
                             i ? kin_after(KIN_MS(2)) : KIN_NEVER);
    EXPECT_EQ(kin_close(fd), 0);
    return moved == KIN_TIMEOUT ? 0 : (int)moved;
}

struct half {
    int fd;
    uint64_t random;
};

/* Writes to a pipe in pieces. */
static int fill(void *arg)
{
    struct half *half = arg;
    char buf[3000] = {0};
    int rc = 0;
    for (int i = 0; i < 60 && rc == 0; i++)
        rc = kin_write(half->fd, buf, 1 + next_random(&half->random) % sizeof(buf), NULL,
                       KIN_NEVER);
    return rc;
}

/* From a task through a pipe into the socket of the echo, which sends it back to nobody. */
static int use_pipe(struct soak *soak, uint64_t random)
{
    struct kin_copied copied;
    int ends[2], fd, rc = kin_tcp_connect(soak->tcp, &fd, KIN_NEVER);
    if (rc < 0)
        return rc;
    if (pipe2(ends, O_CLOEXEC) < 0) {
        rc = -kin_errno();
        EXPECT_EQ(kin_close(fd), 0);
        return rc;
    }
    struct half half = {ends[1], random};
    {
        KIN_NURSERY(n);
        rc = spawn_owning(&n, fill, &half, sizeof(half));
        if (rc == 0)
            rc = kin_copy(fd, ends[0], 50000, &copied, KIN_NEVER);
        kin_nursery_cancel(&n, 0);
        kin_ignore(kin_nursery_join(&n, NULL));
    }
    EXPECT_EQ(kin_close(ends[0]), 0);
    EXPECT_EQ(kin_close(fd), 0);
    return rc == KIN_NOSCOPE ? KIN_CANCELLED : rc; /* so a nursery of a cancelled task says it */
}

/* Lines to the echo and back, through buffers. */
static int use_lines(struct soak *soak, uint64_t random)
{
    char in_buf[128], out_buf[64], *line;
    size_t size;
    struct kin_reader in;
    struct kin_writer out;
    int fd, rc = kin_tcp_connect(soak->tcp, &fd, KIN_NEVER);
    if (rc < 0)
        return rc;
    kin_reader_init(&in, fd, in_buf, sizeof(in_buf));
    kin_writer_init(&out, fd, out_buf, sizeof(out_buf));
    for (int i = 0; i < 10 && rc >= 0; i++) {
        rc = kin_writer_print(&out, KIN_NEVER, "line %d of %llx\n", i, (unsigned long long)random);
        if (rc == 0)
            rc = kin_writer_flush(&out, KIN_NEVER);
        if (rc == 0)
            rc = kin_reader_line(&in, &line, &size, KIN_NEVER);
        if (rc > 0)
            EXPECT_EQ(atoi(line + 5), i);
    }
    EXPECT_EQ(kin_close(fd), 0);
    return rc;
}

static int use_file(struct soak *soak, uint64_t random)
{
    char path[128], there[512], back[512];
    int fd;
    snprintf(path, sizeof(path), "%s/%llx", soak->dir, (unsigned long long)random);
    int rc = kin_open(path, O_CREAT | O_RDWR | O_EXCL | O_CLOEXEC, 0600, &fd);
    if (rc < 0)
        return rc;
    memset(there, (int)random & 0xff, sizeof(there));
    ssize_t moved = kin_pwrite(fd, there, sizeof(there), (int64_t)(random >> 40));
    if (moved >= 0)
        moved = kin_pread(fd, back, sizeof(back), (int64_t)(random >> 40));
    if (moved >= 0)
        EXPECT(moved == sizeof(back) && memcmp(there, back, sizeof(back)) == 0);
    EXPECT_EQ(kin_close(fd), 0);
    EXPECT_EQ(unlink(path), 0); /* not kin_remove, which a cancelled task does not begin */
    return moved < 0 ? (int)moved : 0;
}

/* One that is known, or one that the server of this test never answers for. */
static int use_name(struct soak *soak, uint64_t random)
{
    char out[2][KIN_ADDR_MAX], name[64];
    (void)soak;
    snprintf(name, sizeof(name), "x%llx.%s", (unsigned long long)random,
             random % 2 ? "localhost" : "test");
    int rc = kin_resolve(name, out, 2, kin_after(KIN_MS(3)));
    return rc == KIN_TIMEOUT ? 0 : rc;
}

static int use_process(struct soak *soak, uint64_t random)
{
    const char *const brief[] = {"/bin/true", NULL}, *const endless[] = {"/bin/cat", NULL};
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *process;
    (void)soak;
    options.in.kind = options.out.kind = KIN_STDIO_PIPE;
    int rc = kin_process_start(random % 2 ? brief : endless, &options, &process);
    if (rc < 0)
        return rc;
    rc = kin_process_wait(process, NULL, kin_after(KIN_MS(5)));
    if (random % 3 == 0) /* the others end with the task */
        kin_process_destroy(process);
    return rc == KIN_TIMEOUT ? 0 : rc;
}

static int sleep_in_a_thread(void *arg)
{
    struct timespec moment = {0, 200000};
    (void)arg;
    return nanosleep(&moment, NULL);
}

static int use_thread(struct soak *soak, uint64_t random)
{
    int result = 0;
    (void)soak;
    int rc = kin_blocking(sleep_in_a_thread, NULL, &result,
                          random % 2 ? KIN_NEVER : kin_after(KIN_US(random % 100)));
    return rc == KIN_TIMEOUT ? 0 : rc;
}

/* A listener that one client finds, or none. */
static int use_listener(struct soak *soak, uint64_t random)
{
    char addr[KIN_ADDR_MAX];
    int listener, client = -1, conn;
    (void)soak;
    int rc = kin_tcp_listen("127.0.0.1:0", NULL, &listener);
    if (rc < 0)
        return rc;
    rc = kin_local_addr(listener, addr, sizeof(addr));
    if (rc == 0 && random % 2)
        rc = kin_tcp_connect(addr, &client, KIN_NEVER);
    if (rc == 0)
        rc = kin_accept(listener, &conn, random % 3 ? kin_after(KIN_MS(2)) : KIN_NEVER);
    if (rc == 0)
        EXPECT_EQ(kin_close(conn), 0);
    if (client >= 0)
        EXPECT_EQ(kin_close(client), 0);
    EXPECT_EQ(kin_close(listener), 0);
    return rc == KIN_TIMEOUT ? 0 : rc;
}

/* Two descriptors of somebody else, one by a select and one by itself. */
static int use_poll(struct soak *soak, uint64_t random)
{
    int ends[2], rc;
    (void)soak;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return -kin_errno();
    if (random % 2) {
        struct kin_case cases[] = {kin_case_read(ends[0]), kin_case_read(ends[1]),
                                   kin_case_after((int64_t)(random % 2000000))};
        rc = kin_select(cases, 3, KIN_NEVER);
    } else {
        rc = kin_fd_wait(ends[0], POLLIN, kin_after((int64_t)(random % 2000000)));
    }
    EXPECT_EQ(kin_close(ends[0]), 0);
    EXPECT_EQ(kin_close(ends[1]), 0);
    return rc == KIN_TIMEOUT || rc > 0 ? 0 : rc;
}

static int (*const uses[WAYS])(struct soak *, uint64_t) = {
    use_stream, use_datagram, use_pipe,   use_lines,    use_file,
    use_name,   use_process,  use_thread, use_listener, use_poll};

/* ---- those who use, and those who cancel them ---- */

static int use_something(void *arg)
{
    struct user *user = arg;
    unsigned way = (unsigned)(user->random >> 48) % (WAYS * 8);
    way = way < WAYS || way % WAYS != PROCESS ? way % WAYS : STREAM; /* a process costs more */
    int rc = uses[way](user->soak, user->random);
    if (rc < 0 && rc != KIN_TIMEOUT)
        EXPECT_EQ(rc, KIN_CANCELLED);
    atomic_fetch_add(rc >= 0 ? &user->soak->whole[way] : &user->soak->ended[way], 1);
    return rc < 0 ? rc : 0;
}

/* One nursery with a few users, which ends by itself, by a deadline or by a cancellation. */
static void play_round(struct soak *soak, uint64_t *random)
{
    uint64_t how = next_random(random);
    kin_time limit = how % 4 == 0 ? kin_after((int64_t)(how >> 32) % 2000000) : 0;
    KIN_NURSERY(n, .on_error = KIN_COLLECT, .deadline = limit);
    for (uint64_t i = 1 + (how >> 8) % TASKS_MAX; i > 0; i--) {
        struct user user = {soak, next_random(random)};
        int rc = kin_spawn_copy(&n, use_something, &user, sizeof(user));
        EXPECT(rc == 0 || rc == KIN_CANCELLED || rc == KIN_NOSCOPE || rc == KIN_TIMEOUT);
    }
    for (uint64_t i = (how >> 12) % 8; i > 0; i--)
        kin_ignore(kin_yield());
    if ((how >> 16) % 4 == 0)
        kin_ignore(kin_sleep(kin_after((int64_t)(how >> 20) % 1000000)));
    kin_nursery_cancel(&n, 0); /* what waits for what never comes has to */
    int rc = kin_nursery_join(&n, NULL);
    EXPECT(rc == 0 || rc == KIN_CANCELLED || rc == KIN_TIMEOUT);
    atomic_fetch_add(&soak->rounds, 1);
}

static int play(void *arg)
{
    struct user *actor = arg;
    while (actor->soak->until ? kin_now() < actor->soak->until
                              : atomic_fetch_sub(&actor->soak->left, 1) > 0) /* ends: so */
        play_round(actor->soak, &actor->random);
    return 0;
}

static int run_soak(void *arg)
{
    struct soak *soak = arg;
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &soak->listener), 0);
    EXPECT_EQ(kin_local_addr(soak->listener, soak->tcp, sizeof(soak->tcp)), 0);
    EXPECT_EQ(kin_udp_open("127.0.0.1:0", &soak->socket), 0);
    EXPECT_EQ(kin_local_addr(soak->socket, soak->udp, sizeof(soak->udp)), 0);
    KIN_NURSERY(servers);
    EXPECT_EQ(kin_spawn(&servers, serve_streams, soak), 0);
    EXPECT_EQ(kin_spawn(&servers, serve_datagrams, soak), 0);
    if (soak->until)
        EXPECT_EQ(kin_spawn_copy(&servers, show_progress,
                                 KIN_ARGS(struct progress, "rounds", &soak->rounds)), 0);
    KIN_NURSERY(actors);
    for (unsigned i = 0; i < ACTORS; i++) {
        struct user actor = {soak, first_random(i)};
        EXPECT_EQ(kin_spawn_copy(&actors, play, &actor, sizeof(actor)), 0);
    }
    EXPECT_EQ(kin_nursery_join(&actors, NULL), 0);
    kin_nursery_cancel(&servers, 0);
    EXPECT_EQ(kin_nursery_join(&servers, NULL), KIN_CANCELLED);
    EXPECT_EQ(kin_close(soak->listener), 0);
    return kin_close(soak->socket);
}

/* ---- the whole ---- */

static struct held run_once(unsigned workers, int64_t rounds, int64_t seconds, const char *dir)
{
    struct soak soak = {.left = rounds, .until = seconds ? kin_after(KIN_SEC(seconds)) : 0};
    snprintf(soak.dir, sizeof(soak.dir), "%s", dir);
    EXPECT_EQ(run_reporting(workers, run_soak, &soak, NULL), 0);
    struct held held = hold();
    printf("  %lld rounds with %u workers, whole/cancelled:", (long long)soak.rounds, workers);
    for (int i = 0; i < WAYS; i++)
        printf(" %s %lld/%lld", words[i], (long long)soak.whole[i], (long long)soak.ended[i]);
    printf("; then ");
    print_held(held);
    return held;
}

/* Names are asked of a socket that nobody reads. */
static int open_mute_server(const char *dir, char *path, size_t cap)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(here);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd, (struct sockaddr *)&here, size), 0);
    EXPECT_EQ(getsockname(fd, (struct sockaddr *)&here, &size), 0);
    snprintf(path, cap, "%s/resolv.conf", dir);
    FILE *file = fopen(path, "w");
    EXPECT(file != NULL);
    fprintf(file, "nameserver 127.0.0.1#%d\n", ntohs(here.sin_port));
    fclose(file);
    EXPECT_EQ(setenv("KIN_RESOLV_CONF", path, 1), 0);
    return fd;
}

KIN_TEST_LIMIT(cancelled_at_any_moment_nothing_is_left, "", 120)
{
    char dir[] = "/tmp/kin-soak-XXXXXX", path[64];
    int64_t seconds = number_or("KIN_SOAK_S", 0);
    int64_t rounds = ROUNDS / ((SANITIZED ? 2 : 1) * (int64_t)kin_test_scale());
    struct held held[RUNS];
    hold_one_arena();
    EXPECT(kin_test_mkdtemp(dir) != NULL);
    int fd = open_mute_server(dir, path, sizeof(path));
    for (int i = 0; i < RUNS; i++)
        held[i] = run_once(i == 1 ? 1 : 2, rounds / RUNS, seconds / RUNS, dir);
    expect_held(held[RUNS - 1], held[0]);
    EXPECT_EQ(close(fd), 0);
    EXPECT_EQ(unlink(path), 0);
    EXPECT_EQ(rmdir(dir), 0); /* every file is gone */
}
