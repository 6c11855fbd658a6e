"""What a node may make of an object that it may write: a decision and nothing else (Kubernetes' NodeRestriction).

It sees each object before and after a change that a node causes, whichever request that came by. Where Kubernetes is
silent, KubeEdge's edges must be able to register: the labels `node-role.kubernetes.io/edge` and `.../agent`, which a
kubelet could not set, are theirs.
"""

from collections.abc import Callable
from typing import Any, Final

from modules.edgecontroller.authorization.attributes import user_of
from modules.edgecontroller.authorization.authorizer import LEASES, node_of
from modules.edgecontroller.authorization.graph import Graph
from modules.edgecontroller.kinds import JsonObject, ObjectKey, metadata_of, reporter_of, uid_of
from modules.edgecontroller.references import other_references_of, references_of

_MIRROR: Final = "kubernetes.io/config.mirror"
_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node-role.kubernetes.io/edge",
        "node-role.kubernetes.io/agent",
    }
)
"""Labels of Kubernetes that a node may set on itself (kubelet's), and KubeEdge's two."""
_LABEL_NAMESPACES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")
_RESERVED: Final = ("kubernetes.io", "k8s.io")


def refusal(node: str, old: JsonObject | None, new: JsonObject | None, graph: Graph) -> str:
    """Why a node may not change an object so; empty: it may.

    Args:
        node: who.
        old: the object before; None: it is created.
        new: the object after; None: it is deleted.
        graph: of all objects.
    """
    obj = new if new is not None else old or {}
    decide = _DECIDE.get(str(obj.get("kind")))
    return f"node {node!r} cannot write objects of this kind" if decide is None else decide(node, old, new, graph)


def forbidden_labels(before: JsonObject, after: JsonObject) -> list[str]:
    """The labels that differ and that no node may set, change or take away, sorted."""
    changed = [key for key in {*before, *after} if before.get(key) != after.get(key)]
    return sorted(key for key in changed if _is_reserved(key) and not _is_permitted(key))


def _is_reserved(label: str) -> bool:
    return _is_in(label, _RESERVED)


def _is_permitted(label: str) -> bool:
    return label in _LABELS or _is_in(label, _LABEL_NAMESPACES)


def _is_in(label: str, namespaces: tuple[str, ...]) -> bool:
    namespace, slash, _ = label.partition("/")
    return bool(slash) and any(namespace == one or namespace.endswith("." + one) for one in namespaces)


def _pod(node: str, old: JsonObject | None, new: JsonObject | None, graph: Graph) -> str:
    if old is None:
        return _mirror(node, new or {}, graph)
    if node_of(old) != node:
        what = "delete pods" if new is None else "update pod status for pods"
        return f"node {node!r} can only {what} with spec.nodeName set to itself"
    if new is not None and _labels(old) != _labels(new):
        return f"node {node!r} cannot update labels through pod status"
    return ""


def _mirror(node: str, pod: JsonObject, graph: Graph) -> str:
    if _MIRROR not in (metadata_of(pod).get("annotations") or {}):
        return f'pod does not have "{_MIRROR}" annotation, node {node!r} can only create mirror pods'
    if node_of(pod) != node:
        return f"node {node!r} can only create pods with spec.nodeName set to itself"
    if (pod.get("spec") or {}).get("serviceAccountName") or _projects_token(pod):
        return f"node {node!r} can not create pods that reference a service account"
    referred = [key for key in (*references_of(pod), *other_references_of(pod)) if key.kind != "ServiceAccount"]
    if referred:
        return f"node {node!r} can not create pods that reference {referred[0].kind.lower()}s"
    return _owners_refusal(node, metadata_of(pod).get("ownerReferences") or [], graph)


def _projects_token(pod: JsonObject) -> bool:
    volumes = (pod.get("spec") or {}).get("volumes") or []
    sources = [source for volume in volumes for source in (volume.get("projected") or {}).get("sources") or []]
    return any(source.get("serviceAccountToken") for source in sources)


def _owners_refusal(node: str, owners: list[JsonObject], graph: Graph) -> str:
    if not owners:
        return ""
    known = graph.find(ObjectKey("Node", "", node))
    own = {"apiVersion": "v1", "kind": "Node", "name": node}
    if len(owners) > 1 or any(owners[0].get(field) != value for field, value in own.items()):
        return f"node {node!r} can only create pods with a single owner reference set to itself"
    if owners[0].get("blockOwnerDeletion"):
        return f"node {node!r} must not set blockOwnerDeletion on an owner reference"
    if known is not None and owners[0].get("uid") != uid_of(known):
        return f"node {node!r} UID mismatch: expected {uid_of(known)}"
    return ""


def _node(node: str, old: JsonObject | None, new: JsonObject | None, _: Graph) -> str:
    if new is None:
        return f"node {node!r} is not allowed to delete a Node"
    if metadata_of(new).get("name") != node:
        return f"node {node!r} is not allowed to modify node {str(metadata_of(new).get('name'))[:253]!r}"
    forbidden = forbidden_labels(_labels(old or {}), _labels(new))
    if forbidden:
        shown = ", ".join(label[:100] for label in forbidden[:5])
        return f"node {node!r} is not allowed to modify labels: {shown}"
    if old is None:
        owned = bool(metadata_of(new).get("ownerReferences"))
        return f"node {node!r} is not allowed to set its ownerReferences" if owned else ""
    if _taints(old) != _taints(new):
        return f"node {node!r} is not allowed to modify taints"
    if (metadata_of(old).get("ownerReferences") or []) != (metadata_of(new).get("ownerReferences") or []):
        return f"node {node!r} is not allowed to modify its ownerReferences"
    return ""


def _taints(node: JsonObject) -> Any:
    return (node.get("spec") or {}).get("taints") or []


def _labels(obj: JsonObject) -> JsonObject:
    return metadata_of(obj).get("labels") or {}


def _lease(node: str, old: JsonObject | None, new: JsonObject | None, _: Graph) -> str:
    for lease in (old, new):
        meta = metadata_of(lease or {})
        if lease is not None and (meta.get("namespace"), meta.get("name")) != (LEASES, node):
            return "can only access node lease with the same name as the requesting node"
    return ""


def _event(node: str, old: JsonObject | None, new: JsonObject | None, graph: Graph) -> str:
    if new is None:
        return f"node {node!r} cannot delete events"
    if any(reporter_of(event) not in ("", node) for event in (old, new) if event is not None):
        return f"node {node!r} can only report events in its own name"
    about = [_is_about_own(node, event, graph) for event in (old, new) if event is not None]
    return "" if all(about) else f"node {node!r} can only report events about itself and its pods"


def _is_about_own(node: str, event: JsonObject, graph: Graph) -> bool:
    """Of a pod that is not there any more, whoever ran it still reports."""
    about = _part(event, "involvedObject")
    kind, name = about.get("kind"), str(about.get("name") or "")
    if kind == "Node":
        return name == node
    namespace = str(about.get("namespace") or "default")
    pod = graph.find(ObjectKey("Pod", namespace, name))
    in_place = metadata_of(event).get("namespace", "default") == namespace
    return kind == "Pod" and in_place and (pod is None or node_of(pod) == node)


def _request(node: str, old: JsonObject | None, new: JsonObject | None, _: Graph) -> str:
    """Who made it is not the node's to say."""
    if old is not None or new is None:
        return f"node {node!r} can only create certificate signing requests"
    username = _part(new, "spec").get("username")
    return "" if username == user_of(node) else f"node {node!r} can only ask in its own name"


def _part(obj: JsonObject, name: str) -> JsonObject:
    """A part of an object that nobody has looked at yet."""
    part = obj.get(name)
    return part if isinstance(part, dict) else {}


_DECIDE: Final[dict[str, Callable[[str, JsonObject | None, JsonObject | None, Graph], str]]] = {
    "Pod": _pod,
    "Node": _node,
    "Lease": _lease,
    "Event": _event,
    "CertificateSigningRequest": _request,
}
