"""A pod's requests to its network, for the plug-ins that declare the capability (CNI conventions)."""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any, Final

from beehive.patterns import pattern
from modules.runtimes.engine.errors import BadRequestError
from modules.runtimes.oci.network.configuration import Plugin
from protos.cri.v1 import api_pb2 as cri

INGRESS: Final = "kubernetes.io/ingress-bandwidth"
EGRESS: Final = "kubernetes.io/egress-bandwidth"
PORT_MAPPINGS: Final = "portMappings"
"""Capability of the plug-in portmap."""

_BANDWIDTH: Final = "bandwidth"
OF_UNKNOWN: Final = {PORT_MAPPINGS: [{"hostPort": 1, "containerPort": 1, "protocol": "tcp"}]}
"""Values for detaching a sandbox whose requests are not known: portmap removes all rules of a sandbox, by its id, if it
is told of a port of it.
"""

_OPTIONAL: Final = {"portmap": PORT_MAPPINGS, "bandwidth": _BANDWIDTH}
"""Plug-ins that only hand on the result when a pod does not ask for their capability."""

_QUANTITY: Final = pattern(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)(m|[kMGTPE]|[KMGTPE]i|[eE][0-9]{1,2})?")
_SUFFIXES: Final = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18} | {
    f"{letter}i": float(1024**power) for power, letter in enumerate("KMGTPE", 1)
}
_LEAST_RATE, _MOST_RATE = 1_000, 10**15
"""Bits per second that a pod may ask for (kubelet)."""
_BURST: Final = (2**31 - 1) * 8
"""Bits; the plug-in wants a number."""
_LARGEST_PORT: Final = 65535
_PROTOCOLS: Final = {cri.TCP: "tcp", cri.UDP: "udp", cri.SCTP: "sctp"}


def capability_arguments(config: cri.PodSandboxConfig, ranges: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values of all capabilities that a pod has something for.

    Args:
        config: of the sandbox.
        ranges: the node's ranges of addresses for pods, as CIDR; empty to leave them to the configuration.

    Raises:
        BadRequestError: a bandwidth or an address cannot be read, or there is no such port.
    """
    dns = config.dns_config
    values = {
        PORT_MAPPINGS: [_port_mapping(each) for each in config.port_mappings if each.host_port > 0],
        _BANDWIDTH: _bandwidth(config.annotations),
        "dns": {"servers": [*dns.servers], "searches": [*dns.searches], "options": [*dns.options]}
        if dns.servers or dns.searches or dns.options
        else {},
        "ipRanges": [[{"subnet": each}] for each in ranges],
        "cgroupPath": config.linux.cgroup_parent,
        "io.kubernetes.cri.pod-annotations": dict(config.annotations),
    }
    return {name: value for name, value in values.items() if value}


def runtime_config(plugin: Plugin, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the capabilities that a plug-in declares."""
    declared = plugin.get("capabilities", {})
    return {name: value for name, value in values.items() if declared.get(name) is True}


def has_nothing_to_do(plugin: Plugin, values: Mapping[str, Any]) -> bool:
    """Return whether a plug-in would only hand on the result: portmap for a pod without host ports, for instance.

    Each program costs some milliseconds of a pod's start.
    """
    capability = _OPTIONAL.get(plugin["type"])
    limited = "ingressRate" in plugin or "egressRate" in plugin
    return capability is not None and not values.get(capability) and not limited


def _port_mapping(mapping: cri.PortMapping) -> dict[str, Any]:
    """Return a host port for portmap, which would refuse an impossible one when the pod is detached, too."""
    for port in (mapping.host_port, mapping.container_port):
        if not 0 < port <= _LARGEST_PORT:
            raise BadRequestError("give the pod a port of the machine", f"{port} is no port", "ports are 1 to 65535")
    found: dict[str, Any] = {
        "hostPort": mapping.host_port,
        "containerPort": mapping.container_port,
        "protocol": _PROTOCOLS.get(mapping.protocol, "tcp"),
    }
    return {**found, "hostIP": _host_ip(mapping.host_ip)} if mapping.host_ip else found


def _host_ip(text: str) -> str:
    try:
        return str(ip_address(text))
    except ValueError:
        attempt = "give the pod a port of the machine"
        raise BadRequestError(attempt, f"{text[:100]!r} is no IP address", "mend hostIP") from None


def _bandwidth(annotations: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for annotation, rate, burst in ((INGRESS, "ingressRate", "ingressBurst"), (EGRESS, "egressRate", "egressBurst")):
        if text := annotations.get(annotation):
            found |= {rate: _bits(annotation, text), burst: _BURST}
    return found


def _bits(annotation: str, text: str) -> int:
    """Return a Kubernetes quantity as whole bits per second."""
    match = _QUANTITY.fullmatch(text)
    attempt = f"limit the bandwidth of the pod by {annotation}"
    if match is None:
        raise BadRequestError(attempt, f"{text[:100]!r} is no quantity", "10M is 10 megabits per second")
    number, suffix = float(match[1]), match[2] or ""
    bits = number * (_SUFFIXES[suffix] if suffix in _SUFFIXES else 10.0 ** int(suffix[1:]))
    if not _LEAST_RATE <= bits <= _MOST_RATE:
        raise BadRequestError(attempt, f"{text} is not between 1k and 1P")
    return int(bits)
