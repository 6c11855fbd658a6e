"""Brings values of two runs into a normal form where equal means the same.

Times, which differ from run to run, become `<time>`. Ids that a run generates become the role of their message (`<patch
default/podpatch/nginx #2>`). JSON inside a string, as in patches, is decoded.
"""

import re
from collections import Counter
from typing import Any, Final

import msgspec

from beehive.decoding import decode_json

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_NOT_IN_THE_TRACE: Final = frozenset({"dns_config", "masked_paths"})
"""Keys of CRI requests that depend on files of the machine, which no trace has (resolv.conf, processors)."""

_MILLISECONDS: Final = 10**12
"""A `timestamp` above which it is a time in milliseconds since the epoch."""
_PAST: Final = re.compile(r"^\d{13}(?= )", re.MULTILINE)
"""The times in the history of a device's property (`modules.edge.devicetwin.past`)."""

_OF_DEVICES: Final = frozenset({"event_id", "timestamp"})
"""Fields with the id and the time, in milliseconds, of devicetwin's messages."""


def normalize(value: Any) -> Any:
    """Return a JSON value in normal form."""
    if isinstance(value, dict):
        value = (
            {**value, **dict.fromkeys(_OF_DEVICES & value.keys(), "<of the message>")} if "event_id" in value else value
        )
        return {key: _field(key, item) for key, item in sorted(value.items()) if key not in _NOT_IN_THE_TRACE}
    if isinstance(value, list):
        return [normalize(item) for item in value]
    return _text(value) if isinstance(value, str) else value


def lines(value: Any) -> list[str]:
    """Return a JSON value in normal form as lines `path: value`, for a comparison by line."""
    return list(_lines(normalize(value), ""))


class Ids:
    """The names of message ids, by the role of their message.

    Args:
        given: ids from outside of the replayed part; they are equal in both runs and are kept.
    """

    def __init__(self, given: frozenset[str]) -> None:
        self._given = given
        self._names: dict[str, str] = {}
        self._seen: Counter[str] = Counter()

    def name(self, key: str) -> str:
        """Return the name of an id."""
        return key if key in self._given else self._names.get(key, "<an id of its own>" if key else "")

    def add(self, key: str, what: str) -> None:
        """Record that a message with this id was sent; `what` is its operation and resource."""
        if key not in self._given and key not in self._names:
            self._seen[what] += 1
            self._names[key] = f"<{what} #{self._seen[what]}>"


def _field(key: str, value: Any) -> Any:
    if key == "timestamp" and isinstance(value, int) and value >= _MILLISECONDS:
        return "<time>"
    return _PAST.sub("<time>", value) if key.startswith("past") and isinstance(value, str) else normalize(value)


def _text(text: str) -> Any:
    if text[:1] in "{[" and text:
        try:
            return {"(JSON)": normalize(decode_json(text))}
        except (msgspec.DecodeError, RecursionError):
            pass
    return _TIME.sub("<time>", text) if "T" in text else text


def _lines(value: Any, path: str) -> "list[str]":
    if isinstance(value, dict) and value:
        return [line for key, item in value.items() for line in _lines(item, f"{path}.{key}" if path else key)]
    if isinstance(value, list) and value:
        return [line for at, item in enumerate(value) for line in _lines(item, f"{path}[{at}]")]
    return [f"{path}: {msgspec.json.encode(value).decode()}" if path else msgspec.json.encode(value).decode()]
