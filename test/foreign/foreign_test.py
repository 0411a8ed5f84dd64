#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that know nothing of kin as peers of the examples, and libraries in these, by loopback.

    foreign_test.py EXAMPLES [TEXT]     EXAMPLES: where they are built; TEXT: only names with it

Goal: sockets of kin talk to nc, socat, curl, a server of Python and real servers of databases as
any other program would, half-closes and resets included, and keep no descriptor. Method: the
examples echo, proxy and server serve at ports that the system chooses; what comes back is compared,
and at the end their descriptors are counted. Prints one line per test as the other tests do; what
is not installed is skipped.
"""

import contextlib
import glob
import hashlib
import http.server
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True
from peers import LIMIT_S, Skip, example, expect, main, need, run

LARGE = bytes(range(256)) * 4096


# ---- servers ----


class Server:
    """An example that serves; every address it listens at in addrs."""

    def __init__(self, name, *args, count=1):
        self.process = subprocess.Popen([example(name), *args], stdout=subprocess.PIPE, text=True)
        self.addrs = []
        for _ in range(count):
            line = self.process.stdout.readline().split()
            if line[:2] != ["listening", "at"]:
                self.stop()
                raise AssertionError("%s said %s" % (name, line))
            self.addrs.append(line[2])
        self.host, _, self.port = self.addrs[0].rpartition(":")

    def count(self):
        """Its descriptors, without files of the kernel: its monitor has one open for a moment."""
        count = 0
        for path in glob.glob("/proc/%d/fd/*" % self.process.pid):
            with contextlib.suppress(FileNotFoundError):
                count += not os.readlink(path).startswith(("/proc/", "/sys/"))
        return count

    def stop(self):
        self.process.kill()
        self.process.communicate()


@contextlib.contextmanager
def serving(name, *args, count=1):
    """Such a server, which must keep no descriptor of those it gets."""
    server = Server(name, *args, count=count)
    try:
        with socket.create_connection((server.host, server.port), LIMIT_S) as first:
            first.shutdown(socket.SHUT_WR)
            first.recv(1)  # by now it has all that it keeps
        before = settled(server, None)
        yield server
        expect(server.process.poll(), None)
        expect(settled(server, before) <= before, True)
    finally:
        server.stop()


def settled(server, wanted):
    """How many descriptors it has when there are no more than wanted, or it does not change."""
    count = server.count()
    for _ in range(LIMIT_S * 50):
        if wanted is not None and count <= wanted:
            break
        time.sleep(0.02)
        now = server.count()
        if wanted is None and now == count:
            break
        count = now
    return count


class Page(http.server.BaseHTTPRequestHandler):
    """GET: a large page; POST and PUT: the digest of what came."""
    protocol_version = "HTTP/1.1"

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):  # pylint: disable=invalid-name
        self.answer(LARGE)

    def chunks(self):
        """The body of a sender that does not know its length before."""
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def do_POST(self):  # pylint: disable=invalid-name
        length = self.headers["Content-Length"]
        body = self.rfile.read(int(length)) if length else b"".join(self.chunks())
        self.answer(hashlib.sha256(body).hexdigest().encode())

    do_PUT = do_POST

    def log_message(self, *_args):
        pass


@contextlib.contextmanager
def web():
    """A web server of Python: its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield "127.0.0.1:%d" % server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def digests():
    """A server that answers with the digest of all that a client says, once it has said all."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:  # ends: when the listener is closed
                conn, _ = listener.accept()
                threading.Thread(target=answer, args=(conn,), daemon=True).start()

    def answer(conn):
        digest = hashlib.sha256()
        with contextlib.suppress(OSError), conn:
            while piece := conn.recv(65536):  # ends: with the client
                digest.update(piece)
            conn.sendall(digest.hexdigest().encode())

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield "127.0.0.1:%d" % listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


# ---- the echo server ----


def lines(number, count=20):
    return "".join("line %d of %d\n" % (i, number) for i in range(count)).encode()


def test_echo_nc():
    with serving("echo", "127.0.0.1:0") as server:
        nc = [need("nc"), "-N", server.host, server.port]
        expect(run(nc, lines(1)), lines(1))
        expect(run(nc, b""), b"")
        expect(run(nc, b"x" * 65 + b"\n"), b"! lines are at most 64 bytes\n")


def test_echo_nc_v6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        raise Skip("no IPv6 here: %s" % error)
    nc = need("nc")
    server = Server("echo", "[::1]:0")
    try:
        expect(run([nc, "-N", "::1", server.port], lines(6)), lines(6))
    finally:
        server.stop()


def test_echo_socat():
    socat = need("socat")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        with serving("echo", "127.0.0.1:0", "unix:" + path, count=2) as server:
            for peer in ("TCP:" + server.addrs[0], "UNIX-CONNECT:" + path):
                expect(run([socat, "-t%d" % LIMIT_S, "-", peer], lines(2)), lines(2))


def test_echo_socat_many():
    """More clients at once than the server takes: all are served, some later."""
    socat = need("socat")
    with serving("echo", "127.0.0.1:0") as server:
        clients = [subprocess.Popen([socat, "-t%d" % LIMIT_S, "-", "TCP:" + server.addrs[0]],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                   for _ in range(24)]
        try:
            for number, client in enumerate(clients):  # all at once: one may wait for any other
                client.stdin.write(lines(number))
                client.stdin.close()
            for number, client in enumerate(clients):
                expect(client.stdout.read(), lines(number))
        finally:
            for client in clients:
                client.kill()
                client.wait()
                client.stdout.close()


# ---- the proxy ----


def test_proxy_curl():
    curl = [need("curl"), "-sS", "--noproxy", "*", "--max-time", str(LIMIT_S)]
    with web() as target, serving("proxy", "127.0.0.1:0", target) as server:
        url = "http://%s/" % server.addrs[0]
        expect(run(curl + [url]), LARGE)
        digest = hashlib.sha256(LARGE).hexdigest().encode()
        expect(run(curl + ["--data-binary", "@-", url], LARGE), digest)
        expect(run(curl + ["-T", "-", url], LARGE), digest)  # in chunks
        expect(run(curl + ["--limit-rate", "4M", url]), LARGE)  # a slow reader
        with tempfile.TemporaryDirectory() as directory:
            paths = [os.path.join(directory, str(i)) for i in range(12)]
            with open(paths[0], "wb") as file:
                file.write(LARGE)
            expect(run(curl + ["-T", paths[0], url]), digest)  # once the server says to go on
            run(curl + ["-Z"] + [word for path in paths for word in ("-o", path, url)])
            for path in paths:
                with open(path, "rb") as file:
                    expect(file.read(), LARGE)


def test_proxy_nc_half_close():
    nc = need("nc")
    with digests() as target, serving("proxy", "127.0.0.1:0", target) as server:
        answer = run([nc, "-N", server.host, server.port], LARGE)
        expect(answer, hashlib.sha256(LARGE).hexdigest().encode())


def test_proxy_socat_to_echo():
    socat = need("socat")
    with serving("echo", "127.0.0.1:0") as behind:
        with serving("proxy", "127.0.0.1:0", behind.addrs[0]) as server:
            command = [socat, "-t%d" % LIMIT_S, "-", "TCP:" + server.addrs[0]]
            expect(run(command, lines(3)), lines(3))


def test_proxy_reset():
    """Clients that break off in the middle end their own connection and no other."""
    with digests() as target, serving("proxy", "127.0.0.1:0", target) as server:
        for _ in range(20):
            broken = socket.create_connection((server.host, server.port), LIMIT_S)
            broken.sendall(LARGE[:5000])
            broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            broken.close()
        with socket.create_connection((server.host, server.port), LIMIT_S) as whole:
            whole.sendall(b"abc")
            whole.shutdown(socket.SHUT_WR)
            expect(whole.makefile("rb").read(), hashlib.sha256(b"abc").hexdigest().encode())


def test_proxy_refused():
    """Nobody listens behind it: the client is let go, and the proxy goes on."""
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken, and not listening
        target = "127.0.0.1:%d" % nobody.getsockname()[1]
        server = Server("proxy", "127.0.0.1:0", target)
        try:
            for _ in range(3):
                with socket.create_connection((server.host, server.port), LIMIT_S) as client:
                    expect(client.recv(1), b"")
        finally:
            server.stop()


# ---- the server that keeps lines ----


def test_server_stops():
    """What is answered is on the disk; a SIGTERM lets go of who says nothing; a restart goes on."""
    with tempfile.NamedTemporaryFile() as kept:
        for count in (0, 2):
            server = Server("server", "127.0.0.1:0", kept.name)
            try:
                address = (server.host, server.port)
                with socket.create_connection(address, LIMIT_S) as client, \
                        socket.create_connection(address, LIMIT_S) as silent:
                    client.sendall(b"one\ntwo\n")
                    answers = client.makefile("rb")
                    expect(answers.readline(), b"%d\n" % count)
                    expect(answers.readline(), b"%d\n" % (count + 1))
                    server.process.send_signal(signal.SIGTERM)
                    expect(silent.recv(1), b"")
                expect(server.process.wait(LIMIT_S), 0)
            finally:
                server.stop()
        expect(kept.read(), (b"one".ljust(64, b"\0") + b"two".ljust(64, b"\0")) * 2)


# ---- foreign libraries in tasks, with servers of others ----


def test_library_curl():
    with web() as target:
        url = "http://%s/" % target
        out = run([example("foreign/curl")] + [url] * 8).decode().splitlines()
        expect(out, ["%8d  %s" % (len(LARGE), url)] * 8)


@contextlib.contextmanager
def started(command, path, **options):
    """A server that is there once a client can connect to its Unix socket."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               **options)
    try:
        for _ in range(LIMIT_S * 50):
            with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
                client.connect(path)
                break
            if process.poll() is not None:
                raise AssertionError("the server said: %s" % process.stdout.read().decode())
            time.sleep(0.02)
        yield
    finally:
        process.send_signal(signal.SIGINT)  # PostgreSQL has shared memory to give back
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=10)
        process.kill()
        process.wait()


def test_library_hiredis():
    server, program = need("redis-server"), example("foreign/hiredis")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "redis")
        command = [server, "--port", "0", "--unixsocket", path, "--dir", directory, "--save", ""]
        with started(command, path):
            output = run([program, path]).decode()
            expect("all replies were right" in output, True)


def postgres_program(name):
    for path in sorted(glob.glob("/usr/lib/postgresql/*/bin/" + name)):
        return path
    return need(name)


def await_postgres(question):
    """It listens before it answers."""
    for _ in range(LIMIT_S * 5):
        if subprocess.run(question, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          timeout=LIMIT_S, check=False).returncode == 0:
            return
        time.sleep(0.2)


def test_library_libpq():
    program = example("foreign/libpq")
    initdb, server = postgres_program("initdb"), postgres_program("postgres")
    # It refuses to be root's.
    who = {"user": "nobody"} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o777)
        data = os.path.join(directory, "data")
        run([initdb, "-D", data, "-U", "kin", "-A", "trust", "-N", "--locale=C"], cwd="/", **who)
        command = [server, "-D", data, "-k", directory, "-c", "listen_addresses=", "-c",
                   "fsync=off"]
        with started(command, os.path.join(directory, ".s.PGSQL.5432"), cwd="/", **who):
            conninfo = "host=%s user=kin dbname=postgres" % directory
            await_postgres([program, conninfo, "select 1"])
            query = "select n, repeat('x', 1000) from generate_series(1, 500) n"
            rows = run([program, conninfo, query]).decode().splitlines()
            expect(rows, ["%d\t%s" % (n, "x" * 1000) for n in range(1, 501)])


if __name__ == "__main__":
    sys.exit(main(globals()))
