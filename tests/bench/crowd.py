"""A thousand nodes on one `cloudcore` process: each has a real websocket, all of them in this process.

Each node registers, receives its pods and the configmap that the pods name, acknowledges messages, and sends statuses.
The cloud keeps its state in an SQLite file on the disk, as by default.

    python -m tests.bench.crowd [--cluster | --real | --postgresql CLOUDCORES] [NODES [PODS_OF_A_NODE]]

With `--cluster` the objects are in a cluster: another cloudcore's embedded API server, over HTTPS. `cloudcore` has its
kubeconfig, and people write to the cluster.

With `--postgresql` so many cloudcores share a PostgreSQL, which flushes as by default, and the nodes are spread over
them; processor time and memory are the sums of the cloudcores, and PostgreSQL's is a row of its own.

With `--real` the nodes are as real ones: TLS with a certificate of each, a whole Node and a Lease, and a pod's whole
status of 1.1 kB with all conditions, as fast as it is answered and 100 times a second.

The cost of the nodes is not measured; their process shares the machine with the cloud's.
"""

import argparse
import asyncio
import random
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

import psutil

from beehive.message import Message
from modules.lab.load.joining import contexts_of
from modules.lab.load.stand_in import Address, StandIn
from tests.bench.rows import Goal, Row, Unit
from tests.bench.subject import processor_seconds, resident_megabytes
from tests.end_to_end.processes import Process, wait_until
from tests.end_to_end.test_cluster import CloudOfCluster
from tests.support.control_client import Apply, ControlClient
from tests.support.postgresql import PrivatePostgresql

NODES: Final = 1_000
_APPLYING: Final = 16
"""Clients that apply the pods of nodes in parallel."""
_DIALLING: Final = 512
"""Nodes that dial at a time: this one process must answer for all of them, and send their keepalives in time."""
_REPORTING: Final = 5.0
"""Seconds during which nodes report statuses."""
_RATE: Final = 100
"""Statuses a second at which nearly each has a transaction of its own."""
_STEADY: Final = 15.0
"""Seconds at that rate."""
_SETTINGS: Final = "default/configmap/settings"


class Node(StandIn):
    """A node that notes when each value of the configmap has come."""

    def __init__(
        self, name: str, port: int, pods: int, dialling: asyncio.Semaphore, context: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(name, Address("127.0.0.1", port), pods, dialling, context, is_whole=context is not None)
        self.on_object = self._note
        self.settings: dict[str, float] = {}
        """Monotonic arrival time of each value of the configmap."""
        self.changed = asyncio.Event()

    def _note(self, message: Message) -> None:
        if message.route.resource == _SETTINGS:
            self.settings[message.content_as(dict)["data"]["value"]] = time.monotonic()
            self.changed.set()


class Cloud:
    """`cloudcore run` in a directory.

    Args:
        directory: an empty one.
        nodes: limit of connected nodes.
        tls: whether nodes need certificates.
        database: URL of a database that others share; "" for an SQLite file.
    """

    def __init__(self, directory: Path, nodes: int, *, tls: bool = False, database: str = "") -> None:
        self._directory = directory
        ready, control = directory / "address", directory / "c.sock"
        arguments = ["run", "--listen", "127.0.0.1:0", "--socket", str(control), "--ready-file", str(ready)]
        arguments += ["--node-limit", str(nodes), "--log-level", "warning"]
        arguments += ["--database", database] if database else []
        if tls:
            arguments += ["--tls", "--tls-dir", str(directory / "tls"), "--https-listen", "127.0.0.1:0"]
        self._process = Process("modules.processes.cloudcore", arguments, directory / "log", preloads=())
        wait_until(lambda: ready.exists() or not self._process.runs, "cloudcore is ready")
        assert self._process.runs, self._process.tail()
        self.port, *https = (int(line.rpartition(":")[2]) for line in ready.read_text().splitlines())
        self._https = next(iter(https), 0)
        self.pid = self._process.pid
        self.ports, self.pids = [self.port], [self.pid]
        self._client = ControlClient(control)

    def contexts(self, names: Sequence[str]) -> list[ssl.SSLContext]:
        """TLS contexts of nodes, each with a certificate of its own."""
        return contexts_of(names, f"https://127.0.0.1:{self._https}", self._client.token(3600.0))

    def apply(self, *objects: dict[str, Any]) -> None:
        """Applies manifests."""
        errors = [item.error for item in self._client.run(Apply(list(objects))) if item.error]
        assert not errors, errors[0]

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()


class CloudAtCluster:
    """`cloudcore run --kubeconfig` in a directory, and the cluster to which people write.

    Args:
        directory: an empty one.
        nodes: limit of connected nodes.
    """

    def __init__(self, directory: Path, nodes: int) -> None:
        self._both = CloudOfCluster(directory)
        self._both.options = ["--node-limit", str(nodes), "--log-level", "warning"]
        self._both.start()
        self.port = int(self._both.address.rpartition(":")[2])
        self.ports, self.pids = [self.port], [self._both.core_pid]

    def apply(self, *objects: dict[str, Any]) -> None:
        """Applies manifests, in the cluster."""
        self._both.apply(*objects)

    def kill(self) -> None:
        """SIGKILL of both."""
        self._both.kill()


class CloudsOnPostgresql:
    """Several `cloudcore run` that share a PostgreSQL in a directory.

    Args:
        directory: an empty one.
        nodes: limit of connected nodes.
        count: how many cloudcores.
    """

    def __init__(self, directory: Path, nodes: int, count: int) -> None:
        with ExitStack() as failing:
            self._server = failing.enter_context(PrivatePostgresql(flushes=True))
            self._clouds = []
            for number in range(count):
                own = directory / str(number)
                own.mkdir()
                self._clouds.append(Cloud(own, nodes, database=self._server.url))
                failing.callback(self._clouds[-1].kill)
            self._stack = failing.pop_all()
        self.ports, self.pids = [cloud.port for cloud in self._clouds], [cloud.pid for cloud in self._clouds]

    def apply(self, *objects: dict[str, Any]) -> None:
        """Applies manifests, at one of them."""
        random.choice(self._clouds).apply(*objects)  # noqa: S311 - spreads the load

    def kill(self) -> None:
        """SIGKILL of all, and the end of PostgreSQL."""
        self._stack.close()

    @property
    def database_seconds(self) -> float:
        """Processor time in seconds of PostgreSQL's processes that run; the cloudcores keep theirs."""
        seconds = 0.0
        for pid in self._server.processes():
            with suppress(psutil.NoSuchProcess):  # such as one that has cleaned up
                seconds += processor_seconds(pid)
        return seconds


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


_Clouds = Cloud | CloudAtCluster | CloudsOnPostgresql


def _memory(cloud: _Clouds) -> float:
    return sum(map(resident_megabytes, cloud.pids))


def _seconds_of(cloud: _Clouds) -> float:
    return sum(map(processor_seconds, cloud.pids))


def _seconds_of_postgresql(cloud: _Clouds) -> float:
    return cloud.database_seconds if isinstance(cloud, CloudsOnPostgresql) else 0.0


def measure(
    nodes: int = NODES, pods: int = 1, *, cluster: bool = False, real: bool = False, on_postgresql: int = 0
) -> list[Row]:
    """Measure all rows, with so many pods on each node; takes a minute with one.

    Args:
        nodes: how many.
        pods: on each.
        cluster: whether the objects are in a cluster.
        real: whether the nodes are as real ones.
        on_postgresql: number of cloudcores that share a PostgreSQL; 0: one, with an SQLite file.
    """
    with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as name:
        directory = Path(name)
        cloud: _Clouds
        if on_postgresql:
            cloud = CloudsOnPostgresql(directory, nodes, on_postgresql)
        else:
            cloud = CloudAtCluster(directory, nodes) if cluster else Cloud(directory, nodes, tls=real)
        try:
            return asyncio.run(_measure(cloud, nodes, pods, is_real=real))
        finally:
            cloud.kill()


async def _measure(cloud: _Clouds, count: int, pods: int, *, is_real: bool) -> list[Row]:
    dialling = asyncio.Semaphore(_DIALLING)
    names = [f"n{number}" for number in range(count)]
    contexts: Sequence[ssl.SSLContext | None] = [None] * count
    if is_real and isinstance(cloud, Cloud):
        contexts = await asyncio.to_thread(cloud.contexts, names)
    ports = cycle(cloud.ports)
    crowd = [
        Node(name, port, pods, dialling, context) for name, port, context in zip(names, ports, contexts, strict=False)
    ]
    await _off_loop(cloud.apply, _settings("0"))
    await _off_loop(_apply_pods, cloud, [node.name for node in crowd], pods)
    before, spent, stored = _memory(cloud), _seconds_of(cloud), _seconds_of_postgresql(cloud)
    begin = time.monotonic()
    await asyncio.gather(*(node.join() for node in crowd))
    joined = time.monotonic() - begin
    await asyncio.gather(*(node.has_pods.wait() for node in crowd))
    supplied = time.monotonic() - begin
    spent, stored = _seconds_of(cloud) - spent, _seconds_of_postgresql(cloud) - stored
    after = _memory(cloud)
    rows = [
        Row(f"{count} nodes connect at once: the last is registered", joined, Unit.SECONDS),
        Row(f"… the last has its configmap and its {'pods' if pods > 1 else 'pod'}", supplied, Unit.SECONDS),
        Row("… connections and registrations that were tried again", sum(node.refused for node in crowd), Unit.COUNT),
        Row("… connections that the cloud ended", sum(node.ended for node in crowd), Unit.COUNT),
        Row("… processor time of the cloud in it", spent, Unit.SECONDS),
        *([Row("… and of PostgreSQL", stored, Unit.SECONDS)] if stored else []),
        Row(f"memory of the cloud without nodes (its {count * pods} pods included)", before, Unit.MEGABYTES),
        Row("… with all of them", after, Unit.MEGABYTES),
        Row("… for each node", (after - before) / count * 1000, Unit.KILOBYTES),
        Row("threads of the cloud", sum(map(_threads, cloud.pids)), Unit.COUNT),
    ]
    rows += await _spread(cloud, crowd)
    begin, spent = time.monotonic(), _seconds_of(cloud)
    await asyncio.gather(*(node.report(begin + _REPORTING) for node in crowd))
    took, spent, reported = time.monotonic() - begin, _seconds_of(cloud) - spent, sum(each.reported for each in crowd)
    goals = (Goal(0.5), Goal(1.5)) if is_real else (Goal(0.25), Goal(1.5))
    rows += [
        Row("statuses reported, durable, answered and echoed", reported / took, Unit.PER_SECOND),
        Row("… share of one core", spent / took * 100, Unit.PERCENT),
        Row("… processor time for each", spent / reported * 1000, Unit.MILLISECONDS, goals=goals[:1]),
        *await _steady(cloud, crowd, goals[1]),
    ]
    rows.append(Row("memory of the cloud after that", _memory(cloud), Unit.MEGABYTES))
    for node in crowd:
        await node.leave()
    return rows


async def _steady(cloud: _Clouds, crowd: list[Node], goal: Goal) -> list[Row]:
    """Statuses at a rate that shares no transaction."""
    before, begin = _seconds_of(cloud), time.monotonic()
    reports = []
    for number in range(int(_RATE * _STEADY)):
        await asyncio.sleep(max(0.0, begin + number / _RATE - time.monotonic()))
        reports.append(asyncio.create_task(crowd[number % len(crowd)].report_once()))
    seconds = await asyncio.gather(*reports)
    each = (_seconds_of(cloud) - before) / len(seconds)
    return [
        Row(f"{_RATE} statuses a second: processor time for each", each * 1000, Unit.MILLISECONDS, goals=(goal,)),
        Row("… until the answer, median", median(seconds) * 1000, Unit.MILLISECONDS),
        Row("… the 95th percentile", quantiles(seconds, n=20)[-1] * 1000, Unit.MILLISECONDS),
    ]


def _apply_pods(cloud: _Clouds, nodes: list[str], pods: int) -> None:
    """Applies the pods of all nodes, by several clients at a time: their transactions share waits for the disk."""

    def apply(name: str) -> None:
        cloud.apply(*(_pod(name, number) for number in range(pods)))

    with ThreadPoolExecutor(_APPLYING) as clients:
        list(clients.map(apply, nodes))


async def _spread(cloud: _Clouds, crowd: list[Node]) -> list[Row]:
    """One configmap to all."""
    for node in crowd:
        node.changed.clear()
    begin = time.monotonic()
    await _off_loop(cloud.apply, _settings("1"))
    await asyncio.gather(*(node.changed.wait() for node in crowd))
    arrived = [node.settings["1"] - begin for node in crowd]
    return [
        Row("one configmap has reached half of them", median(arrived), Unit.SECONDS),
        Row("… all of them", max(arrived), Unit.SECONDS),
    ]


async def _off_loop(call: Callable[..., None], *arguments: Any) -> None:
    await asyncio.to_thread(call, *arguments)


def _settings(value: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"value": value}}


def _pod(node: str, number: int) -> dict[str, Any]:
    spec = {
        "nodeName": node,
        "containers": [{"name": "app", "image": "busybox:1.36"}],
        "volumes": [{"name": "v", "configMap": {"name": "settings"}}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{node}-{number}"}, "spec": spec}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="many nodes on one cloudcore")
    of_nodes = parser.add_mutually_exclusive_group()
    of_nodes.add_argument("--cluster", action="store_true", help="the objects are in a cluster")
    of_nodes.add_argument("--real", action="store_true", help="TLS, and whole Nodes and statuses")
    of_nodes.add_argument("--postgresql", type=int, default=0, metavar="CLOUDCORES", help="share a PostgreSQL")
    parser.add_argument("nodes", nargs="?", type=int, default=NODES)
    parser.add_argument("pods", nargs="?", type=int, default=1, help="of a node")
    chosen = parser.parse_args()
    for row in measure(
        chosen.nodes, chosen.pods, cluster=chosen.cluster, real=chosen.real, on_postgresql=chosen.postgresql
    ):
        print(f"{row.what:75} {row.unit.write(row.measurement)}")  # noqa: T201
