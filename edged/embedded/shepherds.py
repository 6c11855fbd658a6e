"""Starting containers under shepherds, finding the shepherds of an earlier edgecore again, and hearing how it ends.

A listening control socket is the proof of a living shepherd: it is made here, handed over with the request to the
nursery, and the kernel refuses connections to it exactly when its holder is gone. No process id has to be trusted.
"""

import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from beehive.clock import Clock
from edged.embedded.errors import RunFailedError, ShepherdGoneError
from edged.embedded.leftovers import kill_leftovers
from edged.embedded.link import Answer, ShepherdLink
from edged.embedded.model import Container
from edged.embedded.nursery import Nursery
from edged.embedded.records import Exit, Run, lost
from edged.embedded.shepherd.protocol import (
    CONTROL_SOCKET,
    EXIT_RECORD,
    RUN_RECORD,
    ContainerSpec,
    receive,
    send,
    to_memory_file,
)
from edged.embedded.state import ControlAddress, read_record, write_record
from edged.embedded.watcher import Watcher

_log = logging.getLogger(__name__)

_ATTEMPTS = 2
"""A nursery that is just dying takes a request with it; the next one serves it."""

_END_SECONDS = 15.0
"""For what is killed; only processes stuck in the kernel take longer."""

START_SECONDS = 60.0
"""How long the preparation of a container (mounts on a slow machine) may take."""


class Shepherds:
    """All shepherds of this runtime. `on_started` and `on_ended` are called once for each container, by the watcher."""

    def __init__(
        self,
        nursery: Nursery,
        watcher: Watcher,
        clock: Clock,
        on_started: Callable[[Container], None],
        on_ended: Callable[[Container], None],
    ) -> None:
        self._nursery = nursery
        self._watcher = watcher
        self._clock = clock
        self._on_started = on_started
        self._on_ended = on_ended

    def start(self, container: Container, spec: ContainerSpec) -> None:
        """Start the container's command and return when it runs. Raises RunFailedError when it does not."""
        attempt = f"start container {container.id}"
        for _ in range(_ATTEMPTS):
            try:
                self._hand_over(container, spec)
            except OSError as error:
                raise RunFailedError(attempt, f"no shepherd can be had for it: {error}") from error
            if not container.decided.wait(START_SECONDS):
                raise RunFailedError(attempt, f"it did not come up within {START_SECONDS:.0f} s")
            if container.run is not None:
                return
            if container.exit is not None:
                raise RunFailedError(attempt, container.exit.message)
            if container.link is not None:
                raise RunFailedError(attempt, "the runtime is closing")
            container.decided.clear()
        raise RunFailedError(attempt, "its shepherd died before it could start it", "try again")

    def find(self, container: Container, *, rebooted: bool = False) -> None:
        """Learn from the state directory what a container does that an earlier edgecore had made.

        With `rebooted` it is of an earlier run of the machine: nothing of it can live, and nobody is looked for.
        """
        container.run = read_record(container.directory / RUN_RECORD, Run)
        if (exit_ := read_record(container.directory / EXIT_RECORD, Exit)) is not None:
            container.finished(exit_)
        elif rebooted and container.run is not None:
            self._write_off(container, "the machine was restarted")
        elif not rebooted and not self._connect(container) and container.run is not None:
            self._bury(container, "its shepherd was killed while edgecore was away")
        if container.run is not None:
            container.decided.set()

    def end_unknown(self, directory: Path) -> bool:
        """End what runs of a container of which no more is known than its directory; whether nothing is left."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(_END_SECONDS)
        try:
            with sock:
                if _reach(sock, directory):
                    send(sock, {"id": 1, "op": "signal", "number": signal.SIGKILL})
                    while receive(sock) is not None:
                        pass
        except TimeoutError:
            _log.error("the processes of a container do not end: %s", directory)
            return False
        except OSError as error:
            _log.debug("the shepherd of %s has gone: %s", directory, error)
        kill_leftovers(directory / "work")
        return True

    def _hand_over(self, container: Container, spec: ContainerSpec) -> None:
        with contextlib.ExitStack() as kept_open, contextlib.ExitStack() as handed_on:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kept_open.enter_context(ours)
            handed_on.enter_context(theirs)
            spec_file = to_memory_file("container", spec)
            handed_on.callback(os.close, spec_file)
            listener = handed_on.enter_context(_listen(container.directory))
            self._nursery.request("shepherd", [spec_file, theirs.fileno(), listener.fileno()])
            kept_open.pop_all()
        self._watch(container, ours)

    def _connect(self, container: Container) -> bool:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if not _reach(sock, container.directory):
            sock.close()
            return False
        self._watch(container, sock)
        return True

    def _watch(self, container: Container, sock: socket.socket) -> None:
        container.link = ShepherdLink(sock, partial(self._heard, container), partial(self._link_gone, container))
        self._watcher.add(container.link)

    def _heard(self, container: Container, event: Answer) -> None:
        if event["event"] == "running":
            if container.run is None:
                container.started(msgspec.convert(event, Run))
                self._on_started(container)
        elif container.exit is None:
            container.finished(msgspec.convert(event, Exit))
            self._on_ended(container)

    def _link_gone(self, container: Container) -> None:
        """The shepherd has closed: it is done, or it was killed, or it gave up on an edgecore that did not read."""
        if container.exit is not None:
            return
        if (exit_ := read_record(container.directory / EXIT_RECORD, Exit)) is not None:
            container.finished(exit_)
            self._on_ended(container)
        elif self._connect(container):
            return
        elif container.run is None and read_record(container.directory / RUN_RECORD, Run) is None:
            container.not_started()
        else:
            self._bury(container, "its shepherd was killed")
            self._on_ended(container)

    def _bury(self, container: Container, why: str) -> None:
        kill_leftovers(container.work)
        self._write_off(container, why)

    def _write_off(self, container: Container, why: str) -> None:
        _log.warning("container ended unseen: %s", why, extra={"container": container.id})
        exit_ = lost(self._clock.now_ns(), f"{why}; its exit code is not known")
        with contextlib.suppress(OSError):  # a full disk; the next edgecore comes to the same conclusion
            write_record(container.directory / EXIT_RECORD, exit_)
        container.finished(exit_)


def send_signal(container: Container, number: int) -> None:
    """Send a signal to the container's process group; nothing when it is just ending."""
    if container.link is None:
        return
    try:
        container.link.begin("signal", number=number)
    except ShepherdGoneError:
        return


def _reach(sock: socket.socket, directory: Path) -> bool:
    """Connect to the shepherd of a container; False when it has none."""
    try:
        with ControlAddress(directory) as address:
            sock.connect(address)
    except OSError:
        return False
    return True


def _listen(directory: Path) -> socket.socket:
    (directory / CONTROL_SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        with ControlAddress(directory) as address:
            listener.bind(address)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener
