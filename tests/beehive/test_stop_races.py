"""The hive stops while modules fail, are started again, or send: whatever the moment, it ends and nothing runs on.

In simulation the moment is drawn from the seed, so that a few hundred seeds try a few hundred moments.
"""

import gc
import logging
import random
import threading
import weakref
from collections.abc import Iterator

import pykka
import pytest

from beehive import Actor, DeliveryRecord, DropReason, Hive, Message, Module, Outcome, Runtime, State, Threads, handles
from beehive.simulation import Simulation
from tests.beehive.beds import Bed
from tests.support.patience import PATIENCE
from tests.support.slow import one_in

pytestmark = pytest.mark.modules_fail


class Child(Actor):
    """Fails at every third message."""

    count = 0

    def on_receive(self, message: object) -> None:
        self.count += 1
        if self.count % 3 == 0:
            raise ValueError("child")


class Unruly(Module):
    """Fails in all ways: in handlers, starts, children, timers and stops; sends to itself and to the other."""

    name = "unruly"
    other = "second"

    def __init__(self, luck: random.Random) -> None:
        super().__init__()
        self.luck = luck

    def on_start(self) -> None:
        if self.luck.random() < 0.3 and self.hive.restarts()[self.name]:
            raise ValueError("start")
        self.child = self.start_actor(Child)
        self.every(0.05, self.tick)

    def on_stop(self) -> None:
        if self.luck.random() < 0.5:
            raise ValueError("stop")

    def tick(self) -> None:
        self.send(self.other, self.message("default/pod/a", "update"))
        if self.luck.random() < 0.2:
            raise ValueError("tick")

    @handles()
    def take(self, message: Message) -> None:
        self.child.tell("work")
        if self.luck.random() < 0.3:
            raise ValueError("handler")
        if self.luck.random() < 0.3:
            self.request(self.other, self.message("default/pod/a", "query"), 0.1, lambda _result: None)
        if message.header.sync:
            self.reply(message)


class Second(Unruly):
    """Another one."""

    name = "second"
    other = "unruly"


class Ends:
    """A tap that counts how deliveries ended."""

    def __init__(self) -> None:
        self.ended: list[Message] = []

    def delivered(self, record: DeliveryRecord) -> None:
        if record.outcome is not Outcome.FAILED and record.module:
            self.ended.append(record.message)


def unruly(runtime: Runtime, seed: int, tap: Ends) -> Hive:
    """A started hive of both."""
    hive = Hive(runtime, taps=(tap,))
    for module in (Unruly, Second):
        hive.add(module, random.Random(seed))  # noqa: S311
    hive.start()
    return hive


@pytest.fixture(autouse=True)
def quick_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that restarts are going on all the time."""
    monkeypatch.setattr("beehive.supervisor.FIRST_DELAY", 0.02)
    monkeypatch.setattr("beehive.supervisor.LONGEST_DELAY", 0.05)


@pytest.mark.parametrize("seed", one_in(3, range(150)))
def test_a_simulated_hive_stops_at_any_moment(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    """No greenlet is left, nothing waits, every message has come to its end, and every wait is over."""
    caplog.set_level("CRITICAL")
    simulation, tap, known = Simulation(seed), Ends(), set(pykka.ActorRegistry.get_all())
    hive = unruly(simulation, seed, tap)
    sent, luck = [], random.Random(seed)  # noqa: S311
    futures = []
    for _ in range(20):
        sent.append(Message.new(simulation.clock, source="t", resource="default/pod/a", operation="insert"))
        hive.send(luck.choice(["unruly", "second"]), sent[-1])
        futures.append(hive.request("unruly", sent[-1].with_header(msg_id=simulation.clock.new_id()), 3.0))
        simulation.run_for(luck.uniform(0, 0.02))
    hive.stop(5.0)
    assert simulation.scheduler.alive() == []
    assert set(pykka.ActorRegistry.get_all()) == known
    assert hive.depths() == {"unruly": 0, "second": 0}
    assert {readiness.state for readiness in hive.readiness().values()} == {State.STOPPED}
    ended = [message.id for message in tap.ended]
    assert all(ended.count(message.id) == 1 for message in sent)
    simulation.run_for(10)
    assert len(hive.pending_requests) == 0
    assert all(future.settled for future in futures)


def test_threads_stop_at_any_moment(caplog: pytest.LogCaptureFixture) -> None:
    """The same with real threads, senders going on meanwhile; what comes too late is a dead letter."""
    caplog.set_level("CRITICAL")
    for seed in range(8):
        bed, tap = Bed(Threads()), Ends()
        hive = unruly(bed.runtime, seed, tap)
        sent: list[Message] = []

        def send(hive: Hive = hive, bed: Bed = bed, sent: list[Message] = sent) -> None:
            for _ in range(300):
                message = bed.message()
                sent.append(message)
                hive.send("unruly", message)

        sender = threading.Thread(target=send)
        sender.start()
        moment = threading.Event()
        bed.clock.after(0.005 * seed, moment.set)
        assert moment.wait(PATIENCE)
        hive.stop(60.0)
        sender.join(60)
        ended = [message.id for message in tap.ended]
        assert sorted(one for one in ended if one in {message.id for message in sent}) == sorted(
            message.id for message in sent
        )
        assert hive.depths()["unruly"] == 0
        bed.close()
        assert bed.leftovers() == []


@pytest.fixture
def no_logging() -> Iterator[None]:
    """Pytest keeps log records, these keep their exceptions, and these all frames with what is in them."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.usefixtures("no_logging")
def test_a_restarted_module_leaves_no_old_instance_behind(bed: Bed) -> None:
    """After twenty failures the earlier instances and their classes are collected."""
    instances: list[weakref.ref[Module]] = []

    class Mortal(Module):
        name = "mortal"
        attempts = 1

        def on_start(self) -> None:
            instances.append(weakref.ref(self))
            self.every(3600, lambda: None)
            self.start_actor(Child)

        @handles()
        def die(self, message: Message) -> None:
            self.request("absent", self.message("a/b/c", "query"), 3600, lambda _result: None)
            raise ValueError("dies")

    hive = bed.hive(outside=lambda _name, _message, _way: True)
    hive.add(Mortal)
    hive.start()
    for number in range(20):
        hive.send("mortal", bed.message())
        bed.until(lambda number=number: len(instances) == number + 2)  # type: ignore[misc]
    assert hive.dead_letters.counts == {DropReason.POISON: 20}
    hive.stop()
    for key in list(hive.pending_requests._open):
        hive.pending_requests.cancel(key, ValueError("test is over"))  # type: ignore[arg-type]
    bed.runtime.close()
    assert bed.leftovers() == []
    gc.collect()
    assert sum(instance() is not None for instance in instances) <= 2
