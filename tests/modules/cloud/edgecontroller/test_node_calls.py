"""Which reads the mirror answers, and in which order nodes' writes are made that need an object which it lacks."""

from http import HTTPStatus
from typing import Any
from unittest.mock import Mock

import pytest

from modules.apimachinery.api_errors import RefusedError
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.cloud.client.calls import MERGE, Answered, ApiCall, ApiResult
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.edgecontroller.upstream import node_calls
from modules.cloud.edgecontroller.upstream.api_requests import NEWEST, find, retried
from modules.cloud.edgecontroller.upstream.node_calls import NodeCalls, shown
from modules.cloud.edgecontroller.upstream.requests import Steps

LIVE = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "u"}}


class Bench:
    """The calls of nodes at an API server that answers when the test says; each write is admitted.

    Args:
        monkeypatch: for the admission here.
        admits_statuses: whether the API server admits statuses.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, admits_statuses: bool = False) -> None:
        monkeypatch.setattr(node_calls, "admitted", lambda _kind, call, _live, _admit: call)
        self._open: list[tuple[ApiCall, Answered]] = []
        self.sent: list[str] = []
        """The calls at the API server, the writes by the phase that they set."""
        bodies, client = Mock(), Mock()
        client.calls.send = self._send
        bodies.find_whole.return_value = None
        self.bodies = bodies
        cluster = RemoteCluster(Mock(), is_embedded=admits_statuses)
        downstream = Mock()
        downstream.stale.may_have_newer.return_value = client.claims.is_claiming.return_value = False
        self.downstream = downstream
        self._calls = NodeCalls(cluster, bodies, client, Mock(), downstream)

    def _send(self, call: ApiCall, answered: Answered, _node: str = "") -> None:
        self._open.append((call, answered))
        self.sent.append(call.verb if call.verb == "get" else call.body["status"]["phase"])

    def read(self, node: str, options: JsonObject | None = None) -> None:
        """A node, or an administrator, reads the pod."""
        call = ApiCall(
            verb="get", api_version="v1", plural="pods", namespace="d", name="web", options=options or {},
        )  # fmt: skip
        self._calls.perform(call, lambda _result: None, node)

    def write(self, phase: str, uid: str = "u") -> None:
        """A node sets the phase of its pod."""
        body: dict[str, Any] = {"metadata": {"uid": uid}, "status": {"phase": phase}}
        call = ApiCall(
            verb="patch", api_version="v1", plural="pods", namespace="d", name="web", subresource="status",
            patch_type=MERGE, body=body,
        )  # fmt: skip
        self._calls.perform(call, lambda _result: None, "n1")

    def answer(self, refusal: JsonObject | None = None) -> None:
        """Answer what was asked first, or refuse it."""
        call, answered = self._open.pop(0)
        answered(ApiResult(refusal=refusal) if refusal else ApiResult(LIVE if call.verb == "get" else {}))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_a_status_is_not_admitted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The embedded API server knows the object as it is: here, nothing of it is read or merged."""
    bench = Bench(monkeypatch, admits_statuses=True)
    bench.write("Running", uid="another")
    assert bench.sent == ["Running"]
    bench.bodies.find_whole.assert_not_called()


def test_writes_that_wait_for_one_read_are_made_in_their_order(bench: Bench) -> None:
    for phase in ("Pending", "Running", "Failed"):
        bench.write(phase)
    assert bench.sent == ["get"], "none overtakes another"
    for _ in range(6):
        bench.answer()
    assert [each for each in bench.sent if each != "get"] == ["Pending", "Running", "Failed"]


def test_a_read_that_is_refused_ends_no_write_but_its_own(bench: Bench) -> None:
    for phase in ("Pending", "Running"):
        bench.write(phase)
    bench.answer({"code": HTTPStatus.NOT_FOUND})
    for _ in range(2):
        bench.answer()
    assert bench.sent == ["get", "get", "Running"]


def test_an_object_of_another_uid_is_read_anew(bench: Bench) -> None:
    """The mirror is behind the node, which has had the new pod from another cloudcore."""
    bench.bodies.find_whole.return_value = LIVE
    bench.write("Running")
    bench.write("Running", uid="next")
    assert bench.sent == ["Running", "get"]


def test_the_mirror_does_not_answer_a_node_that_may_have_newer_from_another_cloudcore(bench: Bench) -> None:
    bench.bodies.find_whole.return_value = LIVE
    bench.downstream.stale.may_have_newer.return_value = True
    bench.read("n1")
    assert bench.sent == ["get"]


@pytest.mark.parametrize(("node", "sent"), [("n1", []), ("", ["get"])])
def test_an_administrator_reads_the_present_object(bench: Bench, node: str, sent: list[str]) -> None:
    """By a late mirror a node that is revoked would not be, and `cloudcore allow` would do nothing."""
    bench.bodies.find_whole.return_value = LIVE
    bench.read(node)
    assert bench.sent == sent


def test_a_write_after_a_conflict_reads_what_is_stored(bench: Bench) -> None:
    """The mirror is behind the node's own last write while the watch is late: each attempt would read the same."""
    bench.bodies.find_whole.return_value = LIVE
    read: list[JsonObject] = []

    def write(as_stored: bool) -> Steps[str]:
        yield from find(ObjectKey("Pod", "d", "web"), as_stored=as_stored)
        if as_stored:
            return "written"
        raise RefusedError({"code": HTTPStatus.CONFLICT})

    steps = retried(write)
    read.append(next(steps).options)
    read.append(steps.send(LIVE).options)
    with pytest.raises(StopIteration, match="written"):
        steps.send(LIVE)
    for options in read:
        bench.read("n1", options)
    assert (read, bench.sent) == ([{}, NEWEST], ["get"])


@pytest.mark.parametrize(("code", "attempts"), [(HTTPStatus.CONFLICT, 5), (HTTPStatus.FORBIDDEN, 1)])
def test_a_write_that_always_fails_ends_with_its_refusal(code: HTTPStatus, attempts: int) -> None:
    read: list[bool] = []

    def write(as_stored: bool) -> Steps[str]:
        read.append(as_stored)
        yield from ()
        raise RefusedError({"code": code})

    with pytest.raises(RefusedError):
        next(retried(write))
    assert read == [False, True, True, True, True][:attempts]


def test_a_write_that_fails_in_any_way_keeps_no_other_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that wait for the same read would wait for ever."""

    def admitted(_kind: object, call: ApiCall, *_: object) -> ApiCall:
        if call.body["status"]["phase"] == "Pending":
            raise RuntimeError("of this test")
        return call

    monkeypatch.setattr(node_calls, "admitted", admitted)
    for phase in ("Pending", "Running", "Failed"):
        bench.write(phase)
    with pytest.raises(RuntimeError, match="of this test"):
        bench.answer()
    for _ in range(4):
        bench.answer()
    assert [each for each in bench.sent if each != "get"] == ["Running", "Failed"]


def test_a_request_for_a_certificate_that_fails_in_any_way_keeps_no_other_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[Any] = []
    monkeypatch.setattr(NodeCalls, "_count_requests", lambda *args: counts.append(args[-1]))
    monkeypatch.setattr(NodeCalls, "_admit", Mock(side_effect=RuntimeError("of this test")))
    call = ApiCall(verb="create", api_version="certificates.k8s.io/v1", plural="certificatesigningrequests")
    for _ in range(2):
        bench._calls._ask_for_certificate(Mock(), call, "n1", lambda _result: None)
    assert len(counts) == 1
    with pytest.raises(RuntimeError, match="of this test"):
        counts[0](None)
    assert len(counts) == 2


@pytest.mark.parametrize(
    ("version", "plural", "field", "mine"),
    [
        ("v1", "pods", "nodeName", "n1"),
        ("storage.k8s.io/v1", "volumeattachments", "nodeName", "n1"),
        ("certificates.k8s.io/v1", "certificatesigningrequests", "username", "system:node:n1"),
    ],
)
def test_a_node_is_shown_its_own_objects_and_none_of_another(version: str, plural: str, field: str, mine: str) -> None:
    """The authorizer lets it ask for one that the mirror does not have."""
    call = ApiCall(verb="get", api_version=version, plural=plural, name="x")
    for owner, is_shown in ((mine, True), (mine.replace("n1", "n2"), False), (None, False)):
        assert (shown(call, "n1", ApiResult({"spec": {field: owner}})).object is not None) is is_shown


def test_a_write_that_others_always_overtake_ends(bench: Bench) -> None:
    """Each attempt reads what is stored."""
    body: dict[str, Any] = {"metadata": {"uid": "u", "labels": {"a": "b"}}, "status": {"phase": "Running"}}
    call = ApiCall(
        verb="patch", api_version="v1", plural="pods", namespace="d", name="web", patch_type=MERGE, body=body
    )
    ends: list[ApiResult] = []
    bench._calls.perform(call, ends.append, "n1")
    while bench._open and len(bench.sent) < 50:
        made, answered = bench._open.pop(0)
        answered(ApiResult(LIVE) if made.verb == "get" else ApiResult(refusal={"code": HTTPStatus.CONFLICT}))
    assert [end.refusal for end in ends] == [{"code": HTTPStatus.CONFLICT}]
    assert bench.sent == ["get", "Running"] * 5


def test_requests_for_certificates_are_counted_in_so_many_pages(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that names a next page for ever holds no node's call."""
    monkeypatch.setattr(node_calls, "_MOST_PAGES", 3)
    monkeypatch.setattr(bench._calls._api, "send", lambda call, answered: bench._open.append((call, answered)))
    call = ApiCall(verb="create", api_version="certificates.k8s.io/v1", plural="certificatesigningrequests")
    ends: list[ApiResult] = []
    bench._calls._ask_for_certificate(kind_named("CertificateSigningRequest"), call, "n1", ends.append)
    asked = 0
    while bench._open and asked < 9:
        _, answered = bench._open.pop(0)
        asked += 1
        answered(ApiResult({"items": [], "metadata": {"continue": "more"}}))
    assert asked == 3
    (end,) = ends
    assert end.refusal is not None
    assert "more than 3 pages" in end.refusal["message"]
