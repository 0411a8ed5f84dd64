#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The resolver of kin beside dig, both asking one dnsmasq.

    dns_test.py EXAMPLES [TEXT]     EXAMPLES: where they are built; TEXT: only names with it

Goal: kin_resolve finds what dig finds, whatever the server says and however it says it. Method: a
dnsmasq at a port of the loopback that was free, with a zone of the test's own; the example resolve
reads a resolv.conf and a hosts file of the test's own. Every answer is compared with that of dig to
the same question in the same run. The server logs each question: how often it was asked, and from
which port, is read there. It is ended by its process group, and leaves nothing.
"""

import contextlib
import ipaddress
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from peers import LIMIT_S, Skip, example, expect, main, need, run

# The zone. Names without a time of their own hold for LOCAL_TTL_S.
LOCAL_TTL_S = 1
MANY = ["198.51.100.%d" % i for i in range(1, 61)]  # do not fit into a datagram
ZONE = """
host-record=both.test,192.0.2.10,2001:db8::10,300
host-record=four.test,192.0.2.11,300
host-record=six.test,2001:db8::12,300
host-record=several.test,192.0.2.13,2001:db8::13,300
host-record=several.test,192.0.2.14,2001:db8::14,300
cname=one.test,two.test
cname=two.test,three.test
cname=three.test,both.test
cname=nowhere.test,nobody.test
host-record=web.lan.test,192.0.2.20,300
host-record=printer.lan.test,192.0.2.21,300
host-record=mail.office.test,192.0.2.22,300
host-record=mail.office.test.lan.test,192.0.2.23,300
host-record=door.office.lan.test,192.0.2.24,300
txt-record=text.test,nothing but text
host-record=_under-score.test,192.0.2.25,300
"""


class Dnsmasq:
    """A name server with that zone and further lines, at a port."""

    def __init__(self, directory, more="", hosts="", port=None):
        self.port = port or free_port()
        self.log = os.path.join(directory, "log.%d" % self.port)
        self.hosts = os.path.join(directory, "hosts.%d" % self.port)
        conf = os.path.join(directory, "dnsmasq.%d" % self.port)
        write(self.hosts, "".join("%s many.test\n" % address for address in MANY) + hosts)
        write(conf, "port=%d\nlisten-address=127.0.0.1%s\nbind-interfaces\nno-resolv\nno-hosts\n"
                    "local=/test/web/nobody/\nlocal-ttl=%d\naddn-hosts=%s\nlog-queries=extra\n"
                    "log-facility=%s\npid-file=\n%s" %
                    (self.port, ",::1" if has_v6() else "", LOCAL_TTL_S, self.hosts, self.log,
                     "user=root\n" if os.getuid() == 0 else "") + ZONE + more)
        self.process = subprocess.Popen([need("dnsmasq"), "-k", "-C", conf], start_new_session=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def is_ready(self):
        """Whether it serves; False: it has ended, for want of its port."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            if self.process.poll() is not None:
                return False
            status, _ = dig(self.port, "four.test", "A")
            if status == "NOERROR":
                return True
            time.sleep(0.05)
        raise AssertionError("dnsmasq does not answer")

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # those that serve streams, too
        self.process.wait()
        self.process.stdout.close()

    def questions(self, name):
        """What it was asked about a name so far: (type, port of whoever asked)."""
        with open(self.log, encoding="utf-8") as file:
            return [(kind, int(port)) for port, kind in re.findall(
                r"127\.0\.0\.1/(\d+) query\[(\w+)\] %s from" % re.escape(name), file.read())]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def has_v6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def free_port():
    """One that is free for both kinds of sockets, at this moment."""
    for _ in range(50):
        with socket.socket(type=socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind(("127.0.0.1", 0))
            with contextlib.suppress(OSError):
                tcp.bind(udp.getsockname())
                return udp.getsockname()[1]
    raise AssertionError("no port is free for both kinds of sockets")


@contextlib.contextmanager
def refusing_port():
    """A port that is taken, so that nobody else gets it, and at which nobody is: what comes from
    elsewhere than itself is refused by the system."""
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.connect(udp.getsockname())
        yield udp.getsockname()[1]


@contextlib.contextmanager
def names(**options):
    """A server that answers, in a directory of its own."""
    need("dig")
    example("resolve")
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(10):  # somebody else may be quicker with the port
            server = Dnsmasq(directory, **options)
            try:
                if server.is_ready():
                    yield directory, server
                    return
            finally:
                server.stop()
        raise AssertionError("dnsmasq does not start")


class Resolver:
    """The example, which answers one line at a time; it keeps what it has learnt."""

    def __init__(self, directory, conf, hosts=""):
        paths = [os.path.join(directory, name) for name in ("resolv.conf", "hosts")]
        write(paths[0], conf)
        write(paths[1], hosts)
        env = {name: value for name, value in os.environ.items()
               if name not in ("LOCALDOMAIN", "RES_OPTIONS")}
        env.update(KIN_RESOLV_CONF=paths[0], KIN_HOSTS=paths[1])
        self.process = subprocess.Popen([example("resolve"), "-"], env=env, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, name):
        """Its addresses, sorted; or why there is none, as text."""
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        expect(words[:1], [name])
        return words[2] if words[1] == "!" else in_order(words[1:])

    def __enter__(self):
        return self

    def __exit__(self, *_what):
        self.process.stdin.close()
        expect(self.process.wait(LIMIT_S), 0)
        self.process.stdout.close()


def in_order(addresses):
    return sorted(addresses, key=lambda text: ipaddress.ip_address(text).packed)


def dig(port, name, kind, *options):
    """What dig is told about one kind: (status, lines)."""
    command = [need("dig"), "-r", "@127.0.0.1", "-p", str(port), "+tries=1", "+time=5", "+noall",
               "+answer", "+comments", *options, name, kind]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                          timeout=LIMIT_S)
    output = done.stdout.decode()
    status = re.search(r"status: (\w+)", output)
    return status.group(1) if status else output, output.splitlines()


def dig_all(port, name, *options):
    """The addresses of both kinds by dig +short, sorted."""
    found = []
    for kind in ("A", "AAAA"):
        command = [need("dig"), "-r", "@127.0.0.1", "-p", str(port), "+short", "+tries=3",
                   *options, name, kind]
        found += [line for line in run(command).decode().split() if not line.endswith(".")]
    return in_order(found)


def conf_of(server, more=""):
    # No question is repeated only because the machine is slow: some tests count them.
    return "nameserver 127.0.0.1#%d\noptions timeout:30 attempts:2\n%s" % (server.port, more)


# ---- answers ----


def test_addresses():
    with names() as (directory, server), Resolver(directory, conf_of(server)) as kin:
        for name, count in (("both.test", 2), ("four.test", 1), ("six.test", 1),
                            ("several.test", 4), ("BOTH.Test.", 2), ("_under-score.test", 1)):
            addresses = kin.ask(name)
            expect(addresses, dig_all(server.port, name))
            expect(len(addresses), count)


def test_aliases():
    with names() as (directory, server), Resolver(directory, conf_of(server)) as kin:
        for name in ("one.test", "two.test", "three.test"):
            expect(kin.ask(name), dig_all(server.port, name))
            expect(kin.ask(name), kin.ask("both.test"))


def test_absence_and_failure():
    """What does not exist, has no addresses, or cannot be found out."""
    with failing_server() as port:
        more = "server=/fail.test/127.0.0.1#%d\n" % port
        with names(more=more) as (directory, server):
            with Resolver(directory, conf_of(server)) as kin:
                for name, status, answer in (("nobody.test", "NXDOMAIN", "KIN_NOPROC"),
                                             ("text.test", "NOERROR", "KIN_NOPROC"),
                                             ("www.fail.test", "SERVFAIL", "EPROTO"),
                                             ("no.upstream", "REFUSED", "EPROTO")):
                    expect(dig(server.port, name, "A")[0], status)
                    expect(kin.ask(name), answer)


@contextlib.contextmanager
def failing_server():
    """A server for one zone that says to everything that it failed: its port."""
    with socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.1)
        stop = threading.Event()

        def serve():
            while not stop.is_set():
                with contextlib.suppress(socket.timeout):
                    question, address = udp.recvfrom(4096)
                    udp.sendto(question[:2] + b"\x81\x82" + question[4:], address)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield udp.getsockname()[1]
        finally:
            stop.set()
            thread.join()


def test_long_answer():
    """It does not fit into a datagram: asked for once more, over a stream."""
    with names() as (directory, server):
        _, cut = dig(server.port, "many.test", "A", "+ignore", "+noedns")
        expect(any(line.startswith(";; flags:") and " tc" in line for line in cut), True)
        before = len(server.questions("many.test"))
        with Resolver(directory, conf_of(server)) as kin:
            some = kin.ask("many.test")
        kinds = sorted(kind for kind, _ in server.questions("many.test")[before:])
        expect(kinds, ["A", "A", "AAAA"])
        every = dig_all(server.port, "many.test")
        expect(every, in_order(MANY))
        expect((len(some), set(some) <= set(every)), (16, True))


def test_options():
    """What the server is asked, by the options: how often, for what, and whether it had to cut."""
    with names() as (directory, server):
        for option, kinds in (("edns0", ["A", "AAAA"]),  # it fits into such a datagram
                              ("use-vc", ["A", "AAAA"]),
                              ("no-aaaa", ["A", "A"]), ("no-aaaa use-vc", ["A"]),
                              ("single-request", ["A", "A", "AAAA"])):
            before = len(server.questions("many.test"))
            with Resolver(directory, conf_of(server, "options %s\n" % option)) as kin:
                expect(set(kin.ask("many.test")) <= set(MANY), True)
                expect(kin.ask("both.test"), [address for address in
                                              dig_all(server.port, "both.test")
                                              if ":" not in address or "no-aaaa" not in option])
            expect(sorted(kind for kind, _ in server.questions("many.test")[before:]), kinds)
        with Resolver(directory, conf_of(server, "search lan.test\noptions no-tld-query\n")) as kin:
            expect(kin.ask("web"), ["192.0.2.20"])
            expect(kin.ask("both"), "KIN_NOPROC")
            expect(server.questions("both"), [])


# ---- files ----


def test_search_list():
    with names() as (directory, server):
        with Resolver(directory, conf_of(server, "search office.test lan.test\n")) as kin:
            for name, domain in (("web", "lan.test"), ("printer", "lan.test"),
                                 ("mail", "office.test"), ("nobody", "lan.test")):
                addresses = dig_all(server.port, name, "+search", "+domain=" + domain)
                expect(kin.ask(name), addresses or "KIN_NOPROC")
            expect(kin.ask("web."), "KIN_NOPROC")  # complete: nothing is added
        for dots, address in ((1, "192.0.2.22"), (3, "192.0.2.23")):
            more = "search lan.test\noptions ndots:%d\n" % dots
            with Resolver(directory, conf_of(server, more)) as kin:
                expect(kin.ask("mail.office.test"), [address])
                expect(dig_all(server.port, "mail.office.test", "+search", "+domain=lan.test",
                               "+ndots=%d" % dots), [address])
                expect(kin.ask("door.office"), ["192.0.2.24"])  # in the end, in either order


def test_hosts():
    hosts = "203.0.113.1 both.test own\n203.0.113.2 own # twice\n"
    with names() as (directory, server), Resolver(directory, conf_of(server), hosts) as kin:
        expect(kin.ask("both.test"), ["203.0.113.1"])  # before any server
        expect(kin.ask("Own"), ["203.0.113.1", "203.0.113.2"])
        expect(kin.ask("four.test"), dig_all(server.port, "four.test"))
        expect(server.questions("both.test"), [])
        expect(kin.ask("localhost"), ["::1", "127.0.0.1"])


# ---- servers that are not there ----


def test_next_server():
    """One that says nothing costs a second, one that is not there nothing."""
    with names() as (directory, server), socket.socket(type=socket.SOCK_DGRAM) as mute, \
            refusing_port() as refusing:
        mute.bind(("127.0.0.1", 0))
        for port in (mute.getsockname()[1], refusing):
            conf = ("nameserver 127.0.0.1#%d\nnameserver 127.0.0.1#%d\n"
                    "options timeout:1 attempts:5\n" % (port, server.port))
            with Resolver(directory, conf) as kin:
                expect(kin.ask("both.test"), dig_all(server.port, "both.test"))
        with Resolver(directory, "nameserver 127.0.0.1#%d\noptions timeout:1 attempts:1\n" %
                      mute.getsockname()[1]) as kin:
            expect(kin.ask("both.test"), "ETIMEDOUT")
        with Resolver(directory, "nameserver 127.0.0.1#%d\n" % refusing) as kin:
            expect(kin.ask("both.test"), "ECONNREFUSED")


def test_server_v6():
    if not has_v6():
        raise Skip("no IPv6 here")
    with names() as (directory, server):
        with Resolver(directory, "nameserver ::1#%d\n" % server.port) as kin:
            expect(kin.ask("several.test"), dig_all(server.port, "several.test"))


# ---- time, and what nobody can guess ----


def test_time_to_live():
    """What holds long is kept when the server's mind changes, what holds a second is not."""
    with names(hosts="192.0.2.50 brief.test\n") as (directory, server):
        with Resolver(directory, conf_of(server)) as kin:
            expect(kin.ask("four.test"), ["192.0.2.11"])
            expect(kin.ask("brief.test"), ["192.0.2.50"])
            server.stop()
            for _ in range(10):  # somebody else may have the port for a moment
                other = Dnsmasq(directory, hosts="192.0.2.51 brief.test\n", port=server.port,
                                more="host-record=four.test,192.0.2.111,300\n")
                if other.is_ready():
                    break
                other.stop()
            try:
                expect("192.0.2.111" in dig_all(server.port, "four.test"), True)
                expect(dig_all(server.port, "brief.test"), ["192.0.2.51"])
                for _ in range(LIMIT_S * 10):  # it takes a second
                    if kin.ask("brief.test") == ["192.0.2.51"]:
                        break
                    time.sleep(0.1)
                expect(kin.ask("brief.test"), ["192.0.2.51"])
                expect(kin.ask("four.test"), ["192.0.2.11"])  # from memory
            finally:
                other.stop()


def test_asked_once():
    with names() as (directory, server), Resolver(directory, conf_of(server)) as kin:
        before = len(server.questions("both.test"))
        for _ in range(5):
            kin.ask("both.test")
        kinds = sorted(kind for kind, _ in server.questions("both.test")[before:])
        expect(kinds, ["A", "AAAA"])


def test_ports():
    """Each question comes from a port of its own, and they follow no rule that is seen."""
    with names() as (directory, server), Resolver(directory, conf_of(server)) as kin:
        ports = []
        for i in range(20):
            kin.ask("nobody%d.test" % i)
            ports += [port for _, port in server.questions("nobody%d.test" % i)]
        steps = [after - before for before, after in zip(ports, ports[1:])]
        expect((len(ports) >= 20, len(set(ports)) > len(ports) * 3 // 4,
                len(set(steps)) > len(steps) * 3 // 4), (True, True, True))


if __name__ == "__main__":
    sys.exit(main(globals()))
