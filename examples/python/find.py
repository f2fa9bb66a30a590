#!/usr/bin/python3
"""Looks for a word in the files of a directory: a driver of the standard loop.

    caisson run --app examples/python --ro worker/sdk:/sdk --env PYTHONPATH=/sdk --max-steps 100 \\
        --allow list:docs --allow read:docs -m '{"path": "docs", "word": "drain"}' \\
        -- python3 /app/find.py

What it may not read it asks a person for, where it may ask; that ends the turn.
"""

import caisson_loop as loop


class Finder:
    def __init__(self, turn):
        self.path, self.word = turn.message["path"], turn.message["word"]
        self.last, self.left = None, []  # the call that was made last; files still to be read

    def call(self, tool, path):
        self.last = {"tool": tool, "arguments": {"path": path}}
        return loop.call(**self.last)

    def decide(self, given):
        if given["type"] == "start":
            return self.call("files.list", self.path)
        result = given["result"]
        if result["status"] == "denied" and result["tool"] != loop.ESCALATE:
            return loop.call(loop.ESCALATE, {"reason": f"it may hold {self.word!r}",
                                             "request": self.last})
        if result["status"] != "succeeded":
            return loop.fail(result["error"]["code"], f"no {self.last['arguments']['path']}")
        if result["tool"] == "files.list":
            entries = result["output"]["entries"]
            self.left = [entry["name"] for entry in entries if entry["type"] == "file"]
        elif self.word in result["output"].get("text", ""):
            return loop.complete({"found": self.last["arguments"]["path"]})
        if not self.left:
            return loop.complete({"found": None})
        return self.call("files.read", f"{self.path}/{self.left.pop(0)}")


if __name__ == "__main__":
    loop.serve(Finder)
