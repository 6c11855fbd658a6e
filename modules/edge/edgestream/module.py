"""The module edgestream: keeps a tunnel to the cloud for logs, exec, attach and metrics of this node."""

import logging
from typing import Final

from beehive import Actor, Group, Message, Module, ModuleName, Operation, ResourceType, Timer, handles
from beehive.backoff import Backoff
from beehive.errors import BeehiveError
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED
from modules.edge.edgestream.counters import StreamCounters
from modules.edge.edgestream.session import TunnelSession
from modules.edge.edgestream.tunnel import DialNode, MakeLink
from modules.streams.waiting import MakePoll, new_poll

_log = logging.getLogger(__name__)

BASE: Final = 1.0
"""Upper bound of the delay after the first failure, in seconds; it doubles with each one."""
LIMIT: Final = 30.0
"""Largest upper bound of the delay. KubeEdge dials every 2 s without jitter."""
MOST_STREAMS: Final = 200
"""Streams at one time, unless configured. Each has a thread of the node's server."""
STEADY: Final = 10.0
"""Age of a tunnel that counts as working."""


class TunnelRunner(Actor):
    """The actor that runs each session until its tunnel ends, and reports the end; reads no other message meanwhile."""

    def __init__(self, module: "EdgeStream") -> None:
        super().__init__()
        self._module = module

    def on_receive(self, message: object) -> None:
        """Run a session until its tunnel ends."""
        if isinstance(message, TunnelSession):
            self._module.report_end(message, message.run())


class StreamsRunner(Actor):
    """The actor that serves the streams of each session until its tunnel ends; reads no other message meanwhile."""

    def on_receive(self, message: object) -> None:
        """Serve the streams of a session."""
        if isinstance(message, TunnelSession):
            message.serve()


class EdgeStream(Module):
    """The module that dials the cloud when the node is registered there, and dials again when the tunnel ends.

    A cloud that serves the tunnel writes its own port into the Node's status. KubeEdge's reads nothing from a tunnel
    until it has found the Node, and then takes an ended tunnel for the live one. So a tunnel is
    dialled after edged has said that the cloud has the Node object; a tunnel that is open stays when edgehub's
    connection ends. Requests from the tunnel go to the node's own server.

    Args:
        make_link: makes a link for each attempt.
        dial_node: connects to the node's own server.
        counters: outlive a restart of the module.
        most_streams: at one time.
        has_edged: whether edged is part of this process; if not, the tunnel is dialled when edgehub is connected.
        make_poll: for the thread of the streams.
    """

    name = ModuleName.EDGESTREAM
    group = Group.EDGESTREAM

    def __init__(
        self,
        make_link: MakeLink,
        dial_node: DialNode,
        counters: StreamCounters,
        *,
        most_streams: int = MOST_STREAMS,
        has_edged: bool = True,
        make_poll: MakePoll = new_poll,
    ) -> None:
        super().__init__()
        self._make_poll = make_poll
        self._most_streams = most_streams
        self._has_edged = has_edged
        self._may_dial = False
        """Whether the cloud is connected and has the Node object."""
        self._next: Timer | None = None
        """Of the next dial."""
        self._make_link = make_link
        self._dial_node = dial_node
        self._counters = counters
        self._backoff = Backoff(BASE, LIMIT)
        self._session: TunnelSession | None = None
        self._up_since: float | None = None
        self._reported = ""
        """Why there is no tunnel, as the log has it: a cloud without tunnels is not worth a line every 30 s."""

    def on_start(self) -> None:
        """Start the actors that serve a tunnel; a restarted module dials, for nobody repeats that it may."""
        self._streams = self.start_actor(StreamsRunner)
        self._tunnel = self.start_actor(TunnelRunner, self)
        if self.slot.restarts:
            self._allow()

    def on_end(self) -> None:
        """Close the tunnel; a restarted module dials a new one."""
        self._counters.connected = False
        if self._session is not None:
            self._session.close()

    @handles(ResourceType.CONNECTION, Operation.CONNECT)
    def on_connection(self, message: Message) -> None:
        """Dial no more tunnels while edgehub is not connected: the Node may be gone when it is again."""
        content = message.content_bytes()
        if content == CLOUD_DISCONNECTED.encode():
            self._may_dial = False
        elif content == CLOUD_CONNECTED.encode() and not self._has_edged:
            self._allow()

    @handles(ResourceType.REGISTRATION, source=ModuleName.EDGED)
    def on_registration(self, message: Message) -> None:
        """Dial, now that the cloud has the Node object."""
        _log.debug("%s", message.route.resource)
        self._allow()

    @handles()
    def ignore(self, message: Message) -> None:
        """Ignore other messages."""
        _log.debug("not for edgestream: %s %s", message.route.operation, message.route.resource[:200])

    def _allow(self) -> None:
        self._may_dial = True
        if self._session is None:
            self._dial()

    def _dial_again(self) -> None:
        if self._may_dial:
            self._dial()

    def _dial(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        session = TunnelSession(
            self._make_link(),
            self._dial_node,
            self.clock,
            self._counters,
            self._most_streams,
            self._report_opened,
            self._make_poll,
        )
        self._session = session
        self._tunnel.tell(session)

    def _report_opened(self) -> None:
        """Note that the tunnel is up; on the link's thread."""
        if self._session is not None:
            self._streams.tell(self._session)
        self.call_soon(self._opened)

    def report_end(self, session: TunnelSession, error: BeehiveError) -> None:
        """Note the end of a tunnel; on the link's thread."""
        self.call_soon(lambda: self._ended(session, error))

    def _opened(self) -> None:
        self._up_since = self.clock.monotonic()
        self._counters.connected = True
        self._counters.connections += 1
        self._reported = ""
        _log.info("the stream tunnel to the cloud is open")

    def _ended(self, session: TunnelSession, error: BeehiveError) -> None:
        up = 0.0 if self._up_since is None else self.clock.monotonic() - self._up_since
        self._up_since, self._session = None, None
        self._counters.connected = False
        if up >= STEADY:
            self._backoff.reset()
        delay = self._backoff.next(self.clock.random)
        then = f"in {delay:.1f} s" if self._may_dial else "when the node is registered"
        why = session.complaint or str(error)
        level = logging.DEBUG if why == self._reported else logging.WARNING
        _log.log(level, "no stream tunnel to the cloud: %s; next try %s", why, then)
        self._reported = why
        self._next = self.after(delay, self._dial_again)
