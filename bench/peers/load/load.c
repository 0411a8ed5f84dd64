/* SPDX-License-Identifier: MIT */
/*
 * The load of the benchmarks with sockets: load MODE CONNECTIONS MILLISECONDS COMMAND...
 *
 * It starts COMMAND, an echo server, on the first CPU that it may use and moves itself to the
 * second. The server prints "port P"; it is killed at the end. The load is one thread with epoll.
 *
 *     echo   every connection sends 64 bytes and waits until they are back, again and again; the
 *            first quarter of the time is not counted
 *     idle   every connection does so once; then nothing happens, and the server is measured. Where
 *            a process may not have so many descriptors, there are as many servers as it takes,
 *            each with a load of its own, and all of them are counted together
 *
 * Printed are lines of "name value unit" as all programs of the benchmarks do: time, wall time by
 * messages; cpu, the CPU time of all threads of the server by messages; rate; latencies from send
 * to the last byte; least, how many messages the connection got back that got the fewest, by the
 * mean. Or memory: what the server occupies more than before the first connection, page tables
 * included, by connections; kernel: what all of the kernel's small objects occupy more, halved,
 * because both ends of each connection are on this machine; and how many servers there were.
 */
#define _GNU_SOURCE 1
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MESSAGE 64
#define BATCH 256
#define PER_ADDRESS 20000 /* connections to one of the addresses of the loopback: ports are few */
#define SAMPLES 4000000
#define SPARE 1000 /* descriptors for everything else */

struct conn {
    int fd;
    int have;     /* bytes of the message that are back */
    int64_t sent; /* when */
    int64_t back; /* messages that were counted */
};

static struct conn *conns;
static int64_t *samples;
static int64_t count, sampled;
static pid_t server = -1;

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    if (server > 0)
        kill(server, SIGKILL);
    exit(1);
}

static int64_t clock_ns(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t) < 0)
        die("clock");
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void print(const char *name, double value, const char *unit)
{
    printf("%s %.6g %s\n", name, value, unit);
}

/* ---- the server ---- */

/* Moves a process to the n-th CPU that it may use, if there are so many. */
static void move_to(pid_t pid, int n)
{
    cpu_set_t may, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof may, &may) < 0 || CPU_COUNT(&may) < 2)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &may) && n-- == 0)
            CPU_SET(cpu, &one);
    }
    sched_setaffinity(pid, sizeof one, &one);
}

/* Starts the server. Its port. */
static int start(char **command)
{
    int ends[2], port = 0;
    char text[64] = "";
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe");
    server = fork();
    if (server < 0)
        die("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        move_to(0, 0);
        dup2(ends[1], STDOUT_FILENO);
        execvp(command[0], command);
        _exit(127);
    }
    move_to(0, 1);
    close(ends[1]);
    for (size_t have = 0; have < sizeof text - 1 && !strchr(text, '\n');) {
        ssize_t got = read(ends[0], text + have, sizeof text - 1 - have);
        if (got <= 0)
            die("the server said nothing");
        have += (size_t)got;
    }
    if (sscanf(text, "port %d", &port) != 1)
        die("the server did not say its port");
    return port; /* the pipe stays open: a server may print more */
}

static int64_t field(const char *path, const char *name)
{
    FILE *file = fopen(path, "r");
    char line[256];
    long long value = 0;
    size_t size = strlen(name);
    if (!file)
        die(path);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, name, size) == 0)
            value = atoll(line + size);
    }
    fclose(file);
    return value * 1024;
}

static int64_t server_memory(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/status", (int)server);
    return field(path, "VmRSS:") + field(path, "VmPTE:");
}

/* ---- connections ---- */

static void connect_one(struct conn *conn, int64_t i, int port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)(i / PER_ADDRESS));
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (conn->fd < 0)
        die("socket");
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(conn->fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    if (fcntl(conn->fd, F_SETFL, O_NONBLOCK) < 0)
        die("fcntl");
}

static void send_one(struct conn *conn)
{
    static const char message[MESSAGE] = "sixty-four bytes";
    conn->have = 0;
    conn->sent = clock_ns(CLOCK_MONOTONIC);
    if (send(conn->fd, message, MESSAGE, MSG_NOSIGNAL) != MESSAGE)
        die("send");
}

/* True: the message is back. */
static int receive(struct conn *conn)
{
    char buf[MESSAGE];
    ssize_t got = recv(conn->fd, buf, (size_t)(MESSAGE - conn->have), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN))
        die("recv");
    conn->have += got > 0 ? (int)got : 0;
    return conn->have == MESSAGE;
}

static void watch(int set, int64_t i)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &conns[i]};
    if (epoll_ctl(set, EPOLL_CTL_ADD, conns[i].fd, &event) < 0)
        die("epoll_ctl");
}

/* Keeps all connections busy until a moment. */
static void keep_busy(int set, int64_t until, int is_counted)
{
    struct epoll_event events[BATCH];
    int64_t now;
    do {
        int ready = epoll_wait(set, events, BATCH, 10000);
        if (ready < 0 && errno != EINTR)
            die("epoll_wait");
        if (ready == 0)
            die("the server is silent");
        now = clock_ns(CLOCK_MONOTONIC);
        for (int i = 0; i < ready; i++) {
            struct conn *conn = events[i].data.ptr;
            if (!receive(conn))
                continue;
            now = clock_ns(CLOCK_MONOTONIC);
            if (is_counted && sampled < SAMPLES)
                samples[sampled++] = now - conn->sent;
            count += is_counted;
            conn->back += is_counted;
            send_one(conn);
        }
    } while (now < until);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* How many messages the connection got back that got the fewest, by the mean. */
static double least(int64_t n)
{
    int64_t fewest = conns[0].back;
    for (int64_t i = 1; i < n; i++)
        fewest = conns[i].back < fewest ? conns[i].back : fewest;
    return (double)fewest * (double)n / (double)count;
}

static void echo(int set, int64_t n, int64_t ms)
{
    clockid_t cpu;
    if (clock_getcpuclockid(server, &cpu) != 0)
        die("the clock of the server");
    int64_t begin = clock_ns(CLOCK_MONOTONIC);
    for (int64_t i = 0; i < n; i++)
        send_one(&conns[i]);
    keep_busy(set, begin + ms * 250000, 0);
    int64_t start_wall = clock_ns(CLOCK_MONOTONIC), start_cpu = clock_ns(cpu);
    keep_busy(set, start_wall + ms * 750000, 1);
    double wall = (double)(clock_ns(CLOCK_MONOTONIC) - start_wall);
    double used = (double)(clock_ns(cpu) - start_cpu);
    qsort(samples, (size_t)sampled, sizeof *samples, compare);
    print("time", wall / (double)count, "ns");
    print("cpu", used / (double)count, "ns");
    print("rate", (double)count / wall * 1e6, "k/s");
    print("p50", (double)samples[sampled / 2] / 1e3, "us");
    print("p99", (double)samples[sampled / 100 * 99] / 1e3, "us");
    print("least", least(n), "x");
}

/* How many descriptors a process may have, once it has asked for enough of them. */
static int64_t allowed(int64_t n)
{
    struct rlimit limit = {(rlim_t)n + SPARE, (rlim_t)n + SPARE}, old;
    if (getrlimit(RLIMIT_NOFILE, &old) < 0)
        die("getrlimit");
    if (old.rlim_max > limit.rlim_max)
        limit.rlim_max = old.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
        limit = (struct rlimit){old.rlim_max, old.rlim_max};
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    return (int64_t)limit.rlim_cur;
}

/* One server and its share of idle connections: tells its memory, and stays until it is killed. */
static void idle_share(int tell, int64_t n, int64_t first, char **command)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int port = start(command);
    int64_t memory = server_memory();
    for (int64_t i = 0; i < n; i++) {
        connect_one(&conns[i], first + i, port);
        send_one(&conns[i]);
        while (!receive(&conns[i])) /* ends: with an answer, or the server */
            sched_yield();
    }
    usleep(300000); /* a garbage collector may have something to do */
    memory = server_memory() - memory;
    if (write(tell, &memory, sizeof memory) != sizeof memory)
        die("write");
    pause();
}

/* Starts one share and waits until it is there. The memory of its server. */
static int64_t start_share(int64_t n, int64_t first, char **command)
{
    int ends[2];
    int64_t memory;
    if (pipe2(ends, O_CLOEXEC) < 0)
        die("pipe");
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        idle_share(ends[1], n, first, command);
    close(ends[1]);
    if (read(ends[0], &memory, sizeof memory) != sizeof memory)
        die("a share of the load has ended");
    close(ends[0]);
    return memory;
}

/* The shares end with this process. */
static void idle(int64_t n, char **command)
{
    int64_t most = allowed(n) - SPARE, shares = (n + most - 1) / most, first = 0, memory = 0;
    int64_t kernel = field("/proc/meminfo", "Slab:");
    for (int64_t i = 0; i < shares; i++) {
        int64_t share = n / shares + (i < n % shares);
        memory += start_share(share, first, command);
        first += share;
    }
    print("memory", (double)memory / (double)n, "B");
    print("kernel", (double)(field("/proc/meminfo", "Slab:") - kernel) / 2 / (double)n, "B");
    print("connections", (double)n, "n");
    print("servers", (double)shares, "n");
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        fprintf(stderr, "usage: load echo|idle CONNECTIONS MILLISECONDS COMMAND...\n");
        return 2;
    }
    int64_t n = atoll(argv[2]), ms = atoll(argv[3]);
    conns = calloc((size_t)n, sizeof *conns);
    samples = calloc(SAMPLES, sizeof *samples);
    if (n < 1 || !conns || !samples)
        die("memory");
    if (strcmp(argv[1], "idle") == 0) {
        idle(n, argv + 4);
        return 0;
    }
    int set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0 || allowed(n) < n + SPARE)
        die("descriptors");
    int port = start(argv + 4);
    for (int64_t i = 0; i < n; i++) {
        connect_one(&conns[i], i, port);
        watch(set, i);
    }
    echo(set, n, ms);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    return 0;
}
