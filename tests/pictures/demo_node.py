"""A node with the pods of the demo, for pictures."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from modules.apimachinery.kinds import JsonObject
from modules.processes.common.pod_commands.client import NodeClient
from modules.processes.demo.examples import Example, read_examples
from modules.processes.demo.goals import unmet
from modules.processes.edgecore.config import load
from modules.processes.edgecore.socket_path import socket_path
from modules.processes.edgecore.top.look import NodeSnapshot
from modules.processes.edgecore.top.node_view import SocketView
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import container, pod
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.end_to_end.runtimes import EmbeddedUnderTest
from tests.support.patience import PATIENCE

WAITS: Final = "needs-settings"
"""A pod beside the demo's, without its configmap."""


SHOWN: Final = "hello"
"""The pod whose story is shown."""


class DemoNode:
    """The node, the names of its pods, and what its flight recorder had when all were there."""

    def __init__(self, machine: Machine, examples: list[Example]) -> None:
        self._directory = machine.directory
        self._recorded = machine.directory / "demo.trace"
        goals = {name: goal for example in examples for name, goal in example.expected.items() if name.kind == "Pod"}
        self._goals = {name.name: goal for name, goal in goals.items()}
        self.names = sorted([*self._goals, WAITS])
        self._file = machine.edge.file
        self._view = SocketView(NodeClient(socket_path(load(self._file).config)))
        self._edgecore("trace", "dump", "--config", str(self._file), "-o", str(self._recorded))

    def look(self) -> NodeSnapshot:
        """What `edgecore top --live` gets to see of a moment when it knows the use of processors and each pod is as its
        example says: one that fails again and again runs in between, and a busy node may answer too late.
        """
        seen: list[NodeSnapshot] = []

        def looked() -> bool:
            look = self._view.snapshot()
            if isinstance(look, NodeSnapshot):
                seen.append(look)
            return isinstance(look, NodeSnapshot) and self._is_whole(look)

        wait_until(looked, "the use of processors has been measured twice, and the pods are as their examples say")
        return seen[-1]

    def _is_whole(self, look: NodeSnapshot) -> bool:
        cpu = None if look.usage is None else look.usage.node.cpu
        if cpu is None or cpu.usage_nano_cores is None:
            return False
        pods = {pod["metadata"]["name"]: pod for pod in look.pods}
        waiting = "CreateContainerConfigError" in str(pods.get(WAITS, {}).get("status"))
        return waiting and all(unmet(goal, pods.get(name, {})) == "" for name, goal in self._goals.items())

    def trace_page(self) -> Path:
        """The page of `edgecore trace view` with the story of one pod."""
        page = self._directory / "demo.html"
        self._edgecore("trace", "view", str(self._recorded), "--object", f"pod default/{SHOWN}", "-o", str(page))
        return page

    def _edgecore(self, *words: str) -> None:
        command = [sys.executable, "-m", "modules.processes.edgecore", *words]
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, done.stderr


@contextmanager
def demo_node() -> Iterator[DemoNode]:
    """Start a node with the demo's pods, and wait until each is as its example says."""
    with closing(Machine(EmbeddedUnderTest())) as machine:
        examples = read_examples(REPOSITORY / "examples")
        machine.start()
        machine.cloud.apply(_waiting_pod(), *(obj for example in examples for obj in example.objects))
        goals = [goal for example in examples for goal in example.expected.items()]
        expected = {name: goal for name, goal in goals if name.kind == "Pod"}
        wait_until(
            lambda: all(unmet(goal, machine.edge.pods().get(name.name, {})) == "" for name, goal in expected.items()),
            "the demo's pods are as their examples say",
        )
        yield DemoNode(machine, examples)


def _waiting_pod() -> JsonObject:
    source = {"configMapRef": {"name": "settings"}}
    return pod(WAITS, container(envFrom=[source]))
