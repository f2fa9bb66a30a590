"""The tools that tests/integration/test_sdk_provider.py calls, in Python."""

import os
import sys

import caisson_provider

tools = caisson_provider.Provider(concurrency=4, name="table")


@tools.tool("t.echo")
def echo(call):
    return {"tool": call.tool, "arguments": call.arguments, "action": call.action,
            "namespace": call.namespace, "path": call.path}


@tools.tool("t.fail")
def fail(call):
    raise caisson_provider.Fail("not_found", "there is none", retryable=True)


@tools.tool("t.crash")
def crash(call):
    raise RuntimeError(call.arguments["secret"])


@tools.tool("t.wait")
def wait(call):
    call.cancelled.wait()
    return "stopped"


@tools.tool("t.big")
def big(call):
    return "x" * (800 << 10)


@tools.tool("t.deep")
def deep(call):
    value = []
    for _ in range(28):
        value = [value]
    return value


@tools.tool("t.print")
def say(call):
    print("to standard output", flush=True)
    os.write(1, b"\xff\x00\x01")
    print("to standard error", file=sys.stderr, flush=True)
    return "said"


@tools.tool("t.mine")
def mine(call):
    return call.resource("path")


tools.serve()
