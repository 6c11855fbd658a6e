"""Commands that change a node, while another change of it is under way: each is refused, and changes nothing."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from errno import EACCES
from pathlib import Path
from typing import Any, Final

import pytest

from modules.apimachinery.node_jobs import ANOTHER_CHANGE
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore import restart
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.config.editing import with_setting
from modules.processes.edgecore.location import changing, located
from modules.processes.edgecore.upgrade import configuration, exclusion
from modules.processes.edgecore.upgrade.commands import prepared
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.exclusion import changes_of, held
from modules.processes.edgecore.upgrade.updater.__main__ import main as updater_main
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, NodeObservation, Phase, UpgradeJournal
from tests.modules.processes.edgecore.upgrade.releases import journal_of
from tests.support.own_node import write_node

_COMMANDS: Final = {
    "upgrade": ["1.0.1.bundle"],
    "upgrade --only-check": ["1.0.1.bundle"],
    "rollback": ["1.0.0"],
    "config set": ["modules.edgeHub.heartbeat", "20"],
    "config set --only-check": ["modules.edgeHub.heartbeat", "20"],
    "restart": [],
    "leave": ["--yes"],
    "uninstall": ["--yes"],
    "join": ["--cloud", "127.0.0.1:1", "--token", "t"],
    "restore": ["--force", "node.backup"],
}


class Here:
    """A node that is run from an installation, with a directory of its configuration's changes."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.root = directory, directory / "n"
        write_node(self.root)
        self.file = self.root / "edgecore.yaml"
        self.handle = NodeHandle(str(self.root / "edged" / "edgecore.lock"), "", [], [])
        self.version, self.configuration = Installation(directory / "i"), Installation(changing(self.file))
        self.prefix = self.version.versions / "1.0.0"
        self.prefix.mkdir(parents=True)
        self.version.activate("1.0.0")
        for each in (self.version, self.configuration):
            each.state.mkdir(parents=True)

    def change(self, what: str) -> Installation:
        """Return where this is changed."""
        return self.version if what == "version" else self.configuration

    def begin(self, what: str, phase: Phase) -> None:
        """Let a change of this be in a phase."""
        before = NodeObservation("1.0.0", connected=False, unready=[], containers={})
        target, file = ("1.0.1", "") if what == "version" else ("1.0.0", str(self.file))
        journal = UpgradeJournal("1.0.0", target, self.handle, before, [], "", 0, 0, configuration=file)
        self.change(what).write(journal, phase)

    def do(self, command: str) -> int:
        """Run a command; return its exit status."""
        return main([*command.split(), *_COMMANDS[command], "--root", str(self.root)])

    def files(self) -> dict[Path, bytes | Path]:
        """Return all files and links but the locks."""
        found = [each for each in self.directory.rglob("*") if each.name != "lock" and not each.is_dir()]
        return {each: each.readlink() if each.is_symlink() else each.read_bytes() for each in found}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    """Return the node, whose own program does what follows, in its directory."""
    made = Here(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["backup", "node.backup", "--root", str(made.root)]) == ExitCode.OK
    monkeypatch.setattr(sys, "prefix", str(made.prefix))
    monkeypatch.setattr(restart, "running_node", lambda *_: made.handle)
    return made


@pytest.mark.parametrize(
    ("phase", "is_locked"),
    [
        (None, True),
        (Phase.SWITCHING, False),
        (Phase.PROBATION, False),
        (Phase.PROBATION, True),
        (Phase.ROLLING_BACK, True),
    ],
)
@pytest.mark.parametrize("what", ["version", "configuration"])
@pytest.mark.parametrize("command", _COMMANDS)
def test_each_command_during_each_change(
    command: str, what: str, phase: Phase | None, is_locked: bool, here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    """It names the change and where it is, whether or not an updater carries it out. `leave` would be undone by an
    updater that starts the node again, and a configuration that `join` has written by one that puts the former back.
    """
    change, says = here.change(what), f"{ANOTHER_CHANGE}: a command prepares it"
    with ExitStack() as stack:
        if phase is not None:
            here.begin(what, phase)
            subject = "1.0.1" if what == "version" else "the configuration"
            says = f"{ANOTHER_CHANGE}: {subject} {'goes back' if phase is Phase.ROLLING_BACK else 'is on probation'}"
        if is_locked:
            assert stack.enter_context(change.locked())
        before = here.files()
        assert here.do(command) in (ExitCode.NOT_DONE, ExitCode.NOT_JOINED)
        assert here.files() == before
    assert f"{says}: {change.root} (repeat this after its end" in capsys.readouterr().err


def test_one_of_two_commands_that_begin_at_once_is_refused(here: Here) -> None:
    """Whoever is first, and also where one writes the path in another way."""
    other = Installation(here.directory / "other")
    other.root.symlink_to(here.version.root)
    for first, second in ((here.version, here.configuration), (here.configuration, other)):
        with prepared(first, [second]), pytest.raises(UpgradeError), prepared(second, [first]):
            pass
    with prepared(other, [here.version, here.configuration]):
        pass


@pytest.mark.parametrize("what", ["version", "configuration"])
def test_what_is_staged_and_not_begun_is_over_for_another_command(what: str, here: Here) -> None:
    """Its updater, which may come late, does nothing any more."""
    here.begin(what, Phase.STAGED)
    change = here.change(what)
    (change.state / "configuration.following").write_text("secret")
    before = here.version.current()
    with held([here.version, here.configuration]):
        journal = journal_of(change)
        assert (journal.phase, journal.report) == (Phase.ROLLED_BACK, [exclusion._CANCELLED])
    assert updater_main([str(change.root)]) == 0
    assert here.version.current() == before
    assert (change.state / "configuration.following").exists() is (what == "version"), "its secrets are gone"


@pytest.mark.parametrize("command", ["upgrade --only-check", "config set --only-check"])
@pytest.mark.parametrize("what", ["version", "configuration"])
def test_what_is_staged_begins_after_a_command_that_only_checks(command: str, what: str, here: Here) -> None:
    """A job that comes between an owner's command and its updater does not end the owner's change."""
    here.begin(what, Phase.STAGED)
    before = here.files()
    here.do(command)
    assert here.files() == before


def test_another_commands_settings_that_were_written_meanwhile_stay(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is read when nobody else can change it any more."""
    monkeypatch.setattr(configuration, "running_node", lambda *_: None)

    @contextmanager
    def after_another(*arguments: Any, **options: Any) -> Iterator[Path]:
        here.file.write_text(with_setting(here.file.read_text(), "modules.edgeHub.heartbeat", "30").text)
        with prepared(*arguments, **options) as scratch:
            yield scratch

    monkeypatch.setattr(configuration, "prepared", after_another)
    monkeypatch.setattr(configuration, "_lead_to_program", lambda _: None)
    assert main(["config", "set", "modules.edged.enable", "false", "--root", str(here.root)]) == ExitCode.OK
    modules = located(None, here.root).load().config.modules
    assert (modules.edge_hub.heartbeat, modules.edged.enable) == (30, False)


def test_another_users_installation_keeps_nobody_from_changing_their_own_node(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = Installation.locked

    @contextmanager
    def locked_by_its_owner(installation: Installation) -> Iterator[bool]:
        if installation.root == here.version.root:
            raise PermissionError(EACCES, "Permission denied", str(installation.root))
        with locked(installation) as is_free:
            yield is_free

    monkeypatch.setattr(Installation, "locked", locked_by_its_owner)
    with held([here.version, here.configuration]):
        assert here.configuration.is_locked()
    with pytest.raises(PermissionError), held([here.configuration], here.version):
        pass


def test_a_command_replaces_what_it_has_staged_itself(here: Here) -> None:
    here.begin("version", Phase.STAGED)
    with prepared(here.version, [here.version, here.configuration]):
        journal = journal_of(here.version)
        assert journal.phase is Phase.STAGED


def test_a_node_that_was_never_changed_has_nothing_to_lock(tmp_path: Path) -> None:
    """And no directory is made for it."""
    write_node(tmp_path / "n")
    location = located(None, tmp_path / "n")
    assert changes_of(location, location.load().config) == []
    assert [each.name for each in (tmp_path / "n").iterdir()] == ["edgecore.yaml"]
