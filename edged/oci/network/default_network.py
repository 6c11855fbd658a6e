"""The network of pods on a machine without a CNI configuration: a bridge of edgecore's own.

Pods reach each other, the node, and other networks in the node's name. One rule masquerades all of them, because a rule
for each pod, which the bridge plug-in can make, costs more than half of a pod's start. Leases are in /run: the restart
of a machine frees them.
"""

import fcntl
import ipaddress
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from beehive import Clock
from edged.oci.network.configuration import NetworkConfiguration
from edged.oci.network.errors import PodNetworkError
from edged.oci.network.kernel import set_interface_up

NAME: Final = "edgecore"
"""Name of the network."""
BRIDGE: Final = "edgecore0"
POD_CIDR: Final = "10.86.0.0/16"
"""Addresses of pods where none are configured; nothing outside of the node sees them."""
LEASES: Final = Path("/run/edgecore/cni")
"""The directory in which host-local keeps the addresses in use."""


_CHECK_SECONDS: Final = 60.0
"""After which the rule is looked for again: reloading a firewall removes it."""
_IPTABLES_SECONDS: Final = 30.0
_SIOCBRDELBR: Final = 0x89A1


class DefaultNetwork:
    """The network of edgecore's own.

    Args:
        clock: for the interval at which the rule is checked.
        cidrs: addresses of pods, one range for each family.
        bridge: name of the bridge.
        leases: directory of the addresses in use.
    """

    def __init__(
        self, clock: Clock, cidrs: Sequence[str] = (POD_CIDR,), bridge: str = BRIDGE, leases: Path = LEASES
    ) -> None:
        self._clock = clock
        self._ranges = [ipaddress.ip_network(each) for each in cidrs]
        self._bridge = bridge
        self._lock = threading.Lock()
        self._checked: float | None = None
        self.configuration = NetworkConfiguration(NAME, _plugins(bridge, list(cidrs), leases), "1.0.0")

    def prepare(self) -> None:
        """See to it that pods reach other networks. Raises PodNetworkError."""
        with self._lock:
            now = self._clock.monotonic()
            if self._checked is not None and now - self._checked < _CHECK_SECONDS:
                return
            for rule in map(_rule, self._ranges):
                if not _iptables("-C", rule):
                    _iptables("-A", rule, required=True)
            self._checked = now

    def remove(self) -> None:
        """Remove the bridge and the rules, on a machine that runs no pods any more. They may be missing."""
        for rule in map(_rule, self._ranges):
            with self._lock, suppress(PodNetworkError):
                while _iptables("-D", rule):
                    pass
        with suppress(OSError):
            set_interface_up(self._bridge, up=False)
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as control:
                fcntl.ioctl(control, _SIOCBRDELBR, self._bridge.encode().ljust(16, b"\0"))
        self._checked = None


def _plugins(bridge: str, cidrs: list[str], leases: Path) -> list[dict[str, Any]]:
    routes = [{"dst": "::/0" if ":" in each else "0.0.0.0/0"} for each in cidrs]
    ranges = [[{"subnet": each}] for each in cidrs]
    ipam = {"type": "host-local", "dataDir": str(leases), "ranges": ranges, "routes": routes}
    return [
        {"type": "bridge", "bridge": bridge, "isGateway": True, "ipMasq": False, "hairpinMode": True, "ipam": ipam},
        {"type": "portmap", "snat": True, "capabilities": {"portMappings": True}},
        {"type": "bandwidth", "capabilities": {"bandwidth": True}},
    ]


def _rule(pods: ipaddress.IPv4Network | ipaddress.IPv6Network) -> list[str]:
    """Return the program, chain and rule by which packets of pods to other networks get the node's address."""
    program = "ip6tables" if pods.version == 6 else "iptables"
    comment = "edgecore: pods to other networks"
    match = ["POSTROUTING", "-s", str(pods), "!", "-d", str(pods), "-m", "comment", "--comment", comment]
    return [program, *match, "-j", "MASQUERADE"]


def _iptables(command: str, rule: list[str], *, required: bool = False) -> bool:
    """Apply a command to the rule; return whether that succeeded.

    Raises:
        PodNetworkError: the program cannot be run, or it fails and is `required` to succeed.
    """
    program, chain, *match = rule
    attempt = "let pods reach other networks"
    try:
        ended = subprocess.run(
            [program, "-w", "5", "-t", "nat", command, chain, *match],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_IPTABLES_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise PodNetworkError(attempt, f"there is no {program}", "apt-get install iptables") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PodNetworkError(attempt, str(error)) from error
    if ended.returncode and required:
        raise PodNetworkError(attempt, ended.stderr.decode(errors="replace").strip()[:1000])
    return not ended.returncode
