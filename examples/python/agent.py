#!/usr/bin/python3
"""Counts the words of every file in a directory: a runtime in a dozen lines.

    cp worker/sdk/caisson.py examples/python/
    caisson run --app examples/python --allow list:docs --allow read:docs \\
        -m '{"path": "docs"}' -- python3 /app/agent.py
"""

import caisson


def run(turn):
    path = turn.message["path"]
    listing = turn.invoke("files.list", {"path": path})
    names = [e["name"] for e in listing["entries"] if e["type"] == "file"]
    calls = {name: turn.start("files.read", {"path": f"{path}/{name}"}) for name in names}
    words, denied = {}, {}
    for name, call in calls.items():  # all are in flight already
        try:
            words[name] = len(call.result().get("text", "").split())
        except caisson.ToolDenied as e:
            denied[name] = e.code
    turn.annotate("files", len(names))
    return {"words": words, "denied": denied, "complete": listing["complete"]}


if __name__ == "__main__":
    caisson.serve(run)
