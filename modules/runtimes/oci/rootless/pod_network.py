"""The pod network of a node without root: edgecore's own, on a bridge in the node's network namespace."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from beehive import Clock
from beehive.on_failure import on_failure
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network.attachment import read_attachment
from modules.runtimes.oci.network.capabilities import PORT_MAPPINGS
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, NOT_READY, NetworkStatus, PodNetwork
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.rootless.node_network import MTU, Forward, NodeNetwork
from protos.cri.v1 import api_pb2 as cri

T = TypeVar("T")

_ATTEMPT: Final = "forward a host port"
_ANY: Final = "0.0.0.0"  # noqa: S104 - host ports are on all addresses, as in Kubernetes
_OTHERS: Final = range(65_535, 1_023, -1)
"""Ports of the node's network for a pod whose own one is another's there."""
_OF_THE_MACHINE: Final = "edgecoreHost"
"""Key of a mapping for portmap, which does not know it: the address and port of the machine."""


class RootlessPodNetwork(PodNetwork):
    """The network of one node. CNI plug-ins and rules of the firewall are in the node's namespace, and so is each
    thread of this class while it works.

    Args:
        node: the node's namespace.
        clock: for deadlines.
        ranges: addresses for pods.
        leases: directory of the addresses in use, which ends with the namespace.
    """

    def __init__(self, node: NodeNetwork, clock: Clock, ranges: Sequence[str], leases: Path) -> None:
        default = DefaultNetwork(clock, ranges, leases=leases, mtu=MTU)
        super().__init__(
            leases / "none", BINARY_DIRECTORIES, clock, default=default, ranges=ranges, namespace=node.namespace
        )
        self._node = node
        self._forwards: dict[str, tuple[Forward, ...]] = {}
        self._knows_all = False
        """Whether the ports of an earlier edgecore's sandboxes are among them."""
        self._forwarding = threading.Lock()

    def status(self) -> NetworkStatus:
        """As of root's, and start slirp4netns again if it was killed."""
        try:
            self._forward()
        except PodNetworkError as error:
            return NetworkStatus(ready=False, reason=NOT_READY, message=str(error))
        return super().status()

    def attach(self, sandbox_id: str, directory: Path, netns: Path, config: cri.PodSandboxConfig) -> PodAddresses:
        """As root's, and let the machine's ports lead to the sandbox."""
        self._forward()
        wanted = self._reserve_ports(sandbox_id, config)
        with on_failure(lambda: self._give_back(sandbox_id)):
            addresses = self._within(super().attach, sandbox_id, directory, netns, config)
        try:
            self._forward(wanted)
        except BaseException:
            with suppress(PodNetworkError, OSError):  # the removal of the sandbox tries again
                self.detach(sandbox_id, directory, netns)
            raise
        return addresses

    def detach(self, sandbox_id: str, directory: Path, netns: Path | None) -> None:
        """As root's; also while there is no slirp4netns."""
        with suppress(PodNetworkError):
            self._forward()
        self._within(super().detach, sandbox_id, directory, netns)
        self._give_back(sandbox_id)

    def collect(self, alive: set[str]) -> None:
        """As root's."""
        with suppress(PodNetworkError):  # `status` says it
            self._forward()
        self._within(super().collect, alive)

    def watch(self, sandboxes: Mapping[str, AttachedSandbox]) -> None:
        """As root's, and take over the ports of the machine."""
        for sandbox_id, sandbox in sandboxes.items():
            try:
                attachment = read_attachment(sandbox.directory)
            except (OSError, ValueError):  # root's says it
                continue
            if attachment is not None:
                mappings = attachment.capabilities.get(PORT_MAPPINGS, ())
                self._forwards[sandbox_id] = tuple(map(_kept_forward, mappings))
        self._knows_all = True
        with suppress(PodNetworkError):  # `status` says it
            self._forward()
        self._within(super().watch, sandboxes)

    def _demands(self, sandbox_id: str, config: cri.PodSandboxConfig) -> dict[str, Any]:
        """As root's. Portmap leads on what comes to the ports of the node's network; the machine's are kept beside."""
        demands = super()._demands(sandbox_id, config)
        taken = self._forwards.get(sandbox_id, ())
        for mapping, forward in zip(demands.get(PORT_MAPPINGS, ()), taken, strict=True):
            mapping |= {"hostPort": forward.inner, _OF_THE_MACHINE: [forward.address, forward.port]}
            mapping.pop("hostIP", None)
        return demands

    def _reserve_ports(self, sandbox_id: str, config: cri.PodSandboxConfig) -> tuple[Forward, ...]:
        """Reserve ports of the node's network for a sandbox: two may have one port of two addresses of the machine.

        Raises PodNetworkError.
        """
        wanted = [_outer(each) for each in config.port_mappings if each.host_port > 0]
        with self._forwarding:
            used = {(each.protocol, each.inner) for ports in self._forwards.values() for each in ports}
            taken = []
            for protocol, address, port in wanted:
                inner = next((each for each in (port, *_OTHERS) if (protocol, each) not in used), None)
                if inner is None:
                    raise PodNetworkError(_ATTEMPT, "all ports of the node's network are taken")
                used.add((protocol, inner))
                taken.append(Forward(protocol, address, port, inner))
            if taken:
                self._forwards[sandbox_id] = tuple(taken)
            return tuple(taken)

    def _give_back(self, sandbox_id: str) -> None:
        if self._forwards.pop(sandbox_id, ()):
            with suppress(PodNetworkError):  # its successor forwards none of them
                self._forward()

    def _within(self, function: Callable[..., T], *arguments: Any) -> T:
        return self._node.within(partial(function, *arguments))

    def _forward(self, demanded: Sequence[Forward] = ()) -> None:
        """Let slirp4netns live, and forward the ports of all sandboxes and no others.

        Raises PodNetworkError: there is no slirp4netns, or it cannot forward a port that is demanded.
        """
        with self._forwarding:
            present = self._node.ensure()
            wanted = {each for ports in list(self._forwards.values()) for each in ports}
            for forward, number in present.items():
                if self._knows_all and forward not in wanted:
                    self._node.remove(number)
            for forward in wanted - present.keys():
                try:
                    self._node.add(forward)
                except PodNetworkError:
                    if forward in demanded:
                        raise


def _outer(mapping: cri.PortMapping) -> tuple[str, str, int]:
    """Return the protocol, address and port by which the machine leads to a pod. Raises PodNetworkError."""
    if mapping.protocol == cri.SCTP:
        raise PodNetworkError(_ATTEMPT, "without root there is no SCTP", "use TCP or UDP")
    if ":" in mapping.host_ip:
        raise PodNetworkError(_ATTEMPT, "slirp4netns forwards ports of IPv4 alone", "leave hostIP out, or name an IPv4")
    return "udp" if mapping.protocol == cri.UDP else "tcp", mapping.host_ip or _ANY, mapping.host_port


def _kept_forward(mapping: Mapping[str, Any]) -> Forward:
    """Return the port of a mapping for portmap; of an earlier version it is on all addresses."""
    inner = mapping["hostPort"]
    address, port = mapping.get(_OF_THE_MACHINE, (_ANY, inner))
    return Forward(mapping["protocol"], address, port, inner)
