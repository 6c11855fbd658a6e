"""Which objects a change concerns: the keys that controllers look at after it."""

from collections.abc import Iterator
from typing import Final

from modules.apimachinery.api_errors import UnknownKindError
from modules.apimachinery.conditions import condition_of, is_ready
from modules.apimachinery.endpoint_addresses import SERVICE_NAME
from modules.apimachinery.kinds import JsonObject, ObjectKey, is_being_deleted, key_of
from modules.apimachinery.pods.objects import has_ended, is_mirror, node_of
from modules.apimachinery.workload_selectors import matcher_of, selector_of
from modules.cloud.apiserver.disruption_budgets import covers
from modules.cloud.applications import NODE_GROUP, kind_of
from modules.cloud.controllers import cluster_role
from modules.cloud.controllers.disruption import SCALED
from modules.cloud.controllers.job_pods import is_tracked
from modules.cloud.controllers.service_pods import selects
from modules.cloud.controllers.view import View, controller_of

ADOPTERS: Final = {
    "Pod": ("ReplicaSet", "ReplicationController", "DaemonSet", "StatefulSet", "Job"),
    "ReplicaSet": ("Deployment",),
}
"""The kinds that adopt objects of a kind."""
_NODE: Final = "Node"
_BUDGET: Final = "PodDisruptionBudget"
_CLAIM: Final = "PersistentVolumeClaim"
_OF_SERVICES: Final = ("EndpointSlice", "Endpoints")


def concerned_by(view: View, new: JsonObject, old: JsonObject | None, kinds: frozenset[str]) -> Iterator[ObjectKey]:
    """Yield the keys that a change concerns, some of them perhaps twice.

    Args:
        view: has the change already.
        new: the changed object; its last state when it was deleted.
        old: its former state, or None.
        kinds: those with controllers.
    """
    key = key_of(new)
    if key.kind in kinds:
        yield key
    yield from _aggregated_roles(view, key)
    if key.kind in SCALED and (old is None or _replicas(old) != _replicas(new)):
        yield from (key_of(budget) for budget in view.in_namespace(_BUDGET, key.namespace))
    if key.kind == _NODE:
        if old is None or _of_node(old) != _of_node(new):
            yield from view.keys("DaemonSet")
            yield from view.keys(NODE_GROUP.key_name)
            for pod in view.pods_on(key.name):
                yield from _observers(view, pod, None)
        return
    if key.kind == _CLAIM and view.find(key) is None:  # a pod may wait for the end of its predecessor's
        yield from (key_of(each) for each in view.in_namespace("StatefulSet", key.namespace))
        return
    states = (new,) if old is None else (new, old)
    if key.kind not in ADOPTERS:
        for obj in states if key.kind in _OF_SERVICES else ():
            yield from _service_of(obj)
        yield from (one for obj in states if (one := _owner_key(obj)) is not None and one.kind in kinds)
        return
    for obj in states:
        yield from _owners(view, obj, kinds)
    if key.kind == "Pod":
        yield from _observers(view, new, old)
    node = ObjectKey(_NODE, "", node_of(new))
    found = view.find(node)
    if node.name and (found is None or (_repels(found) and (old is None or node_of(old) != node.name))):
        yield node


def _aggregated_roles(view: View, key: ObjectKey) -> Iterator[ObjectKey]:
    """Yield the roles that may have the rules of a role."""
    if key.kind == cluster_role.KIND:
        yield from (key_of(role) for role in view.all_of(key.kind) if cluster_role.is_aggregated(role))


def _observers(view: View, pod: JsonObject, old: JsonObject | None) -> Iterator[ObjectKey]:
    """Yield the Services and budgets to whose pods a pod belongs, or did, if it has changed for them, and the
    StatefulSet that may wait for the name of a pod that is gone.
    """
    states = (pod,) if old is None else (pod, old)
    if old is not None and view.find(key_of(pod)) is not None and _of_endpoint(old) == _of_endpoint(pod):
        return
    namespace = pod["metadata"]["namespace"]
    of_name = ObjectKey("StatefulSet", namespace, str(pod["metadata"]["name"]).rpartition("-")[0])
    if view.find(key_of(pod)) is None and view.find(of_name) is not None:
        yield of_name
    for state in states:
        labels = state["metadata"].get("labels") or {}
        yield from (key_of(service) for service in view.services_of(namespace, labels) if selects(service, labels))
    for budget in view.in_namespace(_BUDGET, namespace):
        if any(covers(budget, state) for state in states):
            yield key_of(budget)


def _service_of(obj: JsonObject) -> Iterator[ObjectKey]:
    """Yield the Service of Endpoints or of an EndpointSlice."""
    metadata = obj["metadata"]
    name = metadata["name"] if obj["kind"] == "Endpoints" else (metadata.get("labels") or {}).get(SERVICE_NAME)
    if name:
        yield ObjectKey("Service", metadata["namespace"], str(name))


def _replicas(workload: JsonObject) -> object:
    return (workload.get("spec") or {}).get("replicas")


def _of_endpoint(pod: JsonObject) -> tuple[object, ...]:
    """Return the parts of a pod that its endpoints show."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    addresses = status.get("podIPs"), status.get("podIP"), spec.get("nodeName")
    return pod["metadata"].get("labels"), has_ended(pod), is_ready(pod), is_being_deleted(pod), *addresses


def _owners(view: View, obj: JsonObject, kinds: frozenset[str]) -> Iterator[ObjectKey]:
    owner = _owner_key(obj)
    if owner is not None:
        if owner.kind in kinds:
            yield owner
            found = view.find(owner)
            above = _owner_key(found) if found is not None and owner.kind == "ReplicaSet" else None
            if above is not None and above.kind in kinds:  # a Deployment that waits for the end of its old pods
                yield above
        return
    if obj["kind"] == "Pod" and is_tracked(obj) and "Job" in kinds:
        yield ObjectKey("Job", obj["metadata"]["namespace"], "")
    labels = obj["metadata"].get("labels") or {}
    if labels and not is_mirror(obj):
        for kind in ADOPTERS[obj["kind"]]:
            for each in view.in_namespace(kind, obj["metadata"]["namespace"]):
                if kind in kinds and matcher_of(selector_of(each))(labels):
                    yield key_of(each)


def _owner_key(obj: JsonObject) -> ObjectKey | None:
    reference = controller_of(obj)
    if reference is None:
        return None
    named = {"kind": str(reference.get("kind")), "apiVersion": str(reference.get("apiVersion"))}
    try:
        kind = kind_of(named)
    except (KeyError, UnknownKindError):
        return None
    if not kind.namespaced:  # a mirror pod's Node: its controller looks at all pods there
        return None
    return ObjectKey(kind.key_name, obj["metadata"].get("namespace", ""), str(reference.get("name")))


def _repels(node: JsonObject) -> bool:
    """Return whether a node may have taints that evict pods."""
    return bool((node.get("spec") or {}).get("taints"))


def _of_node(node: JsonObject) -> tuple[object, ...]:
    """Return the parts of a Node that DaemonSets depend on."""
    ready, spec = condition_of(node, "Ready").get("status"), node.get("spec") or {}
    return node["metadata"].get("labels"), spec.get("taints"), spec.get("unschedulable"), ready
