"""What a record says of a request: without a file, and without a server."""

from types import SimpleNamespace
from typing import Any

import pytest

from beehive.http.responses import Response, Stream, StreamHead, Takeover
from beehive.simulation import Simulation
from modules.apimachinery.types.times import format_micro_time, seconds
from modules.cloud.audit.events import AuditEvent
from modules.cloud.audit.recording import AuditTrail
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.rules import AccessRequest
from tests.modules.cloud.audit.test_events import request

NOTHING: Any = None
_ADMIN, _NODE = User("admin"), User("system:node:n1", groups=("system:nodes",))


def trail(events: list[AuditEvent]) -> AuditTrail:
    """Return one whose events a list gets."""
    log: Any = SimpleNamespace(put=events.append)
    return AuditTrail(log, Simulation(0).clock)


@pytest.mark.parametrize(
    ("user", "impersonated", "code", "decision"),
    [
        (_ADMIN, None, 200, "allow"), (_ADMIN, None, 403, "allow"), (_NODE, None, 403, "forbid"),
        (_ADMIN, _NODE, 403, "forbid"), (_NODE, _ADMIN, 403, "allow"), (_ADMIN, None, 401, None),
        (_ADMIN, None, 429, None), (None, None, 403, "allow"),
    ],
)  # fmt: skip
def test_a_node_that_is_refused_lacks_the_right(
    user: User | None, impersonated: User | None, code: int, decision: str | None
) -> None:
    """Also one that an administrator impersonates; who was not served, or is not known, was not decided on."""
    events = list[AuditEvent]()
    record = trail(events).begin(request("/api/v1/nodes"))
    record.asked, record.user, record.impersonated = AccessRequest(verb="list", resource="nodes"), user, impersonated
    record.run(lambda: Response(code, "application/json", b"{}"))
    assert [each.annotations.get("authorization.k8s.io/decision") for each in events] == [decision]


@pytest.mark.parametrize(
    ("head", "codes"),
    [(None, [200, 200]), (StreamHead(201, ()), [200, 201]), (Response(500, "text/plain", b""), [200, 500])],
)
def test_a_stream_ends_once_with_the_status_that_was_sent(head: StreamHead | Response | None, codes: list[int]) -> None:
    events = list[AuditEvent]()
    begin = None if head is None else lambda _: head
    stream: Any = trail(events).begin(request("/api/v1/pods")).run(lambda: Stream("a/b", NOTHING, list, begin=begin))
    if stream.begin is not None:
        assert stream.begin(NOTHING) is head
    for _ in range(2):
        stream.done()
    assert [each.response_status and each.response_status.code for each in events] == codes
    now = format_micro_time(seconds(Simulation(0).clock.now()))
    assert {(each.request_received_timestamp, each.stage_timestamp) for each in events} == {(now, now)}


def test_a_connection_that_is_taken_over_has_changed_its_protocol() -> None:
    events = list[AuditEvent]()
    trail(events).begin(request("/api/v1/pods")).run(lambda: Takeover(NOTHING, list)).done()  # type: ignore[union-attr]
    assert [each.response_status and each.response_status.code for each in events] == [101, 101]


@pytest.mark.parametrize(("method", "number"), [("GET", 0), ("HEAD", 0), ("POST", 1)])
def test_only_reads_of_probes_are_left_out(method: str, number: int) -> None:
    events, served = list[AuditEvent](), list[int]()

    def serve() -> Response:
        served.append(1)
        return Response(200, "text/plain", b"ok")

    trail(events).begin(request("/livez", method)).run(serve)
    assert (len(events), len(served)) == (number, 1)
