"""Speed of metamanager from the decoded frame to the stored row and the acknowledgement.

Messages come one by one, each after the previous acknowledgement, as on a quiet node, and all at once, as after an
outage. The floor is Python's `sqlite3` alone, with equal settings, statement and rows to a transaction, without
messages, module or thread. The results are medians of interleaved measurements in one run.

`python -m tests.bench.store [DIRECTORY]`: the directory decides which disk is measured.
"""

import gc
import sqlite3
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from beehive import Group, Hive, Message, Module, ModuleName, Operation, RealClock, Threads, decode, encode, handles
from metamanager import statements as sql
from metamanager.module import MetaManager, MetaSettings
from metamanager.rows import row_of_message
from metamanager.sqlite_open import PRAGMAS
from metamanager.sqlite_store import SqliteStore

SINGLE = 200
"""Messages in a round one by one."""

BURST = 4000
"""Messages of a round, sent together."""


_CLOCK = RealClock()
_PUT = sql.PUT.format(rows="(:key, :type, :value, :uid, :resource_version, :namespace, :name, :updated)")


class Measurement(NamedTuple):
    """One line of the table."""

    name: str
    per_second: float
    floor: float


class _Hub(Module):
    """Replaces edgehub: counts acknowledgements down and sets `done` at the last."""

    name = ModuleName.EDGEHUB
    group = Group.HUB

    left = 0
    done = threading.Event()

    @handles()
    def take(self, _message: Message) -> None:
        """One more."""
        type(self).count()

    @classmethod
    def count(cls) -> None:
        """Count for the class: the module is an instance of a subclass."""
        _Hub.left -= 1
        if not _Hub.left:
            _Hub.done.set()

    @classmethod
    def expect(cls, number: int) -> None:
        """Set the number of acknowledgements, before the first message is sent."""
        _Hub.left = number
        _Hub.done.clear()


class Edged(Module):
    """Receives the messages of metamanager for edged."""

    name = ModuleName.EDGED
    group = Group.EDGED

    @handles()
    def take(self, _message: Message) -> None:
        """No more."""


class _Bench:
    """The module on a file, and a plain connection on another."""

    def __init__(self, directory: Path) -> None:
        self.hive = Hive(Threads())
        self.hive.add(_Hub)
        self.hive.add(Edged)
        self.hive.add(MetaManager, MetaSettings(str(directory / "module.db")))
        self.hive.start()
        SqliteStore(directory / "floor.db").close()
        self.plain = sqlite3.connect(directory / "floor.db", isolation_level=None)
        for pragma in PRAGMAS:
            self.plain.execute(pragma)
        self._version = 0

    def messages(self, number: int) -> list[Message]:
        """Return newer versions of a hundred pods, decoded from frames as edgehub does."""
        first, self._version = self._version, self._version + number
        return [decode(_frame(index % 100, first + index)) for index in range(number)]

    def one_by_one(self) -> tuple[list[float], list[float]]:
        """Return the seconds of each message until its acknowledgement, and of its row in the floor.

        Both alternate, because an fsync takes from a quarter to several milliseconds under the disk's other load.
        """
        mine: list[float] = []
        floor: list[float] = []
        for message in self.messages(SINGLE):
            _Hub.expect(1)
            begin = time.perf_counter()
            self.hive.send(ModuleName.METAMANAGER, message)
            _Hub.done.wait(10)
            mine.append(time.perf_counter() - begin)
            row = _parameters(message)
            begin = time.perf_counter()
            self._store_plainly([row])
            floor.append(time.perf_counter() - begin)
        return mine, floor

    def at_once(self) -> float:
        """Return the messages a second, from the first message to the last acknowledgement."""
        messages = self.messages(BURST)
        _Hub.expect(BURST)
        begin = time.perf_counter()
        for message in messages:
            self.hive.send(ModuleName.METAMANAGER, message)
        _Hub.done.wait(60)
        return BURST / (time.perf_counter() - begin)

    def floor(self) -> float:
        """Return the rows a second through the plain connection, with metamanager's limit of a transaction."""
        rows = [_parameters(message) for message in self.messages(BURST)]
        batch = MetaManager.batch_limit
        begin = time.perf_counter()
        for start in range(0, BURST, batch):
            self._store_plainly(rows[start : start + batch])
        return BURST / (time.perf_counter() - begin)

    def _store_plainly(self, rows: list[dict[str, Any]]) -> None:
        execute = self.plain.execute
        execute("BEGIN IMMEDIATE")
        for row in rows:
            execute(_PUT, row)
        execute("COMMIT")

    def close(self) -> None:
        """Stop everything."""
        self.hive.stop()
        self.plain.close()


def _parameters(message: Message) -> dict[str, Any]:
    return msgspec.structs.asdict(row_of_message(message, message.content_bytes(), 0))


def _frame(pod: int, version: int) -> bytes:
    """Return the frame of a pod of about 1.7 kB, as a cloud sends it."""
    metadata = {"name": f"pod-{pod}", "namespace": "default", "uid": f"uid-{pod}", "resourceVersion": str(version)}
    container = {"name": "c", "image": "registry.example.org/team/image:1", "command": ["sleep", "1"] * 50}
    content: dict[str, Any] = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata,
                               "spec": {"containers": [container] * 2, "restartPolicy": "Always"}}  # fmt: skip
    return encode(Message.new(
        _CLOCK, source=ModuleName.EDGECONTROLLER, group=Group.RESOURCE, resource=f"default/pod/pod-{pod}",
        operation=Operation.UPDATE, content=content,
    ))  # fmt: skip


def measure(directory: Path, rounds: int = 7) -> list[Measurement]:
    """Run all contenders `rounds` times, interleaved; return the medians, each with its floor."""
    single: tuple[list[float], list[float]] = ([], [])
    burst: tuple[list[float], list[float]] = ([], [])
    with closing(_Bench(directory)) as bench:
        bench.one_by_one()
        bench.at_once()
        for _ in range(rounds):
            gc.collect()
            mine, floor = bench.one_by_one()
            single[0].extend(mine)
            single[1].extend(floor)
            burst[0].append(bench.at_once())
            burst[1].append(bench.floor())
    return [
        Measurement(
            "message to stored row and acknowledgement, one by one", 1 / median(single[0]), 1 / median(single[1])
        ),
        Measurement(f"the same, {BURST} at once", median(burst[0]), median(burst[1])),
    ]


def main() -> None:
    """Print the table."""
    out = sys.stdout.write
    out(f"{'metamanager (medians)':<58}{'a second':>12}{'floor':>12}{'of floor':>10}\n")
    parent = sys.argv[1] if len(sys.argv) > 1 else None
    with TemporaryDirectory(dir=parent) as directory:
        for measurement in measure(Path(directory)):
            share = measurement.per_second / measurement.floor
            out(f"{measurement.name:<58}{measurement.per_second:>12,.0f}{measurement.floor:>12,.0f}{share:>9.0%}\n")
    out("floor: sqlite3 with the same settings, statement and rows to a transaction, in one thread\n")


if __name__ == "__main__":
    main()
