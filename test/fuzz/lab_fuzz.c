/* SPDX-License-Identifier: MIT */
/*
 * Goal: a fuzzer drives tests of the lab: its bytes decide, what a run covers leads it on, and it
 * comes to where chance does not; and no bytes harm the lab.
 * Method: libFuzzer. One test has a bug behind three right choices of 256 each, and then in an
 * order of two tasks: it must have been found when the program ends. From there on the bytes are
 * those of a test that is right, with faults, and must pass whatever they are.
 */
#include <kin/kin.h>
#include <kin/lab.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static bool is_found;

static int add_late(void *arg)
{
    int *sum = arg;
    int seen = KIN_SHARED(*sum);
    KIN_SHARED(*sum) = seen + 1;
    return 0;
}

static int two_add(void *arg)
{
    static const char word[] = "kin";
    int sum = 0;
    (void)arg;
    for (int i = 0; word[i]; i++)
        if (kin_lab_choose(256, "letter") != (uint32_t)word[i])
            return 0;
    KIN_NURSERY(n);
    KIN_LAB_OK(kin_spawn(&n, add_late, &sum));
    KIN_LAB_OK(kin_spawn(&n, add_late, &sum));
    KIN_LAB_OK(kin_nursery_join(&n, NULL));
    kin_lab_assert(sum == 2, "both are counted");
    return 0;
}

static int send_two(void *chan)
{
    int rc = kin_chan_send(chan, &(int){1}, KIN_NEVER);
    return rc < 0 ? rc : kin_chan_send(chan, &(int){2}, KIN_NEVER);
}

static int two_send(void *arg)
{
    struct kin_chan *chan;
    int rc, value, sum = 0;
    (void)arg;
    KIN_LAB_OK(kin_chan_create(&chan, sizeof(int), 1));
    KIN_NURSERY(n);
    rc = kin_spawn(&n, send_two, chan);
    if (rc == 0)
        rc = kin_spawn(&n, send_two, chan);
    for (int i = 0; i < 4 && rc == 0; i++) {
        rc = kin_chan_recv(chan, &value, kin_after(KIN_SEC(1)));
        sum += rc == 0 ? value : 0;
    }
    if (rc < 0)
        kin_nursery_cancel(&n, 0);
    int joined = kin_nursery_join(&n, NULL);
    kin_chan_unref(chan);
    kin_lab_assert(rc < 0 || joined < 0 || sum == 6, "everything arrives once");
    KIN_LAB_OK(rc < 0 ? rc : joined);
    return 0;
}

static int run(kin_task_fn *test, uint32_t faults, const uint8_t *bytes, size_t size)
{
    struct kin_lab_config config = KIN_LAB_CONFIG_INIT;
    struct kin_lab_report report;
    config.strategy = KIN_LAB_BYTES;
    config.faults = faults;
    config.bytes = bytes;
    config.bytes_count = size;
    int rc = kin_lab_run(&config, test, NULL, &report);
    if (rc < 0 && test == two_send) {
        fputs(report.text, stderr);
        abort();
    }
    return rc;
}

static void check_found(void)
{
    if (is_found)
        return;
    fputs("the bug of two_add was not found\n", stderr);
    _exit(1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return atexit(check_found);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (!is_found)
        is_found = run(two_add, 0, bytes, size) < 0;
    else
        (void)run(two_send, KIN_FAULT_OOM | KIN_FAULT_CANCEL | KIN_FAULT_DELAY, bytes, size);
    return 0;
}
