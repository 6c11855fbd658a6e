"""edgehub: the module that keeps the link to the cloud and carries messages over it, both ways.

Out: every message sent to the module waits in `Outgoing`, is written to the outbox if its class is kept, is held back
by the rate limit, and is given to the link. In: `Inbound` hands what comes to modules and waiters. The module itself
decides when to dial, keeps the cloud's idea of a living node up with keepalives, and never waits: everything that does
is on the `Runner`'s thread, or on the outbox's writer's.
"""

import logging
from types import TracebackType

from pykka import ActorRef

from beehive import Group, Message, Module, ModuleName, Operation, Timer, encode, handles
from beehive.backoff import Backoff
from beehive.delivery import Delivery, DropReason, Way
from beehive.rate import TokenBucket
from edgehub.certificates.keeper import Keeper
from edgehub.certificates.renewal import LOOK, Renewer
from edgehub.classes import Class, Entry
from edgehub.counters import LinkCounters, Refusal
from edgehub.errors import ClosedHereError, LinkError
from edgehub.inbound import Hooks, Inbound
from edgehub.link import Link, LinkFactory
from edgehub.network.guard import NetworkGuard
from edgehub.network.lookout import WatchNetwork
from edgehub.outbox.keeper import OutboxKeeper
from edgehub.outbox.store import OpenOutbox
from edgehub.outgoing import Outgoing, Verdict
from edgehub.runner import Runner
from edgehub.sealing import Refused, sealed
from edgehub.settings import EdgeHubSettings

_log = logging.getLogger(__name__)

_NOT_RATED = frozenset({Class.ANSWER, Class.KEEPALIVE})
"""What the rate limit does not hold back. KubeEdge exempts keepalives only; but acknowledgements are as many as the
cloud's own messages, and one that is late makes it send the object again."""


class EdgeHub(Module):
    """See the module's docstring.

    Args:
        settings: see there.
        make_link: makes the link of each try.
        outgoing: what waits for the cloud; handed in so that it outlives a restart of the module.
        counters: likewise.
        keeper: of the node's certificate, where the link needs one.
        open_outbox: opens what keeps messages on the disk; None: they are in memory only.
        watch_network: makes what tells of changes of the network; None: only deadlines tell.
    """

    name = ModuleName.EDGEHUB
    group = Group.HUB

    def __init__(
        self,
        settings: EdgeHubSettings,
        make_link: LinkFactory,
        outgoing: Outgoing,
        counters: LinkCounters,
        keeper: Keeper | None = None,
        open_outbox: OpenOutbox | None = None,
        watch_network: WatchNetwork | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._make_link = make_link
        self._outgoing = outgoing
        self._counters = counters
        self._keeper = keeper
        self._outbox = OutboxKeeper(self, outgoing, open_outbox, counters, self._pump)
        self._network = NetworkGuard(self, watch_network, self._network_changed)
        self._renewer: ActorRef[Renewer] | None = None
        self._bucket = TokenBucket(settings.message_qps, settings.message_burst)
        self._backoff = Backoff(settings.reconnect_base, settings.reconnect_limit)
        self._link: Link | None = None
        self._up_since: float | None = None
        self._proven = False
        """Whether the peer has answered on this link."""
        self._why_down = "not tried yet"
        self._redial: Timer | None = None
        self._heartbeat: Timer | None = None
        self._next_token: Timer | None = None
        hooks = Hooks(
            opened=lambda: self.call_soon(self._opened),
            confirmed=lambda frames: self.call_soon(lambda: self._confirmed(frames)),
            ended=lambda error: self.call_soon(lambda: self._ended(error)),
            answered=lambda parent: self.call_soon(lambda: self._answered(parent)),
        )
        self._inbound = Inbound(self.hive, counters, hooks)

    def on_start(self) -> None:
        """Dial at once."""
        self._give_up(self._outgoing.lost(), "edgehub was started again; whether it arrived is not known")
        self._outbox.start()
        self._runner = self.start_actor(Runner, self._inbound)
        if self._keeper is not None and self._keeper.rotates:
            self._renewer = self.start_actor(Renewer, self._keeper, lambda: self.call_soon(self._renewed))
        self._network.start()
        self._dial()

    def on_stop(self) -> None:
        """Let what waits leave, rate limit or not, and close the link."""
        self._inbound.silence()
        self._network.stop()
        self._flush()
        self._outbox.stop()
        self._close()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the link; the next start makes a new one."""
        self._network.stop()
        self._close()
        super().on_failure(exception_type, exception_value, traceback)

    @handles()
    def forward(self, message: Message) -> None:
        """Send a message to the cloud, or keep it until that is possible."""
        if message.parent_id:
            self._inbound.in_flight.leave(message.parent_id)
        entry = sealed(message, self._settings.max_frame_bytes, self.clock.monotonic())
        if isinstance(entry, Refused):
            self._refuse(message, entry.why, entry.detail)
            return
        if entry.kind is Class.REQUEST and self._up_since is None:
            self._refuse(message, Refusal.NOT_CONNECTED, f"not connected to the cloud ({self._why_down})")
            return
        verdict, dropped = self._outgoing.offer(entry)
        for older in dropped:
            self._refuse(older.message, Refusal.GAVE_WAY, "newer events need its room")
        if verdict is Verdict.NO_ROOM:
            messages, size = self._outgoing.holds(entry.kind)
            detail = f"{messages} messages ({size} bytes) wait for the cloud already"
            self._refuse(message, Refusal.NO_ROOM, detail)
        elif verdict is Verdict.SUPERSEDED_OLDER:
            self._counters.refused[Refusal.SUPERSEDED] += 1
        self._outbox.changed()
        self._pump()

    def _refuse(self, message: Message, why: Refusal, detail: str) -> None:
        """A message will not leave: who waits gets an error; what nobody waits for is a dead letter."""
        self._counters.refused[why] += 1
        if message.header.sync:
            _log.log(logging.INFO if why is Refusal.NOT_CONNECTED else logging.WARNING,
                     "not sent: %s %s: %s", message.route.operation, message.route.resource, detail)  # fmt: skip
            self.respond(message.error(self.clock, f"{message.route.resource}: {detail}", source=self.name))
            return
        delivery = Delivery(message, EdgeHub.forward, Way.SEND)
        self.hive.bury(self.name, delivery, DropReason.NOT_SENT, detail)

    def _dial(self) -> None:
        self._redial, self._proven = None, False
        self._link = self._make_link()
        self._runner.tell(self._link)

    def _opened(self) -> None:
        self._up_since = self.clock.monotonic()
        self._counters.connected = True
        _log.info("connected to the cloud as %s", self._settings.node)
        if self._renewer is not None:
            self._renewer.tell(LOOK)
        for entry in self._outgoing.expire(self._up_since):
            self._refuse(entry.message, Refusal.TOO_OLD, "it has waited for too long")
        self._outbox.changed()
        self._keep_alive()
        self._heartbeat = self.every(self._settings.heartbeat, self._keep_alive)
        self._pump()

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
        self._down(str(error))
        level = logging.INFO if isinstance(error, ClosedHereError) else logging.WARNING
        _log.log(level, "no link to the cloud: %s; next try in %.1f s", error, delay)
        self._redial = self.after(delay, self._dial)

    def _network_changed(self) -> None:
        """Ask whether the cloud is still there; when it is not, it may be now. A try that has begun in the old network
        may wait long for an answer that cannot come.
        """
        if self._link is None:
            return
        if self._up_since is not None:
            self._link.check()
        elif self._network.may_dial():
            self._backoff.reset()
            if self._redial is None:
                self._link.close()
            elif self._redial.cancel():
                self._dial()

    def _renewed(self) -> None:
        """There is a new certificate: connect anew to use it. What is on its way then is sent again."""
        if self._link is not None:
            self._link.close()

    def _down(self, why: str) -> None:
        self._up_since, self._why_down = None, why
        self._counters.connected = False
        self._stop_timers()
        self._give_up(self._outgoing.lost(), f"the link to the cloud ended: {why}; whether it arrived is not known")

    def _give_up(self, requests: list[Message], why: str) -> None:
        """Of requests for which nobody waits any more, nothing is said."""
        for request in requests:
            if request.id in self.hive.waiters:
                self._refuse(request, Refusal.NOT_CONNECTED, why)

    def _confirmed(self, frames: int) -> None:
        self._counters.confirmed += frames
        self._proven = True
        self._outgoing.confirmed(frames, self.clock.monotonic())
        self._outbox.settle()
        self._pump()

    def _answered(self, message_id: str) -> None:
        """The cloud has answered a message: so it has it."""
        self._outgoing.answered(message_id)
        self._outbox.settle()

    def _keep_alive(self) -> None:
        message = self.message("node", Operation.KEEPALIVE, "ping", group=Group.RESOURCE)
        entry = Entry(message, encode(message), Class.KEEPALIVE)
        self._outgoing.on_its_way(entry)
        self._give(entry)

    def _pump(self) -> None:
        """Give to the link what may leave now; go on by a timer when the rate limit says wait."""
        while self._up_since is not None and (entry := self._outgoing.peek()) is not None:
            if entry.kind not in _NOT_RATED and not self._token():
                return
            self._give(self._outgoing.take())

    def _token(self) -> bool:
        """Whether a message may leave now; otherwise the timer for the next is running."""
        if self._next_token is not None:
            return False
        wait = self._bucket.take(self.clock.monotonic())
        if wait > 0:
            self._next_token = self.after(wait, self._token_came)
        return not wait

    def _token_came(self) -> None:
        self._next_token = None
        self._pump()

    def _flush(self) -> None:
        while self._up_since is not None and self._outgoing.peek() is not None:
            self._give(self._outgoing.take())

    def _give(self, entry: Entry) -> None:
        if self._link is not None:
            self._counters.sent += 1
            self._counters.count("sent", entry.message.route, len(entry.frame))
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
