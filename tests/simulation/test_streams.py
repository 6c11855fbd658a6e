"""Logs of nodes that users follow at any cloudcore, while nodes, cloudcores and lines fail."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from beehive.http.request import Request
from beehive.http.responses import Reply, text
from modules.apimachinery.errors import ApiStatusError
from modules.cloud.cloudstream.passed_streams import StreamsElsewhere
from modules.cloud.cloudstream.stream import TunnelStream
from modules.cloud.cloudstream.tunnel import Tunnel
from modules.cloud.cloudstream.tunnels import Tunnels
from modules.cloud.messages import Cloudcores
from modules.cloud.router.other_cloudcores import OtherCloudcores
from modules.cloud.websocket.link import Link
from modules.edge.edgestream.module import EdgeStream
from modules.edge.edgestream.session import TunnelSession
from modules.edge.edgestream.stream import Stream
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.plan import Fault, FaultKind, Plan
from modules.lab.simulate.run import run_plan
from modules.lab.simulate.streams import CloudcoreStreams
from modules.streams.connect import StreamRequest
from modules.streams.frames import FrameType
from tests.support.descriptors import open_descriptors
from tests.support.slow import one_in

PLAN = Plan(
    3,
    2,
    120.0,
    (),
    (
        Fault(12.0, FaultKind.TAKEN_OVER, 0, 30.0, 3.0),
        Fault(24.0, FaultKind.ROAM, 1, 0.0, 20.0),
        Fault(33.0, FaultKind.CUT, 1, 2.0),
        Fault(45.0, FaultKind.KILL, 0, 0.0, 5.0),
        Fault(52.0, FaultKind.HALF_OPEN, 1, 25.0),
        Fault(60.0, FaultKind.TAKEN_OVER, 0, 45.0, 20.0),
        Fault(80.0, FaultKind.CLOUD_RESTART, 0, 3.0),
        Fault(98.0, FaultKind.RESTART, 1),
    ),
    cluster=True,
    streams=True,
)
"""Two nodes without pods: one goes to another cloudcore twice, and all processes end now and then."""


@pytest.mark.parametrize("keeps_state", [False, True], ids=["database", "cluster"])
def test_logs_are_found_wherever_a_node_is(*, keeps_state: bool) -> None:
    """Some by another cloudcore than the one that is asked, of which one has no tunnel of the node."""
    result = run_plan(msgspec.structs.replace(PLAN, keeps_state=keeps_state))
    assert result.violation is None, result.violation
    notes = [entry.what for entry in result.log if entry.who == "streams"]
    assert sum("passed to ['" in note for note in notes) > 2
    assert any("breaks off" in note for note in notes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_logs_are_found_among_all_faults_of_the_state(seed: int) -> None:
    result = run_plan(draw_plan(6_400_000 + seed, nodes=2, seconds=120.0, pods=1, profile=FaultProfile.STATE))
    assert result.violation is None, result.violation


def another_cloudcore_is_taken_for_the_holder(patch: pytest.MonkeyPatch) -> None:
    def elsewhere(self: Cloudcores) -> dict[str, str]:
        others = [each for each in self.alive if each != self.own]
        return dict.fromkeys(self.nodes, others[-1]) if others else {}

    patch.setattr(Cloudcores, "elsewhere", elsewhere)


def the_routers_of_others_are_not_learned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OtherCloudcores, "router_of", lambda *_: None)


def only_the_holder_is_asked(patch: pytest.MonkeyPatch) -> None:
    """And not the cloudcore to which a load balancer has led the node's tunnel."""
    first_answer = StreamsElsewhere._first_answer

    def of_holder(self: StreamsElsewhere, known: Cloudcores, node: str, wanted: Any) -> Any:
        alive = tuple(each for each in known.alive if each in (known.own, known.nodes.get(node)))
        return first_answer(self, msgspec.structs.replace(known, alive=alive), node, wanted)

    patch.setattr(StreamsElsewhere, "_first_answer", of_holder)


def a_request_is_passed_on_twice(patch: pytest.MonkeyPatch) -> None:
    """Two cloudcores that take each other for the one with the tunnel ask each other for ever."""
    make = CloudcoreStreams.__init__

    def made(self: CloudcoreStreams, *args: Any) -> None:
        make(self, *args)
        received: Any = self._router._streams

        def reply(node: str, request: Request) -> Reply:
            try:
                return self.nodes.reply(node, request.target, request)
            except ApiStatusError as error:
                return text(error.code, error.message)

        received.reply = reply

    patch.setattr(CloudcoreStreams, "__init__", made)


def the_end_of_an_old_tunnel_ends_the_new_one(patch: pytest.MonkeyPatch) -> None:
    def remove(self: Tunnels, node: str, _link: Link) -> None:
        tunnel = self._by_node.pop(node, None)
        if tunnel is not None:
            tunnel.end("the node's tunnel has ended")

    patch.setattr(Tunnels, "remove", remove)


def numbers_of_streams_come_again(patch: pytest.MonkeyPatch) -> None:
    def open_(self: Tunnels, node: str, kind: FrameType, request: StreamRequest) -> TunnelStream:
        return self._by_node[node].open(1, kind, request)

    patch.setattr(Tunnels, "open", open_)


def streams_outlive_their_tunnel_in_the_cloud(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Tunnel, "end", lambda *_: None)


def a_cut_is_taken_for_the_end_of_a_log(patch: pytest.MonkeyPatch) -> None:
    end = TunnelStream.end
    patch.setattr(TunnelStream, "end", lambda self, *_: end(self))


def frames_overtake_each_other(patch: pytest.MonkeyPatch) -> None:
    put = TunnelStream.put

    def turned(self: TunnelStream, data: bytes, size: int, now: float) -> None:
        put(self, data, size, now)
        self._queue.rotate(len(self._queue) > 2)

    patch.setattr(TunnelStream, "put", turned)


def a_node_is_not_told_that_a_client_has_gone(patch: pytest.MonkeyPatch) -> None:
    forget = Tunnel.forget
    patch.setattr(Tunnel, "forget", lambda self, number, **_: forget(self, number, tell=False))


def the_cloud_is_not_told_that_a_stream_has_ended(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TunnelSession, "_end", lambda self, stream, *_: self._forget(stream.number))


def connections_to_the_node_server_stay_open(patch: pytest.MonkeyPatch) -> None:
    def forget(self: TunnelSession, number: int) -> None:
        self._counters.open[self._streams.pop(number).kind] -= 1

    patch.setattr(TunnelSession, "_forget", forget)


def a_node_sends_more_than_it_was_granted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stream, "_room", lambda _: 32 * 1024)
    patch.setattr(TunnelStream, "has_overrun", False)
    patch.setattr("modules.edge.edgestream.stream.WINDOW", 1 << 30)


def a_tunnel_that_has_ended_is_not_dialled_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EdgeStream, "_dial_again", lambda _: None)


def a_place_for_a_request_is_not_given_back(patch: pytest.MonkeyPatch) -> None:
    reply = StreamsElsewhere.reply

    def kept(self: StreamsElsewhere, node: str, *args: Any, **kwargs: Any) -> Any:
        found = reply(self, node, *args, **kwargs)
        self._opening[node] += 1
        return found

    patch.setattr(StreamsElsewhere, "reply", kept)


_FOUND_BY: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    only_the_holder_is_asked: "every cloudcore finds every node",
    another_cloudcore_is_taken_for_the_holder: "a node is where cloudcore takes it to be",
    the_routers_of_others_are_not_learned: "every cloudcore finds every node",
    a_request_is_passed_on_twice: "a request is passed on once",
    the_end_of_an_old_tunnel_ends_the_new_one: "the newest tunnel of a node counts",
    numbers_of_streams_come_again: "a log is whole and in order",
    streams_outlive_their_tunnel_in_the_cloud: "a stream ends",
    a_cut_is_taken_for_the_end_of_a_log: "a log is whole and in order",
    frames_overtake_each_other: "a log is whole and in order",
    a_node_is_not_told_that_a_client_has_gone: "a stream ends at both ends",
    the_cloud_is_not_told_that_a_stream_has_ended: "a stream ends at both ends",
    connections_to_the_node_server_stay_open: "all agree in the end",
    a_node_sends_more_than_it_was_granted: "streams hold few bytes",
    a_tunnel_that_has_ended_is_not_dialled_again: "every cloudcore finds every node",
    a_place_for_a_request_is_not_given_back: "all agree in the end",
}
"""The invariant that finds each bug."""
_MOST = 6
"""Seeds that are tried: where a node's tunnel ends is drawn, and a change of anything draws anew."""


@pytest.mark.parametrize("plant", one_in(6, _FOUND_BY), ids=[each.__name__ for each in _FOUND_BY])
def test_a_bug_of_streams_is_found(plant: Callable[[pytest.MonkeyPatch], None]) -> None:
    """No socket of a run that ends early is left: whichever test collects it would fail."""
    before = open_descriptors()
    plans = (msgspec.structs.replace(PLAN, seed=seed) for seed in range(PLAN.seed, PLAN.seed + _MOST))
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        violation = next(filter(None, (run_plan(plan).violation for plan in plans)), None)
    assert open_descriptors() <= before
    assert violation is not None
    assert violation.invariant == _FOUND_BY[plant], violation
