"""Objects that are created by an update, and pods that are bound by their namespace's `bindings`: as kube-apiserver
1.32.13 answered when it was asked the same.
"""

import json
from typing import Any

import pytest

from tests.modules.cloud.apiserver.endpoints.serving import MAPS, PODS, Serving

BINDINGS = "/api/v1/namespaces/default/bindings"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}


def asked(api: Serving, method: str, path: str, body: Any, media: str = "application/json") -> tuple[int, Any]:
    """Return the status and the object of an answer."""
    reply = api.ask(method, path, body, media)
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (LEASES, {"spec": {"holderIdentity": "me"}}),
        ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}),
        ("/api/v1/namespaces/default/endpoints", {}),
        ("/api/v1/namespaces/default/limitranges", {"spec": {"limits": []}}),
        ("/apis/events.k8s.io/v1/namespaces/default/events",
         {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "a.b/c", "reportingInstance": "i",
          "action": "A", "reason": "R", "type": "Normal", "regarding": {"kind": "Pod", "namespace": "default"}}),
        ("/apis/node.k8s.io/v1/runtimeclasses", {"handler": "x"}),
        (f"{RBAC}/namespaces/default/roles", {"rules": []}),
        (f"{RBAC}/clusterroles", {"rules": []}),
        (f"{RBAC}/namespaces/default/rolebindings", {"roleRef": ROLE}),
        (f"{RBAC}/clusterrolebindings", {"roleRef": ROLE}),
    ],
)  # fmt: skip
def test_an_update_creates_what_is_not_there(api: Serving, path: str, body: dict[str, Any]) -> None:
    """Whatever resourceVersion it names."""
    named = {**body, "metadata": {"name": "a", "resourceVersion": "5"}}
    status, made = asked(api, "PUT", f"{path}/a", named)
    assert (status, made["metadata"]["name"], bool(made["metadata"]["uid"])) == (201, "a", True)
    named["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"]
    status, again = asked(api, "PUT", f"{path}/a", named)
    assert (status, again["metadata"]["uid"]) == (200, made["metadata"]["uid"])


@pytest.mark.parametrize("metadata", ["a", ["a"], 1, True])
def test_an_update_with_metadata_that_are_no_object_is_refused(api: Serving, metadata: Any) -> None:
    """Before anything is looked up in them."""
    assert asked(api, "PUT", f"{LEASES}/a", {"metadata": metadata})[0] == 400


def test_an_update_of_what_was_deleted_and_a_patch_create_nothing(api: Serving) -> None:
    lease = {"metadata": {"name": "a", "uid": "former"}, "spec": {}}
    assert asked(api, "PUT", f"{LEASES}/a", lease)[0] == 404
    assert asked(api, "PATCH", f"{LEASES}/a", {"spec": {}}, "application/merge-patch+json")[0] == 404
    assert asked(api, "PUT", f"{MAPS}/a", {"metadata": {"name": "a"}})[0] == 404


def test_a_binding_in_a_namespace_gives_the_pod_of_its_name_a_node(api: Serving) -> None:
    spec = {"schedulerName": "another", "containers": [{"name": "c", "image": "i"}]}
    api.ask("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    assert asked(api, "POST", BINDINGS, body)[0] == 201
    assert asked(api, "GET", f"{PODS}/p", None)[1]["spec"]["nodeName"] == "n1"
    again = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    assert (asked(api, "POST", BINDINGS, body)[1]["message"]) == again


@pytest.mark.parametrize(
    ("method", "path", "body", "refusal"),
    [
        ("POST", BINDINGS, {"target": {"name": "n1"}}, (400, "Name parameter required.")),
        ("POST", BINDINGS, {"metadata": {"name": "none"}, "target": {"name": "n1"}}, (404, 'pods "none" not found')),
        ("POST", BINDINGS, {"metadata": {"name": "p", "namespace": "x"}, "target": {"name": "n1"}},
         (400, "the namespace of the provided object does not match the namespace sent on the request")),
        ("POST", BINDINGS, {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}},
         (400, 'Pod in version "v1" cannot be handled as a Binding: converting (v1.Pod) to (core.Binding): unknown '
               "conversion")),
        ("POST", BINDINGS, {"metadata": []}, (400, "")),
        ("GET", BINDINGS, None, (405, "the server does not allow this method on the requested resource")),
        ("PUT", f"{BINDINGS}/p", {}, (404, "the server could not find the requested resource")),
        ("POST", "/api/v1/bindings", {}, (404, "the server could not find the requested resource")),
    ],
)  # fmt: skip
def test_what_is_no_binding_is_refused(api: Serving, method: str, path: str, body: Any, refusal: Any) -> None:
    status, said = asked(api, method, path, body)
    assert (status, said["message"] if refusal[1] else "") == refusal


def test_discovery_lists_the_bindings_of_a_namespace(api: Serving) -> None:
    found = asked(api, "GET", "/api/v1", None)[1]["resources"]
    assert [one for one in found if one["name"] == "bindings"] == [
        {"name": "bindings", "singularName": "binding", "namespaced": True, "kind": "Binding", "verbs": ["create"]}
    ]
