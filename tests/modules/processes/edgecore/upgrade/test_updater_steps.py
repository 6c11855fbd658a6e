"""What is told of an upgrade, and the lock of a start."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from modules.edge.taskmanager.settings_updates import SettingsState
from modules.processes.edgecore.node_settings import LocalSettingsCommands
from modules.processes.edgecore.upgrade.commands import _previous
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, NodeObservation, Phase, UpgradeJournal
from modules.processes.edgecore.upgrade.updater.locks import StartLock
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


def write_journal(installation: Installation, phase: Phase) -> None:
    """Write a journal from 1.0.0 to 2.0.0 in a phase."""
    before = NodeObservation("1.0.0", connected=False, unready=[], containers={})
    installation.write(UpgradeJournal("1.0.0", "2.0.0", NodeHandle("", "", [], []), before, [], "", 3, 0), phase)


@pytest.mark.parametrize("phase", [Phase.ROLLED_BACK, Phase.PROBATION, Phase.ROLLING_BACK, Phase.STAGED])
def test_only_an_upgrade_that_has_succeeded_has_a_version_before(installation: Installation, phase: Phase) -> None:
    """After a way back the journal's target is not what runs."""
    write_journal(installation, phase)
    with pytest.raises(UpgradeError, match="no earlier version"):
        _previous(installation)
    write_journal(installation, Phase.COMMITTED)
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
