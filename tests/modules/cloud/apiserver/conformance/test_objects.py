"""Namespaces, garbage collection, custom resources and field validation, as [sig-api-machinery] tests them."""

from typing import Any

from modules.cloud.client.calls import APPLY
from tests.modules.cloud.apiserver.conformance.world import CONTAINERS, LABELS, SELECTED, TEMPLATE, World, path_of

Json = dict[str, Any]

NAMESPACES = path_of("v1/namespaces", namespace="")
PODS = path_of("v1/pods")
CONTROLLERS = path_of("v1/replicationcontrollers")
DEFINITIONS = path_of("apiextensions.k8s.io/v1/customresourcedefinitions", namespace="")


def namespace(world: World, name: str = "one") -> Json:
    return world.create(NAMESPACES, {"metadata": {"name": name}})


def pod(world: World, name: str, *owners: Json, **fields: Any) -> Json:
    """Create a pod without a node, which a deletion removes immediately."""
    references = [
        {"apiVersion": each["apiVersion"], "kind": each["kind"], "name": each["metadata"]["name"],
         "uid": each["metadata"]["uid"], **fields}
        for each in owners
    ]  # fmt: skip
    metadata = {"name": name, "ownerReferences": references, "labels": LABELS}
    return world.create(PODS, {"metadata": metadata, "spec": {"containers": CONTAINERS, "schedulerName": "nobody"}})


def controller(world: World, name: str) -> Json:
    spec = {"replicas": 0, "selector": LABELS, "template": TEMPLATE}
    return world.create(CONTROLLERS, {"metadata": {"name": name}, "spec": spec})


def options(policy: str) -> Json:
    return {"propagationPolicy": policy}


def definition(plural: str = "foos", group: str = "example.com", /, **schema: Any) -> Json:
    """Return a CustomResourceDefinition of two served versions."""
    kind = plural.removesuffix("s").capitalize()
    whole = {"openAPIV3Schema": {"type": "object", **schema}}
    versions: list[Json] = [
        {"name": name, "served": True, "storage": name == "v1", "schema": whole, "subresources": {"status": {}}}
        for name in ("v1", "v2")
    ]
    spec = {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": versions}
    return {"metadata": {"name": f"{plural}.{group}", "labels": LABELS}, "spec": spec}


def foos(version: str = "v1") -> str:
    return path_of(f"example.com/{version}/foos")


_SPEC: Json = {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}


def test_a_finalizer_of_a_namespace(world: World) -> None:
    """[sig-api-machinery] Namespaces [Serial] should apply a finalizer to a Namespace [Conformance]"""
    made = namespace(world)
    finalizers = [*made["spec"]["finalizers"], "example.com/fake"]
    changed = world.request("PUT", f"{NAMESPACES}/one/finalize", {**made, "spec": {"finalizers": finalizers}})
    assert changed["spec"]["finalizers"] == finalizers
    changed["spec"]["finalizers"] = finalizers[:1]
    assert world.request("PUT", f"{NAMESPACES}/one/finalize", changed)["spec"]["finalizers"] == ["kubernetes"]


def test_an_update_of_a_namespace(world: World) -> None:
    """[sig-api-machinery] Namespaces [Serial] should apply an update to a Namespace [Conformance]"""
    made = namespace(world)
    made["metadata"]["labels"]["a"] = "b"
    assert world.request("PUT", f"{NAMESPACES}/one", made)["metadata"]["labels"]["a"] == "b"


def test_the_status_of_a_namespace(world: World) -> None:
    """[sig-api-machinery] Namespaces [Serial] should apply changes to a namespace status [Conformance]"""
    namespace(world)
    path = f"{NAMESPACES}/one/status"
    found = world.get(path)
    assert found["status"]["phase"] == "Active"
    condition = {"type": "StatusPatch", "status": "True", "reason": "E2E", "message": "patched"}
    changed = world.request("PATCH", path, {"status": {"conditions": [condition]}})
    assert changed["status"]["conditions"] == [condition]
    changed["status"]["conditions"].append({**condition, "type": "StatusUpdate"})
    assert len(world.request("PUT", path, changed)["status"]["conditions"]) == 2


def test_a_namespace_ends_with_its_pods(world: World) -> None:
    """[sig-api-machinery] Namespaces [Serial] should ensure that all pods are removed when a namespace is deleted
    [Conformance]
    """
    namespace(world)
    body = {"metadata": {"name": "a"}, "spec": {"containers": CONTAINERS, "schedulerName": "nobody"}}
    world.create(path_of("v1/pods", namespace="one"), body)
    world.request("DELETE", f"{NAMESPACES}/one")
    assert world.gone(f"{NAMESPACES}/one")
    namespace(world)
    assert world.names(path_of("v1/pods", namespace="one")) == []


def test_a_namespace_ends_with_its_services(world: World) -> None:
    """[sig-api-machinery] Namespaces [Serial] should ensure that all services are removed when a namespace is deleted
    [Conformance]
    """
    namespace(world)
    world.create(
        path_of("v1/services", namespace="one"), {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    )
    world.request("DELETE", f"{NAMESPACES}/one")
    assert world.gone(f"{NAMESPACES}/one")
    namespace(world)
    assert world.names(path_of("v1/services", namespace="one")) == []


def test_a_patch_of_a_namespace(world: World) -> None:
    """[sig-api-machinery] Namespaces [Serial] should patch a Namespace [Conformance]"""
    namespace(world)
    world.request("PATCH", f"{NAMESPACES}/one", {"metadata": {"labels": {"testLabel": "testValue"}}})
    assert world.get(f"{NAMESPACES}/one")["metadata"]["labels"]["testLabel"] == "testValue"


def test_pods_go_with_their_controller(world: World) -> None:
    """[sig-api-machinery] Garbage collector should delete pods created by rc when not orphaning [Conformance]"""
    owner = controller(world, "rc")
    for name in "ab":
        pod(world, name, owner)
    world.request("DELETE", f"{CONTROLLERS}/rc", options("Background"))
    assert world.names(PODS) == []


def test_pods_are_orphaned(world: World) -> None:
    """[sig-api-machinery] Garbage collector should orphan pods created by rc if delete options say so [Conformance]"""
    owner = controller(world, "rc")
    for name in "ab":
        pod(world, name, owner)
    world.request("DELETE", f"{CONTROLLERS}/rc", options("Orphan"))
    assert world.gone(f"{CONTROLLERS}/rc")
    assert [each["metadata"].get("ownerReferences") for each in world.get(PODS)["items"]] == [None, None]


def test_replica_sets_go_with_their_deployment(world: World) -> None:
    """[sig-api-machinery] Garbage collector should delete RS created by deployment when not orphaning [Conformance]"""
    path = path_of("apps/v1/deployments")
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    owner = world.create(path, {"metadata": {"name": "d"}, "spec": spec})
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "d-1", "ownerReferences": [reference]}
    world.create(path_of("apps/v1/replicasets"), {"metadata": metadata, "spec": spec})
    world.request("DELETE", f"{path}/d", options("Background"))
    assert world.names(path_of("apps/v1/replicasets")) == []


def test_replica_sets_are_orphaned(world: World) -> None:
    """[sig-api-machinery] Garbage collector should orphan RS created by deployment when deleteOptions.PropagationPolicy
    is Orphan [Conformance]
    """
    path = path_of("apps/v1/deployments")
    spec = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
    owner = world.create(path, {"metadata": {"name": "d"}, "spec": spec})
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "d-1", "ownerReferences": [reference]}
    world.create(path_of("apps/v1/replicasets"), {"metadata": metadata, "spec": spec})
    world.request("DELETE", f"{path}/d", options("Orphan"))
    left = world.get(path_of("apps/v1/replicasets", "d-1"))
    assert "ownerReferences" not in left["metadata"]


def test_a_controller_waits_for_its_pods(world: World) -> None:
    """[sig-api-machinery] Garbage collector should keep the rc around until all its pods are deleted if the
    deleteOptions says so [Conformance]
    """
    owner = controller(world, "rc")
    made = pod(world, "a", owner, blockOwnerDeletion=True)
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    world.request("PATCH", f"{PODS}/a", held)
    answer = world.request("DELETE", f"{CONTROLLERS}/rc", options("Foreground"))
    assert "foregroundDeletion" in answer["metadata"]["finalizers"]
    assert world.get(f"{PODS}/a")["metadata"]["uid"] == made["metadata"]["uid"]
    assert world.get(f"{CONTROLLERS}/rc")["metadata"]["deletionTimestamp"]
    world.request("PATCH", f"{PODS}/a", {"metadata": {"finalizers": None}})
    assert world.gone(f"{PODS}/a")
    assert world.gone(f"{CONTROLLERS}/rc")


def test_pods_with_another_owner_stay(world: World) -> None:
    """[sig-api-machinery] Garbage collector should not delete dependents that have both valid owner and owner that's
    waiting for dependents to be deleted [Conformance]
    """
    one, two = controller(world, "rc1"), controller(world, "rc2")
    pod(world, "a", one, blockOwnerDeletion=True)
    pod(world, "b", one, two, blockOwnerDeletion=True)
    world.request("DELETE", f"{CONTROLLERS}/rc1", options("Foreground"))
    assert world.names(PODS) == ["b"]
    (reference,) = world.get(f"{PODS}/b")["metadata"]["ownerReferences"]
    assert reference["name"] == "rc2"
    assert world.gone(f"{CONTROLLERS}/rc1")


def test_a_circle_of_owners(world: World) -> None:
    """[sig-api-machinery] Garbage collector should not be blocked by dependency circle [Conformance]"""
    pods = [pod(world, name) for name in "abc"]
    for made, owner in zip(pods, [pods[2], *pods[:2]], strict=True):
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner["metadata"]["name"],
                     "uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}  # fmt: skip
        world.request("PATCH", f"{PODS}/{made['metadata']['name']}", {"metadata": {"ownerReferences": [reference]}})
    world.request("DELETE", f"{PODS}/a", options("Foreground"))
    assert world.names(PODS) == []


def test_a_definition_comes_and_goes(world: World) -> None:
    """[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition
    creating/deleting custom resource definition objects works [Conformance]
    """
    made = world.create(DEFINITIONS, definition())
    assert {each["type"]: each["status"] for each in made["status"]["conditions"]}["Established"] == "True"
    world.create(foos(), {"kind": "Foo", "apiVersion": "example.com/v1", "metadata": {"name": "a"}})
    world.request("DELETE", f"{DEFINITIONS}/foos.example.com")
    assert world.gone(f"{DEFINITIONS}/foos.example.com")
    assert world.gone(foos())


def test_definitions_are_listed(world: World) -> None:
    """[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition
    listing custom resource definition objects works [Conformance]
    """
    plurals = [f"kind{letter}s" for letter in "abc"]
    for plural in plurals:
        world.create(DEFINITIONS, definition(plural))
    world.create(DEFINITIONS, {**definition("others"), "metadata": {"name": "others.example.com"}})
    assert world.names(DEFINITIONS, **SELECTED) == [f"{plural}.example.com" for plural in plurals]
    world.request("DELETE", DEFINITIONS, **SELECTED)
    assert world.names(DEFINITIONS) == ["others.example.com"]


def test_the_status_of_a_definition(world: World) -> None:
    """[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] Simple CustomResourceDefinition
    getting/updating/patching custom resource definition status sub-resource works [Conformance]
    """
    world.create(DEFINITIONS, definition())
    path = f"{DEFINITIONS}/foos.example.com/status"
    condition = {"type": "StatusUpdate", "status": "True", "reason": "E2E", "message": "set"}
    found = world.get(path)
    found["status"]["conditions"].append(condition)
    assert condition in world.request("PUT", path, found)["status"]["conditions"]
    conditions = [*found["status"]["conditions"], {**condition, "type": "StatusPatched"}]
    changed = world.request("PATCH", path, {"status": {"conditions": conditions}})
    assert [each["type"] for each in changed["status"]["conditions"]][-2:] == ["StatusUpdate", "StatusPatched"]


def test_defaults_of_custom_resources(world: World) -> None:
    """[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] custom resource defaulting for
    requests and from storage works [Conformance]
    """
    world.create(DEFINITIONS, definition(properties={"a": {"type": "string"}, "b": {"type": "string"}}))
    body = {"kind": "Foo", "apiVersion": "example.com/v1", "metadata": {"name": "one"}}
    world.create(foos(), body)
    before = world.get(f"{foos()}/one")
    assert "a" not in before
    changed = definition(properties={"a": {"type": "string", "default": "A"}, "b": {"type": "string"}})
    world.request("PATCH", f"{DEFINITIONS}/foos.example.com", {"spec": changed["spec"]})
    assert world.create(foos(), {**body, "metadata": {"name": "two"}})["a"] == "A"
    for version in ("v1", "v2"):
        kept = {**before, "apiVersion": f"example.com/{version}"}
        assert world.get(f"{foos(version)}/one") == {**kept, "a": "A"}
        assert [each["a"] for each in world.get(foos(version))["items"]] == ["A", "A"]
        assert [obj["a"] for _, obj in world.events(foos(version))] == ["A", "A"]


def test_discovery_of_definitions(world: World) -> None:
    """[sig-api-machinery] CustomResourceDefinition resources [Privileged:ClusterAdmin] should include custom resource
    definition resources in discovery documents [Conformance]
    """
    (group,) = [each for each in world.get("/apis")["groups"] if each["name"] == "apiextensions.k8s.io"]
    assert group["versions"] == [{"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}]
    assert world.get("/apis/apiextensions.k8s.io")["preferredVersion"]["version"] == "v1"
    names = [each["name"] for each in world.get("/apis/apiextensions.k8s.io/v1")["resources"]]
    assert "customresourcedefinitions" in names


def test_a_watch_of_custom_resources(world: World) -> None:
    """[sig-api-machinery] CustomResourceDefinition Watch [Privileged:ClusterAdmin] CustomResourceDefinition Watch watch
    on custom resource definition objects [Conformance]
    """
    world.create(DEFINITIONS, definition(properties=_SPEC))
    start = world.get(foos())["metadata"]["resourceVersion"]
    for name in "ab":
        world.create(foos(), {"kind": "Foo", "apiVersion": "example.com/v1", "metadata": {"name": name}})
    world.request("PATCH", f"{foos()}/a", {"spec": {"a": "b"}})
    for name in "ab":
        world.request("DELETE", f"{foos()}/{name}")
    told = [(kind, obj["metadata"]["name"]) for kind, obj in world.events(foos(), resourceVersion=start)]
    assert told == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "a"), ("DELETED", "b")]


def _schemas(world: World, version: str, group: str = "example.com") -> set[str]:
    path = f"/openapi/v3/apis/{group}/{version}"
    if world.gone(path):
        return set()
    schemas = world.get(path)["components"]["schemas"]
    return {each.rpartition(".")[2] for each in schemas}


def test_openapi_of_several_versions(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for multiple CRDs of same group
    but different versions [Conformance]
    """
    world.create(DEFINITIONS, definition(properties=_SPEC))
    assert "Foo" in _schemas(world, "v1") & _schemas(world, "v2")


def test_openapi_of_several_kinds(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for multiple CRDs of same group
    and version but different kinds [Conformance]
    """
    for plural in ("foos", "bars"):
        world.create(DEFINITIONS, definition(plural, properties=_SPEC))
    assert {"Foo", "Bar"} <= _schemas(world, "v1")


def test_openapi_of_several_groups(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for multiple CRDs of different
    groups [Conformance]
    """
    world.create(DEFINITIONS, definition(properties=_SPEC))
    world.create(DEFINITIONS, definition("bars", "other.example.com", properties=_SPEC))
    assert "Foo" in _schemas(world, "v1") - _schemas(world, "v1", "other.example.com")
    assert "Bar" in _schemas(world, "v1", "other.example.com") - _schemas(world, "v1")


def test_openapi_without_a_version(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] removes definition from spec when one
    version gets changed to not be served [Conformance]
    """
    made = world.create(DEFINITIONS, definition(properties=_SPEC))
    made["spec"]["versions"][1]["served"] = False
    world.request("PUT", f"{DEFINITIONS}/foos.example.com", made)
    assert ("Foo" in _schemas(world, "v1"), _schemas(world, "v2")) == (True, set())
    assert world.gone(foos("v2"))


def test_openapi_of_a_renamed_version(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] updates the published spec when one
    version gets renamed [Conformance]
    """
    made = world.create(DEFINITIONS, definition(properties=_SPEC))
    made["spec"]["versions"][1]["name"] = "v3"
    world.request("PUT", f"{DEFINITIONS}/foos.example.com", made)
    assert (_schemas(world, "v2"), "Foo" in _schemas(world, "v3")) == (set(), True)


_OPEN: Json = {"x-kubernetes-preserve-unknown-fields": True}
_UNKNOWN: Json = {"a": {"b": [{"c": "d"}]}}
_FOO: Json = {"group": "example.com", "kind": "Foo", "version": "v1"}


def _published(world: World) -> Json:
    """Return the schema of Foo in OpenAPI v2, as `kubectl explain` and its validation read it."""
    found: Json = world.get("/openapi/v2")["definitions"]["com.example.v1.Foo"]
    return found


def _takes(world: World, **fields: Any) -> None:
    """Create and apply a Foo with unknown fields, none of which is refused or dropped."""
    made = world.request("POST", foos(), _custom(**fields), 201, fieldValidation="Strict")
    assert {name: made[name] for name in fields} == fields
    world.request("DELETE", f"{foos()}/one")
    options = {"fieldManager": "people", "fieldValidation": "Strict"}
    made = world.request("PATCH", f"{foos()}/one", _custom(**fields), 201, media=APPLY, **options)
    assert {name: made[name] for name in fields} == fields


def test_openapi_without_a_schema(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD without validation
    schema [Conformance]
    """
    world.create(DEFINITIONS, definition("foos", **_OPEN))
    assert _published(world) == {"type": "object", "x-kubernetes-group-version-kind": [_FOO]}
    _takes(world, **_UNKNOWN)


def test_openapi_of_unknown_fields_at_the_root(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD preserving unknown
    fields at the schema root [Conformance]
    """
    world.create(DEFINITIONS, definition("foos", properties=_SPEC, description="Foo", **_OPEN))
    assert _published(world) == {"type": "object", "x-kubernetes-group-version-kind": [_FOO]}
    _takes(world, **_UNKNOWN)


def test_openapi_of_unknown_fields_in_an_object(world: World) -> None:
    """[sig-api-machinery] CustomResourcePublishOpenAPI [Privileged:ClusterAdmin] works for CRD preserving unknown
    fields in an embedded object [Conformance]
    """
    spec = {"spec": {**_SPEC["spec"], **_OPEN, "description": "nested"}}
    world.create(DEFINITIONS, definition(properties=spec, description="Foo"))
    published = _published(world)
    assert published["description"] == "Foo"
    assert published["properties"]["spec"]["description"] == "nested"
    _takes(world, spec=_UNKNOWN | {"a": "text"})
    refusal = world.request("POST", foos(), _custom(**_UNKNOWN), 400, fieldValidation="Strict")
    assert 'unknown field "a"' in refusal["message"]


def _custom(**fields: Any) -> Json:
    return {"kind": "Foo", "apiVersion": "example.com/v1", "metadata": {"name": "one"}, **fields}


def test_a_valid_custom_resource(world: World) -> None:
    """[sig-api-machinery] FieldValidation should create/apply a valid CR for CRD with validation schema
    [Conformance]
    """
    world.create(DEFINITIONS, definition(properties=_SPEC))
    world.request("POST", foos(), _custom(spec={"a": "b"}), 201, fieldValidation="Strict")
    world.request("PATCH", f"{foos()}/one", {"spec": {"a": "c"}}, fieldValidation="Strict")


def test_unknown_fields_without_a_schema(world: World) -> None:
    """[sig-api-machinery] FieldValidation should create/apply a CR with unknown fields for CRD with no validation
    schema [Conformance]
    """
    world.create(DEFINITIONS, definition("foos", **{"x-kubernetes-preserve-unknown-fields": True}))
    made = world.request("POST", foos(), _custom(spec={"unknown": 1}), 201, fieldValidation="Strict")
    assert made["spec"] == {"unknown": 1}


def test_unknown_fields_with_a_schema(world: World) -> None:
    """[sig-api-machinery] FieldValidation should create/apply an invalid CR with extra properties for CRD with
    validation schema [Conformance]
    """
    world.create(DEFINITIONS, definition(properties=_SPEC))
    refusal = world.request("POST", foos(), _custom(spec={"a": "b", "extra": 1}), 400, fieldValidation="Strict")
    assert 'unknown field "spec.extra"' in refusal["message"]


def test_duplicate_fields_of_a_custom_resource(world: World) -> None:
    """[sig-api-machinery] FieldValidation should detect duplicates in a CR when preserving unknown fields
    [Conformance]
    """
    world.create(DEFINITIONS, definition("foos", **{"x-kubernetes-preserve-unknown-fields": True}))
    text = b'{"kind": "Foo", "apiVersion": "example.com/v1", "metadata": {"name": "a"}, "spec": {"b": 1, "b": 2}}'
    refusal = world.request("POST", foos(), text, 400, fieldValidation="Strict", media="application/json")
    assert 'duplicate field "spec.b"' in refusal["message"]


def test_unknown_metadata_of_a_custom_resource(world: World) -> None:
    """[sig-api-machinery] FieldValidation should detect unknown metadata fields in both the root and embedded object of
    a CR [Conformance]
    """
    embedded = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    world.create(DEFINITIONS, definition(properties={"template": embedded}))
    inside = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "unknownInside": "b"}}
    body = {"kind": "Foo", "apiVersion": "example.com/v1", "template": inside}
    body["metadata"] = {"name": "one", "unknownMeta": "b"}
    refusal = world.request("POST", foos(), body, 400, fieldValidation="Strict")
    assert 'unknown field "metadata.unknownMeta"' in refusal["message"]
    assert 'unknown field "template.metadata.unknownInside"' in refusal["message"]
    applied = {**body, "metadata": {"name": "one", "unknownMeta": "b"}}
    told = world.request("PATCH", f"{foos()}/one", applied, 500, media=APPLY, fieldManager="e2e", force="true")
    assert ".metadata.unknownMeta: field not declared in schema" in told["message"]
    assert ".template.metadata.unknownInside: field not declared in schema" in told["message"]
