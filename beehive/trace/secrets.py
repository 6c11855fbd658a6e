"""What must not be seen in a trace, as far as the running process knows it.

Bodies of secrets are found by their form (`beehive.trace.redact`). But a secret goes on as something else: in the
environment and the arguments of a container, in what it prints before it ends, in an error. So every value that came
as a secret is learnt where it enters, and is found again wherever it turns up.
"""

import base64
import threading
from collections import OrderedDict
from typing import Final, NamedTuple

import msgspec

SHORTEST: Final = 6
"""Bytes below which a value is not looked for inside of other text: `true` and `root` would be found everywhere. Where
it stands as a secret's own value, or as the whole of a variable, it is redacted all the same."""

LONGEST: Final = 64 * 1024
"""Bytes above which a value is not looked for: it is a file and no password."""

CAPACITY: Final = 4096
"""Values that are remembered; the one that was met longest ago is forgotten."""


class Known(NamedTuple):
    """A value and the forms in which it may stand in a text."""

    value: bytes
    forms: tuple[bytes, ...]


class KnownSecrets:
    """The values. Used by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Known] = OrderedDict()
        self._sorted: tuple[Known, ...] | None = ()
        self._short: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, value: bytes) -> None:
        """Remember a value; with it, its text without the white space around it."""
        for one in {value, value.strip()}:
            if SHORTEST <= len(one) <= LONGEST:
                self._learn(one)
            elif one and len(one) < SHORTEST and len(self._short) < CAPACITY:
                self._short.add(one)

    def is_short(self, value: bytes) -> bool:
        """Whether it is a secret that is too short to be looked for inside of other text."""
        return value in self._short

    def known(self) -> tuple[Known, ...]:
        """The values, the longest first, so that one that holds another is found whole."""
        known = self._sorted
        if known is None:
            with self._lock:
                known = tuple(sorted(self._known.values(), key=lambda one: -len(one.value)))
                self._sorted = known
        return known

    def _learn(self, value: bytes) -> None:
        with self._lock:
            if value in self._known:
                self._known.move_to_end(value)
                return
            self._known[value] = Known(value, _forms(value))
            if len(self._known) > CAPACITY:
                self._known.popitem(last=False)
            self._sorted = None


def _forms(value: bytes) -> tuple[bytes, ...]:
    """As it is, as JSON writes it, and in base64, padded or not."""
    escaped = msgspec.json.encode(value.decode("utf-8", "replace"))[1:-1]
    encoded = base64.b64encode(value)
    return tuple(dict.fromkeys((value, escaped, encoded, encoded.rstrip(b"="))))
