"""A machine for the updater: real files, and doubles of its processes, locks and clock."""

import errno
import io
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import pytest

from modules.processes.edgecore.upgrade.updater import files, installation, locks, node_control, processes, starting
from modules.processes.edgecore.upgrade.updater.database import backup_of, inode_of
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import (
    NodeHandle,
    NodeObservation,
    Phase,
    ProbationLimits,
    UpgradeJournal,
    decode_journal,
)
from modules.processes.edgecore.upgrade.updater.node_control import LocalNodeControl
from modules.processes.edgecore.upgrade.updater.phases import carry_out
from modules.processes.edgecore.upgrade.updater.processes import AGAIN_SECONDS

OLD, NEW = "1.0.0", "2.0.0"
SCHEMAS: Final = {OLD: "3", NEW: "4"}
UNIT: Final = "edgecore.service"
LAUNCHER: Final = 50
"""The process that has the right to start, if one has."""
_STARTED_BY: Final = "STARTED_BY"
_CONTAINER: Final = "default/web 1 web"
_NEEDS_ROOM, _NEEDS_NONE = True, False


def _read(path: Path) -> str:
    """Return what is in a file, in no way that a double sees."""
    with io.open(path) as file:  # noqa: UP020 - not `open`
        return file.read()


def pass_by(_needs_room: bool) -> None:
    """Let a step succeed."""


class Surroundings(NamedTuple):
    """What a node was started with."""

    started_by: str
    """Its environment says it."""
    directory: Path


OWNER: Final = Surroundings("owner", Path("/srv"))
BOOT: Final = Surroundings("boot", Path("/"))
UPDATER: Final = Surroundings("updater", Path("/"))


class Program(NamedTuple):
    """A process."""

    version: str
    """Of edgecore, or its configuration; empty for a stranger."""
    surroundings: Surroundings


class Machine:
    """The machine of a node, which runs the earlier version and has an upgrade that is staged.

    Args:
        root: of its files.
        character: of what is new: `good`, `offline`, `dies`, `hangs` without its lock, or `weak`: offline, and then
            the earlier version dies at its first start.
        changes: `version` or `configuration`.
        unit: whether systemd runs the node.
    """

    def __init__(self, root: Path, character: str, *, changes: str = "version", unit: bool = False) -> None:
        self.root, self.character, self.changes = root, character, changes
        self.database, self.configuration = root / "data" / "edgecore.db", root / "etc" / "edgecore.yaml"
        self.installation = Installation(root / "own")
        self.unit = unit
        self.programs: dict[int, Program] = {}
        self.node = 0
        """The process that has the node's lock."""
        self.is_start_held = False
        self.restarts = self.numbers = 0
        self.boots = 1
        """Runs of the kernel, in each of which the pod's container has another id."""
        self.now = 0.0
        self.tries = 1
        """Tries of the updater, and of those who order an upgrade."""
        self.has_been_weak = False
        self.was_refused = False
        """Whether a start was, while the node goes back."""
        self.trace: list[str] = []
        self.step: Callable[[bool], None] = pass_by
        """Called before each effect, with whether it needs room on the disk; it may raise."""
        self.after: Callable[[], None] = lambda: None
        """Called after each effect of a process."""
        self.descriptors: dict[int, Program] = {}

    def make(self) -> "Machine":
        """Make its files, and start its node."""
        for directory in (self.database.parent, self.configuration.parent, self.installation.state):
            directory.mkdir(parents=True)
        for version in SCHEMAS:
            (self.installation.versions / version).mkdir(parents=True)
        self.database.write_text(f"{SCHEMAS[OLD]} old")
        self.installation.activate(OLD)
        self.configuration.write_text(OLD)
        handle = NodeHandle(str(self.root / "lock"), "socket", [], ["--root", "x"], UNIT if self.unit else "")
        before = NodeObservation(OLD, connected=True, unready=[], containers={_CONTAINER: "c1"})
        journal = UpgradeJournal(
            OLD, NEW, handle, before, [], str(self.database), 3, inode_of(self.database), ProbationLimits(4, 2, 1)
        )
        journal.boot = "boot 1"
        if self.changes == "configuration":
            journal = replace(
                journal, target=OLD, database="", schema=0, inode=0, configuration=str(self.configuration)
            )
            self.installation.former.write_text(OLD)
            self.installation.following.write_text(NEW)
        else:
            backup_of(self.database).write_text(self.database.read_text())
        self.installation.write(journal, Phase.STAGED)
        self.begin(OWNER)
        return self

    def active(self) -> str:
        """Return the version, or the configuration, that a node would be started with."""
        return self.installation.current() if self.changes == "version" else _read(self.configuration)

    def journal(self) -> UpgradeJournal:
        """Return the journal, which there has to be."""
        return decode_journal(_read(self.installation.state / "journal.json").encode())

    def begin(self, surroundings: Surroundings) -> int:
        """Start the node; return its process."""
        assert not self.node, "a node runs already"
        assert not self.is_start_held, "who is started reads the link, or the configuration, while it is put back"
        self.numbers += 100
        self.node, version = self.numbers, self.active()
        self.programs[self.node] = Program(version, surroundings)
        if self.changes == "version":
            schema, _, value = _read(self.database).partition(" ")
            assert int(schema) <= int(SCHEMAS[version]), "the node does not know the schema of its database"
            if version == NEW:
                self._write("edgecore.db", f"{SCHEMAS[NEW]} {'new' if self.character == 'good' else value}")
                self._write("edgecore.db-wal", "log")
        return self.node

    def _write(self, name: str, text: str) -> None:
        """Write a file beside the database, as the node does: in one step, and another inode."""
        new = f"{self.root}.new"
        with io.open(new, "w") as file:  # noqa: UP020 - as above
            file.write(text)
        os.rename(new, self.database.with_name(name))  # noqa: PTH104 - `Path.rename` may be a double's

    def end(self, process: int) -> None:
        """End a process."""
        del self.programs[process]
        if self.node == process:
            self.node = 0

    def is_bad(self) -> bool:
        """Return whether the node runs what is new, and that is bad."""
        return bool(self.node) and self.programs[self.node].version == NEW and self.character != "good"

    def recycle(self) -> None:
        """End the node, and let a stranger have its number."""
        if process := self.node:
            self.end(process)
            self.programs[process] = Program("", UPDATER)

    def effect(self, text: str) -> None:
        """Note an effect that comes now, unless it fails."""
        self.step(_NEEDS_NONE)
        self.trace.append(text)

    def carry_on(self, *, is_starting: bool = False) -> None:
        """Run the updater as `main` does; as often as systemd starts it, if that does."""
        for _ in range(5):
            self.is_start_held = False
            self.tries += 1
            journal = self.journal()
            control = LocalNodeControl(self.installation, journal.node)
            with suppress(*([OSError] if self.unit else [])):
                carry_out(self.installation, journal, control, is_starting=is_starting)
                return
            is_starting = False
        raise AssertionError("the updater fails again and again")

    def power_on(self) -> bool:
        """Start the node as its launcher does, and go on with what is unfinished; return whether that was tried."""
        self.programs, self.node, self.is_start_held = {}, 0, False
        self.boots += 1
        self.tries += 1
        started = list[bool]()
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(starting, "start_updater", lambda *_, is_starting: started.append(is_starting))
            patched.setattr(starting, "is_held", lambda _: False)
            try:
                starting.resume(self.installation)
            except locks.StartError:
                assert started == [False], "an updater goes on, and starts the node"
                self.was_refused = True
            else:
                self.begin(BOOT)
        for is_starting in started:
            self.carry_on(is_starting=is_starting)
        return bool(started)

    def state(self) -> tuple[str, str, list[str], list[Program], list[str]]:
        """Return the phase, what is active, the database with what is beside it, who runs, and the copies."""
        data = [f"{file.name}: {_read(file)}" for file in sorted(self.database.parent.glob("edgecore*"))]
        running = list(self.programs.values())
        own = (backup_of(self.database), self.installation.former, self.installation.following)
        copies = [file.name for file in own if file.exists()]
        return str(self.journal().phase), self.active(), data, running, copies

    # what the updater asks of the machine

    def observe(self, _path: str) -> NodeObservation | None:
        """Return the node as it answers."""
        if not self.node:
            return None
        version = self.programs[self.node].version if self.changes == "version" else OLD
        containers = {_CONTAINER: f"c{self.boots}"}
        return NodeObservation(version, connected=not self.is_bad(), unready=[], containers=containers)

    def sleep(self, seconds: float) -> None:
        """Let time pass: a bad version may end, and systemd starts it again."""
        self.now += seconds
        self.tries += seconds == AGAIN_SECONDS
        if self.character == "dies" and self.is_bad():
            self.end(self.node)
            if self.unit:
                self.restarts += 1
                self.begin(OWNER)

    def popen(self, words: list[str], *, cwd: Path, env: dict[str, str], **_: Any) -> Any:
        """Start the launcher."""
        self.step(_NEEDS_NONE)
        process = self.begin(Surroundings(env[_STARTED_BY], cwd))
        whose = f"{env[_STARTED_BY]}'s environment in {cwd}"
        self.trace.append(f"start {self.programs[process].version}: {' '.join(words[1:])}, {whose}")
        self.after()
        child = self.programs[process]
        if self.character == "hangs" and child.version == NEW:
            self.node = 0
        if self.character == "weak" and child.version == OLD and not self.has_been_weak:
            self.has_been_weak = True
            self.end(process)

        def poll() -> int | None:
            return None if self.programs.get(process) is child else 1

        def wait() -> None:
            assert poll() is not None, "a child that runs is waited for"

        return SimpleNamespace(pid=process, poll=poll, wait=wait)

    def systemctl(self, words: list[str], **_: Any) -> Any:
        """Do what systemctl does."""
        if words[1] != "show":
            self.effect(" ".join(words))
            if words[1] == "stop" and self.node:
                self.end(self.node)
            if words[1] == "start" and not self.node:
                self.begin(OWNER)
            self.after()
        return SimpleNamespace(stdout=f"{self.restarts}\n")

    def surroundings_of(self, process: int) -> tuple[dict[str, str], Path]:
        """Return environment and directory of a process that runs."""
        self.effect(f"read the environment of {process}")
        if process not in self.programs:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        started_by, directory = self.programs[process].surroundings
        return {_STARTED_BY: started_by}, directory

    def pidfd_open(self, process: int) -> int:
        """Return a descriptor of a process."""
        self.effect(f"hold {process}")
        if process not in self.programs:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        self.descriptors[process] = self.programs[process]
        return process

    def send(self, descriptor: int, number: int) -> None:
        """Send a signal to the process of a descriptor, which ends."""
        self.effect(f"{signal.Signals(number).name} to {descriptor}")
        held = self.descriptors[descriptor]
        if self.programs.get(descriptor) is not held:
            raise ProcessLookupError(errno.ESRCH, "No such process")
        assert held.version, "a stranger is sent a signal"
        self.end(descriptor)
        self.after()

    def owner_of(self, _lock: Path) -> int:
        """Return the process that has the node's lock."""
        self.step(_NEEDS_NONE)
        return self.node

    def start_lock(self, _file: Path) -> Any:
        """Return the right to start, as a lock that is open."""
        self.step(_NEEDS_NONE)

        def acquire() -> int:
            if LAUNCHER in self.programs:
                return LAUNCHER
            if not self.is_start_held:
                self.effect("take the right to start")
                self.is_start_held = True
            return 0

        def leave() -> None:
            if self.is_start_held:
                self.trace.append("leave the right to start")
            self.is_start_held = False

        return SimpleNamespace(acquire=acquire, leave=leave, holder=lambda: LAUNCHER * (LAUNCHER in self.programs))

    @contextmanager
    def doubles(self) -> Iterator[None]:
        """Let the updater find this machine within the block."""
        replaced, removed, flush = Path.replace, Path.unlink, os.fsync
        linked = Path.symlink_to

        def open_file(path: Path, mode: str = "r", **named: Any) -> Any:
            self.step(mode != "rb" and not path.exists())
            return io.open(path, mode, **named)  # noqa: UP020 - the double of `open`

        def symlink_to(path: Path, target: Path) -> None:
            self.step(_NEEDS_ROOM)
            linked(path, target)

        def rename(path: Path, target: Path) -> Path:
            self.step(_NEEDS_NONE)
            found = replaced(path, target)
            if target == self.installation.state / "journal.json":
                self.trace.append(f"journal: {decode_journal(_read(target).encode()).phase}")
            elif target == self.installation.link:
                self.trace.append(f"link: {self.installation.current()}")
            else:
                self.trace.append(f"{target.name}: {_read(target)}")
            return found

        def unlink(path: Path, missing_ok: bool = False) -> None:
            if path.exists():
                self.effect(f"remove {path.name}")
            removed(path, missing_ok=missing_ok)

        def fsync(descriptor: int) -> None:
            self.step(_NEEDS_ROOM)
            flush(descriptor)
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            self.trace.append(f"flush {path.name}")

        control = {
            "StartLock": self.start_lock, "owner_of": self.owner_of, "is_held": lambda _: bool(self.node),
            "surroundings_of": self.surroundings_of, "observe_node": self.observe, "failed_checks": lambda *_: [],
            "subprocess": SimpleNamespace(
                Popen=self.popen, run=self.systemctl, DEVNULL=-3, SubprocessError=subprocess.SubprocessError
            ),
            "time": SimpleNamespace(monotonic=lambda: self.now, sleep=self.sleep),
            "os": SimpleNamespace(environ={_STARTED_BY: UPDATER.started_by}),
        }  # fmt: skip
        with pytest.MonkeyPatch.context() as patched:
            for name, double in control.items():
                patched.setattr(node_control, name, double)
            patched.setattr(processes, "os", SimpleNamespace(pidfd_open=self.pidfd_open, close=lambda _: None))
            patched.setattr(signal, "pidfd_send_signal", self.send)
            patched.setattr(processes, "select", SimpleNamespace(select=lambda held, *_: (held, [], [])))
            patched.setattr(installation, "schema_of", self.schema_of)
            patched.setattr(installation, "boot_id", lambda: f"boot {self.boots}")
            patched.setattr(Path, "replace", rename)
            patched.setattr(Path, "unlink", unlink)
            patched.setattr(Path, "open", open_file)
            patched.setattr(Path, "symlink_to", symlink_to)
            patched.setattr(files, "open", open_file, raising=False)
            patched.setattr(os, "fsync", fsync)
            yield

    def schema_of(self, database: Path) -> int | None:
        """Return the schema of the database, which is a text here."""
        return int(_read(database).split()[0]) if database.exists() else None
