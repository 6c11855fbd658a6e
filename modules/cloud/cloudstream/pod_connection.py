"""A connection to a port of a pod: one of a port-forwarding's connections, over a stream of its node.

The bytes are those of SPDY streams, which the node's container runtime connects to the pod. A `PodConnection` and a
`TlsConnection` over it have the form of the node's stream itself (`RelayedStream`).
"""

import ssl
from typing import Final

from beehive.http.spdy import ConnectionEnd, SpdyConnection, SpdyError, SpdyEvent, StreamData, StreamEnd
from modules.cloud.apiserver.endpoints.pod_proxies import PodPort
from modules.cloud.cloudstream.relay import RelayedStream

PROTOCOL: Final = "portforward.k8s.io"
UPGRADE: Final = (("connection", "Upgrade"), ("upgrade", "SPDY/3.1"), ("x-stream-protocol-version", PROTOCOL))
"""The headers of the request that begins port forwarding."""
_LONGEST_PROBLEM: Final = 500
_READ_BYTES: Final = 16 * 1024


class _Layer:
    """A protocol over a stream, itself in the form of a stream."""

    def __init__(self, below: RelayedStream) -> None:
        self._below = below
        self._is_over = False
        self.failure = ""
        """Why it has ended before its time, or ""."""

    def fileno(self) -> int:
        """See `RelayedStream`."""
        return self._below.fileno()

    @property
    def is_over(self) -> bool:
        """See `RelayedStream`."""
        return self._is_over

    def close(self) -> None:
        """See `RelayedStream`."""
        self._below.close()


class PodConnection(_Layer):
    """A connection to a port.

    Args:
        stream: of port forwarding, after its upgrade.
        first: the bytes that came with the upgrade.
        port: of the pod.
    """

    def __init__(self, stream: RelayedStream, first: bytes, port: int) -> None:
        super().__init__(stream)
        self._first = first
        self._spdy = SpdyConnection()
        headers = {"port": str(port), "requestid": "0"}
        self._error = self._spdy.open_stream({**headers, "streamtype": "error"}, ended=True)
        self._data = self._spdy.open_stream({**headers, "streamtype": "data"})
        self._problem = bytearray()
        self._flush()

    @property
    def room(self) -> int:
        """See `RelayedStream`."""
        self._flush()
        return 0 if self._spdy.unsent else self._below.room

    def receive(self, now: float) -> bytes:
        """See `RelayedStream`."""
        if self._is_over:
            return b""
        data, self._first = self._first or self._below.receive(now), b""
        taken = bytearray()
        try:
            for event in self._spdy.receive(data):
                taken += self._understood(event)
        except SpdyError as error:
            self._end(f"the node's answer is not SPDY: {error}")
        if self._below.is_over:
            self._end(self._below.failure or "the node has ended the connection")
        self._flush()
        return bytes(taken)

    def send(self, data: bytes) -> None:
        """See `RelayedStream`."""
        self._spdy.send(self._data, data)
        self._flush()

    def _understood(self, event: SpdyEvent) -> bytes:
        match event:
            case StreamData(self._data, data):
                return data
            case StreamData(self._error, data):
                self._problem += data[: _LONGEST_PROBLEM - len(self._problem)]
            case StreamEnd(self._data, reset):
                self._end("the pod has reset the connection" if reset else "")
            case ConnectionEnd():
                self._end("the node has ended the connection")
        return b""

    def _end(self, why: str) -> None:
        if not self._is_over:
            self._is_over = True
            self.failure = self._problem.decode(errors="replace").strip() or why

    def _flush(self) -> None:
        """Send as much as the node takes. Raise OSError when its tunnel is about to end."""
        unsent = self._spdy.unsent
        while unsent and (room := self._below.room):
            piece = bytes(unsent[:room])
            del unsent[:room]
            self._below.send(piece)


class TlsConnection(_Layer):
    """TLS over a connection, whose certificate is not verified: pods have none that an authority knows.

    Args:
        connection: the bytes below.
    """

    def __init__(self, connection: RelayedStream) -> None:
        super().__init__(connection)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self._is_shaken = False
        self._unsent = bytearray()
        self._receive()

    @property
    def room(self) -> int:
        """See `RelayedStream`; the handshake comes first."""
        self._pass_on()
        return self._below.room if self._is_shaken and not self._unsent else 0

    def receive(self, now: float) -> bytes:
        """See `RelayedStream`."""
        if self._is_over:
            return b""
        self._incoming.write(self._below.receive(now))
        if self._below.is_over:
            self._incoming.write_eof()
        return self._receive()

    def send(self, data: bytes) -> None:
        """See `RelayedStream`."""
        self._tls.write(data)
        self._pass_on()

    def _receive(self) -> bytes:
        """Shake hands, or return the bytes that can be read."""
        taken = bytearray()
        try:
            if not self._is_shaken:
                self._tls.do_handshake()
                self._is_shaken = True
            while data := self._tls.read(_READ_BYTES):
                taken += data
            self._is_over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._is_over = True
            self.failure = self._below.failure or f"TLS of the pod has failed: {error.reason or error}"
        self._pass_on()
        return bytes(taken)

    def _pass_on(self) -> None:
        """Send as much as can be sent. Raise OSError when the tunnel is about to end."""
        self._unsent += self._outgoing.read()
        if self._unsent and self._below.room:
            self._below.send(bytes(self._unsent))
            self._unsent.clear()


def pod_connection(stream: RelayedStream, first: bytes, port: PodPort) -> RelayedStream:
    """Return the connection to a port over a stream of port forwarding, with TLS if the port has it."""
    connection = PodConnection(stream, first, port.port)
    return TlsConnection(connection) if port.has_tls else connection
