"""The endpoints that a node is sent of Services which keep to node groups (KubeEdge's filter `endpointresource`)."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Final, Protocol

from modules.apimachinery.endpoint_addresses import SERVICE_NAME
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of, kind_named
from modules.cloud.applications import BELONGING_TO, RANGE_NODE_GROUP, TOPOLOGY

_SERVICE, _NODE = kind_named("Service"), kind_named("Node")
_SLICE, _ENDPOINTS = kind_named("EndpointSlice"), kind_named("Endpoints")
FILTERED: Final = frozenset({_SLICE.name, _ENDPOINTS.name})
"""The kinds that a node gets in part."""

FindService = Callable[[ObjectKey], JsonObject | None]


class Objects(Protocol):
    """A reader of objects (`Lister`). Returned objects must not be changed."""

    def find(self, key: ObjectKey) -> JsonObject | None:
        """Return an object, or None."""

    def list(self, kind: Kind, namespace: str | None = None) -> list[JsonObject]:
        """Return the objects of a kind, in all namespaces or in one."""


class NodeGroupFilter:
    """A filter that leaves endpoints that a node does not use out of Endpoints and EndpointSlices: for a Service of the
    topology `range-nodegroup` the endpoints of other node groups.

    A node uses its own endpoints, and those on nodes with an equal label `apps.kubeedge.io/belonging-to`; nodes
    without it are a group together, as in KubeEdge. Endpoints on no node, or on one without a Node object, are in no
    group.

    Args:
        lister: the Nodes, the Services and their endpoints.
    """

    def __init__(self, lister: Objects) -> None:
        self._lister = lister

    def shown(self, node: str, obj: JsonObject, find: FindService | None = None) -> JsonObject:
        """Return an object as a node gets it: itself, or a copy without some endpoints.

        The copy of an EndpointSlice is labelled with the node's group, so that the node knows whose endpoints are left.

        Args:
            node: the node.
            obj: of any kind.
            find: finds Services; by default the lister's.
        """
        if not self.is_ranged(obj, find):
            return obj
        mine = self._group_of(node)

        def is_near(other: object) -> bool:
            return other == node or (bool(other) and mine is not None and self._group_of(str(other)) == mine)

        if obj["kind"] == _ENDPOINTS.name:
            return {**obj, "subsets": [_near_subset(each, is_near) for each in obj.get("subsets") or []]}
        near = [each for each in obj.get("endpoints") or [] if is_near(each.get("nodeName"))]
        metadata = obj["metadata"]
        labels = {**(metadata.get("labels") or {}), **({BELONGING_TO: mine} if mine else {})}
        return {**obj, "metadata": {**metadata, "labels": labels}, "endpoints": near}

    def is_ranged(self, obj: JsonObject, find: FindService | None = None) -> bool:
        """Return whether an object has endpoints of a Service that keeps to node groups."""
        key = service_of(obj)
        service = None if key is None else (find or self._lister.find)(key)
        return service is not None and topology_of(service) == RANGE_NODE_GROUP

    def of_services(self, services: set[ObjectKey]) -> list[ObjectKey]:
        """Return the objects with endpoints of some Services."""
        return [key_of(obj) for obj in self._of_services(services)]

    def on_node(self, node: str) -> list[ObjectKey]:
        """Return the objects with endpoints on a node whose Service keeps to node groups."""
        ranged = {key_of(each) for each in self._lister.list(_SERVICE) if topology_of(each) == RANGE_NODE_GROUP}
        return [key_of(obj) for obj in self._of_services(ranged) if node in _nodes_of(obj)]

    def are_in(self, groups: AbstractSet[str | None], nodes: Iterable[str]) -> list[str]:
        """Return the nodes that are in one of the groups."""
        return [each for each in nodes if self._group_of(each) in groups]

    def _of_services(self, services: set[ObjectKey]) -> Iterator[JsonObject]:
        for namespace in sorted({each.namespace for each in services}):
            for kind in (_ENDPOINTS, _SLICE):
                yield from (obj for obj in self._lister.list(kind, namespace) if service_of(obj) in services)

    def _group_of(self, node: str) -> str | None:
        """Return the group of a node, "" without one; None if there is no such Node."""
        found = self._lister.find(ObjectKey(_NODE.key_name, "", node))
        return None if found is None else group_of(found)


def topology_of(service: JsonObject) -> str:
    """Return the topology of a Service; "" without one."""
    return str((service["metadata"].get("annotations") or {}).get(TOPOLOGY) or "")


def group_of(node: JsonObject) -> str:
    """Return the node group of a Node; "" without one."""
    return str((node["metadata"].get("labels") or {}).get(BELONGING_TO) or "")


def service_of(obj: JsonObject) -> ObjectKey | None:
    """Return the Service of Endpoints or of an EndpointSlice; None for another object, and without one."""
    kind, metadata = obj.get("kind"), obj["metadata"]
    if kind == _ENDPOINTS.name:
        return ObjectKey(_SERVICE.key_name, metadata.get("namespace") or "", metadata["name"])
    name = (metadata.get("labels") or {}).get(SERVICE_NAME) if kind == _SLICE.name else None
    return ObjectKey(_SERVICE.key_name, metadata.get("namespace") or "", str(name)) if name else None


def _near_subset(subset: JsonObject, is_near: Callable[[object], bool]) -> JsonObject:
    lists = {
        name: [each for each in subset[name] if is_near(each.get("nodeName"))]
        for name in ("addresses", "notReadyAddresses")
        if subset.get(name)
    }
    return {**subset, **lists}


def _nodes_of(obj: JsonObject) -> set[object]:
    if obj["kind"] == _SLICE.name:
        return {each.get("nodeName") for each in obj.get("endpoints") or []}
    subsets = obj.get("subsets") or []
    return {
        each.get("nodeName")
        for subset in subsets
        for name in ("addresses", "notReadyAddresses")
        for each in subset.get(name) or []
    }
