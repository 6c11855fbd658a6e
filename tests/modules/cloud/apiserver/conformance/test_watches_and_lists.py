"""Watches, lists and discovery, as [sig-api-machinery] tests them."""

import json
from typing import Any

from tests.modules.cloud.apiserver.conformance.world import LABELS, SELECTED, TEMPLATE, World, path_of

MAPS = path_of("v1/configmaps")


def config_map(name: str, label: str = "yes", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"conformance": label}}, "data": data}


def test_several_watches() -> None:
    """[sig-api-machinery] Watchers should observe add, update, and delete watch notifications on configmaps
    [Conformance]
    """
    world = World()
    start = world.get(MAPS)["metadata"]["resourceVersion"]

    def change() -> None:
        world.create(MAPS, config_map("a", a="1"))
        world.create(MAPS, config_map("b", "no"))
        world.request("PATCH", f"{MAPS}/a", {"data": {"a": "2"}})
        world.request("PATCH", f"{MAPS}/b", {"data": {"a": "2"}})
        world.request("DELETE", f"{MAPS}/a")
        world.request("DELETE", f"{MAPS}/b")

    told = world.events(MAPS, change, resourceVersion=start, **SELECTED)
    assert [(kind, obj["metadata"]["name"]) for kind, obj in told] == [
        ("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"),
    ]  # fmt: skip
    both = world.events(MAPS, resourceVersion=start)
    other = world.events(MAPS, resourceVersion=start, labelSelector="conformance=no")
    assert [obj["metadata"]["name"] for _, obj in both] == ["a", "b", "a", "b", "a", "b"]
    assert [kind for kind, _ in other] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_from_a_version(world: World) -> None:
    """[sig-api-machinery] Watchers should be able to start watching from a specific resource version [Conformance]"""
    world.create(MAPS, config_map("a"))
    first = world.request("PATCH", f"{MAPS}/a", {"data": {"a": "1"}})
    world.request("PATCH", f"{MAPS}/a", {"data": {"a": "2"}})
    world.request("DELETE", f"{MAPS}/a")
    told = world.events(MAPS, resourceVersion=first["metadata"]["resourceVersion"])
    assert [(kind, obj["data"]) for kind, obj in told] == [("MODIFIED", {"a": "2"}), ("DELETED", {"a": "2"})]


def test_a_watch_that_is_made_again(world: World) -> None:
    """[sig-api-machinery] Watchers should be able to restart watching from the last resource version observed by the
    previous watch [Conformance]
    """
    start = world.get(MAPS)["metadata"]["resourceVersion"]
    world.create(MAPS, config_map("a"))
    world.request("PATCH", f"{MAPS}/a", {"data": {"a": "1"}})
    (*_, (_, last)) = world.events(MAPS, resourceVersion=start)
    world.request("PATCH", f"{MAPS}/a", {"data": {"a": "2"}})
    world.request("DELETE", f"{MAPS}/a")
    told = world.events(MAPS, resourceVersion=last["metadata"]["resourceVersion"])
    assert [kind for kind, _ in told] == ["MODIFIED", "DELETED"]


def test_a_label_that_goes_and_comes_back(world: World) -> None:
    """[sig-api-machinery] Watchers should observe an object deletion if it stops meeting the requirements of the
    selector [Conformance]
    """
    made = world.create(MAPS, config_map("a"))
    world.request("PATCH", f"{MAPS}/a", {"metadata": {"labels": {"conformance": "no"}}})
    world.request("PATCH", f"{MAPS}/a", {"data": {"a": "1"}})
    world.request("PATCH", f"{MAPS}/a", {"metadata": {"labels": LABELS}})
    world.request("PATCH", f"{MAPS}/a", {"data": {"a": "2"}})
    world.request("DELETE", f"{MAPS}/a")
    told = world.events(MAPS, resourceVersion=made["metadata"]["resourceVersion"], **SELECTED)
    assert [kind for kind, _ in told] == ["DELETED", "ADDED", "MODIFIED", "DELETED"]


def test_watches_agree(world: World) -> None:
    """[sig-api-machinery] Watchers should receive events on concurrent watches in same order [Conformance]"""
    start = world.get(MAPS)["metadata"]["resourceVersion"]
    for number in range(20):
        world.create(MAPS, config_map(f"m{number}"))
        world.request("PATCH", f"{MAPS}/m{number}", {"data": {"n": str(number)}})
        if number % 3 == 2:
            world.request("DELETE", f"{MAPS}/m{number}")
    told = [(kind, obj["metadata"]["resourceVersion"]) for kind, obj in world.events(MAPS, resourceVersion=start)]
    for place, (_, version) in enumerate(told):
        again = world.events(MAPS, resourceVersion=version)
        assert [(kind, obj["metadata"]["resourceVersion"]) for kind, obj in again] == told[place + 1 :]


def test_lists_in_parts(world: World) -> None:
    """[sig-api-machinery] Servers with support for API chunking should return chunks of results for list calls
    [Conformance]
    """
    for number in range(25):
        world.create(MAPS, config_map(f"m{number:02}"))
    found, token, versions = [], "", set()
    while True:
        part = world.get(MAPS, limit="10", **({"continue": token} if token else {}), **SELECTED)
        versions.add(part["metadata"]["resourceVersion"])
        found += [each["metadata"]["name"] for each in part["items"]]
        token = part["metadata"].get("continue", "")
        assert len(part["items"]) <= 10
        if not token:
            break
    assert found == world.names(MAPS, **SELECTED) == [f"m{number:02}" for number in range(25)]
    assert len(versions) == 1
    assert world.get(MAPS, limit="10")["metadata"]["remainingItemCount"] == len(world.names(MAPS)) - 10


def test_a_table_of_a_kind_without_metadata(world: World) -> None:
    """[sig-api-machinery] Servers with support for Table transformation should return a 406 for a backend which does
    not implement metadata [Conformance]
    """
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    reply = world.ask("POST", path, body, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert reply.status == 406


def test_the_version(world: World) -> None:
    """[sig-api-machinery] server version should find the server version [Conformance]"""
    found = world.get("/version")
    assert found["major"].isdecimal()
    assert found["minor"].isdecimal()


def test_preferred_versions(world: World) -> None:
    """[sig-api-machinery] Discovery should validate PreferredVersion for each APIGroup [Conformance]"""
    groups = world.get("/apis")["groups"]
    assert groups
    for group in groups:
        assert group["preferredVersion"] in group["versions"]
        assert world.get(f"/apis/{group['name']}")["preferredVersion"] == group["preferredVersion"]


def test_each_group_has_resources(world: World) -> None:
    """[sig-api-machinery] Discovery should locate the groupVersion and a resource within each APIGroup [Conformance]"""
    wanted = {"apps/v1": "deployments", "batch/v1": "jobs", "policy/v1": "poddisruptionbudgets"}
    for group in world.get("/apis")["groups"]:
        for version in group["versions"]:
            found = world.get(f"/apis/{version['groupVersion']}")
            assert found["groupVersion"] == version["groupVersion"]
            names = [each["name"] for each in found["resources"]]
            assert names
            assert wanted.get(version["groupVersion"], names[0]) in names


_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def _aggregated(world: World) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in ("/api", "/apis"):
        document = json.loads(world.ask("GET", path, accept=f"{_AGGREGATED},application/json").body)
        assert document["kind"] == "APIGroupDiscoveryList"
        for group in document["items"]:
            for version in group["versions"]:
                name = f"{group['metadata'].get('name', '')}/{version['version']}"
                found[name] = {each["resource"] for each in version["resources"]}
    return found


def test_aggregated_discovery(world: World) -> None:
    """[sig-api-machinery] AggregatedDiscovery should support raw aggregated discovery endpoint Accept headers
    [Conformance]
    """
    found = _aggregated(world)
    assert {"pods", "services", "namespaces", "secrets"} <= found["/v1"]
    assert {"deployments", "statefulsets"} <= found["apps/v1"]


def test_aggregated_discovery_of_custom_resources(world: World) -> None:
    """[sig-api-machinery] AggregatedDiscovery should support raw aggregated discovery request for CRDs [Conformance]"""
    schema = {"openAPIV3Schema": {"type": "object"}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    path = path_of("apiextensions.k8s.io/v1/customresourcedefinitions", namespace="")
    world.create(path, {"metadata": {"name": "foos.example.com"}, "spec": spec})
    assert _aggregated(world)["example.com/v1"] == {"foos"}


def test_unknown_fields(world: World) -> None:
    """[sig-api-machinery] FieldValidation should detect unknown and duplicate fields of a typed object [Conformance]"""
    template = json.dumps(TEMPLATE)
    text = (
        '{"metadata": {"name": "a"}, "spec": {"unknown": 1, "replicas": 1, "replicas": 2,'
        f'"selector": {{"matchLabels": {json.dumps(LABELS)}}}, "template": {template}}}}}'
    )
    refusal = world.request(
        "POST", path_of("apps/v1/deployments"), text.encode(), 400, fieldValidation="Strict", media="application/json"
    )
    assert 'unknown field "spec.unknown"' in refusal["message"]
    assert 'duplicate field "spec.replicas"' in refusal["message"]


def test_unknown_metadata(world: World) -> None:
    """[sig-api-machinery] FieldValidation should detect unknown metadata fields of a typed object [Conformance]"""
    body = {"metadata": {"name": "a", "unknownMeta": "b"}, "data": {}}
    refusal = world.request("POST", MAPS, body, 400, fieldValidation="Strict")
    assert 'unknown field "metadata.unknownMeta"' in refusal["message"]
