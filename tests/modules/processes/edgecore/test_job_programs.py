"""The commands that jobs of the cloud start: `edgecore config set` in a process of its own, and what is under way."""

import sys
from pathlib import Path

import msgspec
import pytest

from modules.edge.taskmanager.programs import ProgramEnd
from modules.edge.taskmanager.settings_updates import SettingsState
from modules.processes.edgecore.config import ConfigError
from modules.processes.edgecore.config.editing import with_setting
from modules.processes.edgecore.config.loading import load
from modules.processes.edgecore.detached_program import STAGED_SECONDS, DetachedProgram
from modules.processes.edgecore.location import changing
from modules.processes.edgecore.node_settings import LocalSettingsCommands
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, NodeObservation, Phase, UpgradeJournal
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.support.own_node import write_node

HEARTBEAT = "modules.edgeHub.heartbeat"
ALLOWED = "modules.taskManager.allowedKeys"
UNSET, SET = SettingsState(is_set=False, is_under_way=False), SettingsState(is_set=True, is_under_way=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the configuration of a node that does not run."""
    write_node(tmp_path / "n")
    return tmp_path / "n" / "edgecore.yaml"


@pytest.fixture
def commands(file: Path, tmp_path: Path) -> LocalSettingsCommands:
    """Return the commands of a node, whose program is the edgecore of this tree."""
    program = tmp_path / "venv" / "bin" / "edgecore"
    program.parent.mkdir(parents=True)
    run = f'exec "{sys.executable}" -m modules.processes.edgecore "$@"'
    program.write_text(f'#!/bin/sh\ncd "{REPOSITORY}" && {run}\n')
    program.chmod(0o755)
    return LocalSettingsCommands(str(tmp_path / "venv"), ("run", "--root", str(file.parent), "--record"))


def ended(commands: LocalSettingsCommands) -> ProgramEnd:
    """Return the end of the program."""
    found: list[ProgramEnd] = []

    def look() -> bool:
        end = commands.end()
        found.extend([end] if end is not None else [])
        return bool(found)

    wait_until(look, "the program ends")
    return found[0]


@pytest.mark.extended
def test_settings_are_checked_and_set(commands: LocalSettingsCommands, file: Path) -> None:
    """They are neither on a command line nor options there."""
    settings = {HEARTBEAT: "21", "modules.eventBus.mqttPassword": "--config"}
    before = file.read_text()
    assert commands.state(settings) == UNSET
    commands.begin(settings, only_check=True)
    assert ended(commands).status == 0
    assert file.read_text() == before
    commands.begin(settings, only_check=False)
    assert ended(commands).status == 0
    assert commands.state(settings) == SET
    assert load(file).config.modules.edge_hub.heartbeat == 21
    assert "--config" in file.read_text()
    assert commands.end() is None


@pytest.mark.parametrize(
    ("settings", "says"), [({HEARTBEAT: "soon"}, "got another value"), ({"no.such": "1"}, "there is no setting")]
)
@pytest.mark.extended
def test_what_is_wrong_is_told(
    settings: dict[str, str], says: str, commands: LocalSettingsCommands, file: Path
) -> None:
    before = file.read_text()
    assert commands.state(settings) == UNSET
    commands.begin(settings, only_check=True)
    end = ended(commands)
    assert end.status != 0
    assert says in end.said
    assert file.read_text() == before


def test_a_node_without_a_file_has_no_settings_to_change(tmp_path: Path) -> None:
    commands = LocalSettingsCommands(str(tmp_path), ("run", "--root", str(tmp_path)))
    assert commands.state({HEARTBEAT: "21"}) is None
    with pytest.raises(OSError, match="no configuration file"):
        commands.begin({HEARTBEAT: "21"}, only_check=True)


def staged(installation: Installation, phase: Phase) -> UpgradeJournal:
    """Write how far a change is."""
    handle = NodeHandle("lock", "socket", [], [])
    before = NodeObservation("1.0.0", connected=True, unready=[], containers={})
    journal = UpgradeJournal("1.0.0", "1.0.0", handle, before, [], "", 0, 0)
    journal.report.append("it did not start")
    installation.state.mkdir(parents=True, exist_ok=True)
    installation.write(journal, phase)
    return journal


def test_the_report_of_a_change_that_went_back(commands: LocalSettingsCommands, file: Path) -> None:
    installation = Installation(changing(file))
    staged(installation, Phase.PROBATION)
    assert commands.state({HEARTBEAT: "21"}) == SettingsState(is_set=False, is_under_way=True)
    staged(installation, Phase.ROLLED_BACK)
    assert commands.state({HEARTBEAT: "21"}) == msgspec.structs.replace(UNSET, report="it did not start")


def test_what_is_staged_and_never_begun_is_not_under_way_for_ever(tmp_path: Path) -> None:
    """The power failed between the check and the updater: the job would wait, and the node take no other."""
    now = [1000.0]
    program, installation = DetachedProgram(lambda: now[0]), Installation(tmp_path / "i")
    assert program.last_change(installation) == (None, False)
    journal = staged(installation, Phase.STAGED)
    assert program.last_change(installation) == (journal, True)
    with installation.locked():
        now[0] += STAGED_SECONDS
        assert program.last_change(installation)[1]
    assert program.last_change(installation)[1]
    now[0] += STAGED_SECONDS
    assert program.last_change(installation) == (journal, False)


@pytest.mark.parametrize("key", ["upgrade", "upgrade.trustedKeys", "Modules.taskmanager.allowedJobs", "a b", "a..b"])
def test_no_owner_can_list_what_opens_the_node(key: str) -> None:
    """A job could allow itself anything with it."""
    assert with_setting("", ALLOWED, f"[{HEARTBEAT}]").text
    with pytest.raises(ConfigError, match="allowedKeys"):
        with_setting("", ALLOWED, f"['{key}']")
