"""What the cloud has sent and metamanager has not answered is bounded in bytes: the link reads no more for a moment."""

import threading

import pytest

from beehive import ModuleName, Operation, encode
from beehive.runtime import Threads
from beehive.testing import Harness
from edgehub import in_flight
from edgehub.in_flight import FORGET_AFTER, MOST_BYTES, InFlight
from edgehub.module import EdgeHub
from tests.edgehub.beds import started
from tests.edgehub.messages import message
from tests.support.patience import PATIENCE


def test_an_answered_message_makes_room() -> None:
    with Harness() as bee:
        flight = InFlight(bee.simulation, most=100)
        flight.enter("a", 60)
        flight.enter("b", 40)
        assert flight.bytes == 100
        flight.leave("a")
        flight.leave("a")
        flight.leave("nobody")
        assert flight.bytes == 40
        flight.enter("b", 50)
        assert flight.bytes == 50, "the same message again, as the cloud sends it when it was not answered"


def test_a_message_above_the_limit_may_be_in_flight_alone() -> None:
    with Harness() as bee:
        flight = InFlight(bee.simulation, most=100)
        before = bee.clock.monotonic()
        flight.enter("large", 1000)
        assert bee.clock.monotonic() == before


def test_a_message_without_room_waits_until_half_of_it_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """On real threads an answer admits it immediately."""
    monkeypatch.setattr(in_flight, "LONGEST_WAIT", 600.0)
    runtime = Threads()
    flight = InFlight(runtime, most=100)
    for each in ("a1", "a2"):
        flight.enter(each, 50)
    entered = threading.Event()

    def enter() -> None:
        flight.enter("b", 50)
        entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    begin = runtime.clock.monotonic()
    thread.start()
    flight.leave("a1")
    assert entered.wait(PATIENCE)
    thread.join()
    assert flight.bytes == 100
    assert runtime.clock.monotonic() - begin < 60
    runtime.clock.close()


def test_but_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that waits also keeps the link alive."""
    monkeypatch.setattr(in_flight, "LONGEST_WAIT", 0.05)
    runtime = Threads()
    flight = InFlight(runtime, most=100)
    flight.enter("a", 100)
    begin = runtime.clock.monotonic()
    flight.enter("b", 100)
    assert runtime.clock.monotonic() - begin >= 0.05
    assert flight.bytes == 200
    runtime.clock.close()


def test_a_message_that_is_never_answered_is_forgotten() -> None:
    with Harness() as bee:
        bee.start()
        flight = InFlight(bee.simulation, most=100)
        flight.enter("a", 100)
        bee.run_for(FORGET_AFTER)
        flight.enter("b", 10)
        assert flight.bytes == 10


def test_a_message_that_comes_again_is_not_forgotten_before_older_ones() -> None:
    with Harness() as bee:
        flight = InFlight(bee.simulation, most=100)
        for name, seconds in (("again", 1.0), ("lost", 1.0), ("again", FORGET_AFTER - 1.0), ("new", 0.0)):
            flight.enter(name, 20)
            bee.run_for(seconds)
        assert flight.bytes == 40, "of those that came last"


def test_messages_of_the_cloud_count_until_their_answer_leaves() -> None:
    bed = started()
    with bed.bee:
        bed.bee.answer(ModuleName.METAMANAGER, lambda _message: None)
        running = bed.bee.hive.slot(ModuleName.EDGEHUB).running
        assert running is not None
        hub = running.ref._actor_weakref()
        assert isinstance(hub, EdgeHub)
        inbound = hub._inbound
        pushed = message("default/configmap/c", Operation.INSERT, "x" * 1000, source="edgecontroller")
        inbound.received(encode(pushed))
        assert 1000 < inbound.in_flight.bytes < MOST_BYTES
        bed.hub(message("default/configmap/c", Operation.RESPONSE, "OK", parent_msg_id=pushed.id))
        assert inbound.in_flight.bytes == 0
