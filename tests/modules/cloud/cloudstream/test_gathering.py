"""The same question to many nodes, over real tunnels."""

import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from modules.apimachinery.errors import ApiStatusError
from modules.cloud.cloudstream import opening
from modules.cloud.cloudstream.opening import ANSWER_BYTES, NODE_SECONDS, Gathering, NodeStreams
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.websocket.connection import WebsocketLink
from modules.streams.frames import MAX_DATA, Frame, FrameType, data_frames, decode
from tests.end_to_end.processes import wait_until
from tests.modules.cloud.cloudstream.edges import Edge
from tests.modules.cloud.cloudstream.sites import Site
from tests.support.clocks import StandingClock

TARGET = "/stats/summary?only_cpu_and_memory=true"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = StandingClock()
    site = Site(tmp_path, clock)
    yield site
    site.close()
    clock.close()


class Question:
    """A question to nodes, on a thread of its own."""

    def __init__(self, site: Site, *nodes: str) -> None:
        self.answers: dict[str, bytes] = {}
        self.late: list[str] = []
        streams = NodeStreams(site.tunnels, site.clock)
        self._thread = threading.Thread(
            target=lambda: self.late.extend(streams.gather(nodes, TARGET, self.answers.__setitem__))
        )
        self._thread.start()

    def done(self) -> None:
        """Waits for its end."""
        self._thread.join(60)
        assert not self._thread.is_alive()


def opened(edge: Edge) -> int:
    """The number of the stream to a node."""
    frame, request = edge.opened()
    assert (frame.kind, request.target, request.headers) == (FrameType.METRICS, TARGET, ())
    return frame.connection


def test_answers_are_gathered_as_they_come(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In parts, of several nodes, one without a tunnel; at most two are asked in parallel."""
    monkeypatch.setattr(opening, "AT_ONCE", 2)
    with site.edge("n1") as one, site.edge("n2") as two, site.edge("n3") as three:
        question = Question(site, "n1", "away", "n2", "n3")
        first, second = opened(one), opened(two)
        one.send(first, b"of ")
        two.send(second, b"of n2")
        two.end(second)
        third = opened(three)
        three.end(third, b"the server has no statistics: status 503")
        one.send(first, b"n1")
        one.end(first)
        question.done()
    assert (question.answers, question.late) == ({"n1": b"of n1", "n2": b"of n2"}, [])


def test_a_node_that_answers_too_much_or_too_late_is_given_up(site: Site) -> None:
    """Its stream ends, the others go on, and its name is returned."""
    with site.edge("n1") as slow, site.edge("n2") as loud, site.edge("n3") as good:
        question = Question(site, "n1", "n2", "n3")
        numbers = [opened(edge) for edge in (slow, loud, good)]
        for _ in range(ANSWER_BYTES // MAX_DATA + 1):
            loud.send(numbers[1], bytes(MAX_DATA))
        assert loud.receive().kind == FrameType.REMOVE
        good.send(numbers[2], b"{}")
        good.end(numbers[2])
        wait_until(lambda: "n3" in question.answers, "the good node is heard")
        site.clock.go(NODE_SECONDS + 1)
        slow.send(numbers[0], b"at last")
        question.done()
        assert slow.receive().kind == FrameType.REMOVE
    assert (question.answers, sorted(question.late)) == ({"n3": b"{}"}, ["n1", "n2"])


def test_a_node_that_says_nothing_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For as long as one node may take, and the thread sleeps meanwhile."""
    clock, waits = StandingClock(), list[int]()
    tunnels = Tunnels(clock)
    tunnels.add("n1", "", WebsocketLink(lambda _: None))
    gathering = Gathering(tunnels, clock, TARGET, lambda *_: None)

    def poll(milliseconds: float) -> None:
        waits.append(round(milliseconds))
        clock.go(milliseconds / 1000)

    monkeypatch.setattr(gathering, "_poll", Mock(poll=poll))
    assert gathering.run(["n1"]) == ["n1"]
    assert waits == [NODE_SECONDS * 1000 + 1]
    clock.close()


def test_without_a_tunnel_server_the_error_names_the_option(site: Site) -> None:
    with pytest.raises(ApiStatusError, match="--tunnel-listen") as refused:
        NodeStreams(Tunnels(site.clock), site.clock).gather(["n1"], TARGET, lambda *_: None)
    assert refused.value.code == 503


@pytest.mark.parametrize("size", [ANSWER_BYTES, ANSWER_BYTES + 1], ids=["longest", "too-long"])
def test_an_answer_that_is_too_long_is_none_though_it_has_ended(size: int) -> None:
    """All of it has come before the first byte is read."""
    clock, found = StandingClock(), dict[str, bytes]()
    tunnels = Tunnels(clock)

    def answer(link: WebsocketLink) -> None:
        frame = decode(link.pop()) if link.waiting else None
        if frame is not None and frame.kind == FrameType.METRICS:
            for each in (*data_frames(frame.connection, bytes(size)), Frame(frame.connection, FrameType.REMOVE)):
                tunnels.receive("n1", link, each.encode())

    tunnels.port = 10004
    tunnels.add("n1", "", WebsocketLink(answer))
    assert NodeStreams(tunnels, clock).gather(["n1"], TARGET, found.__setitem__) == []
    assert list(found) == (["n1"] if size == ANSWER_BYTES else [])
    clock.close()
