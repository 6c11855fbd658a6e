"""Assembly: makes the parts of edged bottom up, and starts and closes them."""

import logging
from collections.abc import Callable
from typing import TypeVar

import msgspec
import pykka

from beehive import Module, ModuleName, Operation, ResourceType
from beehive.names import SHUTDOWN_RESOURCE
from edged.active_deadlines import ActiveDeadlines
from edged.admission.admitter import PodAdmitter
from edged.api import seconds
from edged.cgroups.pod_cgroups import PodCgroups
from edged.cri.contract import ContainerRuntime
from edged.devices.node_devices import NodeDevices
from edged.events import EventRecorder
from edged.events.node import NodeEvents
from edged.events.pods import PodEvents
from edged.events.reporter import EventReporter
from edged.eviction_api.signals import Signal
from edged.host import Host
from edged.housekeeping import Housekeeping, NodeUsage
from edged.images.puller import ImagePuller
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.node.limits import pod_machine
from edged.node.reporter import NodeReporter
from edged.node.state import LocalNode
from edged.node.status import LEASE_RENEW_FRACTION
from edged.node.watch import NodeWatch
from edged.node_recheck import NodeRecheck
from edged.orphans import Orphans
from edged.pleg.messages import PodInspected
from edged.pleg.reader import RuntimeReader
from edged.pleg.watch import RuntimeWatch
from edged.pod_killer import PodKiller
from edged.pod_store import LocalPods, PodStore
from edged.pod_workers.container_killer import ContainerKiller
from edged.pod_workers.image_manager import ImageManager
from edged.pod_workers.job_source import JobSource
from edged.pod_workers.pod_directories import PodDirectories
from edged.pod_workers.pod_objects import PodObjectManager
from edged.pod_workers.pod_resources import PodResources
from edged.pod_workers.pruner import PodPruner
from edged.pod_workers.requeue import RequeuePolicy
from edged.pod_workers.start_containers import ContainerStarter
from edged.pod_workers.syncer import ContainerParts, PodSyncer
from edged.pod_workers.workers import PodWorkers
from edged.pods.backoff import BackOffPolicy, BackOffs
from edged.pods.decode import read_node
from edged.pods.manager import PodManager
from edged.pods.model import PodUid
from edged.probes.manager import ProbeManager
from edged.probes.runner import ContainerProbeRunner
from edged.probes.sockets import SocketNetwork
from edged.probes.worker_pool import CompletedProbe, ProbeWorker, ProbeWorkerPool
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.shutdown.logind import ShutdownWatch
from edged.shutdown.shutdown_manager import ShutdownManager
from edged.static_pods.manager import StaticPodManager
from edged.status.generator import StatusGenerator, StatusSources
from edged.status.manager import StatusManager
from edged.sync_channel import PluginsChanged, PodHealthChanged, RuntimeInspected, SyncChannel
from edged.sync_loop import SyncLoop
from edged.sync_parts import NodeParts, PodParts, PodSources, StatusParts
from edged.volume_manager import VolumeManager
from metamanager.client import AsyncMetaClient, CallError, MetaClient

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Dependencies(msgspec.Struct, frozen=True):
    """What edged depends on outside of itself (kubelet's Dependencies); see `Edged` for each."""

    settings: EdgedSettings
    connect: Callable[[], ContainerRuntime]
    snapshots: Snapshots
    version: str
    host: Host


class Assembly:
    """The parts of edged, made anew at each start of the module.

    A part gets the parts that it calls when it is made, so that the order of construction is the order of the layers.
    Parts send to the layers above them by the `SyncChannel` only. Lives on the module's thread.

    Args:
        module: edged.
        given: what edged depends on.
    """

    def __init__(self, module: Module, given: Dependencies) -> None:
        self._module = module
        self._given = given
        self._settings = settings = given.settings
        host, network = given.host, given.host.network or SocketNetwork(module.clock)
        snapshots, clock = given.snapshots, module.clock
        settings.root.mkdir(mode=0o750, parents=True, exist_ok=True)
        memory = host.machine_info.machine(settings.root, settings.node_ip).memory
        self._client = client = given.connect()
        snapshots.runtime = client
        self._meta = meta = AsyncMetaClient(module)
        self._channel = channel = SyncChannel(module)

        # the node: its events, devices, volumes, Node object
        self._event_reporter = reporter = EventReporter(
            meta, module, settings.node_name, settings.event_rate, settings.event_burst
        )
        recorder = EventRecorder(clock, settings.node_name, self._on_thread(reporter.report))
        events, node_events = PodEvents(recorder), NodeEvents(recorder, settings.node_name)
        pods, status_manager = PodManager(), StatusManager(meta, module)
        self._devices = devices = NodeDevices(
            module,
            settings.root,
            host.devices,
            pods=lambda: snapshots.pods,
            changed=lambda: channel.send(PluginsChanged()),
        )
        self.node = node = LocalNode(devices.manager)
        room = max(0, memory - settings.eviction.reserve(Signal.MEMORY, memory))
        self.volume_manager = VolumeManager(
            module, settings, host.mounts, room, node, lambda: channel.send(PluginsChanged())
        )
        directories = PodDirectories(settings, clock, self.volume_manager.volumes)
        self.static_pods = static_pods = StaticPodManager(
            module, meta, status_manager, pods, lambda: node.state.registered
        )
        node_events.starting()
        self.node_reporter = node_reporter = NodeReporter(
            meta, clock, settings, node, static_pods.sync_mirrors, node_events, self.volume_manager.drivers
        )

        # the containers of pods
        def health_changed(uid: PodUid) -> None:
            channel.post(PodHealthChanged(uid))

        self._reader = reader = RuntimeReader(client)
        self._lifecycle = lifecycle = PodLifecycle(module.runtime, client, network, health_changed)
        self._puller = puller = ImagePuller(module.runtime, client, settings.pulls, health_changed)
        backoffs, orphans = BackOffs(BackOffPolicy.up_to(seconds(settings.crash_loop_limit))), Orphans(settings.owner)
        probes = ProbeManager(
            module,
            _make_probe_pool(module, ContainerProbeRunner(client, network)),
            pods.pod,
            lambda uid: channel.send(PodHealthChanged(uid)),
            events,
        )
        host_resources = pod_machine(memory, cpu_quota=settings.cpu_quota, cpu_quota_period=settings.cpu_quota_period)
        resources = PodResources(
            directories,
            PodCgroups(settings.cgroups, host.cgroups, host_resources),
            devices.manager,
            PodObjectManager(MetaClient(module.hive), clock),
            host_resources,
        )
        containers = ContainerParts(
            ContainerStarter(
                settings, clock, client, ImageManager(client, puller, backoffs, events), resources, node, events
            ),
            ContainerKiller(module.runtime, client, lifecycle, events),
            PodPruner(client, directories, settings.gc.containers.kept_per_sync),
        )
        syncer = PodSyncer(clock, reader, containers, resources, lifecycle, backoffs, events)

        # pods: workers, statuses, admission
        jobs = JobSource(clock, pods, orphans, probes, lifecycle.post_start_hooks, backoffs)
        self._workers = workers = PodWorkers(module, jobs, syncer, lifecycle, channel.post)
        self.pod_killer = killer = PodKiller(pods, workers, events)
        admitter = PodAdmitter(settings, pods, node, devices)
        sources = StatusSources(probes, lifecycle.post_start_hooks, workers)
        status_generator = StatusGenerator(
            clock, pods, sources, status_manager, ActiveDeadlines(module, killer), snapshots
        )

        # housekeeping, shutdown, PLEG, and the sync loop above all
        self.housekeeping = housekeeping = Housekeeping(
            module,
            settings,
            NodeUsage(client, host.machine_info, lambda: snapshots.pods),
            directories,
            recorder,
            killer,
            node_reporter,
        )
        self._machine = host.shutdown() if settings.shutdown and host.shutdown is not None else None
        released = self._machine.release if self._machine is not None else _release_nothing
        self.node_shutdown = ShutdownManager(module, settings.shutdown, killer, node_reporter, released, recorder)
        self._runtime_watch = runtime_watch = RuntimeWatch(
            module,
            settings,
            seen=lambda inspection: channel.send(PodInspected(inspection)),
            relisted=channel.send,
            looked=lambda: channel.send(RuntimeInspected()),
        )
        self._requeue = requeue = RequeuePolicy(clock, settings, jobs)
        local_pods = LocalPods(settings.node_name, static_pods, directories, devices.manager)
        self._pod_store = pod_store = PodStore(module, meta, channel, orphans, local_pods)
        recheck = NodeRecheck(pods, admitter, node_reporter, channel)
        self.sync_loop = SyncLoop(
            module,
            channel,
            events,
            PodParts(pods, orphans, admitter, recheck, workers, jobs, requeue, killer),
            StatusParts(status_generator, status_manager),
            PodSources(pod_store, static_pods),
            NodeParts(node_reporter, runtime_watch, housekeeping, snapshots, settings.owner),
        )

    def start(self) -> None:
        """Start the actors, and list the store, whether or not the cloud is connected: first the node, whose labels and
        taints decide about its pods.
        """
        self._start_actors()
        self._given.snapshots.work = lambda: self._workers.figures(self._requeue.failed())
        self._module.every(self._settings.status_period, self.sync_loop.handle_status_period)
        self._module.every(self._settings.lease_duration * LEASE_RENEW_FRACTION, self.node_reporter.renew_lease)
        self._meta.list_all(ResourceType.NODE, then=self._on_stored_node)
        self._pod_store.list_pods()

    def close(self) -> None:
        """Send the events that are left, and release everything. Containers are left running."""
        self._event_reporter.close()
        self.release()

    def release(self) -> None:
        """Release everything, the runtime first: a worker whose wait ends must not change anything in it any more."""
        self._given.snapshots.runtime = None
        self._given.snapshots.work = None
        if self._machine is not None:
            self._machine.close()
        self._puller.close()
        self._client.close()
        self.volume_manager.close()
        self._devices.close()
        self._lifecycle.close()

    def _start_actors(self) -> None:
        settings, module, post = self._settings, self._module, self._channel.post
        self._runtime_watch.start(self._client, self._reader, self._on_thread)
        self._workers.start(settings.workers)
        module.start_actor(
            NodeWatch,
            settings,
            self._client,
            post,
            self._given.version,
            self._given.host.machine_info,
            self.volume_manager.csi.in_use,
        )
        self.volume_manager.start(DevicePlugin=self._devices)
        self._devices.start()
        self.housekeeping.start()
        if self._machine is not None:
            module.start_actor(ShutdownWatch, self._machine, self._send_shutdown)
        self.volume_manager.watch_sizes(self.pod_killer)
        if settings.static_pods is not None:
            self.static_pods.watch_directory(settings.static_pods, settings.node_name, post)

    def _on_stored_node(self, answer: list[bytes] | CallError) -> None:
        if isinstance(answer, CallError):
            _log.warning("the store does not say how the cloud has this node: %s", answer)
            return
        for raw in answer:
            node = read_node(raw, "from the store", self._settings.node_name)
            if node is not None:
                self.node_reporter.handle_stored_node(node)

    def _send_shutdown(self, imminent: bool) -> None:
        """Send a message to edged itself, so that a recorded run has it; on any thread."""
        message = self._module.message(SHUTDOWN_RESOURCE, Operation.UPDATE, imminent)
        self._module.send(ModuleName.EDGED, message)

    def _on_thread(self, function: Callable[[T], None]) -> Callable[[T], None]:
        """Return a function that calls another one on the module's thread, for use on any thread."""
        return lambda value: self._module.call_soon(lambda: function(value))


def _make_probe_pool(module: Module, runner: ContainerProbeRunner) -> ProbeWorkerPool:
    def start_worker() -> pykka.ActorRef[ProbeWorker]:
        return module.start_actor(ProbeWorker, runner, completed, name="edged/prober")

    def completed(probe: CompletedProbe) -> None:
        module.call_soon(lambda: pool.complete(probe))

    pool = ProbeWorkerPool(start_worker)
    return pool


def _release_nothing() -> None:
    """Nothing delays the shutdown of this machine."""
