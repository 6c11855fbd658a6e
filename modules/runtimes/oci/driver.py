"""The driver whose containers crun or runc isolates, under conmon.

ROOT/lock, sandboxes/, containers/, damaged/    see `engine.state`
ROOT/images/                                    see `oci.images`
ROOT/namespaces/                                a mount of its own: namespaces of sandboxes, and their /dev/shm
ROOT/programs/                                  crun on a read-only mount
ROOT/runtime/                                   a mount, too: what ends with the boot, see `oci.boot_directory`
"""

import json
import logging
import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from beehive.clock import Clock
from beehive.on_failure import on_failure
from edged.cgroups.opening import machine_hierarchies
from modules.runtimes.engine.driver import Driver, EngineParts, Method, OnEnd, WatchingMethod
from modules.runtimes.engine.errors import RunFailedError, StateDirectoryError
from modules.runtimes.engine.model import Sandbox
from modules.runtimes.engine.records import ContainerId, ContainerRecord, PodAddresses, reference_of
from modules.runtimes.engine.state import OWNER_ONLY, StateDirectory
from modules.runtimes.oci.apparmor import load_default_profile
from modules.runtimes.oci.archives import ImageArchives
from modules.runtimes.oci.boot_directory import BootDirectory
from modules.runtimes.oci.bundles import Bundles, Places, holds_of, read_config
from modules.runtimes.oci.crun.conmon import PERSIST, Conmon, conmon_pid
from modules.runtimes.oci.crun.group_moves import GroupMoves
from modules.runtimes.oci.crun.launching import Launcher, must_hide_unified
from modules.runtimes.oci.crun.read_only_program import ReadOnlyProgram
from modules.runtimes.oci.crun.runtime_command import CommandFailedError, RuntimeCommand
from modules.runtimes.oci.execution import Executor
from modules.runtimes.oci.image_service import image_methods
from modules.runtimes.oci.images import DECLARED, ImageStore, RootFilesystems
from modules.runtimes.oci.leftovers import settle_network_processes, unmount_unknown
from modules.runtimes.oci.mapped_roots import MappedRoots, remove_top
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.network.attachment import verbose_network_status
from modules.runtimes.oci.network.namespaces import PodNamespaces
from modules.runtimes.oci.network.pod_network import PodNetwork
from modules.runtimes.oci.processes import ContainerProcesses
from modules.runtimes.oci.programs import Programs
from modules.runtimes.oci.sandbox_files import MOUNTED, paths_of
from modules.runtimes.oci.sandbox_resources import SandboxResources
from modules.runtimes.oci.seccomp_programs import SeccompPrograms
from modules.runtimes.oci.spec import Machine, check_sandbox, stop_signal
from modules.runtimes.oci.stats import UsageMeter
from modules.runtimes.oci.streams import ContainerStreams
from modules.runtimes.streaming import StreamingServer
from protos.cri.v1 import api_pb2 as cri

if TYPE_CHECKING:
    from modules.runtimes.oci.metrics import MetricsCollector

_log = logging.getLogger(__name__)

_BULKY: Final = ("rootfs", "rootfs.new", "upper", "work", "bundle", "persist", "commands", "volumes", DECLARED)
"""Parts of a container's directory that are removed when it is set aside."""
_LIMITED: Final = ("cpu", "memory", "pids")
_NAMESPACES: Final = "namespaces"
IMAGES: Final = "images"
"""The images' directory, in the state directory."""


class OciSettings(msgspec.Struct, frozen=True):
    """The settings that differ between machines."""

    programs: Programs
    network: PodNetwork
    registries: Path
    """containerd's `certs.d` directory."""
    archives: Path
    """Archives of images that are imported at the start."""
    systemd_cgroups: bool = False
    keep_blobs: bool = False
    """Whether layers are kept as they came, for exports."""
    rootless: bool = False
    """Whether edgecore is in the namespaces of an ordinary user."""

    def lock(self, root: Path, clock: Clock) -> StateDirectory:  # noqa: ARG002 - as other kinds
        """Lock the state directory. Raises StateDirectoryError when it, or this machine, cannot be used."""
        if os.geteuid() != 0:
            raise StateDirectoryError("start the OCI runtime", "it takes root, or the namespaces of a user's node")
        return StateDirectory(root, _BULKY, OWNER_ONLY)

    def driver(self, parts: EngineParts[OciContainer]) -> "OciDriver":
        """Return a new driver. Raises ContainerRuntimeError, OSError."""
        return OciDriver(parts, self)


class OciDriver(Driver[OciContainer]):
    """The driver of containers by crun, or runc; sandboxes are namespaces, a network and files, without a process."""

    runtime_name = "edgecore-oci"
    container_type = OciContainer
    why_not = {  # noqa: RUF012
        "CheckpointContainer": "Debian's crun has no CRIU",
        "": "this runtime does not have it yet",
    }
    subdirectories = (PERSIST,)

    def __init__(self, parts: EngineParts[OciContainer], settings: OciSettings) -> None:
        super().__init__(parts)
        clock, registry, root, programs = parts.clock, parts.registry, parts.state.root, settings.programs
        self.systemd_cgroups = settings.systemd_cgroups
        with ExitStack() as closing:
            closing.callback(settings.network.close)
            self._machine = Machine.read(
                systemd_cgroups=settings.systemd_cgroups, has_crun=programs.is_crun, rootless=settings.rootless
            )
            self._apparmor = load_default_profile(self._machine.apparmor_profiles)
            self._images = ImageStore(root / IMAGES, clock, settings.registries, keep_blobs=settings.keep_blobs)
            self._archives = ImageArchives(settings.archives, self._images)
            self._roots = RootFilesystems(self._images, MOUNTED)
            if unlimited := [each for each in _LIMITED if not self._machine.can_limit(each)]:
                why = "`edgecore doctor` says why; a unit has to be one of `edgecore unit --user`"
                _log.info("limits of %s are not enforced: %s", ", ".join(unlimited), why)
            if settings.rootless and not self._roots.has_overlays:
                reason = f'overlays do not work in "{root}"'
                hint = "take a directory on a local disk, such as ext4, and Linux 5.11 or later"
                raise StateDirectoryError("start the OCI runtime without root", reason, hint)
            self._namespaces = PodNamespaces(root / _NAMESPACES)
            self._boot = BootDirectory(root)
            self._parent = str(programs.conmon)
            moves = GroupMoves()
            closing.callback(moves.close)
            launcher = Launcher(hides_unified=programs.is_crun and must_hide_unified(), moves=moves)
            self._program = ReadOnlyProgram(programs.runtime, root)
            self._runtime = RuntimeCommand(
                launcher,
                programs.runtime,
                self._boot.states,
                systemd=settings.systemd_cgroups,
                mounted=self._program if programs.is_crun else None,
                has_groups=self._machine.has_groups,
                groups=[each.mount for each in machine_hierarchies()],
            )
            self._mapped = MappedRoots(root)
            filters = SeccompPrograms(self._boot.states)
            places = Places(self._roots, self._mapped, self._boot)
            self._bundles = Bundles(registry, self._images, places, self._namespaces, self._machine, filters)
            conmon = Conmon(launcher, programs.conmon, self._runtime)
            self._processes = ContainerProcesses(self._runtime, conmon, self._bundles, parts)
            self._resources = SandboxResources(self._namespaces, settings.network)
            self._executor = Executor(launcher, self._runtime, clock)
            streams = ContainerStreams(launcher, self._runtime, registry, self._namespaces)
            self.streaming = self._streaming = StreamingServer(streams, clock)
            closing.callback(self._streaming.stop)
            sandboxes = parts.state.sandboxes
            self._stats = UsageMeter(self._roots, lambda each: paths_of(sandboxes / each.sandbox_id), clock)
            self._measured: MetricsCollector | None = None
            self._closing = closing.pop_all()

    def begin(self) -> None:
        """Wait for the programs that an earlier edgecore has left running."""
        self._runtime.await_others()
        self._program.remove(but_current=True)
        settle_network_processes((self._state.root / _NAMESPACES).resolve())

    def adopt(self, container: OciContainer, *, rebooted: bool) -> None:
        """Find its state from its records, its conmon and crun's."""
        self._processes.adopt(container, rebooted=rebooted)

    def end_unknown(self, directory: Path) -> bool:
        """Kill the processes of a container without readable records; return whether all have ended."""
        return self._processes.end_unknown(directory)

    def collect(self) -> None:
        """Remove states, mounts, images and networks that belong to nothing."""
        containers = self._registry.containers()
        known = {str(container.id) for container in containers}
        for directory in self._boot.states.iterdir():
            if directory.name not in known:
                try:
                    self._runtime.delete(directory.name)
                except CommandFailedError as error:
                    _log.warning("what is left of container %s cannot be removed: %s", directory.name, error)
        unmount_unknown(self._state.containers, known)
        self._mapped.keep_only(known)
        self._boot.keep_only(known)
        self._images.keep_only({name: image for each in containers for name, image in holds_of(each).items()})
        self._resources.collect(self._registry.sandboxes())
        self._archives.refresh()

    def purge(self) -> None:
        """Remove the mounts of this runtime."""
        self._namespaces.remove()
        self._program.remove()
        self._boot.remove()
        remove_top()

    def close(self) -> None:
        """End streams, and release the resources of the network and of launched programs."""
        self._closing.close()

    def check_sandbox(self, request: cri.RunPodSandboxRequest) -> None:
        """Refuse a sandbox that this machine cannot have."""
        check_sandbox(request, self._machine)

    def run_sandbox(self, sandbox: Sandbox) -> PodAddresses:
        """Make its namespaces, network and files."""
        return self._resources.make(sandbox)

    def stop_sandbox(self, sandbox: Sandbox) -> None:
        """Detach it from the network and remove its namespaces."""
        self._resources.release(sandbox)

    def create(self, request: cri.CreateContainerRequest, sandbox: Sandbox) -> OciContainer:  # noqa: ARG002
        """Check the request and hold the image; nothing is mounted yet."""
        image, volumes = self._bundles.check(request)
        record = ContainerRecord(
            self._clock.now_ns(),
            image.id,
            reference_of(image.id, image.repo_digests),
            stop_signal(request.config, image.config),
            volumes,
        )
        container_id = ContainerId(self._new_id())
        container = OciContainer(container_id, self._state.containers / container_id, request, record)
        with on_failure(lambda: self._bundles.forget(container)):
            self._bundles.hold(container)
            self._bundles.check_images(container)
        return container

    def abort_create(self, container: OciContainer) -> None:
        """Let go of its image."""
        self._bundles.forget(container)

    def start(self, container: OciContainer) -> None:
        """Mount its root file system, and start it under conmon."""
        self._processes.start(container)

    def signal(self, container: OciContainer, number: int) -> None:
        """Send a signal to its first process."""
        if container.first_process is not None:
            container.first_process.send(number)

    def await_notice(self, container: OciContainer, number: int, seconds: float) -> None:
        """Wait until its first process executes its program, and has a handler for the signal."""
        if container.first_process is not None:
            container.first_process.await_notice(number, container.ended, seconds)

    def update(self, container: OciContainer, wanted: cri.LinuxContainerResources, attempt: str) -> None:
        """Change its control groups."""
        if container.state != cri.CONTAINER_RUNNING:
            self._bundles.check_limits(container, wanted, attempt)
            return
        limits = self._bundles.with_limits(container, wanted)
        try:
            self._runtime.update(container.id, limits)
        except CommandFailedError as error:
            raise RunFailedError(attempt, str(error)) from error
        self._bundles.keep_limits(container, limits)

    def reopen_log(self, container: OciContainer, attempt: str) -> None:
        """Let its conmon reopen the log."""
        self._processes.reopen_log(container, attempt)

    def remove(self, container: OciContainer) -> None:
        """Remove its mounts and crun's state."""
        self._processes.remove(container)

    def exec_sync(self, container: OciContainer, request: cri.ExecSyncRequest, on_end: OnEnd) -> cri.ExecSyncResponse:
        """Run a command by crun."""
        return self._executor.execute(container, request, on_end)

    def stats(self, containers: Sequence[OciContainer]) -> list[cri.ContainerStats]:
        """Measure containers by their control groups."""
        return [self._stats.of_container(each) for each in containers]

    def pod_stats(self, sandboxes: Sequence[Sandbox]) -> list[cri.PodSandboxStats]:
        """Measure pods by the control groups of their containers."""
        return [self._stats.of_pod(each, self._registry.containers(each.id)) for each in sandboxes]

    def status(self) -> cri.StatusResponse:
        """Return whether pods can have a network of their own now."""
        conditions = [
            cri.RuntimeCondition(type="RuntimeReady", status=True),
            self._resources.network_status().condition,
        ]
        features = cri.RuntimeHandlerFeatures(
            recursive_read_only_mounts=True, user_namespaces=self._machine.user_namespaces
        )
        return cri.StatusResponse(
            status=cri.RuntimeStatus(conditions=conditions),
            runtime_handlers=[cri.RuntimeHandler(name="", features=features)],
            features=cri.RuntimeFeatures(supplemental_groups_policy=True),
        )

    def info(self) -> dict[str, str]:
        """Return the programs and profiles in use."""
        profile = self._apparmor
        programs = {"path": str(self._runtime.program), "parent": self._parent}
        return {
            "isolation": "containers",
            "rootfs": "overlay" if self._roots.has_overlays else "copy",
            "runtime": json.dumps(programs),
            "apparmor": json.dumps({"default": profile.name or "unconfined", "reason": profile.reason}),
            "pulls": self._images.pulls.described(),
        }

    def sandbox_details(self, sandbox: Sandbox) -> dict[str, Any]:
        """Return its namespaces and the result of its CNI plug-ins."""
        pinned = self._namespaces.pinned(sandbox.id)
        kinds = ("network", "ipc", "uts", "user")
        return verbose_network_status(
            sandbox.directory, dict(zip(kinds, pinned, strict=True)) if pinned is not None else {}
        )

    def container_details(self, container: OciContainer) -> dict[str, Any]:
        """Return its OCI specification, and where its files and its conmon are."""
        try:
            specification: dict[str, Any] | None = read_config(container.directory)
        except (OSError, msgspec.MsgspecError):  # it was not started yet
            specification = None
        is_running = container.run is not None and container.exit is None
        return {
            "runtimeType": str(self._runtime.program),
            "snapshotter": "overlayfs" if self._roots.has_overlays else "copy",
            "conmonPid": (conmon_pid(container.directory) or 0) if is_running else 0,
            "runtimeSpec": specification,
        }

    def metrics(self) -> dict[str, Method]:
        """Return the methods for CRI's metrics."""
        return {
            "ListMetricDescriptors": _list_metric_descriptors,
            "ListPodSandboxMetrics": self._list_metrics,
        }

    def _list_metrics(self, _: cri.ListPodSandboxMetricsRequest) -> cri.ListPodSandboxMetricsResponse:
        if self._measured is None:
            from modules.runtimes.oci.metrics import MetricsCollector  # noqa: PLC0415 - few ask for them

            self._measured = MetricsCollector(self._roots, self._namespaces, self._clock)
        ready = [each for each in self._registry.sandboxes() if not each.record.stopped]
        measured = [self._measured.of_pod(each, self._registry.containers(each.id)) for each in ready]
        return cri.ListPodSandboxMetricsResponse(pod_metrics=measured)

    def images(self) -> dict[str, WatchingMethod]:
        """Return the methods of the ImageService."""
        return image_methods(self._images, self._archives, self._roots, self._registry)


def _list_metric_descriptors(_: cri.ListMetricDescriptorsRequest) -> cri.ListMetricDescriptorsResponse:
    from modules.runtimes.oci.metrics import metric_descriptors  # noqa: PLC0415 - few ask for them

    return cri.ListMetricDescriptorsResponse(descriptors=metric_descriptors())
