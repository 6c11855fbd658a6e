"""Whether each node has the Services and endpoints that it follows."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from beehive.decoding import decode_json
from modules.apimachinery.kinds import Kind, kind_named, version_of
from modules.cloud.edgecontroller.downstream.node_groups import NodeGroupFilter
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.disk import DATABASE
from modules.lab.simulate.node import SimulatedNode

_PARTS: Final = {"Service": "spec", "EndpointSlice": "endpoints", "Endpoints": "subsets"}
"""The part of each kind that is compared."""


def service_disagreements(node: SimulatedNode, cloud: SimulatedCloud) -> Iterator[str]:
    """Yield each Service, EndpointSlice and Endpoints that a node does not have as it should: with the endpoints of its
    node group, if the Service keeps to those.
    """
    groups = NodeGroupFilter(cloud.cluster.storage)
    for name, part in _PARTS.items():
        kind = kind_named(name)
        wanted = {each["metadata"]["name"]: each for each in cloud.cluster.storage.list(kind)}
        there = _stored(node.state / DATABASE, kind)
        for each in sorted(wanted.keys() | there.keys()):
            if each not in wanted or each not in there:
                yield f"{name} {each} is {'left over' if each in there else 'missing'}"
                continue
            shown = groups.shown(node.name, wanted[each])
            if version_of(shown) != version_of(there[each]) or (shown.get(part) or []) != (there[each].get(part) or []):
                yield f"{name} {each} has {there[each].get(part)}, and should have {shown.get(part)}"


def _stored(path: Path, kind: Kind) -> dict[str, Any]:
    """Return a node's objects of a kind, by name."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT value FROM meta WHERE type = ?", (kind.singular,)).fetchall()
    objects = [decode_json(value) for (value,) in rows]
    return {each["metadata"]["name"]: each for each in objects}
