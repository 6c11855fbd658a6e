"""Which endpoints of a Service this node uses. Pure.

Kubernetes' traffic policies and distributions, and one preference of an edge's own: endpoints of this node come first,
because other nodes are what vanishes with a link.
"""

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from modules.edge.edgemesh.backends import EVERY, MeshBackend
from modules.edge.edgemesh.objects import NODE_GROUP_TOPOLOGY, Service

LOCAL: Final = "Local"
"""The traffic policy that uses only endpoints of the client's node."""


class Prefer(StrEnum):
    """Preference among endpoints where the Service does not say."""

    NODE = "node"
    """Endpoints of this node, then of its group, of its zone, then all."""
    NONE = "none"
    """All alike but for the cloud's hints, as with kube-proxy."""


class Reason(StrEnum):
    """Why an endpoint is used or is not."""

    USED = "used"
    NO_PORT = "it does not have the port"
    UNREACHABLE = "its address is in another node's private network"
    OTHER_GROUP = "it is not in this node's group"
    OTHER_NODE = "the traffic policy is Local, and it is on another node"
    NOT_READY = "it is not ready"
    FARTHER = "nearer ones are ready"


class Here(Struct, frozen=True):
    """This node, as the selection of endpoints sees it."""

    node: str
    group: str = ""
    """Its node group; empty without one."""
    zone: str = ""
    groups: Mapping[str, str] = {}
    """Groups of other nodes that it knows."""
    own_ranges: tuple[str, ...] = ()
    """Ranges of its pods' addresses, which other nodes may have too."""
    routed: tuple[str, ...] = ()
    """Ranges of pods' addresses that reach other nodes."""
    prefer: Prefer = Prefer.NODE
    machines: frozenset[str] = frozenset()
    """Addresses of this node, of others that it knows, and of the cloud: whoever may write Services of a namespace
    would have what is sent there.
    """


class EndpointSelection(Struct, frozen=True):
    """The endpoints in use, and whether new connections without one are dropped instead of refused."""

    backends: tuple[MeshBackend, ...]
    drops: bool = False


class EndpointSelector:
    """The selection of endpoints for one node.

    Args:
        here: the node.
    """

    def __init__(self, here: Here) -> None:
        self._here = here
        self.machines = here.machines
        """Addresses that no Service takes by `externalIPs` or as a load balancer's."""
        self._own = [ipaddress.ip_network(each) for each in here.own_ranges]
        self._routed = [ipaddress.ip_network(each) for each in here.routed]

    def select(self, service: Service, policy: str, backends: Sequence[MeshBackend]) -> EndpointSelection:
        """Return the endpoints in use.

        Args:
            service: with its distribution and topology.
            policy: `internalTrafficPolicy` or `externalTrafficPolicy`.
            backends: of one port and one family.
        """
        near = [each for each in backends if self.excluded(service, each) is None]
        if policy == LOCAL:
            mine = [each for each in near if each.node == self._here.node]
            chosen = _usable(mine)
            return EndpointSelection(tuple(chosen), drops=not chosen and bool(_usable(near)))
        for wanted in self._classes(service, near):
            ready = [each for each in near if each.ready and wanted(each)]
            if ready:
                return EndpointSelection(tuple(ready))
        return EndpointSelection(tuple(_usable(near)))

    def reasons(self, service: Service, policy: str, backends: Sequence[MeshBackend]) -> list[Reason]:
        """Return for each endpoint why it is used or is not."""
        used = {id(each) for each in self.select(service, policy, backends).backends}
        return [self._reason(service, policy, each, is_used=id(each) in used) for each in backends]

    def excluded(self, service: Service, backend: MeshBackend) -> Reason | None:
        """Return why an endpoint is never used; None if it may be."""
        if not self.is_reachable(backend):
            return Reason.UNREACHABLE
        if service.metadata.annotations.topology == NODE_GROUP_TOPOLOGY and not self._in_group(backend):
            return Reason.OTHER_GROUP
        return None

    def is_reachable(self, backend: MeshBackend) -> bool:
        """Return whether packets of this node arrive at an endpoint.

        An address of another node inside this node's own range is a stranger's here: each node has the same range.
        """
        if backend.node == self._here.node:
            return True
        address = ipaddress.ip_address(backend.address)
        if any(address in each for each in self._routed if each.version == address.version):
            return True
        return not any(address in each for each in self._own if each.version == address.version)

    def _in_group(self, backend: MeshBackend) -> bool:
        if backend.node == self._here.node or backend.group == EVERY:
            return True
        group = self._here.groups.get(backend.node) or backend.group
        return bool(self._here.group) and group == self._here.group

    def _reason(self, service: Service, policy: str, backend: MeshBackend, *, is_used: bool) -> Reason:
        if is_used:
            return Reason.USED
        if excluded := self.excluded(service, backend):
            return excluded
        if policy == LOCAL and backend.node != self._here.node:
            return Reason.OTHER_NODE
        return Reason.FARTHER if backend.ready else Reason.NOT_READY

    def _classes(self, service: Service, backends: Sequence[MeshBackend]) -> list[Callable[[MeshBackend], bool]]:
        """Return the classes of endpoints, the most wanted first."""
        here = self._here

        def on_node(each: MeshBackend) -> bool:
            return each.node == here.node

        def in_group(each: MeshBackend) -> bool:
            return bool(here.group) and (here.groups.get(each.node) or each.group) == here.group

        def in_zone(each: MeshBackend) -> bool:
            return bool(here.zone) and each.zone == here.zone

        def hinted(each: MeshBackend) -> bool:
            return here.node in each.nodes if each.nodes else here.zone in each.zones

        def anywhere(_each: MeshBackend) -> bool:
            return True

        distribution = service.spec.traffic_distribution
        have_hints = bool(backends) and all(each.zones or each.nodes for each in backends if each.ready)
        if distribution in ("PreferClose", "PreferSameZone"):
            return [hinted if have_hints else in_zone, in_group, anywhere]
        if distribution == "PreferSameNode" or here.prefer is Prefer.NODE:
            return [on_node, in_group, in_zone, anywhere]
        return [hinted, anywhere] if have_hints else [anywhere]


def _usable(backends: Sequence[MeshBackend]) -> list[MeshBackend]:
    """Return the ready endpoints; without any, the terminating ones that still serve (KEP-1669)."""
    ready = [each for each in backends if each.ready]
    return ready or [each for each in backends if each.serving and each.terminating]
