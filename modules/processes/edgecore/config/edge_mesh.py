"""Settings of edgemesh. The section has the name in KubeEdge's edgecore, which had the module until 2021."""

import ipaddress
from enum import StrEnum
from typing import Annotated, Final

from msgspec import field

from modules.processes.edgecore.config.names import DNS_DOMAIN, IP_ADDRESS
from modules.processes.edgecore.config.section import Section
from modules.processes.edgecore.config.value_kinds import (
    Choice,
    Switch,
    TextList,
    TextMap,
    UnfitError,
    ValueKind,
)

FOREIGN_INTERFACE: Final = "edgemesh0"
"""Network interface of KubeEdge's edgemesh-agent."""
_MOST_RANGES: Final = 2
_MOST_ROUTED: Final = 32
_MOST_DOMAINS: Final = 32
_MOST_SERVERS: Final = 8


class DataPlaneKind(StrEnum):
    """What carries connections to Services."""

    AUTO = "auto"
    NFT = "nft"
    USERSPACE = "userspace"
    NONE = "none"


class Preference(StrEnum):
    """Which endpoints come first where a Service does not say."""

    NODE = "node"
    NONE = "none"


class Cidr(ValueKind[str]):
    """A range of IP addresses."""

    expected = "a range of addresses such as 10.96.0.0/16"

    def read(self, value: object) -> str:
        """Read a range; bits beyond the prefix must be 0."""
        if not isinstance(value, str):
            raise UnfitError
        try:
            return str(ipaddress.ip_network(value))
        except ValueError:
            raise UnfitError from None


class EdgeMeshOptions(Section, frozen=True, kw_only=True):
    """Services on the node: their addresses and names, without a cloud too."""

    enable: Annotated[bool, Switch()] = False
    """Whether pods reach Services. Off where KubeEdge's edgemesh-agent or kube-proxy runs on the node."""

    data_plane: Annotated[DataPlaneKind, Choice(DataPlaneKind)] = DataPlaneKind.AUTO
    """What carries connections: nftables in the kernel (as root, or for isolated pods without); a proxy of edgecore; or
    only names. `auto` takes the first that works."""

    dns: Annotated[bool, Switch()] = True
    """Whether pods with dnsPolicy ClusterFirst ask this node for names: of Services from its own knowledge, all others
    from the host's servers. As `nft`, it needs root or isolated pods."""

    dns_address: Annotated[str, IP_ADDRESS] = "169.254.20.10"
    """Address of the name server. Pods keep it, so it does not change while they run."""

    prefer: Annotated[Preference, Choice(Preference)] = Preference.NODE
    """Which endpoints a Service without a traffic distribution uses: this node's, then its node group's, its zone's,
    then all; or all alike, as with kube-proxy."""

    stub_domains: Annotated[dict[str, str], TextMap(DNS_DOMAIN, IP_ADDRESS, _MOST_DOMAINS)] = field(
        default_factory=dict
    )
    """Name servers of domains, for those below them."""

    upstream: Annotated[tuple[str, ...], TextList(IP_ADDRESS, _MOST_SERVERS)] = ()
    """Name servers for all other names. Default empty: as in the host's resolv.conf."""

    routed_pod_cidrs: Annotated[tuple[str, ...], TextList(Cidr(), _MOST_ROUTED)] = field(
        default=(), name="routedPodCIDRs"
    )
    """Ranges of pods' addresses that reach other nodes, by WireGuard or a CNI of the whole cluster. Others inside this
    node's own range are left out: each node may have the same. If one contains it, isolated pods are seen in all of
    them with their own addresses; elsewhere with the node's."""

    serve_stale: Annotated[bool, Switch()] = True
    """Whether an answer of another name server is served for a day after its time while no server answers."""

    service_cidrs: Annotated[tuple[str, ...], TextList(Cidr(), _MOST_RANGES)] = field(
        default=("10.96.0.0/16",), name="serviceCIDRs"
    )
    """Ranges of Services' addresses, which are routed to the node itself."""
