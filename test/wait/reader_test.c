/* SPDX-License-Identifier: MIT */
/*
 * Goal: whatever is asked for, in whatever pieces the bytes come, a reader hands out exactly the
 * stream, cut where it should be.
 * Method: a model that has the whole stream and answers by looking at it. A peer sends a random
 * stream with many ends of records in it, in random pieces with pauses; random calls with random
 * limits and deadlines are compared with the model. Seeds are printed when it fails.
 */
#include "api/in_runtime.h"

#include "base/rng.h"

#include <kin/io.h>
#include <kin/net.h>
#include <kin/reader.h>

#include <sys/socket.h>
#include <unistd.h>

#define STREAM 4000
#define ROUNDS 30

/* The model: the stream, how much of it was handed out, and the limits. */
struct model {
    char bytes[STREAM];
    size_t size, at;
    size_t data, record;
    uint64_t total;
    int fds[2];
    bool is_tcp;
    uint64_t seed;
};

struct answer {
    int rc;
    size_t size, whole;
};

static void make_stream(struct model *model, struct kin__rng *rng)
{
    static const char letters[] = "ab\n\r\n--x";
    model->size = 1 + kin__rng_below(rng, STREAM);
    for (size_t i = 0; i < model->size; i++)
        model->bytes[i] = letters[kin__rng_below(rng, sizeof(letters) - 1)];
}

static int send_stream(void *arg)
{
    struct model *model = arg;
    struct kin__rng rng;
    kin__rng_init(&rng, model->seed, 1);
    uint64_t most = kin__rng_below(&rng, 3) ? 300 : 1; /* now and then byte by byte */
    for (size_t at = 0; at < model->size;) { /* ends: a piece less each time */
        size_t piece = 1 + kin__rng_below(&rng, most);
        if (piece > model->size - at)
            piece = model->size - at;
        EXPECT_EQ(kin_write(model->fds[1], model->bytes + at, piece, NULL, KIN_NEVER), 0);
        at += piece;
        if (kin__rng_below(&rng, 4) == 0)
            EXPECT_EQ(kin_yield(), 0);
        if (kin__rng_below(&rng, 64) == 0)
            EXPECT_EQ(kin_sleep(kin_after(20000)), 0);
    }
    return kin_shutdown(model->fds[1], SHUT_WR);
}

/* What a call for a mark must answer once the whole stream is there. */
static struct answer expect_mark(const struct model *model, const char *mark, bool is_line)
{
    const char *bytes = model->bytes + model->at;
    size_t left = model->size - model->at, mark_size = strlen(mark), i = 0;
    while (i + mark_size <= left && memcmp(bytes + i, mark, mark_size) != 0)
        i++;
    struct answer answer = {1, i, i + mark_size};
    if (i + mark_size > left) {
        answer = (struct answer){0, left, left};
        if (left > model->record)
            answer.rc = -EMSGSIZE;
    } else {
        if (is_line && i > 0 && bytes[i - 1] == '\r')
            answer.size--;
        if (answer.size > model->record || answer.whole > model->data)
            answer.rc = -EMSGSIZE;
    }
    if (answer.rc >= 0 && answer.whole > model->total)
        answer.rc = -EFBIG;
    return answer;
}

static struct answer expect_count(const struct model *model, size_t count)
{
    size_t left = model->size - model->at;
    if (count > model->record)
        return (struct answer){-EMSGSIZE, 0, 0};
    if (count > model->total)
        return (struct answer){-EFBIG, 0, 0};
    return count <= left ? (struct answer){1, count, count} : (struct answer){0, left, left};
}

static void advance(struct model *model, size_t count)
{
    model->at += count;
    if (model->total != UINT64_MAX)
        model->total -= count;
}

/* Limits that have been hit are lifted, so that the stream comes to its end. */
static void lift_limits(struct model *model, struct kin_reader *in)
{
    model->record = model->data;
    model->total = UINT64_MAX;
    kin_reader_limit(in, 0, 0);
}

static void change_limits(struct model *model, struct kin_reader *in, struct kin__rng *rng)
{
    size_t record = kin__rng_below(rng, model->data * 2);
    uint64_t total = kin__rng_below(rng, 2) ? 0 : 1 + kin__rng_below(rng, 500);
    kin_reader_limit(in, record, total);
    model->record = record && record < model->data ? record : model->data;
    model->total = total ? total : UINT64_MAX;
}

/* Takes some bytes, of which there may be any number. False: the end. */
static bool take_some(struct model *model, struct kin_reader *in, struct kin__rng *rng)
{
    char *bytes;
    size_t size = 0, max = 1 + kin__rng_below(rng, 100);
    int rc = kin_reader_some(in, max, &bytes, &size, KIN_NEVER);
    if (rc == -EFBIG) {
        EXPECT_EQ(model->total, 0);
        EXPECT_LT(model->at, model->size);
        lift_limits(model, in);
        return true;
    }
    EXPECT_EQ(rc, model->at < model->size);
    EXPECT_EQ(size > 0, rc);
    EXPECT_LE(size, max);
    EXPECT_LE(size, model->size - model->at);
    EXPECT_EQ(memcmp(bytes, model->bytes + model->at, size), 0);
    advance(model, size);
    return rc > 0;
}

static bool read_bytes(struct model *model, struct kin_reader *in, struct kin__rng *rng,
                       kin_time deadline)
{
    char to[1000];
    size_t size = kin__rng_below(rng, sizeof(to)), left = model->size - model->at, done = 77777;
    int rc = kin_reader_read(in, to, size, &done, deadline);
    EXPECT_LE(done, size < left ? size : left);
    EXPECT_EQ(memcmp(to, model->bytes + model->at, done), 0);
    advance(model, done);
    if (rc == -EFBIG) {
        EXPECT_EQ(model->total, 0);
        lift_limits(model, in);
    } else if (rc == 0) {
        EXPECT_EQ(done, size < left ? size : left);
    } else {
        EXPECT_EQ(rc, KIN_TIMEOUT);
    }
    return rc != 0 || done == size;
}

/* One call of some kind, compared with the model. False: the end. */
static bool ask(struct model *model, struct kin_reader *in, struct kin__rng *rng)
{
    static const char *const marks[] = {"-", "--", "\r\n", "a\n-"};
    uint64_t kind = kin__rng_below(rng, 12);
    kin_time deadline = kin__rng_below(rng, 4) ? KIN_NEVER
                        : kin__rng_below(rng, 2) ? kin_after(10000) : 0;
    struct answer expected;
    char *bytes = NULL;
    size_t size = 0;
    int rc;
    if (kind == 0)
        return take_some(model, in, rng);
    if (kind == 1)
        return read_bytes(model, in, rng, deadline);
    if (kind < 6) {
        const char *mark = marks[kind - 2];
        expected = expect_mark(model, mark, false);
        rc = kin_reader_until(in, mark, strlen(mark), &bytes, &size, deadline);
    } else if (kind < 9) {
        size_t count = kin__rng_below(rng, model->data + 3);
        expected = expect_count(model, count);
        rc = kin_reader_exactly(in, count, &bytes, &size, deadline);
    } else {
        expected = expect_mark(model, "\n", true);
        rc = kin_reader_line(in, &bytes, &size, deadline);
        EXPECT(rc < 0 || bytes[size] == 0);
    }
    if (rc == KIN_TIMEOUT && deadline != KIN_NEVER)
        return true;
    /* a record that breaks both limits: which is seen first depends on what has come */
    if ((rc == -EFBIG || rc == -EMSGSIZE) && expected.rc < 0)
        expected.rc = rc;
    EXPECT_EQ(rc, expected.rc);
    if (rc < 0) {
        lift_limits(model, in);
        return take_some(model, in, rng); /* else one that does not fit would never end */
    }
    EXPECT_EQ(size, expected.size);
    EXPECT_EQ(memcmp(bytes, model->bytes + model->at, size), 0);
    advance(model, expected.whole);
    return rc > 0;
}

static void connect_pair(struct model *model)
{
    char addr[KIN_ADDR_MAX];
    int listener;
    if (!model->is_tcp) {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, model->fds), 0);
        return;
    }
    EXPECT_EQ(kin_tcp_listen("127.0.0.1:0", NULL, &listener), 0);
    EXPECT_EQ(kin_local_addr(listener, addr, sizeof(addr)), 0);
    EXPECT_EQ(kin_tcp_connect(addr, &model->fds[1], KIN_NEVER), 0);
    EXPECT_EQ(kin_accept(listener, &model->fds[0], KIN_NEVER), 0);
    EXPECT_EQ(kin_close(listener), 0);
}

static int compare_with_model(void *arg)
{
    static struct model model;
    char buf[600];
    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct kin__rng rng;
        struct kin_reader in;
        model = (struct model){.seed = kin_test_seed() + round, .is_tcp = round % 2};
        kin__rng_init(&rng, model.seed, 2);
        make_stream(&model, &rng);
        connect_pair(&model);
        size_t cap = 8 + kin__rng_below(&rng, kin__rng_below(&rng, 2) ? 16 : sizeof(buf) - 8);
        kin_reader_init(&in, model.fds[0], buf, cap);
        model.data = cap - 1;
        lift_limits(&model, &in);
        KIN_NURSERY(n);
        EXPECT_EQ(kin_spawn(&n, send_stream, &model), 0);
        while (ask(&model, &in, &rng)) { /* ends: with the stream */
            if (kin__rng_below(&rng, 8) == 0)
                change_limits(&model, &in, &rng);
        }
        EXPECT_EQ(model.at, model.size);
        EXPECT_EQ(kin_nursery_join(&n, NULL), 0);
        EXPECT_EQ(kin_close(model.fds[0]), 0);
        EXPECT_EQ(kin_close(model.fds[1]), 0);
    }
    return 0;
}

KIN_TEST(a_reader_answers_as_the_model_does, "")
{
    EXPECT_EQ(run_reporting(1, compare_with_model, NULL, NULL), 0);
    EXPECT_EQ(run_reporting(2, compare_with_model, NULL, NULL), 0);
}
