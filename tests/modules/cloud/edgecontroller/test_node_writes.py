"""The object that a node's write would leave: NodeRestriction decides on it before the cluster's API server."""

from typing import Any

import pytest

from modules.apimachinery.api_errors import ApiError, BadRequestError, MethodNotAllowedError
from modules.apimachinery.kinds import kind_named
from modules.cloud.client.calls import APPLY, JSON_PATCH, MERGE, STRATEGIC, ApiCall, is_write
from modules.cloud.edgecontroller.upstream.node_writes import (
    admitted,
    is_conditional,
    needs_live,
    proposed,
    same_uid,
    with_metadata,
)

NODE, POD, LEASE = kind_named("Node"), kind_named("Pod"), kind_named("Lease")
LIVE: dict[str, Any] = {
    "kind": "Node",
    "apiVersion": "v1",
    "metadata": {"name": "n1", "uid": "u1", "labels": {"a": "1"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"phase": "Old"},
}


def call(verb: str = "patch", **fields: Any) -> ApiCall:
    """A write of the Node n1."""
    return ApiCall(**{"verb": verb, "api_version": "v1", "plural": "nodes", "name": "n1", **fields})


def left(body: Any, patch_type: str = STRATEGIC, **fields: Any) -> Any:
    """The Node after a patch."""
    return proposed(NODE, call(body=body, patch_type=patch_type, **fields), LIVE)


@pytest.mark.parametrize(
    ("patch_type", "body"),
    [
        (STRATEGIC, {"metadata": {"labels": {"b": "2"}}}),
        (MERGE, {"metadata": {"labels": {"b": "2"}}}),
        (JSON_PATCH, [{"op": "add", "path": "/metadata/labels/b", "value": "2"}]),
    ],
)
def test_each_patch_is_applied_to_the_live_object(patch_type: str, body: Any) -> None:
    """All three lead to the same labels, and leave the live object as it is."""
    assert left(body, patch_type)["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert LIVE["metadata"]["labels"] == {"a": "1"}


def test_an_update_has_the_type_of_its_body() -> None:
    """Names and kind that Go clients omit are the request's."""
    new = proposed(NODE, call("update", body={"metadata": {}}), LIVE)
    assert new == {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}}


@pytest.mark.parametrize("fields", [{"verb": "updatestatus"}, {"verb": "update", "subresource": "status"}])
def test_a_status_leaves_the_spec(fields: dict[str, str]) -> None:
    """The API server ignores the spec in it."""
    body = {"metadata": {}, "spec": {"taints": []}, "status": {"phase": "New"}}
    new = proposed(NODE, call(**fields, body=body), LIVE)
    assert new is not None
    assert (new["spec"], new["status"]) == (LIVE["spec"], {"phase": "New"})


def test_a_deletion_leaves_nothing() -> None:
    assert proposed(NODE, call("delete"), LIVE) is None


HOSTILE: list[tuple[str, Any]] = [
    (APPLY, {"metadata": {}}),
    ("", {"metadata": {}}),
    (STRATEGIC, []),
    (STRATEGIC, None),
    (MERGE, "text"),
    (MERGE, {"metadata": None}),
    (MERGE, {"metadata": "text"}),
    (MERGE, {"metadata": {"name": "n2"}}),
    (MERGE, {"metadata": {"name": 1}}),
    (MERGE, {"kind": "Pod"}),
    (MERGE, {"apiVersion": "v2"}),
    (STRATEGIC, {"metadata": []}),
    (JSON_PATCH, {"op": "remove", "path": "/metadata"}),
    (JSON_PATCH, [{"op": "remove", "path": "/metadata"}]),
    (JSON_PATCH, [{"op": "replace", "path": "/metadata", "value": 1}]),
    (JSON_PATCH, [{"op": "replace", "path": "/metadata", "value": {"name": "n2"}}]),
    (JSON_PATCH, [{"op": "replace", "path": "", "value": 7}]),
    (JSON_PATCH, [{"op": "remove", "path": "/spec/taints/-9"}]),
    (JSON_PATCH, [{"op": "remove", "path": "spec/spec/taints"}]),
    (JSON_PATCH, [{"op": "remove", "path": "/spec/taints/00"}]),
]


@pytest.mark.parametrize(("patch_type", "body"), HOSTILE)
def test_a_patch_that_leaves_no_such_object_is_refused(patch_type: str, body: Any) -> None:
    """It does not reach the API server, which might read it in another way."""
    with pytest.raises(ApiError):
        left(body, patch_type)


@pytest.mark.parametrize("body", [None, [], "text", {}, {"metadata": None}, {"metadata": {"name": "n2"}}])
@pytest.mark.parametrize("verb", ["create", "update", "updatestatus"])
def test_a_body_that_is_no_such_object_is_refused(verb: str, body: Any) -> None:
    with pytest.raises(BadRequestError):
        proposed(NODE, call(verb, body=body), LIVE)


def test_an_object_of_another_namespace_is_refused() -> None:
    """The API server refuses it, too, but the admission must not look at one object and write another."""
    body = {"metadata": {"name": "n1", "namespace": "other"}}
    with pytest.raises(BadRequestError, match="namespace"):
        proposed(LEASE, call("update", plural="leases", namespace="kube-node-lease", body=body), None)


def test_a_node_deletes_no_collection() -> None:
    with pytest.raises(MethodNotAllowedError):
        proposed(POD, call("deletecollection", plural="pods", name=""), None)


DIRECTIVES: list[dict[str, Any]] = [
    {"$patch": "replace"},
    {"$retainKeys": ["metadata"]},
    {"$deleteFromPrimitiveList/spec": None},
    {"spec": {"$deleteFromPrimitiveList/taints": None}},
    {"spec": {"$setElementOrder/taints": []}},
    {"spec": {"taints": [{"$patch": "replace"}]}},
    {"metadata": {"$deleteFromPrimitiveList/labels": {"node-restriction.kubernetes.io/x": "1"}}},
    {"metadata": {"$deleteFromPrimitiveList/ownerReferences": [{"uid": "x", "name": "x"}]}},
    {"metadata": {"labels": {"$patch": "delete", "node-restriction.kubernetes.io/x": "1"}}},
]


@pytest.mark.parametrize("body", DIRECTIVES)
def test_directives_outside_of_the_status_are_refused(body: dict[str, Any]) -> None:
    """kube-apiserver merges a map at `$deleteFromPrimitiveList/labels`, and removes a field for null: a change of
    labels, taints or owners that the merge here does not see.
    """
    with pytest.raises(BadRequestError, match=r"\$"):
        left(body)


def test_directives_in_the_status_are_allowed() -> None:
    """Kubelets send the order of conditions."""
    condition = {"type": "Ready", "status": "True"}
    body = {"status": {"$setElementOrder/conditions": [{"type": "Ready"}], "conditions": [condition]}}
    assert left(body, subresource="status")["status"] == {"phase": "Old", "conditions": [condition]}


@pytest.mark.parametrize("metadata", [{"uid": "u1"}, {"uid": "u1", "annotations": {"b": "2"}}])
def test_the_admission_sees_the_object_before_a_patch_and_after_it(metadata: dict[str, Any]) -> None:
    """First without the change: whether a patch fits an object of others is not told."""
    seen: list[tuple[Any, Any]] = []
    body = {"metadata": metadata, "status": {"phase": "New"}}
    status = call(body=body, patch_type=STRATEGIC, subresource="status")
    write = admitted(NODE, status, LIVE, lambda before, after: seen.append((before, after)))
    after = {**LIVE, "metadata": {**LIVE["metadata"], **metadata}, "status": {"phase": "New"}}
    assert seen == [(LIVE, LIVE), (LIVE, after)]
    assert write.body["metadata"]["uid"] == "u1"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"metadata": {"labels": {"a": None}}}, True),
        ({"metadata": {"annotations": {"edgecore.io/evict-after": None}}}, True),
        ({"metadata": {"finalizers": None}}, True),
        ({"metadata": {"ownerReferences": None}}, True),
        ({"spec": {"unschedulable": None}}, True),
        ({"metadata": {"uid": "u1"}, "status": {"phase": "New"}}, False),
    ],
)
def test_a_patch_of_what_others_decide_is_for_the_state_that_was_looked_at(
    body: dict[str, Any], expected: bool
) -> None:
    """The mirror may be behind them."""
    assert is_conditional(NODE, call(body=body, patch_type=MERGE)) is expected


def test_deep_nesting_is_no_way_around_the_search_for_directives() -> None:
    """The search itself needs no stack."""
    body: Any = {"$patch": "delete"}
    for _ in range(5000):
        body = [body]
    with pytest.raises(BadRequestError):
        left({"spec": body})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"verb": "get"}, False),
        ({"verb": "list"}, False),
        ({"verb": "create", "subresource": "token"}, False),
        ({"verb": "create"}, True),
        ({"verb": "delete"}, True),
        ({"verb": "patch", "subresource": "status"}, True),
    ],
)
def test_calls_that_are_writes(fields: dict[str, str], expected: bool) -> None:
    """A token changes no object."""
    assert is_write(call(**fields)) is expected


def test_which_writes_need_the_live_object() -> None:
    """A lease is known by its name, but a deletion has no body that would say what is deleted."""
    assert needs_live(POD, call("patch"))
    assert needs_live(LEASE, call("delete"))
    assert not needs_live(LEASE, call("update"))
    assert not needs_live(POD, call("create"))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"verb": "patch", "body": {"metadata": {"uid": "u1"}}}, True),
        ({"verb": "patch", "body": {"metadata": {"uid": "u2"}}}, False),
        ({"verb": "patch", "body": {"metadata": {"uid": ["u1"]}}}, False),
        ({"verb": "patch", "body": {"metadata": 1}}, True),
        ({"verb": "patch", "body": []}, True),
        ({"verb": "update", "body": {"metadata": {"uid": ""}}}, True),
        ({"verb": "delete", "options": {"preconditions": {"uid": "u2"}}}, False),
        ({"verb": "delete", "options": {"preconditions": "u2"}}, True),
        ({"verb": "delete", "body": {"metadata": {"uid": "u2"}}}, True),
    ],
)
def test_which_uid_counts(fields: dict[str, Any], expected: bool) -> None:
    """A deletion's is its precondition: its body is not sent."""
    assert same_uid(call(**fields), LIVE) is expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"verb": "update", "body": {"metadata": {"name": "n1"}}}, {"metadata": {"name": "n1", "uid": "u1"}}),
        ({"patch_type": MERGE, "body": {"status": {}}}, {"status": {}, "metadata": {"uid": "u1"}}),
        (
            {"patch_type": JSON_PATCH, "body": [{"op": "remove", "path": "/status"}]},
            [{"op": "test", "path": "/metadata/uid", "value": "u1"}, {"op": "remove", "path": "/status"}],
        ),
    ],
)
def test_a_write_has_the_uid_of_the_object_that_was_looked_at(fields: dict[str, Any], expected: Any) -> None:
    """Another object of that name, perhaps of another node, is not written."""
    assert with_metadata(call(**fields), "uid", "u1").body == expected


def test_a_deletion_has_the_uid_of_the_object_that_was_looked_at() -> None:
    options = {"gracePeriodSeconds": 0, "preconditions": {"resourceVersion": "7"}}
    expected = {"gracePeriodSeconds": 0, "preconditions": {"resourceVersion": "7", "uid": "u1"}}
    assert with_metadata(call("delete", options=options), "uid", "u1").options == expected
    assert with_metadata(call("delete"), "uid", "") == call("delete"), "there is no uid"
