"""The directory with the versions: its link, and the way there and back."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path

from .database import backup_of, inode_of, put_back, schema_of
from .files import replace_durably, sync_directory
from .journal import LARGEST_JOURNAL, Phase, UpgradeJournal, boot_id, decode_journal
from .locks import try_lock
from .processes import LOOK_AGAIN_SECONDS


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
                return decode_journal(file.read(LARGEST_JOURNAL))
        except FileNotFoundError:
            return None

    def write(self, journal: UpgradeJournal, phase: Phase) -> None:
        """Begin a phase: durable when this returns. Raises OSError."""
        text = json.dumps(asdict(replace(journal, phase=phase)))
        replace_durably(self.state / "journal.json", text.encode())
        journal.phase = phase

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
            put_back(database)
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
            while not (is_free := try_lock(descriptor, fcntl.LOCK_EX)) and try_lock(descriptor, fcntl.LOCK_SH):
                # somebody only looks whether it is free
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                time.sleep(LOOK_AGAIN_SECONDS)
            yield is_free

    def is_locked(self) -> bool:
        """Return whether an upgrade is prepared or carried out; nobody else takes this for one. Raises OSError."""
        with self._lock_file() as descriptor:
            return not try_lock(descriptor, fcntl.LOCK_SH)

    @contextmanager
    def _lock_file(self) -> Iterator[int]:
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.state / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def installation_of(prefix: Path) -> Installation | None:
    """Return the installation that a version's Python environment belongs to; None if it is in none."""
    found = Installation(prefix.parent.parent)
    return found if prefix.parent == found.versions and found.link.is_symlink() else None
