"""The module edgehub: keeps a link to the cloud and carries messages in both directions."""

import logging
from collections import deque
from collections.abc import Iterator

import msgspec
from pykka import ActorRef

from beehive import (
    Actor,
    Clock,
    ContentError,
    Group,
    Message,
    Module,
    ModuleName,
    Operation,
    Source,
    Timer,
    decode,
    encode,
    handles,
)
from beehive.backoff import Backoff
from beehive.delivery import Delivery, DeliveryMode, DropReason
from beehive.rate import TokenBucket
from edgehub.certificates.manager import CertificateManager
from edgehub.certificates.renewal import CHECK, Renewer
from edgehub.classes import EncodingRefused, Entry, MessageClass, encode_frame, is_rated
from edgehub.counters import LinkCounters, LinkState, Refusal
from edgehub.errors import REPLACED, TOO_BIG, ClosedHereError, LinkError, PeerClosedError
from edgehub.inbound import Inbound, LinkHooks
from edgehub.link import Link, LinkFactory
from edgehub.network.guard import NetworkGuard, WatchNetwork
from edgehub.outbox.manager import OutboxManager
from edgehub.outbox.store import OpenOutbox
from edgehub.outgoing import OfferResult, Outgoing
from edgehub.settings import EdgeHubSettings
from edgehub.subject import named


class LinkRunner(Actor):
    """The actor that runs each link until the link ends, and reports the end to `inbound`.

    It reads no other message meanwhile, so close the link before stopping the actor.
    """

    def __init__(self, inbound: Inbound) -> None:
        super().__init__()
        self._inbound = inbound

    def on_receive(self, message: object) -> None:
        """Run a link until it ends."""
        if isinstance(message, Link):
            self._inbound.ended(message.run(self._inbound))


_log = logging.getLogger(__name__)

_FOR_THE_LINK = frozenset({MessageClass.REQUEST, MessageClass.RESPONSE})
"""Classes that are refused without a link."""

EVENT_SHARE = 8
"""Events get one of so many tokens of the rate limit's burst, at least one: 7 at a time with KubeEdge's burst of 60."""

_LEAST_LIMIT = 64 * 1024
"""Bytes of a message that every cloud takes."""

_AFTER_ANOTHER = (Refusal.NO_ROOM, "an earlier message has found no room")


class EdgeHub(Module):
    """The module that keeps a link to the cloud.

    Every message sent to the module enters `Outgoing`, is written to the outbox if its class is kept, passes the rate
    limit, and goes to the link. `Inbound` delivers the cloud's messages. The module decides when to dial, and sends
    keepalives. It never blocks: the `LinkRunner` and the outbox's `Writer` do, each on its own thread.

    Args:
        settings: of edgehub.
        make_link: makes a link for each attempt to connect.
        outgoing: the messages for the cloud; outlives a restart of the module.
        counters: of the link; outlive it too.
        certificates: manages the node's certificate, if the link needs one.
        open_outbox: opens the outbox; None keeps messages in memory only.
        watch_network: opens the watch of the network; without it only deadlines find dead links.
    """

    name = ModuleName.EDGEHUB
    group = Group.HUB

    def __init__(
        self,
        settings: EdgeHubSettings,
        make_link: LinkFactory,
        outgoing: Outgoing,
        counters: LinkCounters,
        certificates: CertificateManager | None = None,
        open_outbox: OpenOutbox | None = None,
        watch_network: WatchNetwork | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._make_link = make_link
        self._outgoing = outgoing
        self._counters = counters
        self._certificates = certificates
        self._outbox = OutboxManager(self, outgoing, open_outbox, counters, self.send_waiting)
        self._network = NetworkGuard(self, watch_network, self._network_changed)
        self._renewer: ActorRef[Renewer] | None = None
        self._bucket = TokenBucket(settings.message_qps, settings.message_burst)
        self._top_of_events = max(1, settings.message_burst // EVENT_SHARE)
        self._backoff = Backoff(settings.reconnect_base, settings.reconnect_limit)
        self._link: Link | None = None
        self._up_since: float | None = None
        self._proven = False
        """Whether the peer has answered on this link."""
        self._why_down = "not tried yet"
        self._refused_sessions: deque[str] = deque(maxlen=8)
        self._redial: Timer | None = None
        self._heartbeat: Timer | None = None
        self._next_token: Timer | None = None
        self._next_token_for = MessageClass.REQUEST
        """Class of the message that waits for `_next_token`."""
        hooks = LinkHooks(
            opened=lambda: self.call_soon(self._opened, "link up"),
            confirmed=lambda frames: self.call_soon(lambda: self._confirmed(frames), "confirmed"),
            ended=lambda error: self.call_soon(lambda: self._ended(error), "link down"),
            answered=lambda parent: self.call_soon(lambda: self._answered(parent), "answered"),
        )
        self._inbound = Inbound(self.hive, counters, hooks)

    def on_start(self) -> None:
        """Start the parts and dial."""
        self._fail_requests(self._outgoing.link_lost(), "edgehub was started again; whether it arrived is not known")
        self._outbox.start()
        self._runner = self.start_actor(LinkRunner, self._inbound)
        if self._certificates is not None and self._certificates.rotates:
            self._renewer = self.start_actor(Renewer, self._certificates, lambda: self.call_soon(self._renewed))
        self._network.start()
        self._dial()

    def on_stop(self) -> None:
        """Send all waiting messages, regardless of the rate limit, and close the link."""
        self._inbound.silence()
        self._network.stop()
        self._send_all()
        self._outbox.stop()
        self._close()

    def on_failure(self, *_error: object) -> None:
        """Close the link; the restarted module dials a new one."""
        self._network.stop()
        self._close()

    @handles()
    def forward(self, message: Message) -> None:
        """Send a message to the cloud now or later."""
        if message.parent_id:
            self._inbound.in_flight.leave(message.parent_id)
        why = self._offer(message)
        if why is not None:
            self._refuse(message, *why)
            return
        self._outbox.changed()
        self.send_waiting()

    @handles(None, Operation.UPLOAD, source=Source.BUS)
    def upload(self, request: Message) -> None:
        """Send messages of applications to the cloud now or later; answer how many are kept, when the outbox has them.

        The content is a list of texts: the topic of each message, and the message. The resource names the session that
        they came by. When one of a session has found no room, the later ones are refused, too: the broker sends all
        again, and otherwise they would be before it. One that is too large for the cloud is dropped and counts as kept:
        the broker would send it, and nothing behind it, without end.
        """
        try:
            texts: Iterator[str] = iter(request.content_as(list))
        except ContentError as error:
            self._refuse(request, Refusal.NOT_JSON, str(error))
            return
        session, kept = request.route.resource, 0
        why = _AFTER_ANOTHER if session in self._refused_sessions else None
        for topic, text in zip(texts, texts, strict=False):
            said = _uploaded(self.clock, topic, text)
            why = why or self._offer(said)
            if why is not None and why[0] is Refusal.TOO_LARGE:
                self._refuse(said, *why)
                why = None
            if why is not None:
                break
            kept += 1
        self._outbox.changed()
        self.send_waiting()
        if why is not None and why is not _AFTER_ANOTHER:
            self._refused_sessions.append(session)
        if why is not None and not kept:
            self._refuse(request, *why)
            return
        self._counters.refused.update(() if why is None else (why[0],))
        self._outbox.when_written(lambda: self.reply(request, kept))

    def _offer(self, message: Message) -> tuple[Refusal, str] | None:
        """Queue a message for the cloud; return why it is refused."""
        entry = encode_frame(message, self._settings.max_frame_bytes, self.clock.monotonic())
        if isinstance(entry, EncodingRefused):
            return entry
        if entry.kind in _FOR_THE_LINK and self._up_since is None:
            return Refusal.NOT_CONNECTED, f"not connected to the cloud ({self._why_down})"
        result, dropped = self._outgoing.offer(entry)
        for older in dropped:
            self._refuse(decode(older.frame), Refusal.GAVE_WAY, "newer events need its room")
        if result is OfferResult.NO_ROOM:
            messages, size = self._outgoing.usage(entry.kind)
            return Refusal.NO_ROOM, f"{messages} messages ({size} bytes) wait for the cloud already"
        if result is OfferResult.SUPERSEDED_OLDER:
            self._counters.refused[Refusal.SUPERSEDED] += 1
        return None

    def _refuse(self, message: Message, why: Refusal, detail: str) -> None:
        """Drop a message: answer a waiting sender with an error, else make it a dead letter."""
        self._counters.refused[why] += 1
        if message.header.sync:
            _log.log(logging.INFO if why is Refusal.NOT_CONNECTED else logging.WARNING,
                     "not sent: %s: %s", named(message), detail)  # fmt: skip
            self.respond(message.error(self.clock, f"{message.route.resource}: {detail}", source=self.name))
            return
        delivery = Delivery(message, EdgeHub.forward, DeliveryMode.SEND)
        self.hive.dead_letter(self.name, delivery, DropReason.NOT_SENT, detail)

    def _dial(self) -> None:
        self._redial, self._proven = None, False
        self._network.dialled()
        self._counters.link = msgspec.structs.replace(self._counters.link, next_try=None)
        self._link = self._make_link()
        self._runner.tell(self._link)

    def _opened(self) -> None:
        self._up_since = self.clock.monotonic()
        self._network.opened()
        self._counters.connected = True
        self._counters.link = LinkState(self.clock.now(), replaced_at=self._counters.link.replaced_at)
        _log.info("connected to the cloud as %s", self._settings.node)
        if self._renewer is not None:
            self._renewer.tell(CHECK)
        for entry in self._outgoing.expire(self._up_since):
            self._refuse(decode(entry.frame), Refusal.TOO_OLD, "it has waited for too long")
        self._outbox.changed()
        self._keep_alive()
        self._heartbeat = self.every(self._settings.heartbeat, self._keep_alive)
        self.send_waiting()

    def _ended(self, error: LinkError) -> None:
        now = self.clock.monotonic()
        up = now - self._up_since if self._up_since is not None else 0.0
        if isinstance(error, ClosedHereError):
            delay = 0.0
        elif up >= self._settings.steady:
            self._backoff.reset()
            delay = 0.0
        elif self._proven:
            self._backoff.reset()
            delay = self.clock.random.uniform(0.0, self._settings.reconnect_base)
        else:
            delay = self._backoff.next(self.clock.random)
        self._record_end(error, now + delay)
        if isinstance(error, PeerClosedError) and error.code == TOO_BIG:
            self._set_aside_largest()
        self._link_down(str(error))
        level = logging.INFO if isinstance(error, ClosedHereError) else logging.WARNING
        _log.log(level, "no link to the cloud: %s; next try in %.1f s", error, delay)
        self._redial = self.after(delay, self._dial)

    def _set_aside_largest(self) -> None:
        """Refuse the message for whose size the peer has ended the link: sent again, it would end each link. Nobody
        names it, but no unconfirmed message is larger.
        """
        entry = self._outgoing.remove_largest(_LEAST_LIMIT)
        if entry is not None:
            why = f"{len(entry.frame)} bytes are more than the cloud takes"
            self._refuse(entry.message, Refusal.TOO_LARGE, why)

    def _record_end(self, error: LinkError, next_try: float) -> None:
        """Record why there is no link and when the next attempt follows (monotonic seconds), for the node's status
        commands.
        """
        before, was_up = self._counters.link, self._up_since is not None
        lost_at = self.clock.now() if was_up else before.lost_at
        is_replaced = isinstance(error, PeerClosedError) and error.code == REPLACED
        replaced_at = self.clock.now() if is_replaced else before.replaced_at
        failures = 0 if was_up else before.failures + 1
        self._counters.link = LinkState(None, lost_at, failures, str(error), next_try, replaced_at)

    def _network_changed(self, is_way_out: bool) -> None:
        """Check an open link; else dial now, or dial again: a dial that began in the old network could wait long for an
        answer that never comes. Devices of pods come and go all the time and break off no dial.
        """
        if self._link is None:
            return
        if self._up_since is not None:
            self._link.check()
        elif self._redial is None:
            if is_way_out and self._network.may_break_off():
                self._backoff.reset()
                self._link.close()
        elif self._network.may_dial():
            self._backoff.reset()
            self._redial.cancel()
            self._dial()

    def _renewed(self) -> None:
        """Reconnect to use a new certificate; unconfirmed messages are sent again."""
        if self._link is not None:
            self._link.close()

    def _link_down(self, why: str) -> None:
        self._up_since, self._why_down = None, why
        self._counters.connected = False
        self._stop_timers()
        self._fail_requests(
            self._outgoing.link_lost(), f"the link to the cloud ended: {why}; whether it arrived is not known"
        )
        self._outbox.changed()

    def _fail_requests(self, requests: list[Message], why: str) -> None:
        """Refuse the requests whose senders still wait."""
        for request in requests:
            if request.id in self.hive.pending_requests:
                self._refuse(request, Refusal.NOT_CONNECTED, why)

    def _confirmed(self, frames: int) -> None:
        self._counters.confirmed += frames
        self._proven = True
        self._outgoing.confirmed(frames, self.clock.monotonic())
        self._outbox.settle()
        self.send_waiting()

    def _answered(self, message_id: str) -> None:
        """Release a message that the cloud has answered."""
        self._outgoing.answered(message_id)
        self._outbox.settle()

    def _keep_alive(self) -> None:
        message = self.message("node", Operation.KEEPALIVE, "ping", group=Group.RESOURCE)
        entry = Entry(message, encode(message), MessageClass.KEEPALIVE)
        self._outgoing.record_sent(entry)
        self._send_frame(entry)

    def send_waiting(self) -> None:
        """Send the messages that may leave; a timer continues when the rate limit is reached."""
        while self._up_since is not None and (entry := self._outgoing.peek()) is not None:
            if is_rated(entry) and not self._reserve_token(entry.kind):
                return
            self._send_frame(self._outgoing.pop())

    def _reserve_token(self, kind: MessageClass) -> bool:
        """Return whether the rate limit admits a message of a class; if not, a timer runs.

        Events get the top `EVENT_SHARE` of a full bucket only. So statuses always find nearly the whole burst, whatever
        the events did; and events leave some at a time, which spares threads that start pods a wake for each.
        """
        is_event = kind is MessageClass.EVENT
        if self._next_token is not None:
            if is_event or self._next_token_for is not MessageClass.EVENT:
                return False
            self._next_token.cancel()
            self._next_token = None
        wait = self._bucket.reserve(self.clock.monotonic(), only_top=self._top_of_events if is_event else 0)
        if wait > 0:
            self._next_token, self._next_token_for = self.after(wait, self._token_available), kind
        return not wait

    def _token_available(self) -> None:
        self._next_token = None
        self.send_waiting()

    def _send_all(self) -> None:
        while self._up_since is not None and self._outgoing.peek() is not None:
            self._send_frame(self._outgoing.pop())

    def _send_frame(self, entry: Entry) -> None:
        if self._link is not None:
            self._counters.sent += 1
            self._counters.count("sent", entry.message, len(entry.frame))
            self._link.send(entry.frame)

    def _close(self) -> None:
        self._stop_timers()
        self._counters.connected = False
        if self._link is not None:
            self._link.close()

    def _stop_timers(self) -> None:
        for timer in (self._heartbeat, self._next_token):
            if timer is not None:
                timer.cancel()
        self._heartbeat = self._next_token = None


def _uploaded(clock: Clock, topic: str, text: str) -> Message:
    return Message.new(
        clock, source=Source.BUS, group=Group.USER, resource=topic, operation=Operation.UPLOAD, content=text
    )
