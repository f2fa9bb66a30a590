"""The provider of the conformance rows: a store of texts, and tools that misbehave.

Its store begins with a text in each place that a row reads; it keeps what is written for as long
as its session lives.
"""

import os
import socket

import wire


class Store(dict):
    def __missing__(self, path):
        return f"text of {path}"


def main():
    link = wire.Peer(socket.socket(fileno=int(os.environ["CAISSON_LINK_FD"])))
    link.hello("rows")
    store, snapshots = Store(), []
    while True:
        try:
            m = link.receive(timeout=600)
        except wire.Closed:
            return
        if m[0] != 0:
            continue
        p = m[3][0]
        path, given = "/".join(p["path"]), p["arguments"]
        call, output = p["call"], None
        verb = p["tool"].partition(".")[2]
        if verb in ("read", "fetch"):
            output = {"path": path, "text": store[path]}
        elif verb in ("write", "append"):
            store[path] = given["text"] if verb == "write" else store[path] + given["text"]
        elif verb == "create":
            snapshots.append(dict(store))
            output = len(snapshots)
        elif verb == "list":
            output = len(snapshots)
        elif verb == "restore":
            store[path] = (snapshots[-1] if snapshots else {}).get(path, "")
        elif verb == "misdeliver":
            call = "the-call-of-another"
        link.reply(m[1], callId=call, status="succeeded", output=output)


if __name__ == "__main__":
    main()
