"""Our cloudhub against a captured edge; see `modules.replay.foreign`."""

from collections.abc import Callable
from functools import partial

import msgspec

from beehive import Hive, Message
from beehive.names import Group, ModuleName, Operation
from beehive.simulation import EPOCH, Simulation
from beehive.trace import RecordedMessage
from modules.cloudhub.link import FrameCame, LinkEvent, LinkOpened
from modules.cloudhub.module import CloudHub, CloudHubSettings
from modules.replay.capture import Captured, captured, node_in
from modules.replay.ear import Ear
from modules.replay.normal import lines
from modules.replay.outputs import Output, message_of
from modules.replay.recorded import Recorded
from modules.replay.stand_in import stand_in


class AgainstCloud:
    """Our cloudhub, the captured edge, and a controller that says what the captured cloud said."""

    def __init__(self, recorded: Recorded) -> None:
        self.fed = 0
        self._messages = captured(recorded)
        self._node = node_in(self._messages)
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
            self.simulation.clock.after(one.time, partial(self._happen, one))

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

    def _make_transport(self, deliver: Callable[[LinkEvent], None]) -> "AgainstCloud":
        self._deliver = deliver
        return self

    def _happen(self, one: Captured) -> None:
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

    is_behind = False

    def __init__(self, cloud: AgainstCloud) -> None:
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
    """To the controller, ours names the node as the source, whatever the node wrote there."""
    source = message.source if to == "the node" else ""
    title = f"{message.operation} {message.resource} to {to}"
    content = msgspec.json.decode(message.content) if message.content else None
    envelope = {"id": message.id, "answers": message.parent_id, "source": source, "group": message.group}
    return Output(time, (to, message.resource), title, (title, *lines({**envelope, "content": content})))
