"""The store and the rules of API server, scheduler and kubectl around it."""

import base64
from collections.abc import Callable, Iterator, Set
from typing import Any

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.api_errors import (
    AlreadyExistsError,
    ApiError,
    BadRequestError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnknownKindError,
)
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named
from modules.apimachinery.limits import OBJECT_BYTES
from modules.apimachinery.times import format_rfc3339, parse_rfc3339
from modules.apimachinery.validation.invalid_fields import InvalidFieldsError
from modules.apimachinery.validation.pods import ephemeral_containers_update
from modules.cloud.apiserver.cluster import ApplyOutcome, Cluster
from modules.cloud.apiserver.field_manager.managed_fields import Manager
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.apiserver.scheduler import makes_room
from modules.cloud.apiserver.verbs.deletion import delete
from modules.cloud.client.calls import ApiCall
from modules.cloud.storage.object_storage import EventType
from tests.modules.cloud.objects import configmap, node, patch_status, pod, secret
from tests.support.presence import present

WEB = ObjectKey("Pod", "default", "web")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    yield Cluster(Simulation(1).clock)


def versions(cluster: Cluster) -> list[int]:
    return [int(event.new["metadata"]["resourceVersion"]) for event in cluster.storage.drain_events()]


def test_every_change_has_a_higher_version_and_an_unchanged_object_none(cluster: Cluster) -> None:
    first, created = cluster.apply(configmap(a="1"))
    same, unchanged = cluster.apply(configmap(a="1"))
    second, configured = cluster.apply(configmap(a="2"))
    assert (created, unchanged, configured) == (ApplyOutcome.CREATED, ApplyOutcome.UNCHANGED, ApplyOutcome.CONFIGURED)
    assert same is first
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert len(versions(cluster)) == 2
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])


def test_a_stored_object_is_never_changed_in_place(cluster: Cluster) -> None:
    manifest = configmap(a="1")
    stored, _ = cluster.apply(manifest)
    manifest["data"]["a"] = "changed by the caller"
    cluster.apply(configmap(a="2"))
    assert stored["data"] == {"a": "1"}


def test_unknown_fields_are_kept(cluster: Cluster) -> None:
    stored, _ = cluster.apply(pod(fieldOfTheFuture={"deep": [1, None]}))
    assert stored["spec"]["fieldOfTheFuture"] == {"deep": [1, None]}


def test_a_null_member_counts_as_absent(cluster: Cluster) -> None:
    """As a person writes it who leaves a YAML key without a value."""
    projected = {"name": "v", "projected": {"sources": None}}
    stored, _ = cluster.apply(pod(restartPolicy=None, initContainers=None, volumes=[projected]))
    assert stored["spec"]["restartPolicy"] == "Always"
    assert "initContainers" not in stored["spec"]


def test_apply_completes_a_pod_as_an_api_server_does(cluster: Cluster) -> None:
    stored, _ = cluster.apply(pod())
    spec, container = stored["spec"], stored["spec"]["containers"][0]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert spec["dnsPolicy"] == "ClusterFirst"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert stored["metadata"]["namespace"] == "default"
    assert stored["metadata"]["generation"] == 1


def test_a_negative_grace_period_of_a_pod_becomes_one_second(cluster: Cluster) -> None:
    """Also of one that was stored before; a template keeps it (recorded with kube-apiserver 1.32.13; the e2e test "pod
    with negative grace period").
    """
    stored, _ = cluster.apply(pod(terminationGracePeriodSeconds=-5))
    assert stored["spec"]["terminationGracePeriodSeconds"] == 1
    assert cluster.update(with_grace(stored, -7))["spec"]["terminationGracePeriodSeconds"] == 1
    before = cluster.storage.replace(with_grace(cluster.storage.get(WEB), -5))
    assert cluster.update(before)["spec"]["terminationGracePeriodSeconds"] == 1
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(terminationGracePeriodSeconds=-5)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = cluster.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    assert made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == -5


def with_grace(obj: JsonObject, seconds: int) -> JsonObject:
    return {**obj, "spec": {**obj["spec"], "terminationGracePeriodSeconds": seconds}}


def test_apply_removes_fields_of_the_last_manifest_and_keeps_the_fields_of_others(cluster: Cluster) -> None:
    cluster.create({"kind": "Node", "apiVersion": "v1", **node(arch="arm64")})
    cluster.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"mine": "1", "old": "1"}}})
    applied, _ = cluster.apply(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "labels": {"mine": "2"}}}
    )
    assert applied["metadata"]["labels"] == {"arch": "arm64", "mine": "2"}


def test_a_secret_is_stored_encoded_and_its_clear_text_nowhere(cluster: Cluster) -> None:
    cluster.apply(secret(pin="hunter2", gone="x"))
    stored, _ = cluster.apply(secret(pin="hunter3"))
    assert stored["data"] == {"pin": base64.b64encode(b"hunter3").decode()}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored
    assert "hunter" not in str(stored)
    assert str(stored).count(stored["data"]["pin"]) == 1, "no annotation, which others show, has it too"


@pytest.mark.parametrize(
    ("document", "error"),
    [
        pytest.param("text", BadRequestError, id="not an object"),
        pytest.param({"kind": "Pod"}, BadRequestError, id="no metadata"),
        pytest.param({"kind": "Widget", "metadata": {"name": "x"}}, UnknownKindError, id="a kind nobody keeps"),
        pytest.param(pod("../../etc"), InvalidError, id="a name that is a path"),
        pytest.param(pod("A"), InvalidError, id="a name in capitals"),
        pytest.param({**pod(), "apiVersion": "v2"}, InvalidError, id="another API version"),
        pytest.param({**pod(), "metadata": {"name": "x", "namespace": "a/b"}}, InvalidError, id="a bad namespace"),
        pytest.param(pod(containers=[]), InvalidError, id="no containers"),
        pytest.param(pod(containers=[{"name": "a"}]), InvalidError, id="no image"),
        pytest.param(pod(containers=[{"name": "a", "image": "i"}] * 2), InvalidError, id="two of one name"),
        pytest.param(pod(restartPolicy="Sometimes"), InvalidError, id="an unknown restart policy"),
        pytest.param(
            pod(containers=[{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]),
            InvalidError,
            id="a mount without its volume",
        ),
        pytest.param(
            pod(containers=[{"name": "a", "image": "i", "resources": {"limits": {"cpu": "many"}}}]),
            BadRequestError,
            id="a quantity that is none",
        ),
        pytest.param({**configmap(), "data": {"a/b": "1"}}, InvalidError, id="a data key that is a path"),
        pytest.param({**configmap(), "data": {"a": 1}}, BadRequestError, id="a data value that is a number"),
        pytest.param({**configmap(), "metadata": {"name": "x", "labels": {"a": 1}}}, BadRequestError, id="a label too"),
        pytest.param({**pod(), "spec": None}, InvalidError, id="no spec"),
        pytest.param(pod(containers=[None]), InvalidError, id="a container that is nothing"),
        pytest.param(pod(containers=[{"name": "a", "image": "i", "env": 3}]), BadRequestError, id="an env of no form"),
        pytest.param(pod(volumes=[{"name": "v", "configMap": "settings"}]), BadRequestError, id="a volume of no form"),
    ],
)
def test_a_bad_manifest_is_refused_and_changes_nothing(cluster: Cluster, document: Any, error: type[ApiError]) -> None:
    with pytest.raises(error):
        cluster.apply(document)
    assert cluster.storage.drain_events() == []


def test_a_changed_image_is_accepted_and_counts_a_generation(cluster: Cluster) -> None:
    cluster.apply(pod())
    changed = pod()
    changed["spec"]["containers"][0]["image"] = "busybox:1.36"
    stored, _ = cluster.apply(changed)
    assert stored["spec"]["containers"][0]["image"] == "busybox:1.36"
    assert stored["metadata"]["generation"] == 2


def test_a_changed_command_is_refused_with_the_field_that_changed(cluster: Cluster) -> None:
    cluster.apply(pod())
    changed = pod()
    changed["spec"]["containers"][0]["command"] = ["sleep", "2d"]
    with pytest.raises(InvalidError, match=r"changed: spec\.containers"):
        cluster.apply(changed)


def test_errors_are_worded_as_kubernetes_words_them(cluster: Cluster) -> None:
    """A Go edge tells them apart by reason and code; the texts equal the recording's."""
    with pytest.raises(NotFoundError) as missing:
        cluster.storage.get(WEB)
    assert missing.value.status() == {
        "metadata": {},
        "status": "Failure",
        "message": 'pods "web" not found',
        "reason": "NotFound",
        "details": {"name": "web", "kind": "pods"},
        "code": 404,
    }
    cluster.create(pod())
    with pytest.raises(AlreadyExistsError) as exists:
        cluster.create(pod())
    assert exists.value.status()["message"] == 'pods "web" already exists'
    assert exists.value.status()["code"] == 409


@pytest.mark.parametrize(
    ("before", "after", "metadata", "is_going"),
    [
        ("", "", {}, False),
        ("object is being deleted: ", "", {}, True),
        ("", ", the server was not able to generate a unique name for the object", {"generateName": "s-"}, False),
    ],
)
def test_what_exists_is_said_to_be_going(
    cluster: Cluster, before: str, after: str, metadata: JsonObject, *, is_going: bool
) -> None:
    """Controllers that make an object anew wait for the end of the old one. As measured at kube-apiserver 1.32."""
    made, key = configmap(), ObjectKey("ConfigMap", "default", "settings")
    cluster.create({**made, "metadata": {**made["metadata"], "finalizers": ["example.org/a"]}})
    if is_going:
        cluster.delete(key)
    with pytest.raises(AlreadyExistsError) as exists:
        cluster.create({**made, "metadata": {**made["metadata"], **metadata}})
    assert exists.value.message == f'{before}configmaps "settings" already exists{after}'
    assert exists.value.details.get("retryAfterSeconds") == (1 if metadata else None)


def test_an_owner_is_named_once(cluster: Cluster) -> None:
    """By a new object, and by an update; another reference to the same uid stays (dedupOwnerReferences)."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    other, manifest = {**owner, "kind": "Secret"}, configmap()
    manifest["metadata"]["ownerReferences"] = [owner, other, owner, dict(reversed(owner.items()))]
    made = cluster.create(manifest)
    assert made["metadata"]["ownerReferences"] == [owner, other]
    changed = {**made, "metadata": {**made["metadata"], "ownerReferences": [other, other]}}
    assert cluster.update(changed)["metadata"]["ownerReferences"] == [other]


def test_replacing_another_version_or_another_object_is_a_conflict(cluster: Cluster) -> None:
    stored, _ = cluster.apply(configmap(a="1"))
    cluster.apply(configmap(a="2"))
    with pytest.raises(ConflictError, match="has been modified"):
        cluster.storage.replace({**stored, "data": {"a": "3"}})
    with pytest.raises(ConflictError, match="UID in precondition"):
        cluster.storage.replace({**stored, "metadata": {"name": "settings", "uid": "another"}})


def test_a_pod_is_deleted_in_two_steps(cluster: Cluster) -> None:
    """First a deletion timestamp; gone when its node has reported its end and then deletes it, without grace."""
    cluster.apply(pod(terminationGracePeriodSeconds=2))
    begun = cluster.delete(WEB)
    assert begun["metadata"]["deletionGracePeriodSeconds"] == 2
    assert begun["metadata"]["deletionTimestamp"]
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    patch_status(cluster, WEB, {"status": {"phase": "Succeeded", "containerStatuses": [ended]}})
    assert cluster.storage.find(WEB) is not None, "its node is still clearing up"
    cluster.delete(WEB, grace=0)
    assert cluster.storage.find(WEB) is None
    events = cluster.storage.drain_events()
    assert [event.type for event in events] == [EventType.ADDED, *[EventType.MODIFIED] * 3, EventType.DELETED]
    last = [event.new["metadata"] for event in events[-2:]]
    assert [meta["deletionGracePeriodSeconds"] for meta in last] == [0, 0]
    first, second = (parse_rfc3339(meta["deletionTimestamp"]) for meta in (begun["metadata"], last[0]))
    assert first is not None
    assert second == first - 2, "the deadline moves with the grace"


def test_a_pod_deleted_by_force_reaches_its_node_with_no_grace_period(cluster: Cluster) -> None:
    """Its deletion had not begun: the node would give it its own grace period, 30 s, if nobody said otherwise."""
    cluster.apply(pod(terminationGracePeriodSeconds=30))
    cluster.delete(WEB, grace=0)
    events = cluster.storage.drain_events()
    assert [event.type for event in events] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
    assert [event.new["metadata"]["deletionGracePeriodSeconds"] for event in events[1:]] == [0, 0]


def test_a_begun_deletion_can_be_shortened_and_not_prolonged(cluster: Cluster) -> None:
    cluster.apply(pod())
    cluster.delete(WEB, grace=20)
    assert cluster.delete(WEB, grace=60)["metadata"]["deletionGracePeriodSeconds"] == 20
    begun = cluster.delete(WEB, grace=5)
    assert begun["metadata"]["deletionGracePeriodSeconds"] == 5
    assert cluster.delete(WEB, grace=60, policy="Foreground") is begun, "nothing of it changes then"


@pytest.mark.parametrize(
    ("spec", "status", "grace"),
    [
        pytest.param({}, {}, 0, id="when no grace is wanted"),
        pytest.param({"nodeName": ""}, {}, None, id="when no node has it"),
        pytest.param({}, {"phase": "Failed"}, None, id="when it has ended"),
    ],
)
def test_a_pod_is_gone_immediately(
    cluster: Cluster, spec: dict[str, Any], status: dict[str, Any], grace: int | None
) -> None:
    cluster.apply(pod(**spec))
    patch_status(cluster, WEB, {"status": status})
    cluster.delete(WEB, grace)
    assert cluster.storage.find(WEB) is None


def test_a_deletion_for_another_uid_deletes_nothing(cluster: Cluster) -> None:
    cluster.apply(pod())
    with pytest.raises(ConflictError):
        cluster.delete(WEB, 0, uid="another")
    assert cluster.storage.find(WEB) is not None


def test_a_pod_that_is_being_deleted_cannot_be_applied(cluster: Cluster) -> None:
    cluster.apply(pod())
    cluster.delete(WEB)
    with pytest.raises(ConflictError, match="being deleted"):
        cluster.apply(pod())


def test_an_update_ends_no_deletion_and_begins_none(cluster: Cluster) -> None:
    """`kubectl replace` with the manifest of a pod that terminates: it went on terminating on its node alone."""
    live, _ = cluster.apply(pod())
    begun = {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1}
    with pytest.raises(InvalidFieldsError, match=r"deletionTimestamp: .* 2020-01-01 00:00:00 \+0000 UTC: field is imm"):
        cluster.update({**live, "metadata": {**live["metadata"], **begun}})
    deleted = cluster.delete(WEB)
    again = {name: value for name, value in live["metadata"].items() if name != "resourceVersion"}
    assert cluster.update({**live, "metadata": again})["metadata"] == deleted["metadata"]


def test_a_pod_without_a_node_waits_for_the_only_node(cluster: Cluster) -> None:
    cluster.apply(pod(nodeName=""))
    cluster.create({"kind": "Node", "apiVersion": "v1", **node("edge")})
    assert cluster.storage.get(WEB)["spec"]["nodeName"] == "edge"
    cluster.create({"kind": "Node", "apiVersion": "v1", **node("second")})
    other, _ = cluster.apply(pod("other", nodeName=""))
    assert other["spec"]["nodeName"] == "second", "it has fewer pods"


def test_the_pods_that_wait_are_those_without_a_node_after_a_roll_back_too(cluster: Cluster) -> None:
    """They are counted as they come and go: an ended pod does not make the server go through ten thousand."""
    storage = cluster.storage
    cluster.apply(pod("first", nodeName=""))
    storage.drain_events()
    storage.set_savepoint()
    cluster.apply(pod("second", nodeName=""))
    cluster.create({"kind": "Node", "apiVersion": "v1", **node("edge")})
    assert storage.unbound.after(None) is None
    storage.roll_back()
    first = present(storage.unbound.after(None))
    assert (first.key.name, storage.unbound.after(first)) == ("first", None)
    storage.remove(ObjectKey("Pod", "default", "first"))
    assert storage.unbound.after(None) is None


def test_a_pod_that_no_node_fits_has_the_reason_until_one_does(cluster: Cluster) -> None:
    """A condition and one Event for each reason, as kube-scheduler's."""
    made, _ = cluster.apply(pod(nodeName="", nodeSelector={"kind": "fast"}))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert condition["message"] == "no nodes available to schedule pods"
    cluster.create({"kind": "Node", "apiVersion": "v1", **node("edge")})
    for _ in range(2):
        cluster.scheduler.place_waiting_pods()
    why = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    messages = [event["message"] for event in cluster.storage.list(kind_named("Event"))]
    assert sorted(messages) == [why, "no nodes available to schedule pods"]
    edge = ObjectKey("Node", "", "edge")
    cluster.update({**cluster.storage.get(edge), "metadata": {"name": "edge", "labels": {"kind": "fast"}}})
    cluster.scheduler.place_waiting_pods()
    placed = cluster.storage.get(WEB)
    assert placed["spec"]["nodeName"] == "edge"
    assert [one["status"] for one in placed["status"]["conditions"]] == ["True"]


def test_a_pod_costs_the_same_however_many_wait(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's workload of pods that fit nowhere would delay everybody, by the square of their number."""
    for number in range(3):
        cluster.create(pod(f"waiting-{number}", nodeName=""))
    pods_of = cluster.storage.pods_of

    def of_a_node(name: str) -> Set[ObjectKey]:
        assert name, "the pods that wait are read"
        return pods_of(name)

    monkeypatch.setattr(cluster.storage, "pods_of", of_a_node)
    cluster.create(pod("one-more", nodeName=""))


def test_pods_without_any_node_are_looked_at_in_parts(cluster: Cluster) -> None:
    for number in range(130):
        cluster.create(pod(f"waiting-{number}", nodeName=""))
    cluster.scheduler.place_waiting_pods()
    assert cluster.scheduler.has_round
    cluster.scheduler.place_waiting_pods()
    assert not cluster.scheduler.has_round


def test_the_rules_of_a_request_end_with_it_also_when_it_is_refused(cluster: Cluster) -> None:
    def refuse(_old: JsonObject | None, _new: JsonObject | None) -> None:
        raise ForbiddenError("pods", "web", "no")

    with (
        pytest.raises(ForbiddenError),
        cluster.with_admission(refuse),
        cluster.managed_by(Manager("kubectl", "Update")),
    ):
        cluster.create(pod())
    made = cluster.create(pod())
    assert "managedFields" not in made["metadata"], "nor do its fields belong to who asked"


_WEB: Any = {"api_version": "v1", "plural": "pods", "namespace": "default", "name": "web"}
_REQUESTS: dict[str, Callable[[Cluster, JsonObject], object]] = {
    "create": lambda cluster, _: cluster.create({**pod("other"), "spec": {}}),
    "update": lambda cluster, old: cluster.update({**old, "spec": {**old["spec"], "nodeName": "another"}}),
    "apply": lambda cluster, _: cluster.apply_as(Manager("b", "Apply"), pod(nodeName="n2"), force=False),
    "replace": lambda cluster, old: cluster.replace({**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}),
    "patch": lambda cluster, _: cluster.to_change(WEB),
    "delete": lambda cluster, _: cluster.delete(WEB),
    "deletion of a state": lambda cluster, _: delete(
        cluster, ApiCall(verb="delete", options={"preconditions": {"resourceVersion": "1"}}, **_WEB), WEB
    ),
    "event": lambda cluster, _: cluster.record_event({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}),
}
"""Requests that are wrong in another way, too: invalid, outdated, or in conflict with other managers."""


@pytest.mark.parametrize("request_", _REQUESTS)
def test_who_may_not_learns_nothing_else_about_an_object(
    cluster: Cluster, request_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even whether the request would have been valid; and what is judged is the object that would be stored."""
    asked: list[tuple[JsonObject | None, JsonObject | None]] = []

    def refuse(old: JsonObject | None, new: JsonObject | None) -> None:
        asked.append((old, new))
        raise ForbiddenError("pods", "web", "no")

    def invalid(*_: object) -> JsonObject:
        raise InvalidError("Pod", "web", "spec", "no")

    cluster.apply_as(Manager("a", "Apply"), pod(), force=False)
    old = cluster.storage.get(WEB)
    patch_status(cluster, WEB, {"phase": "Running"})
    live = cluster.storage.get(WEB)
    monkeypatch.setattr(cluster._chain, "admitted", invalid)
    with pytest.raises(ForbiddenError), cluster.with_admission(refuse):
        _REQUESTS[request_](cluster, old)
    before, after = asked[0]
    assert before == (None if request_ in ("create", "event") else live)
    assert (after is None) == (request_ == "delete")
    assert request_ != "update" or (after or {})["status"] == live["status"]


def test_a_pod_with_gates_waits_until_they_are_removed(cluster: Cluster) -> None:
    cluster.create({"kind": "Node", "apiVersion": "v1", **node("edge")})
    made = cluster.create(pod(nodeName="", schedulingGates=[{"name": "a"}, {"name": "b"}]))
    assert made["status"]["conditions"] == [
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": format_rfc3339(cluster.clock.now()),
        }
    ]
    one_gate = cluster.update({**made, "spec": {**made["spec"], "schedulingGates": [{"name": "b"}]}})
    cluster.scheduler.place_waiting_pods()
    assert not cluster.storage.get(WEB)["spec"].get("nodeName")
    with pytest.raises(InvalidError, match="schedulingGates"):
        cluster.update({**one_gate, "spec": {**one_gate["spec"], "schedulingGates": [{"name": "c"}]}})
    cluster.storage.drain_events()
    cluster.update(
        {**one_gate, "spec": {name: value for name, value in one_gate["spec"].items() if "Gates" not in name}}
    )
    (event,) = cluster.storage.drain_events()
    assert makes_room(event)
    cluster.scheduler.place_waiting_pods()
    assert cluster.storage.get(WEB)["spec"]["nodeName"] == "edge"
    events = cluster.storage.list(kind_named("Event"))
    assert [event["reason"] for event in events] == ["Scheduled"], "a gate is no failure of the scheduler"


def test_a_pod_of_another_scheduler_is_left_to_it(cluster: Cluster) -> None:
    cluster.create({"kind": "Node", "apiVersion": "v1", **node("edge")})
    made, _ = cluster.apply(pod(nodeName="", schedulerName="other"))
    cluster.scheduler.place_waiting_pods()
    assert cluster.storage.get(WEB) == made
    assert (made["spec"].get("nodeName", ""), made["status"].get("conditions")) == ("", None)
    of_none = Cluster(Simulation(1).clock, Scheduling(is_enabled=False))
    of_none.create({"kind": "Node", "apiVersion": "v1", **node("edge")})
    of_none.apply(pod(nodeName=""))
    of_none.scheduler.place_waiting_pods()
    assert not of_none.storage.get(WEB)["spec"].get("nodeName")


def test_a_pod_that_its_placement_makes_too_large_keeps_no_other_from_its_node(cluster: Cluster) -> None:
    """It stopped the API server, at each start again."""
    spec = {**pod()["spec"], "nodeName": ""}
    container = {**spec["containers"][0], "args": ["x" * (OBJECT_BYTES - 900)]}
    for name, containers in (("large", [container]), ("web", spec["containers"])):
        made = {**pod(name), "spec": {**spec, "containers": containers}}
        cluster.storage.create({**made, "metadata": {**made["metadata"], "namespace": "default"}})
    large = present(cluster.storage.find(ObjectKey("Pod", "default", "large")))
    room = OBJECT_BYTES - len(msgspec.json.encode(large))
    larger = {**container, "args": ["x" * (OBJECT_BYTES - 900 + room)]}
    cluster.storage.replace({**large, "spec": {**spec, "containers": [larger]}})
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a-node"}})
    placed = [cluster.storage.get(ObjectKey("Pod", "default", name))["spec"]["nodeName"] for name in ("large", "web")]
    assert placed == ["", "a-node"]


def test_a_status_patch_changes_no_spec_and_no_identity(cluster: Cluster) -> None:
    before, _ = cluster.apply(pod())
    patch = {
        "metadata": {"name": "other", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "stolen"},
        "status": {"phase": "Running"},
    }
    after = patch_status(cluster, WEB, patch)
    assert after["spec"] == before["spec"]
    assert after["status"]["phase"] == "Running"
    assert after["metadata"]["name"] == "web"


@pytest.mark.parametrize("way", ["record_event", "create"])
def test_only_the_newest_events_are_kept(cluster: Cluster, way: str) -> None:
    """Events from a node's reports, and from its metaserver or an administrator."""
    for number in range(1100):
        getattr(cluster, way)({"kind": "Event", "apiVersion": "v1", "metadata": {"name": f"e{number}"}})
    kept = cluster.storage.list(kind_named("Event"))
    assert 1000 <= len(kept) <= 1050
    assert "e1099" in {event["metadata"]["name"] for event in kept}


def test_ephemeral_containers_are_added_by_their_subresource_only(cluster: Cluster) -> None:
    """As `kubectl debug` adds them. Present ones stay as they are."""
    debug = {"name": "debug", "image": "busybox:1.36", "targetContainerName": "main"}
    again = {**debug, "name": "again"}

    def change(*containers: JsonObject) -> None:
        live = cluster.storage.get(WEB)
        spec = {**live["spec"], "ephemeralContainers": list(containers)}
        cluster.update({**live, "spec": spec}, ephemeral_containers_update)

    cluster.apply(pod())
    with pytest.raises(InvalidError, match="pod updates may not change fields"):
        cluster.apply(pod(ephemeralContainers=[debug]))
    change(debug)
    change(debug, again)
    changed, with_port = {**debug, "image": "busybox:1.37"}, {**debug, "name": "c", "ports": [{"containerPort": 80}]}
    for refused in ([changed, again], [again], [debug, again, with_port]):
        with pytest.raises(InvalidError, match="ephemeralContainers"):
            change(*refused)
    added = present(cluster.storage.find(WEB))
    assert [each["name"] for each in added["spec"]["ephemeralContainers"]] == ["debug", "again"]


def test_quantities_are_stored_canonically_and_older_ones_stay(cluster: Cluster) -> None:
    """An apply or a label of a pod whose text an earlier cloudcore has stored changes no container."""
    containers = [{"name": "main", "image": "a:1", "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}}}]

    def stored() -> object:
        return cluster.storage.get(WEB)["spec"]["containers"][0]["resources"]["limits"]

    cluster.apply(pod(containers=containers))
    assert stored() == {"cpu": "500m", "memory": "1Gi"}
    assert cluster.apply(pod(containers=containers))[1] is ApplyOutcome.UNCHANGED
    live = cluster.storage.get(WEB)
    (container,) = live["spec"]["containers"]
    limits = {"cpu": "0.5", "memory": "1024Mi"}
    as_it_came = {**container, "resources": {"limits": limits, "requests": limits}}
    cluster.storage.replace({**live, "spec": {**live["spec"], "containers": [as_it_came]}})
    assert cluster.apply(pod(containers=containers))[1] is ApplyOutcome.UNCHANGED
    live = cluster.storage.get(WEB)
    cluster.update({**live, "metadata": {**live["metadata"], "labels": {"a": "b"}}})
    assert stored() == limits
    assert cluster.storage.get(WEB)["metadata"]["labels"] == {"a": "b"}
