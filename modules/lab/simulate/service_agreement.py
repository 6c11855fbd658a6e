"""Whether each node has the Services and endpoints that it follows."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from beehive.decoding import decode_json
from beehive.simulation.scheduler import EPOCH
from modules.apimachinery.kinds import JsonObject, Kind, kind_named, version_of
from modules.apimachinery.types import parse_time
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.disk import DATABASE
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.service_documents import group_name

_PARTS: Final = {"Service": "spec", "EndpointSlice": "endpoints", "Endpoints": "subsets"}
"""The part of each kind that is compared."""
_GROUP: Final = "apps.kubeedge.io/belonging-to"
_TOPOLOGY: Final = "apps.kubeedge.io/service-topology"
_OF_SERVICE: Final = "kubernetes.io/service-name"


def service_disagreements(node: SimulatedNode, cloud: SimulatedCloud) -> Iterator[str]:
    """Yield each Service, EndpointSlice and Endpoints that a node does not have as it should: with the endpoints of its
    node group, if the Service keeps to those. The rule is KubeEdge's, written here a second time.
    """
    ranged = _ranged_services(cloud)
    groups = _groups(cloud)
    near = {node.name, *(name for name, group in groups.items() if group == groups.get(node.name))}
    for name, part in _PARTS.items():
        kind = kind_named(name)
        wanted = {each["metadata"]["name"]: each for each in cloud.newest.storage.list(kind)}
        there = _stored(node.state / DATABASE, kind)
        for each in sorted(wanted.keys() | there.keys()):
            if each not in wanted:
                if parse_time(there[each]["metadata"]["creationTimestamp"]) / 1e9 > EPOCH + cloud.objects_lost_at:
                    yield f"{name} {each} is left over"
                continue
            if each not in there:
                yield f"{name} {each} is missing"
                continue
            should, has = wanted[each].get(part) or [], there[each].get(part) or []
            if _service_of(name, wanted[each]) in ranged:
                should = _of(name, should, near)
                marked = (there[each]["metadata"].get("labels") or {}).get(_GROUP, "")
                if name == "EndpointSlice" and marked != groups.get(node.name, ""):
                    yield f"{name} {each} is marked as that of group {marked!r}"
            if version_of(wanted[each]) != version_of(there[each]) or should != has:
                yield f"{name} {each} has {has}, and should have {should}"


def group_disagreements(groups: Mapping[str, int], cloud: SimulatedCloud) -> Iterator[str]:
    """Yield the nodes that are not labelled with the NodeGroup that has them."""
    labels = _groups(cloud)
    for node, number in groups.items():
        should = group_name(number) if number else ""
        if labels.get(node) != should:
            yield f"{node} is labelled as of group {labels.get(node)!r}, and should be of {should!r}"


def _ranged_services(cloud: SimulatedCloud) -> set[str]:
    services = cloud.newest.storage.list(kind_named("Service"))
    annotations = {each["metadata"]["name"]: each["metadata"].get("annotations") or {} for each in services}
    return {name for name, its in annotations.items() if its.get(_TOPOLOGY) == "range-nodegroup"}


def _groups(cloud: SimulatedCloud) -> dict[str, str]:
    """Return the group of each node; nodes without the label are a group, too."""
    nodes = cloud.newest.storage.list(kind_named("Node"))
    return {each["metadata"]["name"]: (each["metadata"].get("labels") or {}).get(_GROUP, "") for each in nodes}


def _service_of(kind: str, obj: JsonObject) -> str:
    if kind == "Service":
        return ""
    metadata = obj["metadata"]
    return str(metadata["name"] if kind == "Endpoints" else (metadata.get("labels") or {}).get(_OF_SERVICE))


def _of(kind: str, parts: list[JsonObject], near: set[str]) -> list[JsonObject]:
    """Return the endpoints of a slice, or the subsets of Endpoints, with those on some nodes."""
    if kind == "EndpointSlice":
        return [each for each in parts if each.get("nodeName") in near]
    return [{**each, "addresses": [one for one in each["addresses"] if one.get("nodeName") in near]} for each in parts]


def _stored(path: Path, kind: Kind) -> dict[str, Any]:
    """Return a node's objects of a kind, by name."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT value FROM meta WHERE type = ?", (kind.singular,)).fetchall()
    objects = [decode_json(value) for (value,) in rows]
    return {each["metadata"]["name"]: each for each in objects}
