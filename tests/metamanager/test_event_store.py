"""The newest few events are kept, also over a restart, and the oldest make room in the same transaction."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from beehive import Operation
from metamanager.event_store import EVENTS_KEPT, EventStore
from metamanager.rows import Row, order_of_event
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import META, from_edged, node, store_of

ROOM = 3


def event(number: int) -> dict[str, Any]:
    seen = f"2026-11-20T01:00:{number:02}Z"
    return {"metadata": {"name": f"e{number}", "namespace": "default"}, "lastTimestamp": seen}


def row(number: int, of: int | None = None) -> Row:
    name = f"e{number if of is None else of}"
    value = msgspec.json.encode({**event(number), "metadata": {"name": name, "namespace": "default"}}).decode()
    return Row(f"default/event/{name}", "event", value, namespace="default", name=name)


def names(store: SqliteStore) -> list[str]:
    return [msgspec.json.decode(value)["metadata"]["name"] for value in store.get_all("event")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "edgecore.db")) as made:
        yield made


def test_the_oldest_makes_room(store: SqliteStore) -> None:
    events = EventStore(store, "event", ROOM)
    for number in range(5):
        events.put(row(number))
    assert names(store) == ["e2", "e3", "e4"]


def test_an_updated_event_counts_as_new(store: SqliteStore) -> None:
    events = EventStore(store, "event", ROOM)
    for number in (0, 1, 2):
        events.put(row(number))
    events.put(row(3, of=0))
    events.put(row(4))
    assert names(store) == ["e0", "e2", "e4"]


def test_events_kept_before_a_restart_count_and_go_by_their_time_and_not_by_their_name(store: SqliteStore) -> None:
    before = EventStore(store, "event", ROOM)
    for number in (7, 8):
        before.put(row(number))
    before.put(row(9, of=0))
    events = EventStore(store, "event", ROOM)
    events.put(row(10))
    events.put(row(11))
    assert names(store) == ["e0", "e10", "e11"]


@pytest.mark.parametrize("second", ["2026-11-20T01:00:00Z", None])
def test_events_of_one_second_go_by_the_numbers_in_their_names(store: SqliteStore, second: str | None) -> None:
    """They are hexadecimal, so that `web.f` comes before `web.10`, and before `a.11` of another pod."""
    before = EventStore(store, "event", 5)
    for name in ("z", "web.f", "web.10", "a.11", "web.12"):
        value = msgspec.json.encode({"metadata": {"name": name, "namespace": "d"}, "lastTimestamp": second}).decode()
        before.put(Row(f"d/event/{name}", "event", value, namespace="d", name=name))
    events = EventStore(store, "event", 3)
    events.put(row(1))
    assert names(store) == ["a.11", "web.12", "e1"]


def test_other_kinds_are_left_alone(store: SqliteStore) -> None:
    store.put(Row("default/pod/web", "pod", "{}"))
    events = EventStore(store, "event", 1)
    for number in range(3):
        events.put(row(number))
    assert store.get("default/pod/web") == "{}"


@pytest.mark.parametrize("value", ["", "[]", "{", '{"lastTimestamp": null}', '{"lastTimestamp": 3}', "\ud800"])
def test_an_event_without_a_time_counts_as_oldest(value: str) -> None:
    assert order_of_event(value) == ("", 0)


def test_the_module_keeps_so_many(tmp_path: Path) -> None:
    """Including events from before its start."""
    for first in (0, EVENTS_KEPT - 10):
        with node(tmp_path / "edgecore.db") as bee:
            for number in range(first, first + EVENTS_KEPT - 10):
                content = {**event(0), "metadata": {"name": f"e{number:04}", "namespace": "default"}}
                bee.send(META, from_edged(bee, f"default/event/e{number:04}", Operation.INSERT, content))
            kept = names(store_of(bee))
    assert len(kept) == EVENTS_KEPT
    assert kept[-1] == f"e{2 * (EVENTS_KEPT - 10) - 1:04}"
