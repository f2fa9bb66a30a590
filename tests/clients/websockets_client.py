"""A client by python3-websockets; what all of these speak with their test: clients/README.md."""

import asyncio
import json
import os
import ssl
import sys

sys.path.pop(0)  # nothing of this folder
import websockets  # noqa: E402


def say(*values):
    print(json.dumps(values), flush=True)


async def receive(ws):
    try:
        async for message in ws:
            say("text", message)
    except websockets.ConnectionClosed:
        pass
    say("close", ws.close_code, ws.close_reason)


async def main(o):
    more = {}
    if o["url"].startswith("wss:"):
        more["ssl"] = ssl.create_default_context(cafile=o["ca"])
        if o.get("certificate"):
            more["ssl"].load_cert_chain(o["certificate"], o["key"])
    try:
        ws = await websockets.connect(o["url"], extra_headers=o["headers"], max_size=None,
                                      subprotocols=o["subprotocols"] or None, **more)
    except websockets.InvalidStatusCode as e:
        say("refused", e.status_code)
        return
    say("open", ws.subprotocol)
    reader = asyncio.create_task(receive(ws))
    while True:
        line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        if not line:
            break
        what, value = json.loads(line)
        if what == "text":
            await ws.send(value)
        elif what == "binary":
            await ws.send(bytes.fromhex(value))
        elif what == "close":
            await ws.close(value)
    await reader


asyncio.run(main(json.loads(os.environ["CLIENT"])))
