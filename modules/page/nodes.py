"""A Node, and the conditions of an object, as a page shows them."""

from typing import Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at
from modules.insight.fleet.rows import LONGEST, ZONE, own_labels

_CONDITION: Final = ("type", "status", "reason", "message", "lastTransitionTime")


def conditions_of(obj: JsonObject) -> list[dict[str, str]]:
    """Return the conditions of an object."""
    return [{key: text_at(each, key)[:LONGEST] for key in _CONDITION} for each in objects_at(obj, "status.conditions")]


class ShortNode(NamedTuple):
    """The parts of a Node that the pages show: its images and managed fields are most of a Node."""

    name: str
    created: str
    text: bytes
    """JSON of the Node without the rest: it takes a fifth of the memory of an object."""

    def object(self) -> JsonObject:
        """Return the Node."""
        found: JsonObject = decode_json(self.text)
        return found


def short_node(node: JsonObject) -> ShortNode:
    """Return the parts of a Node that the pages show."""
    metadata, spec, status = (map_at(node, part) for part in ("metadata", "spec", "status"))
    labels = map_at(metadata, "labels")
    kept = {
        "metadata": {"labels": own_labels(labels) | {ZONE: labels.get(ZONE)}},
        "spec": {"unschedulable": spec.get("unschedulable")},
        "status": {name: status.get(name) for name in ("nodeInfo", "conditions", "addresses", "capacity")},
    }
    name, created = (text_at(metadata, field) for field in ("name", "creationTimestamp"))
    return ShortNode(name, created, msgspec.json.encode(kept))


def machine_facts(node: JsonObject) -> dict[str, str]:
    """Return the facts of a Node about its machine."""
    info = ("kubeletVersion", "osImage", "kernelVersion", "architecture", "containerRuntimeVersion")
    addresses = [f"{text_at(each, 'type')} {text_at(each, 'address')}" for each in objects_at(node, "status.addresses")]
    facts = {name: text_at(node, f"status.nodeInfo.{name}") for name in info}
    facts |= {f"capacity {name}": text_at(node, f"status.capacity.{name}") for name in ("cpu", "memory", "pods")}
    return {name: value[:LONGEST] for name, value in {**facts, "addresses": ", ".join(addresses)}.items() if value}
