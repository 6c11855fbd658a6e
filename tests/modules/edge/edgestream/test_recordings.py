"""edgestream in the place of KubeEdge's edge: the recorded cloud asks, the recorded container answers.

Ours may divide the bytes of a stream into other frames, and ends each stream with one `remove`, like KubeEdge's.
"""

import queue
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from modules.streams import connect
from modules.streams.frames import CONNECTS, Frame, FrameType, decode
from tests.interop.traces import KUBEEDGE, lines_of
from tests.modules.edge.edgestream.beds import Bed
from tests.support.patience import PATIENCE

FILES = ("s1-logs", "s2-logs-follow-cut", "s3-exec-v5", "s5-exec-tty", "s7-attach", "s8-exec-cut", "s9-tunnel-cut")


class Line(NamedTuple):
    """A frame of a recording."""

    from_cloud: bool
    frame: Frame


def recorded(name: str) -> Iterator[Line | None]:
    """The frames of a file, without pings; None where the node dialled again."""
    for line in lines_of(KUBEEDGE / f"{name}.jsonl"):
        if line.get("listener") == "tunnel" and line["kind"] == "ws" and line["opcode"] == 1:
            yield Line(line["dir"] == "cloud->edge", decode(bytes.fromhex(line["hex"])))
        elif line.get("listener") == "tunnel" and line["kind"] == "http-request":
            yield None


class Replay:
    """The recorded frames in order, each side waiting for what the other has to say."""

    def __init__(self, bed: Bed) -> None:
        self._bed = bed
        self._cloud = bed.accept()
        self._containers: dict[int, tuple[socket.socket, queue.Queue[None]]] = {}
        self._logs: set[int] = set()
        self.ended: list[int] = []
        """Streams that ended, in order."""

    def play(self, line: Line) -> None:
        """One recorded frame."""
        frame = line.frame
        if line.from_cloud:
            self._cloud.send(frame)
        if frame.connection in self.ended:
            return  # KubeEdge's cloud goes on to say `remove`
        if frame.kind in CONNECTS:
            self._asked(frame)
        elif frame.kind == FrameType.REMOVE:
            self._removed(frame.connection, by_node=not line.from_cloud)
        elif line.from_cloud:
            assert self._received(frame.connection, len(frame.data)) == frame.data
        else:
            self._said(frame)

    def _asked(self, frame: Frame) -> None:
        request = self._bed.node.requests.get(timeout=PATIENCE)
        wanted = connect.decode(frame.data)
        assert (request.target, request.method) == (wanted.target, wanted.method)
        if frame.kind == FrameType.LOGS:
            self._logs.add(frame.connection)
        else:
            passed = {name.lower(): value for name, value in wanted.headers}
            assert passed["upgrade"] == request.header("upgrade") != ""
            container, done = self._bed.node.upgraded.get(timeout=PATIENCE)
            container.settimeout(PATIENCE)
            self._containers[frame.connection] = container, done

    def _said(self, frame: Frame) -> None:
        if frame.connection in self._logs:
            self._bed.node.log.put(frame.data)
        else:
            self._containers[frame.connection][0].sendall(frame.data)
        wanted = len(frame.data)
        assert self._cloud.until(frame.connection, lambda data: len(data) >= wanted) == frame.data

    def _received(self, number: int, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += self._containers[number][0].recv(size - len(data))
        return data

    def _removed(self, number: int, *, by_node: bool) -> None:
        if number in self._containers:
            container, done = self._containers.pop(number)
            if not by_node:
                assert container.recv(1) == b""
            done.put(None)
        else:
            self._logs.discard(number)
            self._bed.node.log.put(None)
        assert self._cloud.next() == Frame(number, FrameType.REMOVE)
        self.ended.append(number)

    def cut(self) -> None:
        """The tunnel breaks, and the node dials again."""
        self._cloud.connection.reset()
        self._bed.node.log.put(None)
        self._cloud = self._bed.accept()


@pytest.mark.parametrize("name", FILES)
def test_the_recorded_cloud_gets_the_same_messages(tmp_path: Path, name: str) -> None:
    """The same requests reach the node's server, and the same bytes the cloud; each stream ends once, as it did."""
    lines = list(recorded(name))
    with Bed(tmp_path) as bed:
        replay = Replay(bed)
        for line in lines:
            if line is None:
                replay.cut()
            else:
                replay.play(line)
    first_ends = dict.fromkeys(
        line.frame.connection for line in lines if line is not None and line.frame.kind == FrameType.REMOVE
    )
    assert replay.ended == list(first_ends)
    assert bed.counters.refused == 0
