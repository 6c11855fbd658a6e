"""Describes objects: by the describer of their kind, or all fields with labels made from their names."""

import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, Final

from beehive.printable import printable, printable_lines
from modules.apimachinery.go_values import go_text
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at
from modules.apimachinery.types.quantity import canonical_quantity
from modules.kubectl.describers.common import (
    UNSET,
    Related,
    conditions_table,
    events_table,
    finalizers,
    labels_and_annotations,
    moment,
    name_and_namespace,
    named,
    terminating,
)
from modules.kubectl.describers.node import describe_node
from modules.kubectl.describers.pod import describe_pod
from modules.kubectl.describers.pod_volumes import volume_source
from modules.kubectl.describers.writer import NONE, AlignedWriter

_MOST: Final = 3

_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def describe_config_map(obj: JsonObject, related: Related, now: float) -> str:
    """Return the description of a ConfigMap: its texts, and the sizes of its binary data."""
    texts, data = map_at(obj, "data"), map_at(obj, "binaryData")
    parts = [named(obj).text(), "\nData\n====\n"]
    parts += [f"{printable(key)}:\n----\n{printable_lines(str(texts[key]))}\n\n" for key in sorted(texts)]
    parts.append("\nBinaryData\n====\n")
    parts += [f"{printable(key)}: {_size(data[key])} bytes\n" for key in sorted(data)]
    out = AlignedWriter()
    events_table(out, related.events, now)
    return "".join((*parts, "\n", out.text()))


def describe_secret(obj: JsonObject, _related: Related, _now: float) -> str:
    """Return the description of a Secret: the sizes of its data, and no value, not even of a token."""
    data = map_at(obj, "data")
    out = AlignedWriter()
    out.row(0)
    out.field(0, "Type", text_at(obj, "type"))
    out.row(0)
    out.row(0, "Data")
    out.row(0, "====")
    out.fields(0, ((key, f"{_size(data[key])} bytes") for key in sorted(data)))
    return named(obj).text() + out.text()


def describe_namespace(obj: JsonObject, related: Related, _now: float) -> str:
    """Return the description of a Namespace."""
    out = AlignedWriter()
    out.field(0, "Name", text_at(obj, "metadata.name"))
    labels_and_annotations(out, obj)
    out.field(0, "Status", text_at(obj, "status.phase"))
    titles = ("Type", "Status", "LastTransitionTime", "Reason", "Message")
    conditions = objects_at(obj, "status.conditions")
    if conditions:
        out.row(0, "Conditions:")
        out.head(1, *titles)
    for each in conditions:
        kind, status, reason, message = (text_at(each, key) for key in ("type", "status", "reason", "message"))
        out.row(1, kind, status, moment(text_at(each, "lastTransitionTime")), reason, message)
    quotas = f"Resource Quotas\n{_quotas(related.quotas)}" if related.quotas else "No resource quota.\n"
    limits = AlignedWriter()
    limits.row(0, "Resource Limits" if related.limits else "No LimitRange resource.")
    if related.limits:
        _limits(limits, related.limits, " ")
    return f"{out.text()}\n{quotas}\n{limits.text()}"


def describe_limit_range(obj: JsonObject, _related: Related, _now: float) -> str:
    """Return the description of a LimitRange."""
    out = AlignedWriter()
    name_and_namespace(out, obj)
    _limits(out, [obj], "")
    return out.text()


def _limits(out: AlignedWriter, ranges: Sequence[JsonObject], indent: str) -> None:
    titles = "Type", "Resource", "Min", "Max", "Default Request", "Default Limit", "Max Limit/Request Ratio"
    out.row(0, f"{indent}{titles[0]}", *titles[1:])
    out.row(0, f"{indent}----", *("-" * len(title) for title in titles[1:]))
    for limit in (limit for each in ranges for limit in objects_at(each, "spec.limits")):
        amounts = [map_at(limit, each) for each in ("min", "max", "defaultRequest", "default", "maxLimitRequestRatio")]
        for name in sorted({name for each in amounts for name in each}):
            cells = (canonical_quantity(str(each[name])) if name in each else "-" for each in amounts)
            out.row(0, f"{indent}{text_at(limit, 'type')}", name, *cells)


def _quotas(quotas: Sequence[JsonObject]) -> str:
    out = AlignedWriter()
    for quota in quotas:
        out.row(1, "Name:", text_at(quota, "metadata.name"))
        if scopes := list_at(quota, "spec.scopes"):
            out.row(1, "Scopes:", ", ".join(sorted(map(str, scopes))))
        out.row(1, "Resource", "Used", "Hard")
        out.row(1, "--------", "---", "---")
        hard, used = map_at(quota, "status.hard"), map_at(quota, "status.used")
        for name in sorted(hard):
            out.row(1, name, str(used.get(name, 0)), str(hard[name]))
    return out.text()


def _size(encoded: Any) -> int:
    try:
        return len(b64decode(str(encoded), validate=True))
    except ValueError:
        return len(str(encoded))


def describe_service(service: JsonObject, related: Related, now: float) -> str:
    """Return the description of a Service."""
    out = named(service)
    selector = map_at(service, "spec.selector")
    out.field(0, "Selector", ",".join(f"{key}={selector[key]}" for key in sorted(selector)) or NONE)
    out.field(0, "Type", text_at(service, "spec.type") or "ClusterIP")
    out.field(0, "IP Family Policy", text_at(service, "spec.ipFamilyPolicy") or NONE)
    out.field(0, "IP Families", ",".join(map(str, list_at(service, "spec.ipFamilies"))) or NONE)
    out.field(0, "IP", text_at(service, "spec.clusterIP"))
    out.field(0, "IPs", ",".join(map(str, list_at(service, "spec.clusterIPs"))) or NONE)
    ingresses = map(_ingress, objects_at(service, "status.loadBalancer.ingress"))
    out.given(
        0,
        (
            ("External IPs", ",".join(map(str, list_at(service, "spec.externalIPs")))),
            ("Desired LoadBalancer IP", text_at(service, "spec.loadBalancerIP")),
            ("External Name", text_at(service, "spec.externalName")),
            ("LoadBalancer Ingress", ", ".join(ingresses)),
        ),
    )
    for port in objects_at(service, "spec.ports"):
        _port(out, port, related.endpoints)
    out.field(0, "Session Affinity", text_at(service, "spec.sessionAffinity"))
    out.given(
        0,
        (
            ("External Traffic Policy", text_at(service, "spec.externalTrafficPolicy")),
            ("Internal Traffic Policy", text_at(service, "spec.internalTrafficPolicy")),
            ("HealthCheck NodePort", value_at(service, "spec.healthCheckNodePort")),
            ("LoadBalancer Source Ranges", ",".join(map(str, list_at(service, "spec.loadBalancerSourceRanges")))),
        ),
    )
    events_table(out, related.events, now)
    return out.text()


def _ingress(address: JsonObject) -> str:
    ip, mode = text_at(address, "ip"), text_at(address, "ipMode")
    return (f"{ip} ({mode})" if mode else ip) if ip else text_at(address, "hostname")


def describe_endpoints(endpoints: JsonObject, related: Related, now: float) -> str:
    """Return the description of Endpoints."""
    out = named(endpoints)
    out.row(0, "Subsets:")
    for subset in objects_at(endpoints, "subsets"):
        for name, key in (("Addresses", "addresses"), ("NotReadyAddresses", "notReadyAddresses")):
            addresses = ",".join(text_at(each, "ip") for each in objects_at(subset, key))
            out.field(1, name, addresses or NONE)
        ports = objects_at(subset, "ports")
        if ports:
            out.row(1, "Ports:")
            out.head(2, "Name", "Port", "Protocol")
        for port in ports:
            out.row(2, text_at(port, "name") or UNSET, text_at(port, "port"), text_at(port, "protocol"))
        out.row(0)
    events_table(out, related.events, now)
    return out.text()


def _port(out: AlignedWriter, port: JsonObject, endpoints: JsonObject | None) -> None:
    name, protocol = text_at(port, "name"), text_at(port, "protocol") or "TCP"
    number = text_at(port, "port")
    out.row(0, "Port:", name or UNSET, f"{number}/{protocol}")
    out.field(0, "TargetPort", f"{text_at(port, 'targetPort') or number}/{protocol}")
    if port.get("nodePort"):
        out.row(0, "NodePort:", name or UNSET, f"{port['nodePort']}/{protocol}")
    out.field(0, "Endpoints", _addresses(endpoints or {}, name))


def _addresses(endpoints: JsonObject, name: str) -> str:
    found = [
        f"{text_at(address, 'ip')}:{text_at(port, 'port')}"
        for subset in objects_at(endpoints, "subsets")
        for port in objects_at(subset, "ports")
        if text_at(port, "name") == name
        for address in objects_at(subset, "addresses")
    ]
    more = f" + {len(found) - _MOST} more..." if len(found) > _MOST else ""
    return ",".join(found[:_MOST]) + more or NONE


def describe_claim(claim: JsonObject, related: Related, now: float) -> str:
    """Return the description of a PersistentVolumeClaim."""
    out = AlignedWriter()
    volume, name = text_at(claim, "spec.volumeName"), text_at(claim, "metadata.name")
    name_and_namespace(out, claim)
    out.field(0, "StorageClass", text_at(claim, "spec.storageClassName"))
    out.field(0, "Status", terminating(claim, now) or text_at(claim, "status.phase"))
    out.field(0, "Volume", volume)
    labels_and_annotations(out, claim)
    out.field(0, "Finalizers", finalizers(claim))
    out.field(0, "Capacity", canonical_quantity(text_at(claim, "status.capacity.storage")) if volume else "")
    out.field(0, "Access Modes", _modes(claim, "status.accessModes") if volume else "")
    out.given(0, [("VolumeMode", text_at(claim, "spec.volumeMode"))])
    if source := map_at(claim, "spec.dataSource"):
        out.row(0, "DataSource:")
        group = (("APIGroup", text_at(source, "apiGroup")),) if source.get("apiGroup") is not None else ()
        out.fields(1, (*group, ("Kind", text_at(source, "kind")), ("Name", text_at(source, "name"))))
    owners = {text_at(each, "uid") for each in objects_at(claim, "metadata.ownerReferences")}
    users = (pod for pod in related.pods if name in _claims_of(pod) or text_at(pod, "metadata.uid") in owners - {""})
    out.values(0, "Used By", sorted(text_at(pod, "metadata.name") for pod in users))
    conditions_table(out, claim, "lastProbeTime")
    events_table(out, related.events, now)
    return out.text()


def describe_volume(volume: JsonObject, related: Related, now: float) -> str:
    """Return the description of a PersistentVolume."""
    out = AlignedWriter()
    out.field(0, "Name", text_at(volume, "metadata.name"))
    labels_and_annotations(out, volume)
    out.field(0, "Finalizers", finalizers(volume))
    out.field(0, "StorageClass", text_at(volume, "spec.storageClassName"))
    out.field(0, "Status", terminating(volume, now) or text_at(volume, "status.phase"))
    claim = map_at(volume, "spec.claimRef")
    out.field(0, "Claim", f"{text_at(claim, 'namespace')}/{text_at(claim, 'name')}" if claim else "")
    out.field(0, "Reclaim Policy", text_at(volume, "spec.persistentVolumeReclaimPolicy"))
    out.field(0, "Access Modes", _modes(volume, "spec.accessModes"))
    out.given(0, [("VolumeMode", text_at(volume, "spec.volumeMode"))])
    out.field(0, "Capacity", canonical_quantity(text_at(volume, "spec.capacity.storage")))
    _affinity(out, volume)
    out.field(0, "Message", text_at(volume, "status.message"))
    out.row(0, "Source:")
    volume_source(out, _with_type(map_at(volume, "spec")))
    events_table(out, related.events, now)
    return out.text()


def _modes(obj: JsonObject, path: str) -> str:
    given = list_at(obj, path)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _claims_of(pod: JsonObject) -> list[str]:
    return [text_at(each, "persistentVolumeClaim.claimName") for each in objects_at(pod, "spec.volumes")]


def _affinity(out: AlignedWriter, volume: JsonObject) -> None:
    if not map_at(volume, "spec.nodeAffinity"):
        out.field(0, "Node Affinity", NONE)
        return
    out.field(0, "Node Affinity", "")
    terms = objects_at(volume, "spec.nodeAffinity.required.nodeSelectorTerms")
    out.field(1, "Required Terms", "" if terms else NONE)
    for place, term in enumerate(terms):
        out.values(2, f"Term {place}", map(_expression, objects_at(term, "matchExpressions")))


def _expression(expression: JsonObject) -> str:
    values = ", ".join(map(str, list_at(expression, "values")))
    text = f"{text_at(expression, 'key')} {text_at(expression, 'operator').lower()}"
    return f"{text} [{values}]" if values else text


def _with_type(spec: JsonObject) -> JsonObject:
    """Return the volume's fields; the type of a hostPath is always set in a PersistentVolume."""
    if value_at(spec, "hostPath") is None:
        return spec
    return spec | {"hostPath": {"type": ""} | map_at(spec, "hostPath")}


_DESCRIBERS: Final[dict[tuple[str, str], Callable[[JsonObject, Related, float], str]]] = {
    ("v1", "ConfigMap"): describe_config_map,
    ("v1", "Endpoints"): describe_endpoints,
    ("v1", "LimitRange"): describe_limit_range,
    ("v1", "Namespace"): describe_namespace,
    ("v1", "Node"): describe_node,
    ("v1", "PersistentVolume"): describe_volume,
    ("v1", "PersistentVolumeClaim"): describe_claim,
    ("v1", "Pod"): describe_pod,
    ("v1", "Secret"): describe_secret,
    ("v1", "Service"): describe_service,
}
_SKIPPED: Final = frozenset(
    f".metadata.{name}" for name in ("managedFields", "name", "namespace", "labels", "annotations")
)
_ACRONYMS: Final = frozenset(("API", "URL", "UID", "OSB", "GUID"))
_WORDS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|-+")
_PLAIN: Final = re.compile(r"[A-Za-z-]+")


def describe_any(obj: JsonObject, related: Related, now: float) -> str:
    """Return the description of an object of a kind without a describer."""
    out = named(obj)
    _members(out, 0, obj, "")
    events_table(out, related.events, now)
    return out.text()


def smart_label(field: str) -> str:
    """Return a label made from a field's name: `Lease Duration Seconds` of `leaseDurationSeconds`."""
    if not _PLAIN.fullmatch(field):
        return field
    words = (
        word.upper() if word.upper() in _ACRONYMS else word[:1].upper() + word[1:] for word in _WORDS.findall(field)
    )
    return " ".join(words)


def _members(out: AlignedWriter, level: int, obj: JsonObject, path: str) -> None:
    for key in sorted(obj):
        where = f"{path}.{key}"
        if where not in _SKIPPED:
            _member(out, level, key, obj[key], where)


def _member(out: AlignedWriter, level: int, key: str, value: Any, path: str) -> None:
    if isinstance(value, dict):
        out.row(level, f"{smart_label(key)}:")
        _members(out, level + 1, value, path)
    elif isinstance(value, list):
        out.row(level, f"{smart_label(key)}:")
        for element in value:
            if isinstance(element, dict):
                _members(out, level + 1, element, path)
            else:
                out.row(level + 1, go_text(element))
    else:
        out.field(level, smart_label(key), go_text(value))


def describe_object(obj: JsonObject, related: Related, now: float) -> str:
    """Return the description of an object of any kind, with a line break at its end.

    Args:
        obj: the object.
        related: its related objects.
        now: seconds since the epoch, for ages.
    """
    key = text_at(obj, "apiVersion"), text_at(obj, "kind")
    return _DESCRIBERS.get(key, describe_any)(obj, related, now)
