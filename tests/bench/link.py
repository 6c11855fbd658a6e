"""Speed of edgehub from the socket to a module and back, beside its floor: the threading client of the package
`websockets` with equal traffic, in the same run.

The floor does less: it receives and sends frames without decoding them. Every measurement is a median of several
rounds; the rounds of the contenders are interleaved. `python -m tests.bench.link` prints them.
"""

import base64
import contextlib
import gc
import hashlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import NamedTuple

import msgspec
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.sync.client import connect
from websockets.sync.server import Server, ServerConnection, serve

from beehive import Group, Hive, Message, Module, ModuleName, Threads, encode, handles
from beehive.decoding import json_decoder
from beehive.message import Header, Route
from edgehub import EdgeHubSettings, install

FRAMES = 1_000
"""Frames of one round to the node: 1.7 MB, less than may be in flight (`edgehub.in_flight.MOST_BYTES`)."""

REQUESTS = 2_000
"""Requests of one round."""

_BODY = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "nginx"}, "pad": "x" * 1500}
_ANSWER = Route(source="edgecontroller", group="resource", operation="response", resource="default/configmap/c")
_LONGEST_ROUND = 60.0


class Measurement(NamedTuple):
    """One line of the table."""

    name: str
    per_second: float
    floor: float
    """Rate of the bare websockets client in the same run."""


class _Sink(Module):
    """Replaces metamanager and counts messages."""

    name = ModuleName.METAMANAGER
    group = Group.META

    def __init__(self, expected: int, done: threading.Event) -> None:
        super().__init__()
        self._left = expected
        self._done = done

    @handles("connection")
    def connection(self, _event: Message) -> None:
        """Not counted."""

    @handles()
    def count(self, _message: Message) -> None:
        """One more is there."""
        self._left -= 1
        if not self._left:
            self._done.set()


def pods(number: int) -> bytes:
    """Return pods as frames of a server, each with its own id and about 1.7 kB."""
    parts = []
    for serial in range(number):
        route = Route(source="edgecontroller", group="resource", operation="update", resource="default/pod/nginx")
        header = Header(msg_id=f"{serial:032x}", timestamp=1, resourceversion="1")
        parts.append(Frame(Opcode.TEXT, encode(Message(header, route, _BODY))).serialize(mask=False))
    return b"".join(parts)


class Spout:
    """A server that sends equal bytes to each connection as soon as `go` is set."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.go = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    self._pour(connection)

    def _pour(self, connection: socket.socket) -> None:
        head = connection.recv(65536)
        lines = (line.partition(b": ") for line in head.split(b"\r\n"))
        key = next(value for name, _, value in lines if name.lower() == b"sec-websocket-key")
        accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())  # noqa: S324
        connection.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        self.go.wait(_LONGEST_ROUND)
        connection.sendall(self._data)
        while connection.recv(65536):
            pass


def _settings(port: int) -> EdgeHubSettings:
    return EdgeHubSettings(url=f"ws://127.0.0.1:{port}/p/n/events", node="n", message_qps=0, ping_interval=60,
                           read_deadline=120)  # fmt: skip


@contextlib.contextmanager
def _joined(port: int, expected: int) -> Iterator[tuple[Hive, threading.Event]]:
    done = threading.Event()
    hive = Hive(Threads())
    counters = install(hive, _settings(port))
    hive.add(_Sink, expected, done)
    hive.start()
    try:
        deadline = time.monotonic() + _LONGEST_ROUND
        while not counters.connected and time.monotonic() < deadline:
            done.wait(0.005)
        yield hive, done
    finally:
        hive.stop()
        hive.clock.close()


def ingest(spout: Spout, number: int) -> float:
    """Return the seconds from the first byte on the socket until the module has the last message."""
    with _joined(spout.port, number) as (_, done):
        begin = time.perf_counter()
        spout.go.set()
        if not done.wait(_LONGEST_ROUND):
            raise TimeoutError("not all messages arrived")
        return time.perf_counter() - begin


def ingest_floor(spout: Spout, number: int) -> float:
    """Return the seconds that the bare client takes to receive the bytes."""
    with connect(f"ws://127.0.0.1:{spout.port}/", compression=None, max_size=None, ping_interval=None) as client:
        begin = time.perf_counter()
        spout.go.set()
        for _ in range(number):
            client.recv(decode=False)
        seconds = time.perf_counter() - begin
        client.close_socket()
        return seconds


class _Id(msgspec.Struct):
    header: Header


def _answer(connection: ServerConnection) -> None:
    reader = json_decoder(_Id)
    with contextlib.suppress(ConnectionClosed):
        for frame in connection:
            asked = reader.decode(frame).header.msg_id
            answer = Message(Header(msg_id=asked[::-1], parent_msg_id=asked, timestamp=1), _ANSWER, _BODY)
            connection.send(encode(answer), text=True)


def _request(serial: int) -> Message:
    route = Route(source="edged", group="meta", operation="query", resource="default/configmap/c")
    return Message(Header(msg_id=f"{serial:032x}", timestamp=1), route, None)


def echo(port: int, number: int) -> float:
    """Return the seconds of requests through edgehub, one after another."""
    with _joined(port, 0) as (hive, _):
        begin = time.perf_counter()
        for serial in range(number):
            hive.request(ModuleName.EDGEHUB, _request(serial), 30).get()
        return time.perf_counter() - begin


def echo_floor(port: int, number: int) -> float:
    """Return the seconds of the bare client for these frames and answers."""
    with connect(f"ws://127.0.0.1:{port}/", compression=None, max_size=None, ping_interval=None) as client:
        begin = time.perf_counter()
        for serial in range(number):
            client.send(encode(_request(serial)), text=True)
            client.recv(decode=False)
        return time.perf_counter() - begin


def _medians(ours: Callable[[], float], floor: Callable[[], float], rounds: int) -> tuple[float, float]:
    mine, theirs = [], []
    for _ in range(rounds):
        gc.collect()
        mine.append(ours())
        gc.collect()
        theirs.append(floor())
    return median(mine), median(theirs)


def measure(rounds: int = 5, frames: int = FRAMES, requests: int = REQUESTS) -> list[Measurement]:
    """All measurements."""
    spout = Spout(pods(frames))
    server: Server = serve(_answer, "127.0.0.1", 0, compression=None, max_size=None)
    port: int = server.socket.getsockname()[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()

    def fresh(run: Callable[[Spout, int], float]) -> float:
        spout.go.clear()
        return run(spout, frames)

    try:
        mine, floor = _medians(lambda: fresh(ingest), lambda: fresh(ingest_floor), rounds)
        there, floor_there = _medians(lambda: echo(port, requests), lambda: echo_floor(port, requests), rounds)
    finally:
        server.shutdown()
        thread.join()
        spout.close()
    return [
        Measurement("socket to module, messages of 1.7 kB", frames / mine, frames / floor),
        Measurement("request to the cloud and answer, one by one", requests / there, requests / floor_there),
    ]


def main() -> None:
    """Print the table."""
    out = sys.stdout.write
    out(f"{'edgehub (medians)':<48}{'a second':>12}{'floor':>12}{'of floor':>10}\n")
    for measurement in measure():
        share = measurement.per_second / measurement.floor
        out(f"{measurement.name:<48}{measurement.per_second:>12,.0f}{measurement.floor:>12,.0f}{share:>9.0%}\n")
    out("floor: the websockets package's threading client on the same traffic, without messages and bus\n")


if __name__ == "__main__":
    main()
