"""The protocol between a service and systemd (`sd_notify`): readiness, status and watchdog, as datagrams on a socket.

systemd names the socket in `$NOTIFY_SOCKET` and the watchdog's time in `$WATCHDOG_USEC`. Without them nothing is sent.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from beehive.clock import Clock, Timer
from beehive.hive import Hive
from beehive.printable import printable
from beehive.slot import State
from beehive.sockets.unix_sockets import short_name

_log = logging.getLogger(__name__)

IDLE_PERIOD: Final = 20.0
"""Seconds between two statuses without a watchdog."""

_LONGEST_STATUS: Final = 500
_SHARE: Final = 3
"""The watchdog is fed this often in its time, so that two lost datagrams do not matter."""

_DEAD: Final = (State.FAILED, State.STARTING)
"""States of a module that does nothing. A module that waits for the cloud or for the runtime is `NOT_READY`, and alive.
"""


class ServiceManager:
    """The service manager that started this process.

    Args:
        environment: the variables are removed from it, so that containers' processes do not inherit them.
    """

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        microseconds, process = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        ours = process in ("", str(os.getpid()))
        self.watchdog_seconds = int(microseconds) / 1e6 if ours and microseconds.isdecimal() else 0.0
        """Seconds without `WATCHDOG=1` after which the process is killed; 0 without a watchdog."""

    @property
    def listens(self) -> bool:
        """Whether there is a service manager to notify."""
        return self._address[:1] in ("/", "@")

    def ready(self) -> None:
        """Announce that the service has started."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Announce that the service stops."""
        self._send("STOPPING=1", "STATUS=stopping")

    def status(self, text: str, *, alive: bool) -> None:
        """Show a line in `systemctl status`, and feed the watchdog if `alive`."""
        line = f"STATUS={printable(text)[:_LONGEST_STATUS]}"
        self._send(line, *(("WATCHDOG=1",) if alive and self.watchdog_seconds else ()))

    def _send(self, *lines: str) -> None:
        """Send a datagram. A failure is logged: the service goes on without its manager."""
        if not self.listens:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notify:
                notify.settimeout(0.0)
                self._send_to(notify, "\n".join(lines).encode())
        except OSError as error:
            _log.warning("cannot notify the service manager: %s", error.strerror or error)

    def _send_to(self, notify: socket.socket, datagram: bytes) -> None:
        if self._address.startswith("@"):
            notify.sendto(datagram, "\0" + self._address[1:])
            return
        with short_name(Path(self._address)) as name:
            notify.sendto(datagram, name)


class Watch:
    """The watch that tells the service manager regularly how the service does, until it is closed.

    Args:
        manager: the service manager.
        clock: runs the checks on its thread.
        look: returns the status, and whether the service is alive; must be quick.
    """

    def __init__(self, manager: ServiceManager, clock: Clock, look: Callable[[], tuple[str, bool]]) -> None:
        self._manager = manager
        self._look = look
        self._lock = threading.Lock()
        self._is_closed = False
        period = manager.watchdog_seconds / _SHARE or IDLE_PERIOD
        self._timer: Timer | None = clock.every(period, self._report) if manager.listens else None

    def begin(self) -> None:
        """Announce that the service has started, with its first status."""
        self._manager.ready()
        with suppress(Exception):  # a status is not worth a start
            self._report()

    def close(self) -> None:
        """Announce the stop; the watchdog is no longer fed, so a stop that hangs ends, too."""
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_closed = True
            self._manager.stopping()

    def _report(self) -> None:
        status, alive = self._look()
        with self._lock:
            if not self._is_closed:
                self._manager.status(status, alive=alive)


def dead_modules(hive: Hive) -> list[str]:
    """Return the modules that have failed and not started again yet, each with the reason."""
    return [
        f"module {name} is {readiness.state} {readiness.reason}".rstrip()
        for name, readiness in hive.readiness().items()
        if readiness.state in _DEAD
    ]
