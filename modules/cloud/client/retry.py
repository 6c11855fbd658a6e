"""When a request that failed is sent again."""

import random
from typing import Final

from beehive.backoff import Backoff
from modules.cloud.client.transport import ResponseHead

LONGEST_RETRY_AFTER: Final = 60.0
"""Seconds; a server that names a longer time is asked again after this one."""
_BASE: Final = 0.8
_LIMIT: Final = 30.0


class RetryDelays:
    """Delays that grow from 0.8 s to 30 s, with client-go's jitter (reflector.go: 800 ms, 30 s, factor 2, jitter 1).

    A delay is never below its base: a server that refuses immediately is not asked immediately.

    Args:
        source: of the jitter.
    """

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._backoff = Backoff(_BASE, _LIMIT / 2)

    def next(self) -> float:
        """Count a failure and return the delay before the next try, in seconds."""
        return self._backoff.ceiling() + self._backoff.next(self._source)

    def reset(self) -> None:
        """Forget the failures."""
        self._backoff.failures = 0


def retry_after(head: ResponseHead) -> float:
    """Return the seconds that a response asks to wait, at most `LONGEST_RETRY_AFTER`; 0 if it names none.

    API servers send whole seconds; the form with a date counts as none.
    """
    text = head.header("retry-after")
    return min(float(text), LONGEST_RETRY_AFTER) if text.isascii() and text.isdecimal() and len(text) < 10 else 0.0
