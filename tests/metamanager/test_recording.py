"""A recorded store keeps as the store does, tells what became durable, and teaches the secrets that it holds."""

import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import msgspec
import pytest
from msgspec.structs import replace

from beehive.simulation import Simulation
from beehive.trace.entries import EntrySink
from beehive.trace.format import StoreCommit
from beehive.trace.redact import Redactor
from metamanager.errors import StoreError, StoreWriteError
from metamanager.recording import OPENED, OPENED_BYTES, CommitEntry, RecordingStore
from metamanager.rows import row_of
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import keep

POD = b'{"metadata":{"name":"p","namespace":"default","uid":"u"}}'
SECRET = b'{"kind":"Secret","metadata":{"name":"s","namespace":"default"},"data":{"a":"cGxhbnRlZC1wYXNzd29yZA=="}}'


class Recorded:
    """A real store, recorded."""

    def __init__(self, path: Path) -> None:
        self.simulation, spans = Simulation(), iter(range(1, 1000))
        self.entries: list[CommitEntry] = []
        self.redactor = Redactor()
        self.inner = SqliteStore(path)
        self.store = RecordingStore(
            self.inner, EntrySink(self.simulation.clock, self.redactor, lambda: next(spans), self.entries.append)
        )

    def commits(self) -> list[StoreCommit]:
        """As they are written."""
        return [entry.record(entry.time, self.redactor) for entry in self.entries]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Of a store with a pod and a secret in it, closed again."""
    recorded = Recorded(tmp_path / "db")
    keep(recorded.store, row_of("default/pod/p", POD, 0), row_of("default/secret/s", SECRET, 0))
    recorded.store.close()
    [commit] = recorded.commits()
    assert [(change.operation, change.key, change.kind) for change in commit.changes] == [
        ("put", "default/pod/p", "pod"),
        ("put", "default/secret/s", "secret"),
    ]
    assert commit.changes[0].value == POD
    return tmp_path / "db"


def test_rows_at_the_start_are_recorded_and_their_secrets_are_learnt(path: Path) -> None:
    recorded = Recorded(path)
    assert "planted-password" not in recorded.redactor.text("the password is planted-password")
    [opened] = recorded.commits()
    assert opened.operation == "opened"
    assert {change.key for change in opened.changes} == {"default/pod/p", "default/secret/s"}
    assert b"cGxhbnRlZC1wYXNzd29yZA" not in b"".join(change.value for change in opened.changes)
    assert recorded.store.get("default/secret/s") == SECRET.decode()
    recorded.store.close()


def test_a_new_secret_is_learnt_before_its_commit(tmp_path: Path) -> None:
    """A message that names it may be written to the trace earlier."""
    recorded = Recorded(tmp_path / "db")
    recorded.store.put(row_of("default/secret/s", SECRET, 0))
    assert "planted-password" not in recorded.redactor.text("the password is planted-password")
    recorded.store.close()


def test_a_commit_without_changes_is_not_reported(path: Path) -> None:
    recorded = Recorded(path)
    recorded.entries.clear()
    recorded.store.commit()
    assert not recorded.store.delete("default/pod/nobody")
    recorded.store.commit()
    recorded.store.close()
    assert not recorded.entries


def test_an_older_state_that_the_store_does_not_take_is_no_change(path: Path) -> None:
    recorded = Recorded(path)
    recorded.entries.clear()
    newer, older = (POD.replace(b'"uid"', b'"resourceVersion":"%d","uid"' % version) for version in (9, 8))
    for pod in (newer, older):
        recorded.store.put(row_of("default/pod/p", pod, 0))
    recorded.store.commit()
    recorded.store.close()
    assert [change.value for commit in recorded.commits() for change in commit.changes] == [newer]


def test_a_deletion_and_a_rollback_are_named_as_such(path: Path) -> None:
    recorded = Recorded(path)
    recorded.entries.clear()
    recorded.store.delete("default/pod/p")
    recorded.store.rollback()
    recorded.store.delete("default/pod/p")
    recorded.store.commit()
    recorded.store.close()
    assert [(one.operation, one.changes[0].operation) for one in recorded.commits()] == [
        ("rollback", "delete"),
        ("commit", "delete"),
    ]


def test_an_entry_has_the_seconds_that_its_commit_took(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(tmp_path / "db")
    recorded.simulation.run_for(100)
    monkeypatch.setattr(recorded.inner, "commit", lambda: recorded.simulation.run_for(2))
    recorded.store.put(row_of("default/pod/p", POD, 0))
    recorded.store.commit()
    assert [entry.seconds for entry in recorded.entries] == [pytest.approx(2)]
    recorded.inner.close()


def test_a_commit_that_fails_is_reported_with_its_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Recorded(path)
    recorded.entries.clear()

    def fail() -> None:
        raise StoreWriteError("commit", "db", "disk is full", batch_lost=True)

    monkeypatch.setattr(recorded.inner, "commit", fail)
    recorded.store.delete("default/pod/p")
    with pytest.raises(StoreWriteError):
        recorded.store.commit()
    assert "disk is full" in recorded.commits()[0].error
    recorded.store.close()


def test_rows_of_earlier_runs_are_reported_under_their_own_keys(tmp_path: Path) -> None:
    """Devices have no metadata, and a token's owner is in no text. Many rows come in several records."""
    recorded = Recorded(tmp_path / "db")
    value = b'{"id":"default/hall"}'
    token = replace(row_of("default/serviceaccounttoken/shop", b'{"status":{"token":"t"}}', 0), uid="the-pod")
    rows = [row_of("default/devicetwin/hall", value, 0), token, row_of("any/thing/of/KubeEdge", b"x" * OPENED_BYTES, 0)]
    for row in rows:
        recorded.store.put(row)
    recorded.store.commit()
    recorded.store.close()
    opened = Recorded(tmp_path / "db")
    opened.store.close()
    assert {commit.operation for commit in opened.commits()} == {OPENED}
    assert len(opened.commits()) == 2
    changes = {change.key: change for commit in opened.commits() for change in commit.changes}
    assert {key: (change.kind, change.uid) for key, change in changes.items()} == {
        row.key: (row.type, row.uid) for row in rows
    }
    assert changes["default/devicetwin/hall"].value == value
    assert msgspec.json.decode(changes["any/thing/of/KubeEdge"].value) == "x" * OPENED_BYTES


def test_rows_that_cannot_be_read_are_reported_as_an_error(path: Path) -> None:
    """So that a replay does not take the store for empty."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE meta SET value = CAST(x'ff' AS TEXT) WHERE key = 'default/pod/p'")
    recorded = Recorded(path)
    [opened] = recorded.commits()
    recorded.store.close()
    assert opened.error


def test_a_recorded_store_answers_as_the_store_does(path: Path) -> None:
    recorded = Recorded(path)
    store, pod = recorded.store, row_of("default/pod/p", POD.replace(b'"uid"', b'"resourceVersion":"9","uid"'), 0)
    token = replace(row_of("default/serviceaccounttoken/shop", b'{"status":{"token":"t"}}', 0), uid="u")
    assert store.put(pod)
    assert not store.put(replace(pod, resource_version=8))
    assert store.put(token)
    store.commit()
    assert [row.key for row in store.rows()] == [
        "default/pod/p",
        "default/secret/s",
        "default/serviceaccounttoken/shop",
    ]
    assert store.get_all("pod") == store.get_all("pod", "default") == [pod.value]
    assert (store.delete_owned("serviceaccounttoken", "nobody"), store.delete_owned("serviceaccounttoken", "u")) == (
        0,
        1,
    )
    assert (store.delete("default/pod/p", "another"), store.delete("default/pod/p", "u")) == (False, True)
    recorded.entries.clear()
    store.commit()
    changes = [(change.operation, change.key) for change in recorded.commits()[0].changes]
    assert changes == [("delete", "u/*"), ("delete", "default/pod/p")]
    assert (store.make_room(), store.make_room()) == (True, False)
    store.close()
    with pytest.raises(StoreError):
        store.get("default/pod/p")


@pytest.mark.parametrize("call", ["put", "delete", "delete_owned"])
def test_a_refused_change_is_reported_alone(path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The earlier ones of its transaction are reported with the commit."""
    recorded = Recorded(path)
    recorded.entries.clear()
    recorded.store.delete("default/pod/p")
    refused = StoreWriteError("change", "db", "disk is full", batch_lost=False)
    monkeypatch.setattr(recorded.inner, call, Mock(side_effect=refused))
    row = row_of("default/pod/q", POD, 0)
    arguments = {"put": (row,), "delete": (row.key,), "delete_owned": ("serviceaccounttoken", "u")}[call]
    with pytest.raises(StoreWriteError):
        getattr(recorded.store, call)(*arguments)
    recorded.store.commit()
    recorded.store.close()
    first, second = recorded.commits()
    key = "u/*" if call == "delete_owned" else row.key
    operation = "put" if call == "put" else "delete"
    assert (first.operation, [(change.operation, change.key) for change in first.changes]) == (
        "refused",
        [(operation, key)],
    )
    assert "disk is full" in first.error
    assert (second.operation, [change.key for change in second.changes]) == ("commit", ["default/pod/p"])


@pytest.mark.parametrize("kind", ["secret", "serviceaccounttoken"])
def test_no_value_of_a_secret_is_recorded_however_short(tmp_path: Path, kind: str) -> None:
    """Too short to be found in other texts, but no less secret; its base64 has an H, which no mark's has. Each record
    is the root of its trace.
    """
    recorded = Recorded(tmp_path / "db")
    keep(recorded.store, row_of(f"default/{kind}/s", b'{"metadata":{"name":"s"},"data":{"pin":"eHl6"}}', 0))
    recorded.store.close()
    [commit] = recorded.commits()
    assert b"eHl6" not in commit.changes[0].value
    assert b"pin" in commit.changes[0].value
    assert commit.trace == commit.span > 0
    assert commit.seconds == 0
