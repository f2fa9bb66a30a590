#!/usr/bin/python3
"""A runtime without the SDK, from docs/PROTOCOL.md alone: reads one file.

    caisson run --app examples/python --allow read:docs -m '"docs/a.txt"' \\
        -- python3 /app/raw.py
"""

import os

FD = int(os.environ["CAISSON_LINK_FD"])


def pack(v):
    """The shortest MessagePack of what this program sends: None, bool, int >= 0, str, list, dict."""
    if v is None or isinstance(v, bool):
        return bytes([0xC0 if v is None else 0xC2 + v])
    if isinstance(v, int):
        return head(v, 0x00, 128, ((0xCC, 1), (0xCD, 2), (0xCE, 4), (0xCF, 8)))
    if isinstance(v, str):
        data = v.encode()
        return head(len(data), 0xA0, 32, ((0xD9, 1), (0xDA, 2), (0xDB, 4))) + data
    if isinstance(v, list):
        return head(len(v), 0x90, 16, ((0xDC, 2),)) + b"".join(map(pack, v))
    pairs = [pack(k) + pack(x) for k, x in v.items()]
    return head(len(v), 0x80, 16, ((0xDE, 2),)) + b"".join(pairs)


def head(n, fix, most, wider):
    if n < most:
        return bytes([fix | n])
    tag, width = next((t, w) for t, w in wider if n < 1 << 8 * w)
    return bytes([tag]) + n.to_bytes(width, "big")


def unpack(p, at=0):
    """(value, where it ends) of what the broker sends, which is well-formed."""
    b, at = p[at], at + 1
    if b <= 0x7F or b >= 0xE0:
        return (b if b <= 0x7F else b - 256), at
    if b in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[b], at
    if b <= 0xBF:
        kind, n = "map" if b <= 0x8F else "array" if b <= 0x9F else "str", b & 0x1F
        n &= 0x0F if kind != "str" else 0x1F
    else:
        kind, width = {0xC4: ("bin", 1), 0xC5: ("bin", 2), 0xC6: ("bin", 4), 0xCC: ("int", 1),
                       0xCD: ("int", 2), 0xCE: ("int", 4), 0xCF: ("int", 8), 0xD9: ("str", 1),
                       0xDA: ("str", 2), 0xDB: ("str", 4), 0xDC: ("array", 2),
                       0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4)}[b]
        n, at = int.from_bytes(p[at:at + width], "big"), at + width
    if kind == "int":
        return n, at
    if kind in ("str", "bin"):
        return (p[at:at + n].decode() if kind == "str" else p[at:at + n]), at + n
    items = []
    for _ in range(2 * n if kind == "map" else n):
        item, at = unpack(p, at)
        items.append(item)
    return (items if kind == "array" else dict(zip(items[::2], items[1::2]))), at


def send(*message):
    data = pack(list(message))
    os.write(FD, len(data).to_bytes(4, "big") + data)


LINK = os.fdopen(os.dup(FD), "rb")
send(0, 1, "hello", [{"protocol": 4}])
while size := LINK.read(4):
    message, _ = unpack(LINK.read(int.from_bytes(size, "big")))
    if message[0] == 0:  # operation.run
        run = message
        operation = run[3][0]["operation"]
        send(0, 2, "tool.invoke", [{"operation": operation, "id": "c1", "tool": "files.read",
                                    "arguments": {"path": run[3][0]["message"]}}])
    elif message[:2] == [1, 2]:  # its result
        result = message[3]
        send(1, run[1], None, {"status": "complete",
                               "output": result.get("error") or result["output"]["size"]})
