"""The change journal in a real database."""

from collections.abc import Iterator

import pytest

from beehive.turns import Turns
from modules.cloud.journal import writes as journal
from modules.cloud.journal.database import JournalDatabase
from modules.cloud.journal.writes import DAYS, MOST_OF_OBJECT, WriteStore
from modules.cloud.object_writes import (
    CHANGED,
    CLOUDCORE,
    CREATED,
    REVOKED,
    ObjectWrite,
    WriteQuery,
    node_user,
    place_asked,
    place_of,
)
from modules.cloud.storage.database.engine import make_engine, url_of
from modules.cloud.storage.database.tables import object_syncs

NOW = 1_000_000_000.0


@pytest.fixture
def store(url: str) -> Iterator[WriteStore]:
    """Open the journal."""
    database = JournalDatabase(url, Turns())
    yield WriteStore(database)
    database.close()


def write(version: int, name: str = "conf", user: str = "jan", **fields: object) -> ObjectWrite:
    """Return a write."""
    values = {
        "manager": "kubectl", "verb": CHANGED, "kind": "ConfigMap", "namespace": "shop", "uid": f"u-{name}",
        "at": NOW + version, **fields,
    }  # fmt: skip
    return ObjectWrite(user=user, name=name, version=version, **values)  # type: ignore[arg-type]  # fields of it


def versions(store: WriteStore, **query: object) -> list[int]:
    """Return the resourceVersions of the writes that a query selects."""
    return [each.write.version for each in store.read(WriteQuery(**query)).writes]  # type: ignore[arg-type]


def test_a_write_that_is_told_twice_is_one(store: WriteStore) -> None:
    store.write([write(1), write(2), write(1)])
    assert versions(store) == [2, 1]


def test_an_answer_has_as_many_writes_as_are_asked_for_within_bounds(
    store: WriteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "MOST_ANSWERED", 3)
    store.write([write(each, f"conf-{each}") for each in range(1, 6)])
    for limit, found in ((0, [5]), (2, [5, 4]), (10**9, [5, 4, 3])):
        assert versions(store, limit=limit) == found


def test_writes_are_found_by_user_object_and_time(store: WriteStore) -> None:
    store.write(
        [
            write(1, fields=("data.a", "data.b"), more=1),
            write(2, "web", kind="Deployment", fields=("spec.template.spec.containers[web].image: web:1 → web:2",)),
            write(3, "web-1", CLOUDCORE, kind="Pod", node="n1", verb=CREATED, manager="controllers"),
            write(4, "cam_1", node_user("n1"), kind="Device.devices.kubeedge.io", namespace="iot"),
            write(5, "camx1", kind="Device.devices.kubeedge.io", namespace="iot"),
        ]
    )
    store.write([write(1, fields=("data.a", "data.b"), more=1)])  # again: the answer to the commit was lost
    assert versions(store) == [5, 4, 3, 2, 1]
    assert store.read(WriteQuery(name="conf")).writes[0].write == write(1, fields=("data.a", "data.b"), more=1)
    for query, found in (
        ({"kind": "deployment"}, [2]),
        ({"kind": "device"}, [5, 4]),
        ({"kind": "dev"}, []),
        ({"namespace": "iot", "name": "cam_1"}, [4]),
        ({"words": ("CAM_",)}, [4]),
        ({"words": ("web:2", "jan")}, [2]),
        ({"words": ("%",)}, []),
        ({"node": "n1"}, [4, 3]),
        ({"since": NOW + 4.0}, [5, 4]),
        ({"people_only": True}, [5, 2, 1]),
        ({"before": 3}, [2, 1]),
    ):
        assert versions(store, **query) == found, query
    page = store.read(WriteQuery(limit=2))
    assert (len(page.writes), page.more) == (2, 3)


def test_an_answer_lists_the_nodes_that_have_stored_the_version(url: str, store: WriteStore) -> None:
    store.write([write(7), write(9)])
    assert [each.holders for each in store.read(WriteQuery()).writes] == [-1, -1]  # not known without the table
    engine = make_engine(url_of(url))
    with engine.begin() as connection:
        object_syncs.create(connection)
        rows = [{"node": f"n{number:02}", "version": 7 if number else 9} for number in range(13)]
        same = {"uid": "u-conf", "kind": "ConfigMap", "namespace": "shop", "name": "conf"}
        connection.execute(object_syncs.insert(), [{**each, **same} for each in rows])
    newest, oldest = store.read(WriteQuery(node="n03")).writes
    assert (newest.holders, newest.acknowledged, len(newest.behind)) == (13, 1, 10)
    assert (oldest.holders, oldest.acknowledged, oldest.behind) == (13, 13, ())
    with engine.begin() as connection:
        object_syncs.drop(connection)
    engine.dispose()


def test_the_journal_is_bounded_in_age_rows_and_bytes(store: WriteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most in (("MOST_ROWS", 4), ("MOST_OWN_ROWS", 2), ("_PART", 2)):
        monkeypatch.setattr(journal, name, most)
    store.write([write(number, "noisy") for number in range(1, MOST_OF_OBJECT + 6)])
    assert versions(store, limit=500)[-1] == 6
    store.write([write(1000 + number, f"p{number}", CLOUDCORE) for number in range(5)])
    store.forget(NOW)
    assert versions(store) == [1004, 1003, 205, 204, 203, 202]
    monkeypatch.setattr(journal, "MOST_BYTES", 150)
    store.forget(NOW)
    assert versions(store) == [1004, 1003, 205, 204]
    store.forget(NOW + 1003.5 + DAYS * 86_400.0)
    assert versions(store) == [1004]


@pytest.mark.parametrize("bound", ["MOST_OWN_ROWS", "MOST_OF_OBJECT", "MOST_BYTES"])
def test_a_node_that_writes_without_end_displaces_its_own_writes(
    store: WriteStore, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """The other nodes', cloudcore's and people's stay."""
    others = ((1, CLOUDCORE), (2, node_user("n2")), (3, "jan"))
    store.write([write(version, user=user) for version, user in others])
    store.write([write(version, user=node_user("n1")) for version in range(4, 60)])
    size = sum(map(len, (CLOUDCORE, node_user("n2"), "jan"))) + 2 * len(node_user("n1"))
    monkeypatch.setattr(journal, bound, {"MOST_OWN_ROWS": 4, "MOST_OF_OBJECT": 5}.get(bound, size + 5 * 35))
    monkeypatch.setattr(journal, "_PART", 1)
    store.write([write(60, user=node_user("n1"))])
    store.forget(NOW)
    kept = versions(store)
    assert kept[-3:] == [3, 2, 1]
    assert kept[:-3] and kept[:-3] == list(range(60, 60 - len(kept[:-3]), -1)) and len(kept) < 10


def test_texts_of_others_fit_and_are_printable(store: WriteStore) -> None:
    store.write([write(1, user="x\x00\ud800" * 500, manager="m\n" * 200, fields=("data.\x00" * 400,) * 8)])
    (found,) = store.read(WriteQuery()).writes
    assert found.write.user.startswith("x\\x00\\ud800x")
    assert (len(found.write.user), len(found.write.manager)) == (253, 128)


def access(number: int, user: str = "jan", **fields: object) -> ObjectWrite:
    """Return an access as a module tells it."""
    values = {
        "manager": "cloudcore",
        "verb": REVOKED,
        "kind": "Node",
        "node": "n1",
        "fields": ("reason: lost",),
        **fields,
    }
    return ObjectWrite(
        NOW + number,
        user,
        namespace="",
        name="n1",
        uid="",
        version=0,
        id=f"id-{number}",
        **values,  # type: ignore[arg-type]
    )


def places(store: WriteStore, **query: object) -> list[str]:
    """Return the places of the entries that a query selects."""
    found = store.read(WriteQuery(**query)).writes  # type: ignore[arg-type]  # fields of it
    return [place_of(*each.write.order) for each in found]


def test_accesses_are_among_the_writes_and_are_read_page_by_page(store: WriteStore) -> None:
    store.write_accesses([access(0)])
    store.write([write(1), write(2)])
    store.write_accesses([access(2), access(3)])
    store.write_accesses([access(3), access(4)])  # again: the answer to the commit was lost
    store.write([write(5)])
    whole = ["5", "2.3", "2.2", "2.1", "2", "1", "0.1"]
    assert places(store) == whole
    for size in range(1, 7):
        found, before = list[str](), "0"
        while True:
            version, part = place_asked(before) or (0, 0)
            page = places(store, limit=size, before=version, before_part=part)
            rest = len(whole) - len(found) - len(page)
            assert store.read(WriteQuery(limit=size, before=version, before_part=part)).more == rest
            found += page
            if not rest:
                break
            before = page[-1]
        assert found == whole, size
    assert places(store, people_only=True, node="n1") == ["2.3", "2.2", "2.1", "0.1"]
    assert places(store, kind="node", words=("lost",)) == ["2.3", "2.2", "2.1", "0.1"]


def test_accesses_are_kept_for_a_while_and_in_bounds(store: WriteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """One who signs in all the time displaces no entry of others."""
    monkeypatch.setattr(journal, "MOST_ACCESSES", 4)
    store.write_accesses([access(0, "eve"), *(access(each, "bot") for each in range(1, 9))])
    store.forget(NOW)
    assert [each.write.user for each in store.read(WriteQuery()).writes] == ["bot", "bot", "bot", "eve"]
    store.forget(NOW + DAYS * 86_400.0 + 8.0)
    assert [each.write.at for each in store.read(WriteQuery()).writes] == [NOW + 8.0]


def test_texts_of_accesses_are_printable_and_bounded(store: WriteStore) -> None:
    store.write_accesses([access(1, "x" * 999, fields=("reason: \x1b[2J" + "y" * 9_999,))])
    (found,) = store.read(WriteQuery()).writes
    assert (len(found.write.user), found.write.fields[0][:16]) == (253, "reason: \\x1b[2Jy")
    assert len(found.write.fields[0]) < 2000


@pytest.mark.parametrize(
    ("text", "place"),
    [("0", (0, 0)), ("12", (12, 0)), ("12.3", (12, 3)), ("x", None), ("1.x", None), ("-1", None), ("1.2.3", None)],
)
def test_places(text: str, place: tuple[int, int] | None) -> None:
    assert place_asked(text) == place


def test_an_access_is_the_newest_also_when_older_writes_are_forgotten(store: WriteStore) -> None:
    store.write([write(7)])
    store.write_accesses([access(DAYS * 86_400)])
    store.forget(NOW + DAYS * 86_400.0 + 8.0)
    store.write([write(3, at=NOW + DAYS * 86_400.0)])
    for each in (1, 2):
        store.write_accesses([access(DAYS * 86_400 + each)])
    assert places(store) == ["7.3", "7.2", "7.1", "3"]
