"""Kubernetes' NodeRestriction: decides whether a node may change an object in this way.

It compares each object before and after a node's write. Beyond Kubernetes, a node may set the labels
`node-role.kubernetes.io/edge` and `.../agent` on itself: KubeEdge's edges register with them. And it may not change
what others decide by in its stead: the spec of its Node after the registration (a cordon), finalizers, the hostname of
another node, annotations (`node_metadata`).
"""

from collections.abc import Callable, Iterator
from typing import Final

from modules.apimachinery.certificate_requests import subject_of
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_kind, metadata_of, reporter_of, uid_of
from modules.apimachinery.pod_references import other_references_of, references_of
from modules.apimachinery.pods.objects import is_mirror, node_of
from modules.apimachinery.pods.static import CONFIG_MIRROR
from modules.apimachinery.unvalidated import member_of
from modules.cloud.authorization.attributes import user_of
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.authorization.node_accounts import MOST_REQUESTS
from modules.cloud.authorization.node_authorizer import LEASES
from modules.cloud.authorization.node_metadata import (
    HOSTNAME,
    forbidden_annotations,
    forbidden_labels,
    forbidden_pod_annotations,
)

_SIGNERS: Final = ("kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet")
"""The signers of kubelets' certificates."""
_CLAIMS: Final = "resourceClaimStatuses"


def refusal(node: str, old: JsonObject | None, new: JsonObject | None, graph: NodeGraph) -> str:
    """Return the reason to refuse a node's write, or "".

    Args:
        node: the node that writes.
        old: the object before; None when it is created.
        new: the object after; None when it is deleted.
        graph: the references of all pods.
    """
    obj = new if new is not None else old or {}
    decide = _DECIDE.get(key_kind(obj))
    return f'node "{node}" cannot write objects of this kind' if decide is None else decide(node, old, new, graph)


def _pod(node: str, old: JsonObject | None, new: JsonObject | None, graph: NodeGraph) -> str:
    if old is None:
        return _mirror(node, new or {}, graph)
    if node_of(old) != node:
        what = "delete pods" if new is None else "update pod status for pods"
        return f'node "{node}" can only {what} with spec.nodeName set to itself'
    if new is old or new is None:
        return ""
    if new["metadata"] is not old["metadata"]:
        if _labels(old) != _labels(new):
            return f'node "{node}" cannot update labels through pod status'
        forbidden = forbidden_pod_annotations(_annotations(old), _annotations(new))
        if forbidden:
            return f'node "{node}" cannot update annotations through pod status: {_some(forbidden)}'
    before, after = member_of(old, "status"), member_of(new, "status")
    if (before.get(_CLAIMS) or []) != (after.get(_CLAIMS) or []):
        return f'node "{node}" cannot update resource claim statuses'
    return ""


def _mirror(node: str, pod: JsonObject, graph: NodeGraph) -> str:
    if not is_mirror(pod):
        return f'pod does not have "{CONFIG_MIRROR}" annotation, node {node!r} can only create mirror pods'
    if node_of(pod) != node:
        return f'node "{node}" can only create pods with spec.nodeName set to itself'
    refused = _owners_refusal(node, metadata_of(pod).get("ownerReferences") or [], graph)
    if refused:
        return refused
    if metadata_of(pod).get("finalizers"):
        return f'node "{node}" can only create pods without finalizers'
    referred = next(_referred_by(pod), "")
    return f'node "{node}" can not create pods that reference {referred}' if referred else ""


def _referred_by(pod: JsonObject) -> Iterator[str]:
    """Yield the kinds of objects that a pod refers to; `serviceAccount` is the former name of a field."""
    spec = pod.get("spec") or {}
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        yield "a service account"
    keys = (*references_of(pod), *other_references_of(pod))
    yield from (f"{key.kind.lower()}s" for key in keys if key.kind != "ServiceAccount")
    if spec.get("resourceClaims"):
        yield "resourceclaims"
    for volume in spec.get("volumes") or []:
        for source in (volume.get("projected") or {}).get("sources") or []:
            yield from (f"{name}s" for name, value in source.items() if value and name != "downwardAPI")


def _owners_refusal(node: str, owners: list[JsonObject], graph: NodeGraph) -> str:
    only = f'node "{node}" can only create pods with'
    if len(owners) > 1:
        return f"{only} a single owner reference set to itself"
    own = {"apiVersion": "v1", "kind": "Node", "name": node}
    if not owners or any(owners[0].get(field) != value for field, value in own.items()):
        return f"{only} an owner reference set to itself"
    if owners[0].get("controller") is not True:
        return f"{only} a controller owner reference set to itself"
    if owners[0].get("blockOwnerDeletion"):
        return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
    known = graph.find(ObjectKey("Node", "", node))
    if known is None:
        return f"error looking up node {node} to verify uid: not found"
    uid = str(owners[0].get("uid"))
    return "" if uid == uid_of(known) else f"node {node} UID mismatch: expected {uid[:253]} got {uid_of(known)}"


def _node(node: str, old: JsonObject | None, new: JsonObject | None, graph: NodeGraph) -> str:
    if new is None:
        return f'node "{node}" is not allowed to delete a Node'
    if metadata_of(new).get("name") != node:
        return f'node "{node}" is not allowed to modify node "{str(metadata_of(new).get("name"))[:253]}"'
    before: JsonObject = old if old is not None else {"metadata": {}}
    what = "set the following" if old is None else "modify"
    for kind, forbidden in (
        ("labels", forbidden_labels(_labels(before), _labels(new))),
        ("annotations", forbidden_annotations(_annotations(before), _annotations(new))),
    ):
        if forbidden:
            return f'node "{node}" is not allowed to {what} {kind}: {_some(forbidden)}'
    hostname = _labels(new).get(HOSTNAME)
    if hostname and hostname != _labels(before).get(HOSTNAME) and graph.is_hostname_in_use(str(hostname), node):
        return f'node "{node}" is not allowed to {what} labels: {HOSTNAME} is that of another node'
    for field in ("ownerReferences", "finalizers"):
        if (metadata_of(before).get(field) or []) != (metadata_of(new).get(field) or []):
            return f'node "{node}" is not allowed to {"set" if old is None else "modify"} its {field}'
    if old is None:
        return ""
    was, wanted = member_of(old, "spec"), member_of(new, "spec")
    changed = sorted(name for name in {*was, *wanted} if (was.get(name) or None) != (wanted.get(name) or None))
    return f'node "{node}" is not allowed to modify {_some(changed)}' if changed else ""


def _labels(obj: JsonObject) -> JsonObject:
    return metadata_of(obj).get("labels") or {}


def _annotations(obj: JsonObject) -> JsonObject:
    return metadata_of(obj).get("annotations") or {}


def _some(names: list[str]) -> str:
    """Return names for a refusal, which is bounded."""
    return ", ".join(name[:100] for name in names[:5])


def _lease(node: str, old: JsonObject | None, new: JsonObject | None, _: NodeGraph) -> str:
    for lease in (old, new):
        meta = metadata_of(lease or {})
        if lease is not None and (meta.get("namespace"), meta.get("name")) != (LEASES, node):
            return "can only access node lease with the same name as the requesting node"
    return ""


def _event(node: str, old: JsonObject | None, new: JsonObject | None, graph: NodeGraph) -> str:
    if new is None:
        return f'node "{node}" cannot delete events'
    if any(reporter_of(event) not in ("", node) for event in (old, new) if event is not None):
        return f'node "{node}" can only report events in its own name'
    about = [_is_about_own(node, event, graph) for event in (old, new) if event is not None]
    return "" if all(about) else f'node "{node}" can only report events about itself and its pods'


def _is_about_own(node: str, event: JsonObject, graph: NodeGraph) -> bool:
    """Return whether an Event concerns the Node, a pod bound to it, or a pod that no longer exists."""
    about = member_of(event, "involvedObject")
    kind, name = about.get("kind"), str(about.get("name") or "")
    if kind == "Node":
        return name == node
    namespace = str(about.get("namespace") or "default")
    pod = graph.find(ObjectKey("Pod", namespace, name))
    in_place = metadata_of(event).get("namespace", "default") == namespace
    return kind == "Pod" and in_place and (pod is None or node_of(pod) == node)


def _request(node: str, old: JsonObject | None, new: JsonObject | None, graph: NodeGraph) -> str:
    """Check a certificate signing request, which must have the node as its user and, for a kubelet's certificate, as
    its subject: who approves it may look at the user alone.
    """
    if old is not None or new is None:
        return f'node "{node}" can only create certificate signing requests'
    spec = member_of(new, "spec")
    username = spec.get("username")
    if username != user_of(node):
        return f'node "{node}" can only ask in its own name'
    if spec.get("signerName") in _SIGNERS:
        names = [value for name, value in subject_of(spec.get("request")) or () if name == "CN"]
        if names != [username]:
            return f"can only create a node CSR with CN={username}"
    made = graph.requests_of(username)
    return f"exceeded quota: {username} has {made} already; delete some" if made >= MOST_REQUESTS else ""


_DECIDE: Final[dict[str, Callable[[str, JsonObject | None, JsonObject | None, NodeGraph], str]]] = {
    "Pod": _pod,
    "Node": _node,
    "Lease": _lease,
    "Event": _event,
    "CertificateSigningRequest": _request,
}
