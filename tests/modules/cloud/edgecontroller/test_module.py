"""edgecontroller alone on a hive, in virtual time: how it answers edges and people, and what comes of it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, kind_named
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.edgecontroller.module import EdgeController
from tests.modules.cloud.edgecontroller.controller import WEB, Controller
from tests.modules.cloud.objects import node, pod
from tests.support.presence import present


def test_a_reported_status_is_kept_and_echoed(controller: Controller) -> None:
    controller.apply(pod())
    controller.down()
    controller.asks("default/podpatch/web", "patch", json.dumps({"status": {"phase": "Running"}}))
    assert controller.down() == ["update node/n1/default/pod/web"]
    controller.asks("default/podpatch/web", "patch", json.dumps({"status": {"phase": "Running"}}))
    assert controller.down() == [], "nothing has changed"
    assert controller.cluster.storage.get(WEB)["status"]["phase"] == "Running"


def test_a_pod_goes_when_the_edge_reports_its_end(controller: Controller) -> None:
    controller.apply(pod())
    controller.down()
    item = controller.remove("po", "web")
    assert item.object is not None
    assert item.object["metadata"]["deletionGracePeriodSeconds"] == 30
    assert controller.down() == ["update node/n1/default/pod/web"]
    uid = controller.cluster.storage.get(WEB)["metadata"]["uid"]
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
    request = controller.asks("default/pod/web", "delete", options)
    assert controller.answer_to(request).content == "OK"
    assert controller.down() == ["update node/n1/default/pod/web", "delete node/n1/default/pod/web"]
    again = controller.asks("default/pod/web", "delete", options)
    assert controller.answer_to(again).content == "OK", "that it is gone already is a success"


def test_an_old_edge_deletes_by_uid_alone(controller: Controller) -> None:
    controller.apply(pod())
    uid = controller.cluster.storage.get(WEB)["metadata"]["uid"]
    controller.asks("default/pod/web", "delete", "another uid")
    assert controller.cluster.storage.find(WEB) is not None
    controller.asks("default/pod/web", "delete", uid)
    assert controller.cluster.storage.find(WEB) is None


UNKNOWN_POD = {"metadata": {"uid": "unheard-of"}, "status": {"phase": "Running"}}


def test_an_unknown_pod_is_left_alone_while_the_cloud_may_have_forgotten_it(controller: Controller) -> None:
    request = controller.asks("default/podpatch/web", "patch", json.dumps(UNKNOWN_POD))
    assert controller.answer_to(request).content["Err"]["ErrStatus"]["reason"] == "NotFound"
    assert controller.down() == []


@pytest.mark.parametrize(
    ("resource", "content"),
    [
        ("default/podpatch/web", json.dumps(UNKNOWN_POD)),
        ("default/podstatus/web", {"UID": "unheard-of", "Name": "web", "Status": {}}),
        ("default/podstatus", [{"UID": "unheard-of", "Name": "web", "Status": {}}]),
    ],
)
@pytest.mark.parametrize("namesake", [False, True], ids=["no such pod", "a pod of another uid"])
def test_an_unknown_pod_is_deleted_when_all_manifests_are_known(
    tmp_path: Path, resource: str, content: Any, namesake: bool
) -> None:
    with Harness() as bee:
        controller = Controller(bee, tmp_path)
        if namesake:
            controller.apply(pod())
        controller.down()
        controller.asks(resource, "patch" if "patch" in resource else "update", content)
        (deletion,) = controller.unasked()
        assert deletion.route.operation == "delete"
        assert deletion.content["metadata"] == {"name": "web", "namespace": "default", "uid": "unheard-of"}


def test_whole_statuses_of_older_edges_are_merged(controller: Controller) -> None:
    controller.apply(pod(), pod("db"))
    statuses = [{"Name": name, "UID": "", "Status": {"phase": "Running"}} for name in ("web", "db")]
    request = controller.asks("default/podstatus", "update", statuses)
    assert [message for message in controller.bee.sent_to("cloudhub") if message.parent_id == request.id] == []
    phases = [pod["status"]["phase"] for pod in controller.cluster.storage.list(kind_named("Pod"))]
    assert phases == ["Running", "Running"]


def test_an_edge_of_2019_ends_a_deletion_with_its_report(controller: Controller) -> None:
    """It never deletes the pod itself."""
    controller.apply(pod())
    controller.remove("pod", "web")
    running = {"name": "main", "state": {"running": {}}}
    for state, is_left in ((running, True), ({"name": "main", "state": {}}, False)):
        status = {"phase": "Failed", "containerStatuses": [state]}
        controller.asks("default/podstatus", "update", [{"Name": "web", "UID": "", "Status": status}])
        assert (controller.cluster.storage.find(WEB) is not None) is is_left


def test_an_older_node_reports_its_status_without_having_been_created(controller: Controller) -> None:
    request = controller.asks("default/nodestatus/n1", "update", {"UID": "x", "Status": {"phase": "Running"}})
    answer = controller.answer_to(request)
    assert (answer.content, answer.route.resource) == ("OK", "node/n1/default/node/n1")
    assert controller.cluster.storage.get(ObjectKey("Node", "", "n1"))["status"]["phase"] == "Running"


def test_a_node_registers_once_and_gets_the_waiting_pods(controller: Controller) -> None:
    controller.apply(pod(nodeName=""))
    first = controller.asks("null/node/n1", "insert", node())
    answer = controller.answer_to(first).content
    assert answer["Err"] is None
    assert answer["Object"]["metadata"]["uid"]
    everything = ["update node/n1/null/node/n1", "insert node/n1/default/pod/web"]
    assert controller.down() == everything
    second = controller.asks("null/node/n1", "insert", node(**{"kubernetes.io/os": "linux", "mine": "1"}))
    refusal = controller.answer_to(second).content
    assert refusal["Err"]["ErrStatus"]["reason"] == "AlreadyExists"
    assert refusal["Object"]["metadata"]["labels"] == {"kubernetes.io/os": "linux"}
    assert controller.down() == [], "the process is the same one"
    controller.connected()
    controller.down()
    controller.asks("null/node/n1", "insert", node())
    assert set(controller.down()) <= set(everything)


def test_a_node_sets_its_labels_and_keeps_the_others(controller: Controller) -> None:
    controller.asks("null/node/n1", "insert", node(a="1"))
    request = controller.asks("null/node/n1", "update", {"metadata": {"labels": {"b": "2"}}})
    assert controller.answer_to(request).content == "OK"
    query = controller.asks("null/node/n1", "query")
    assert controller.answer_to(query).content["metadata"]["labels"] == {"a": "1", "b": "2"}


def test_a_lease_is_looked_for_made_and_renewed(controller: Controller) -> None:
    resource = "kube-node-lease/lease/n1"
    missing = controller.answer_to(controller.asks(resource, "query")).content
    assert missing["Object"] is None
    assert missing["Err"]["ErrStatus"]["message"] == 'lease.coordination.k8s.io "n1" not found'
    lease = {"metadata": {"name": "n1", "namespace": "kube-node-lease"}, "spec": {"holderIdentity": "n1"}}
    made = controller.answer_to(controller.asks(resource, "insert", lease)).content["Object"]
    renewed = controller.answer_to(controller.asks(resource, "update", made)).content["Object"]
    assert renewed["metadata"]["uid"] == made["metadata"]["uid"]
    stale = {**made, "metadata": {**made["metadata"], "resourceVersion": "1"}}
    conflict = controller.answer_to(controller.asks(resource, "update", stale)).content
    assert conflict["Err"]["ErrStatus"]["reason"] == "Conflict"


NEEDY: dict[str, Any] = {
    "volumes": [
        {"name": "a", "configMap": {"name": "nothing"}},
        {"name": "b", "secret": {"secretName": "nothing"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "nothing"}},
    ]
}


@pytest.mark.parametrize("kind", ["configmap", "secret", "persistentvolumeclaim", "volumeattachment"])
def test_a_missing_object_is_answered_in_a_form_that_no_edge_stores(controller: Controller, kind: str) -> None:
    controller.apply(pod(**NEEDY))
    content = controller.answer_to(controller.asks(f"default/{kind}/nothing", "query")).content
    assert content["Object"] is None
    assert content["Err"]["ErrStatus"]["code"] == 404


def test_a_token_has_its_audience_and_its_end(controller: Controller) -> None:
    controller.apply(pod())
    uid = controller.cluster.storage.get(WEB)["metadata"]["uid"]
    request = {"spec": {"expirationSeconds": 3607, "boundObjectRef": {"kind": "Pod", "name": "web", "uid": uid}}}
    content = controller.answer_to(controller.asks("default/serviceaccounttoken/default", "query", request)).content
    header, claims, signature = content["status"]["token"].split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
    assert header
    assert len(signature) == 86, "ES256"
    assert decoded["sub"] == "system:serviceaccount:default:default"
    assert decoded["exp"] - decoded["iat"] == 3607
    assert decoded["kubernetes.io"]["pod"] == {"name": "web", "uid": uid}


def test_events_are_kept_and_patched_without_an_answer(controller: Controller) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    meta = {"name": "web.1", "namespace": "default"}
    event = {"metadata": meta, "reason": "Started", "count": 1, "involvedObject": about}
    for operation, content in [("insert", event), ("patch", {"event": event, "patchData": '{"count":2}'})]:
        request = controller.asks("default/event/web.1", operation, content)
        assert [m for m in controller.bee.sent_to("cloudhub") if m.parent_id == request.id] == []
    listed = present(controller.call("list", "events").object)
    (item,) = listed["items"]
    assert (item["count"], item["reason"]) == (2, "Started")


def ready(time: str) -> dict[str, Any]:
    """A status."""
    return {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}]}


def nested(levels: int) -> str:
    """JSON that can be decoded, and has so many levels."""
    return '{"status":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("resource", "operation", "content"),
    [
        ("default/podpatch/web", "patch", "not JSON"),
        ("default/podpatch/web", "patch", json.dumps({"$patch": "explode"})),
        ("default/podpatch/web", "patch", json.dumps({"metadata": 1, "status": 2})),
        ("default/podpatch/web", "patch", json.dumps({"$patch": "replace"})),
        ("default/podpatch/web", "patch", json.dumps({"metadata": None})),
        ("default/podpatch/web", "patch", nested(495)),
        ("default/podpatch/web", "patch", [1]),
        ("default/podstatus/web", "update", None),
        ("default/podstatus", "update", [1]),
        ("default/podstatus/web", "update", {"Name": "web", "Status": {"conditions": [3]}}),
        ("default/pod/web", "insert", {"metadata": {"name": "other"}}),
        ("default/pod/web", "insert", {"metadata": {"name": "web"}, "spec": None}),
        ("default/pod/web", "delete", {"preconditions": 3}),
        ("default/pod/web", "delete", {"gracePeriodSeconds": 10**18}),
        ("null/node/n1", "insert", "text"),
        ("null/node/n1", "insert", {"metadata": 3}),
        ("null/node/n1", "update", {"metadata": {"labels": 3}}),
        ("default/nodestatus/n1", "update", {"Status": 3}),
        ("default/podstatus/web", "update", {"Name": "web", "Status": ready("9999-12-31T23:59:59.9999999Z")}),
        ("default/podstatus/web", "update", {"Name": "web", "Status": ready("0001-01-01T00:00:00+23:59")}),
        ("default/event/e", "patch", {"patchData": "["}),
        ("default/event/e", "insert", Raw(b'{"metadata":{"name":"e"},"x":%b}' % nested(495).encode())),
        ("kube-node-lease/lease/n1", "update", {"metadata": {"resourceVersion": 3}}),
        ("default/serviceaccounttoken/a", "query", {"spec": {"expirationSeconds": "soon"}}),
        ("default/serviceaccounttoken/a", "query", {"spec": {"expirationSeconds": 10**12}}),
    ],
)
def test_nonsense_from_an_edge_is_refused_and_harms_nothing(
    controller: Controller, resource: str, operation: str, content: Any
) -> None:
    controller.asks("null/node/n1", "insert", node())
    controller.apply(pod())
    controller.asks(resource, operation, content)
    controller.bee.run_for(120)
    assert controller.bee.hive.restarts()[EdgeController.name] == 0
    assert len(controller.bee.hive.dead_letters) == 0
    assert controller.call("get", "pod", "web").object


def test_manifests_are_watched(tmp_path: Path) -> None:
    with Harness() as bee:
        controller = Controller(bee, tmp_path)
        assert controller.down() == []
        (tmp_path / "web.json").write_text(json.dumps(pod()))
        bee.run_for(1.5)
        assert controller.down() == ["insert node/n1/default/pod/web"]
        (tmp_path / "web.json").unlink()
        bee.run_for(1.5)
        assert controller.down() == ["update node/n1/default/pod/web"]


def test_manifests_read_in_a_lost_transaction_are_read_again(tmp_path: Path) -> None:
    """A change of a file is seen once, and its objects are lost with a transaction that the database refuses."""
    (tmp_path / "old.json").write_text(json.dumps(pod("old")))
    with Harness() as bee:
        bee.expect_failures()
        controller = Controller(bee, tmp_path)
        controller.down()
        (tmp_path / "web.json").write_text(json.dumps(pod()))
        (tmp_path / "old.json").unlink()
        controller.database_fails(controller.objects)
        bee.run_for(5.0)
        assert bee.hive.restarts()[ApiServer.name] == 1
        assert controller.down() == ["update node/n1/default/pod/old", "insert node/n1/default/pod/web"]


def test_an_administrator_is_answered(controller: Controller) -> None:
    (created,) = controller.apply(pod())
    assert created.created
    (again,) = controller.apply(pod())
    assert (again.created, again.object) == (False, created.object)
    assert controller.call("get", "pods", "nothing").refusal == {
        "metadata": {}, "status": "Failure", "message": 'pods "nothing" not found', "reason": "NotFound",
        "details": {"name": "nothing", "kind": "pods"}, "code": 404,
    }  # fmt: skip
    refused = present(controller.call("delete", "pods", "web", options={"gracePeriodSeconds": "soon"}).refusal)
    assert "number of seconds" in refused["message"]


def test_a_waiting_pod_is_placed_when_there_is_room(controller: Controller) -> None:
    port = [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 80}]}]
    controller.asks("null/node/n1", "insert", node())
    controller.apply(pod("first", nodeName="", containers=port))
    controller.apply(pod("second", nodeName="", containers=port))
    controller.down()

    def events() -> list[tuple[str, str, str]]:
        every = controller.cluster.storage.list(kind_named("Event"))
        found = [event for event in every if event["source"]["component"] == "default-scheduler"]
        return [(event["type"], event["reason"], event["message"]) for event in found]

    first = ("Normal", "Scheduled", "Successfully assigned default/first to n1")
    assert [event[:2] for event in events()] == [first[:2], ("Warning", "FailedScheduling")]
    assert events()[0] == first
    controller.remove("pod", "first", grace=0)
    assert "insert node/n1/default/pod/second" in controller.down()
    assert events()[-1] == ("Normal", "Scheduled", "Successfully assigned default/second to n1")


def test_a_pod_that_names_its_node_is_not_scheduled(controller: Controller) -> None:
    controller.asks("null/node/n1", "insert", node())
    controller.apply(pod("named", nodeName="n1"))
    controller.down()
    events = controller.cluster.storage.list(kind_named("Event"))
    assert [event["reason"] for event in events] == ["RegisteredNode"]


def test_a_dry_run_changes_nothing_and_reaches_no_node(controller: Controller) -> None:
    dry: dict[str, Any] = {"options": {"dryRun": ["All"]}}
    made = controller.call("create", "pod", body=pod(), **dry)
    assert made.created
    assert controller.cluster.storage.find(WEB) is None
    controller.apply(pod())
    assert controller.down() == ["insert node/n1/default/pod/web"], "of the one that was no dry run"
    controller.call("delete", "pod", "web", **dry)
    assert controller.down() == []
    assert controller.cluster.storage.find(WEB) is not None
