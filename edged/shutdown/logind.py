"""systemd's logind as the source of shutdowns of the machine."""

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pykka

from beehive import Actor
from edged.errors import BusError

if TYPE_CHECKING:
    from edged.shutdown.bus import Bus, BusSignal

_log = logging.getLogger(__name__)

SYSTEM_BUS: Final = Path("/run/dbus/system_bus_socket")
NAME: Final = "org.freedesktop.login1"
PATH: Final = "/org/freedesktop/login1"
MANAGER: Final = "org.freedesktop.login1.Manager"
SIGNAL: Final = "PrepareForShutdown"
RETRY_SECONDS: Final = 60.0
"""Seconds until the next attempt after a bus was missing or lost."""


class ShutdownSource(Protocol):
    """A source that reports shutdowns of the machine and delays them."""

    def run(self, notify: Callable[[bool], None]) -> None:
        """Call `notify` with True before a shutdown and with False when it is cancelled, until `close`; blocks.

        Raises:
            BusError: the source is missing or lost.
        """

    def release(self) -> None:
        """Delay the shutdown no longer; may be called on any thread."""

    def close(self) -> None:
        """Let `run` return; may be called on any thread."""


class Logind:
    """logind on the system's bus (`ShutdownSource`); `run` may be called again until `close`.

    It holds a *delay lock*, a file descriptor: while it is open the shutdown waits, up to logind's InhibitDelayMaxSec.
    Without logind (another init system, a container) the process gets SIGPWR instead, and the shutdown does not wait.

    Args:
        seconds: sum of the seconds that the groups of pods have to end.
        path: socket of the system's bus.
    """

    def __init__(self, seconds: int, path: Path = SYSTEM_BUS) -> None:
        self._seconds = seconds
        self._path = path
        self._lock = threading.Lock()
        self._bus: Bus | None = None
        self._held: int | None = None
        self._closed = False
        self._imminent = False
        """The last value that `notify` was called with."""

    def run(self, notify: Callable[[bool], None]) -> None:
        """See `ShutdownSource`."""
        from edged.shutdown.bus import Bus  # noqa: PLC0415 - jeepney, for a node with a shutdownGracePeriod only

        with Bus(self._path) as bus:
            with self._lock:
                if self._closed:
                    return
                self._bus = bus
            try:
                bus.subscribe(MANAGER, SIGNAL)
                self._begin(bus, notify)
                while not self._closed:
                    signal = bus.receive()
                    if _is_from_logind(bus, signal):
                        self._set_imminent(bus, notify, imminent=bool(signal.body[0]))
            except BusError:
                if not self._closed:
                    raise
            finally:
                with self._lock:
                    self._bus = None
                if self._closed or not self._imminent:  # a shutdown waits for its pods although the bus is lost
                    self.release()

    def release(self) -> None:
        """See `ShutdownSource`."""
        with self._lock:
            held, self._held = self._held, None
        if held is not None:
            os.close(held)

    def close(self) -> None:
        """See `ShutdownSource`."""
        with self._lock:
            self._closed = True
            bus = self._bus
        if bus is not None:
            bus.wake()
        else:
            self.release()

    def _begin(self, bus: "Bus", notify: Callable[[bool], None]) -> None:
        """Notify of a signal that was missed: the agent started during a shutdown, or the bus was lost.

        During a shutdown logind gives no locks.
        """
        imminent = self._property(bus, "PreparingForShutdown") is True
        if imminent is not self._imminent:
            self._set_imminent(bus, notify, imminent=imminent)
        elif not imminent:
            self._acquire_lock(bus)
        self._check_delay(bus)

    def _set_imminent(self, bus: "Bus", notify: Callable[[bool], None], *, imminent: bool) -> None:
        """Notify, and take another lock after a cancellation; the notification comes first, as the lock may fail."""
        self._imminent = imminent
        notify(imminent)
        if not imminent:
            self._acquire_lock(bus)

    def _acquire_lock(self, bus: "Bus") -> None:
        why = "its pods need time to end"
        address = (PATH, NAME, MANAGER)
        descriptor = bus.call_for_descriptor(address, "Inhibit", "ssss", "shutdown", "edgecore", why, "delay")
        self.release()
        with self._lock:
            self._held = descriptor
        _log.info("a shutdown of the machine waits until its pods have ended")

    def _check_delay(self, bus: "Bus") -> None:
        """Warn when logind waits for less than the pods may take. The kubelet writes a file below /etc/systemd."""
        longest = self._property(bus, "InhibitDelayMaxUSec")
        if isinstance(longest, int) and longest < self._seconds * 1_000_000:
            _log.warning(
                "pods have %d s to end when the machine shuts down, but it waits for %.0f s: set InhibitDelayMaxSec=%d"
                " in /etc/systemd/logind.conf.d/99-edgecore.conf",
                self._seconds, longest / 1e6, self._seconds,
            )  # fmt: skip

    @staticmethod
    def _property(bus: "Bus", name: str) -> Any:
        """Return the value of a property, out of its variant (signature and value)."""
        _, value = bus.call((PATH, NAME, "org.freedesktop.DBus.Properties"), "Get", "ss", MANAGER, name)
        return value


def _is_from_logind(bus: "Bus", signal: "BusSignal") -> bool:
    """Return whether logind itself sent the signal: any user may send one like it, and it would end all pods."""
    return signal.member == SIGNAL and bool(signal.body) and bus.has_name(signal.sender, NAME)


class ShutdownWatch(Actor):
    """The actor that runs a `ShutdownSource` on its own thread, and again `RETRY_SECONDS` after it fails.

    Args:
        source: runs until it is closed.
        notify: called with True before a shutdown and False after a cancellation; must not block.
    """

    def __init__(self, source: ShutdownSource, notify: Callable[[bool], None]) -> None:
        super().__init__()
        self._source = source
        self._notify = notify
        self._problem = ""

    def on_start(self) -> None:
        """Run the source immediately."""
        self.actor_ref.tell(None)

    def on_receive(self, _message: object) -> None:
        """Run the source until it returns or fails."""
        try:
            self._source.run(self._notify)
        except BusError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _log.warning("a shutdown of the machine will not wait for its pods: %s", error)
            self.clock.after(RETRY_SECONDS, self._run_again)

    def _run_again(self) -> None:
        with contextlib.suppress(pykka.ActorDeadError):
            self.actor_ref.tell(None)
