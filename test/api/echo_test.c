/* SPDX-License-Identifier: MIT */
/*
 * Goal: the server of examples/echo.c leaves no descriptor behind when it is cancelled, whatever
 * its connections were doing, begun or not.
 * Method: its own code with clients that connect and say nothing. On one worker the cancellation
 * comes right behind the server, which has just started connections, and before most of those; on
 * more anywhere. The open descriptors of the process are counted.
 */
#include "api/descriptors.h"
#include "api/in_runtime.h"


#define main echo_main /* is not called */
int main(int argc, char **argv);
#include "../examples/echo.c"
#undef main

static struct kin_event time_to_stop;

static int stop(void *servers)
{
    int rc = kin_event_wait(&time_to_stop, KIN_NEVER);
    if (servers)
        kin_nursery_cancel(servers, 0);
    return rc;
}

static int cancel_a_server(void *arg)
{
    struct server server = {-1, PATIENT, 0, 0};
    char addr[KIN_ADDR_MAX];
    int callers[CONNECTIONS];
    (void)arg;
    time_to_stop = (struct kin_event){0};
    EXPECT_EQ(listen_at("127.0.0.1:0", &server.listener, addr), 0);
    KIN_NURSERY(stoppers);
    KIN_NURSERY(servers);
    EXPECT_EQ(kin_spawn(&stoppers, stop, &servers), 0);
    EXPECT_EQ(kin_spawn(&stoppers, stop, NULL), 0); /* waits first and goes first */
    EXPECT_EQ(kin_yield(), 0);
    for (int i = 0; i < CONNECTIONS; i++)
        EXPECT_EQ(kin_tcp_connect(addr, &callers[i], kin_after(KIN_SEC(30))), 0);
    EXPECT_EQ(kin_spawn(&servers, serve, &server), 0);
    kin_event_set(&time_to_stop);
    int rc = kin_nursery_join(&servers, NULL); /* KIN_NOSCOPE: it was just about to start one */
    EXPECT(rc == KIN_CANCELLED || rc == KIN_NOSCOPE);
    EXPECT_EQ(kin_nursery_join(&stoppers, NULL), 0);
    for (int i = 0; i < CONNECTIONS; i++)
        EXPECT_EQ(kin_close(callers[i]), 0);
    EXPECT_EQ(kin_close(server.listener), 0);
    printf("%d of %d connections had begun\n", server.served + server.refused, CONNECTIONS);
    return 0;
}

KIN_TEST(a_cancelled_server_leaves_no_descriptor, "D-90")
{
    int before = count_descriptors();
    for (unsigned round = 0; round < 12; round++) {
        EXPECT_EQ(run_reporting(1 + round % 3, cancel_a_server, NULL, NULL), 0);
        EXPECT_EQ(count_descriptors(), before);
    }
}
