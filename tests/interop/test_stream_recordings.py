"""The recorded edge's end of the stream tunnel (s1 to s9 of the captures), with our cloud in the place of KubeEdge's.

Ours differs where KubeEdge's is wrong (v1.23, `cloud/pkg/cloudstream`): it says once that a client has gone, where
KubeEdge repeats that until the edge answers (kubeedge/kubeedge#3232), and a stream that the tunnel's end cuts fails,
where KubeEdge's `logs --follow` ends as if the container had ended. Frames for streams that the edge has
ended are not sent.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from beehive.simulation import Simulation
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.websocket.connection import WebsocketLink
from modules.streams.connect import decode as request_in
from modules.streams.frames import CONNECTS, Frame, FrameType, decode
from tests.interop.traces import KUBEEDGE, lines_of

NODE = "cap-edge"
_NAMES = "s1-logs", "s2-logs-follow-cut", "s3-exec-v5", "s5-exec-tty", "s7-attach", "s8-exec-cut", "s9-tunnel-cut"
FILES = tuple(KUBEEDGE / f"{name}.jsonl" for name in _NAMES)
CUT = "tunnel cut now"


def steps(path: Path) -> Iterator[tuple[str, Frame]]:
    """The frames of the tunnel, each with its direction; a cut as a frame of the tunnel itself."""
    for line in lines_of(path):
        if line["kind"] == "mark" and line["text"] == CUT:
            yield "cut", Frame(0, FrameType.CLOSE)
        elif line.get("listener") == "tunnel" and line["kind"] == "ws" and line["opcode"] == 1:
            yield line["dir"], decode(bytes.fromhex(line["hex"]))


class Cloud:
    """Our cloud, which does for its clients what the recorded one did for its own."""

    def __init__(self) -> None:
        self.tunnels = Tunnels(Simulation(0).clock)
        self.streams: dict[int, TunnelStream] = {}
        """By the number in the recording."""
        self.numbers: dict[int, int] = {}
        """Ours, by the recording's."""
        self.link = self.connect()

    def connect(self) -> WebsocketLink:
        """The edge's tunnel."""
        link = WebsocketLink(lambda _: None)
        self.tunnels.add(NODE, "127.0.0.1", link)
        return link

    def play(self, direction: str, frame: Frame) -> None:
        """One step of the recording."""
        if direction == "cut":
            self.tunnels.remove(NODE, self.link)
            self.link = self.connect()
        elif direction == "edge->cloud":
            self.link.passed_frames += 1
            ours = frame._replace(connection=self.numbers[frame.connection])
            self.tunnels.receive(NODE, self.link, ours.encode())
        elif frame.kind in CONNECTS:
            stream = self.tunnels.open(NODE, FrameType(frame.kind), request_in(frame.data))
            self.streams[frame.connection], self.numbers[frame.connection] = stream, stream.number
        elif frame.kind == FrameType.DATA:
            self.streams[frame.connection].send(frame.data)
        elif frame.kind == FrameType.REMOVE:
            self.streams[frame.connection].close()

    def sent(self) -> list[Frame]:
        return [decode(self.link.pop()) for _ in range(len(self.link.waiting))]


def said(frames: list[Frame], number: int) -> bytes:
    """The data of a stream."""
    return b"".join(each.data for each in frames if each.connection == number and each.kind == FrameType.DATA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_recorded_edge_is_served(path: Path) -> None:
    """Requests mean the same, all bytes arrive in both directions, and each stream ends once."""
    cloud = Cloud()
    sent: list[Frame] = []
    read: dict[int, bytes] = {}
    played = list(steps(path))
    assert played
    for direction, frame in played:
        if direction == "cut":
            sent += cloud.sent()
        is_end = direction == "cloud->edge" and frame.kind == FrameType.REMOVE
        if is_end and frame.connection in cloud.streams:
            read.setdefault(frame.connection, cloud.streams[frame.connection].receive(0.0))
        cloud.play(direction, frame)
    sent += cloud.sent()
    for number, stream in cloud.streams.items():
        ours = cloud.numbers[number]
        opened = next(each for each in sent if each.connection == ours and each.kind in CONNECTS)
        recorded = next(frame for _, frame in played if frame.connection == number and frame.kind in CONNECTS)
        assert opened.kind == recorded.kind
        assert request_in(opened.data) == request_in(recorded.data)._replace(connection=ours)
        assert said(sent, ours) == said(down(played, number), number)
        assert read.get(number, b"") or read_all(stream) == said(up(played), number)
        assert sum(each == Frame(ours, FrameType.REMOVE) for each in sent) <= 1
        stream.close()
    assert cloud.tunnels.streams() == 0


def down(played: list[tuple[str, Frame]], number: int) -> list[Frame]:
    """What the cloud said until the edge ended a stream: KubeEdge's goes on afterwards."""
    end = ("edge->cloud", Frame(number, FrameType.REMOVE))
    counted = played[: played.index(end)] if end in played else played
    return [frame for direction, frame in counted if direction == "cloud->edge"]


def up(played: list[tuple[str, Frame]]) -> list[Frame]:
    return [frame for direction, frame in played if direction == "edge->cloud"]


def read_all(stream: TunnelStream) -> bytes:
    found = bytearray()
    while data := stream.receive(0.0):
        found += data
    return bytes(found)


def test_the_recorded_cut_fails_the_stream_that_it_cuts_and_no_other() -> None:
    """KubeEdge's client had a clean end of a log that was not at its end."""
    cloud = Cloud()
    for direction, frame in steps(KUBEEDGE / "s9-tunnel-cut.jsonl"):
        cloud.play(direction, frame)
    before, after = cloud.streams.values()
    assert before.failure
    assert read_all(before) == b"line 708\nline 709\nline 710\n"
    assert (after.is_over, after.failure) == (False, "")
    assert read_all(after) == b"line 714\nline 715\n"
    assert after.is_over
    for stream in (before, after):
        stream.close()
