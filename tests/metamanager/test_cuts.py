"""A kill at each step of what the store's file goes through: what was acknowledged is there, and nothing is half."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from metamanager import damage
from metamanager.rows import Row
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.test_damage import PAGE, make, pod_row, spoil
from tests.support.power_cuts import Cut, Loss, Promise, after_each_cut


def names_in(path: Path) -> list[str]:
    """The names of all pods in a store, which is opened twice."""
    with closing(SqliteStore(path)) as store:
        first = store.get_all("pod")
    with closing(SqliteStore(path)) as store:
        assert store.get_all("pod") == first
    return [json.loads(value)["metadata"]["name"] for value in first]


def test_batches_are_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """From the first, with which the file is made."""
    path = tmp_path / "edgecore.db"

    def life(promise: Promise) -> None:
        with closing(SqliteStore(path)) as store:
            for batch in range(3):
                for number in (2 * batch, 2 * batch + 1):
                    store.put(pod_row(number))
                store.commit()
                promise(batch)
            store.delete(pod_row(0).key)
            store.commit()
            promise("deleted")

    def check(cut: Cut) -> None:
        found = names_in(path)
        gone = {"p000"} - set(found) if "deleted" in cut.promised else set()
        batches = [number for number in cut.promised if number != "deleted"]
        assert set(found) | gone >= {f"p{number:03d}" for each in batches for number in (2 * each, 2 * each + 1)}
        assert "deleted" not in cut.promised or gone
        assert (len(found) % 2 == 0) or "p000" not in found
        assert {each.stat().st_mode & 0o077 for each in tmp_path.iterdir()} == {0}

    assert after_each_cut(tmp_path, life, check, losses=(Loss.NOTHING,)) > 10


@pytest.mark.parametrize("is_found", ["at the start", "in use"])
def test_what_can_be_read_of_a_damaged_database_is_not_lost(tmp_path: Path, is_found: str) -> None:
    """Without a connection there is no other source."""
    path = tmp_path / "edgecore.db"
    make(path, 20)
    readable: list[Row] = []
    if is_found == "in use":
        damage.mark(path)
    else:
        spoil(path, 7 * PAGE, PAGE)
    readable += damage.readable_rows(path)
    assert len(readable) > 5

    def life(promise: Promise) -> None:
        SqliteStore(path).close()
        promise("open")

    def check(_: Cut) -> None:
        assert sorted(names_in(path)) == sorted(row.name for row in readable)
        assert damage.all_set_aside(path)
        assert not damage.is_marked(path)

    assert after_each_cut(tmp_path, life, check, losses=(Loss.NOTHING, Loss.NAMES), trusted=("*",)) > 6
