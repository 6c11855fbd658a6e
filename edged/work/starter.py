"""Makes a pod's sandbox and starts its containers: configuration from `edged.pods`, the runtime's calls from here."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from beehive import Clock
from edged.api import Container, EphemeralContainer, Pod, Quantity, seconds
from edged.cgroups.pods import PodCgroups
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.cri.errors import AlreadyExistsError, CriError
from edged.devices.manager import DeviceManager
from edged.devices.model import Needs
from edged.errors import EdgedError
from edged.events.pods import PodEvents
from edged.pods import labels
from edged.pods.actions import ContainerStart, PodActions
from edged.pods.container_config import ContainerContext, container_config
from edged.pods.dns import ClusterDns, parse_resolv_conf
from edged.pods.downward import DownwardView
from edged.pods.env import Sources, environment, impossible_names
from edged.pods.ephemeral import target_of
from edged.pods.model import PodFacts, PodUid
from edged.pods.paths import PodPaths
from edged.pods.resources import Machine
from edged.pods.sandbox_config import SandboxContext, runtime_handler, sandbox_config
from edged.pods.security import ImageUser
from edged.pods.status import CREATE_CONFIG_ERROR, CREATE_ERROR, RUN_ERROR
from edged.settings import EdgedSettings
from edged.work.errors import ContainerTroubleError
from edged.work.files import PodFiles
from edged.work.images import ImageKeeper, Need
from metamanager.client import CallError
from protos.cri.v1 import api_pb2 as cri

_CONFIG_FAILURES = (EdgedError, CallError, OSError)
"""What may keep a container from being configured."""


class Sandbox(NamedTuple):
    """A pod's sandbox and the configuration that containers in it are made with."""

    id: SandboxId
    config: cri.PodSandboxConfig
    ips: tuple[str, ...]


class StartContext(NamedTuple):
    """What containers of one pod are started with in one job."""

    sandbox: Sandbox
    volumes: Mapping[str, Path]
    """Where each volume is on the node, by name."""
    sources: Sources
    facts: PodFacts
    """What ran when the job began."""


class _Surroundings(NamedTuple):
    environment: dict[str, str]
    mounts: list[cri.Mount]
    devices: Needs
    target: ContainerId | None


class Starter:
    """See the module's docstring.

    Args:
        settings: edged's.
        clock: for back-off.
        runtime: the container runtime.
        files: the pods' directories.
        machine: what resources depend on.
        cgroups: of pods.
        host_ips: the node's addresses now.
        allocatable: what pods may use of the node: a `resourceFieldRef` says so where a container has no limit.
        owner: the mark that sandboxes get.
        events: is told what is made.
        devices: that containers were given.
    """

    def __init__(
        self,
        settings: EdgedSettings,
        clock: Clock,
        runtime: ContainerRuntime,
        *,
        files: PodFiles,
        images: ImageKeeper,
        machine: Machine,
        cgroups: PodCgroups,
        host_ips: Callable[[], tuple[str, ...]],
        allocatable: Callable[[], Mapping[str, Quantity]],
        owner: str,
        events: PodEvents,
        devices: DeviceManager,
    ) -> None:
        self._events = events
        self._devices = devices
        self._settings = settings
        self._clock = clock
        self._runtime = runtime
        self._files = files
        self._images = images
        self._machine = machine
        self._cgroups = cgroups
        self._host_ips = host_ips
        self._lacking: set[tuple[PodUid, str]] = set()
        """Pods and names of containers that lacked something they are made of when they were last tried."""
        self._allocatable = allocatable
        self._owner = owner
        self._paths = PodPaths(settings.root, settings.pod_logs)

    def sandbox(self, pod: Pod, facts: PodFacts, actions: PodActions) -> Sandbox:
        """The sandbox to start containers in; made when there is none. Raises CriError, ConfigError."""
        config = sandbox_config(pod, self._sandbox_context(pod, actions.attempt))
        config.annotations[labels.OWNER] = self._owner
        if actions.sandbox is not None and not actions.create_sandbox:
            ips = facts.sandbox.ips if facts.sandbox is not None else None
            return Sandbox(SandboxId(actions.sandbox), config, ips or ())
        self._files.make_log_directory(pod)
        handler = runtime_handler(pod)
        made = self._runtime.run_pod_sandbox(config, handler) if handler else self._runtime.run_pod_sandbox(config)
        return Sandbox(made, config, () if pod.spec.host_network else self._ips_of(made))

    def _ips_of(self, sandbox: SandboxId) -> tuple[str, ...]:
        network = self._runtime.pod_sandbox_status(sandbox).status.network
        return tuple(ip for ip in (network.ip, *(extra.ip for extra in network.additional_ips)) if ip)

    def forget(self, uid: PodUid) -> None:
        """A pod is gone."""
        self._images.forget(uid)
        self._lacking -= {key for key in list(self._lacking) if key[0] == uid}

    def start(self, pod: Pod, start: ContainerStart, context: StartContext) -> ContainerId:
        """Make a container and start it. Raises StartError."""
        container, sandbox = start.container, context.sandbox
        now = seconds(self._clock.monotonic())
        self._try_again(pod, start, context)
        image, user = self._images.ensure(Need(pod, container, sandbox.config, context.sources, now))
        config = self._config(pod, start, context, image, user)
        return self._run(pod, container, sandbox, config)

    def _try_again(self, pod: Pod, start: ContainerStart, context: StartContext) -> None:
        """Of a container that lacked something when last tried (a configmap): as long as it does, nobody asks for its
        image again. A pull policy of Always would send a request to the registry at each try. Raises StartError.
        """
        if (PodUid(pod.metadata.uid), start.container.name) in self._lacking:
            self._surroundings(pod, start, context)

    def _surroundings(self, pod: Pod, start: ContainerStart, context: StartContext) -> _Surroundings:
        """What a container is made of beside its image. Raises StartError."""
        container, key = start.container, (PodUid(pod.metadata.uid), start.container.name)
        view = DownwardView(self.pod_ips(pod, context.sandbox), self._host_ips(), self._allocatable())
        try:
            own = environment(pod, container, context.sources, view)
            for source, keys in impossible_names(container, context.sources).items():
                self._events.variables_skipped(pod, container.name, source, keys)
            devices = self._devices.prepare(pod, container)
            mounts = self._files.mounts(pod, container, start.attempt, context.volumes, own, view.pod_ips)
            target = target_of(container, context.facts) if isinstance(container, EphemeralContainer) else None
        except _CONFIG_FAILURES as error:
            self._lacking.add(key)
            raise self._trouble(pod, container, CREATE_CONFIG_ERROR, error) from error
        self._lacking.discard(key)
        return _Surroundings({**devices.envs, **own}, mounts, devices, target)

    def _config(
        self, pod: Pod, start: ContainerStart, context: StartContext, image: str, user: ImageUser
    ) -> cri.ContainerConfig:
        container = start.container
        around = self._surroundings(pod, start, context)
        made_of = ContainerContext(
            image=image,
            attempt=start.attempt,
            environment=around.environment,
            mounts=around.mounts,
            machine=self._machine,
            image_user=user,
            seccomp_root=PurePosixPath(self._settings.root / "seccomp"),
            seccomp_default=self._settings.seccomp_default,
            devices=around.devices,
            target=around.target,
        )
        try:
            return container_config(pod, container, made_of)
        except _CONFIG_FAILURES as error:
            raise self._trouble(pod, container, CREATE_CONFIG_ERROR, error) from error

    def _run(self, pod: Pod, container: Container, sandbox: Sandbox, config: cri.ContainerConfig) -> ContainerId:
        try:
            made = self._create(sandbox, config)
        except CriError as error:
            raise self._trouble(pod, container, CREATE_ERROR, error) from error
        self._events.created(pod, container.name)
        try:
            self._runtime.start_container(made)
        except CriError as error:
            raise self._trouble(pod, container, RUN_ERROR, error) from error
        self._events.started(pod, container.name)
        return made

    def _trouble(self, pod: Pod, container: Container, reason: str, error: Exception) -> ContainerTroubleError:
        self._events.failed(pod, container.name, str(error))
        return ContainerTroubleError(container.name, reason, str(error))

    def _create(self, sandbox: Sandbox, config: cri.ContainerConfig) -> ContainerId:
        """Make it; one of the same name and number that was made before and never started is used instead.

        It is there when an earlier call took effect although its answer was lost.
        """
        try:
            return self._runtime.create_container(sandbox.id, config, sandbox.config)
        except AlreadyExistsError:
            twins = self._runtime.list_containers(
                cri.ContainerFilter(pod_sandbox_id=sandbox.id, label_selector=config.labels)
            )
            for twin in twins:
                if twin.metadata == config.metadata and twin.state == cri.CONTAINER_CREATED:
                    return ContainerId(twin.id)
            raise

    def _sandbox_context(self, pod: Pod, attempt: int) -> SandboxContext:
        settings = self._settings
        try:
            host = parse_resolv_conf(settings.resolv_conf.read_text())
        except OSError:
            host = parse_resolv_conf("")
        cluster = ClusterDns(settings.cluster_dns, settings.cluster_domain)
        return SandboxContext(
            attempt,
            self._paths,
            host_dns=host,
            cluster_dns=cluster,
            cgroup_parent=self._cgroups.parent(pod),
            machine=self._machine,
        )

    def pod_ips(self, pod: Pod, sandbox: Sandbox) -> tuple[str, ...]:
        """The addresses of a pod, primary first."""
        return self._host_ips() if pod.spec.host_network else sandbox.ips
