#!/usr/bin/python3
"""Makes the calls that its message lists, [tool, arguments] each, one after the other."""

import caisson


def run(turn):
    results = []
    for tool, arguments in turn.message:
        try:
            results.append(turn.invoke(tool, arguments))
        except (caisson.ToolDenied, caisson.ToolFailed) as e:
            results.append(e.code)
    return results


if __name__ == "__main__":
    caisson.serve(run)
