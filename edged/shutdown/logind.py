"""systemd's logind: says when the machine is about to shut down, and waits for whoever has asked it to.

A *delay lock* is a file descriptor: as long as it is open the shutdown waits, up to logind's InhibitDelayMaxSec.
Without logind (another init, a container) the process's SIGPWR says the same, and nothing waits.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import pykka

from beehive import Actor
from edged.shutdown.dbus import SYSTEM_BUS, Bus
from edged.shutdown.errors import BusError
from edged.shutdown.wire import Field, Kind, Message

_log = logging.getLogger(__name__)

NAME: Final = "org.freedesktop.login1"
PATH: Final = "/org/freedesktop/login1"
MANAGER: Final = "org.freedesktop.login1.Manager"
SIGNAL: Final = "PrepareForShutdown"
AGAIN: Final = 60.0
"""Seconds until a bus that is not there, or was lost, is looked for again."""


class ShutdownSource(Protocol):
    """Who says that the machine shuts down."""

    def run(self, tell: Callable[[bool], None]) -> None:
        """Say so (and when it does not after all) until `close`; blocks. Raises BusError."""

    def release(self) -> None:
        """Hold the shutdown up no longer; may be called on any thread."""

    def close(self) -> None:
        """Let `run` end; may be called on any thread."""


class Logind:
    """See the module's docstring. It runs until it is closed, once.

    Args:
        seconds: that pods may take in all.
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
        """What was told last."""

    def run(self, tell: Callable[[bool], None]) -> None:
        """See `ShutdownSource`."""
        with Bus(self._path) as bus:
            with self._lock:
                if self._closed:
                    return
                self._bus = bus
            try:
                bus.listen(MANAGER, SIGNAL)
                self._begin(bus, tell)
                while not self._closed:
                    message = bus.receive()
                    if _is_news(bus, message):
                        self._said(bus, tell, imminent=bool(message.body[0]))
            except BusError:
                if not self._closed:
                    raise
            finally:
                self.release()
                with self._lock:
                    self._bus = None

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

    def _begin(self, bus: Bus, tell: Callable[[bool], None]) -> None:
        """What was said while nobody listened (the agent began in the middle of a shutdown, or the bus was lost) is
        made up for. logind gives no locks while it shuts down.
        """
        imminent = self._property(bus, "PreparingForShutdown") is True
        if imminent is not self._imminent:
            self._said(bus, tell, imminent=imminent)
        elif not imminent:
            self._hold(bus)
        self._check_time(bus)

    def _said(self, bus: Bus, tell: Callable[[bool], None], *, imminent: bool) -> None:
        """A shutdown that was cancelled may come again: it is to wait then, too. The node is told of the cancellation
        first, whether there is another lock or not.
        """
        self._imminent = imminent
        tell(imminent)
        if not imminent:
            self._hold(bus)

    def _hold(self, bus: Bus) -> None:
        why = "its pods need time to end"
        bus.call(NAME, PATH, MANAGER, "Inhibit", "ssss", "shutdown", "edgecore", why, "delay")
        descriptor = bus.take_descriptor()
        self.release()
        with self._lock:
            self._held = descriptor
        _log.info("a shutdown of the machine waits until its pods have ended")

    def _check_time(self, bus: Bus) -> None:
        """kubelet writes a file below /etc/systemd for it; here the administrator is told."""
        most = self._property(bus, "InhibitDelayMaxUSec")
        if isinstance(most, int) and most < self._seconds * 1_000_000:
            _log.warning(
                "pods have %d s to end when the machine shuts down, but it waits for %.0f s: set InhibitDelayMaxSec=%d"
                " in /etc/systemd/logind.conf.d/99-edgecore.conf",
                self._seconds, most / 1e6, self._seconds,
            )  # fmt: skip

    @staticmethod
    def _property(bus: Bus, name: str) -> Any:
        return bus.call(NAME, PATH, "org.freedesktop.DBus.Properties", "Get", "ss", MANAGER, name)


def _is_news(bus: Bus, message: Message) -> bool:
    """Whether logind itself says so: every user of the machine may send such a signal, and it would end all pods."""
    is_signal = message.kind is Kind.SIGNAL and message.field(Field.MEMBER) == SIGNAL and bool(message.body)
    return is_signal and bus.has_name(str(message.field(Field.SENDER)), NAME)


class ShutdownWatch(Actor):
    """Waits for a source to say something, again and again. `tell` must not block."""

    def __init__(self, source: ShutdownSource, tell: Callable[[bool], None]) -> None:
        super().__init__()
        self._source = source
        self._tell = tell
        self._problem = ""

    def on_start(self) -> None:
        """Begin at once."""
        self.actor_ref.tell(None)

    def on_receive(self, _message: object) -> None:
        """Wait until the source has no more to say."""
        try:
            self._source.run(self._tell)
        except BusError as error:
            if str(error) != self._problem:
                self._problem = str(error)
                _log.warning("a shutdown of the machine will not wait for its pods: %s", error)
            self.clock.after(AGAIN, self._again)

    def _again(self) -> None:
        with contextlib.suppress(pykka.ActorDeadError):
            self.actor_ref.tell(None)
