"""Assigns requests to connections."""

from collections import deque
from typing import Final, Generic, Protocol, TypeVar

from modules.cloud.client.transport import ApiRequest

ORDINARY: Final = 4
"""Connections for requests that are no streams."""
STREAMS: Final = 32
"""Streams at a time, each with a connection of its own."""
IDLE_SECONDS: Final = 90.0
"""Seconds after which an unused connection is closed (Go's DefaultTransport)."""


class Waiting(Protocol):
    """An exchange, as far as the pool needs it."""

    request: ApiRequest

    @property
    def is_done(self) -> bool:
        """Whether it no longer needs a connection."""


E = TypeVar("E", bound=Waiting)
C = TypeVar("C")


class ConnectionPool(Generic[E, C]):
    """The number of connections, and the waiting requests in order: ordinary requests apart from streams."""

    def __init__(self, ordinary: int = ORDINARY, streams: int = STREAMS) -> None:
        self._limits = {False: ordinary, True: streams}
        self._waiting: dict[bool, deque[E]] = {False: deque(), True: deque()}
        self._busy: dict[bool, set[C]] = {False: set(), True: set()}
        self._idle: list[tuple[C, float]] = []
        """With the monotonic seconds since when; the latest last."""

    def put(self, exchange: E) -> None:
        """Let an exchange wait behind the others."""
        self._waiting[exchange.request.stream].append(exchange)

    def put_first(self, exchange: E) -> None:
        """Let an exchange wait before the others, as it has waited already."""
        self._waiting[exchange.request.stream].appendleft(exchange)

    def first(self) -> E | None:
        """Return the first exchange that may have a connection now; it stays until `admit`."""
        for is_stream, waiting in self._waiting.items():
            while waiting and waiting[0].is_done:
                waiting.popleft()
            if waiting and len(self._busy[is_stream]) < self._limits[is_stream]:
                return waiting[0]
        return None

    def admit(self, exchange: E) -> None:
        """Let an exchange, the first, wait no more."""
        self._waiting[exchange.request.stream].popleft()

    def waiting(self) -> list[E]:
        """Return the exchanges that wait."""
        return [each for waiting in self._waiting.values() for each in waiting]

    def idle(self) -> C | None:
        """Return the connection that became idle last, which is no longer idle then."""
        return self._idle.pop()[0] if self._idle else None

    def use(self, connection: C, exchange: E) -> None:
        """Count a connection for an exchange."""
        self._busy[exchange.request.stream].add(connection)

    def keep(self, connection: C, now: float) -> C | None:
        """Take back a connection; return the one to be closed when there are too many."""
        self.forget(connection)
        self._idle.append((connection, now))
        return self._idle.pop(0)[0] if len(self._idle) > self._limits[False] else None

    def forget(self, connection: C) -> None:
        """Count a connection no more."""
        for busy in self._busy.values():
            busy.discard(connection)
        self._idle = [each for each in self._idle if each[0] != connection]

    def expire(self, now: float) -> list[C]:
        """Return the connections that were idle too long, which the pool has no longer."""
        expired = [each for each, since in self._idle if now >= since + IDLE_SECONDS]
        self._idle = self._idle[len(expired) :]
        return expired

    def idle_until(self) -> float | None:
        """Return the monotonic seconds when the next idle connection is to be closed."""
        return self._idle[0][1] + IDLE_SECONDS if self._idle else None

    def connections(self) -> list[C]:
        """Return all connections."""
        return [*self._busy[False], *self._busy[True], *(each for each, _ in self._idle)]
