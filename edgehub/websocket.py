"""A link over websocket, plain or TLS: each message is one text message (docs/protocol.md, "Framing")."""

from collections.abc import Mapping

from beehive import Clock
from edgehub.deflate import Deflater
from edgehub.errors import ClosedHereError, DeadPeerError, LinkError, LinkLostError, PeerClosedError, UpgradeError
from edgehub.frame_writer import FrameWriter
from edgehub.framing import FrameReader, Opcode, Received, Skipped, close_reason
from edgehub.link import Link, LinkEvents
from edgehub.ping_deadline import Flow, PingDeadline
from edgehub.settings import EdgeHubSettings
from edgehub.transport import ContextFactory, Transport
from edgehub.upgrade import Target, Upgrade

CHECK_DEADLINE = 3.0
"""Seconds that a peer has to answer a ping after a change of the network: enough for a round trip by satellite and a
lost packet. The link to a dead peer ends that much sooner."""

LINGER = 1.0
"""Seconds that a link closed by this side waits until the peer has read the last frames."""

_READ_BYTES = 12 * 1024
"""Bytes read at first: malloc maps larger buffers, and to unmap one interrupts the machine's other processors."""
_MORE_BYTES = 256 * 1024
"""Bytes read after a read that was full."""
_READS_IN_A_ROW = 16
"""Reads after which waiting frames are written."""


def check(settings: EdgeHubSettings) -> None:
    """Check the settings before the module starts.

    Raises:
        SettingsError: the URL or a header cannot be used.
    """
    _upgrade(settings)


class WebsocketLink(Link):
    """A link over a websocket.

    One thread dials, reads, writes, pings and checks the deadlines. It sleeps in `poll`; `send`, `check` and `close`
    wake it from other threads. No other code of edgehub waits for the network.

    Args:
        settings: of edgehub.
        clock: for deadlines; real sockets need the real clock.
        make_context: returns the TLS context, for a `wss://` URL.
        headers: of the upgrade, in the place of edgehub's own; the stream tunnel has others.

    Raises:
        SettingsError: the URL or a header cannot be used.
    """

    def __init__(
        self,
        settings: EdgeHubSettings,
        clock: Clock,
        make_context: ContextFactory | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._upgrade = _upgrade(settings, headers)
        self._target = target = self._upgrade.target
        self._transport = Transport(target, clock, make_context)
        self._reader = FrameReader(settings.max_frame_bytes)
        self._writer = FrameWriter()
        self._unwritten = memoryview(b"")
        self._last_read = self._last_write = 0.0
        self._ping_deadline = PingDeadline()
        self._check_requested = False
        self._check_until: float | None = None

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
        self._transport.wake()

    def check(self) -> None:
        self._check_requested = True
        self._transport.wake()

    def close(self) -> None:
        self._transport.stop()

    def _dial(self) -> bytes:
        """Connect and upgrade; return the bytes that follow the peer's HTTP answer."""
        deadline = self._clock.monotonic() + self._settings.handshake_timeout
        self._transport.connect(deadline)
        late = UpgradeError(f"no answer within {self._settings.handshake_timeout:g} s")
        request = memoryview(self._upgrade.request())
        if self._transport.send(request) != len(request):
            raise UpgradeError("the peer did not accept the request")
        while True:
            self._transport.await_answer(deadline, late)
            data = self._transport.receive(_READ_BYTES)
            if data == b"":
                raise UpgradeError("the peer closed the connection instead of answering", self._upgrade.closed_hint)
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
        self._last_read = self._clock.monotonic()
        self._handle(first, events)
        readable = True
        while not self._transport.stopping:
            if readable:
                self._read(events)
            self._write()
            until = self._deadline()
            readable = self._transport.wait(write=bool(self._unwritten), until=until)
        self._finish()

    def _read(self, events: LinkEvents) -> None:
        size = _READ_BYTES
        for _ in range(_READS_IN_A_ROW):
            data = self._transport.receive(size)
            if data is None:
                return
            self._last_read = self._clock.monotonic()
            self._check_until = None
            if not data:
                raise PeerClosedError(1006, "without a close frame")
            self._handle(data, events)
            if len(data) == size:
                size = _MORE_BYTES
            elif not self._target.secure:
                return  # that was all; TLS may hold more that no poll shows
        self._transport.wake()

    def _handle(self, data: bytes, events: LinkEvents) -> None:
        for event in self._reader.feed(data):
            if isinstance(event, Skipped):
                events.skipped(event.head, event.size)
            elif event.opcode is Opcode.TEXT or event.opcode is Opcode.BINARY:
                events.received(event.payload)
            else:
                self._handle_control(event, events)

    def _handle_control(self, event: Received, events: LinkEvents) -> None:
        if event.opcode is Opcode.PING:
            self._writer.answer_ping(event.payload)
        elif event.opcode is Opcode.PONG:
            arrived = self._writer.confirm(event.payload)
            if arrived:
                events.confirmed(arrived)
        else:
            code, text = close_reason(event.payload)
            self._write_control(self._writer.close(1000))
            raise PeerClosedError(code, text)

    def _write(self) -> None:
        while True:
            if not self._unwritten:
                now = self._clock.monotonic()
                self._unwritten = memoryview(self._writer.next_bytes(now))
                self._last_write = now
                if not self._unwritten:
                    return
            written = self._transport.send(self._unwritten)
            if not written:
                return
            self._unwritten = self._unwritten[written:]
            self._last_write = self._clock.monotonic()

    def _deadline(self) -> float:
        """Return when the next ping or deadline is due; ping, or raise DeadPeerError, if it is due now."""
        settings, now = self._settings, self._clock.monotonic()
        self._check_peer(now)
        self._update_ping_deadline(now)
        quiet = self._last_read + min(settings.ping_interval, settings.read_deadline / 2)
        if now >= quiet and not self._unwritten and self._writer.open_ping is None:
            self._write_control(self._writer.ping(now))
            self._update_ping_deadline(now)
        dead = self._dead()
        if now >= dead:
            hint = "the network or the cloud has vanished"
            raise DeadPeerError(f"nothing received for {now - self._last_read:.1f} s", str(self._target), hint)
        if self._unwritten:
            stuck = max(self._last_write, self._ping_deadline.last_progress) + settings.write_deadline
            if now >= stuck:
                hint = "the cloud is overloaded or the network gone"
                raise DeadPeerError(
                    f"the peer accepted nothing for {settings.write_deadline:g} s", str(self._target), hint
                )
            return min(dead, stuck)
        if self._writer.open_ping is not None:
            return dead
        due = self._writer.ping_due
        return quiet if due is None else min(quiet, due)

    def _dead(self) -> float:
        """Return when a peer that stays silent counts as dead. For its pong it has half of the read deadline, also if
        the ping was late because this process stood still, or could not be written before other bytes.
        """
        limit, dead = self._settings.read_deadline, self._last_read + self._settings.read_deadline
        if self._writer.open_ping is not None:
            dead = max(dead, self._ping_deadline.pinged_at + limit / 2)
        dead += self._ping_deadline.extension
        if self._unwritten:
            dead = max(dead, self._last_write + limit / 2)
        if self._check_until is None:
            return dead
        moved = max(self._ping_deadline.last_progress, self._last_write if self._unwritten else 0.0)
        return min(dead, max(self._check_until, moved + CHECK_DEADLINE))

    def _update_ping_deadline(self, now: float) -> None:
        """Extend the read deadline while a slow network still transmits the ping."""
        ping = self._writer.open_ping
        flow = Flow() if ping is None else self._transport.flow()
        self._ping_deadline.update(now, ping, flow, written=not self._unwritten)

    def _check_peer(self, now: float) -> None:
        """Ping the peer if `check` was called, and shorten its deadline. Another change of the network does not extend
        that deadline, or a flapping interface would keep a dead link alive; a slow network that still takes bytes up to
        the ping does.
        """
        if self._check_requested:
            self._check_requested = False
            self._check_until = self._check_until or now + CHECK_DEADLINE
            if not self._unwritten and self._writer.open_ping is None:
                self._write_control(self._writer.ping(now))

    def _finish(self) -> None:
        """Write the waiting frames, close the websocket and wait for the peer's end of stream, all within `LINGER`."""
        deadline = self._clock.monotonic() + LINGER
        self._write()
        while self._unwritten and self._clock.monotonic() < deadline:
            self._transport.wait(write=True, until=deadline)
            self._write()
        if self._unwritten:
            return
        self._write_control(self._writer.close(1000))
        self._transport.end_writing()
        while self._clock.monotonic() < deadline and self._transport.receive(_READ_BYTES) != b"":
            self._transport.wait(write=False, until=deadline)

    def _write_control(self, control: bytes) -> None:
        """Write a control frame unless other bytes wait; any buffer with room takes it whole."""
        if not self._unwritten:
            written = self._transport.send(memoryview(control))
            self._unwritten = memoryview(control)[written:]
            self._last_write = self._clock.monotonic()


def _upgrade(settings: EdgeHubSettings, headers: Mapping[str, str] | None = None) -> Upgrade:
    """Return the upgrade. Without `ConnectionUse` KubeEdge's cloud accepts it and never reads (docs/protocol.md,
    "Handshake").
    """
    own = {"node_id": settings.node, "project_id": settings.project, "ConnectionUse": "msg"}
    chosen = own if headers is None else dict(headers)
    return Upgrade(Target.parse(settings.url), chosen, compression=settings.compression)
