"""edgecontroller with the API server of a cluster, alone on a hive, in virtual time."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, kind_named, uid_of
from modules.cloud import api_messages
from modules.cloud.client.calls import JSON_PATCH, MERGE, STRATEGIC, ApiCall, ApiResult
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.storage.object_sync import ObjectSync
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer, FakeExchange, code
from tests.modules.cloud.edgecontroller.controller import USES, WEB
from tests.modules.cloud.objects import configmap, node, pod, secret

_NAMESPACE = kind_named("Namespace")
TAINTS = [{"key": "quarantine", "effect": "NoExecute"}]
RUNNING = json.dumps({"status": {"phase": "Running"}})


def asked(core: ClusterController, verb: str, plural: str, name: str = "", **fields: Any) -> ApiResult:
    """A request of the metaserver of n1."""
    fields = {"api_version": "v1", "namespace": "default", "node": "n1", **fields}
    call = ApiCall(verb=verb, plural=plural, name=name, **fields)
    request = core.bee.message("cloudcore/objects", "call", call, source="dynamiccontroller")
    return core.bee.ask(EdgeController.name, request).content_as(ApiResult)


def node_in(core: ClusterController) -> dict[str, Any]:
    """The Node n1 as the API server has it."""
    return core.server.cluster.storage.get(ObjectKey("Node", "", "n1"))


def without_version(obj: dict[str, Any]) -> dict[str, Any]:
    """An object that replaces any state of the stored one."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "resourceVersion"}
    return {**obj, "metadata": metadata}


def test_a_bound_pod_is_sent_with_its_references(core: ClusterController) -> None:
    core.applied(configmap(a="1"), pod(**USES))
    assert sorted(core.down()) == ["insert node/n1/default/configmap/settings", "insert node/n1/default/pod/web"]


def test_a_reported_status_reaches_the_cluster_and_comes_back(core: ClusterController) -> None:
    core.applied(pod())
    core.down()
    request = core.asks("default/podpatch/web", "patch", RUNNING)
    assert core.answer_to(request).content["Err"] is None
    assert core.down() == ["update node/n1/default/pod/web"]
    assert core.handled() == [], "it was forgotten with the rest"
    (patch,) = core.server.requests
    assert patch.body["metadata"] == {"uid": core.server.cluster.storage.get(WEB)["metadata"]["uid"]}


def test_the_handling_of_a_status_is_measured_until_its_answer(core: ClusterController) -> None:
    """Also of one that the API server refuses, by its type."""
    core.applied(pod())
    core.server.hold("pods")
    core.asks("default/podpatch/web", "patch", RUNNING)
    core.bee.run_for(3.0)
    assert core.remote.counters.node_requests == {}
    core.server.release()
    core.asks("default/podpatch/gone", "patch", RUNNING)
    core.bee.settle()
    (resource_type, durations), *others = core.remote.counters.node_requests.items()
    assert (resource_type, others) == ("podpatch", [])
    assert dict(durations.buckets()) == {"0.005": 1, "0.025": 1, "0.1": 1, "0.5": 1, "2.5": 1, "10.0": 2, "+Inf": 2}
    assert 3.0 <= durations.total < 3.1


def test_messages_wait_until_the_lists_are_complete() -> None:
    """Nothing is answered, and nothing deleted on nodes, before; then each is handled, once."""
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        server.apply(configmap(a="1"), pod(**USES))
        server.hold("configmaps")
        core = ClusterController(bee, server)
        request = core.asks("default/podpatch/web", "patch", RUNNING)
        unknown = core.asks("default/podpatch/gone", "patch", json.dumps({"metadata": {"uid": "x"}, "status": {}}))
        assert bee.sent_to("cloudhub") == []
        server.release()
        bee.settle()
        assert core.answer_to(request).content["Err"] is None
        assert core.answer_to(unknown).content["Err"]["ErrStatus"]["code"] == 404
        assert sum(one["n1"] for one in core.handled()) == 2
        sent = core.down()
        assert "delete node/n1/default/pod/gone" in sent
        assert sent.count("insert node/n1/default/pod/web") == 1
        assert sent.count("insert node/n1/default/configmap/settings") == 1


@pytest.mark.parametrize(("plural", "is_served"), [("csidrivers", True), ("pods", False)])
def test_a_kind_without_which_nodes_can_be_served_may_be_forbidden(plural: str, is_served: bool) -> None:
    """Without pods no node is served: its pods would be deleted."""
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        server.answers[plural] = lambda exchange: exchange.answer(403, {"kind": "Status", "message": "no"})
        core = ClusterController(bee, server)
        request = core.asks("null/node/n1", "query")
        answered = [one for one in bee.sent_to("cloudhub") if one.parent_id == request.id]
        assert bool(answered) is is_served


def test_a_forbidden_kind_is_watched_once_it_is_allowed() -> None:
    """It is asked for again, within a minute."""
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        server.answers["configmaps"] = lambda exchange: exchange.answer(403, {"kind": "Status"})
        core = ClusterController(bee, server)
        server.apply(configmap(a="1"), pod(**USES))
        assert core.down() == ["insert node/n1/default/pod/web"]
        server.answers.clear()
        bee.run_for(61.0)
        assert "insert node/n1/default/configmap/settings" in core.down()


@pytest.mark.modules_fail
def test_a_bad_object_in_a_list_does_no_harm_to_the_others() -> None:
    """One is no object, one has other types than its kind: the rest is served."""
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        good = {**pod(), "metadata": {"name": "web", "namespace": "default", "uid": "u1", "resourceVersion": "5"}}
        bad: list[Any] = [{}, 7, {"metadata": {}}]
        for number, spec in enumerate([None, 7, {"volumes": 7}, {"nodeName": [], "containers": [{"env": 1}]}]):
            meta = {"name": f"bad{number}", "namespace": "default", "uid": f"b{number}", "resourceVersion": "5"}
            bad.append({"metadata": meta, "spec": spec})
        items = {"metadata": {"resourceVersion": "9"}, "items": [*bad, good]}
        server.answers["pods"] = lambda exchange: (
            exchange.head() if exchange.request.stream else exchange.answer(200, items)
        )
        core = ClusterController(bee, server)
        assert core.down() == ["insert node/n1/default/pod/web"]


def test_the_answer_of_a_lost_patch_comes_with_its_retry(core: ClusterController) -> None:
    """A merge patch may be sent twice."""
    core.applied(pod())
    core.server.answers["pods"] = lambda exchange: exchange.break_off()
    request = core.asks("default/podpatch/web", "patch", RUNNING)
    core.server.answers.clear()
    core.bee.run_for(30.0)
    assert core.answer_to(request).content["Err"] is None
    assert [one.verb for one in core.server.requests] == ["patch", "patch"]


@pytest.mark.parametrize(("options", "times"), [({}, 1), ({"preconditions": {"uid": "u1"}}, 2)])
def test_a_deletion_whose_answer_was_lost_deletes_no_later_object(
    core: ClusterController, options: dict[str, Any], times: int
) -> None:
    """Without a precondition it is not made again: another object may have the name by then."""
    core.server.apply(configmap(a="1"))
    core.server.answers["configmaps"] = lambda exchange: exchange.break_off()
    call = ApiCall(
        verb="delete", api_version="v1", plural="configmaps", namespace="default", name="settings", options=options
    )
    request = core.bee.message("cloudcore/objects", "call", call, source=api_messages.SOURCE)
    answer = core.bee.future(EdgeController.name, request)
    core.bee.settle()
    core.server.answers.clear()
    core.bee.run_for(30.0)
    assert [one.verb for one in core.server.requests] == ["delete"] * times
    assert code(answer.get().content_as(ApiResult)) == (409 if options else 503)


def test_a_429_is_waited_out(core: ClusterController) -> None:
    core.applied(pod())
    core.server.answers["pods"] = lambda exchange: exchange.answer(429, b"slow down", ("retry-after", "7"))
    request = core.asks("default/podpatch/web", "patch", RUNNING)
    core.server.answers.clear()
    core.bee.run_for(6.0)
    assert [one.parent_id for one in core.bee.sent_to("cloudhub") if one.parent_id == request.id] == []
    core.bee.run_for(2.0)
    assert core.answer_to(request).content["Err"] is None


def test_after_a_restore_nodes_get_the_restored_objects_once(core: ClusterController) -> None:
    """All acknowledged versions are higher than the restored ones."""
    core.applied(pod())
    backup = core.server.objects()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    for phase in ("Pending", "Running"):
        core.asks("default/podpatch/web", "patch", json.dumps({"status": {"phase": phase}}))
    core.acknowledged(uid, core.server.cluster.storage.version)
    core.down()
    core.server.restore(backup)
    assert core.down(after=9.0) == ["disconnected node/n1"], "cloudhub would take the restored objects for old ones"
    core.connected()
    assert core.down() == ["insert node/n1/default/pod/web"]
    core.acknowledged(uid, int(core.server.cluster.storage.get(WEB)["metadata"]["resourceVersion"]))
    assert core.down(after=60.0) == []


def test_after_a_database_failure_the_module_restarts(core: ClusterController) -> None:
    """Answers to the calls of before reach nobody, and the objects are listed again."""
    core.bee.expect_failures()
    core.applied(pod())
    core.server.hold("pods")
    core.asks("default/podpatch/web", "patch", RUNNING)
    assert len(core.server.held) == 1
    core.database_fails()
    core.acknowledged("unknown", 1)
    core.bee.run_for(5.0)
    assert core.server.closed == 1
    core.down()
    core.server.release()
    assert core.down(after=4.0) == ["insert node/n1/default/pod/web"], "it is not acknowledged"
    request = core.asks("default/podpatch/web", "patch", RUNNING)
    assert core.answer_to(request).content["Err"] is None


def test_the_answer_to_a_node_that_has_gone_does_no_harm(core: ClusterController) -> None:
    """It is handed to cloudhub, which drops it; nothing is recorded for the node."""
    core.applied(secret(), pod(imagePullSecrets=[{"name": "key"}]))
    core.server.hold("pods")
    request = core.asks("default/podpatch/web", "patch", RUNNING)
    core.of_link("disconnected", 1)
    core.down()
    core.server.release()
    core.bee.settle()
    assert core.answer_to(request).content["Err"] is None
    assert core.unasked() == [], "no change is sent to a node that has gone"
    assert core.handled() == [{"n1": 1}]


@pytest.mark.parametrize("reconnects", [False, True])
def test_a_pod_that_a_late_answer_lacks_is_deleted_once_before_the_next_of_its_name(
    core: ClusterController, *, reconnects: bool
) -> None:
    """An edge of 2019 deletes by name, and would forget the next pod."""
    core.applied(pod())
    core.down()
    former = uid_of(core.server.cluster.storage.get(WEB))
    core.server.hold("pods")
    report = json.dumps({"metadata": {"uid": former}, "status": {"phase": "Running"}})
    request = core.asks("default/podpatch/web", "patch", report)
    core.removed("pods", "web")
    assert core.down()[-1] == "delete node/n1/default/pod/web"
    core.acknowledged(former, 0, is_delete=True)
    if reconnects:
        core.connected()
    core.applied(pod())
    assert core.down() == ["insert node/n1/default/pod/web"]
    core.server.release()
    core.bee.settle()
    assert core.answer_to(request).content["Err"]["ErrStatus"]["code"] == 422, "the pod of the name has another uid"
    assert [each for each in core.down(after=60.0) if each.startswith("delete")] == []


HOSTILE: list[Any] = [
    {"metadata": {"labels": ["a"]}},
    {"metadata": {"labels": [{}]}},
    {"metadata": {"labels": 7}},
    {"metadata": {"ownerReferences": 7}, "spec": {"taints": 7}},
    {"spec": 7},
]


@pytest.mark.modules_fail
@pytest.mark.parametrize("body", HOSTILE)
def test_a_hostile_body_stops_nothing_whenever_the_object_is_known(core: ClusterController, body: Any) -> None:
    """The mirror does not have the Node yet, so that the admission comes with the answer of the API server, when no
    message is at work.
    """
    core.server.stop_watches()
    core.server.apply({"kind": "Node", "apiVersion": "v1", **node(a="1")})
    result = asked(core, "patch", "nodes", "n1", namespace="", patch_type=MERGE, body=body)
    assert 400 <= code(result) < 500 or result.object is not None
    assert core.server.closed == 0, "the module has not failed"


@pytest.mark.parametrize("is_known", [False, True])
def test_a_deeply_nested_patch_is_refused(core: ClusterController, is_known: bool) -> None:
    """Whether the object is in the mirror or must be read first."""
    if not is_known:
        core.server.stop_watches()
    core.applied({"kind": "Node", "apiVersion": "v1", **node(a="1")})
    value: dict[str, Any] = {}
    for _ in range(200):
        value = {"a": value}
    body = [{"op": "add", "path": "/status" + "/a" * number, "value": value} for number in (0, 200, 400, 600)]
    result = asked(core, "patch", "nodes", "n1", namespace="", patch_type=JSON_PATCH, body=body)
    assert code(result) == 400
    assert core.server.closed == 0, "the module has not failed"


RESTRICTED = "node-restriction.kubernetes.io/zone"
BACK: list[tuple[str, dict[str, Any]]] = [
    ("update", {}),
    ("updatestatus", {}),
    ("patch", {"patch_type": STRATEGIC, "body": {"spec": {"taints": []}}}),
    ("patch", {"patch_type": MERGE, "body": {"spec": {"taints": None}}}),
    ("patch", {"patch_type": MERGE, "body": {"metadata": {"labels": {RESTRICTED: None}}}}),
    ("patch", {"patch_type": JSON_PATCH, "body": [{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}]}),
]


@pytest.mark.parametrize(("verb", "fields"), BACK)
def test_a_late_watch_is_no_way_to_take_back_what_others_set(
    core: ClusterController, verb: str, fields: dict[str, Any]
) -> None:
    """The node writes its former state, while the mirror does not have the new taint and label yet."""
    kind = {"kind": "Node", "apiVersion": "v1"}
    core.applied({**kind, **node(a="1")})
    former = node_in(core)
    core.server.stop_watches()
    core.server.apply({**kind, **node(a="1", **{RESTRICTED: "z"}), "spec": {"taints": TAINTS}})
    given = {"body": without_version(former), **fields}
    assert code(asked(core, verb, "nodes", "n1", namespace="", **given)) == 403
    present = node_in(core)
    assert (present["spec"]["taints"], present["metadata"]["labels"][RESTRICTED]) == (TAINTS, "z")


def test_a_late_watch_does_not_keep_a_node_from_its_own_labels(core: ClusterController) -> None:
    """The write is made with the state that the API server has."""
    kind = {"kind": "Node", "apiVersion": "v1"}
    core.applied({**kind, **node(a="1")})
    core.server.stop_watches()
    core.server.apply({**kind, **node(a="1", **{RESTRICTED: "z"})})
    body = {"metadata": {"labels": {"b": "2"}}}
    assert code(asked(core, "patch", "nodes", "n1", namespace="", patch_type=MERGE, body=body)) == 0
    labels = node_in(core)["metadata"]["labels"]
    assert (labels["b"], labels[RESTRICTED]) == ("2", "z")


def test_an_update_with_a_version_is_of_that_version_and_no_other(core: ClusterController) -> None:
    """Also when the mirror has another one, older or newer."""
    kind = {"kind": "Node", "apiVersion": "v1"}
    core.applied({**kind, **node(a="1")})
    first = node_in(core)
    core.server.stop_watches()
    core.server.apply({**kind, **node(a="1", b="2")})
    second = node_in(core)
    assert code(asked(core, "update", "nodes", "n1", namespace="", body=first)) == 409
    assert node_in(core) == second
    changed = {**second, "metadata": {**second["metadata"], "labels": {"c": "3"}}}
    assert code(asked(core, "update", "nodes", "n1", namespace="", body=changed)) == 0
    assert node_in(core)["metadata"]["labels"] == {"c": "3"}


def test_a_body_is_no_way_to_delete_the_pod_of_another(core: ClusterController) -> None:
    """The uid in a body that is not sent has no say."""
    core.applied(pod(nodeName="n2"))
    for fields in ({"body": {"metadata": {"uid": "other"}}}, {"options": {"preconditions": {"uid": "other"}}}, {}):
        assert code(asked(core, "delete", "pods", "web", **fields)) in {403, 409}
    assert core.server.cluster.storage.find(WEB) is not None
    assert {one.verb for one in core.server.requests} <= {"get"}


@pytest.mark.parametrize("verb", ["get", "delete", "update", "updatestatus", "patch"])
def test_a_call_without_a_name_never_becomes_one_for_all(core: ClusterController, verb: str) -> None:
    core.applied(pod(nodeName="n2"), pod("db", nodeName="n2"))
    body = {"metadata": {"uid": "other"}}
    for namespace in ("", "default"):
        result = asked(core, verb, "pods", namespace=namespace, body=body)
        assert 400 <= code(result) < 500
    assert core.server.requests == []
    assert len(core.server.objects()) == len({"web", "db"}) + len(core.server.cluster.storage.list(_NAMESPACE))


def test_a_list_of_its_own_pods_names_none_of_another(core: ClusterController) -> None:
    """A name would make the list a read of that pod, whatever the selector says."""
    core.applied(pod(nodeName="n2"))
    result = asked(core, "list", "pods", "web", options={"fieldSelector": "spec.nodeName=n1"})
    assert result.object is not None
    assert "items" in result.object


@pytest.mark.parametrize("node_name", ["", "n2"])
def test_a_pod_that_the_mirror_does_not_have_is_not_shown_to_others(core: ClusterController, node_name: str) -> None:
    """A pod without a node is never in the mirror, one just bound not yet."""
    core.server.stop_watches()
    core.applied(pod(nodeName=node_name))
    assert code(asked(core, "get", "pods", "web")) == 403
    core.server.apply(pod("mine", nodeName="n1"))
    assert asked(core, "get", "pods", "mine").object is not None


def test_a_request_for_a_certificate_is_made_in_the_name_of_the_node(core: ClusterController) -> None:
    spec = {"request": "eA==", "signerName": "example.com/own", "usages": ["client auth"]}
    core.asks("null/certificatesigningrequest/c", "insert", {"metadata": {"name": "c"}, "spec": spec})
    assert core.server.impersonated == ["system:node:n1"]


def test_a_node_deletes_its_lease(core: ClusterController) -> None:
    place = {"api_version": "coordination.k8s.io/v1", "namespace": "kube-node-lease"}
    lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {}}
    assert asked(core, "create", "leases", body=lease, **place).created
    assert code(asked(core, "delete", "leases", "n1", **place)) == 0
    assert code(asked(core, "get", "leases", "n1", **place)) == 404


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_a_pod_that_its_node_has_ended_is_deleted_there_soon(core: ClusterController, is_mirrored: bool) -> None:
    """Also when the watch is silent, and when the mirror never had the pod: the node waits for the deletion."""
    if not is_mirrored:
        core.server.stop_watches()
    core.applied(pod())
    core.server.stop_watches()
    core.down()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    request = core.asks("default/pod/web", "delete", {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
    assert core.answer_to(request).content == "OK"
    core.bee.run_for(3.0)
    (deletion,) = core.unasked()
    assert f"{deletion.route.operation} {deletion.route.resource}" == "delete node/n1/default/pod/web"
    assert deletion.content["metadata"]["uid"] == uid


def test_a_watch_that_is_behind_does_not_bring_back_a_pod_that_has_ended(core: ClusterController) -> None:
    """What it tells of the pod is old; a new pod of the name is another one."""
    core.applied(pod())
    watches = core.server.hold_watches()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    core.asks("default/podpatch/web", "patch", RUNNING)
    core.asks("default/pod/web", "delete", {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
    core.applied(pod(), seconds=3.0)
    core.down()
    core.server.go_on(watches)
    assert core.down() == ["insert node/n1/default/pod/web"]


def test_writes_to_a_pod_that_the_mirror_does_not_have_keep_their_order(core: ClusterController) -> None:
    """Each follows a read, and the later read may be answered first."""
    core.server.stop_watches()
    core.server.apply(pod())
    core.server.hold("pods")
    patches = [json.dumps({"status": {"phase": phase}}) for phase in ("Running", "Succeeded")]
    requests = [core.asks("default/podpatch/web", "patch", patch) for patch in patches]
    core.server.held.reverse()
    core.server.release()
    core.bee.settle()
    assert [core.answer_to(request).content["Err"] for request in requests] == [None, None]
    assert core.server.cluster.storage.get(WEB)["status"]["phase"] == "Succeeded"


def test_a_newer_status_takes_the_place_of_one_that_waits(core: ClusterController) -> None:
    """The node is told that the earlier one was not written: it may have more than the newer one."""
    core.applied(pod())
    core.server.hold("pods")
    patches = [json.dumps({"status": {"phase": phase}}) for phase in ("Pending", "Running", "Succeeded")]
    requests = [core.asks("default/podpatch/web", "patch", patch) for patch in patches]
    core.server.release()
    core.bee.settle()
    first, second, third = (core.answer_to(request).content["Err"] for request in requests)
    assert (first, second["ErrStatus"]["code"], third) == (None, 503, None)
    assert core.server.cluster.storage.get(WEB)["status"]["phase"] == "Succeeded"
    assert [one.body["status"]["phase"] for one in core.server.requests] == ["Pending", "Succeeded"]
    assert core.server.closed == 0, "the module has not failed"


def test_objects_that_the_watch_has_not_delivered_yet_are_not_deleted_on_a_node(core: ClusterController) -> None:
    """A node gets a new configmap by its query, and connects again: only a newer state without the object says that it
    is gone.
    """
    core.applied(pod(**USES))
    watches = core.server.hold_watches()
    core.server.apply(configmap(a="1"))
    assert core.answer_to(core.asks("default/configmap/settings", "query")).content["kind"] == "ConfigMap"
    core.connected(seconds=30.0)
    assert [one for one in core.down() if one.startswith("delete")] == []
    core.server.remove("configmap", "settings")
    core.server.go_on(watches)
    assert "delete node/n1/default/configmap/settings" in core.down(after=30.0)


def _lists(core: ClusterController) -> None:
    result = asked(core, "list", "pods", namespace="", options={"fieldSelector": "spec.nodeName=n1"})
    assert result.object is not None
    assert [one["metadata"]["name"] for one in result.object["items"]] == ["web"]


def _reports(core: ClusterController) -> None:
    assert core.answer_to(core.asks("default/podpatch/web", "patch", RUNNING)).content["Err"] is None


def _creates(core: ClusterController) -> None:
    core.server.remove("pod", "web")
    uid = node_in(core)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": True}
    annotations = {"kubernetes.io/config.mirror": "hash"}
    metadata = {"name": "web", "annotations": annotations, "ownerReferences": [owner]}
    answer = core.answer_to(core.asks("default/pod/web", "insert", {**pod(), "metadata": metadata}))
    assert answer.content["Err"] is None


@pytest.mark.parametrize("answered", [_lists, _reports, _creates])
def test_the_end_of_a_pod_that_no_watch_has_told_of_is_sent(
    core: ClusterController, answered: Callable[[ClusterController], None]
) -> None:
    """The node has it from an answer. It was made and deleted while the watches were broken."""
    core.asks("null/node/n1", "insert", node())
    core.bee.settle()
    core.acknowledged(node_in(core)["metadata"]["uid"], int(node_in(core)["metadata"]["resourceVersion"]))
    watches = core.server.hold_watches()
    core.server.apply(pod())
    answered(core)
    core.down()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    assert core.down(after=30.0) == [], "the watches may be late only"
    core.server.remove("pod", "web")
    core.server.expire(watches)
    core.bee.run_for(30.0)
    deletions = core.unasked()
    assert {f"{one.route.operation} {one.route.resource}" for one in deletions} == {"delete node/n1/default/pod/web"}
    assert {one.content["metadata"]["uid"] for one in deletions} == {uid}
    core.acknowledged(uid, 0, is_delete=True)
    core.bee.settle()
    core.bee.forget()
    assert core.down(after=30.0) == []


def test_a_pod_that_a_node_has_listed_is_not_taken_for_deleted_amid_a_list(core: ClusterController) -> None:
    """The first page of the list has a newer pod; the next page, with the node's, does not come."""
    core.asks("null/node/n1", "insert", node())
    core.bee.settle()
    watches = core.server.hold_watches()
    core.server.apply(pod())
    _lists(core)
    core.server.apply(pod("app"))
    core.down()

    def pages(exchange: FakeExchange) -> None:
        if "continue" in exchange.query:
            core.server.held.append(exchange)
            return
        app = core.server.cluster.storage.get(ObjectKey("Pod", "default", "app"))
        metadata = {"resourceVersion": app["metadata"]["resourceVersion"], "continue": "next"}
        exchange.answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": [app]})

    core.server.answers["pods"] = pages
    core.server.expire(watches)
    core.bee.run_for(50.0)
    assert core.server.held
    told = core.down()
    assert "insert node/n1/default/pod/app" in told
    core.server.release()
    assert not [one for one in (*told, *core.down(after=30.0)) if one.startswith("delete")]


def test_the_end_of_a_pod_that_a_node_has_listed_needs_no_watch_if_the_node_ends_it(core: ClusterController) -> None:
    """The node waits for the deletion, whatever was recorded about the pod."""
    core.server.hold_watches()
    core.server.apply(pod())
    _lists(core)
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    for _ in range(2):
        core.asks("default/pod/web", "delete", {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
    assert core.down(after=3.0) == ["delete node/n1/default/pod/web"]


@pytest.mark.parametrize("later", ["other", "web"])
def test_a_pod_of_a_restored_api_server_is_not_deleted_on_a_node_that_has_listed_it(
    core: ClusterController, later: str
) -> None:
    """Its version is lower than what the watch has told, and the mirror has no such pod, as it was deleted since. A pod
    that has had its name since is not sent.
    """
    core.server.apply(pod())
    backup = core.server.objects()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    core.server.remove("pod", "web")
    core.applied(pod(later))
    core.acknowledged(uid, 0, is_delete=True)
    core.bee.settle()
    core.server.hold_watches()
    core.down()
    core.server.restore(backup)
    _lists(core)
    assert [one for one in core.down(after=30.0) if "web" in one] == []


def test_an_answer_about_a_certificate_records_nothing(core: ClusterController) -> None:
    """No watch tells of such requests: the node would be sent the deletion of its own."""
    metadata = {"name": "mine", "uid": "u1", "resourceVersion": "5"}
    spec = {"username": "system:node:n1"}
    found = {
        "kind": "CertificateSigningRequest", "apiVersion": "certificates.k8s.io/v1", "metadata": metadata, "spec": spec,
    }  # fmt: skip
    core.server.answers["certificatesigningrequests"] = lambda exchange: exchange.answer(200, found)
    answer = core.answer_to(core.asks("null/certificatesigningrequest/mine", "query"))
    assert answer.content["metadata"]["uid"] == "u1"
    assert core.down(after=30.0) == []


def test_a_list_tells_of_a_deletion_before_the_watch(core: ClusterController) -> None:
    """A node that has learned of its pod's removal from a list does not get it again."""
    core.applied(pod())
    core.server.stop_watches()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    core.server.remove("pod", "web")
    core.down()
    result = asked(core, "list", "pods", namespace="", options={"fieldSelector": "spec.nodeName=n1"})
    assert result.object is not None
    assert result.object["items"] == []
    (deletion,) = core.unasked()
    assert deletion.content["metadata"]["uid"] == uid
    core.bee.forget()
    core.connected()
    assert [one for one in core.down() if one.startswith("insert")] == []


def test_a_pod_that_the_watch_has_passed_over_is_not_deleted(core: ClusterController) -> None:
    """The API server was restored, and others wrote beyond the version that the watch had seen: no version shows that
    (simulation, state, seed 66038). All is listed again.
    """
    watches = core.server.hold_watches()
    core.server.apply(pod("made"))
    result = asked(core, "list", "pods", namespace="", options={"fieldSelector": "spec.nodeName=n1"})
    assert [each["metadata"]["name"] for each in (result.object or {})["items"]] == ["made"]
    core.server.apply(pod("later"))
    (watch,) = (one for one in watches if one.call.plural == "pods")
    watch.tell("ADDED", core.server.cluster.storage.get(ObjectKey("Pod", "default", "later")))
    assert set(core.down(after=60.0)) == {"insert node/n1/default/pod/later", "insert node/n1/default/pod/made"}
    assert "delete node/n1/default/pod/made" not in core.down(after=60.0)


def test_a_pod_that_cannot_be_read_is_neither_deleted_nor_listed_for_ever(core: ClusterController) -> None:
    """It is in no list, and the API server has it."""
    server = core.server
    live = {**pod("ghost"), "metadata": {"name": "ghost", "namespace": "default", "uid": "g", "resourceVersion": "1"}}

    def answer(exchange: FakeExchange) -> None:
        if exchange.call.name == "ghost":
            exchange.answer(200, live)
        elif exchange.request.stream:
            server._watch(exchange)
        else:
            server._answer(exchange)

    server.answers["pods"] = answer
    server.lists.clear()
    for _ in range(3):
        core.database.begin()
        core.database.put_object_sync("n1", "g", ObjectSync(ObjectKey("Pod", "default", "ghost"), 1))
        core.database.commit(1)
        core.connected(seconds=30.0)
    assert "delete node/n1/default/pod/ghost" not in core.down()
    assert [kind for kind, _ in server.lists].count("pods") == 1


def test_what_a_node_has_in_a_version_from_before_a_restore_does_not_stay(core: ClusterController) -> None:
    """cloudcore was started after it (simulation, api, seed 73026): no watch will tell of the version for long."""
    core.server.apply(configmap())
    for uid, version in (("u", 1_000_000), ("v", 1_000_001)):
        core.database.begin()
        core.database.put_object_sync("n1", uid, ObjectSync(ObjectKey("ConfigMap", "default", f"gone-{uid}"), version))
        core.database.commit(1)
    core.connected()
    core.server.lists.clear()
    core.bee.run_for(25.0)
    assert [kind for kind, _ in core.server.lists].count("configmaps") == 1, "a watch may be late"
    assert "disconnected node/n1" in core.down(after=60.0)
    core.connected(seconds=600.0)
    assert set(core.down()) == {f"delete node/n1/default/configmap/gone-{uid}" for uid in "uv"}


def test_a_node_gets_a_deletion_from_the_watch(core: ClusterController) -> None:
    """With what came before, as from KubeEdge's cloud, and once."""
    core.applied(pod())
    core.down()
    core.server.call(core.server.call_for("delete", kind_named("Pod"), "web"))
    core.bee.settle()
    uid = core.server.cluster.storage.get(WEB)["metadata"]["uid"]
    core.asks("default/pod/web", "delete", {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}})
    *updates, deletion = core.down(after=3.0)
    assert set(updates) == {"update node/n1/default/pod/web"}
    assert deletion == "delete node/n1/default/pod/web"
