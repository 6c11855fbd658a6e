"""Speed of the bus beside its floor: a bare pykka actor with its stock inbox, in the same run.

Every measurement is a median of several rounds. The rounds of all contenders are interleaved, so that other load on the
machine slows down all of them. The processor time of a message depends less on other processes than its rate.
`python -m tests.bench.bus` prints both.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import pykka

from beehive import Hive, Message, Module, ModuleName, Operation, ResourceType, Threads, handles
from beehive.exposition import CollectorRegistry
from beehive.metrics import BusMetrics

ONE_WAY = 20_000
"""Messages of one one-way round."""

REQUESTS = 2_000
"""Requests of one request round."""

_RESOURCE = "default/pod/nginx"
_FLOOR = "bare pykka"


class Rate(NamedTuple):
    """Rate of one round, or the median rate of many."""

    per_second: float
    cpu: float
    """Processor time of one message, all threads together, in microseconds."""


class Measurement(NamedTuple):
    """One line of the table."""

    row: str
    contender: str
    rate: Rate
    floor: Rate
    """Rate of the bare pykka actor in the same run."""


class _Counter:
    """Counts messages and sets an event at a number; only the receiving thread counts."""

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
    """The floor: receives messages and answers requests, without a name, a route or a deadline."""

    use_daemon_thread = True

    def __init__(self, counter: _Counter) -> None:
        super().__init__()
        self._counter = counter

    def on_receive(self, message: Message) -> Message | None:
        if message.route.operation == Operation.QUERY:
            return message
        self._counter.count()
        return None


class _Receiver(Module):
    """Module of the bus with one handler for messages and one for requests."""

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
    """Starts the contenders once and runs their rounds."""

    def __init__(self) -> None:
        self.runtime = Threads()
        self.counter = _Counter()
        self.bare = _BareActor.start(self.counter)
        self.plain = self._hive(tapped=False)
        self.tapped = self._hive(tapped=True)
        self.sent = self.message(Operation.INSERT)

    def message(self, operation: Operation) -> Message:
        """A new message."""
        return Message.new(self.runtime.clock, source=ModuleName.EDGEHUB, resource=_RESOURCE, operation=operation)

    def one_way(self, send: Callable[[Message], Any], number: int, *, fresh: bool) -> Rate:
        """Measure from the first `send` to the last handled message."""
        counter, message, make = self.counter, self.sent, self.message
        counter.expect(number)

        def run() -> None:
            for _ in range(number):
                send(make(Operation.INSERT) if fresh else message)
            counter.done.wait(60)

        return _timed(run, number)

    def requests(self, ask: Callable[[Message], Any], number: int) -> Rate:
        """Measure requests one after another, each with a new message."""

        def run() -> None:
            for _ in range(number):
                ask(self.message(Operation.QUERY))

        return _timed(run, number)

    def close(self) -> None:
        """Stop everything."""
        self.bare.stop()
        self.plain.stop()
        self.tapped.stop()
        self.runtime.close()

    def _hive(self, *, tapped: bool) -> Hive:
        hive = Hive(self.runtime, taps=(BusMetrics(CollectorRegistry()),) if tapped else ())
        hive.add(_Receiver, self.counter)
        hive.start()
        return hive


def measure(rounds: int = 9, one_way: int = ONE_WAY, requests: int = REQUESTS) -> list[Measurement]:
    """Run all contenders `rounds` times, interleaved; return the medians, each with its floor."""
    bench = _Bench()
    try:
        table = _contenders(bench, one_way, requests)
        rates: dict[tuple[str, str], list[Rate]] = {key: [] for key in table}
        for run in table.values():
            run()
        for _ in range(rounds):
            for key, run in table.items():
                gc.collect()
                rates[key].append(run())
    finally:
        bench.close()
    medians = {
        key: Rate(median(rate.per_second for rate in each), median(rate.cpu for rate in each))
        for key, each in rates.items()
    }
    return [Measurement(row, who, rate, medians[row, _FLOOR]) for (row, who), rate in medians.items()]


def _timed(run: Callable[[], None], number: int) -> Rate:
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Rate(number / (time.perf_counter() - wall), (time.process_time() - cpu) / number * 1e6)


def _contenders(bench: _Bench, number: int, requests: int) -> dict[tuple[str, str], Callable[[], Rate]]:
    def sender(hive: Hive) -> Callable[[Message], None]:
        return lambda message: hive.send(ModuleName.EDGED, message)

    def asker(hive: Hive) -> Callable[[Message], Any]:
        return lambda message: hive.request(ModuleName.EDGED, message, 30.0).get()

    senders: dict[str, Callable[[Message], Any]] = {
        _FLOOR: bench.bare.tell,
        "bus": sender(bench.plain),
        "bus with metrics": sender(bench.tapped),
    }
    askers: dict[str, Callable[[Message], Any]] = {
        _FLOOR: bench.bare.ask,
        "bus": asker(bench.plain),
        "bus with metrics": asker(bench.tapped),
    }
    table: dict[tuple[str, str], Callable[[], Rate]] = {}
    for who, send in senders.items():
        table["one way, one message", who] = _bound(bench.one_way, send, number, fresh=False)
    for who, send in senders.items():
        table["one way, a new message each", who] = _bound(bench.one_way, send, number, fresh=True)
    for who, ask in askers.items():
        table["request and answer", who] = _bound(bench.requests, ask, requests)
    return table


def _bound(function: Callable[..., Rate], *args: Any, **kwargs: Any) -> Callable[[], Rate]:
    return lambda: function(*args, **kwargs)


def table(measurements: list[Measurement]) -> str:
    """Format the measurements as lines of text, each beside its floor."""
    head = f"{'':<30}{'':<18}{'per second':>12}{'× floor':>9}{'CPU µs':>9}{'× floor':>9}"
    lines = [
        f"{row:<30}{who:<18}{rate.per_second:>12,.0f}{rate.per_second / floor.per_second:>9.2f}"
        f"{rate.cpu:>9.2f}{rate.cpu / floor.cpu:>9.2f}"
        for row, who, rate, floor in measurements
    ]
    return "\n".join([head, *lines])


def main() -> None:
    """Print the table."""
    sys.stdout.write(table(measure()) + "\n")


if __name__ == "__main__":
    main()
