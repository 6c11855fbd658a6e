"""Options and bodies that an API server refuses, in its words (recorded, or read from its validation)."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.api_calls import serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall

_MAP: JsonObject = {"metadata": {"name": "c"}}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(Simulation(0).clock)
    _refused(made, "create", _MAP, name="")
    return made


def _refused(cluster: Cluster, verb: str, body: Any = None, **fields: Any) -> JsonObject:
    call = {"api_version": "v1", "plural": "configmaps", "namespace": "ns", "name": "c", **fields}
    return serve(cluster, ApiCall(verb=verb, body=body, **call)).refusal or {}


@pytest.mark.parametrize(
    ("verb", "fields", "words"),
    [
        ("patch", {"patch_type": MERGE, "options": {"force": True}},
         'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch'),
        ("create", {"options": {"dryRun": ["Some"]}, "name": ""},
         'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: []string{"Some"}: supported values: '
         '"All"'),
        ("update", {"options": {"fieldValidation": "Loud"}},
         'UpdateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loud": supported values: "", '
         '"Ignore", "Strict", "Warn"'),
        ("delete", {"options": {"propagationPolicy": "Sideways"}},
         'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Sideways": supported values: '
         '"Foreground", "Background", "Orphan", "nil"'),
        ("delete", {"options": {"propagationPolicy": "Orphan", "orphanDependents": True}},
         'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": orphanDependents and '
         "deletionPropagation cannot be both set"),
    ],
)  # fmt: skip
def test_an_option(cluster: Cluster, verb: str, fields: dict[str, Any], words: str) -> None:
    refused = _refused(cluster, verb, _MAP, **fields)
    assert (refused["code"], refused["reason"], refused["message"]) == (422, "Invalid", words)


@pytest.mark.parametrize(
    ("body", "patch_type", "code", "words"),
    [
        ([1], STRATEGIC, 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ("x", MERGE, 400,
         "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ({}, JSON_PATCH, 400,
         "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        ([{"op": "test", "path": "/metadata/name", "value": "d"}], JSON_PATCH, 422,
         "the server rejected our request due to an error in our request"),
        ([{"op": "walk", "path": "/a"}], JSON_PATCH, 422,
         "the server rejected our request due to an error in our request"),
    ],
)  # fmt: skip
def test_a_patch(cluster: Cluster, body: Any, patch_type: str, code: int, words: str) -> None:
    refused = _refused(cluster, "patch", body, patch_type=patch_type)
    assert (refused["code"], refused["message"]) == (code, words)


_NO_BOOL = "json: cannot unmarshal string into Go struct field ConfigMap.immutable of type bool"


@pytest.mark.parametrize(
    ("body", "patch_type", "words"),
    [
        ({"immutable": "yes"}, MERGE, r'"{\"immutable\":\"yes\"}": ' + _NO_BOOL),
        ([{"op": "add", "path": "/immutable", "value": "yes"}], JSON_PATCH,
         r'"[{\"op\":\"add\",\"path\":\"/immutable\",\"value\":\"yes\"}]": ' + _NO_BOOL),
        ({"metadata": [1]}, MERGE,
         r'"{\"metadata\":[1]}": json: cannot unmarshal array into Go struct field ConfigMap.metadata of type '
         "v1.ObjectMeta"),
        ({"immutable": "yes"}, STRATEGIC, '"map[immutable:yes]": unrecognized type: bool'),
        ({"metadata": {"labels": "a"}}, STRATEGIC, '"map[metadata:map[labels:a]]": cannot restore map from string'),
        ({"metadata": {"finalizers": {"a": 1}}}, STRATEGIC,
         '"map[metadata:map[finalizers:map[a:1]]]": cannot restore slice from map'),
        ({"metadata": [1]}, STRATEGIC, '"map[metadata:[1]]": cannot restore struct from: slice'),
        ({"data": {"a": 1}}, STRATEGIC, '"map[data:map[a:1]]": cannot convert int64 to string'),
        ({"data": {"a": 1.5}}, STRATEGIC, '"map[data:map[a:1.5]]": unrecognized type: string'),
        ({"binaryData": {"a": "%"}}, STRATEGIC,
         '"map[binaryData:map[a:%]]": error decoding from json: illegal base64 data at input byte 0'),
        ({"metadata": {"creationTimestamp": 1}}, STRATEGIC,
         '"map[metadata:map[creationTimestamp:1]]": json: cannot unmarshal number into Go value of type string'),
    ],
)  # fmt: skip
def test_a_patch_to_another_type(cluster: Cluster, body: Any, patch_type: str, words: str) -> None:
    """A strategic merge patch makes an object that is converted, not decoded: the words are the converter's."""
    refused = _refused(cluster, "patch", body, patch_type=patch_type)
    assert (refused["code"], refused["details"].keys()) == (422, {"causes"})
    assert refused["message"] == f' "" is invalid: patch: Invalid value: {words}'


@pytest.mark.parametrize("patch_type", [MERGE, STRATEGIC])
def test_a_patch_that_takes_the_metadata_away(cluster: Cluster, patch_type: str) -> None:
    refused = _refused(cluster, "patch", {"metadata": None}, patch_type=patch_type)
    words = "the name of the object (c based on URL) was undeterminable: name must be provided"
    assert (refused["code"], refused["message"]) == (400, words)


def test_why_a_json_patch_does_not_fit_is_in_the_details(cluster: Cluster) -> None:
    """An API server does not say it; kubectl shows the causes."""
    failing = [{"op": "test", "path": "/metadata/name", "value": "d"}]
    (cause,) = _refused(cluster, "patch", failing, patch_type=JSON_PATCH)["details"]["causes"]
    assert "testing value '/metadata/name' failed" in cause["message"]


@pytest.mark.parametrize(
    ("verb", "body", "words"),
    [
        ("update", {"metadata": {"name": "d"}}, "the name of the object (d) does not match the name on the URL (c)"),
        ("update", {"metadata": {"name": "c", "namespace": "other"}},
         "the namespace of the provided object does not match the namespace sent on the request"),
        ("create", {"metadata": {"name": "d", "namespace": "other"}},
         "the namespace of the provided object does not match the namespace sent on the request"),
        ("create", {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "d"}},
         'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for '
         'version "v2"'),
        ("create", "x",
         "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse "
         'error: json: cannot unmarshal string into Go value of type struct { APIVersion string '
         '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" } (227822)'),
    ],
)  # fmt: skip
def test_a_body_that_is_not_for_its_path(cluster: Cluster, verb: str, body: Any, words: str) -> None:
    refused = _refused(cluster, verb, body, name="" if verb == "create" else "c")
    assert (refused["code"], refused["message"]) == (400, words)


@pytest.mark.parametrize(
    ("precondition", "words"),
    [
        ({"uid": "nope"}, "the UID in the precondition (nope) does not match the UID in record (UID). The object might "
         "have been deleted and then recreated"),
        ({"resourceVersion": "1"}, "the ResourceVersion in the precondition (1) does not match the ResourceVersion in "
         "record (VERSION). The object might have been modified"),
    ],
)  # fmt: skip
def test_a_precondition_of_a_deletion(cluster: Cluster, precondition: JsonObject, words: str) -> None:
    """KubeEdge's cloudcore takes the first for success, by its words."""
    read = ApiCall(verb="get", api_version="v1", plural="configmaps", namespace="ns", name="c")
    live = serve(cluster, read).object
    assert live is not None
    told = words.replace("VERSION", live["metadata"]["resourceVersion"]).replace(
        "(UID)", f"({live['metadata']['uid']})"
    )
    refused = _refused(cluster, "delete", options={"preconditions": precondition})
    assert (refused["code"], refused["reason"]) == (409, "Conflict")
    assert refused["message"] == f'Operation cannot be fulfilled on ConfigMap "c": {told}'


@pytest.mark.parametrize(
    ("verb", "fields", "code"),
    [
        ("update", {}, 0),
        ("patch", {"patch_type": MERGE}, 0),
        ("create", {"name": ""}, 0),
        ("update", {"api_version": "coordination.k8s.io/v1", "plural": "leases"}, 422),
    ],
)
def test_version_0_is_any_version(cluster: Cluster, verb: str, fields: dict[str, Any], code: int) -> None:
    """An update of a Lease names the state that it changes."""
    lease = {"api_version": "coordination.k8s.io/v1", "plural": "leases", "name": ""}
    assert not _refused(cluster, "create", _MAP, **lease)
    body = {"metadata": {"name": "new" if verb == "create" else "c", "resourceVersion": "0", "labels": {"a": "b"}}}
    refused = _refused(cluster, verb, body, **fields)
    assert refused.get("code", 0) == code
    assert refused.get("message", "must be specified for an update").endswith("must be specified for an update")


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("create", {"name": ""}),
        ("update", {}),
        ("patch", {"patch_type": MERGE}),
        ("patch", {"patch_type": STRATEGIC}),
        ("patch", {"patch_type": APPLY, "options": {"fieldManager": "a"}}),
    ],
)
def test_base64_of_several_lines_is_kept_as_one(cluster: Cluster, verb: str, fields: dict[str, Any]) -> None:
    """Kubernetes' pages show a Secret with such a certificate."""
    secret: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "c"}}
    if verb != "create":
        assert not _refused(cluster, "create", secret, plural="secrets", name="")
    assert not _refused(cluster, verb, {**secret, "data": {"tls.crt": "YWJj\r\nZGVm\n"}}, plural="secrets", **fields)
    read = ApiCall(verb="get", api_version="v1", plural="secrets", namespace="ns", name="c")
    assert (serve(cluster, read).object or {})["data"] == {"tls.crt": "YWJjZGVm"}


def test_all_that_is_wrong_in_a_pod_is_named(cluster: Cluster) -> None:
    """With the field and the kind of the fault, as recorded."""
    pod: JsonObject = {"kind": "Pod", "metadata": {"name": "Bad_Name"}, "spec": {"containers": []}}
    refused = _refused(cluster, "create", pod, plural="pods", name="")
    assert refused["message"].startswith(
        'Pod "Bad_Name" is invalid: [metadata.name: Invalid value: "Bad_Name": a lower'
    )
    assert refused["message"].endswith(", spec.containers: Required value]")
    causes = [(cause["field"], cause["reason"]) for cause in refused["details"]["causes"]]
    assert causes == [("metadata.name", "FieldValueInvalid"), ("spec.containers", "FieldValueRequired")]
