"""Steps of an upgrade that leave no trace in its journal: in which order, how often, and of what they are told."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from modules.edge.taskmanager.settings_updates import SettingsState
from modules.processes.edgecore.node_settings import LocalSettingsCommands
from modules.processes.edgecore.upgrade.commands import _previous
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.updater import database as database_module
from modules.processes.edgecore.upgrade.updater.database import backup_of
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, NodeObservation, Phase, UpgradeJournal
from modules.processes.edgecore.upgrade.updater.locks import StartLock
from modules.processes.edgecore.upgrade.updater.phases import Updater, carry_out
from modules.processes.edgecore.upgrade.updater.probation import watch
from tests.support.failing import census


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    """An installation with two versions, the later one current."""
    made = Installation(tmp_path / "own")
    made.state.mkdir(parents=True)
    for version in ("1.0.0", "2.0.0"):
        (made.versions / version / "bin").mkdir(parents=True)
    made.activate("2.0.0")
    return made


def journal_in(installation: Installation, phase: Phase, database: str = "", **fields: Any) -> UpgradeJournal:
    """A journal from 1.0.0 to 2.0.0 in a phase, written."""
    before = NodeObservation("1.0.0", connected=False, unready=[], containers={})
    journal = UpgradeJournal("1.0.0", "2.0.0", NodeHandle("", "", [], []), before, [], database, 3, 0, **fields)
    installation.write(journal, phase)
    return journal


def test_a_node_that_was_being_started_is_not_any_more_after_a_failed_try(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk during a resumed upgrade: the updater took the node for being started, and never started it."""
    tries = list[bool]()

    def run(self: Updater, journal: UpgradeJournal) -> None:
        tries.append(self._is_starting)
        if len(tries) == 1:
            raise OSError(28, "No space left on device")
        installation.write(journal, Phase.COMMITTED)

    monkeypatch.setattr(Updater, "run", run)
    carry_out(installation, journal_in(installation, Phase.PROBATION), Mock(), is_starting=True)
    assert tries == [True, False]


def test_the_earlier_database_is_durable_before_the_earlier_version_is_current(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A power cut between the two would leave the earlier version with the later database."""
    database, steps = tmp_path / "edgecore.db", list[str]()
    database.write_bytes(b"later")
    backup_of(database).write_bytes(b"earlier")

    def note(directory: Path) -> None:
        steps.append(f"{directory.name} has {database.read_bytes().decode()}, {installation.current()} is current")

    monkeypatch.setattr(database_module, "sync_directory", note)
    installation.roll_back(journal_in(installation, Phase.ROLLING_BACK, str(database)))
    of_database = [each for each in steps if each.startswith(tmp_path.name)]
    assert of_database == [f"{tmp_path.name} has earlier, 2.0.0 is current"]
    assert installation.current() == "1.0.0"


class Ending:
    """A node that has ended so often when it is looked at."""

    def __init__(self, *exits: int) -> None:
        self._exits = [*exits]
        self.looks = 0

    def exits(self) -> int:
        self.looks += 1
        return self._exits.pop(0)

    def observe(self) -> None:
        return None

    def monotonic(self) -> float:
        return 0.0

    def wait(self, _seconds: float) -> None:
        """No time passes."""

    @contextmanager
    def stopped(self) -> Iterator[None]:
        yield


def test_a_version_that_has_ended_three_times_goes_back(installation: Installation) -> None:
    """Not after the fourth."""
    node: Any = Ending(0, 2, 3)
    journal = journal_in(installation, Phase.PROBATION)
    assert watch(journal, node) == f"{journal.subject} ended {journal.limits.exits} times"
    assert (node.looks, journal.limits.exits) == (3, 3)


@pytest.mark.parametrize("phase", [Phase.ROLLED_BACK, Phase.PROBATION, Phase.ROLLING_BACK, Phase.STAGED])
def test_only_an_upgrade_that_has_succeeded_has_a_version_before(installation: Installation, phase: Phase) -> None:
    """After a way back the journal's target is not what runs."""
    journal_in(installation, phase)
    with pytest.raises(UpgradeError, match="no earlier version"):
        _previous(installation)
    journal_in(installation, Phase.COMMITTED)
    assert _previous(installation) == "1.0.0"


@pytest.mark.parametrize("is_under_way", [False, True])
def test_settings_on_probation_are_not_set_yet(tmp_path: Path, *, is_under_way: bool) -> None:
    """They may be taken back: the job of the cloud has to wait."""
    file = tmp_path / "edgecore.yaml"
    file.write_text("modules: {edgeHub: {heartbeat: 20}}\n")
    settings = LocalSettingsCommands(str(tmp_path), ("run", "--config", str(file)))
    settings._program = Mock(last_change=Mock(return_value=(None, is_under_way)))
    found = settings.state({"modules.edgeHub.heartbeat": "20"})
    assert found == SettingsState(not is_under_way, is_under_way, "")


def test_a_start_lock_that_is_left_leaves_no_descriptor(installation: Installation) -> None:
    """Also none that a launcher has passed on, with which the lock would end later than it seems to."""
    before = census()
    lock = StartLock(installation.starting)
    lock.acquire()
    passed_on = os.dup(lock._file)
    lock.pass_on()
    lock.leave()
    assert not census().more_than(before)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(passed_on)
