"""Requests that wait for their answers.

The waiter is registered before the message leaves, so an answer cannot come too early (in KubeEdge it can, and a
request in some thousands is lost). It leaves exactly once: with the answer, or with its deadline. What comes after
that is counted as late or double and dropped.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from beehive.clock import Clock, Timer
from beehive.delivery import DropReason
from beehive.errors import BeehiveError, RequestTimeoutError
from beehive.message import Message

Done = Callable[[Any], None]
"""Takes the answer (of a group: the list of answers) or the error."""

_REMEMBERED = 1024


class _Waiter:
    __slots__ = ("answers", "done", "expected", "timer")

    def __init__(self, done: Done, expected: int) -> None:
        self.done = done
        self.expected = expected
        self.answers: list[Message] = []
        self.timer: Timer | None = None


class Waiters:
    """The open requests of one hive, by message id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[str, _Waiter] = {}
        self._closed: OrderedDict[str, DropReason] = OrderedDict()
        self.unmatched: Counter[DropReason] = Counter()
        """Answers without a waiter, by reason."""

    def __len__(self) -> int:
        return len(self._open)

    def register(self, message: Message, seconds: float, done: Done, expected: int = 0) -> None:
        """Wait for the answer to `message`; `done` is called once, on the answering or the clock's thread.

        Args:
            message: the request; its id is what answers carry as their parent.
            seconds: the deadline; must be positive.
            done: gets the answer, or a `RequestTimeoutError`.
            expected: 0 for one answer; for a group the number of answers, which come as a list.
        """
        waiter = _Waiter(done, expected)
        key = message.header.msg_id
        self._open[key] = waiter
        waiter.timer = self._clock.after(seconds, lambda: self._expire(key, message, seconds))

    def answer(self, message: Message) -> DropReason | None:
        """Give an answer to its waiter; the reason when there is none."""
        key = message.header.parent_msg_id
        waiter = self._open.get(key)
        if waiter is None:
            return self._unmatched(key)
        if not waiter.expected:
            return self._finish(key, message)
        waiter.answers.append(message)
        if len(waiter.answers) < waiter.expected:
            return None
        return self._finish(key, waiter.answers)

    def cancel(self, key: str, error: BeehiveError) -> None:
        """End a wait with an error, for instance because the request could not be delivered."""
        self._finish(key, error)

    def _finish(self, key: str, result: Any, reason: DropReason = DropReason.DOUBLE_ANSWER) -> DropReason | None:
        waiter = self._open.pop(key, None)
        if waiter is None:
            return self._unmatched(key)
        self._closed[key] = reason
        if len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)
        if waiter.timer is not None:
            waiter.timer.cancel()
        waiter.done(result)
        return None

    def _expire(self, key: str, message: Message, seconds: float) -> None:
        waiter = self._open.get(key)
        if waiter is not None:
            on = f"{message.route.operation} {message.route.resource} {key}"
            error = RequestTimeoutError(on, seconds, list(waiter.answers))
            self._finish(key, error, DropReason.LATE_ANSWER)

    def _unmatched(self, key: str) -> DropReason:
        reason = self._closed.get(key, DropReason.UNKNOWN_ANSWER)
        self.unmatched[reason] += 1
        return reason
