"""The running node: whether it answers, who starts it and with what, and who ends it."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from .installation import Installation
from .journal import NodeHandle, NodeObservation
from .locks import StartLock, is_held, owner_of
from .observation import failed_checks, observe_node
from .processes import COMMAND_SECONDS, LOOK_AGAIN_SECONDS, end_process, number_in, surroundings_of


class NodeControl(Protocol):
    """The running node, and the time."""

    def observe(self) -> NodeObservation | None:
        """Return the node as it is; None if it does not answer."""

    def problems(self) -> list[str] | None:
        """Return the checks of the current version's `doctor` that fail; None if it does not work."""

    def exits(self) -> int:
        """Return how often the node has ended by itself since `start`."""

    def stopped(self) -> AbstractContextManager[None]:
        """Stop the node, if it runs or is being started, and let nobody start it meanwhile. Raises OSError."""

    def start(self) -> None:
        """Start the current version. Raises OSError if that cannot be tried."""

    def monotonic(self) -> float:
        """Return the time in seconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


class LocalNodeControl:
    """The node of this machine, run by systemd or as a process of its own.

    Args:
        installation: with the program.
        node: the node.
    """

    def __init__(self, installation: Installation, node: NodeHandle) -> None:
        self._installation = installation
        self._node = node
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._lock = Path(node.lock)
        self._exits = self._restarts() if node.unit else 0
        self._environment: dict[str, str] = dict(os.environ)
        self._directory = Path("/")

    def observe(self) -> NodeObservation | None:
        """Return the node as it is; None if it does not answer."""
        return observe_node(self._node.socket)

    def problems(self) -> list[str] | None:
        """Return the checks of the current version's `doctor` that fail; None if it does not work."""
        return failed_checks(self._installation.program(), self._node.options)

    def exits(self) -> int:
        """Return how often the node has ended by itself; without systemd it is then started again."""
        if self._node.unit:
            return self._restarts() - self._exits
        if self._child is not None and self._child.poll() is None:
            return self._exits
        process = owner_of(self._lock) or self._starter()
        if self._child is not None:
            # it has ended; if another one runs, that is why
            self._exits += 0 if process else 1
            self._child = None
        elif self._owner not in (0, process):
            self._exits += 1
        self._owner = process
        if process:
            self._remember(process)
        else:
            self._spawn()
        return self._exits

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the node, if it runs or is being started, and let nobody start it meanwhile. Raises OSError."""
        if self._node.unit:
            self._systemctl("stop", self._node.unit)
        with self._start_lock() as lock:
            while (starter := lock.acquire()) or is_held(self._lock):
                if starter:
                    end_process(starter, partial(_is, starter, lock.acquire))
                if owner := owner_of(self._lock):
                    self._remember(owner)
                    end_process(owner, partial(_is, owner, partial(owner_of, self._lock)))
                elif not starter:
                    self.wait(LOOK_AGAIN_SECONDS)
            if (child := self._child) is not None:
                end_process(child.pid, lambda: child.poll() is None)
                child.wait()
                self._child = None
            self._owner = 0
            yield

    @contextmanager
    def _start_lock(self) -> Iterator[StartLock]:
        lock = StartLock(self._installation.starting)
        try:
            yield lock
        finally:
            lock.leave()

    def _starter(self) -> int:
        """Return the process that is just becoming the node; 0 without one."""
        with self._start_lock() as lock:
            return lock.holder()

    def start(self) -> None:
        """Start the current version. Raises OSError if that cannot be tried."""
        if self._node.unit:
            try:
                self._run_systemctl("start", "--no-block", self._node.unit)
            except subprocess.SubprocessError as error:
                raise OSError(errno.EAGAIN, str(error)) from error
            self._exits = self._restarts()
            return
        self._exits = 0
        self._spawn()

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)

    def _spawn(self) -> None:
        """Start a process that outlives this one, with the environment and the directory of the one before it."""
        with (self._installation.state / "run.log").open("ab") as log:
            self._child = subprocess.Popen(
                [str(self._installation.launcher), "run", *self._node.arguments],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _remember(self, process: int) -> None:
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):  # it has ended, or is another user's
            self._environment, self._directory = surroundings_of(process)

    def _restarts(self) -> int:
        return number_in(self._systemctl("show", "--property=NRestarts", "--value", self._node.unit))

    def _systemctl(self, *words: str) -> str:
        with suppress(OSError, subprocess.SubprocessError):
            return self._run_systemctl(*words)
        return ""

    def _run_systemctl(self, *words: str) -> str:
        command = ["systemctl", *(["--user"] if self._node.user else []), *words]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        ).stdout


def _is(wanted: int, find: Callable[[], int]) -> bool:
    """Return whether a process is found (again)."""
    return find() == wanted
