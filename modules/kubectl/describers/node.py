"""Descriptions of Nodes."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from modules.apimachinery.printing.ages import age_of
from modules.apimachinery.printing.fields import JsonObject, list_at, map_at, objects_at, text_at
from modules.apimachinery.types.quantity import format_binary_quantity, format_quantity
from modules.kubectl.describers.common import (
    UNSET,
    Related,
    amount,
    conditions_table,
    events_table,
    labels_and_annotations,
    moment,
    resource_rows,
)
from modules.kubectl.describers.pod_resources import pod_amounts
from modules.kubectl.describers.writer import NONE, AlignedWriter

_ROLE: Final = "node-role.kubernetes.io/"
_INFO: Final = (
    ("Machine ID", "machineID"),
    ("System UUID", "systemUUID"),
    ("Boot ID", "bootID"),
    ("Kernel Version", "kernelVersion"),
    ("OS Image", "osImage"),
    ("Operating System", "operatingSystem"),
    ("Architecture", "architecture"),
    ("Container Runtime Version", "containerRuntimeVersion"),
    ("Kubelet Version", "kubeletVersion"),
    ("Kube-Proxy Version", "kubeProxyVersion"),
)
_ALWAYS: Final = ("cpu", "memory", "ephemeral-storage")
_SHARE: Final = (("cpu", "requests"), ("cpu", "limits"), ("memory", "requests"), ("memory", "limits"))


def describe_node(node: JsonObject, related: Related, now: float) -> str:
    """Return the description of a Node."""
    out = AlignedWriter()
    out.field(0, "Name", text_at(node, "metadata.name"))
    roles = sorted(key.removeprefix(_ROLE) for key in map_at(node, "metadata.labels") if key.startswith(_ROLE))
    out.field(0, "Roles", ",".join(roles) or NONE)
    labels_and_annotations(out, node)
    out.field(0, "CreationTimestamp", moment(text_at(node, "metadata.creationTimestamp")))
    taints = sorted(objects_at(node, "spec.taints"), key=lambda each: (text_at(each, "effect"), text_at(each, "key")))
    out.values(0, "Taints", map(_taint, taints))
    out.field(0, "Unschedulable", text_at(node, "spec.unschedulable") or "false")
    _lease(out, related.lease)
    conditions_table(out, node, "lastHeartbeatTime")
    out.row(0, "Addresses:")
    out.fields(1, ((text_at(each, "type"), text_at(each, "address")) for each in objects_at(node, "status.addresses")))
    resource_rows(out, 0, "Capacity", map_at(node, "status.capacity"))
    resource_rows(out, 0, "Allocatable", map_at(node, "status.allocatable"))
    out.row(0, "System Info:")
    out.fields(1, ((name, text_at(node, f"status.nodeInfo.{key}")) for name, key in _INFO))
    _addresses(out, node)
    _pods(out, node, related.pods, now)
    events_table(out, related.events, now)
    return out.text()


def _taint(taint: JsonObject) -> str:
    value = f"={taint['value']}" if taint.get("value") else ""
    return f"{text_at(taint, 'key')}{value}:{text_at(taint, 'effect')}"


def _lease(out: AlignedWriter, lease: JsonObject | None) -> None:
    if lease is None:
        return
    out.row(0, "Lease:")
    out.field(1, "HolderIdentity", text_at(lease, "spec.holderIdentity") or UNSET)
    for name, path in (("AcquireTime", "spec.acquireTime"), ("RenewTime", "spec.renewTime")):
        out.field(1, name, moment(text_at(lease, path)) if text_at(lease, path) else UNSET)


def _addresses(out: AlignedWriter, node: JsonObject) -> None:
    ranges = ",".join(map(str, list_at(node, "spec.podCIDRs")))
    cidr, provider = text_at(node, "spec.podCIDR"), text_at(node, "spec.providerID")
    out.given(0, (("PodCIDR", cidr), ("PodCIDRs", ranges), ("ProviderID", provider)))


def _pods(out: AlignedWriter, node: JsonObject, pods: Sequence[JsonObject], now: float) -> None:
    there = map_at(node, "status.allocatable") or map_at(node, "status.capacity")
    whole = {name: amount(value) for name, value in there.items()}
    out.row(0, "Non-terminated Pods:", f"({len(pods)} in total)")
    out.head(1, "Namespace", "Name", "", "CPU Requests", "CPU Limits", "Memory Requests", "Memory Limits", "Age")
    totals: dict[tuple[str, str], Fraction] = {}
    for pod in pods:
        amounts = {kind: pod_amounts(pod, kind) for kind in ("requests", "limits")}
        for kind, found in amounts.items():
            for name, value in found.items():
                totals[name, kind] = totals.get((name, kind), Fraction(0)) + value
        shares = (_share(name, amounts[kind].get(name, Fraction(0)), whole) for name, kind in _SHARE)
        names = text_at(pod, "metadata.namespace"), text_at(pod, "metadata.name")
        out.row(1, *names, "", *shares, age_of(pod, now))
    _allocated(out, totals, whole)


def _allocated(out: AlignedWriter, totals: dict[tuple[str, str], Fraction], whole: dict[str, Fraction]) -> None:
    out.row(0, "Allocated resources:")
    out.row(1, "(Total limits may be over 100 percent, i.e., overcommitted.)")
    out.head(1, "Resource", "Requests", "Limits")
    others = sorted(name for name in whole if name not in _ALWAYS and name != "pods")
    for name in (*_ALWAYS, *others):
        values = [totals.get((name, kind), Fraction(0)) for kind in ("requests", "limits")]
        plain = name in others and not name.startswith("hugepages-")
        out.row(1, name, *(_text(name, value) if plain else _share(name, value, whole) for value in values))


def _share(name: str, value: Fraction, whole: dict[str, Fraction]) -> str:
    total = whole.get(name, Fraction(0))
    return f"{_text(name, value)} ({int(value * 100 / total) if total else 0}%)"


def _text(name: str, value: Fraction) -> str:
    if name != "cpu" and value.denominator == 1 and value >= 1024:
        return format_binary_quantity(int(value))
    return format_quantity(value)
