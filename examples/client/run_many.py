#!/usr/bin/env python3
"""Runs many shell lines at once, each in a sandbox of its own, in one loop of asyncio's.

    CAISSON_TOKEN=... python3 run_many.py https://localhost:8443 --cafile server.pem 'seq 3' 'uname -a'
    python3 run_many.py http+unix:///run/user/1000/caisson/http.sock --timeout 5 'sleep 60' 'echo hi'

Needs caisson_client: pip install /usr/local/share/caisson/python, or PYTHONPATH=client/python.
What is not done within --timeout seconds, or when Ctrl-C comes, is canceled there, too.
"""

import argparse
import asyncio
import os
import sys

from caisson_client import CaissonError, Failed, Output
from caisson_client.aio import Client


async def show(number, session, line):
    """Writes what comes of the line; returns its exit status."""
    await session.send(shell=line)
    async for event in session.receive():
        if isinstance(event, Output):
            for text in event.data.decode(errors="replace").splitlines():
                print(f"{number}: {text}", flush=True)
        elif isinstance(event, Failed):
            print(f"{number}: {event.code}: {event.message}", file=sys.stderr)
    return 1 if event.exit_code is None else event.exit_code


async def run(client, runtime, number, line):
    try:
        async with client.acquire(runtime, lease=60) as sandbox:
            try:
                async with sandbox.open() as session:
                    return await show(number, session, line)
            except asyncio.CancelledError:
                # Leaving a session only detaches: what was admitted would go on.
                await sandbox.release(immediate=True)
                raise
    except CaissonError as e:
        print(f"{number}: {e}", file=sys.stderr)
        return 125


async def run_all(options):
    async with Client(options.url, token=os.environ.get("CAISSON_TOKEN"),
                      cafile=options.cafile) as client:
        tasks = [asyncio.create_task(run(client, options.runtime, number, line))
                 for number, line in enumerate(options.line, 1)]
        try:
            await asyncio.wait(tasks, timeout=options.timeout)
        finally:
            # Ctrl-C comes here, too, and each task has its sandbox to release.
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for number, result in enumerate(results, 1):
            if isinstance(result, asyncio.CancelledError):
                print(f"{number}: not done in time", file=sys.stderr)
        return max(124 if isinstance(r, asyncio.CancelledError) else r for r in results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("url")
    parser.add_argument("line", nargs="+")
    parser.add_argument("--runtime", default="shell")
    parser.add_argument("--cafile")
    parser.add_argument("--timeout", type=float)
    options = parser.parse_args()
    try:
        return asyncio.run(run_all(options))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
