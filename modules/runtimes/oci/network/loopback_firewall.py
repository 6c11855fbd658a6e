"""Keeps the machine's 127.0.0.0/8 to the machine (CVE-2020-8558).

`portmap` sets `route_localnet` on the bridge of pods so that host ports work at 127.0.0.1. From then on the kernel
takes packets of pods for 127.0.0.0/8, and what listens there believes that only the machine reaches it. Kubelets and
kube-proxy drop such packets in the chain KUBE-FIREWALL. The kernel itself drops those for ::1.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from beehive import Clock
from modules.runtimes.oci.network.errors import PodNetworkError
from modules.runtimes.oci.network.firewall import CHECK_SECONDS, IPV4, Rule, SavedRules, change_rules, read_rules

_COMMENT: Final = "edgecore: loopback from elsewhere"
_OTHERS: Final = "-d 127.0.0.0/8 ! -i lo -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT"
"""Packets that did not begin on this machine. Answers of host ports at 127.0.0.1 come by a bridge as well: those are of
a connection that is known. Packets that a pod gives an address of 127.0.0.0/8 count, too."""

RULE: Final = Rule("filter", "INPUT", _OTHERS, _COMMENT, "DROP", is_first=True)


class LoopbackFirewall:
    """The rule of one machine.

    Args:
        clock: for the interval between checks of the rule.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._checked: float | None = None

    def prepare(self) -> None:
        """Ensure that the rule exists, unless that was done within the last minute. Raises PodNetworkError."""
        with self._lock:
            is_due = self._checked is None or self._clock.monotonic() - self._checked >= CHECK_SECONDS
        if is_due:
            self.restore(read_rules)

    def restore(self, read: Callable[[str], SavedRules]) -> bool:
        """Add the rule if it is missing; return whether it was. Raises PodNetworkError.

        Args:
            read: returns the rules of an IP version as they are now.
        """
        with self._lock:
            now = self._clock.monotonic()
            saved = read(IPV4)
            is_missing = not saved.has(RULE)
            if is_missing:
                change_rules(IPV4, {RULE.table: [saved.adding(RULE)]})
            self._checked = now
            return is_missing

    def remove(self) -> None:
        """Remove the rule, on a machine that no longer runs pods. It may be missing, and so may iptables."""
        with self._lock, suppress(PodNetworkError):
            self._checked = None
            change_rules(IPV4, read_rules(IPV4).those_of(_COMMENT))
