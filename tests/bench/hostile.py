"""Hostile nodes, each with as much as it may write, beside others on one `cloudcore` process in a group of 1 GiB.

A hostile node creates mirror pods until three are refused: half of the nodes large ones, half of them such of many
small values. As many more send nearly as long a message as they may, and never its end. Then the other nodes register
and report statuses, people list all pods, and cloudcore starts again.

    python -m tests.bench.hostile [HOSTILE [OTHERS]]

As root, on a machine with control groups of version 1; elsewhere the memory is measured and not limited.
"""

import argparse
import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from websockets.exceptions import ConnectionClosed

from modules.apimachinery.pods.static import CONFIG_MIRROR
from tests.bench.crowd import Cloud, Node
from tests.bench.rows import Row, Unit
from tests.bench.subject import resident_megabytes
from tests.support.control_client import ControlClient, Get

HOSTILE: Final = 200
OTHERS: Final = 800
_LIMIT: Final = 1 << 30
_REFUSALS: Final = 3
_AT_ONCE: Final = 16
_REPORTING: Final = 10.0
_OVERDOING: Final = 60.0
_HOLDING: Final = 10.0
_GROUPS: Final = Path("/sys/fs/cgroup/memory")
_FRAGMENT: Final = 256 * 1024
_FRAGMENTS: Final = 63
"""Of an unfinished message; a message may have 64."""
_RANDOM: Final = random.Random(7)  # noqa: S311 - the contents of objects


class _Group:
    """A control group with a limit of memory, if there can be one."""

    def __init__(self) -> None:
        self._path = _GROUPS / "edgecore-bench-hostile"

    def __enter__(self) -> "_Group":
        with suppress(OSError):
            self._path.mkdir(exist_ok=True)
            (self._path / "memory.limit_in_bytes").write_text(str(_LIMIT))
        return self

    def __exit__(self, *_error: object) -> None:
        with suppress(OSError):
            self._path.rmdir()

    def add(self, pid: int) -> None:
        """Put a process into the group."""
        with suppress(OSError):
            (self._path / "cgroup.procs").write_text(str(pid))

    def peak(self) -> float:
        """Return the most memory that the group has had, in MB; 0 without a group."""
        with suppress(OSError, ValueError):
            return int((self._path / "memory.max_usage_in_bytes").read_text()) / 1e6
        return 0.0


class HostileNode(Node):
    """Writes as much as it may."""

    async def fill(self, *, many_values: bool) -> int:
        """Create mirror pods until some are refused; return how many were created."""
        created = refused = 0
        size = 1_400_000
        known: dict[str, Any] = (await self.ask(f"null/node/{self.name}", "query", None)).content_as(dict)
        owner = {"apiVersion": "v1", "kind": "Node", "name": self.name, "controller": True}
        owner["uid"] = known["metadata"]["uid"]
        while refused < _REFUSALS:
            name = f"{self.name}-{created}-{refused}"
            mirror = self._mirror(name, size, many_values=many_values)
            mirror["metadata"]["ownerReferences"] = [owner]
            answer = await self.ask(f"default/pod/{name}", "insert", mirror)
            content: dict[str, Any] = answer.content_as(dict)
            if content.get("Err") or content.get("ErrStatus"):
                refused += 1
                size //= 10
            else:
                created += 1
        return created

    def _mirror(self, name: str, size: int, *, many_values: bool) -> dict[str, Any]:
        text = "" if many_values else _RANDOM.randbytes(size // 2).hex()[: size - 1000]
        values = [{"a": [number]} for number in range(size // 80)] if many_values else []
        metadata = {"name": name, "namespace": "default", "annotations": {CONFIG_MIRROR: "x"}}
        spec = {
            "nodeName": self.name,
            "containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": text}]}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"x": values}}


class UnfinishedNode(Node):
    """Sends a message without its end."""

    async def hold(self) -> None:
        """Connect, and send it for as long as the cloud reads."""
        headers = {"node_id": self.name, "project_id": "e632", "ConnectionUse": "msg"}
        self._connection = await self._connect(headers)
        with suppress(ConnectionClosed):
            await self._connection.send(self._endless())

    async def _endless(self) -> AsyncIterator[bytes]:
        for _ in range(_FRAGMENTS):
            yield bytes(_FRAGMENT)
        await asyncio.Event().wait()


def measure(hostile: int = HOSTILE, others: int = OTHERS) -> list[Row]:
    """Measure all rows."""
    with TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parents[2]) as directory, _Group() as group:
        path = Path(directory)
        cloud = Cloud(path, 2 * hostile + others)
        group.add(cloud.pid)
        try:
            rows = asyncio.run(_measure(cloud, path, hostile, others))
        finally:
            cloud.kill()
        begin = time.monotonic()
        (path / "address").unlink()
        again = Cloud(path, 2 * hostile + others)
        group.add(again.pid)
        try:
            rows.append(Row("cloudcore starts again", time.monotonic() - begin, Unit.SECONDS))
            rows.append(Row("… its memory", resident_megabytes(again.pid), Unit.MEGABYTES))
        finally:
            again.kill()
        rows.append(Row("most memory of the group, caches of files included", group.peak(), Unit.MEGABYTES))
        return rows


async def _measure(cloud: Cloud, path: Path, hostile: int, others: int) -> list[Row]:
    dialling = asyncio.Semaphore(_AT_ONCE)
    evil = [HostileNode(f"evil{number}", cloud.port, 0, dialling) for number in range(hostile)]
    before = resident_megabytes(cloud.pid)
    filling = asyncio.Semaphore(_AT_ONCE)

    async def attack(number: int, node: HostileNode) -> int:
        async with filling:
            await node.join()
            return await node.fill(many_values=number % 2 == 1)

    begin = time.monotonic()
    created = await asyncio.gather(*(attack(number, node) for number, node in enumerate(evil)))
    rows = [
        Row("memory of the cloud without nodes", before, Unit.MEGABYTES),
        Row(f"{hostile} hostile nodes have written all they may", time.monotonic() - begin, Unit.SECONDS),
        Row("… mirror pods of one of them", median(created), Unit.COUNT),
        Row("… memory of the cloud", resident_megabytes(cloud.pid), Unit.MEGABYTES),
    ]
    holding = [UnfinishedNode(f"unfinished{number}", cloud.port, 0, dialling) for number in range(hostile)]
    held = [asyncio.create_task(node.hold()) for node in holding]
    await asyncio.sleep(_HOLDING)
    rows.append(Row(f"… with {hostile} unfinished messages of 16 MB", resident_megabytes(cloud.pid), Unit.MEGABYTES))
    crowd = [Node(f"n{number}", cloud.port, 0, dialling) for number in range(others)]
    begin = time.monotonic()
    await asyncio.gather(*(node.join() for node in crowd))
    rows.append(Row(f"{others} other nodes are registered", time.monotonic() - begin, Unit.SECONDS))
    waits: list[float] = []
    ending = time.monotonic() + _REPORTING

    async def renew(node: Node) -> None:
        while time.monotonic() < ending:
            asked = time.monotonic()
            await node.ask(f"kube-node-lease/lease/{node.name}", "query", None)
            waits.append(time.monotonic() - asked)
            await asyncio.sleep(1)

    listing = asyncio.create_task(asyncio.to_thread(ControlClient(path / "c.sock").run, Get("Pod", namespace=None)))
    going_on = asyncio.gather(*(renew(node) for node in crowd), *(_overdo(node) for node in evil))
    listed = await listing
    await going_on
    rows += [
        Row("answers to other nodes while people list all pods: median", median(waits), Unit.SECONDS),
        Row("… longest", max(waits), Unit.SECONDS),
        Row("pods listed", len(listed), Unit.COUNT),
        Row("memory of the cloud after that", resident_megabytes(cloud.pid), Unit.MEGABYTES),
    ]
    for task in held:
        task.cancel()
    for node in (*evil, *crowd):
        await node.leave()
    return rows


async def _overdo(node: HostileNode) -> None:
    """Go on for a while; not all that it asks is answered."""
    with suppress(TimeoutError):
        await asyncio.wait_for(node.fill(many_values=False), _OVERDOING)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hostile", type=int, nargs="?", default=HOSTILE)
    parser.add_argument("others", type=int, nargs="?", default=OTHERS)
    chosen = parser.parse_args()
    for row in measure(chosen.hostile, chosen.others):
        print(f"{row.what:75} {row.unit.write(row.measurement)}")  # noqa: T201
