"""edgestream on the bus, between a cloud end and a server of the node, both on real sockets and driven by the test."""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from beehive import Clock, Hive, Message, ModuleName, Operation, Threads
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_unix
from beehive.http.request import Request
from beehive.http.responses import Reply, Response, Stream, Takeover
from beehive.http.router import HttpRoute, Router
from beehive.names import REGISTRATION_RESOURCE
from edgehub import websocket
from edgehub.framing import Opcode
from edgehub.settings import EdgeHubSettings
from edgehub.websocket import WebsocketLink
from modules.edge.edgestream import module
from modules.edge.edgestream.counters import StreamCounters
from modules.edge.edgestream.module import MOST_STREAMS, EdgeStream
from modules.processes.edgecore.edge_stream import node_dialler
from modules.streams.frames import MAX_FRAME, Frame, FrameType, decode
from tests.edgehub.clouds import ScriptedCloud, ScriptedConnection
from tests.support.patience import PATIENCE

LOGS = "/containerLogs/default/p1/app"
EXEC = "/exec/default/p1/app"
UPGRADE = {"Connection": ["Upgrade"], "Upgrade": ["SPDY/3.1"]}


def connect_frame(
    number: int, kind: FrameType = FrameType.LOGS, path: str = LOGS, query: str = "", **other: Any
) -> Frame:
    """The frame that opens a stream."""
    if kind in (FrameType.EXEC, FrameType.ATTACH):
        other = {"method": "POST", "header": UPGRADE} | other
    url = {"Scheme": "http", "Host": "127.0.0.1:10350", "Path": path, "RawQuery": query}
    return Frame(number, kind, json.dumps({"MessID": number, "url": url, **other}).encode())


def registered(clock: Clock) -> Message:
    """edged's event that the cloud has the Node object."""
    return Message.new(
        clock, source=ModuleName.EDGED, resource=REGISTRATION_RESOURCE, operation=Operation.CONNECTED, content=None
    )


class CloudEnd:
    """The cloud's end of one tunnel."""

    def __init__(self, connection: ScriptedConnection) -> None:
        self.connection = connection
        self.answers_pings = True
        self.unanswered = b""
        """The payload of the newest ping that was not answered."""
        self.frames: list[Frame] = []

    def send(self, *frames: Frame) -> None:
        """Frames to the node."""
        for frame in frames:
            self.connection.send(Opcode.TEXT, frame.encode())

    def next(self) -> Frame:
        """The next frame of the node; pings before it are answered."""
        while True:
            opcode, payload = self.connection.frame()
            if opcode is Opcode.TEXT:
                self.frames.append(decode(payload))
                return self.frames[-1]
            if opcode is Opcode.PING and self.answers_pings:
                self.connection.send(Opcode.PONG, payload)
            elif opcode is Opcode.PING:
                self.unanswered = payload

    def until(self, number: int, enough: Callable[[bytes], bool]) -> bytes:
        """The data of one stream until there is enough of it; what others are granted meanwhile is passed over."""
        data = b""
        while not enough(data):
            frame = self.next()
            assert frame.kind in (FrameType.DATA, FrameType.CREDIT), frame
            data += frame.data if (frame.connection, frame.kind) == (number, FrameType.DATA) else b""
        return data

    def whole(self, number: int) -> tuple[bytes, str]:
        """The data of one stream up to its end, and the reason of the end."""
        data = b""
        while True:
            frame = self.next()
            if frame.connection == number and frame.kind == FrameType.REMOVE:
                return data, frame.data.decode()
            if frame.connection == number:
                data += frame.data


METRICS = ("/metrics/resource", "/pods", "/runningpods")
"""Paths of the node's server with one text."""
_TEXT = b"node_cpu 1\r\nnode_memory 2\n"


class NodeServer:
    """The node's own server: logs, metrics, and upgraded connections that the test gets."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: queue.Queue[Request] = queue.Queue()
        self.upgraded: queue.Queue[tuple[socket.socket, queue.Queue[None]]] = queue.Queue()
        self.log: queue.Queue[bytes | BaseException | None] = queue.Queue()
        """Pieces of logs; None ends one, an error breaks it off."""
        self.answer: Response | None = None
        routes = [
            HttpRoute("/containerLogs/{namespace}/{pod}/{container}", self._logs),
            *(HttpRoute(each, lambda _: Response(200, "text/plain", _TEXT)) for each in METRICS),
            HttpRoute("/exec/{namespace}/{pod}/{container}", self._exec, ("GET", "POST")),
            HttpRoute("/attach/{namespace}/{pod}/{container}", self._exec, ("GET", "POST")),
        ]
        most = 2 * MOST_STREAMS
        self._server = HttpServer(
            listen_unix(path), Router(routes), Threads().clock, max_connections=most, max_streams=most
        )
        self._server.start()

    def stop(self) -> None:
        """Stop it."""
        for _ in range(2 * MOST_STREAMS):
            self.log.put(None)
        self._server.stop()

    @contextmanager
    def stream(self) -> Iterator[socket.socket]:
        """The next upgraded connection, as the container's side has it."""
        connection, done = self.upgraded.get(timeout=PATIENCE)
        connection.settimeout(PATIENCE)
        try:
            yield connection
        finally:
            done.put(None)

    def _logs(self, request: Request) -> Reply:
        self.requests.put(request)
        return self.answer or Stream("text/plain", lambda _: self._pieces(), lambda: None)

    def _pieces(self) -> Generator[bytes, None, None]:
        while (piece := self.log.get(timeout=PATIENCE)) is not None:
            if isinstance(piece, BaseException):
                raise piece
            yield piece

    def _exec(self, request: Request) -> Reply:
        self.requests.put(request)

        def carry_on(connection: socket.socket) -> None:
            done: queue.Queue[None] = queue.Queue()
            self.upgraded.put((connection, done))
            done.get(timeout=2 * PATIENCE)

        return Takeover(carry_on, lambda: None)


class Bed:
    """A hive with edgestream, which dials again soon and waits little for a cloud that says nothing in the end; the
    cloud's end and the node's server.
    """

    def __init__(self, directory: Path, *, read_deadline: float = PATIENCE) -> None:
        self.counters = StreamCounters()
        self.cloud = ScriptedCloud()
        self.node = NodeServer(directory / "n.sock")
        self._directory = directory
        self._read_deadline = read_deadline
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Bed:
        url = f"ws://127.0.0.1:{self.cloud.port}/v1/kubeedge/connect"
        settings = EdgeHubSettings(
            url=url, node="n1", max_frame_bytes=MAX_FRAME, read_deadline=self._read_deadline, write_deadline=PATIENCE
        )
        self._patch.setattr(module, "BASE", 0.05)
        self._patch.setattr(websocket, "LINGER", 0.1)
        self.hive = Hive(Threads())
        self.hive.add(
            EdgeStream,
            lambda: WebsocketLink(settings, self.hive.clock, headers={"SessionHostNameOverride": "n1"}),
            node_dialler(self.node.path),
            self.counters,
        )
        self.hive.start()
        self.hive.send(ModuleName.EDGESTREAM, registered(self.hive.clock))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cloud.__exit__(kind, error, traceback)  # first: a link lingers for a peer that says nothing
        self.hive.stop(PATIENCE)
        self.hive.clock.close()
        self.node.stop()
        self._patch.undo()

    def accept(self) -> CloudEnd:
        """The next tunnel."""
        return CloudEnd(self.cloud.accept())
