"""How fast the bus is, beside the floor it stands on: a bare pykka actor with its stock inbox, in the same run.

Every figure is a median of several rounds, and the rounds of all contenders are interleaved, so that what else the
machine does falls on all of them alike. `python -m tests.bench.bus` prints them.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import pykka
from prometheus_client import CollectorRegistry

from beehive import Hive, Message, Module, ModuleName, Operation, ResourceType, Threads, handles
from beehive.metrics import BusMetrics

ONE_WAY = 20_000
"""Messages of one one-way round."""

REQUESTS = 2_000
"""Requests of one request round."""

_RESOURCE = "default/pod/nginx"


class Figure(NamedTuple):
    """One line of the table."""

    name: str
    per_second: float
    floor: float
    """The bare pykka actor's rate in the same run."""

    @property
    def ratio(self) -> float:
        """How many times the floor."""
        return self.per_second / self.floor


class _Counter:
    """Tells when a number of messages has arrived; touched by the receiving thread alone until then."""

    def __init__(self) -> None:
        self.left = 0
        self.done = threading.Event()

    def expect(self, number: int) -> None:
        self.left = number
        self.done.clear()

    def count(self) -> None:
        self.left -= 1
        if not self.left:
            self.done.set()


class _BareActor(pykka.ThreadingActor):
    """The floor: handles a message and answers a question, without routing."""

    use_daemon_thread = True

    def __init__(self, counter: _Counter) -> None:
        super().__init__()
        self._counter = counter

    def on_receive(self, message: Any) -> Any:
        if message.header.sync:
            return message
        return self._counter.count()


class _Receiver(Module):
    """The same on the bus: one handler for what is sent, one for what is asked."""

    name = ModuleName.EDGED

    def __init__(self, counter: _Counter) -> None:
        super().__init__()
        self._counter = counter

    @handles(ResourceType.POD, Operation.INSERT)
    def pod(self, message: Message) -> None:
        self._counter.count()

    @handles(ResourceType.POD, Operation.QUERY)
    def question(self, message: Message) -> None:
        self.reply(message)


class _Bench:
    """The contenders, started once, and the rounds that each of them runs."""

    def __init__(self) -> None:
        self.runtime = Threads()
        self.counter = _Counter()
        self.bare = _BareActor.start(self.counter)
        self.plain = self._hive(tapped=False)
        self.tapped = self._hive(tapped=True)
        self.sent = self.message(Operation.INSERT)
        self.asked = self.message(Operation.QUERY)

    def message(self, operation: Operation) -> Message:
        """A new message."""
        return Message.new(self.runtime.clock, source=ModuleName.EDGEHUB, resource=_RESOURCE, operation=operation)

    def one_way(self, send: Callable[[Message], Any], *, fresh: bool, number: int) -> float:
        """Messages a second from the first `send` to the last handled."""
        counter, message, make = self.counter, self.sent, self.message
        counter.expect(number)
        begin = time.perf_counter()
        if fresh:
            for _ in range(number):
                send(make(Operation.INSERT))
        else:
            for _ in range(number):
                send(message)
        counter.done.wait(60)
        return number / (time.perf_counter() - begin)

    def requests(self, ask: Callable[[Message], Any], number: int) -> float:
        """Answered requests a second, one after another, each with a message of its own."""
        make = self.message
        begin = time.perf_counter()
        for _ in range(number):
            ask(make(Operation.QUERY))
        return number / (time.perf_counter() - begin)

    def close(self) -> None:
        """Stop everything."""
        self.bare.stop()
        self.plain.stop()
        self.tapped.stop()

    def _hive(self, *, tapped: bool) -> Hive:
        hive = Hive(self.runtime, taps=(BusMetrics(CollectorRegistry()),) if tapped else ())
        hive.add(_Receiver, self.counter)
        hive.start()
        return hive


def measure(rounds: int = 7, one_way: int = ONE_WAY, requests: int = REQUESTS) -> list[Figure]:
    """Run all contenders `rounds` times in turn; the medians, each with its floor."""
    bench = _Bench()
    try:
        table = _contenders(bench, one_way, requests)
        rates: dict[tuple[str, str], list[float]] = {key: [] for key in table}
        for run in table.values():
            run()
        for _ in range(rounds):
            for key, run in table.items():
                gc.collect()
                rates[key].append(run())
    finally:
        bench.close()
    medians = {key: median(values) for key, values in rates.items()}
    return [Figure(f"{row}, {who}", rate, medians[row, "bare pykka"]) for (row, who), rate in medians.items()]


def _contenders(bench: _Bench, number: int, requests: int) -> dict[tuple[str, str], Callable[[], float]]:
    def sender(hive: Hive) -> Callable[[Message], None]:
        return lambda message: hive.send(ModuleName.EDGED, message)

    def asker(hive: Hive) -> Callable[[Message], Any]:
        return lambda message: hive.request(ModuleName.EDGED, message, 30.0).get()

    senders = {"bare pykka": bench.bare.tell, "bus": sender(bench.plain), "bus with metrics": sender(bench.tapped)}
    askers: dict[str, Callable[[Message], Any]] = {
        "bare pykka": lambda message: bench.bare.ask(message.with_header(sync=True)),
        "bus": asker(bench.plain),
        "bus with metrics": asker(bench.tapped),
    }
    table: dict[tuple[str, str], Callable[[], float]] = {}
    for row, fresh in (("one way, one message", False), ("one way, a new message each", True)):
        for who, send in senders.items():
            table[row, who] = lambda send=send, fresh=fresh: bench.one_way(send, fresh=fresh, number=number)  # type: ignore[misc]
    for who, ask in askers.items():
        table["request and answer", who] = lambda ask=ask: bench.requests(ask, requests)  # type: ignore[misc]
    return table


def main() -> None:
    """Print the table."""
    lines = [f"{'':<46}{'per second':>12}{'× bare pykka':>15}"]
    lines += [f"{figure.name:<46}{figure.per_second:>12,.0f}{figure.ratio:>15.2f}" for figure in measure()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
