"""Networks of pods: namespaces without a process that holds them, and CNI plug-ins.

`PodNamespaces` pins the namespaces of a sandbox; `PodNetwork` attaches them to the network that the CNI configuration
of the machine describes, or to edgecore's own (`DefaultNetwork`) where there is none.
"""

from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.errors import (
    NetworkConfigurationError,
    PodNamespaceError,
    PodNetworkError,
    TryAgainLaterError,
)
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall
from modules.runtimes.oci.network.namespaces import PinnedNamespaces, PodNamespaces
from modules.runtimes.oci.network.pod_network import BINARY_DIRECTORIES, NetworkStatus, PodNetwork
from modules.runtimes.oci.network.resolv_conf import resolv_conf
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.network.user_namespaces import IdRange, UserMapping

__all__ = [
    "BINARY_DIRECTORIES",
    "AttachedSandbox",
    "DefaultNetwork",
    "IdRange",
    "LoopbackFirewall",
    "NetworkConfigurationError",
    "NetworkStatus",
    "PinnedNamespaces",
    "PodNamespaceError",
    "PodNamespaces",
    "PodNetwork",
    "PodNetworkError",
    "TryAgainLaterError",
    "UserMapping",
    "in_network_namespace",
    "resolv_conf",
]
