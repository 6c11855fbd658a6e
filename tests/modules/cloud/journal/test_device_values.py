"""The device history in a real database."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, update

from beehive.turns import Turns
from modules.cloud.device_values import LONGEST_VALUE, DeviceValue, HistoryValue, ValueList, ValueQuery
from modules.cloud.journal import device_values as history
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.device_values import DAYS, ValueStore, properties, values

NOW = 1_800_000_000.0
DAY = 86_400.0
HALL = ValueQuery("default", "hall", "t")


@pytest.fixture
def database(url: str) -> Iterator[JournalDatabase]:
    """Open the database."""
    made = JournalDatabase(url, Turns())
    yield made
    made.close()


def said(value: str, at: float, name: str = "hall", property_name: str = "t", node: str = "n1") -> DeviceValue:
    """Return a value that a node has reported."""
    return DeviceValue("default", name, property_name, node, at, value)


def rows(database: JournalDatabase) -> tuple[int, int]:
    """Return the numbers of properties and of values in the database."""
    counts = [select(func.count()).select_from(table) for table in (properties, values)]
    first, second = database.run("count", lambda connection: [connection.execute(each).scalar_one() for each in counts])
    return first, second


def count_of(found: ValueList) -> dict[str, int]:
    """Return the number of values by property."""
    return {name: sum(each.property == name for each in found.values) for name in {x.property for x in found.values}}


def test_values_are_read_by_time_and_stored_once(url: str, database: JournalDatabase) -> None:
    store = ValueStore(database)
    for _ in range(2):  # the answer to the first commit was lost
        store.write(
            [said("20", NOW - 60.0), said("21", NOW), said("1", NOW, "far"), said("5", NOW - 9, "hall", "u")], NOW
        )
    assert store.read(HALL, NOW) == ValueList(
        [HistoryValue(NOW - 60.0, "t", "20"), HistoryValue(NOW, "t", "21")], "n1", history.MOST_OF_PROPERTY
    )
    assert [each.value for each in store.read(ValueQuery("default", "hall"), NOW).values] == ["20", "5", "21"]
    assert [each.value for each in store.read(ValueQuery("default", "hall", limit=1), NOW).values] == ["21"]
    assert store.read(ValueQuery("default", "no"), NOW) == ValueList([], "", history.MOST_OF_PROPERTY)
    again = JournalDatabase(url, Turns())
    assert len(ValueStore(again).read(HALL, NOW).values) == 2, "after a restart"
    again.close()


@pytest.mark.parametrize("at", [0.0, NOW + 3600.0, NOW - (DAYS + 1) * DAY, 1e300])
def test_an_impossible_time_is_replaced_by_cloudcores(database: JournalDatabase, at: float) -> None:
    store = ValueStore(database)
    store.write([said("20", at)], NOW)
    assert [each.at for each in store.read(HALL, NOW).values] == [NOW]


def test_values_with_impossible_times_are_all_kept_in_their_order(database: JournalDatabase) -> None:
    """Those that a board without a battery has reported together: they are not one value of one moment."""
    store = ValueStore(database)
    for _ in range(2):  # the answer to the first commit was lost
        store.write([*(said(text, 5.0) for text in ("9", "10", "8")), said("1", 5.0, "far")], NOW)
    found = store.read(HALL, NOW).values
    assert [(round((each.at - NOW) * 1000), each.value) for each in found] == [(0, "9"), (1, "10"), (2, "8")]


def test_hostile_texts_are_cut_and_escaped(database: JournalDatabase) -> None:
    store = ValueStore(database)
    store.write([said("\x00\x1b[2J" + "x" * 100_000, NOW, property_name="\x00" * 300)], NOW)
    (found,) = store.read(ValueQuery("default", "hall", "\x00" * 300), NOW).values
    assert found.value.startswith("\\x00\\x1b[2Jxx")
    assert (len(found.value), len(found.property)) == (LONGEST_VALUE, 256)


def test_a_property_has_its_newest_values_by_number_and_by_bytes(
    database: JournalDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ValueStore(database, 10)
    for number in range(14):
        store.write([said(str(number), NOW + number / 10)], NOW + 3.0)
        assert rows(database)[1] <= 10
    kept = [int(each.value) for each in store.read(HALL, NOW).values]
    assert kept == list(range(14 - len(kept), 14))
    assert len(kept) >= 9
    monkeypatch.setattr(history, "MOST_BYTES_OF_PROPERTY", 2000)
    for number in range(14):
        store.write([said("x" * 250, NOW + 4.0 + number)], NOW + 60.0)
        assert rows(database)[1] <= 10
        assert sum(len(each.value) for each in store.read(HALL, NOW).values) <= 2000


def test_old_values_go_part_by_part(database: JournalDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_PART", 2)
    store = ValueStore(database)
    store.write([said("1", NOW, "a"), said("1", NOW, "b"), said("1", NOW, "c"), said("2", NOW + DAY, "c")], NOW + DAY)
    later = NOW + DAYS * DAY + 60.0
    assert store.read(ValueQuery("default", "a"), later).values == [], "not shown, though it is still there"
    after = store.forget(later, 0)
    assert (rows(database), after) == ((1, 2), 2)
    assert store.forget(later, after) == 0
    assert rows(database) == (1, 1)
    assert store.forget(later, 77) == 0
    ValueStore(database, 0).forget(later, 0)
    assert rows(database) == (0, 0), "--device-history 0"


def test_a_node_that_reports_too_much_displaces_its_own_values(
    database: JournalDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "MOST_BYTES", 20_000)
    store = ValueStore(database)
    store.write([said(str(number), NOW + number, "quiet", node="n2") for number in range(100)], NOW + 200.0)
    flood = [said("x" * 200, NOW + number, "hall", f"p{part}") for part in range(10) for number in range(50)]
    store.write(flood, NOW + 200.0)
    store.forget(NOW + 200.0, 0)
    assert len(store.read(ValueQuery("default", "quiet"), NOW).values) == 100
    left = count_of(store.read(ValueQuery("default", "hall", limit=2000), NOW))
    assert set(left.values()) == {6}, "half, half and half of 50, of each property"
    total = database.run("sum", lambda connection: connection.execute(select(func.sum(properties.c.size))).scalar_one())
    assert total <= 20_000


def test_a_row_that_something_else_has_written_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = JournalDatabase(str(tmp_path / "cloud.db"), Turns())
    store = ValueStore(database)
    store.write([said("20", NOW), said("1", NOW, "far")], NOW)
    odd = [{"property": 1, "at": "soon", "value": b"\xff"}, {"property": 77, "at": 5, "value": "lost"}]
    database.run("spoil", lambda connection: connection.execute(insert(values), odd))
    spoil = update(properties).where(properties.c.id == 1).values(number="many", size="large")
    database.run("spoil", lambda connection: connection.execute(spoil))
    assert [each.value for each in store.read(ValueQuery("default", "hall"), NOW).values] == ["20"]
    store.write([said("21", NOW + 1.0)], NOW + 1.0)
    monkeypatch.setattr(history, "MOST_BYTES", 10)
    store.forget(NOW + 1.0, 0)
    store.write([said("22", NOW + 2.0)], NOW + 2.0)
    assert [each.value for each in store.read(HALL, NOW).values][-1] == "22"
    database.close()
