"""What holds of a stream between its client's thread and the tunnel server's, in whatever order these run."""

import select
from contextlib import suppress

import pytest

import modules.cloud.cloudstream.stream
import modules.cloud.cloudstream.tunnel
import modules.cloud.cloudstream.tunnels
from beehive.clock import Clock
from modules.cloud.cloudstream.errors import NoTunnelError
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.websocket.connection import WebsocketLink
from modules.streams.connect import StreamRequest
from modules.streams.frames import Frame, FrameType, decode
from tests.support.interleaving import SEEDS, Interleaving, explore

pytestmark = pytest.mark.parametrize("seed", SEEDS)

WATCHED = (modules.cloud.cloudstream.stream, modules.cloud.cloudstream.tunnel, modules.cloud.cloudstream.tunnels)


def opened(tunnels: Tunnels) -> TunnelStream:
    return tunnels.open("n1", FrameType.LOGS, StreamRequest(0, "/containerLogs/default/web/main"))


def read(stream: TunnelStream, clock: Clock) -> bytes:
    """All bytes of a stream; it is closed then."""
    found = b""
    while not stream.is_over:
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        poll.poll()
        found += stream.receive(clock.monotonic())
    stream.close()
    return found


def sent(link: WebsocketLink) -> list[int]:
    """The types of the frames for the node."""
    return [decode(each).kind for each in link.waiting]


def test_a_log_is_read_to_its_end(seed: int) -> None:
    """Each of its frames counts as handled once, and the node is not told of the end that came from it."""

    def scenario(threads: Interleaving) -> None:
        tunnels, link, found = Tunnels(threads.clock), WebsocketLink(lambda _: None), list[bytes]()
        tunnels.add("n1", "", link)
        stream = opened(tunnels)
        frames = [Frame(stream.number, FrameType.DATA, each) for each in (b"one ", b"two ", b"three")]
        payloads = [each.encode() for each in (*frames, Frame(stream.number, FrameType.REMOVE))]

        def serve() -> None:
            for payload in payloads:
                tunnels.receive("n1", link, payload)

        threads.run(serve, lambda: found.append(read(stream, threads.clock)))
        assert found == [b"one two three"]
        assert sent(link) == [FrameType.LOGS]
        assert (link._handled_frames, link._handled_bytes) == (len(payloads), sum(map(len, payloads)))
        assert (tunnels.streams(), tunnels._memory.used) == (0, 0)

    explore(scenario, *WATCHED, single=150, seed=seed)


def test_a_stream_that_is_opened_while_its_tunnel_ends_has_ended(seed: int) -> None:
    """Or it is not opened, or it is one of the newer tunnel."""

    def scenario(threads: Interleaving) -> None:
        tunnels, old, new = Tunnels(threads.clock), WebsocketLink(lambda _: None), WebsocketLink(lambda _: None)
        tunnels.add("n1", "", old)

        def follow() -> None:
            with suppress(NoTunnelError):
                stream = opened(tunnels)
                if FrameType.LOGS in sent(old):
                    read(stream, threads.clock)
                    assert stream.failure
                stream.close()

        def replace() -> None:
            tunnels.add("n1", "", new)
            tunnels.remove("n1", old)

        threads.run(follow, replace)
        assert tunnels.has("n1")
        tunnels.remove("n1", new)
        assert (tunnels.streams(), tunnels._memory.used) == (0, 0)

    explore(scenario, *WATCHED, single=150, seed=seed)


def test_a_client_that_goes_is_told_to_the_node_at_most_once(seed: int) -> None:
    """The tunnel may end, and the node may end the stream, at the same moment."""

    def scenario(threads: Interleaving) -> None:
        tunnels, link = Tunnels(threads.clock), WebsocketLink(lambda _: None)
        tunnels.add("n1", "", link, has_credit=True)
        stream = opened(tunnels)

        def serve() -> None:
            tunnels.receive("n1", link, Frame(stream.number, FrameType.DATA, b"one").encode())
            tunnels.receive("n1", link, Frame(stream.number, FrameType.REMOVE).encode())
            tunnels.remove("n1", link)

        threads.run(serve, stream.close)
        assert sent(link).count(FrameType.REMOVE) <= 1
        assert link._handled_frames == 2
        assert (tunnels.streams(), tunnels._memory.used) == (0, 0)

    explore(scenario, *WATCHED, single=150, seed=seed)
