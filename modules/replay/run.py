"""Replays a recorded run and says what came of it."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from beehive import Hive
from beehive.delivery import DropReason, Way
from beehive.names import ModuleName
from beehive.simulation import EPOCH, Simulation
from beehive.trace import CriCall, Delivered, Direction, Record
from edged.cgroups.tree import SilentTree
from edged.node.recording import RecordingFigures
from edged.server.snapshots import Snapshots
from edged.volumes import MemoryMounts
from edgehub.counters import LinkCounters
from edgehub.outbox.recording import OUTBOX
from edgehub.outgoing import Outgoing
from metamanager.module import MetaManager
from modules.edgecore.settings import meta_settings
from modules.replay.compare import Difference, differences
from modules.replay.ear import Ear
from modules.replay.errors import ReplayError
from modules.replay.events import listening
from modules.replay.figures import RecordedFigures
from modules.replay.link import RecordedCloud
from modules.replay.outbox import outbox_of
from modules.replay.outputs import NODE, Output, View, belongs, is_shutdown, message_of, sent_at, subject_of
from modules.replay.places import Places
from modules.replay.recorded import Recorded
from modules.replay.runtime import RecordedRuntime, role
from modules.replay.stand_in import Answers, stand_in
from modules.replay.static_pods import looking, looks
from modules.replay.store import RecordedStore
from modules.replay.timers import RecordedTimers, timed

MODULES = (ModuleName.METAMANAGER, ModuleName.EDGED, ModuleName.EDGEHUB)
"""Modules that can be replayed, in the order of their start."""

AFTER = 2.0
"""Virtual seconds for which the replay goes on after the end of the recorded run."""

_SOON = 0.05
"""Seconds within which two calls are of one moment."""
_DAY = 86400.0
_PATIENCE = 60.0
"""Seconds that a request waits whose answer did not come."""

Pace = Callable[[float], None]
"""Called with virtual time before it goes on; may wait."""


class Replayed(msgspec.Struct, frozen=True):
    """What came of a replay."""

    module: str
    """Its name, or empty: the whole node."""
    fed: int
    """Messages and frames that were put in."""
    recorded: list[Output]
    replayed: list[Output]
    differences: list[Difference]
    seconds: float
    """Virtual seconds."""
    took: float
    """Real seconds."""
    records: Callable[[], tuple[Record, ...]]
    """Makes what the replay did, as a recorder would have written it."""
    not_played: dict[str, int] = {}
    """Of a capture: how many steps were not played, by the reason."""


def replay(
    recorded: Recorded, root: Path, module: str = NODE, *, until: float | None = None, pace: Pace | None = None
) -> Replayed:
    """Replay one module, or the whole node.

    Args:
        recorded: the run.
        root: an empty directory.
        module: one of `MODULES`, or empty.
        until: seconds of the trace after which to stop.
        pace: see there.

    Raises:
        ReplayError: the trace does not have what is needed.
    """
    if module and module not in MODULES:
        raise ReplayError("cannot replay", module, f"one of {', '.join(MODULES)} can be")
    began = time.perf_counter()
    stage = Stage(recorded, root, module)
    end = recorded.end if until is None else min(until, recorded.end)
    stage.run(end, pace)
    took = time.perf_counter() - began
    return stage.result(end, took)


class Stage:
    """One replay; see `replay`."""

    def __init__(self, recorded: Recorded, root: Path, module: str) -> None:
        self._recorded = recorded
        self._module = module
        self._simulation = Simulation(recorded.seed())
        self._clock = self._simulation.clock
        self._clock.jump_wall(recorded.header.began - EPOCH)
        self._places = Places(recorded.header, root)
        self._hive = Hive(self._simulation)
        self._ear = Ear(self._hive)
        self._fed = 0
        self._deliveries = recorded.delivered()
        self._answers = Answers(self._hive, self._deliveries, lambda actor: bool(module) and belongs(actor, module))
        self._runtime = RecordedRuntime(self._simulation, recorded.calls(), self._places.ours, recorded.events())
        self._cloud = RecordedCloud(self._simulation, recorded)
        self._cut_off = {role(call.method, call.request) for call in recorded.cut_off()}
        self._figures = RecordedFigures(self._clock, recorded.notes("figures"))
        present = {one.module for one in self._deliveries} | {one.sender.partition("/")[0] for one in self._deliveries}
        for name in MODULES:
            if name == module or (not module and (name in present or recorded.foreign)):
                self._add(name)
            elif name in present:
                self._hive.add(stand_in(name), self._answers.take)

    def run(self, end: float, pace: Pace | None) -> None:
        """Go through the recorded time."""
        start = self._start()
        self._simulation.run_for(start)
        self._schedule()
        self._hive.start()
        while (now := self._clock.monotonic()) < end + AFTER:
            step = end + AFTER - now
            if pace is not None:
                step = min(step, 0.05)
                pace(now)
            self._simulation.run_for(step)

    def result(self, end: float, took: float) -> Replayed:
        """What came of it."""
        records = self._ear.records(looks=False)
        given = self._given()
        known = self._figures.known
        view = View(self._module, given, figures=known)
        theirs = view.outputs(self._recorded.records)
        extra = [call for call in self._runtime.unanswered if not self._was_under_way(call, view)]
        ours = View(self._module, given, figures=known, plain=self._places.theirs, pods=view.pods)
        done = ours.outputs((*records, *extra))
        return Replayed(
            module=self._module,
            fed=self._fed + self._answers.given + self._cloud.given,
            recorded=[one for one in theirs if one.time <= end],
            replayed=done,
            differences=differences(theirs, done, end),
            seconds=end,
            took=took,
            records=self._ear.records,
        )

    def _was_under_way(self, call: CriCall, view: View) -> bool:
        """Whether a call that has no record may have been made and not have ended when the recording did: it was cut
        off then, or its pod was not touched any more.
        """
        if role(call.method, call.request) in self._cut_off:
            return True
        request = msgspec.json.decode(call.request)
        config = request.get("sandbox_config") or request.get("config") or {}
        subject = subject_of(request)
        names = (config.get("metadata", {}).get("uid") or view.pods.get(subject) or subject).encode(), subject.encode()
        return not any(
            later.time - later.seconds > call.time + _SOON
            and not later.sender.endswith("/Pleg")
            and any(name in later.request for name in names)
            for later in self._recorded.calls()
        )

    def _start(self) -> float:
        """When the replayed part began: at the first thing that it did or got."""
        module = self._module
        began = [call.time - call.seconds for call in self._recorded.calls()[:1] if module in (NODE, ModuleName.EDGED)]
        for one in self._deliveries:
            if not module or module == one.module or belongs(one.sender, module):
                began.append(sent_at(one))
                break
        return max(0.0, min(began, default=0.0))

    def _add(self, name: str) -> None:
        hive, places, ear = self._hive, self._places, self._ear
        if name == ModuleName.METAMANAGER:
            commits = self._recorded.commits()
            hive.add(
                MetaManager,
                replace(meta_settings(places.config), data_source=str(places.database)),
                lambda source: ear.store(RecordedStore(Path(source), self._simulation, commits)),
            )
        elif name == ModuleName.EDGED:
            hive.add(
                listening(self._runtime.events, looking(looks(self._deliveries, places.ours))),
                places.edged(self._figures.address),
                lambda: ear.runtime(self._runtime.client()),
                Snapshots(),
                self._recorded.agent_version(),
                RecordingFigures(self._figures, self._clock, ear.add),
                mounts=MemoryMounts(),
                cgroups=SilentTree() if _had_cgroups(self._recorded) else None,
            )
        else:
            settings = places.edgehub()
            outgoing = Outgoing(settings.limits, settings.heartbeat)
            hub = timed(RecordedTimers(self._recorded.records, name))
            outbox = outbox_of(self._recorded.notes(OUTBOX))
            hive.add(hub, settings, ear.links(self._cloud.make_link), outgoing, LinkCounters(), None, outbox)

    def _schedule(self) -> None:
        """Set the clock's jumps, and what the replayed module was sent."""
        now = self._clock.monotonic()
        for note in self._recorded.notes("clock"):
            self._clock.after(note.time - now, partial(self._clock.jump_wall, note.data))
        if not self._module:
            self._schedule_foreign()
            return
        answered = {one.message.parent_id for one in self._deliveries if one.way == Way.RESPONSE}
        for one in self._deliveries:
            if one.way == Way.REQUEST and one.module != self._module and not belongs(one.sender, self._module):
                seconds = _DAY if one.message.id in answered else _PATIENCE
                self._clock.after(sent_at(one) - now, partial(self._await, one, seconds))
        for one in sorted(self._deliveries, key=lambda one: one.time - one.handled):
            if one.module == self._module and not self._is_own(one) and _was_taken(one):
                due = one.time - one.handled
                self._clock.after(due - now, partial(self._feed, one))

    def _schedule_foreign(self) -> None:
        """Of a whole node: what was sent by somebody who is not replayed."""
        now = self._clock.monotonic()
        for one in self._deliveries:
            if not self._is_own(one) and one.module in MODULES and one.way == Way.SEND and _was_taken(one):
                self._clock.after(sent_at(one) - now, partial(self._feed, one))

    def _is_own(self, one: Delivered) -> bool:
        """Whether it was sent by what is replayed, and will be again; what logind says comes from outside."""
        replayed = [self._module] if self._module else MODULES
        return not is_shutdown(one) and any(belongs(one.sender, name) for name in replayed)

    def _feed(self, one: Delivered) -> None:
        self._fed += 1
        message = one.message.message()
        if one.way == Way.REQUEST:
            self._hive.request_then(one.module, message, _DAY, lambda _answer: None)
        else:
            self._hive.send(one.module, message)
        self._answers.fed(one)

    def _await(self, request: Delivered, seconds: float) -> None:
        """Others asked each other: who answers, such as the link with what the cloud says, finds that they wait."""
        self._hive.waiters.register(request.message.message(), seconds, lambda _answer: None, asked=(request.module,))

    def _given(self) -> frozenset[str]:
        """Ids of messages that came from outside of what is replayed."""
        module = self._module
        given = {one.message.id for one in self._deliveries if module and not belongs(one.sender, module)}
        for frame in self._recorded.frames():
            message = message_of(frame.frame) if frame.direction is Direction.IN else None
            if message is not None:
                given.add(message.id)
        return frozenset(given)


def _had_cgroups(recorded: Recorded) -> bool:
    """Whether pods had cgroups of their own: it depended on the machine, so it is seen in what the runtime was told."""
    return any(call.method == "run_pod_sandbox" and b'"cgroup_parent"' in call.request for call in recorded.calls())


def _was_taken(one: Delivered) -> bool:
    return one.way != Way.RESPONSE and (one.outcome == "handled" or one.reason == DropReason.POISON)
