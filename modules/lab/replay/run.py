"""Replays a recorded run."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from beehive import Actor, Module
from beehive.decoding import decode_json
from beehive.delivery import DeliveryMode, DropReason
from beehive.names import ModuleName
from beehive.simulation import EPOCH, Simulation
from beehive.trace import CriCall, Delivered, Direction, NoteKind, Record
from edged.cgroups.tree import SilentTree
from edged.host import Host
from edged.module import Edged
from edged.node.recording import MACHINE_NOTES, RecordingMachineInfo
from edged.node.watch import NodeWatch
from edged.pleg.pleg import Pleg
from edged.pod_workers.workers import Worker
from edged.probes.worker_pool import PROBER, ProbeWorker
from edged.server.snapshots import Snapshots
from edged.static_pods.directory import StaticPodDirectory
from edged.sync.events import SYNCED
from edged.sync_events import PostStartHookEnded
from edged.volumes import MemoryMounts
from edgehub.counters import LinkCounters
from edgehub.module import EdgeHub
from edgehub.outbox.recording import OUTBOX
from edgehub.outgoing import Outgoing
from metamanager.store import Store
from modules.edge.devicetwin.module import DeviceTwin
from modules.lab.replay.acted import acted_at
from modules.lab.replay.compare import Difference, differences
from modules.lab.replay.directories import Directories
from modules.lab.replay.errors import ReplayError
from modules.lab.replay.events import listening
from modules.lab.replay.link import RecordedCloud, outbox_of
from modules.lab.replay.machine_info import RecordedMachineInfo
from modules.lab.replay.module_turns import ModuleTurns
from modules.lab.replay.node_watch import first_report, inspected_at, punctual_node_watch, recorded_node_watch
from modules.lab.replay.outputs import (
    MODULES,
    NODE,
    Output,
    RunOutputs,
    belongs,
    is_shutdown,
    message_of,
    sent_at,
    subject_of,
)
from modules.lab.replay.paced_hive import PacedHive
from modules.lab.replay.pleg import RecordedInspections, recorded_pleg, recorded_worker
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.recorder import Recorder
from modules.lab.replay.runtime import RecordedRuntime, role
from modules.lab.replay.service_links import recorded_service_links
from modules.lab.replay.static_pods import directory_states, replay_directory
from modules.lab.replay.store import RecordedStore, grouped
from modules.lab.replay.stub_module import AttributedHive, DeliveryOrder, Responder, stub_module
from modules.lab.replay.termination import TerminationMessages
from modules.lab.replay.timers import RecordedTimers, timed
from modules.lab.replay.turns import RecordedTurns, begun_in_time, job_turn, paced, probe_turn
from modules.lab.replay.worker_reads import SHARED
from modules.processes.edgecore.settings import meta_settings, twin_settings

M = TypeVar("M", bound=Module)

OTHERS: Final = frozenset(
    {
        ModuleName.EVENTBUS,
        ModuleName.SERVICEBUS,
        ModuleName.EDGEMESH,
        ModuleName.DMI,
        ModuleName.EDGESTREAM,
        ModuleName.TASKMANAGER,
        ModuleName.METASERVER,
        ModuleName.TESTMANAGER,
    }
)
"""Modules of a node whose inputs are in no trace, such as those from a broker; stubs take their place."""

AFTER = 2.0
"""Virtual seconds of the replay after the end of the recorded run."""

_WITH_CONFIG: Final = ("run_pod_sandbox", "create_container")
"""Calls that have the configuration of a sandbox."""
_SOON = 0.05
"""Seconds within which two calls count as simultaneous."""
_DAY = 86400.0
_TIMEOUT = 60.0
"""Time-out in seconds of a request whose answer is not recorded."""

Pace = Callable[[float], None]
"""Called with the virtual time, in seconds, before each step; may wait."""


class Replayed(msgspec.Struct, frozen=True):
    """The result of a replay."""

    module: str
    """Name of the module; empty for the whole node."""
    fed: int
    """Number of messages and frames that went in."""
    recorded: list[Output]
    replayed: list[Output]
    differences: list[Difference]
    seconds: float
    """Virtual duration in seconds."""
    took: float
    """Real duration in seconds."""
    records: Callable[[], tuple[Record, ...]]
    """Returns the records of the replay, as a recorder would have written them."""
    not_played: dict[str, int] = {}
    """For a capture: number of steps that were not played, by reason."""


def replay(
    recorded: Recorded, root: Path, module: str = NODE, *, until: float | None = None, pace: Pace | None = None
) -> Replayed:
    """Replay one module, or the whole node.

    Args:
        recorded: the run.
        root: an empty directory.
        module: one of `MODULES`, or empty for the whole node.
        until: last second of the trace to replay.
        pace: slows virtual time down; None for full speed.

    Raises:
        ReplayError: the trace lacks something that the replay needs.
    """
    if module and module not in MODULES:
        raise ReplayError("cannot replay", module, f"one of {', '.join(MODULES)} can be")
    began = time.perf_counter()
    player = Replay(recorded, root, module)
    end = recorded.end if until is None else min(until, recorded.end)
    try:
        player.run(end, pace)
        took = time.perf_counter() - began
        return player.result(end, took)
    finally:
        player.close()


class Replay:
    """One replay; see `replay`."""

    def __init__(self, recorded: Recorded, root: Path, module: str) -> None:
        self._recorded = recorded
        self._module = module
        self._played = (module,) if module else MODULES
        self._simulation = Simulation(recorded.seed())
        self._clock = self._simulation.clock
        self._clock.jump_wall(recorded.header.began - EPOCH)
        self._directories = Directories(recorded.header, root)
        self._deliveries = recorded.delivered()
        calls, events = recorded.calls(), recorded.events()
        self._module_turns = ModuleTurns(recorded.records)
        self._turns = turns = RecordedTurns(recorded.notes(NoteKind.TURN), self._module_turns)
        acted = turns.answered if turns.are_known else acted_at(self._deliveries, calls)
        self._hive = self._make_hive(acted)
        self._recorder = Recorder(self._hive)
        self._fed = 0
        self._stores: list[RecordedStore] = []
        """Each time that metamanager opened its store, the last one last."""
        order = None if turns.are_known else DeliveryOrder(self._deliveries)
        self._answers = Responder(self._hive, self._deliveries, acted, self._is_played, order)
        messages = TerminationMessages(self._deliveries)
        ends = [note for note in recorded.notes(MACHINE_NOTES.kind) if note.text == MACHINE_NOTES.ends]
        self._runtime = RecordedRuntime(
            self._simulation, calls, self._directories.ours, events, messages, recorded.notes(NoteKind.TURN), ends
        )
        of_frames = {} if module or turns.are_known else acted
        self._cloud = RecordedCloud(self._simulation, recorded, of_frames, alone=bool(module) and not turns.are_known)
        self._cut_off = {role(call.method, call.request) for call in recorded.cut_off()}
        self._machine_info = RecordedMachineInfo(self._clock, recorded.notes(MACHINE_NOTES.kind))
        present = {one.module for one in self._deliveries} | {one.sender.partition("/")[0] for one in self._deliveries}
        for name in MODULES:
            if (name in present or recorded.foreign) and name in self._played:
                self._add(name)
            elif name in present:
                self._hive.add(stub_module(name), self._answers.handle)
        for other in sorted(present & OTHERS):
            self._hive.add(stub_module(other), self._answers.handle)

    def run(self, end: float, pace: Pace | None) -> None:
        """Run until some time after `end`."""
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

    def close(self) -> None:
        """End the replayed actors and close their stores."""
        self._simulation.close()
        for store in self._stores:
            store.close()

    def result(self, end: float, took: float) -> Replayed:
        """Compare the replay with the recorded run."""
        records = self._recorder.records(reads=False)
        given = self._given()
        known = self._machine_info.known
        reader = RunOutputs(self._module, given, same_machine=known)
        theirs = reader.outputs(self._recorded.records)
        extra = [
            call
            for call in self._runtime.unanswered
            if not (self._was_under_way(call, reader) or self._was_interrupted(call))
        ]
        ours = RunOutputs(self._module, given, same_machine=known, plain=self._directories.theirs, pods=reader.pods)
        done = ours.outputs((*records, *self._runtime.under_way, *extra))
        return Replayed(
            module=self._module,
            fed=self._fed + self._answers.given + self._cloud.given,
            recorded=[one for one in theirs if one.time <= end],
            replayed=done,
            differences=differences(theirs, done, end),
            seconds=end,
            took=took,
            records=self._recorder.records,
        )

    def _was_under_way(self, call: CriCall, reader: RunOutputs) -> bool:
        """Return whether a call without a record may have been under way when the recording ended: it was cut off then,
        or no later call is about its pod. A pull goes on without the pod that began it, until its image is pulled
        again.
        """
        what = role(call.method, call.request)
        if what in self._cut_off:
            return True
        later = [one for one in self._recorded.calls() if one.time - one.seconds > call.time + _SOON]
        if call.method == SHARED:
            return not any(what == role(one.method, one.request) for one in later)
        request = decode_json(call.request)
        config = request.get("sandbox_config") or request.get("config") or {}
        subject = subject_of(request)
        names = (
            (config.get("metadata", {}).get("uid") or reader.pods.get(subject) or subject).encode(),
            subject.encode(),
        )
        return not any(
            one.sender != PROBER  # a container is probed while it is stopped
            and not one.sender.endswith("/Pleg")
            and any(name in one.request for name in names)
            for one in later
        )

    def _was_interrupted(self, call: CriCall) -> bool:
        """Return whether a call without a record may be that of a postStart hook whose pod was deleted before a busy
        machine ran the hook's thread: the recorded run took the result of such a hook later, and never made the call.
        """
        name = f"{PostStartHookEnded.__name__} {decode_json(call.request).get('container_id')}"
        return (
            call.method == "exec_sync"
            and any(note.text == name and note.time > call.time for note in self._recorded.notes(NoteKind.TURN))
            and role(call.method, call.request) not in {role(one.method, one.request) for one in self._recorded.calls()}
        )

    def _start(self) -> float:
        """Return when the replayed part did or received something for the first time. What others sent to a module that
        had not started yet is nothing: a busy machine may take seconds from one module's start to the next.
        """
        is_edged = ModuleName.EDGED in self._played
        began = [call.time - call.seconds for call in self._recorded.calls()[:1] if is_edged]
        for one in self._deliveries:
            if self._is_played(one.sender) or (one.module in self._played and _was_handled(one)):
                began.append(sent_at(one))
                break
        return max(0.0, min(began, default=0.0))

    def _add(self, name: str) -> None:
        hive, directories, recorder = self._hive, self._directories, self._recorder
        if name == ModuleName.METAMANAGER:
            settings = replace(meta_settings(directories.config), data_source=str(directories.database))
            hive.add(self._paced(grouped(lambda: self._stores[-1])), settings, self._open_store)
        elif name == ModuleName.DEVICETWIN:
            hive.add(self._paced(DeviceTwin), twin_settings(directories.config))
        elif name == ModuleName.EDGED:
            hive.add(
                listening(self._paced(Edged), self._runtime.events, self._parts_of_edged()),
                directories.edged(self._machine_info.address),
                lambda: recorder.runtime(self._runtime.client()),
                Snapshots(),
                self._recorded.agent_version(),
                Host(
                    machine_info=RecordingMachineInfo(self._machine_info, recorder.sink),
                    mounts=MemoryMounts(),
                    cgroups=SilentTree() if _had_cgroups(self._recorded) else None,
                    service_links=recorded_service_links(self._simulation, self._recorded.notes(MACHINE_NOTES.kind)),
                    noticed_end=self._runtime.noticed_end,
                ),
            )
        else:
            link = directories.edgehub()
            outgoing = Outgoing(link.limits, link.heartbeat)
            timers = RecordedTimers(self._recorded.records, name)
            hub = paced(EdgeHub, self._turns, timers) if self._turns.are_known else timed(timers)
            outbox = outbox_of(self._recorded.notes(OUTBOX), self._simulation)
            hive.add(hub, link, recorder.links(self._cloud.make_link), outgoing, LinkCounters(), None, outbox)

    def _open_store(self, source: str) -> Store:
        exact, commits, turns = self._turns.are_known, self._recorded.commits(), self._module_turns
        self._stores.append(RecordedStore(Path(source), self._simulation, commits, turns, exact=exact))
        return self._recorder.store(self._stores[-1])

    def _parts_of_edged(self) -> dict[type[Actor], type[Actor]]:
        """Return the actors that take the place of some of edged's."""
        inspections = RecordedInspections(self._recorded.calls(), self._recorded.events(), self._recorded.moments())
        return {
            StaticPodDirectory: replay_directory(directory_states(self._deliveries, self._directories.ours)),
            Pleg: recorded_pleg(inspections, are_turns_known=self._turns.are_known),
            **(self._of_turns() if self._turns.are_known else self._of_older_runs()),
        }

    def _of_turns(self) -> dict[type[Actor], type[Actor]]:
        for pod, begun in self._runtime.read_by_workers().items():
            self._turns.add_unfinished(ModuleName.EDGED, f"{SYNCED} {pod}", begun)
        return {
            Worker: begun_in_time(recorded_worker(self._runtime.read_at), self._simulation, self._turns, job_turn),
            NodeWatch: punctual_node_watch(inspected_at(self._recorded.calls())),
            ProbeWorker: begun_in_time(ProbeWorker, self._simulation, self._turns, probe_turn),
        }

    def _of_older_runs(self) -> dict[type[Actor], type[Actor]]:
        """Return the actors that guess when edged took results, for a run that has no turns."""
        return {
            Worker: recorded_worker(self._runtime.read_at, self._runtime.synced_at),
            NodeWatch: recorded_node_watch(first_report(self._deliveries)),
        }

    def _make_hive(self, acted: Mapping[int, float]) -> AttributedHive:
        if self._turns.are_known:
            alone = bool(self._module)
            return PacedHive(self._simulation, self._deliveries, acted, self._played, self._module_turns, alone=alone)
        if self._module:
            return AttributedHive(self._simulation)
        is_simulated = self._recorded.header.seed is not None
        return PacedHive(self._simulation, self._deliveries, acted, is_simulated=is_simulated)

    def _paced(self, module: type[M]) -> type[M]:
        """Return a module that takes its turns at the recorded times, as far as they are known."""
        if not self._turns.are_known:
            return module
        return paced(module, self._turns, RecordedTimers(self._recorded.records, module.name))

    def _schedule(self) -> None:
        """Schedule the clock's jumps and the messages to the replayed module."""
        now = self._clock.monotonic()
        for note in self._recorded.notes("clock"):
            self._clock.after(note.time - now, partial(self._clock.jump_wall, note.data))
        if not self._module:
            self._schedule_messages()
            return
        answered = {one.message.parent_id for one in self._deliveries if one.way == DeliveryMode.RESPONSE}
        for one in self._deliveries:
            if one.way == DeliveryMode.REQUEST and one.module != self._module and not belongs(one.sender, self._module):
                seconds = _DAY if one.message.id in answered else _TIMEOUT
                self._clock.after(sent_at(one) - now, partial(self._await, one, seconds))
        for one in sorted(self._deliveries, key=lambda one: one.time - one.handled):
            if one.module == self._module and not self._is_own(one) and _was_handled(one):
                due = one.time - one.handled
                self._clock.after(due - now, partial(self._feed, one))

    def _schedule_messages(self) -> None:
        """For a whole node: schedule the messages and requests from outside of it, such as a mapper's reports."""
        now = self._clock.monotonic()
        for one in self._deliveries:
            if not self._is_own(one) and one.module in MODULES and _was_handled(one):
                self._clock.after(sent_at(one) - now, partial(self._feed, one))

    def _is_own(self, one: Delivered) -> bool:
        """Return whether the replayed part sent it, and so sends it again; logind's messages come from outside."""
        return not is_shutdown(one) and self._is_played(one.sender)

    def _is_played(self, actor: str) -> bool:
        """Return whether an actor belongs to a replayed module."""
        return any(belongs(actor, name) for name in self._played)

    def _feed(self, one: Delivered) -> None:
        self._fed += 1
        message = self._answers.ids.answer(one.message.message())
        if one.way == DeliveryMode.REQUEST:
            self._hive.request_then(one.module, message, _DAY, lambda _answer: None)
        else:
            self._hive.send(one.module, message)
        self._answers.message_fed(one)

    def _await(self, request: Delivered, seconds: float) -> None:
        """Register a request between two modules that are not replayed. Some answers, such as a link's reply with the
        cloud's answer, need its waiter.
        """
        self._hive.pending_requests.register(
            request.message.message(), seconds, lambda _answer: None, asked=(request.module,)
        )

    def _given(self) -> frozenset[str]:
        """Return the ids of messages that came from outside of the replayed part."""
        given = {one.message.id for one in self._deliveries if not self._is_played(one.sender)}
        for frame in self._recorded.frames():
            message = message_of(frame.frame) if frame.direction is Direction.IN else None
            if message is not None:
                given.add(message.id)
        return frozenset(given)


def _had_cgroups(recorded: Recorded) -> bool:
    """Return whether pods had cgroups of their own, which depends on the machine: the recorded CRI requests tell."""
    return any(call.method in _WITH_CONFIG and b'"cgroup_parent"' in call.request for call in recorded.calls())


def _was_handled(one: Delivered) -> bool:
    return one.way != DeliveryMode.RESPONSE and (one.outcome == "handled" or one.reason == DropReason.POISON)
