"""A scripted gateway for the Python client: real sockets, and answers that a test writes."""

import base64
import hashlib
import json
import pathlib
import socket
import ssl
import struct
import sys
import threading
import urllib.parse

import wire

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "client" / "python"
sys.path.insert(0, str(PACKAGE))
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def server_frame(opcode, payload=b"", fin=True, first=None):
    """One frame as a server sends it."""
    n = len(payload)
    head = bytes([(0x80 if fin else 0) | opcode if first is None else first])
    if n < 126:
        return head + bytes([n]) + payload
    if n < 1 << 16:
        return head + bytes([126]) + struct.pack("!H", n) + payload
    return head + bytes([127]) + struct.pack("!Q", n) + payload


def event(sequence, kind, /, **body):
    return {"sequence": sequence, "type": kind, kind: body}


def output(sequence, data, stream="stdout"):
    return event(sequence, "output", stream=stream, data=base64.b64encode(data).decode())


def accepted(operation="op-1"):
    return event(1, "accepted", operationID=operation)


def completed(sequence, code=0):
    return event(sequence, "completed", command={"exitCode": code, "timedOut": False})


def text(value):
    """A frame of JSON."""
    return server_frame(1, json.dumps(value).encode())


class Hung(Exception):
    """The client closed the connection."""


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.headers, self.body = method, headers, body
        path, _, query = target.partition("?")
        self.path = path
        self.query = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def json(self):
        return json.loads(self.body)


class Connection:
    """One connection of a client's, as the script sees it."""

    def __init__(self, sock):
        self.sock = sock
        self._data = b""

    def _more(self):
        data = self.sock.recv(1 << 16)
        if not data:
            raise Hung
        self._data += data

    def _take(self, n):
        while len(self._data) < n:
            self._more()
        data, self._data = self._data[:n], self._data[n:]
        return data

    def request(self):
        """The next request; Hung at the end."""
        while b"\r\n\r\n" not in self._data:
            self._more()
        head, self._data = self._data.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {}
        for line in lines:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, name
            headers[name.lower()] = value
        return Request(method, target, headers,
                       self._take(int(headers.get("content-length", 0))))

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError:
            raise Hung from None

    def answer(self, status, body=None, raw=None, **headers):
        content = json.dumps(body).encode() if raw is None else raw
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n"
        for name, value in headers.items():
            head += f"{name.replace('_', '-')}: {value}\r\n"
        self.send(head.encode() + b"\r\n" + content)

    def refuse(self, status, code, message="no", **headers):
        self.answer(status, {"error": {"code": code, "message": message}}, **headers)

    def upgrade(self):
        """Accepts the WebSocket that is asked for; its request."""
        request = self.request()
        assert request.headers["upgrade"] == "websocket", request.headers
        key = request.headers["sec-websocket-key"].encode()
        answer = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        self.send(f"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  f"Sec-WebSocket-Accept: {answer}\r\n\r\n".encode())
        return request

    def frame(self):
        """The next frame of the client's: (opcode, payload)."""
        first, second = self._take(2)
        assert first & 0x80 and not first & 0x70 and second & 0x80, (first, second)
        n = second & 0x7F
        if n >= 126:
            n = int.from_bytes(self._take(2 if n == 126 else 8), "big")
        mask = self._take(4)
        data = self._take(n)
        return first & 0x0F, bytes(b ^ mask[i % 4] for i, b in enumerate(data))

    def json(self):
        """The next text that is no heartbeat."""
        while True:
            opcode, payload = self.frame()
            assert opcode == 1, (opcode, payload)
            value = json.loads(payload)
            if value != {"type": "heartbeat"}:
                return value

    def say(self, *values):
        self.send(b"".join(map(text, values)))

    def hang_up(self):
        """Waits until the client closes; the code of its close frame, None without one."""
        code = None
        try:
            while True:
                opcode, payload = self.frame()
                if opcode == 8:
                    code = int.from_bytes(payload[:2], "big")
        except (Hung, OSError):
            return code


class Gateway:
    """Serves each connection, in turn of their coming, with the next of its scripts on a thread;
    the last script serves all that follow.  What a script raises fails the test in close()."""

    def __init__(self, *scripts, path=None, tls=None):
        if path is None:
            self.sock = socket.create_server(("127.0.0.1", 0))
            self.url = f"{'https' if tls else 'http'}://localhost:{self.sock.getsockname()[1]}" \
                if tls else f"http://127.0.0.1:{self.sock.getsockname()[1]}"
        else:
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.bind(str(path))
            self.sock.listen()
            self.url = f"http+unix://{path}"
        self.scripts, self.tls = list(scripts), tls
        self.connections = 0
        self.faults, self.threads, self.open = [], [], []
        self.listener = threading.Thread(target=self._accept)
        self.listener.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            script = self.scripts[min(self.connections, len(self.scripts) - 1)]
            self.connections += 1
            sock.settimeout(wire.TIMEOUT)
            thread = threading.Thread(target=self._serve, args=(sock, script))
            self.threads.append(thread)
            self.open.append(sock)
            thread.start()

    def _serve(self, sock, script):
        try:
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_side=True)
            script(Connection(sock))
        except (Hung, ssl.SSLError, ConnectionError):
            pass
        except BaseException as e:  # of the test's thread
            self.faults.append(e)
        finally:
            sock.close()

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        self.listener.join()
        for sock in self.open:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join()
        if self.faults:
            raise self.faults[0]
