"""A thousand nodes on one `cloudcore` process: each has a real websocket, all of them in this process.

Each node registers, receives its pods and the configmap that the pods name, acknowledges messages, and sends statuses.
The cloud keeps its state in an SQLite file on the disk, as by default.

    python -m tests.bench.crowd [--cluster | --real] [NODES [PODS_OF_A_NODE]]

With `--cluster` the objects are in a cluster: another cloudcore's embedded API server, over HTTPS. `cloudcore` has its
kubeconfig, and people write to the cluster.

With `--real` the nodes are as real ones: TLS with a certificate of each, a whole Node and a Lease, and a pod's whole
status of 1.1 kB with all conditions, as fast as it is answered and 100 times a second.

The cost of the nodes is not measured; their process shares the machine with the cloud's.
"""

import argparse
import asyncio
import http.client
import os
import random
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidMessage

from beehive.clock import RealClock
from beehive.codec import decode, encode
from beehive.message import Message
from modules.cloud.cloudhub.certificates.authority import pem_of_key
from modules.processes.cloudcore.control_client import Apply, ControlClient
from tests.bench.real_node import lease_of, whole_node, whole_patch
from tests.bench.rows import Goal, Row, Unit
from tests.end_to_end.processes import Process, wait_until
from tests.end_to_end.test_cluster import CloudOfCluster
from tests.modules.cloud.cloudhub.certificates.made import csr, new_key

NODES: Final = 1_000
_APPLYING: Final = 16
"""Clients that apply the pods of nodes in parallel."""
_TIMEOUT: Final = 1200.0
_DIALLING: Final = 512
"""Nodes that dial at a time: this one process must answer for all of them, and send their keepalives in time."""
_AGAIN: Final = (1.0, 5.0)
"""Seconds until a node dials again after the cloud has ended its connection, one of too many."""
_UNANSWERED: Final = 60.0
"""Seconds after which a node registers again without an answer, as edged does."""
_REPORTING: Final = 5.0
"""Seconds during which nodes report statuses."""
_RATE: Final = 100
"""Statuses a second at which nearly each has a transaction of its own."""
_STEADY: Final = 15.0
"""Seconds at that rate."""
_CLOCK: Final = RealClock()
_SETTINGS: Final = "default/configmap/settings"


class Node:
    """A node: a websocket with its state."""

    def __init__(
        self, name: str, port: int, pods: int, dialling: asyncio.Semaphore, context: ssl.SSLContext | None = None
    ) -> None:
        self.name = name
        self._dialling = dialling
        self._context = context
        """TLS with the node's certificate, of a real node; None: it sends as little as possible over TCP."""
        self._uid = ""
        """Of its first pod."""
        self._lacks = {f"{name}-{number}" for number in range(pods)}
        """The pods that have not arrived."""
        self._url = f"{'ws' if context is None else 'wss'}://127.0.0.1:{port}/e632/{name}/events"
        self._answers: dict[str, asyncio.Future[Message]] = {}
        self.settings: dict[str, float] = {}
        """Monotonic arrival time of each value of the configmap."""
        self.has_pods = asyncio.Event()
        self.changed = asyncio.Event()
        self.reported = 0
        self.refused = 0
        """Connections that the cloud has ended before they were made, and registrations that it has not answered."""
        self.ended = 0
        """Connections that ended after they were made."""
        self._connection: ClientConnection
        self._tasks: list[asyncio.Task[None]] = []

    async def join(self) -> None:
        """Connects and registers."""
        headers = {"node_id": self.name, "project_id": "e632", "ConnectionUse": "msg"}
        self._connection = await self._connect(headers)
        self._tasks = [asyncio.create_task(self._stay(headers)), asyncio.create_task(self._keep_alive())]
        answer = await self._register()
        assert answer.content_as(dict)["Object"] is not None
        if self._context is not None:
            await self.ask(f"kube-node-lease/lease/{self.name}", "insert", lease_of(self.name))

    async def _register(self) -> Message:
        while True:
            try:
                own = {"metadata": {"name": self.name}} if self._context is None else whole_node(self.name)
                registering = self.ask(f"null/node/{self.name}", "insert", own)
                return await asyncio.wait_for(registering, _UNANSWERED)
            except (TimeoutError, ConnectionClosed):
                self.refused += 1
                await asyncio.sleep(random.uniform(*_AGAIN))  # noqa: S311 - spreads the load

    async def _stay(self, headers: dict[str, str]) -> None:
        """Reads, and connects again when the cloud ends the connection."""
        while True:
            with suppress(ConnectionClosed):
                await self._read()
            self.ended += 1
            self._connection = await self._connect(headers)

    async def _connect(self, headers: dict[str, str]) -> ClientConnection:
        while True:
            try:
                async with self._dialling:
                    return await connect(
                        self._url, additional_headers=headers, compression=None, max_size=None, open_timeout=_TIMEOUT,
                        ping_interval=None, ssl=self._context,
                    )  # fmt: skip
            except (InvalidMessage, OSError):
                self.refused += 1
                await asyncio.sleep(random.uniform(*_AGAIN))  # noqa: S311 - spreads the load

    async def ask(self, resource: str, operation: str, content: Any) -> Message:
        """A request, and its answer."""
        message = self._message(resource, operation, content)
        future = self._answers[message.id] = asyncio.get_running_loop().create_future()
        await self._connection.send(encode(message), text=True)
        answer: Message = await future
        return answer

    async def report(self, until: float) -> None:
        """Reports its pod's status as fast as it is answered."""
        while time.monotonic() < until:
            await self.report_once()

    async def report_once(self) -> float:
        """Reports its pod's status, and returns the seconds until the answer."""
        self.reported += 1
        if self._context is None:
            patch = msgspec.json.encode({"status": {"message": str(self.reported)}}).decode()
        else:
            patch = whole_patch(self._uid, self.reported)
        begin = time.monotonic()
        answer = await self.ask(f"default/podpatch/{self.name}-0", "patch", patch)
        assert answer.content_as(dict)["Object"] is not None
        return time.monotonic() - begin

    async def leave(self) -> None:
        """Ends it."""
        for task in self._tasks:
            task.cancel()
        await self._connection.close()

    async def _read(self) -> None:
        async for frame in self._connection:
            message = decode(frame if isinstance(frame, bytes) else frame.encode())
            waiting = self._answers.pop(message.parent_id, None)
            if waiting is not None:
                if not waiting.done():  # it was not given up
                    waiting.set_result(message)
                continue
            await self._connection.send(encode(message.reply(_CLOCK)), text=True)
            if message.route.resource == _SETTINGS:
                self.settings[message.content_as(dict)["data"]["value"]] = time.monotonic()
                self.changed.set()
            elif "/pod/" in message.route.resource:
                name = message.route.resource.rpartition("/")[2]
                if not self._uid and name == f"{self.name}-0":
                    self._uid = message.content_as(dict)["metadata"]["uid"]
                self._lacks.discard(name)
                if not self._lacks:
                    self.has_pods.set()

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(15)
            with suppress(ConnectionClosed):
                await self._connection.send(encode(self._message("node", "keepalive", "ping")), text=True)

    def _message(self, resource: str, operation: str, content: Any) -> Message:
        return Message.new(
            _CLOCK, source="edged", group="meta", resource=resource, operation=operation, content=content
        )


class Cloud:
    """`cloudcore run` in a directory.

    Args:
        directory: an empty one.
        nodes: limit of connected nodes.
        tls: whether nodes need certificates.
    """

    def __init__(self, directory: Path, nodes: int, *, tls: bool = False) -> None:
        self._directory = directory
        ready, control = directory / "address", directory / "c.sock"
        arguments = ["run", "--listen", "127.0.0.1:0", "--socket", str(control), "--ready-file", str(ready)]
        arguments += ["--node-limit", str(nodes), "--log-level", "warning"]
        if tls:
            arguments += ["--tls", "--tls-dir", str(directory / "tls"), "--https-listen", "127.0.0.1:0"]
        self._process = Process("modules.processes.cloudcore", arguments, directory / "log", preloads=())
        wait_until(lambda: ready.exists() or not self._process.runs, "cloudcore is ready")
        assert self._process.runs, self._process.tail()
        self.port, *https = (int(line.rpartition(":")[2]) for line in ready.read_text().splitlines())
        self._https = next(iter(https), 0)
        self.pid = self._process.pid
        self._client = ControlClient(control)

    def contexts(self, names: Sequence[str]) -> list[ssl.SSLContext]:
        """TLS contexts of nodes, each with a certificate of its own."""
        token = self._client.token(3600.0).partition(".")[2]
        unverified = ssl._create_unverified_context()  # noqa: S323 - to this machine
        authority = ssl.DER_cert_to_PEM_cert(self._get("/ca.crt", unverified))
        return [self._context(name, token, authority) for name in names]

    def _context(self, name: str, token: str, authority: str) -> ssl.SSLContext:
        context, key = ssl.create_default_context(cadata=authority), new_key()
        headers = {"NodeName": name, "Authorization": f"Bearer {token}"}
        certificate = self._get("/edge.crt", context, headers, csr(name, key))
        path = self._directory / f"{name}.pem"
        path.write_text(ssl.DER_cert_to_PEM_cert(certificate) + pem_of_key(key).decode())
        context.load_cert_chain(path)
        return context

    def _get(
        self, path: str, context: ssl.SSLContext, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> bytes:
        connection = http.client.HTTPSConnection("127.0.0.1", self._https, context=context)
        try:
            connection.request("GET", path, body, headers or {})
            answer = connection.getresponse()
            content = answer.read()
            assert answer.status == HTTPStatus.OK, content
            return content
        finally:
            connection.close()

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
        self.pid = self._both.core_pid

    def apply(self, *objects: dict[str, Any]) -> None:
        """Applies manifests, in the cluster."""
        self._both.apply(*objects)

    def kill(self) -> None:
        """SIGKILL of both."""
        self._both.kill()


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024 / 1e6


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def _seconds(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(nodes: int = NODES, pods: int = 1, *, cluster: bool = False, real: bool = False) -> list[Row]:
    """Measure all rows, with so many pods on each node; takes a minute with one.

    Args:
        nodes: how many.
        pods: on each.
        cluster: whether the objects are in a cluster.
        real: whether the nodes are as real ones.
    """
    with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as name:
        directory = Path(name)
        cloud = CloudAtCluster(directory, nodes) if cluster else Cloud(directory, nodes, tls=real)
        try:
            return asyncio.run(_measure(cloud, nodes, pods, is_real=real))
        finally:
            cloud.kill()


async def _measure(cloud: Cloud | CloudAtCluster, count: int, pods: int, *, is_real: bool) -> list[Row]:
    dialling = asyncio.Semaphore(_DIALLING)
    names = [f"n{number}" for number in range(count)]
    contexts: Sequence[ssl.SSLContext | None] = [None] * count
    if is_real and isinstance(cloud, Cloud):
        contexts = await asyncio.to_thread(cloud.contexts, names)
    crowd = [Node(name, cloud.port, pods, dialling, context) for name, context in zip(names, contexts, strict=True)]
    await _off_loop(cloud.apply, _settings("0"))
    await _off_loop(_apply_pods, cloud, [node.name for node in crowd], pods)
    before, spent = memory_of(cloud.pid), _seconds(cloud.pid)
    begin = time.monotonic()
    await asyncio.gather(*(node.join() for node in crowd))
    joined = time.monotonic() - begin
    await asyncio.gather(*(node.has_pods.wait() for node in crowd))
    supplied = time.monotonic() - begin
    spent = _seconds(cloud.pid) - spent
    after = memory_of(cloud.pid)
    rows = [
        Row(f"{count} nodes connect at once: the last is registered", joined, Unit.SECONDS),
        Row(f"… the last has its configmap and its {'pods' if pods > 1 else 'pod'}", supplied, Unit.SECONDS),
        Row("… connections and registrations that were tried again", sum(node.refused for node in crowd), Unit.COUNT),
        Row("… connections that the cloud ended", sum(node.ended for node in crowd), Unit.COUNT),
        Row("… processor time of the cloud in it", spent, Unit.SECONDS),
        Row(f"memory of the cloud without nodes (its {count * pods} pods included)", before, Unit.MEGABYTES),
        Row("… with all of them", after, Unit.MEGABYTES),
        Row("… for each node", (after - before) / count * 1000, Unit.KILOBYTES),
        Row("threads of the cloud", _threads(cloud.pid), Unit.COUNT),
    ]
    rows += await _spread(cloud, crowd)
    begin, spent = time.monotonic(), _seconds(cloud.pid)
    await asyncio.gather(*(node.report(begin + _REPORTING) for node in crowd))
    took, spent, reported = time.monotonic() - begin, _seconds(cloud.pid) - spent, sum(each.reported for each in crowd)
    goals = (Goal(0.5), Goal(1.5)) if is_real else (Goal(0.25), Goal(1.5))
    rows += [
        Row("statuses reported, durable, answered and echoed", reported / took, Unit.PER_SECOND),
        Row("… share of one core", spent / took * 100, Unit.PERCENT),
        Row("… processor time for each", spent / reported * 1000, Unit.MILLISECONDS, goals=goals[:1]),
        *await _steady(cloud, crowd, goals[1]),
    ]
    rows.append(Row("memory of the cloud after that", memory_of(cloud.pid), Unit.MEGABYTES))
    for node in crowd:
        await node.leave()
    return rows


async def _steady(cloud: Cloud | CloudAtCluster, crowd: list[Node], goal: Goal) -> list[Row]:
    """Statuses at a rate that shares no transaction."""
    before, begin = _seconds(cloud.pid), time.monotonic()
    reports = []
    for number in range(int(_RATE * _STEADY)):
        await asyncio.sleep(max(0.0, begin + number / _RATE - time.monotonic()))
        reports.append(asyncio.create_task(crowd[number % len(crowd)].report_once()))
    seconds = await asyncio.gather(*reports)
    each = (_seconds(cloud.pid) - before) / len(seconds)
    return [
        Row(f"{_RATE} statuses a second: processor time for each", each * 1000, Unit.MILLISECONDS, goals=(goal,)),
        Row("… until the answer, median", median(seconds) * 1000, Unit.MILLISECONDS),
        Row("… the 95th percentile", quantiles(seconds, n=20)[-1] * 1000, Unit.MILLISECONDS),
    ]


def _apply_pods(cloud: Cloud | CloudAtCluster, nodes: list[str], pods: int) -> None:
    """Applies the pods of all nodes, by several clients at a time: their transactions share waits for the disk."""

    def apply(name: str) -> None:
        cloud.apply(*(_pod(name, number) for number in range(pods)))

    with ThreadPoolExecutor(_APPLYING) as clients:
        list(clients.map(apply, nodes))


async def _spread(cloud: Cloud | CloudAtCluster, crowd: list[Node]) -> list[Row]:
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
    parser.add_argument("nodes", nargs="?", type=int, default=NODES)
    parser.add_argument("pods", nargs="?", type=int, default=1, help="of a node")
    chosen = parser.parse_args()
    for row in measure(chosen.nodes, chosen.pods, cluster=chosen.cluster, real=chosen.real):
        print(f"{row.what:75} {row.unit.write(row.measurement)}")  # noqa: T201
