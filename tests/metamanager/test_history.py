"""The last changes of objects: what is noted, what is not, and that it is bounded."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beehive import Operation, ResourceType
from metamanager import history
from metamanager.history import KEPT, LARGEST, TRIM_EVERY
from metamanager.rows import Cause, Row
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import (
    META,
    NOT_FOUND,
    cloud_answers,
    from_cloud,
    from_edged,
    keep,
    node,
    store_of,
    thing,
)

CAUSE = Cause("edgecontroller update", "message-1")


def row(name: str = "a", version: int = 1, value: str = "{}", kind: str = "configmap", cause: Cause = CAUSE) -> Row:
    return Row(f"default/{kind}/{name}", kind, value, "u", version, "default", name, 1000 + version, cause)


def noted(store: SqliteStore, columns: str = "key, cause, resource_version") -> list[Any]:
    statement = f"SELECT {columns} FROM edgecore_history ORDER BY id"  # noqa: S608
    return store._connection.execute(statement).fetchall()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "edgecore.db")) as store:
        yield store


def test_a_change_is_noted_with_its_cause_in_its_own_transaction(store: SqliteStore) -> None:
    keep(store, row(version=1, value='{"a":1}'))
    store.put(row(version=2))
    store.rollback()
    store.delete("default/configmap/a", "u", Cause("edgecontroller delete", "message-2"), 5)
    store.commit()
    assert noted(store, "at, cause, message, uid, resource_version, size, value") == [
        (1001, "edgecontroller update", "message-1", "u", 1, 7, '{"a":1}'),
        (5, "edgecontroller delete", "message-2", "u", None, None, None),
    ]


def test_a_write_without_a_change_is_not_noted(store: SqliteStore) -> None:
    """Such as an equal or older state, a deletion of a missing object, and types without a history."""
    store.put(row(version=2))
    store.put(row(version=2))
    store.put(row(version=1))
    store.delete("default/configmap/none", "", CAUSE)
    store.put(row("e", kind=ResourceType.EVENT))
    keep(store, row("s", kind=ResourceType.STORE), Row("default/configmap/b", "configmap", "{}"))
    assert noted(store) == [("default/configmap/a", "edgecontroller update", 2)]


def test_of_secrets_and_large_states_no_text_is_kept(store: SqliteStore) -> None:
    """Marks of a secret, nothing of a token."""
    store.put(row("s", kind="secret", value='{"data":{"key":"c2VjcmV0LXZhbHVlLTE="}}'))
    store.put(row("t", kind="serviceaccounttoken", value='{"status":{"token":"abcdefghijklmnop"}}'))
    keep(store, row("l", value="x" * (LARGEST + 1)))
    secret, token, large = noted(store, "value, size")
    assert "c2VjcmV0" not in secret[0]
    assert '"key"' in secret[0]
    assert (token, large) == ((None, 39), (None, LARGEST + 1))


def test_the_newest_changes_of_each_object_stay(store: SqliteStore) -> None:
    for version in range(1, 3 * TRIM_EVERY + 1):
        store.put(row(version=version))
        if not version % 100:
            store.commit()
    keep(store, row("b"))
    versions = [version for key, _, version in noted(store) if key.endswith("/a")]
    assert len(versions) <= KEPT + TRIM_EVERY
    assert versions[-KEPT:] == list(range(3 * TRIM_EVERY - KEPT + 1, 3 * TRIM_EVERY + 1))


def test_only_what_has_changed_since_the_last_trim_is_trimmed(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each trim looks at each object's changes: a node that runs for a year must not look at all it has ever had."""
    trimmed: list[int] = []
    monkeypatch.setattr(history, "TRIM_EVERY", 3)
    monkeypatch.setattr(store._history, "_executemany", lambda _statement, keys: trimmed.append(len(keys)))
    for number in range(9):
        store.put(row(f"n{number}"))
        store.commit()
    assert trimmed == [3, 3, 3]


@settings(max_examples=20, deadline=None)
@given(sizes=st.lists(st.integers(0, 5000), min_size=1, max_size=150))
def test_all_together_stay_within_the_budget(tmp_path_factory: pytest.TempPathFactory, sizes: list[int]) -> None:
    """Whatever comes, also after a restart; the newest change is always there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "BUDGET", 30_000)
        path = tmp_path_factory.mktemp("budget") / "edgecore.db"
        for part in (sizes[::2], sizes[1::2]):
            with closing(SqliteStore(path)) as store:
                for number, size in enumerate(part):
                    keep(store, row(f"n{number}", version=size + 1, value="x" * size))
                    weight = sum(history.OVERHEAD + length for (length,) in noted(store, "coalesce(length(value), 0)"))
                    assert weight <= history.BUDGET


def test_each_way_of_a_change_has_its_cause() -> None:
    """From the cloud, asked of it, patched by edged, deleted."""
    with node(connected=True) as bee:
        cloud_answers(bee, lambda message: NOT_FOUND if "podpatch" in message.route.resource else thing("s", uid="s"))
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
        bee.ask(META, from_edged(bee, "default/secret/s", Operation.QUERY))
        bee.send(META, from_edged(bee, "default/podpatch/a", Operation.PATCH, "{}"))
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.DELETE, thing()))
        bee.settle()
        assert [(key, cause) for key, cause, _ in noted(store_of(bee))] == [
            ("default/pod/a", "edgecontroller insert"),
            ("default/secret/s", "asked of the cloud"),
            ("default/podpatch/a", "edged patch"),
            ("default/pod/a", "edgecontroller delete"),
            ("default/podpatch/a", "edgecontroller delete"),
        ]


def test_beyond_the_budget_the_oldest_changes_go_and_a_tenth_more(tmp_path: Path) -> None:
    """So that not every change has to make room. A store that is opened again counts the same."""
    with pytest.MonkeyPatch.context() as patch, closing(SqliteStore(tmp_path / "edgecore.db")) as store:
        patch.setattr(history, "BUDGET", 30_000)
        kept, first = 0, 1
        for number in range(100):
            store.put(row(f"n{number}", value="x" * 800))
            if number % 10 == 0:
                store.delete(f"default/configmap/n{number}", "", CAUSE)
            store.commit()
            there = noted(store, "id, coalesce(length(value), 0)")
            weight = sum(history.OVERHEAD + length for _, length in there)
            assert weight <= 30_000
            assert weight > 25_000 or len(there) > kept
            assert weight <= 27_000 or there[0][0] == first
            assert [id_ for id_, _ in there] == list(range(there[0][0], there[-1][0] + 1))
            assert noted(store)[-1][0].startswith("default/configmap/n")
            kept, first = len(there), there[0][0]
        keep(store, row("last", value="y" * 100))
        assert noted(store)[-1][0] == "default/configmap/last"
        with closing(SqliteStore(tmp_path / "edgecore.db")) as again:
            assert again._history._weight == store._history._weight


def test_many_changes_of_one_object_leave_the_others_theirs(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "BUDGET", 30_000)
    keep(store, row("other"))
    for version in range(1, 100):
        keep(store, row(version=version, value="x" * 500))
    assert noted(store)[0][0] == "default/configmap/other"


def test_the_largest_state_that_is_kept(store: SqliteStore) -> None:
    keep(store, row(value="x" * LARGEST))
    assert noted(store, "length(value)") == [(LARGEST,)]
