"""Replays a capture against our edge; see `modules.lab.replay.foreign`."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

import edgehub
from beehive import Hive
from beehive.decoding import decode_json
from beehive.errors import StopError
from beehive.names import Operation
from beehive.simulation import EPOCH, Simulation
from beehive.trace import Direction, LinkFrame, Record
from edged.host import Host
from edged.module import Edged
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.volumes import MemoryMounts
from edgehub.settings import EdgeHubSettings
from metamanager.module import MetaManager, MetaSettings
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.replay.capture import AgentRun, CapturedMessage, agent_runs, connections, node_in, registers
from modules.lab.replay.captured_cloud import CapturedCloud, CapturedLink
from modules.lab.replay.machine_info import RecordedMachineInfo
from modules.lab.replay.outputs import Output, message_of
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.recorder import Recorder
from modules.lab.replay.unplayed import summary, unplayed
from modules.processes.common.version import KUBELET_VERSION

_OPEN_PHASE: Final = "Pending"
"""Our edge does not report it if the pod runs a moment later."""


class AgainstEdge:
    """Our edge, started as often as the real one was and with its store kept between, against the captured cloud."""

    def __init__(self, recorded: Recorded, root: Path) -> None:
        found = connections(recorded)
        self._messages = [one for connection in found for one in connection.messages]
        self._node = node_in(self._messages)
        self._agent_runs = agent_runs(found, self._node)
        self._unplayed = unplayed(self._messages, whole=registers(found[0], self._node))
        self._root = root
        self.simulation = Simulation()
        self.simulation.clock.jump_wall(recorded.header.began - EPOCH)
        self._runtime = FakeRuntime(self.simulation)
        self._clouds: list[CapturedCloud] = []
        self._recorders: list[Recorder] = []

    @property
    def fed(self) -> int:
        """Number of messages that the cloud sent."""
        return sum(cloud.sent for cloud in self._clouds)

    @property
    def not_played(self) -> dict[str, int]:
        """How many steps of the real edge are not expected of ours, by reason."""
        return summary(self._messages, self._unplayed)

    def records(self) -> tuple[Record, ...]:
        """Return the records of all runs of our edge."""
        return tuple(record for recorder in self._recorders for record in recorder.records())

    def run(self, end: float, go: Callable[[float], None]) -> None:
        """Run until `end`; `go` advances virtual time to a moment."""
        for number, agent_run in enumerate(self._agent_runs):
            if number and agent_run.began >= end:
                return
            go(0.0 if not number else agent_run.began)
            hive = self._start(number, agent_run)
            last = number + 1 == len(self._agent_runs)
            go(end if last else min(end, agent_run.connections[-1].down))
            if not last:
                with suppress(StopError):
                    hive.stop()

    def outputs(self) -> tuple[list[Output], list[Output]]:
        """Return the steps of the real edge, and our steps that the real edge took too, run by run.

        Our edge may do more: it renews its lease at other times, and repeats requests that the capture does not answer.
        """
        theirs: list[Output] = []
        ours: list[Output] = []
        for number, agent_run in enumerate(self._agent_runs):
            played = [one for one in agent_run.messages if one.message.id not in self._unplayed]
            theirs += _steps(played, number)
            if number < len(self._recorders):
                sent = _sent_by(self._recorders[number])
                ours += _steps([*sent, *(one for one in agent_run.messages if one.to_edge)], number)
        expected = {one.about for one in theirs}
        return theirs, [one for one in ours if one.about in expected]

    def _start(self, number: int, agent_run: AgentRun) -> Hive:
        hive = Hive(self.simulation)
        recorder = Recorder(hive)
        before = [one for each in self._agent_runs[:number] for one in each.messages]
        cloud = CapturedCloud(self.simulation, agent_run, before, self._node)
        self._recorders.append(recorder)
        self._clouds.append(cloud)
        hive.add(MetaManager, MetaSettings(str(self._root / "edgecore.db")))
        host = Host(machine_info=RecordedMachineInfo(self.simulation.clock, []), mounts=MemoryMounts())
        hive.add(Edged, self._settings(), self._runtime.connect, Snapshots(), KUBELET_VERSION, host)
        hub = EdgeHubSettings(url="ws://capture:1", node=self._node)
        edgehub.install(hive, hub, make_link=lambda: CapturedLink(cloud), wrap=recorder.links)
        hive.start()
        return hive

    def _settings(self) -> EdgedSettings:
        return EdgedSettings(
            node_name=self._node,
            root=self._root / "edged",
            pod_logs=self._root / "logs",
            runtime_endpoint="unix:///replay",
            node_ip="192.0.2.1",
            server_port=0,
        )


def _sent_by(recorder: Recorder) -> list[CapturedMessage]:
    """Return the messages that our edge sent."""
    found = []
    for frame in recorder.records():
        message = message_of(frame.frame) if isinstance(frame, LinkFrame) else None
        if isinstance(frame, LinkFrame) and message is not None and frame.direction is Direction.OUT:
            found.append(CapturedMessage(frame.time, to_edge=False, message=message))
    return found


def _steps(messages: list[CapturedMessage], agent_run: int) -> list[Output]:
    """Return the messages of an edge as steps: a question, the acknowledgement of a message, a reported phase.

    A question counts for all runs together, because the edge may have kept the answer from an earlier one.
    """
    asked = {one.message.id: one for one in messages if one.to_edge}
    found = []
    for one in messages:
        operation, resource = one.step
        if one.to_edge:
            continue
        about = asked.get(one.message.parent_id.partition("#")[0])
        title = f"{operation} {resource}"
        if about is not None:
            title = f"{operation} {resource} to {about.message.operation}"
        may_be_kept = operation == Operation.QUERY or (about is not None and about.message.parent_id)
        found.append(_step(one.time, title, 0 if may_be_kept else agent_run))
        phase = _phase_in(one.message.content) if "/podpatch/" in resource else ""
        if phase and phase != _OPEN_PHASE:
            found.append(_step(one.time, f"report {resource} {phase}", agent_run))
    return list({one.about: one for one in reversed(found)}.values())[::-1]


def _step(time: float, title: str, agent_run: int) -> Output:
    return Output(time, (agent_run, title), title, (title,), ordered=False)


def _phase_in(content: bytes) -> str:
    try:
        patch = decode_json(decode_json(content, str))
        return str(patch["status"].get("phase", ""))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return ""
