"""Requests that wait for their answers."""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING, Any

import msgspec

from beehive.clock import Clock, Timer
from beehive.delivery import DropReason
from beehive.errors import BeehiveError, RequestError, RequestLostError, RequestTimeoutError, UndeliverableError
from beehive.message import Message
from beehive.trace_context import current_context

if TYPE_CHECKING:
    from beehive.runtime import Future

Done = Callable[[Any], None]
"""Called with the answer or the error."""

_REMEMBERED = 1024


class _OpenRequest(msgspec.Struct, eq=False):
    """A request without its answer."""

    done: Done
    timer: Timer | None = None
    requester: str = ""
    asked: frozenset[str] = frozenset()
    """Modules that may answer; empty: any."""
    resource: str = ""
    """Resource of the request."""
    handler: str = ""
    """The module that handles it; empty while it waits for one."""


class PendingRequests:
    """The open requests of one hive, by message id.

    A request is registered before its message is sent, so no answer comes too early (in KubeEdge it can, and a request
    in some thousands is lost). It ends exactly once, with its answer or at its deadline; further answers are counted as
    late or double and dropped. Only the modules that were asked may answer: the id is on the wire and no proof.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, _OpenRequest] = {}
        self._closed: OrderedDict[str, DropReason] = OrderedDict()
        self.unmatched: Counter[DropReason] = Counter()
        """Answers without an open request, by reason."""

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: str) -> bool:
        return key in self._open

    def ids(self) -> list[str]:
        """Return the ids of the open requests, oldest first."""
        return list(self._open)

    def register(self, message: Message, seconds: float, done: Done, asked: Iterable[str] = ()) -> bool:
        """Register a request; `done` is called once, on the answering or the clock's thread.

        If a request with the same id is open, `done` is called with a `RequestError` and False is returned, since one
        answer cannot serve two. After its end a request may be sent again with its id, as KubeEdge's metaclient does.

        Args:
            message: the request; answers carry its id as their parent.
            seconds: the deadline; it has passed already unless positive.
            done: called with the answer, or with a `RequestTimeoutError`.
            asked: the modules that may answer; without any, every module may.
        """
        requester, resource = current_context().actor, message.route.resource
        request = _OpenRequest(done, requester=requester, asked=frozenset(asked), resource=resource)
        key = message.header.msg_id
        if self._open.setdefault(key, request) is not request:
            hint = "its id must be its own; wait for the first one's end before sending it again"
            done(RequestError("a request with this id is waiting already", _about(message), hint))
            return False
        request.timer = self._clock.after(seconds, lambda: self._expire(request, message, seconds))
        return True

    def requester(self, key: str) -> str:
        """Return the name of the actor that made an open request; empty without such a request."""
        request = self._open.get(key)
        return "" if request is None else request.requester

    def resource(self, key: str) -> str:
        """Return the resource of an open request; empty without such a request."""
        request = self._open.get(key)
        return "" if request is None else request.resource

    def answer(self, message: Message, by: str | None = None) -> DropReason | None:
        """Pass an answer to its request; return None, or the reason why it was dropped.

        Args:
            message: the answer.
            by: the answering module; None stands for the module that was asked.
        """
        key = message.header.parent_msg_id
        request = self._open.get(key)
        if request is None:
            return self._count_unmatched(key)
        if by is not None and request.asked and by not in request.asked:
            return self._count(DropReason.FOREIGN_ANSWER)
        return None if self._finish(key, request, message) else self._count_unmatched(key)

    def delegate(self, key: str, by: str, to: Iterable[str]) -> None:
        """Let other modules answer an open request too, if the request went to `by`."""
        request = self._open.get(key)
        if request is not None and by in request.asked:
            request.asked, request.handler = request.asked.union(to), ""

    def assign(self, key: str, handler: str) -> None:
        """Record the module that handles a request, if it was asked."""
        request = self._open.get(key)
        if request is not None and handler in request.asked:
            request.handler = handler

    def lose(self, by: str, tried_again: Set[str]) -> None:
        """End the requests that an instance of a module handles, with a `RequestLostError`: it answers no more. End
        those that it has made, too: it hears no answer, and the next instance may ask again with the same id.

        Args:
            by: the module.
            tried_again: those that its next instance takes again.
        """
        for key, request in self._open.copy().items():  # a list of the items may let another thread in half-way
            is_handled = request.handler == by
            if is_handled:
                request.handler = ""
            if (is_handled and key not in tried_again) or request.requester == by:
                lost = RequestLostError(f"{by} has ended before its answer", f"{request.resource} {key}")
                self._finish(key, request, lost, DropReason.LATE_ANSWER)

    def cancel(self, key: str, error: BeehiveError, by: str | None = None) -> None:
        """End a request with an error, unless it is not `by` that may answer it."""
        request = self._open.get(key)
        if request is not None and (by is None or by in request.asked):
            self._finish(key, request, error, DropReason.LATE_ANSWER)

    def _finish(
        self, key: str, request: _OpenRequest, result: Any, later: DropReason = DropReason.DOUBLE_ANSWER
    ) -> bool:
        """End a request with `result` unless it has ended; `later` is the reason to drop further answers."""
        with self._lock:
            if self._open.get(key) is not request:
                return False
            del self._open[key]
            self._closed[key] = later
            if len(self._closed) > _REMEMBERED:
                self._closed.popitem(last=False)
        if request.timer is not None:
            request.timer.cancel()
        request.done(result)
        return True

    def _expire(self, request: _OpenRequest, message: Message, seconds: float) -> None:
        key = message.header.msg_id
        if self._open.get(key) is request:
            self._finish(key, request, RequestTimeoutError(_about(message), seconds), DropReason.LATE_ANSWER)

    def _count_unmatched(self, key: str) -> DropReason:
        with self._lock:
            reason = self._closed.get(key, DropReason.UNKNOWN_ANSWER)
        return self._count(reason)

    def _count(self, reason: DropReason) -> DropReason:
        with self._lock:
            self.unmatched[reason] += 1
        return reason


def undeliverable(destination: str, message: Message, reason: str = "nobody took it") -> UndeliverableError:
    """Make the error of a request that could not be delivered."""
    hint = f"{reason}; see the dead letters"
    return UndeliverableError(f"cannot deliver a request to {destination}", _about(message), hint, retryable=True)


def settle(future: "Future[Any]", result: Any) -> None:
    """Settle the future of a request with its answer or its error."""
    if isinstance(result, BeehiveError):
        future.fail(result)
    else:
        future.set(result)


def _about(message: Message) -> str:
    return f"{message.route.operation} {message.route.resource} {message.header.msg_id}"
