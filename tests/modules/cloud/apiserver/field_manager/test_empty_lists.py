"""Empty lists under server-side apply: who owns them, and what removes them."""

import json
from pathlib import Path

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.cloud.client.calls import MERGE
from tests.modules.cloud.apiserver.field_manager.test_server_side_apply import Api, managers

STEPS: dict[str, list[JsonObject]] = json.loads(Path(__file__).with_name("empty_lists.json").read_text())
"""Requests to kube-apiserver 1.32.13 and its answers: lists that are sets (`s`, `t`, `y`) or have keys (`k`)."""

_TEXT: JsonObject = {"type": "string"}
_SET: JsonObject = {"type": "array", "x-kubernetes-list-type": "set", "items": _TEXT}
_KEYED: JsonObject = {
    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n"],
    "items": {"type": "object", "required": ["n"], "properties": {"n": _TEXT, "v": _TEXT, "t": _SET}},
}  # fmt: skip
_SPEC: JsonObject = {"s": _SET, "k": _KEYED, "o": {"type": "object", "properties": {"x": _TEXT, "y": _SET}}}
_SCHEMA: JsonObject = {"type": "object", "properties": {"spec": {"type": "object", "properties": _SPEC}}}
KIND: JsonObject = {
    "metadata": {"name": "els.el.example"},
    "spec": {
        "group": "el.example", "scope": "Namespaced", "names": {"plural": "els", "kind": "El"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": _SCHEMA}}],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_an_empty_list_is_owned_and_removed_as_in_kubernetes(name: str) -> None:
    api = Api()
    crds = "customresourcedefinitions"
    api("create", KIND, plural=crds, namespace="", name="", api_version="apiextensions.k8s.io/v1")
    place = {"plural": "els", "api_version": "el.example/v1"}
    for step in STEPS[name]:
        spec = {"spec": step["spec"]}
        if step["verb"] == "update":
            answer = api("patch", spec, step["manager"], patch_type=MERGE, **place)
        else:
            manifest = {"apiVersion": "el.example/v1", "kind": "El", **spec}
            answer = api.apply(step["manager"], manifest, force=step["verb"] == "force", **place)
        owned = {manager: fields for (manager, _), fields in managers(answer).items()}
        assert (answer.get("spec"), owned) == (step["then"], step["managers"])
