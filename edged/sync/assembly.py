"""Assembly: makes the parts of edged bottom up, and starts and closes them."""

import contextlib
import logging
from collections.abc import Callable

import pykka
from msgspec import Struct

from beehive import Group, Module, ModuleName, Operation, ResourceType
from beehive.names import REGISTRATION_RESOURCE, SHUTDOWN_RESOURCE
from edged.admission.admitter import PodAdmitter
from edged.cgroups.pod_cgroups import PodCgroups
from edged.chains.chains import Chains
from edged.chains.file import ChainFile
from edged.chains.writer import ChainWriter, WriteChains
from edged.cri.contract import ContainerRuntime
from edged.devices.node_devices import NodeDevices
from edged.events import EventRecorder, Occurrence
from edged.events.model import turn_of_event
from edged.events.node import NodeEvents
from edged.events.pods import PodEvents
from edged.events.reporter import EventReporter
from edged.eviction_api.signals import Signal
from edged.host import Host
from edged.housekeeping import Housekeeping, NodeUsage
from edged.images.puller import ImagePuller
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.node.lease import LEASE_RENEW_FRACTION
from edged.node.reporter import NodeReporter
from edged.node.state import LocalNode
from edged.node.watch import NodeWatch, pod_machine
from edged.pleg.reader import RuntimeReader
from edged.pleg.watch import RuntimeWatch
from edged.pod_workers.container_killer import ContainerKiller
from edged.pod_workers.image_manager import ImageManager
from edged.pod_workers.pod_directories import PodDirectories
from edged.pod_workers.pod_resources import PodResources
from edged.pod_workers.pruner import PodPruner
from edged.pod_workers.service_account_tokens import TokenManager
from edged.pod_workers.start_containers import ContainerStarter
from edged.pod_workers.syncer import ContainerParts, PodSyncer
from edged.pods.backoff import BackOffPolicy, BackOffs
from edged.pods.decode import read_node
from edged.pods.manager import PodManager
from edged.probes.manager import ProbeManager
from edged.probes.network import Network
from edged.probes.runner import ContainerProbeRunner
from edged.probes.sockets import SocketNetwork
from edged.probes.worker_pool import ProbeWorkerPool
from edged.server.snapshots import EdgedReports, Snapshots
from edged.settings import EdgedSettings
from edged.shutdown.logind import ShutdownSource, ShutdownWatch
from edged.shutdown.shutdown_manager import ShutdownManager
from edged.static_pods.manager import StaticPodManager
from edged.status.generator import StatusGenerator
from edged.status.manager import StatusManager
from edged.sync.events import SyncEvent
from edged.sync.loop import NodeParts, PodParts, PodSources, SyncLoop
from edged.sync.orphans import Orphans
from edged.sync.store import LocalPods, PodStore
from edged.volume_manager import VolumeManager
from metamanager.client import AsyncMetaClient, CallError, MetaClient
from modules.apimachinery.types import seconds

_log = logging.getLogger(__name__)


class Dependencies(Struct, frozen=True):
    """The dependencies that edged gets from outside (kubelet's Dependencies); see `Edged` for each."""

    settings: EdgedSettings
    connect: Callable[[], ContainerRuntime]
    snapshots: Snapshots
    version: str
    host: Host


class Assembly:
    """The parts of edged, made again at each start of the module.

    A part gets the parts that it calls when it is made, so that the order of construction is the order of the layers.
    It is the `SyncEvents` of the parts: the sync loop is made last, and they send events only after `start`. Lives on
    the module's thread.

    Args:
        module: edged.
        given: the dependencies of edged.
    """

    def __init__(self, module: Module, given: Dependencies) -> None:
        self._module, self._given, self._settings = module, given, given.settings
        host = given.host
        self._settings.root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._network: Network = host.network or SocketNetwork(module.clock)
        self._memory = host.machine_info.machine(self._settings.root, self._settings.node_ip).memory
        self._runtime = given.snapshots.runtime = given.connect()
        self._meta = AsyncMetaClient(module)
        self._event_reporter = self._make_event_reporter()
        self._chain_file = ChainFile(self._settings.root)
        self._chain_writer: pykka.ActorRef[ChainWriter] | None = None
        self._chains = Chains(self._chain_file.read(), self._write_chains_after)
        self._recorder = EventRecorder(
            module.clock, self._settings.node_name, self._record_event, keep=self._chains.record
        )
        self._pod_events = PodEvents(self._recorder)
        self._node_events = NodeEvents(self._recorder, self._settings.node_name)
        self.pods = PodManager()
        self._statuses = StatusManager(self._meta, module)
        self._devices = self._make_devices()
        self.node = LocalNode(self._devices.manager)
        self.volume_manager = self._make_volume_manager()
        self._directories = PodDirectories(self._settings, module.clock, self.volume_manager.volumes)
        self.static_pods = self._make_static_pods()
        self._node_events.starting()
        self.node_reporter = self._make_node_reporter()
        self._reader = RuntimeReader(self._runtime)
        self._lifecycle = PodLifecycle(module.runtime, self._runtime, self._network, self)
        self._puller = ImagePuller(module.runtime, self._runtime, self._settings.pulls, self)
        self._backoffs = BackOffs(BackOffPolicy.up_to(seconds(self._settings.crash_loop_limit)))
        self._probes = self._make_probes()
        self.housekeeping = self._make_housekeeping()
        self._machine = self._open_machine()
        self.node_shutdown = self._make_shutdown_manager()
        self._runtime_watch = RuntimeWatch(module, self._settings, self._lifecycle.waits.is_terminating)
        self._orphans = Orphans(self._settings.owner)
        self._pod_store = self._make_pod_store()
        self.sync_loop = self._make_sync_loop()

    def start(self) -> None:
        """Start the actors, and list the store, whether or not the cloud is connected: first the node, whose labels and
        taints decide about its pods.
        """
        module, settings, snapshots = self._module, self._settings, self._given.snapshots
        self._start_actors()
        snapshots.reports = EdgedReports(
            self.sync_loop.figures, self._chains.find, self._probes.counts, self.volume_manager.volumes.local_volumes
        )
        module.every(settings.status_period, self.sync_loop.handle_status_period)
        module.every(settings.lease_duration * LEASE_RENEW_FRACTION, self.node_reporter.renew_lease)
        self._meta.list_all(ResourceType.NODE, then=self._on_stored_node)
        self._pod_store.list_pods()

    def close(self) -> None:
        """Send the events that are left, and release everything. Containers are left running."""
        self._event_reporter.close()
        self.release()

    def release(self) -> None:
        """Release everything, the runtime first: a worker whose wait ends must change nothing in it."""
        snapshots = self._given.snapshots
        snapshots.runtime = None
        snapshots.reports = None
        if self._machine is not None:
            self._machine.close()
        self._puller.close()
        self._runtime.close()
        self.volume_manager.close()
        self._devices.close()
        self._lifecycle.close()

    # events for the sync loop

    def handle(self, event: SyncEvent) -> None:
        """Give an event to the sync loop; on the module's thread."""
        self.sync_loop.handle(event)

    def post(self, event: SyncEvent) -> None:
        """Give an event to the sync loop on the module's thread; on any thread."""
        self.sync_loop.post(event)

    def _record_event(self, occurrence: Occurrence) -> None:
        """Report an Event of Kubernetes; on any thread. It leaves with the others of its second, so its turn counts."""
        self._module.call_soon(lambda: self._event_reporter.report(occurrence), turn_of_event(occurrence))

    def _write_chains_after(self, seconds: float) -> None:
        """Have the changed chains written in some seconds; on any thread."""
        self._module.clock.after(seconds, self._write_chains)

    def _write_chains(self) -> None:
        if self._chain_writer is not None:
            with contextlib.suppress(pykka.ActorDeadError):  # it has written them when it stopped
                self._chain_writer.tell(WriteChains())

    # the parts

    def _make_event_reporter(self) -> EventReporter:
        settings = self._settings
        return EventReporter(
            self._meta, self._module, settings.node_name, settings.event_rate, settings.event_burst
        )  # fmt: skip

    def _make_devices(self) -> NodeDevices:
        snapshots = self._given.snapshots
        return NodeDevices(
            self._module, self._settings.root, self._given.host.devices, pods=lambda: snapshots.pods,
            changes=self,
        )  # fmt: skip

    def _make_volume_manager(self) -> VolumeManager:
        settings = self._settings
        for_pods = max(0, self._memory - settings.eviction.reserve(Signal.MEMORY, self._memory))
        mounts = self._given.host.mounts
        return VolumeManager(self._module, settings, mounts, for_pods, self.node, self)

    def _make_static_pods(self) -> StaticPodManager:
        return StaticPodManager(
            self._module, self._meta, self._statuses, self.pods, self.node
        )  # fmt: skip

    def _make_node_reporter(self) -> NodeReporter:
        return NodeReporter(
            self._meta,
            self._module.clock,
            self._settings,
            self.node,
            self,
            self._node_events,
            self.volume_manager.drivers,
        )

    def node_acknowledged(self) -> None:
        """Create the mirror pods, which need the Node object."""
        self.static_pods.sync_mirrors()

    def node_confirmed(self) -> None:
        """Tell edgestream and the metaserver that the cloud has the Node object."""
        module = self._module
        for group in (Group.EDGESTREAM, Group.METASERVER):
            if module.hive.members(group):
                module.broadcast(group, module.message(REGISTRATION_RESOURCE, Operation.CONNECTED, None))

    def _make_syncer(self) -> PodSyncer:
        """Make the parts that pull images, and start, kill and remove containers (kubelet's kuberuntime manager)."""
        runtime, settings, clock, events = self._runtime, self._settings, self._module.clock, self._pod_events
        machine = pod_machine(self._memory, cpu_quota=settings.cpu_quota, cpu_quota_period=settings.cpu_quota_period)
        resources = PodResources(
            self._directories,
            PodCgroups(settings.cgroups, self._given.host.cgroups, machine),
            self._devices.manager,
            MetaClient(self._module.hive),
            TokenManager(clock),
            machine,
        )
        images = ImageManager(runtime, self._puller, events)
        containers = ContainerParts(
            ContainerStarter(
                settings,
                clock,
                runtime,
                images,
                resources,
                self.node,
                events,
                service_links=self._given.host.service_links,
            ),
            ContainerKiller(self._module.runtime, runtime, self._lifecycle, events),
            PodPruner(runtime, self._directories, settings.gc.containers.kept_per_sync),
        )
        return PodSyncer(
            clock, self._reader, containers, resources, self._lifecycle, self._backoffs, events,
            noticed_end=self._given.host.noticed_end,
        )  # fmt: skip

    def _make_probes(self) -> ProbeManager:
        """Make the probe manager, whose workers are started when they are needed."""
        module = self._module

        workers = ProbeWorkerPool(module, ContainerProbeRunner(self._runtime, self._network))
        return ProbeManager(module, workers, self.pods, self, self._pod_events)

    def _make_housekeeping(self) -> Housekeeping:
        snapshots = self._given.snapshots
        usage = NodeUsage(self._runtime, self._given.host.machine_info, lambda: snapshots.pods)
        return Housekeeping(
            self._module, self._settings, usage, self._directories, self._recorder, self, self.node_reporter,
        )  # fmt: skip

    def _open_machine(self) -> ShutdownSource | None:
        """Connect to the machine's shutdown, if the node is to end its pods before it."""
        host, settings = self._given.host, self._settings
        return host.shutdown() if settings.shutdown and host.shutdown is not None else None

    def _make_shutdown_manager(self) -> ShutdownManager:
        return ShutdownManager(
            self._module, self._settings.shutdown, self.pods, self, self.node_reporter, self._machine,
            recorder=self._recorder,
        )  # fmt: skip

    def _make_pod_store(self) -> PodStore:
        local_pods = LocalPods(
            self._settings.node_name, self.static_pods, self._directories, self._devices.manager
        )  # fmt: skip
        return PodStore(self._module, self._meta, self, self._orphans, local_pods)

    def _make_sync_loop(self) -> SyncLoop:
        settings, snapshots, hooks = self._settings, self._given.snapshots, self._lifecycle.post_start_hooks
        statuses = StatusGenerator(
            self._module.clock, self.pods, self._probes, hooks, self._statuses, self._pod_events, snapshots
        )
        return SyncLoop(
            self._module,
            settings,
            self._make_syncer(),
            of_pods=PodParts(
                self.pods,
                self._lifecycle,
                self._backoffs,
                self._probes,
                statuses,
                self._statuses,
                self._pod_events,
                self._chains,
            ),
            of_node=NodeParts(
                PodAdmitter(settings, self.pods, self.node, self._devices),
                self.node_reporter,
                self._runtime_watch,
                self.housekeeping,
                snapshots,
            ),
            sources=PodSources(self._pod_store, self.static_pods, self._orphans),
        )

    def _start_actors(self) -> None:
        module, settings, host = self._module, self._settings, self._given.host
        self._chain_writer = module.start_actor(ChainWriter, self._chains, self._chain_file)
        self._runtime_watch.start(self._runtime, self._reader, self.sync_loop)
        self.sync_loop.start()
        in_use = self.volume_manager.csi.in_use
        version = self._given.version
        module.start_actor(NodeWatch, settings, self._runtime, self.sync_loop, version, host.machine_info, in_use)
        self.volume_manager.start(DevicePlugin=self._devices)
        self._devices.start()
        self.housekeeping.start()
        if self._machine is not None:
            module.start_actor(ShutdownWatch, self._machine, self._send_shutdown)
        self.volume_manager.watch_sizes(self.pods, self.sync_loop)
        if settings.static_pods is not None:
            self.static_pods.watch_directory(settings.static_pods, settings.node_name, self.sync_loop)

    def _on_stored_node(self, answer: list[bytes] | CallError) -> None:
        if isinstance(answer, CallError):
            _log.warning("the Node object in the store cannot be read: %s", answer)
            return
        for raw in answer:
            node = read_node(raw, "from the store", self._settings.node_name)
            if node is not None:
                self.node_reporter.handle_stored_node(node)

    def _send_shutdown(self, imminent: bool) -> None:
        """Send a message to edged itself, so that a recorded run has it; on any thread."""
        message = self._module.message(SHUTDOWN_RESOURCE, Operation.UPDATE, imminent)
        self._module.send(ModuleName.EDGED, message)
