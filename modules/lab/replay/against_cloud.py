"""Replays a capture against our cloudhub; see `modules.lab.replay.foreign`."""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

from beehive import Hive, Message
from beehive.decoding import decode_json
from beehive.names import Group, ModuleName, Operation
from beehive.simulation import EPOCH, Simulation
from beehive.trace import Record, RecordedMessage
from modules.cloud.cloudhub.module import CloudHub, CloudHubSettings
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkEvent, LinkOpened
from modules.lab.replay.capture import CapturedMessage, connections, node_in
from modules.lab.replay.normalize import lines
from modules.lab.replay.outputs import Output, message_of
from modules.lab.replay.recorded import Recorded
from modules.lab.replay.recorder import Recorder
from modules.lab.replay.stub_module import stub_module
from modules.lab.replay.unplayed import unhandled_by_cloud


class AgainstCloud:
    """Our cloudhub with the captured edge on one side, and on the other a controller that sends the messages of the
    captured cloud.
    """

    def __init__(self, recorded: Recorded) -> None:
        self.fed = 0
        self._connections = connections(recorded)
        everything = [one for connection in self._connections for one in connection.messages]
        self._messages, self._unhandled = _split(everything)
        self._played = {one.message.id for one in self._messages}
        self._node = node_in(self._messages)
        self.simulation = Simulation()
        self.simulation.clock.jump_wall(recorded.header.began - EPOCH)
        self.hive = Hive(self.simulation)
        self.recorder = Recorder(self.hive)
        self._ours: list[Output] = []
        self._link: _NodeLink | None = None
        settings = CloudHubSettings(messages_under_way=sys.maxsize, bytes_under_way=sys.maxsize)
        self.hive.add(CloudHub, settings, self._make_transport, {})
        for name in (ModuleName.EDGECONTROLLER, ModuleName.DYNAMICCONTROLLER):
            self.hive.add(stub_module(name), self._reached_controller)

    @property
    def not_played(self) -> dict[str, int]:
        """How many messages of the edge our cloud has no module for, by reason."""
        return dict(Counter(self._unhandled.values()))

    def records(self) -> tuple[Record, ...]:
        """Return the records of our cloudhub."""
        return self.recorder.records()

    def run(self, end: float, go: Callable[[float], None]) -> None:
        """Run until `end`; `go` advances virtual time to a moment."""
        self.hive.start()
        go(end)

    def start(self) -> None:
        """Schedule the captured messages (cloudhub starts it as its transport)."""
        for connection in self._connections:
            self.simulation.clock.after(connection.up, self._connected)
            for one in connection.messages:
                if one.message.id in self._played:
                    self.simulation.clock.after(one.time, partial(self._happen, one))
            if connection.down != float("inf"):
                self.simulation.clock.after(connection.down, self._disconnect)

    def stop(self) -> None:
        """Do nothing (cloudhub stops it as its transport)."""

    def received(self, frame: bytes) -> None:
        """Record a frame that cloudhub sent to the node."""
        message = message_of(frame)
        if message is not None:
            self._ours.append(_output(self.simulation.clock.monotonic(), "the node", message))

    def outputs(self) -> tuple[list[Output], list[Output]]:
        """Return the outputs of the real cloud and of ours: messages to the node, and the edge's messages that reach
        the controller.
        """
        theirs = [_output(one.time, "the node" if one.to_edge else "the controller", one.message)
                  for one in self._messages if one.to_edge or _is_for_controller(one)]  # fmt: skip
        return theirs, self._ours

    def _make_transport(self, deliver: Callable[[LinkEvent], None]) -> "AgainstCloud":
        self._deliver = deliver
        return self

    def _happen(self, one: CapturedMessage) -> None:
        self.fed += 1
        message = one.message.message()
        link = self._link
        if link is None or link.closed:
            link = self._connect()
        if not one.to_edge:
            self._deliver(FrameReceived(self._node, link, message))
            return
        resource = f"node/{self._node}/{message.route.resource}"
        self.hive.send(ModuleName.CLOUDHUB, message.with_route(resource=resource))

    def _connect(self) -> "_NodeLink":
        link = self._link = _NodeLink(self)
        self._deliver(LinkOpened(self._node, link))
        return link

    def _connected(self) -> None:
        self._connect()

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._deliver(LinkClosed(self._node, link))

    def _reached_controller(self, _name: str, message: Message) -> None:
        prefix = f"node/{self._node}/"
        if message.route.resource.startswith(prefix):
            plain = message.with_route(resource=message.route.resource.removeprefix(prefix))
            received = RecordedMessage.of(plain, bytes(plain.content_raw()))
            self._ours.append(_output(self.simulation.clock.monotonic(), "the controller", received))


class _NodeLink:
    """A connection of the captured edge (`modules.cloud.websocket.link.Link`). If cloudhub has closed one, a new one is
    made: between two captures nothing keeps a connection alive.
    """

    is_behind = is_held_back = False

    def __init__(self, cloud: AgainstCloud) -> None:
        self._cloud = cloud
        self.closed = False

    def send(self, frame: bytes) -> None:
        """Record the frame."""
        self._cloud.received(frame)

    def handled(self, size: int) -> None:
        """Do nothing: the captured edge needs no credit."""

    def close(self) -> None:
        """Mark the link as closed."""
        self.closed = True


def _split(messages: list[CapturedMessage]) -> tuple[list[CapturedMessage], dict[str, str]]:
    """Split messages into handled ones, and the ids of the others with the reasons."""
    unhandled = {one.message.id: reason for one in messages if (reason := unhandled_by_cloud(one))}
    return [one for one in messages if not unhandled.keys() & {one.message.id, one.message.parent_id}], unhandled


def _is_for_controller(one: CapturedMessage) -> bool:
    """Return whether a real cloudhub passes the message to one of our controllers: no acknowledgements, nothing of
    devices.
    """
    acknowledges = one.message.operation in (Operation.RESPONSE, Operation.ERROR, Operation.KEEPALIVE)
    return not acknowledges and one.message.group != Group.TWIN


def _output(time: float, to: str, message: RecordedMessage) -> Output:
    """Return the output of a message. The source is left out towards the controller: there our cloudhub writes the
    node's name.
    """
    source = message.source if to == "the node" else ""
    title = f"{message.operation} {message.resource} to {to}"
    content = decode_json(message.content) if message.content else None
    envelope = {"id": message.id, "answers": message.parent_id, "source": source, "group": message.group}
    return Output(time, (to, message.resource), title, (title, *lines({**envelope, "content": content})))
