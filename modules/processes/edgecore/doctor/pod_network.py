"""The network of pods of a runtime inside edgecore: its configuration, its programs, and whether packets are forwarded.

Nothing is changed; what only root may read is not known to others.
"""

import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.doctor.facts import PodNetworkNeeds
from modules.processes.edgecore.doctor.oci import SEARCHED
from modules.processes.edgecore.rootless import is_rootless
from modules.runtimes.oci.programs import PLUG_INS

if TYPE_CHECKING:
    from modules.runtimes.oci.network.configuration import NetworkConfiguration

_BRIDGE: Final = "bridge"
_DEFAULT_BRIDGE: Final = "cni0"
"""Name that the plug-in bridge gives to a bridge without one."""
_FIREWALL: Final = "firewall"
"""The plug-in that accepts packets of pods by rules of its own."""
_SWITCHES: Final = {4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"}
_PROGRAMS: Final = {4: "iptables", 6: "ip6tables"}
"""By IP version, the kernel's switch of forwarding and the program of the firewall."""
_PARAMETERS: Final = Path("/proc/sys")


def needs(config: EdgeCoreConfig, plugins: Sequence[Path] = PLUG_INS, searched: str = SEARCHED) -> PodNetworkNeeds:
    """Return the facts about the network on this machine, see `_needs`."""
    from edged.pod_workers.host_dns import read_host_dns  # noqa: PLC0415 - with the CRI's messages

    dns = read_host_dns(config.modules.edged.tailored_kubelet_config.resolv_conf)
    return replace(_needs(config, plugins, searched), name_servers=dns.unreachable)


def _needs(config: EdgeCoreConfig, plugins: Sequence[Path], searched: str) -> PodNetworkNeeds:
    """Return the facts about the network on this machine but for names.

    Args:
        config: of the node.
        plugins: directories of CNI plug-ins.
        searched: directories of programs, separated by colons.
    """
    from modules.runtimes.oci.network.bridge import addresses_of_bridge  # noqa: PLC0415 - other nodes have none
    from modules.runtimes.oci.network.configuration import find_plugin, programs_of  # noqa: PLC0415
    from modules.runtimes.oci.network.errors import NetworkConfigurationError  # noqa: PLC0415

    missing = () if shutil.which("iptables", path=searched) else ("iptables",)
    try:
        source, network = _network(config)
    except (NetworkConfigurationError, OSError) as error:
        return PodNetworkNeeds(missing=missing, problem=str(error))
    absent = [kind for kind in programs_of(network) if find_plugin(kind, plugins) is None]
    if absent:
        missing = (*missing, f"CNI plug-ins ({', '.join(absent)})")
    if is_rootless(config):
        return PodNetworkNeeds(source=source, missing=missing)
    bridge = _bridge(network)
    versions = {each.version for each in addresses_of_bridge(bridge)} if bridge else set()
    return PodNetworkNeeds(
        source=source,
        missing=missing,
        bridge=bridge if versions else "",
        switched_off=tuple(_SWITCHES[each] for each in sorted(versions) if _is_off(_SWITCHES[each])),
        dropping=tuple(_PROGRAMS[each] for each in sorted(versions) if _drops(_PROGRAMS[each], bridge)),
    )


def _network(config: EdgeCoreConfig) -> "tuple[str, NetworkConfiguration]":
    """Return the path of the file, empty for edgecore's own network, and the network."""
    from modules.runtimes.oci.network.configuration import find_configuration, read_configuration  # noqa: PLC0415
    from modules.runtimes.oci.network.default_network import default_configuration  # noqa: PLC0415

    path = None if is_rootless(config) else find_configuration(config.modules.edged.cni_conf_dir)
    ranges = config.modules.edged.tailored_kubelet_config.pod_cidr
    return (str(path), read_configuration(path)) if path else ("", default_configuration(ranges))


def _bridge(network: "NetworkConfiguration") -> str:
    """Return the bridge whose packets the machine's rules decide about; empty if other programs do."""
    first = network.plugins[0]
    if first["type"] != _BRIDGE or any(each["type"] == _FIREWALL for each in network.plugins):
        return ""
    return str(first.get(_BRIDGE) or _DEFAULT_BRIDGE)


def _is_off(switch: str) -> bool:
    try:
        return (_PARAMETERS / switch.replace(".", "/")).read_text().strip() == "0"
    except OSError:
        return False  # not known


def _drops(program: str, bridge: str) -> bool:
    from modules.runtimes.oci.network.errors import PodNetworkError  # noqa: PLC0415
    from modules.runtimes.oci.network.firewall import read_rules  # noqa: PLC0415

    with suppress(PodNetworkError):  # not root
        return read_rules(program).drops_forwarded(bridge)
    return False
