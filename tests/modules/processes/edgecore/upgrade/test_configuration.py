"""`edgecore config set`: the updater with a configuration, and the command without a node."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.location import changing
from modules.processes.edgecore.upgrade import configuration
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import (
    NodeHandle,
    NodeObservation,
    Phase,
    ProbationLimits,
    UpgradeJournal,
)
from modules.processes.edgecore.upgrade.updater.phases import Updater
from tests.modules.processes.edgecore.upgrade.releases import journal_of
from tests.modules.processes.edgecore.upgrade.test_updater import CONTAINERS, OLD
from tests.support.own_node import write_node

FORMER, FOLLOWING = "former", "following"
BAD = ("does not start", "ends", "offline", "restarts a container", "finds problems")


class ConfiguredNode:
    """A node that reads its configuration at each start, in virtual time (`NodeControl`)."""

    def __init__(self, file: Path, character: str) -> None:
        self.file, self.character = file, character
        self.running = FORMER
        self.now, self.ended = 0.0, 0

    @property
    def is_bad(self) -> bool:
        """Whether it runs with the new configuration, and that is bad."""
        return self.running == FOLLOWING and self.character in BAD

    def observe(self) -> NodeObservation | None:
        """Return the node as it is."""
        character = self.character if self.is_bad else ""
        if not self.running or character in BAD[:2]:
            return None
        containers = {} if character == "restarts a container" else CONTAINERS
        return NodeObservation(OLD, connected=character != "offline", unready=[], containers=containers)

    def problems(self) -> list[str] | None:
        """Return what doctor finds."""
        return ["ports"] if self.is_bad and self.character == "finds problems" else []

    def exits(self) -> int:
        """Return how often it has ended."""
        return self.ended

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop it."""
        self.running = ""
        yield

    def start(self) -> None:
        """Start it with the file as it is."""
        self.running, self.ended = self.file.read_text(), 0
        assert self.running in (FORMER, FOLLOWING), "half a file"

    def monotonic(self) -> float:
        """Return the virtual time."""
        return self.now

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.ended += 1 if self.is_bad and self.character == "ends" else 0


def staged(root: Path) -> tuple[Installation, Path]:
    """Make a configuration, and a change of it that is staged."""
    shutil.rmtree(root, ignore_errors=True)
    file = root / "edgecore.yaml"
    installation = Installation(changing(file))
    installation.state.mkdir(parents=True)
    for path, text in ((file, FORMER), (installation.former, FORMER), (installation.following, FOLLOWING)):
        path.write_text(text)
    file.chmod(0o640)
    handle = NodeHandle(str(root / "lock"), str(root / "socket"), [], [])
    before = NodeObservation(OLD, connected=True, unready=[], containers=CONTAINERS)
    limits = ProbationLimits(600, 120, 30)
    journal = UpgradeJournal(OLD, OLD, handle, before, [], "", 0, 0, limits, configuration=str(file))
    installation.write(journal, Phase.STAGED)
    return installation, file


@pytest.mark.parametrize("character", ["good", *BAD])
def test_a_change(character: str, tmp_path: Path) -> None:
    """A bad one is taken back; the copies, which have secrets, are gone."""
    installation, file = staged(tmp_path / "n")
    node = ConfiguredNode(file, character)
    Updater(installation, node).run(journal_of(installation))
    journal = journal_of(installation)
    wanted = FOLLOWING if character == "good" else FORMER
    assert (node.file.read_text(), node.running) == (wanted, wanted)
    assert journal.phase is (Phase.COMMITTED if character == "good" else Phase.ROLLED_BACK)
    assert bool(journal.report) is (character != "good")
    assert node.file.stat().st_mode & 0o777 == 0o640
    assert not installation.former.exists()
    assert not installation.following.exists()


def test_a_file_that_lets_the_machine_crash_goes_at_the_fourth_start(tmp_path: Path) -> None:
    installation, file = staged(tmp_path / "n")
    journal = journal_of(installation)
    installation.switch(journal)
    for want in (FOLLOWING, FOLLOWING, FOLLOWING, FORMER):
        installation.recover(journal)
        assert file.read_text() == want
    assert journal.report == ["the configuration was started too often before it was well"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return the directory of a node that does not run."""
    write_node(tmp_path / "n")
    return tmp_path / "n"


def change(root: Path, *settings: str) -> int:
    """Run `config set`."""
    return main(["config", "set", *settings, "--root", str(root)])


def test_without_a_node_the_file_is_written(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its comments, owner and mode stay."""
    file = root / "edgecore.yaml"
    before = f"# mine\n{file.read_text()}"
    file.write_text(before)
    file.chmod(0o640)
    heartbeat, grace = "modules.edgeHub.heartbeat", "modules.edged.tailoredKubeletConfig.maxPods"
    assert change(root, heartbeat, "21", grace, "22") == ExitCode.OK
    after = file.read_text()
    changed = [new.strip() for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new]
    assert sorted(changed) == ["heartbeat: 21", "maxPods: 22"]
    assert file.stat().st_mode & 0o777 == 0o640
    assert change(root, heartbeat, "21") == ExitCode.OK
    assert "nothing changes" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["modules.edgeHub.heartbeat"], "has no value"),
        (["modules.edgeHub.heartbeat", "soon"], "want"),
        (["modules.edgeHub.quic.enable", "true", "modules.edgeHub.enable", "true"], "quic"),
    ],
)
def test_what_is_wrong_is_not_written(
    settings: list[str], says: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a value that is not allowed, nor one that breaks a rule between settings."""
    before = (root / "edgecore.yaml").read_text()
    assert change(root, *settings) == ExitCode.CONFIGURATION
    assert says in capsys.readouterr().err
    assert (root / "edgecore.yaml").read_text() == before
    assert not changing(root / "edgecore.yaml").exists()


def test_a_node_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert change(tmp_path, "modules.edgeHub.heartbeat", "20") == ExitCode.NOT_DONE
    assert "there is no configuration file" in capsys.readouterr().err


def test_a_secret_comes_from_standard_input(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command lines are seen by all users of the machine."""
    reading, writing = os.pipe()
    os.write(writing, b"secret-password\n")
    os.close(writing)
    with os.fdopen(reading) as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        assert change(root, "modules.eventBus.mqttPassword", "-") == ExitCode.OK
    assert "mqttPassword: secret-password" in (root / "edgecore.yaml").read_text()


def test_a_change_of_the_root_directory_needs_a_stop(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody would find the node afterwards."""
    handle = NodeHandle(str(root / "lock"), str(root / "s"), [], [])
    monkeypatch.setattr(configuration, "running_node", lambda *_: handle)
    before = (root / "edgecore.yaml").read_text()
    assert change(root, "modules.edged.rootDirectory", str(root / "other")) == ExitCode.NOT_DONE
    assert "stop it" in capsys.readouterr().err
    assert change(root, "modules.edgeHub.heartbeat", "20") == ExitCode.NOT_DONE
    assert "the node does not answer" in capsys.readouterr().err
    assert (root / "edgecore.yaml").read_text() == before
