"""Functions that a module's loop calls: timers, and the rest of handlers that waited for an answer."""

from collections.abc import Callable

from beehive.clock import Timer
from beehive.trace_context import current_context


class Continuation:
    """A function in an inbox that the module's loop calls: the rest of a handler that waited for an answer, or a timer.

    `owner` is the instance of the module that it was made for. The inbox outlives the instance, and an instance started
    after a failure does not run its predecessor's continuations. A continuation keeps the trace context of its making.
    One with a name is reported to watchers (`beehive.delivery.TurnTaken`).
    """

    __slots__ = ("call", "name", "owner", "since", "span", "timer", "trace")

    def __init__(
        self,
        owner: object,
        call: Callable[[], None],
        timer: "ModuleTimer | None" = None,
        name: str = "",
        since: float | None = None,
    ) -> None:
        self.owner = owner
        self.call = call
        self.timer = timer
        self.name = name
        self.since = since
        context = current_context()
        self.span = context.span
        self.trace = context.trace


class ModuleTimer:
    """A timer whose function runs on a module's thread.

    The clock's thread only puts a continuation into the module's inbox; a timer that is cancelled before the module
    takes it from there does not run. A period that is due while the one before still waits in the inbox is skipped, as
    by a Go ticker: ticks do not pile up in a slow module.

    Args:
        owner: the module.
        put: puts a continuation into the module's inbox.
        function: called on the module's thread.
        seconds: delay or period, for observers.
        set_at: when it was set, in monotonic seconds, for observers.
        once: whether it fires only once.
    """

    __slots__ = ("_continuation", "_function", "_put", "_queued", "_timer", "once", "seconds", "set_at")

    def __init__(
        self,
        owner: object,
        put: Callable[[Continuation], None],
        function: Callable[[], None],
        seconds: float = 0.0,
        set_at: float = 0.0,
        *,
        once: bool,
    ) -> None:
        self._continuation = Continuation(owner, self._run, self)
        self._function: Callable[[], None] | None = function
        self.seconds = seconds
        self.set_at = set_at
        self.once = once
        self._put = put
        self._queued = False
        self._timer: Timer | None = None

    def start(self, begin: Callable[[Callable[[], None]], Timer]) -> None:
        """Start the clock's timer: `begin` sets one for the function that it is called with."""
        self._timer = begin(self._fire)

    def cancel(self) -> bool:
        """Keep the function from running again; return False if the timer was inactive already."""
        was, self._function = self._function, None
        if self._timer is not None:
            self._timer.cancel()
        return was is not None

    @property
    def active(self) -> bool:
        """Whether the function will still run."""
        return self._function is not None

    @property
    def name(self) -> str:
        """Qualified name of the function; empty if it will not run."""
        function = self._function
        return "" if function is None else getattr(function, "__qualname__", type(function).__qualname__)

    def _fire(self) -> None:
        if self._function is not None and not self._queued:
            self._queued = True
            self._put(self._continuation)

    def _run(self) -> None:
        self._queued = False
        function = self._function
        if function is None:
            return
        if self.once:
            self._function = None
        function()


class ModuleTimers:
    """The timers of one module, to be cancelled when it ends. Inactive ones are dropped from time to time."""

    _FIRST_SWEEP = 64

    def __init__(self) -> None:
        self._timers: list[ModuleTimer] = []
        self._sweep_at = self._FIRST_SWEEP

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, timer: ModuleTimer) -> None:
        """Add a timer."""
        if len(self._timers) >= self._sweep_at:
            self._timers = [known for known in self._timers if known.active]
            self._sweep_at = max(self._FIRST_SWEEP, 2 * len(self._timers))
        self._timers.append(timer)

    def cancel_all(self) -> None:
        """Cancel all timers."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
