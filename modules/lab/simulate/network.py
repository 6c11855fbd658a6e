"""The wire between nodes and cloud: connections that keep order and completeness, as TCP does, and all their failures.

Frames under way when a connection breaks are lost, and neither end knows which. A dead line holds frames; if it comes
back before an end has closed the connection, all of them arrive late.
"""

from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from beehive import decode
from beehive.names import Operation
from beehive.simulation.runtime import SimulatedQueue
from beehive.simulation.scheduler import EPOCH
from edgehub.errors import (
    ClosedHereError,
    DeadPeerError,
    DialError,
    LinkError,
    LinkLostError,
    PeerClosedError,
    UpgradeError,
)
from edgehub.link import Link, LinkEvents
from modules.cloud.identities.known import NOT_YET, KnownIdentities
from modules.cloud.identities.node_identity import common_name_of
from modules.cloud.identities.peer import CertifiedPeer
from modules.cloud.websocket.link import FrameReceived, LinkClosed, LinkEvent, LinkOpened
from modules.lab.simulate.frame_channel import FrameChannel
from modules.lab.simulate.repetition_watch import RepetitionWatch
from modules.lab.simulate.world import Process, World

if TYPE_CHECKING:
    from modules.lab.simulate.tunnel_wire import SimulatedTunnel
    from modules.lab.simulate.wire_watch import WireWatch

READ_DEADLINE = 10.0
"""Seconds without a sign of life after which the node closes a connection; edgehub's default."""
_SLOW = 3.0
"""Additional seconds of latency above which keepalives come too late for the cloud."""
_NODE_DELETED = "the node was deleted"
"""Why cloudhub ends the connection of a node whose Node object no longer exists."""
_POLICY_VIOLATION = 1008
_LOADING_PERIOD = 0.1
HANDSHAKE = 30.0
"""Time-out of dialling in seconds; edgehub's default."""


class NetworkLine:
    """The state of one node's line.

    Args:
        world: the world of the run.
        node: name of the node.
        watch: receives every frame.
    """

    def __init__(self, world: World, node: str, watch: "WireWatch") -> None:
        self.world = world
        self.node = node
        self.watch = watch
        self.cut = 0
        """Number of active faults that keep it cut."""
        self.no_way_up = 0
        """Number of active faults that block frames to the cloud."""
        self.no_way_down = 0
        """Number of active faults that block frames to the node."""
        self.latency = 0.005
        self.extra = 0.0
        """Additional seconds of a slow line."""
        self.reorders = 0
        self.duplicates = 0
        """Number of frames from the cloud that will arrive twice."""
        self.late = 0.0
        """Delay of the cloud's answers in seconds."""
        self.unanswered = 0
        """Number of active faults that suppress answers."""
        self.leaves = False
        """Whether the node's process is stopping: then it may close a healthy connection."""
        self.connection: SimulatedConnection | None = None
        self.tunnel: SimulatedTunnel | None = None
        """The newest stream tunnel, which may have ended."""
        self.certificate = CertifiedPeer("1", EPOCH, node=node, user=common_name_of(node), key=f"first key of {node}")
        """The node's; only with `KnownIdentities` does it matter."""
        self.arrived: Callable[[bytes], None] = lambda _frame: None
        """Called with every frame that the cloud's process has taken."""

    def delay(self) -> float:
        """Draw the travel time of a frame, in seconds."""
        return self.latency + self.extra + self.world.random.uniform(0, self.latency + self.extra)

    def break_connection(self) -> None:
        """Break the connection at both ends; frames under way are lost."""
        for each in self._both():
            each.break_both("the line was cut")

    def roam(self, seconds: float) -> None:
        """Change the node's address: its end breaks immediately, the cloud's end `seconds` later."""
        for each in self._both():
            each.break_at_node(seconds)

    def stall(self) -> None:
        """Let the node notice a dead direction, if it lasts."""
        for each in self._both():
            each.watch_silence()

    def resume(self) -> None:
        """Deliver the held frames."""
        for each in self._both():
            each.release()

    def _both(self) -> "list[SimulatedConnection | SimulatedTunnel]":
        return [each for each in (self.connection, self.tunnel) if each is not None]


class CloudEndpoint:
    """The cloud's end of all lines; it outlives the cloud's processes."""

    def __init__(self) -> None:
        self._listeners: list[CloudListener] = []
        self.excused: dict[str, float] = {}
        """By node, until when the cloud has a reason to end its connections."""
        self.deletions = Counter[str]()
        """By node, the deletions of its Node without an answer so far: it may register anew before they are carried
        out, so that the connection ends over which it has done so.
        """
        self.all_excused = -1.0
        """Until when it has a reason to end the links of all nodes."""
        self.linked: dict[tuple[str, str], float] = {}
        """The time of the last connection of a node to a cloudcore, by the names of both."""
        self.has_node: Callable[[str], bool] = lambda _node: True
        """Whether the cloud has the Node object of a node."""
        self.forgotten_nodes = set[str]()
        """The nodes of which the cloud has ever lost the record of what they have, as with their Node object."""

    @property
    def listener(self) -> "CloudListener | None":
        """The listener for nodes: the newest of the accepting cloudcores."""
        return next((one for one in reversed(self._listeners) if one.process.alive), None)

    def connected_to(self, node: str) -> Process | None:
        """Return the cloudcore that has a connection of a node."""
        found = ((each.process, one.line.node) for each in self._listeners for one in each.connections)
        return next((process for process, its in found if its == node), None)

    def accepts(self, listener: "CloudListener") -> bool:
        """Return whether a listener is in use."""
        return listener in self._listeners

    def begin(self, listener: "CloudListener") -> None:
        """Begin to use a listener."""
        self._listeners = [*(one for one in self._listeners if one.process.alive), listener]

    def end(self, listener: "CloudListener") -> None:
        """End the use of a listener: nodes connect to its predecessor."""
        if listener in self._listeners:
            self._listeners.remove(listener)


class CloudListener:
    """Transport of a cloudhub: accepts connections while its process lives.

    Args:
        cloud: the end of all lines.
        process: of the cloudhub.
        deliver: receives the link events.
        identities: knows the refused nodes, as for `WebsocketServer`; None: none is.
    """

    def __init__(
        self,
        cloud: CloudEndpoint,
        process: Process,
        deliver: Callable[[LinkEvent], None],
        identities: KnownIdentities | None = None,
    ) -> None:
        self.cloud = cloud
        self.identities = identities
        self.process = process
        self.deliver = deliver
        self.connections: list[SimulatedConnection] = []
        self.ended: dict[str, float] = {}
        """By node, the seconds of its longest connection that has ended."""

    def longest(self, node: str) -> float:
        """Return the seconds of a node's longest connection; 0.0 without one."""
        return max(self.ended.get(node, 0.0), *(each.age for each in self.connections if each.line.node == node), 0.0)

    @property
    def is_open(self) -> bool:
        """Whether the process lives and accepts connections."""
        return self.process.alive and self.cloud.accepts(self)

    def start(self) -> None:
        """Begin to accept."""
        if self.identities is not None:
            self.identities.on_change(self._end_refused)
        self.cloud.begin(self)

    def stop(self) -> None:
        """End all connections."""
        if self.identities is not None:
            self.identities.forget(self._end_refused)
        self.cloud.end(self)
        for connection in list(self.connections):
            connection.close_from_cloud()

    def refusal(self, line: NetworkLine) -> str:
        """Return why the connection of a node is refused, "" if it is accepted."""
        if self.identities is None:
            return ""
        why = self.identities.refusal_of_node(line.node, line.certificate)
        if not why:
            self.identities.accepted(line.certificate)
        return why

    def _end_refused(self) -> None:
        """End the connections of nodes that are refused now."""
        for connection in list(self.connections):
            known, node, peer = self.identities, connection.line.node, connection.certificate
            why = known.refusal_of_node(node, peer, is_open=True) if known is not None else ""
            if why and why != NOT_YET:
                connection.refuse(why)


class SimulatedConnection:
    """One connection between a node's process and the cloud's."""

    def __init__(self, line: NetworkLine, link: "NodeLink", listener: CloudListener) -> None:
        self.line = line
        self.certificate = line.certificate
        self._world = line.world
        self._link: NodeLink | None = link
        self._listener = listener
        self._cloud_link = CloudLink(self)
        self._inbox: SimulatedQueue = SimulatedQueue(self._world.scheduler)
        self.up = FrameChannel(self._world, line.delay, self._at_cloud, lambda: line.no_way_up > 0)
        self.down = FrameChannel(self._world, line.delay, self._at_node, lambda: line.no_way_down > 0)
        self._repetitions = RepetitionWatch(
            self._world, line.node, lambda: line.watch.has_forgotten or line.node in listener.cloud.forgotten_nodes
        )
        self._heard = self._began = self._world.now()
        self._cloud_has_it = True
        self._is_healthy = True
        """Whether no fault has affected it: then neither end has a reason to close it."""
        self._had_node = listener.cloud.has_node(line.node)
        """Whether the cloud had the Node object when it began: else cloudcore may find now that it was deleted."""
        self._is_refused = False
        """Whether nothing more that the node has sent is taken."""
        listener.cloud.linked[line.node, listener.process.identity] = self._began
        listener.connections.append(self)
        listener.process.run(self._read)

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return self._world.now() - self._began

    def send_up(self, frame: bytes) -> None:
        """Send a frame of the node."""
        self.line.watch.sent_up(frame)
        self.up.send(frame)

    def send_down(self, frame: bytes) -> None:
        """Send a frame of the cloud."""
        self._repetitions.sent(frame)
        line = self.line
        self._is_healthy = self._is_healthy and line.extra <= _SLOW
        is_answer = (line.reorders or line.late or line.unanswered) and _is_answer(frame)
        if is_answer and line.unanswered:
            return
        lane, late = (1, line.late) if is_answer else (0, 0.0)
        self.down.send(frame, lane, late)
        if line.duplicates:
            line.duplicates -= 1
            self.down.send(frame, lane, late)

    def close_from_node(self) -> None:
        """Close the node's end, or end with the node's process. The cloud notices after the frames under way."""
        if self._link is not None and self._link.is_alive and not self.line.leaves and not self._is_closed_there:
            self._ended_by(f"{self.line.node} itself")
        self._link = None
        self.down.open = False
        self._world.at(self._world.now() + 2 * self.line.delay(), self._end_at_cloud)

    def refuse(self, why: str) -> None:
        """End it because the node is refused now."""
        self.may_end()
        self._is_refused = True
        self._cloud_link.close(PeerClosedError(_POLICY_VIOLATION, why))

    def close_from_cloud(self, error: LinkError | None = None) -> None:
        """Close the cloud's end, or end with the cloud's process; the node gets the error."""
        if self._cloud_has_it:
            if self._link is not None and self._listener.is_open and self.line.connection is self:
                why = self._cloud_link.why or "for no reason that cloudhub knows"
                if why != _NODE_DELETED or (self._had_node and self._listener.cloud.has_node(self.line.node)):
                    self._ended_by(f"{self._listener.process.identity}: {why}")
            self._forget_at_cloud()
            self.up.open = False
            self._inbox.put(None)
            told = error or LinkLostError("the link was lost", "cloud", "closed there")
            self._world.at(self._world.now() + self.line.delay(), lambda: self._end_at_node(told))

    def break_both(self, why: str) -> None:
        """Break both ends; frames under way are lost."""
        self._is_healthy = False
        self.up.open = self.down.open = False
        self._end_at_cloud()
        self._end_at_node(LinkLostError("the link was lost", "cloud", why))

    def break_at_node(self, seconds: float) -> None:
        """Break the node's end; frames under way are lost, and the cloud notices `seconds` later."""
        self._is_healthy = False
        self.up.open = self.down.open = False
        self._end_at_node(LinkLostError("the link was lost", "cloud", "the address has changed"))
        self._world.at(self._world.now() + seconds, self._end_at_cloud)

    def may_end(self) -> None:
        """Note that the cloud has a reason to close it."""
        self._is_healthy = False

    def release(self) -> None:
        """Deliver the held frames of both directions."""
        self.up.release()
        self.down.release()

    def watch_silence(self) -> None:
        """Let the node close the connection after `READ_DEADLINE` without a frame; pongs arrive while both directions
        are open.
        """
        self._is_healthy = False
        self._heard = self._world.now()
        self._world.at(self._heard + READ_DEADLINE, self._check)

    def _check(self) -> None:
        if self._link is None or not (self.line.no_way_up or self.line.no_way_down):
            return
        due = self._heard + READ_DEADLINE
        if self._world.now() >= due - 1e-6:
            link, self._link = self._link, None
            link.end(DeadPeerError("the peer is silent", "cloud"))
            self.down.open = False
            self._world.at(self._world.now() + HANDSHAKE, self._end_at_cloud)
        else:
            self._world.at(due, self._check)

    def _at_cloud(self, frame: bytes) -> None:
        if self._cloud_has_it:
            self._inbox.put(frame)
            self._world.at(self._world.now() + self.line.delay(), self._confirm)

    def _at_node(self, frame: bytes) -> None:
        if self._link is not None:
            self._heard = self._world.now()
            self.line.watch.came_down(frame)
            self._link.receive(frame)

    def _confirm(self) -> None:
        if self._link is not None and not self.line.no_way_down:
            self._heard = self._world.now()
            self._link.receive(1)

    @property
    def _is_closed_there(self) -> bool:
        """Whether the cloud's end is closed or about to be."""
        return not (self._cloud_has_it and self._listener.is_open)

    def _ended_by(self, who: str) -> None:
        cloud = self._listener.cloud
        excused_until = max(cloud.all_excused, cloud.excused.get(self.line.node, -1.0))
        may_end = self._world.now() <= excused_until or cloud.deletions[self.line.node] > 0
        if self._is_healthy and not may_end:
            text = f"the connection of {self.line.node} was ended by {who}"
            self._world.violated("no healthy connection is ended", text)

    def _end_at_node(self, error: LinkError) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.end(error)

    def _end_at_cloud(self) -> None:
        if self.line.no_way_up and self._listener.process.alive:
            self._world.at(self._world.now() + 1.0, self._end_at_cloud)
        elif self._cloud_has_it:
            self._inbox.put(None)

    def _forget_at_cloud(self) -> None:
        self._cloud_has_it = False
        node, ended = self.line.node, self._listener.ended
        ended[node] = max(self.age, ended.get(node, 0.0))
        if self in self._listener.connections:
            self._listener.connections.remove(self)
        if self.line.connection is self:
            self.line.connection = None

    def _read(self) -> None:
        """Deliver frames to cloudhub, as the thread of the cloud's process that reads the connection."""
        node, deliver = self.line.node, self._listener.deliver
        deliver(LinkOpened(node, self._cloud_link))
        while (frame := self._inbox.get()) is not None and not self._is_refused:
            deliver(FrameReceived(node, self._cloud_link, decode(frame)))
            self._repetitions.handled(frame)
            self.line.arrived(frame)
        self._forget_at_cloud()
        deliver(LinkClosed(node, self._cloud_link))


class CloudLink:
    """The cloud's end (`modules.cloud.websocket.link.Link`)."""

    is_behind = is_held_back = False

    def __init__(self, connection: SimulatedConnection) -> None:
        self._connection = connection
        self._closed = False
        self.why = ""
        """Why cloudhub ends it."""

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        if self._closed:
            raise OSError("the connection is closed")
        self._connection.send_down(frame)

    def handled(self, size: int) -> None:
        """Do nothing: no frame waits for credit."""

    def close(self, error: LinkError | None = None) -> None:
        """End the connection; the node gets the error."""
        if not self._closed:
            self._closed = True
            self._connection.close_from_cloud(error)


class NodeLink(Link):
    """The node's end (`edgehub.link.Link`).

    Args:
        process: process of the node.
        line: line of the node.
        cloud: end of the line.
    """

    def __init__(self, process: Process, line: NetworkLine, cloud: CloudEndpoint) -> None:
        self._process = process
        self._line = line
        self._cloud = cloud
        self._queue: Any = SimulatedQueue(process.world.scheduler)
        self._connection: SimulatedConnection | None = None
        self._closed = False

    @property
    def is_alive(self) -> bool:
        """Whether the node's process lives."""
        return self._process.alive

    def run(self, events: LinkEvents) -> LinkError:
        """Dial and deliver frames until the connection ends (`Link.run`)."""
        error = self._dial()
        if error is not None:
            return error
        events.opened()
        while True:
            item = self._queue.get()
            if isinstance(item, LinkError):
                self._connection = None
                return item
            if isinstance(item, int):
                events.confirmed(item)
            else:
                events.received(item)

    def send(self, frame: bytes) -> None:
        """Send one frame."""
        if self._connection is not None and not self._closed:
            self._connection.send_up(frame)

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            self._connection = None
            connection.close_from_node()
        self.end(ClosedHereError())

    def receive(self, item: bytes | int) -> None:
        """Queue a frame or a confirmation that has arrived."""
        self._queue.put(item)

    def end(self, error: LinkError) -> None:
        """End the connection after the frames that have arrived."""
        self._queue.put(error)

    def _dial(self) -> LinkError | None:
        line = self._line
        self._process.sleep(line.delay())
        if line.no_way_up or line.no_way_down:
            self._process.sleep(HANDSHAKE)
            return DialError("cannot connect to the cloud", "simulated line", "no answer")
        listener = self._cloud.listener
        if self._closed or line.cut or listener is None or not listener.process.alive:
            return DialError("cannot connect to the cloud", "simulated line", "refused")
        while listener.is_open and listener.identities is not None and listener.identities.is_loading:
            self._process.sleep(_LOADING_PERIOD)
        if (why := listener.refusal(line)) or not listener.is_open:
            return UpgradeError("simulated line", why, HTTPStatus.FORBIDDEN)
        self._connection = line.connection = SimulatedConnection(line, self, listener)
        return None


def _is_answer(frame: bytes) -> bool:
    return decode(frame).route.operation in (Operation.RESPONSE, Operation.ERROR)
