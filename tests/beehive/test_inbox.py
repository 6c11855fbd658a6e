"""The inbox: three classes of message, bounded, every drop counted, nothing lost uncounted."""

import threading
from collections import Counter, deque
from typing import Any

import pytest

from beehive import DeliveryMode, Message, Threads
from beehive.delivery import Delivery
from beehive.errors import InboxFullError
from beehive.inbox import COMMAND_CAPACITY, STATE_CAPACITY, TELEMETRY_CAPACITY, Inbox
from beehive.simulation import Simulation
from tests.beehive.beds import Bed, Log
from tests.support.patience import PATIENCE


def delivery(content: object = None, key: str = "default/podstatus") -> Delivery:
    """A delivery that nobody will handle."""
    message = Message(content=content).with_route(resource=key)
    return Delivery(message, lambda _module, _message: None, DeliveryMode.SEND)


def drained(inbox: Inbox) -> list[object]:
    """The contents of all that waits."""
    contents = []
    while not inbox.empty():
        item = inbox.get()
        contents.append(item.message.content if isinstance(item, Delivery) else item)
    return contents


def test_a_command_waits_for_room_and_then_gives_up(bed: Bed) -> None:
    """The producer waits for the put timeout, not less; the error names the inbox and may be retried."""
    inbox = Inbox(bed.runtime, capacity=2, put_timeout=0.1, name="small")
    inbox.put("a")
    inbox.put("b")
    begin = bed.clock.monotonic()
    with pytest.raises(InboxFullError, match="small") as caught:
        inbox.put("c")
    assert 0.1 - 1e-6 <= bed.clock.monotonic() - begin < 60  # floats: neither number is exact
    assert caught.value.retryable
    assert drained(inbox) == ["a", "b"]


def test_a_command_gets_the_room_that_becomes_free(bed: Bed) -> None:
    """A producer that waits goes on when the consumer has taken something, in the order it would have had."""
    inbox = Inbox(bed.runtime, capacity=2, put_timeout=PATIENCE)
    inbox.put("a")
    inbox.put("b")
    begin = bed.clock.monotonic()
    bed.clock.after(0.05, inbox.get)
    inbox.put("c")
    assert bed.real or bed.clock.monotonic() - begin < 0.051, "it is woken, and does not look again later"
    assert drained(inbox) == ["b", "c"]


def test_urgent_items_are_never_refused_room(bed: Bed) -> None:
    """Answers and timers come in whatever waits."""
    inbox = Inbox(bed.runtime, capacity=1, put_timeout=0)
    inbox.put("a")
    for number in range(10):
        inbox.put_urgent(number)
    assert drained(inbox) == ["a", *range(10)]


def test_a_newer_state_takes_the_place_of_the_older(bed: Bed) -> None:
    """One delivery for each key is left: the newest content at the oldest's place."""
    inbox = Inbox(bed.runtime)
    assert inbox.put_state("x", delivery("x1")) is None
    inbox.put("command")
    assert inbox.put_state("y", delivery("y1")) is None
    replaced = inbox.put_state("x", delivery("x2"))
    assert replaced is not None
    assert replaced.message.content == "x1"
    assert inbox.depth() == 3
    assert drained(inbox) == ["x2", "command", "y1"]
    assert inbox.put_state("x", delivery("x3")) is None
    assert drained(inbox) == ["x3"]


def test_an_outage_of_any_length_leaves_one_state_for_each_object(bed: Bed) -> None:
    """A million updates of ten objects take the room of ten."""
    inbox = Inbox(bed.runtime)
    for number in range(20_000):
        inbox.put_state(number % 10, delivery(number))
    assert drained(inbox) == list(range(19_990, 20_000))


def test_telemetry_drops_its_oldest(bed: Bed) -> None:
    """The newest stay, in order; what is dropped is handed back to be counted."""
    inbox = Inbox(bed.runtime)
    dropped = [inbox.put_telemetry(delivery(number)) for number in range(TELEMETRY_CAPACITY + 10)]
    assert [one.message.content for one in dropped if one is not None] == list(range(10))
    assert drained(inbox) == list(range(10, TELEMETRY_CAPACITY + 10))


def test_states_and_telemetry_do_not_take_the_commands_room(bed: Bed) -> None:
    """Each class has its own bound: after a long outage the statuses must not keep the commands out."""
    inbox = Inbox(bed.runtime, put_timeout=0)
    for number in range(STATE_CAPACITY):
        inbox.put_state(number, delivery())
    for _ in range(TELEMETRY_CAPACITY):
        inbox.put_telemetry(delivery())
    for number in range(COMMAND_CAPACITY):
        inbox.put(number)
    with pytest.raises(InboxFullError):
        inbox.put("one too many")
    with pytest.raises(InboxFullError):
        inbox.put_state("one object too many", delivery())
    assert inbox.depth() == STATE_CAPACITY + TELEMETRY_CAPACITY + COMMAND_CAPACITY


def test_items_that_are_put_back_come_first_and_in_order(bed: Bed) -> None:
    """The next instance of a failed module gets the failed instance's messages before all others."""
    inbox = Inbox(bed.runtime)
    inbox.put("later")
    inbox.put_back(["third"])
    inbox.put_back(["first", "second"])
    assert inbox.depth() == 4
    assert drained(inbox) == ["first", "second", "third", "later"]


def test_a_closed_inbox_refuses_waiting_and_new_messages(bed: Bed) -> None:
    """Nothing is lost in silence: each item is handed to the refuser."""
    inbox = Inbox(bed.runtime)
    refused = Log()
    inbox.put("waits")
    inbox.put_state("key", delivery("state"))
    inbox.close(refused)
    inbox.put("command")
    inbox.put_urgent("urgent")
    inbox.put_state("key", delivery("late state"))
    inbox.put_telemetry(delivery("telemetry"))
    contents = [one.message.content if isinstance(one, Delivery) else one for one in refused.entries]
    assert contents == ["waits", "state", "command", "urgent", "late state", "telemetry"]
    assert inbox.empty()


def test_closing_lets_waiting_producers_go(bed: Bed) -> None:
    """A producer that waits for room in an inbox that is closed does not wait out its put timeout."""
    inbox = Inbox(bed.runtime, capacity=1, put_timeout=3600)
    refused = Log()
    inbox.put("a")
    bed.clock.after(0.05, lambda: inbox.close(refused))
    inbox.put("b")
    assert sorted(refused.entries) == ["a", "b"]


def test_a_deferred_command_gets_room_later_without_anybody_waiting(bed: Bed) -> None:
    """It comes in when the consumer has taken something; the producer was never held."""
    inbox = Inbox(bed.runtime, capacity=2, put_timeout=3600)
    given_up = Log()
    for number in range(4):
        inbox.put_deferred(number, given_up)
    assert inbox.depth() == 2
    assert [inbox.get() for _ in range(4)] == [0, 1, 2, 3]
    assert len(given_up) == 0
    assert inbox.empty()


def test_a_deferred_command_without_room_is_given_up(bed: Bed) -> None:
    """After the put timeout, or immediately when too many wait already. It is not delivered later."""
    inbox = Inbox(bed.runtime, capacity=2, put_timeout=0.05)
    given_up = Log()

    def put_five() -> list[object]:
        for number in range(5):
            inbox.put_deferred(number, given_up)
        return list(given_up.entries)

    assert bed.on_the_clock(put_five) == [4]
    bed.until(lambda: len(given_up) == 3)
    assert given_up.entries == [4, 2, 3]
    assert drained(inbox) == [0, 1]
    inbox.put_deferred("room again", given_up)
    assert drained(inbox) == ["room again"]


def test_given_up_commands_do_not_keep_later_ones_from_waiting(bed: Bed) -> None:
    """A member that was stuck for long gets what comes when it is about to go on."""
    inbox = Inbox(bed.runtime, capacity=1, put_timeout=0.05)
    given_up = Log()
    for number in range(2):
        inbox.put_deferred(number, given_up)
    bed.until(lambda: given_up.entries == [1])

    def put_and_take() -> list[object]:
        inbox.put_deferred("later", given_up)
        return [inbox.get(), inbox.get()]

    assert bed.on_the_clock(put_and_take) == [0, "later"]
    assert given_up.entries == [1]


def test_room_that_appears_while_a_command_is_deferred_is_not_missed() -> None:
    """The consumer may empty the inbox between the look at it and the deferral; nobody would come back for it."""

    class Emptying(deque[Any]):
        """Lets the consumer take everything before something is appended."""

        def append(self, deferred: Any) -> None:
            taken.extend(drained(inbox))
            super().append(deferred)

    taken: list[object] = []
    simulation = Simulation()
    inbox = Inbox(simulation, capacity=1)
    inbox._deferred = Emptying()
    inbox.put("first")
    inbox.put_deferred("second", taken.append)
    assert taken == ["first"]
    assert drained(inbox) == ["second"]
    assert not any(alarm.active for *_, alarm in simulation.clock._alarms._heap), "it is given up by nobody"


def test_closing_refuses_deferred_messages(bed: Bed) -> None:
    """Once each, and later ones too."""
    inbox = Inbox(bed.runtime, capacity=1, put_timeout=3600)
    refused, given_up = Log(), Log()
    for number in range(2):
        inbox.put_deferred(number, given_up)
    inbox.close(refused)
    inbox.put_deferred(2, given_up)
    assert (refused.entries, given_up.entries) == ([0, 1, 2], [])


def test_closing_refuses_all_that_was_deferred(bed: Bed) -> None:
    """In order, and it comes to an end: letting one in must not begin to refuse while that is being done."""
    inbox = Inbox(bed.runtime, capacity=2, put_timeout=3600)
    refused = Log()
    for number in range(4):
        inbox.put_deferred(number, Log())
    inbox.close(refused)
    assert refused.entries == [0, 1, 2, 3]


def test_a_command_does_not_overtake_a_deferred_one() -> None:
    """There is room between the consumer's taking of one and its look at what is deferred: a deletion must not come
    in there, before the update of the same object.
    """
    inbox = Inbox(Simulation(), capacity=1)
    take = inbox._get

    def take_and_let_another_come() -> Any:
        inbox._get = take
        item = take()
        inbox.put_deferred("third", Log())
        return item

    inbox.put("first")
    inbox.put_deferred("second", Log())
    inbox._get = take_and_let_another_come
    assert drained(inbox) == ["first", "second", "third"]


def test_deferred_commands_of_many_threads_all_arrive() -> None:
    """Stress: an inbox of two, eight threads that never wait, one consumer; nothing is stuck outside."""
    runtime, given_up = Threads(), Log()
    inbox = Inbox(runtime, capacity=2, put_timeout=PATIENCE)
    taken: list[object] = []

    def produce(producer: int) -> None:
        for number in range(300):
            inbox.put_deferred((producer, number), given_up)

    threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(8)]

    def finish() -> None:
        for thread in threads:
            thread.join(60)
        inbox.put_urgent("end")

    last = threading.Thread(target=finish)
    for thread in [*threads, last]:
        thread.start()
    while (item := inbox.get()) != "end":
        taken.append(item)
    last.join(60)
    taken += drained(inbox)
    assert Counter(taken + given_up.entries) == Counter((who, number) for who in range(8) for number in range(300))
    assert len(inbox._deferred) == 0
    runtime.close()


def test_threads_that_press_into_a_small_inbox_lose_nothing() -> None:
    """Stress: eight producers, one consumer, an inbox of four; everything arrives, in each producer's order."""
    runtime = Threads()
    inbox = Inbox(runtime, capacity=4, put_timeout=PATIENCE)
    producers, each = 8, 400
    begin = threading.Barrier(producers + 1)

    def produce(producer: int) -> None:
        begin.wait()
        for number in range(each):
            inbox.put((producer, number))

    threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(producers)]
    for thread in threads:
        thread.start()
    begin.wait()
    taken = [inbox.get() for _ in range(producers * each)]
    for thread in threads:
        thread.join(60)
    assert inbox.empty()
    for producer in range(producers):
        assert [number for who, number in taken if who == producer] == list(range(each))
    runtime.close()


def test_threads_that_write_states_leave_each_newest() -> None:
    """Stress: states of eight threads while the consumer reads; every key ends with its last value, none is stuck."""
    runtime = Threads()
    inbox = Inbox(runtime)
    producers, each = 8, 2000
    begin = threading.Barrier(producers + 1)

    def produce(producer: int) -> None:
        begin.wait()
        for number in range(each):
            inbox.put_state(producer, delivery((producer, number)))
            inbox.put_telemetry(delivery(None))

    threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(producers)]
    for thread in threads:
        thread.start()
    begin.wait()
    newest: dict[int, int] = {}
    while newest != dict.fromkeys(range(producers), each - 1):
        content = inbox.get().message.content
        if content is not None:
            producer, number = content
            assert number > newest.get(producer, -1)
            newest[producer] = number
    for thread in threads:
        thread.join(60)
    drained(inbox)
    assert (len(inbox._states), len(inbox._telemetry)) == (0, 0)
    runtime.close()


@pytest.mark.parametrize("closer_first", [True, False])
def test_items_put_during_a_close_are_refused_exactly_once(closer_first: bool) -> None:
    """Stress: threads put while another closes; every item is refused once."""
    runtime = Threads()
    for _ in range(20):
        inbox = Inbox(runtime, capacity=10**6)
        refused = Log()
        begin = threading.Barrier(5)

        def produce(producer: int, inbox: Inbox = inbox, begin: threading.Barrier = begin) -> None:
            begin.wait()
            for number in range(100):
                inbox.put((producer, number))

        def close(inbox: Inbox = inbox, begin: threading.Barrier = begin, refused: Log = refused) -> None:
            begin.wait()
            inbox.close(refused)

        threads = [threading.Thread(target=produce, args=(producer,)) for producer in range(4)]
        threads.insert(0 if closer_first else 4, threading.Thread(target=close))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert Counter(refused.entries) == Counter((producer, number) for producer in range(4) for number in range(100))
    runtime.close()
