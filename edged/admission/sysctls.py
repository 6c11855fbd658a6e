"""Sysctls that a pod may set: the harmless ones that stay in its own namespaces.

A parameter without a namespace would change the node for every pod; a runtime rejects some of them only. The list of
safe ones is Kubernetes'; others are allowed by the node's configuration (kubelet's sysctl allowlist).
"""

from collections.abc import Iterable

from edged.api import Pod

SAFE = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    }
)
"""Kubernetes' safe sysctls."""

_OF_IPC = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_OF_NETWORK = ("net.",)


def forbidden_sysctl(pod: Pod, allowed: Iterable[str] = ()) -> str | None:
    """Return why a pod may not set one of its sysctls, in a kubelet's words; None when it may set all.

    Args:
        pod: the pod.
        allowed: names beside the safe ones, with dots or slashes; `kernel.msg*` stands for all with this prefix.
    """
    patterns = [pattern.replace("/", ".") for pattern in allowed]
    context = pod.spec.security_context
    for sysctl in context.sysctls if context is not None else ():
        name = sysctl.name.replace("/", ".")
        if name not in SAFE and not any(_matches(name, pattern) for pattern in patterns):
            return f'forbidden sysctl: "{sysctl.name}" not allowlisted'
        if pod.spec.host_network and name.startswith(_OF_NETWORK):
            return f'forbidden sysctl: "{sysctl.name}" not allowed with host net enabled'
        if pod.spec.host_ipc and name.startswith(_OF_IPC):
            return f'forbidden sysctl: "{sysctl.name}" not allowed with host ipc enabled'
    return None


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
