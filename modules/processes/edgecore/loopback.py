"""Keeps pods from what listens on 127.0.0.1 of the node, beside a container runtime that is another program.

A kubelet makes the rule for every runtime. This one makes it once the kernel would take such packets at all, because a
CNI plug-in has set `route_localnet`; so a node without host ports needs no iptables. The runtimes inside edgecore see
to the rule themselves, before the first pod.
"""

import logging
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from beehive import Clock
from beehive.clock import Timer
from beehive.printable import printable

if TYPE_CHECKING:
    from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall

_log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 10.0
_THREAD: Final = "loopback-rule"
_INTERFACES: Final = Path("/proc/sys/net/ipv4/conf")


class LoopbackWatch:
    """The watch over one machine, which begins with `start`.

    Args:
        clock: for the interval between two readings of the kernel's parameters.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._firewall: LoopbackFirewall | None = None
        self._timer: Timer | None = None
        self._complaint = ""

    def start(self) -> None:
        """Look now, and again and again."""
        self.reconcile()
        self._timer = self._clock.every(LOOK_SECONDS, self._begin)

    def close(self) -> None:
        """End, and wait for a look under way."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _begin(self) -> None:
        """Look on a thread of its own, unless one is at it: iptables may take seconds."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                thread = threading.Thread(target=self.reconcile, name=_THREAD, daemon=True)
                thread.start()
                self._thread = thread

    def reconcile(self) -> None:
        """Make the rule if it is needed and missing. A failure is logged once, and tried again."""
        if not _accepts_loopback_of_others():
            return
        from modules.runtimes.oci.network.errors import PodNetworkError  # noqa: PLC0415 - most nodes do not need it
        from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall  # noqa: PLC0415 - most nodes do not need it

        self._firewall = self._firewall or LoopbackFirewall(self._clock)
        try:
            self._firewall.prepare()
            self._complaint = ""
        except PodNetworkError as error:
            if str(error) != self._complaint:
                _log.warning("pods may reach what listens on 127.0.0.1 of this machine: %s", printable(str(error)))
            self._complaint = str(error)


def _accepts_loopback_of_others() -> bool:
    """Return whether an interface takes packets for 127.0.0.0/8."""
    for each in _INTERFACES.iterdir():
        with suppress(OSError):  # it has just gone
            if (each / "route_localnet").read_text().strip() == "1":
                return True
    return False
