"""The wire between nodes and cloud: ordered and whole while a connection lives, as TCP is, and with all that may happen
to connections.

A frame that is under way when a connection breaks is lost, and neither end knows which were. A line that has gone dead
holds what is sent: when it comes back before an end has given up, everything arrives late.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from beehive import decode
from beehive.names import Operation
from beehive.simulation.runtime import SimulatedQueue
from edgehub.errors import ClosedHereError, DeadPeerError, DialError, LinkError, LinkLostError
from edgehub.link import Link, LinkEvents
from modules.cloudhub.link import FrameCame, LinkClosed, LinkEvent, LinkOpened
from modules.simulate.world import Process, World

if TYPE_CHECKING:
    from modules.simulate.wire_watch import WireWatch

READ_DEADLINE = 10.0
"""Seconds without a sign of life after which the node gives a connection up; edgehub's default."""
_SLOW = 3.0
"""Seconds that a line may add before keepalives come too late for the cloud."""
HANDSHAKE = 30.0
"""Seconds after which it gives up dialling; edgehub's default."""


class Line:
    """The line of one node: its state now.

    Args:
        world: where it is.
        node: whose line it is.
        watch: sees every frame.
    """

    def __init__(self, world: World, node: str, watch: "WireWatch") -> None:
        self.world = world
        self.node = node
        self.watch = watch
        self.cut = 0
        """How many faults hold it cut now; likewise the others."""
        self.no_way_up = 0
        self.no_way_down = 0
        self.latency = 0.005
        self.extra = 0.0
        """Seconds that a slow line adds."""
        self.reorders = 0
        self.duplicates = 0
        """Frames from the cloud that will come twice."""
        self.late = 0.0
        """Seconds by which the cloud's answers are late."""
        self.unanswered = 0
        """How many faults let answers not come at all."""
        self.leaves = False
        """Whether the node's process ends in good order: it may close what is healthy."""
        self.connection: Connection | None = None
        self.arrived: Callable[[bytes], None] = lambda _frame: None
        """Told of every frame that the cloud's process has taken."""

    def delay(self) -> float:
        """How long a frame is under way that is sent now."""
        return self.latency + self.extra + self.world.random.uniform(0, self.latency + self.extra)

    def break_connection(self) -> None:
        """What is under way is lost; both ends hear of it."""
        if self.connection is not None:
            self.connection.break_both("the line was cut")

    def roam(self, seconds: float) -> None:
        """The node's address is another: its end is told at once, the cloud's so many seconds later."""
        if self.connection is not None:
            self.connection.break_at_node(seconds)

    def stall(self) -> None:
        """The line has gone dead in some direction: the node will find out if it lasts."""
        if self.connection is not None:
            self.connection.watch_silence()

    def resume(self) -> None:
        """What was held goes on."""
        if self.connection is not None:
            self.connection.release()


class Cloud:
    """Where lines lead: the door of the cloud's present process."""

    def __init__(self) -> None:
        self.door: Door | None = None


class Door:
    """The transport of a cloudhub: takes connections while its process lives."""

    def __init__(self, cloud: Cloud, process: Process, deliver: Callable[[LinkEvent], None]) -> None:
        self._cloud = cloud
        self.process = process
        self.deliver = deliver
        self.connections: list[Connection] = []

    @property
    def is_open(self) -> bool:
        """Whether its process lives and accepts connections."""
        return self.process.alive and self._cloud.door is self

    def start(self) -> None:
        """Begins to accept."""
        self._cloud.door = self

    def stop(self) -> None:
        """Ends all connections."""
        if self._cloud.door is self:
            self._cloud.door = None
        for connection in list(self.connections):
            connection.close_from_cloud()


class Way:
    """One direction of a connection: frames arrive in their order, those of one lane at least."""

    def __init__(self, world: World, line: Line, arrive: Callable[[bytes], None], blocked: Callable[[], bool]) -> None:
        self._world = world
        self._line = line
        self._arrive = arrive
        self._blocked = blocked
        self._free_at = [0.0, 0.0]
        self._held: deque[bytes] = deque()
        self.open = True

    def send(self, frame: bytes, lane: int = 0, late: float = 0.0) -> None:
        """Let a frame travel; it sets out `late` seconds from now."""
        due = max(self._free_at[lane], self._world.now() + late + self._line.delay())
        if lane:
            due += self._world.random.uniform(0, 1.0)
        self._free_at[lane] = due
        self._world.at(due, lambda: self._travelled(frame))

    def release(self) -> None:
        """The line is alive again."""
        while self._held and self.open and not self._blocked():
            self._arrive(self._held.popleft())

    def _travelled(self, frame: bytes) -> None:
        if not self.open:
            return
        if self._blocked() or self._held:
            self._held.append(frame)
        else:
            self._arrive(frame)


class Connection:
    """One connection between a node's process and the cloud's."""

    def __init__(self, line: Line, link: "NodeLink", door: Door) -> None:
        self.line = line
        self._world = line.world
        self._link: NodeLink | None = link
        self._door = door
        self._cloud_link = CloudLink(self)
        self._inbox: SimulatedQueue = SimulatedQueue(self._world.scheduler)
        self.up = Way(self._world, line, self._at_cloud, lambda: line.no_way_up > 0)
        self.down = Way(self._world, line, self._at_node, lambda: line.no_way_down > 0)
        self._heard = self._world.now()
        self._cloud_has_it = True
        self._is_healthy = True
        """Whether nothing has happened to it: then neither end has a reason to end it."""
        door.connections.append(self)
        door.process.run(self._read)

    def send_up(self, frame: bytes) -> None:
        """The node sends."""
        self.line.watch.sent_up(frame)
        self.up.send(frame)

    def send_down(self, frame: bytes) -> None:
        """The cloud sends."""
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
        """The node's end is closed, or its process is gone; the cloud hears of it, after what was sent before."""
        if self._link is not None and self._link.is_alive and not self.line.leaves and not self._is_closed_there:
            self._ended_by(f"{self.line.node} itself")
        self._link = None
        self.down.open = False
        self._world.at(self._world.now() + 2 * self.line.delay(), self._end_at_cloud)

    def close_from_cloud(self) -> None:
        """The cloud's end is closed, or its process is gone."""
        if self._cloud_has_it:
            if self._link is not None and self._door.is_open and self.line.connection is self:
                self._ended_by("the cloud")
            self._forget_at_cloud()
            self.up.open = False
            self._inbox.put(None)
            error = LinkLostError("the link was lost", "cloud", "closed there")
            self._world.at(self._world.now() + self.line.delay(), lambda: self._end_at_node(error))

    def break_both(self, why: str) -> None:
        """It is gone, with all that is under way."""
        self._is_healthy = False
        self.up.open = self.down.open = False
        self._end_at_cloud()
        self._end_at_node(LinkLostError("the link was lost", "cloud", why))

    def break_at_node(self, seconds: float) -> None:
        """It is gone, with all that is under way; the cloud hears of it so many seconds later."""
        self._is_healthy = False
        self.up.open = self.down.open = False
        self._end_at_node(LinkLostError("the link was lost", "cloud", "the address has changed"))
        self._world.at(self._world.now() + seconds, self._end_at_cloud)

    def may_end(self) -> None:
        """The cloud has a reason to end it."""
        self._is_healthy = False

    def release(self) -> None:
        """The line is alive again."""
        self.up.release()
        self.down.release()

    def watch_silence(self) -> None:
        """Let the node give up when nothing has come for too long; pongs come while both ways are open."""
        self._is_healthy = False
        self._heard = self._world.now()
        self._world.at(self._heard + READ_DEADLINE, self._look)

    def _look(self) -> None:
        if self._link is None or not (self.line.no_way_up or self.line.no_way_down):
            return
        due = self._heard + READ_DEADLINE
        if self._world.now() >= due - 1e-6:
            link, self._link = self._link, None
            link.end(DeadPeerError("the peer is silent", "cloud"))
            self.down.open = False
            self._world.at(self._world.now() + HANDSHAKE, self._end_at_cloud)
        else:
            self._world.at(due, self._look)

    def _at_cloud(self, frame: bytes) -> None:
        if self._cloud_has_it:
            self._inbox.put(frame)
            self._world.at(self._world.now() + self.line.delay(), self._confirm)

    def _at_node(self, frame: bytes) -> None:
        if self._link is not None:
            self._heard = self._world.now()
            self.line.watch.came_down(frame)
            self._link.take(frame)

    def _confirm(self) -> None:
        if self._link is not None and not self.line.no_way_down:
            self._heard = self._world.now()
            self._link.take(1)

    @property
    def _is_closed_there(self) -> bool:
        """Whether the cloud's end is closed, or is about to be told so."""
        return not (self._cloud_has_it and self._door.is_open)

    def _ended_by(self, who: str) -> None:
        if self._is_healthy:
            text = f"the connection of {self.line.node} was ended by {who}"
            self._world.violated("no healthy connection is ended", text)

    def _end_at_node(self, error: LinkError) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.end(error)

    def _end_at_cloud(self) -> None:
        if self.line.no_way_up and self._door.process.alive:
            self._world.at(self._world.now() + 1.0, self._end_at_cloud)
        elif self._cloud_has_it:
            self._inbox.put(None)

    def _forget_at_cloud(self) -> None:
        self._cloud_has_it = False
        if self in self._door.connections:
            self._door.connections.remove(self)
        if self.line.connection is self:
            self.line.connection = None

    def _read(self) -> None:
        """The thread that reads this connection in the cloud's process."""
        node, deliver = self.line.node, self._door.deliver
        deliver(LinkOpened(node, self._cloud_link))
        while (frame := self._inbox.get()) is not None:
            deliver(FrameCame(node, self._cloud_link, decode(frame)))
            self.line.arrived(frame)
        self._forget_at_cloud()
        deliver(LinkClosed(node, self._cloud_link))


class CloudLink:
    """The cloud's end (`modules.cloudhub.link.Link`)."""

    is_behind = False

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._closed = False

    def send(self, frame: bytes) -> None:
        """Writes one message."""
        if self._closed:
            raise OSError("the connection is closed")
        self._connection.send_down(frame)

    def handled(self, size: int) -> None:
        """Nothing waits for it here."""

    def close(self) -> None:
        """Ends the connection."""
        if not self._closed:
            self._closed = True
            self._connection.close_from_cloud()


class NodeLink(Link):
    """The node's end (`edgehub.link.Link`).

    Args:
        process: the node's.
        line: its line.
        cloud: where the line leads.
    """

    def __init__(self, process: Process, line: Line, cloud: Cloud) -> None:
        self._process = process
        self._line = line
        self._cloud = cloud
        self._queue: Any = SimulatedQueue(process.world.scheduler)
        self._connection: Connection | None = None
        self._closed = False

    @property
    def is_alive(self) -> bool:
        """Whether the node's process is."""
        return self._process.alive

    def run(self, events: LinkEvents) -> LinkError:
        """See `Link`."""
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
        """See `Link`."""
        if self._connection is not None and not self._closed:
            self._connection.send_up(frame)

    def close(self) -> None:
        """See `Link`."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            self._connection = None
            connection.close_from_node()
        self.end(ClosedHereError())

    def take(self, item: bytes | int) -> None:
        """A frame, or a confirmation, has arrived."""
        self._queue.put(item)

    def end(self, error: LinkError) -> None:
        """The connection is over, after what has arrived."""
        self._queue.put(error)

    def _dial(self) -> LinkError | None:
        line = self._line
        self._process.sleep(line.delay())
        if line.no_way_up or line.no_way_down:
            self._process.sleep(HANDSHAKE)
            return DialError("cannot connect to the cloud", "simulated line", "no answer")
        door = self._cloud.door
        if self._closed or line.cut or door is None or not door.process.alive:
            return DialError("cannot connect to the cloud", "simulated line", "refused")
        self._connection = line.connection = Connection(line, self, door)
        return None


def _is_answer(frame: bytes) -> bool:
    return decode(frame).route.operation in (Operation.RESPONSE, Operation.ERROR)
