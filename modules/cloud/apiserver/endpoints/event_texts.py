"""The texts of events of watches, which many clients get at the same time."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject

MOST_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the texts that are kept."""
KEPT_SECONDS: Final = 10.0
"""Seconds that a text is kept: clients that keep up ask within a few."""


class _Kept(NamedTuple):
    """A text, with its object, so that no other one gets the object's identity."""

    obj: JsonObject
    text: bytes
    since: float


class EventTexts:
    """The latest texts of objects: clients that get the same event get the same bytes. Thread-safe.

    Args:
        most: bytes that are kept.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._texts: OrderedDict[tuple[int, Hashable], _Kept] = OrderedDict()
        """By the object's identity and the form, the oldest first."""
        self._bytes = 0

    def text(self, obj: JsonObject, form: Hashable, encode: Callable[[], bytes], now: float) -> bytes:
        """Return the text of an object, which nobody changes, in a form.

        Args:
            obj: the object.
            form: whatever the text depends on beside the object.
            encode: makes the text.
            now: monotonic seconds.
        """
        key = id(obj), form
        with self._lock:
            found = self._texts.get(key)
            if found is not None:
                return found.text
        made = _Kept(obj, encode(), now)
        with self._lock:
            kept = self._texts.setdefault(key, made)
            if kept is made:
                self._bytes += len(made.text)
                self._drop(now - KEPT_SECONDS)
            return kept.text

    def _drop(self, before: float) -> None:
        """Drop the texts from before, and the oldest ones above the bound."""
        while self._texts:
            oldest = next(iter(self._texts.values()))
            if self._bytes <= self._most and oldest.since >= before:
                return
            self._texts.popitem(last=False)
            self._bytes -= len(oldest.text)
