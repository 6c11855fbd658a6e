"""The bound of nesting for JSON that others send.

A decoder without it is bounded by the interpreter: at about 1,000 levels, less the calls that are under way, in Python
3.11, and at some thousands from 3.12 on, where whatever goes through the decoded value fails instead.
"""

import json
from collections.abc import Callable
from itertools import accumulate
from typing import Any, Final

LEVELS: Final = 256
"""Levels of lists and objects in a JSON text. Objects of Kubernetes have about 20, a schema of 40 levels has 90."""

_OTHERS: Final = bytes(set(range(256)) - set(b'[]{}"'))
_PART: Final = LEVELS // 2
"""Brackets that are only counted, and looked at one by one where so many could open too many levels."""
_STEPS: Final = [(byte in b"[{") - (byte in b"]}") for byte in range(256)]


class NestingError(RecursionError, ValueError):
    """A JSON text is nested more than `LEVELS` levels deep; a decoder without the bound raises RecursionError."""


def check_nesting(
    text: bytes | bytearray | str, error: type[NestingError] = NestingError, levels: int = LEVELS
) -> None:
    """Raise `error` for a JSON text with more levels. Whether the text is JSON is for the decoder to say.

    A text with few brackets costs no more than to count them; a list of 7 MB a quarter of its decoding.
    """
    if len(text) <= levels:
        return
    if isinstance(text, str):
        if text.count("[") + text.count("{") <= levels:
            return
        text = text.encode("utf-8", "surrogatepass")
    elif text.count(b"[") + text.count(b"{") <= levels:
        return
    brackets, level = _brackets(text), 0
    for start in range(0, len(brackets), _PART):
        part = brackets[start : start + _PART]
        opened = part.count(b"[") + part.count(b"{")
        if level + opened > levels and max(accumulate(map(_STEPS.__getitem__, part), initial=level)) > levels:
            raise error(f"JSON is nested more than {levels} levels deep")
        level += 2 * opened - len(part)


def is_nested_deeper(value: Any, levels: int) -> bool:
    """Return whether a JSON value has more levels of lists and objects. It does not recurse."""
    inner = [value] if isinstance(value, dict | list) else []
    for _ in range(levels):
        if not inner:
            return False
        inner = [
            member
            for each in inner
            for member in (each.values() if isinstance(each, dict) else each)
            if isinstance(member, dict | list)
        ]
    return bool(inner)


def _brackets(text: bytes | bytearray) -> bytes | bytearray:
    """Return the brackets of a JSON text, without those in its texts."""
    if b'\\"' in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.translate(None, _OTHERS).replace(b'""', b"").split(b'"')[::2])


def _no_number(name: str) -> float:
    """Refuse NaN and Infinity, which only Python reads."""
    raise json.JSONDecodeError("Expecting value", name, name.startswith("-"))


def read_json(text: bytes | str, object_pairs_hook: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Return the value of a JSON text, by Python's decoder: where msgspec is not loaded, or its answer is not enough.

    Raises:
        ValueError: the text is not JSON (`json.JSONDecodeError`), not Unicode, or nested too deeply.
    """
    if not isinstance(text, str):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    check_nesting(text)
    return json.loads(text, object_pairs_hook=object_pairs_hook, parse_constant=_no_number)
