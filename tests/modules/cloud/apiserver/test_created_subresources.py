"""Bindings and token requests: API calls that create a subresource."""

from typing import Any

import pytest

from beehive.simulation import Simulation
from modules.apimachinery.kinds import key_of, uid_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver.api_calls import DryRunError, serve
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.client.calls import ApiCall, ApiResult
from tests.modules.cloud.objects import pod


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(Simulation(0).clock)


def create(cluster: Cluster, plural: str, name: str, subresource: str, body: Any, node: str = "") -> ApiResult:
    """Return the response to a POST of a subresource."""
    call = ApiCall(
        verb="create", api_version="v1", plural=plural, namespace="default", name=name, subresource=subresource,
        body=body, node=node,
    )  # fmt: skip
    return serve(cluster, call)


def refused(result: ApiResult) -> tuple[int, str]:
    """Return code and message of a refusal."""
    assert result.refusal is not None
    return result.refusal["code"], result.refusal["message"]


def waiting(cluster: Cluster) -> dict[str, Any]:
    """Return a stored pod without a node."""
    return cluster.create(pod(nodeName=""))


def binding(node: Any) -> dict[str, Any]:
    """Return a Binding."""
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {"name": "web"},
        "target": {"kind": "Node", "name": node},
    }


def test_a_binding_gives_a_waiting_pod_its_node(cluster: Cluster) -> None:
    waiting(cluster)
    result = create(cluster, "pods", "web", "binding", binding("n1"))
    assert (result.created, (result.object or {})["status"]) == (True, "Success")
    (bound,) = cluster.storage.list(cluster.storage.kinds.named("Pod"))
    assert bound["spec"]["nodeName"] == "n1"
    conditions = {one["type"]: (one["status"], one["lastTransitionTime"]) for one in bound["status"]["conditions"]}
    assert conditions["PodScheduled"] == ("True", format_rfc3339(cluster.clock.now()))


def test_a_pod_gets_the_annotations_of_its_binding(cluster: Cluster) -> None:
    made = waiting(cluster)
    cluster.replace({**made, "metadata": {**made["metadata"], "annotations": {"a": "1", "b": "1"}}})
    of_scheduler = {"name": "web", "annotations": {"b": "2"}, "labels": {"c": "3"}}
    create(cluster, "pods", "web", "binding", {**binding("n1"), "metadata": of_scheduler})
    (bound,) = cluster.storage.list(cluster.storage.kinds.named("Pod"))
    assert bound["metadata"]["annotations"] == {"a": "1", "b": "2"}
    assert bound["metadata"].get("labels") == made["metadata"].get("labels")


def test_a_pod_is_bound_once(cluster: Cluster) -> None:
    cluster.create(pod(nodeName="n1"))
    code, message = refused(create(cluster, "pods", "web", "binding", binding("n2")))
    assert (code, 'already assigned to node "n1"' in message) == (409, True)


@pytest.mark.parametrize("node", ["n1/default/pod/web", "..", "N1", "n1 ", "n" * 254])
def test_a_binding_names_what_a_node_can_be_called(cluster: Cluster, node: str) -> None:
    """A pod is created with no other name of a node either."""
    made = waiting(cluster)
    code, message = refused(create(cluster, "pods", "web", "binding", binding(node)))
    assert (code, f'target.name: Invalid value: "{node[:40]}' in message) == (422, True)
    assert "nodeName" not in cluster.storage.get(key_of(made))["spec"]


def test_a_pod_with_scheduling_gates_is_not_bound(cluster: Cluster) -> None:
    cluster.create(pod(nodeName="", schedulingGates=[{"name": "a"}]))
    code, message = refused(create(cluster, "pods", "web", "binding", binding("n1")))
    assert (code, "pod web has non-empty .spec.schedulingGates" in message) == (409, True)


def test_a_pod_that_is_being_deleted_is_not_bound(cluster: Cluster) -> None:
    held = pod(nodeName="")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    cluster.delete(key_of(cluster.create(held)))
    code, message = refused(create(cluster, "pods", "web", "binding", binding("n1")))
    assert (code, "is being deleted, cannot be assigned to a host" in message) == (409, True)


@pytest.mark.parametrize(("target", "code"), [(None, 422), ("", 422), (7, 400)])
def test_a_binding_without_a_node_is_refused(cluster: Cluster, target: Any, code: int) -> None:
    waiting(cluster)
    assert refused(create(cluster, "pods", "web", "binding", binding(target)))[0] == code
    assert refused(create(cluster, "pods", "web", "binding", {**binding("n1"), "target": "n1"}))[0] == 400
    assert refused(create(cluster, "pods", "none", "binding", binding("n1"))) == (
        400, "name in URL does not match name in Binding object",
    )  # fmt: skip


def test_a_token_is_for_an_existing_account_and_for_ten_minutes_at_least(cluster: Cluster) -> None:
    account = {"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "sa", "namespace": "default"}}
    cluster.create(account)
    made = create(cluster, "serviceaccounts", "sa", "token", {"spec": {"expirationSeconds": 3607}}).object
    assert made is not None
    assert (made["spec"]["expirationSeconds"], made["status"]["token"].count(".")) == (3607, 2)
    assert refused(create(cluster, "serviceaccounts", "other", "token", {"spec": {}}))[0] == 404
    for seconds in (10, -1):
        code, message = refused(
            create(cluster, "serviceaccounts", "sa", "token", {"spec": {"expirationSeconds": seconds}})
        )
        assert (code, "10 minutes" in message) == (422, True)
    assert refused(create(cluster, "serviceaccounts", "sa", "token", {"spec": {"expirationSeconds": 2**40}}))[0] == 422


@pytest.mark.parametrize(("plural", "subresource"), [("pods", "binding"), ("serviceaccounts", "token")])
def test_a_node_gets_neither(cluster: Cluster, plural: str, subresource: str) -> None:
    assert refused(create(cluster, plural, "web", subresource, {}, node="n1"))[0] == 404


def eviction(**options: Any) -> dict[str, Any]:
    """Return an Eviction."""
    return {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "web"}, "deleteOptions": options}


def test_an_evicted_pod_ends_in_its_grace_period(cluster: Cluster) -> None:
    """`kubectl drain` creates this subresource where discovery has it; a dry run changes nothing."""
    cluster.create(pod(nodeName="n1"))
    with pytest.raises(DryRunError):
        create(cluster, "pods", "web", "eviction", eviction(dryRun=["All"]))
    result = create(cluster, "pods", "web", "eviction", eviction(gracePeriodSeconds=7))
    assert (result.created, (result.object or {})["status"]) == (True, "Success")
    (ending,) = cluster.storage.list(cluster.storage.kinds.named("Pod"))
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7


@pytest.mark.parametrize(
    ("body", "code"),
    [(eviction(gracePeriodSeconds="x"), 400), (eviction(preconditions={"uid": "other"}), 409),
     (eviction(preconditions={"resourceVersion": "1"}), 409), (eviction(preconditions={"resourceVersion": "0"}), 409),
     (eviction(preconditions={"resourceVersion": ""}), 409), (eviction(preconditions={"uid": ""}), 409),
     (eviction(preconditions={"uid": 5}), 400), ({"deleteOptions": 1}, 400),
     (eviction(propagationPolicy="x"), 422), (eviction(dryRun=["x"]), 422)],
)  # fmt: skip
def test_an_eviction_that_is_refused(cluster: Cluster, body: dict[str, Any], code: int) -> None:
    """Of a precondition, `0` and an empty text are values that no object has, as at kube-apiserver."""
    made = cluster.create(pod(nodeName="n1"))
    both = eviction(preconditions={"uid": uid_of(made), "resourceVersion": "1"})
    assert refused(create(cluster, "pods", "web", "eviction", both))[0] == 409
    assert refused(create(cluster, "pods", "web", "eviction", body))[0] == code
    assert refused(create(cluster, "pods", "web", "eviction", eviction(), node="n1"))[0] == 404, "nodes may not"
