"""Sandboxes and containers in memory, as every runtime inside edgecore has them."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec

from modules.runtimes.engine.records import ContainerId, ContainerRecord, Exit, Run, SandboxId, SandboxRecord
from modules.runtimes.engine.state import RECORD, write_record_soon
from protos.cri.v1 import api_pb2 as cri

POD_UID: Final = "io.kubernetes.pod.uid"
"""The label by which a kubelet asks for the sandboxes and containers of a pod (its pkg/kubelet/types/labels.go)."""


class Sandbox:
    """A pod sandbox: a name that containers belong to, without a process of its own."""

    def __init__(
        self, sandbox_id: SandboxId, directory: Path, request: cri.RunPodSandboxRequest, record: SandboxRecord
    ) -> None:
        self.id = sandbox_id
        self.directory = directory
        self.request = request
        self.record = record
        self._marking = threading.Lock()
        self._was_stopped = False
        self.is_being_made = False
        """Whether `Sandboxes.run` has yet to make it ready or to remove it."""
        self.is_released = False
        """Whether it was stopped by this edgecore, with all its containers, and has no network or namespaces."""

    @property
    def config(self) -> cri.PodSandboxConfig:
        """The configuration in the client's request."""
        return self.request.config

    @property
    def state(self) -> cri.PodSandboxState.ValueType:
        """Ready until it is stopped."""
        return cri.SANDBOX_NOTREADY if self.record.stopped else cri.SANDBOX_READY

    def mark_ready(self, record: SandboxRecord) -> bool:
        """Record that it is set up; return False if it was stopped meanwhile: then it never becomes ready.

        Raises:
            OSError: the record cannot be written.
        """
        with self._marking:
            if not self._was_stopped:
                write_record_soon(self.directory / RECORD, record)
                self.record, self.is_being_made = record, False
            return not self._was_stopped

    def mark_stopped(self) -> bool:
        """Record that none of its containers may start from now on; return whether it was ready before."""
        with self._marking:
            self._was_stopped, was_ready = True, not self.record.stopped
            if was_ready:
                self.record = msgspec.structs.replace(self.record, stopped=True)
                with suppress(OSError):  # a full disk; nothing starts in it as long as this edgecore knows that
                    write_record_soon(self.directory / RECORD, self.record)
            return was_ready

    @property
    def reservation(self) -> tuple[str, ...]:
        """Name, namespace, uid and attempt: unique among sandboxes."""
        metadata = self.config.metadata
        return metadata.name, metadata.namespace, metadata.uid, str(metadata.attempt)

    @property
    def groups(self) -> tuple[str, ...]:
        """What sandboxes are asked for by: the label of their pod."""
        return _pod_of(self.config.labels)


class RuntimeContainer:
    """A container and the state of its process.

    `run` and `exit` change only once, from None, under the watcher's lock; so a reader needs no lock. `lifecycle_lock`
    keeps start and removal apart. `decided` is set when a start has succeeded or failed, `ended` together with `exit`.
    """

    def __init__(
        self, container_id: ContainerId, directory: Path, request: cri.CreateContainerRequest, record: ContainerRecord
    ) -> None:
        self.id = container_id
        self.directory = directory
        self.request = request
        self.record = record
        self.adopted = False
        """Whether an earlier edgecore has created it: then `request` is without what only a start needs."""
        self.run: Run | None = None
        self.exit: Exit | None = None
        self.lifecycle_lock = threading.Lock()
        self.decided = threading.Event()
        self.ended = threading.Event()

    @property
    def sandbox_id(self) -> SandboxId:
        """The sandbox of the container."""
        return SandboxId(self.request.pod_sandbox_id)

    @property
    def config(self) -> cri.ContainerConfig:
        """The configuration in the client's request."""
        return self.request.config

    @property
    def state(self) -> cri.ContainerState.ValueType:
        """CREATED, RUNNING or EXITED, from `run` and `exit`."""
        if self.exit is not None:
            return cri.CONTAINER_EXITED
        return cri.CONTAINER_CREATED if self.run is None else cri.CONTAINER_RUNNING

    @property
    def reservation(self) -> tuple[str, ...]:
        """Sandbox, name and attempt: unique among containers."""
        return self.sandbox_id, self.config.metadata.name, str(self.config.metadata.attempt)

    @property
    def groups(self) -> tuple[str, ...]:
        """What containers are asked for by: their sandbox, and the label of their pod."""
        return tuple({self.sandbox_id, *_pod_of(self.config.labels)})

    @property
    def image_id(self) -> str:
        """The id of its image, the digest of the image's configuration."""
        return self.record.image_id

    @property
    def image_ref(self) -> str:
        """The reference of its image for clients: a name with a digest, if the image has one."""
        return self.record.image_ref

    @property
    def stop_signal(self) -> int:
        """The number of the signal that asks it to end."""
        return self.record.stop_signal

    @property
    def is_starting(self) -> bool:
        """Whether a start was requested whose outcome is not known yet, by this edgecore or an earlier one."""
        return False

    @property
    def user(self) -> cri.ContainerUser | None:
        """The user that its main process starts as; None when the runtime does not choose one."""
        raise NotImplementedError

    @property
    def mounts(self) -> Sequence[cri.Mount]:
        """Its mounts as its status reports them."""
        return self.config.mounts

    @cached_property
    def log_path(self) -> str:
        """The absolute path of its log; empty when the client requests none."""
        config = self.request.sandbox_config
        if not (config.log_directory and self.config.log_path):
            return ""
        return str(Path(config.log_directory, self.config.log_path))

    def started(self, run: Run) -> None:
        """Record that its command runs."""
        self.run = run
        self.decided.set()

    def abandon(self) -> None:
        """Release all threads that wait for it, and what this process holds open: the container goes on."""
        self.decided.set()
        self.ended.set()

    def finished(self, exit_: Exit) -> None:
        """Record that it ended, or could not be started."""
        self.exit = exit_
        self.decided.set()
        self.ended.set()


def _pod_of(labels: Mapping[str, str]) -> tuple[str, ...]:
    return (labels[POD_UID],) if POD_UID in labels else ()
