"""The CRI operations on containers of Docker's."""

from contextlib import suppress
from pathlib import Path

from beehive.files.durable import make_directories
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.errors import NoSuchObjectError, RequestRefusedError
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.records import ContainerId
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.state import StateDirectory
from modules.runtimes.docker.creation import ContainerMaker, remove_container
from modules.runtimes.docker.errors import ConflictError
from modules.runtimes.docker.images import DockerImages
from modules.runtimes.docker.labels import container_name
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.processes import DockerProcesses
from modules.runtimes.docker.specs import DockerImageDefaults, check, container_body, limits
from modules.runtimes.docker.user_files import refuse_numbers_as_names
from modules.runtimes.oci.isolated_containers import IsolatedContainers
from modules.runtimes.oci.isolated_model import IsolatedRecord, reference_of
from modules.runtimes.oci.sandbox_files import sandbox_files
from modules.runtimes.oci.spec import stop_signal
from modules.runtimes.oci.spec.resources import check_resources
from protos.cri.v1 import api_pb2 as cri

_NO_SHM = Path("/dev/shm")  # noqa: S108 - Docker has the sandbox's


class DockerContainers(IsolatedContainers[DockerContainer]):
    """Creates, starts, stops and removes containers, changes their limits and reopens their logs."""

    subdirectories = ()
    keeps_requests = True

    def __init__(
        self,
        state: StateDirectory,
        registry: Registry[Sandbox, DockerContainer],
        processes: DockerProcesses,
        images: DockerImages,
        announcer: Announcer,
        maker: ContainerMaker,
    ) -> None:
        super().__init__(state, registry, processes.start, announcer, maker.clock)
        self._images = images
        self._maker = maker
        self._docker = maker.docker

    def _plan(self, request: cri.CreateContainerRequest) -> DockerContainer:
        sandbox = self._registry.sandbox(request.pod_sandbox_id)
        request.sandbox_config.CopyFrom(sandbox.config)
        attempt = f'create container "{request.config.metadata.name}"'
        image = self._images.find(request.config.image.image, attempt)
        defaults = DockerImageDefaults(image.config)
        check(request, defaults, self._maker.here)
        for mount in request.config.mounts:
            if not Path(mount.host_path).exists():
                make_directories(Path(mount.host_path))  # as containerd does for a hostPath without a type
        record = IsolatedRecord(
            self._clock.now_ns(),
            image.id,
            reference_of(image.id, image.repo_digests),
            stop_signal(request.config, defaults),
        )
        files = sandbox_files(sandbox.directory, _NO_SHM)
        body = container_body(request, image.id, files, self._maker.here)
        container_id = ContainerId(self._maker.create(container_name(request), body, attempt))
        security, image_user = request.config.linux.security_context, image.config.user if image.config else ""
        try:
            refuse_numbers_as_names(self._docker, container_id, security, image_user, attempt)
        except RequestRefusedError:
            remove_container(self._docker, container_id)
            raise
        return DockerContainer(container_id, self._state.containers / container_id, request, record)

    def _not_made(self, container: DockerContainer) -> None:
        with suppress(RequestRefusedError):  # the next start removes containers without a record
            remove_container(self._docker, container.id)

    def _signal(self, container: DockerContainer, number: int) -> None:
        with suppress(NoSuchObjectError, ConflictError):  # it is just ending
            query = {"signal": str(number)}
            self._docker.call("POST", f"/containers/{container.id}/kill", f"stop container {container.id}", query)

    def _change_limits(self, container: DockerContainer, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        check_resources(attempt, wanted, self._maker.here.machine)
        body = limits(wanted, self._maker.here.machine)
        self._docker.call("POST", f"/containers/{container.id}/update", attempt, body=body)

    def _reopen(self, container: DockerContainer, attempt: str) -> None:  # noqa: ARG002 - conmon's needs it
        container.log.reopen()

    def _release(self, container: DockerContainer) -> None:
        remove_container(self._docker, container.id)
        container.log.close()
