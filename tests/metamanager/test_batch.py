"""The law of the batch: no module learns of a change before it is durable, in any order of events."""

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from unittest.mock import patch as replaced

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from beehive import Group, Message, Module, ModuleName, Operation, handles
from beehive.errors import RequestLostError
from beehive.names import DISK_RESOURCE
from beehive.trace import Delivered
from metamanager.batch import Batch
from metamanager.errors import StoreWriteError
from metamanager.replies import Outcome, Reply, to_cloud
from metamanager.rows import Row
from metamanager.sqlite_store import SqliteStore
from modules.lab.replay.recorder import Recorder
from tests.metamanager.support import META, cloud_answers, from_cloud, from_edged, node, store_of, thing


class Ledger:
    """A store that only remembers what is durable; commits fail on demand."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.durable: set[str] = set()
        self.fails = False

    def put(self, key: str) -> None:
        self.written.append(key)

    def commit(self) -> None:
        if self.fails:
            raise StoreWriteError("commit", batch_lost=True)
        self.durable.update(self.written)
        self.written.clear()

    def rollback(self) -> None:
        self.written.clear()

    def make_room(self) -> None:
        """There is none."""


ACTION = st.sampled_from(["change", "delete", "read", "flush", "lose", "fail", "recover"])


@given(st.lists(ACTION, max_size=40))
@example(["fail", "delete", "flush", "recover", "change"])
def test_sent_changes_are_durable_or_an_error_and_in_order(actions: list[str]) -> None:
    """Every outcome leaves exactly once, in the order of handling, a change's own messages only after its commit; what
    was answered with an error is not there later.
    """
    ledger, sent, expected, refused = Ledger(), [], [], set()

    def deliver(effect: Reply) -> None:
        text = effect.message.content
        assert text.startswith(("error", "read")) or text in ledger.durable
        sent.append(text.removeprefix("error of "))
        if text.startswith("error"):
            refused.add(sent[-1])

    def effect(text: str) -> Sequence[Reply]:
        return [to_cloud(Message(content=text))]

    module, health = SimpleNamespace(deliver=deliver), SimpleNamespace(report=lambda _error: None, is_failing=False)
    batch = Batch(ledger, module, health)  # type: ignore[arg-type]
    for number, action in enumerate([*actions, "flush"]):
        key = f"{action} {number}"
        if action in ("change", "delete"):
            ledger.put(key)
            expected.append(key)
            retry = partial(ledger.put, key) if action == "delete" else None
            failed = partial(effect, f"error of {key}")
            batch.add(Outcome(effect(key), changed=True, failure_replies=failed, retry=retry))
        elif action == "read":
            expected.append(key)
            batch.add(Outcome(effect(key)))
        elif action == "flush":
            batch.flush()
        elif action == "lose":
            batch.lose()
        else:
            ledger.fails = action == "fail"
    assert sent == expected
    ledger.fails = False
    ledger.commit()
    assert refused.isdisjoint(ledger.durable)


def test_nothing_is_repeated_in_a_damaged_database() -> None:
    ledger, sent, repeated = Ledger(), list[str](), list[int]()
    module = SimpleNamespace(deliver=lambda reply: sent.append(reply.message.content))
    batch = Batch(ledger, module, SimpleNamespace(report=lambda _error: None, is_failing=False))  # type: ignore[arg-type]
    failed = [to_cloud(Message(content="error"))]
    batch.add(Outcome((), changed=True, failure_replies=lambda: failed, retry=lambda: repeated.append(1)))
    batch.lose(for_good=True)
    batch.flush()
    assert (sent, repeated) == (["error"], [])


class Told(Module):
    """In the place of edged."""

    name = ModuleName.EDGED

    @handles()
    def take(self, message: Message) -> None:
        """Take what metamanager sends."""


def test_what_follows_a_message_of_a_batch_has_it_as_its_cause() -> None:
    with node(connected=True, beside=Told) as bee:
        recorder = Recorder(bee.hive)
        for name in "abc":
            bee.hive.send(META, from_cloud(bee, f"default/configmap/{name}", "update", thing(name)))
        bee.settle()
        found = [one for one in recorder.records() if isinstance(one, Delivered)]
        spans = {one.message.resource: one.span for one in found if one.module == META}
        causes = {one.message.resource: one.cause for one in found if one.module == ModuleName.EDGED}
        assert len(spans) == 3
        assert causes == spans


STEP = st.sampled_from(["insert", "update", "delete", "query", "ask", "time"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEP, min_size=1, max_size=100), seed=st.integers(0, 2**16))
def test_an_acknowledgement_never_precedes_its_commit(steps: list[str], seed: int) -> None:
    """Any interleaving of messages, questions and answers, in any order of the scheduler: when an acknowledgement or
    an object leaves the module, every change made until it was handled has been committed.
    """
    open_changes: list[str] = []
    put, commit = SqliteStore.put, SqliteStore.commit

    def noted_put(store: SqliteStore, row: Row) -> bool:
        open_changes.append(row.key)
        return put(store, row)

    def noted_commit(store: SqliteStore) -> None:
        commit(store)
        open_changes.clear()

    with (
        replaced.object(SqliteStore, "put", noted_put),
        replaced.object(SqliteStore, "commit", noted_commit),
        node(connected=True, seed=seed) as bee,
    ):
        cloud_answers(bee, lambda _: thing())
        capture = bee.hive._outside
        assert capture is not None

        def watched(destination: str, message: Message, way: object) -> bool:
            if destination in (Group.HUB, ModuleName.EDGED):
                assert message.route.resource not in open_changes
            return capture(destination, message, way)  # type: ignore[arg-type]

        bee.hive._outside = watched
        acknowledged = 0
        for number, step in enumerate(steps):
            name = f"default/configmap/{number % 7}"
            if step == "time":
                bee.run_for(1)
            elif step in ("query", "ask"):
                bee.future(META, from_edged(bee, name if step == "query" else f"null/node/{number}", Operation.QUERY))
            else:
                bee.hive.send(META, from_cloud(bee, name, step, thing(version=number)))
                acknowledged += 1
        bee.settle()
        assert open_changes == []
        oks = {sent.parent_id for sent in bee.sent_to(Group.HUB) if sent.route.resource.startswith("default/c")}
        assert len(oks) >= acknowledged


def test_a_run_of_messages_is_one_commit_and_bounded() -> None:
    """A hundred messages that wait together cost as many commits as their number has batches."""
    commits = []
    commit = SqliteStore.commit

    def counted(store: SqliteStore) -> None:
        commits.append(store)
        commit(store)

    with replaced.object(SqliteStore, "commit", counted), node() as bee:
        commits.clear()
        for number in range(100):
            bee.hive.send(META, from_cloud(bee, f"default/pod/{number}", Operation.INSERT, thing()))
        bee.settle()
        assert len(bee.sent_to(Group.HUB)) == 100
        assert len(commits) == 2


def test_a_commit_that_fails_turns_acknowledgements_into_errors() -> None:
    """No message of the batch reaches edged or is acknowledged; the cloud gets an error for each."""
    with node() as bee:

        def fails(_store: SqliteStore) -> None:
            raise StoreWriteError("commit", "edgecore.db", "disk I/O error", batch_lost=True)

        with replaced.object(SqliteStore, "commit", fails):
            messages = [from_cloud(bee, f"default/pod/{number}", Operation.INSERT, thing()) for number in range(3)]
            for message in messages:
                bee.hive.send(META, message)
            bee.settle()
        assert [sent.route.resource for sent in bee.sent_to(ModuleName.EDGED)] == [DISK_RESOURCE]
        assert [(sent.parent_id, sent.route.operation) for sent in bee.sent_to(Group.HUB)] == [
            (message.id, Operation.ERROR) for message in messages
        ]


@pytest.mark.parametrize("way", ["change", "patch", "answer"])
def test_a_write_that_ends_the_transaction_takes_the_earlier_changes_of_its_batch_with_it(way: str) -> None:
    """SQLite rolls a transaction back when the disk is full. What was in it is not acknowledged."""
    put = SqliteStore.put

    def fails(store: SqliteStore, row: Row) -> bool:
        if row.name == "big":
            store.rollback()
            raise StoreWriteError("store an object", row.key, "database or disk is full", batch_lost=True)
        return put(store, row)

    with node(connected=True) as bee:
        bee.send(META, from_cloud(bee, "default/pod/big", Operation.INSERT, thing("big")))
        asked = [from_edged(bee, f"default/configmap/{name}", Operation.QUERY) for name in ("a", "big")]
        questions = [bee.future(META, question) for question in asked]
        bee.settle()
        small, big = bee.sent_to(ModuleName.EDGEHUB)
        bee.forget()
        with replaced.object(SqliteStore, "put", fails):
            if way == "answer":
                for question in (small, big):
                    bee.hive.respond(question.reply(bee.clock, thing(), source=ModuleName.EDGECONTROLLER))
            else:
                bee.hive.send(META, from_cloud(bee, "default/configmap/a", Operation.INSERT, thing()))
            if way == "change":
                bee.hive.send(META, from_cloud(bee, "default/configmap/big", Operation.INSERT, thing("big")))
            if way == "patch":
                bee.hive.send(META, from_edged(bee, "default/podpatch/big", Operation.PATCH, thing("big")))
            bee.settle()
        assert store_of(bee).get("default/configmap/a") is None
        assert Operation.RESPONSE not in {sent.route.operation for sent in bee.sent_to(Group.HUB)}
        assert all(question.settled for question in questions) == (way == "answer")


def test_a_failure_of_the_module_loses_nothing() -> None:
    """The message that fails it is tried again and buried; those beside it are stored and acknowledged; what was
    with the cloud is refused, and the module, started again, asks the cloud as before.
    """
    put = SqliteStore.put

    def fails(store: SqliteStore, row: Row) -> bool:
        if row.name == "poison":
            raise RuntimeError("a bug")
        return put(store, row)

    with replaced.object(SqliteStore, "put", fails), node(connected=True) as bee:
        bee.expect_failures()
        waiting = bee.future(META, from_edged(bee, "null/node/a", Operation.QUERY))
        bee.settle()
        for name in ("a", "poison", "b"):
            bee.hive.send(META, from_cloud(bee, f"default/pod/{name}", Operation.INSERT, thing()))
        bee.run_for(120)
        assert {ok.route.resource for ok in bee.sent_to(Group.HUB)} == {"default/pod/a", "default/pod/b"}
        assert [letter.message.route.resource for letter in bee.hive.dead_letters] == ["default/pod/poison"]
        with pytest.raises(RequestLostError):
            waiting.get()
        cloud_answers(bee, lambda _: thing())
        assert bee.ask(META, from_edged(bee, "null/node/a", Operation.QUERY)).content == thing()
