"""Sandboxes and containers as this server knows them."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from edged.embedded.records import ContainerId, ContainerRecord, Exit, Run, SandboxId, SandboxRecord
from protos.cri.v1 import api_pb2 as cri

if TYPE_CHECKING:
    from edged.embedded.link import ShepherdLink


class Sandbox:
    """A pod: nothing runs for it, it is a name that containers belong to."""

    def __init__(
        self, sandbox_id: SandboxId, directory: Path, request: cri.RunPodSandboxRequest, record: SandboxRecord
    ) -> None:
        self.id = sandbox_id
        self.directory = directory
        self.request = request
        self.record = record

    @property
    def config(self) -> cri.PodSandboxConfig:
        """As the client gave it."""
        return self.request.config

    @property
    def state(self) -> cri.PodSandboxState.ValueType:
        """Ready until it is stopped."""
        return cri.SANDBOX_NOTREADY if self.record.stopped else cri.SANDBOX_READY

    @property
    def reservation(self) -> tuple[str, ...]:
        """What no two sandboxes may share."""
        metadata = self.config.metadata
        return metadata.name, metadata.namespace, metadata.uid, str(metadata.attempt)


class Container:
    """A container and what is known of its process.

    `run` and `exit` only ever change from None, under the watcher's lock; so a reader needs no lock. `lifecycle`
    keeps starting and removing apart. `decided` is set when a start has succeeded or failed, `ended` with `exit`.
    """

    def __init__(
        self, container_id: ContainerId, directory: Path, request: cri.CreateContainerRequest, record: ContainerRecord
    ) -> None:
        self.id = container_id
        self.directory = directory
        self.request = request
        self.record = record
        self.link: ShepherdLink | None = None
        self.run: Run | None = None
        self.exit: Exit | None = None
        self.lifecycle = threading.Lock()
        self.decided = threading.Event()
        self.ended = threading.Event()

    @property
    def sandbox_id(self) -> SandboxId:
        """The sandbox it belongs to."""
        return SandboxId(self.request.pod_sandbox_id)

    @property
    def config(self) -> cri.ContainerConfig:
        """As the client gave it."""
        return self.request.config

    @property
    def state(self) -> cri.ContainerState.ValueType:
        """Follows from what is known of its process."""
        if self.exit is not None:
            return cri.CONTAINER_EXITED
        return cri.CONTAINER_CREATED if self.run is None else cri.CONTAINER_RUNNING

    @property
    def reservation(self) -> tuple[str, ...]:
        """What no two containers may share."""
        return self.sandbox_id, self.config.metadata.name, str(self.config.metadata.attempt)

    @property
    def work(self) -> Path:
        """Its own directory: where it starts when the pod names none, and its HOME."""
        return self.directory / "work"

    @property
    def root(self) -> Path:
        """Where its private root is built, in its own mount namespace; on the host always empty."""
        return self.directory / "root"

    @property
    def log_path(self) -> str:
        """The absolute path of its log; empty when the client wants none."""
        config = self.request.sandbox_config
        if not (config.log_directory and self.config.log_path):
            return ""
        return str(Path(config.log_directory, self.config.log_path))

    def started(self, run: Run) -> None:
        """Its command runs."""
        self.run = run
        self.decided.set()

    def not_started(self) -> None:
        """Whoever should have started it died before; it is as if that had never been asked."""
        self.link = None
        self.decided.set()

    def abandon(self) -> None:
        """Let nobody wait for it any longer: the runtime closes, while the container goes on."""
        self.decided.set()
        self.ended.set()

    def finished(self, exit_: Exit) -> None:
        """It ended, or never ran."""
        self.exit = exit_
        self.decided.set()
        self.ended.set()
