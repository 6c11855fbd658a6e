"""The host ports of one sandbox: whether they are free, and whether the firewall has the rules of portmap."""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from beehive.sockets.ports import ListeningSocket, listeners
from modules.runtimes.engine.errors import WrongStateError
from modules.runtimes.oci.network.attachment import Attachment
from modules.runtimes.oci.network.capabilities import PORT_MAPPINGS, runtime_config
from modules.runtimes.oci.network.firewall import IPV4, IPV6, SavedRules
from modules.runtimes.oci.network.results import addresses_of

PORTMAP: Final = "portmap"

_NAT: Final = "nat"
_CHAIN: Final = "CNI-HOSTPORT-DNAT"
_DESTINATION: Final = " --to-destination "
_ENTRANCES: Final = ("PREROUTING", "OUTPUT")


class HostPorts:
    """The host ports of a sandbox.

    Args:
        sandbox_id: of the sandbox.
        targets: by program (IPV4, IPV6), the addresses and ports in the pod that packets go on to.
    """

    def __init__(self, sandbox_id: str, targets: Mapping[str, AbstractSet[str]]) -> None:
        self._mark = f'id: \\"{sandbox_id}\\"'
        self._targets = targets

    @property
    def programs(self) -> tuple[str, ...]:
        """IPV4, IPV6, both, or none for a sandbox without host ports."""
        return tuple(self._targets)

    def are_in(self, program: str, saved: SavedRules) -> bool:
        """Return whether all rules for an IP version are there."""
        if not all(any(each.endswith(f"-j {_CHAIN}") for each in saved.rules(_NAT, name)) for name in _ENTRANCES):
            return False
        chains = {each.rpartition(" -j ")[2] for each in saved.rules(_NAT, _CHAIN) if self._mark in each}
        found = {each.rpartition(_DESTINATION)[2] for chain in chains for each in saved.rules(_NAT, chain)}
        return self._targets[program] <= found


def host_ports_of(attachment: Attachment) -> HostPorts:
    """Return the host ports of a sandbox that is attached."""
    targets: dict[str, set[str]] = {}
    for program, target in _targets(attachment):
        targets.setdefault(program, set()).add(target)
    return HostPorts(attachment.container_id, targets)


def check_host_ports(attachment: Attachment) -> None:
    """Check that no program of this machine listens on the host ports of a sandbox: the rules would lead its clients,
    at 127.0.0.1 too, into the pod. The calling thread is in the machine's network namespace.

    Raises:
        WrongStateError: one does.
    """
    mappings = _mappings(attachment)
    known = {each["protocol"]: tuple(listeners(each["protocol"])) for each in mappings if each["protocol"] != "sctp"}
    for mapping in mappings:
        if (found := used_by(mapping, known.get(mapping["protocol"], ()))) is not None:
            attempt = f"give the pod port {mapping['hostPort']} of this machine"
            reason = f"a program of the machine listens there, on {found.address}"
            raise WrongStateError(attempt, reason, "choose another hostPort, or a hostIP that has it free")


def used_by(mapping: Mapping[str, Any], known: Iterable[ListeningSocket]) -> ListeningSocket | None:
    """Return a socket that listens on a host port; None if there is none. Pure.

    Args:
        mapping: the host port, as portmap gets it.
        known: the listening sockets of its protocol.
    """
    wanted = ip_address(mapping["hostIP"]) if mapping.get("hostIP") else None
    for each in known:
        address = (each.address.ipv4_mapped or each.address) if isinstance(each.address, IPv6Address) else each.address
        is_dual = address.version == 6 and address.is_unspecified  # it takes IPv4 as well
        is_of_family = wanted is None or is_dual or address.version == wanted.version
        is_any = wanted is None or wanted.is_unspecified or address.is_unspecified
        if each.port == mapping["hostPort"] and is_of_family and (is_any or address == wanted):
            return each
    return None


def _targets(attachment: Attachment) -> Iterator[tuple[str, str]]:
    mappings = _mappings(attachment)
    if not mappings or attachment.result is None:
        return
    addresses = addresses_of(attachment.result)
    for address in (addresses.ip, *addresses.additional):
        is_ipv6 = ":" in address
        for mapping in mappings:
            host = mapping.get("hostIP", "")
            if not host or (":" in host) == is_ipv6:
                where = f"[{address}]" if is_ipv6 else address
                yield IPV6 if is_ipv6 else IPV4, f"{where}:{mapping['containerPort']}"


def _mappings(attachment: Attachment) -> list[dict[str, Any]]:
    """Return the host ports that the plug-in was told; none when the network has no such plug-in."""
    for plugin in attachment.network.plugins:
        if plugin["type"] == PORTMAP:
            return list(runtime_config(plugin, attachment.capabilities).get(PORT_MAPPINGS, ()))
    return []
