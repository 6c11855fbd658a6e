"""Looks for the firewall rules of attached sandboxes once a minute, and restores missing ones.

Whoever reloads a firewall (`iptables -F`, iptables-restore, firewalld) removes the rules of others, and no plug-in is
called then. Each look is one `iptables-save`, and one more if pods have IPv6; the table that binds pods to their
addresses is read without a process. Without sandboxes there is no look.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from beehive import Clock
from beehive.clock import Timer
from beehive.printable import printable
from modules.runtimes.engine.errors import RequestRefusedError
from modules.runtimes.oci.network.attachment import Attachment
from modules.runtimes.oci.network.default_network import DefaultNetwork
from modules.runtimes.oci.network.firewall import CHECK_SECONDS, SavedRules, read_rules
from modules.runtimes.oci.network.host_ports import HostPorts, host_ports_of
from modules.runtimes.oci.network.kernel import in_network_namespace
from modules.runtimes.oci.network.loopback_firewall import LoopbackFirewall
from modules.runtimes.oci.network.senders import Sender

_log = logging.getLogger(__name__)

_THREAD: Final = "pod-network-rules"


class AttachedSandbox(msgspec.Struct, frozen=True):
    """A sandbox that is attached to the network."""

    directory: Path
    """The directory with its attachment."""
    netns: Callable[[], Path | None]
    """Returns its network namespace, or None."""


class _Watched(msgspec.Struct, frozen=True):
    sandbox: AttachedSandbox
    is_own: bool
    sender: Sender | None
    ports: HostPorts


class RuleWatch:
    """The watch over the rules of one machine.

    Args:
        clock: for the interval.
        default: edgecore's own network; None without one.
        loopback: the rule for the machine's 127.0.0.0/8, which all networks need.
        repeat_ports: makes the rules for host ports of a sandbox again, if it is still attached; raises
            RequestRefusedError.
        namespace: network namespace that has the rules; None for that of the calling thread.
    """

    def __init__(
        self,
        clock: Clock,
        default: DefaultNetwork | None,
        loopback: LoopbackFirewall,
        repeat_ports: Callable[[str, AttachedSandbox], None],
        namespace: Path | None = None,
    ) -> None:
        self._clock = clock
        self._default = default
        self._loopback = loopback
        self._repeat_ports = repeat_ports
        self._namespace = namespace
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._timer: Timer | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._complaint = ""

    def add(self, sandbox_id: str, sandbox: AttachedSandbox, attachment: Attachment) -> None:
        """Look after the rules of a sandbox from now on."""
        default = self._default
        is_own = default is not None and default.is_of(attachment.network)
        sender = default.sender_of(attachment) if default is not None else None
        watched = _Watched(sandbox, is_own, sender, host_ports_of(attachment))
        with self._lock:
            self._watched[sandbox_id] = watched
            if self._timer is None and not self._closed:
                self._timer = self._clock.every(CHECK_SECONDS, self.begin)

    def discard(self, sandbox_id: str) -> None:
        """Look after a sandbox no more; it may be unknown."""
        with self._lock:
            self._watched.pop(sandbox_id, None)
            if not self._watched and self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def is_idle(self) -> bool:
        """Return whether there is no sandbox to look after."""
        with self._lock:
            return not self._watched

    def close(self) -> None:
        """End, and wait for a look under way."""
        with self._lock:
            self._closed, thread = True, self._thread
            if self._timer is not None:
                self._timer.cancel()
        if thread is not None:
            thread.join()

    def begin(self) -> None:
        """Look for the rules on a thread of its own, unless one is at it, or there is no sandbox."""
        with self._lock:
            if self._closed or not self._watched or (self._thread is not None and self._thread.is_alive()):
                return
            thread = threading.Thread(target=self._run, name=_THREAD, daemon=True)
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        if self._namespace is None:
            self.check()
        else:
            in_network_namespace(self._namespace, self.check)

    def check(self) -> None:
        """Look for the rules, and restore missing ones. A failure is logged once, and tried again."""
        with self._lock:
            watched = dict(self._watched)
        try:
            self._check(watched)
        except (RequestRefusedError, ValueError, OSError) as error:
            if str(error) != self._complaint and not self._closed:
                _log.warning("the firewall rules of pods cannot be looked after: %s", printable(str(error)))
            self._complaint = str(error)
        else:
            self._complaint = ""

    def _check(self, watched: Mapping[str, _Watched]) -> None:
        read = _Once()
        own = self._default if any(each.is_own for each in watched.values()) else None
        restored = [each.restore(read) for each in (self._loopback, own) if each is not None]
        if own is not None:
            restored.append(own.senders.restore([each.sender for each in watched.values() if each.sender is not None]))
        if any(restored):
            _log.warning("firewall rules of pods were missing and are restored; was a firewall reloaded?")
        lost = {name: each for name, each in watched.items() if not _is_complete(each.ports, read)}
        failures: list[Exception] = []
        for sandbox_id, each in lost.items():
            _log.warning("firewall rules for host ports of sandbox %s are missing, and are restored", sandbox_id)
            try:
                self._repeat_ports(sandbox_id, each.sandbox)
            except (RequestRefusedError, ValueError, OSError) as error:
                failures.append(error)
        if failures:
            raise failures[0]
        if lost:
            self._give_up(lost)

    def _give_up(self, repeated: Mapping[str, _Watched]) -> None:
        """Look no more for rules that are not to be seen: the plug-in makes them elsewhere, as with nftables."""
        read = _Once()
        with self._lock:
            for sandbox_id, each in repeated.items():
                if self._watched.get(sandbox_id) is each and not _is_complete(each.ports, read):
                    _log.warning("firewall rules for host ports of sandbox %s are not iptables' own", sandbox_id)
                    self._watched[sandbox_id] = msgspec.structs.replace(each, ports=HostPorts(sandbox_id, {}))


class _Once:
    """The rules of each IP version, read when they are first asked for."""

    def __init__(self) -> None:
        self._read: dict[str, SavedRules] = {}

    def __call__(self, program: str) -> SavedRules:
        if program not in self._read:
            self._read[program] = read_rules(program)
        return self._read[program]


def _is_complete(ports: HostPorts, read: _Once) -> bool:
    return all(ports.are_in(program, read(program)) for program in ports.programs)
