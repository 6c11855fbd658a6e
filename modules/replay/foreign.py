"""Captures of other programs, replayed against ours in the role of either side.

There is only the link: what a real cloud and a real edge said to each other. Against our edge (edgehub, metamanager and
edged on a runtime in memory) the cloud says what the real one said: what was unasked at its time, answers when ours has
asked. Ours must take every step that the real edge took: ask what it asked, acknowledge what it acknowledged, report
the phases that it reported. Against our cloudhub the edge says what the real one said, and a stand-in for the
controller what the real cloud answered; what reaches the node and the controller must be what was captured.
"""

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

import edgehub
from beehive import Hive, Message, decode, encode
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Side, type_of
from beehive.simulation import EPOCH, Simulation
from beehive.trace import Direction, LinkFrame, RecordedMessage
from edged.module import Edged
from edged.server.routes import Snapshots
from edged.settings import EdgedSettings
from edged.testing import FakeRuntime
from edgehub.errors import ClosedHereError, LinkError
from edgehub.link import Link, LinkEvents
from edgehub.settings import EdgeHubSettings
from metamanager.module import MetaManager, MetaSettings
from modules.cloudhub.link import FrameCame, LinkEvent, LinkOpened
from modules.cloudhub.module import CloudHub, CloudHubSettings
from modules.edgecore.version import KUBELET_VERSION
from modules.replay.compare import EDGE, differences
from modules.replay.ear import Ear
from modules.replay.errors import ReplayError
from modules.replay.figures import RecordedFigures
from modules.replay.normal import lines
from modules.replay.outputs import NODE, Output, message_of
from modules.replay.recorded import Recorded
from modules.replay.run import AFTER, Pace, Replayed
from modules.replay.stand_in import stand_in

_LATENCY: Final = 0.01
"""Seconds after which the cloud answers."""
_NOT_OURS: Final = frozenset({("get", "membership/detail")})
"""What parts of KubeEdge ask that we do not have: devicetwin."""
_OF_2019: Final = frozenset({"nodestatus", "podstatus"})
"""Types of resources under which an edge of 2019 reported statuses; since then they are patches."""
_OPEN_PHASE: Final = "Pending"
"""Ours does not report it when the pod runs a moment later."""

Step = tuple[str, str]
"""Operation and resource."""


def replay_capture(
    recorded: Recorded, root: Path, module: str, *, until: float | None = None, pace: Pace | None = None
) -> Replayed:
    """Replay a capture against our edge (`NODE`) or our cloudhub.

    Raises:
        ReplayError: another module is asked for, or the capture names no node.
    """
    if module not in (NODE, ModuleName.CLOUDHUB):
        hint = "without --module: against our edge; --module cloudhub: against our cloud"
        raise ReplayError("cannot replay a capture", module, hint)
    began = time.perf_counter()
    stage: _Edge | _Cloud = _Edge(recorded, root) if module == NODE else _Cloud(recorded)
    stage.hive.start()
    end = recorded.end if until is None else min(until, recorded.end)
    while (now := stage.simulation.clock.monotonic()) < end + AFTER:
        if pace is not None:
            pace(now)
        stage.simulation.run_for(end + AFTER - now if pace is None else 0.05)
    took = time.perf_counter() - began
    theirs, ours = stage.outputs()
    theirs = [one for one in theirs if one.time <= end]
    return Replayed(
        module, stage.fed, theirs, ours, differences(theirs, ours, end + EDGE), end, took, stage.ear.records
    )


class _Captured(msgspec.Struct, frozen=True):
    """A message of the capture."""

    time: float
    to_edge: bool
    message: RecordedMessage

    @property
    def step(self) -> Step:
        """What is done to what."""
        return self.message.operation, self.message.resource


def _captured(recorded: Recorded) -> list[_Captured]:
    found = []
    for frame in recorded.frames():
        message = message_of(frame.frame)
        if message is not None:
            found.append(_Captured(frame.time, frame.direction is Direction.IN, message))
    return found


def _node_in(messages: list[_Captured]) -> str:
    """Name of the node that speaks."""
    for one in messages:
        parts = one.message.resource.split("/")
        if len(parts) == 3 and parts[1] in ("node", "nodepatch", "nodestatus", "lease"):
            return parts[2]
    return "node"


class _Edge:
    """Our edge, and the captured cloud."""

    def __init__(self, recorded: Recorded, root: Path) -> None:
        self.messages = _captured(recorded)
        self.simulation = simulation = Simulation()
        simulation.clock.jump_wall(recorded.header.began - EPOCH)
        self.hive = hive = Hive(simulation)
        self.ear = ear = Ear(hive)
        self._cloud = _CapturedCloud(simulation, self.messages)
        node = _node_in(self.messages)
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
        hive.add(Edged, settings, runtime.connect, Snapshots(), KUBELET_VERSION, figures)
        hub = EdgeHubSettings(url="ws://capture:1", node=node)
        edgehub.install(hive, hub, make_link=lambda: _CapturedLink(self._cloud), wrap=ear.links)

    @property
    def fed(self) -> int:
        """Messages that the cloud said."""
        return self._cloud.said

    def outputs(self) -> tuple[list[Output], list[Output]]:
        """The steps that the real edge took, and those of them that ours took.

        Ours may do more: it renews its lease at other times, and asks again what the capture does not answer.
        """
        theirs = _steps(self.messages)
        ours = _steps([*_captured_in(self.ear), *(one for one in self.messages if one.to_edge)])
        wanted = {one.about for one in theirs}
        return theirs, [one for one in ours if one.about in wanted]


def _captured_in(ear: Ear) -> list[_Captured]:
    frames = [record for record in ear.records() if isinstance(record, LinkFrame)]
    found = []
    for frame in frames:
        message = message_of(frame.frame)
        if message is not None and frame.direction is Direction.OUT:
            found.append(_Captured(frame.time, to_edge=False, message=message))
    return found


def _steps(messages: list[_Captured]) -> list[Output]:
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


class _CapturedCloud:
    """Says what the real cloud said."""

    def __init__(self, simulation: Simulation, messages: list[_Captured]) -> None:
        self.simulation = simulation
        self.said = 0
        steps = {one.message.id: one.step for one in messages if not one.to_edge}
        self._answers: dict[Step, list[Message]] = defaultdict(list)
        self.unasked: list[_Captured] = []
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


class _CapturedLink(Link):
    """A link to the captured cloud."""

    def __init__(self, cloud: _CapturedCloud) -> None:
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


class _Cloud:
    """Our cloudhub, the captured edge, and a controller that says what the captured cloud said."""

    def __init__(self, recorded: Recorded) -> None:
        self.fed = 0
        self._messages = _captured(recorded)
        self._node = _node_in(self._messages)
        self.simulation = Simulation()
        self.simulation.clock.jump_wall(recorded.header.began - EPOCH)
        self.hive = Hive(self.simulation)
        self.ear = Ear(self.hive)
        self._ours: list[Output] = []
        self._link: _NodeLink | None = None
        self.hive.add(CloudHub, CloudHubSettings(), self._make_transport, {})
        self.hive.add(stand_in(ModuleName.EDGECONTROLLER), self._reached_controller)

    def start(self) -> None:
        """As a transport: let happen what was captured."""
        for one in self._messages:
            self.simulation.clock.after(one.time, lambda one=one: self._happen(one))  # type: ignore[misc]

    def stop(self) -> None:
        """As a transport."""

    def said(self, frame: bytes) -> None:
        """cloudhub says something to the node."""
        message = message_of(frame)
        if message is not None:
            self._ours.append(_said(self.simulation.clock.monotonic(), "the node", message))

    def outputs(self) -> tuple[list[Output], list[Output]]:
        """What the real cloud said, and what ours says; and what of the edge reaches the controller."""
        theirs = [_said(one.time, "the node" if one.to_edge else "the controller", one.message)
                  for one in self._messages if one.to_edge or _is_for_controller(one.message)]  # fmt: skip
        return theirs, self._ours

    def _make_transport(self, deliver: Callable[[LinkEvent], None]) -> "_Cloud":
        self._deliver = deliver
        return self

    def _happen(self, one: _Captured) -> None:
        self.fed += 1
        message = one.message.message()
        link = self._link
        if link is None or link.closed:
            link = self._link = _NodeLink(self)
            self._deliver(LinkOpened(self._node, link))
        if not one.to_edge:
            self._deliver(FrameCame(self._node, link, message))
            return
        resource = f"node/{self._node}/{message.route.resource}"
        self.hive.send(ModuleName.CLOUDHUB, message.with_route(resource=resource))

    def _reached_controller(self, _name: str, message: Message) -> None:
        prefix = f"node/{self._node}/"
        if message.route.resource.startswith(prefix):
            plain = message.with_route(resource=message.route.resource.removeprefix(prefix))
            said = RecordedMessage.of(plain, bytes(plain.content_raw()))
            self._ours.append(_said(self.simulation.clock.monotonic(), "the controller", said))


class _NodeLink:
    """A connection of the captured edge (`modules.cloudhub.link.Link`); made anew where cloudhub has ended it, for
    between two captures nobody kept it alive.
    """

    def __init__(self, cloud: _Cloud) -> None:
        self._cloud = cloud
        self.closed = False

    def send(self, frame: bytes) -> None:
        """See `Link`."""
        self._cloud.said(frame)

    def close(self) -> None:
        """See `Link`."""
        self.closed = True


def _is_for_controller(message: RecordedMessage) -> bool:
    """Whether a real cloudhub hands it to the edge controller (spec/04 §3): no acknowledgement, nothing of devices."""
    operation, source = message.operation, message.source
    acknowledges = operation in (Operation.RESPONSE, Operation.ERROR, Operation.KEEPALIVE)
    return not acknowledges and source != ModuleName.DEVICETWIN and message.group != Group.TWIN


def _said(time: float, to: str, message: RecordedMessage) -> Output:
    title = f"{message.operation} {message.resource} to {to}"
    content = msgspec.json.decode(message.content) if message.content else None
    envelope = {"id": message.id, "answers": message.parent_id, "source": message.source, "group": message.group}
    return Output(time, (to, message.resource), title, (title, *lines({**envelope, "content": content})))
