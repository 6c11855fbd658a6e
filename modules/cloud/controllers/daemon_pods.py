"""The pods of a DaemonSet: where they belong, and how they are made (KCM 1.32, `pkg/controller/daemon/util`)."""

from typing import Final, NamedTuple

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conversion import convert
from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.pods.node_selector import pod_fits_node
from modules.apimachinery.pods.objects import node_of
from modules.apimachinery.pods.tolerations import tolerates
from modules.apimachinery.types import Node, Pod
from modules.cloud.apiserver.silent_nodes import UNREACHABLE
from modules.cloud.controllers.pods import pod_of
from modules.cloud.controllers.revisions import HASH

_BY_NAME: Final = "metadata.name"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    (UNREACHABLE, "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_OF_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class Belongs(NamedTuple):
    """Judgement whether a pod belongs onto a node."""

    is_made: bool
    is_kept: bool
    """Whether a present pod stays."""


def pod_for(daemon_set: JsonObject, node: str, revision_hash: str) -> JsonObject:
    """Return a new pod of a DaemonSet that a scheduler binds to a node."""
    template = daemon_set["spec"].get("template") or {}
    pod = pod_of(template, daemon_set)
    if revision_hash:
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), HASH: revision_hash}
    return {**pod, "spec": _spec_for(pod["spec"], node)}


def belongs(daemon_set: JsonObject, node: JsonObject) -> Belongs:
    """Return whether a pod of a DaemonSet belongs onto a node: by its name, labels and taints, except the taints of
    silence.
    """
    spec = (daemon_set["spec"].get("template") or {}).get("spec") or {}
    name = str(node["metadata"]["name"])
    if spec.get("nodeName") not in (None, "", name):
        return Belongs(is_made=False, is_kept=False)
    template = {**spec, "tolerations": _tolerations(spec)}
    try:
        pod = convert({"kind": "Pod", "metadata": {}, "spec": template}, Pod, "Pod")
        found = convert(node, Node, "Node")
    except BadRequestError:  # a node that reports nonsense gets none
        return Belongs(is_made=False, is_kept=True)
    if not pod_fits_node(pod, name, found.metadata.labels):
        return Belongs(is_made=False, is_kept=False)
    taints = (taint for taint in found.spec.taints if taint.key != UNREACHABLE)
    untolerated = {taint.effect for taint in taints if not tolerates(taint, pod.spec.tolerations)}
    return Belongs(is_made=not untolerated & {"NoSchedule", "NoExecute"}, is_kept="NoExecute" not in untolerated)


def target_node(pod: JsonObject) -> str:
    """Return the node of a DaemonSet's pod, also if the pod is not bound yet."""
    bound = node_of(pod)
    if bound:
        return bound
    required = _required((pod.get("spec") or {}).get("affinity"))
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == _BY_NAME and field.get("operator") == "In" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""


def _required(affinity: JsonObject | None) -> JsonObject:
    node_affinity = (affinity or {}).get("nodeAffinity") or {}
    found: JsonObject = node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return found


def _spec_for(spec: JsonObject, node: str) -> JsonObject:
    term = {"matchFields": [{"key": _BY_NAME, "operator": "In", "values": [node]}]}
    affinity = spec.get("affinity") or {}
    required = {**_required(affinity), "nodeSelectorTerms": [term]}
    of_node = {**(affinity.get("nodeAffinity") or {}), "requiredDuringSchedulingIgnoredDuringExecution": required}
    return {**spec, "affinity": {**affinity, "nodeAffinity": of_node}, "tolerations": _tolerations(spec)}


def _tolerations(spec: JsonObject) -> list[JsonObject]:
    given = list(spec.get("tolerations") or ())
    for key, effect in (*_TOLERATED, *((_OF_HOST_NETWORK,) if spec.get("hostNetwork") else ())):
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if toleration not in given:
            given.append(toleration)
    return given
