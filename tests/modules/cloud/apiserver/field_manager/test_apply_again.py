"""What is applied again, by the same or the other apply of kubectl: nothing is written."""

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from modules.apimachinery.kinds import KINDS, LAST_APPLIED, JsonObject, kind_named
from modules.apimachinery.limits import ANNOTATION_BYTES
from modules.cloud.apiserver.manifests import read_manifests
from modules.cloud.client.calls import APPLY, STRATEGIC
from tests.modules.cloud.apiserver.endpoints.serving import MAPS, Serving
from tests.modules.cloud.apiserver.reference import recordings

REPOSITORY = Path(__file__).parents[5]
EXAMPLES = sorted((REPOSITORY / "examples").rglob("*.yaml"))
ATOMIC = Path(__file__).with_name("atomic.yaml")
"""Manifests that leave out members of atomic objects and lists, which have defaults."""
_KINDS = {kind.name for kind in KINDS}
_EACH = 12
"""Recorded creations of each kind that are applied."""


@pytest.fixture
def api() -> Serving:
    return Serving()


def objects(*files: Path) -> list[JsonObject]:
    """Return the objects of built-in kinds in manifests."""
    found = [document.content for file in files for document in read_manifests(file.read_text(), file.name)]
    return [obj for obj in found if obj["kind"] in _KINDS]


def path_of(obj: JsonObject) -> str:
    """Return the path of an object of a built-in kind."""
    kind = kind_named(obj["kind"])
    root = f"/apis/{kind.api_version}" if kind.api_group else f"/api/{kind.api_version}"
    space = f"/namespaces/{obj['metadata'].get('namespace') or 'default'}" if kind.namespaced else ""
    return f"{root}{space}/{kind.plural}/{obj['metadata']['name']}"


def applied(api: Serving, obj: JsonObject, path: str = "", manager: str = "kubectl") -> tuple[int, JsonObject]:
    """Apply an object some seconds later, and return the status and the answer."""
    api.simulation.run_for(5.0)
    reply = api.ask("PATCH", path or path_of(obj), obj, APPLY, fieldManager=manager, force="true")
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize(
    "obj", [*objects(*EXAMPLES, ATOMIC)], ids=lambda obj: f"{obj['kind']}/{obj['metadata']['name']}"
)
def test_an_example_that_is_applied_again_is_not_written(api: Serving, obj: JsonObject) -> None:
    status, first = applied(api, obj)
    assert status == 201, first
    assert applied(api, obj) == (200, first)


def created(script: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield recorded creations of a kind that succeeded: the path and the object."""
    for request in recordings.read(script):
        metadata = request.body.get("metadata") if isinstance(request.body, dict) else None
        if (
            request.method == "POST"
            and request.code == 201
            and metadata
            and not metadata.keys() & {"uid", "resourceVersion"}
        ):
            yield f"{request.path.partition('?')[0]}/{quote(str(metadata.get('name')))}", request.body


@pytest.mark.parametrize("script", [script for script in recordings.scripts() if script.startswith("create-")])
def test_an_object_of_any_kind_that_is_applied_again_is_not_written(script: str) -> None:
    compared = 0
    for path, obj in islice(created(script), _EACH):
        api = Serving()
        status, first = applied(api, obj, path)
        if status == 201 and "managedFields" in first["metadata"]:
            assert applied(api, obj, path) == (200, first)
            compared += 1
    assert compared


def test_a_manager_gives_up_all_that_it_has_set_in_the_metadata(api: Serving) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"a": "b"}}, "data": {"c": "d"}}
    _, first = applied(api, obj)
    status, second = applied(api, {**obj, "metadata": {"name": "a"}})
    assert (status, second["metadata"]["uid"]) == (200, first["metadata"]["uid"])
    assert "labels" not in second["metadata"]


def test_a_change_beside_the_managers_is_written_with_its_time(api: Serving) -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"c": "d"}}
    _, first = applied(api, obj)
    _, second = applied(api, {**obj, "data": {"c": "e"}})
    times = [one["metadata"]["managedFields"][0]["time"] for one in (first, second)]
    assert times[0] < times[1]


def last_applied(obj: JsonObject) -> Any:
    text = obj["metadata"]["annotations"][LAST_APPLIED]
    assert text.endswith("\n")
    return json.loads(text)


def client_side(**fields: Any) -> JsonObject:
    """Return a ConfigMap as kubectl's own apply creates it."""
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"annotations": {}, "name": "a"}, **fields}
    text = json.dumps(obj, separators=(",", ":"), sort_keys=True) + "\n"
    return {**obj, "metadata": {"name": "a", "annotations": {LAST_APPLIED: text}}}


def manifest(**fields: Any) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **fields}


def test_the_last_manifest_is_the_one_that_kubectl_has_applied_on_the_server(api: Serving) -> None:
    """So that kubectl's own apply removes what the server-side one has added."""
    assert api.ask("POST", MAPS, client_side(data={"a": "1"})).status == 201
    _, second = applied(api, manifest(data={"a": "<&>", "z": "9"}))
    assert last_applied(second) == {
        **manifest(data={"a": "<&>", "z": "9"}),
        "metadata": {"annotations": {}, "name": "a"},
    }
    assert r"\u003c\u0026\u003e" in second["metadata"]["annotations"][LAST_APPLIED]
    assert applied(api, manifest(data={"a": "<&>", "z": "9"})) == (200, second)


def test_the_manifest_that_kubectl_has_applied_by_itself_changes_no_byte_of_the_annotation(api: Serving) -> None:
    made = json.loads(api.ask("POST", MAPS, client_side(data={"a": "1"})).body)
    _, second = applied(api, manifest(data={"a": "1"}))
    assert second["metadata"]["annotations"] == made["metadata"]["annotations"]


def test_there_is_no_last_manifest_that_is_too_large_for_an_annotation(api: Serving) -> None:
    api.ask("POST", MAPS, client_side(data={"a": "1"}))
    _, second = applied(api, manifest(data={"a": "x" * ANNOTATION_BYTES}))
    assert LAST_APPLIED not in second["metadata"].get("annotations", {})


@pytest.mark.parametrize("manager", ["argocd", "Kubectl"])
def test_another_field_manager_leaves_the_last_manifest_as_it_is(api: Serving, manager: str) -> None:
    made = json.loads(api.ask("POST", MAPS, client_side(data={"a": "1"})).body)
    _, second = applied(api, manifest(data={"a": "1", "z": "9"}), manager=manager)
    assert second["metadata"]["annotations"] == made["metadata"]["annotations"]


def test_an_object_without_a_last_manifest_gets_none(api: Serving) -> None:
    assert "annotations" not in applied(api, manifest(data={"a": "1"}))[1]["metadata"]


def test_a_patch_that_changes_nothing_is_not_written(api: Serving) -> None:
    _, first = applied(api, manifest(data={"a": "1"}))
    api.simulation.run_for(5.0)
    reply = api.ask("PATCH", f"{MAPS}/a", {"data": {"a": "1"}}, STRATEGIC, fieldManager="kubectl-patch")
    assert json.loads(reply.body) == first
