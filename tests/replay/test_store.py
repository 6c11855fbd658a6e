"""The store of a replay, and the recording of stores, machine info and confirmations for it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from beehive import Actor, ModuleName
from beehive.delivery import ANSWER
from beehive.simulation import Simulation
from beehive.trace import Change, Note, NoteKind, StoreCommit
from beehive.trace.entries import EntrySink
from beehive.trace.redact import Redactor
from edged.node.machine import MachineInfo, MachineUsage
from edged.node.recording import MACHINE_NOTES, RecordingMachineInfo
from metamanager.errors import StoreWriteError
from metamanager.recording import REFUSED, RecordingStore
from metamanager.rows import Row
from metamanager.sqlite_store import SqliteStore
from modules.lab.doubles.container_runtime.machine_info import PLENTY
from modules.lab.replay.machine_info import RecordedMachineInfo
from modules.lab.replay.module_turns import ModuleTurns
from modules.lab.replay.store import RecordedStore

POD = Change("put", "default/pod/a", "pod", b'{"metadata":{"name":"a","uid":"u"}}')
ROW = Row("default/pod/b", "pod", "{}")


def commit(operation: str, time: float, seconds: float, error: str = "", change: Change = POD) -> StoreCommit:
    return StoreCommit(time, 1, 0, 1, operation, seconds, error, (change,))


def test_it_begins_with_the_rows_that_the_recorded_one_had(tmp_path: Path) -> None:
    store = RecordedStore(tmp_path / "db", Simulation(), [commit("opened", 0.0, 0.0)])
    assert store.get("default/pod/a") == POD.value.decode()
    store.close()


def test_a_commit_takes_until_the_recorded_one_of_the_same_change_was_through(tmp_path: Path) -> None:
    simulation = Simulation()
    change = Change("put", ROW.key, "pod", b"{}")
    store = RecordedStore(tmp_path / "db", simulation, [commit("commit", 1.5, 0.5, change=change)])
    simulation.run_for(1.0)
    store.put(ROW)
    store.commit()
    assert simulation.clock.monotonic() == pytest.approx(1.5)
    store.close()


def test_a_row_that_was_changed_twice_in_a_commit_takes_one_commit(tmp_path: Path) -> None:
    simulation = Simulation()
    change = Change("put", ROW.key, "pod", b"{}")
    twice = StoreCommit(1.5, 1, 0, 1, "commit", 0.5, "", (change, change))
    store = RecordedStore(tmp_path / "db", simulation, [twice, commit("commit", 1.75, 0.25, change=change)])
    simulation.run_for(1.0)
    store.put(replace(ROW, value="[]"))
    for through in (1.5, 1.75):
        store.put(ROW)
        store.commit()
        assert simulation.clock.monotonic() == pytest.approx(through)
        store.put(replace(ROW, value="[]"))
        store.rollback()
    store.close()


def test_a_commit_that_comes_in_two_takes_no_commit_of_later(tmp_path: Path) -> None:
    """Its second part waited for the next commit of the row, and everything behind it came late."""
    simulation = Simulation()
    row, other = (Change("put", key, "pod", b"{}") for key in (ROW.key, "default/pod/c"))
    whole = StoreCommit(1.5, 1, 0, 1, "commit", 0.003, "", (row, row, other))
    store = RecordedStore(tmp_path / "db", simulation, [whole, commit("commit", 1.53, 0.002, change=row)])
    simulation.run_for(1.496)
    for rows, through in (([ROW], 1.5), ([replace(ROW, value="[]"), Row(other.key, "pod", "{}")], 1.5), ([ROW], 1.53)):
        for each in rows:
            store.put(each)
        store.commit()
        assert simulation.clock.monotonic() == pytest.approx(through)
    store.close()


@pytest.mark.parametrize(("exact", "seconds"), [(False, 0.0), (True, 0.04)])
def test_a_commit_begins_when_it_began_if_its_changes_come_when_they_came(
    tmp_path: Path, *, exact: bool, seconds: float
) -> None:
    """A message that changes nothing may have been handled between its last change and its beginning."""
    simulation = Simulation()
    change = Change("put", ROW.key, "pod", b"{}")
    store = RecordedStore(tmp_path / "db", simulation, [commit("commit", 1.6, 0.1, change=change)], exact=exact)
    simulation.run_for(1.46)
    store.put(ROW)
    assert store.is_whole() is not exact
    assert store.until_begun() == pytest.approx(seconds)
    simulation.run_for(0.04)
    assert (store.is_whole(), store.until_begun()) == (True, 0.0)
    store.close()


def test_a_change_that_changes_nothing_takes_no_commit_of_later(tmp_path: Path) -> None:
    simulation = Simulation()
    other, change = Row("default/pod/c", "pod", "{}"), Change("put", ROW.key, "pod", b"{}")
    recorded = [
        commit("commit", 1.5, 0.5, change=Change("put", other.key, "pod", b"{}")),
        commit("commit", 1.75, 0.75, change=change),
    ]
    store = RecordedStore(tmp_path / "db", simulation, recorded)
    simulation.run_for(1.0)
    store.delete(ROW.key)
    for row, through in ((other, 1.5), (ROW, 1.75)):
        store.put(row)
        store.commit()
        assert simulation.clock.monotonic() == pytest.approx(through)
    store.close()


def test_what_failed_fails_again_and_once(tmp_path: Path) -> None:
    simulation = Simulation()
    change = Change("put", ROW.key, "pod", b"{}")
    recorded = [commit(REFUSED, 1.0, 0.0, "locked", change), commit("commit", 1.0, 0.0, "disk full", change)]
    store = RecordedStore(tmp_path / "db", simulation, recorded)
    simulation.run_for(1.0)
    with pytest.raises(StoreWriteError, match="locked") as refused:
        store.put(ROW)
    assert not refused.value.batch_lost
    store.put(ROW)
    with pytest.raises(StoreWriteError, match="disk full") as lost:
        store.commit()
    assert lost.value.batch_lost
    assert store.get(ROW.key) is None
    store.put(ROW)
    store.commit()
    assert store.get(ROW.key) == "{}"
    store.close()


def test_of_changes_that_were_tried_alike_only_that_is_refused_which_was(tmp_path: Path) -> None:
    simulation = Simulation()
    put, delete = (Change(operation, ROW.key, "pod", b"{}") for operation in ("put", "delete"))
    recorded = [commit("commit", 1.02, 0.01, change=put), commit(REFUSED, 1.1, 0.0, "locked", put)]
    recorded += [commit("commit", 1.11, 0.0, change=delete)]
    store = RecordedStore(tmp_path / "db", simulation, recorded)
    simulation.run_for(1.01)
    store.put(ROW)
    store.delete(ROW.key)
    simulation.run_for(0.08)
    store.delete(ROW.key)
    with pytest.raises(StoreWriteError, match="locked"):
        store.put(ROW)
    store.put(ROW)
    store.close()


def test_an_event_is_known_though_its_name_has_another_moment(tmp_path: Path) -> None:
    change = Change("put", "default/event/pod.18fae27a3f3bf400", "event", b"{}")
    store = RecordedStore(tmp_path / "db", Simulation(), [commit(REFUSED, 0.0, 0.0, "locked", change)])
    with pytest.raises(StoreWriteError, match="locked"):
        store.put(Row("default/event/pod.18fae27a3f3bf500", "event", "{}"))
    store.close()


def test_what_failed_together_fails_also_in_two_commits_and_with_its_hint(tmp_path: Path) -> None:
    """By the hint metamanager knows that the database is not well, and looks for itself when it is again."""
    simulation = Simulation()
    put = tuple(Change("put", f"default/event/pod.{moment}", "event", b"{}") for moment in ("a", "b", "c"))
    failed = StoreCommit(1.0, 1, 0, 1, "commit", 0.0, "commit: edgecore.db (disk is full)", put)
    store = RecordedStore(tmp_path / "db", simulation, [failed])
    simulation.run_for(1.0)
    for moments in (["a"], ["x", "y"]):
        for moment in moments:
            store.put(Row(f"default/event/pod.{moment}", "event", "{}"))
        with pytest.raises(StoreWriteError) as raised:
            store.commit()
        assert (str(raised.value), raised.value.hint) == (failed.error, "disk is full")
    store.put(ROW)
    store.commit()
    assert store.get(ROW.key) == "{}"
    store.close()


def test_a_commit_ends_as_the_recorded_one_of_the_same_rows_although_others_failed_then(tmp_path: Path) -> None:
    """A full disk takes one change and not the next; a commit without a change takes its time, too."""
    simulation = Simulation()
    change = Change("put", ROW.key, "pod", b"{}")
    failed, empty = commit("commit", 1.02, 0.01, "commit: full"), commit("commit", 1.04, 0.01)
    recorded = [commit("commit", 1.01, 0.01, change=change), failed, replace(empty, changes=())]
    store = RecordedStore(tmp_path / "db", simulation, recorded)
    simulation.run_for(1.0)
    store.put(ROW)
    store.commit()
    store.put(Row(POD.key, "pod", "{}"))
    with pytest.raises(StoreWriteError):
        store.commit()
    store.commit()
    assert (store.get(ROW.key), store.get(POD.key)) == ("{}", None)
    assert simulation.clock.monotonic() == pytest.approx(1.04)
    store.close()


class Locked(SqliteStore):
    """A store that somebody else has locked."""

    def put(self, row: Row) -> bool:
        raise StoreWriteError("store an object", row.key, "database is locked", batch_lost=False)


def test_a_change_that_is_refused_is_recorded(tmp_path: Path) -> None:
    kept: list[Any] = []
    store = RecordingStore(Locked(tmp_path / "db"), EntrySink(Simulation().clock, Redactor(), lambda: 1, kept.append))
    with pytest.raises(StoreWriteError):
        store.put(ROW)
    (entry,) = kept
    record = entry.record(0.0, Redactor())
    assert (record.operation, record.changes[0].key) == (REFUSED, ROW.key)
    assert "locked" in record.error
    store.close()


def test_figures_are_recorded_when_they_change_and_come_back_at_their_time(tmp_path: Path) -> None:
    simulation, kept = Simulation(), list[Any]()

    class Falling(MachineInfo):
        """Less and less memory."""

        def usage(self, root: Path, images: Path | None = None) -> MachineUsage:
            return replace(PLENTY, memory_available=10 - int(simulation.clock.monotonic() / 5))

    figures = RecordingMachineInfo(Falling(), EntrySink(simulation.clock, Redactor(), lambda: 1, kept.append))
    for _ in range(4):
        figures.usage(tmp_path)
        simulation.run_for(3.0)
    notes = [entry.record(entry.time, Redactor()) for entry in kept]
    assert [(note.kind, note.text) for note in notes] == [(MACHINE_NOTES.kind, MACHINE_NOTES.usage)] * 2
    again = Simulation()
    recorded = RecordedMachineInfo(again.clock, [note for note in notes if isinstance(note, Note)])
    assert recorded.usage(tmp_path).memory_available == 10
    again.run_for(7.0)
    assert recorded.usage(tmp_path).memory_available == 9


@pytest.mark.parametrize(
    ("key", "turn", "ends"), [(ROW.key, 1.0, False), (ROW.key, 2.0, True), ("null/x/y", 1.0, False)]
)
def test_a_commit_after_which_metamanager_did_nothing_more_was_under_way_at_the_end(
    key: str, turn: float, tmp_path: Path, *, ends: bool
) -> None:
    """Otherwise it has other changes than the recorded run had."""
    simulation, found = Simulation(), list[float]()
    turns = ModuleTurns([Note(turn, 0, 0, 0, NoteKind.TURN, ModuleName.METAMANAGER, ANSWER)])
    change = Change("put", ROW.key, "pod", b"{}")
    store = RecordedStore(tmp_path / "db", simulation, [commit("commit", 0.5, 0.1, change=change)], turns)

    class Writing(Actor):
        def on_receive(self, _message: object) -> None:
            store.put(Row(key, "pod", "{}"))
            store.commit()
            found.append(self.clock.monotonic())

    simulation.run_for(1.6)
    simulation.start(Writing).ref.tell("write")
    simulation.run_for(9.0)
    simulation.close()
    assert found == ([1.6] if ends else [])


def test_the_commit_under_way_at_the_end_begins_after_what_metamanager_did_last(tmp_path: Path) -> None:
    """The recording does not tell when it began; earlier, messages that came before it would wait for ever."""
    simulation = Simulation()
    turns = ModuleTurns([Note(1.62, 0, 0, 0, NoteKind.TURN, ModuleName.METAMANAGER, ANSWER)])
    recorded = [commit("commit", 0.5, 0.1)]
    store = RecordedStore(tmp_path / "db", simulation, recorded, turns, exact=True)
    simulation.run_for(1.6)
    store.put(ROW)
    assert store.until_begun() == pytest.approx(0.02)
    simulation.run_for(0.03)
    assert store.until_begun() == 0.0
    store.close()
