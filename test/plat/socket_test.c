/* SPDX-License-Identifier: MIT */
/*
 * Goal: sockets as the system has them, without blocking and with -errno.
 * Method: a listener and a connection on the loopback, by hand.
 */
#include "kin_test.h"

#include "plat/plat.h"
#include "wait/address.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct kin__sockaddr loopback(void)
{
    struct kin__hostport any = {"127.0.0.1", 0};
    struct kin__sockaddr address;
    EXPECT(kin__address_numeric(&any, &address));
    return address;
}

KIN_TEST(a_connection_is_made_by_hand, "")
{
    struct kin__socket_options options = {.backlog = 8};
    struct kin__sockaddr address = loopback(), peer;
    int listener = kin__socket_open(address.family, true);
    EXPECT_GE(listener, 0);
    EXPECT_EQ(kin__socket_listen(listener, &address, &options), 0);
    EXPECT_EQ(kin__socket_accept(listener), -EAGAIN);
    EXPECT_EQ(kin__socket_name(listener, false, &address), 0);
    EXPECT_EQ(kin__socket_name(listener, true, &peer), -ENOTCONN);
    int client = kin__socket_open(address.family, true);
    int rc = kin__socket_connect(client, &address);
    EXPECT(rc == 0 || rc == -EINPROGRESS);
    for (int i = 0; i < 1000 && kin__fd_look(client, KIN__READY_WRITE) == 0; i++)
        usleep(1000);
    EXPECT_EQ(kin__socket_error(client), 0);
    kin__socket_no_delay(client);
    int server = kin__socket_accept(listener);
    EXPECT_GE(server, 0);
    EXPECT_EQ(kin__fd_write(client, "hi", 2), 2);
    EXPECT_EQ(kin__socket_name(client, false, &address), 0);
    EXPECT_EQ(kin__socket_name(server, true, &peer), 0);
    EXPECT_EQ(memcmp(address.bytes, peer.bytes, peer.size), 0);
    EXPECT_EQ(kin__fd_close(listener), 0);
    EXPECT_EQ(kin__fd_close(client), 0);
    EXPECT_EQ(kin__fd_close(server), 0);
}

KIN_TEST(nobody_listening_is_an_error_of_the_socket, "")
{
    struct kin__sockaddr address = loopback();
    int bound = kin__socket_open(address.family, true);
    EXPECT_EQ(kin__socket_bind(bound, &address), 0); /* takes the port, listens to nobody */
    EXPECT_EQ(kin__socket_name(bound, false, &address), 0);
    int client = kin__socket_open(address.family, true);
    int rc = kin__socket_connect(client, &address);
    if (rc == -EINPROGRESS) {
        for (int i = 0; i < 1000 && kin__fd_look(client, KIN__READY_WRITE) == 0; i++)
            usleep(1000);
        rc = kin__socket_error(client);
    }
    EXPECT_EQ(rc, -ECONNREFUSED);
    EXPECT_EQ(kin__fd_close(bound), 0);
    EXPECT_EQ(kin__fd_close(client), 0);
}

KIN_TEST(a_datagram_knows_its_sender, "")
{
    struct kin__sockaddr one = loopback(), two = loopback(), from;
    char buf[8];
    int first = kin__socket_open(one.family, false), second = kin__socket_open(two.family, false);
    EXPECT_EQ(kin__socket_bind(first, &one), 0);
    EXPECT_EQ(kin__socket_bind(second, &two), 0);
    EXPECT_EQ(kin__socket_name(first, false, &one), 0);
    EXPECT_EQ(kin__socket_name(second, false, &two), 0);
    EXPECT_EQ(kin__socket_receive_from(second, buf, sizeof(buf), &from), -EAGAIN);
    EXPECT_EQ(kin__socket_send_to(first, "abc", 3, &two), 3);
    EXPECT_EQ(kin__socket_receive_from(second, buf, sizeof(buf), &from), 3);
    EXPECT_EQ(memcmp(from.bytes, one.bytes, one.size), 0);
    EXPECT_EQ(kin__fd_close(first), 0);
    EXPECT_EQ(kin__fd_close(second), 0);
}

KIN_TEST(no_memory_means_no_socket, "")
{
    kin__plat_fail_after(1, false);
    EXPECT_EQ(kin__socket_open(AF_INET, true), -ENOMEM);
    kin__plat_fail_after(0, false);
}
