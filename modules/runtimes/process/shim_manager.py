"""Starts containers under shims, connects to the shims of an earlier edgecore, and records how containers end."""

import contextlib
import logging
import os
import signal
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path

from beehive.clock import Clock
from beehive.decoding import convert
from beehive.files.descriptors import OwnedFd, open_process, raise_shortage
from beehive.on_failure import on_failure
from modules.runtimes.engine.errors import RunFailedError, ShimGoneError
from modules.runtimes.engine.events import Announcer
from modules.runtimes.engine.process_watcher import ProcessWatcher
from modules.runtimes.engine.records import Exit, Run, lost
from modules.runtimes.engine.state import ControlAddress, read_record, write_record
from modules.runtimes.process.model import ProcessContainer
from modules.runtimes.process.shim_client import Answer, ShimClient
from modules.runtimes.process.shim_spawner import ShimSpawner
from modules.runtimes.shim.protocol import (
    CONTROL_SOCKET,
    EXIT_RECORD,
    FORK_SHIM,
    RUN_RECORD,
    ContainerSpec,
    receive,
    send,
    to_memory_file,
)

_log = logging.getLogger(__name__)

_ATTEMPTS = 2
"""A dying spawner loses its request; the next one serves it."""

_END_SECONDS = 15.0
"""Seconds for killed processes to end; only processes stuck in the kernel take longer."""

START_SECONDS = 60.0
"""Seconds that the preparation of a container (mounts on a slow machine) may take."""


def kill_leftovers(work: Path) -> None:
    """Kill every process whose HOME is `work`, a container's directory, after its shim was killed.

    The main process dies with its shim (see `shim.launch`); its descendants do not. Only their environment still tells
    which container they belong to: HOME is the container's own directory, named by 256 random bits, unless the pod sets
    another. No process is identified by its pid, which may belong to another one by now.
    """
    mark = b"HOME=" + os.fsencode(work)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and mark in _environment(entry):
            _kill_if_marked(int(entry.name), mark)


def _kill_if_marked(pid: int, mark: bytes) -> None:
    """Kill the process if it carries the mark. Its environment is read again after pidfd_open, so that the pid cannot
    be another's.
    """
    with suppress(ProcessLookupError), OwnedFd(open_process(pid)) as descriptor:
        if mark in _environment(Path(f"/proc/{pid}")):
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


class ShimManager:
    """All shims of this runtime.

    A listening control socket is the proof of a living shim: it is made here and handed over with the request to the
    spawner, and the kernel refuses connections to it exactly when its holder ends. No process id has to be trusted.
    Each start and each end is announced once, on the watcher's thread.
    """

    def __init__(
        self,
        spawner: ShimSpawner,
        watcher: ProcessWatcher,
        clock: Clock,
        announcer: Announcer,
    ) -> None:
        self._spawner = spawner
        self._watcher = watcher
        self._clock = clock
        self._announcer = announcer

    def start(self, container: ProcessContainer, spec: ContainerSpec) -> None:
        """Start the container's command and return when it runs. Raises RunFailedError when it does not."""
        attempt = f"start container {container.id}"
        for _ in range(_ATTEMPTS):
            try:
                self._hand_over(container, spec)
            except OSError as error:
                raise RunFailedError(attempt, f"no shim can be had for it: {error}") from error
            if not container.decided.wait(START_SECONDS):
                raise RunFailedError(attempt, f"it did not come up within {START_SECONDS:.0f} s")
            if container.run is not None:
                return
            if container.exit is not None:
                raise RunFailedError(attempt, container.exit.message)
            if container.link is not None:
                raise RunFailedError(attempt, "the runtime is closing")
            container.decided.clear()
        raise RunFailedError(attempt, "its shim died before it could start it", "try again")

    def adopt(self, container: ProcessContainer, *, rebooted: bool) -> None:
        """Find the state of a container of an earlier edgecore, from its records and its shim.

        With `rebooted`, the container is of an earlier boot of the machine: none of its processes can live, and no shim
        is looked for. Raises OSError for a shortage of the process or machine.
        """
        container.run = read_record(container.directory / RUN_RECORD, Run)
        if (exit_ := read_record(container.directory / EXIT_RECORD, Exit)) is not None:
            container.finished(exit_)
        elif rebooted and container.run is not None:
            self._write_off(container, "the machine was restarted")
        elif not rebooted and not self._connect(container) and container.run is not None:
            self._record_lost(container, "its shim was killed while edgecore was away")
        if container.run is not None:
            container.decided.set()

    def end_unknown(self, directory: Path) -> bool:
        """Kill the processes of a container without readable records; return whether all have ended."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
                sock.settimeout(_END_SECONDS)
                if _reach(sock, directory):
                    send(sock, {"id": 1, "op": "signal", "number": signal.SIGKILL})
                    while receive(sock) is not None:
                        pass
        except TimeoutError:
            _log.error("the processes of a container do not end: %s", directory)
            return False
        except OSError as error:
            raise_shortage(error)
            _log.debug("the shim of %s has ended: %s", directory, error)
        kill_leftovers(directory / "work")
        return True

    def _hand_over(self, container: ProcessContainer, spec: ContainerSpec) -> None:
        with contextlib.ExitStack() as handed_on, contextlib.ExitStack() as unless_sent:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            unless_sent.enter_context(ours)
            handed_on.enter_context(theirs)
            spec_file = to_memory_file("container", spec)
            handed_on.callback(os.close, spec_file)
            listener = handed_on.enter_context(_listen(container.directory))
            self._watch(container, ours)  # first: a container that nobody watches would run
            unless_sent.callback(self._unwatch, container)
            self._spawner.request(FORK_SHIM, [spec_file, theirs.fileno(), listener.fileno()])
            unless_sent.pop_all()

    def _connect(self, container: ProcessContainer) -> bool:
        with contextlib.ExitStack() as unless_connected:
            sock = unless_connected.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
            if not _reach(sock, container.directory):
                return False
            unless_connected.pop_all()
        self._watch(container, sock)
        return True

    def _watch(self, container: ProcessContainer, sock: socket.socket) -> None:
        before = container.link
        link = container.link = ShimClient(
            sock, partial(self._on_event, container), partial(self._link_gone, container)
        )
        try:
            self._watcher.add(link)
        except BaseException:
            container.link = before
            raise

    def _unwatch(self, container: ProcessContainer) -> None:
        link, container.link = container.link, None
        if link is not None:
            self._watcher.remove(link)

    def _on_event(self, container: ProcessContainer, event: Answer) -> None:
        """Take the start or the end of a container from its shim."""
        if event["event"] == "running":
            if container.run is None:
                container.started(convert(event, Run))
                self._announcer.started(container)
        elif container.exit is None:
            container.finished(convert(event, Exit))
            self._announcer.stopped(container)

    def _link_gone(self, container: ProcessContainer) -> None:
        """Handle the end of a shim's connection: the shim has ended, was killed, or closed on an edgecore that did not
        read.
        """
        if container.exit is not None:
            return
        if (exit_ := read_record(container.directory / EXIT_RECORD, Exit)) is not None:
            container.finished(exit_)
            self._announcer.stopped(container)
        elif self._connect(container):
            return
        elif container.run is None and read_record(container.directory / RUN_RECORD, Run) is None:
            container.not_started()
        else:
            self._record_lost(container, "its shim was killed")
            self._announcer.stopped(container)

    def _record_lost(self, container: ProcessContainer, why: str) -> None:
        kill_leftovers(container.work)
        self._write_off(container, why)

    def _write_off(self, container: ProcessContainer, why: str) -> None:
        _log.warning("container ended unseen: %s", why, extra={"container": container.id})
        exit_ = lost(self._clock.now_ns(), f"{why}; its exit code is not known")
        with contextlib.suppress(OSError):  # a full disk; the next edgecore comes to the same conclusion
            write_record(container.directory / EXIT_RECORD, exit_)
        container.finished(exit_)


def send_signal(container: ProcessContainer, number: int) -> None:
    """Send a signal to the container's process group; does nothing when the container is just ending."""
    if container.link is None:
        return
    try:
        container.link.begin("signal", number=number)
    except ShimGoneError:
        return


def _reach(sock: socket.socket, directory: Path) -> bool:
    """Connect to the shim of a container; return False without one. Raises OSError for a shortage."""
    try:
        with ControlAddress(directory) as address:
            sock.connect(address)
    except OSError as error:
        raise_shortage(error)
        return False
    return True


def _listen(directory: Path) -> socket.socket:
    (directory / CONTROL_SOCKET).unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with on_failure(listener.close):
        with ControlAddress(directory) as address:
            listener.bind(address)
        listener.listen()
    return listener
