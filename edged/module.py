"""edged: the pods of this node. A slim kubelet on the bus.

The module takes messages and makes the parts; it never waits itself. The way of a pod through it:

    message → PodKeeper (desired state) → Pool (queues) → Worker → container runtime
                  ↑                                          │            │
    cloud ← PodReporter ← status ← facts ←───────────────────┴─── PLEG ───┘
"""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any

import msgspec
import pykka

from beehive import ContentError, Group, Message, Module, ModuleName, Operation, Resource, ResourceType, handles
from beehive.names import CLOUD_CONNECTED
from edged import stored
from edged.admission.admit import Place, allocatable
from edged.api import Nanoseconds, NodeStatus, Pod, decode
from edged.api.codec import DecodeError
from edged.cgroups.pods import PodCgroups
from edged.cgroups.tree import Tree
from edged.cri.contract import ContainerRuntime
from edged.errors import EdgedError
from edged.events import EventRecorder
from edged.events.node import NodeEvents
from edged.events.pods import PodEvents
from edged.events.reporter import EventReporter
from edged.images.pulls import Pulls
from edged.keeper import PodKeeper
from edged.lifecycle.lives import Lives
from edged.node.limits import pod_machine
from edged.node.machine import Figures
from edged.node.status import MEMORY_RESERVE, RENEWAL, Report, node_status
from edged.node.watch import NodeWatch
from edged.pleg.hints import Hints
from edged.pleg.listener import Listener
from edged.pleg.messages import Event, LookAround, Looked, Observed, Relisted, RelistFailed, Seen
from edged.pleg.pace import Pace
from edged.pleg.pleg import Pleg
from edged.pleg.reader import RuntimeReader
from edged.pleg.recording import pod_changed
from edged.pods.model import PodUid
from edged.pods.status import NodeView
from edged.probes.crew import Crew, ProbeWorker
from edged.probes.network import Network
from edged.probes.runner import ContainerProbeRunner
from edged.probes.sockets import SocketNetwork
from edged.report.node import NodeReporter
from edged.report.pods import PodReporter
from edged.server.snapshots import Snapshots
from edged.settings import EdgedSettings
from edged.static_pods.directory import Changes
from edged.static_pods.keeper import StaticPods
from edged.storage import Storage
from edged.volumes import KernelMounts, Mounts
from edged.volumes.csi.controller import OPERATIONS
from edged.work.carrier import PodCarrier
from edged.work.files import PodFiles
from edged.work.images import ImageKeeper
from edged.work.job import Done
from edged.work.starter import Starter
from edged.work.worker import Worker
from metamanager.client import MetaClient, MetaTurnClient

_log = logging.getLogger(__name__)


class _Metadata(msgspec.Struct):
    uid: str = ""
    grace: int | None = msgspec.field(default=None, name="deletionGracePeriodSeconds")


class _Skeleton(msgspec.Struct):
    """What a delete message must say of the object: the cloud sends it whole, or only its identity."""

    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class Edged(Module):
    """See the module's docstring.

    Args:
        settings: see there.
        connect: makes the client of the container runtime; called at each start of the module.
        snapshots: where the local HTTP server finds what it serves.
        version: of the agent, reported as `kubeletVersion`.
        figures: of the machine; the kernel's unless given.
        network: over which probes and hooks reach containers; real sockets unless given.
        mounts: of the node; the kernel's unless given.
        cgroups: where pods get control groups; none unless given.
    """

    name = ModuleName.EDGED
    group = Group.EDGED
    announces_readiness = True

    def __init__(
        self,
        settings: EdgedSettings,
        connect: Callable[[], ContainerRuntime],
        snapshots: Snapshots,
        version: str,
        figures: Figures | None = None,
        *,
        network: Network | None = None,
        mounts: Mounts | None = None,
        cgroups: Tree | None = None,
    ) -> None:
        super().__init__()
        self._mounts = mounts or KernelMounts()
        self._network = network or SocketNetwork(self.clock)
        self._figures = figures or Figures()
        self._tree = cgroups
        self._version = version
        self._settings = settings
        self._connect = connect
        self._snapshots = snapshots
        self._client: ContainerRuntime | None = None
        self._last_report: Report | None = None
        self._relist_problem = ""
        self._all_known = False

    def on_start(self) -> None:
        """Start the parts. The store's pods are asked for at once, whether or not there is a cloud."""
        settings = self._settings
        settings.root.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._memory = self._figures.machine(settings.root, settings.node_ip).memory
        self._storage = self._make_storage()
        self._client = client = self._connect()
        self._lives = Lives(self.runtime, client, self._network, self._turn(self._on_over))
        self._pulls = Pulls(self.runtime, client, settings.pulls, self._turn(self._on_over))
        self._snapshots.runtime = client
        self._crew = Crew(self._hire_prober)
        self._meta = MetaTurnClient(self)
        self._event_reporter = EventReporter(
            self._meta, self, settings.node_name, settings.event_rate, settings.event_burst
        )
        self._files = PodFiles(settings, self.clock, self._storage.volumes)
        self._recorder = EventRecorder(self.clock, settings.node_name, self._turn(self._event_reporter.take))
        self._events = PodEvents(self._recorder)
        self._owner = str(settings.root.resolve())
        self._reporter = PodReporter(self._meta, self)
        self._keeper = PodKeeper(
            self,
            settings,
            self._reporter,
            self._owner,
            self._publish,
            self._hire,
            crew=self._crew,
            lives=self._lives,
            place=self._place,
            events=self._events,
        )
        self._static_pods = StaticPods(self, self._meta, self._reporter, self._keeper.pods, lambda: self._node.node)
        self._node = self._make_reporter()
        self._start_actors(client)
        self.every(settings.status_period, self._tick)
        self.every(settings.lease_duration * RENEWAL, self._node.renew)
        node = stored.Node(self._read, self._is_mine, self._files.pods, self._on_listed)
        self._stored = stored.StoredPods(self, self._meta, self._keeper, node)
        self._stored.ask()

    def on_stop(self) -> None:
        """Let go of the runtime: calls that are under way end. Containers are left running."""
        self._event_reporter.close()
        self._let_go()

    def on_failure(
        self,
        exception_type: type[BaseException] | None,
        exception_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let go of the runtime here too, so that no worker is held up by it."""
        super().on_failure(exception_type, exception_value, traceback)
        self._let_go()

    @handles(ResourceType.POD, Operation.INSERT, Operation.UPDATE)
    def on_pod(self, message: Message) -> None:
        """A pod is wanted, or is wanted otherwise."""
        try:
            pod = self._read(message.content_bytes(), message.route.resource)
        except ContentError as error:
            _log.error("pod %s is left out: %s", message.route.resource, error)
            return
        if pod is not None and self._belongs_here(pod):
            self._take(pod)
        elif pod is not None:
            self._keeper.remove(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)

    @handles(ResourceType.POD, Operation.DELETE)
    def on_pod_delete(self, message: Message) -> None:
        """A pod is gone in the cloud."""
        resource = Resource.parse(message.route.resource)
        try:
            identity = message.content_as(_Skeleton).metadata
        except ContentError:
            identity = _Metadata()
        if not self._static_pods.was_mirror(message, resource.namespace, resource.name, identity.uid):
            self._keeper.remove(resource.namespace, resource.name, identity.uid, identity.grace)
            self._static_pods.tick()

    @handles(ResourceType.CONFIGMAP)
    @handles(ResourceType.SECRET)
    def on_dependency(self, message: Message) -> None:
        """What pods mount has changed."""
        resource = Resource.parse(message.route.resource)
        self._keeper.dependency_changed(resource.type, resource.namespace, resource.name)

    @handles(ResourceType.PERSISTENT_VOLUME)
    @handles(ResourceType.PERSISTENT_VOLUME_CLAIM)
    @handles(ResourceType.VOLUME_ATTACHMENT)
    @handles(ResourceType.CSI_DRIVER)
    def on_storage(self, message: Message) -> None:
        """What volumes wait for may have come: an attachment, a volume for a claim."""
        _log.debug("%s %s", message.route.operation, message.route.resource)
        self._keeper.connected()

    @handles(ResourceType.VOLUME, *OPERATIONS)
    def on_volume(self, message: Message) -> None:
        """The cloud asks something of this node's storage driver; it hears what the driver says."""

        def then(answer: dict[str, Any] | EdgedError) -> None:
            if isinstance(answer, EdgedError):
                self.respond(message.error(self.clock, str(answer), source=self.name))
            else:
                self.reply(message, answer)

        self._storage.operate(message.route.operation, message.content_bytes(), then)

    @handles(ResourceType.CONNECTION, Operation.CONNECT)
    def on_connection(self, message: Message) -> None:
        """The cloud is there: tell it what it has not heard."""
        if message.content_bytes() == CLOUD_CONNECTED.encode():
            self._node.tick()
            self._node.renew()
            self._reporter.connected()
            self._keeper.connected()
            self._stored.connected()

    @handles()
    def on_other(self, message: Message) -> None:
        """What metamanager hands on and this node has no use for."""
        _log.debug("not for edged: %s %s", message.route.operation, message.route.resource)

    def _start_actors(self, client: ContainerRuntime) -> None:
        settings, reader = self._settings, RuntimeReader(client)
        self._start_pleg(client, reader)
        self._prober = ContainerProbeRunner(client, self._network)
        self._carrier = self._make_carrier(client, reader)
        for number in range(settings.workers):
            self._keeper.pool.add_worker(self._start_worker(f"edged/worker-{number}"))
        in_use = self._storage.csi.in_use
        self.start_actor(NodeWatch, settings, client, self._turn(self._on_report), self._version, self._figures, in_use)
        self._storage.start()
        self._storage.watch_sizes(self._keeper.staying, self._keeper.evict)
        if settings.static_pods is not None:
            self._static_pods.look_into(settings.static_pods, settings.node_name, self._turn(self._on_static_pods))

    def _start_pleg(self, client: ContainerRuntime, reader: RuntimeReader) -> None:
        settings = self._settings
        self._hints = Hints(settings.relist_period)
        pace = Pace(settings.relist_period, settings.relist_period_with_events)
        self._pleg = self.start_actor(Pleg, reader, self._turn(self._on_pleg), pace, self._hints)
        self.start_actor(Listener, client, self._hints, self._pleg.tell)

    def _let_go(self) -> None:
        """First the runtime: a worker whose wait ends must not be able to change anything in it any more."""
        self._snapshots.runtime = None
        if self._client is not None:
            self._pulls.close()
            self._client.close()
            self._storage.close()
            self._lives.close()

    def _start_worker(self, name: str) -> pykka.ActorRef[Worker]:
        return self.start_actor(Worker, self._carrier, self._turn(self._on_done), name=name)

    def _hire(self) -> pykka.ActorRef[Worker]:
        return self._start_worker("edged/hired")

    def _hire_prober(self) -> pykka.ActorRef[ProbeWorker]:
        return self.start_actor(ProbeWorker, self._prober, self._turn(self._crew.done), name="edged/prober")

    def _make_storage(self) -> Storage:
        room = max(0, self._memory - MEMORY_RESERVE)
        return Storage(
            self,
            self._settings,
            self._mounts,
            room,
            node=lambda: self._node.node,
            changed=self._drivers_changed,
        )

    def _make_reporter(self) -> NodeReporter:
        events = NodeEvents(self._recorder, self._settings.node_name)
        events.starting()
        return NodeReporter(
            self._meta,
            self.clock,
            self._settings,
            lambda: self._last_report,
            self._static_pods.tick,
            events,
            self._storage.drivers,
        )

    def _drivers_changed(self) -> None:
        """A storage driver has come or gone: the node says so, and pods that waited for it are tried again."""
        self._node.tick()
        self._keeper.connected()

    def _make_carrier(self, client: ContainerRuntime, reader: RuntimeReader) -> PodCarrier:
        settings, keeper = self._settings, self._keeper
        machine = pod_machine(
            self._memory,
            cpu_quota=settings.cpu_quota,
            cpu_quota_period=settings.cpu_quota_period,
        )
        cgroups = PodCgroups(settings.cgroups, self._tree, machine)
        starter = Starter(
            settings,
            self.clock,
            client,
            files=self._files,
            images=ImageKeeper(client, self._pulls, keeper.backoffs, self._events),
            machine=machine,
            cgroups=cgroups,
            host_ips=lambda: keeper.node.ips,
            allocatable=lambda: self._node_status().allocatable,
            owner=self._owner,
            events=self._events,
        )
        meta = MetaClient(self.hive)
        return PodCarrier(
            self.runtime,
            client,
            reader,
            self._files,
            starter,
            meta=meta,
            backoffs=keeper.backoffs,
            cgroups=cgroups,
            lives=self._lives,
            events=self._events,
        )

    def _is_mine(self, pod: Pod) -> bool:
        return self._belongs_here(pod) and not self._static_pods.is_mirror(pod)

    def _on_listed(self) -> None:
        self._perhaps_all_known()
        self.announce_ready()

    def _take(self, pod: Pod) -> None:
        if self._static_pods.is_mirror(pod):
            return
        self._keeper.take(pod)
        self._static_pods.taken(pod)
        self._perhaps_all_known()

    def _on_static_pods(self, changes: Changes) -> None:
        self._static_pods.found(changes)
        self._perhaps_all_known()

    def _perhaps_all_known(self) -> None:
        """Once, when both the store and the files have said which pods belong here."""
        if self._stored.listed and self._static_pods.all_came and not self._all_known:
            self._all_known = True
            self._stored.all_known()
            self._pleg.tell(LookAround())
            self._static_pods.listed()

    def _read(self, raw: bytes, about: str) -> Pod | None:
        try:
            pod = decode(Pod, raw)
        except DecodeError as error:
            _log.error("pod %s is left out: %s", about, error)
            return None
        identity = (pod.metadata.uid, pod.metadata.name, pod.metadata.namespace)
        if all(identity) and not any("/" in part for part in identity):
            return pod
        _log.error("pod %s is left out: uid, name and namespace are wanted, without slashes", about)
        return None

    def _belongs_here(self, pod: Pod) -> bool:
        return pod.spec.node_name in ("", self._settings.node_name)

    def _on_pleg(self, event: Event) -> None:
        self._snapshots.looked_at = self.clock.monotonic()
        match event:
            case RelistFailed(error):
                self._note_problem(str(error))
            case Looked(seen):
                self._record(seen)
                self._keeper.observe(seen)
            case Relisted(changed):
                self._note_problem("")
                for seen in changed:
                    self._record(seen)
                self._keeper.relisted(event)
                self._stored.relisted()
                if self._stored.inquires:
                    self._pleg.tell(LookAround())

    def _note_problem(self, problem: str) -> None:
        if problem != self._relist_problem:
            self._relist_problem = problem
            if problem:
                _log.warning("the runtime cannot be looked at: %s", problem)
            else:
                _log.info("the runtime can be looked at again")

    def _record(self, seen: Seen) -> None:
        if self.hive.watchers:
            self.hive.tell_watchers(pod_changed(seen, self.clock.monotonic(), self.hive.next_span))

    def _on_over(self, uid: PodUid) -> None:
        self._keeper.health_changed(uid)

    def _on_done(self, done: Done) -> None:
        if done.facts is not None:
            self._hints.observe(Observed(done.facts, self._owner, done.facts_at))
        self._keeper.done(done)

    def _place(self) -> Place:
        """What a new pod finds here. The machine's figures are known from the first report on."""
        there = allocatable(self._node_status())
        return Place(self._settings.node_name, there, self._node.node, self._settings.allowed_unsafe_sysctls)

    def _node_status(self) -> NodeStatus:
        report = self._last_report
        return node_status(report, NodeStatus(), Nanoseconds(0)) if report is not None else NodeStatus()

    def _on_report(self, report: Report) -> None:
        self._last_report = report
        runtime_name = report.runtime_version.partition("://")[0]
        self._keeper.node_changed(NodeView(report.machine.addresses, runtime_name))
        self._node.tick()

    def _tick(self) -> None:
        self._node.tick()
        self._static_pods.tick()
        self._reporter.send_all()

    def _publish(self, pods: tuple[Pod, ...]) -> None:
        self._snapshots.pods = pods

    def _turn(self, function: Callable[[Any], None]) -> Callable[[Any], None]:
        """The same function, called in this module's own turn; for its actors."""
        return lambda value: self.call_soon(lambda: function(value))
