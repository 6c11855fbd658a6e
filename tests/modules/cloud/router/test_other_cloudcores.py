"""Calls of nodes that another cloudcore has: passed on once, within the caller's time."""

import socket
import ssl
from types import SimpleNamespace
from typing import Any

import pytest

from beehive import Message, ModuleName
from beehive.bounded_calls import BoundedCalls
from beehive.http.call import CallFailedError, HttpCall, HttpReply, Secured
from beehive.runtime import Future
from beehive.sockets import dialling
from beehive.testing import Harness
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.messages import Cloudcores
from modules.cloud.router import other_cloudcores
from modules.cloud.router.module import REST_SECONDS
from modules.cloud.router.other_cloudcores import PARALLEL, OtherCloudcores
from modules.cloud.router.paths import read_path
from modules.cloud.router.rest_service import RestCall
from tests.modules.cloud.router.rules import to_service, to_topic
from tests.modules.cloud.router.test_module import Cloud, result

Outcome = HttpReply | CallFailedError


class Asked:
    """What the other cloudcore was asked, and its answer."""

    def __init__(self) -> None:
        self.calls: list[HttpCall] = []
        self.bounds: list[dict[str, Any]] = []
        self.answer: Outcome = HttpReply(418, (("x-mine", "1"),), b"tea")

    def perform(self, call: HttpCall, *_rest: Any, **bounds: Any) -> HttpReply:
        """In the place of `perform`."""
        self.calls.append(call)
        self.bounds.append(bounds)
        if isinstance(self.answer, CallFailedError):
            raise self.answer
        return self.answer


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(other_cloudcores, "perform", made.perform)
    return made


def others(router: str = "10.0.0.2:9443", context: ssl.SSLContext | None = None) -> OtherCloudcores:
    """The cloudcore `there`, which has the node n2."""
    known = KnownCloudcores("here")
    known.routers = {"there": router} if router else {}
    found = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return OtherCloudcores(known, lambda: found, "cloud.example", "10.0.0.1")


def begin_for(cloud: Cloud, seconds: float, target: str) -> Future[Message]:
    """A request that another cloudcore has passed on."""
    path = read_path(target)
    assert path is not None
    return cloud.ask(RestCall("GET", path, (), b"", seconds))


def test_a_call_is_passed_on_to_the_cloudcore_that_has_the_node(bee: Harness, asked: Asked) -> None:
    """As it is but for the time that is left, to its router, over TLS; its answer is the caller's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    cloud = Cloud(bee, to_service(), others=others(context=context))
    future = cloud.begin("/n2/cap/svc/a%20b?x=1:2", "POST", b"in", **{"x-b": "c"})
    assert result(future) == (418, "tea")
    assert future.get().content.headers == (("x-mine", "1"),)
    (call,), (bounds,) = asked.calls, asked.bounds
    assert (call.method, call.host, call.port, call.scheme, call.body) == ("POST", "10.0.0.2", 9443, "https", b"in")
    assert call.target == "/n2/cap/svc/a%20b?x=1:2"
    assert call.headers == (("x-b", "c"), ("x-cloudcore-seconds", "60.000"))
    assert bounds["secured"] == Secured(context, "cloud.example")
    assert REST_SECONDS < bounds["seconds"] < 2 * REST_SECONDS
    assert cloud.down() == []


def test_the_search_for_the_nodes_cloudcore_is_a_part_of_the_time(bee: Harness, asked: Asked) -> None:
    cloud = Cloud(bee, to_service(), others=others())
    bee.answer(ModuleName.EDGECONTROLLER, lambda _: None)
    cloud.begin("/n2/cap/svc")
    bee.run_for(4.0)
    question = bee.sent_to(ModuleName.EDGECONTROLLER)[-1]
    bee.hive.respond(question.reply(bee.clock, Cloudcores("here", ("here", "there"), {"n2": "there"})))
    bee.settle()
    assert dict(asked.calls[0].headers)["x-cloudcore-seconds"] == "56.000"


def test_a_call_goes_from_cloudcore_to_cloudcore_once(bee: Harness, asked: Asked) -> None:
    """A call that was passed on here for a node that has left is not sent back."""
    cloud = Cloud(bee, to_topic(), others=others())
    status, why = result(begin_for(cloud, 50.0, "/n2/cap/a"))
    assert (status, asked.calls) == (503, [])
    assert "it has just connected to cloudcore there: try again soon" in why


def test_a_call_that_was_passed_on_takes_no_longer_than_its_caller_waits(bee: Harness) -> None:
    """The time of two cloudcores does not add up."""
    cloud = Cloud(bee, to_service(), others=others())
    first, second = begin_for(cloud, 20.0, "/n1/cap/svc"), begin_for(cloud, 1000.0, "/n1/cap/svc")
    bee.run_for(20.5)
    assert result(first) == (504, "node n1 has not answered within 20 s")
    assert not second.settled
    bee.run_for(REST_SECONDS)
    assert result(second) == (504, "node n1 has not answered within 60 s")


@pytest.mark.parametrize("router", ["", "10.0.0.2", "10.0.0.2:x", "[:1"])
def test_a_cloudcore_without_an_address_is_named(bee: Harness, asked: Asked, router: str) -> None:
    """Also if the address in its Lease is malformed."""
    status, why = Cloud(bee, to_topic(), others=others(router)).call("/n2/cap/a")
    assert (status, asked.calls) == (503, [])
    assert "it is connected to cloudcore there: call that one" in why


def test_the_end_of_a_call_has_its_outcome(bee: Harness, asked: Asked) -> None:
    cloud = Cloud(bee, to_topic(), others=others())
    told = []
    for sent, timed_out in ((False, False), (True, True), (True, False)):
        asked.answer = CallFailedError("x", "it broke", sent=sent, timed_out=timed_out)
        told.append(cloud.call("/n2/cap/a"))
    assert [status for status, _ in told] == [503, 504, 502]
    assert "it broke" in told[0][1]
    assert "not known" in told[2][1]


def test_without_its_own_certificate_a_cloudcore_sends_nothing(bee: Harness) -> None:
    def fail() -> ssl.SSLContext:
        raise OSError("no such file")

    found = OtherCloudcores(KnownCloudcores("here"), fail, "c").ask(HttpCall("GET", "10.0.0.2", 1, "/"), bee.clock, 1.0)
    assert isinstance(found, CallFailedError)
    assert not found.sent


def test_a_connection_to_a_machine_that_is_gone_ends(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command in a container may be silent for days."""
    context: Any = SimpleNamespace(wrap_socket=lambda plain, **_: plain)
    with socket.socket() as plain:
        monkeypatch.setattr(dialling, "connect", lambda *_: plain)
        others(context=context).connect("there", bee.clock, 1.0)
        assert plain.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        probing = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [plain.getsockopt(socket.IPPROTO_TCP, each) for each in probing] == [30, 10, 3]


def test_many_calls_wait_for_nobody(bee: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the limit of calls under way, another one is refused immediately."""
    monkeypatch.setattr(BoundedCalls, "_begin", lambda self, *_work: _count(self))
    cloud = Cloud(bee, to_topic(), others=others())
    waiting = [cloud.begin("/n2/cap/a") for _ in range(PARALLEL)]
    status, why = cloud.call("/n2/cap/a")
    assert status == 503
    assert "32 calls wait" in why
    assert not any(each.settled for each in waiting)


def _count(calls: Any) -> None:
    calls._running[""] += 1


def test_the_lease_has_the_address_of_this_router() -> None:
    """An IPv6 address in brackets; without an address there is nothing to say."""
    known = KnownCloudcores("here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    OtherCloudcores(known, lambda: context, "c", "").announce(9443)
    assert known.own_router == ""
    OtherCloudcores(known, lambda: context, "c", "fd00::1").announce(9443)
    assert known.own_router == "[fd00::1]:9443"
    known.routers = {"x": known.own_router}
    assert OtherCloudcores(known, lambda: context, "c", "").router_of("x") == ("fd00::1", 9443)
