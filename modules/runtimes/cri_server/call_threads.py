"""Threads for calls whose callers may leave before the end: at a deadline, or when their client closes.

A call that was left goes on, as on a server of gRPC whose client has gone. The threads are daemons, so that a call that
hangs in the kernel does not keep the process alive. They wait in real time, as they wait for processes.
"""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MOST_CALLS: Final = 1000
"""Calls under way at one time, with abandoned ones."""
_MOST_IDLE: Final = 4
"""Threads that wait for the next call."""

OnLeave = Callable[[Callable[[], None]], object]
"""Registers a function that makes the caller leave."""


class CallLeftError(Exception):
    """The caller's client, or the runtime, was closed during the call."""


class TooManyCallsError(Exception):
    """No further call can be begun now."""


class _Call(Generic[T]):
    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._answer: T
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        """The first one counts; None: there is an answer. A `Future` costs a dozen calls more."""

    def run(self) -> None:
        try:
            self._answer = self._work()
            self._ends.put(None)
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            self._ends.put(error)

    def leave(self) -> None:
        self._ends.put(CallLeftError())

    def await_end(self, timeout: float | None) -> T:
        try:
            error = self._ends.get(timeout=timeout)
        except Empty:
            raise TimeoutError from None
        if error is None:
            return self._answer
        try:
            raise error
        finally:
            del error


class CallThreads:
    """Threads that run calls. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._next: SimpleQueue[_Call[object] | None] = SimpleQueue()
        self._idle = 0
        self._running: set[_Call[object]] = set()
        self._closed = False

    def run(self, work: Callable[[], T], timeout: float | None, on_leave: OnLeave) -> T:
        """Run a call and return its answer.

        Args:
            work: the call. Its exception is raised here, if the caller is still there.
            timeout: seconds until the caller leaves; None for no deadline.
            on_leave: registers a function that makes the caller leave earlier.

        Raises:
            TimeoutError: the deadline has passed.
            CallLeftError: something else made the caller leave.
            TooManyCallsError: too many calls are under way.
        """
        call = _Call(work)
        on_leave(call.leave)
        self._begin(call)  # type: ignore[arg-type] # the answer goes to this caller only
        return call.await_end(timeout)

    def close(self, seconds: float) -> int:
        """Refuse new calls, make all callers leave, and wait for the calls; return how many have not ended in time."""
        with self._changed:
            self._closed = True
            for _ in range(self._idle):
                self._next.put(None)
            self._idle = 0
            for call in self._running:
                call.leave()
            self._changed.wait_for(lambda: not self._running, seconds)
            return len(self._running)

    def _begin(self, call: _Call[object]) -> None:
        with self._lock:
            if self._closed:
                raise CallLeftError
            if len(self._running) >= _MOST_CALLS:
                raise TooManyCallsError
            self._running.add(call)
            if self._idle:
                self._idle -= 1
                self._next.put(call)
                return
        try:
            threading.Thread(target=self._serve, args=(call,), name="cri-server/local", daemon=True).start()
        except RuntimeError:  # the machine's or the control group's limit of threads
            with self._lock:
                self._running.discard(call)
            raise TooManyCallsError from None

    def _serve(self, first: _Call[object]) -> None:
        call: _Call[object] | None = first
        while call is not None:
            call.run()
            if not self._ended(call):
                return
            call = None  # its answer is not kept until the next call
            call = self._next.get()

    def _ended(self, call: _Call[object]) -> bool:
        """Note the end of a call; return whether its thread waits for another one."""
        with self._changed:
            self._running.discard(call)
            self._changed.notify_all()
            if self._closed or self._idle >= _MOST_IDLE:
                return False
            self._idle += 1
            return True
