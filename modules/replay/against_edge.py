"""Our edge against a captured cloud; see `modules.replay.foreign`."""

from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import msgspec

import edgehub
from beehive import Hive, Message, decode, encode
from beehive.resource import Side, type_of
from beehive.simulation import EPOCH, Simulation
from beehive.trace import Direction, LinkFrame, RecordedMessage
from edged.module import Edged
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.testing import FakeRuntime
from edged.volumes import MemoryMounts
from edgehub.errors import ClosedHereError, LinkError
from edgehub.link import Link, LinkEvents
from edgehub.settings import EdgeHubSettings
from metamanager.module import MetaManager, MetaSettings
from modules.edgecore.version import KUBELET_VERSION
from modules.replay.capture import Captured, Step, captured, node_in
from modules.replay.ear import Ear
from modules.replay.figures import RecordedFigures
from modules.replay.outputs import Output, message_of
from modules.replay.recorded import Recorded

_LATENCY: Final = 0.01
"""Seconds after which the cloud answers."""
_NOT_OURS: Final = frozenset({("get", "membership/detail")})
"""What parts of KubeEdge ask that we do not have: devicetwin."""
_OF_2019: Final = frozenset({"nodestatus", "podstatus"})
"""Types of resources under which an edge of 2019 reported statuses; since then they are patches."""
_OPEN_PHASE: Final = "Pending"
"""Ours does not report it when the pod runs a moment later."""


class AgainstEdge:
    """Our edge, and the captured cloud."""

    def __init__(self, recorded: Recorded, root: Path) -> None:
        self.messages = captured(recorded)
        self.simulation = simulation = Simulation()
        simulation.clock.jump_wall(recorded.header.began - EPOCH)
        self.hive = hive = Hive(simulation)
        self.ear = ear = Ear(hive)
        self._cloud = CapturedCloud(simulation, self.messages)
        node = node_in(self.messages)
        runtime = FakeRuntime(simulation)
        settings = EdgedSettings(
            node_name=node,
            root=root / "edged",
            pod_logs=root / "logs",
            runtime_endpoint="unix:///replay",
            node_ip="192.0.2.1",
            server_port=0,
        )
        hive.add(MetaManager, MetaSettings(str(root / "edgecore.db")))
        figures = RecordedFigures(simulation.clock, [])
        hive.add(Edged, settings, runtime.connect, Snapshots(), KUBELET_VERSION, figures, mounts=MemoryMounts())
        hub = EdgeHubSettings(url="ws://capture:1", node=node)
        edgehub.install(hive, hub, make_link=lambda: CapturedLink(self._cloud), wrap=ear.links)

    @property
    def fed(self) -> int:
        """Messages that the cloud said."""
        return self._cloud.said

    def outputs(self) -> tuple[list[Output], list[Output]]:
        """The steps that the real edge took, and those of them that ours took.

        Ours may do more: it renews its lease at other times, and asks again what the capture does not answer.
        """
        theirs = _steps(self.messages)
        ours = _steps([*captured_in(self.ear), *(one for one in self.messages if one.to_edge)])
        wanted = {one.about for one in theirs}
        return theirs, [one for one in ours if one.about in wanted]


def captured_in(ear: Ear) -> list[Captured]:
    frames = [record for record in ear.records() if isinstance(record, LinkFrame)]
    found = []
    for frame in frames:
        message = message_of(frame.frame)
        if message is not None and frame.direction is Direction.OUT:
            found.append(Captured(frame.time, to_edge=False, message=message))
    return found


def _steps(messages: list[Captured]) -> list[Output]:
    """What an edge said, as steps: a question, the acknowledgement of a message, a phase that it reported."""
    asked = {one.message.id: one for one in messages if one.to_edge}
    found = []
    for one in messages:
        operation, resource = one.step
        if one.to_edge or one.step in _NOT_OURS or type_of(resource, Side.EDGE) in _OF_2019:
            continue
        about = asked.get(one.message.parent_id.partition("#")[0])
        title = f"{operation} {resource}"
        if about is not None:
            title = f"{operation} {resource} to {about.message.operation}"
        found.append(_step(one.time, title))
        phase = _phase_in(one.message)
        if phase and phase != _OPEN_PHASE:
            found.append(_step(one.time, f"report {resource} {phase}"))
    return list({one.about: one for one in reversed(found)}.values())[::-1]


def _step(time: float, title: str) -> Output:
    return Output(time, title, title, (title,), ordered=False)


def _phase_in(message: RecordedMessage) -> str:
    if "/podpatch/" not in message.resource:
        return ""
    try:
        patch = msgspec.json.decode(msgspec.json.decode(message.content, type=str))
        return str(patch["status"].get("phase", ""))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return ""


class CapturedCloud:
    """Says what the real cloud said."""

    def __init__(self, simulation: Simulation, messages: list[Captured]) -> None:
        self.simulation = simulation
        self.said = 0
        steps = {one.message.id: one.step for one in messages if not one.to_edge}
        self._answers: dict[Step, list[Message]] = defaultdict(list)
        self.unasked: list[Captured] = []
        for one in messages:
            asked = steps.get(one.message.parent_id)
            if one.to_edge and asked is not None:
                self._answers[asked].append(one.message.message())
            elif one.to_edge:
                self.unasked.append(one)
        self._numbers: dict[Step, int] = defaultdict(int)

    def answer(self, frame: bytes) -> bytes | None:
        """The answer to a message of our edge: that to the same question of the real one, or to its last."""
        asked = decode(frame)
        step = (asked.route.operation, asked.route.resource)
        answers = self._answers.get(step)
        if not answers or asked.parent_id:
            return None
        number = self._numbers[step]
        self._numbers[step] += 1
        answer = answers[min(number, len(answers) - 1)]
        key = answer.id if number < len(answers) else f"{answer.id}#{number}"
        return encode(answer.with_header(msg_id=key, parent_msg_id=asked.id))


class CapturedLink(Link):
    """A link to the captured cloud."""

    def __init__(self, cloud: CapturedCloud) -> None:
        self._cloud = cloud
        self._queue: Any = cloud.simulation.queue()

    def run(self, events: LinkEvents) -> LinkError:
        """See `Link`."""
        events.opened()
        clock = self._cloud.simulation.clock
        for one in self._cloud.unasked:
            self._later(one.time - clock.monotonic(), encode(one.message.message()))
        while not isinstance(item := self._queue.get(), LinkError):
            if item is None:
                events.confirmed(1)
            else:
                self._cloud.said += 1
                events.received(item)
        return item

    def send(self, frame: bytes) -> None:
        """See `Link`."""
        self._queue.put(None)
        answer = self._cloud.answer(frame)
        if answer is not None:
            self._later(_LATENCY, answer)

    def close(self) -> None:
        """See `Link`."""
        self._queue.put(ClosedHereError())

    def _later(self, seconds: float, frame: bytes) -> None:
        self._cloud.simulation.clock.after(seconds, lambda: self._queue.put(frame))
