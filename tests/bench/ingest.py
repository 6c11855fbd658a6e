"""Configmap updates a second: from the socket to durable commit and acknowledgement on the socket.

edgehub and metamanager are real, a module replaces edged, and the cloud is a separate process
(`tests.bench.ingest_cloud`). Objects of 1 kB and 100 kB arrive one by one, as at a quiet node, and pipelined, as at a
node after an outage. The floor is Python's `sqlite3` alone: equal settings, statement and rows to a transaction; no
socket, no message, no history. The results are medians of interleaved rounds.

`python -m tests.bench.ingest [DIRECTORY]`: the directory decides which disk is measured; not /tmp, which may be memory.
"""

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

from beehive import Hive, Threads
from edgehub import EdgeHubSettings, install
from metamanager import statements as sql
from metamanager.module import MetaManager, MetaSettings
from metamanager.sqlite_open import PRAGMAS
from metamanager.sqlite_store import SqliteStore
from tests.bench.store import Edged, Measurement

CASES: Final = ((1_000, 200, True), (1_000, 4_000, False), (100_000, 50, True), (100_000, 300, False))
"""Size of the objects in bytes, number in a round, whether one by one."""
_PUT: Final = sql.PUT.format(rows="(:key, :type, :value, :uid, :resource_version, :namespace, :name, :updated)")


class Cloud:
    """The process of the cloud."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.bench.ingest_cloud"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in: IO[str] = self._process.stdin
        self._out: IO[str] = self._process.stdout
        self.port = int(self._out.readline())

    def run(self, number: int, size: int, *, single: bool) -> float:
        """Run a round and return its seconds."""
        self._in.write(f"{number} {size} {int(single)}\n")
        self._in.flush()
        return float(self._out.readline())

    def close(self) -> None:
        """End it."""
        self._in.close()
        self._process.wait(10)
        self._out.close()


@contextlib.contextmanager
def joined(directory: Path) -> Iterator[Cloud]:
    """A node with its cloud."""
    with contextlib.closing(Cloud()) as cloud:
        hive = Hive(Threads())
        hive.add(Edged)
        hive.add(MetaManager, MetaSettings(str(directory / "node.db")))
        url = f"ws://127.0.0.1:{cloud.port}/p/n/events"
        install(hive, EdgeHubSettings(url=url, node="n", message_qps=0, ping_interval=60, read_deadline=120))
        hive.start()
        try:
            yield cloud
        finally:
            hive.stop()
            hive.clock.close()


class Floor:
    """A plain connection to a file with the node's tables."""

    def __init__(self, directory: Path) -> None:
        SqliteStore(directory / "floor.db").close()
        self._connection = sqlite3.connect(directory / "floor.db", isolation_level=None)
        for pragma in PRAGMAS:
            self._connection.execute(pragma)
        self._version = 0

    def run(self, number: int, size: int, *, single: bool) -> float:
        """Write as many rows and return the seconds."""
        rows = [self._row(size) for _ in range(number)]
        batch = 1 if single else MetaManager.batch_limit
        execute = self._connection.execute
        begin = time.perf_counter()
        for start in range(0, number, batch):
            execute("BEGIN IMMEDIATE")
            for row in rows[start : start + batch]:
                execute(_PUT, row)
            execute("COMMIT")
        return time.perf_counter() - begin

    def close(self) -> None:
        """Close it."""
        self._connection.close()

    def _row(self, size: int) -> dict[str, Any]:
        self._version += 1
        name = f"c{self._version % 100}"
        return {"key": f"default/configmap/{name}", "type": "configmap", "value": "x" * size, "uid": f"uid-{name}",
                "resource_version": self._version, "namespace": "default", "name": name, "updated": 1}  # fmt: skip


def measure(directory: Path, rounds: int = 5) -> list[Measurement]:
    """Measure all cases, each beside its floor."""
    with joined(directory) as cloud, contextlib.closing(Floor(directory)) as floor:
        return [_case(cloud, floor, case, rounds) for case in CASES]


def _case(cloud: Cloud, floor: Floor, case: tuple[int, int, bool], rounds: int) -> Measurement:
    size, number, single = case
    mine, theirs = [], []
    cloud.run(number, size, single=single)
    for _ in range(rounds):
        mine.append(cloud.run(number, size, single=single))
        theirs.append(floor.run(number, size, single=single))
    how = "one by one" if single else f"{number:,} at once"
    name = f"configmaps of {size // 1000} kB to acknowledgement, {how}"
    return Measurement(name, number / median(mine), number / median(theirs))


def main() -> None:
    """Print the table."""
    out = sys.stdout.write
    out(f"{'ingest (medians)':<66}{'a second':>12}{'floor':>12}{'of floor':>10}\n")
    with TemporaryDirectory(prefix=".bench-", dir=sys.argv[1] if len(sys.argv) > 1 else ".") as directory:
        for measurement in measure(Path(directory)):
            share = measurement.per_second / measurement.floor
            out(f"{measurement.name:<66}{measurement.per_second:>12,.0f}{measurement.floor:>12,.0f}{share:>9.0%}\n")


if __name__ == "__main__":
    main()
