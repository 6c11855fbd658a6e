"""Descriptions of Pods."""

from modules.tools.kubectl.describers.common import (
    Related,
    controller_of,
    events_table,
    labels_and_annotations,
    moment,
    name_and_namespace,
    pairs,
    terminating,
)
from modules.tools.kubectl.describers.containers import containers_of
from modules.tools.kubectl.describers.pod_resources import qos_class
from modules.tools.kubectl.describers.pod_volumes import volumes_of
from modules.tools.kubectl.describers.writer import NONE, AlignedWriter
from modules.tools.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at


def describe_pod(pod: JsonObject, related: Related, now: float) -> str:
    """Return the description of a Pod."""
    out = AlignedWriter()
    name_and_namespace(out, pod)
    _placement(out, pod)
    labels_and_annotations(out, pod)
    _status(out, pod, now)
    _addresses(out, pod)
    for title, specs, statuses in (
        ("Init Containers", "spec.initContainers", "status.initContainerStatuses"),
        ("Containers", "spec.containers", "status.containerStatuses"),
        ("Ephemeral Containers", "spec.ephemeralContainers", "status.ephemeralContainerStatuses"),
    ):
        if title == "Containers" or list_at(pod, specs):
            containers_of(out, title, objects_at(pod, specs), objects_at(pod, statuses), pod)
    _conditions(out, pod)
    volumes_of(out, objects_at(pod, "spec.volumes"))
    out.field(0, "QoS Class", text_at(pod, "status.qosClass") or qos_class(pod))
    pairs(out, "Node-Selectors", map_at(pod, "spec.nodeSelector"))
    tolerations = sorted(objects_at(pod, "spec.tolerations"), key=lambda each: text_at(each, "key"))
    out.values(0, "Tolerations", map(_toleration, tolerations))
    constraints = objects_at(pod, "spec.topologySpreadConstraints")
    if constraints:
        out.values(0, "Topology Spread Constraints", sorted(map(_constraint, constraints)))
    events_table(out, related.events, now)
    return out.text()


def _placement(out: AlignedWriter, pod: JsonObject) -> None:
    for name, path in (
        ("Priority", "spec.priority"),
        ("Priority Class Name", "spec.priorityClassName"),
        ("Runtime Class Name", "spec.runtimeClassName"),
        ("Service Account", "spec.serviceAccountName"),
    ):
        if text_at(pod, path):
            out.field(0, name, text_at(pod, path))
    node = text_at(pod, "spec.nodeName")
    out.field(0, "Node", f"{node}/{text_at(pod, 'status.hostIP')}" if node else NONE)
    if text_at(pod, "status.startTime"):
        out.field(0, "Start Time", moment(text_at(pod, "status.startTime")))


def _status(out: AlignedWriter, pod: JsonObject, now: float) -> None:
    phase = text_at(pod, "status.phase")
    deleted = terminating(pod, now) if phase not in ("Failed", "Succeeded") else ""
    out.field(0, "Status", deleted or phase)
    if deleted:
        grace = text_at(pod, "metadata.deletionGracePeriodSeconds") or "0"
        out.field(0, "Termination Grace Period", f"{grace}s")
    for name, path in (("Reason", "status.reason"), ("Message", "status.message")):
        if text_at(pod, path):
            out.field(0, name, text_at(pod, path))
    profile = map_at(pod, "spec.securityContext.seccompProfile")
    if profile:
        out.field(0, "SeccompProfile", text_at(profile, "type"))
        if profile.get("type") == "Localhost":
            out.field(0, "LocalhostProfile", text_at(profile, "localhostProfile"))


def _addresses(out: AlignedWriter, pod: JsonObject) -> None:
    out.field(0, "IP", text_at(pod, "status.podIP"))
    addresses = objects_at(pod, "status.podIPs")
    if addresses:
        out.row(0, "IPs:")
        out.fields(1, (("IP", text_at(each, "ip")) for each in addresses))
    else:
        out.field(0, "IPs", NONE)
    if controller_of(pod):
        out.field(0, "Controlled By", controller_of(pod))
    if text_at(pod, "status.nominatedNodeName"):
        out.field(0, "NominatedNodeName", text_at(pod, "status.nominatedNodeName"))


def _conditions(out: AlignedWriter, pod: JsonObject) -> None:
    conditions = [(text_at(each, "type"), text_at(each, "status")) for each in objects_at(pod, "status.conditions")]
    gates = [text_at(each, "conditionType") for each in objects_at(pod, "spec.readinessGates")]
    found = dict(conditions)
    for title, rows in (
        ("Readiness Gates", [(gate, found.get(gate, NONE)) for gate in gates]),
        ("Conditions", conditions),
    ):
        if rows:
            out.row(0, f"{title}:")
            out.row(1, "Type", "Status")
        for kind, status in rows:
            out.row(1, f"{kind} ", f"{status} ")


def _toleration(toleration: JsonObject) -> str:
    key, value = text_at(toleration, "key"), text_at(toleration, "value")
    effect, seconds = text_at(toleration, "effect"), value_at(toleration, "tolerationSeconds")
    text = key + (f"={value}" if value else "") + (f":{effect}" if effect else "")
    if toleration.get("operator") == "Exists" and not value:
        text += " op=Exists" if text else "op=Exists"
    return text if seconds is None else f"{text} for {seconds}s"


def _constraint(constraint: JsonObject) -> str:
    key, when = text_at(constraint, "topologyKey"), text_at(constraint, "whenUnsatisfiable")
    labels = map_at(constraint, "labelSelector.matchLabels")
    selector = ",".join(f"{name}={labels[name]}" for name in sorted(labels))
    text = f"{key}:{when} when max skew {text_at(constraint, 'maxSkew')} is exceeded"
    return f"{text} for selector {selector}" if selector else text
