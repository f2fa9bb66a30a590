#!/usr/bin/python3
"""Notes in an SQLite file: three tools of one's own.

Which action on which note a call needs stands in ../notes.yaml; who may, in its grants.  The
broker has decided that before a call comes here, and `call.resource()` holds the arguments to
it: note a/b is the resource notes:a/b.
"""

import sqlite3
import threading

import caisson_provider
from caisson_provider import Fail

tools = caisson_provider.Provider(concurrency=4)
lock = threading.Lock()  # one connection, used by whoever holds it
db = sqlite3.connect("/notes/notes.db", check_same_thread=False, isolation_level=None)
db.execute("CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, text TEXT NOT NULL)")


@tools.tool("notes.put")
def put(call):
    name = "/".join(call.resource("name"))
    with lock:
        db.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, call.arguments["text"]))
    return {"name": name}


@tools.tool("notes.get")
def get(call):
    name = "/".join(call.resource("name"))
    with lock:
        row = db.execute("SELECT text FROM note WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise Fail("not_found", "there is no such note")
    return {"name": name, "text": row[0]}


@tools.tool("notes.find")
def find(call):
    """Notes beneath a name that have all the words; at most 100."""
    under = "".join(f"{segment}/" for segment in call.resource("under"))
    found, words = [], call.arguments.get("words", "").split()
    with lock:
        rows = db.execute("SELECT name, text FROM note WHERE substr(name, 1, ?) = ? ORDER BY name",
                          (len(under), under))
        for name, text in rows:
            if call.cancelled.is_set() or len(found) == 100:
                break
            if all(word in text for word in words):
                found.append(name)
    return {"names": found}


if __name__ == "__main__":
    tools.serve()
