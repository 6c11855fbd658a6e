"""The PLEG and the workers of a replay: edged takes their results at the recorded times.

Threads decide which pods the PLEG inspects, and when: it waits up to 50 ms between two inspections, a worker that has
just read a pod drops the pod's hint, and the module may be busy. So a replay inspects pods at the recorded times.
Today's code evaluates the runtime's answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from beehive.decoding import decode_json
from beehive.trace import CriCall, CriEvent
from edged.pleg.hints import Hints
from edged.pleg.messages import PlegEvent, PodInspection, Relisted
from edged.pleg.pace import RelistPace
from edged.pleg.pleg import Pleg
from edged.pleg.reader import RuntimeReader
from edged.pleg.recording import CHANGED, GONE
from edged.pod_workers.job import Done
from edged.pod_workers.workers import Syncer, Worker
from edged.pods import labels
from edged.pods.model import PodRef, PodUid
from edged.sync_events import SyncEvents
from modules.lab.replay.turns import call_at

_NAME: Final = "/Pleg"
"""End of the PLEG's name as an actor."""
_NEAR: Final = 0.25
"""Seconds within which a relist that is due counts as a recorded one."""
_LATE: Final = 5.0
"""Seconds that a busy machine, or one that stands still, may relist late."""
_MOMENT: Final = 1e-6
"""Seconds between the beginnings of an inspection and of its first call."""


class _Inspect(NamedTuple):
    """Inspect a pod, or list everything."""

    ref: PodRef | None


class RecordedInspections:
    """Times at which the PLEG inspected pods, and edged took the results.

    Args:
        calls: calls of the recorded run, in the order of their beginnings.
        events: events of the recorded run.
        moment_of: returns the beginning of the moment of a time (`Recorded.moments`).
    """

    def __init__(
        self,
        calls: Iterable[CriCall],
        events: Iterable[CriEvent],
        moment_of: Callable[[float], float] = lambda time: time,
    ) -> None:
        self.moment_of = moment_of
        self.times: list[tuple[float, PodRef | None]] = []
        """Beginning of each inspection, with its pod; None for a relist."""
        refs: dict[str, PodRef] = {}
        begun: list[tuple[float, str]] = []
        pods: dict[str, str] = {}
        read: set[str] = set()
        self._relists: list[tuple[float, set[str]]] = []
        """Beginning of each relist, and the pods that it read."""
        for call in calls:
            if call.method not in ("list_pod_sandboxes", "list_containers"):
                if call.sender.endswith(_NAME):
                    asked = decode_json(call.request)
                    read.add(pods.get(asked.get("sandbox_id") or asked.get("container_id") or "", ""))
                continue
            for item in decode_json(call.answer or b"[]"):
                ref = labels.ref_from_labels(item.get("labels") or {})
                if ref is not None:
                    refs[ref.uid], pods[item["id"]] = ref, ref.uid
            if call.sender.endswith(_NAME) and call.method == "list_pod_sandboxes":
                asked = decode_json(call.request).get("sandbox_filter") or {}
                begun.append((call.time - call.seconds, (asked.get("label_selector") or {}).get(labels.POD_UID, "")))
                read = set()
                if not begun[-1][1]:
                    self._relists.append((begun[-1][0], read))
        self.times = [(time, refs.get(uid)) for time, uid in begun if not uid or uid in refs]
        self._taken: dict[str, list[float]] = {}
        for event in events:
            if event.kind in (CHANGED, GONE):
                self._taken.setdefault(event.subject, []).append(event.time)

    def has_relist(self, now: float, late: float = _NEAR) -> bool:
        """Return whether everything was listed at about this time, or less than `late` seconds later."""
        return any(now - _NEAR < time < now + late for time, _ in self._relists)

    def has_left(self, uid: str, now: float) -> bool:
        """Return whether the relist that begins now has listed a pod and read no status of it."""
        reads = [read for begun, read in self._relists if now - _NEAR < begun <= now + _MOMENT]
        return bool(reads) and uid not in reads[-1]

    def handled_at(self, uid: str, now: float) -> float:
        """Return when edged took the next result about a pod, before the pod was inspected again; `now` if it took
        none.
        """
        taken = min((time for time in self._taken.get(uid, ()) if time >= now), default=now)
        again = (time for time, ref in self.times if time > now and (ref is None or ref.uid == uid))
        return taken if taken <= min(again, default=float("inf")) else now

    def all_handled_at(self, event: PlegEvent, now: float) -> float:
        """Return when edged took all changes of an event of the PLEG; `now` if it took none."""
        match event:
            case PodInspection(facts):
                return self.handled_at(facts.ref.uid, now)
            case Relisted(changed=changed):
                return max((self.handled_at(one.facts.ref.uid, now) for one in changed), default=now)
            case _:
                return now


class RecordedPleg(Pleg):
    """The PLEG as it is, but for its times. `recorded_pleg` makes a subclass with a run's times."""

    recorded: ClassVar[RecordedInspections]
    are_turns_known: ClassVar[bool] = False
    """Whether edged itself takes the results when it did."""

    def __init__(self, reader: RuntimeReader, events: SyncEvents[PlegEvent], pace: RelistPace, hints: Hints) -> None:
        super().__init__(reader, self, pace, hints)
        self._edged = events

    def on_start(self) -> None:
        """Set the times."""
        super().on_start()
        now = self.clock.monotonic()
        for time, ref in self.recorded.times:
            self.clock.after(max(0.0, time - now), partial(self._remind, _Inspect(ref)))

    def on_receive(self, message: object) -> None:
        """Inspect in the recorded order."""
        match message:
            case _Inspect(ref=None):
                self.relist()
            case _Inspect(ref=PodRef() as ref):
                self.inspect_now(ref)
            case _:
                super().on_receive(message)

    def relist_due(self) -> None:
        """Leave it to the recorded relist, if there is one."""
        if not self.recorded.has_relist(self.clock.monotonic(), _LATE if self.are_turns_known else _NEAR):
            super().relist_due()

    def inspect_hinted(self) -> None:
        """Leave it to the recorded inspections."""

    def is_left_to_worker(self, uid: PodUid) -> bool:
        """Leave to the workers what the recorded relist left to them."""
        return self.recorded.has_left(uid, self.clock.monotonic())

    def reading_time(self) -> float:
        """Return when the present moment began, so that a worker's reading of the same moment is no older."""
        return self.recorded.moment_of(super().reading_time())

    def _remind(self, message: _Inspect) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(message)

    def post(self, event: PlegEvent) -> None:
        """Send an event to edged at its recorded time."""
        now = self.clock.monotonic()
        at = now if self.are_turns_known else self.recorded.all_handled_at(event, now)
        call_at(self.clock, at, partial(self._edged.post, _begun_earlier(event)))

    handle = post


def _begun_earlier(event: PlegEvent) -> PlegEvent:
    """Return an event of the PLEG with inspections that began a moment earlier: the recorded time belongs to their
    first call, not of their beginning, and of two inspections of a pod the later one holds.
    """
    match event:
        case PodInspection():
            return _earlier(event)
        case Relisted(changed=changed):
            return msgspec.structs.replace(event, changed=tuple(_earlier(one) for one in changed))
        case _:
            return event


def _earlier(inspection: PodInspection) -> PodInspection:
    return msgspec.structs.replace(inspection, at=inspection.at - _MOMENT)


def recorded_pleg(recorded: RecordedInspections, *, are_turns_known: bool = False) -> type[Pleg]:
    """Return the PLEG with the recorded times. Without any it is the PLEG as it is."""
    fields = {"recorded": recorded, "are_turns_known": are_turns_known}
    return type("RecordedPleg", (RecordedPleg,), fields) if recorded.times else Pleg


def recorded_worker(
    read_at: Callable[[str, float], float], synced_at: Callable[[str], float] | None = None
) -> type[Worker]:
    """Return a worker whose results, and its readings of pods, have their recorded times.

    A worker and the PLEG often read a pod at once, when a container has ended, and the later reading holds. A replay
    begins a reading with the end of the call before it: earlier than a thread does, and perhaps before the PLEG.

    Args:
        read_at: returns when the recorded run began the reading of a pod that the replay began at a time.
        synced_at: returns when the result of a pod's job was taken that has just ended; None if edged itself takes
            results when it did.
    """

    class RecordedWorker(Worker):
        """A worker as it is, but for when it reads pods, and when its results are taken."""

        def __init__(self, syncer: Syncer, results: SyncEvents[Done]) -> None:
            super().__init__(syncer, self)
            self._edged = results

        def post(self, event: Done) -> None:
            """Send a result to edged at its recorded time."""
            uid = event.job.ref.uid
            done = replace(event, facts_at=read_at(uid, event.facts_at))
            at = self.clock.monotonic() if synced_at is None else synced_at(uid)
            call_at(self.clock, at, partial(self._edged.post, done))

        handle = post

    return RecordedWorker
