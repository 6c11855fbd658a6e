"""The subresources that are created: a pod's binding to a node, its eviction, and a service account's token."""

from typing import Final

from modules.apimachinery.api_errors import BadRequestError, ConflictError, InvalidError
from modules.apimachinery.conditions import condition_of, is_ready, with_condition
from modules.apimachinery.kinds import (
    JsonObject,
    is_being_deleted,
    key_for,
    kind_named,
    metadata_of,
    uid_of,
    version_of,
)
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.times import format_rfc3339
from modules.apimachinery.validation.causes import shown
from modules.apimachinery.validation.names import faults_of_subdomain
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.disruption_budgets import charged_budget
from modules.cloud.apiserver.fields.bodies import BINDING, EVICTION, TOKEN_REQUEST
from modules.cloud.apiserver.pod_scheduled import is_gated, with_node
from modules.cloud.apiserver.write_options import (
    check_delete_options,
    check_resource_version,
    check_uid,
    propagation_policy,
)

_POD, _NODE = kind_named("Pod"), kind_named("Node")
_BUDGET = kind_named("PodDisruptionBudget")
_TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def bind_pod(cluster: Cluster, namespace: str, name: str, binding: JsonObject) -> JsonObject:
    """Give a pod its node and a Binding's annotations, as a scheduler asks, and return the Status of a success
    (Kubernetes' BindingREST). Beyond Kubernetes, the node has a name that a Node can have: the pod keeps the rules that
    it was created by.

    Raises:
        NotFoundError: there is no such pod.
        ConflictError: the pod has a node already, scheduling gates or another uid or resourceVersion than the Binding,
            or is being deleted.
        BadRequestError, InvalidError: the Binding names no node, or another pod.
    """
    uid = _uid_for(name, binding, "Binding")
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        raise BadRequestError("a Binding with a target of the kind Node is wanted")
    node = target.get("name") or ""
    if not node:
        raise InvalidError("Binding", name, "target.name", "Required value")
    for fault in faults_of_subdomain(node):
        raise InvalidError("Binding", name, "target.name", f"Invalid value: {shown(node)}: {fault}")
    pod = cluster.storage.get(key_for(_POD, namespace, name), uid)
    read, present = version_of(binding), version_of(pod)
    if read not in ("", present):
        versions = f"ResourceVersion in precondition: {read[:40]}, ResourceVersion in object meta: {present}"
        raise ConflictError("pods", name, f"Precondition failed: {versions}")
    if is_being_deleted(pod):
        raise ConflictError("pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    bound = pod["spec"].get("nodeName")
    if bound:
        raise ConflictError("pods/binding", name, f'pod {name} is already assigned to node "{bound}"')
    if is_gated(pod):
        raise ConflictError("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")
    metadata = pod["metadata"]
    if marks := metadata_of(binding).get("annotations"):
        pod = {**pod, "metadata": {**metadata, "annotations": {**(metadata.get("annotations") or {}), **marks}}}
    cluster.replace(with_node(pod, node, format_rfc3339(cluster.clock.now()), is_told=True))
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _uid_for(name: str, request: JsonObject, kind: str) -> str:
    """Return the uid that a request for a pod names, or "".

    Raises:
        BadRequestError: it is for a pod of another name.
    """
    named = request.get("metadata") or {}
    if named.get("name") != name:
        raise BadRequestError(f"name in URL does not match name in {kind} object")
    return str(named.get("uid") or "")


def evict_pod(cluster: Cluster, namespace: str, name: str, eviction: JsonObject) -> JsonObject:
    """Delete a pod, as `kubectl drain` asks, if its PodDisruptionBudget allows it, and return the Status of a success
    (Kubernetes' EvictionREST).

    Raises:
        NotFoundError: there is no such pod.
        ConflictError: the pod has another uid or resourceVersion than the options name.
        BadRequestError: it is for another pod.
        InvalidFieldsError: an option of the deletion has a value that no API server takes.
        TooManyRequestsError, ForbiddenError, InternalError: its budget does not allow it; see `charged_budget`.
    """
    _uid_for(name, eviction, "Eviction")
    options = eviction.get("deleteOptions") or {}
    check_delete_options(options)
    grace, policy = options.get("gracePeriodSeconds"), propagation_policy(options)
    preconditions = options.get("preconditions") or {}
    key = key_for(_POD, namespace, name)
    pod, now = cluster.storage.get(key), format_rfc3339(cluster.clock.now())
    check_uid(preconditions, pod)
    check_resource_version(preconditions, pod)
    budgets = cluster.storage.list(_BUDGET, namespace)
    charged = charged_budget(pod, budgets, now, is_healthy=_is_healthy(cluster, pod))
    if charged is not None:
        cluster.replace(charged)
    if not is_being_deleted(pod):
        cluster.replace(with_condition(pod, {**_TARGET, "lastTransitionTime": now}))
    cluster.delete(key, grace, uid_of(pod), policy)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _is_healthy(cluster: Cluster, pod: JsonObject) -> bool:
    """Return whether a pod is ready, and its node answers."""
    node = cluster.storage.find(key_for(_NODE, "", node_of(pod)))
    return is_ready(pod) and (node is None or condition_of(node, "Ready").get("status") != "Unknown")


def request_token(cluster: Cluster, namespace: str, name: str, request: JsonObject) -> JsonObject:
    """Return a TokenRequest of a service account with its status; raises what `TokenIssuer.issue` raises."""
    return cluster.tokens.issue(cluster.storage, cluster.clock, namespace or "default", name, request)


CREATED: Final = {
    ("v1", "pods", "binding"): (BINDING, bind_pod),
    ("v1", "pods", "eviction"): (EVICTION, evict_pod),
    ("v1", "serviceaccounts", "token"): (TOKEN_REQUEST, request_token),
}
"""The subresources that are created, with the kinds of their bodies; nodes have no right to them here."""
