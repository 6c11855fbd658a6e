"""The node's knowledge of Services: the cloud's objects and its own pods. Pure; it finds the Services that change."""

import sys
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from beehive.decoding import msgpack_decoder
from modules.apimachinery.endpoint_addresses import endpoint_address
from modules.apimachinery.types import Pod
from modules.edge.edgemesh.backends import (
    MOST_BACKENDS,
    MeshBackend,
    addresses_of_pod,
    backends_of_endpoints,
    backends_of_other_nodes,
    backends_of_pods,
    backends_of_slices,
    selects,
)
from modules.edge.edgemesh.objects import NODE_GROUP_TOPOLOGY, Endpoints, EndpointSlice, Service, ServiceKey

MOST_SERVICES: Final = 10_000
"""Services that are served; more are left out."""
MOST_SLICES: Final = 20_000

_encoded = msgspec.msgpack.Encoder().encode
_decoded = msgpack_decoder(list[MeshBackend]).decode


class MeshState:
    """Services, their endpoints from the cloud, and the node's own pods.

    Args:
        node: name of the node.
    """

    def __init__(self, node: str) -> None:
        self._node = node
        self.zone = ""
        """Zone of the node."""
        self.services: dict[ServiceKey, Service] = {}
        self.pods: tuple[Pod, ...] = ()
        self.is_settled = False
        """Whether edged knows its pods. Until then the cloud's endpoints on this node count too."""
        self.is_known = False
        """Whether the cloud has sent Services at all: before that a missing Service may just be unknown."""
        self._slices: dict[ServiceKey, dict[str, bytes]] = {}
        """The packed endpoints of each slice."""
        self._slice_of: dict[tuple[str, str], ServiceKey] = {}
        self._endpoints: dict[ServiceKey, bytes] = {}
        """The packed endpoints of each Endpoints object."""
        self._listed: dict[ServiceKey, tuple[Pod, ...]] = {}
        self._looks: dict[str, tuple[Pod, object]] = {}

    def put_service(self, service: Service) -> set[ServiceKey]:
        """Add or replace a Service; return the changed ones."""
        service = _sharing(service)
        key = ServiceKey(service.metadata.namespace, service.metadata.name)
        self.is_known = True
        if self.services.get(key) == service or (key not in self.services and len(self.services) >= MOST_SERVICES):
            return set()
        self.services[key] = service
        return {key}

    def delete_service(self, key: ServiceKey) -> set[ServiceKey]:
        """Remove a Service, and the pods that were listed for it."""
        self._listed.pop(key, None)
        return {key} if self.services.pop(key, None) is not None else set()

    def put_slice(self, slice_: EndpointSlice) -> set[ServiceKey]:
        """Add or replace a slice."""
        namespace = sys.intern(slice_.metadata.namespace)
        name = (namespace, slice_.metadata.name)
        changed: set[ServiceKey] = set()
        key = ServiceKey(namespace, sys.intern(slice_.service))
        before = self._slice_of.get(name)
        if before is not None and before != key:
            changed |= self.delete_slice(*name)
        slices = self._slices.get(key, {})
        packed = _pack(list(islice(backends_of_slices([slice_]), MOST_BACKENDS)))
        is_known = name[1] in slices
        if slices.get(name[1]) == packed or not slice_.service or (not is_known and len(self._slice_of) >= MOST_SLICES):
            return changed
        self._slices.setdefault(key, slices)[name[1]] = packed
        self._slice_of[name] = key
        return changed | {key}

    def delete_slice(self, namespace: str, name: str) -> set[ServiceKey]:
        """Remove a slice."""
        key = self._slice_of.pop((namespace, name), None)
        if key is None:
            return set()
        slices = self._slices[key]
        del slices[name]
        if not slices:
            del self._slices[key]
        return {key}

    def put_endpoints(self, endpoints: Endpoints) -> set[ServiceKey]:
        """Add or replace Endpoints. They count where there are no slices."""
        key = ServiceKey(endpoints.metadata.namespace, endpoints.metadata.name)
        packed = _pack(list(islice(backends_of_endpoints(endpoints), MOST_BACKENDS)))
        if self._endpoints.get(key) == packed or (key not in self._endpoints and len(self._endpoints) >= MOST_SLICES):
            return set()
        self._endpoints[key] = packed
        return {key}

    def delete_endpoints(self, key: ServiceKey) -> set[ServiceKey]:
        """Remove Endpoints."""
        return {key} if self._endpoints.pop(key, None) is not None else set()

    def put_service_list(self, services: Iterable[Service], *, is_whole: bool = True) -> set[ServiceKey]:
        """Take all Services; a whole list also removes the others."""
        known = {ServiceKey(each.metadata.namespace, each.metadata.name): each for each in services}
        self.is_known = True
        changed: set[ServiceKey] = set()
        for key in self.services.keys() - known.keys() if is_whole else ():
            changed |= self.delete_service(key)
        for service in known.values():
            changed |= self.put_service(service)
        return changed

    def put_endpoints_list(self, endpoints: Iterable[Endpoints], *, is_whole: bool = True) -> set[ServiceKey]:
        """Take all Endpoints; a whole list also removes the others."""
        known = {ServiceKey(each.metadata.namespace, each.metadata.name): each for each in endpoints}
        changed: set[ServiceKey] = set()
        for key in self._endpoints.keys() - known.keys() if is_whole else ():
            changed |= self.delete_endpoints(key)
        for each in known.values():
            changed |= self.put_endpoints(each)
        return changed

    def put_pod_list(self, key: ServiceKey, pods: tuple[Pod, ...]) -> set[ServiceKey]:
        """Take the pods that a cloud of 2019 lists for a Service; they may come before it."""
        if key not in self._listed and len(self._listed) >= MOST_SERVICES:
            return set()
        self._listed[key] = pods[:MOST_BACKENDS]
        return {key}

    def replace(
        self, services: Iterable[Service], slices: Iterable[EndpointSlice], endpoints: Iterable[Endpoints]
    ) -> set[ServiceKey]:
        """Take all of the node's store; return the Services that differ. Slices are taken one after the other, so that
        not all of them are in memory.
        """
        is_known = self.is_known
        changed = self.put_service_list(services) | self.put_endpoints_list(endpoints)
        self.is_known = is_known or bool(self.services)
        gone = set(self._slice_of)
        for slice_ in slices:
            gone.discard((slice_.metadata.namespace, slice_.metadata.name))
            changed |= self.put_slice(slice_)
        for name in gone:
            changed |= self.delete_slice(*name)
        return changed

    def set_pods(self, pods: tuple[Pod, ...]) -> set[ServiceKey]:
        """Take the node's pods; return the Services of pods that look different to a Service."""
        self.pods = pods
        known, self._looks = self._looks, {}
        changed: list[Pod] = []
        for pod in pods:
            uid = pod.metadata.uid
            before = known.pop(uid, None)
            if before is not None and before[0] is pod:
                self._looks[uid] = before
                continue
            look = (pod, _service_facts(pod))
            self._looks[uid] = look
            if before is None or before[1] != look[1]:
                changed.extend([pod] if before is None else [before[0], pod])
        changed.extend(pod for pod, _ in known.values())
        return self._selecting(changed)

    def backends(self, key: ServiceKey) -> list[MeshBackend]:
        """Return the endpoints of a Service: the cloud's, but the node's own pods as they are now."""
        service = self.services.get(key)
        if service is None:
            return []
        given = self._given(key, service)
        if service.spec.selector:
            own = list(backends_of_pods(service, self.pods, node=self._node, zone=self.zone))
            if self.is_settled or any(each.ready for each in own):
                given = [each for each in given if each.node != self._node]
            given = [*own, *given]
        return _without_strangers(given, self._node)[:MOST_BACKENDS]

    def _given(self, key: ServiceKey, service: Service) -> list[MeshBackend]:
        """Return the cloud's endpoints. Of a Service that keeps to node groups each version of KubeEdge's cloud sends
        the node's part as Endpoints, and slices without the group.
        """
        packed = self._endpoints.get(key)
        if slices := self._slices.get(key):
            found = [each for packed_slice in slices.values() for each in _unpack(packed_slice)]
            is_ranged = service.metadata.annotations.topology == NODE_GROUP_TOPOLOGY
            if not is_ranged or packed is None or any(each.group for each in found):
                return found
        elif key in self._listed:
            return list(backends_of_other_nodes(service, self._listed[key], self._node))
        return _unpack(packed) if packed is not None else []

    def _selecting(self, pods: Sequence[Pod]) -> set[ServiceKey]:
        by_namespace: dict[str, list[Pod]] = defaultdict(list)
        for pod in pods:
            by_namespace[pod.metadata.namespace].append(pod)
        return {
            key
            for key, service in self.services.items()
            if key.namespace in by_namespace and any(selects(service, pod) for pod in by_namespace[key.namespace])
        }


def own_addresses(pods: Iterable[Pod]) -> frozenset[str]:
    """Return the addresses of the pods that are not on the node's network."""
    return frozenset(
        address
        for pod in pods
        if not pod.spec.host_network
        for text in addresses_of_pod(pod)
        if (address := endpoint_address(text))
    )


def _without_strangers(backends: list[MeshBackend], node: str) -> list[MeshBackend]:
    """Leave out endpoints of other nodes with the address of an own one: packets would reach the own one."""
    own = {each.address for each in backends if each.node == node}
    return [each for each in backends if each.node == node or each.address not in own]


def _sharing(service: Service) -> Service:
    """Return a Service that shares equal texts with other Services: a tenth less memory in all."""
    metadata, spec = service.metadata, service.spec
    ports = tuple(replace(each, name=sys.intern(each.name), protocol=sys.intern(each.protocol)) for each in spec.ports)
    return replace(
        service,
        metadata=replace(
            metadata,
            namespace=sys.intern(metadata.namespace),
            name=sys.intern(metadata.name),
            creation_timestamp=sys.intern(metadata.creation_timestamp),
        ),
        spec=replace(
            spec,
            ports=ports,
            type=sys.intern(spec.type),
            cluster_ips=(spec.cluster_ip,) if spec.cluster_ips == (spec.cluster_ip,) else spec.cluster_ips,
            session_affinity=sys.intern(spec.session_affinity),
            external_traffic_policy=sys.intern(spec.external_traffic_policy),
            internal_traffic_policy=sys.intern(spec.internal_traffic_policy),
            traffic_distribution=sys.intern(spec.traffic_distribution),
            selector={sys.intern(name): sys.intern(value) for name, value in spec.selector.items()},
        ),
    )


def _service_facts(pod: Pod) -> object:
    """Return the facts of a pod that Services use."""
    status, metadata = pod.status, pod.metadata
    ready = [each.status for each in status.conditions if each.type == "Ready"]
    is_deleted = metadata.deletion_timestamp is not None
    return metadata.labels, status.phase, ready, is_deleted, tuple(addresses_of_pod(pod)), pod.spec


def _pack(backends: list[MeshBackend]) -> bytes:
    """Return endpoints in a small part of the memory that they take as objects; they are unpacked when their Service
    changes.
    """
    return zlib.compress(_encoded(backends), 1)


def _unpack(packed: bytes) -> list[MeshBackend]:
    return _decoded(zlib.decompress(packed))
