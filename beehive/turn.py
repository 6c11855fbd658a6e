"""Timers that fire in a module's own turn.

The clock fires on a thread of its own. What it does there is only to put a continuation into the module's inbox;
the function runs when the module comes to it. Between the two a timer may be cancelled, and then it does not run.
"""

from collections.abc import Callable

from beehive.clock import Timer
from beehive.delivery import Continuation


class TurnTimer:
    """A timer of a module.

    A period that comes due while the one before still waits in the inbox is left out, as a Go ticker leaves it out:
    a slow module must not find a pile of ticks.

    Args:
        owner: the module in whose turn it fires.
        put: puts a continuation into the module's inbox.
        function: what it does.
        seconds: what it is set to.
        once: whether it is spent when it has fired.
    """

    __slots__ = ("_continuation", "_function", "_put", "_queued", "_timer", "once", "seconds")

    def __init__(
        self,
        owner: object,
        put: Callable[[Continuation], None],
        function: Callable[[], None],
        seconds: float = 0.0,
        *,
        once: bool,
    ) -> None:
        self._continuation = Continuation(owner, self._run, self)
        self._function: Callable[[], None] | None = function
        self.seconds = seconds
        self.once = once
        self._put = put
        self._queued = False
        self._timer: Timer | None = None

    def start(self, begin: Callable[[Callable[[], None]], Timer]) -> None:
        """Set the clock's timer that `begin` makes of this one's `fire`."""
        self._timer = begin(self._fire)

    def cancel(self) -> bool:
        """Keep the function from running, or from running again; False when there was nothing left to keep."""
        was, self._function = self._function, None
        if self._timer is not None:
            self._timer.cancel()
        return was is not None

    @property
    def active(self) -> bool:
        """Whether it will still run."""
        return self._function is not None

    @property
    def name(self) -> str:
        """Qualified name of the function; empty when it will not run."""
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


class TurnTimers:
    """The timers of one module; they are cancelled when it ends. Those that are spent are forgotten now and then."""

    _FIRST_SWEEP = 64

    def __init__(self) -> None:
        self._timers: list[TurnTimer] = []
        self._sweep_at = self._FIRST_SWEEP

    def __len__(self) -> int:
        return len(self._timers)

    def add(self, timer: TurnTimer) -> None:
        """Know of a timer."""
        if len(self._timers) >= self._sweep_at:
            self._timers = [known for known in self._timers if known.active]
            self._sweep_at = max(self._FIRST_SWEEP, 2 * len(self._timers))
        self._timers.append(timer)

    def cancel_all(self) -> None:
        """Cancel all of them."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
