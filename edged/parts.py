"""Makes what edged consists of, at each start of its module, and connects it.

The module itself only reads messages; what happens in its turn when an actor has something to say is here.
"""

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pykka

from beehive import Module, ModuleName, Operation, ResourceType
from beehive.names import SHUTDOWN_RESOURCE
from edged import stored
from edged.admission.admit import Place, allocatable
from edged.api import Nanoseconds, NodeStatus, Pod
from edged.cgroups.pods import PodCgroups
from edged.cgroups.tree import Tree
from edged.cri.contract import ContainerRuntime
from edged.devices.contract import DeviceWorld
from edged.devices.node_devices import NodeDevices
from edged.errors import found_no_room
from edged.events import EventRecorder
from edged.events.node import NodeEvents
from edged.events.pods import PodEvents
from edged.events.reporter import EventReporter
from edged.eviction.signals import Signal
from edged.images.pulls import Pulls
from edged.keeper import PodKeeper
from edged.lifecycle.lives import Lives
from edged.node.limits import pod_machine
from edged.node.machine import Figures
from edged.node.status import RENEWAL, Report, node_status
from edged.node.watch import NodeWatch
from edged.pleg.messages import Observed, Relisted
from edged.pleg.reader import RuntimeReader
from edged.pleg.watch import RuntimeWatch
from edged.pods.model import PodUid
from edged.pods.status import NodeView
from edged.probes.crew import Crew, ProbeWorker
from edged.probes.network import Network
from edged.probes.runner import ContainerProbeRunner
from edged.reading import belongs_to, read_cloud_pod, read_node
from edged.report.node import NodeReporter
from edged.report.pods import PodReporter
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.shutdown.ending import NOT_READY, NodeShutdown
from edged.shutdown.logind import ShutdownSource, ShutdownWatch
from edged.static_pods.directory import Changes
from edged.static_pods.keeper import StaticPods
from edged.storage import Storage
from edged.upkeep import Upkeep
from edged.volumes import Mounts
from edged.work.carrier import PodCarrier
from edged.work.files import PodFiles
from edged.work.images import ImageKeeper
from edged.work.job import Done
from edged.work.starter import Starter
from edged.work.worker import Worker
from metamanager.client import CallError, MetaClient, MetaTurnClient

_log = logging.getLogger(__name__)


class Given(msgspec.Struct, frozen=True):
    """What the module was made with; see `Edged`."""

    settings: EdgedSettings
    connect: Callable[[], ContainerRuntime]
    snapshots: Snapshots
    version: str
    figures: Figures
    network: Network
    mounts: Mounts
    cgroups: Tree | None
    devices: DeviceWorld | None
    shutdown: Callable[[], ShutdownSource] | None


class Parts:
    """See the module's docstring. Lives on the module's thread.

    Args:
        module: edged.
        given: what it was made with.
    """

    def __init__(self, module: Module, given: Given) -> None:
        self._module = module
        self._given = given
        self._settings = settings = given.settings
        self._last_report: Report | None = None
        self._all_known = False
        settings.root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._memory = given.figures.machine(settings.root, settings.node_ip).memory
        self._owner = str(settings.root.resolve())
        self._client = client = given.connect()
        given.snapshots.runtime = client
        self._meta = meta = MetaTurnClient(module)
        self._lives = Lives(module.runtime, client, given.network, self._turn(self._on_over))
        self._pulls = Pulls(module.runtime, client, settings.pulls, self._turn(self._on_over))
        self._crew = Crew(self._hire_prober)
        self._event_reporter = EventReporter(
            meta, module, settings.node_name, settings.event_rate, settings.event_burst
        )
        recorder = EventRecorder(module.clock, settings.node_name, self._turn(self._event_reporter.take))
        self._events = PodEvents(recorder)
        self.reporter = PodReporter(meta, module)
        self.storage = self._make_storage()
        self._devices = self._make_devices()
        self._files = PodFiles(settings, module.clock, self.storage.volumes)
        self.keeper = PodKeeper(
            module,
            settings,
            self.reporter,
            self._owner,
            self._publish,
            self._hire,
            crew=self._crew,
            lives=self._lives,
            place=self._place,
            ask_for_node=self._ask_for_node,
            events=self._events,
        )
        self._watch = RuntimeWatch(
            module, settings, seen=self.keeper.observe, relisted=self._on_relisted, looked=self._on_looked
        )
        self.static_pods = StaticPods(module, meta, self.reporter, self.keeper.pods, lambda: self.node.node)
        self.node = self._make_reporter(meta, recorder)
        self._upkeep = self._make_upkeep(recorder)
        self._machine = given.shutdown() if settings.shutdown and given.shutdown is not None else None
        self.shutdown = NodeShutdown(
            module, settings.shutdown, self.keeper, changed=self.node.tick, over=self._on_all_ended, recorder=recorder
        )
        node = stored.Node(read_cloud_pod, self._is_mine, self._with_files, self._on_listed)
        self.stored = stored.StoredPods(module, meta, self.keeper, node)

    def start(self) -> None:
        """Start the actors, and ask for what the store has at once, whether or not there is a cloud: first for the
        node, whose labels and taints its pods are measured by.
        """
        self._start_actors(self._client)
        self._module.every(self._settings.status_period, self._tick)
        self._module.every(self._settings.lease_duration * RENEWAL, self.node.renew)
        self._meta.list_all(ResourceType.NODE, then=self._on_stored_node)
        self.stored.ask()

    def take(self, pod: Pod) -> None:
        """A pod is wanted here. One that only stands for a static pod is not run."""
        if self.static_pods.is_mirror(pod):
            return
        self.keeper.take(pod)
        self.static_pods.taken(pod)
        self._perhaps_all_known()

    def connected(self) -> None:
        """The cloud is there: tell it what it has not heard."""
        self.node.connected()
        self.reporter.connected()
        self.keeper.connected()
        self.stored.connected()

    def close(self) -> None:
        """Tell what is to be told yet, and let go of everything. Containers are left running."""
        self._event_reporter.close()
        self.let_go()

    def let_go(self) -> None:
        """First of the runtime: a worker whose wait ends must not be able to change anything in it any more."""
        self._given.snapshots.runtime = None
        if self._machine is not None:
            self._machine.close()
        self._pulls.close()
        self._client.close()
        self.storage.close()
        self._devices.close()
        self._lives.close()

    def _start_actors(self, client: ContainerRuntime) -> None:
        settings, reader = self._settings, RuntimeReader(client)
        self._watch.start(client, reader, self._turn)
        self._prober = ContainerProbeRunner(client, self._given.network)
        self._carrier = self._make_carrier(client, reader)
        for number in range(settings.workers):
            self.keeper.rounds.pool.add_worker(self._start_worker(f"edged/worker-{number}"))
        in_use = self.storage.csi.in_use
        self._module.start_actor(
            NodeWatch, settings, client, self._turn(self._on_report), self._given.version, self._given.figures, in_use
        )
        self.storage.start(DevicePlugin=self._devices)
        self._devices.start()
        self._upkeep.start()
        if self._machine is not None:
            self._module.start_actor(ShutdownWatch, self._machine, self._on_shutdown)
        self.storage.watch_sizes(self.keeper.staying, self.keeper.evict)
        if settings.static_pods is not None:
            self.static_pods.look_into(settings.static_pods, settings.node_name, self._turn(self._on_static_pods))

    def _start_worker(self, name: str) -> pykka.ActorRef[Worker]:
        return self._module.start_actor(Worker, self._carrier, self._turn(self._on_done), name=name)

    def _hire(self) -> pykka.ActorRef[Worker]:
        return self._start_worker("edged/hired")

    def _hire_prober(self) -> pykka.ActorRef[ProbeWorker]:
        return self._module.start_actor(ProbeWorker, self._prober, self._turn(self._crew.done), name="edged/prober")

    def _make_storage(self) -> Storage:
        room = max(0, self._memory - self._settings.eviction.reserve(Signal.MEMORY, self._memory))
        return Storage(
            self._module,
            self._settings,
            self._given.mounts,
            room,
            node=lambda: self.node.known,
            changed=self._plugins_changed,
        )

    def _make_reporter(self, meta: MetaTurnClient, recorder: EventRecorder) -> NodeReporter:
        events = NodeEvents(recorder, self._settings.node_name)
        events.starting()
        return NodeReporter(
            meta,
            self._module.clock,
            self._settings,
            self._report,
            self.static_pods.tick,
            events,
            self.storage.drivers,
        )

    def _make_devices(self) -> NodeDevices:
        return NodeDevices(
            self._module,
            self._settings.root,
            self._given.devices,
            pods=lambda: self._given.snapshots.pods,
            changed=self._plugins_changed,
        )

    def _with_files(self) -> set[PodUid]:
        """The pods of which something is on the node's disk."""
        return {*self._files.pods(), *self._devices.manager.pods()}

    def _plugins_changed(self) -> None:
        """A storage driver has come or gone, or devices: the node says so, and pods that waited are tried again."""
        self.node.tick()
        self.keeper.connected()

    def _make_carrier(self, client: ContainerRuntime, reader: RuntimeReader) -> PodCarrier:
        settings, keeper = self._settings, self.keeper
        machine = pod_machine(
            self._memory,
            cpu_quota=settings.cpu_quota,
            cpu_quota_period=settings.cpu_quota_period,
        )
        cgroups = PodCgroups(settings.cgroups, self._given.cgroups, machine)
        starter = Starter(
            settings,
            self._module.clock,
            client,
            files=self._files,
            images=ImageKeeper(client, self._pulls, keeper.rounds.backoffs, self._events),
            machine=machine,
            cgroups=cgroups,
            host_ips=lambda: keeper.node.ips,
            allocatable=lambda: self.node_status().allocatable,
            owner=self._owner,
            events=self._events,
            devices=self._devices.manager,
        )
        meta = MetaClient(self._module.hive)
        return PodCarrier(
            self._module.runtime,
            client,
            reader,
            self._files,
            starter,
            meta=meta,
            backoffs=keeper.rounds.backoffs,
            cgroups=cgroups,
            lives=self._lives,
            events=self._events,
            devices=self._devices.manager,
            kept=settings.gc.containers.kept_in_turn,
        )

    def _make_upkeep(self, recorder: EventRecorder) -> Upkeep:
        return Upkeep(
            self._module,
            self._settings,
            self._client,
            self._given.figures,
            lambda: self._given.snapshots.pods,
            files=self._files,
            recorder=recorder,
            evict=self.keeper.evict,
            changed=self.node.tick,
        )

    def _is_mine(self, pod: Pod) -> bool:
        return belongs_to(pod, self._settings.node_name) and not self.static_pods.is_mirror(pod)

    def _on_stored_node(self, answer: list[bytes] | CallError) -> None:
        if isinstance(answer, CallError):
            _log.warning("the store does not say how the cloud has this node: %s", answer)
            return
        for raw in answer:
            node = read_node(raw, "from the store", self._settings.node_name)
            if node is not None:
                self.node.stored(node)

    def _on_listed(self) -> None:
        self._perhaps_all_known()
        self._module.announce_ready()

    def _on_static_pods(self, changes: Changes) -> None:
        self.static_pods.found(changes)
        self._perhaps_all_known()

    def _perhaps_all_known(self) -> None:
        """Once, when both the store and the files have said which pods belong here."""
        if self.stored.listed and self.static_pods.all_came and not self._all_known:
            self._all_known = True
            self.stored.all_known()
            self._watch.look_around()
            self.static_pods.listed()

    def _on_relisted(self, relisted: Relisted) -> None:
        self.keeper.relisted(relisted)
        self.stored.relisted()
        if self.stored.inquires:
            self._watch.look_around()

    def _on_shutdown(self, imminent: bool) -> None:
        """Tell edged on the bus, where a recorded run has it; on any thread."""
        message = self._module.message(SHUTDOWN_RESOURCE, Operation.UPDATE, imminent)
        self._module.send(ModuleName.EDGED, message)

    def _on_all_ended(self) -> None:
        if self._machine is not None:
            self._machine.release()

    def _on_looked(self) -> None:
        self._given.snapshots.looked_at = self._module.clock.monotonic()

    def _on_over(self, uid: PodUid) -> None:
        self.keeper.health_changed(uid)

    def look_at_disk(self) -> None:
        """Something found no room: see at once whether the node is short of it."""
        self._upkeep.look_now()

    def _on_done(self, done: Done) -> None:
        if done.error is not None and found_no_room(done.error):
            self.look_at_disk()
        if done.facts is not None:
            self._watch.observed(Observed(done.facts, self._owner, done.facts_at))
        self.keeper.rounds.done(done)

    def _place(self) -> Place:
        """What a new pod finds here. The machine's figures are known from the first report on."""
        there = self._devices.hoped_for(allocatable(self.node_status()))
        return Place(
            self._settings.node_name,
            there,
            self.node.known,
            self._settings.allowed_unsafe_sysctls,
            self._upkeep.pressures,
            self.shutdown.imminent,
        )

    def _ask_for_node(self, then: Callable[[], None]) -> bool:
        return self.node.ask(then)

    def node_status(self) -> NodeStatus:
        """The node's status of this moment; an empty one while the machine's figures cannot be read."""
        report = self._report()
        if report is None:
            return NodeStatus()
        known = self.node.known
        return node_status(report, known.status if known is not None else NodeStatus(), Nanoseconds(0))

    def _report(self) -> Report | None:
        """The machine and the runtime as they were seen last, and devices and pressure of this moment."""
        report, shares = self._last_report, self._devices.manager.shares()
        if report is None:
            return None
        problem = NOT_READY if self.shutdown.imminent else report.runtime_problem
        return msgspec.structs.replace(
            report, devices=shares, pressures=self._upkeep.pressures, runtime_problem=problem
        )

    def _on_report(self, report: Report) -> None:
        self._last_report = report
        self._given.snapshots.reported(report, Nanoseconds(self._module.clock.now_ns()))
        runtime_name = report.runtime_version.partition("://")[0]
        self.keeper.node_changed(NodeView(report.machine.addresses, runtime_name))
        self.node.tick()

    def _tick(self) -> None:
        self.node.tick()
        self.static_pods.tick()
        self.reporter.send_all()

    def _publish(self, pods: tuple[Pod, ...]) -> None:
        self._given.snapshots.pods = pods

    def _turn(self, function: Callable[[Any], None]) -> Callable[[Any], None]:
        """The same function, called in the module's own turn; for its actors."""
        return lambda value: self._module.call_soon(lambda: function(value))
