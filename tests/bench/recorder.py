"""Cost of the flight recorder: the rate of the bus with the metrics tap, with the recorder on and off; and cost of the
redaction of secrets in a record.

Rounds with and without the recorder alternate in one process and are compared in pairs, so that other load on the
machine slows down both. `python -m tests.bench.recorder [ROUNDS]` prints the medians.
"""

import gc
import sys
import threading
import time
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


class Cost(NamedTuple):
    """Medians of all rounds."""

    without: float
    """Messages a second without the recorder."""
    recorded: float
    """Messages a second with the recorder."""
    share: float
    """Median of the pairs' losses, as a share of the rate."""
    spread: float
    """Distance of the quartiles of that share."""


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
    """Run `rounds` pairs of rounds."""
    runtime = Threads()
    left, done = [0], threading.Event()
    hive = Hive(runtime, taps=(BusMetrics(CollectorRegistry()),))
    hive.add(_Receiver, left, done)
    hive.start()
    recorder = FlightRecorder(runtime.clock)
    plain, both = list(hive.taps), [*hive.taps, recorder]
    rates: tuple[list[float], list[float]] = ([], [])
    try:
        for number in range(2 * rounds + 4):
            recorded = number % 4 in (1, 2)
            hive.taps = both if recorded else plain
            gc.collect()
            rate = _round(hive, left, done)
            if number >= 4:
                rates[recorded].append(rate)
    finally:
        recorder.close()
        hive.stop()
        runtime.close()
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
    clock, send = hive.clock, hive.send
    begin = time.process_time()
    for _ in range(MESSAGES):
        send(
            ModuleName.EDGED,
            Message.new(clock, source=ModuleName.EDGEHUB, resource="default/pod/nginx", operation=Operation.INSERT),
        )
    done.wait(60)
    return MESSAGES / (time.process_time() - begin)


def main() -> None:
    """Print the medians."""
    cost = measure(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    sys.stdout.write(
        f"bus with metrics           {cost.without:>10,.0f} messages/s\n"
        f"… and the flight recorder  {cost.recorded:>10,.0f} messages/s\n"
        f"cost                       {cost.share:>10.2%} (quartiles {cost.spread:.2%} apart)\n"
        f"4 kB redacted, 100 values  {redaction(100) * 1000:>10,.0f} µs\n"
        f"4 kB redacted, {CAPACITY} values {redaction() * 1000:>10,.0f} µs\n"
    )


if __name__ == "__main__":
    main()
