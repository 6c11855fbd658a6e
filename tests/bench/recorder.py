"""Cost of the flight recorder: the rate of the bus with the metrics tap, with the recorder on and off, of messages and
of requests, whose answers are noted, too; and cost of the redaction of secrets in a record.

Rounds with and without the recorder, or its notes, alternate in one process and are compared in pairs, so that other
load on the machine slows down both. `python -m tests.bench.recorder [ROUNDS]` prints the medians.
"""

import gc
import sys
import threading
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import NamedTuple

import msgspec

from beehive import Hive, Message, Module, ModuleName, Operation, ResourceType, Threads, handles
from beehive.exposition import CollectorRegistry
from beehive.metrics import BusMetrics
from beehive.trace.flight_recorder import FlightRecorder
from beehive.trace.redact import Redactor
from beehive.trace.secrets import CAPACITY

MESSAGES = 10_000
"""Messages in one round."""
REQUESTS = 3_000
"""Requests in one round."""
AT_ONCE = 50
"""Requests that wait for their answers at the same time."""


class Cost(NamedTuple):
    """Medians of all rounds."""

    without: float
    """Messages, or requests, a second without the recorder, or its notes."""
    recorded: float
    """The same with it."""
    share: float
    """Median of the pairs' losses, as a share of the rate."""
    spread: float
    """Distance of the quartiles of that share."""


class _Asker(Module):
    name = ModuleName.EDGED

    def __init__(self, left: list[int], done: threading.Event) -> None:
        super().__init__()
        self._left = left
        self._done = done

    @handles(ResourceType.POD, Operation.INSERT)
    def begin(self, _message: Message) -> None:
        """Ask."""
        for _ in range(AT_ONCE):
            self._ask()

    def _ask(self) -> None:
        question = self.message("default/configmap/settings", Operation.QUERY, None)
        self.request(ModuleName.METAMANAGER, question, 60.0, self._answered)

    def _answered(self, _answer: object) -> None:
        self._left[0] -= 1
        if self._left[0] >= AT_ONCE:
            self._ask()
        elif not self._left[0]:
            self._done.set()


class _Answerer(Module):
    name = ModuleName.METAMANAGER

    @handles()
    def answer(self, message: Message) -> None:
        """Answer at once."""
        self.reply(message)


class _Receiver(Module):
    name = ModuleName.EDGED

    def __init__(self, left: list[int], done: threading.Event) -> None:
        super().__init__()
        self._left = left
        self._done = done

    @handles(ResourceType.POD, Operation.INSERT)
    def pod(self, message: Message) -> None:
        """Count."""
        self._left[0] -= 1
        if not self._left[0]:
            self._done.set()


def measure(rounds: int = 40) -> Cost:
    """Run `rounds` pairs of rounds of messages."""
    hive, left, done = _hive(_Receiver)
    recorder = FlightRecorder(hive.clock)
    plain, both = list(hive.taps), [*hive.taps, recorder]

    def switch(*, on: bool) -> None:
        hive.taps = both if on else plain

    return _compared(rounds, hive, recorder, switch, lambda: _round(hive, left, done))


def measure_notes(rounds: int = 40) -> Cost:
    """Run `rounds` pairs of rounds of requests, recorded with and without a note of each answer's turn."""
    hive, left, done = _hive(_Asker, _Answerer)
    recorder = FlightRecorder(hive.clock)
    hive.taps = [*hive.taps, recorder]

    def switch(*, on: bool) -> None:
        hive.watchers = [recorder.add] if on else []

    def ask() -> float:
        left[0] = REQUESTS
        done.clear()
        begin = time.process_time()
        hive.send(ModuleName.EDGED, _pod(hive))
        done.wait(60)
        return REQUESTS / (time.process_time() - begin)

    return _compared(rounds, hive, recorder, switch, ask)


def _hive(first: type[Module], *others: type[Module]) -> tuple[Hive, list[int], threading.Event]:
    """Return a running hive, and what its first module counts down and then sets."""
    left, done = [0], threading.Event()
    hive = Hive(Threads(), taps=(BusMetrics(CollectorRegistry()),))
    hive.add(first, left, done)
    for other in others:
        hive.add(other)
    hive.start()
    return hive, left, done


def _compared(
    rounds: int, hive: Hive, recorder: FlightRecorder, switch: Callable[..., None], run: Callable[[], float]
) -> Cost:
    """Run rounds with and without what is switched, and close everything."""
    rates: tuple[list[float], list[float]] = ([], [])
    try:
        for number in range(2 * rounds + 4):
            is_on = number % 4 in (1, 2)
            switch(on=is_on)
            gc.collect()
            rate = run()
            if number >= 4:
                rates[is_on].append(rate)
    finally:
        recorder.close()
        hive.stop()
        hive.runtime.close()
    shares = [1 - with_it / without for without, with_it in zip(*rates, strict=True)]
    low, _, high = quantiles(shares, n=4)
    return Cost(median(rates[0]), median(rates[1]), median(shares), high - low)


def redaction(values: int = CAPACITY, size: int = 4096, rounds: int = 500) -> float:
    """Return the milliseconds of processor time for a record of `size` bytes without any of `values` secrets."""
    redactor = Redactor()
    for number in range(values):
        redactor.known.learn(f"password {number:06d} of {number * 7919:x}".encode())
    labels = {f"app.kubernetes.io/label-{number}": f"some value {number}" for number in range(size // 40)}
    text = msgspec.json.encode({"kind": "Pod", "metadata": {"name": "web", "labels": labels}})[:size]
    redactor.json(text)
    begin = time.process_time()
    for _ in range(rounds):
        redactor.json(text)
    return (time.process_time() - begin) / rounds * 1000


def _round(hive: Hive, left: list[int], done: threading.Event) -> float:
    left[0] = MESSAGES
    done.clear()
    send = hive.send
    begin = time.process_time()
    for _ in range(MESSAGES):
        send(ModuleName.EDGED, _pod(hive))
    done.wait(60)
    return MESSAGES / (time.process_time() - begin)


def _pod(hive: Hive) -> Message:
    return Message.new(hive.clock, source=ModuleName.EDGEHUB, resource="default/pod/nginx", operation=Operation.INSERT)


def main() -> None:
    """Print the medians."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    cost, notes = measure(rounds), measure_notes(rounds)
    sys.stdout.write(
        f"bus with metrics           {cost.without:>10,.0f} messages/s\n"
        f"… and the flight recorder  {cost.recorded:>10,.0f} messages/s\n"
        f"cost                       {cost.share:>10.2%} (quartiles {cost.spread:.2%} apart)\n"
        f"recorded requests          {notes.without:>10,.0f} requests/s\n"
        f"… and notes of the answers {notes.recorded:>10,.0f} requests/s\n"
        f"cost of a note             {(1 / notes.recorded - 1 / notes.without) * 1e6:>10.2f} µs, {notes.share:.2%} "
        f"(quartiles {notes.spread:.2%} apart)\n"
        f"4 kB redacted, 100 values  {redaction(100) * 1000:>10,.0f} µs\n"
        f"4 kB redacted, {CAPACITY} values {redaction() * 1000:>10,.0f} µs\n"
    )


if __name__ == "__main__":
    main()
