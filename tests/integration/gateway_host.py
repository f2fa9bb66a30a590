"""The real gateway under a scripted supervisor.

Host starts caisson-gateway with listening sockets and a configuration, and serves its control
link on a thread: each CONTROL_DIAL becomes a link, whose other end goes to the test's `broker`
function on a thread of its own, or is refused where there is none.  Raw is a client that speaks
bytes.
"""

import array
import os
import queue
import select
import socket
import ssl
import struct
import subprocess
import tempfile
import threading
import time

from broker_host import CONFIG, CONFIG_TAKEN, FIELDS, FORMAT, PING, PONG, READY, SETTLED, SHUTDOWN, control
import wire
from wire import Closed, Peer, TIMEOUT, frame, program, receive_packet

DIAL, DIALED = 48, 56
EAGAIN = 11

LIMITS = {"namespace": "default", "connections": 64, "requests": 16, "headerBytes": 16384,
          "bodyBytes": 1 << 20, "headerTimeoutMs": 20000, "idleTimeoutMs": 20000,
          "writeTimeoutMs": 20000, "pingIntervalMs": 20000}


def config(listeners, **limits):
    """A sealed file's content; `listeners`: one map of config.listener each."""
    rows = [("config.gateway", {**LIMITS, **limits})]
    rows += [("config.listener", listener) for listener in listeners]
    rows += [("config.end", {})]
    return b"".join(frame([2, name, [values]]) for name, values in rows)


def memfd(data):
    fd = os.memfd_create("config", os.MFD_CLOEXEC)
    os.write(fd, data)
    return fd


def certificate(directory, name, *options):
    """Makes (certificate, key) as PEM bytes, self-signed; the files stay in `directory`."""
    paths = [os.path.join(directory, f"{name}.{end}") for end in ("pem", "key")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", paths[0],
                    "-keyout", paths[1], *options],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [open(path, "rb").read() for path in paths]


class Host:
    """listeners: maps of config.listener; {"unix": True} among one's members: a UNIX socket."""

    def __init__(self, listeners=None, broker=None, program_name="caisson-gateway", wrap=(),
                 preexec=None, **limits):
        self.broker = broker
        self.program = program(program_name)
        self.dialed = queue.Queue()  # links whose broker is the test itself
        self.messages = queue.Queue()  # of the control link, but for PING and DIAL
        self.directory = tempfile.TemporaryDirectory()
        listeners = listeners or [{"kind": "public"}, {"kind": "monitor"}]
        self.sockets, self.addresses, self.rows = [], [], []
        for i, row in enumerate(listeners):
            row = dict(row)
            if row.pop("unix", False):
                sock = socket.socket(socket.AF_UNIX)
                sock.bind(os.path.join(self.directory.name, f"{i}.sock"))
            else:
                sock = socket.socket()
                sock.bind(("127.0.0.1", 0))
            sock.listen(4096)
            self.sockets.append(sock)
            self.addresses.append(sock.getsockname())
            self.rows.append(row)
        self.limits = limits
        self.dial_fault = None  # an errno: refuse every dial with it
        self._start(wrap, preexec)

    def _start(self, wrap, preexec):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        file = memfd(config(self.rows, **self.limits))
        given = [theirs.fileno(), *[s.fileno() for s in self.sockets], file]
        wanted = list(range(3, 3 + len(given)))

        def be_child():
            high = [os.dup2(fd, 200 + i) for i, fd in enumerate(given)]
            for place, fd in zip(wanted, high):
                os.dup2(fd, place)
                os.close(fd)
            if preexec is not None:
                preexec()

        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [*wrap, self.program, str(wanted[-1])], env={}, pass_fds=wanted,
            preexec_fn=be_child, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.stderr)
        theirs.close()
        os.close(file)
        self.pid = self.process.pid
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        self.expect(READY)
        return self

    def __exit__(self, *exc):
        self.stop()

    def stop(self):
        """Ends it as a supervisor's death does; its exit status."""
        try:
            self.control.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        try:
            status = self.process.wait(TIMEOUT)
        finally:
            self.process.kill()
            self.process.wait()
            self.thread.join(TIMEOUT)
            self.control.close()
            for sock in self.sockets:
                sock.close()
            self.directory.cleanup()
        return status

    def log(self):
        return wire.written(self.stderr)

    def tell(self, fds=(), **values):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.control.sendmsg([control(**values)], ancillary)

    def expect(self, verb, timeout=TIMEOUT):
        """The next word on the control link, which must be this one."""
        message = self.messages.get(timeout=timeout)
        assert message is not None and message["verb"] == verb, (message, self.log())
        return message

    def ping(self):
        self.tell(verb=PING)
        return self.expect(PONG)

    def reconfigure(self, rows=None, **limits):
        """Another configuration; the errno of its answer."""
        fd = memfd(config(rows or self.rows, **{**self.limits, **limits}))
        self.tell(verb=CONFIG, generation=7, fds=[fd])
        os.close(fd)
        return self.expect(CONFIG_TAKEN)

    def _serve(self):
        while True:
            try:
                data = receive_packet(self.control.recv, struct.calcsize(FORMAT))
            except OSError:
                data = b""
            if not data:
                self.messages.put(None)
                return
            message = dict(zip(FIELDS, struct.unpack(FORMAT, data)))
            if message["verb"] == DIAL:
                self._dial(message["index"])
            else:
                self.messages.put(message)

    def _dial(self, index):
        if self.dial_fault is not None:
            self.tell(verb=DIALED, index=index, error=self.dial_fault)
            return
        ours, theirs = socket.socketpair()
        self.tell(verb=DIALED, index=index, fds=[theirs.fileno()])
        theirs.close()
        peer = Peer(ours)
        if self.broker is None:
            self.dialed.put(peer)
        else:
            threading.Thread(target=self._play, args=(peer,), daemon=True).start()

    def _play(self, peer):
        with peer:
            try:
                self.broker(peer)
            except Closed:
                pass

    def connect(self, listener=0, tls=None):
        """A Raw to that listener; `tls`: an ssl.SSLContext."""
        address = self.addresses[listener]
        sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
        sock.settimeout(TIMEOUT)
        sock.connect(address)
        if tls is not None:
            sock = tls.wrap_socket(sock, server_hostname="localhost")
        return Raw(sock)


def trusting(certificate_pem=None, client=None):
    """A client's TLS context that checks nothing (`client`: path of its certificate and key)."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate_pem is not None:
        context.load_verify_locations(cadata=certificate_pem.decode())
        context.verify_mode = ssl.CERT_REQUIRED
    if client is not None:
        context.load_cert_chain(*client)
    return context


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"Response({self.status}, {self.headers}, {self.body[:200]!r})"


class Raw:
    """A client's end: bytes, responses, WebSocket frames."""

    def __init__(self, sock):
        self.sock = sock
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)
        return self

    def _more(self):
        """False at the end."""
        try:
            more = self.sock.recv(1 << 18)
        except ConnectionResetError:
            more = b""
        self.data += more
        return bool(more)

    def take(self, n):
        while len(self.data) < n:
            if not self._more():
                raise Closed(self.data)
        taken, self.data = self.data[:n], self.data[n:]
        return taken

    def rest(self):
        """Everything up to the end."""
        while self._more():
            pass
        taken, self.data = self.data, b""
        return taken

    def response(self, head=False):
        while b"\r\n\r\n" not in self.data:
            if not self._more():
                raise Closed(self.data)
        top, _, self.data = self.data.partition(b"\r\n\r\n")
        line, *lines = top.decode("latin-1").split("\r\n")
        headers = {}
        for one in lines:
            name, _, value = one.partition(":")
            headers[name.lower()] = value.strip()
        status = int(line.split()[1])
        assert line.startswith("HTTP/1.1 "), line
        body = b"" if head or status < 200 else self.take(int(headers.get("content-length", 0)))
        return Response(status, headers, body)

    def get(self, path, **headers):
        return self.request("GET", path, **headers)

    def request(self, method, path, body=None, **headers):
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join([*lines, "", ""]).encode() + (body or b""))
        return self.response(head=method == "HEAD")

    # ---- a WebSocket

    def upgrade(self, path, **headers):
        return self.request("GET", path, **{
            "Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13",
            "Sec_WebSocket_Key": "dGhlIHNhbXBsZSBub25jZQ==", **headers})

    def send_frame(self, opcode, payload=b"", fin=True, mask=b"\x12\x34\x56\x78", reserved=0):
        self.send(masked(opcode, payload, fin, mask, reserved))

    def send_text(self, text):
        self.send_frame(1, text.encode())

    def frame(self):
        """(opcode, payload)"""
        first, second = self.take(2)
        assert first & 0x80 and not second & 0x80, (first, second)
        n = second & 0x7f
        if n == 126:
            n = int.from_bytes(self.take(2), "big")
        elif n == 127:
            n = int.from_bytes(self.take(8), "big")
        return first & 0x0f, self.take(n)

    def close_code(self):
        """Reads up to the close frame; its code."""
        while True:
            opcode, payload = self.frame()
            if opcode == 8:
                return int.from_bytes(payload[:2], "big")


def masked(opcode, payload=b"", fin=True, mask=b"\x12\x34\x56\x78", reserved=0):
    n = len(payload)
    head = bytes([(0x80 if fin else 0) | reserved | opcode])
    head += (bytes([0x80 | n]) if n < 126 else b"\xfe" + n.to_bytes(2, "big") if n < 65536
             else b"\xff" + n.to_bytes(8, "big"))
    key = (mask * (n // 4 + 1))[:n]
    return head + mask + (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")
