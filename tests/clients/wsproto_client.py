"""A client by python3-wsproto, which is a protocol without a socket: this has that."""

import json
import os
import select
import socket
import ssl
import sys
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (AcceptConnection, BytesMessage, CloseConnection, Ping, RejectConnection,
                            Request, TextMessage)


def say(*values):
    print(json.dumps(values), flush=True)


class Client:
    def __init__(self, o):
        url = urlsplit(o["url"])
        self.sock = socket.create_connection((url.hostname, url.port))
        if url.scheme == "wss":
            context = ssl.create_default_context(cafile=o["ca"])
            if o.get("certificate"):
                context.load_cert_chain(o["certificate"], o["key"])
            self.sock = context.wrap_socket(self.sock, server_hostname=url.hostname)
        self.ws, self.parts = WSConnection(ConnectionType.CLIENT), []
        self.send(Request(host=url.netloc, target=url.path, subprotocols=o["subprotocols"],
                          extra_headers=[(n.encode(), v.encode()) for n, v in o["headers"].items()]))

    def send(self, event):
        self.sock.sendall(self.ws.send(event))

    def on_event(self, e):
        """False at the end."""
        if isinstance(e, AcceptConnection):
            say("open", e.subprotocol)
        elif isinstance(e, RejectConnection):
            say("refused", e.status_code)
            return False
        elif isinstance(e, TextMessage):
            self.parts.append(e.data)
            if e.message_finished:
                say("text", "".join(self.parts))
                self.parts = []
        elif isinstance(e, Ping):
            say("ping")
            self.send(e.response())
        elif isinstance(e, CloseConnection):
            say("close", int(e.code), e.reason or "")
            if self.ws.state.name != "CLOSED":
                self.send(e.response())
            return False
        return True

    def on_line(self, line):
        what, value = json.loads(line)
        if what == "text":
            self.send(TextMessage(data=value))
        elif what == "binary":
            self.send(BytesMessage(data=bytes.fromhex(value)))
        elif what == "close":
            self.send(CloseConnection(code=value))

    def run(self):
        lines = b""
        while True:
            readable = select.select([self.sock, 0], [], [])[0]
            if self.sock in readable:
                data = self.sock.recv(1 << 16)
                self.ws.receive_data(data or None)
                for event in self.ws.events():
                    if not self.on_event(event):
                        return
            if 0 in readable:
                lines += os.read(0, 1 << 21)
                *whole, lines = lines.split(b"\n")
                for line in whole:
                    self.on_line(line)


Client(json.loads(os.environ["CLIENT"])).run()
