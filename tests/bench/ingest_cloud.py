"""The cloud of `tests.bench.ingest` in a separate process, so that its work does not count as the node's.

It serves one node on a websocket over a plain socket. A line on its standard input gives the number and size of the
configmaps, and whether to send them one by one; it prints the seconds from the first byte to the last acknowledgement.
"""

import base64
import hashlib
import json
import socket
import struct
import sys
import threading
import time
from itertools import count

_NAMES = 100
WINDOW = 512
"""Messages that may be unacknowledged: a cloud that sends more than the node's inbox holds must send the dropped
messages
again."""

_MASK = 4
_PING = 9
_TOGETHER = 16
"""Frames in one write to the socket."""
_numbers = count(1)


def frames(number: int, size: int) -> list[bytes]:
    """Yield newer versions of a hundred configmaps, as a cloudcore sends them; `size` is about the object's bytes."""
    return [_frame(_message(serial, size)) for serial in (next(_numbers) for _ in range(number))]


def _message(serial: int, size: int) -> bytes:
    name = f"c{serial % _NAMES}"
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(serial)}
    content = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"key": "x" * max(1, size - 160)}}
    header = {"msg_id": f"{serial:032x}", "timestamp": 1, "resourceversion": str(serial)}
    route = {
        "source": "edgecontroller",
        "group": "resource",
        "operation": "update",
        "resource": f"default/configmap/{name}",
    }
    return json.dumps({"header": header, "route": route, "content": content}, separators=(",", ":")).encode()


def _frame(payload: bytes) -> bytes:
    length = len(payload)
    if length < 126:
        return bytes((0x81, length)) + payload
    if length < 1 << 16:
        return struct.pack("!BBH", 0x81, 126, length) + payload
    return struct.pack("!BBQ", 0x81, 127, length) + payload


class Peer:
    """The connection to the node."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = connection
        self._buffer = bytearray()
        self._lock = threading.Lock()
        self._window = threading.Semaphore(WINDOW)
        head = connection.recv(65536)
        lines = (line.partition(b": ") for line in head.split(b"\r\n"))
        key = next(value for name, _, value in lines if name.lower() == b"sec-websocket-key")
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())  # noqa: S324
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )

    def send(self, made: list[bytes]) -> None:
        """Send frames, some in one write, so that an answer to a ping can be sent between them."""
        for start in range(0, len(made), _TOGETHER):
            for _ in made[start : start + _TOGETHER]:
                self._window.acquire()
            with self._lock:
                self._connection.sendall(b"".join(made[start : start + _TOGETHER]))

    def acknowledged(self, number: int) -> None:
        """Wait for so many acknowledgements; other frames do not count."""
        while number:
            kind, payload = self._payload()
            if kind == _PING:
                with self._lock:
                    self._connection.sendall(bytes((0x8A, len(payload))) + payload)
            if b'"operation":"response"' in payload:
                number -= 1
                self._window.release()

    def _payload(self) -> tuple[int, bytes]:
        head = self._take(2)
        length = head[1] & 0x7F
        if length >= 126:
            length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
        mask = self._take(_MASK)
        payload = self._take(length)
        repeated = (mask * (length // _MASK + 1))[:length]
        plain = (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(length, "big")
        return head[0] & 0x0F, plain

    def _take(self, number: int) -> bytes:
        while len(self._buffer) < number:
            data = self._connection.recv(1 << 16)
            if not data:
                raise EOFError("the node has hung up")
            self._buffer += data
        taken = bytes(self._buffer[:number])
        del self._buffer[:number]
        return taken


def main() -> None:
    """Serve until the standard input ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - the protocol
    peer = Peer(listener.accept()[0])
    for line in sys.stdin:
        number, size, single = (int(word) for word in line.split())
        made = frames(number, size)
        begin = time.perf_counter()
        if single:
            for frame in made:
                peer.send([frame])
                peer.acknowledged(1)
        else:
            sender = threading.Thread(target=peer.send, args=(made,))
            sender.start()
            peer.acknowledged(number)
            sender.join()
        print(time.perf_counter() - begin, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
