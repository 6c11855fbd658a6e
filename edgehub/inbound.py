"""The receiving side of edgehub: from a link's events to the bus.

The table of targets is KubeEdge's (edge/pkg/edgehub/messagehandler; docs/protocol.md, "Dispatch"), by wire group, with
two differences. A late answer is not always dropped (`late_object`). And messages that only modules of this node send
each other (the link is up, the machine shuts down, requests and reports of edged) are rejected; KubeEdge's edge accepts
them from the cloud.

`InFlight` is the back pressure: it limits the bytes from the cloud that are in flight in this process.
"""

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum
from typing import Any, Final, NamedTuple

import msgspec
import pykka

from beehive import (
    BeehiveError,
    FrameError,
    Group,
    Hive,
    Message,
    ModuleName,
    Operation,
    ResourceType,
    Runtime,
    Source,
    decode,
)
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from edgehub.counters import LinkCounters, Rejection
from edgehub.errors import LinkError

_log = logging.getLogger(__name__)

_PUBLISH_SECONDS = 60.0
MOST_BYTES: Final = 2 * 1024 * 1024
"""Bytes that may be in flight; a single larger message may be alone."""
LONGEST_WAIT: Final = 0.5
"""Seconds that `enter` blocks at most."""
FORGET_AFTER: Final = 10.0
"""Seconds after which a message without an answer no longer counts: some messages get none."""


class Step(Enum):
    """How a message is delivered."""

    BROADCAST = "broadcast"
    SEND = "send"
    RESPOND = "respond"
    REJECT = "reject"


class Decision(NamedTuple):
    """A step with its target: a group, a module, or the reason of a rejection."""

    step: Step
    to: str = ""


_ANSWER = Decision(Step.RESPOND)
_BY_USER_SOURCE = {
    Source.ROUTER_EVENTBUS.value: Decision(Step.SEND, ModuleName.EVENTBUS),
    Source.ROUTER_SERVICEBUS.value: Decision(Step.SEND, ModuleName.SERVICEBUS),
    Source.ROUTER_REST.value: Decision(Step.SEND, ModuleName.SERVICEBUS),
}
_ACKNOWLEDGED_ANSWERS = frozenset(
    {
        ResourceType.CONFIGMAP,
        ResourceType.SECRET,
        ResourceType.PERSISTENT_VOLUME,
        ResourceType.PERSISTENT_VOLUME_CLAIM,
        ResourceType.VOLUME_ATTACHMENT,
    }
)
"""Types whose query answers the cloud repeats until they are acknowledged (cloudhub's noAckRequired)."""

_OWN_SOURCES = frozenset(
    {
        ModuleName.EDGEHUB,
        ModuleName.METAMANAGER,
        ModuleName.EDGED,
        ModuleName.METASERVER,
        ModuleName.DEVICETWIN,
        ModuleName.EVENTBUS,
        ModuleName.SERVICEBUS,
        ModuleName.EDGEMESH,
        ModuleName.EDGESTREAM,
        Source.EDGEHUB,
        Source.BUS,
        Source.META,
    }
)
_OWN_OPERATIONS = frozenset({Operation.QUERY, Operation.PATCH, Operation.CONNECT})
_OWN_TYPES = frozenset(
    {
        ResourceType.CONNECTION,
        ResourceType.SHUTDOWN,
        ResourceType.DISK,
        ResourceType.REGISTRATION,
        ResourceType.STORE,
        ResourceType.EVENT,
        ResourceType.DEVICE_TWIN,
        ResourceType.MQTT_TOPICS,
        ResourceType.TARGET_URLS,
    }
)


def decide(message: Message) -> Decision:
    """Return the target of a message."""
    match message.route.group:
        case Group.RESOURCE | Group.FUNC:
            return _ANSWER if message.parent_id else _unasked(message)
        case Group.TWIN:
            return _twin(message)
        case Group.USER:
            return _ANSWER if message.parent_id else _user(message.route.source)
        case Group.TASKMANAGER:
            return Decision(Step.SEND, ModuleName.TASKMANAGER)
        case _:
            return Decision(Step.REJECT, Rejection.UNKNOWN_GROUP)


def late_object(answer: Message) -> Message | None:
    """Turn an answer that arrives after its request has ended into an update for metamanager; None to drop it.

    KubeEdge drops every such answer. If the answer carries an object, its cloud then misses the acknowledgement,
    repeats the answer for 25 s and blocks the node's other messages meanwhile (docs/protocol.md, "Repetition"). An
    acknowledgement without storing would be worse: the cloud would take the node for up to date. So metamanager handles
    the object like a pushed one: it stores it, unless it has a newer version, and acknowledges it under the same
    message id.
    """
    route = answer.route
    wanted = (
        answer.header.resourceversion
        and route.group == Group.RESOURCE
        and route.operation == Operation.RESPONSE
        and answer.subject.type in _ACKNOWLEDGED_ANSWERS
    )
    if not wanted:
        return None
    return answer.with_header(parent_msg_id="").with_route(operation=Operation.UPDATE)


def _unasked(message: Message) -> Decision:
    """Deliver to metamanager, except messages that only this node's modules send it."""
    route = message.route
    own = route.source in _OWN_SOURCES or route.operation in _OWN_OPERATIONS
    if own or message.subject.type in _OWN_TYPES:
        return Decision(Step.REJECT, Rejection.INTERNAL)
    return Decision(Step.BROADCAST, Group.META)


def _twin(message: Message) -> Decision:
    """Deliver to devicetwin, except messages from applications and metamanager."""
    if message.route.source in _OWN_SOURCES and not message.parent_id:
        return Decision(Step.REJECT, Rejection.INTERNAL)
    return Decision(Step.BROADCAST, Group.TWIN)


def _user(source: str) -> Decision:
    return _BY_USER_SOURCE.get(source, Decision(Step.REJECT, Rejection.UNKNOWN_SOURCE))


LINK_EVENT_GROUPS = (
    Group.TWIN, Group.META, Group.BUS, Group.TASKMANAGER, Group.EDGED, Group.METASERVER, Group.EDGESTREAM, Group.MESH,
)  # fmt: skip
"""Groups that receive the connection events: KubeEdge's, edged, which reports its pods when the cloud is back, and
edgestream, which opens no tunnel before the node is registered there.
"""

_PUBLISH = Decision(Step.SEND, ModuleName.EVENTBUS)

_MESSAGE_ID = re.compile(rb'"msg_id"\s*:\s*"([!-~]{1,64}?)"')
_PARENT_ID = re.compile(rb'"parent_msg_id"\s*:\s*"([!-~]{1,64}?)"')
_RESOURCE = re.compile(rb'"resource"\s*:\s*"([ -~]{1,512}?)"')


class LinkHooks(msgspec.Struct, frozen=True):
    """Callbacks of the module; none of them blocks."""

    opened: Callable[[], None]
    confirmed: Callable[[int], None]
    ended: Callable[[LinkError], None]
    answered: Callable[[str], None]
    """Called with the id of a message that the cloud has answered."""


class Inbound:
    """Delivers the messages of a link (`edgehub.link.LinkEvents`) to modules, on the thread that runs the link.

    It decodes frames here and not on the module's thread, so an object from the cloud is one hand-over away from
    metamanager. A broadcast does not wait for room in an inbox: messages that metamanager is too slow for become dead
    letters, and the cloud, without their acknowledgement, sends them again. Before that, too many bytes in flight make
    the link pause reading (`edgehub.inbound`).

    Hooks put their news into the module's inbox before other modules receive the connection event. So edgehub knows of
    a new link before another module, reacting to it, sends it a message.

    Args:
        hive: delivers messages.
        counters: of the link.
        hooks: of the module.
    """

    def __init__(self, hive: Hive, counters: LinkCounters, hooks: LinkHooks) -> None:
        self._hive = hive
        self._counters = counters
        self._hooks = hooks
        self._open = False
        self._silent = False
        self._absent: set[str] = set()
        """Modules that this node does not have, and that the cloud has sent something."""
        self.in_flight = InFlight(hive.runtime)
        """Messages that metamanager has not answered yet."""

    def silence(self) -> None:
        """Drop further messages and connection events: the process is ending."""
        self._silent = True

    def opened(self) -> None:
        """Announce that the link is up."""
        self._open = True
        self._counters.connections += 1
        self._hooks.opened()
        self._announce(CLOUD_CONNECTED)

    def ended(self, error: LinkError) -> None:
        """Announce that the link has ended, or could not be established; called once."""
        self._counters.ends[error.reason] += 1
        self._hooks.ended(error)
        if self._open:
            self._open = False
            self._announce(CLOUD_DISCONNECTED)

    def confirmed(self, frames: int) -> None:
        """Pass on that the peer has read more frames."""
        self._hooks.confirmed(frames)

    def received(self, frame: bytes) -> None:
        """Decode and deliver a message. `sync` is cleared, because between modules it means that the sender waits; it
        is kept for a message to publish whose success the cloud asks for.
        """
        if self._silent:
            return
        self._counters.received_bytes += len(frame)
        try:
            message = decode(frame)
        except FrameError as error:
            self._reject(Rejection(error.reason), f"{error}; {len(frame)} bytes")
            return
        self._counters.count("received", message, len(frame))
        if message.header.sync and decide(message) == _PUBLISH:
            self._counters.received += 1
            self._ask(message)
            return
        self._deliver(message.with_header(sync=False) if message.header.sync else message, len(frame))

    def skipped(self, head: bytes, size: int) -> None:
        """Log a discarded message; if it answers a request, answer that with an error immediately."""
        self._counters.received_bytes += size
        resource, parent = _found(_RESOURCE, head), _found(_PARENT_ID, head)
        what = f"message {_found(_MESSAGE_ID, head) or '?'} about {resource or '?'} of {size} bytes"
        hint = "raise maxFrameBytes or make the object smaller; the cloud will send it again"
        self._reject(Rejection.TOO_LARGE, f"{what}: over the limit ({hint})")
        if parent:
            text = f"the cloud's answer of {size} bytes is over this node's limit"
            error = Message.new(
                self._hive.clock,
                source=Source.EDGEHUB,
                resource=resource,
                operation=Operation.ERROR,
                content=text,
                parent_id=parent,
            )
            self._hive.respond(error, ModuleName.EDGEHUB)
            self._hooks.answered(parent)

    def _deliver(self, message: Message, size: int) -> None:
        step, to = decide(message)
        if step is Step.REJECT:
            route = message.route
            self._reject(Rejection(to), f"{route.operation} {route.resource} from {route.source} to {route.group!r}")
            return
        self._counters.received += 1
        if step is Step.BROADCAST and to == Group.META:
            self.in_flight.enter(message.id, size)
        if step is Step.BROADCAST:
            self._hive.broadcast(to, message)
        elif step is Step.SEND and not self._hive.has(to):
            self._note_absent(to, message)
        elif step is Step.SEND:
            self._hive.send(to, message)
        else:
            self._answer(message)

    def _note_absent(self, module: str, message: Message) -> None:
        """Log once that a module is off: a cloud sends the subscriptions of its Rules at each connection."""
        if module in self._absent:
            return
        self._absent.add(module)
        what = f"{message.route.operation} {message.route.resource[:200]}"
        _log.info("the cloud's messages for %s, the first of them %s, are dropped: this node runs no %s", module, what,
                  module)  # fmt: skip

    def _ask(self, message: Message) -> None:
        """Have eventbus publish a message, and report to the cloud when the MQTT broker has it, or why publishing
        failed.
        """

        def answered(result: Message | BeehiveError) -> None:
            if isinstance(result, BeehiveError):
                result = message.error(self._hive.clock, str(result), group=Group.USER)
            self._hive.send(ModuleName.EDGEHUB, result)

        self._hive.request_then(ModuleName.EVENTBUS, message, _PUBLISH_SECONDS, answered)

    def _answer(self, answer: Message) -> None:
        claimed = self._hive.respond(answer, ModuleName.EDGEHUB)
        if claimed or answer.route.operation == Operation.RESPONSE:
            self._hooks.answered(answer.parent_id)
        if claimed:
            return
        update = late_object(answer)
        if update is not None:
            self._counters.late += 1
            self._hive.broadcast(Group.META, update)

    def _reject(self, reason: Rejection, detail: str) -> None:
        self._counters.rejected[reason] += 1
        _log.warning("rejected from the cloud (%s): %s", reason, detail)

    def _announce(self, content: str) -> None:
        if self._silent:
            return
        for group in LINK_EVENT_GROUPS:
            if self._hive.members(group):
                self._hive.broadcast(group, self._event(group, content))

    def _event(self, group: Group, content: str) -> Message:
        return Message.new(
            self._hive.clock,
            source=Source.EDGEHUB,
            resource=CONNECTION_RESOURCE,
            operation=Operation.CONNECT,
            content=content,
            group=group,
        )


def _found(pattern: re.Pattern[bytes], head: bytes) -> str:
    match = pattern.search(head)
    return match.group(1).decode() if match else ""


class _Entry(msgspec.Struct, frozen=True):
    size: int
    since: float


class InFlight:
    """Counts messages from their delivery to metamanager until its answer leaves. Thread-safe; one thread enters.

    When too many bytes are in flight, `enter` blocks the link's thread for a moment, so that further messages wait in
    the network. It blocks for half a second at most, because the same thread also writes and keeps the link alive.
    """

    def __init__(self, runtime: Runtime, most: int = MOST_BYTES) -> None:
        self._runtime = runtime
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._room: pykka.Future[Any] | None = None

    @property
    def bytes(self) -> int:
        """Bytes in flight now."""
        return self._bytes

    def enter(self, message_id: str, size: int) -> None:
        """Count a message, as soon as there is room or `LONGEST_WAIT` has passed."""
        until = self._runtime.clock.monotonic() + LONGEST_WAIT
        while (room := self._enter(message_id, size, until)) is not None:
            try:
                room.get(timeout=max(0.0, until - self._runtime.clock.monotonic()))
            except pykka.Timeout:
                continue

    def leave(self, message_id: str) -> None:
        """Count a message as answered; unknown ids have no effect. A blocked `enter` continues when half of the room is
        free: to wake it for each message would cost a thread switch each.
        """
        with self._lock:
            entry = self._entries.pop(message_id, None)
            if entry is None:
                return
            self._bytes -= entry.size
            room = None
            if self._bytes <= self._most // 2:
                room, self._room = self._room, None
        if room is not None:
            room.set(None)

    def _enter(self, message_id: str, size: int, until: float) -> pykka.Future[Any] | None:
        """Return None when the message was counted, else a future that is set when there may be room."""
        now = self._runtime.clock.monotonic()
        with self._lock:
            self._forget(now)
            if self._bytes and self._bytes + size > self._most and now < until:
                self._room = self._runtime.future()
                return self._room
            older = self._entries.pop(message_id, None)
            self._bytes += size - (older.size if older is not None else 0)
            self._entries[message_id] = _Entry(size, now)
            return None

    def _forget(self, now: float) -> None:
        while self._entries:
            message_id, entry = next(iter(self._entries.items()))
            if now - entry.since < FORGET_AFTER:
                return
            del self._entries[message_id]
            self._bytes -= entry.size
