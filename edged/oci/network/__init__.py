"""Networks of pods: namespaces without a process that holds them, and CNI plug-ins.

`PodNamespaces` pins the namespaces of a sandbox; `PodNetwork` attaches them to the network that the CNI configuration
of the machine describes, or to edgecore's own (`DefaultNetwork`) where there is none.
"""

from edged.oci.network.default_network import DefaultNetwork
from edged.oci.network.errors import NetworkConfigurationError, PodNamespaceError, PodNetworkError, TryAgainLaterError
from edged.oci.network.kernel import in_network_namespace
from edged.oci.network.loopback_firewall import LoopbackFirewall
from edged.oci.network.namespaces import PinnedNamespaces, PodNamespaces
from edged.oci.network.pod_network import BINARY_DIRECTORIES, NetworkStatus, PodNetwork
from edged.oci.network.resolv_conf import resolv_conf
from edged.oci.network.results import PodAddresses
from edged.oci.network.rule_watch import AttachedSandbox
from edged.oci.network.user_namespaces import IdRange, UserMapping

__all__ = [
    "BINARY_DIRECTORIES",
    "AttachedSandbox",
    "DefaultNetwork",
    "IdRange",
    "LoopbackFirewall",
    "NetworkConfigurationError",
    "NetworkStatus",
    "PinnedNamespaces",
    "PodAddresses",
    "PodNamespaceError",
    "PodNamespaces",
    "PodNetwork",
    "PodNetworkError",
    "TryAgainLaterError",
    "UserMapping",
    "in_network_namespace",
    "resolv_conf",
]
