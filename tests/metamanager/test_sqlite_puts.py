"""Rows that wait to be written together: nobody can tell, but for the number of statements."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beehive import Group, Operation
from metamanager.errors import StoreWriteError
from metamanager.rows import Cause, Row
from metamanager.sqlite_store import LONGEST, MOST_ROWS, STATES, Puts, SqliteStore, can_wait
from tests.metamanager.support import META, from_cloud, node, store_of, thing
from tests.support.directories import memory_parent, short_directory

CAUSE = Cause("edgecontroller update", "id")


def row(name: str = "a", version: int = 1, value: str = "{}", uid: str = "u") -> Row:
    """Of some configmap."""
    return Row(f"default/configmap/{name}", "configmap", value, uid, version, "default", name, 0, CAUSE)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """With `a` in it."""
    with closing(SqliteStore(tmp_path / "edgecore.db")) as made:
        assert made.put(row())
        made.commit()
        yield made


ACTIONS = st.lists(
    st.one_of(
        st.tuples(
            st.just("put"),
            st.sampled_from("ab"),
            st.integers(0, 3),
            st.sampled_from(["u", "v", ""]),
            st.text(max_size=2),
        ),
        st.tuples(st.sampled_from(["delete", "get"]), st.sampled_from("ab")),
        st.tuples(st.sampled_from(["commit", "rollback", "list", "delete owned"])),
    ),
    max_size=40,
)


TWICE = [("put", "a", 1, "u", "x"), ("put", "a", 2, "u", "y")]


@given(ACTIONS)
@example([*TWICE, ("delete", "a")])
@example([*TWICE, ("delete", "a"), *TWICE])
@example([*TWICE, ("delete owned",), *TWICE])
@example([*TWICE, ("rollback",), *TWICE])
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_store_answers_as_one_without_waiting_rows(actions: list[tuple[object, ...]]) -> None:
    """The model: each row is put immediately, by `Row.supersedes`."""
    with (
        short_directory("meta-", memory_parent()) as directory,
        closing(SqliteStore(directory / "edgecore.db")) as store,
    ):
        model: dict[str, Row] = {}
        durable: dict[str, Row] = {}
        action: tuple[object, ...]
        for action in [*actions, ("list",)]:
            match action:
                case ("put", str(name), int(version), str(uid), str(value)):
                    wanted = row(name, version, value, uid)
                    stored = model.get(name)
                    is_put = stored is None or wanted.supersedes(stored.uid, stored.resource_version)
                    expected = is_put or (stored is not None and wanted.equals(stored.uid, stored.resource_version))
                    assert store.put(wanted) is expected
                    if is_put:
                        model[name] = wanted
                case ("delete", str(name)):
                    assert store.delete(row(name).key) is (model.pop(name, None) is not None)
                case ("get", str(name)):
                    assert store.get(row(name).key) == (model[name].value if name in model else None)
                case ("commit",):
                    store.commit()
                    durable = dict(model)
                case ("rollback",):
                    store.rollback()
                    model = dict(durable)
                case ("delete owned",):
                    owned = [name for name, one in model.items() if one.uid == "u"]
                    assert store.delete_owned("configmap", "u") == len(owned)
                    for name in owned:
                        del model[name]
                case ("list",):
                    assert store.get_all("configmap") == [model[name].value for name in sorted(model)]


def test_newer_states_are_written_by_few_statements(store: SqliteStore) -> None:
    names = [f"c{number}" for number in range(50)]
    for name in names:
        assert store.put(row(name))
    store.commit()
    statements: list[str] = []
    store._connection.set_trace_callback(statements.append)
    for version in range(2, 2 + MOST_ROWS * 4 // len(names)):
        for name in names:
            assert store.put(row(name, version, f'"{version}"'))
    store.commit()
    store._connection.set_trace_callback(None)
    assert store.get_all("configmap")[1:] == [f'"{version}"'] * len(names)
    assert len([text for text in statements if text.startswith("INSERT INTO meta")]) <= 3 + (MOST_ROWS - 1).bit_length()


def test_remembered_states_and_waiting_rows_are_bounded() -> None:
    puts = Puts()
    assert can_wait(row(value="x" * LONGEST))
    assert not can_wait(row(value="x" * (LONGEST + 1)))
    for number in range(MOST_ROWS):
        assert not puts.full
        puts.add(row(str(number)))
    assert puts.full
    puts.written()
    assert (puts.full, len(puts)) == (False, 0)
    for number in range(STATES + 1):
        puts.remember_state(str(number), ("u", 1))
    assert [puts.state(str(number)) for number in (0, STATES)] == [None, ("u", 1)]


@pytest.mark.parametrize(("uid", "version", "taken"), [("u", 9, False), ("w", 9, True), (None, None, True)])
def test_rows_that_another_program_has_stored_count(
    store: SqliteStore, tmp_path: Path, uid: str | None, version: int | None, *, taken: bool
) -> None:
    """KubeEdge's tools write to the file, too."""
    assert store.put(row(version=2))
    store.commit()
    with closing(sqlite3.connect(tmp_path / "edgecore.db")) as other:
        other.execute("UPDATE meta SET uid = ?, resource_version = ?, value = 'other'", (uid, version))
        other.commit()
    assert store.put(row(version=3, value="mine")) is taken
    assert store.get(row().key) == ("mine" if taken else "other")


def without_room(store: SqliteStore) -> Row:
    """Take the store's room while a newer state of `a` waits for it."""
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    return row(version=2, value="x" * LONGEST)


def test_a_row_that_was_promised_and_cannot_be_written_loses_the_batch_until_that_is_known(store: SqliteStore) -> None:
    """The caller that reads may not be the one whose put was reported as stored, so the commit must raise the error
    again.
    """
    big = without_room(store)
    assert store.put(big)
    for call in (lambda: store.get(big.key), lambda: store.put(row("b")), store.commit, store.commit):
        with pytest.raises(StoreWriteError, match="disk space") as caught:
            call()
        assert caught.value.batch_lost
    assert len(caught.traceback) <= 4, "it keeps no frames of earlier times"
    store.rollback()
    store._connection.execute("PRAGMA max_page_count=1000")
    assert store.get(big.key) == "{}"
    assert store.put(big)
    store.commit()
    assert store.get(big.key) == big.value


def test_a_row_that_sqlite_may_refuse_is_refused_alone(store: SqliteStore) -> None:
    assert store.put(row("b"))
    for bad in (row(version=2, value="\ud800"), row(version=2**64), row("b\ud800")):
        assert not can_wait(bad)
        with pytest.raises(StoreWriteError) as caught:
            store.put(bad)
        assert not caught.value.batch_lost
    store.commit()
    assert (store.get(row().key), store.get(row("b").key)) == ("{}", "{}")


def test_nobody_gets_an_acknowledgement_when_the_rows_that_waited_could_not_be_written(tmp_path: Path) -> None:
    """The module on a disk that fills up: an error for each of them, and with room again all is as before."""
    with node(tmp_path / "edgecore.db") as bee:

        def update(name: str, version: int, text: str) -> None:
            content = thing(name, version=version, text=text)
            bee.send(META, from_cloud(bee, f"default/configmap/{name}", Operation.UPDATE, content))

        update("a", 1, "old")
        bee.forget()
        connection = store_of(bee)._connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}")
        update("a", 2, "x" * (LONGEST - 200))
        assert [answer.route.operation for answer in bee.sent_to(Group.HUB)] == [Operation.ERROR]
        bee.forget()
        connection.execute("PRAGMA max_page_count=1000")
        update("a", 2, "new")
        assert [answer.content for answer in bee.sent_to(Group.HUB)] == ["OK"]
        assert "new" in (store_of(bee).get("default/configmap/a") or "")
