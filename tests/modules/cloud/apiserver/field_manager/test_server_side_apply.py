"""Server-side apply and managedFields at the API, in the words and forms of kube-apiserver."""

import json
from typing import Any

import msgspec
import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import LAST_APPLIED, JsonObject
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.field_manager.managed_fields import Manager
from modules.cloud.apiserver.field_manager.shapes import MergeForm, shape_of
from modules.cloud.apiserver.field_manager.tracking import Tracking
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall

CONTAINER: JsonObject = {"name": "app", "image": "busybox:1"}


class Api:
    """Calls of managers."""

    def __init__(self) -> None:
        self.simulation = Simulation(0)
        self.cluster = Cluster(self.simulation.clock)

    def __call__(self, verb: str, body: Any = None, manager: str = "", **fields: Any) -> JsonObject:
        options = {**fields.pop("options", {}), **({"fieldManager": manager} if manager else {})}
        named = {"plural": "configmaps", "namespace": "ns", "name": "c", "api_version": "v1", **fields}
        result = serve(self.cluster, ApiCall(verb=verb, body=body, options=options, **named))
        answer = result.refusal or result.object or {}
        return msgspec.json.decode(msgspec.json.encode(answer))  # type: ignore[no-any-return]

    def apply(self, manager: str, obj: JsonObject, *, force: bool = False, **fields: Any) -> JsonObject:
        named = {"apiVersion": "v1", "kind": "ConfigMap", **obj}
        named["metadata"] = {"name": "c", **obj.get("metadata", {})}
        options = {"force": True} if force else {}
        return self("patch", named, manager, patch_type=APPLY, options=options, **fields)

    def data(self, manager: str, *, force: bool = False, **data: str) -> JsonObject:
        """Apply the data of a ConfigMap."""
        return self.apply(manager, {"data": data}, force=force)


@pytest.fixture
def api() -> Api:
    return Api()


def managers(obj: JsonObject) -> dict[tuple[str, str], JsonObject]:
    return {(one["manager"], one["operation"]): one["fieldsV1"] for one in obj["metadata"].get("managedFields", [])}


def test_an_entry_is_as_kubernetes_writes_it(api: Api) -> None:
    """Of an apply and of an update; the time is the fields' last change."""
    made = api.data("first", a="1")
    (entry,) = made["metadata"]["managedFields"]
    time = entry.pop("time")
    assert time.endswith("Z")
    assert entry == {
        "manager": "first",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }
    api.simulation.run_for(60)
    again = api.data("first", a="1")
    assert again == made | {"metadata": made["metadata"] | {"managedFields": [entry | {"time": time}]}}
    labels = {"metadata": {"labels": {"x": "y"}}}
    labelled = api("patch", labels, "kubectl-label", patch_type=MERGE)
    assert managers(labelled) == {
        ("first", "Apply"): {"f:data": {"f:a": {}}},
        ("kubectl-label", "Update"): {"f:metadata": {"f:labels": {".": {}, "f:x": {}}}},
    }


def test_the_time_of_an_entry_is_the_last_change_of_a_value(api: Api) -> None:
    """Also where the manager has the same fields as before."""

    def time_of(obj: JsonObject, manager: str) -> str:
        return next(str(one["time"]) for one in obj["metadata"]["managedFields"] if one["manager"] == manager)

    api.data("first", a="1")
    before = api("patch", {"data": {"b": "1"}}, "second", patch_type=MERGE)
    api.simulation.run_for(60)
    applied = api.data("first", a="2")
    assert time_of(applied, "first") > time_of(before, "first")
    assert time_of(applied, "second") == time_of(before, "second")
    api.simulation.run_for(60)
    patched = api("patch", {"data": {"b": "2"}}, "second", patch_type=MERGE)
    assert time_of(patched, "second") > time_of(applied, "first") == time_of(patched, "first")


def test_a_subresource_cannot_set_the_managers(api: Api) -> None:
    api("create", {"metadata": {"name": "c"}, "spec": {"containers": [CONTAINER]}}, "maker", plural="pods", name="")
    status = {"metadata": {"managedFields": [{}]}, "status": {"phase": "Running"}}
    made = api("patch", status, "other", plural="pods", subresource="status", patch_type=STRATEGIC)
    assert set(managers(made)) == {("maker", "Update"), ("other", "Update")}


def test_a_pod_is_tracked_by_the_keys_of_its_lists(api: Api) -> None:
    body = {
        "metadata": {"name": "c", "labels": {"app": "web"}},
        "spec": {"containers": [{**CONTAINER, "ports": [{"containerPort": 80}], "env": [{"name": "A", "value": "b"}]}]},
    }
    made = api("create", body, "kubectl-create", plural="pods", name="")
    spec = managers(made)["kubectl-create", "Update"]["f:spec"]
    container = spec["f:containers"]['k:{"name":"app"}']
    assert container["."] == {}
    port = container["f:ports"]['k:{"containerPort":80,"protocol":"TCP"}']
    assert {".", "f:containerPort"} <= set(port)
    assert container["f:env"] == {".": {}, 'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}}
    assert managers(made)["kubectl-create", "Update"]["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}


def test_another_value_of_another_manager_is_a_conflict(api: Api) -> None:
    """Nothing is changed, unless it is forced; then the field has a new owner."""
    api.data("first", a="1", b="1")
    refused = api.data("second", a="2")
    assert (refused["code"], refused["reason"]) == (409, "Conflict")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "first": .data.a'
    cause = {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.a"}
    assert refused["details"]["causes"] == [cause]
    assert 'conflicts with "first":\n- .data.a\n- .data.b' in api.data("second", a="2", b="2")["message"]
    forced = api.data("second", force=True, a="2")
    assert forced["data"] == {"a": "2", "b": "1"}
    assert managers(forced) == {
        ("first", "Apply"): {"f:data": {"f:b": {}}},
        ("second", "Apply"): {"f:data": {"f:a": {}}},
    }


def test_of_many_conflicts_some_are_named(api: Api) -> None:
    """An answer has a bound, too: two managers may disagree on a megabyte of fields."""
    names = [f"key-{number}" for number in range(300)]
    api.apply("first", {"data": dict.fromkeys(names, "1")})
    refused = api.apply("second", {"data": dict.fromkeys(names, "2")})
    assert refused["message"].startswith("Apply failed with 300 conflicts: ")
    assert (len(refused["details"]["causes"]), refused["message"].count("\n- .data.")) == (100, 100)


def test_a_conflict_with_an_update_names_its_version(api: Api) -> None:
    api("create", {"metadata": {"name": "c"}, "data": {"key": "1"}}, "kubectl-client-side-apply", name="")
    refused = api.data("argo", key="2")
    of = '"kubectl-client-side-apply" using v1'
    assert refused["message"] == f"Apply failed with 1 conflict: conflict with {of}: .data.key"
    assert api.data("argo", key="1")["data"] == {"key": "1"}, "the same value is shared"


def test_a_manifest_names_its_kind_and_needs_no_metadata(api: Api) -> None:
    said = api("patch", {"kind": "Secret", "apiVersion": "v1"}, "first", patch_type=APPLY)
    assert (said["code"], said["message"]) == (400, "invalid object type: /v1, Kind=Secret")
    made = api("patch", {"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": "1"}}, "first", patch_type=APPLY)
    assert (made["metadata"]["name"], made["data"]) == ("c", {"a": "1"})


def test_nobody_manages_the_addresses_that_follow_from_a_services_address(api: Api) -> None:
    spec = {"clusterIP": "None", "ports": [{"port": 80}]}
    made = api("create", {"metadata": {"name": "c"}, "spec": spec}, "first", plural="services")
    assert made["spec"]["clusterIPs"] == ["None"]
    ((_, fields),) = managers(made).items()
    assert fields["f:spec"].keys() >= {"f:clusterIP"}
    assert "f:clusterIPs" not in fields["f:spec"]


def test_a_field_that_the_kind_does_not_have_is_refused(api: Api) -> None:
    said = api.apply("first", {"dta": {"a": "1"}})
    why = "failed to create typed patch object (/c; /v1, Kind=ConfigMap): .dta: field not declared in schema"
    assert (said["code"], said.get("reason"), said["message"]) == (500, None, why)


def test_a_field_goes_with_the_last_manager_that_applied_it(api: Api) -> None:
    """What another one has, too, or has set by an update, stays."""
    api.data("first", a="1", shared="1")
    api.data("second", b="1", shared="1")
    api("patch", {"data": {"c": "1"}}, "editor", patch_type=MERGE)
    api.data("third", c="1")
    assert api.data("first")["data"] == {"b": "1", "shared": "1", "c": "1"}
    assert api.data("third")["data"] == {"b": "1", "shared": "1", "c": "1"}
    assert api.data("second", b="1")["data"] == {"b": "1", "c": "1"}


def test_lists_with_keys_are_merged_and_atomic_ones_replaced(api: Api) -> None:
    def pod(*containers: JsonObject, **spec: Any) -> JsonObject:
        return {"kind": "Pod", "spec": {"containers": list(containers), **spec}}

    api.apply("first", pod(CONTAINER), plural="pods")
    side = {"name": "side", "image": "busybox:1"}
    api.cluster.storage.set_savepoint()
    refused = api.apply("second", pod({**CONTAINER, "image": "busybox:2"}), plural="pods")
    assert refused["message"] == (
        'Apply failed with 1 conflict: conflict with "first": .spec.containers[name="app"].image'
    )
    forced = api.apply("second", pod({**CONTAINER, "image": "busybox:2"}), force=True, plural="pods")
    assert forced["spec"]["containers"][0]["image"] == "busybox:2"
    twice = api.apply("third", pod(side, side), plural="pods")
    assert (twice["code"], 'duplicate entries for key [name="side"]' in twice["message"]) == (400, True)


def test_a_status_is_applied_apart(api: Api) -> None:
    """By its own managers; the spec in the manifest does not count."""
    api("create", {"metadata": {"name": "c"}, "spec": {"containers": [CONTAINER]}}, "maker", plural="pods", name="")
    for number in (1, 2):
        condition = {"type": f"Gate{number}", "status": "True"}
        body = {"kind": "Pod", "spec": {"containers": []}, "status": {"conditions": [condition]}}
        made = api.apply(f"m{number}", body, plural="pods", subresource="status")
    assert [one["type"] for one in made["status"]["conditions"]][-2:] == ["Gate1", "Gate2"]
    assert made["spec"]["containers"]
    entry = next(one for one in made["metadata"]["managedFields"] if one["manager"] == "m2")
    assert (entry["subresource"], list(entry["fieldsV1"])) == ("status", ["f:status"])


def test_an_object_without_managers_has_one_before_its_first_apply(api: Api) -> None:
    api("create", {"metadata": {"name": "c"}, "data": {"a": "1"}}, name="")
    assert "managedFields" not in api("get")["metadata"]
    refused = api.data("first", a="2")
    assert 'conflict with "before-first-apply" using v1' in refused["message"]
    assert managers(api.data("first", b="2"))["before-first-apply", "Update"] == {"f:data": {".": {}, "f:a": {}}}


def test_what_kubectl_has_applied_by_itself_becomes_its_own(api: Api) -> None:
    """`lastAppliedManager`: fields of its annotation are no conflicts, unless somebody has changed them since."""
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "1"}}
    body = {**manifest, "metadata": {"name": "c", "annotations": {LAST_APPLIED: json.dumps(manifest)}}}
    api("create", body, "kubectl-client-side-apply", name="")
    assert api.data("other", a="2", b="1")["code"] == 409, "for kubectl alone"
    assert api.data("kubectl", a="2", b="1")["data"] == {"a": "2", "b": "1"}
    api("patch", {"data": {"b": "3"}}, "editor", patch_type=MERGE)
    refused = api.data("kubectl", a="2", b="2")
    assert 'conflict with "editor"' in refused["message"]


def test_an_earlier_version_of_ours_has_left_an_annotation(api: Api) -> None:
    """`cloudcore apply` goes on from it: what its last manifest had and the new one lacks is removed."""
    last = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"a": "1"}}
    api.cluster.apply(last)
    api("patch", {"data": {"other": "1"}}, patch_type=MERGE)
    other = Api()
    other.cluster.apply(last)
    assert other.data("other", b="1")["data"] == {"a": "1", "b": "1"}, "the annotation is not another manager's"
    assert api.data("cloudcore", force=True, b="1")["data"] == {"b": "1", "other": "1"}


def test_managers_can_be_set(api: Api) -> None:
    """`[{}]` and `[]` clear them, kubectl moves its own by a JSON patch, and what cannot be read changes nothing."""
    made = api("create", {"metadata": {"name": "c"}, "data": {"a": "1"}}, "kubectl-client-side-apply", name="")
    moved = [{**made["metadata"]["managedFields"][0], "manager": "kubectl", "operation": "Apply"}]
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": moved},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": made["metadata"]["resourceVersion"]},
    ]
    found = api("patch", patch, "kubectl", patch_type=JSON_PATCH)
    assert list(managers(found)) == [("kubectl", "Apply")]
    assert "data" not in api.data("kubectl")
    api.data("kubectl", a="1")
    wrong = {"metadata": {"managedFields": [{"manager": "x", "operation": "Steal"}]}}
    assert ("kubectl", "Apply") in managers(api("patch", wrong, "editor", patch_type=MERGE))
    nothings: tuple[list[JsonObject], ...] = ([{}], [])
    for nothing in nothings:
        api.data("kubectl", a="1")
        cleared = api("patch", {"metadata": {"managedFields": nothing}}, "editor", patch_type=MERGE)
        assert managers(cleared) == {}
    refused = api.apply("kubectl", {"metadata": {"managedFields": moved}})
    assert (refused["code"], refused["message"]) == (400, "metadata.managedFields must be nil")


def test_a_change_without_a_name_leaves_the_managers(api: Api) -> None:
    """Of a node, for instance, which cannot set them, either; its statuses cost nothing more than before."""
    api("create", {"metadata": {"name": "c"}, "spec": {"nodeName": "n1", "containers": [CONTAINER]}}, "maker",
        plural="pods", name="")  # fmt: skip
    before = api.cluster.storage.list(api.cluster.storage.kinds.at("v1", "pods"))[0]["metadata"]["managedFields"]
    status = {"metadata": {"managedFields": [{}]}, "status": {"phase": "Running"}}
    made = api("patch", status, "kubelet", plural="pods", subresource="status", patch_type=STRATEGIC, node="n1")
    assert made["status"]["phase"] == "Running"
    after = api.cluster.storage.list(api.cluster.storage.kinds.at("v1", "pods"))[0]["metadata"]["managedFields"]
    assert after is before, "not even read"


def test_the_oldest_updates_become_one(api: Api) -> None:
    api("create", {"metadata": {"name": "c"}, "data": {"k0": "v"}}, "m0", name="")
    for number in range(1, 15):
        api.simulation.run_for(2)
        made = api("patch", {"data": {f"k{number}": "v"}}, f"m{number}", patch_type=MERGE)
    found = managers(made)
    assert len(found) == 10
    ancient = found["ancient-changes", "Update"]["f:data"]
    assert set(ancient) == {".", "f:k0", "f:k1", "f:k2", "f:k3", "f:k4", "f:k5"}


def test_prune_of_an_applyset_works_with_what_kubectl_sends(api: Api) -> None:
    """It applies the parent by a manager of its own, members with a label, lists these, and deletes by uid."""
    label = "applyset.kubernetes.io/part-of"
    parent = {"metadata": {"name": "parent", "labels": {"applyset.kubernetes.io/id": "applyset-1"}}}
    api.apply("kubectl-applyset", parent, name="parent")
    for name in ("one", "two"):
        api.apply("kubectl", {"metadata": {"name": name, "labels": {label: "applyset-1"}}}, name=name)
    listed = api("list", name="", options={"labelSelector": f"{label}=applyset-1"})["items"]
    assert [one["metadata"]["name"] for one in listed] == ["one", "two"]
    uid = listed[1]["metadata"]["uid"]
    options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
    assert api("delete", name="two", options=options)["status"] == "Success"
    resources = {"metadata": {"name": "parent", "annotations": {"applyset.kubernetes.io/tooling": "kubectl/v1.32"}}}
    updated = api.apply("kubectl-applyset", resources, name="parent", force=True)
    assert "labels" not in updated["metadata"]


def test_what_admission_and_creation_set_has_no_manager(api: Api) -> None:
    """Such as the service account of a pod that names none."""
    body = {"metadata": {"name": "c"}, "spec": {"containers": [CONTAINER]}}
    made = api("create", body, "kubectl-create", plural="pods", name="")
    assert made["spec"]["serviceAccountName"] == "default"
    assert "f:serviceAccountName" not in managers(made)["kubectl-create", "Update"]["f:spec"]


def test_what_the_first_apply_of_a_status_finds_there_has_a_manager_of_the_subresource(api: Api) -> None:
    """But for zeros, which Go's empty object has, too: whoever applies the first counts is in no conflict."""
    budget: JsonObject = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    of_kind: Any = {"plural": "poddisruptionbudgets", "api_version": "policy/v1"}
    api("create", {**budget, "metadata": {"name": "c"}}, name="", **of_kind)
    status = {"currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 1, "expectedPods": 1}
    made = api.apply("first", {**budget, "status": status}, subresource="status", **of_kind)
    assert managers(made) == {("first", "Apply"): {"f:status": {f"f:{name}": {} for name in status}}}
    api("patch", {"metadata": {"managedFields": []}}, "first", patch_type=MERGE, **of_kind)
    refused = api.apply("first", {**budget, "status": {"expectedPods": 2}}, subresource="status", **of_kind)
    of = '"before-first-apply" with subresource "status" using policy/v1'
    assert refused["message"] == f"Apply failed with 1 conflict: conflict with {of}: .status.expectedPods"


def test_the_plain_data_of_a_secret_stay_their_managers(api: Api) -> None:
    """Who gives them up leaves what was made of them, as nobody has applied that."""
    secret: Any = {"plural": "secrets"}
    made = api.apply("first", {"kind": "Secret", "stringData": {"a": "1"}}, **secret)
    assert managers(made) == {("first", "Apply"): {"f:stringData": {"f:a": {}}}}
    assert api.apply("first", {"kind": "Secret"}, **secret)["data"] == made["data"] == {"a": "MQ=="}


def test_a_null_in_a_manifest_is_its_managers(api: Api) -> None:
    api.data("first", a="1")
    made = api.apply("second", {"data": None, "metadata": {"finalizers": None}})
    assert made["data"] == {"a": "1"}
    assert managers(made)["second", "Apply"] == {"f:data": {}, "f:metadata": {"f:finalizers": {}}}


def test_an_empty_object_that_is_applied_again_keeps_what_others_have_put_there(api: Api) -> None:
    """Such as the labels that a Job's template gets with it (`kubectl create job --dry-run=client -o yaml`)."""
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    job: Any = {"plural": "jobs", "api_version": "batch/v1"}
    for parallelism in (1, 2):
        spec = {"template": template, "parallelism": parallelism}
        made = api.apply("first", {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}, **job)
        assert (made["spec"]["parallelism"], "job-name" in made["spec"]["template"]["metadata"]["labels"]) == (
            parallelism, True
        )  # fmt: skip


def test_ephemeral_containers_have_no_manager(api: Api) -> None:
    api("create", {"metadata": {"name": "c"}, "spec": {"containers": [CONTAINER]}}, "maker", plural="pods", name="")
    body = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "busybox:1"}]}}
    made = api("patch", body, "other", plural="pods", subresource="ephemeralcontainers", patch_type=STRATEGIC)
    assert made["spec"]["ephemeralContainers"][0]["name"] == "debug"
    assert set(managers(made)) == {("maker", "Update")}


def test_an_update_of_an_object_without_managers_notes_none(api: Api) -> None:
    api("create", {"metadata": {"name": "c"}, "data": {"a": "1"}}, name="")
    assert managers(api("patch", {"data": {"a": "2"}}, "editor", patch_type=MERGE)) == {}


def test_the_claim_of_a_volume_is_managed_field_by_field() -> None:
    shape = shape_of("PersistentVolume").field("spec")
    assert shape.field("claimRef").form({"name": "a"}) is MergeForm.MAP
    assert shape_of("Event").field("involvedObject").form({"name": "a"}) is MergeForm.LEAF


def test_fields_that_a_request_cannot_set_are_not_its_managers() -> None:
    new = {"kind": "CertificateSigningRequest", "metadata": {"labels": {"a": "b"}}, "spec": {"signerName": "a.b/c"}}
    tracking = Tracking("CertificateSigningRequest", shape_of("CertificateSigningRequest"), "", has_status=True)
    updated = tracking.updated(None, new, Manager("a", "Update", "", "v1"))
    assert managers(msgspec.json.decode(msgspec.json.encode(updated))) == {
        ("a", "Update"): {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}}
    }
    live: JsonObject = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 1}}
    tracking = Tracking("Deployment", shape_of("Deployment"), "", has_status=True)
    live = tracking.updated(None, live, Manager("a", "Update", "", "apps/v1"))
    changed = {**live, "metadata": {**live["metadata"], "labels": {"a": "b"}}, "status": {"replicas": 1}}
    updated = tracking.updated(live, changed, Manager("b", "Update", "status", "apps/v1"))
    assert managers(msgspec.json.decode(msgspec.json.encode(updated)))["b", "Update"] == {
        "f:status": {"f:replicas": {}}
    }


def test_a_manager_that_updates_is_another_than_one_of_its_name_that_applies(api: Api) -> None:
    api("create", {"metadata": {"name": "c"}, "data": {"a": "1"}}, "one", name="")
    refused = api.data("one", a="2")
    assert refused["message"] == 'Apply failed with 1 conflict: conflict with "one" using v1: .data.a'
    forced = managers(api.data("one", force=True, a="2"))
    assert forced["one", "Apply"] == {"f:data": {"f:a": {}}}
    assert forced.get(("one", "Update")) in (None, {"f:data": {}}), "each field is of one of them"
