"""`upgrade`, `rollback` and `versions` where no node runs: what is refused, and what is made."""

import json
import os
import resource
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metamanager.sqlite_open import open_file
from modules.processes.common.exit_codes import ExitCode
from modules.processes.edgecore.cli import main
from modules.processes.edgecore.upgrade import commands, launcher, trial
from modules.processes.edgecore.upgrade.errors import UpgradeError
from modules.processes.edgecore.upgrade.trial import VersionTrial
from modules.processes.edgecore.upgrade.updater.database import backup_of, schema_of
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import NodeHandle, NodeObservation, Phase, UpgradeJournal
from tests.modules.processes.edgecore.upgrade.releases import KEY, make_bundle
from tests.modules.processes.edgecore.upgrade.test_updater_process import write_program
from tests.packaging.bundle import public_key
from tests.support.failing import Failing
from tests.support.full_disk import fill, small_file_system
from tests.support.own_node import write_node


class Here:
    """An installation and a node that does not run."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.root = directory, directory / "n"
        self.installation = Installation(directory / "i")
        write_node(self.root)
        file = self.root / "edgecore.yaml"
        lines = [line for line in file.read_text().splitlines() if "trustedKeys" not in line and line != "upgrade:"]
        file.write_text("\n".join([*lines, "upgrade:", f"  trustedKeys: [{public_key(KEY)}]", ""]))

    def do(self, *words: str | Path) -> int:
        """Run a command; return its exit status."""
        location = ["--root", str(self.root)] if words[0] != "versions" else []
        return main([*map(str, words), "--installation", str(self.installation.root), *location])

    def journal(self, phase: Phase) -> None:
        """Write the journal of an upgrade from 1.0.0 to 1.0.1."""
        handle = NodeHandle(str(self.root / "lock"), "", [], [])
        before = NodeObservation("1.0.0", connected=False, unready=[], containers={})
        self.installation.write(UpgradeJournal("1.0.0", "1.0.1", handle, before, [], "", 3, 0), phase)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """Return the installation and the node."""
    return Here(tmp_path)


@pytest.fixture
def disk() -> Iterator[Path]:
    """A file system of 2 MiB."""
    yield from small_file_system("2m")


@pytest.mark.extended
def test_the_first_version_and_the_next(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a node that runs there is no probation, and the link changes at once."""
    bundles = here.directory / "b"
    assert here.do("upgrade", make_bundle(bundles, "1.0.0")) == ExitCode.OK
    said = capsys.readouterr().err
    assert "without probation" in said and said.endswith(f"/bin/edgecore run --root {here.root}\n")
    assert here.do("upgrade", make_bundle(bundles, "1.0.1")) == ExitCode.OK
    assert here.installation.current() == "1.0.1"
    capsys.readouterr()
    assert here.do("versions", "--json") == ExitCode.OK
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (found["current"], [each["version"] for each in found["versions"]]) == ("1.0.1", ["1.0.0", "1.0.1"])
    assert here.do("versions") == ExitCode.OK
    assert capsys.readouterr().out == "  1.0.0  0123456789ab\n* 1.0.1  0123456789ab\n"
    assert str(sys.executable) not in here.installation.launcher.read_text(), "the launcher needs no version's Python"


@pytest.mark.extended
def test_an_older_version_comes_only_when_it_is_asked_for(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    bundles = here.directory / "b"
    assert here.do("upgrade", make_bundle(bundles, "1.0.1")) == ExitCode.OK
    older = make_bundle(bundles, "1.0.0")
    assert here.do("upgrade", older) == ExitCode.NOT_DONE
    assert "older than the current version 1.0.1" in capsys.readouterr().err
    assert here.installation.current() == "1.0.1"
    assert here.do("upgrade", older, "--allow-downgrade") == ExitCode.OK
    assert here.installation.current() == "1.0.0"


@pytest.mark.extended
def test_a_machine_whose_clock_begins_in_1970(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """As without a battery and a network. What a bundle is worth does not depend on the time."""
    bundles = [make_bundle(here.directory / "b", version) for version in ("1.0.0", "1.0.1")]
    monkeypatch.setattr("time.time", lambda: 3.0)
    for bundle in bundles:
        assert here.do("upgrade", bundle) == ExitCode.OK
        assert here.installation.current() == bundle.stem


@pytest.mark.extended
def test_a_disk_that_becomes_full_while_a_version_is_unpacked(
    here: Here, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current version stays, and nothing that is half there, however far it has come."""
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 1 << 30})())
    bundles = here.directory / "b"
    installation = here.installation = Installation(disk / "i")
    assert here.do("upgrade", make_bundle(bundles, "1.0.0")) == ExitCode.OK
    before = set(disk.rglob("*"))
    later = make_bundle(bundles, "1.0.1")
    refused = 0
    ballast = fill(disk)
    while here.do("upgrade", later) != ExitCode.OK:
        assert here.installation.current() == "1.0.0"
        left = set(disk.rglob("*")) - before - {ballast}
        assert not left or installation.versions / "1.0.1" in left
        assert not [each for each in left if each.name.startswith(".")]
        refused += 1
        os.truncate(ballast, ballast.stat().st_size - 2 * resource.getpagesize())
    assert here.installation.current() == "1.0.1"
    assert refused > 3


@pytest.mark.extended
def test_a_spoilt_journal_is_said_and_stops_nothing(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    """As on a card that wears out; the next upgrade writes another one."""
    assert here.do("upgrade", make_bundle(here.directory / "b", "1.0.0")) == ExitCode.OK
    (here.installation.state / "journal.json").write_bytes(b"\0" * 100)
    assert here.do("versions") == ExitCode.OK
    assert here.do("rollback") == ExitCode.NOT_DONE
    assert here.do("upgrade", make_bundle(here.directory / "b", "1.0.1")) == ExitCode.OK
    said = capsys.readouterr().err
    assert "no earlier version is known" in said
    assert said.count("the last change of") >= 3


@pytest.mark.extended
def test_a_version_that_does_not_know_the_schema(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    bundles = here.directory / "b"
    with closing(open_file(here.root / "edgecore.db")):
        pass
    assert here.do("upgrade", make_bundle(bundles, "1.0.0")) == ExitCode.OK
    with closing(sqlite3.connect(here.root / "edgecore.db")) as database:
        database.execute("PRAGMA user_version=9")
    assert here.do("upgrade", make_bundle(bundles, "1.0.1")) == ExitCode.NOT_DONE
    assert "the database has schema 9" in capsys.readouterr().err
    assert here.installation.current() == "1.0.0"


@pytest.mark.extended
def test_a_version_that_says_that_it_is_another(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    bundle = make_bundle(here.directory / "b", "1.0.0", claimed="1.0.7")
    assert here.do("upgrade", bundle) == ExitCode.NOT_DONE
    assert "it says that it is '1.0.0'" in capsys.readouterr().err
    assert here.installation.current() == ""


@pytest.mark.parametrize("error", [UpgradeError("refused"), MemoryError()])
def test_a_fetched_bundle_that_is_not_taken_is_removed(
    error: Exception, here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be another one in the cloud by the next time; one that is only checked is kept, unless it is refused."""
    is_refused, file = isinstance(error, UpgradeError), here.installation.state / "fetched"
    file.parent.mkdir(parents=True)
    file.touch()
    monkeypatch.setattr(commands, "bundle_of", lambda *_: file)
    monkeypatch.setattr(commands, "_accepted", Failing(0, error).call(print))
    with nullcontext() if is_refused else pytest.raises(MemoryError):
        here.do("upgrade", file, *["--only-check"] * is_refused)
    assert not file.exists()


def test_a_node_without_trusted_keys(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    write_node(here.root)
    assert here.do("upgrade", make_bundle(here.directory / "b", "1.0.0")) == ExitCode.NOT_DONE
    assert "upgrade.trustedKeys" in capsys.readouterr().err
    assert not list(here.installation.versions.iterdir())


@pytest.mark.parametrize(("name", "mode"), [(".", 0o775), ("versions", 0o757)])
def test_a_directory_that_others_may_write_to(
    name: str, mode: int, here: Here, capsys: pytest.CaptureFixture[str]
) -> None:
    """They could put a version there that root then runs."""
    here.installation.versions.mkdir(parents=True)
    (here.installation.root / name).chmod(mode)
    assert here.do("upgrade", make_bundle(here.directory / "b", "1.0.0")) == ExitCode.NOT_DONE
    assert here.do("versions") == ExitCode.NOT_DONE
    assert capsys.readouterr().err.count("others may write") == 2


@pytest.mark.extended
def test_a_way_back_to_nowhere(here: Here) -> None:
    assert here.do("upgrade", make_bundle(here.directory / "b", "1.0.1")) == ExitCode.OK
    for version in ([], ["1.0.9"], ["../../etc"], ["1.0.1"]):
        assert here.do("rollback", *version) == ExitCode.NOT_DONE
        assert here.installation.current() == "1.0.1"


def test_the_version_before_is_known_and_kept(here: Here) -> None:
    """Only once the current one has proved itself."""
    installation = here.installation
    for version in ("1.0.0", "1.0.1", "1.0.9"):
        (installation.versions / version).mkdir(parents=True)
    installation.state.mkdir(exist_ok=True)
    installation.activate("1.0.1")
    here.journal(Phase.PROBATION)
    with pytest.raises(UpgradeError, match="no earlier version"):
        commands._previous(installation)
    here.journal(Phase.COMMITTED)
    assert commands._previous(installation) == "1.0.0"
    for name in ("edgecore-1.0.9-cp311-x86_64.bundle", "edgecore-1.0.8-cp311-x86_64.bundle.1-2.part"):
        (installation.state / name).touch()
    (installation.state / ".scratch-of-a-killed-command" / "wheels").mkdir(parents=True)
    with commands.prepared(installation, []):
        commands._remove_others(installation)
    assert {path.name for path in installation.versions.iterdir()} == {"1.0.0", "1.0.1"}
    assert {path.name for path in installation.state.iterdir()} == {"journal.json", "lock"}


def test_an_updater_that_is_dead_is_not_waited_for(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.installation.state.mkdir(parents=True)
    here.journal(Phase.PROBATION)
    times = iter((0.0, 60.0, 60.1))
    monkeypatch.setattr(commands, "time", SimpleNamespace(monotonic=times.__next__, sleep=lambda _: None))
    with pytest.raises(UpgradeError, match="the updater does not run"):
        commands._ended(here.installation)


def test_a_program_outside_of_any_installation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["versions"]) == ExitCode.NOT_DONE
    assert "--installation DIR" in capsys.readouterr().err
    assert launcher() == []


@pytest.mark.extended
def test_the_unit_of_a_version_starts_the_launcher(monkeypatch: pytest.MonkeyPatch, here: Here) -> None:
    """So that a power cut on probation is noticed by the next start."""
    assert here.do("upgrade", make_bundle(here.directory / "b", "1.0.0")) == ExitCode.OK
    monkeypatch.setattr(sys, "prefix", str(here.installation.versions / "1.0.0"))
    assert launcher() == [str(here.installation.launcher)]


def test_the_copy_of_a_database_is_whole_and_on_the_disk_before_anything_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power cut a way back needs it."""
    database, steps = tmp_path / "edge.db", list[str]()
    open_file(database).close()
    for name in ("check_database", "sync_file", "sync_directory"):
        monkeypatch.setattr(trial, name, lambda _path, name=name: steps.append(name))
    monkeypatch.setattr(VersionTrial, "_run", lambda *_: steps.append("tried"))
    VersionTrial(tmp_path, "1.0.0").check_database(database, tmp_path, schema_of(database) or 0)
    assert steps == ["check_database", "sync_file", "sync_directory", "tried"]


@pytest.mark.extended
def test_the_copy_of_a_database_does_not_count_as_complete(here: Here) -> None:
    """A node that goes back to it must not take newer pods for orphans."""
    here.do("upgrade", make_bundle(here.directory / "b", "1.0.0"))
    database = here.root / "edgecore.db"
    with closing(open_file(database)) as opened:
        opened.execute("INSERT INTO meta (key, type, value) VALUES ('null/store/complete', 'store', '1')")
        opened.execute("INSERT INTO meta (key, type, value) VALUES ('default/pod/web', 'pod', '{}')")
    trial = VersionTrial(here.installation.versions / "1.0.0", "1.0.0")
    schema = trial.check_database(database, here.directory, 3)
    with closing(sqlite3.connect(backup_of(database))) as copy:
        assert copy.execute("SELECT key FROM meta").fetchall() == [("default/pod/web",)]
    assert schema == 3
    (here.directory / "tried.db").unlink()
    with pytest.raises(UpgradeError, match="schema is not 4"):
        trial.check_database(database, here.directory, 4)
    assert not backup_of(database).exists(), "a copy with the node's secrets is for a way back only"


@pytest.mark.parametrize("says", ["the database has a schema of mine", ""])
@pytest.mark.extended
def test_a_version_that_cannot_read_the_database(says: str, here: Here) -> None:
    """It says so, or dies: it is refused before the switch, and the node's database is as it was."""
    program = write_program(
        here.directory / "bin" / "edgecore", f"import os, sys; {says!r} and sys.exit({says!r}); os.abort()"
    )
    database = here.directory / "edgecore.db"
    with closing(open_file(database)) as opened:
        opened.execute("INSERT INTO meta (key, type, value) VALUES ('default/pod/web', 'pod', '{}')")
    before = database.read_bytes()
    with pytest.raises(UpgradeError, match=f"`edgecore store`: {says}"):
        VersionTrial(program.parents[1], "1.0.1").check_database(database, here.directory, 3)
    assert database.read_bytes() == before
