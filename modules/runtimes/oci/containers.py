"""The CRI operations on containers of the OCI runtime."""

import errno
from pathlib import Path
from typing import Final

from beehive.clock import Clock
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.errors import RunFailedError, WrongStateError
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.state import StateDirectory
from modules.runtimes.oci.bundles import Bundles
from modules.runtimes.oci.driver.conmon import PERSIST, reopen_log
from modules.runtimes.oci.driver.runtime_command import CommandFailedError
from modules.runtimes.oci.isolated_containers import IsolatedContainers
from modules.runtimes.oci.isolated_model import reference_of
from modules.runtimes.oci.model import OciContainer, OciContainerRecord
from modules.runtimes.oci.processes import ContainerProcesses
from modules.runtimes.oci.spec import stop_signal
from protos.cri.v1 import api_pb2 as cri

_REOPEN_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.002


class OciContainers(IsolatedContainers[OciContainer]):
    """Creates, starts, stops and removes containers, changes their limits and reopens their logs."""

    subdirectories = (PERSIST,)

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry[Sandbox, OciContainer],
        processes: ContainerProcesses,
        bundles: Bundles,
        announcer: Announcer,
        clock: Clock,
    ) -> None:
        super().__init__(state, registry, processes.start, announcer, clock)
        self._processes = processes
        self._bundles = bundles

    def _plan(self, request: cri.CreateContainerRequest) -> OciContainer:
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        request.sandbox_config.CopyFrom(sandbox.config)
        image, volumes = self._bundles.check(request)
        record = OciContainerRecord(
            self._clock.now_ns(),
            image.id,
            reference_of(image.id, image.repo_digests),
            stop_signal(request.config, image.config),
            volumes,
        )
        container_id = self._new_id()
        container = OciContainer(container_id, self._state.containers / container_id, request, record)
        self._bundles.hold(container)
        return container

    def _not_made(self, container: OciContainer) -> None:
        self._bundles.forget(container)

    def _signal(self, container: OciContainer, number: int) -> None:
        if container.first_process is not None:
            container.first_process.send(number)

    def _release(self, container: OciContainer) -> None:
        self._processes.release(container)

    def _change_limits(self, container: OciContainer, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        if container.state != cri.CONTAINER_RUNNING:
            self._bundles.check_limits(container, wanted, attempt)
            return
        try:
            self._processes.update(container, self._bundles.with_limits(container, wanted))
        except CommandFailedError as error:
            raise RunFailedError(attempt, str(error)) from error

    def _reopen(self, container: OciContainer, attempt: str) -> None:
        try:
            reopen_log(container.directory)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                raise WrongStateError(attempt, "it is just ending") from error
            if error.errno == errno.EAGAIN:
                raise RunFailedError(attempt, "conmon does not read its commands") from error
            raise
        self._await_log(container, attempt)

    def _await_log(self, container: OciContainer, attempt: str) -> None:
        """Wait until conmon, which does not answer, has made the new file."""
        deadline = self._clock.monotonic() + _REOPEN_SECONDS
        while not Path(container.log_path).exists():
            if container.ended.wait(_LOOK_SECONDS):
                raise WrongStateError(attempt, "it is just ending")
            if self._clock.monotonic() > deadline:
                raise RunFailedError(attempt, "conmon does not make the new file")
