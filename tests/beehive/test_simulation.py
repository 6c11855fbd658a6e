"""The simulation: a run is a function of its seed, time is virtual, and a deadlock is found instead of waited out."""

import hashlib

import msgspec
import pykka
import pytest

from beehive import Actor, DeliveryRecord, Hive, Message, Module, Operation, ResourceType, handles
from beehive.simulation import EPOCH, DeadlockError, Simulation
from tests.beehive.beds import Log


class Tape:
    """A tap that writes every delivery down, to the byte."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def delivered(self, record: DeliveryRecord) -> None:
        self.lines.append(msgspec.json.encode(record))

    def digest(self) -> str:
        """Of all lines."""
        return hashlib.sha256(b"\n".join(self.lines)).hexdigest()


class Player(Module):
    """Exchanges messages: some immediately, some after a timer, some as a request."""

    other = ""
    rounds = 1000

    @handles(ResourceType.POD, Operation.UPDATE)
    def turn(self, message: Message) -> None:
        number = message.content_as(int)
        if number >= self.rounds:
            return
        if number % 3 == 0:
            self.after(self.clock.random.uniform(0, 5), lambda: self.play(number + 1))
        elif number % 3 == 1:
            question = self.message("default/pod/ball", Operation.QUERY, number)
            self.request(self.other, question, 60, lambda _answer: self.play(number + 1))
        else:
            self.play(number + 1)

    @handles(ResourceType.POD, Operation.QUERY)
    def answer(self, message: Message) -> None:
        self.reply(message)

    def play(self, number: int) -> None:
        """Send the ball over."""
        self.send(self.other, self.message("default/pod/ball", Operation.UPDATE, number))


class Ping(Player):
    """One side."""

    name = "ping"
    other = "pong"


class Pong(Player):
    """The other."""

    name = "pong"
    other = "ping"


def played(seed: int, balls: int = 8, seconds: float = 3600.0) -> tuple[Tape, Simulation]:
    """A whole game with several balls in the air."""
    tape, simulation = Tape(), Simulation(seed)
    hive = Hive(simulation, taps=(tape,))
    hive.add(Ping)
    hive.add(Pong)
    hive.start()
    for _ in range(balls):
        hive.send(
            "ping", Message.new(simulation.clock, source="t", resource="default/pod/b", operation="update", content=0)
        )
    simulation.run_for(seconds)
    hive.stop()
    assert simulation.scheduler.alive() == []
    return tape, simulation


def test_ten_thousand_messages_are_byte_identical_for_the_same_seed() -> None:
    """Ids, times, order, depths, waits: every delivery of two runs of a seed is the same to the byte."""
    first, second = played(7)[0], played(7)[0]
    assert len(first.lines) > 10_000
    assert first.lines == second.lines


def test_another_seed_is_another_run() -> None:
    """The order is drawn, so that a hundred seeds try a hundred orders."""
    digests = {played(seed, balls=2, seconds=60.0)[0].digest() for seed in range(5)}
    assert len(digests) == 5


def test_time_is_virtual() -> None:
    """An hour on the virtual clock takes only as long as handling its messages."""
    simulation = played(1, balls=1)[1]
    assert 3600 <= simulation.clock.monotonic() < 3700
    assert simulation.clock.now() == EPOCH + simulation.clock.monotonic()


def test_the_order_of_runnable_threads_is_drawn() -> None:
    """Two actors that are both ready run in either order, by seed."""

    class Noting(Actor):
        def __init__(self, log: Log, name: str) -> None:
            super().__init__()
            self.log, self.name = log, name

        def on_receive(self, message: object) -> None:
            self.log(self.name)

    orders = set()
    for seed in range(20):
        simulation, log = Simulation(seed), Log()
        running = [simulation.start(Noting, log, name) for name in "ab"]
        simulation.run_until_idle()
        for actor in running:
            actor.ref.tell(None)
        simulation.run_until_idle()
        orders.add("".join(log.entries))
        assert all(actor.stop(1) for actor in running)
    assert orders == {"ab", "ba"}


class Asking(Actor):
    """Asks another actor and waits for the answer inside of its handler."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self.log = log

    def on_receive(self, message: "pykka.ActorRef[Asking]") -> None:
        self.log(message.ask(self.actor_ref))


def test_a_deadlock_is_found_immediately() -> None:
    """Two actors that ask each other: nobody can run and no timer is left, so that waiting is an error, not a hang.
    They end with the simulation.
    """
    simulation, log = Simulation(3), Log()
    one, two = simulation.start(Asking, log), simulation.start(Asking, log)
    with pytest.raises(DeadlockError, match="cannot go on"):
        one.ref.ask(two.ref)
    assert log.entries == []
    simulation.close()
    assert not {one.ref, two.ref} & {*pykka.ActorRegistry.get_all()}


def test_waiting_for_what_never_comes_is_an_error() -> None:
    """With a deadline it is a timeout in virtual time, without one a deadlock."""
    simulation = Simulation(1)
    with pytest.raises(pykka.Timeout):
        simulation.future().get(timeout=86400)
    assert simulation.clock.monotonic() == 86400
    with pytest.raises(DeadlockError):
        simulation.future().get()
    with pytest.raises(DeadlockError):
        simulation.queue().get()


def test_a_future_has_any_number_of_readers() -> None:
    """All readers wake; one that gave up earlier does not wake twice."""

    class Reader(Actor):
        def __init__(self, future: pykka.Future[int], log: Log) -> None:
            super().__init__()
            self.future, self.log = future, log

        def on_receive(self, message: float | None) -> None:
            try:
                self.log(self.future.get(timeout=message))
            except pykka.Timeout:
                self.log("timeout")

    simulation, log = Simulation(5), Log()
    future = simulation.future()
    readers = [simulation.start(Reader, future, log) for _ in range(4)]
    for reader, timeout in zip(readers, (None, 10.0, 5.0, 3600.0), strict=True):
        reader.ref.tell(timeout)
    simulation.run_for(7)
    assert log.entries == ["timeout"]
    future.set(42)
    simulation.run_until_idle()
    assert log.entries == ["timeout", 42, 42, 42]
    assert all(reader.stop(1) for reader in readers)


def test_idle_means_that_nothing_can_go_on_without_time() -> None:
    """What is due now is done, what is due later is not."""
    simulation, log = Simulation(1), Log()

    def again() -> None:
        simulation.clock.after(0, lambda: log("now"))

    simulation.clock.after(0, again)
    simulation.clock.after(0.001, lambda: log("later"))
    simulation.run_until_idle()
    assert log.entries == ["now"]
    simulation.run_for(0.001)
    assert log.entries == ["now", "later"]


def test_a_thousand_hives_fit_in_one_process() -> None:
    """A fleet: each is an ordinary object on one simulation, all of them work."""

    class Echo(Module):
        name = "echo"

        @handles()
        def echo(self, message: Message) -> None:
            self.reply(message, message.content)

    simulation = Simulation(1)
    hives = [Hive(simulation) for _ in range(1000)]
    for hive in hives:
        hive.add(Echo)
        hive.start()
    futures = []
    for number, hive in enumerate(hives):
        question = Message.new(simulation.clock, source="t", resource="a/b/c", operation="query", content=number)
        futures.append(hive.request("echo", question, 10))
    assert [future.get().content for future in futures] == list(range(1000))
    for hive in hives:
        hive.stop()
    assert simulation.scheduler.alive() == []
