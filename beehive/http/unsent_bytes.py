"""The memory for bytes of answers that wait for their clients, and of requests that are not whole."""

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from beehive.clock import Clock
from beehive.http.connections import OpenConnection

_log = logging.getLogger(__name__)

MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes that the connections of all servers with one `UnsentBytes` hold at a time."""
_LOG_SECONDS: Final = 60.0
"""Seconds between two log lines about connections that were ended."""


class UnsentBytes:
    """The number of bytes that connections hold, for servers that share a memory. Thread-safe.

    When a connection exceeds the bound, the client whose connections hold the most loses the one that has taken nothing
    for the longest time, and further ones until the others are within the bound: who reads nothing keeps nobody else
    from reading. Bytes that several connections hold together count once, to each of their clients by an equal part.

    Args:
        clock: for the order in which connections end.
        most: bytes.
    """

    def __init__(self, clock: Clock, most: int = MOST_BYTES) -> None:
        self._monotonic = clock.monotonic
        self._most = most
        self._lock = threading.Lock()
        self._held: dict[HeldBytes, None] = {}
        self._holders: Counter[int] = Counter()
        """By identity, how many connections hold the bytes."""
        self._used = 0
        self._logged_at = -_LOG_SECONDS

    @property
    def used(self) -> int:
        """Bytes that are held now."""
        return self._used

    @contextmanager
    def of(self, connection: OpenConnection, client: str) -> Iterator["HeldBytes"]:
        """Count in the context what a connection holds, at first nothing.

        Args:
            connection: is ended when it is chosen to lose its bytes.
            client: the name of its client's share.
        """
        held = HeldBytes(self, connection, client)
        with self._lock:
            self._held[held] = None
        try:
            yield held
        finally:
            with self._lock:
                self._let_go(held)
                del self._held[held]

    def count(self, held: "HeldBytes", key: int, size: int) -> None:
        """Count bytes in place of those that a connection has held.

        Args:
            held: of the connection.
            key: identity of the bytes; several connections may hold the same.
            size: their number.
        """
        with self._lock:
            self._let_go(held)
            if not size:
                return
            held.key, held.size, held.since = key, size, self._monotonic()
            self._holders[key] += 1
            if self._holders[key] == 1:
                self._used += size
            if self._used > self._most:
                self._end_some()

    def _let_go(self, held: "HeldBytes") -> None:
        if not held.size:
            return
        self._holders[held.key] -= 1
        if not self._holders[held.key]:
            del self._holders[held.key]
            self._used -= held.size
        held.size = 0

    def _end_some(self) -> None:
        """End connections, so that all others are within the bound; they hold their bytes until their threads let
        go.
        """
        groups = defaultdict[tuple[str, int], list[HeldBytes]](list)
        """By client and bytes: they are free when all of it have let go."""
        for each in self._held:
            if each.size and not each.connection.is_ended:
                groups[each.client, each.key].append(each)
        while sum({key: held[0].size for (_, key), held in groups.items()}.values()) > self._most:
            holders = Counter(key for _, key in groups)
            of_client = Counter[str]()
            for (client, key), held in groups.items():
                of_client[client] += held[0].size // holders[key]
            heaviest = max(of_client, key=of_client.__getitem__)
            chosen = min(
                (held for (client, _), held in groups.items() if client == heaviest),
                key=lambda held: min(each.since for each in held),
            )
            del groups[heaviest, chosen[0].key]
            self._log(chosen[0])
            for each in chosen:
                each.connection.end()

    def _log(self, chosen: "HeldBytes") -> None:
        now = self._monotonic()
        if now - self._logged_at >= _LOG_SECONDS:
            self._logged_at = now
            _log.warning(
                "more than %d MiB of answers wait for their clients; ended is a connection of %s that has waited for"
                " %.0f s", self._most >> 20, chosen.client or "this machine", now - chosen.since,
            )  # fmt: skip


class HeldBytes:
    """The bytes that one connection holds.

    Args:
        memory: counts them.
        connection: the connection.
        client: the name of its client's share; "" for clients that cannot be told apart.
    """

    def __init__(self, memory: UnsentBytes, connection: OpenConnection, client: str) -> None:
        self._memory = memory
        self.connection = connection
        self.client = client
        self.key = 0
        self.size = 0
        self.since = 0.0
        """Monotonic seconds since when it has held them."""

    def hold(self, data: bytes) -> None:
        """Hold bytes in place of those that it has held; none for b""."""
        self._memory.count(self, id(data), len(data))

    def grow(self, size: int) -> None:
        """Hold further bytes of a request, which no other connection has."""
        self._memory.count(self, id(self), self.size + size)
