"""ContainerStarter: makes sandboxes, and starts containers in them."""

from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from beehive import Clock
from edged.cri.contract import ContainerId, ContainerRuntime, SandboxId
from edged.cri.errors import AlreadyExistsError, CriError
from edged.events.pods import PodEvents
from edged.node.state import LocalNode
from edged.pod_workers.errors import POD_FAILURES, ContainerStartError
from edged.pod_workers.host_dns import advice, read_host_dns
from edged.pod_workers.image_manager import ImageManager, ImageRequest
from edged.pod_workers.pod_resources import PodResources
from edged.pod_workers.user_namespaces import UserNamespaces
from edged.pods import labels
from edged.pods.actions import ContainerStart, PodActions
from edged.pods.addresses import sort_pod_ips
from edged.pods.config.container_config import ContainerContext, container_config
from edged.pods.config.device_options import DeviceRunContainerOptions
from edged.pods.config.dns import ClusterDns
from edged.pods.config.downward import DownwardView
from edged.pods.config.env import EnvSources, environment, impossible_names
from edged.pods.config.sandbox_config import SandboxContext, runtime_handler, sandbox_config
from edged.pods.config.security import ImageUser
from edged.pods.ephemeral import target_of
from edged.pods.model import PodFacts, PodUid
from edged.pods.paths import PodPaths
from edged.pods.pod_status.status import CREATE_CONFIG_ERROR, CREATE_ERROR, RUN_ERROR
from edged.settings import EdgedSettings
from modules.apimachinery.types import Container, EphemeralContainer, Pod, seconds
from protos.cri.v1 import api_pb2 as cri
from protos.status import StatusCode


class PodSandbox(msgspec.Struct, frozen=True):
    """A sandbox of a pod, with the configuration that its containers are created with."""

    id: SandboxId
    config: cri.PodSandboxConfig
    ips: tuple[str, ...]


class StartContext(msgspec.Struct, frozen=True):
    """The input that the starts of a pod's containers share in one job."""

    sandbox: PodSandbox
    volumes: Mapping[str, Path]
    """Path of each volume on the node, by name."""
    sources: EnvSources
    facts: PodFacts
    """Facts of the pod when the job began."""


class _ConfigurationParts(msgspec.Struct, frozen=True):
    """Parts of a container's configuration."""

    environment: dict[str, str]
    mounts: list[cri.Mount]
    devices: DeviceRunContainerOptions
    target: ContainerId | None


class ContainerStarter:
    """A starter that makes sandboxes, and creates and starts containers in them. Blocks; used by several workers at the
    same time.

    Args:
        settings: edged's.
        clock: the monotonic time, for back-off.
        runtime: the container runtime.
        images: pulls images.
        resources: directories, control groups and devices of pods.
        node: the node's addresses and allocatable resources, which containers may read (`resourceFieldRef`).
        events: records created and started containers.
        service_links: see `Host`.
    """

    def __init__(
        self,
        settings: EdgedSettings,
        clock: Clock,
        runtime: ContainerRuntime,
        images: ImageManager,
        resources: PodResources,
        node: LocalNode,
        events: PodEvents,
        *,
        service_links: Callable[[Pod], Mapping[str, str]] | None = None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._service_links = service_links
        self._runtime = runtime
        self._images = images
        self._resources = resources
        self._node = node
        self._events = events
        self._misconfigured: set[tuple[PodUid, str]] = set()
        """Containers whose configuration failed in the last attempt, by pod and name."""
        self._owner = settings.owner
        self._paths = PodPaths(settings.root, settings.pod_logs)
        self._users = UserNamespaces(self._paths, runtime)

    def ensure_sandbox(self, pod: Pod, facts: PodFacts, actions: PodActions) -> PodSandbox:
        """Return the sandbox to start containers in, made if necessary. Raises CriError, ConfigError, OSError."""
        config = sandbox_config(pod, self._sandbox_context(pod, actions.attempt))
        config.annotations[labels.OWNER] = self._owner
        if actions.sandbox is not None and not actions.create_sandbox:
            ips = facts.sandbox.ips if facts.sandbox is not None else None
            return PodSandbox(SandboxId(actions.sandbox), config, ips or ())
        self._resources.directories.make_log_directory(pod)
        handler = runtime_handler(pod)
        made = self._runtime.run_pod_sandbox(config, handler) if handler else self._runtime.run_pod_sandbox(config)
        sandbox = PodSandbox(made, config, () if pod.spec.host_network else self._ips_of(made))
        self._events.sandbox_made(pod)
        self._report_dns(pod, sandbox)
        return sandbox

    def _report_dns(self, pod: Pod, sandbox: PodSandbox) -> None:
        """Make the event of a pod in which no name resolves, as it has a network of its own and no server there."""
        has_own = any(ip not in self._node.state.addresses for ip in sandbox.ips)
        if not has_own or pod.spec.dns_policy == "None" or sandbox.config.dns_config.servers:
            return
        if unreachable := read_host_dns(self._settings.resolv_conf).unreachable:
            self._events.names_unresolved(pod, advice(unreachable))

    def _ips_of(self, sandbox: SandboxId) -> tuple[str, ...]:
        network = self._runtime.pod_sandbox_status(sandbox).status.network
        return tuple(ip for ip in (network.ip, *(extra.ip for extra in network.additional_ips)) if ip)

    def forget_pod(self, uid: PodUid) -> None:
        """Drop a pod that is removed from the node."""
        self._images.forget_pod(uid)
        self._misconfigured -= {key for key in list(self._misconfigured) if key[0] == uid}

    def start_container(self, pod: Pod, start: ContainerStart, context: StartContext) -> ContainerId:
        """Create a container and start it. Raises StartError."""
        container, sandbox = start.container, context.sandbox
        now = seconds(self._clock.monotonic())
        self._recheck_configuration(pod, start, context)
        image, user = self._images.ensure_image_exists(
            ImageRequest(pod, container, sandbox.config, context.sources, now)
        )
        config = self._config(pod, start, context, image, user)
        made = self._run(pod, container, sandbox, config)
        self._resources.directories.link_log(pod, container.name, start.attempt, made)
        return made

    def _recheck_configuration(self, pod: Pod, start: ContainerStart, context: StartContext) -> None:
        """Check the configuration of a container whose last attempt failed at it (a configmap is missing), before its
        image is requested again: the pull policy Always would send a request to the registry at each attempt. Raises
        StartError.
        """
        if (PodUid(pod.metadata.uid), start.container.name) in self._misconfigured:
            self._configuration_parts(pod, start, context)

    def _configuration_parts(self, pod: Pod, start: ContainerStart, context: StartContext) -> _ConfigurationParts:
        """Return the parts of a container's configuration beside its image. Raises StartError."""
        container, key = start.container, (PodUid(pod.metadata.uid), start.container.name)
        view = DownwardView(
            self.pod_ips(pod, context.sandbox), self._node.state.addresses, self._node.status().allocatable
        )
        try:
            links = {} if self._service_links is None else self._service_links(pod)
            own = environment(pod, container, context.sources, view, links)
            for source, keys in impossible_names(container, context.sources).items():
                self._events.variables_skipped(pod, container.name, source, keys)
            devices = self._resources.devices.run_container_options(pod, container)
            mounts = self._resources.directories.mounts(
                pod, container, start.attempt, context.volumes, own, view.pod_ips,
                has_recursive=self._has_recursive_mounts(pod, container),
            )  # fmt: skip
            target = target_of(container, context.facts) if isinstance(container, EphemeralContainer) else None
        except POD_FAILURES as error:
            self._misconfigured.add(key)
            raise self._start_error(pod, container, CREATE_CONFIG_ERROR, error) from error
        self._misconfigured.discard(key)
        return _ConfigurationParts({**devices.envs, **own}, mounts, devices, target)

    def _has_recursive_mounts(self, pod: Pod, container: Container) -> bool:
        """Return whether the runtime can make the mounts below a volume read-only, too; only where that may be wanted
        it is asked.
        """
        if not any(mount.recursive_read_only for mount in container.volume_mounts):
            return False
        features = {each.name: each.features for each in self._runtime.status().runtime_handlers}
        return features.get(runtime_handler(pod), cri.RuntimeHandlerFeatures()).recursive_read_only_mounts

    def _config(
        self, pod: Pod, start: ContainerStart, context: StartContext, image: str, user: ImageUser
    ) -> cri.ContainerConfig:
        container = start.container
        parts = self._configuration_parts(pod, start, context)
        container_context = ContainerContext(
            image=image,
            attempt=start.attempt,
            environment=parts.environment,
            mounts=parts.mounts,
            machine=self._resources.host,
            image_user=user,
            seccomp_root=PurePosixPath(self._settings.root / "seccomp"),
            seccomp_default=self._settings.seccomp_default,
            devices=parts.devices,
            target=parts.target,
            users=_users_in(context.sandbox.config),
        )
        try:
            return container_config(pod, container, container_context)
        except POD_FAILURES as error:
            raise self._start_error(pod, container, CREATE_CONFIG_ERROR, error) from error

    def _run(self, pod: Pod, container: Container, sandbox: PodSandbox, config: cri.ContainerConfig) -> ContainerId:
        reason = CREATE_ERROR
        try:
            made, is_new = self._create(sandbox, config)
            self._events.created(pod, container.name)
            reason = RUN_ERROR
            try:
                self._runtime.start_container(made)
            except CriError as error:
                if is_new or error.code is not StatusCode.FAILED_PRECONDITION:
                    raise
                # An earlier edgecore created it, and the runtime does not keep what it needs for its start
                self._runtime.remove_container(made)
                made, _ = self._create(sandbox, config)
                self._runtime.start_container(made)
        except CriError as error:
            raise self._start_error(pod, container, reason, error) from error
        self._events.started(pod, container.name)
        return made

    def _start_error(self, pod: Pod, container: Container, reason: str, error: Exception) -> ContainerStartError:
        self._events.failed(pod, container.name, str(error))
        return ContainerStartError(container.name, reason, str(error))

    def _create(self, sandbox: PodSandbox, config: cri.ContainerConfig) -> tuple[ContainerId, bool]:
        """Create a container, or return the existing one of the same name and attempt if it was never started: an
        earlier call took effect although its answer was lost. The flag tells whether it is new. Raises CriError.
        """
        try:
            return self._runtime.create_container(sandbox.id, config, sandbox.config), True
        except AlreadyExistsError:
            twins = self._runtime.list_containers(
                cri.ContainerFilter(pod_sandbox_id=sandbox.id, label_selector=config.labels)
            )
            for twin in twins:
                if twin.metadata == config.metadata and twin.state == cri.CONTAINER_CREATED:
                    return ContainerId(twin.id), False
            raise

    def _sandbox_context(self, pod: Pod, attempt: int) -> SandboxContext:
        settings = self._settings
        dns = read_host_dns(settings.resolv_conf)
        cluster = ClusterDns(settings.cluster_dns, settings.cluster_domain)
        return SandboxContext(
            attempt,
            self._paths,
            host_dns=dns.host if pod.spec.host_network else dns.own,
            cluster_dns=cluster,
            cgroup_parent=self._resources.cgroups.parent(pod),
            machine=self._resources.host,
            users=self._users.of(pod),
        )

    def pod_ips(self, pod: Pod, sandbox: PodSandbox) -> tuple[str, ...]:
        """Return the addresses of a pod, the primary one first."""
        of_node = self._node.state.addresses
        return of_node if pod.spec.host_network else sort_pod_ips(sandbox.ips, of_node[0] if of_node else "")


def _users_in(config: cri.PodSandboxConfig) -> cri.UserNamespace | None:
    """Return the sandbox's own users; None for the machine's."""
    options = config.linux.security_context.namespace_options
    return options.userns_options if options.HasField("userns_options") else None
