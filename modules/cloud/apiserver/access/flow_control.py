"""API priority and fairness in a simple form: requests have seats, and waiting requests take turns by user.

Kubernetes' API priority and fairness has levels of priority with seats, and in each level queues for flows, which are
users by default, and lists take several seats. Here there are four levels: nodes and Leases, whose delay makes nodes
look dead; lists, beginnings of watches and documents, which compute for tens of milliseconds; large requests, which are
served one after the other, and compute for up to seconds; and all others.
"""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from beehive.http.request import Request
from beehive.http.responses import Response
from modules.cloud.apiserver.endpoints.requests import has_large_body
from modules.cloud.apiserver.endpoints.yaml_answers import wants_yaml
from modules.cloud.apiserver.short_turns import short_turns
from modules.cloud.authentication.users import User, share_of

SEATS: Final = 16
"""Requests of one level that are served at a time. The beginning of a watch counts, its events do not."""
LIST_SEATS: Final = 2
"""Lists that are computed at a time: more would only share the interpreter, and leave less of it to other requests."""
LARGE_SEATS: Final = 1
"""Large requests that are read and served at a time, one of each user in turn."""
WAITING: Final = 48
"""Requests of one user and level that wait for a seat at a time."""
WAIT_SECONDS: Final = 30.0
"""Seconds that a request waits for its seat."""
RETRY_SECONDS: Final = 1
_LEASES: Final = ("apis", "coordination.k8s.io")
_METRICS: Final = ("apis", "metrics.k8s.io")
_DOCUMENTS: Final = ("openapi",)
_COLLECTIONS: Final = ("list", "watch")
"""A deletion of a collection does not count: it waits for seconds for the database, and would keep lists waiting."""
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
        of_user: how many seats one user may hold; 0: all.
    """

    def __init__(
        self, seats: int = SEATS, waiting: int = WAITING, seconds: float = WAIT_SECONDS, of_user: int = 0
    ) -> None:
        self._lock = threading.Lock()
        self._free = seats
        self._of_user = of_user or seats
        self._held = Counter[str]()
        """How many seats each user holds."""
        self._most_waiting = waiting
        self._seconds = seconds
        self._queues: OrderedDict[str, deque[threading.Lock]] = OrderedDict()
        """By user, in the order of their turns, a lock of each request that waits, released when it has a seat."""

    @contextmanager
    def seat(self, user: str, *, patiently: bool = False) -> Iterator[None]:
        """Hold a seat in the context.

        Args:
            user: who asks.
            patiently: wait as long as it takes, as one of any number.

        Raises:
            NoSeatError: too many requests of the user wait already, or there was no seat in time.
        """
        self._acquire(user, patiently=patiently)
        try:
            yield
        finally:
            self._release(user)

    def waiting(self, user: str) -> int:
        """Return how many requests of a user wait."""
        with self._lock:
            return len(self._queues.get(user, ()))

    def _acquire(self, user: str, *, patiently: bool) -> None:
        with self._lock:
            if self._free and self._held[user] < self._of_user:
                self._free -= 1
                self._held[user] += 1
                return
            if not patiently and len(self._queues.get(user, ())) >= self._most_waiting:
                raise NoSeatError
            gate = threading.Lock()
            gate.acquire()
            self._queues.setdefault(user, deque()).append(gate)
        if gate.acquire(timeout=-1 if patiently else self._seconds):
            return
        with self._lock:
            if gate not in self._queues.get(user, ()):
                return  # it has got one since
            self._queues[user].remove(gate)
            if not self._queues[user]:
                del self._queues[user]
        raise NoSeatError

    def _release(self, user: str) -> None:
        with self._lock:
            self._held[user] -= 1
            if not self._held[user]:
                del self._held[user]
            following = next((each for each in self._queues if self._held[each] < self._of_user), None)
            if following is None:
                self._free += 1
                return
            self._held[following] += 1
            queue = self._queues.pop(following)
            queue.popleft().release()
            if queue:
                self._queues[following] = queue


class FlowControl:
    """The seats of all levels of one API server.

    Args:
        seats: of each level except the levels of lists and of large requests.
        waiting: how many requests of one user may wait in each.
    """

    def __init__(self, seats: int = SEATS, waiting: int = WAITING) -> None:
        self._nodes, self._others = (FairSeats(seats, waiting, of_user=-(-seats // 2)) for _ in range(2))
        self._lists = FairSeats(min(seats, LIST_SEATS), waiting)
        self._large = FairSeats(LARGE_SEATS, waiting)

    def seat(self, user: User, request: Request, verb: str, subresource: str = "") -> AbstractContextManager[None]:
        """Return the context that holds a request's seat. Requests that last, such as logs of pods, need no seat.

        Args:
            user: who asks.
            request: for what.
            verb: of its attributes.
            subresource: of its attributes.

        Raises:
            NoSeatError: when it is entered; see `FairSeats.seat`.
        """
        if request.parts[:2] == _METRICS or subresource in _LONG:
            return nullcontext()
        if has_large_body(request) or wants_yaml(request):
            return self._large_seat(user)
        if user.node or request.parts[:2] == _LEASES:
            return self._nodes.seat(share_of(user))
        is_long = verb in _COLLECTIONS or request.parts[:1] == _DOCUMENTS
        return (self._lists if is_long else self._others).seat(share_of(user))

    @contextmanager
    def _large_seat(self, user: User) -> Iterator[None]:
        with self._large.seat(share_of(user)), short_turns():
            yield

    def turn(self, user: User) -> AbstractContextManager[None]:
        """Return the context for computing a further piece of a user's list."""
        return self._lists.seat(share_of(user), patiently=True)


def too_many_requests() -> Response:
    """Return the response to a request without a seat, in kube-apiserver's form."""
    return Response(
        429,
        "text/plain; charset=utf-8",
        b"Too many requests, please try again later.\n",
        headers=(("Retry-After", str(RETRY_SECONDS)),),
    )
