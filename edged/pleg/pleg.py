"""The actor that inspects the runtime's pods (kubelet's generic and evented PLEG)."""

import logging

import msgspec

from beehive import Actor
from beehive.clock import Timer
from edged.cri.errors import CriError, DeadlineExceededError, UnavailableError
from edged.pleg.hints import Hints
from edged.pleg.messages import (
    HintAdded,
    PlegEvent,
    PodInspection,
    Relisted,
    RelistFailed,
    RelistSoon,
    StreamBroke,
    StreamOpened,
    StreamRequested,
)
from edged.pleg.pace import RelistPace
from edged.pleg.reader import PodSnapshot, RuntimeReader, changed_pods, is_same, snapshot_of
from edged.pods.model import PodFacts, PodRef, PodUid
from edged.sync_events import SyncEvents

_log = logging.getLogger(__name__)

MAX_INSPECTIONS = 4
"""Pods to inspect one by one, in two calls each; for more of them a relist costs less."""

_RUNTIME_AWAY = (UnavailableError, DeadlineExceededError)
"""Errors after which the other pods are not tried."""


class _Relist(msgspec.Struct, frozen=True):
    """List everything. If two relists are scheduled, only the later one counts."""

    number: int


class _InspectHinted(msgspec.Struct, frozen=True):
    """Inspect the hinted pods, if that is due."""


class Pleg(Actor):
    """Pod lifecycle event generator: sends edged the facts of pods that changed.

    It inspects a pod soon after an event of the runtime, and lists all pods periodically, in two calls for any number
    of pods. Workers inspect the pods that they have just changed themselves (`Hints.add_inspection`): a change is then
    reported when it is made, and not a second time by the next relist, nor by one before.

    Args:
        reader: reads from the runtime.
        events: takes each event.
        pace: the period of relists.
        hints: the pods of the runtime's events, and the workers' inspections.
    """

    def __init__(self, reader: RuntimeReader, events: SyncEvents[PlegEvent], pace: RelistPace, hints: Hints) -> None:
        super().__init__()
        self._reader = reader
        self._events = events
        self._pace = pace
        self._hints = hints
        self._known: dict[PodUid, PodSnapshot] = {}
        self._known_at: dict[PodUid, float] = {}
        self._number = 0
        self._timer: Timer | None = None
        self._last_relist: float | None = None
        self._last_inspection = float("-inf")
        self._next_inspection = float("inf")

    def on_start(self) -> None:
        """Relist immediately."""
        self.actor_ref.tell(_Relist(self._number))

    def on_receive(self, message: object) -> None:
        """Relist, inspect hinted pods, or note the state of the stream."""
        match message:
            case _Relist(number):
                if number == self._number:
                    self.relist_due()
            case HintAdded():
                self.inspect_hinted()
            case _InspectHinted():
                self._next_inspection = float("inf")
                self.inspect_hinted()
            case RelistSoon():
                self._pace.relist_soon()
                self._set_timer()
            case StreamRequested():
                self._pace.stream_requested(self.clock.monotonic())
            case StreamOpened():
                self._pace.stream_opened(self.clock.monotonic())
            case StreamBroke():
                self._pace.stream_broke()
                self._set_timer()

    def _set_timer(self) -> None:
        """Schedule the next relist by the pace, and cancel any other."""
        if self._last_relist is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._number += 1
        due, now = _Relist(self._number), self.clock.monotonic()
        wait = max(0.0, self._last_relist + self._pace.period(now) - now)
        self._timer = self.clock.after(wait, lambda: self._enqueue(due))

    def _enqueue(self, message: _Relist | _InspectHinted) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(message)

    def _apply_inspections(self) -> None:
        for inspection in self._hints.drain_inspections():
            facts, uid = inspection.facts, inspection.facts.ref.uid
            if inspection.at >= self._known_at.get(uid, float("-inf")):
                there = facts.sandboxes or facts.containers
                self._set_known(uid, snapshot_of(facts, inspection.owner) if there else None, inspection.at)

    def relist_due(self) -> None:
        """List everything, now that the period has passed; a replay overrides it, to list at the recorded times."""
        self.relist()

    def inspect_hinted(self) -> None:
        """Inspect the hinted pods if that is due, else later; a replay overrides it to inspect at recorded times."""
        due, now = self._hints.due(self._last_inspection), self.clock.monotonic()
        if due is None:
            return
        if due > now:
            if due < self._next_inspection:
                self._next_inspection = due
                self.clock.after(due - now, lambda: self._enqueue(_InspectHinted()))
            return
        self._last_inspection = now
        self._apply_inspections()
        refs, everything = self._hints.drain()
        if everything or len(refs) > MAX_INSPECTIONS:
            self.relist()
        else:
            self._inspect(refs)

    def is_left_to_worker(self, uid: PodUid) -> bool:
        """Return whether a relist leaves a pod to its worker; a replay overrides it to inspect what its trace did."""
        return self._hints.is_left_to_worker(uid, self.clock.monotonic())

    def reading_time(self) -> float:
        """Return the time of a reading that begins now; a replay overrides it to compare readings as its trace did."""
        return self.clock.monotonic()

    def inspect_now(self, ref: PodRef) -> None:
        """Inspect one pod, hinted or not."""
        self._apply_inspections()
        self._hints.drain()
        self._inspect([ref])

    def _inspect(self, refs: list[PodRef]) -> None:
        """Inspect some pods; if the runtime fails or facts are incomplete, leave the rest to a relist soon."""
        for ref in refs:
            begin = self.reading_time()
            try:
                snapshot = self._reader.snapshot(ref)
                if is_same(self._known.get(ref.uid), snapshot):
                    continue
                inspection = self._read(ref, snapshot, begin)
            except CriError as error:
                self._events.post(RelistFailed(error))
                inspection = None
            if inspection is None:
                self._pace.relist_soon()
                self._set_timer()
                return
            self._events.post(inspection)

    def relist(self) -> None:
        """List everything, and inspect the pods that have changed."""
        begin = self.reading_time()
        self._apply_inspections()
        announced = self._hints.drain_announced()
        self._hints.drain()
        try:
            now = self._reader.snapshots()
        except CriError as error:
            self._events.post(RelistFailed(error))
            self._pace.relist_soon()
        else:
            changed = changed_pods(self._known, now)
            due = [ref for ref in changed if ref.uid not in now or not self.is_left_to_worker(ref.uid)]
            inspections = self._inspect_changed(due, now, begin)
            self._events.post(Relisted(tuple(inspections), now, begin))
            uids = frozenset(ref.uid for ref in changed)
            missed = self._pace.relisted(begin, uids, announced, whole=len(inspections) == len(changed))
            if missed:
                _log.info("the runtime sent no event for a change of pod %s: it is relisted periodically for a while",
                          min(missed))  # fmt: skip
        self._last_relist = self.clock.monotonic()
        self._set_timer()

    def _inspect_changed(
        self, changed: list[PodRef], now: dict[PodUid, PodSnapshot], begin: float
    ) -> list[PodInspection]:
        found = []
        for ref in changed:
            try:
                inspection = self._read(ref, now.get(ref.uid), begin)
            except CriError as error:
                self._events.post(RelistFailed(error))
                if isinstance(error, _RUNTIME_AWAY):
                    break
                continue
            if inspection is not None:
                found.append(inspection)
        return found

    def _read(self, ref: PodRef, snapshot: PodSnapshot | None, begin: float) -> PodInspection | None:
        """Read the facts of one pod; return None when they are incomplete.

        They are when an object was removed after the snapshot, and its successor is not yet visible: the pod counts as
        changed until the next inspection, which sees both.
        """
        facts = self._reader.facts(snapshot) if snapshot is not None else PodFacts(ref)
        if snapshot is not None and not _is_whole(facts, snapshot):
            return None
        self._set_known(ref.uid, snapshot, begin)
        return PodInspection(facts, begin)

    def _set_known(self, uid: PodUid, snapshot: PodSnapshot | None, at: float) -> None:
        if snapshot is not None:
            self._known[uid], self._known_at[uid] = snapshot, at
        else:
            self._known.pop(uid, None)
            self._known_at.pop(uid, None)


def _is_whole(facts: PodFacts, snapshot: PodSnapshot) -> bool:
    """Return whether every sandbox and container of the snapshot was still present."""
    return len(facts.sandboxes) == len(snapshot.sandboxes) and len(facts.containers) == len(snapshot.containers)
