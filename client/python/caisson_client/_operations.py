"""What can be submitted in a session: one signature each, for sessions of every kind."""

from __future__ import annotations

import base64
from typing import Any, Dict, Generic, List, Optional, Sequence, TypeVar, Union

from .errors import UsageError

Bytes = Union[bytes, bytearray, memoryview, str]
Id = TypeVar("Id")  # an operation's id, or what can be awaited for it


def _base64(data: Bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else bytes(data)).decode()


class Operations(Generic[Id]):
    def _send(self, name: str, payload: Dict[str, Any], idempotency_key: Optional[str] = None,
              traceparent: Optional[str] = None) -> Id:
        raise NotImplementedError

    def send(self, *, command: Optional[Sequence[str]] = None, shell: Optional[str] = None,
             turn: Any = None, directory: Optional[str] = None,
             env: Optional[Dict[str, str]] = None, stdin: Optional[Bytes] = None,
             timeout: Optional[float] = None, max_steps: Optional[int] = None,
             max_tool_calls: Optional[int] = None, tools: Optional[List[str]] = None,
             namespaces: Optional[List[str]] = None, purpose: Optional[str] = None,
             state: Any = None, metadata: Optional[Dict[str, Any]] = None,
             idempotency_key: Optional[str] = None, traceparent: Optional[str] = None) -> Id:
        """Submits one operation and returns its id, once it is admitted and on record (OP-24):
        a `command` (its arguments), a line for the `shell`, or a `turn` (its message).

        The same `idempotency_key` again attaches to the operation that exists: that is how to
        ask again after a TransportError.
        """
        kinds = {"command": command, "shell": shell, "turn": turn}
        given = [name for name, value in kinds.items() if value is not None]
        if len(given) != 1:
            raise UsageError("expected exactly one of command, shell and turn")
        if isinstance(command, str):
            raise UsageError("command: expected its arguments; a line is for shell")
        of_turn = {"maxSteps": max_steps, "maxToolCalls": max_tool_calls, "tools": tools,
                   "namespaces": namespaces, "purpose": purpose, "state": state,
                   "metadata": metadata}
        of_command = {"directory": directory, "env": env,
                      "stdin": None if stdin is None else _base64(stdin)}
        other = of_command if turn is not None else of_turn
        wrong = [name for name, value in other.items() if value is not None]
        if wrong:
            raise UsageError(f"{wrong[0]}: not with {given[0]}")
        if turn is not None:
            name, payload = "turn", {"message": turn, **of_turn}
        else:
            name, payload = "command", {"argv": command and list(command), "shell": shell,
                                        **of_command}
        payload["timeoutMs"] = None if timeout is None else round(timeout * 1000)
        return self._send(name, payload, idempotency_key, traceparent)

    def write_file(self, path: str, data: Bytes, append: bool = False, **key: str) -> Id:
        """A file of the workspace, whole, or what comes behind its end.  Submits it, as `send`
        does, as all of these do."""
        return self._send("writeFile", {"path": path, "data": _base64(data),
                                        "append": append or None}, **key)

    def create_directory(self, path: str, recursive: bool = False, **key: str) -> Id:
        """With `recursive` those above it too."""
        return self._send("createDirectory", {"path": path, "recursive": recursive or None}, **key)

    def delete_file(self, path: str, recursive: bool = False, **key: str) -> Id:
        """A file, or an empty directory, or with `recursive` one with what is in it."""
        return self._send("deleteFile", {"path": path, "recursive": recursive or None}, **key)

    def rename_file(self, path: str, to: str, **key: str) -> Id:
        return self._send("renameFile", {"from": path, "to": to}, **key)
