"""The updater: switches an installation to another version, or a node to another configuration, watches the node, and
goes back unless the node is well.

`edgecore upgrade` copies this file into the installation and starts it as a process of its own. It imports only the
standard library, and nothing of the versions that it chooses between, so it works whatever they are.

| below the installation | what |
|---|---|
| `bin/edgecore` | starts the current version (`launch`); what a unit runs |
| `current` | symbolic link to the current version |
| `versions/VERSION/` | a version; complete since it has had this name, and never changed |
| `upgrade/updater.py` | this file |
| `upgrade/journal.json` | the last upgrade, see `UpgradeJournal` |
| `upgrade/lock` | locked while an upgrade is prepared or carried out |
| `upgrade/starting` | locked while a node is being started, or is kept from starting, see `StartLock` |

Beside the node's database is its copy, until the end. For `edgecore config set` there is such a directory beside the
configuration, whose link leads to the environment of the program, and which has both files of the configuration until
the end.

A phase is in the journal durably before its first step, and every step of a phase can be taken again. So whatever is
killed, and wherever the power fails, the link names one complete version, and the next start of the node or of the
updater goes on from there. Nothing depends on the wall clock.

The version that runs is the one that the link names, and the database is one that it knows, because

1. whoever starts the node holds `starting` from before it reads the link until the node has its own lock, or has
   ended;
2. whoever puts the link, the database or the configuration back holds `starting` meanwhile, and the node's lock is
   free;
3. whoever writes the journal holds `lock`, and reads it after it got that;
4. the updater waits for `starting` while it holds `lock`, and ends whoever has it. A launcher holds `starting`, and
   never waits for `lock`: where that is taken, somebody else sees to the upgrade. So neither waits for ever.

The switch to the new version needs no `starting`: a start that was under way runs the earlier version, which the
updater then stops. Versions before 0.4 know nothing of `starting` and keep it as long as they run; they have the node's
lock, too. One of them that was started beside `starting`, by hand, is found when the updater looks which version
answers after it went back; what it has done to the database stays.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import select
import signal
import socket
import sqlite3
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

STOP_SECONDS: Final = 90.0
"""Seconds after which a node that does not stop is killed."""
_COMMAND_SECONDS: Final = 150.0
_DOCTOR_SECONDS: Final = 60.0
_LOCK_SECONDS: Final = 60.0
_START_SECONDS: Final = 300.0
"""Seconds that a start waits for another one, or for an updater that stops the node and puts its database back."""
_BACK_SECONDS: Final = 60.0
"""Seconds that the updater waits for the earlier version to answer."""
_MOST_RETURNS: Final = 3
_LOOK_AGAIN_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 5.0
"""Seconds until an updater that has failed tries again, here and under systemd."""
_MOST_LOGGED: Final = 20
"""Lines about what one probation lacks: the memory that it names may be another one at each look."""
_SETTLED_SECONDS: Final = 30.0
_SETTLED_LOOKS: Final = 2
"""Looks in a row at which no pod waits: the statuses follow in the same turn of edged."""
_START_FAILED: Final = 4
"""Exit status of a node that cannot start."""
_ANSWER_SECONDS: Final = 10.0
_LARGEST_ANSWER: Final = 64 * 1024 * 1024
_LARGEST_JOURNAL: Final = 4 * 1024 * 1024
_MORE_MEMORY: Final = 256 * 1024 * 1024
"""Bytes that the new version may have more than the one before, or twice as many."""
_UNIT: Final = "edgecore-updater"
_DATABASE_FILES: Final = ("", "-wal", "-shm", "-journal")
"""In the order of their removal: without its log, a database may look as if it had not changed."""


class Phase(StrEnum):
    """How far an upgrade has come."""

    STAGED = "staged"
    """The version is complete and was checked; the link is as it was."""
    SWITCHING = "switching"
    """The link may be on either version."""
    PROBATION = "probation"
    """The link is on the new version, which is watched."""
    ROLLING_BACK = "rolling back"
    """The node goes back; the link may be on either version."""
    COMMITTED = "committed"
    """The end: the new version."""
    ROLLED_BACK = "rolled back"
    """The end: the earlier version."""


UNFINISHED: Final = (Phase.SWITCHING, Phase.PROBATION, Phase.ROLLING_BACK)


@dataclass(frozen=True)
class NodeHandle:
    """What the updater has to know of the node."""

    lock: str
    """File that edgecore locks while it runs, with its process id."""
    socket: str
    """The owner's socket."""
    options: list[str]
    """Options that lead any command to the node."""
    arguments: list[str]
    """Words after `edgecore run`."""
    unit: str = ""
    """Unit of systemd that runs it; empty if it is a process that nobody starts again."""
    user: bool = False
    """Whether the unit is one of the user's service manager."""


@dataclass(frozen=True)
class NodeObservation:
    """The node as it answers on its socket."""

    version: str
    connected: bool
    unready: list[str]
    """Modules that are not ready."""
    containers: dict[str, str]
    """Ids of the containers that run, by namespace, pod, uid and name; empty for any id."""
    memory: int = 0
    """Bytes that edgecore has resident; 0 if they are not known."""


@dataclass(frozen=True)
class ProbationLimits:
    """Bounds of the probation."""

    within: float = 600.0
    """Seconds within which the node has to be well."""
    steady: float = 120.0
    """Seconds for which it has to be well without a break."""
    every: float = 2.0
    """Seconds between two looks."""
    exits: int = 3
    """How often the new version may end by itself."""

    @classmethod
    def of(cls, within: float, steady: float) -> ProbationLimits:
        """Return limits with several looks, also at a node that has to be well for a few seconds only."""
        return cls(within, steady, min(cls.every, steady / 8))


def boot_id() -> str:
    """Return the run of the kernel; empty if it is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@dataclass
class UpgradeJournal:
    """An upgrade."""

    origin: str
    target: str
    node: NodeHandle
    before: NodeObservation
    problems: list[str]
    """Checks of `doctor` that failed before."""
    database: str
    """File of the node's database."""
    schema: int
    """The schema of the database before."""
    inode: int
    """The inode of that file."""
    limits: ProbationLimits = field(default_factory=ProbationLimits)
    phase: Phase = Phase.STAGED
    boots: int = 3
    """Starts of the node without an updater that the probation still survives."""
    report: list[str] = field(default_factory=list)
    """What was found, in words."""
    configuration: str = ""
    """File of the configuration that is changed; empty where the version changes."""
    boot: str = field(default_factory=boot_id)
    """Run of the kernel in which the containers have the ids in `before`."""

    @property
    def subject(self) -> str:
        """What is on probation, in words."""
        return "the configuration" if self.configuration else self.target


class StartError(Exception):
    """A start of the node that has to wait too long for another one, or runs a version that is not current."""


class StartLock:
    """The right to start the node, or to change what it is started with: the link, the database, the configuration.

    A record lock of POSIX belongs to a process: it outlives an exec, as a launcher becomes the node; no child of the
    node has it, though that may have the descriptor; the kernel says which process has it; and it ends with the
    process, or when that closes any descriptor of the file, so a process opens it once.

    Args:
        file: that is locked; it is made if there is none.

    Raises:
        OSError: it cannot be opened for writing.
    """

    _RECORD: Final = struct.Struct("hhqqi")
    """`struct flock`: type, whence, start, length, process."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def acquire(self) -> int:
        """Take it, unless another process has it; return that process, else 0.

        Raises:
            OSError: a process of another PID namespace has it.
        """
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if process := self.holder():
                    return process
            else:
                return 0

    def holder(self) -> int:
        """Return the other process that has it; 0 if none has. Raises OSError, as `acquire`."""
        found = fcntl.fcntl(self._file, fcntl.F_GETLK, self._RECORD.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        kind, _, _, _, process = self._RECORD.unpack(found)
        if kind == fcntl.F_UNLCK:
            return 0
        if process <= 0:
            raise OSError(errno.EBUSY, "a process of another PID namespace starts the node")
        return int(process)

    def wait(self, is_running: Callable[[int], bool] = lambda _: False) -> bool:
        """Take it within some minutes, and return True; False if a process that runs the node has it and keeps it.

        Args:
            is_running: whether a process is the node, with its lock.

        Raises:
            StartError: another process has it for too long.
            OSError: as `acquire`.
        """
        deadline = time.monotonic() + _START_SECONDS
        while process := self.acquire():
            if is_running(process):
                return False
            if time.monotonic() > deadline:
                raise StartError(f"process {process} starts or stops it")
            time.sleep(_LOOK_AGAIN_SECONDS)
        return True

    def pass_on(self) -> None:
        """Let the program that takes the place of this process have it."""
        os.set_inheritable(self._file, True)  # noqa: FBT003 - the function's form

    def leave(self) -> None:
        """Release it, and close all descriptors of the file that this process has: the one that was passed on, too."""
        try:
            status = os.fstat(self._file)
            for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
                with suppress(OSError):
                    if descriptor != self._file and os.path.samestat(os.fstat(descriptor), status):
                        os.close(descriptor)
        finally:
            os.close(self._file)


class Installation:
    """The directory with the versions.

    Args:
        root: the directory.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.link = root / "current"
        self.versions = root / "versions"
        self.launcher = root / "bin" / "edgecore"
        self.state = root / "upgrade"
        self.former = self.state / "configuration.former"
        self.following = self.state / "configuration.following"
        self.starting = self.state / "starting"

    def program(self) -> Path:
        """Return the program of the current version."""
        return self.link / "bin" / "edgecore"

    def current(self) -> str:
        """Return the current version; empty without one."""
        with suppress(OSError):
            return self.link.readlink().name
        return ""

    def journal(self) -> UpgradeJournal | None:
        """Return the last upgrade; None without one.

        Raises:
            OSError: it cannot be read.
            ValueError: it is none.
        """
        try:
            with (self.state / "journal.json").open("rb") as file:
                return decode_journal(file.read(_LARGEST_JOURNAL))
        except FileNotFoundError:
            return None

    def write(self, journal: UpgradeJournal, phase: Phase) -> None:
        """Begin a phase: durable when this returns. Raises OSError."""
        journal.phase = phase
        replace_durably(self.state / "journal.json", json.dumps(asdict(journal)).encode())

    def activate(self, version: str) -> None:
        """Set the link to a version. Raises OSError."""
        self.lead_to(Path("versions", version))

    def lead_to(self, environment: Path) -> None:
        """Set the link. Raises OSError."""
        new = self.root / ".current.new"
        new.unlink(missing_ok=True)
        new.symlink_to(environment)
        new.replace(self.link)
        sync_directory(self.root)

    def switch(self, journal: UpgradeJournal) -> None:
        """Activate the new version, or the new configuration. Raises OSError."""
        self.write(journal, Phase.SWITCHING)
        if journal.configuration:
            self._configure(journal, self.following)
        else:
            self.activate(journal.target)
        self.write(journal, Phase.PROBATION)

    def _configure(self, journal: UpgradeJournal, source: Path) -> None:
        """Replace the configuration; its owner and mode stay. Raises OSError."""
        file = Path(journal.configuration)
        replace_durably(file, source.read_bytes(), like=file.stat())

    def roll_back(self, journal: UpgradeJournal) -> None:
        """Activate the earlier version, with the earlier database if the new one has changed its schema, damaged it, or
        begun another; or the earlier configuration.

        The node must not run. Needs no room on the disk for the database. Raises OSError.
        """
        if journal.configuration:
            self._configure(journal, self.former)
            return
        database = Path(journal.database)
        present = (schema_of(database), inode_of(database))
        if journal.database and backup_of(database).exists() and present != (journal.schema, journal.inode):
            for end in _DATABASE_FILES:
                database.with_name(database.name + end).unlink(missing_ok=True)
            backup_of(database).replace(database)
            sync_directory(database.parent)
            journal.report.append("the database is that of the time before the upgrade")
        self.activate(journal.origin)

    def is_back(self, journal: UpgradeJournal) -> bool:
        """Return whether `roll_back` was carried out, by whoever started the node. Raises OSError."""
        if journal.configuration:
            return Path(journal.configuration).read_bytes() == self.former.read_bytes()
        return self.current() == journal.origin

    def finish(self, journal: UpgradeJournal, phase: Phase) -> None:
        """Write the end, and remove the copies, which else the next upgrade does. Raises OSError."""
        self.write(journal, phase)
        if journal.configuration:
            for copy in (self.former, self.following):
                copy.unlink(missing_ok=True)
        if journal.database:
            backup_of(Path(journal.database)).unlink(missing_ok=True)

    def recover(self, journal: UpgradeJournal) -> None:
        """Do what must be done before the node starts without an updater. Raises OSError.

        No container has outlived a restart of the machine: then its name is all that the node is compared by.
        """
        if journal.boot != boot_id():
            journal.boot = boot_id()
            journal.before = replace(journal.before, containers=dict.fromkeys(journal.before.containers, ""))
        if journal.phase is Phase.SWITCHING:
            self.switch(journal)
        elif journal.phase is Phase.PROBATION:
            journal.boots -= 1
            is_over = journal.boots < 0
            if is_over:
                journal.report.append(f"{journal.subject} was started too often before it was well")
            self.write(journal, Phase.ROLLING_BACK if is_over else Phase.PROBATION)
        if journal.phase is Phase.ROLLING_BACK:
            self.roll_back(journal)
            self.write(journal, Phase.ROLLING_BACK)  # with what was done, for the updater's report

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock, and yield whether it was free. Raises OSError."""
        with self._lock_file() as descriptor:
            while not (is_free := _is_free(descriptor, fcntl.LOCK_EX)) and _is_free(descriptor, fcntl.LOCK_SH):
                # somebody only looks whether it is free
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                time.sleep(_LOOK_AGAIN_SECONDS)
            yield is_free

    def is_locked(self) -> bool:
        """Return whether an upgrade is prepared or carried out; nobody else takes this for one. Raises OSError."""
        with self._lock_file() as descriptor:
            return not _is_free(descriptor, fcntl.LOCK_SH)

    @contextmanager
    def _lock_file(self) -> Iterator[int]:
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _is_free(descriptor: int, kind: int) -> bool:
    """Take the lock on a file if it is free, and return whether it was."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def installation_of(prefix: Path) -> Installation | None:
    """Return the installation that a version's Python environment belongs to; None if it is in none."""
    found = Installation(prefix.parent.parent)
    return found if prefix.parent == found.versions and found.link.is_symlink() else None


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
        """Start the current version."""

    def monotonic(self) -> float:
        """Return the time in seconds."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""


class Updater:
    """The updater that carries an upgrade to its end, from wherever it is.

    Args:
        installation: with the journal.
        node: the node.
        is_starting: whether the node is just being started, so that it must not be started again.
    """

    def __init__(self, installation: Installation, node: NodeControl, *, is_starting: bool = False) -> None:
        self._installation = installation
        self._node = node
        self._is_starting = is_starting

    def run(self, journal: UpgradeJournal) -> None:
        """Go to the end. Raises OSError if a file cannot be written; the next call then goes on."""
        if journal.phase in (Phase.STAGED, Phase.SWITCHING):
            self._installation.switch(journal)
        if journal.phase is Phase.PROBATION:
            self._ensure_running(journal)
            trouble = self._watch(journal)
            if not trouble:
                self._installation.finish(journal, Phase.COMMITTED)
                return
            journal.report.append(trouble)
            self._installation.write(journal, Phase.ROLLING_BACK)
        if journal.phase is Phase.ROLLING_BACK:
            if not (self._is_starting and self._installation.is_back(journal)):
                self._go_back(journal)
            if not journal.configuration:
                self._ensure_earlier(journal)
            self._installation.finish(journal, Phase.ROLLED_BACK)

    def _go_back(self, journal: UpgradeJournal) -> None:
        with self._node.stopped():
            self._installation.roll_back(journal)
        self._node.start()

    def _ensure_earlier(self, journal: UpgradeJournal) -> None:
        """Wait until the earlier version answers. If another one does, which was started without the launcher, go back
        again.
        """
        returns, deadline = 0, self._node.monotonic() + _BACK_SECONDS
        while (seen := self._node.observe()) is None or seen.version != journal.origin:
            if seen is not None and returns < _MOST_RETURNS:
                returns += 1
                journal.report.append(f"edgecore {seen.version} was started again, and is stopped")
                self._go_back(journal)
            if self._node.monotonic() >= deadline:
                found = "no edgecore answers" if seen is None else f"edgecore {seen.version} runs"
                journal.report.append(f"{found} after {_BACK_SECONDS:.0f} s")
                return
            self._node.wait(journal.limits.every)
            self._node.exits()

    def _ensure_running(self, journal: UpgradeJournal) -> None:
        """Let the node run the new version, if it does not, or start it with the new configuration."""
        seen = None if self._is_starting or journal.configuration else self._node.observe()
        if not self._is_starting and (seen is None or seen.version != journal.target):
            with self._node.stopped():
                pass
            self._node.start()
        self._is_starting = False

    def _watch(self, journal: UpgradeJournal) -> str:
        """Return why the node has to go back; empty if it is well. What it lacks meanwhile goes into the log."""
        limits, began, logged = journal.limits, self._node.monotonic(), set[str]()
        since: float | None = None
        while True:
            exits = self._node.exits()
            if exits >= limits.exits:
                return f"{journal.subject} ended {exits} times"
            trouble = trouble_of(journal, self._node.observe())
            now = self._node.monotonic()
            since = None if trouble else now if since is None else since
            if since is not None and now - since >= limits.steady:
                trouble = self._new_problems(journal)
                if not trouble:
                    return ""
            if trouble and trouble not in logged and len(logged) < _MOST_LOGGED:
                sys.stderr.write(f"updater: {journal.subject}: {trouble}\n")
                logged.add(trouble)
            if now - began >= limits.within:
                return f"not well within {limits.within:.0f} s: {trouble or 'not for long enough'}"
            self._node.wait(limits.every)

    def _new_problems(self, journal: UpgradeJournal) -> str:
        found = self._node.problems()
        if found is None:
            return "its `edgecore doctor` does not work"
        new = sorted(set(found) - set(journal.problems))
        return f"`edgecore doctor` finds what it did not find before: {', '.join(new)}" if new else ""


def trouble_of(journal: UpgradeJournal, seen: NodeObservation | None) -> str:
    """Return what is worse than before the upgrade; empty if nothing is."""
    before = journal.before
    if seen is None:
        return "edgecore does not answer"
    if seen.version != journal.target:
        return f"edgecore {seen.version} runs"
    if unready := sorted(set(seen.unready) - set(before.unready)):
        return f"modules are not ready: {', '.join(unready)}"
    if before.connected and not seen.connected:
        return "the node is not connected"
    if before.memory and seen.memory > max(2 * before.memory, before.memory + _MORE_MEMORY):
        return f"edgecore has {seen.memory >> 20} MiB of memory, and had {before.memory >> 20}"
    for name, identity in before.containers.items():
        if name not in seen.containers or identity not in ("", seen.containers[name]):
            return f"a container does not run on as it was: {name}"
    return ""


def read_json(text: bytes) -> Any:
    """Return a JSON value. Raises ValueError, also for one that is nested too deeply for this interpreter."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("JSON is nested too deeply") from error


def decode_journal(text: bytes) -> UpgradeJournal:
    """Return a journal; what a later version has added to it is left out. Raises ValueError if it is none."""
    try:
        given: dict[str, Any] = read_json(text)
        parts = {"node": NodeHandle, "before": NodeObservation, "limits": ProbationLimits}
        made = {name: kind(**_known(kind, given[name])) for name, kind in parts.items()}
        return UpgradeJournal(**{**_known(UpgradeJournal, given), **made, "phase": Phase(given["phase"])})
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"no journal of an upgrade: {error}") from error


def _known(kind: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    return {each.name: given[each.name] for each in fields(kind) if each.name in given}


def backup_of(database: Path) -> Path:
    """Return the place of a database's copy: in the same directory, so that a rename is enough to restore it."""
    return database.with_name(f".{database.name}.before-upgrade")


def inode_of(file: Path) -> int:
    """Return the inode of a file; 0 without one."""
    try:
        return file.stat().st_ino
    except OSError:
        return 0


def schema_of(database: Path) -> int | None:
    """Return the version of a database's schema; None if it is damaged or cannot be read."""
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return None
    return int(version) if check == "ok" else None


def replace_durably(path: Path, content: bytes, like: os.stat_result | None = None) -> None:
    """Replace a file durably, with mode 0600, or with the owner and mode of another one. Raises OSError."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        if like is not None:
            os.fchmod(file.fileno(), stat.S_IMODE(like.st_mode))
            if (like.st_uid, like.st_gid) != (os.geteuid(), os.getegid()):
                os.fchown(file.fileno(), like.st_uid, like.st_gid)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Put a file on the disk. Raises OSError."""
    _sync(path, os.O_RDONLY)


def sync_directory(path: Path) -> None:
    """Put the names in a directory on the disk. Raises OSError."""
    _sync(path, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def observe_node(path: str) -> NodeObservation | None:
    """Return the node that answers on a socket; None if none does."""
    import http.client  # noqa: PLC0415 - 1 MiB that a node which imports this module for its start does without

    try:
        (state, process), (pods, _) = _get(path, "/edgecore/state"), _get(path, "/pods")
        return NodeObservation(
            version=str(state["version"]),
            connected=state["link"].get("connected_at") is not None,
            unready=sorted(name for name, module in state["modules"].items() if module["state"] != "ready"),
            containers=_running_containers(pods),
            memory=_memory_of(process),
        )
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError, AttributeError):
        return None


def observe_settled_node(path: str) -> NodeObservation | None:
    """Return the node that answers on a socket, once no pod waits for its worker; after `_SETTLED_SECONDS` as it is
    then. A node that was started just now shows containers of its last run, which a restart of the machine has ended.
    """
    deadline, looks = time.monotonic() + _SETTLED_SECONDS, 0
    while looks < _SETTLED_LOOKS and time.monotonic() < deadline:
        looks = 0 if _is_busy(path) else looks + 1
        time.sleep(_LOOK_AGAIN_SECONDS)
    return observe_node(path)


def _is_busy(path: str) -> bool:
    """Return whether a pod of the node waits for a worker, or is with one."""
    import http.client  # noqa: PLC0415 - as in `observe_node`

    try:
        state, _ = _get(path, "/edgecore/state")
        return bool(state["work"]["waiting"] or state["work"]["working"])
    except (OSError, http.client.HTTPException, ValueError, TypeError, KeyError):
        return False


def _get(path: str, target: str) -> tuple[Any, int]:
    """Return an answer, and the process that listens."""
    import http.client  # noqa: PLC0415 - the same

    with (
        closing(http.client.HTTPConnection("localhost")) as connection,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connected,
    ):
        connected.settimeout(_ANSWER_SECONDS)
        connected.connect(path)
        connection.sock = connected
        connection.request("GET", target)
        process = int.from_bytes(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 4), sys.byteorder)
        answer = connection.getresponse()
        text = answer.read(_LARGEST_ANSWER)
        if answer.status != http.client.OK:
            raise ValueError(f"{target}: {answer.status}")
        return read_json(text), process


def _memory_of(process: int) -> int:
    """Return the bytes that a process has resident; 0 if they are not known."""
    with suppress(OSError, IndexError):
        pages = Path(f"/proc/{process}/statm").read_text().split()[1]
        return number_in(pages) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _running_containers(pods: Any) -> dict[str, str]:
    found = {}
    for pod in pods.get("items") or ():
        metadata, status = pod["metadata"], pod.get("status", {})
        for container in status.get("containerStatuses") or ():
            if "running" in (container.get("state") or {}):
                name = f"{metadata['namespace']}/{metadata['name']} {metadata['uid']} {container['name']}"
                found[name] = str(container["containerID"])
    return found


def failed_checks(program: Path, options: Sequence[str]) -> list[str] | None:
    """Return the checks of `doctor` that fail; None if it does not work."""
    command = [str(program), "doctor", "--json", *options]
    try:
        said = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_DOCTOR_SECONDS, check=False
        )
        return [str(each["check"]) for each in read_json(said.stdout) if each["level"] == "FAIL"]
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, KeyError):
        return None


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
                    self.wait(_LOOK_AGAIN_SECONDS)
            if self._child is not None:
                end_process(self._child.pid)
                self._child.wait()
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
        """Start the current version."""
        if self._node.unit:
            self._systemctl("start", "--no-block", self._node.unit)
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
        with suppress(OSError):
            words = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
            pairs = (os.fsdecode(word).partition("=") for word in words if b"=" in word)
            self._environment = {name: value for name, _, value in pairs}
            self._directory = Path(f"/proc/{process}/cwd").readlink()

    def _restarts(self) -> int:
        return number_in(self._systemctl("show", "--property=NRestarts", "--value", self._node.unit))

    def _systemctl(self, *words: str) -> str:
        command = ["systemctl", *(["--user"] if self._node.user else []), *words]
        with suppress(OSError, subprocess.SubprocessError):
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_COMMAND_SECONDS, check=False
            ).stdout
        return ""


def owner_of(lock: Path) -> int:
    """Return the process that runs the node; 0 if none does, or if it has just taken the lock."""
    return _owner(lock) or 0


def is_held(lock: Path) -> bool:
    """Return whether a process runs the node."""
    return _owner(lock) is not None


def _owner(lock: Path) -> int | None:
    """Return the process in a lock file that is held, 0 if that does not say it yet; None if nobody holds it."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        if _is_free(descriptor, fcntl.LOCK_SH):
            return None
        return number_in(os.pread(descriptor, 20, 0).decode("ascii", "replace"))
    finally:
        os.close(descriptor)


def _is(wanted: int, find: Callable[[], int]) -> bool:
    """Return whether a process is found (again)."""
    return find() == wanted


def number_in(text: str) -> int:
    """Return the number that a text is; 0 if it is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}\n?", text) else 0


def end_process(process: int, is_meant: Callable[[], bool] = lambda: True) -> None:
    """End a process: SIGTERM, and SIGKILL if it does not stop.

    Args:
        process: the process.
        is_meant: returns whether the process that has this number now is still the one that is meant.
    """
    with suppress(ProcessLookupError):
        try:
            descriptor = os.pidfd_open(process)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):  # the number is a thread's by now
                return
            raise
        try:
            for number in (signal.SIGTERM, signal.SIGKILL) if is_meant() else ():
                signal.pidfd_send_signal(descriptor, number)
                if select.select([descriptor], [], [], STOP_SECONDS)[0]:
                    return
        finally:
            os.close(descriptor)


def start_updater(installation: Installation, node: NodeHandle, *, is_starting: bool) -> None:
    """Start the updater: as a transient unit where systemd runs the node, else as a process of its own.

    systemd starts it again when it is killed.

    Raises:
        OSError: a program is missing.
        subprocess.SubprocessError: systemd did not start it.
    """
    command = [sys.executable, "-I", str(installation.state / "updater.py"), str(installation.root)]
    if node.unit:
        options = [
            "--quiet",
            f"--unit={_UNIT}",
            "--collect",
            "--property=Restart=on-failure",
            f"--property=RestartSec={_AGAIN_SECONDS:.0f}",
        ]
        words = ["systemd-run", *(["--user"] if node.user else []), *options, "--", *command]
        subprocess.run(words, stdin=subprocess.DEVNULL, check=True, timeout=_COMMAND_SECONDS)
        return
    with (installation.state / "updater.log").open("ab") as log:
        subprocess.Popen(
            [*command, *(["starting"] if is_starting else [])],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def hold_start(installation: Installation) -> StartLock:
    """Take the right to start the node, and see to an upgrade that is unfinished.

    Raises:
        StartError: another start takes too long, or the node runs.
        OSError: this user must not take it.
    """
    lock = StartLock(installation.starting)
    is_held = lock.wait(partial(_runs, installation))
    resume(installation)
    if not is_held:
        raise StartError(f"process {lock.holder()} runs it")
    return lock


def _runs(installation: Installation, process: int) -> bool:
    """Return whether a process is the node that was changed last, which has its lock."""
    with suppress(OSError, ValueError):
        journal = installation.journal()
        return journal is not None and owner_of(Path(journal.node.lock)) == process
    return False


def resume(installation: Installation) -> None:
    """See to an upgrade that is unfinished, before a node starts; whatever fails there is said."""
    try:
        with installation.locked() as is_free:
            journal = installation.journal() if is_free else None
            if journal is None or journal.phase not in UNFINISHED:
                return
            if not (runs := is_held(Path(journal.node.lock))):
                installation.recover(journal)
        start_updater(installation, journal.node, is_starting=not runs)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"edgecore: cannot go on with the upgrade: {error}\n")


def launch(root: Path, words: Sequence[str]) -> NoReturn:
    """Start the current version in the place of this process; before a node runs, go on with what is unfinished.

    Beside a configuration there are no versions, and the program itself sees to what is unfinished.
    """
    installation = Installation(root)
    if words[:1] == ["run"] and installation.versions.is_dir():
        try:
            hold_start(installation).pass_on()
        except StartError as error:
            sys.stderr.write(f"edgecore: error: cannot start this node: {error}\n")
            sys.exit(_START_FAILED)
        except OSError as error:
            sys.stderr.write(f"edgecore: an upgrade may not see this start: {error}\n")
    program = str(installation.program())
    os.execv(program, [program, *words])  # noqa: S606 - in the place of this process


def carry_out(installation: Installation, journal: UpgradeJournal, node: NodeControl, *, is_starting: bool) -> None:
    """Carry an upgrade that has begun to its end, however often a file cannot be written: the node may be stopped.

    Raises:
        OSError: nothing was changed; or systemd runs the node, and starts an updater again that has failed.
    """
    said = ""
    while journal.phase not in (Phase.COMMITTED, Phase.ROLLED_BACK):
        try:
            Updater(installation, node, is_starting=is_starting).run(journal)
        except OSError as error:
            is_starting, journal = False, installation.journal() or journal
            if journal.node.unit or journal.phase is Phase.STAGED:
                raise
            if said != str(error):
                said = str(error)
                sys.stderr.write(f"updater: tried again: {error}\n")
            node.wait(_AGAIN_SECONDS)


def main(words: Sequence[str]) -> int:
    """Carry the upgrade of an installation to its end."""
    installation, deadline = Installation(Path(words[0])), time.monotonic() + _LOCK_SECONDS
    while True:
        with installation.locked() as is_free:
            if is_free:
                journal = installation.journal()
                if journal is not None:
                    node = LocalNodeControl(installation, journal.node)
                    carry_out(installation, journal, node, is_starting="starting" in words[1:])
                return 0
        if time.monotonic() > deadline:
            sys.stderr.write("updater: another upgrade is under way\n")
            return 0
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
