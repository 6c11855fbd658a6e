"""CustomResourceDefinitions and custom objects over HTTP, and after a restart."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from beehive.simulation import Simulation
from modules.cloud.apiextensions import objects
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.authorization.attributes import of_call
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_authorizer import authorize
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.transactions import Transactions
from modules.cloud.storage.watch_history import WatchHistory, WatchQuery
from tests.modules.cloud.apiextensions.definition import DEFINITIONS, DEVICES, definition, device
from tests.modules.cloud.apiserver.endpoints.serving import Serving, Watcher
from tests.modules.cloud.changes import RecordedChanges

MERGE = "application/merge-patch+json"
DEVICES_API = "/apis/devices.example.io/v1"


def answer(serving: Serving, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
    """The object in a response."""
    return json.loads(serving.ask(method, path, body, media).body)


@pytest.fixture
def serving() -> Serving:
    """A server with the definition of devices."""
    made = Serving()
    assert made.ask("POST", DEFINITIONS, definition()).status == 201
    return made


def test_rules_in_cel_are_stored_on_request() -> None:
    """They are not evaluated, which each write of the definition says. Without the option, a stored definition stays
    served and may change, and another one is refused.
    """

    def write(cluster: Cluster, verb: str, body: Any, plural: str = "customresourcedefinitions") -> ApiResult:
        version = body["apiVersion"]
        name = body["metadata"]["name"] if verb == "update" else ""
        place = "default" if plural == "devices" else ""
        call = ApiCall(verb=verb, api_version=version, plural=plural, namespace=place, name=name, body=body)
        return serve(cluster, call)

    ruled = definition()
    schema = ruled["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"] = [{"rule": "self.rate < 5"}]
    cluster = Cluster(Simulation(0).clock)
    refused = write(cluster, "create", ruled).refusal or {}
    assert "--store-unevaluated-validations" in refused["message"]
    takes = Cluster(Simulation(0).clock, takes_validations=True)
    made = write(takes, "create", ruled)
    assert made.object is not None
    (warning,) = made.warnings
    assert warning.startswith("customresourcedefinition devices.devices.example.io: its rules in CEL")
    assert write(takes, "create", device(rate=9), "devices").refusal is None
    later = Cluster(Simulation(0).clock, storage=takes.storage)
    made.object["metadata"]["labels"] = {"a": "b"}
    assert write(later, "update", made.object).refusal is None
    assert write(later, "create", {**device(rate=9), "metadata": {"name": "other"}}, "devices").refusal is None
    other = definition("Sensor", "sensors")
    other["spec"]["versions"][0]["schema"] = ruled["spec"]["versions"][0]["schema"]
    assert write(later, "create", other).refusal is not None


def conditions(obj: Any) -> dict[str, tuple[str, str]]:
    """The conditions of a definition."""
    return {one["type"]: (one["status"], one["reason"]) for one in obj["status"]["conditions"]}


def test_a_definition_is_established(serving: Serving) -> None:
    """A definition without conflicts has its conditions, names and versions immediately."""
    found = answer(serving, "GET", f"{DEFINITIONS}/devices.devices.example.io")
    assert conditions(found) == {
        "NamesAccepted": ("True", "NoConflicts"), "Established": ("True", "InitialNamesAccepted"),
    }  # fmt: skip
    assert found["status"]["acceptedNames"]["kind"] == "Device"
    assert found["status"]["storedVersions"] == ["v1"]


def test_an_object_is_pruned_defaulted_and_counted(serving: Serving) -> None:
    """Unknown fields are pruned, defaults set, and the generation counts changes of the spec alone."""
    made = answer(serving, "POST", DEVICES, device(unknown=1))
    assert made["spec"] == {"protocol": "modbus", "rate": 5}
    assert made["metadata"]["generation"] == 1
    path = f"{DEVICES}/pump"
    patched = answer(serving, "PATCH", path, {"spec": {"rate": 6}, "status": {"state": "x"}}, MERGE)
    assert (patched["metadata"]["generation"], "status" in patched) == (2, False)
    body = {"spec": {"rate": 7}, "status": {"state": "on"}}
    reported = answer(serving, "PATCH", f"{path}/status", body, MERGE)
    assert (reported["spec"]["rate"], reported["status"]) == (6, {"state": "on"})
    assert reported["metadata"]["generation"] == 2
    replaced = answer(serving, "PUT", f"{path}/status", {**reported, "status": {"state": "off"}})
    assert replaced["status"] == {"state": "off"}
    assert serving.ask("PUT", f"{path}/status", {**reported, "status": {"state": 1}}).status == 409
    operation = [{"op": "replace", "path": "/spec/rate", "value": 9}]
    changed = answer(serving, "PATCH", path, operation, "application/json-patch+json")
    assert (changed["spec"]["rate"], changed["status"]) == (9, {"state": "off"})


@pytest.mark.parametrize(("value", "kept", "code"), [(None, "", None), (1, None, 422), ({"x": 1}, None, 422)])
def test_a_patch_leaves_metadata_their_types(serving: Serving, value: Any, kept: str | None, code: int | None) -> None:
    answer(serving, "POST", DEVICES, {**device(), "metadata": {"name": "pump", "labels": {"a": "1"}}})
    operation = [{"op": "add", "path": "/metadata/labels/a", "value": value}]
    found = answer(serving, "PATCH", f"{DEVICES}/pump", operation, "application/json-patch+json")
    assert (found.get("code"), found["metadata"].get("labels")) == (code, None if kept is None else {"a": kept})


def test_wrong_objects_are_refused_with_causes(serving: Serving) -> None:
    """An object that breaks its schema is 422 with a cause for each rule."""
    status = answer(serving, "POST", DEVICES, device(protocol="x", rate=0))
    assert (status["code"], status["reason"]) == (422, "Invalid")
    assert {cause["field"] for cause in status["details"]["causes"]} == {"spec.protocol", "spec.rate"}
    assert status["message"].startswith(
        'Device.devices.example.io "pump" is invalid: [spec.protocol: Unsupported value'
    )


def test_objects_are_served_in_each_version_and_stored_versions_stay() -> None:
    """What was stored in a version may still be: it can only go from a definition when its status lets it."""
    serving, made = Serving(), definition()
    (first,) = made["spec"]["versions"]
    second = {**first, "name": "v2", "storage": False}
    made["spec"]["versions"] = [first, second, {**second, "name": "v3", "served": False}]
    answer(serving, "POST", DEFINITIONS, made)
    answer(serving, "POST", DEVICES, device())
    path, later = f"{DEFINITIONS}/devices.devices.example.io", DEVICES.replace("/v1/", "/v2/")
    assert answer(serving, "GET", f"{later}/pump")["apiVersion"] == "devices.example.io/v2"
    assert [each["apiVersion"] for each in answer(serving, "GET", later)["items"]] == ["devices.example.io/v2"]
    assert serving.ask("GET", DEVICES.replace("/v1/", "/v3/")).status == 404
    versions = [{**first, "storage": False}, {**second, "storage": True}]
    changed = answer(serving, "PATCH", path, {"spec": {"versions": versions}}, MERGE)
    assert changed["status"]["storedVersions"] == ["v1", "v2"]
    refused = answer(serving, "PATCH", path, {"spec": {"versions": versions[1:]}}, MERGE)
    assert refused["details"]["causes"][0]["field"] == "status.storedVersions[0]"


def scalable(**paths: str) -> dict[str, Any]:
    """The definition of a kind with replicas."""
    made = definition()
    (version,) = made["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"]["properties"]["pumps"] = {"type": "integer"}
    properties["status"]["properties"] |= {"pumps": {"type": "integer"}, "selector": {"type": "string"}}
    scale = {"specReplicasPath": ".spec.pumps", "statusReplicasPath": ".status.pumps"}
    version["subresources"]["scale"] = {**scale, "labelSelectorPath": ".status.selector", **paths}
    return made


def test_a_custom_object_is_scaled_at_its_paths() -> None:
    serving = Serving()
    assert serving.ask("POST", DEFINITIONS, scalable()).status == 201
    answer(serving, "POST", DEVICES, device(pumps=2))
    status = {"status": {"pumps": 1, "selector": "app=pump"}}
    answer(serving, "PATCH", f"{DEVICES}/pump/status", status, MERGE)
    scale = answer(serving, "GET", f"{DEVICES}/pump/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "app=pump"})
    assert answer(serving, "PATCH", f"{DEVICES}/pump/scale", {"spec": {"replicas": 0}}, MERGE)["spec"] == {
        "replicas": 0
    }
    found = answer(serving, "GET", f"{DEVICES}/pump")
    assert (found["spec"]["pumps"], found["metadata"]["generation"]) == (0, 2)
    assert answer(serving, "PUT", f"{DEVICES}/pump/scale", {**scale, "spec": {"replicas": 3}})["code"] == 409
    answer(serving, "POST", DEVICES, device("none"))
    refused = answer(serving, "GET", f"{DEVICES}/none/scale")
    assert (refused["code"], 'replicas field ".spec.pumps" does not exist' in refused["message"]) == (500, True)


@pytest.mark.parametrize(
    ("field", "path", "why"),
    [
        ("specReplicasPath", "", "Required value"),
        ("specReplicasPath", ".status.pumps", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.pumps[0]", "is not a json path"),
        ("statusReplicasPath", ".spec.pumps", "should be a json path under .status"),
        ("specReplicasPath", ".spec", "is not a json path"),
        ("labelSelectorPath", ".metadata.labels", "should be a json path under either .spec or .status"),
    ],
)
def test_a_definition_with_a_wrong_path_of_replicas_is_refused(field: str, path: str, why: str) -> None:
    refused = answer(Serving(), "POST", DEFINITIONS, scalable(**{field: path}))
    (cause,) = refused["details"]["causes"]
    assert (refused["code"], cause["field"]) == (422, f"spec.subresources.scale.{field}")
    assert why in cause["message"]


def test_strategic_patches_are_415(serving: Serving) -> None:
    """A strategic merge patch of a custom object is refused, as by an API server."""
    answer(serving, "POST", DEVICES, device())
    media = "application/strategic-merge-patch+json"
    assert answer(serving, "PATCH", f"{DEVICES}/pump", {"spec": {"rate": 1}}, media)["code"] == 415


def test_deleting_a_definition_deletes_its_objects(serving: Serving) -> None:
    """A watch of custom objects sees the deletions, and the kind is gone afterwards."""
    answer(serving, "POST", DEVICES, device())

    def delete() -> None:
        assert serving.ask("DELETE", f"{DEFINITIONS}/devices.devices.example.io").status == 200

    events = serving.watch(DEVICES, Watcher(delete))
    assert [kind for kind, _ in events] == ["ADDED", "DELETED"]
    assert serving.ask("GET", DEVICES).status == 404
    assert serving.ask("POST", DEFINITIONS, definition()).status == 201
    assert answer(serving, "GET", DEVICES)["items"] == []


def held(name: str = "pump") -> Any:
    """A device that another program has to look at before it is removed."""
    made = device(name)
    made["metadata"]["finalizers"] = ["example.io/valve"]
    return made


OWN = f"{DEFINITIONS}/devices.devices.example.io"


def test_a_definition_stays_until_the_last_finalizer_of_its_objects_is_gone(serving: Serving) -> None:
    """The program that has set it could not find out otherwise that it has something to clean up."""
    answer(serving, "POST", DEVICES, device("free"))
    for name in ("pump", "fan"):
        answer(serving, "POST", DEVICES, held(name))
    told = answer(serving, "DELETE", OWN)
    assert told["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert conditions(told)["Terminating"] == ("True", "InstanceDeletionInProgress")
    left = answer(serving, "GET", DEVICES)["items"]
    assert [(each["metadata"]["name"], "deletionTimestamp" in each["metadata"]) for each in left] == [
        ("fan", True), ("pump", True),
    ]  # fmt: skip
    refused = answer(serving, "POST", DEVICES, device())
    assert (refused["code"], refused["message"]) == (
        405, "create not allowed while custom resource definition is terminating",
    )  # fmt: skip
    free = {"metadata": {"finalizers": None}}
    assert serving.ask("PATCH", f"{DEVICES}/fan", free, MERGE).status == 200
    assert conditions(answer(serving, "GET", OWN))["Established"][0] == "True"
    assert serving.ask("PATCH", f"{DEVICES}/pump", free, MERGE).status == 200
    assert [serving.ask("GET", path).status for path in (OWN, DEVICES)] == [404, 404]
    assert serving.ask("POST", DEFINITIONS, definition()).status == 201
    assert answer(serving, "GET", DEVICES)["items"] == []


def test_a_definition_with_a_finalizer_of_its_own_outlives_its_objects(serving: Serving) -> None:
    """It takes no new ones, and is removed with the last of both."""
    mine = ["example.io/definition"]
    assert serving.ask("PATCH", OWN, {"metadata": {"finalizers": mine}}, MERGE).status == 200
    answer(serving, "POST", DEVICES, held())
    assert answer(serving, "DELETE", OWN)["metadata"]["finalizers"][0] == mine[0]
    assert answer(serving, "DELETE", OWN)["metadata"]["finalizers"] == [
        *mine, "customresourcecleanup.apiextensions.k8s.io",
    ]  # fmt: skip
    serving.ask("PATCH", f"{DEVICES}/pump", {"metadata": {"finalizers": []}}, MERGE)
    assert answer(serving, "GET", OWN)["metadata"]["finalizers"] == mine
    assert answer(serving, "POST", DEVICES, device())["code"] == 405
    assert answer(serving, "GET", DEVICES)["items"] == []
    assert serving.ask("PATCH", OWN, {"metadata": {"finalizers": None}}, MERGE).status == 200
    assert serving.ask("GET", OWN).status == 404


def test_a_definition_loses_a_finalizer_of_its_own_before_its_objects_are_gone(serving: Serving) -> None:
    assert serving.ask("PATCH", OWN, {"metadata": {"finalizers": ["example.io/definition"]}}, MERGE).status == 200
    answer(serving, "POST", DEVICES, held())
    serving.ask("DELETE", OWN)
    kept = ["customresourcecleanup.apiextensions.k8s.io"]
    assert serving.ask("PATCH", OWN, {"metadata": {"finalizers": kept}}, MERGE).status == 200
    assert serving.ask("PATCH", f"{DEVICES}/pump", {"metadata": {"finalizers": None}}, MERGE).status == 200
    assert serving.ask("GET", OWN).status == 404


def test_a_definition_from_a_backup_of_a_deleted_one_can_be_deleted(serving: Serving) -> None:
    """Its manifest has the finalizer, and there may be no object whose end would take it away."""
    serving.ask("DELETE", OWN)
    made = definition()
    made["metadata"]["finalizers"] = ["customresourcecleanup.apiextensions.k8s.io"]
    assert serving.ask("POST", DEFINITIONS, made).status == 201
    assert serving.ask("DELETE", OWN).status == 200
    assert serving.ask("GET", OWN).status == 404


def test_without_the_finalizer_that_holds_it_a_definition_goes_with_its_objects(serving: Serving) -> None:
    """As when an administrator takes it away, since the program with the other finalizers is gone for good."""
    answer(serving, "POST", DEVICES, held())
    serving.ask("DELETE", OWN)
    assert serving.ask("PATCH", OWN, {"metadata": {"finalizers": None}}, MERGE).status == 200
    assert serving.ask("GET", OWN).status == 404
    assert serving.ask("POST", DEFINITIONS, definition()).status == 201
    assert answer(serving, "GET", DEVICES)["items"] == []


def test_colliding_names_are_not_accepted_until_they_are_free(serving: Serving) -> None:
    """A second definition with the same kind waits until the first is gone."""
    second = answer(serving, "POST", DEFINITIONS, definition(plural="machines"))
    assert conditions(second)["NamesAccepted"] == ("False", "SingularConflict")
    assert conditions(second)["Established"] == ("False", "NotAccepted")
    serving.simulation.run_for(10)
    serving.ask("DELETE", f"{DEFINITIONS}/devices.devices.example.io")
    later = answer(serving, "GET", f"{DEFINITIONS}/machines.devices.example.io")
    assert conditions(later)["Established"][0] == "True"
    times = [[one["lastTransitionTime"] for one in each["status"]["conditions"]] for each in (second, later)]
    assert times[0] < times[1]


def test_names_that_an_update_gives_up_are_free(serving: Serving) -> None:
    first, second = answer(serving, "GET", f"{DEFINITIONS}/devices.devices.example.io"), definition(plural="machines")
    first["spec"]["names"]["shortNames"] = ["mine"]
    first = answer(serving, "PUT", f"{DEFINITIONS}/devices.devices.example.io", first)
    second["spec"]["names"] = {"plural": "machines", "singular": "machine", "kind": "Machine", "shortNames": ["mine"]}
    assert conditions(answer(serving, "POST", DEFINITIONS, second))["Established"][0] == "False"
    first["spec"]["names"]["shortNames"] = ["other"]
    answer(serving, "PUT", f"{DEFINITIONS}/devices.devices.example.io", first)
    later = answer(serving, "GET", f"{DEFINITIONS}/machines.devices.example.io")
    assert conditions(later)["Established"][0] == "True"


def test_an_object_of_the_cluster_has_no_namespace() -> None:
    serving, made = Serving(), definition()
    made["spec"]["scope"] = "Cluster"
    assert serving.ask("POST", DEFINITIONS, made).status == 201
    pump = device()
    pump["metadata"]["namespace"] = "shop"
    assert "namespace" not in answer(serving, "POST", f"{DEVICES_API}/devices", pump)["metadata"]
    assert serving.cluster.apply(pump)[1] == "configured"
    assert serving.ask("GET", f"{DEVICES_API}/devices/pump").status == 200
    assert serving.ask("GET", f"{DEVICES}/pump").status == 404


def test_a_definition_that_is_not_established_takes_no_objects_with_it(serving: Serving) -> None:
    """They are of the definition that has the name."""
    answer(serving, "POST", DEVICES, device())
    answer(serving, "POST", DEFINITIONS, definition(plural="machines"))
    assert serving.ask("DELETE", f"{DEFINITIONS}/machines.devices.example.io").status == 200
    assert [each["metadata"]["name"] for each in answer(serving, "GET", DEVICES)["items"]] == ["pump"]


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (definition("Machine", "machines", singular="devices"), "SingularConflict"),
        (definition("Machine", "machines", shortNames=["device"]), "ShortNamesConflict"),
        (definition("Machine", "machines", listKind="DeviceList"), "ListKindConflict"),
        (definition("DeviceList", "machines"), "KindConflict"),
        (definition("Machine", "machines"), "NoConflicts"),
        (definition(group="other.example.io"), "NoConflicts"),
    ],
)
def test_which_names_collide(serving: Serving, other: Any, reason: str) -> None:
    assert conditions(answer(serving, "POST", DEFINITIONS, other))["NamesAccepted"][1] == reason


def test_scope_and_kind_of_a_definition_stay(serving: Serving) -> None:
    for change in ({"scope": "Cluster"}, {"names": {"kind": "Machine"}}):
        refused = answer(serving, "PATCH", f"{DEFINITIONS}/devices.devices.example.io", {"spec": change}, MERGE)
        assert refused["details"]["causes"][0]["message"].endswith("field is immutable")


def test_an_established_kind_is_served_though_it_asks_for_a_name_that_another_one_has(serving: Serving) -> None:
    """With its former names, until the name is free; and the other one keeps it."""
    answer(serving, "POST", DEVICES, device())
    machines, path = definition("Machine", "machines", shortNames=["m"]), f"{DEFINITIONS}/devices.devices.example.io"
    answer(serving, "POST", DEFINITIONS, machines)
    asked = {"spec": {"names": {"shortNames": ["m"]}}}
    changed = answer(serving, "PATCH", path, asked, MERGE)
    assert conditions(changed) == {
        "NamesAccepted": ("False", "ShortNamesConflict"), "Established": ("True", "InitialNamesAccepted"),
    }  # fmt: skip
    assert [each["metadata"]["name"] for each in answer(serving, "GET", DEVICES)["items"]] == ["pump"]
    found = {each["name"]: each.get("shortNames") for each in answer(serving, "GET", DEVICES_API)["resources"]}
    assert (found["devices"], found["machines"]) == (None, ["m"])
    other = answer(serving, "PATCH", f"{DEFINITIONS}/machines.devices.example.io", {"metadata": {"labels": {}}}, MERGE)
    assert conditions(other)["NamesAccepted"][0] == "True"
    serving.ask("DELETE", f"{DEFINITIONS}/machines.devices.example.io")
    assert conditions(answer(serving, "GET", path))["NamesAccepted"][0] == "True"
    assert answer(serving, "GET", DEVICES_API)["resources"][0]["shortNames"] == ["m"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"scope": "Both", "names": None}, "spec.scope"),
        ({"group": "x"}, "spec.group"),
        ({"versions": []}, "spec.versions"),
        ({"versions": [], "preserveUnknownFields": True}, "spec.preserveUnknownFields"),
        ({"versions": [{"name": "v1", "served": True, "storage": False}]}, "spec.versions[0].schema.openAPIV3Schema"),
        ({"names": {"kind": "Device", "plural": "others"}}, "metadata.name"),
        ({"group": "devices.x.k8s.io"}, "metadata.annotations[api-approved.kubernetes.io]"),
    ],
)
def test_wrong_definitions_are_refused(change: Any, field: str) -> None:
    """A definition that breaks a rule is 422, and a cause names the field."""
    wrong = definition()
    wrong["spec"] |= change
    status = answer(Serving(), "POST", DEFINITIONS, wrong)
    assert status["code"] == 422, status
    assert field in {cause["field"] for cause in status["details"]["causes"]}


@pytest.mark.parametrize(
    ("approval", "code"),
    [("https://github.com/a/b/pull/1", 201), ("unapproved, a trial", 201), ("yes", 422), (None, 422)],
)
def test_a_group_of_kubernetes_own_says_who_has_approved_it(approval: str | None, code: int) -> None:
    """Recorded of kube-apiserver 1.32."""
    made = definition()
    made["spec"]["group"] = "example.k8s.io"
    made["metadata"] = {"name": "devices.example.k8s.io", "annotations": {"api-approved.kubernetes.io": approval}}
    assert Serving().ask("POST", DEFINITIONS, made).status == code


def test_a_null_in_the_metadata_is_nothing(serving: Serving) -> None:
    made = device()
    made["metadata"] |= {"labels": None, "annotations": None}
    assert {"labels", "annotations"}.isdisjoint(answer(serving, "POST", DEVICES, made)["metadata"])


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"name": {"x": None}}, "object into Go struct field ObjectMeta.name of type string"),
        ({"name": ["a"]}, "array into Go struct field ObjectMeta.name of type string"),
        ({"name": "a", "namespace": {}}, "object into Go struct field ObjectMeta.namespace of type string"),
        ({"name": "a", "labels": []}, "array into Go struct field ObjectMeta.labels of type map[string]string"),
        ({"name": "a", "labels": {"b": 1}}, "number into Go struct field ObjectMeta.labels of type string"),
        (
            {"name": "a", "ownerReferences": [1]},
            "number into Go struct field ObjectMeta.ownerReferences of type v1.OwnerReference",
        ),
        ({"name": "a", "generation": "x"}, "string into Go struct field ObjectMeta.generation of type int64"),
        ([], "array into Go value of type v1.ObjectMeta"),
        (1, "number into Go value of type v1.ObjectMeta"),
    ],
)
def test_metadata_of_other_types(serving: Serving, metadata: Any, why: str) -> None:
    """As measured at kube-apiserver 1.32. A name that is an object was answered 500."""
    made = device() | {"metadata": metadata}
    refused = answer(serving, "POST", DEVICES, made)
    wanted = f'Device in version "v1" cannot be handled as a Device: json: cannot unmarshal {why}'
    assert (refused["code"], refused["message"]) == (400, wanted)


def test_discovery_and_openapi_have_the_kind(serving: Serving) -> None:
    """Discovery and OpenAPI have a custom kind right after its definition."""
    groups = answer(serving, "GET", "/apis")["groups"]
    assert "devices.example.io" in [group["name"] for group in groups]
    resources = answer(serving, "GET", "/apis/devices.example.io/v1")["resources"]
    assert [one["name"] for one in resources] == ["devices", "devices/status"]
    schemas = answer(serving, "GET", "/openapi/v3/apis/devices.example.io/v1")["components"]["schemas"]
    assert "protocol" in schemas["io.example.devices.v1.Device"]["properties"]["spec"]["properties"]


def test_discovery_has_the_hash_of_the_stored_version(serving: Serving) -> None:
    """The texts are those of a kube-apiserver 1.32. Subresources and reviews have none, nothing of them is stored."""

    def hashes(path: str) -> dict[str, str | None]:
        return {each["name"]: each.get("storageVersionHash") for each in answer(serving, "GET", path)["resources"]}

    core = hashes("/api/v1")
    assert (core["pods"], core["events"], core["pods/status"]) == ("xPOwRZ+Yhw8=", "r2yiGXH7wu8=", None)
    assert hashes("/apis/events.k8s.io/v1")["events"] == core["events"]
    assert hashes("/apis/apps/v1")["deployments"] == "8aSe+NMegvE="
    assert set(hashes("/apis/authorization.k8s.io/v1").values()) == {None}
    assert hashes("/apis/devices.example.io/v1") == {"devices": "BOZv0SagMFY=", "devices/status": None}
    made = definition()
    first = {**made["spec"]["versions"][0], "storage": False}
    versions = [first, {**first, "name": "v2", "storage": True}]
    answer(serving, "PATCH", OWN, {"spec": {"versions": versions}}, MERGE)
    before, after = hashes("/apis/devices.example.io/v1"), hashes("/apis/devices.example.io/v2")
    assert before == after
    assert before["devices"] != "BOZv0SagMFY="


@pytest.mark.parametrize("mode", ["Strict", "Warn", "Ignore"])
def test_a_server_side_apply_refuses_fields_that_the_schema_has_not(serving: Serving, mode: str) -> None:
    """In the words of structured-merge-diff, whatever the field validation."""
    obj = {**device(), "unknownField": 1}
    media = "application/apply-patch+yaml"
    reply = serving.ask("PATCH", f"{DEVICES}/pump", obj, media, fieldManager="kubectl", fieldValidation=mode)
    assert reply.status == 500
    assert json.loads(reply.body)["message"].endswith(": .unknownField: field not declared in schema")
    reply = serving.ask("POST", DEVICES, obj, fieldValidation="Strict")
    assert 'strict decoding error: unknown field "unknownField"' in json.loads(reply.body)["message"]


def test_a_server_side_apply_may_have_what_an_object_without_fields_prunes() -> None:
    """As a pod's template in a definition of controller-gen, whose metadata has no declared fields."""
    serving, wanted = Serving(), definition()
    spec = wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec |= {"metadata": {"type": "object"}, "none": {"type": "object", "additionalProperties": False}}
    answer(serving, "POST", DEFINITIONS, wanted)
    media, options = "application/apply-patch+yaml", {"fieldManager": "first"}
    reply = serving.ask("PATCH", f"{DEVICES}/pump", device(metadata={"labels": {"a": "b"}}), media, **options)
    assert (reply.status, json.loads(reply.body)["spec"]["metadata"]) == (201, {})
    refused = serving.ask("PATCH", f"{DEVICES}/pump", device(none={"a": "b"}), media, **options)
    assert json.loads(refused.body)["message"].endswith(": .spec.none.a: field not declared in schema")


def test_a_number_or_text_may_have_a_type() -> None:
    """Which then says nothing, as in the definition of VolumeSnapshots."""
    serving, wanted = Serving(), definition()
    spec = wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    spec["size"] = {"type": "string", "x-kubernetes-int-or-string": True}
    assert serving.ask("POST", DEFINITIONS, wanted).status == 201
    assert [serving.ask("POST", DEVICES, device(f"d{at}", size=size)).status for at, size in enumerate((1, "1"))] == [
        201,
        201,
    ]


def test_a_version_shows_no_fields_of_another_version() -> None:
    """Of an object that was stored by it."""
    serving, wanted = Serving(), definition()
    (old,) = wanted["spec"]["versions"]
    new = json.loads(json.dumps({**old, "name": "v2", "storage": False}))
    del new["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rate"]
    wanted["spec"]["versions"].append(new)
    answer(serving, "POST", DEFINITIONS, wanted)
    answer(serving, "POST", DEVICES, device(rate=3))
    specs = [answer(serving, "GET", f"{DEVICES.replace('v1', version)}/pump")["spec"] for version in ("v1", "v2")]
    assert specs == [{"protocol": "modbus", "rate": 3}, {"protocol": "modbus"}]


@pytest.mark.parametrize("media", [MERGE, "application/json-patch+json"])
def test_a_patch_is_validated_by_the_schema_of_its_version(media: str) -> None:
    """Whatever version is stored: so `kubectl apply` changes what it has created in an old version. What another
    version has stored, and this one forbids, passes while it does not change.
    """
    serving, wanted = Serving(), definition()
    (new,) = wanted["spec"]["versions"]
    old = json.loads(json.dumps({**new, "name": "v1alpha1", "storage": False}))
    old["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["protocol"] = {
        "type": "object", "x-kubernetes-preserve-unknown-fields": True,
    }  # fmt: skip
    wanted["spec"]["versions"].append(old)
    answer(serving, "POST", DEFINITIONS, wanted)
    path = f"{DEVICES.replace('v1', 'v1alpha1')}"
    pump = {**device(protocol={"modbus": {}}), "apiVersion": "devices.example.io/v1alpha1"}
    assert serving.ask("POST", path, pump).status == 201
    patch: Any = {"metadata": {"labels": {"a": "b"}}}
    if media != MERGE:
        patch = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]
    reply = serving.ask("PATCH", f"{path}/pump", patch, media)
    patched = json.loads(reply.body)
    assert (reply.status, patched["apiVersion"]) == (200, "devices.example.io/v1alpha1")
    assert (patched["metadata"]["labels"], patched["spec"]["protocol"]) == ({"a": "b"}, {"modbus": {}})
    reply = serving.ask("PATCH", f"{DEVICES}/pump", {"spec": {"rate": 9, "protocol": {"opcua": {}}}}, MERGE)
    assert reply.status == 422
    other = serving.ask("PATCH", f"{DEVICES}/pump", {"metadata": {"labels": {"a": "c"}}, "spec": {"rate": 9}}, MERGE)
    patched = json.loads(other.body)
    assert (other.status, patched["apiVersion"]) == (200, "devices.example.io/v1")
    assert patched["spec"] == {"protocol": {"modbus": {}}, "rate": 9}, "what the other version has stays"


def test_an_object_changes_after_its_definition_became_stricter(serving: Serving) -> None:
    """By each verb, as far as the change keeps what the definition forbids now; and it can be deleted."""
    pump = {**device(rate=3), "metadata": {"name": "pump", "finalizers": ["example.io/f"]}}
    assert serving.ask("POST", DEVICES, pump).status == 201
    place = "/spec/versions/0/schema/openAPIV3Schema"
    stricter = [
        {"op": "replace", "path": f"{place}/properties/spec/properties/protocol/enum", "value": ["opcua"]},
        {"op": "add", "path": f"{place}/properties/other", "value": {"type": "string"}},
    ]
    media = "application/json-patch+json"
    path, one = f"{DEFINITIONS}/devices.devices.example.io", f"{DEVICES}/pump"
    assert serving.ask("PATCH", path, stricter, media).status == 200
    assert serving.ask("PATCH", one, {"metadata": {"labels": {"a": "1"}}}, MERGE).status == 200
    assert serving.ask("PATCH", one, [{"op": "replace", "path": "/spec/rate", "value": 4}], media).status == 200
    found = answer(serving, "GET", one)
    assert serving.ask("PUT", one, {**found, "spec": {**found["spec"], "rate": 6}}).status == 200
    applied = {**device(), "spec": {"rate": 7}}
    where = f"{one}?fieldManager=me&force=true"
    assert serving.ask("PATCH", where, applied, "application/apply-patch+yaml").status == 200
    for spec in ({"protocol": "other"}, {"protocol": None}, {"rate": 0}):
        assert serving.ask("PATCH", one, {"spec": spec}, MERGE).status == 422
    assert serving.ask("PUT", f"{one}/status", {**found, "status": {"state": "on"}}).status == 409
    stricter = [{"op": "add", "path": f"{place}/required", "value": ["other"]}]
    assert serving.ask("PATCH", path, stricter, media).status == 200
    assert serving.ask("PATCH", one, {"spec": {"rate": 8}}, MERGE).status == 422
    assert serving.ask("DELETE", one).status == 200
    assert answer(serving, "PATCH", one, {"metadata": {"finalizers": None}}, MERGE)["spec"]["rate"] == 7
    assert serving.ask("GET", one).status == 404


def test_an_object_whose_status_is_a_text_is_applied() -> None:
    """Its first managers are found without a look into the status."""
    serving, wanted = Serving(), definition()
    version = wanted["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = {"type": "string"}
    del version["subresources"]
    answer(serving, "POST", DEFINITIONS, wanted)
    answer(serving, "POST", DEVICES, {**device(), "status": "on"})
    media, options = "application/apply-patch+yaml", {"fieldManager": "first", "force": "true"}
    reply = serving.ask("PATCH", f"{DEVICES}/pump", {**device(), "status": "off"}, media, **options)
    assert (reply.status, json.loads(reply.body)["status"]) == (200, "off")


def test_openapi_describes_what_every_kind_has(serving: Serving) -> None:
    """`explain` prints it, also where the definition's schema has these fields without a description."""
    schemas = answer(serving, "GET", "/openapi/v3/apis/devices.example.io/v1")["components"]["schemas"]
    properties = schemas["io.example.devices.v1.Device"]["properties"]
    assert properties["apiVersion"]["description"].startswith("APIVersion defines")
    assert properties["kind"]["description"]
    assert properties["metadata"]["description"] == "Standard object's metadata."
    metadata = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    assert all(each["description"] for each in metadata.values())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}, None),
        (
            {"properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": True,
                                  "description": "any", "properties": {"b": {"type": "string"}}}}},
            {"x-kubernetes-preserve-unknown-fields": True, "description": "any"},
        ),
        ({"properties": {"a": {"type": "array", "nullable": True, "items": {"type": "string"}}}}, {}),
        (
            {"properties": {"a": {"type": "object", "nullable": True, "properties": {"b": {"type": "string"}}}}}, {},
        ),
        (
            {"properties": {"a": {"type": "array", "items": {
                "x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}},
            {"type": "array", "items": {"x-kubernetes-int-or-string": True}},
        ),
        (
            {"properties": {"a": {"type": "object", "additionalProperties": {"type": "string", "nullable": True}}}},
            {"type": "object", "additionalProperties": {}},
        ),
    ],
)  # fmt: skip
def test_openapi_v2_refuses_no_unknown_fields(given: Any, expected: Any) -> None:
    """Its clients take the properties of a schema for all that there may be."""
    made = definition()
    made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", **given}
    serving = Serving()
    assert serving.ask("POST", DEFINITIONS, made).status == 201
    schema = answer(serving, "GET", "/openapi/v2")["definitions"]["io.example.devices.v1.Device"]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "devices.example.io", "kind": "Device", "version": "v1"}
    ]
    assert schema["type"] == "object"
    assert schema.get("properties", {}).get("a") == expected
    assert ("properties" in schema) == ("x-kubernetes-preserve-unknown-fields" not in given)


def test_a_table_has_the_printer_columns(serving: Serving) -> None:
    """`kubectl get` is answered with the definition's columns."""
    answer(serving, "POST", DEVICES, device())
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = json.loads(serving.ask("GET", DEVICES, accept=accept).body)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Protocol"]
    assert table["rows"][0]["cells"] == ["pump", "modbus"]


@pytest.mark.parametrize(
    ("path", "type_", "cell"),
    [
        (".spec.protocol", "string", "modbus"),
        (".spec.rate", "integer", 5),
        (".spec.rate", "string", "5"),
        (".spec.rate", "boolean", None),
        (".spec.nothing", "string", None),
        (".spec.pins[*].n", "integer", 1),
        (".spec.pins[1].n", "integer", 2),
        (".spec.pins[2].n", "integer", None),
        (".spec.pins[-1:].n", "integer", 2),
        (".spec.pins[1:].n", "integer", 2),
        (".spec.pins[:1].n", "integer", 1),
        (".spec.pins[2:].n", "integer", None),
        (".spec.rate[0:1]", "integer", None),
        ('.spec.pins[?(@.name=="b")].n', "integer", 2),
        (".spec.pins[?(@.n==2)].name", "string", "b"),
        (".spec.pins[?(@.name=='c')].n", "integer", None),
        (".spec.pins", "string", '[{"n":1,"name":"a"},{"n":2,"name":"b"}]'),
        (r".metadata.labels.a\.b/c", "string", "x"),
        (".metadata.creationTimestamp", "date", "0s"),
        (".spec.pins[?(@.name!='a')].n", "integer", 2),
        (".spec.pins[?(@.missing!='a')].n", "integer", None),
        (".spec.pins[?(@.n>1)].name", "string", "b"),
        (".spec.pins[?(@.n<2)].name", "string", "a"),
        (".spec.pins[?(@.n>=2)].name", "string", "b"),
        (".spec.pins[?(@.n<=1)].name", "string", "a"),
        (".spec.pins[?(@.n>'1')].name", "string", None),
        (".spec.pins[?(@.n)].name", "string", "a"),
        (".spec.pins[?(@.missing)].name", "string", None),
        (".spec.pins[1,0].n", "integer", 2),
        (".spec.pins[0:2:2].n", "integer", 1),
        (".spec.pins[0]['n','name']", "integer", 1),
        (".spec['rate']", "integer", 5),
        (".spec..n", "integer", 1),
        ("..n", "integer", 1),
        (".spec.pins[0].*", "string", "1"),
        ('.spec.pins[?(@.name=="{")].n', "integer", None),
        (".spec.rate.*", "string", None),
        (".", "integer", None),
        (".spec.pins[5,0].n", "integer", None),
    ],
)
def test_a_column_shows_the_first_value_at_its_path(path: str, type_: str, cell: Any) -> None:
    serving, made = Serving(), definition()
    (version,) = made["spec"]["versions"]
    version["additionalPrinterColumns"] = [{"name": "C", "type": type_, "jsonPath": path, "priority": 1}]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["pins"] = {
        "type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }  # fmt: skip
    assert serving.ask("POST", DEFINITIONS, made).status == 201
    pump = device(rate=5, pins=[{"name": "a", "n": 1}, {"name": "b", "n": 2}])
    pump["metadata"]["labels"] = {"a.b/c": "x"}
    answer(serving, "POST", DEVICES, pump)
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = json.loads(serving.ask("GET", DEVICES, accept=accept).body)
    assert table["rows"][0]["cells"] == ["pump", cell]
    assert [column["priority"] for column in table["columnDefinitions"]] == [0, 1]


@pytest.mark.parametrize("path", [".spec.a[", ".spec.a[?(@.b=='c'].d", ".a[x]", ".a....b"])
def test_a_definition_with_a_path_that_cannot_be_read_shows_the_age(serving: Serving, path: str) -> None:
    """As by kube-apiserver, the definition is taken."""
    made = definition("Sensor", "sensors")
    made["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "C", "type": "string", "jsonPath": path}]
    assert serving.ask("POST", DEFINITIONS, made).status == 201
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = json.loads(serving.ask("GET", f"{DEVICES.rpartition('/')[0]}/sensors", accept=accept).body)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "C", "type": "string", "jsonPath": "spec.a"}, "JSONPath"),
        ({"name": "C", "type": "string", "jsonPath": "[0]"}, "JSONPath"),
        ({"name": "C", "type": "string"}, "JSONPath"),
        ({"name": "C", "type": "foo", "jsonPath": ".spec.a"}, "type"),
        ({"name": "C", "type": "string", "format": "foo", "jsonPath": ".spec.a"}, "format"),
    ],
)
def test_a_definition_with_a_wrong_column_is_refused(change: Any, field: str) -> None:
    made = definition()
    made["spec"]["versions"][0]["additionalPrinterColumns"] = [change]
    refused = answer(Serving(), "POST", DEFINITIONS, made)
    assert [cause["field"] for cause in refused["details"]["causes"]] == [f"spec.additionalPrinterColumns[0].{field}"]


def selectable(*paths: str) -> dict[str, Any]:
    """The definition of devices that can be selected by fields."""
    made = definition()
    made["spec"]["versions"][0]["selectableFields"] = [{"jsonPath": path} for path in paths]
    return made


def test_custom_objects_are_selected_by_the_fields_of_their_definition() -> None:
    """Lists and deletions of collections; a watch tells what comes into a selection and leaves it (KEP-4358)."""
    serving = Serving()
    assert answer(serving, "POST", DEFINITIONS, selectable(".spec.protocol", ".spec.rate", ".status.state"))["spec"]
    for name, fields in (("a", {"rate": 1}), ("b", {"rate": 2}), ("c", {"rate": 2, "protocol": "opcua"})):
        answer(serving, "POST", DEVICES, device(name, **fields))

    def names(fields: str, path: str = DEVICES) -> list[str]:
        found = json.loads(serving.ask("GET", path, fieldSelector=fields).body)
        return [each["metadata"]["name"] for each in found["items"]]

    assert names("spec.rate=2") == ["b", "c"]
    assert names("spec.rate=2,spec.protocol!=opcua", f"{DEVICES_API}/devices") == ["b"]
    assert names("status.state=,metadata.name!=a") == ["b", "c"], "a value that is not there is empty"
    refused = json.loads(serving.ask("GET", DEVICES, fieldSelector="spec.other=1").body)
    assert (refused["code"], refused["message"]) == (400, "field label not supported: spec.other")
    version = answer(serving, "GET", DEVICES)["metadata"]["resourceVersion"]
    answer(serving, "PATCH", f"{DEVICES}/a", {"spec": {"rate": 2}}, MERGE)
    answer(serving, "PATCH", f"{DEVICES}/b", {"spec": {"rate": 3}}, MERGE)
    events = serving.watch(DEVICES, Watcher(), fieldSelector="spec.rate=2", resourceVersion=version)
    assert events == [("ADDED", "a"), ("DELETED", "b")]
    assert serving.ask("DELETE", DEVICES, fieldSelector="spec.rate=2").status == 200
    assert names("") == ["b"]


@pytest.mark.parametrize(
    ("paths", "field", "message"),
    [
        ([""], "[0].jsonPath", "Required value"),
        ([".spec.none"], "[0].jsonPath", "is an invalid path: does not refer to a valid field"),
        ([".spec.list[0]"], "[0].jsonPath", "array notation is not allowed"),
        ([".metadata.name"], "[0].jsonPath", "must not point to fields in metadata"),
        ([".spec"], "[0].jsonPath", "must point to a field of type string, boolean or integer."),
        ([".spec.rate", ".spec.rate"], "[1].jsonPath", 'Duplicate value: ".spec.rate"'),
        ([f".spec.f{n}" for n in range(9)], "", "Too many: 9: must have at most 8 items"),
    ],
)
def test_a_definition_with_a_wrong_selectable_field_is_refused(paths: list[str], field: str, message: str) -> None:
    made = selectable(*paths)
    properties = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["metadata"] = {"type": "object", "properties": {"name": {"type": "string"}}}
    properties["spec"]["properties"] |= {f"f{n}": {"type": "boolean"} for n in range(9)}
    (cause,) = answer(Serving(), "POST", DEFINITIONS, made)["details"]["causes"]
    assert cause["field"] == f"spec.selectableFields{field}"
    assert message in cause["message"]


def test_an_update_of_a_custom_object_names_its_version(serving: Serving) -> None:
    """As in Kubernetes; its finalizers need no domain."""
    made = answer(serving, "POST", DEVICES, {**device(), "metadata": {"name": "pump", "finalizers": ["mine"]}})
    for path in (f"{DEVICES}/pump", f"{DEVICES}/pump/status"):
        refused = answer(serving, "PUT", path, device())
        assert (refused["code"], refused["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
    assert answer(serving, "PUT", f"{DEVICES}/pump", made)["metadata"]["finalizers"] == ["mine"]


def test_nodes_have_no_rights_on_custom_resources() -> None:
    """The node authorizer refuses each verb on custom resources."""
    clock = Simulation(0).clock
    graph = NodeGraph(Cluster(clock).storage, clock)
    for verb in ("get", "list", "create", "update", "patch", "delete"):
        call = ApiCall(verb=verb, api_version="devices.example.io/v1", plural="devices", namespace="default", name="p")
        assert not authorize(of_call("n1", call), graph).allowed


class Cloud:
    """A cluster with a database."""

    def __init__(self, path: Path, seed: int) -> None:
        self.database = Database(str(path), "a")
        self.cluster = Cluster(Simulation(seed).clock)
        self.transactions = Transactions(self.cluster.storage, self.database, RecordedChanges())
        self.transactions.begin()

    def call(self, verb: str, version: str, plural: str, **fields: Any) -> Any:
        """The response to a call."""
        result = serve(self.cluster, ApiCall(verb=verb, api_version=version, plural=plural, **fields))
        return result.refusal or result.object

    def close(self) -> None:
        """Commits and ends."""
        self.transactions.commit()
        self.database.close()


def test_objects_are_served_after_a_restart_and_a_bad_definition_stops_nothing(tmp_path: Path) -> None:
    """Custom kinds come out of the stored definitions; an unreadable one is left out."""
    first = Cloud(tmp_path / "cloud.db", 1)
    kind = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
    first.call("create", *kind, body=definition())
    first.call("create", *kind, body=definition("Bad", "bads"))
    first.call("create", "devices.example.io/v1", "devices", namespace="default", body=device())
    (bad,) = [each for each in first.call("list", *kind)["items"] if each["spec"]["names"]["kind"] == "Bad"]
    first.cluster.storage.replace({**bad, "spec": {"versions": 7}})
    first.close()
    second = Cloud(tmp_path / "cloud.db", 2)
    found = second.call("get", "devices.example.io/v1", "devices", namespace="default", name="pump")
    assert found["spec"] == {"protocol": "modbus", "rate": 5}
    assert second.call("list", "devices.example.io/v1", "bads")["code"] == 404
    assert second.call("create", *kind, body=definition("Other", "others"))["metadata"]["generation"] == 1
    second.close()


def test_a_watch_from_before_a_restart_knows_what_has_left_its_selection(tmp_path: Path) -> None:
    """The database keeps the state before a change that a field selector tells from the one after."""
    first = Cloud(tmp_path / "cloud.db", 1)
    body = selectable(".spec.rate")
    first.call("create", "apiextensions.k8s.io/v1", "customresourcedefinitions", body=body)
    made = first.call("create", "devices.example.io/v1", "devices", namespace="default", body=device(rate=1))
    for rate, protocol in ((2, "modbus"), (2, "opcua")):
        patch = {"namespace": "default", "name": "pump", "patch_type": MERGE}
        fields = {"spec": {"rate": rate, "protocol": protocol}}
        first.call("patch", "devices.example.io/v1", "devices", body=fields, **patch)
    first.close()
    second = Cloud(tmp_path / "cloud.db", 2)
    history = WatchHistory(second.cluster.storage, second.database.watch_history())
    version = int(made["metadata"]["resourceVersion"])
    changes = history.start(WatchQuery("Device.devices.example.io", version)).changes
    rates = [(one.old["spec"]["rate"], one.object["spec"]["rate"]) for one in changes if one.old is not None]
    assert rates == [(1, 2), (2, 2)]
    second.close()


@pytest.mark.parametrize(("live", "stored"), [(None, {}), ({}, {}), ({"status": {"a": 1}}, {"status": {"a": 1}})])
def test_a_status_of_its_own_subresource_stays_as_it_is_and_metadata_are_checked(
    monkeypatch: pytest.MonkeyPatch, live: dict[str, Any] | None, stored: dict[str, Any]
) -> None:
    """One that is not there is no null."""
    checked = Mock()
    monkeypatch.setattr(objects, "validate_metadata", checked)
    monkeypatch.setattr(objects, "conforming", lambda _, new, _live: new)
    given, custom = {"status": {"a": 2}}, SimpleNamespace(has_status=True, kind="K")
    assert objects.prepared_object(cast("Any", custom), given, live) == stored
    checked.assert_called_once_with(given, "K")
