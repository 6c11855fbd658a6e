"""NodeWatch: inspects the machine and the container runtime for the node's status."""

import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from beehive import Actor
from edged.cri.contract import ContainerRuntime
from edged.cri.errors import CriError
from edged.errors import VolumeError
from edged.node.machine import MachineError, MachineFacts, MachineInfo, default_addresses
from edged.node.status import NodeReport
from edged.pods.config.resources import HostResources
from edged.settings import EdgedSettings
from edged.sync_events import SyncEvents
from modules.apimachinery.types.nodes import ContainerImage, NodeRuntimeHandler, NodeRuntimeHandlerFeatures
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

MOST_NAMES = 5
"""Names of one image in the list (kubelet's MaxNamesPerImageInNodeStatus)."""


class CheckNode(msgspec.Struct, frozen=True):
    """Inspect the machine and the runtime now."""


def largest_images(images: Iterable[cri.Image], most: int) -> tuple[ContainerImage, ...]:
    """Return the largest `most` images (-1: all) with their names, digests first, as a kubelet orders them.

    Images of one size are sorted by name, so that the status changes only when the images do. Images without a name are
    left out.
    """
    named = [(image.size, [*sorted(image.repo_digests), *sorted(image.repo_tags)]) for image in images]
    ordered = sorted(((size, names) for size, names in named if names), key=lambda one: (-one[0], one[1]))
    chosen = ordered if most < 0 else ordered[:most]
    return tuple(ContainerImage(names=tuple(names[:MOST_NAMES]), size_bytes=size) for size, names in chosen)


class NodeWatch(Actor):
    """The actor that inspects the machine and the runtime's status every status period, and reports both.

    Args:
        settings: edged's.
        runtime: the container runtime.
        reports: take each report.
        version: of the agent, as `kubeletVersion`, and as `kubeProxyVersion` where the agent is a proxy of Services.
        machine_info: facts of the machine.
        volumes: returns the attachable volumes that the node uses.
    """

    def __init__(
        self,
        settings: EdgedSettings,
        runtime: ContainerRuntime,
        reports: SyncEvents[NodeReport],
        version: str,
        machine_info: MachineInfo,
        volumes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        super().__init__()
        self._machine_info = machine_info
        self._volumes = volumes
        self._settings = settings
        self._runtime_client = runtime
        self._reports = reports
        self._version = version
        self._machine: MachineFacts | None = None
        self._runtime_version = ""
        self._handlers: tuple[NodeRuntimeHandler, ...] = ()
        """As the runtime has told last."""
        self._version_known = False
        """Whether the runtime's version is known. After a failure it may come back with another one."""

    def on_start(self) -> None:
        """Inspect the machine and the runtime immediately."""
        self.actor_ref.tell(CheckNode())

    def on_receive(self, message: object) -> None:
        """Inspect the machine and the runtime, and again after the status period."""
        if not isinstance(message, CheckNode):
            return
        try:
            self._reports.post(self._inspect())
        except (MachineError, VolumeError) as error:
            _log.warning("%s", error)
        if not self.actor_stopped.is_set():
            self.clock.after(self._settings.status_period, self._inspect_again)

    def _inspect_again(self) -> None:
        if not self.actor_stopped.is_set():
            self.actor_ref.tell(CheckNode())

    def _inspect(self) -> NodeReport:
        settings = self._settings
        runtime_problem, network_problem = self._runtime_problems()
        return NodeReport(
            machine=self._read_machine(),
            node_name=settings.node_name,
            max_pods=settings.max_pods,
            port=settings.server_port,
            agent_version=self._version,
            proxy_version=self._version if settings.has_service_proxy else "",
            runtime_version=self._runtime_version,
            runtime_handlers=self._handlers,
            runtime_problem=runtime_problem,
            network_problem=network_problem,
            reserved=settings.cgroups.reserved(),
            eviction=settings.eviction,
            volumes_in_use=self._volumes(),
            images=self._images(),
        )

    def _images(self) -> tuple[ContainerImage, ...]:
        """Return the images to report; none when the runtime does not answer."""
        most = self._settings.node_status_max_images
        if most == 0:
            return ()
        try:
            return largest_images(self._runtime_client.list_images(), most)
        except CriError as error:
            _log.debug("the node's status is sent without images: %s", error)
            return ()

    def _read_machine(self) -> MachineFacts:
        addresses = (self._settings.node_ip,) if self._settings.node_ip else default_addresses()
        if self._machine is None or self._machine.addresses != addresses:
            self._machine = self._machine_info.machine(self._settings.root, self._settings.node_ip)
        return self._machine

    def _runtime_problems(self) -> tuple[str, str]:
        """Return why the runtime and its network are not ready; empty when they are (kubelet's runtimeState)."""
        try:
            if not self._version_known:
                version = self._runtime_client.version()
                self._runtime_version = f"{version.runtime_name}://{version.runtime_version}"
                self._version_known = True
            status = self._runtime_client.status()
        except CriError as error:
            self._version_known = False
            return f"container runtime is down: {error}", ""
        self._handlers = tuple(map(_runtime_handler, status.runtime_handlers))
        conditions = {c.type: c for c in status.status.conditions}
        return (
            _problem("container runtime not ready", conditions, "RuntimeReady"),
            _problem("container runtime network not ready", conditions, "NetworkReady"),
        )


def _runtime_handler(handler: cri.RuntimeHandler) -> NodeRuntimeHandler:
    features = NodeRuntimeHandlerFeatures(
        recursive_read_only_mounts=handler.features.recursive_read_only_mounts,
        user_namespaces=handler.features.user_namespaces,
    )
    return NodeRuntimeHandler(handler.name, features)


def _problem(what: str, conditions: Mapping[str, cri.RuntimeCondition], name: str) -> str:
    """Return why a condition of the runtime does not hold: a runtime that does not state it is not ready either
    (kubelet's updateRuntimeUp).
    """
    condition = conditions.get(name)
    if condition is None:
        return f"{what}: it does not report {name}"
    return "" if condition.status else f"{what}: {name}=false reason:{condition.reason} message:{condition.message}"


_CAP_SYS_RESOURCE = 1 << 24


def pod_machine(memory: int, *, cpu_quota: bool = True, cpu_quota_period: float = 0.1) -> HostResources:
    """Return the host's resources that containers' resources and security depend on.

    Without CAP_SYS_RESOURCE no container may get a lower oom_score_adj than this process has: the kernel refuses it,
    and the container would not start.

    Args:
        memory: of the machine, in bytes.
        cpu_quota: whether CPU limits are enforced.
        cpu_quota_period: of the CPU quota, in seconds.
    """
    return HostResources(
        memory=memory,
        smallest_oom_adjust=None if _may_lower_oom_score() else _own_oom_score(),
        cfs_quota=cpu_quota,
        cfs_period=round(cpu_quota_period * 1_000_000),
        masked_paths=throttled_processors(),
    )


def throttled_processors(root: Path = Path("/sys/devices/system/cpu")) -> tuple[str, ...]:
    """Return the paths with the throttle counters of processors, which are masked (kubelet's defaultMaskedPaths)."""
    found = root.glob("cpu[0-9]*/thermal_throttle")
    return tuple(map(str, sorted(found, key=lambda path: (len(path.parent.name), path.parent.name))))


def _may_lower_oom_score() -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) & _CAP_SYS_RESOURCE)
    return False


def _own_oom_score() -> int:
    return int(Path("/proc/self/oom_score_adj").read_text())
