"""Our edge against a captured cloud; see `modules.replay.foreign`."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

import edgehub
from beehive import Hive
from beehive.errors import StopError
from beehive.names import Operation
from beehive.simulation import EPOCH, Simulation
from beehive.trace import Direction, LinkFrame, Record
from edged.module import Edged
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.testing import FakeRuntime
from edged.volumes import MemoryMounts
from edgehub.settings import EdgeHubSettings
from metamanager.module import MetaManager, MetaSettings
from modules.edgecore.version import KUBELET_VERSION
from modules.replay.capture import Captured, Life, connections, lives, node_in, registers
from modules.replay.captured_cloud import CapturedCloud, CapturedLink
from modules.replay.ear import Ear
from modules.replay.figures import RecordedFigures
from modules.replay.outputs import Output, message_of
from modules.replay.recorded import Recorded
from modules.replay.unplayed import summary, unplayed

_OPEN_PHASE: Final = "Pending"
"""Ours does not report it when the pod runs a moment later."""


class AgainstEdge:
    """Our edge, started as often as the real one was, on what it kept; and the captured cloud."""

    def __init__(self, recorded: Recorded, root: Path) -> None:
        found = connections(recorded)
        self._messages = [one for connection in found for one in connection.messages]
        self._node = node_in(self._messages)
        self._lives = lives(found, self._node)
        self._unplayed = unplayed(self._messages, whole=registers(found[0], self._node))
        self._root = root
        self.simulation = Simulation()
        self.simulation.clock.jump_wall(recorded.header.began - EPOCH)
        self._runtime = FakeRuntime(self.simulation)
        self._clouds: list[CapturedCloud] = []
        self._ears: list[Ear] = []

    @property
    def fed(self) -> int:
        """Messages that the cloud said."""
        return sum(cloud.said for cloud in self._clouds)

    @property
    def not_played(self) -> dict[str, int]:
        """How many steps of the real edge ours is not expected to take, by the reason."""
        return summary(self._messages, self._unplayed)

    def records(self) -> tuple[Record, ...]:
        """What our edge did in all its lives."""
        return tuple(record for ear in self._ears for record in ear.records())

    def run(self, end: float, go: Callable[[float], None]) -> None:
        """Go through the captured time; `go` lets it pass until a moment."""
        for number, life in enumerate(self._lives):
            if number and life.began >= end:
                return
            go(0.0 if not number else life.began)
            hive = self._start(number, life)
            last = number + 1 == len(self._lives)
            go(end if last else min(end, life.connections[-1].down))
            if not last:
                with suppress(StopError):
                    hive.stop()

    def outputs(self) -> tuple[list[Output], list[Output]]:
        """The steps that the real edge took, and those of them that ours took, life by life.

        Ours may do more: it renews its lease at other times, and asks again what the capture does not answer.
        """
        theirs: list[Output] = []
        ours: list[Output] = []
        for number, life in enumerate(self._lives):
            played = [one for one in life.messages if one.message.id not in self._unplayed]
            theirs += _steps(played, number)
            if number < len(self._ears):
                heard = _said_to(self._ears[number])
                ours += _steps([*heard, *(one for one in life.messages if one.to_edge)], number)
        wanted = {one.about for one in theirs}
        return theirs, [one for one in ours if one.about in wanted]

    def _start(self, number: int, life: Life) -> Hive:
        hive = Hive(self.simulation)
        ear = Ear(hive)
        before = [one for each in self._lives[:number] for one in each.messages]
        cloud = CapturedCloud(self.simulation, life, before, self._node)
        self._ears.append(ear)
        self._clouds.append(cloud)
        hive.add(MetaManager, MetaSettings(str(self._root / "edgecore.db")))
        figures = RecordedFigures(self.simulation.clock, [])
        hive.add(
            Edged, self._settings(), self._runtime.connect, Snapshots(), KUBELET_VERSION, figures, mounts=MemoryMounts()
        )
        hub = EdgeHubSettings(url="ws://capture:1", node=self._node)
        edgehub.install(hive, hub, make_link=lambda: CapturedLink(cloud), wrap=ear.links)
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


def _said_to(ear: Ear) -> list[Captured]:
    """What our edge said."""
    found = []
    for frame in ear.records():
        message = message_of(frame.frame) if isinstance(frame, LinkFrame) else None
        if isinstance(frame, LinkFrame) and message is not None and frame.direction is Direction.OUT:
            found.append(Captured(frame.time, to_edge=False, message=message))
    return found


def _steps(messages: list[Captured], life: int) -> list[Output]:
    """What an edge said, as steps: a question, the acknowledgement of a message, a phase that it reported.

    What it asked for in an earlier life it may have kept, so that it matters only that it asked at all.
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
        found.append(_step(one.time, title, 0 if may_be_kept else life))
        phase = _phase_in(one.message.content) if "/podpatch/" in resource else ""
        if phase and phase != _OPEN_PHASE:
            found.append(_step(one.time, f"report {resource} {phase}", life))
    return list({one.about: one for one in reversed(found)}.values())[::-1]


def _step(time: float, title: str, life: int) -> Output:
    return Output(time, (life, title), title, (title,), ordered=False)


def _phase_in(content: bytes) -> str:
    try:
        patch = msgspec.json.decode(msgspec.json.decode(content, type=str))
        return str(patch["status"].get("phase", ""))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return ""
