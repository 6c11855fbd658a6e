"""Objects inside custom ones (`x-kubernetes-embedded-resource`), beside the answers of a kube-apiserver 1.32."""

import json
from typing import Any

import pytest

from tests.modules.cloud.apiextensions.definition import DEFINITIONS, DEVICES, definition, device
from tests.modules.cloud.apiserver.endpoints.serving import Serving

MERGE = "application/merge-patch+json"
INSIDE = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
POD = {"apiVersion": "v1", "kind": "Pod"}
CANNOT = 'Device in version "v1" cannot be handled as a Device: spec.pod'


@pytest.fixture(scope="module")
def serving() -> Serving:
    """A server whose devices have a pod, and a list of them in their status."""
    made, wanted = Serving(), definition()
    schema = wanted["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["properties"]["pod"] = INSIDE
    schema["status"] = {"type": "object", "properties": {"pods": {"type": "array", "items": INSIDE}}}
    assert made.ask("POST", DEFINITIONS, wanted).status == 201
    return made


def created(serving: Serving, pod: Any) -> Any:
    """The answer to the creation of a device with a pod, which is deleted again."""
    made = json.loads(serving.ask("POST", DEVICES, device("short", pod=pod)).body)
    serving.ask("DELETE", f"{DEVICES}/short")
    return made


@pytest.mark.parametrize(
    ("metadata", "stored"),
    [
        (None, {}),
        ({"name": "A_", "unknown": 1, "creationTimestamp": None}, {"name": "A_"}),
        ({"uid": "x", "resourceVersion": "y", "generation": 3, "managedFields": [], "labels": {}},
         {"uid": "x", "resourceVersion": "y", "generation": 3}),
        ({"ownerReferences": [{"apiVersion": "v1", "kind": "a", "name": "b", "uid": "c", "unknown": 1}]},
         {"ownerReferences": [{"apiVersion": "v1", "kind": "a", "name": "b", "uid": "c"}]}),
        ({"deletionGracePeriodSeconds": 0}, {"deletionGracePeriodSeconds": 0}),
    ],
)  # fmt: skip
def test_metadata_are_stored_without_unknown_and_empty_fields(serving: Serving, metadata: Any, stored: Any) -> None:
    made = created(serving, {**POD, "metadata": metadata, "spec": {"x": None}})
    assert made["spec"]["pod"]["metadata"] == stored


@pytest.mark.parametrize(
    ("pod", "field", "why"),
    [
        ({"kind": "Pod"}, "apiVersion", "Required value: must not be empty"),
        ({**POD, "kind": ""}, "kind", 'Invalid value: "": must not be empty'),
        ({**POD, "apiVersion": "a/b/c"}, "apiVersion", 'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c'),
        ({**POD, "kind": "P od"}, "kind", 'Invalid value: "P od": may have mixed case, but should otherwise match: '),
        ({**POD, "metadata": {"labels": {"a b": "c"}}}, "metadata.labels", 'Invalid value: "a b": name part must'),
        ({**POD, "metadata": {"annotations": {"A b": "c"}}}, "metadata.annotations", 'Invalid value: "A b": name part'),
        ({**POD, "metadata": {"namespace": "A"}}, "metadata.namespace", 'Invalid value: "A": a lowercase RFC 1123'),
        ({**POD, "metadata": {"name": "a/b"}}, "metadata.name", 'Invalid value: "a/b": may not contain \'/\''),
        ({**POD, "metadata": {"generation": -1}}, "metadata.generation",
         "Invalid value: -1: must be greater than or equal to 0"),
        ({**POD, "metadata": {"managedFields": [{"operation": "x"}]}}, "metadata.managedFields[0].operation",
         'Invalid value: "x": must be `Apply` or `Update`'),
    ],
)  # fmt: skip
def test_what_breaks_a_rule_of_objects_is_refused(serving: Serving, pod: Any, field: str, why: str) -> None:
    refused = created(serving, pod)
    (cause,) = refused["details"]["causes"]
    assert (refused["code"], cause["field"]) == (422, f"spec.pod.{field}")
    assert cause["message"].startswith(why)


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        ({**POD, "kind": 5}, ".kind: Invalid value: 5: must be a string"),
        ({**POD, "metadata": 5},
         ".metadata: Invalid value: 5: json: cannot unmarshal number into Go value of type v1.ObjectMeta"),
        ({**POD, "metadata": {"name": 5}},
         '.metadata: Invalid value: {"name":5}: json: cannot unmarshal number into Go struct field ObjectMeta.name of '
         "type string"),
    ],
)  # fmt: skip
def test_fields_of_another_type_cannot_be_read(serving: Serving, pod: Any, why: str) -> None:
    refused = created(serving, pod)
    assert (refused["code"], refused["message"]) == (400, f"{CANNOT}{why}")


def test_a_status_has_such_objects_too(serving: Serving) -> None:
    assert serving.ask("POST", DEVICES, device(pod=POD)).status == 201

    def patched(pod: Any) -> Any:
        return json.loads(serving.ask("PATCH", f"{DEVICES}/pump/status", {"status": {"pods": [pod]}}, MERGE).body)

    assert patched({**POD, "metadata": {"labels": 5}})["details"]["causes"][0]["field"] == "patch"
    assert patched({**POD, "metadata": {"labels": {"a b": ""}}})["code"] == 422
    made = patched({**POD, "metadata": {"name": "a", "x": 1}})
    assert made["status"]["pods"] == [{**POD, "metadata": {"name": "a"}}]
