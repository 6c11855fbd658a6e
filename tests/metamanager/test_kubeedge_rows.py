"""A database that changes hands between KubeEdge's edgecore and this agent."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from beehive import Operation
from metamanager import sqlite_migrations
from metamanager.errors import StoreOpenError
from metamanager.rows import Row
from metamanager.sqlite_migrations import fill_after_kubeedge
from metamanager.sqlite_store import SqliteStore
from metamanager.tokens import token_key
from modules.apimachinery.types import encode
from modules.apimachinery.types.tokens import BoundObjectReference, TokenRequest, TokenRequestSpec
from tests.metamanager import kubeedge_file
from tests.metamanager.support import from_edged, node

KEY = '"default"/"cap"/[]string(nil)/3607/v1.BoundObjectReference{Kind:"Pod", APIVersion:"v1", Name:"tok", UID:"u1"}'


def pod(uid: str, version: int) -> dict[str, Any]:
    meta = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta}


def put(store: SqliteStore, uid: str, version: int) -> bool:
    return store.put(Row("default/pod/a", "pod", "{}", uid, version, "default", "a"))


def test_rows_that_kubeedge_has_written_meanwhile_count(path: Path) -> None:
    """Ours, KubeEdge's, ours again: an older state than KubeEdge's last one is not stored, a newer one is."""
    kubeedge_file.make(path)
    kubeedge_file.save(path, pod("u1", 10))
    with closing(SqliteStore(path)) as store:
        assert put(store, "u1", 20)
        store.commit()
    kubeedge_file.save(path, pod("u1", 30))
    with closing(SqliteStore(path)) as store:
        assert not put(store, "u1", 25)
        assert put(store, "u1", 31)


def test_a_pod_that_kubeedge_has_replaced_is_the_new_one(path: Path) -> None:
    """Also if KubeEdge changes the value only, and leaves our columns as they were."""
    kubeedge_file.make(path)
    with closing(SqliteStore(path)) as store:
        put(store, "u1", 20)
        store.commit()
    with closing(sqlite3.connect(path)) as file, file:
        value = '{"metadata":{"uid":"u2","resourceVersion":"30"}}'
        file.execute("UPDATE meta SET value = ? WHERE key = 'default/pod/a'", (value,))
    with closing(SqliteStore(path)) as store:
        assert not store.delete("default/pod/a", "u1")
        assert not put(store, "u2", 29)
        assert store.delete("default/pod/a", "u2")


def test_a_file_of_ours_alone_is_not_read_through(path: Path) -> None:
    """Without KubeEdge's tables, the columns are believed."""
    with closing(SqliteStore(path)) as store:
        put(store, "u1", 20)
        store.commit()
    with closing(SqliteStore(path)) as store:
        assert not put(store, "u1", 19)


class _Full(sqlite3.Connection):
    """Has no room for changes within a transaction."""

    def executemany(self, *_: Any) -> sqlite3.Cursor:
        raise sqlite3.OperationalError("database or disk is full")


@pytest.mark.parametrize("kind", [sqlite3.Connection, _Full])
def test_a_file_that_takes_no_changes_is_used_all_the_same(
    path: Path, caplog: pytest.LogCaptureFixture, kind: type[sqlite3.Connection]
) -> None:
    """A node starts on a full disk, too; the next start tries again."""
    kubeedge_file.make(path)
    SqliteStore(path).close()
    kubeedge_file.save(path, pod("u1", 10))
    with closing(sqlite3.connect(path, isolation_level=None, factory=kind)) as file:
        if kind is not _Full:
            file.execute("PRAGMA query_only=ON")
        fill_after_kubeedge(file, "the file")
        assert not file.in_transaction
    assert "database the file: the versions of 1 objects that KubeEdge has written could not be noted" in caplog.text


def test_tokens_go_with_their_pod(path: Path) -> None:
    kubeedge_file.make(path)
    kubeedge_file.save(path, tokens={KEY: {"spec": {"boundObjectRef": {"uid": "u1"}}, "status": {"token": "t"}}})
    with closing(SqliteStore(path)) as store:
        assert store.get(KEY) is not None
        store.delete_owned("serviceaccounttoken", "u1")
        assert store.get(KEY) is None


@pytest.mark.parametrize(
    ("audiences", "life", "key"),
    [((), 3607, KEY), (("a", "b"), 600, KEY.replace("(nil)", '{"a", "b"}').replace("3607", "600"))],
)
def test_a_token_has_kubeedges_key(audiences: tuple[str, ...], life: int, key: str) -> None:
    """Five values in Go's notation; the request is edged's own."""
    bound = BoundObjectReference(kind="Pod", api_version="v1", name="tok", uid="u1")
    request = TokenRequest(spec=TokenRequestSpec(audiences=audiences, expiration_seconds=life, bound_object_ref=bound))
    with node(connected=False) as bee:
        question = from_edged(
            bee, "cap/serviceaccounttoken/default", Operation.QUERY, msgspec.json.decode(encode(request))
        )
    assert token_key(question) == key


def test_the_key_of_long_names_is_a_digest() -> None:
    """The column of other databases than SQLite takes 512 characters. Two pods still have two keys."""
    keys = set()
    with node(connected=False) as bee:
        for uid in ("u1", "u2"):
            long = {"spec": {"boundObjectRef": {"name": "n" * 253, "uid": uid}, "audiences": ["a" * 513]}}
            question = from_edged(bee, "cap/serviceaccounttoken/default", Operation.QUERY, long)
            keys.add(token_key(question))
    assert len(keys) == 2
    assert max(map(len, keys)) < 100


def test_the_urls_of_applications_are_copied(path: Path) -> None:
    """Into a row for servicebus, again when KubeEdge has changed them; without a URL there is no row."""
    kubeedge_file.make(path)

    def copied() -> str | None:
        with closing(SqliteStore(path)) as store:
            return store.get("null/targeturls/kubeedge")

    assert copied() is None
    kubeedge_file.allow(path, "http://b", "http://a", "x" * 1025)
    assert copied() == '{"urls":["http://a","http://b"]}'
    kubeedge_file.allow(path)
    assert copied() == '{"urls":[]}'


def test_a_migration_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next start begins where it was: with KubeEdge's own table."""
    kubeedge_file.make(path)
    kubeedge_file.save(path, pod("u1", 10))

    def columns() -> set[str]:
        with closing(sqlite3.connect(path)) as file:
            return {row[1] for row in file.execute("PRAGMA table_info(meta)")}

    with monkeypatch.context() as failing:
        failing.setattr(sqlite_migrations, "fill_all", Mock(side_effect=sqlite3.OperationalError("disk I/O error")))
        with pytest.raises(StoreOpenError):
            SqliteStore(path)
    assert columns() == {"key", "type", "value"}
    with closing(SqliteStore(path)) as store:
        assert not put(store, "u1", 9)


def test_what_kubeedge_has_written_is_noted_for_good(path: Path) -> None:
    """Also if this agent writes nothing before it ends."""
    kubeedge_file.make(path)
    SqliteStore(path).close()
    kubeedge_file.save(path, pod("u1", 10))
    SqliteStore(path).close()
    with closing(sqlite3.connect(path)) as file:
        assert file.execute(
            "SELECT uid, resource_version, namespace, name FROM meta WHERE type = 'pod'"
        ).fetchall() == [("u1", 10, "default", "a")]
