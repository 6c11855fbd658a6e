"""The module on a store that refuses single calls: what is acknowledged, what is lost with it, what is tried again."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from beehive import Group, ModuleName, Operation, State
from beehive.names import DISK_RESOURCE
from beehive.testing import Harness
from metamanager.answers import DELETION_NOT_STORED
from metamanager.errors import StoreDamagedError, StoreError, StoreWriteError
from metamanager.module import MetaManager, MetaSettings
from metamanager.pod_list import RETRY_SECONDS
from metamanager.sqlite_store import SqliteStore
from metamanager.store_health import PROBE_AFTER
from metamanager.unreferenced import CHECK_SECONDS
from tests.metamanager.support import META, from_cloud, from_edged, node, store_of, thing
from tests.metamanager.test_cloud_pods import a_node_with
from tests.metamanager.test_pod_list import listing, names, pod

EDGED, HUB = ModuleName.EDGED, Group.HUB
GOING = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30}
UNREADABLE = StoreError("read the database", "f", "disk I/O error")
DAMAGED = StoreDamagedError("read the database", "f")


def refused(*, lost: bool) -> StoreWriteError:
    """A refused change, and whether all since the last commit are lost with it."""
    return StoreWriteError("change the database", "f", "disk full", batch_lost=lost)


def failing(call: str, *errors: BaseException) -> Any:
    """Have the store's next calls of a name fail with these errors; later ones succeed."""
    real, left = getattr(SqliteStore, call), list(errors)

    def fail(store: SqliteStore, *args: Any, **named: Any) -> Any:
        if left:
            raise left.pop(0)
        return real(store, *args, **named)

    return mock.patch.object(SqliteStore, call, fail)


def together(bee: Harness, *messages: Any) -> None:
    """Have the module handle messages in one batch."""
    bee.forget()
    for message in messages:
        bee.hive.send(META, message)
    bee.settle()


def to_cloud(bee: Harness) -> list[tuple[str, str]]:
    """The names and operations of the messages to the cloud."""
    return [(sent.route.resource.rpartition("/")[2], sent.route.operation) for sent in bee.sent_to(HUB)]


def put(bee: Harness, name: str, kind: str = "configmap", **fields: Any) -> Any:
    return from_cloud(bee, f"default/{kind}/{name}", Operation.UPDATE, thing(name, uid=f"uid-{name}", **fields))


def delete(bee: Harness, name: str, kind: str = "pod") -> Any:
    return from_cloud(bee, f"default/{kind}/{name}", Operation.DELETE, thing(name, uid=f"uid-{name}"))


def is_ready(bee: Harness) -> bool:
    return bee.hive.readiness()[META].state is State.READY


def after_first(call: str, error: BaseException) -> Any:
    """Have the second call of a name fail."""
    real, calls = getattr(SqliteStore, call), iter(range(1000))

    def fail(store: SqliteStore, *args: Any, **named: Any) -> Any:
        if next(calls) == 1:
            raise error
        return real(store, *args, **named)

    return mock.patch.object(SqliteStore, call, fail)


def test_the_cloud_hears_nothing_of_a_deletion_that_it_did_not_send() -> None:
    """metaserver ends what the cloud no longer has. A refusal was an error for the cloud, about a message that it had
    never sent, and its list of nodes showed it.
    """
    with node(connected=True) as bee:
        bee.send(META, put(bee, "a", "service"))
        stale = from_cloud(bee, "default/service/a", Operation.DELETE, thing("a", uid="uid-a"), ModuleName.METASERVER)
        for call in ("delete", "commit"):
            with failing(call, refused(lost=True), refused(lost=True)):
                together(bee, stale)
            assert to_cloud(bee) == []


@pytest.mark.parametrize(("lost", "first"), [(True, Operation.ERROR), (False, Operation.RESPONSE)])
def test_a_refused_change_takes_earlier_ones_of_its_batch_with_it_only_if_they_are_lost(lost: bool, first: str) -> None:
    """None of them is acknowledged then, and none is stored."""
    with node() as bee:
        with after_first("put", refused(lost=lost)):
            together(bee, put(bee, "a"), put(bee, "b"), put(bee, "c"))
        assert to_cloud(bee) == [("a", first), ("b", Operation.ERROR), ("c", Operation.RESPONSE)]
        store_of(bee).rollback()
        assert (store_of(bee).get("default/configmap/a") is None) is lost
        assert store_of(bee).get("default/configmap/b") is None
        assert store_of(bee).get("default/configmap/c") is not None


@pytest.mark.parametrize("lost", [True, False])
@pytest.mark.parametrize("announced", [True, False])
def test_a_refused_deletion_is_repeated_at_the_end_of_its_batch(announced: bool, lost: bool) -> None:
    """With the room that is kept for it. So it is acknowledged and durable; a pod's reaches edged as the cloud's."""
    with node() as bee:
        bee.send(META, put(bee, "p", "pod"))
        message, call = (delete(bee, "p"), "delete") if not announced else (put(bee, "p", "pod", version=2), "put")
        if announced:
            content = message.content_as(dict)
            message = message.with_content({**content, "metadata": {**content["metadata"], **GOING}})
        with failing(call, refused(lost=lost)):
            together(bee, put(bee, "a", "secret") if not announced else delete(bee, "x"), message)
        assert to_cloud(bee)[1] == ("p", Operation.RESPONSE)
        pods = [sent for sent in bee.sent_to(EDGED) if sent.route.resource == "default/pod/p"]
        assert pods == [message]
        store_of(bee).rollback()
        stored = store_of(bee).get("default/pod/p")
        assert stored is not None and "deletionTimestamp" in stored if announced else stored is None


def test_a_deletion_that_is_refused_twice_is_an_error_for_the_cloud() -> None:
    """edged ends the pod all the same. Nothing else of the batch is repeated or lost."""
    with node() as bee:
        bee.send(META, put(bee, "p", "pod"))
        with failing("delete", refused(lost=False), refused(lost=True)):
            together(bee, put(bee, "a"), delete(bee, "p"))
        assert to_cloud(bee) == [("a", Operation.RESPONSE), ("p", Operation.ERROR)]
        told = [(m.route.operation, m.route.source) for m in bee.sent_to(EDGED) if m.route.resource == "default/pod/p"]
        assert told == [(Operation.DELETE, META)]
        assert not is_ready(bee)
        store_of(bee).rollback()
        assert (store_of(bee).get("default/pod/p"), store_of(bee).get("default/configmap/a")) != (None, None)


def test_only_lost_deletions_are_repeated() -> None:
    """The others of the batch are durable by then."""
    real, deleted = SqliteStore.delete, list[str]()

    def refuse_once(store: SqliteStore, key: str, *args: Any) -> bool:
        deleted.append(key)
        if deleted == ["default/configmap/a", "default/configmap/b"]:
            raise refused(lost=False)
        return real(store, key, *args)

    with node() as bee:
        for name in "ab":
            bee.send(META, put(bee, name))
        with mock.patch.object(SqliteStore, "delete", refuse_once):
            together(bee, delete(bee, "a", "configmap"), delete(bee, "b", "configmap"))
        assert deleted == [f"default/configmap/{name}" for name in "abb"]
        assert to_cloud(bee) == [("a", Operation.RESPONSE), ("b", Operation.RESPONSE)]


@pytest.mark.parametrize("resource", ["default/podpatch/p", "null/nodepatch/n"])
def test_a_status_that_cannot_be_kept_leaves_and_what_is_lost_with_it_is_not_acknowledged(resource: str) -> None:
    with node(connected=True) as bee:
        bee.send(META, put(bee, "p", "pod"))
        with after_first("put", refused(lost=True)):
            together(bee, put(bee, "a"), from_edged(bee, resource, Operation.PATCH, "{}"))
        assert to_cloud(bee) == [("a", Operation.ERROR), (resource.rpartition("/")[2], Operation.PATCH)]
        assert [sent.route.resource for sent in bee.sent_to(EDGED)] == [DISK_RESOURCE]
        assert not is_ready(bee)


def test_an_event_that_cannot_be_kept_leaves() -> None:
    with node(connected=True, report_events=True) as bee:
        with failing("put", refused(lost=False)):
            together(bee, from_edged(bee, "default/event/e", Operation.INSERT, thing("e")))
        assert to_cloud(bee) == [("e", Operation.INSERT)]


def test_an_event_that_is_lost_with_another_change_leaves() -> None:
    with node(connected=True, report_events=True) as bee:
        with after_first("put", refused(lost=True)):
            together(bee, from_edged(bee, "default/event/e", Operation.INSERT, thing("e")), put(bee, "a"))
        assert sorted(to_cloud(bee)) == [("a", Operation.ERROR), ("e", Operation.INSERT)]


def test_a_repeated_failure_is_reported_again_after_it_has_passed() -> None:
    """Meanwhile it is reported once: edged checks the disk each time."""
    with node() as bee:
        for _ in range(2):
            with failing("put", refused(lost=False), refused(lost=False)):
                together(bee, put(bee, "a"), put(bee, "b"))
            assert [sent.route.resource for sent in bee.sent_to(EDGED)] == [DISK_RESOURCE]
            assert not is_ready(bee)
            bee.send(META, put(bee, "c"))
            assert is_ready(bee)


def test_a_probe_that_fails_is_followed_by_another_one() -> None:
    """A node without a cloud changes nothing by itself for days. Changes that the probe's failure loses are refused."""
    with node() as bee:
        with failing("put", refused(lost=False), refused(lost=True)):
            bee.send(META, put(bee, "a"), wait=PROBE_AFTER + 1)
            assert not is_ready(bee)
            bee.run_for(PROBE_AFTER + 1)
        assert is_ready(bee)


def test_a_probe_that_finds_the_database_damaged_opens_it_again() -> None:
    with node() as bee:
        bee.expect_failures()
        with failing("put", refused(lost=False), DAMAGED):
            bee.send(META, put(bee, "a"), wait=PROBE_AFTER + 1)
        bee.run_for(5)
        assert bee.hive.restarts()[META] == 1
        assert is_ready(bee)


def test_after_a_failure_the_cloud_is_asked_although_the_hub_announces_no_link() -> None:
    """It announces each only once."""
    with node(connected=True) as bee:
        bee.expect_failures()
        with failing("put", DAMAGED):
            bee.send(META, put(bee, "a"), wait=5)
        assert bee.hive.restarts()[META] == 1
        bee.forget()
        bee.send(META, from_edged(bee, "default/secret/s", Operation.QUERY))
        assert [each.route.resource for each in bee.sent_to(ModuleName.EDGEHUB)] == ["default/secret/s"]


def test_an_answer_that_cannot_be_kept_takes_changes_with_it_that_are_lost() -> None:
    """The sender has it; the change of the same moment is refused, and the module is not ready."""
    with node(connected=True) as bee:
        asked = bee.future(META, from_edged(bee, "default/secret/s", Operation.QUERY))
        bee.settle()
        (question,) = bee.sent_to(ModuleName.EDGEHUB)
        bee.forget()
        with after_first("put", refused(lost=True)):
            bee.hive.send(META, put(bee, "a"))
            bee.respond(question.reply(bee.clock, thing("s"), source="edgecontroller"))
        assert asked.get().content == thing("s")
        assert to_cloud(bee) == [("a", Operation.ERROR)]
        assert not is_ready(bee)


@pytest.mark.parametrize(
    ("error", "restarts", "ready"), [(UNREADABLE, 0, True), (DAMAGED, 1, True), (refused(lost=True), 0, False)]
)
def test_a_periodic_check_that_fails_is_handled_by_its_failure(error: StoreError, restarts: int, ready: bool) -> None:
    """A failed read is repeated later, a damaged store is opened again, rows that could not be written are reported."""
    with node() as bee:
        bee.expect_failures()
        bee.send(META, from_edged(bee, "null/store/complete", Operation.UPDATE, thing("complete")))
        bee.send(META, put(bee, "a"))
        with mock.patch.object(store_of(bee), "get_all", side_effect=error):
            bee.run_for(CHECK_SECONDS + 1)
        assert bee.hive.restarts()[META] == restarts
        assert is_ready(bee) is ready


@pytest.mark.parametrize(("error", "first"), [(DAMAGED, Operation.ERROR), (RuntimeError("a bug"), Operation.RESPONSE)])
def test_what_waits_at_a_failure_of_the_module_is_committed_unless_the_store_is_damaged(
    error: Exception, first: str
) -> None:
    """A damaged file is set aside, and what was committed to it may be lost. The bus delivers the batch again."""
    with node() as bee:
        bee.expect_failures()
        with after_first("put", error):
            together(bee, put(bee, "a"), put(bee, "b"))
            bee.run_for(10)
        assert bee.hive.restarts()[META] == 1
        assert to_cloud(bee) == [("a", first), ("a", Operation.RESPONSE), ("b", Operation.RESPONSE)]


def test_a_pod_that_is_gone_from_the_cloud_and_cannot_be_deleted_stays_for_the_next_list() -> None:
    """edged does not end what the next start would run again. The room for deletions was not enough either."""
    with a_node_with(pod("a"), listed=listing()) as (bee, _cloud):
        with failing("delete", refused(lost=False), refused(lost=True)):
            bee.send(META, bee.message("node/connection", "connect", "cloud_connected", source="edgehub"))
            bee.settle()
        assert names(bee) == ["a"]
        assert [sent.route.resource for sent in bee.sent_to(EDGED)] == [DISK_RESOURCE]
        assert not is_ready(bee)


@pytest.mark.parametrize("error", [UNREADABLE, refused(lost=True)])
def test_a_store_that_cannot_be_compared_with_the_list_ends_no_pod_until_it_can(error: StoreError) -> None:
    with a_node_with(pod("a"), listed=listing()) as (bee, cloud):
        store = store_of(bee)
        with mock.patch.object(store, "get_all", side_effect=error):
            bee.send(META, bee.message("node/connection", "connect", "cloud_connected", source="edgehub"))
            bee.settle()
        assert cloud.asked == []
        assert names(bee) == ["a"]
        assert is_ready(bee) is (error is UNREADABLE)
        bee.run_for(RETRY_SECONDS + 1)
        assert names(bee) == [], "the list is requested again"


def test_the_deletion_of_an_ended_pod_is_refused_while_the_store_cannot_be_read() -> None:
    """Nobody knows whether the next start would run it again; edged asks again."""
    ended = {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-p"}}
    with node(connected=True) as bee:
        bee.send(META, put(bee, "p", "pod"))
        bee.forget()
        with failing("get", UNREADABLE):
            answer = bee.ask(META, from_edged(bee, "default/pod/p", Operation.DELETE, ended), 1)
        assert answer.route.operation == Operation.ERROR
        assert answer.content != DELETION_NOT_STORED
        assert bee.sent_to(HUB) == []


def test_a_database_that_turns_out_to_be_damaged_is_closed_before_it_is_opened_again(tmp_path: Path) -> None:
    """An open one keeps its locks, and the room of its log, as long as the process lives."""
    steps: list[str] = []

    class Noted(SqliteStore):
        def __init__(self, path: str) -> None:
            super().__init__(Path(path))
            steps.append("open")

        def close(self) -> None:
            steps.append("close")
            super().close()

    with Harness() as bee, failing("get_all", DAMAGED):
        bee.add(MetaManager, MetaSettings(str(tmp_path / "x.db")), Noted)
        bee.start()
        assert steps == ["open", "close", "open"]
