"""Descriptions of Pods."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from beehive.http.authority import bracketed
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at
from modules.kubectl.describers.common import (
    Related,
    amount,
    controller_of,
    events_table,
    labels_and_annotations,
    moment,
    name_and_namespace,
    pairs,
    resource_rows,
    terminating,
)
from modules.kubectl.describers.pod_resources import qos_class
from modules.kubectl.describers.pod_volumes import volumes_of
from modules.kubectl.describers.writer import NONE, AlignedWriter

_NUMBERS = (
    ("delay={}s", "initialDelaySeconds", "0"),
    ("timeout={}s", "timeoutSeconds", "1"),
    ("period={}s", "periodSeconds", "10"),
    ("#success={}", "successThreshold", "1"),
    ("#failure={}", "failureThreshold", "3"),
)


def probe_text(probe: JsonObject) -> str:
    """Return a probe's action and numbers, with Kubernetes' defaults: `http-get http://:80/ delay=0s …`."""
    numbers = " ".join(form.format(text_at(probe, key) or default) for form, key, default in _NUMBERS)
    return f"{_action(probe)} {numbers}"


def _action(probe: JsonObject) -> str:
    if "exec" in probe:
        return f"exec [{' '.join(map(str, list_at(probe, 'exec.command')))}]"
    if "httpGet" in probe:
        http = map_at(probe, "httpGet")
        host, path = text_at(http, "host"), text_at(http, "path")
        slash = "/" if path and not path.startswith("/") else ""
        scheme = (text_at(http, "scheme") or "http").lower()
        return f"http-get {scheme}://{bracketed(host)}:{text_at(http, 'port')}{slash}{path}"
    if "tcpSocket" in probe:
        return f"tcp-socket {text_at(probe, 'tcpSocket.host')}:{text_at(probe, 'tcpSocket.port')}"
    if "grpc" in probe:
        return f"grpc <pod>:{text_at(probe, 'grpc.port')} {text_at(probe, 'grpc.service')}"
    return "unknown"


_PROBES = (("Liveness", "livenessProbe"), ("Readiness", "readinessProbe"), ("Startup", "startupProbe"))


def containers_of(
    out: AlignedWriter, title: str, containers: Sequence[JsonObject], statuses: Sequence[JsonObject], pod: JsonObject
) -> None:
    """Add the containers of one list."""
    found = {text_at(status, "name"): status for status in statuses}
    out.row(0, f"{title}:" if containers else f"{title}: {NONE}")
    for container in containers:
        _container(out, container, found.get(text_at(container, "name")), pod)


def _container(out: AlignedWriter, container: JsonObject, status: JsonObject | None, pod: JsonObject) -> None:
    _basics(out, container, status)
    for name in ("command", "args"):
        words = list_at(container, name)
        if words:
            out.row(2, f"{name.capitalize()}:")
        for line in (line for word in words for line in str(word).split("\n")):
            out.row(3, line)
    if status is not None:
        _state(out, "State", map_at(status, "state"))
        if map_at(status, "lastState.terminated"):
            _state(out, "Last State", map_at(status, "lastState"))
        out.field(2, "Ready", str(bool(status.get("ready"))))
        out.field(2, "Restart Count", text_at(status, "restartCount") or "0")
    for name in ("limits", "requests"):
        resource_rows(out, 2, name.capitalize(), map_at(container, f"resources.{name}"))
    for title, key in _PROBES:
        if map_at(container, key):
            out.field(2, title, probe_text(map_at(container, key)))
    _environment(out, container, pod)
    _mounts(out, container)


def _basics(out: AlignedWriter, container: JsonObject, status: JsonObject | None) -> None:
    out.row(1, f"{text_at(container, 'name')}:")
    if status is not None:
        out.field(2, "Container ID", text_at(status, "containerID"))
    out.field(2, "Image", text_at(container, "image"))
    if status is not None:
        out.field(2, "Image ID", text_at(status, "imageID"))
    ports = objects_at(container, "ports")
    several = "s" if len(ports) > 1 else ""
    for title, key in (("Port", "containerPort"), ("Host Port", "hostPort")):
        texts = (f"{text_at(each, key) or 0}/{text_at(each, 'protocol') or 'TCP'}" for each in ports)
        out.field(2, title + several, ", ".join(texts) or NONE)
    _seccomp_profile(out, map_at(container, "securityContext.seccompProfile"), 2, 3)


def _seccomp_profile(out: AlignedWriter, profile: JsonObject, level: int, level_of_path: int) -> None:
    if profile:
        out.field(level, "SeccompProfile", text_at(profile, "type"))
        if profile.get("type") == "Localhost":
            out.field(level_of_path, "LocalhostProfile", text_at(profile, "localhostProfile"))


def _state(out: AlignedWriter, title: str, state: JsonObject) -> None:
    ended = map_at(state, "terminated")
    if "running" in state:
        out.field(2, title, "Running")
        out.field(3, "Started", moment(text_at(state, "running.startedAt")))
    elif ended:
        out.field(2, title, "Terminated")
        out.given(3, ((name, text_at(ended, name.lower()).rstrip("\n")) for name in ("Reason", "Message")))
        out.field(3, "Exit Code", text_at(ended, "exitCode") or "0")
        if ended.get("signal"):
            out.field(3, "Signal", ended["signal"])
        out.field(3, "Started", moment(text_at(ended, "startedAt")))
        out.field(3, "Finished", moment(text_at(ended, "finishedAt")))
    else:
        out.field(2, title, "Waiting")
        out.given(3, [("Reason", text_at(state, "waiting.reason"))])


def _environment(out: AlignedWriter, container: JsonObject, pod: JsonObject) -> None:
    sources = objects_at(container, "envFrom")
    if sources:
        out.row(2, "Environment Variables from:")
    for source in sources:
        kind, key = ("ConfigMap", "configMapRef") if "configMapRef" in source else ("Secret", "secretRef")
        prefix = f" with prefix '{source['prefix']}'" if source.get("prefix") else ""
        out.row(3, text_at(source, f"{key}.name"), kind + prefix, _optional(map_at(source, key)))
    variables = objects_at(container, "env")
    if not variables:
        out.field(2, "Environment", NONE)
        return
    out.row(2, "Environment:")
    for variable in variables:
        name = text_at(variable, "name")
        if map_at(variable, "valueFrom"):
            out.row(3, f"{name}:", *_value_from(map_at(variable, "valueFrom"), container, pod))
        else:
            out.field(3, name, text_at(variable, "value"))


def _value_from(source: JsonObject, container: JsonObject, pod: JsonObject) -> Iterator[str]:
    """Yield the cells of a variable that takes its value from elsewhere; the values of secrets are not looked up."""
    secret, config = map_at(source, "secretKeyRef"), map_at(source, "configMapKeyRef")
    if secret:
        yield f"<set to the key '{text_at(secret, 'key')}' in secret '{text_at(secret, 'name')}'>"
        yield _optional(secret)
    elif config:
        yield f"<set to the key '{text_at(config, 'key')}' of config map '{text_at(config, 'name')}'>"
        yield _optional(config)
    elif "fieldRef" in source:
        path = text_at(source, "fieldRef.fieldPath")
        version = text_at(source, "fieldRef.apiVersion") or "v1"
        value = text_at(pod, path) if path in ("metadata.name", "metadata.namespace", "metadata.uid") else ""
        yield f"{value} ({version}:{path})"
    else:
        reference = map_at(source, "resourceFieldRef")
        yield f"{_resource(reference, container)} ({text_at(reference, 'resource')})"


def _resource(reference: JsonObject, container: JsonObject) -> str:
    found = amount(value_at(container, f"resources.{text_at(reference, 'resource')}"))
    divisor = amount(reference.get("divisor")) or 1
    return str(-(-found // divisor))


def _optional(reference: JsonObject) -> str:
    return f"Optional: {str(bool(reference.get('optional'))).lower()}"


def _mounts(out: AlignedWriter, container: JsonObject) -> None:
    mounts = sorted(objects_at(container, "volumeMounts"), key=lambda each: text_at(each, "mountPath"))
    if mounts:
        out.row(2, "Mounts:")
    else:
        out.field(2, "Mounts", NONE)
    for mount in mounts:
        flags = ["ro" if mount.get("readOnly") else "rw"]
        if mount.get("subPath"):
            flags.append(f"path={json.dumps(mount['subPath'])}")
        out.row(3, f"{text_at(mount, 'mountPath')} from {text_at(mount, 'name')} ({','.join(flags)})")
    devices = sorted(objects_at(container, "volumeDevices"), key=lambda each: text_at(each, "devicePath"))
    if devices:
        out.row(2, "Devices:")
    for device in devices:
        out.row(3, f"{text_at(device, 'devicePath')} from {text_at(device, 'name')}")


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


_CLASSES: Final = (
    ("Priority", "priority"),
    ("Priority Class Name", "priorityClassName"),
    ("Runtime Class Name", "runtimeClassName"),
    ("Service Account", "serviceAccountName"),
)


def _placement(out: AlignedWriter, pod: JsonObject) -> None:
    out.given(0, ((name, text_at(pod, f"spec.{key}")) for name, key in _CLASSES))
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
    out.given(0, ((name, text_at(pod, f"status.{name.lower()}")) for name in ("Reason", "Message")))
    _seccomp_profile(out, map_at(pod, "spec.securityContext.seccompProfile"), 0, 0)


def _addresses(out: AlignedWriter, pod: JsonObject) -> None:
    out.field(0, "IP", text_at(pod, "status.podIP"))
    addresses = objects_at(pod, "status.podIPs")
    if addresses:
        out.row(0, "IPs:")
        out.fields(1, (("IP", text_at(each, "ip")) for each in addresses))
    else:
        out.field(0, "IPs", NONE)
    nominated = text_at(pod, "status.nominatedNodeName")
    out.given(0, (("Controlled By", controller_of(pod)), ("NominatedNodeName", nominated)))


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
