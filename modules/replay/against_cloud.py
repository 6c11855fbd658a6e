"""Our cloudhub against a captured edge; see `modules.replay.foreign`."""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial

import msgspec

from beehive import Hive, Message
from beehive.names import Group, ModuleName, Operation
from beehive.simulation import EPOCH, Simulation
from beehive.trace import Record, RecordedMessage
from modules.cloudhub.link import FrameCame, LinkClosed, LinkEvent, LinkOpened
from modules.cloudhub.module import CloudHub, CloudHubSettings
from modules.replay.capture import Captured, connections, node_in
from modules.replay.ear import Ear
from modules.replay.normal import lines
from modules.replay.outputs import Output, message_of
from modules.replay.recorded import Recorded
from modules.replay.stand_in import stand_in
from modules.replay.unplayed import for_nobody


class AgainstCloud:
    """Our cloudhub, the captured edge, and a controller that says what the captured cloud said."""

    def __init__(self, recorded: Recorded) -> None:
        self.fed = 0
        self._connections = connections(recorded)
        everything = [one for connection in self._connections for one in connection.messages]
        self._messages, self._nobodys = _for_somebody(everything)
        self._played = {one.message.id for one in self._messages}
        self._node = node_in(self._messages)
        self.simulation = Simulation()
        self.simulation.clock.jump_wall(recorded.header.began - EPOCH)
        self.hive = Hive(self.simulation)
        self.ear = Ear(self.hive)
        self._ours: list[Output] = []
        self._link: _NodeLink | None = None
        settings = CloudHubSettings(messages_under_way=sys.maxsize, bytes_under_way=sys.maxsize)
        self.hive.add(CloudHub, settings, self._make_transport, {})
        for name in (ModuleName.EDGECONTROLLER, ModuleName.DYNAMICCONTROLLER):
            self.hive.add(stand_in(name), self._reached_controller)

    @property
    def not_played(self) -> dict[str, int]:
        """How many messages of the edge nobody is there for, by the reason."""
        return dict(Counter(self._nobodys.values()))

    def records(self) -> tuple[Record, ...]:
        """What our cloudhub did."""
        return self.ear.records()

    def run(self, end: float, go: Callable[[float], None]) -> None:
        """Go through the captured time; `go` lets it pass until a moment."""
        self.hive.start()
        go(end)

    def start(self) -> None:
        """As a transport: let happen what was captured."""
        for connection in self._connections:
            self.simulation.clock.after(connection.up, self._connected)
            for one in connection.messages:
                if one.message.id in self._played:
                    self.simulation.clock.after(one.time, partial(self._happen, one))
            if connection.down != float("inf"):
                self.simulation.clock.after(connection.down, self._disconnect)

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
                  for one in self._messages if one.to_edge or _is_for_controller(one)]  # fmt: skip
        return theirs, self._ours

    def _make_transport(self, deliver: Callable[[LinkEvent], None]) -> "AgainstCloud":
        self._deliver = deliver
        return self

    def _happen(self, one: Captured) -> None:
        self.fed += 1
        message = one.message.message()
        link = self._link
        if link is None or link.closed:
            link = self._connect()
        if not one.to_edge:
            self._deliver(FrameCame(self._node, link, message))
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
            said = RecordedMessage.of(plain, bytes(plain.content_raw()))
            self._ours.append(_said(self.simulation.clock.monotonic(), "the controller", said))


class _NodeLink:
    """A connection of the captured edge (`modules.cloudhub.link.Link`); made anew where cloudhub has ended it, for
    between two captures nobody kept it alive.
    """

    is_behind = False

    def __init__(self, cloud: AgainstCloud) -> None:
        self._cloud = cloud
        self.closed = False

    def send(self, frame: bytes) -> None:
        """See `Link`."""
        self._cloud.said(frame)

    def handled(self, size: int) -> None:
        """See `Link`."""

    def close(self) -> None:
        """See `Link`."""
        self.closed = True


def _for_somebody(messages: list[Captured]) -> tuple[list[Captured], dict[str, str]]:
    """The messages that our cloud has a part for, and the reasons of those for which it has none, by their ids."""
    nobodys = {one.message.id: reason for one in messages if (reason := for_nobody(one))}
    return [one for one in messages if not nobodys.keys() & {one.message.id, one.message.parent_id}], nobodys


def _is_for_controller(one: Captured) -> bool:
    """Whether a real cloudhub hands it to a controller that we have: no acknowledgement, nothing of devices."""
    acknowledges = one.message.operation in (Operation.RESPONSE, Operation.ERROR, Operation.KEEPALIVE)
    return not acknowledges and one.message.group != Group.TWIN


def _said(time: float, to: str, message: RecordedMessage) -> Output:
    """To the controller, ours names the node as the source, whatever the node wrote there."""
    source = message.source if to == "the node" else ""
    title = f"{message.operation} {message.resource} to {to}"
    content = msgspec.json.decode(message.content) if message.content else None
    envelope = {"id": message.id, "answers": message.parent_id, "source": source, "group": message.group}
    return Output(time, (to, message.resource), title, (title, *lines({**envelope, "content": content})))
