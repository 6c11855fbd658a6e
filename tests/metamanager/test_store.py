"""The store's contract, on both kinds of store, with real files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metamanager.core_store import CoreStore
from metamanager.errors import StoreOpenError
from metamanager.rows import SENT_IN_PART, Row
from metamanager.sqlite_store import SqliteStore
from metamanager.store import Store, open_store, sqlite_path
from tests.metamanager.support import keep
from tests.support.directories import memory_parent, short_directory

KINDS = ("sqlite", "core")


def open_kind(kind: str, directory: Path) -> Store:
    """A store of that kind on a file in the directory."""
    path = directory / "edgecore.db"
    return SqliteStore(path) if kind == "sqlite" else CoreStore(f"sqlite:///{path}")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    store = open_kind(request.param, tmp_path)
    yield store
    store.close()


def pod(
    name: str, *, uid: str = "u", version: int = 1, value: str = "{}", namespace: str = "default", kind: str = "pod"
) -> Row:
    return Row(f"{namespace}/{kind}/{name}", kind, value, uid, version, namespace, name, 0)


def test_a_row_is_found_by_its_key(store: Store) -> None:
    """An unknown key has no row."""
    assert store.put(pod("a", value='{"ä": "\U0001f600"}'))
    assert store.get("default/pod/a") == '{"ä": "\U0001f600"}'
    assert store.get("default/pod/b") is None


def test_a_type_is_listed_in_the_order_of_its_keys(store: Store) -> None:
    """Over all namespaces, or of one."""
    store.put(pod("b", value="2"))
    store.put(pod("a", value="1"))
    store.put(pod("a", value="3", namespace="other"))
    store.put(Row("default/secret/a", "secret", "4", namespace="default"))
    assert store.get_all("pod") == ["1", "2", "3"]
    assert store.get_all("pod", "other") == ["3"]
    assert store.get_all("node") == []


def test_an_older_state_of_the_same_object_is_not_taken(store: Store) -> None:
    """The newer value stays; put says so."""
    assert store.put(pod("a", version=5, value="5"))
    assert not store.put(pod("a", version=4, value="4"))
    assert store.get("default/pod/a") == "5"


def test_an_object_of_the_same_name_replaces_the_old_one(store: Store) -> None:
    """Its version may be anything: it is another object (KubeEdge of 2019 kept the old row)."""
    store.put(pod("a", version=5, value="old"))
    assert store.put(pod("a", uid="v", version=1, value="new"))
    assert store.get("default/pod/a") == "new"


def test_a_delete_hits_only_the_object_that_is_meant(store: Store) -> None:
    """A uid that is another's deletes nothing; none deletes any."""
    store.put(pod("a", uid="u"))
    assert not store.delete("default/pod/a", "other")
    assert store.delete("default/pod/a", "u")
    assert not store.delete("default/pod/a", "u")
    store.put(pod("a"))
    assert store.delete("default/pod/a")


def test_the_rows_of_an_owner_are_deleted_with_it(store: Store) -> None:
    """Only of that type and that uid."""
    store.put(Row("k1", "serviceaccounttoken", "1", "pod-1"))
    store.put(Row("k2", "serviceaccounttoken", "2", "pod-2"))
    store.put(Row("k3", "pod", "3", "pod-1"))
    assert store.delete_owned("serviceaccounttoken", "pod-1") == 1
    assert [store.get(key) for key in ("k1", "k2", "k3")] == [None, "2", "3"]


@pytest.mark.parametrize("kind", KINDS)
def test_only_committed_rows_are_there_after_opening_again(kind: str, tmp_path: Path) -> None:
    """Closing without a commit loses the rest."""
    store = open_kind(kind, tmp_path)
    keep(store, pod("a"))
    store.put(pod("b"))
    store.close()
    store = open_kind(kind, tmp_path)
    assert store.get("default/pod/a") == "{}"
    assert store.get("default/pod/b") is None
    store.close()


def test_a_rollback_undoes_uncommitted_changes(store: Store) -> None:
    """And the store goes on."""
    keep(store, pod("a", value="1"))
    store.put(pod("a", version=2, value="2"))
    store.rollback()
    assert store.get("default/pod/a") == "1"
    keep(store, pod("a", version=2, value="3"))
    assert store.get("default/pod/a") == "3"


def test_the_same_state_again_is_taken_and_not_written(store: Store) -> None:
    """A cloud that sends again what it holds for lost costs the flash nothing."""
    store.put(pod("a", version=5, value="1"))
    assert store.put(pod("a", version=5, value="2"))
    assert not store.put(pod("a", version=4, value="3"))
    assert store.get("default/pod/a") == "1"


def test_a_commit_without_changes_does_nothing(store: Store) -> None:
    """It may be called any time."""
    store.commit()
    store.commit()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from("ab"), st.sampled_from(["", "u", "v"]), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.sampled_from("ab"), st.sampled_from(["", "u", "v"]), st.just(0)),
    ),
    max_size=12,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=STEPS, type_=st.sampled_from(["pod", *SENT_IN_PART]))
def test_both_kinds_follow_the_same_model(kind: str, steps: list[tuple[str, str, str, int]], type_: str) -> None:
    """After any puts and deletes the rows and all results equal a dictionary's with the rule."""
    model: dict[str, Row] = {}
    with short_directory("store-", memory_parent()) as directory:
        store = open_kind(kind, directory)
        for number, (what, name, uid, version) in enumerate(steps):
            row = pod(name, uid=uid, version=version, value=str(number), kind=type_)
            there = model.get(row.key)
            if what == "put":
                taken = there is None or row.supersedes(there.uid, there.resource_version)
                same = there is not None and row.equals(there.uid, there.resource_version)
                assert store.put(row) is (taken or same)
                if taken:
                    model[row.key] = row
            else:
                hit = there is not None and uid in ("", there.uid)
                assert store.delete(row.key, uid) is hit
                if hit:
                    del model[row.key]
        assert store.get_all(type_) == [model[key].value for key in sorted(model)]
        store.close()


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("/var/lib/kubeedge/edgecore.db", "/var/lib/kubeedge/edgecore.db"),
        ("sqlite:////var/lib/x.db", "/var/lib/x.db"),
        ("sqlite:///x.db", "x.db"),
        ("postgresql+psycopg://user:secret@host/name", None),
    ],
)
def test_a_source_is_a_path_or_a_url(source: str, path: str | None) -> None:
    """SQLite's URLs are paths too, and need no SQLAlchemy."""
    assert sqlite_path(source) == (None if path is None else Path(path))


@pytest.mark.parametrize("source", ["", "sqlite://", "sqlite:///", "sqlite:///x.db?timeout=3", "sqlite+aiosqlite:///x"])
def test_a_source_that_cannot_be_meant_is_an_error(source: str) -> None:
    """The hint says what is wanted."""
    with pytest.raises(StoreOpenError, match="path"):
        open_store(source)


@pytest.mark.parametrize(
    "url", ["nosuch://user:secret@host/name", "postgresql+nosuch://user:secret@host/x", "mysql://u:secret@[/x"]
)
def test_a_url_that_cannot_be_opened_is_an_error_without_its_password(url: str) -> None:
    """The driver is missing or the URL is wrong: said without the secret."""
    with pytest.raises(StoreOpenError) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)
