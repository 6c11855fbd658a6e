"""Nodes with metamanager and edgehub on real files and sockets and the cloud stub, under load, with a proxy between.

The cloud changes pods all the time; the nodes upload messages that only edgehub's outbox keeps. A module in edged's
place records the pods that it receives.
"""

import queue
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec

from beehive import BeehiveError, Group, Hive, Message, Module, ModuleName, Operation, ResourceType, Threads, handles
from edgehub import EdgeHubSettings, install
from edgehub.outbox.sqlite import open_outbox
from metamanager.client import AsyncMetaClient
from metamanager.module import MetaManager, MetaSettings
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE
from tests.end_to_end.processes import wait_until
from tests.modules.processes.cloudcore.stubs import Stub
from tests.support.control_client import Apply

PODS: Final = 5
TIMEOUT: Final = 120.0
_CHANGE: Final = 0.025
"""Seconds from one version of all pods to the next, for each node: they share this process."""
_SAY: Final = 0.005
"""Seconds from one upload to the next, for each node."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str = "0"
    annotations: dict[str, str] = {}


class _Pod(msgspec.Struct):
    metadata: _Meta


class Edged(Module):
    """Registers the node and records the received versions of pods, in order."""

    name = ModuleName.EDGED
    group = Group.EDGED

    def __init__(self, node: str, seen: dict[str, list[tuple[int, str]]]) -> None:
        super().__init__()
        self._node = node
        self.seen = seen

    def on_start(self) -> None:
        """Register the node; retry until it is registered."""
        self._meta = AsyncMetaClient(self)
        self._register()

    def _register(self) -> None:
        value = msgspec.json.encode({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._node}})
        self._meta.create(ResourceType.NODE, "", self._node, value, then=self._registered)

    def _registered(self, answer: object) -> None:
        if isinstance(answer, Exception) and getattr(answer, "retryable", False):
            self.after(0.2, self._register)

    @handles(ResourceType.POD)
    def pod(self, message: Message) -> None:
        """Record the pod's version. A known version is no change: the cloud sends it again after a lost
        acknowledgement.
        """
        meta = message.content_as(_Pod).metadata
        version, seen = (int(meta.resource_version), meta.annotations.get("n", "")), self.seen[message.route.resource]
        if not seen or seen[-1] != version:
            seen.append(version)

    @handles()
    def other(self, _message: Message) -> None:
        """Ignore connection events and late answers."""


class TaskManager(Module):
    """Replaces the cloud's task manager: receives what nodes report of tasks, and reports each to cloudhub as handled,
    which forwards only a few of a node's messages before that.
    """

    name = ModuleName.TASKMANAGER
    group = Group.TASKMANAGER

    def __init__(self, got: "queue.Queue[Message]") -> None:
        super().__init__()
        self._got = got

    @handles()
    def other(self, _message: Message) -> None:
        """Ignore connection events."""

    @handles(None, Operation.NODE_ACTION_STATUS)
    def take(self, message: Message) -> None:
        """Pass the upload to the test."""
        self._got.put(message)
        node = message.route.resource.split("/")[1]
        self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, {node: 1}))


class Node:
    """One node's process, in a hive."""

    def __init__(self, name: str, port: int, directory: Path, **changes: Any) -> None:
        self.name = name
        self.seen: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self.hive = Hive(Threads())
        hub = EdgeHubSettings(url=f"ws://127.0.0.1:{port}/e632/{name}/events", node=name, message_qps=0.0, **changes)
        clock = self.hive.clock
        self.hive.add(MetaManager, MetaSettings(str(directory / f"{name}.db")))
        self.hive.add(Edged, name, self.seen)
        self.counters = install(
            self.hive, hub, open_outbox=lambda: open_outbox(directory / f"{name}-outbox.db", clock.now())
        )

    def upload(self, number: int) -> str:
        """Send the report of a task, which only the outbox keeps; return its id."""
        message = Message.new(
            self.hive.clock,
            source=ModuleName.EDGED,
            group=Group.RESOURCE,
            resource="task/said",
            operation=Operation.NODE_ACTION_STATUS,
            content=number,
        )
        self.hive.send(ModuleName.EDGEHUB, message)
        return message.id


class Bed:
    """The cloud stub, the proxy and the nodes, with their load."""

    def __init__(self, cloud: Stub, nodes: list[Node], got: "queue.Queue[Message]") -> None:
        self.cloud = cloud
        self.nodes = nodes
        self.sent: dict[str, list[str]] = {node.name: [] for node in nodes}
        self.arrived: dict[str, list[str]] = {node.name: [] for node in nodes}
        """Ids in the order of their arrival, repetitions included."""
        self.versions = 0
        self._got = got
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=run, name=run.__name__) for run in (self._change, self._say, self._listen)
        ]

    def load(self) -> None:
        """Begin to change pods and to send uploads."""
        for thread in self._threads:
            thread.start()

    def wait_for_more_than(self, versions: int) -> None:
        """Wait for another version of the pods; the cloud's disk decides how fast it stores them."""
        wait_until(lambda: self.versions > versions, f"version {versions + 1} of the pods", TIMEOUT)

    def rest(self) -> None:
        """Stop the load, and wait until everything has arrived."""
        self._stop.set()
        for thread in self._threads:
            thread.join(TIMEOUT)
        for node in self.nodes:
            wait_until(lambda node=node: self._has_all(node), f"{node.name} is up to date", TIMEOUT)  # type: ignore[misc]

    def check(self) -> None:
        """Assert that nothing is lost, out of order, or applied twice."""
        for node in self.nodes:
            for key, seen in node.seen.items():
                versions = [version for version, _ in seen]
                assert versions == sorted(set(versions)), f"{node.name}: {key} was applied as {versions}"
                assert seen[-1][1] == str(self.versions), f"{node.name}: {key} is {seen[-1]}, not {self.versions}"
            assert self.sent[node.name], f"{node.name} has said nothing"
            first = list(dict.fromkeys(self.arrived[node.name]))
            assert first == self.sent[node.name], f"{node.name}: what it said has not arrived in its order"
            assert not list(node.hive.dead_letters), f"{node.name}: {list(node.hive.dead_letters)}"

    @property
    def repeated(self) -> int:
        """Return how many messages have arrived more than once."""
        return sum(len(ids) - len(set(ids)) for ids in self.arrived.values())

    def _has_all(self, node: Node) -> bool:
        self._drain()
        latest = {key: seen[-1][1] for key, seen in list(node.seen.items())}
        up = set(self.arrived[node.name]) == set(self.sent[node.name])
        return up and len(latest) == PODS and set(latest.values()) == {str(self.versions)}

    def _change(self) -> None:
        while not self._stop.wait(_CHANGE * len(self.nodes)):
            self.apply()

    def apply(self) -> None:
        """Apply the next version of all pods to the cloud."""
        self.versions += 1
        pods = [_pod(node.name, number, self.versions) for node in self.nodes for number in range(PODS)]
        errors = [item.error for item in self.cloud.client.run(Apply(pods)) if item.error]
        assert not errors, errors

    def _say(self) -> None:
        number = 0
        while not self._stop.wait(_SAY * len(self.nodes)):
            number += 1
            for node in self.nodes:
                try:
                    self.sent[node.name].append(node.upload(number))
                except BeehiveError:
                    return

    def _listen(self) -> None:
        while not self._stop.wait(0.05):
            self._drain()

    def _drain(self) -> None:
        while not self._got.empty():
            message = self._got.get()
            self.arrived[message.route.resource.split("/")[1]].append(message.id)


@contextmanager
def bed(
    directory: Path, stub: Stub, got: "queue.Queue[Message]", port: int, nodes: int, **changes: Any
) -> Iterator[Bed]:
    """Start the cloud and nodes, and wait until the nodes are connected and have their pods."""
    with ExitStack() as stack:
        made = [Node(f"n{number}", port, directory, **changes) for number in range(nodes)]
        whole = Bed(stub, made, got)
        for node in made:
            node.hive.start()
            stack.callback(node.hive.clock.close)
            stack.callback(node.hive.stop)
        whole.apply()
        for node in made:
            wait_until(lambda node=node: len(node.seen) == PODS, f"{node.name} has its pods", TIMEOUT)  # type: ignore[misc]
        yield whole


@contextmanager
def cloud(directory: Path) -> Iterator[tuple[Stub, "queue.Queue[Message]"]]:
    """Start the cloud stub; yield it with the uploads of the nodes."""
    got: queue.Queue[Message] = queue.Queue()

    class Uploads(TaskManager):
        """Takes the arguments of the one that it replaces."""

        def __init__(self, *_arguments: object) -> None:
            super().__init__(got)

    with patch("modules.processes.cloudcore.process.CloudTaskManager", Uploads):
        stub = Stub(directory, node_limit=100, database="")
    with stub:
        yield stub, got


def _pod(node: str, number: int, version: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{node}-{number}",
            "namespace": "default",
            "annotations": {"n": str(version), "padding": "x" * 2000},
        },
        "spec": {"nodeName": node, "containers": [{"name": "app", "image": "busybox:1.36"}]},
    }
