"""The Services of nodes with KubeEdge's EdgeMesh of 2019 (docs/protocol.md, "Edges of 2019")."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from beehive.message import Message
from beehive.names import ModuleName, Operation
from beehive.resource import Resource
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of, kind_named, metadata_of, uid_of, version_of
from modules.apimachinery.lister import Lister
from modules.cloud.edgecontroller.downstream.location_cache import LocationCache
from modules.cloud.edgecontroller.downstream_messages import DownstreamMessage
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs, number_of
from modules.cloud.storage.object_storage import EventType, ObjectEvent

MOST_PODS: Final = 100
"""Pods in the list of a Service's pods (KubeEdge's limit)."""
_POD, _SERVICE, _ENDPOINTS = kind_named("Pod"), kind_named("Service"), kind_named("Endpoints")
_LIST_NAMESPACE: Final = "namespace"
"""Stands literally in the resources of the lists of all namespaces."""
_LISTS: Final = {
    kind.name: ObjectKey(f"{kind.name}List", _LIST_NAMESPACE, kind.singular) for kind in (_SERVICE, _ENDPOINTS)
}


class MirroredObjects(Protocol):
    """The objects of the API server that edgecontroller has (`EdgeController`)."""

    def mirrors(self, kind: str) -> bool:
        """Return whether all objects of a kind are here; if not, they will be soon."""

    def mirror(self, kind: Kind) -> bool:
        """Begin to mirror a kind that nodes watch; return whether that is possible."""

    def is_missing(self, key: ObjectKey) -> bool:
        """Return whether only a part of an object is here, which is sent as soon as it is whole."""


class EdgeMeshServices:
    """All Services and Endpoints, and the pods behind each Service, for nodes of 2019: their EdgeMesh does not ask.

    A node of 2019 reports its status as `nodestatus`. When it becomes ready, or reports so for the first
    time over a connection, it gets three kinds of lists, as from KubeEdge's cloudcore; later it gets each change, as
    for any object. The objects of a list count as acknowledged when the list is, so that the node gets deletions
    that it has missed.

    Args:
        lister: the objects.
        object_syncs: the objects that connected nodes were sent.
        locations: told which nodes hold which Services and Endpoints.
        send: sends a message without a record of its object.
        mirrored: tells which kinds the lister has.
    """

    def __init__(
        self,
        lister: Lister,
        object_syncs: ObjectSyncs,
        locations: LocationCache,
        send: Callable[[DownstreamMessage], None],
        mirrored: MirroredObjects,
    ) -> None:
        self._lister = lister
        self._object_syncs = object_syncs
        self._locations = locations
        self._send = send
        self._mirrored = mirrored
        self._ready: dict[str, bool] = {}
        """The connected nodes that are ready, and whether they were sent the lists."""
        self._listed: dict[tuple[str, str], dict[str, int]] = {}
        """By node and a list's resource, the versions of the objects of the list, by uid."""

    def record_report(self, message: Message) -> None:
        """Note a node's report of its status."""
        resource = message.subject_on_cloud
        if not self._object_syncs.is_connected(resource.node):
            return
        if not _is_ready(message.content_as(dict)):
            self._ready.pop(resource.node, None)
        elif resource.node not in self._ready:
            self._ready[resource.node] = False
            self.send_lists()

    def send_lists(self) -> None:
        """Send the lists to the ready nodes that have not got them, as soon as all Services and Endpoints are known."""
        waiting = [node for node, has_lists in self._ready.items() if not has_lists]
        mirrored = [self._mirrored.mirrors(kind) for kind in _LISTS if waiting]
        for node in waiting if all(mirrored) else ():
            self._ready[node] = True
            self._send_lists(node)

    def forget(self, node: str) -> None:
        """Forget a node that has disconnected."""
        self._ready.pop(node, None)
        for kind in _LISTS.values():
            self._listed.pop((node, _resource_of(kind)), None)

    def record_acknowledged(self, node: str, resource: str) -> None:
        """Record the objects of an acknowledged list as acknowledged."""
        for uid, version in self._listed.pop((node, resource), {}).items():
            self._object_syncs.acknowledged(node, uid, version)

    def hold(self, event: ObjectEvent) -> None:
        """Record a new Service or Endpoints as held by the nodes that have the lists."""
        if event.key.kind in _LISTS and event.type is not EventType.DELETED:
            for node in self._nodes():
                self._locations.add(event.key, node)

    def send_pods(self, event: ObjectEvent) -> None:
        """Send the pods behind a Service after a change of its Endpoints."""
        if event.key.kind == _ENDPOINTS.name and event.type is not EventType.DELETED and self._nodes():
            service = self._lister.find(ObjectKey(_SERVICE.name, event.key.namespace, event.key.name))
            pods = [] if service is None else self._pods_of(service)
            for node in self._nodes() if service is not None else ():
                self._send_pods(node, event.key, pods)

    def in_our_name(self, down: DownstreamMessage) -> DownstreamMessage:
        """Return a message as its node stores it: one of 2019 stores no update in dynamiccontroller's name."""
        if down.key.kind not in _LISTS or down.node not in self._ready:
            return down
        return msgspec.structs.replace(down, source=ModuleName.EDGECONTROLLER)

    def _nodes(self) -> list[str]:
        return [node for node, has_lists in self._ready.items() if has_lists]

    def _send_lists(self, node: str) -> None:
        services, endpoints = self._lister.list(_SERVICE), self._lister.list(_ENDPOINTS)
        self._send_list(node, _SERVICE.name, services)
        for service in services:
            pods = self._pods_of(service)
            if pods:
                self._send_pods(node, key_of(service), pods)
        self._send_list(node, _ENDPOINTS.name, endpoints)

    def _send_list(self, node: str, kind: str, objects: list[JsonObject]) -> None:
        for each in objects:
            self._locations.add(key_of(each), node)
            self._object_syncs.sending(node, uid_of(each), key_of(each), number_of(version_of(each)))
        versions = {uid_of(each): number_of(version_of(each)) for each in objects}
        key = _LISTS[kind]
        self._listed[node, _resource_of(key)] = versions
        version = str(max(versions.values(), default=0))
        self._send(DownstreamMessage(node, Operation.UPDATE, key, objects, version, ModuleName.EDGECONTROLLER))

    def _send_pods(self, node: str, service: ObjectKey, pods: list[JsonObject]) -> None:
        key = ObjectKey("PodList", service.namespace, service.name)
        self._send(DownstreamMessage(node, Operation.UPDATE, key, pods, "", ModuleName.EDGECONTROLLER))

    def _pods_of(self, service: JsonObject) -> list[JsonObject]:
        selector = (service.get("spec") or {}).get("selector")
        if not isinstance(selector, dict) or not selector:
            return []
        pods = self._lister.list(_POD, key_of(service).namespace)
        found = (pod for pod in pods if selector.items() <= (metadata_of(pod).get("labels") or {}).items())
        return [_address_of(pod) for pod, _ in zip(found, range(MOST_PODS), strict=False)]


def _resource_of(key: ObjectKey) -> str:
    return str(Resource.of(key.kind.lower(), key.namespace, key.name))


def _is_ready(report: JsonObject) -> bool:
    conditions: Any = (report.get("Status") or {}).get("conditions") or []
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _address_of(pod: JsonObject) -> JsonObject:
    """Return the fields of a pod that a proxy needs. KubeEdge sends the whole pod, to any node."""
    metadata, spec, status = (pod.get(part) or {} for part in ("metadata", "spec", "status"))
    containers = [
        {name: each[name] for name in ("name", "ports") if name in each} for each in spec.get("containers") or []
    ]
    return {
        "metadata": _of(metadata, "name", "namespace", "uid", "labels", "resourceVersion", "deletionTimestamp"),
        "spec": _of(spec, "nodeName", "hostNetwork") | {"containers": containers},
        "status": _of(status, "phase", "conditions", "hostIP", "podIP"),
    }


def _of(part: JsonObject, *names: str) -> JsonObject:
    return {name: part[name] for name in names if name in part}
