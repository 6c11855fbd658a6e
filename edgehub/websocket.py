"""A link over websocket, plain or TLS: one JSON message a text message, as KubeEdge has it (spec/03 §1).

One thread, that of the actor which runs the link, dials, reads, writes, pings and watches the deadlines; it sleeps in
`poll` and is woken by a bell when somebody sends. It is the only place of edgehub that waits for the network.
"""

from beehive import Clock
from edgehub.deflate import Deflater
from edgehub.errors import (
    ClosedHereError,
    DeadPeerError,
    LinkError,
    LinkLostError,
    PeerClosedError,
    UpgradeError,
)
from edgehub.framing import FrameReader, Opcode, Received, Skipped, close_reason
from edgehub.link import Link, LinkEvents
from edgehub.patience import Flow, Patience
from edgehub.settings import EdgeHubSettings
from edgehub.transport import ContextFactory, Transport
from edgehub.upgrade import Target, Upgrade
from edgehub.writer import FrameWriter

CHECK_DEADLINE = 3.0
"""Seconds within which a peer must give a sign of life when the network has changed: enough for a round trip over a
satellite and a lost packet. Who is not there any more is dialled anew that much sooner."""

LINGER = 1.0
"""Seconds that a link closed by this side gives the peer to take what was sent."""

_READ_BYTES = 256 * 1024
_READS_IN_A_ROW = 16
"""After so many reads what waits to be written has its turn."""


def check(settings: EdgeHubSettings) -> None:
    """Find out, before anything is started, whether a link can be made of the settings.

    Raises:
        SettingsError: the URL or a header cannot be used.
    """
    _upgrade(settings)


class WebsocketLink(Link):
    """See the module's docstring.

    Args:
        settings: of edgehub.
        clock: for deadlines; real sockets want the real clock.
        make_context: of TLS, for a `wss://` URL.

    Raises:
        SettingsError: the URL or a header cannot be used.
    """

    def __init__(self, settings: EdgeHubSettings, clock: Clock, make_context: ContextFactory | None = None) -> None:
        self._settings = settings
        self._clock = clock
        self._upgrade = _upgrade(settings)
        self._target = target = self._upgrade.target
        self._transport = Transport(target, clock, make_context)
        self._reader = FrameReader(settings.max_frame_bytes)
        self._writer = FrameWriter()
        self._unwritten = memoryview(b"")
        self._heard = self._progress = 0.0
        self._patience = Patience()
        self._doubted = False
        self._proof_until: float | None = None

    def run(self, events: LinkEvents) -> LinkError:
        try:
            first = self._dial()
            events.opened()
            self._serve(events, first)
        except LinkError as end:
            return end
        except OSError as error:
            return LinkLostError("the connection to the cloud broke", str(self._target), self._transport.explain(error))
        finally:
            self._transport.close()
        return ClosedHereError()

    def send(self, frame: bytes) -> None:
        self._writer.put(frame)
        self._transport.ring()

    def check(self) -> None:
        self._doubted = True
        self._transport.ring()

    def close(self) -> None:
        self._transport.stop()

    def _dial(self) -> bytes:
        """Connect and agree; returns what the peer has sent beyond its agreement."""
        deadline = self._clock.monotonic() + self._settings.handshake_timeout
        self._transport.connect(deadline)
        late = UpgradeError(f"no answer within {self._settings.handshake_timeout:g} s")
        request = memoryview(self._upgrade.request())
        if self._transport.send(request) != len(request):
            raise UpgradeError("the peer takes no request")
        while True:
            self._transport.await_answer(deadline, late)
            data = self._transport.receive(_READ_BYTES)
            if data == b"":
                raise UpgradeError("the peer closed the connection instead of answering")
            rest = self._upgrade.feed(data) if data else None
            if rest is not None:
                self._agree()
                return rest

    def _agree(self) -> None:
        agreed = self._upgrade.compression
        if agreed is not None:
            self._reader.inflates = True
            self._writer.deflater = Deflater(agreed)

    def _serve(self, events: LinkEvents, first: bytes) -> None:
        self._heard = self._clock.monotonic()
        self._take(first, events)
        while not self._transport.stopping:
            self._read(events)
            self._write()
            until = self._deadline()
            self._transport.wait(write=bool(self._unwritten), until=until)
        self._finish()

    def _read(self, events: LinkEvents) -> None:
        for _ in range(_READS_IN_A_ROW):
            data = self._transport.receive(_READ_BYTES)
            if data is None:
                return
            self._heard = self._clock.monotonic()
            self._proof_until = None
            if not data:
                raise PeerClosedError(1006, "without a close frame")
            self._take(data, events)
        self._transport.ring()

    def _take(self, data: bytes, events: LinkEvents) -> None:
        for event in self._reader.feed(data):
            if isinstance(event, Skipped):
                events.skipped(event.head, event.size)
            elif event.opcode is Opcode.TEXT or event.opcode is Opcode.BINARY:
                events.received(event.payload)
            else:
                self._take_control(event, events)

    def _take_control(self, event: Received, events: LinkEvents) -> None:
        if event.opcode is Opcode.PING:
            self._writer.answer_ping(event.payload)
        elif event.opcode is Opcode.PONG:
            arrived = self._writer.confirm(event.payload)
            if arrived:
                events.confirmed(arrived)
        else:
            code, text = close_reason(event.payload)
            self._say(self._writer.close(1000))
            raise PeerClosedError(code, text)

    def _write(self) -> None:
        while True:
            if not self._unwritten:
                self._unwritten = memoryview(self._writer.next_bytes())
                self._progress = self._clock.monotonic()
                if not self._unwritten:
                    return
            written = self._transport.send(self._unwritten)
            if not written:
                return
            self._unwritten = self._unwritten[written:]
            self._progress = self._clock.monotonic()

    def _deadline(self) -> float:
        """When something is due although nobody says anything; raises when it is too late already."""
        settings, now = self._settings, self._clock.monotonic()
        self._doubt(now)
        self._look(now)
        dead = self._heard + settings.read_deadline + self._patience.excused
        if self._proof_until is not None:
            dead = min(dead, self._proof_until)
        if now >= dead:
            hint = "the network or the cloud is gone without a word"
            raise DeadPeerError(f"nothing heard for {now - self._heard:.1f} s", str(self._target), hint)
        if self._unwritten:
            stuck = max(self._progress, self._patience.moved) + settings.write_deadline
            if now >= stuck:
                hint = "the cloud is overloaded or the network gone"
                raise DeadPeerError(f"nothing taken for {settings.write_deadline:g} s", str(self._target), hint)
            return min(dead, stuck)
        if self._writer.ping_on_its_way is not None:
            return dead
        quiet = self._heard + min(settings.ping_interval, settings.read_deadline / 2)
        if now >= quiet:
            self._say(self._writer.ping())
            self._look(now)
            return dead
        return quiet

    def _look(self, now: float) -> None:
        """Whether a slow network has taken the ping by now that the peer is to answer."""
        ping = self._writer.ping_on_its_way
        flow = Flow() if ping is None else self._transport.flow()
        self._patience.look(now, ping, flow, written=not self._unwritten)

    def _doubt(self, now: float) -> None:
        """The network has changed: ask, and give up soon if nothing comes. Who has been asked already gets no more time
        by another change, or a device that comes and goes would keep a dead link alive.
        """
        if self._doubted:
            self._doubted = False
            self._proof_until = self._proof_until or now + CHECK_DEADLINE
            if not self._unwritten and self._writer.ping_on_its_way is None:
                self._say(self._writer.ping())

    def _finish(self) -> None:
        """Let what was sent leave, say goodbye and wait for the peer to have read it; all within `LINGER`."""
        deadline = self._clock.monotonic() + LINGER
        self._write()
        while self._unwritten and self._clock.monotonic() < deadline:
            self._transport.wait(write=True, until=deadline)
            self._write()
        if self._unwritten:
            return
        self._say(self._writer.close(1000))
        self._transport.end_writing()
        while self._clock.monotonic() < deadline and self._transport.receive(_READ_BYTES) != b"":
            self._transport.wait(write=False, until=deadline)

    def _say(self, control: bytes) -> None:
        """Write a control frame if nothing is before it; small enough for any buffer that has room."""
        if not self._unwritten:
            written = self._transport.send(memoryview(control))
            self._unwritten = memoryview(control)[written:]
            self._progress = self._clock.monotonic()


def _upgrade(settings: EdgeHubSettings) -> Upgrade:
    """Without `ConnectionUse` KubeEdge's cloud agrees and then never reads (spec/03 §1.2)."""
    headers = {"node_id": settings.node, "project_id": settings.project, "ConnectionUse": "msg"}
    return Upgrade(Target.parse(settings.url), headers, compression=settings.compression)
