"""Taps see every delivery, cost nothing when absent, and include the Prometheus metrics."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from beehive import (
    Actor,
    DeliveryMode,
    DeliveryRecord,
    DropReason,
    Hive,
    Message,
    Module,
    Operation,
    Outcome,
    OverflowPolicy,
    ResourceType,
    Threads,
    handles,
)
from beehive import hive as hive_module
from beehive.exposition import CollectorRegistry
from beehive.metrics import BusMetrics, hive_metrics
from beehive.testing import Harness
from tests.beehive.beds import Log

LABELS = ("source", "module", "type", "operation", "outcome", "reason", "le")


class Observed(Module):
    """Takes a virtual second for a pod, fails at a secret, answers a node."""

    name = "edged"
    group = "edged"

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        second = self.runtime.future()
        self.clock.after(1.0, second.set)
        second.get()

    @handles(ResourceType.SECRET)
    def fail(self, message: Message) -> None:
        raise ValueError("no")

    @handles(ResourceType.NODE)
    def answer(self, message: Message) -> None:
        self.reply(message)

    @handles(ResourceType.PODSTATUS, overflow=OverflowPolicy.STATE)
    def state(self, message: Message) -> None: ...


class Tape:
    """Keeps the records."""

    def __init__(self) -> None:
        self.records: list[DeliveryRecord] = []

    def delivered(self, record: DeliveryRecord) -> None:
        self.records.append(record)


@pytest.fixture
def tape() -> Tape:
    """An empty one."""
    return Tape()


@pytest.fixture
def bee(tape: Tape) -> Iterator[Harness]:
    """The observed module on a hive with the tape."""
    with Harness(taps=(tape,)) as harness:
        harness.add(Observed)
        harness.start()
        yield harness


def test_a_record_has_who_what_how_when_and_how_long(bee: Harness, tape: Tape) -> None:
    """Depth is what waited before it, `waited` the time in the inbox, `handled` that in the handler."""
    messages = [bee.message("default/pod/a", "insert", number) for number in range(3)]
    for message in messages:
        bee.hive.send("edged", message)
    bee.run_for(10)
    assert [record.message for record in tape.records] == messages
    assert [record.depth for record in tape.records] == [0, 1, 2]
    assert [record.waited for record in tape.records] == [0.0, 1.0, 2.0]
    assert [record.handled for record in tape.records] == [1.0, 1.0, 1.0]
    [first, *_] = tape.records
    assert (first.module, first.mode, first.outcome, first.reason) == (
        "edged",
        DeliveryMode.SEND,
        Outcome.HANDLED,
        None,
    )
    assert first.time == bee.clock.monotonic() - 9.0


def test_every_way_and_outcome_is_seen(bee: Harness, tape: Tape) -> None:
    """Requests and their answers, broadcasts, failures, dead letters, coalesced states, drops."""
    bee.expect_failures()
    bee.ask("edged", bee.message("null/node/n", "query"))
    bee.hive.respond(bee.message("null/node/n", "query").reply(bee.clock))
    bee.hive.broadcast("edged", bee.message("null/node/n", "query"))
    bee.send("edged", bee.message("default/configmap/c", "insert"))
    for _ in range(2):
        bee.hive.send("edged", bee.message("default/podstatus", "update"))
    bee.send("edged", bee.message("default/secret/s", "insert"), wait=300)
    seen = {(record.mode, record.outcome, record.reason) for record in tape.records}
    assert seen == {
        (DeliveryMode.REQUEST, Outcome.HANDLED, None),
        (DeliveryMode.RESPONSE, Outcome.HANDLED, None),
        (DeliveryMode.RESPONSE, Outcome.DROPPED, DropReason.UNKNOWN_ANSWER),
        (DeliveryMode.BROADCAST, Outcome.HANDLED, None),
        (DeliveryMode.SEND, Outcome.DEAD, DropReason.NO_HANDLER),
        (DeliveryMode.SEND, Outcome.COALESCED, DropReason.SUPERSEDED),
        (DeliveryMode.SEND, Outcome.HANDLED, None),
        (DeliveryMode.SEND, Outcome.FAILED, None),
        (DeliveryMode.SEND, Outcome.DEAD, DropReason.POISON),
    }


def test_every_delivery_comes_to_exactly_one_end(bee: Harness, tape: Tape) -> None:
    """Of each message there is one record besides its failed tries."""
    bee.expect_failures()
    sent = []
    for number in range(50):
        kind = ("pod/a", "secret/s", "configmap/c", "podstatus", "node/n")[number % 5]
        sent.append(bee.message(f"default/{kind}", "insert", number))
        bee.hive.send("edged", sent[-1])
    bee.run_for(4000)
    ends = [record.message.id for record in tape.records if record.outcome is not Outcome.FAILED]
    answers = {record.message.id for record in tape.records if record.mode is DeliveryMode.RESPONSE}
    assert sorted(end for end in ends if end not in answers) == sorted(message.id for message in sent)


def test_a_failing_tap_does_not_fail_the_observed_module(tape: Tape, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged; the module goes on, and so do the other taps."""

    class Broken:
        def delivered(self, record: DeliveryRecord) -> None:
            raise RuntimeError("tape is full")

    with Harness(taps=(Broken(), tape)) as bee:
        bee.start(Observed)
        bee.ask("edged", bee.message("null/node/n", "query"))
        assert bee.hive.restarts() == {"edged": 0}
    assert len(tape.records) == 2
    assert "tape is full" in caplog.text


def test_without_a_tap_no_record_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Observing costs nothing when nobody does."""
    made = Log()
    monkeypatch.setattr(hive_module, "DeliveryRecord", made)
    with Harness() as bee:
        bee.start(Observed)
        bee.ask("edged", bee.message("null/node/n", "query"))
        bee.send("edged", bee.message("default/configmap/c", "insert"))
    assert made.entries == []


def test_a_tap_may_be_added_while_it_runs(bee: Harness) -> None:
    """What was in the inbox before has no time of waiting."""
    late = Tape()
    bee.hive.taps.clear()
    bee.hive.send("edged", bee.message("null/node/n", "insert"))
    bee.hive.taps.append(late)
    bee.settle()
    assert [(record.waited, record.outcome) for record in late.records if record.module] == [(0.0, Outcome.HANDLED)]


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """What is exposed, by name and label values in the order of `LABELS`."""
    families = text_string_to_metric_families(registry.text())
    return {
        (sample.name, *(sample.labels[label] for label in LABELS if label in sample.labels)): sample.value
        for family in families
        for sample in family.samples
    }


def test_the_metrics_are_exposed_as_text() -> None:
    """Messages by route and outcome, drops by reason, times, depth, readiness, restarts, open requests."""
    registry = CollectorRegistry()
    with Harness(taps=(BusMetrics(registry),)) as bee:
        bee.expect_failures()
        registry.register(partial(hive_metrics, bee.hive))
        bee.start(Observed)
        for number in range(3):
            bee.hive.send("edged", bee.message("default/pod/a", Operation.INSERT, number, source="edgehub"))
        bee.run_for(2.5)
        bee.future("edged", bee.message("null/node/n", "query", source="metamanager"))
        got = samples(registry)
        assert got["beehive_messages_total", "edgehub", "edged", "pod", "insert", "handled"] == 2
        assert got["beehive_handling_seconds_count", "edged"] == 2
        assert got["beehive_handling_seconds_sum", "edged"] == 2.0
        assert got["beehive_handling_seconds_bucket", "edged", "0.1"] == 0
        assert got["beehive_handling_seconds_bucket", "edged", "1.0"] == 2
        assert got["beehive_handling_seconds_bucket", "edged", "+Inf"] == 2
        assert got["beehive_waiting_seconds_sum", "edged"] == 1.0
        assert got["beehive_queue_depth", "edged"] == 1
        assert got["beehive_module_ready", "edged"] == 1
        assert got["beehive_open_requests",] == 1
        bee.run_for(10)
        bee.send("edged", bee.message("default/secret/s", "insert"))
        bee.hive.respond(bee.message("a/b/c", "query").reply(bee.clock))
        bee.run_for(300)
        got = samples(registry)
        assert got["beehive_drops_total", "edged", "handler failed repeatedly"] == 1
        assert got["beehive_module_restarts_total", "edged"] == 3
        assert got["beehive_unmatched_answers_total", "answer to no known request"] == 1
        assert got["beehive_open_requests",] == 0


@pytest.mark.parametrize(
    "other",
    [
        {"source": "edgehub"}, {"resource": "null/node/b"}, {"operation": "update"}, {"module": "edged"},
        {"outcome": Outcome.DEAD},
    ],
    ids=str,
)  # fmt: skip
def test_messages_that_differ_are_counted_apart(other: dict[str, Any]) -> None:
    registry = CollectorRegistry()
    metrics = BusMetrics(registry)
    with Harness() as bee:
        for changed in ({}, other, other):
            given = {"source": "edged", "resource": "null/pod/a", "operation": "insert", **changed}
            message = bee.message(given["resource"], given["operation"], source=given["source"])
            outcome = given.get("outcome", Outcome.HANDLED)
            to = given.get("module", "edgehub")
            metrics.delivered(DeliveryRecord(0.0, to, message, DeliveryMode.SEND, outcome, None, 0, 0.0, 0.0))
    counts = [value for key, value in samples(registry).items() if key[0] == "beehive_messages_total"]
    assert sorted(counts) == [1, 2]


def test_labels_are_bounded_whatever_peers_send() -> None:
    """Unknown sources, types, operations and destinations count as `other`; a million pods are one series."""
    registry = CollectorRegistry()
    metrics = BusMetrics(registry)
    with Harness(taps=(metrics,)) as bee:
        bee.start(Observed)
        for number in range(5000):
            bee.hive.send("edged", bee.message(f"default/node/{number}", f"op{number}", source=f"source{number}"))
            bee.settle()
        hive = Hive(bee.simulation, taps=(metrics,))
        for number in range(100):
            hive.send(f"module{number}", bee.message(f"default/type{number}/x", "insert"))
    got = samples(registry)
    messages = {key: value for key, value in got.items() if key[0] == "beehive_messages_total"}
    assert messages["beehive_messages_total", "other", "edged", "node", "other", "handled"] == 5000
    assert messages["beehive_messages_total", "other", "other", "other", "insert", "dead"] == 100
    assert len(messages) <= 4
    assert got["beehive_drops_total", "other", "no such module"] == 100
    assert len(metrics._found) <= 4096


def test_counts_of_many_threads_are_exact() -> None:
    """Stress: modules and senders count at the same time; the sum is what was sent."""
    runtime, registry = Threads(), CollectorRegistry()
    hives = []
    metrics = BusMetrics(registry)
    for _ in range(4):
        hive = Hive(runtime, taps=(metrics,))
        hive.add(Observed)
        hive.start()
        hives.append(hive)
    message = Message.new(runtime.clock, source="edgehub", resource="null/node/n", operation="insert")

    def send(hive: Hive) -> None:
        for _ in range(1000):
            hive.send("edged", message)
            hive.send("nowhere", message)

    threads = [threading.Thread(target=send, args=(hive,)) for hive in hives]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for hive in hives:
        hive.stop()
    runtime.close()
    got = samples(registry)
    assert got["beehive_messages_total", "edgehub", "edged", "node", "insert", "handled"] == 4000
    assert got["beehive_drops_total", "other", "no such module"] == 4000
    assert sum(hive.dead_letters.counts[DropReason.NO_MODULE] for hive in hives) == 4000


def test_actors_are_part_of_their_module_and_not_tapped(tape: Tape) -> None:
    """Taps are for what crosses a module's border; inner calls are the module's own affair."""

    class Inner(Actor):
        def on_receive(self, message: object) -> object:
            return message

    class Outer(Observed):
        def on_start(self) -> None:
            assert self.start_actor(Inner).ask("inside") == "inside"

    with Harness(taps=(tape,)) as bee:
        bee.start(Outer)
    assert tape.records == []
