"""The installed launcher and updater, as processes, killed after each of their steps: alone, or with the node. Each
step is killed in one of four ways; `make slow` kills each in all of them.

The node is a few lines that hold the lock and answer on the socket; `make upgrades` has whole nodes. The earlier
version keeps the right to start that its launcher has handed on, as versions before 0.4 do.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

import pytest

from modules.processes.edgecore.upgrade.programs import PACKAGE, write_programs
from modules.processes.edgecore.upgrade.updater.database import backup_of, inode_of
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import (
    UNFINISHED,
    NodeHandle,
    Phase,
    ProbationLimits,
    UpgradeJournal,
)
from modules.processes.edgecore.upgrade.updater.locks import owner_of
from modules.processes.edgecore.upgrade.updater.observation import observe_node
from tests.end_to_end.processes import processes_of, wait_until
from tests.modules.processes.edgecore.upgrade.releases import journal_of
from tests.modules.processes.edgecore.upgrade.test_updater import NEW, OLD, SCHEMAS, write_database
from tests.support.killed_steps import Steps
from tests.support.patience import PATIENCE

_NODE: Final = """\
#!{python} -IS
import fcntl, os, socket, sys
os.chdir({root!r})
if sys.argv[1] == "doctor":
    print("[]")
    sys.exit()
lock = os.open("lock", os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.ftruncate(lock, 0)
os.write(lock, b"%d\\n" % os.getpid())
for descriptor in range(3, lock) if {releases} else ():
    os.close(descriptor)
import sqlite3
with sqlite3.connect("edgecore.db") as database:
    assert database.execute("PRAGMA user_version").fetchone()[0] <= {schema}
    database.execute("PRAGMA user_version={schema}")
database.close()
if os.path.exists("socket"):
    os.unlink("socket")
server = socket.socket(socket.AF_UNIX)
server.bind("socket")
server.listen()
while True:
    connection, _ = server.accept()
    text = {state!r} if b"/edgecore/state" in connection.recv(1000) else {pods!r}
    connection.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n" + text.encode())
    connection.close()
"""
_STATE: Final = '{{"version": "{version}", "link": {{"connected_at": {connected}}}, "modules": {{}}}}'
_PODS: Final = (
    '{"items": [{"metadata": {"namespace": "default", "name": "web", "uid": "1"}, "status": {"containerStatuses": '
    '[{"name": "web", "containerID": "c1", "state": {"running": {}}}]}}]}'
)


class Killed:
    """An installation whose node runs the earlier version, with an upgrade that is staged."""

    def __init__(self, root: Path, *, is_bad: bool) -> None:
        root.mkdir()
        self.root, self.steps = root, Steps(root / "steps")
        self.installation, database = Installation(root / "i"), root / "edgecore.db"
        for version, schema in SCHEMAS.items():
            file = self.installation.versions / version / "bin" / "edgecore"
            file.parent.mkdir(parents=True)
            state = _STATE.format(version=version, connected="null" if is_bad and version == NEW else "1.0")
            values = {"python": sys.executable, "root": str(root), "schema": schema, "state": state, "pods": _PODS}
            values["releases"] = version == NEW
            file.write_text(_NODE.format(**values))
            file.chmod(0o755)
        self.installation.state.mkdir()
        write_programs(self.installation, self.steps.counting(PACKAGE))
        write_database(database, "old", SCHEMAS[OLD])
        backup_of(database).write_bytes(database.read_bytes())
        self.installation.activate(OLD)
        self._handle = NodeHandle(str(root / "lock"), str(root / "socket"), [], [])
        self._processes: list[subprocess.Popen[bytes]] = []
        self.start()
        wait_until(lambda: observe_node(self._handle.socket), "the node runs")
        before = observe_node(self._handle.socket)
        assert before is not None
        limits = ProbationLimits(within=0.1 if is_bad else PATIENCE, steady=0.01, every=0.01)
        state_of_database = (str(database), SCHEMAS[OLD], inode_of(database))
        journal = UpgradeJournal(OLD, NEW, self._handle, before, [], *state_of_database, limits)
        self.installation.write(journal, Phase.STAGED)

    def upgrade(self, kill: int, *, power: bool) -> bool:
        """Upgrade, and kill at a step; begin again as the next start does. Return whether the step was reached."""
        self.steps.arm(kill)
        self._run(sys.executable, "-I", self.installation.state / "updater.py", self.installation.root)
        wait_until(lambda: self.steps.reached() or self.has_ended(), "the upgrade ends, or is killed")
        if not self.steps.reached():
            return False
        if power:
            self.kill()
        if self.phase() is Phase.STAGED:
            self._run(sys.executable, "-I", self.installation.state / "updater.py", self.installation.root)
        else:
            self.start()
        wait_until(self.has_ended, "the upgrade ends")
        return True

    def phase(self) -> Phase:
        """Return how far the upgrade has come."""
        return journal_of(self.installation).phase

    def has_ended(self) -> bool:
        """Return whether the upgrade has come to its end."""
        return self.phase() not in (Phase.STAGED, *UNFINISHED)

    def version(self) -> str:
        """Return the version that answers; empty if none does."""
        seen = observe_node(self._handle.socket)
        return "" if seen is None else seen.version

    def runs(self, version: str) -> bool:
        """Return whether a version answers. Nobody may run the node: an updater has just ended it."""
        if owner_of(self.root / "lock") == 0 and all(child.poll() is not None for child in self._processes):
            self.start()
        return self.version() == version

    def start(self) -> None:
        """Start the node, as a service manager does."""
        self._run(self.installation.launcher, "run")

    def kill(self) -> None:
        """Kill all that runs, as a power cut does."""
        while found := processes_of(self.root):
            for process in found:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        for child in self._processes:
            child.wait()

    def _run(self, *words: str | Path) -> None:
        with (self.root / "log").open("ab") as log:
            self._processes.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log))


_WAYS: Final = {
    "good-updater": (False, False),
    "good-all": (False, True),
    "bad-updater": (True, False),
    "bad-all": (True, True),
}


@pytest.mark.parametrize(
    ("is_bad", "power", "first", "every"),
    [
        *(pytest.param(*way, number, len(_WAYS), id=name) for number, (name, way) in enumerate(_WAYS.items(), 1)),
        *(pytest.param(*way, 1, 1, id=f"{name}-whole", marks=pytest.mark.slow) for name, way in _WAYS.items()),
    ],
)
def test_a_kill_after_each_step(memory_path: Path, *, is_bad: bool, power: bool, first: int, every: int) -> None:
    """In the end the node runs the version that the link names, the right one, and can read its database.

    The limit of a bad one, 0.1 s, ends at any moment of a start, also when the node has not taken its lock yet.
    """
    for kill in count(first, every):
        node = Killed(memory_path / f"{kill}", is_bad=is_bad)
        try:
            was_reached = node.upgrade(kill, power=power)
            wanted, phase = (OLD, Phase.ROLLED_BACK) if is_bad else (NEW, Phase.COMMITTED)
            assert (node.phase(), node.installation.current()) == (phase, wanted), f"killed after step {kill}"
            wait_until(partial(node.runs, wanted), f"{wanted} runs")
        finally:
            node.kill()
        if not was_reached:
            break
    assert kill > 12, "too few steps were counted"
