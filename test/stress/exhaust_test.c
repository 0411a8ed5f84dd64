/* SPDX-License-Identifier: MIT */
/*
 * Goal: running out is an answer. Whatever request of the system is refused, at whatever point,
 *       once or from there on, a program ends with a status that has a name: it does not crash,
 *       does not hang and leaves no descriptor open; and when there is enough again the same
 *       program comes out right in the same process.
 * Method: small programs that use each part of kin, behind a front of the C library that refuses
 *       the n-th request of one kind. Each case is a process of its own. Which n: some, drawn by
 *       the seed; with KIN_EXHAUST=all every one.
 */
#define _GNU_SOURCE 1
#include "api/in_runtime.h"

#include <kin/blocking.h>
#include <kin/file.h>
#include <kin/net.h>
#include <kin/process.h>
#include <kin/reader.h>
#include <kin/resolve.h>
#include <kin/server.h>
#include <kin/signal.h>
#include <kin/supervisor.h>

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#if !SANITIZED /* a sanitizer has a front of its own */
#include "front.h"

static kin_time patience; /* of a run: short while something is missing, for what waits for it */

/* ---- programs ---- */

static int nap(void *arg)
{
    (void)arg;
    return kin_sleep(kin_after(KIN_US(50)));
}

static int branch(void *arg)
{
    int rc = 0;
    (void)arg;
    KIN_NURSERY(n);
    for (int i = 0; i < 20 && rc == 0; i++)
        rc = kin_spawn(&n, nap, NULL);
    kin_ignore(kin_nursery_join(&n, NULL));
    return rc;
}

static int send_some(void *arg)
{
    int rc = 0;
    for (int i = 0; i < 10 && rc == 0; i++)
        rc = kin_chan_send(arg, &i, patience);
    return rc;
}

static int storm(void)
{
    struct kin_chan *chan = NULL;
    int rc = kin_chan_create(&chan, sizeof(int), 4), item;
    if (rc < 0)
        return rc;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    rc = kin_spawn(&n, send_some, chan);
    for (int i = 0; i < 10 && rc == 0; i++)
        rc = kin_chan_recv(chan, &item, patience);
    for (int i = 0; i < 20 && rc == 0; i++)
        rc = kin_spawn(&n, branch, NULL);
    int joined = kin_nursery_join(&n, NULL);
    kin_chan_unref(chan);
    return rc < 0 ? rc : joined;
}

struct echo {
    int listener;
    char addr[KIN_ADDR_MAX];
};

static void hang_up(void *arg)
{
    kin_close(*(int *)arg);
}

static int answer(void *arg)
{
    int fd = *(int *)arg;
    char bytes[4];
    size_t done;
    int rc = kin_read_full(fd, bytes, 4, &done, patience);
    return rc < 0 ? rc : kin_write(fd, bytes, done, NULL, patience);
}

static int serve(void *arg)
{
    struct echo *echo = arg;
    struct kin_spawn_options owning = KIN_SPAWN_OPTIONS_INIT;
    int conn, rc = 0;
    owning.cleanup = hang_up;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    for (int i = 0; i < 5 && rc == 0; i++) {
        rc = kin_accept(echo->listener, &conn, patience);
        if (rc < 0)
            break;
        rc = kin_spawn_with(&n, &owning, answer, &conn, sizeof(conn), NULL);
        if (rc < 0)
            kin_close(conn);
    }
    int joined = kin_nursery_join(&n, NULL);
    return rc < 0 ? rc : joined;
}

static int ask(void *arg)
{
    struct echo *echo = arg;
    char bytes[4];
    size_t done = 0;
    int fd, rc = kin_tcp_connect(echo->addr, &fd, patience);
    if (rc < 0)
        return rc;
    rc = kin_write(fd, "ping", 4, NULL, patience);
    if (rc == 0)
        rc = kin_read_full(fd, bytes, 4, &done, patience);
    kin_close(fd);
    return rc < 0 ? rc : done == 4 ? 0 : -EPIPE;
}

static int echo(void)
{
    struct echo echo;
    int rc = kin_tcp_listen("127.0.0.1:0", NULL, &echo.listener);
    if (rc < 0)
        return rc;
    rc = kin_local_addr(echo.listener, echo.addr, sizeof echo.addr);
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    if (rc == 0)
        rc = kin_spawn(&n, serve, &echo);
    for (int i = 0; i < 5 && rc == 0; i++)
        rc = kin_spawn(&n, ask, &echo);
    int joined = kin_nursery_join(&n, NULL);
    kin_close(echo.listener);
    return rc < 0 ? rc : joined;
}

static int write_file(const char *path)
{
    char bytes[5000] = "kin";
    int fd, rc = kin_open(path, O_RDWR | O_CREAT, 0600, &fd);
    if (rc < 0)
        return rc;
    ssize_t got = kin_pwrite(fd, bytes, sizeof bytes, 0);
    if (got >= 0)
        got = kin_fsync(fd);
    if (got >= 0)
        got = kin_pread(fd, bytes, sizeof bytes, 0);
    kin_close(fd);
    return got < 0 ? (int)got : 0;
}

static char directory[64];

static int files(void)
{
    char path[96], other[96];
    struct kin_dir *dir;
    struct kin_dirent entry;
    struct stat is;
    snprintf(path, sizeof path, "%s/one", directory);
    snprintf(other, sizeof other, "%s/two", directory);
    int rc = write_file(path);
    if (rc == 0)
        rc = kin_stat(path, &is);
    if (rc == 0)
        rc = kin_rename(path, other);
    if (rc == 0 && (rc = kin_opendir(directory, &dir)) == 0) {
        while ((rc = kin_readdir(dir, &entry)) > 0) /* ends: the directory does */
            continue;
        kin_closedir(dir);
    }
    if (rc == 0)
        rc = kin_remove(other);
    return rc;
}

static int echo_call(struct kin_server *s, void *state, const void *req, size_t size,
                     struct kin_reply *reply)
{
    (void)s, (void)state;
    kin_ignore(kin_reply_send(reply, req, size));
    return 0;
}

static const struct kin_server_ops echo_ops = {.on_call = echo_call};

static int start_child(struct kin_nursery *n, const void *arg, struct kin_addr *out)
{
    return kin_server_start(n, &echo_ops, NULL, arg, out);
}

static int servers(void)
{
    const struct kin_child_spec children[] = {{.name = "a", .start = start_child},
                                              {.name = "b", .start = start_child}};
    struct kin_supervisor_options options = KIN_SUPERVISOR_OPTIONS_INIT;
    struct kin_addr top, one;
    int back = 0, seven = 7;
    KIN_NURSERY(n, .on_error = KIN_COLLECT);
    int rc = kin_server_start(&n, &echo_ops, NULL, NULL, &one);
    if (rc == 0)
        rc = kin_call(one, &seven, sizeof seven, &back, sizeof back, NULL, patience);
    if (rc == 0)
        rc = kin_register("exhaust", one, 0);
    if (rc == 0)
        rc = kin_supervisor_start(&n, &options, children, 2, &top);
    if (rc == 0)
        rc = kin_server_stop(top, 0, patience);
    if (rc == 0)
        rc = kin_server_stop(one, 0, patience);
    kin_nursery_cancel(&n, 0);
    kin_ignore(kin_nursery_join(&n, NULL));
    return rc;
}

static int processes(void)
{
    const char *argv[] = {"echo", "kin", NULL};
    struct kin_process_options options = KIN_PROCESS_OPTIONS_INIT;
    struct kin_process *process;
    char bytes[16];
    size_t done;
    int wstatus = 0;
    options.out.kind = KIN_STDIO_PIPE;
    int rc = kin_process_start(argv, &options, &process);
    if (rc == 0)
        rc = kin_read_full(kin_process_pipe(process, 1), bytes, sizeof bytes, &done, patience);
    if (rc == 0)
        rc = kin_process_wait(process, &wstatus, patience);
    return rc;
}

static int signals(void)
{
    int rc = kin_signal_wait(SIGUSR1, 0); /* held from here on, if this goes well */
    if (rc != KIN_TIMEOUT)
        return rc;
    kill(getpid(), SIGUSR1);
    return kin_signal_wait(SIGUSR1, patience);
}

static int names(void)
{
    char addresses[4][KIN_ADDR_MAX];
    int rc = kin_resolve("localhost", addresses, 4, patience);
    return rc < 0 ? rc : 0;
}

static int do_little(void *arg)
{
    (void)arg;
    usleep(10);
    return 0;
}

static int blocking(void)
{
    int result, rc = 0;
    for (int i = 0; i < 3 && rc == 0; i++)
        rc = kin_blocking(do_little, NULL, &result, patience);
    return rc;
}

static const struct program {
    const char *name;
    int (*run)(void);
} programs[] = {{"storm", storm},         {"echo", echo},       {"files", files},
                {"servers", servers},     {"names", names},     {"signals", signals},
                {"processes", processes}, {"blocking", blocking}};
enum { PROGRAMS = sizeof(programs) / sizeof(programs[0]) };

/* ---- one case ---- */

enum verdict { GOOD, UNNAMED = 3, NOT_AGAIN, LEAKED };

static int first(void *arg)
{
    const struct program *program = arg;
    patience = atomic_load(&front.is_armed) ? kin_after(KIN_MS(200)) : KIN_NEVER;
    return program->run();
}

static int run_program(const struct program *program, enum kin_poller poller)
{
    struct kin_config config = KIN_CONFIG_INIT;
    config.workers = 2;
    config.poller = poller;
    config.on_report = keep_report;
    static struct reports reports;
    config.report_arg = &reports;
    return kin_run(&config, first, (void *)(uintptr_t)program);
}

static int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static bool has_name(int rc)
{
    return rc >= 0 || strcmp(kin_status_name(rc), kin_status_name(-99999)) != 0;
}

/* In a process of its own. */
static int try_case(const struct program *program, enum kin_poller poller, unsigned *counts)
{
    int before = count_descriptors();
    atomic_store(&front.is_armed, true);
    int rc = run_program(program, poller);
    atomic_store(&front.is_armed, false);
    for (int i = 0; counts && i < FRONT_KINDS; i++)
        counts[i] = atomic_load(&front.counts[i]);
    if (!has_name(rc))
        return UNNAMED;
    if (run_program(program, poller) != 0)
        return NOT_AGAIN;
    return count_descriptors() > before ? LEAKED : GOOD;
}

/* What became of a case; "" when it is well. */
static const char *judge(int status, char *text, size_t size)
{
    static const char *const verdicts[] = {"", "", "", "a status without a name",
                                           "fails when there is enough again",
                                           "leaves a descriptor open"};
    if (WIFEXITED(status) && WEXITSTATUS(status) <= LEAKED)
        return verdicts[WEXITSTATUS(status)];
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return "hangs";
    snprintf(text, size, "ends with status 0x%x", (unsigned)status);
    return text;
}

/* Runs a case; true: it is well. */
static bool run_case(const struct program *program, enum kin_poller poller, unsigned *counts)
{
    char text[64];
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(KIN_TEST_S / 2 * kin_test_scale());
        _exit(try_case(program, poller, counts));
    }
    EXPECT_EQ(waitpid(child, &status, 0), child);
    const char *what = judge(status, text, sizeof text);
    if (*what)
        printf("  %s, poller %d, %s %u%s: %s\n", program->name, (int)poller,
               front.kind < 0 ? "nothing" : front_names[front.kind], front.first,
               front.for_ever ? " and later" : "", what);
    return *what == '\0';
}

/* ---- the sweep ---- */

enum { SAMPLES = 3 };

/* The requests of one kind, each or some, in one program. How many cases were not well. */
static int sweep_kind(const struct program *program, enum kin_poller poller, unsigned count,
                      uint64_t *dice)
{
    const char *word = getenv("KIN_EXHAUST");
    bool is_whole = word && strcmp(word, "all") == 0;
    unsigned cases = is_whole || count < SAMPLES ? count : SAMPLES;
    int bad = 0;
    for (unsigned i = 0; i < 2 * cases; i++) {
        *dice = *dice * UINT64_C(6364136223846793005) + 1442695040888963407u;
        front.first = cases == count ? i / 2 + 1 : (unsigned)((*dice >> 33) % count) + 1;
        front.for_ever = i % 2;
        bad += !run_case(program, poller, NULL);
    }
    return bad;
}

static int no_program(void)
{
    return 0;
}

/* In a process of its own, as all runs are: the others begin without threads. */
static bool has_rings(void)
{
    const struct program program = {"nothing", no_program};
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(run_program(&program, KIN_POLLER_URING) == KIN_UNSUPPORTED);
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status == 0;
}

static void sweep(const struct program *program)
{
    static const enum kin_poller pollers[] = {KIN_POLLER_AUTO, KIN_POLLER_URING, KIN_POLLER_EPOLL};
    static char memory[] = "/tmp/kin-exhaust-XXXXXX";
    unsigned *counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t dice = kin_test_seed();
    int bad = 0;
    EXPECT(counts != MAP_FAILED && kin_test_mkdtemp(memory));
    snprintf(directory, sizeof directory, "%s", memory);
    for (int i = 0; i < 3; i++) {
        front.kind = -1;
        front.first = 0;
        if (pollers[i] == KIN_POLLER_URING && !has_rings())
            continue;
        EXPECT(run_case(program, pollers[i], counts)); /* nothing is refused, all is counted */
        for (front.kind = 0; front.kind < FRONT_KINDS; front.kind++)
            bad += sweep_kind(program, pollers[i], counts[front.kind], &dice);
        EXPECT(counts[FRONT_MMAP] > 0 && counts[FRONT_MALLOC] > 0); /* the front is there */
    }
    EXPECT_EQ(bad, 0);
}

#define SWEEP(number, name)                                                                        \
    KIN_TEST_LIMIT(running_out_is_an_answer_for_##name, "", 1200)                                  \
    {                                                                                              \
        sweep(&programs[number]);                                                                  \
    }
SWEEP(0, a_storm_of_tasks)
SWEEP(1, connections)
SWEEP(2, files)
SWEEP(3, servers_and_supervisors)
SWEEP(4, host_names)
SWEEP(5, signals)
SWEEP(6, processes)
SWEEP(7, blocking_calls)

#else
KIN_TEST(nothing_is_swept_behind_a_sanitizer, "")
{
    EXPECT(SANITIZED);
}
#endif
