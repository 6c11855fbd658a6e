"""Patches and Events leave immediately, and are committed with what comes next."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import patch as replaced

import pytest

from beehive import Group, Message, ModuleName, Operation
from beehive.testing import Harness
from metamanager.deferred import DEFERRED_ROWS, DEFERRED_SECONDS
from metamanager.local_query import LocalQuery
from metamanager.sqlite_store import SqliteStore
from tests.metamanager.support import META, from_cloud, from_edged, node, thing

PATCH, EVENT = "default/podpatch/a", "default/event/a"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edgecore.db"


@pytest.fixture
def bee(path: Path) -> Iterator[Harness]:
    """A node with a pod, connected."""
    with node(path, connected=True, report_events=True) as bee:
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.INSERT, thing()))
        bee.forget()
        yield bee


def durable(path: Path) -> set[str]:
    """The keys of the rows that are committed: another connection sees no others."""
    with closing(SqliteStore(path, keeps_room=False)) as store:
        return {row.key for row in store.rows()}


def report(bee: Harness, number: int = 0) -> None:
    """Report a status and an Event."""
    bee.send(META, from_edged(bee, PATCH, Operation.PATCH, f'{{"number":{number}}}'))
    bee.send(META, from_edged(bee, EVENT, Operation.INSERT, thing()))


def asked(bee: Harness, resource: str) -> Message:
    """The answer to a query."""
    return bee.ask(META, from_edged(bee, resource, Operation.QUERY), 1)


def test_a_status_and_its_echo_are_one_commit(path: Path, bee: Harness) -> None:
    commits = []
    commit = SqliteStore.commit

    def counted(store: SqliteStore) -> None:
        commits.append(store._connection.in_transaction)
        commit(store)

    with replaced.object(SqliteStore, "commit", counted):
        report(bee)
        assert [sent.route.resource for sent in bee.sent_to(Group.HUB)] == [PATCH, EVENT]
        assert commits == []
        bee.send(META, from_cloud(bee, "default/pod/a", Operation.UPDATE, thing(version=2)))
        assert commits == [True]
        assert durable(path) >= {"default/pod/a", PATCH, EVENT}
        bee.run_for(3 * DEFERRED_SECONDS)
    assert commits == [True]


def test_what_nothing_follows_is_committed_after_some_seconds(path: Path, bee: Harness) -> None:
    report(bee)
    bee.run_for(DEFERRED_SECONDS - 1)
    assert durable(path).isdisjoint({PATCH, EVENT})
    bee.run_for(1)
    assert durable(path) >= {PATCH, EVENT}
    report(bee, 2)
    bee.run_for(DEFERRED_SECONDS)
    assert asked(bee, PATCH).content_as(list) == ['{"number":2}']


def test_many_wait_no_longer(path: Path, bee: Harness) -> None:
    for number in range(DEFERRED_ROWS):
        assert durable(path) == {"default/pod/a"}
        bee.send(META, from_edged(bee, f"default/event/{number}", Operation.INSERT, thing(str(number))))
    assert len(durable(path)) == DEFERRED_ROWS + 1


@pytest.mark.parametrize("resource", [PATCH, EVENT, "default/event"])
def test_who_asks_for_them_gets_them(path: Path, bee: Harness, resource: str) -> None:
    report(bee)
    report(bee, 2)
    assert len(asked(bee, resource).content_as(list)) == 1
    assert durable(path) >= {PATCH, EVENT}


def test_other_questions_do_not_commit_them(path: Path, bee: Harness) -> None:
    report(bee)
    assert asked(bee, "default/pod/a").route.operation == Operation.RESPONSE
    assert durable(path).isdisjoint({PATCH, EVENT})


def test_the_patch_of_a_pod_that_is_gone_is_not_stored(path: Path, bee: Harness) -> None:
    """Whether it came before the deletion or after it."""
    report(bee)
    bee.send(META, from_cloud(bee, "default/pod/a", Operation.DELETE, thing()))
    report(bee)
    bee.run_for(DEFERRED_SECONDS)
    assert durable(path) == {EVENT}


def test_they_are_in_the_store_after_a_stop(path: Path, bee: Harness) -> None:
    report(bee)
    bee.hive.stop()
    assert durable(path) >= {PATCH, EVENT}


def test_a_failure_of_the_module_takes_none(path: Path, bee: Harness) -> None:
    report(bee)
    bee.expect_failures("a bug")
    with replaced.object(LocalQuery, "find", side_effect=RuntimeError("a bug")):
        bee.future(META, from_edged(bee, "default/configmap/c", Operation.QUERY))
        bee.settle()
    bee.run_for(DEFERRED_SECONDS)
    assert EVENT in durable(path)
    assert bee.hive.slot(ModuleName.METAMANAGER).restarts > 0
