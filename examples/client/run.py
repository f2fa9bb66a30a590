#!/usr/bin/env python3
"""Runs a shell line in a sandbox of a gateway's, with its output as it comes.

    CAISSON_TOKEN=... python3 run.py https://localhost:8443 --cafile server.pem 'uname -a'
    python3 run.py http+unix:///run/user/1000/caisson/http.sock 'seq 3; exit 4'

Needs caisson_client: pip install /usr/local/share/caisson/python, or PYTHONPATH=client/python.
A connection that is lost is taken up where it ended; what was sent is never sent again.
"""

import argparse
import os
import sys

from caisson_client import CaissonError, Client, Failed, Gap, Output, TransportError, follow


def show(events):
    """Writes output where it belongs; returns the exit status that the operation comes to."""
    status = 1
    for event in events:
        if isinstance(event, Output):
            stream = sys.stdout if event.stream == "stdout" else sys.stderr
            stream.buffer.write(event.data)
            stream.flush()
        elif isinstance(event, Gap):
            print(f"[events {event.first} to {event.last} are lost]", file=sys.stderr)
        elif isinstance(event, Failed):
            print(f"{event.code}: {event.message}", file=sys.stderr)
        if event.terminal and event.exit_code is not None:
            status = event.exit_code
    return status


def run(sandbox, line):
    with sandbox.open() as session:
        operation = session.send(shell=line)
        try:
            return show(session.receive())
        except TransportError as lost:
            after = lost.sequence
    return show(follow(sandbox, operation, after))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("line")
    parser.add_argument("--runtime", default="shell")
    parser.add_argument("--cafile")
    options = parser.parse_args()
    try:
        with Client(options.url, token=os.environ.get("CAISSON_TOKEN"),
                    cafile=options.cafile) as client, \
                client.acquire(options.runtime, lease=60) as sandbox:
            return run(sandbox, options.line)
    except CaissonError as e:
        print(f"run.py: {e}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())
