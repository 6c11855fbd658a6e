"""Descriptions of Services and Endpoints."""

from typing import Final

from modules.tools.kubectl.describers.common import (
    UNSET,
    Related,
    events_table,
    labels_and_annotations,
    name_and_namespace,
    pairs,
)
from modules.tools.kubectl.describers.writer import NONE, AlignedWriter
from modules.tools.printing.fields import JsonObject, list_at, map_at, objects_at, text_at

_MOST: Final = 3


def describe_service(service: JsonObject, related: Related, now: float) -> str:
    """Return the description of a Service."""
    out = AlignedWriter()
    name_and_namespace(out, service)
    labels_and_annotations(out, service)
    pairs(out, "Selector", map_at(service, "spec.selector"))
    out.field(0, "Type", text_at(service, "spec.type") or "ClusterIP")
    out.field(0, "IP Family Policy", text_at(service, "spec.ipFamilyPolicy") or NONE)
    out.field(0, "IP Families", ",".join(map(str, list_at(service, "spec.ipFamilies"))) or NONE)
    out.field(0, "IP", text_at(service, "spec.clusterIP"))
    out.field(0, "IPs", ",".join(map(str, list_at(service, "spec.clusterIPs"))) or NONE)
    if list_at(service, "spec.externalIPs"):
        out.field(0, "External IPs", ",".join(map(str, list_at(service, "spec.externalIPs"))))
    for name, path in (("IP", "spec.loadBalancerIP"), ("External Name", "spec.externalName")):
        if text_at(service, path):
            out.field(0, name, text_at(service, path))
    for port in objects_at(service, "spec.ports"):
        _port(out, port, related.endpoints)
    out.field(0, "Session Affinity", text_at(service, "spec.sessionAffinity"))
    for name in ("External", "Internal"):
        policy = text_at(service, f"spec.{name.lower()}TrafficPolicy")
        if policy:
            out.field(0, f"{name} Traffic Policy", policy)
    events_table(out, related.events, now)
    return out.text()


def describe_endpoints(endpoints: JsonObject, related: Related, now: float) -> str:
    """Return the description of Endpoints."""
    out = AlignedWriter()
    name_and_namespace(out, endpoints)
    labels_and_annotations(out, endpoints)
    out.row(0, "Subsets:")
    for subset in objects_at(endpoints, "subsets"):
        for name, key in (("Addresses", "addresses"), ("NotReadyAddresses", "notReadyAddresses")):
            addresses = ",".join(text_at(each, "ip") for each in objects_at(subset, key))
            out.field(1, name, addresses or NONE)
        ports = objects_at(subset, "ports")
        if ports:
            out.row(1, "Ports:")
            out.row(2, "Name", "Port", "Protocol")
            out.row(2, "----", "----", "--------")
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
