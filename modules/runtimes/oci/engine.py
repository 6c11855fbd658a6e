"""The OCI runtime without its gRPC server: all parts assembled on one state directory.

ROOT/lock, sandboxes/, containers/, damaged/    see `cri_server.state`
ROOT/images/                                    see `oci.images`
ROOT/namespaces/                                a mount of its own: namespaces of sandboxes, and their /dev/shm
ROOT/programs/                                  crun on a read-only mount
ROOT/runtime/                                   a mount, too: what ends with the boot, see `oci.boot_directory`
"""

import logging
import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from beehive.clock import Clock
from beehive.files.removal import remove_tree
from modules.runtimes.cri_server.announcer import Announcer
from modules.runtimes.cri_server.errors import EmbeddedRuntimeError, StateDirectoryError
from modules.runtimes.cri_server.event_stream import EventHub
from modules.runtimes.cri_server.model import Sandbox
from modules.runtimes.cri_server.process_watcher import ProcessWatcher
from modules.runtimes.cri_server.recovery import Recovery
from modules.runtimes.cri_server.registry import Registry
from modules.runtimes.cri_server.state import StateDirectory
from modules.runtimes.oci.apparmor import load_default_profile
from modules.runtimes.oci.archives import ImageArchives
from modules.runtimes.oci.boot_directory import BootDirectory
from modules.runtimes.oci.bundles import Bundles, Places, holds_of
from modules.runtimes.oci.containers import OciContainers
from modules.runtimes.oci.driver.conmon import Conmon
from modules.runtimes.oci.driver.group_moves import GroupMoves
from modules.runtimes.oci.driver.launching import Launcher, must_hide_unified
from modules.runtimes.oci.driver.read_only_program import ReadOnlyProgram
from modules.runtimes.oci.driver.runtime_command import CommandFailedError, RuntimeCommand
from modules.runtimes.oci.execution import Executor
from modules.runtimes.oci.images import DECLARED, ImageStore, RootFilesystems
from modules.runtimes.oci.isolated_engine import closed_on_failure
from modules.runtimes.oci.leftovers import settle_network_processes, unmount_unknown
from modules.runtimes.oci.mapped_roots import MappedRoots, remove_top
from modules.runtimes.oci.metrics import MetricsCollector
from modules.runtimes.oci.model import OciContainer
from modules.runtimes.oci.network import PodNamespaces, PodNetwork
from modules.runtimes.oci.processes import ContainerProcesses
from modules.runtimes.oci.programs import Programs
from modules.runtimes.oci.sandbox_resources import SandboxResources
from modules.runtimes.oci.sandboxes import OciSandboxes
from modules.runtimes.oci.seccomp_programs import SeccompPrograms
from modules.runtimes.oci.spec import Machine
from modules.runtimes.oci.stats import UsageMeter
from modules.runtimes.oci.streaming import StreamingServer
from modules.runtimes.oci.streams import ContainerStreams
from protos.cri.v1 import api_pb2 as cri

_log = logging.getLogger(__name__)

_BULKY: Final = ("rootfs", "rootfs.new", "upper", "work", "bundle", "persist", "commands", "volumes", DECLARED)
"""Parts of a container's directory that are removed when it is set aside."""
_OWNER_ONLY: Final = 0o700
"""Other users of the machine must not run the set-user-id programs of images."""
_NAMESPACES: Final = "namespaces"
IMAGES: Final = "images"
"""The images' directory, in the state directory."""


class OciSettings(NamedTuple):
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


class OciEngine:
    """The parts of the OCI runtime, from construction to `close`; takes over the containers that run already."""

    def __init__(self, root: Path, clock: Clock, settings: OciSettings) -> None:
        """Lock the state directory. Raises StateDirectoryError when it, or this machine, cannot be used."""
        if os.geteuid() != 0:
            raise StateDirectoryError("start the OCI runtime", "it isolates containers, which takes root")
        self.root = root
        self.clock = clock
        self.systemd_cgroups = settings.systemd_cgroups
        self._state = StateDirectory(root, _BULKY)
        root.chmod(_OWNER_ONLY)
        self.watcher = ProcessWatcher()
        self.registry: Registry[Sandbox, OciContainer] = Registry()
        self.events = EventHub()
        self._closing = ExitStack()
        with closed_on_failure(self.close, root):
            self._assemble(settings)
            self._take_over()
            self.archives.refresh()
            self.watcher.start()
            self.streaming.start()

    def _assemble(self, settings: OciSettings) -> None:
        clock, registry = self.clock, self.registry
        self._closing.callback(settings.network.close)
        has_crun = settings.programs.is_crun
        self.machine = machine = Machine.read(systemd_cgroups=settings.systemd_cgroups, has_crun=has_crun)
        self.apparmor = load_default_profile(machine.apparmor_profiles)
        self.images = ImageStore(self.root / IMAGES, clock, settings.registries, keep_blobs=settings.keep_blobs)
        self.archives = ImageArchives(settings.archives, self.images)
        self.roots = RootFilesystems(self.images)
        self.namespaces = PodNamespaces(self.root / _NAMESPACES)
        self.boot = BootDirectory(self.root)
        programs = settings.programs
        self.parent = "shim" if programs.conmon is None else str(programs.conmon)
        moves = GroupMoves()
        self._closing.callback(moves.close)
        launcher = Launcher(hides_unified=programs.is_crun and must_hide_unified(), moves=moves)
        self.program = ReadOnlyProgram(programs.runtime, self.root)
        self.runtime = RuntimeCommand(
            launcher,
            programs.runtime,
            self.boot.states,
            systemd=settings.systemd_cgroups,
            mounted=self.program if programs.is_crun else None,
        )
        announcer = Announcer(registry, self.events, clock)
        self.mapped = MappedRoots(self.root)
        filters = SeccompPrograms(self.boot.states)
        places = Places(self.roots, self.mapped, self.boot)
        bundles = Bundles(registry, self.images, places, self.namespaces, machine, filters)
        self.processes = ContainerProcesses(
            self.runtime,
            Conmon(launcher, programs.parent, self.runtime),
            bundles,
            self.watcher,
            clock,
            lambda container: announcer.container(cri.CONTAINER_STARTED_EVENT, container),
            lambda container: announcer.container(cri.CONTAINER_STOPPED_EVENT, container),
        )
        self.containers = OciContainers(self._state, registry, self.processes, bundles, announcer, clock)
        self.resources = SandboxResources(self.namespaces, settings.network)
        self.sandboxes = OciSandboxes(self._state, registry, self.containers, announcer, clock, machine, self.resources)
        self.executor = Executor(launcher, self.runtime, clock)
        self.streaming = StreamingServer(ContainerStreams(launcher, self.runtime, registry, self.namespaces), clock)
        self._closing.callback(self.streaming.stop)
        self.stats = UsageMeter(self.roots, clock)
        self.metrics = MetricsCollector(self.roots, self.namespaces, clock)

    def _take_over(self) -> None:
        """Take over the sandboxes and containers of earlier edgecores, and remove leftovers without a record."""
        self.runtime.await_others()
        self.program.remove(but_current=True)
        settle_network_processes((self.root / _NAMESPACES).resolve())
        Recovery(self._state, self.registry, self.processes).run()
        known = {str(container.id) for container in self.registry.containers()}
        for directory in self.boot.states.iterdir():
            if directory.name not in known:
                try:
                    self.runtime.delete(directory.name)
                except CommandFailedError as error:
                    _log.warning("what is left of container %s cannot be removed: %s", directory.name, error)
        unmount_unknown(self._state.containers, known)
        self.mapped.keep_only(known)
        self.boot.keep_only(known)
        self.images.keep_only(
            {name: image for each in self.registry.containers() for name, image in holds_of(each).items()}
        )
        self.resources.collect(self.registry.sandboxes())

    def close(self) -> None:
        """Release everything and end waiting calls; containers go on running."""
        self.events.close()
        self._closing.close()
        for container in self.registry.containers():
            container.abandon()
        self.watcher.stop()
        self._state.release()


def purge(root: Path, clock: Clock, settings: OciSettings) -> None:
    """Kill and remove every container, sandbox and image of the state directory at `root`.

    Raises EmbeddedRuntimeError while an edgecore uses the directory, or if something resists.
    """
    engine = OciEngine(root, clock, settings)
    try:
        for sandbox in engine.registry.sandboxes():
            engine.sandboxes.remove(sandbox.id)
        engine.namespaces.remove()
        engine.program.remove()
        engine.boot.remove()
    finally:
        engine.close()
    remove_top()
    try:
        remove_tree(root)
    except OSError as error:
        raise EmbeddedRuntimeError(f'remove "{root}"', str(error)) from error
