"""The CRI operations on pod sandboxes: a container of Docker's holds the namespaces, CNI sets up the network, and
edgecore writes the files.
"""

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from modules.runtimes.docker.answers import InspectedContainer
from modules.runtimes.docker.creation import ContainerMaker, remove_container
from modules.runtimes.docker.labels import sandbox_name
from modules.runtimes.docker.model import DockerContainer
from modules.runtimes.docker.pause_image import ensure_pause_image
from modules.runtimes.docker.specs import sandbox_body
from modules.runtimes.engine.errors import NoSuchObjectError, RequestRefusedError, RunFailedError, WrongStateError
from modules.runtimes.engine.events import Announcer
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import PodAddresses, SandboxId
from modules.runtimes.engine.registry import Registry
from modules.runtimes.oci.network.pod_network import NetworkStatus, PodNetwork
from modules.runtimes.oci.network.rule_watch import AttachedSandbox
from modules.runtimes.oci.sandbox_files import write_sandbox_files
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)


class DockerSandboxes:
    """The manager of sandboxes, which makes and removes each: its container in Docker, and its part of the network. Its
    id is the id of the container that holds it.

    Args:
        registry: of all sandboxes.
        announcer: of events.
        maker: makes the containers.
        network: of pods.
    """

    def __init__(
        self, registry: Registry[DockerContainer], announcer: Announcer, maker: ContainerMaker, network: PodNetwork
    ) -> None:
        self._registry = registry
        self._announcer = announcer
        self._maker = maker
        self._docker = maker.docker
        self._network = network

    def network_namespace(self, sandbox: Sandbox) -> Path | None:
        """Return the network namespace of a ready sandbox, None for the machine's. Raises RequestRefusedError."""
        if sandbox.config.linux.security_context.namespace_options.network == cri.NODE:
            return None
        pid = self._holder_pid(sandbox.id)
        if not pid:
            raise WrongStateError(f"enter the network of sandbox {sandbox.id}", "it is not ready")
        return _netns(pid)

    def holders_are(self, running: set[str]) -> None:
        """Note which sandboxes a running container held when Docker was asked; it is asked again about the others."""
        for sandbox in self._registry.sandboxes():
            if sandbox.id not in running and not sandbox.record.stopped and not self._holder_pid(sandbox.id):
                self.holder_ended(sandbox)

    def holder_ended(self, sandbox: Sandbox) -> None:
        """Note that the container that holds a sandbox has ended: somebody has stopped it, or Docker."""
        if sandbox.record.stopped:
            return
        sandbox.mark_stopped()
        _log.warning("sandbox %s was ended from outside", sandbox.id)
        self._announcer.sandbox(cri.CONTAINER_STOPPED_EVENT, sandbox)

    def collect(self, sandboxes: Iterable[Sandbox]) -> None:
        """At the start, release resources of sandboxes that are no longer ready, and addresses of removed ones."""
        alive, ready = set(), {}
        for sandbox in sandboxes:
            alive.add(str(sandbox.id))
            if sandbox.record.stopped:
                try:
                    self.remove(sandbox)
                except (RequestRefusedError, OSError) as error:
                    _log.warning("%s; StopPodSandbox tries again", error)
            else:
                ready[str(sandbox.id)] = AttachedSandbox(sandbox.directory, partial(self._netns, sandbox))
        self._network.collect(alive)
        self._network.watch(ready)

    def network_status(self) -> NetworkStatus:
        """Return whether sandboxes can get a network of their own now."""
        return self._network.status()

    def create(self, request: cri.RunPodSandboxRequest) -> SandboxId:
        """Create the container that holds the sandbox. If it gets no record, the next start removes it."""
        metadata = request.config.metadata
        attempt = f'run the sandbox of pod "{metadata.namespace}/{metadata.name}"'
        name, body = sandbox_name(request.config), sandbox_body(request.config, self._maker.here)
        try:
            return SandboxId(self._maker.create(name, body, attempt))
        except NoSuchObjectError:  # somebody has removed the image, as `docker image prune --all` does
            ensure_pause_image(self._docker)
            return SandboxId(self._maker.create(name, body, attempt))

    def start(self, sandbox: Sandbox) -> PodAddresses:
        """Start the container that holds a sandbox, and attach it to the network.

        Raises RequestRefusedError, OSError.
        """
        attempt = f"start sandbox {sandbox.id}"
        write_sandbox_files(sandbox)
        self._docker.call("POST", f"/containers/{sandbox.id}/start", attempt)
        pid = self._holder_pid(sandbox.id)
        if not pid:
            raise RunFailedError(attempt, "the container that holds it has ended at once", "`docker logs` may say why")
        return self._attach(sandbox, pid)

    def _attach(self, sandbox: Sandbox, pid: int) -> PodAddresses:
        """Attach the sandbox to the network; on the machine's own network it gets no addresses."""
        if sandbox.config.linux.security_context.namespace_options.network == cri.NODE:
            return PodAddresses("")
        return self._network.attach(sandbox.id, sandbox.directory, _netns(pid), sandbox.config)

    def remove(self, sandbox: Sandbox) -> None:
        """Detach the sandbox from the network while its namespace exists, then remove the container that holds it."""
        pid = self._holder_pid(sandbox.id)
        self._network.detach(sandbox.id, sandbox.directory, _netns(pid) if pid else None)
        remove_container(self._docker, sandbox.id)

    def _netns(self, sandbox: Sandbox) -> Path | None:
        """Return the network namespace of a sandbox, None when it has ended."""
        pid = self._holder_pid(sandbox.id)
        return _netns(pid) if pid else None

    def _holder_pid(self, sandbox_id: str) -> int:
        """Return the pid of the process that holds a sandbox, or 0."""
        attempt = f"look at sandbox {sandbox_id}"
        try:
            return self._docker.get(f"/containers/{sandbox_id}/json", InspectedContainer, attempt).state.pid
        except NoSuchObjectError:
            return 0


def _netns(pid: int) -> Path:
    """Return the network namespace of a process."""
    return Path(f"/proc/{pid}/ns/net")
