"""Brings the tables to the data plane: gathered, one change at a time, again after failures and foreign changes."""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from beehive import Actor, Module, Timer
from beehive.backoff import Backoff
from beehive.bounded_calls import BoundedCalls
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.nft.watch import Loss, RulesWatch
from modules.edge.edgemesh.plane import DataPlane, PlaneError
from modules.edge.edgemesh.tables import Address, PortTable

_log = logging.getLogger(__name__)

GATHER_SECONDS: Final = 0.1
"""Least time between two changes of the data plane; the first one is made immediately."""
CLEAN_SECONDS: Final = 2.0
"""After a change, the time until what it left unused is removed."""
RESTORE_SECONDS: Final = 1.0
"""Least time between two restorations."""
CHECK_SECONDS: Final = 60.0
"""After which the rules are looked for where they cannot be watched."""


class Applier:
    """The newest tables and a data plane, with threads that bring the ones to the other.

    Args:
        module: edgemesh; its thread calls everything here.
        planes: what may carry connections, the best first.
        counters: of the module.
        report: called with the reason when connections cannot be carried, and with an empty text when they are again.
    """

    def __init__(
        self, module: Module, planes: Iterable[DataPlane], counters: MeshCounters, report: Callable[[str], None]
    ) -> None:
        self._module = module
        self._planes = list(planes)
        self._counters = counters
        self._report = report
        self._calls = BoundedCalls(module, 1, 2)
        """A change and a look at a time; a place is free only some time after the result of a call."""
        self._plane: DataPlane | None = None
        self._tables: dict[str, PortTable] | None = None
        self._pods: frozenset[str] = frozenset()
        self._is_new = self._is_lost = self._is_busy = False
        self._is_looking = self._looks_again = False
        self._last = float("-inf")
        self._restored = float("-inf")
        self._again = float("-inf")
        """When a refused change is tried again."""
        self._next: Timer | None = None
        self._next_at = 0.0
        self._clean: Timer | None = None
        self._watch: RulesWatch | None = None
        self._backoff = Backoff(1.0, 60.0)

    @property
    def kind(self) -> str:
        """The carrier of connections; empty without one."""
        return self._plane.kind if self._plane is not None else ""

    def reach(self, table: PortTable) -> Address | None:
        """Return where programs of the node reach a port of a Service; None while nothing carries connections."""
        return self._plane.reach(table) if self._plane is not None else None

    def start(self) -> None:
        """Choose the first data plane that can work here."""
        self._calls.submit(partial(_choose, tuple(self._planes)), self._chosen)

    def stop(self) -> None:
        """End; the kernel's rules stay."""
        if self._watch is not None:
            self._watch.close()
        if self._plane is not None:
            self._plane.close()

    def apply(self, tables: dict[str, PortTable], pods: frozenset[str]) -> None:
        """Take new tables."""
        self._tables, self._pods, self._is_new = tables, pods, True
        self._soon()

    def lost(self, loss: Loss = Loss.CERTAIN) -> None:
        """Make everything again: somebody else has deleted it, or may have. Many reports before that are one."""
        if loss is Loss.POSSIBLE:
            self._check()
            return
        if self._is_lost:
            return
        _log.warning("rules of Services were deleted by another program and are restored; was a firewall reloaded?")
        self._is_lost = True
        self._soon()

    def _chosen(self, found: tuple[DataPlane | None, list[str]]) -> None:
        self._plane, reasons = found
        for reason in reasons:
            _log.warning("%s", reason)
        if self._plane is None:
            self._report("; ".join(reasons) or "no data plane is configured")
            return
        _log.info("Services are carried by %s", self._plane.kind)
        self._counters.plane = self._plane.kind
        self._open_watch(self._plane)
        self._soon()

    def _open_watch(self, plane: DataPlane) -> None:
        self._watch = plane.watch()
        if self._watch is None:
            if plane.kind == "nft":
                self._module.every(CHECK_SECONDS, self._check)
            return
        self._module.start_actor(RulesWatcher, self).tell(self._watch)

    def report_loss(self, loss: Loss) -> None:
        """Take a deletion from the watch; any thread."""
        self._module.call_soon(lambda: self.lost(loss))

    def report_failure(self, reason: str) -> None:
        """Take the failure of the watch; any thread."""
        self._module.call_soon(lambda: self._watch_failed(reason))

    def _watch_failed(self, reason: str) -> None:
        _log.warning("rules of Services are looked for each %g s: they cannot be watched: %s", CHECK_SECONDS, reason)
        self._module.every(CHECK_SECONDS, self._check)

    def _check(self) -> None:
        """Ask the kernel for the rules, one question at a time."""
        if self._plane is None:
            return
        self._looks_again = self._is_looking
        if not self._is_looking:
            self._is_looking = True
            self._calls.submit(partial(_is_whole, self._plane), self._handle_check)

    def _handle_check(self, is_whole: bool) -> None:
        self._is_looking = False
        if not is_whole:
            self.lost()
        elif self._looks_again:
            self._check()

    @property
    def _due(self) -> float:
        """When the data plane may change next, in monotonic seconds. A repair waits for nothing but the last repair."""
        if self._is_lost:
            return self._restored + RESTORE_SECONDS
        return max(self._last + GATHER_SECONDS, self._again)

    def _soon(self) -> None:
        """Set the timer of the next change. A set timer only moves forward."""
        if self._plane is None or self._tables is None or self._is_busy or not (self._is_new or self._is_lost):
            return
        now = self._module.clock.monotonic()
        at = max(self._due, now)
        if self._next is not None:
            if self._next_at <= at:
                return
            self._next.cancel()
        self._next_at = at
        self._next = self._module.after(at - now, self._begin)

    def _begin(self) -> None:
        self._next = None
        if self._plane is None or self._tables is None or self._is_busy:
            return
        now = self._module.clock.monotonic()
        if now < self._due:
            self._soon()
            return
        if restores := self._is_lost:
            self._restored = now
            self._counters.restored += 1
        self._is_new, self._is_lost, self._is_busy = False, False, True
        self._last = now
        work = partial(_apply, self._plane, self._tables, self._pods, restores=restores)
        self._calls.submit(work, self._applied)

    def _applied(self, error: str) -> None:
        self._is_busy = False
        if error:
            self._counters.failed += 1
            wait = self._backoff.next(self._module.clock.random)
            _log.warning("the rules of Services stay as they are, and are tried again in %.0f s: %s", wait, error)
            self._report(error)
            self._is_new = True
            self._again = self._module.clock.monotonic() + wait
            self._soon()
            return
        self._backoff.reset()
        self._counters.applied += 1
        self._report("")
        if self._clean is None:
            self._clean = self._module.after(CLEAN_SECONDS, self._clean_now)
        self._soon()

    def _clean_now(self) -> None:
        self._clean = None
        if self._plane is None or self._is_busy:  # the change under way sets the timer again
            return
        self._is_busy = True
        self._calls.submit(partial(_clean, self._plane), self._cleaned)

    def _cleaned(self, error: str) -> None:
        self._is_busy = False
        if error:
            _log.warning("what Services have left cannot be removed: %s", error)
        self._soon()


def _choose(planes: tuple[DataPlane, ...]) -> tuple[DataPlane | None, list[str]]:
    reasons: list[str] = []
    for plane in planes:
        try:
            plane.prepare()
        except PlaneError as error:
            reasons.append(f"{plane.kind} cannot carry Services here: {error}")
        else:
            return plane, reasons
    return None, reasons


def _apply(plane: DataPlane, tables: dict[str, PortTable], pods: frozenset[str], *, restores: bool) -> str:
    if restores:
        plane.restore()
    return _outcome(lambda: plane.apply(tables, pods))


def _clean(plane: DataPlane) -> str:
    return _outcome(plane.clean)


def _is_whole(plane: DataPlane) -> bool:
    try:
        return plane.is_whole()
    except PlaneError:
        return False


def _outcome(call: Callable[[], Any]) -> str:
    try:
        call()
    except PlaneError as error:
        return str(error)
    return ""


class RulesWatcher(Actor):
    """The actor that runs the rules' watch until its end; close the watch before stopping the actor."""

    def __init__(self, applier: Applier) -> None:
        super().__init__()
        self._applier = applier

    def on_receive(self, message: RulesWatch) -> None:
        """Watch until the end."""
        try:
            message.run(self._applier.report_loss)
        except OSError as error:
            self._applier.report_failure(str(error))
