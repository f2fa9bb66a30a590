"""JSON as the gateway writes it, and nothing else: one value, no key twice, no NaN."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Tuple

from .errors import ProtocolError


def _object(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key twice")
    return value


def _constant(name: str) -> Any:
    raise ValueError(name)


def loads(text: bytes) -> Any:
    """The value of one JSON text; ProtocolError if it is none."""
    try:
        # strict UTF-8, and digits enough for any integer that the gateway writes
        return json.loads(text.decode("utf-8"), object_pairs_hook=_object,
                          parse_constant=_constant)
    except (ValueError, RecursionError):
        raise ProtocolError("an answer that is no JSON") from None


def dumps(value: Any) -> str:
    """One JSON text; ValueError or TypeError if `value` has none."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
