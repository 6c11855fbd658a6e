"""Custom kinds with the names of built-in ones: `Service` of serving.knative.dev, `Node` of longhorn.io."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from beehive.clock import Clock
from modules.apimachinery.kinds import KINDS, Kind
from modules.cloud.apiserver.admission.chain import PLUGINS
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.authentication.users import User
from modules.cloud.authorization.rbac.escalation import admission
from modules.cloud.authorization.rbac.index import RbacIndex
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall, ApiResult
from tests.modules.cloud.apiextensions.definition import DEFINITIONS
from tests.modules.cloud.apiserver.conformance.world import World
from tests.modules.cloud.apiserver.endpoints.serving import Watcher
from tests.support.slow import EXTENDED, one_in

GROUP = "look-alikes.example.dev"
JSON = "application/json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MAPS = "/api/v1/namespaces/default/configmaps"
CONTROL = Kind("Widget", f"{GROUP}/v1", "widgets")
"""A custom kind whose name no built-in kind has: every other one is served as this is."""
FIELDS: dict[str, Any] = {
    "spec": {
        "replicas": 3, "type": 7, "nodeName": "n1", "clusterIP": ["x"], "ports": "all", "template": {"spec": 1},
        "finalizers": ["look.example/alike"], "request": "no base64", "signerName": [], "holderIdentity": 5,
        "taints": {"a": "b"}, "schedule": 0, "selector": "everything", "parallelism": "many", "names": [],
    },
    "data": {"key": 1}, "stringData": {"key": "text"}, "rules": "all", "subjects": 7, "roleRef": [], "value": "high",
    "involvedObject": 1, "type": 2, "provisioner": 3, "subsets": "none", "webhooks": 4, "handler": [], "driver": 0,
    "immutable": "no", "revision": "first", "limits": [], "endpoints": {}, "addressType": 9, "globalDefault": "x",
    "items": [1], "empty": "", "nothing": {},
}  # fmt: skip
"""Fields that most built-in kinds have with other types."""
SUBRESOURCES = (
    "log", "exec", "attach", "portforward", "proxy", "binding", "eviction", "token", "approval", "finalize",
    "ephemeralcontainers", "resize",
)  # fmt: skip


def definition(kind: Kind, *, group: str = GROUP) -> dict[str, Any]:
    """Return the definition of a custom kind with the names of another one, whose objects may have any field."""
    version = {
        "name": "v1", "served": True, "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {
            "status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{group}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind.name, "plural": kind.plural, "singular": "thing"},
            "versions": [version],
        },
    }


class LookAlikes(World):
    """The API as a user without rights to pass on has it, with all admission plug-ins and a quota of nothing."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        super().__init__(with_plugins)
        hard = {"pods": "0", "services": "0", "configmaps": "9", "secrets": "0", "count/jobs.batch": "0"}
        quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}}
        self.cluster.create({**quota, "spec": {"hard": hard}})
        self.create(DEFINITIONS, definition(kind))
        self.path = f"/apis/{GROUP}/v1/namespaces/default/{kind.plural}"

    def call(self, call: ApiCall) -> ApiResult:
        """Make a call as the user; another of the collector, or about definitions, as an administrator."""
        by_user = self.cluster.with_admission(admission(User("alice"), RbacIndex()))
        if call.plural == "customresourcedefinitions":
            return super().call(call)
        with by_user, self.cluster.within_quotas():
            return super().call(msgspec.structs.replace(call, user="alice"))

    def obj(self, name: str, **metadata: Any) -> dict[str, Any]:
        """Return an object with fields that built-in kinds have otherwise."""
        named = {"name": name, "labels": {"a": "b"}, **metadata}
        return {"apiVersion": f"{GROUP}/v1", "kind": self.kind.name, "metadata": named, **FIELDS}

    def answer(self, method: str, path: str = "", body: Any = None, media: str = JSON, **query: str) -> tuple[int, Any]:
        """Return the status and the object of an answer, with its warnings."""
        reply = self.ask(method, f"{self.path}{path}", body, media, **query)
        return reply.status, (json.loads(reply.body), reply.headers)

    def lived(self) -> Iterator[object]:
        """Yield what the API answers in the life of some objects, and what there is at the end."""
        yield self.answer("POST", "", self.obj("one"))
        yield self.answer("POST", "", self.obj("one"))
        yield self.answer("POST", "", {**self.obj(""), "metadata": {"generateName": "made-"}}, fieldValidation="Strict")
        yield self.answer("POST", "", {**self.obj("two"), "status": {"phase": 1}})
        yield self.answer("GET", "/one")
        yield self.answer("GET", "/one/status")
        yield self.answer("GET", "", accept=TABLE)
        yield self.answer("GET", "", fieldSelector="spec.nodeName=n1")
        yield self.answer("GET", "", fieldSelector="metadata.name=one", limit="1")
        yield self.answer("GET", "", labelSelector="a=b", limit="1")
        live = json.loads(self.ask("GET", f"{self.path}/one").body)
        yield self.answer("PUT", "/one", {**live, "spec": {**FIELDS["spec"], "replicas": 4}, "status": {"phase": 2}})
        yield self.answer("PUT", "/one", self.obj("one"))
        yield self.answer("PUT", "/one", {**self.obj("one"), "apiVersion": "v1"})
        yield self.answer("PATCH", "/one", {"spec": {"ports": [{"port": 1}], "finalizers": None}}, MERGE)
        yield self.answer("PATCH", "/one", {"spec": {"ports": [{"port": 2}]}}, STRATEGIC)
        yield self.answer("PATCH", "/one", [{"op": "add", "path": "/spec/type", "value": "ClusterIP"}], JSON_PATCH)
        yield self.answer("PATCH", "/one", {"metadata": {"labels": {"c": "d"}}, "status": {"phase": 3}}, MERGE)
        yield self.answer("PATCH", "/one/status", {"metadata": {"labels": {"c": "e"}}, "status": {"phase": 4}}, MERGE)
        yield self.answer("PUT", "/one/scale", self._scale(9))
        for _ in range(2):
            yield self.answer("PATCH", "/applied", self.obj("applied"), APPLY, fieldManager="me")
            yield self.cluster.apply(self.obj("manifest", namespace="default"))
            self.noted()
        for name in SUBRESOURCES:
            yield self.answer("GET", f"/one/{name}"), self.answer("POST", f"/one/{name}", {})
        yield self.watch(self.path, Watcher())
        yield from self._deleted()
        stored = (key for key in self.cluster.storage if key.kind != "CustomResourceDefinition")
        yield sorted((key.name, key.kind.partition(".")[2] or key.kind) for key in stored)
        yield self.get("/api/v1/namespaces/default/events"), self.get("/api/v1/namespaces/default/resourcequotas/few")

    def _scale(self, replicas: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ask("GET", f"{self.path}/one/scale").body)
        return {**found, "spec": {"replicas": replicas}}

    def _deleted(self) -> Iterator[object]:
        """Yield the answers to deletions by each policy, and which dependents are left after each."""
        for policy in ("", "Background", "Foreground", "Orphan"):
            owner = self.answer("POST", "", self.obj(f"owner{policy.lower()}"))[1][0]
            reference = {name: owner[name] for name in ("apiVersion", "kind")}
            reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
            self.create(MAPS, {"metadata": {"name": f"of-{policy.lower()}x", "ownerReferences": [reference]}})
            options = {"propagationPolicy": policy} if policy else {}
            yield self.answer("DELETE", f"/owner{policy.lower()}", None, JSON, **options)
            yield self.names(MAPS)
        yield self.answer("DELETE", "/one", None, JSON, dryRun="All")
        yield self.answer("PATCH", "/two", {"metadata": {"finalizers": ["look.example/alike"]}}, MERGE)
        yield self.answer("DELETE", "/two"), self.answer("GET", "/two")
        yield self.answer("PATCH", "/two", {"metadata": {"finalizers": None}}, MERGE)
        yield self.answer("DELETE", "", None, JSON, labelSelector="a=b")


def with_plugins(clock: Clock) -> Cluster:
    """Return a cluster with all admission plug-ins that look at objects alone."""
    return Cluster(clock, Scheduling("n1"), plugins=PLUGINS)


@pytest.mark.parametrize("kind", one_in(6, KINDS, EXTENDED), ids=lambda kind: kind.name)
def test_a_custom_kind_is_served_alike_whatever_its_name(kind: Kind) -> None:
    """Each answer in the life of its objects is that of a kind whose name no built-in one has."""
    for mine, other in zip(LookAlikes(kind).lived(), LookAlikes(CONTROL).lived(), strict=True):
        assert _without_names(mine, kind) == _without_names(other, kind)


def _without_names(answer: object, kind: Kind) -> str:
    """Return an answer as text, without the names of a kind and of the control."""
    text = repr(answer)
    for one in (kind, CONTROL):
        for word, name in ((one.name, "KIND"), (f"{one.name}List", "LIST"), (one.plural, "PLURAL")):
            text = re.sub(rf"\b{word}\b", name, text)
        text = re.sub(rf"\b{one.name.lower()}\.look-alikes", "KIND.look-alikes", text)
    return text


SERVICE = Kind("Service", "serving.knative.dev/v1", "services")
ROOT = "/apis/serving.knative.dev/v1"
SERVICES = f"{ROOT}/namespaces/default/services"
CORE = "/api/v1/namespaces/default/services"


@pytest.fixture
def world() -> World:
    """The API with Knative's Services, one beside a Service of the same name."""
    made = World()
    made.create(DEFINITIONS, definition(SERVICE, group="serving.knative.dev"))
    made.create(CORE, {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}})
    named = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "web"}}
    made.create(SERVICES, {**named, "spec": {"template": {"spec": {"containers": []}}}})
    return made


@pytest.mark.parametrize(
    ("kind", "plural", "group", "reason"),
    [
        ("Service", "services", "serving.knative.dev", "NoConflicts"),
        ("StorageClass", "kinds", "storage.k8s.io", "KindConflict"),
        ("Widget", "storageclasses", "storage.k8s.io", "PluralConflict"),
        ("Event", "happenings", "events.k8s.io", "KindConflict"),
        ("Widget", "subjectaccessreviews", "authorization.k8s.io", "PluralConflict"),
        ("SubjectAccessReview", "widgets", "serving.knative.dev", "NoConflicts"),
    ],
)
def test_names_collide_within_a_group_only(kind: str, plural: str, group: str, reason: str) -> None:
    made = World().create(DEFINITIONS, definition(Kind(kind, "", plural), group=group))
    conditions = {each["type"]: each for each in made["status"]["conditions"]}
    assert conditions["NamesAccepted"]["reason"] == reason
    assert conditions["Established"]["status"] == str(reason == "NoConflicts")


def test_an_owner_is_one_of_its_group(world: World) -> None:
    """What a Knative Service owns outlives the other one, and the reference to one of them with the uid of the other
    leads to nothing.
    """
    core, knative = world.get(f"{CORE}/web"), world.get(f"{SERVICES}/web")
    for name, owner, uid in (("a", knative, knative), ("b", core, core), ("c", knative, core), ("d", core, knative)):
        reference = {"apiVersion": owner["apiVersion"], "kind": "Service", "name": "web", "uid": uid["metadata"]["uid"]}
        world.create(MAPS, {"metadata": {"name": name, "ownerReferences": [reference]}})
    assert world.names(MAPS) == ["a", "b"]
    world.request("DELETE", f"{CORE}/web")
    assert world.names(MAPS) == ["a"]
    world.request("DELETE", f"{SERVICES}/web", propagationPolicy="Foreground")
    assert world.names(MAPS) == []


def test_a_definition_takes_only_its_own_objects_with_it(world: World) -> None:
    world.request("DELETE", f"{DEFINITIONS}/services.serving.knative.dev")
    assert world.gone(f"{SERVICES}/web")
    assert world.names(CORE) == ["web"]
    assert world.gone(ROOT)


def test_discovery_and_openapi_have_both(world: World) -> None:
    """Each in its group, with its own subresources and fields."""
    listed = {each["name"] for each in world.get(ROOT)["resources"]}
    assert listed == {"services", "services/status", "services/scale"}
    schemas = world.get("/openapi/v3/apis/serving.knative.dev/v1")["components"]["schemas"]
    of = [{"group": "serving.knative.dev", "kind": "Service", "version": "v1"}]
    (mine,) = (each for each in schemas.values() if each.get("x-kubernetes-group-version-kind") == of)
    assert "spec" not in mine["properties"]
    core = world.get("/openapi/v3/api/v1")["components"]["schemas"]
    assert any(each.get("x-kubernetes-group-version-kind") == [{**of[0], "group": ""}] for each in core.values())
    assert world.get(f"{CORE}/web")["spec"]["type"] == "ClusterIP"
    assert world.get(f"{SERVICES}/web")["spec"] == {"template": {"spec": {"containers": []}}}
