"""Calls of servers for messages of nodes: in order for each Rule, a few at a time, repeated only where that is safe."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from beehive.bounded_calls import BoundedCalls
from beehive.clock import Clock
from beehive.http.call import CallFailedError, HttpCall, HttpReply, perform
from beehive.module import Module
from modules.apimachinery.kinds import ObjectKey

CALL_SECONDS: Final = 30.0
"""For a server's whole response."""
MOST_BODY: Final = 1024 * 1024
"""Bytes of a server's response (KubeEdge)."""
PARALLEL: Final = 32
"""Calls at a time, of all Rules."""
MOST_WAITING: Final = 1000
MOST_WAITING_BYTES: Final = 4 * 1024 * 1024
"""Bounds of the messages of one Rule that wait."""
MOST_BYTES: Final = 64 * 1024 * 1024
"""Most bytes of waiting messages of all Rules."""
RETRIES: Final = (1.0, 2.0, 4.0)
"""Seconds before each further attempt."""
_IDEMPOTENT: Final = ("GET", "HEAD", "OPTIONS", "PUT", "DELETE")
"""Methods that may be repeated when it is not known whether the server has got the request (RFC 9110 §9.2.2)."""

Outcome = HttpReply | CallFailedError
Done = Callable[[Outcome], None]


class _Task(NamedTuple):
    call: HttpCall
    done: Done


class _Line:
    """The calls of one Rule."""

    def __init__(self) -> None:
        self.tasks: deque[_Task] = deque()
        """The first one is under way."""
        self.size = 0


def may_repeat(call: HttpCall, error: CallFailedError) -> bool:
    """Return whether a call that has failed may be made again: nothing was sent, or its method may be repeated."""
    return not error.sent or (call.method in _IDEMPOTENT and not error.timed_out)


class OutgoingCalls:
    """Makes the calls of each Rule one after the other, and calls of all Rules a few at a time.

    Args:
        module: the router.
    """

    def __init__(self, module: Module) -> None:
        self._module = module
        self._calls = BoundedCalls(module, PARALLEL, 1_000_000)
        """At most one call of each Rule waits."""
        self._lines: dict[ObjectKey, _Line] = {}
        self._size = 0

    def submit(self, key: ObjectKey, call: HttpCall, done: Done) -> bool:
        """Make a call when it is its turn; return False if too much waits already.

        Args:
            key: of the Rule.
            call: the request.
            done: called with the response, or the error of the last attempt.
        """
        size = len(call.body)
        line = self._lines.get(key)
        if self._size + size > MOST_BYTES:
            return False
        if line is None:
            line = self._lines[key] = _Line()
        elif len(line.tasks) >= MOST_WAITING or line.size + size > MOST_WAITING_BYTES:
            return False
        line.tasks.append(_Task(call, done))
        line.size += size
        self._size += size
        if len(line.tasks) == 1:
            self._begin(key, line, 0)
        return True

    def _begin(self, key: ObjectKey, line: _Line, attempt: int) -> None:
        call = line.tasks[0].call
        self._calls.submit(partial(_perform, call, self._module.clock), partial(self._ended, key, line, attempt))

    def _ended(self, key: ObjectKey, line: _Line, attempt: int, outcome: Outcome) -> None:
        task = line.tasks[0]
        failed = isinstance(outcome, CallFailedError) and may_repeat(task.call, outcome)
        if failed and attempt < len(RETRIES):
            self._module.after(RETRIES[attempt], partial(self._begin, key, line, attempt + 1))
            return
        line.tasks.popleft()
        line.size -= len(task.call.body)
        self._size -= len(task.call.body)
        if line.tasks:
            self._begin(key, line, 0)
        else:
            del self._lines[key]
        task.done(outcome)


def _perform(call: HttpCall, clock: Clock) -> Outcome:
    try:
        return perform(call, clock, seconds=CALL_SECONDS, most_bytes=MOST_BODY)
    except CallFailedError as error:
        return error
