"""What edgecontroller remembers beside the mirror: versions that were told, ended pods, missed connections."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from beehive import Message, Operation
from beehive.testing import Harness
from modules.apimachinery.api_errors import ForbiddenError, InternalError, NotFoundError, RefusedError
from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.client.lane_calls import CallAnswered, CallSuperseded
from modules.cloud.client.reflector.effects import Added
from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.edgecontroller.cluster.calls import ClusterCalls
from modules.cloud.edgecontroller.cluster.lease_watch import _notify
from modules.cloud.edgecontroller.downstream.responses import UpstreamResponse
from modules.cloud.edgecontroller.handled_messages import HandledMessages
from modules.cloud.edgecontroller.mirror.ended_pods import ended_uid, missing_pods
from modules.cloud.edgecontroller.mirror.recent_uids import RecentUids
from modules.cloud.edgecontroller.missed_connections import MissedConnections
from modules.cloud.edgecontroller.node_connections import NodeConnections
from modules.cloud.edgecontroller.node_machine import Disconnected, NodeRecord, step
from modules.cloud.edgecontroller.state.newest_versions import NewestVersions
from modules.cloud.edgecontroller.upstream import objects, pods
from modules.cloud.edgecontroller.upstream.handlers import refusal_responses
from modules.cloud.edgecontroller.upstream.requests import UpstreamRequest
from modules.cloud.edgecontroller.upstream.status_merge import merged_pod_status
from modules.cloud.messages import Acknowledged, ConnectEvent, NodeConnection
from modules.cloud.storage.object_sync import ClaimedConnection, Holder, ObjectSync
from tests.modules.cloud.edgecontroller.controller import WEB


def test_the_newest_version_of_a_kind_stays_when_an_older_one_comes_late() -> None:
    newest = NewestVersions()
    newest.observe("Pod", "10")
    newest.observe("Pod", "9")
    assert newest.of("Pod") == "10"
    newest.listed("Pod", "8")
    assert newest.of("Pod") == "8", "after a restore"


@pytest.mark.parametrize(
    ("answer", "uid"),
    [
        ({"kind": "Status"}, "u"),
        ({"metadata": {"uid": "u"}}, "u"),
        ({"metadata": {"uid": "u", "deletionGracePeriodSeconds": 30}}, ""),
        ({"metadata": {"uid": "u", "finalizers": ["x"]}}, ""),
        pytest.param({"metadata": {"uid": "another"}}, "", id="a pod of the same name"),
    ],
)
def test_a_deletion_ends_the_pod_that_it_names(answer: JsonObject, uid: str) -> None:
    call = ApiCall(verb="delete", api_version="v1", plural="pods", options={"preconditions": {"uid": "u"}})
    assert ended_uid(call, ApiResult(answer)) == uid


@pytest.mark.parametrize(
    ("code", "message", "uid"),
    [
        (404, 'pods "web" not found', "u"),
        (409, "Precondition failed: UID in precondition: u, UID in object meta: v", "u"),
        (409, "the object has been modified", ""),
        (403, "UID in precondition", ""),
        (503, "no answer of the API server", ""),
    ],
)
def test_a_refused_deletion_shows_whether_the_pod_was_there(code: int, message: str, uid: str) -> None:
    refusal: JsonObject = {"kind": "Status", "code": code, "message": message}
    call = ApiCall(verb="delete", api_version="v1", plural="pods", options={"preconditions": {"uid": "u"}})
    assert ended_uid(call, ApiResult(None, refusal)) == uid
    without = ApiCall(verb="delete", api_version="v1", plural="pods")
    assert ended_uid(without, ApiResult(None, refusal)) == ""


def test_the_newest_uids_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modules.cloud.edgecontroller.mirror.recent_uids._MOST", 2)
    ended = RecentUids()
    for uid in "abc":
        ended.add(uid)
    assert [uid for uid in "abc" if uid in ended] == ["b", "c"]
    ended.discard("b")
    ended.discard("never added")
    assert [uid for uid in "abc" if uid in ended] == ["c"]
    ended.clear()
    assert "c" not in ended


FORBIDDEN = ForbiddenError("pods", "web", "not yours")
STATUS = {"ErrStatus": FORBIDDEN.status()}


@pytest.mark.parametrize(
    ("resource", "operation", "expected"),
    [
        ("default/podstatus", "update", []),
        ("default/nodestatus/n1", "update", []),
        ("default/event/e", "insert", []),
        ("default/event/e", "patch", []),
        ("default/nodestatus/n1", "insert", [(FORBIDDEN.message, "node")]),
        ("default/serviceaccounttoken/a", "query", [(STATUS, "")]),
        ("default/pod/web", "delete", [(STATUS, "")]),
        ("default/configmap/c", "query", [({"Object": None, "Err": STATUS}, "")]),
        ("default/node/n1", "query", [({"Object": None, "Err": STATUS}, "")]),
        ("default/lease/n1", "update", [("Lease", "")]),
        ("default/nodepatch/n1", "patch", [("Node", "")]),
        ("default/podpatch/web", "patch", [("Pod", "")]),
        ("default/pod/web", "insert", [("Pod", "")]),
    ],
)
def test_a_forbidden_request_is_answered_in_kubeedges_form(
    bee: Harness, resource: str, operation: str, expected: list[tuple[Any, str]]
) -> None:
    """With the empty Go struct of the kind beside the error, where KubeEdge's edge decodes one."""
    results = refusal_responses(bee.message(f"node/n1/{resource}", operation), FORBIDDEN)
    found = [(each.content, each.resource_type) for each in results if isinstance(each, UpstreamResponse)]
    assert len(found) == len(results)
    for (content, kind), (wanted, wanted_kind) in zip(found, expected, strict=True):
        assert kind == wanted_kind
        if wanted in ("Lease", "Node", "Pod"):
            assert content["Err"] == STATUS
            assert content["Object"]["metadata"] == {"creationTimestamp": None}
        else:
            assert content == wanted


@pytest.mark.parametrize("operation", ["query", "update"])
def test_what_fails_is_answered_in_the_form_of_an_object(bee: Harness, operation: str) -> None:
    """An edge would take a bare error for the object; a 404 of a query is one that KubeEdge's edge knows."""
    request = bee.message("node/n1/default/lease/n1", operation)
    failed, missing = InternalError("no"), NotFoundError("leases", "n1")
    contents = [refusal_responses(request, each)[0].content for each in (failed, missing)]
    bare = [{"ErrStatus": each.status()} for each in (failed, missing)]
    empty = None if operation == "query" else {"metadata": {"creationTimestamp": None}, "spec": {}}
    formed = [{"Object": empty, "Err": each} for each in bare]
    assert contents == ([formed[0], bare[1]] if operation == "query" else formed)


@pytest.mark.parametrize(
    ("metadata", "missing"),
    [
        ({"resourceVersion": "11"}, ["gone"]),
        pytest.param({"resourceVersion": "10"}, [], id="the pod may be of this version"),
        pytest.param({"resourceVersion": "11", "continue": "more"}, [], id="the first page"),
    ],
)
def test_a_list_shows_that_an_older_pod_is_gone(metadata: JsonObject, missing: list[str]) -> None:
    options: JsonObject = {"fieldSelector": "spec.nodeName=n1"}
    call = ApiCall(verb="list", api_version="v1", plural="pods", options=options)
    known = [
        {"metadata": {"uid": uid, "resourceVersion": "10"}, "spec": {"nodeName": place}}
        for uid, place in (("gone", "n1"), ("there", "n1"), ("elsewhere", "n2"))
    ]
    result = ApiResult({"metadata": metadata, "items": [{"metadata": {"uid": "there"}}]})
    assert [pod["metadata"]["uid"] for pod in missing_pods(call, "n1", result, known)] == missing


def test_a_pod_has_started_once() -> None:
    """A node that has lost its store reports another time."""
    pod = {"status": {"startTime": "2026-01-01T00:00:00Z"}}
    assert merged_pod_status(pod, {"startTime": "2026-01-02T00:00:00Z"}, 0.0)["startTime"] == "2026-01-01T00:00:00Z"


def test_connections_that_were_missed_begin_when_they_began_and_replace_those_before() -> None:
    """A cloudcore that is slow must not claim a node from one to which it has connected since."""
    told: list[Any] = []
    module = mock.Mock(clock=SimpleNamespace(now=lambda: 1000.0))
    module.message = lambda resource, operation, content=None: Message(content=(resource, operation, content))
    takes = SimpleNamespace(
        on_connected=lambda message: told.append(message.content),
        on_disconnected=lambda message: told.append(message.content),
    )
    known = {node: ClaimedConnection(link, 0) for node, link in (("same", "a"), ("again", "b"), ("gone", "c"))}
    MissedConnections(module, takes, mock.Mock(connected=known)).ask()
    take = module.request.call_args.args[3]
    present = [
        NodeConnection(node, seconds, 0.0, connection=connection)
        for node, seconds, connection in (("same", 90.0, "a"), ("again", 30.0, "d"), ("new", 7.25, "e"))
    ]
    take(mock.Mock(spec=Message, content_as=lambda _: present))
    connected, disconnected = Operation.CONNECTED.value, Operation.DISCONNECTED.value
    assert [event for _, _, event in told] == [
        ConnectEvent(disconnected, 1000, "gone", "c", at=1000.0),
        ConnectEvent(connected, 970, "again", "d", at=970.0),
        ConnectEvent(connected, 992, "new", "e", at=992.75),
    ]
    take(mock.Mock())
    assert module.after.call_count == 1, "without an answer it asks again"


def test_of_several_acknowledged_pods_the_newest_counts_in_any_order() -> None:
    syncs = SimpleNamespace(of=lambda _node: {"u": ObjectSync(WEB)}, acknowledged=lambda *_: None)
    connections: Any = mock.Mock(_object_syncs=syncs)
    NodeConnections.acknowledged(
        connections, [Acknowledged("n1", "u", version, is_delete=False) for version in (3, 9, 5)]
    )
    connections.epochs.record.assert_called_once_with(9)


def test_who_has_a_node_elsewhere_is_known_after_the_end_of_its_connection_here() -> None:
    """A beginning of a connection that is told late does not take the node back."""
    elsewhere = Holder("other", 9.0)
    record, _ = step(NodeRecord(connection="a", elsewhere=elsewhere), Disconnected("a"), mock.Mock())
    assert record == NodeRecord(elsewhere=elsewhere)


def _request(bee: Harness, resource: str, operation: str, content: Any) -> UpstreamRequest:
    message = bee.message(f"node/n1/default/{resource}", operation, content)
    return UpstreamRequest("n1", "default", resource.partition("/")[2], message)


@pytest.mark.parametrize(("code", "is_ok"), [(404, True), (409, True), (403, False), (503, False)])
def test_a_pod_that_is_gone_or_another_was_deleted(bee: Harness, code: int, *, is_ok: bool) -> None:
    steps = pods.delete(_request(bee, "pod/web", "delete", "u"))
    next(steps)
    with pytest.raises(StopIteration) as end:
        steps.throw(RefusedError({"code": code, "message": "no"}))
    assert (end.value.value == [UpstreamResponse()]) is is_ok


@pytest.mark.parametrize(("operation", "code", "verb"), [("insert", 409, "update"), ("update", 404, "create")])
def test_an_event_is_stored_whatever_its_node_knows(bee: Harness, operation: str, code: int, verb: str) -> None:
    event = {"metadata": {"name": "e", "namespace": "default", "resourceVersion": "7"}, "involvedObject": {}}
    steps = objects.record_event(_request(bee, "event/e", operation, event))
    assert "resourceVersion" not in next(steps).body["metadata"]
    assert steps.throw(RefusedError({"code": code})).verb == verb


def test_a_handled_message_is_settled_once() -> None:
    module = mock.Mock(clock=SimpleNamespace(monotonic=lambda: 1.0))
    handled, message = HandledMessages(module, {}), mock.MagicMock()
    handled.count(message, 0.0, is_answered=True)
    for _ in range(2):
        handled.report()
    module.settle.assert_called_once_with(message)


def test_handled_messages_without_answers_are_counted_by_node_with_their_durations() -> None:
    module, durations = mock.Mock(clock=SimpleNamespace(monotonic=lambda: 105.0)), mock.MagicMock()
    durations.get.return_value = of_kind = mock.Mock()
    handled = HandledMessages(module, durations)
    for node, is_answered in (("n1", False), ("n1", False), ("n1", True), ("n2", True)):
        message = mock.MagicMock()
        message.subject_on_cloud.node = node
        handled.count(message, 100.0, is_answered=is_answered)
    handled.report()
    assert module.message.call_args.args[-1] == {"n1": 2}
    assert of_kind.observe.call_args_list == [mock.call(5.0)] * 4


def test_a_lease_that_cannot_be_read_is_no_cloudcores() -> None:
    listener = mock.Mock()
    _notify(listener, Added(ObservedObject("default", "other", "u", "1", b"{")))
    listener.gone.assert_called_once_with("other")


def test_the_end_of_a_call_whose_place_another_takes_comes_in_a_turn_of_its_own() -> None:
    """Not amid the work that makes the other call, with which it would be undone."""
    ends: list[Callable[[Any], None]] = []
    later: list[Callable[[], None]] = []

    def call(*args: Any, **_: Any) -> None:
        if ends:
            ends.pop()(CallSuperseded(1))
        ends.append(args[2])

    calls = ClusterCalls(mock.MagicMock(), mock.Mock(call_soon=later.append))
    made = ApiCall(verb="get", api_version="v1", plural="pods", name="web")
    calls._client = mock.Mock(call=mock.Mock(side_effect=RecursionError))
    with pytest.raises(RecursionError):  # which makes no other end wait for ever
        calls.send(made, mock.Mock())
    calls._client = mock.Mock(call=call)
    answers: list[str] = []
    for name in ("first", "second"):
        calls.send(made, lambda _result, name=name: answers.append(name))  # type: ignore[misc]
    assert answers == []
    later.pop()()
    ends.pop()(CallAnswered(2, ApiResult({})))
    assert answers == ["first", "second"]
