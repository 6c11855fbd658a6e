"""The network of pods on a machine without a CNI configuration: a bridge of edgecore's own.

Pods reach each other, the node, and other networks in the node's name. One rule masquerades all of them, because a rule
for each pod, which the bridge plug-in can make, costs more than half of a pod's start. Within ranges that are routed
between nodes, pods are seen with their own addresses, as Kubernetes' network model demands. Two more rules let their
packets be forwarded where that is not the rule, as beside Docker. Leases are in /run: the restart of a machine frees
them.
"""

import ipaddress
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive import Clock
from beehive.files.removal import remove_tree
from beehive.printable import printable
from modules.runtimes.oci.network.attachment import Attachment
from modules.runtimes.oci.network.bridge import (
    Interface,
    addresses_of_bridge,
    make_bridge,
    remove_bridge,
)
from modules.runtimes.oci.network.configuration import NetworkConfiguration, Plugin
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.firewall import (
    CHECK_SECONDS,
    IPV4,
    IPV6,
    Rule,
    SavedRules,
    change_rules,
    quoted,
    read_rules,
)
from modules.runtimes.oci.network.leases import leases_of
from modules.runtimes.oci.network.senders import Sender, Senders, sender_of

NAME: Final = "edgecore"
"""Name of the network."""
BRIDGE: Final = "edgecore0"
POD_CIDR: Final = "10.86.0.0/16"
"""Addresses of pods where none are configured; nothing outside of the node sees them."""
LEASES: Final = Path("/run/edgecore/cni")
"""host-local's directory of the addresses in use."""

_log = logging.getLogger(__name__)

PodRange = ipaddress.IPv4Network | ipaddress.IPv6Network


class DefaultNetwork:
    """The network of edgecore's own.

    Args:
        clock: for the interval between checks of the rule.
        cidrs: addresses of pods, one range for each IP version; empty for `POD_CIDR`.
        bridge: name of the bridge.
        leases: directory of the addresses in use.
        mtu: of the bridge; 0 for the kernel's choice.
        routed: ranges of pods' addresses that are routed between nodes.
    """

    def __init__(
        self,
        clock: Clock,
        cidrs: Sequence[str] = (),
        bridge: str = BRIDGE,
        leases: Path = LEASES,
        mtu: int = 0,
        routed: Sequence[str] = (),
    ) -> None:
        self._clock = clock
        self._routed = [ipaddress.ip_network(each, strict=False) for each in routed]
        self._ranges = [ipaddress.ip_network(each) for each in cidrs or (POD_CIDR,)]
        self._bridge = bridge
        self._leases = leases
        self._lock = threading.Lock()
        self._checked: float | None = None
        self._is_settled = False
        self.senders = Senders()
        """Binds the pods to their addresses."""
        self.configuration = default_configuration(cidrs, bridge, leases, mtu)

    def is_of(self, network: NetworkConfiguration) -> bool:
        """Return whether a sandbox that was attached to a network is on this bridge."""
        return network.name == NAME and network.plugins[0].get("bridge") == self._bridge

    def sender_of(self, attachment: Attachment) -> Sender | None:
        """Return a pod that is attached, as the firewall of this bridge knows it; None for pods of other networks."""
        if not self.is_of(attachment.network) or attachment.result is None:
            return None
        try:
            return sender_of(attachment.result, self._bridge)
        except ValueError as error:
            _log.warning("%s can send with addresses of other pods: %s", attachment.container_id, printable(str(error)))
            return None

    def prepare(self) -> None:
        """Ensure that pods reach other networks. Raises PodNetworkError."""
        with self._lock:
            if not self._is_settled:
                self._settle()
                self._is_settled = True
            self._make_bridge()
            if self._checked is None or self._clock.monotonic() - self._checked >= CHECK_SECONDS:
                self._restore(read_rules)

    def conflict(self) -> str:
        """Return why pods cannot have the addresses that they are to have; empty if they can. Raises OSError."""
        wrong = [each for each in addresses_of_bridge(self._bridge) if self._is_foreign(each)]
        if not wrong:
            return ""
        pods = len({each.container_id for each in leases_of(self.configuration)})
        return f"{self._bridge} has the address {wrong[0]} for {pods} pods" if pods else ""

    def is_used(self) -> bool:
        """Return whether a pod has an address of it, of this node or of another agent on the machine."""
        return next(leases_of(self.configuration), None) is not None

    def _settle(self) -> None:
        """Remove a bridge of former addresses. Raises PodNetworkError if pods are on it."""
        attempt = f"give pods addresses of {', '.join(map(str, self._ranges))}"
        try:
            if reason := self.conflict():
                hint = "remove the pods of this node, as by `kubectl drain`, or set podCIDR to the former value"
                raise PodNetworkError(attempt, reason, hint)
            if any(map(self._is_foreign, addresses_of_bridge(self._bridge))):
                self._remove_rules()
                remove_bridge(self._bridge)
        except OSError as error:
            raise PodNetworkError(attempt, f"the bridge {self._bridge}: {error}") from error

    def _make_bridge(self) -> None:
        try:
            make_bridge(self._bridge)
        except OSError as error:
            raise PodNetworkError(f"make the bridge {self._bridge}", str(error)) from error

    def _is_foreign(self, address: Interface) -> bool:
        """Return whether an address of the bridge belongs to another range than pods are to have."""
        ranges = [each for each in self._ranges if each.version == address.version]
        return bool(ranges) and address.network not in ranges

    def restore(self, read: Callable[[str], SavedRules]) -> bool:
        """Add the rules that are missing; return whether one was. Raises PodNetworkError.

        Args:
            read: returns the rules of an IP version as they are now.
        """
        with self._lock:
            return self._restore(read)

    def _restore(self, read: Callable[[str], SavedRules]) -> bool:
        changed, now = False, self._clock.monotonic()
        for pods in self._ranges:
            program = IPV6 if pods.version == 6 else IPV4
            saved = read(program)
            missing = [each for each in self._rules(pods, saved.chain_of_forwarding()) if not saved.has(each)]
            commands: dict[str, list[str]] = {}
            for rule in missing:
                commands.setdefault(rule.table, []).append(saved.adding(rule))
            if self._checked is None and (former := list(self._former(pods, saved))):
                commands.setdefault("nat", []).extend(former)
            change_rules(program, commands)
            changed = changed or bool(missing)
        self._checked = now
        return changed

    def remove(self) -> None:
        """Remove the bridge, the rules and the leases, on a machine that no longer runs pods. They may be missing."""
        with self._lock:
            self._remove_rules()
            self.senders.remove()
        with suppress(OSError):
            remove_bridge(self._bridge)
        with suppress(OSError):  # a directory above them that has more stays
            remove_tree(self._leases / NAME)
            self._leases.rmdir()
            self._leases.parent.rmdir()

    def _remove_rules(self) -> None:
        for program in (IPV4, IPV6):
            with suppress(PodNetworkError):
                change_rules(program, read_rules(program).those_of(self._comment))
        self._checked = None

    @property
    def _comment(self) -> str:
        """Names the owner of a rule, also to people who read it."""
        return f"edgecore: pods of {self._bridge}"

    def _rules(self, pods: PodRange, forwarding: str) -> list[Rule]:
        """Return the rules that let pods reach other networks with the node's address, and packets pass both ways."""
        return [
            self._masquerading(pods),
            Rule("filter", forwarding, f"-i {self._bridge}", self._comment, "ACCEPT"),
            Rule("filter", forwarding, f"-o {self._bridge}", self._comment, "ACCEPT"),
        ]

    def _masquerading(self, pods: PodRange) -> Rule:
        """Return the rule that gives pods the node's address, beyond the ranges that are routed between nodes. If
        these do not contain their own, they may know no way back to it.
        """
        routed = {each for each in self._routed if each.version == pods.version and each.prefixlen > 0}
        ranges = {pods, *routed} if any(_contains(each, pods) for each in routed) else {pods}
        widest = [each for each in ranges if not any(_contains(wider, each) for wider in ranges - {each})]
        own, *others = sorted(widest, key=lambda each: (not _contains(each, pods), _ends(each)))
        match = f"-s {pods} ! -d {own}" + "".join(f" -m iprange ! --dst-range {_ends(each)}" for each in others)
        return Rule("nat", "POSTROUTING", match, self._comment, "MASQUERADE --random-fully")

    def _former(self, pods: PodRange, saved: SavedRules) -> Iterator[str]:
        """Yield the commands that delete a former edgecore's rule, which knew other ranges."""
        wanted = self._masquerading(pods)
        for each in saved.rules(wanted.table, wanted.chain):
            if quoted(self._comment) in each and f"{wanted.match} {quoted(self._comment)}" not in each:
                yield f"-D {wanted.chain} {each}"


def _contains(wider: PodRange, other: PodRange) -> bool:
    """Return whether a range is another, or contains it; of the same IP version."""
    return wider.prefixlen <= other.prefixlen and other.network_address in wider


def _ends(pods: PodRange) -> str:
    """Return a range as iptables' match of ranges writes it."""
    return f"{pods.network_address}-{pods.broadcast_address}"


def default_configuration(
    cidrs: Sequence[str] = (), bridge: str = BRIDGE, leases: Path = LEASES, mtu: int = 0
) -> NetworkConfiguration:
    """Return the configuration of the network, as a file would have it.

    Args:
        cidrs: addresses of pods, one range for each IP version; empty for the ranges of a node that configures none.
        bridge: name of the bridge.
        leases: directory of the addresses in use.
        mtu: of the bridge; 0 for the kernel's choice.
    """
    chosen = cidrs or (POD_CIDR,)
    routes = [{"dst": "::/0" if ":" in each else "0.0.0.0/0"} for each in chosen]
    ranges = [[{"subnet": each}] for each in chosen]
    ipam = {"type": "host-local", "dataDir": str(leases), "ranges": ranges, "routes": routes}
    plugins: list[Plugin] = [
        {"type": "bridge", "bridge": bridge, "isGateway": True, "ipMasq": False, "hairpinMode": True, "mtu": mtu}
        | {"ipam": ipam},
        {"type": "portmap", "snat": True, "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
    ]
    return NetworkConfiguration(NAME, plugins, "1.0.0")
