"""The updater against nodes of each character; `test_updater_table` has its steps."""

import fcntl
import itertools
import json
import os
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from modules.processes.edgecore.upgrade.programs import PACKAGE
from modules.processes.edgecore.upgrade.updater import probation
from modules.processes.edgecore.upgrade.updater.database import backup_of, inode_of, schema_of
from modules.processes.edgecore.upgrade.updater.files import replace_durably
from modules.processes.edgecore.upgrade.updater.installation import Installation
from modules.processes.edgecore.upgrade.updater.journal import (
    UNFINISHED,
    NodeHandle,
    NodeObservation,
    Phase,
    ProbationLimits,
    UpgradeJournal,
    decode_journal,
)
from modules.processes.edgecore.upgrade.updater.locks import StartLock, owner_of
from modules.processes.edgecore.upgrade.updater.observation import failed_checks
from modules.processes.edgecore.upgrade.updater.phases import Updater, carry_out
from modules.processes.edgecore.upgrade.updater.probation import trouble_of
from tests.modules.processes.edgecore.upgrade.releases import journal_of

OLD, NEW = "1.0.0", "2.0.0"
SCHEMAS = {OLD: 3, NEW: 4}
CONTAINERS = {"default/web 1 web": "c1"}
BAD = (
    "dies", "hangs", "offline", "restarts a container", "damages the database", "begins another database",
    "finds problems", "not ready", "eats memory",
)  # fmt: skip


class CrashError(BaseException):
    """The power fails, or the updater is killed."""


class Steps:
    """Counts what changes the disk or the node, and crashes after chosen steps."""

    def __init__(self) -> None:
        self.crashes: list[int] = []
        self.done = 0

    def step(self) -> None:
        """Count a step."""
        self.done += 1
        if self.crashes and self.done >= self.crashes[0]:
            del self.crashes[0]
            self.done = 0
            raise CrashError


class FakeNode:
    """A node that runs the current version, in virtual time (`NodeControl`)."""

    def __init__(self, installation: Installation, database: Path, steps: Steps, character: str) -> None:
        self.installation, self.database, self.steps, self.character = installation, database, steps, character
        self.running = OLD
        self.now = 0.0
        self.starts = 0

    def is_bad(self) -> bool:
        """Whether the running version is the bad one."""
        return self.running == NEW and self.character in BAD

    def observe(self) -> NodeObservation | None:
        """Return the node as it is."""
        if not self.running or (self.is_bad() and self.character in ("dies", "hangs", *BAD[4:6])):
            return None
        character = self.character if self.running == NEW else ""
        return NodeObservation(
            self.running,
            connected=character != "offline",
            unready=["edged"] if character == "not ready" else [],
            containers={"default/web 1 web": "c2"} if character == "restarts a container" else CONTAINERS,
            memory=(2000 if character == "eats memory" else 300 if character else 100) << 20,
        )

    def problems(self) -> list[str] | None:
        """Return what doctor finds."""
        return ["disk", *(["ports"] if self.is_bad() and self.character == "finds problems" else [])]

    def exits(self) -> int:
        """Return how often the version has ended."""
        return self.starts if self.is_bad() and self.character == "dies" else 0

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop it."""
        self.running = ""
        self.steps.step()
        yield

    def start(self) -> None:
        """Start the current version, which must know the database's schema."""
        self.running = self.installation.current()
        assert self.running in SCHEMAS, "no version is chosen"
        self.starts += 1
        schema = schema_of(self.database)
        assert schema is not None or self.running == NEW, "the node cannot read its database"
        assert schema is None or schema <= SCHEMAS[self.running], "the node does not know the schema of its database"
        if self.running == NEW and schema is not None:
            write_database(self.database, "new", SCHEMAS[NEW])
            if self.character == "begins another database":
                self.database.rename(self.database.with_name(f"damaged-{self.starts}"))
                write_database(self.database, "empty", SCHEMAS[OLD])
            if self.character == "damages the database":
                self.database.write_bytes(b"SQLite format 3\0" + bytes(100))
        self.steps.step()

    def monotonic(self) -> float:
        """Return the virtual time."""
        return self.now

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.starts += 1 if self.is_bad() and self.character == "dies" else 0


def write_database(path: Path, value: str, schema: int) -> None:
    """Make a database with a value and a schema."""
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA synchronous=OFF")
        database.execute("CREATE TABLE IF NOT EXISTS t (a)")
        database.execute("DELETE FROM t")
        database.execute("INSERT INTO t VALUES (?)", (value,))
        database.execute(f"PRAGMA user_version={schema}")


def value_of(path: Path) -> str:
    """Return the value in a database."""
    with closing(sqlite3.connect(path)) as database:
        (value,) = database.execute("SELECT a FROM t").fetchone()
    return str(value)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Steps after each change of a file or a name."""
    found = Steps()

    def counted(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def called(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            found.step()
            return result

        monkeypatch.setattr(owner, name, called)

    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
    for owner, name in ((Path, "replace"), (Path, "unlink"), (Path, "symlink_to"), (os, "fsync")):
        counted(owner, name)
    yield found
    found.crashes.clear()


def make(root: Path) -> tuple[Installation, Path]:
    """Make an installation with two versions, whose node runs the old one, and an upgrade that is staged."""
    shutil.rmtree(root, ignore_errors=True)
    installation, database = Installation(root / "i"), root / "edgecore.db"
    for version in SCHEMAS:
        (installation.versions / version).mkdir(parents=True)
    installation.state.mkdir()
    write_database(database, "old", SCHEMAS[OLD])
    shutil.copyfile(database, backup_of(database))
    installation.activate(OLD)
    handle = NodeHandle(str(root / "lock"), str(root / "socket"), [], [])
    before = NodeObservation(OLD, connected=True, unready=[], containers=CONTAINERS, memory=100 << 20)
    state = (str(database), SCHEMAS[OLD], inode_of(database))
    journal = UpgradeJournal(OLD, NEW, handle, before, ["disk"], *state, ProbationLimits(600, 120, 30))
    installation.write(journal, Phase.STAGED)
    return installation, database


def carry_on(installation: Installation, node: FakeNode, *, is_starting: bool) -> None:
    """Run the updater as `main` does."""
    carry_out(installation, journal_of(installation), node, is_starting=is_starting)


def power_on(installation: Installation, node: FakeNode) -> None:
    """Start the node as `launch` does, and the updater if an upgrade is unfinished."""
    journal = journal_of(installation)
    unfinished = journal.phase in UNFINISHED
    if unfinished:
        installation.recover(journal)
    node.start()
    if unfinished:
        carry_on(installation, node, is_starting=True)


def live(root: Path, steps: Steps, character: str, crashes: list[int], *, power: bool) -> tuple[FakeNode, int]:
    """Upgrade with crashes; return the node at the end, and how many of them happened.

    A staged upgrade whose updater has not begun is begun again by whoever ordered it.
    """
    installation, database = make(root)
    node = FakeNode(installation, database, steps, character)
    steps.done, steps.crashes = 0, list(crashes)
    again = False
    while True:
        try:
            if again and power:
                power_on(installation, node)
            carry_on(installation, node, is_starting=False)
            break
        except CrashError:
            assert installation.current() in SCHEMAS
            again = True
            if power:
                node.running = ""
    happened = len(crashes) - len(steps.crashes)
    steps.crashes = []
    return node, happened


def check_end(node: FakeNode, *, kept: bool) -> None:
    """Check that the node runs the version that it has to, on its database."""
    journal = journal_of(node.installation)
    wanted = NEW if kept else OLD
    assert (journal.phase, node.installation.current(), node.running) == (
        Phase.COMMITTED if kept else Phase.ROLLED_BACK,
        wanted,
        wanted,
    )
    assert value_of(node.database) == ("new" if kept else "old")
    assert bool(journal.report) is not kept


@pytest.mark.parametrize("character", ["good", *BAD])
def test_a_version_that_is_bad_is_taken_back(character: str, steps: Steps, tmp_path: Path) -> None:
    """The copy of the database is gone: it has the node's secrets."""
    node, _ = live(tmp_path / "n", steps, character, [], power=False)
    check_end(node, kept=character == "good")
    assert not backup_of(node.database).exists()


@pytest.mark.extended
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("character", ["good", "damages the database"])
def test_two_crashes(character: str, *, power: bool, steps: Steps, tmp_path: Path) -> None:
    for first in range(1, 40, 4):
        for second in range(1, 30, 5):
            node, _ = live(tmp_path / "n", steps, character, [first, second], power=power)
            check_end(node, kept=character == "good")


@pytest.mark.parametrize(
    ("character", "words"),
    [
        ("offline", "the node is not connected"),
        ("not ready", "modules are not ready: edged"),
        ("finds problems", "`edgecore doctor` finds what it did not find before: ports"),
    ],
)
def test_what_a_version_on_probation_lacks_is_logged_once(
    character: str, words: str, tmp_path: Path, steps: Steps, capsys: pytest.CaptureFixture[str]
) -> None:
    live(tmp_path / "i", steps, character, [], power=False)
    assert capsys.readouterr().err == f"updater: {NEW}: {words}\n"


def test_the_log_of_a_probation_is_bounded(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory that is too much is another amount at each look."""
    amounts = itertools.count(2000)
    observe = FakeNode.observe

    def observed(node: FakeNode) -> NodeObservation | None:
        seen = observe(node)
        return None if seen is None else replace(seen, memory=next(amounts) << 20)

    monkeypatch.setattr(FakeNode, "observe", observed)
    live(tmp_path / "i", steps, "eats memory", [], power=False)
    assert len(capsys.readouterr().err.splitlines()) == probation._MOST_LOGGED


@pytest.mark.parametrize(("steady", "every"), [(120.0, 2.0), (1.0, 0.125)])
def test_a_short_probation_has_several_looks_as_well(steady: float, every: float) -> None:
    assert ProbationLimits.of(600.0, steady).every == every


def test_a_version_that_lets_the_machine_crash(steps: Steps, tmp_path: Path) -> None:
    """Power that fails again and again while a version is on probation takes it back: it may be the reason."""
    installation, database = make(tmp_path / "n")
    node = FakeNode(installation, database, steps, "good")
    journal = journal_of(installation)
    installation.switch(journal)
    node.start()
    for _ in range(journal.boots):
        installation.recover(journal)
        assert installation.current() == NEW
    power_on(installation, node)
    check_end(node, kept=False)
    assert "the database is that of the time before the upgrade" in journal_of(installation).report


def test_a_node_that_was_offline_need_not_be_connected(steps: Steps, tmp_path: Path) -> None:
    installation, database = make(tmp_path / "n")
    node = FakeNode(installation, database, steps, "offline")
    journal = journal_of(installation)
    journal.before = NodeObservation(OLD, connected=False, unready=[], containers=CONTAINERS)
    Updater(installation, node).run(journal)
    check_end(node, kept=True)


def test_a_version_that_is_well_now_and_then_is_left(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last trouble counts, and not how long ago it was well first."""
    installation, database = make(tmp_path / "root")
    node = FakeNode(installation, database, steps, "good")
    observe = node.observe
    monkeypatch.setattr(node, "observe", lambda: None if node.running == NEW and node.now % 120 == 90 else observe())
    carry_on(installation, node, is_starting=False)
    check_end(node, kept=False)


def test_of_what_doctor_reports_only_failures_count(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = [
        {"check": "disk", "level": "FAIL"},
        {"check": "clock", "level": "warn"},
        {"check": "dns", "level": "ok"},
    ]
    said = SimpleNamespace(stdout=json.dumps(reported).encode())
    monkeypatch.setattr("subprocess.run", lambda *_, **__: said)
    assert failed_checks(Path("edgecore"), []) == ["disk"]


def test_the_database_stays_when_its_schema_did_not_move(steps: Steps, tmp_path: Path) -> None:
    """What the node has stored meanwhile is not lost."""
    installation, database = make(tmp_path / "n")
    journal = journal_of(installation)
    write_database(database, "later", SCHEMAS[OLD])
    installation.roll_back(journal)
    assert value_of(database) == "later"


def test_a_way_back_that_is_killed_between_files_of_the_database_is_gone_again(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new schema is in the log only, which could not be written back."""
    installation, database = make(tmp_path / "n")
    journal = journal_of(installation)
    with closing(sqlite3.connect(database)) as held:
        held.execute("PRAGMA journal_mode = wal")
        held.execute("SELECT a FROM t").fetchall()
        write_database(database, "kept", SCHEMAS[OLD])
        with closing(sqlite3.connect(backup_of(database))) as backup:
            held.backup(backup)
        write_database(database, "later", SCHEMAS[NEW])
        remove, removed = Path.unlink, list[Path]()

        def remove_one(path: Path, missing_ok: bool = False) -> None:
            if removed:
                raise KeyboardInterrupt
            removed.append(path)
            remove(path, missing_ok=missing_ok)

        with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
            killed.setattr(Path, "unlink", remove_one)
            installation.roll_back(journal)
        left = {file: file.read_bytes() for file in database.parent.glob(f"{database.name}*")}
    for file, content in left.items():  # as before `held` was closed, which a kill does not do
        file.write_bytes(content)
    installation.roll_back(journal)
    assert value_of(database) == "kept"


@pytest.mark.parametrize(("times", "stopped"), [(2, 2), (99, 3)])
def test_another_version_that_was_started_beside_the_way_back_is_stopped(
    steps: Steps, tmp_path: Path, times: int, stopped: int
) -> None:
    """Its launcher is one of before 0.4, which locks nothing; one that is started again and again is left."""
    installation, database = make(tmp_path / "n")

    class Raced(FakeNode):
        left = times

        def wait(self, seconds: float) -> None:
            super().wait(min(seconds, 1.0))

        def start(self) -> None:
            super().start()
            if self.installation.current() == OLD and self.left:
                self.left -= 1
                self.running = NEW

    node = Raced(installation, database, steps, "offline")
    carry_on(installation, node, is_starting=False)
    journal = journal_of(installation)
    assert times - node.left == min(times, stopped + 1)
    assert journal.report.count(f"edgecore {NEW} was started again, and is stopped") == stopped
    if stopped == times:
        check_end(node, kept=False)
    else:
        assert journal.report[-1] == f"edgecore {NEW} runs after 60 s"


def test_an_updater_of_a_start_does_what_the_start_has_not_done(steps: Steps, tmp_path: Path) -> None:
    """Another updater went back in between, and was killed."""
    installation, database = make(tmp_path / "n")
    node = FakeNode(installation, database, steps, "hangs")
    journal = journal_of(installation)
    installation.switch(journal)
    node.start()
    journal.report.append("not well")
    installation.write(journal, Phase.ROLLING_BACK)
    carry_on(installation, node, is_starting=True)
    check_end(node, kept=False)


def test_an_upgrade_that_cannot_begin_is_given_up(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was changed: an updater that tried for ever would keep every other upgrade away."""
    installation, database = make(tmp_path / "u")
    node = FakeNode(installation, database, steps, "good")
    monkeypatch.setattr(node, "wait", Mock(side_effect=AssertionError("it is tried again")))
    monkeypatch.setattr(installation, "write", Mock(side_effect=OSError("the disk is full")))
    with pytest.raises(OSError, match="full"):
        carry_on(installation, node, is_starting=False)
    assert (installation.current(), node.running) == (OLD, OLD)


def test_an_updater_of_a_unit_that_cannot_go_on_fails(
    steps: Steps, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd starts one again that has failed, and none that has ended well: the node would stay on probation."""
    installation, database = make(tmp_path / "u")
    node, journal = FakeNode(installation, database, steps, "good"), journal_of(installation)
    journal.node = replace(journal.node, unit="edgecore.service")
    installation.switch(journal)
    monkeypatch.setattr(installation, "finish", Mock(side_effect=OSError("the disk is full")))
    with pytest.raises(OSError, match="full"):
        carry_on(installation, node, is_starting=False)
    assert journal_of(installation).phase is Phase.PROBATION


def test_who_leaves_the_start_lock_has_no_descriptor_of_it(tmp_path: Path) -> None:
    """The one that a launcher has passed on would stay open, in the node and in each program that it starts."""
    passed, lock = StartLock(tmp_path / "starting"), StartLock(tmp_path / "starting")
    passed.pass_on()
    lock.leave()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(passed._file)


def test_an_earlier_version_that_does_not_answer_is_reported(steps: Steps, tmp_path: Path) -> None:
    installation, database = make(tmp_path / "n")

    class Silent(FakeNode):
        def observe(self) -> NodeObservation | None:
            return None

    carry_on(installation, Silent(installation, database, steps, "good"), is_starting=False)
    journal = journal_of(installation)
    assert (journal.phase, installation.current()) == (Phase.ROLLED_BACK, OLD)
    assert journal.report[-1] == "no edgecore answers after 60 s"


def test_an_earlier_version_that_dies_is_started_again(steps: Steps, tmp_path: Path) -> None:
    """Without systemd, the look at its exits does that."""
    installation, database = make(tmp_path / "n")

    class Dying(FakeNode):
        def start(self) -> None:
            super().start()
            self.running = self.running if self.running == NEW else ""

        def exits(self) -> int:
            self.running = self.running or self.installation.current()
            return super().exits()

    node = Dying(installation, database, steps, "hangs")
    carry_on(installation, node, is_starting=False)
    check_end(node, kept=False)


def test_a_node_without_a_database_of_its_own_goes_back(tmp_path: Path) -> None:
    """Its database is a server's."""
    installation, _ = make(tmp_path / "n")
    journal = replace(journal_of(installation), database="", schema=0, inode=0)
    installation.activate(NEW)
    installation.roll_back(journal)
    installation.finish(journal, Phase.ROLLED_BACK)
    assert installation.current() == OLD


def test_the_end_of_a_change_leaves_no_copy_of_a_configuration(tmp_path: Path) -> None:
    """It may hold a password."""
    installation, _ = make(tmp_path / "n")
    for copy in (installation.former, installation.following):
        copy.write_text("token: x")
    installation.finish(replace(journal_of(installation), configuration="x", database=""), Phase.COMMITTED)
    assert not [copy for copy in (installation.former, installation.following) if copy.exists()]


@pytest.mark.parametrize(("user", "group"), [(0, 1), (1, 0), (1, 1), (0, 0)])
def test_a_file_that_is_replaced_keeps_its_owner_and_its_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int, group: int
) -> None:
    own = os.geteuid(), os.getegid()
    asked = list[tuple[int, int]]()
    monkeypatch.setattr(os, "fchown", lambda _, *given: asked.append(given))
    like: Any = SimpleNamespace(st_mode=0o100640, st_uid=own[0] + user, st_gid=own[1] + group)
    replace_durably(tmp_path / "file", b"x", like=like)
    assert asked == ([(own[0] + user, own[1] + group)] if user or group else [])
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640


def test_who_only_looks_at_the_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a start would leave an upgrade to somebody who does nothing about it."""
    installation = Installation(tmp_path)
    installation.state.mkdir()
    looking = os.open(installation.state / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    assert not installation.is_locked(), "nobody who looks takes another one for an upgrade"
    monkeypatch.setattr("time.sleep", lambda _: os.close(looking))
    with installation.locked() as is_free:
        assert is_free
        assert installation.is_locked()


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    with installation.locked() as first, installation.locked() as second:
        assert (first, second) == (True, False)
    with installation.locked() as third:
        assert third


def test_a_journal_is_read_as_it_was_written(tmp_path: Path) -> None:
    installation, _ = make(tmp_path / "n")
    journal = journal_of(installation)
    installation.write(journal, Phase.PROBATION)
    assert installation.journal() == journal


def test_a_journal_of_a_later_version_is_read(tmp_path: Path) -> None:
    """After a way back, the earlier version has the journal that the later one has written."""
    installation, _ = make(tmp_path / "n")
    journal = journal_of(installation)
    more = asdict(journal) | {"added": 1}
    for part in ("node", "before", "limits"):
        more[part] |= {"added": [1]}
    assert decode_journal(json.dumps(more).encode()) == journal


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b"null", b'{"node": 1}', b"\xff", b"{", b"[" * 200_000])
def test_a_spoilt_journal(text: bytes) -> None:
    with pytest.raises(ValueError):
        decode_journal(text)


def test_trouble_names_what_is_worse(tmp_path: Path) -> None:
    installation, _ = make(tmp_path / "n")
    journal = journal_of(installation)
    well = NodeObservation(NEW, connected=True, unready=[], containers={**CONTAINERS, "default/other 2 o": "c9"})
    assert trouble_of(journal, well) == ""
    assert "does not answer" in trouble_of(journal, None)
    assert OLD in trouble_of(journal, journal.before)
    assert "web" in trouble_of(journal, NodeObservation(NEW, connected=True, unready=[], containers={}))
    assert "400 MiB of memory, and had 100" in trouble_of(journal, replace(well, memory=400 << 20))
    assert trouble_of(journal, replace(well, memory=350 << 20)) == ""
    large = replace(journal.before, memory=1000 << 20)
    assert trouble_of(replace(journal, before=large), replace(well, memory=1900 << 20)) == ""


def test_after_a_restart_of_the_machine_containers_are_known_by_their_names(tmp_path: Path) -> None:
    """Their ids are others then, and they have to be there."""
    installation, _ = make(tmp_path / "n")
    journal = journal_of(installation)
    journal.phase = Phase.PROBATION
    anew = NodeObservation(NEW, connected=True, unready=[], containers=dict.fromkeys(CONTAINERS, "c2"))
    installation.recover(journal)
    assert "web" in trouble_of(journal, anew), "the machine was not restarted"
    journal.boot = "an earlier run of the kernel"
    for _ in range(2):
        installation.recover(journal)
        assert trouble_of(journal, anew) == ""
        assert "web" in trouble_of(journal, NodeObservation(NEW, connected=True, unready=[], containers={}))


def test_a_lock_without_an_owner(tmp_path: Path) -> None:
    """The process id in a lock that nobody holds is another process's by now."""
    (tmp_path / "lock").write_text(f"{os.getpid()}\n")
    assert owner_of(tmp_path / "lock") == 0
    assert owner_of(tmp_path / "none") == 0


def test_the_updater_needs_the_standard_library_only_and_no_clock() -> None:
    """The clock of a machine without a battery is in 1970 after a power cut."""
    text = "".join(file.read_text() for file in PACKAGE.glob("*.py"))
    assert "modules." not in "".join(line for line in text.splitlines() if "import" in line)
    assert not re.findall(r"\btime\.time|datetime|st_mtime", text)
