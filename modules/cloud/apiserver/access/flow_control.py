"""API priority and fairness in a simple form: requests have seats, and waiting requests take turns by user.

Kubernetes' API priority and fairness has levels of priority with seats, and in each level queues for flows, which are
users by default. Here there are two levels: nodes and Leases, whose delay makes nodes look dead, and all others.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from beehive.http.request import Request
from beehive.http.responses import Response
from modules.cloud.authentication.users import User

SEATS: Final = 16
"""Requests of one level that are served at a time. The beginning of a watch counts, its events do not."""
WAITING: Final = 48
"""Requests of one user and level that wait for a seat at a time."""
WAIT_SECONDS: Final = 30.0
"""Seconds that a request waits for its seat."""
RETRY_SECONDS: Final = 1
_LEASES: Final = ("apis", "coordination.k8s.io")
_METRICS: Final = ("apis", "metrics.k8s.io")
_LONG: Final = ("log", "exec", "attach", "portforward", "proxy")
"""Subresources that nodes answer."""


class NoSeatError(Exception):
    """A user has too many requests at the server, or none got a seat in time: 429."""


class FairSeats:
    """The seats of one level. A free seat goes to the user whose last turn is the longest ago.

    Args:
        seats: how many there are.
        waiting: how many requests of one user may wait.
        seconds: how long a request waits.
    """

    def __init__(self, seats: int = SEATS, waiting: int = WAITING, seconds: float = WAIT_SECONDS) -> None:
        self._lock = threading.Lock()
        self._free = seats
        self._most_waiting = waiting
        self._seconds = seconds
        self._queues: OrderedDict[str, deque[threading.Lock]] = OrderedDict()
        """By user, in the order of their turns, a lock of each request that waits, released when it has a seat."""

    @contextmanager
    def seat(self, user: str) -> Iterator[None]:
        """Hold a seat in the context.

        Raises:
            NoSeatError: too many requests of the user wait already, or there was no seat in time.
        """
        self._acquire(user)
        try:
            yield
        finally:
            self._release()

    def waiting(self, user: str) -> int:
        """Return how many requests of a user wait."""
        with self._lock:
            return len(self._queues.get(user, ()))

    def _acquire(self, user: str) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            if len(self._queues.get(user, ())) >= self._most_waiting:
                raise NoSeatError
            gate = threading.Lock()
            gate.acquire()
            self._queues.setdefault(user, deque()).append(gate)
        if gate.acquire(timeout=self._seconds):
            return
        with self._lock:
            if gate not in self._queues.get(user, ()):
                return  # it has got one since
            self._queues[user].remove(gate)
            if not self._queues[user]:
                del self._queues[user]
        raise NoSeatError

    def _release(self) -> None:
        with self._lock:
            if not self._queues:
                self._free += 1
                return
            user, queue = self._queues.popitem(last=False)
            queue.popleft().release()
            if queue:
                self._queues[user] = queue


class FlowControl:
    """The seats of all levels of one API server.

    Args:
        seats: of each level.
        waiting: how many requests of one user may wait in each.
    """

    def __init__(self, seats: int = SEATS, waiting: int = WAITING) -> None:
        self._nodes, self._others = FairSeats(seats, waiting), FairSeats(seats, waiting)

    def seat(self, user: User, request: Request) -> AbstractContextManager[None]:
        """Return the context that holds a request's seat. Requests that last, such as logs of pods, need no seat.

        Raises:
            NoSeatError: when it is entered; see `FairSeats.seat`.
        """
        if request.parts[:2] == _METRICS or (request.parts[-1:] and request.parts[-1] in _LONG):
            return nullcontext()
        is_of_node = bool(user.node) or request.parts[:2] == _LEASES
        return (self._nodes if is_of_node else self._others).seat(user.name)


def too_many_requests() -> Response:
    """Return the response to a request without a seat, in kube-apiserver's form."""
    return Response(
        429,
        "text/plain; charset=utf-8",
        b"Too many requests, please try again later.\n",
        headers=(("Retry-After", str(RETRY_SECONDS)),),
    )
