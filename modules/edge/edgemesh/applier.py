"""Brings the tables to the data plane: gathered, one change at a time, again after failures and foreign changes."""

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from beehive import Module, Timer
from beehive.backoff import Backoff
from beehive.bounded_calls import BoundedCalls
from modules.edge.edgemesh.counters import MeshCounters
from modules.edge.edgemesh.nft.watch import Loss, RulesWatch, RulesWatcher
from modules.edge.edgemesh.plane import DataPlane, PlaneError
from modules.edge.edgemesh.tables import PortTable

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
    """Holds the newest tables and a data plane, and brings the ones to the other on threads of their own.

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
        self._calls = BoundedCalls(module, 1, 1)
        self._plane: DataPlane | None = None
        self._tables: dict[str, PortTable] | None = None
        self._pods: frozenset[str] = frozenset()
        self._is_new = self._is_busy = False
        self._last = float("-inf")
        self._restored = float("-inf")
        self._next: Timer | None = None
        self._clean: Timer | None = None
        self._watch: RulesWatch | None = None
        self._backoff = Backoff(1.0, 60.0)

    @property
    def kind(self) -> str:
        """What carries connections; empty while nothing does."""
        return self._plane.kind if self._plane is not None else ""

    def start(self) -> None:
        """Choose the first data plane that can work here."""
        self._is_busy = True
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
        """Make everything again: somebody else has deleted it, or may have."""
        if loss is Loss.POSSIBLE:
            self._look()
            return
        _log.warning("rules of Services were deleted by another program and are restored; was a firewall reloaded?")
        self._counters.restored += 1
        self._is_new = True
        if self._plane is not None:
            self._plane.restore()
        wait = self._restored + RESTORE_SECONDS - self._module.clock.monotonic()
        self._restored = self._module.clock.monotonic() + max(wait, 0.0)
        self._soon(max(wait, 0.0), again=True)

    def _chosen(self, found: tuple[DataPlane | None, list[str]]) -> None:
        self._is_busy = False
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
                self._module.every(CHECK_SECONDS, self._look)
            return
        call_soon = self._module.call_soon
        watcher = self._module.start_actor(
            RulesWatcher,
            lambda loss: call_soon(lambda: self.lost(loss)),
            lambda reason: call_soon(lambda: self._watch_failed(reason)),
        )
        watcher.tell(self._watch)

    def _watch_failed(self, reason: str) -> None:
        _log.warning("rules of Services are looked for each %g s: they cannot be watched: %s", CHECK_SECONDS, reason)
        self._module.every(CHECK_SECONDS, self._look)

    def _look(self) -> None:
        if self._plane is not None:
            self._calls.submit(partial(_is_whole, self._plane), lambda whole: None if whole else self.lost())

    def _soon(self, wait: float = 0.0, *, again: bool = False) -> None:
        if self._plane is None or self._tables is None or self._is_busy or not self._is_new:
            return
        if self._next is not None:
            if not again:
                return
            self._next.cancel()
        gathered = 0.0 if again else self._last + GATHER_SECONDS - self._module.clock.monotonic()
        self._next = self._module.after(max(wait, gathered, 0.0), self._begin)

    def _begin(self) -> None:
        self._next = None
        if self._plane is None or self._tables is None or self._is_busy:
            return
        self._is_new, self._is_busy = False, True
        self._last = self._module.clock.monotonic()
        self._calls.submit(partial(_apply, self._plane, self._tables, self._pods), self._applied)

    def _applied(self, error: str) -> None:
        self._is_busy = False
        if error:
            self._counters.failed += 1
            wait = self._backoff.next(self._module.clock.random)
            _log.warning("the rules of Services stay as they are, and are tried again in %.0f s: %s", wait, error)
            self._report(error)
            self._is_new = True
            self._soon(wait)
            return
        self._backoff.reset()
        self._counters.applied += 1
        self._report("")
        if self._clean is None:
            self._clean = self._module.after(CLEAN_SECONDS, self._clean_now)
        self._soon()

    def _clean_now(self) -> None:
        self._clean = None
        plane = self._plane
        if plane is None or self._is_busy:
            self._clean = self._module.after(CLEAN_SECONDS, self._clean_now)
            return
        self._is_busy = True
        self._calls.submit(partial(_clean, plane), self._cleaned)

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


def _apply(plane: DataPlane, tables: dict[str, PortTable], pods: frozenset[str]) -> str:
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
