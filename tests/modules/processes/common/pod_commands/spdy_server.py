"""The other side of SPDY: a streaming server as a container runtime has one, for commands and ports of this machine."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import parse_qs, urlsplit

FIN: Final = 0x01
SUCCESS: Final = b'{"status":"Success"}'


class Frame(NamedTuple):
    """A frame: a stream's data (kind 0), or a control frame."""

    kind: int
    stream: int
    flags: int
    content: bytes
    headers: dict[str, str]


class SpdyPeer:
    """Reads and writes frames on a socket, as moby/spdystream does."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._inflater = zlib.decompressobj()
        self.streams: dict[str, int] = {}
        """Ids of the client's streams, by type."""

    def read(self) -> Frame | None:
        """The next frame; None at the end."""
        head = self._exactly(8)
        if len(head) < 8:
            return None
        first, second = struct.unpack(">II", head)
        flags, content = second >> 24, self._exactly(second & 0xFFFFFF)
        if not first >> 31:
            return Frame(0, first, flags, content, {})
        stream = int.from_bytes(content[:4])
        headers = self._headers(content[10:]) if first & 0xFFFF == 1 else {}
        if headers:
            self.streams[headers["streamtype"]] = stream
        return Frame(first & 0xFFFF, stream, flags, content, headers)

    def reply(self, stream: int) -> None:
        """Accepts a stream; the headers are nothing that a client understands."""
        self.control(2, struct.pack(">I", stream) + b"\x00\xff\x00")

    def data(self, kind: str, data: bytes, *, last: bool = False) -> None:
        """Bytes on a stream."""
        self.write(struct.pack(">II", self.streams[kind], (FIN if last else 0) << 24 | len(data)) + data)

    def control(self, kind: int, content: bytes) -> None:
        """A control frame."""
        self.write(struct.pack(">HHI", 0x8003, kind, len(content)) + content)

    def write(self, data: bytes) -> None:
        """Bytes as they are."""
        self._connection.sendall(data)

    def _headers(self, block: bytes) -> dict[str, str]:
        text, found, place = self._inflater.decompress(block), {}, 4
        for _ in range(int.from_bytes(text[:4])):
            name, place = _counted(text, place)
            value, place = _counted(text, place)
            found[name] = value
        assert place == len(text)
        return found

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count and (piece := self._connection.recv(count - len(found))):
            found += piece
        return found


def _counted(text: bytes, place: int) -> tuple[str, int]:
    end = place + 4 + int.from_bytes(text[place : place + 4])
    return text[place + 4 : end].decode(), end


def accept_streams(peer: SpdyPeer, count: int) -> list[Frame]:
    """The client's first streams, accepted."""
    frames = []
    while len(peer.streams) < count:
        frame = peer.read()
        assert frame is not None and frame.kind == 1
        peer.reply(frame.stream)
        frames.append(frame)
    return frames


class CommandServer:
    """Serves one connection of exec on a socket: runs the command on this machine."""

    def __init__(self, connection: socket.socket, target: str) -> None:
        self._peer = SpdyPeer(connection)
        query = parse_qs(urlsplit(target).query)
        self._words = query["command"]
        self._has_input = "input" in query

    def serve(self) -> None:
        """Until the command has ended."""
        accept_streams(self._peer, 4 if self._has_input else 3)
        try:
            process = subprocess.Popen(
                self._words, stdin=subprocess.PIPE if self._has_input else subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except (FileNotFoundError, PermissionError):  # the latter if a directory of PATH may not be searched
            return self._end(b'{"status":"Failure","message":"exec: \\"tar\\": executable file not found in $PATH"}')
        feeder = threading.Thread(target=self._feed, args=(process,), daemon=True)
        feeder.start()
        outputs = [
            threading.Thread(target=self._pass_on, args=(process.stdout, "stdout")),
            threading.Thread(target=self._pass_on, args=(process.stderr, "stderr")),
        ]
        for each in outputs:
            each.start()
        for each in outputs:
            each.join()
        code = process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        causes = f'{{"causes":[{{"reason":"ExitCode","message":"{code}"}}]}}'
        failure = f'{{"status":"Failure","reason":"NonZeroExitCode","details":{causes}}}'.encode()
        return self._end(failure if code else SUCCESS)

    def _end(self, status: bytes) -> None:
        for kind in ("stdout", "stderr"):
            self._peer.data(kind, b"", last=True)
        self._peer.data("error", status, last=True)

    def _feed(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None or not self._has_input
        try:
            while (frame := self._peer.read()) is not None:
                if process.stdin is not None and frame.kind == 0:
                    process.stdin.write(frame.content)
                    process.stdin.flush()
                    if frame.flags & FIN:
                        process.stdin.close()
                        return
        except (OSError, ValueError):  # the command has ended
            return
        process.kill()

    def _pass_on(self, stream: object, kind: str) -> None:
        while data := stream.read1(8192):  # type: ignore[attr-defined]
            self._peer.data(kind, data)


Behaviour = Callable[[socket.socket, str], None]


def run_commands(connection: socket.socket, target: str) -> None:
    """A behaviour: commands run on this machine."""
    CommandServer(connection, target).serve()


class SpdySocket:
    """A unix socket that upgrades every connection to SPDY. A context manager."""

    def __init__(self, path: Path, behaviour: Behaviour, refusal: bytes = b"") -> None:
        self.targets: list[str] = []
        self.path = path
        self._behaviour = behaviour
        self._refusal = refusal
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> SpdySocket:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1)
            target = head.split()[1].decode()
            self.targets.append(target)
            if self._refusal:
                connection.sendall(self._refusal)
                return
            connection.sendall(b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
            self._behaviour(connection, target)
