"""Clouds on real sockets: a well-behaved one, by the `websockets` package, and a scripted one."""

import base64
import contextlib
import hashlib
import queue
import socket
import ssl
import struct
import threading
from types import TracebackType
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

from edgehub.framing import Opcode
from tests.edgehub.frames import next_frame
from tests.support.patience import PATIENCE


class LibraryCloud:
    """A server of the `websockets` package; answers pings by itself.

    Args:
        context: for TLS.
        listening: where it listens; a free port of this machine if not given.
    """

    def __init__(self, context: ssl.SSLContext | None = None, listening: socket.socket | None = None) -> None:
        self.connections: queue.Queue[ServerConnection] = queue.Queue()
        self.frames: queue.Queue[str | bytes] = queue.Queue()
        listening = listening or socket.create_server(("127.0.0.1", 0))
        self._server: Server = serve(
            self._serve,
            sock=listening,
            max_size=None,
            compression="deflate",
            ssl=context,
            close_timeout=0.5,
            open_timeout=PATIENCE,
        )
        self._thread = threading.Thread(target=self._server.serve_forever, name="cloud")
        self._thread.start()
        self.current: ServerConnection | None = None

    @property
    def port(self) -> int:
        """Where it listens."""
        port: int = self._server.socket.getsockname()[1]
        return port

    def __enter__(self) -> "LibraryCloud":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()

    def accept(self) -> ServerConnection:
        """The next connection."""
        self.current = self.connections.get(timeout=PATIENCE)
        return self.current

    def frame(self) -> str | bytes:
        """The next message."""
        return self.frames.get(timeout=PATIENCE)

    def _serve(self, connection: ServerConnection) -> None:
        self.connections.put(connection)
        with contextlib.suppress(ConnectionClosed):
            for frame in connection:
                self.frames.put(frame)


class ScriptedConnection:
    """One connection, driven by the test byte by byte. It answers no ping unless told."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._data = b""
        connection.settimeout(PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> "ScriptedConnection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def read_request(self) -> bytes:
        """The head of the request for an upgrade."""
        while b"\r\n\r\n" not in self._data:
            self._data += self._more()
        head, _, self._data = self._data.partition(b"\r\n\r\n")
        return head

    def accept(self) -> bytes:
        """Agree to the upgrade; returns the request."""
        head = self.read_request()
        key = next(line.split(b": ", 1)[1] for line in head.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Key: "))
        digest = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()  # noqa: S324
        self.socket.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(digest) + b"\r\n\r\n"
        )
        return head

    def frame(self) -> tuple[Opcode, bytes]:
        """The next frame of the client."""
        while True:
            try:
                opcode, payload, self._data = next_frame(self._data)
            except IndexError:
                self._data += self._more()
                continue
            return opcode, payload

    def text(self) -> bytes:
        """The next message; pings before it are answered."""
        while True:
            opcode, payload = self.frame()
            if opcode is Opcode.TEXT:
                return payload
            if opcode is Opcode.PING:
                self.send(Opcode.PONG, payload)

    def send(self, opcode: Opcode, payload: bytes, *, final: bool = True) -> None:
        """One frame of a server."""
        first, size = opcode | (0x80 if final else 0), len(payload)
        if size < 126:
            head = struct.pack("!BB", first, size)
        elif size < 65536:
            head = struct.pack("!BBH", first, 126, size)
        else:
            head = struct.pack("!BBQ", first, 127, size)
        self.socket.sendall(head + payload)

    def send_as_gorilla(self, payload: bytes) -> None:
        """A message in fragments of 4096 bytes, as Go's library writes it."""
        parts = [payload[start : start + 4096] for start in range(0, len(payload), 4096)]
        for index, part in enumerate(parts):
            opcode = Opcode.TEXT if index == 0 else Opcode.CONTINUATION
            self.send(opcode, part, final=index == len(parts) - 1)

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self) -> None:
        """End the connection, as Go's `Close()` does: without a close frame."""
        self.socket.close()

    def ended(self) -> bool:
        """Wait for the client to end the connection; pongs and what else comes is thrown away."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def _more(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("the client ended the connection")
        return data


class ScriptedCloud:
    """A listening socket.

    Args:
        receive_buffer: size of the sockets' receive buffers, to make writers meet a full one.
        port: where it listens; 0 for any.
    """

    def __init__(self, receive_buffer: int | None = None, port: int = 0) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer is not None:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen()
        self._listener.settimeout(PATIENCE)
        self.port: int = self._listener.getsockname()[1]
        self._open: list[Any] = [self._listener]

    def __enter__(self) -> "ScriptedCloud":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for one in self._open:
            one.close()

    def connection(self) -> ScriptedConnection:
        """The next connection, not upgraded yet."""
        connection, _ = self._listener.accept()
        scripted = ScriptedConnection(connection)
        self._open.append(scripted)
        return scripted

    def accept(self) -> ScriptedConnection:
        """The next connection, upgraded."""
        connection = self.connection()
        connection.accept()
        return connection
