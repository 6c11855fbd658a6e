"""The groups of parts that the assembly makes, bottom up: each function takes the groups that its parts call."""

from collections.abc import Callable
from typing import TypeVar

import pykka
from msgspec import Struct

from beehive import Clock, Module
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
from edged.images.puller import ImagePuller
from edged.lifecycle.pod_lifecycle import PodLifecycle
from edged.node.limits import pod_machine
from edged.node.state import LocalNode
from edged.orphans import Orphans
from edged.pleg.reader import RuntimeReader
from edged.pod_killer import PodKiller
from edged.pod_workers.container_killer import ContainerKiller
from edged.pod_workers.image_manager import ImageManager
from edged.pod_workers.job_source import JobSource
from edged.pod_workers.pod_directories import PodDirectories
from edged.pod_workers.pod_objects import PodObjectManager
from edged.pod_workers.pod_resources import PodResources
from edged.pod_workers.pruner import PodPruner
from edged.pod_workers.start_containers import ContainerStarter
from edged.pod_workers.syncer import ContainerParts, PodSyncer
from edged.pod_workers.workers import PodWorkers
from edged.pods.backoff import BackOffPolicy, BackOffs
from edged.pods.manager import PodManager
from edged.pods.model import PodUid
from edged.probes.manager import ProbeManager
from edged.probes.network import Network
from edged.probes.runner import ContainerProbeRunner
from edged.probes.sockets import SocketNetwork
from edged.probes.worker_pool import CompletedProbe, ProbeWorker, ProbeWorkerPool
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.status.generator import StatusGenerator, StatusSources
from edged.status.manager import StatusManager
from edged.sync_channel import PluginsChanged, PodHealthChanged, SyncChannel
from edged.volume_manager import VolumeManager
from metamanager.client import AsyncMetaClient, MetaClient

T = TypeVar("T")


class Dependencies(Struct, frozen=True):
    """The dependencies that edged gets from outside (kubelet's Dependencies); see `Edged` for each."""

    settings: EdgedSettings
    connect: Callable[[], ContainerRuntime]
    snapshots: Snapshots
    version: str
    host: Host


class Base(Struct, frozen=True):
    """The dependencies of edged, and its connections to the container runtime, metamanager and the sync loop."""

    module: Module
    given: Dependencies
    network: Network
    """Makes the connections of probes and hooks."""
    memory: int
    """Memory of the machine in bytes."""
    runtime: ContainerRuntime
    meta: AsyncMetaClient
    channel: SyncChannel

    @property
    def settings(self) -> EdgedSettings:
        """edged's settings."""
        return self.given.settings

    @property
    def clock(self) -> Clock:
        """The module's clock."""
        return self.module.clock

    def on_thread(self, function: Callable[[T], None]) -> Callable[[T], None]:
        """Return a function that calls another one on the module's thread, for use on any thread."""
        return lambda value: self.module.call_soon(lambda: function(value))

    def health_changed(self, uid: PodUid) -> None:
        """Report a new result of a probe, hook or pull of a pod; on any thread."""
        self.channel.post(PodHealthChanged(uid))

    def plugins_changed(self) -> None:
        """Report a change of storage drivers or devices; on the module's thread."""
        self.channel.send(PluginsChanged())


def make_base(module: Module, given: Dependencies) -> Base:
    """Connect to the container runtime, metamanager and the sync loop."""
    settings, network = given.settings, given.host.network or SocketNetwork(module.clock)
    settings.root.mkdir(mode=0o750, parents=True, exist_ok=True)
    memory = given.host.machine_info.machine(settings.root, settings.node_ip).memory
    runtime = given.connect()
    given.snapshots.runtime = runtime
    return Base(module, given, network, memory, runtime, AsyncMetaClient(module), SyncChannel(module))


class Events(Struct, frozen=True):
    """The recorder of events, and the events of pods and of the node."""

    reporter: EventReporter
    recorder: EventRecorder
    pods: PodEvents
    node: NodeEvents


def make_events(base: Base) -> Events:
    """Make the recorder of events, and the reporter that sends the recorded events."""
    settings = base.settings
    reporter = EventReporter(base.meta, base.module, settings.node_name, settings.event_rate, settings.event_burst)
    recorder = EventRecorder(base.clock, settings.node_name, base.on_thread(reporter.report))
    return Events(reporter, recorder, PodEvents(recorder), NodeEvents(recorder, settings.node_name))


class NodeResources(Struct, frozen=True):
    """The resources that the node gives to pods: devices, volumes and directories (kubelet's container manager and
    volume manager).
    """

    node: LocalNode
    devices: NodeDevices
    volumes: VolumeManager
    directories: PodDirectories


def make_node_resources(base: Base) -> NodeResources:
    """Make the managers of the node's resources."""
    settings, host, snapshots = base.settings, base.given.host, base.given.snapshots
    devices = NodeDevices(
        base.module, settings.root, host.devices, pods=lambda: snapshots.pods, changed=base.plugins_changed
    )
    node = LocalNode(devices.manager)
    for_pods = max(0, base.memory - settings.eviction.reserve(Signal.MEMORY, base.memory))
    volumes = VolumeManager(base.module, settings, host.mounts, for_pods, node, base.plugins_changed)
    return NodeResources(node, devices, volumes, PodDirectories(settings, base.clock, volumes.volumes))


class RuntimeManager(Struct, frozen=True):
    """The parts that make a pod's containers run (kubelet's kuberuntime manager)."""

    reader: RuntimeReader
    lifecycle: PodLifecycle
    puller: ImagePuller
    backoffs: BackOffs
    syncer: PodSyncer


def make_runtime_manager(base: Base, events: PodEvents, on_node: NodeResources) -> RuntimeManager:
    """Make the parts that pull images, and start, kill and remove containers."""
    runtime, settings, clock = base.runtime, base.settings, base.clock
    reader = RuntimeReader(runtime)
    lifecycle = PodLifecycle(base.module.runtime, runtime, base.network, base.health_changed)
    puller = ImagePuller(base.module.runtime, runtime, settings.pulls, base.health_changed)
    backoffs = BackOffs(BackOffPolicy.up_to(seconds(settings.crash_loop_limit)))
    resources = _pod_resources(base, on_node)
    images = ImageManager(runtime, puller, backoffs, events)
    containers = ContainerParts(
        ContainerStarter(settings, clock, runtime, images, resources, on_node.node, events),
        ContainerKiller(base.module.runtime, runtime, lifecycle, events),
        PodPruner(runtime, on_node.directories, settings.gc.containers.kept_per_sync),
    )
    syncer = PodSyncer(clock, reader, containers, resources, lifecycle, backoffs, events)
    return RuntimeManager(reader, lifecycle, puller, backoffs, syncer)


def _pod_resources(base: Base, on_node: NodeResources) -> PodResources:
    settings = base.settings
    machine = pod_machine(base.memory, cpu_quota=settings.cpu_quota, cpu_quota_period=settings.cpu_quota_period)
    return PodResources(
        on_node.directories,
        PodCgroups(settings.cgroups, base.given.host.cgroups, machine),
        on_node.devices.manager,
        PodObjectManager(MetaClient(base.module.hive), base.clock),
        machine,
    )


def make_probes(base: Base, pods: PodManager, events: PodEvents) -> ProbeManager:
    """Make the probe manager, whose workers are started when they are needed."""

    def start_worker() -> pykka.ActorRef[ProbeWorker]:
        return base.module.start_actor(ProbeWorker, runner, completed, name="edged/prober")

    def completed(probe: CompletedProbe) -> None:
        base.module.call_soon(lambda: pool.complete(probe))

    runner = ContainerProbeRunner(base.runtime, base.network)
    pool = ProbeWorkerPool(start_worker)
    return ProbeManager(base.module, pool, pods.pod, lambda uid: base.channel.send(PodHealthChanged(uid)), events)


class PodRecords(Struct, frozen=True):
    """The records of this node's pods, and the statuses that the cloud has of them."""

    manager: PodManager
    orphans: Orphans
    statuses: StatusManager


def make_pod_records(base: Base) -> PodRecords:
    """Make the records, which begin empty."""
    return PodRecords(PodManager(), Orphans(base.settings.owner), StatusManager(base.meta, base.module))


class PodControl(Struct, frozen=True):
    """The parts that admit pods, queue them for workers, and generate their statuses."""

    jobs: JobSource
    workers: PodWorkers
    killer: PodKiller
    admitter: PodAdmitter
    status_generator: StatusGenerator


def make_pod_control(
    base: Base,
    events: PodEvents,
    records: PodRecords,
    on_node: NodeResources,
    runtime_manager: RuntimeManager,
    probes: ProbeManager,
) -> PodControl:
    """Make the pod workers, and the parts that act on them."""
    pods, lifecycle = records.manager, runtime_manager.lifecycle
    hooks = lifecycle.post_start_hooks
    jobs = JobSource(base.clock, pods, records.orphans, probes, hooks, runtime_manager.backoffs)
    workers = PodWorkers(base.module, jobs, runtime_manager.syncer, lifecycle, base.channel.post)
    killer = PodKiller(pods, workers, events)
    admitter = PodAdmitter(base.settings, pods, on_node.node, on_node.devices)
    sources, deadlines = StatusSources(probes, hooks, workers), ActiveDeadlines(base.module, killer)
    generator = StatusGenerator(base.clock, pods, sources, records.statuses, deadlines, base.given.snapshots)
    return PodControl(jobs, workers, killer, admitter, generator)
