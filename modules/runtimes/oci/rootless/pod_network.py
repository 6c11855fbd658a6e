"""The pod network of a node without root: edgecore's own, on a bridge in the node's network namespace."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from beehive import Clock
from modules.runtimes.engine.records import PodAddresses
from modules.runtimes.oci.network.attachment import read_attachment
from modules.runtimes.oci.network.capabilities import PORT_MAPPINGS
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, NOT_READY, NetworkStatus, PodNetwork
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.rootless.node_network import MTU, Forward, NodeNetwork
from protos.cri.v1 import api_pb2 as cri

T = TypeVar("T")

_ANY: Final = "0.0.0.0"  # noqa: S104 - host ports are on all addresses, as in Kubernetes


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
        self._forwarding = threading.Lock()

    def status(self) -> NetworkStatus:
        """As of root's, and start slirp4netns again if it was killed."""
        try:
            if self._node.ensure():
                self._forward()
        except PodNetworkError as error:
            return NetworkStatus(ready=False, reason=NOT_READY, message=str(error))
        return super().status()

    def attach(self, sandbox_id: str, directory: Path, netns: Path, config: cri.PodSandboxConfig) -> PodAddresses:
        """As root's, and let the machine's ports lead to the sandbox."""
        if self._node.ensure():
            self._forward()
        wanted = tuple(_forward_of(each) for each in config.port_mappings if each.host_port > 0)
        addresses = self._within(super().attach, sandbox_id, directory, netns, config)
        self._forwards[sandbox_id] = wanted
        try:
            self._forward(wanted)
        except BaseException:
            self.detach(sandbox_id, directory, netns)
            raise
        return addresses

    def detach(self, sandbox_id: str, directory: Path, netns: Path | None) -> None:
        """As root's."""
        self._node.ensure()
        self._within(super().detach, sandbox_id, directory, netns)
        if self._forwards.pop(sandbox_id, ()):
            self._forward()

    def collect(self, alive: set[str]) -> None:
        """As root's; nothing where there is no network."""
        try:
            self._node.ensure()
        except PodNetworkError:
            return
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
                self._forwards[sandbox_id] = tuple(
                    Forward(each["protocol"], _ANY, each["hostPort"]) for each in mappings
                )
        try:
            self._node.ensure()
            self._forward()
        except PodNetworkError:  # `status` says it
            return
        self._within(super().watch, sandboxes)

    def _within(self, function: Callable[..., T], *arguments: Any) -> T:
        return in_network_namespace(self._node.namespace, partial(function, *arguments))

    def _forward(self, demanded: Sequence[Forward] = ()) -> None:
        """Forward the ports of all sandboxes and no others. Raises PodNetworkError for a port that is demanded."""
        with self._forwarding:
            present = self._node.forwards()
            wanted = {each for ports in list(self._forwards.values()) for each in ports}
            for forward, number in present.items():
                if forward not in wanted:
                    self._node.remove(number)
            for forward in wanted - present.keys():
                try:
                    self._node.add(forward)
                except PodNetworkError:
                    if forward in demanded:
                        raise


def _forward_of(mapping: cri.PortMapping) -> Forward:
    """Return the port of the machine. Raises PodNetworkError."""
    attempt = "forward a host port"
    if mapping.host_ip not in ("", _ANY):
        raise PodNetworkError(attempt, "without root it is on all addresses", "leave hostIP out")
    if mapping.protocol == cri.SCTP:
        raise PodNetworkError(attempt, "without root there is no SCTP", "use TCP or UDP")
    return Forward("udp" if mapping.protocol == cri.UDP else "tcp", _ANY, mapping.host_port)
