"""The receiving side of edgehub: from a link's events to the bus."""

import logging
from collections.abc import Callable

import msgspec

from beehive import BeehiveError, FrameError, Group, Hive, Message, ModuleName, Operation, Source, decode
from beehive.http.forwarding import answer_to, is_call, refusal
from beehive.names import CLOUD_CONNECTED, CLOUD_DISCONNECTED, CONNECTION_RESOURCE
from beehive.patterns import Pattern, pattern
from edgehub.counters import LinkCounters, Rejection
from edgehub.dispatch import PUBLISH, Step, decide, late_object
from edgehub.errors import LinkError
from edgehub.in_flight import InFlight

_log = logging.getLogger(__name__)

_PUBLISH_SECONDS = 60.0

LINK_EVENT_GROUPS = (
    Group.TWIN, Group.META, Group.BUS, Group.TASKMANAGER, Group.EDGED, Group.METASERVER, Group.EDGESTREAM, Group.MESH,
)  # fmt: skip
"""Groups that receive the connection events: KubeEdge's, edged, which reports its pods when the cloud is back, and
edgestream, which opens no tunnel before the node is registered there.
"""

_MESSAGE_ID = pattern(rb'"msg_id"\s*:\s*"([!-~]{1,64}?)"')
_PARENT_ID = pattern(rb'"parent_msg_id"\s*:\s*"([!-~]{1,64}?)"')
_UNAVAILABLE = 503
_RESOURCE = pattern(rb'"resource"\s*:\s*"([ -~]{1,512}?)"')


class LinkHooks(msgspec.Struct, frozen=True):
    """Callbacks of the module; none of them blocks."""

    opened: Callable[[], None]
    confirmed: Callable[[int], None]
    ended: Callable[[LinkError], None]
    answered: Callable[[str], None]
    """Called with the id of a message that the cloud has answered."""


class Inbound:
    """The delivery of a link's messages (`edgehub.link.LinkEvents`) to modules, on the thread that runs the link.

    It decodes frames here and not on the module's thread, so an object from the cloud is one hand-over away from
    metamanager. It does not wait for room in an inbox, behind which other modules' messages would wait: messages that
    metamanager is too slow for become dead letters, and the cloud, without their acknowledgement, sends them again.
    Before that, too many bytes in flight make the link pause reading (`edgehub.in_flight`).

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
        step, to = decision = decide(message)
        if step is Step.REJECT:
            route = message.route
            self._reject(Rejection(to), f"{route.operation} {route.resource} from {route.source} to {route.group!r}")
            return
        self._counters.received += 1
        if message.header.sync:
            if decision == PUBLISH:
                self._ask(message)
                return
            message = message.with_header(sync=False)
        if step is Step.BROADCAST and to == Group.META:
            self.in_flight.enter(message.id, len(frame))
        if step is Step.BROADCAST:
            self._hive.broadcast(to, message)
        elif step is Step.SEND and not self._hive.has(to):
            self._log_absent(to, message)
        elif step is Step.SEND:
            self._hive.send(to, message, waits=False)
        else:
            self._answer(message)

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

    def _log_absent(self, module: str, message: Message) -> None:
        """Log once that a module is off: a cloud sends the subscriptions of its Rules at each connection. Answer a call
        of an application, for which the cloud would wait until its time-out.
        """
        if is_call(message) and module == ModuleName.SERVICEBUS:
            refused = refusal(_UNAVAILABLE, "this node runs no servicebus (modules.serviceBus.enable)")
            self._hive.broadcast(Group.HUB, answer_to(message, refused, self._hive.clock))
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
            self._hive.send(ModuleName.EDGEHUB, result, waits=False)

        self._hive.request_then(ModuleName.EVENTBUS, message, _PUBLISH_SECONDS, answered, waits=False)

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
        _log.warning("rejected a message from the cloud (%s): %s", reason, detail)

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


def _found(pattern: Pattern[bytes], head: bytes) -> str:
    match = pattern.search(head)
    return match.group(1).decode() if match else ""
