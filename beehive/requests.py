"""Requests that wait for their answers.

The waiter is registered before the message leaves, so an answer cannot come too early (in KubeEdge it can, and a
request in some thousands is lost). It leaves exactly once: with the answer, or with its deadline. What comes after
that is counted as late or double and dropped.

A waiter is bound to whom it asked. To know its id is not enough to answer a request: ids are on the wire.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from beehive.causes import current
from beehive.clock import Clock, Timer
from beehive.delivery import DropReason
from beehive.errors import BeehiveError, RequestError, RequestTimeoutError
from beehive.message import Message

Done = Callable[[Any], None]
"""Takes the answer (of a group: the list of answers) or the error."""

_REMEMBERED = 1024


class _Waiter(msgspec.Struct, eq=False):
    done: Done
    expected: int
    answers: list[Message] = []
    timer: Timer | None = None
    asker: str = ""
    asked: frozenset[str] = frozenset()
    """Modules that may answer; empty: any."""
    resource: str = ""
    """What the request was about."""


class Waiters:
    """The open requests of one hive, by message id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[str, _Waiter] = {}
        self._closed: OrderedDict[str, DropReason] = OrderedDict()
        self.unmatched: Counter[DropReason] = Counter()
        """Answers without a waiter, by reason."""

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, key: str) -> bool:
        return key in self._open

    def ids(self) -> list[str]:
        """The open requests, oldest first."""
        return list(self._open)

    def register(
        self, message: Message, seconds: float, done: Done, expected: int = 0, asked: Iterable[str] = ()
    ) -> bool:
        """Wait for the answer to `message`; `done` is called once, on the answering or the clock's thread.

        False, and `done` has got a `RequestError`, when a request with the same id waits already: one answer cannot
        be for two. After it has ended, a request may be sent again with its id, as KubeEdge's metaclient does it.

        Args:
            message: the request; its id is what answers carry as their parent.
            seconds: the deadline; at once when not positive.
            done: gets the answer, or a `RequestTimeoutError`.
            expected: 0 for one answer; for a group the number of answers, which come as a list.
            asked: the modules whose answers count; none: everybody's.
        """
        waiter = _Waiter(done, expected, asker=current().actor, asked=frozenset(asked), resource=message.route.resource)
        key = message.header.msg_id
        if self._open.setdefault(key, waiter) is not waiter:
            hint = "its id must be its own; wait for the first one's end before sending it again"
            done(RequestError("a request with this id is waiting already", _about(message), hint))
            return False
        waiter.timer = self._clock.after(seconds, lambda: self._expire(waiter, message, seconds))
        return True

    def asker(self, key: str) -> str:
        """The actor that waits for the answer to a request; empty when none does."""
        waiter = self._open.get(key)
        return "" if waiter is None else waiter.asker

    def resource(self, key: str) -> str:
        """What an open request is about; empty when there is no such request."""
        waiter = self._open.get(key)
        return "" if waiter is None else waiter.resource

    def answer(self, message: Message, by: str | None = None) -> DropReason | None:
        """Give an answer to its waiter; the reason when there is none.

        Args:
            message: the answer.
            by: the module that answers; None: whichever was asked.
        """
        key = message.header.parent_msg_id
        waiter = self._open.get(key)
        if waiter is None:
            return self._count_unmatched(key)
        if by is not None and waiter.asked and by not in waiter.asked:
            return self._count(DropReason.FOREIGN_ANSWER)
        if not waiter.expected:
            return None if self._finish(key, waiter, message) else self._count_unmatched(key)
        with self._lock:
            if len(waiter.answers) < waiter.expected:
                waiter.answers.append(message)
            complete = len(waiter.answers) == waiter.expected
        if not complete or self._finish(key, waiter, list(waiter.answers)):
            return None
        return self._count_unmatched(key)

    def delegate(self, key: str, by: str, to: Iterable[str]) -> None:
        """Let others answer an open request too; only who was asked can."""
        waiter = self._open.get(key)
        if waiter is not None and by in waiter.asked:
            waiter.asked = waiter.asked.union(to)

    def cancel(self, key: str, error: BeehiveError) -> None:
        """End a wait with an error."""
        waiter = self._open.get(key)
        if waiter is not None:
            self._finish(key, waiter, error, DropReason.LATE_ANSWER)

    def undeliverable(self, key: str, error: BeehiveError) -> None:
        """End the wait for a single answer, which will not come; of a group, others may still answer."""
        waiter = self._open.get(key)
        if waiter is not None and not waiter.expected:
            self._finish(key, waiter, error, DropReason.LATE_ANSWER)

    def _finish(self, key: str, waiter: _Waiter, result: Any, later: DropReason = DropReason.DOUBLE_ANSWER) -> bool:
        """Give `result` to the waiter unless somebody was faster; `later` is what further answers count as."""
        with self._lock:
            if self._open.get(key) is not waiter:
                return False
            del self._open[key]
            self._closed[key] = later
            self._closed.move_to_end(key)
            if len(self._closed) > _REMEMBERED:
                self._closed.popitem(last=False)
        if waiter.timer is not None:
            waiter.timer.cancel()
        waiter.done(result)
        return True

    def _expire(self, waiter: _Waiter, message: Message, seconds: float) -> None:
        key = message.header.msg_id
        if self._open.get(key) is waiter:
            error = RequestTimeoutError(_about(message), seconds, list(waiter.answers))
            self._finish(key, waiter, error, DropReason.LATE_ANSWER)

    def _count_unmatched(self, key: str) -> DropReason:
        with self._lock:
            reason = self._closed.get(key, DropReason.UNKNOWN_ANSWER)
        return self._count(reason)

    def _count(self, reason: DropReason) -> DropReason:
        with self._lock:
            self.unmatched[reason] += 1
        return reason


def _about(message: Message) -> str:
    return f"{message.route.operation} {message.route.resource} {message.header.msg_id}"
