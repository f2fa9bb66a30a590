#!/usr/bin/python3
"""Counts the words of every file in a directory: a runtime in twenty lines.

    caisson run --app examples/python --ro worker/sdk:/sdk --env PYTHONPATH=/sdk \\
        --allow list:docs --allow read:docs -m '{"path": "docs"}' -- python3 /app/agent.py
"""

import caisson


def run(turn):
    path = turn.message["path"]
    try:
        listing = turn.invoke("files.list", {"path": path})
    except caisson.ToolDenied as e:
        raise caisson.Fail(e.code, f"{path} may not be listed") from None
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
