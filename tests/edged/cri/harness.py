"""A runtime under test, and pods on it made in few words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edged.cri import ContainerId, SandboxId
from edged.cri.contract import ContainerRuntime
from protos.cri.v1 import api_pb2 as pb
from tests.modules.runtimes.process.node import eventually


@dataclass(frozen=True)
class RuntimeUnderTest:
    """A running container runtime; the double has no endpoint."""

    name: str
    endpoint: str
    image: str
    cgroup_parent: str


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
    client: ContainerRuntime
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

    def remove_all(self) -> None:
        """Removes all pods of this test."""
        for sandbox in reversed(self._made):
            self.client.stop_pod_sandbox(sandbox)
            self.client.remove_pod_sandbox(sandbox)
