"""The Kubernetes API's verbs on the stub's objects."""

from typing import Any

import msgspec
import pytest

from beehive import codec
from beehive.decoding import decode_json
from beehive.message import Message
from beehive.nesting import LEVELS
from beehive.simulation import Simulation
from modules.apimachinery.kinds import JsonObject, kind_named
from modules.cloud.apiserver.api_calls import DryRunError, serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.pod_scheduler import Scheduling
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall
from modules.cloud.storage.object_storage import OBJECT_LEVELS
from tests.modules.cloud.apiserver.updates.samples import sample

REQUESTS = "certificatesigningrequests"


class Api:
    """A cluster and its verbs."""

    def __init__(self) -> None:
        self._cluster = Cluster(Simulation(0).clock, Scheduling("n1"))

    def __call__(
        self, verb: str, name: str = "", body: Any = None, plural: str = "configmaps", **fields: Any
    ) -> JsonObject:
        request = ApiCall(
            verb=verb, api_version=fields.pop("api_version", "v1"), plural=plural,
            namespace=fields.pop("namespace", "ns"), name=name, body=body, **fields,
        )  # fmt: skip
        result = serve(self._cluster, request)
        return result.refusal or result.object or {}


@pytest.fixture
def api() -> Api:
    made = Api()
    made("create", body={"metadata": {"name": "c"}, "data": {"a": "1"}})
    return made


POD: JsonObject = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "app", "image": "busybox"}]}}


def test_an_object_is_made_read_listed_changed_and_deleted(api: Api) -> None:
    made = api("get", "c")
    assert (made["kind"], made["metadata"]["namespace"], made["data"]) == ("ConfigMap", "ns", {"a": "1"})
    assert [each["metadata"]["name"] for each in api("list")["items"]] == ["c"]
    assert api("list", namespace="")["kind"] == "ConfigMapList"
    assert api("update", "c", {**made, "data": {"b": "2"}})["data"] == {"b": "2"}
    assert api("update", "c", {**made, "data": {}})["reason"] == "Conflict", "it stems from an older version"
    assert api("delete", "c")["details"]["uid"] == made["metadata"]["uid"]
    assert api("get", "c")["code"] == 404


def test_a_node_lists_its_own_pods(api: Api) -> None:
    app = {"name": "app", "image": "busybox"}
    elsewhere: JsonObject = {"metadata": {"name": "q"}, "spec": {"nodeName": "n2", "containers": [app]}}
    for body in (POD, elsewhere):
        api("create", body=body, plural="pods")
    for node, names in {"n1": ["p"], "n2": ["q"], "n3": []}.items():
        listed = api("list", plural="pods", namespace="", options={"fieldSelector": f"spec.nodeName={node}"})
        assert (listed["kind"], [each["metadata"]["name"] for each in listed["items"]]) == ("PodList", names)
    mine = {"fieldSelector": "spec.nodeName=n1"}
    assert api("list", plural="pods", namespace="other", options=mine)["items"] == []


@pytest.mark.parametrize(("patch_type", "data"), [(STRATEGIC, {"a": "2"}), (MERGE, {"a": "2", "b": None})])
def test_patches(api: Api, patch_type: str, data: JsonObject) -> None:
    assert api("patch", "c", {"data": data}, patch_type=patch_type)["data"] == {"a": "2"}


def test_a_pods_status_is_changed_by_its_subresource_only(api: Api) -> None:
    api("create", body=POD, plural="pods")
    patched = api("patch", "p", {"status": {"phase": "Running"}}, "pods", patch_type=STRATEGIC, subresource="status")
    assert patched["status"]["phase"] == "Running"
    labelled = api("patch", "p", {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Failed"}}, "pods",
                   patch_type=MERGE)  # fmt: skip
    assert (labelled["metadata"]["labels"], labelled["status"]["phase"]) == ({"a": "b"}, "Running")
    assert api("updatestatus", "p", {"status": {"phase": "Failed"}}, "pods")["status"] == {"phase": "Failed"}
    moved = api("patch", "p", {"spec": {"hostNetwork": True}}, "pods", patch_type=MERGE)
    assert moved["reason"] == "Invalid"
    assert api("delete", "p", plural="pods", options={"preconditions": {"uid": "other"}})["reason"] == "Conflict"
    assert api("delete", "p", plural="pods", options={"gracePeriodSeconds": 0})["metadata"]["name"] == "p"


def nested(levels: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(levels):
        value = {"a": value}
    return value


DEEPENING = [
    {"op": "add", "path": "/x", "value": nested(200)},
    *({"op": "copy", "from": "/x", "path": "/x" + "/a" * (200 * number)} for number in range(1, 9)),
]
"""Each copy is put below the one before."""


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"verb": "get", "plural": "deployments", "api_version": "apps/v1", "name": "d"}, 404),
        ({"verb": "get"}, 405),
        ({"verb": "walk", "name": "c"}, 405),
        ({"verb": "get", "name": "c", "subresource": "scale"}, 404),
        ({"verb": "delete", "name": "c", "options": {"dryRun": ["Some"]}}, 422),
        ({"verb": "delete", "name": "c", "options": {"preconditions": [1]}}, 400),
        ({"verb": "update", "name": "c", "body": {"metadata": {"name": "c"}, "x": nested(OBJECT_LEVELS)}}, 400),
        ({"verb": "patch", "name": "c", "body": DEEPENING, "patch_type": JSON_PATCH}, 400),
        ({"verb": "list", "options": {"fieldSelector": "spec.nodeName=n1"}}, 400),
        ({"verb": "create", "body": []}, 400),
        ({"verb": "create", "body": {}}, 422),
        ({"verb": "create", "body": {"metadata": {"name": "c"}}}, 409),
        ({"verb": "create", "body": {"metadata": {"name": "x", "namespace": "other"}}}, 400),
        ({"verb": "update", "name": "c", "body": {"metadata": {"name": "other"}}}, 400),
        ({"verb": "update", "name": "none", "body": {"metadata": {"name": "none"}}}, 404),
        ({"verb": "patch", "name": "c", "body": {}, "patch_type": "application/json-patch+json"}, 400),
        ({"verb": "patch", "name": "c", "body": {"metadata": None}, "patch_type": MERGE}, 400),
    ],
)
def test_a_refusal_is_a_status(api: Api, request_: dict[str, Any], code: int) -> None:
    assert api(**request_)["code"] == code


@pytest.mark.parametrize("manager", ["", "kubectl"])
def test_a_reader_can_decode_the_list_that_an_object_is_in(api: Api, manager: str) -> None:
    """An object of as many levels as a text may have could be stored, and no list of its kind could be read."""
    options = {"fieldManager": manager} if manager else {}
    codes = [
        api("create", body={"metadata": {"name": f"n{levels}"}, "x": nested(levels)}, options=options).get("code")
        for levels in range(OBJECT_LEVELS - 10, LEVELS)
    ]
    assert (codes[0], codes[-1]) == (None, 400)
    content = msgspec.Raw(msgspec.json.encode(api("list")))
    frame = codec.encode(Message(content=content))
    assert len(decode_json(frame)["content"]["items"]) == 1 + codes.count(None)


def test_a_cloud_that_may_lack_objects_marks_its_lists() -> None:
    """As an API server of a list that goes on."""
    request = ApiCall(verb="list", api_version="v1", plural="pods", node="n1")
    for knows_all, expected in ((True, None), (False, 1)):
        listed = serve(Cluster(Simulation(0).clock), request, knows_all=knows_all).object
        assert listed is not None
        assert listed["metadata"].get("remainingItemCount") == expected


def test_a_collection_is_deleted_in_one_namespace(api: Api) -> None:
    """A slip of a script does not take the objects of all namespaces."""
    assert api("deletecollection", namespace="")["code"] == 405
    assert [each["metadata"]["name"] for each in api("list")["items"]] == ["c"]
    assert len(api("deletecollection")["items"]) == 1


def test_a_pod_for_a_node_that_nobody_has_seen_gets_a_warning() -> None:
    cluster = Cluster(Simulation(0).clock)
    pod = {"metadata": {"name": "p"}, "spec": {**POD["spec"], "nodeName": "n9"}}
    create = ApiCall(verb="create", api_version="v1", plural="pods", namespace="ns", name="", body=pod)
    assert serve(cluster, create).warnings == (
        "pod p: there is no node n9 (it waits until one of that name registers)",
    )
    cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n9"}})
    assert serve(cluster, msgspec.structs.replace(create, body={**pod, "metadata": {"name": "q"}})).warnings == ()


def test_a_new_service_gets_a_warning_that_not_every_node_serves_it() -> None:
    """Not when it is read, or when its labels change."""
    cluster = Cluster(Simulation(0).clock)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    create = ApiCall(verb="create", api_version="v1", plural="services", namespace="ns", body=service)
    (warning,) = serve(cluster, create).warnings
    assert warning.startswith("service web: only nodes with a proxy of services answer")
    assert serve(cluster, msgspec.structs.replace(create, verb="get", name="web", body=None)).warnings == ()
    assert serve(cluster, create).warnings == (), "it is there already"


def test_a_new_service_gets_no_warning_where_a_node_has_a_proxy_of_services() -> None:
    cluster = Cluster(Simulation(0).clock)
    for name, version in (("n1", ""), ("n2", "v1.32.10")):
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        cluster.create({**node, "status": {"nodeInfo": {"kubeProxyVersion": version}}})
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    create = ApiCall(verb="create", api_version="v1", plural="services", namespace="ns", body=service)
    assert serve(cluster, create).warnings == ()
    balanced = {"ports": [{"port": 80}], "type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    body = {**service, "metadata": {"name": "edge"}, "spec": {**balanced, "healthCheckNodePort": 30123}}
    told = "service edge: no node answers at its healthCheckNodePort 30123"
    assert serve(cluster, msgspec.structs.replace(create, body=body)).warnings == (told,)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("StorageClass", "storageclass one: no volumes are provisioned"),
        ("PodTemplate", "podtemplate one: nothing here acts on a PodTemplate"),
        ("Ingress", "ingress one: nothing here acts on an Ingress"),
        ("IngressClass", "ingressclass one: nothing here acts on an Ingress"),
        ("NetworkPolicy", "networkpolicy one: nothing enforces it here: every pod may still reach every other"),
        ("HorizontalPodAutoscaler", "horizontalpodautoscaler one: nothing here scales by it: the replicas stay"),
        ("FlowSchema", "flowschema one: nothing here acts on it"),
        ("PriorityLevelConfiguration", "prioritylevelconfiguration one: nothing here acts on it"),
    ],
)
def test_a_kind_that_nobody_acts_on_is_reported(kind: str, told: str) -> None:
    """With each write, also of what is there already, and in a dry run; not when it is read or deleted."""
    of, body, cluster = kind_named(kind), sample(kind, "one"), Cluster(Simulation(0).clock)
    namespace = "default" if of.namespaced else ""
    made = ApiCall(verb="create", api_version=of.api_version, plural=of.plural, namespace=namespace, body=body)
    found = msgspec.structs.replace(made, name="one")
    results = [
        serve(cluster, made),
        serve(cluster, msgspec.structs.replace(found, verb="update")),
        *(
            serve(cluster, msgspec.structs.replace(found, verb="patch", patch_type=patch_type, options=options))
            for patch_type, options in ((STRATEGIC, {}), (MERGE, {}), (APPLY, {"fieldManager": "a", "force": True}))
        ),
    ]
    with pytest.raises(DryRunError) as dry:
        serve(cluster, msgspec.structs.replace(found, verb="update", options={"dryRun": "All"}))
    results.append(dry.value.result)
    assert [each.refusal for each in results] == [None] * 6
    assert all(len(each.warnings) == 1 and each.warnings[0].startswith(told) for each in results)
    for verb in ("get", "list", "delete"):
        assert serve(cluster, msgspec.structs.replace(found, verb=verb, body=None)).warnings == ()


def test_the_scale_of_an_object_that_was_made_again_is_a_conflict(api: Api) -> None:
    """An autoscaler has read the Scale of the one before."""
    fields: dict[str, Any] = {"plural": "deployments", "api_version": "apps/v1"}
    made = api("create", body=sample("Deployment", "web"), namespace="default", **fields)
    metadata = {"name": "web", "namespace": "default", "uid": "another"}
    scaled = [
        api("update", "web", {"metadata": {**metadata, **own}, "spec": {"replicas": 3}}, namespace="default",
            subresource="scale", **fields)
        for own in ({}, {"uid": made["metadata"]["uid"]})
    ]  # fmt: skip
    assert [each.get("code") for each in scaled] == [409, None]


def test_an_older_state_of_a_status_is_a_conflict(api: Api) -> None:
    """The status subresource has optimistic concurrency, and takes labels (recorded); the spec stays."""
    made = api("create", body=POD, plural="pods")
    put = {**made, "status": {"phase": "Running"}, "spec": {}}
    put["metadata"] = {**made["metadata"], "labels": {"a": "b"}}
    stored = api("update", "p", put, "pods", subresource="status")
    assert (stored["status"]["phase"], stored["metadata"]["labels"]) == ("Running", {"a": "b"})
    assert stored["spec"] == made["spec"]
    assert api("update", "p", put, "pods", subresource="status")["reason"] == "Conflict"


def test_kubectl_debug_adds_ephemeral_containers(api: Api) -> None:
    """By their subresource, which changes nothing else, and is not for nodes."""
    made = api("create", body=POD, plural="pods")
    debugger = {"name": "debugger-x", "image": "busybox:1.36", "targetContainerName": "app"}
    patch = {"spec": {"ephemeralContainers": [debugger], "hostNetwork": True}}
    asked = {"plural": "pods", "subresource": "ephemeralcontainers"}
    patched = api("patch", "p", patch, patch_type=STRATEGIC, **asked)
    assert [each["name"] for each in patched["spec"]["ephemeralContainers"]] == ["debugger-x"]
    assert "hostNetwork" not in patched["spec"]
    assert api("get", "p", **asked)["spec"]["ephemeralContainers"]
    assert api("update", "p", {**patched, "metadata": made["metadata"]}, **asked)["reason"] == "Conflict"
    removed = {**patched, "spec": {**patched["spec"], "ephemeralContainers": []}}
    assert api("update", "p", removed, **asked)["code"] == 422
    assert api("patch", "p", patch, patch_type=STRATEGIC, node="n1", **asked)["code"] == 404


def test_delete_node_names_the_command_that_locks_it_out() -> None:
    """A living node registers again; nodes themselves get no warning."""
    cluster = Cluster(Simulation(0).clock)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}

    def warnings(verb: str, **fields: Any) -> tuple[str, ...]:
        return serve(cluster, ApiCall(verb=verb, api_version="v1", plural="nodes", **fields)).warnings

    assert warnings("create", body=node) == ()
    (warning,) = warnings("delete", name="n1")
    assert "cloudcore revoke node n1" in warning
    assert warnings("delete", name="n1") == ()


@pytest.mark.parametrize("patch_type", [STRATEGIC, MERGE])
def test_a_patch_leaves_no_empty_list_behind(api: Api, patch_type: str) -> None:
    """kube-apiserver stores what Go's JSON writes; clients take an empty list of owners for a change."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "u1"}
    api("create", body={"metadata": {"name": "d", "ownerReferences": [owner], "finalizers": ["x.example/y"]}})
    gone = [{"$patch": "delete", "uid": "u1"}] if patch_type == STRATEGIC else []
    changes: JsonObject = {"metadata": {"ownerReferences": gone, "finalizers": None, "labels": {}}}
    metadata = api("patch", "d", changes, patch_type=patch_type)["metadata"]
    assert not metadata.keys() & {"ownerReferences", "finalizers", "labels"}


@pytest.mark.parametrize(("taken", "is_made"), [(0, True), (7, True), (8, False)])
def test_a_generated_name_that_is_taken_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, api: Api, taken: int, is_made: bool
) -> None:
    """Eight times, as by kube-apiserver since 1.31; the name has at most 63 characters."""
    attempts = iter([*("taken",) * taken, "fresh"])
    monkeypatch.setattr("modules.cloud.apiserver.verbs.creation.suffix_of", lambda _: next(attempts))
    prefix = "a" * 80
    api("create", body={"metadata": {"name": f"{prefix[:58]}taken"}})
    made = api("create", body={"metadata": {"generateName": prefix}})
    if is_made:
        assert made["metadata"]["name"] == f"{prefix[:58]}fresh"
    else:
        assert (made["code"], made["reason"]) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    ("verb", "plural", "fields", "code"),
    [
        ("patch", "configmaps", {"patch_type": APPLY, "options": {"fieldManager": "m"}}, 415),
        ("update", REQUESTS, {"subresource": "approval", "api_version": "certificates.k8s.io/v1"}, 404),
        ("update", "pods", {"subresource": "ephemeralcontainers"}, 404),
        ("update", "services", {"options": {"fieldManager": "m"}}, 404),
        ("create", "pods", {"subresource": "binding"}, 404),
        ("create", "pods", {"subresource": "eviction"}, 404),
        ("create", "serviceaccounts", {"subresource": "token"}, 404),
    ],
)  # fmt: skip
def test_what_others_may_do_is_not_served_to_a_node(
    api: Api, verb: str, plural: str, fields: dict[str, Any], code: int
) -> None:
    """Whatever its authorizer says: nothing of it is in NodeRestriction."""
    kind = {"configmaps": "ConfigMap", "services": "Service", "pods": "Pod"}.get(plural, "CertificateSigningRequest")
    spec: Any = {"ports": [{"port": 80}]} if plural == "services" else {}
    body = {"apiVersion": fields.get("api_version", "v1"), "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    if plural == "configmaps":
        del body["spec"]
    refused, usual = (api(verb, "x", body, plural, node=node, **fields) for node in ("n1", ""))
    assert refused["code"] == code
    assert refused != usual
