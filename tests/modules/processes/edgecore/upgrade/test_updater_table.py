"""The updater's steps outside of the phases, with a kill, a power cut, a failing call or a full disk at each: what is
then on the disk, who runs, and with whose environment.
"""

import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from modules.processes.edgecore.upgrade.updater.journal import Phase
from tests.modules.processes.edgecore.upgrade.machine import (
    BOOT,
    LAUNCHER,
    NEW,
    OLD,
    OWNER,
    SCHEMAS,
    UPDATER,
    Machine,
    Program,
    Surroundings,
)
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut


class Row(NamedTuple):
    """An upgrade."""

    character: str
    changes: str = "version"
    unit: bool = False
    boots: Phase | None = None
    """The phase in which the power failed, so that the node is just being started."""
    beside_start: bool = False
    """Whether somebody starts the node a second time meanwhile."""
    left: int = 3
    """Starts that the probation still survives."""

    def made(self, root: Path) -> Machine:
        """Return a machine on which the upgrade is staged, or was switched to before the power failed."""
        root.mkdir(exist_ok=True)
        machine = Machine(root, self.character, changes=self.changes, unit=self.unit).make()
        if self.beside_start:
            machine.programs[LAUNCHER] = Program("launcher", OWNER)
        if self.boots:
            journal = machine.journal()
            journal.boots = self.left
            machine.installation.switch(journal)
            machine.end(machine.node)
            machine.end(machine.begin(OWNER))
            journal.report += [_NOT_WELL] if self.boots is Phase.ROLLING_BACK else []
            machine.installation.write(journal, self.boots)
        return machine

    def go(self, machine: Machine) -> None:
        """Carry the upgrade out; where the start of the node cannot begin with that, its next start does."""
        while self.boots and not machine.power_on():
            assert machine.node, "the node is started all the same"
        if not self.boots:
            machine.carry_on()


ENDS: Final = (Phase.COMMITTED, Phase.ROLLED_BACK)
ROWS: Final = {
    "good": Row("good"),
    "dies": Row("dies"),
    "beside a start": Row("good", beside_start=True),
    "hangs": Row("hangs"),
    "weak": Row("weak"),
    "offline": Row("offline", boots=Phase.PROBATION),
    "switching": Row("good", boots=Phase.SWITCHING),
    "rolling back": Row("offline", boots=Phase.ROLLING_BACK),
    "started too often": Row("offline", boots=Phase.PROBATION, left=0),
    "configuration": Row("offline", "configuration"),
    "configuration at a boot": Row("offline", "configuration", boots=Phase.PROBATION),
    "unit": Row("offline", unit=True),
}


_TRIES: Final = 4
_LOSSES: Final = (Loss.NOTHING, Loss.CONTENTS, Loss.NAMES)


def begin(phase: Phase) -> list[str]:
    """Return the steps that put a phase into the journal."""
    return ["flush .journal.json.new", f"journal: {phase}", "flush upgrade"]


def stop(process: int, *put_back: str) -> list[str]:
    """Return the steps that end the node, and put something back meanwhile."""
    end = [f"read the environment of {process}", f"hold {process}", f"SIGTERM to {process}"]
    return ["take the right to start", *end, *put_back, "leave the right to start"]


def configure(value: str) -> list[str]:
    """Return the steps that replace the configuration."""
    return ["flush .edgecore.yaml.new", f"edgecore.yaml: {value}", "flush etc"]


_DATABASE: Final = ["remove edgecore.db", "remove edgecore.db-wal", "edgecore.db: 3 old", "flush data"]
_BACK: Final = ["link: 1.0.0", "flush own"]
_START: Final = "start {}: run --root x, {}"
_OWNERS: Final = "owner's environment in /srv"
_BOOTS: Final = "boot's environment in /"
_LOOKS: Final = ["read the environment of 300"] * 5
_TO_NEW: Final = [*begin(Phase.SWITCHING), "link: 2.0.0", "flush own", *begin(Phase.PROBATION)]
STEPS: Final = {
    "good": [
        *_TO_NEW, *stop(100), _START.format(NEW, _OWNERS),
        *begin(Phase.COMMITTED), "remove .edgecore.db.before-upgrade",
    ],
    "beside a start": [
        *_TO_NEW, f"hold {LAUNCHER}", f"SIGTERM to {LAUNCHER}", "read the environment of 100", "hold 100",
        "SIGTERM to 100", "take the right to start", "leave the right to start", _START.format(NEW, _OWNERS),
        *begin(Phase.COMMITTED), "remove .edgecore.db.before-upgrade",
    ],
    "dies": [
        *_TO_NEW, *stop(100), *[_START.format(NEW, _OWNERS)] * 4,
        *begin(Phase.ROLLING_BACK), *stop(500, "hold 500", *_DATABASE, *_BACK), _START.format(OLD, _OWNERS),
        *begin(Phase.ROLLED_BACK),
    ],
    "hangs": [
        *_TO_NEW, *stop(100), _START.format(NEW, _OWNERS),
        *begin(Phase.ROLLING_BACK), "take the right to start", "hold 200", "SIGTERM to 200", *_DATABASE, *_BACK,
        "leave the right to start", _START.format(OLD, _OWNERS),
        *begin(Phase.ROLLED_BACK),
    ],
    "weak": [
        *_TO_NEW, *stop(100), _START.format(NEW, _OWNERS),
        *begin(Phase.ROLLING_BACK), *stop(200, "hold 200", *_DATABASE, *_BACK), *[_START.format(OLD, _OWNERS)] * 2,
        *begin(Phase.ROLLED_BACK),
    ],
    "offline": [
        *begin(Phase.PROBATION), *_LOOKS,
        *begin(Phase.ROLLING_BACK), *stop(300, *_DATABASE, *_BACK), _START.format(OLD, _BOOTS),
        *begin(Phase.ROLLED_BACK),
    ],
    "switching": [
        *_TO_NEW, *_LOOKS[:3],
        *begin(Phase.COMMITTED), "remove .edgecore.db.before-upgrade",
    ],
    "rolling back": [*_DATABASE, *_BACK, *begin(Phase.ROLLING_BACK), *begin(Phase.ROLLED_BACK)],
    "started too often": [
        *begin(Phase.ROLLING_BACK), *_DATABASE, *_BACK, *begin(Phase.ROLLING_BACK),
        *begin(Phase.ROLLED_BACK),
    ],
    "configuration": [
        *begin(Phase.SWITCHING), *configure(NEW), *begin(Phase.PROBATION), *stop(100), _START.format(NEW, _OWNERS),
        *begin(Phase.ROLLING_BACK), *stop(200, "hold 200", *configure(OLD)), _START.format(OLD, _OWNERS),
        *begin(Phase.ROLLED_BACK), "remove configuration.former", "remove configuration.following",
    ],
    "configuration at a boot": [
        *begin(Phase.PROBATION), *_LOOKS,
        *begin(Phase.ROLLING_BACK), *stop(300, *configure(OLD)), _START.format(OLD, _BOOTS),
        *begin(Phase.ROLLED_BACK), "remove configuration.former", "remove configuration.following",
    ],
    "unit": [
        *_TO_NEW, "systemctl stop edgecore.service", "take the right to start", "leave the right to start",
        "systemctl start --no-block edgecore.service",
        *begin(Phase.ROLLING_BACK), "systemctl stop edgecore.service", "take the right to start", *_DATABASE, *_BACK,
        "leave the right to start", "systemctl start --no-block edgecore.service",
        *begin(Phase.ROLLED_BACK),
    ],
}  # fmt: skip
"""What the updater does, and before it the start of a node: each step once, in this order."""
_NOT_WELL: Final = "not well within 4 s: the node is not connected"
_PUT_BACK: Final = "the database is that of the time before the upgrade"
REPORTS: Final = {
    "dies": [f"{NEW} ended 3 times", _PUT_BACK],
    "hangs": ["not well within 4 s: edgecore does not answer", _PUT_BACK],
    "weak": [_NOT_WELL, _PUT_BACK],
    "offline": [_NOT_WELL, _PUT_BACK],
    "rolling back": [_NOT_WELL, _PUT_BACK],
    "started too often": [f"{NEW} was started too often before it was well", _PUT_BACK],
    "configuration": [_NOT_WELL],
    "configuration at a boot": [_NOT_WELL],
    "unit": [_NOT_WELL, _PUT_BACK],
}


@pytest.mark.parametrize("name", ROWS)
def test_the_steps(memory_path: Path, name: str) -> None:
    """The earlier database and its directory are on the disk before the link is put back, and the node is started as it
    was; the third end of a bad version is its last.
    """
    machine = ROWS[name].made(memory_path / "m")
    with machine.doubles():
        ROWS[name].go(machine)
    assert machine.trace == STEPS[name]
    assert machine.journal().report == REPORTS.get(name, [])


def check_disk(machine: Machine) -> None:
    """Check that the disk can be gone on from: the journal, what is active, the database and its copy."""
    phase, active, data, _, copies = machine.state()
    has_old = data[:1] == [f"edgecore.db: {SCHEMAS[OLD]} old"] and len(data) == 1
    active_in = {Phase.STAGED: {OLD}, Phase.PROBATION: {NEW}, Phase.COMMITTED: {NEW}, Phase.ROLLED_BACK: {OLD}}
    assert active in active_in.get(Phase(phase), {OLD, NEW}), phase
    if machine.changes == "version":
        assert active == NEW or has_old, f"the earlier version is active, with {data}"
        assert has_old or phase == Phase.COMMITTED or copies, f"there is no copy of the database, but {data}"
    else:
        assert phase in ENDS or len(copies) == 2


def check_end(machine: Machine, *started_by: Surroundings, keeps_copies: bool = False) -> None:
    """Check that the node runs what it has to, once, with the environment and the directory of who has started it."""
    phase, active, data, running, copies = machine.state()
    is_good = machine.character == "good"
    wanted = (Phase.COMMITTED, NEW) if is_good else (Phase.ROLLED_BACK, OLD)
    assert (phase, active, [each.version for each in running]) == (*wanted, [wanted[1]])
    assert running[0].surroundings in started_by
    assert data[0] == f"edgecore.db: {SCHEMAS[NEW]} new" if is_good else data == [f"edgecore.db: {SCHEMAS[OLD]} old"]
    assert not copies or keeps_copies
    assert not machine.is_start_held
    assert bool(machine.journal().report) is not is_good


@pytest.mark.parametrize("name", ["good", "dies", "rolling back", "configuration", "configuration at a boot"])
def test_a_kill_or_a_power_cut_after_each_step(memory_path: Path, name: str) -> None:
    """What is flushed is enough to go on from, and who goes on comes to the same end."""
    row, root = ROWS[name], memory_path / "m"
    machine = row.made(root)

    def life(promise: Promise) -> None:
        machine.after = lambda: promise((tuple(machine.programs.items()), machine.node, machine.boots))
        with machine.doubles():
            machine.after()
            row.go(machine)

    def check(cut: Cut) -> None:
        left = Machine(root, row.character, changes=row.changes, unit=row.unit)
        check_disk(left)
        has_ended = left.journal().phase in ENDS
        programs, node, left.boots = cut.promised[-1]
        with left.doubles():
            if cut.loss is Loss.NOTHING and (node or not row.boots):
                left.programs, left.node, left.numbers = dict(programs), node, machine.numbers
                left.carry_on()
                check_end(left, *left_by(row, node), keeps_copies=has_ended)
            elif left.journal().phase is Phase.STAGED:
                left.power_on()
                assert left.state()[3] == [Program(OLD, BOOT)], "the upgrade has not begun"
            else:
                left.power_on()
                left.carry_on()
                check_end(left, OWNER if row.unit else BOOT, BOOT, keeps_copies=has_ended)

    assert after_each_cut(root, life, check, losses=_LOSSES, trusted=("edgecore.db*",)) > 30


def left_by(row: Row, node: int) -> list[Surroundings]:
    """Return who has started the node at the end: of one that has ended, only a killed updater knew the environment."""
    return [OWNER] if row.unit else [(BOOT if row.boots else OWNER) if node else UPDATER]


def steps_of(row: Row, root: Path) -> list[bool]:
    """Return for each step of an upgrade to which nothing happens whether it needs room on the disk."""
    steps = list[bool]()
    machine = row.made(root)
    machine.step = steps.append
    with machine.doubles():
        row.go(machine)
    return steps


def is_among(chosen: range, _machine: Machine, done: int, _needs_room: bool) -> bool:
    """Return whether the step after so many fails, as the chosen ones do."""
    return done in chosen


def finds_no_room(begin: int, machine: Machine, done: int, needs_room: bool) -> bool:
    """Return whether the step after so many fails on a disk that is full from a step on, until the third try."""
    return needs_room and done >= begin and machine.tries < _TRIES


@pytest.mark.parametrize(
    ("name", "calls", "error"),
    [
        *((name, 1, errno.EIO) for name in ROWS),
        *((name, 2, errno.ENOSPC) for name in ("dies", "rolling back", "configuration at a boot", "unit")),
    ],
)
def test_a_call_that_fails_at_each_step(memory_path: Path, name: str, calls: int, error: int) -> None:
    """One call, and two that follow each other: the updater tries again, and the node is not left stopped."""
    row = ROWS[name]
    for at in range(len(steps_of(row, memory_path / "whole"))):
        go_on(row, memory_path / f"{at}", partial(is_among, range(at, at + calls)), error)


@pytest.mark.parametrize("name", ROWS)
def test_a_disk_that_is_full_from_each_step_on(memory_path: Path, name: str) -> None:
    """Until somebody makes room."""
    row = ROWS[name]
    for at in [at for at, needs_room in enumerate(steps_of(row, memory_path / "whole")) if needs_room]:
        go_on(row, memory_path / f"{at}", partial(finds_no_room, at), errno.ENOSPC)


def go_on(row: Row, root: Path, fails: Callable[[Machine, int, bool], bool], error: int) -> None:
    """Carry an upgrade out whose steps fail; begin again as long as it has not begun."""
    machine, done, has_ended = row.made(root), 0, False

    def step(needs_room: bool) -> None:
        nonlocal done, has_ended
        done += 1
        if fails(machine, done - 1, needs_room):
            has_ended = has_ended or machine.journal().phase in ENDS
            raise OSError(error, os.strerror(error))

    machine.step = step
    with machine.doubles():
        while machine.journal().phase not in ENDS:
            try:
                row.go(machine)
            except OSError:
                phase, active, data, running, _ = machine.state()
                assert (phase, active, data) == (Phase.STAGED, OLD, [f"edgecore.db: {SCHEMAS[OLD]} old"])
                assert Program(OLD, OWNER) in running, "nothing was changed"
    check_disk(machine)
    check_end(machine, UPDATER if machine.was_refused else BOOT if row.boots else OWNER, keeps_copies=has_ended)


@pytest.mark.parametrize("name", ["dies", "configuration"])
def test_the_number_of_a_node_that_has_ended_is_a_strangers(memory_path: Path, name: str) -> None:
    """From any step on: nobody but the node is sent a signal."""
    row = ROWS[name]
    for at in range(len(steps_of(row, memory_path / "whole"))):
        machine, done = row.made(memory_path / f"{at}"), list[bool]()

        def step(needs_room: bool, done: list[bool] = done, at: int = at, machine: Machine = machine) -> None:
            done.append(needs_room)
            if len(done) == at + 1:
                machine.recycle()

        machine.step = step
        with machine.doubles():
            row.go(machine)
        check_disk(machine)
        assert machine.journal().phase in ENDS
