"""Checks of the facts about the network of pods. Pure."""

from collections.abc import Iterator
from typing import Final

from modules.processes.common.doctor.check_result import CheckResult, failed, ok, warning
from modules.processes.edgecore.doctor.facts import PodNetworkNeeds

_NAME: Final = "pod network"
_OWN: Final = "edgecore's own network"
_INSTALL: Final = "`apt-get install containernetworking-plugins iptables` (Debian, Ubuntu)"


def check_pod_network(needs: PodNetworkNeeds) -> Iterator[CheckResult]:
    """Check the requirements of the network of pods of a runtime inside edgecore."""
    if needs.problem:
        yield failed(_NAME, needs.problem, "pods on the host's network run meanwhile")
    if needs.missing:
        yield failed(_NAME, f"not installed: {', '.join(needs.missing)}", _INSTALL)
    if not needs.problem and not needs.missing:
        yield ok(_NAME, f"all programs of {needs.source or _OWN} are installed")
    for switch in needs.switched_off:
        text = f"{switch} is 0: packets of pods reach no other network"
        yield warning("forwarding", text, f"`sysctl -w {switch}=1`; does a file in /etc/sysctl.d set it to 0?")
    for program in needs.dropping:
        text = f"the firewall ({program}) drops forwarded packets, and accepts none of {needs.bridge}"
        by_hand = f"`{program} -I FORWARD -i {needs.bridge} -j ACCEPT`, and the same with -o"
        hint = by_hand if needs.source else "while pods run, edgecore adds its rules again within a minute"
        yield warning("forwarding", text, hint)
