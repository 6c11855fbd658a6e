"""The base of the contract tests: a runtime under test with its abilities, and pods made in few words.

The tests are written once and run over every runtime. Each declares by a `Can` which abilities it needs, and is
skipped, with that as the reason, for a runtime without them.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from edged.cri import ContainerId, SandboxId
from edged.cri.client import CriClient
from protos.cri.v1 import api_pb2 as pb

Seen = TypeVar("Seen")

DEADLINE_SECONDS = 60.0
_POLL_SECONDS = 0.01


class Can(Enum):
    """An ability of some runtimes only; the value is the reason of a skipped test."""

    IMAGES = "has images of its own, and their commands"
    POD_NETWORK = "gives pods an address of their own"
    ISOLATE = "gives containers a root and processes of their own"
    LIMIT = "enforces limits of memory and CPU"
    RESTART = "can be killed and started again by the test"


@dataclass(frozen=True)
class RuntimeUnderTest:
    """A running container runtime; `restart` kills it (containers go on) and starts it again."""

    name: str
    endpoint: str
    image: str
    cgroup_parent: str
    abilities: frozenset[Can]
    restart: Callable[[], None]


@dataclass
class Pod:
    """A sandbox, its config, and where its logs go."""

    id: SandboxId
    config: pb.PodSandboxConfig

    def log(self, name: str = "main") -> Path:
        """The log file of a container."""
        return Path(self.config.log_directory) / f"{name}.log"


@dataclass
class Pods:
    """Makes pods on a runtime and removes them all. Each test has its own, with a label that tells them apart."""

    runtime: RuntimeUnderTest
    client: CriClient
    directory: Path
    test: str
    _made: list[SandboxId] = field(default_factory=list)
    _names: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all pods and containers of this test."""
        return {"test": self.test}

    def config(self, *, attempt: int = 0, host_network: bool = True, name: str = "") -> pb.PodSandboxConfig:
        """The config of another sandbox of this test."""
        name = name or f"{self.test}-{next(self._names)}"
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=attempt),
            log_directory=str(self.directory / name),
            labels=self.labels,
            annotations={"note": "kept as it is"},
            linux=pb.LinuxPodSandboxConfig(cgroup_parent=f"{self.runtime.cgroup_parent}/{name}"),
        )
        if host_network:
            config.linux.security_context.namespace_options.network = pb.NODE
        return config

    def sandbox(self, config: pb.PodSandboxConfig | None = None) -> Pod:
        """A sandbox that runs."""
        config = config or self.config()
        Path(config.log_directory).mkdir(parents=True, exist_ok=True)
        pod = Pod(self.client.run_pod_sandbox(config), config)
        self._made.append(pod.id)
        return pod

    def container_config(self, command: Sequence[str], name: str = "main", attempt: int = 0) -> pb.ContainerConfig:
        """The config of a container of the runtime's test image."""
        return pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=name, attempt=attempt),
            image=pb.ImageSpec(image=self.runtime.image),
            command=command,
            labels=self.labels,
            annotations={"note": "kept as it is"},
            log_path=f"{name}.log",
            linux=pb.LinuxContainerConfig(security_context=pb.LinuxContainerSecurityContext()),
        )

    def create(self, pod: Pod, config: pb.ContainerConfig) -> ContainerId:
        """A container that is created and not started."""
        return self.client.create_container(pod.id, config, pod.config)

    def start(self, pod: Pod, *command: str, name: str = "main") -> ContainerId:
        """A container that was started with this command."""
        container = self.create(pod, self.container_config(command, name))
        self.client.start_container(container)
        return container

    def state(self, container: ContainerId) -> pb.ContainerState.ValueType:
        """The state of a container."""
        return self.client.container_status(container).status.state

    def ended(self, container: ContainerId) -> pb.ContainerStatus:
        """The status of a container once it has ended."""
        return eventually(
            lambda: self.client.container_status(container).status, lambda status: status.state == pb.CONTAINER_EXITED
        )

    def run(self, pod: Pod, *command: str, name: str = "main") -> pb.ContainerStatus:
        """Starts a container with this command and returns its status once it has ended."""
        return self.ended(self.start(pod, *command, name=name))

    def remove_all(self) -> None:
        """Removes all pods of this test."""
        for sandbox in reversed(self._made):
            self.client.stop_pod_sandbox(sandbox)
            self.client.remove_pod_sandbox(sandbox)


def shell(script: str) -> tuple[str, ...]:
    """The command that runs a shell script."""
    return ("sh", "-c", script)


def eventually(observe: Callable[[], Seen], until: Callable[[Seen], bool] = bool) -> Seen:
    """Return the first value of `observe` that satisfies `until`; fail with the last value after the deadline."""
    pause = threading.Event()
    seen = observe()
    for _ in range(int(DEADLINE_SECONDS / _POLL_SECONDS)):
        if until(seen):
            return seen
        pause.wait(_POLL_SECONDS)
        seen = observe()
    raise AssertionError(f"not what was waited for within {DEADLINE_SECONDS} s: {seen!r}")
