"""Assembly: makes the parts of edged bottom up, and starts and closes them."""

import logging

from beehive import Group, Module, ModuleName, Operation, ResourceType
from beehive.names import REGISTRATION_RESOURCE, SHUTDOWN_RESOURCE
from edged.assembly_parts import (
    Dependencies,
    PodControl,
    make_base,
    make_events,
    make_node_resources,
    make_pod_control,
    make_pod_records,
    make_probes,
    make_runtime_manager,
)
from edged.housekeeping import Housekeeping, NodeUsage
from edged.node.reporter import NodeReporter
from edged.node.status import LEASE_RENEW_FRACTION
from edged.node.watch import NodeWatch
from edged.node_recheck import NodeRecheck
from edged.pleg.messages import PodInspected
from edged.pleg.watch import RuntimeWatch
from edged.pod_store import LocalPods, PodStore
from edged.pod_workers.requeue import RequeuePolicy
from edged.pods.decode import read_node
from edged.shutdown.logind import ShutdownSource, ShutdownWatch
from edged.shutdown.shutdown_manager import ShutdownManager
from edged.static_pods.manager import StaticPodManager
from edged.sync_channel import RuntimeInspected
from edged.sync_loop import SyncLoop
from edged.sync_parts import NodeParts, PodParts, PodSources, StatusParts
from metamanager.client import CallError

_log = logging.getLogger(__name__)


class Assembly:
    """The parts of edged, made anew at each start of the module.

    A part gets the parts that it calls when it is made, so that the order of construction is the order of the layers.
    Parts send to the layers above them by the `SyncChannel` only. Lives on the module's thread.

    Args:
        module: edged.
        given: the dependencies of edged.
    """

    def __init__(self, module: Module, given: Dependencies) -> None:
        self._base = make_base(module, given)
        self._events = make_events(self._base)
        self._records = make_pod_records(self._base)
        self._on_node = make_node_resources(self._base)
        self.node, self.volume_manager = self._on_node.node, self._on_node.volumes
        self.static_pods = self._make_static_pods()
        self._events.node.starting()
        self.node_reporter = self._make_node_reporter()
        self._runtime_manager = make_runtime_manager(self._base, self._events.pods, self._on_node)
        self._control = self._make_pod_control()
        self.pod_killer = self._control.killer
        self.housekeeping = self._make_housekeeping()
        self._machine = self._open_machine()
        self.node_shutdown = self._make_shutdown_manager()
        self._runtime_watch = self._make_runtime_watch()
        self._requeue = RequeuePolicy(self._base.clock, self._base.settings, self._control.jobs)
        self._pod_store = self._make_pod_store()
        self.sync_loop = self._make_sync_loop()

    def start(self) -> None:
        """Start the actors, and list the store, whether or not the cloud is connected: first the node, whose labels and
        taints decide about its pods.
        """
        module, settings = self._base.module, self._base.settings
        self._start_actors()
        self._base.given.snapshots.work = lambda: self._control.workers.figures(self._requeue.failed())
        module.every(settings.status_period, self.sync_loop.handle_status_period)
        module.every(settings.lease_duration * LEASE_RENEW_FRACTION, self.node_reporter.renew_lease)
        self._base.meta.list_all(ResourceType.NODE, then=self._on_stored_node)
        self._pod_store.list_pods()

    def close(self) -> None:
        """Send the events that are left, and release everything. Containers are left running."""
        self._events.reporter.close()
        self.release()

    def release(self) -> None:
        """Release everything, the runtime first: a worker whose wait ends must not change anything in it any more."""
        snapshots, runtime_manager = self._base.given.snapshots, self._runtime_manager
        snapshots.runtime = None
        snapshots.work = None
        snapshots.probes = None
        if self._machine is not None:
            self._machine.close()
        runtime_manager.puller.close()
        self._base.runtime.close()
        self.volume_manager.close()
        self._on_node.devices.close()
        runtime_manager.lifecycle.close()

    def _make_static_pods(self) -> StaticPodManager:
        base, records = self._base, self._records
        return StaticPodManager(
            base.module, base.meta, records.statuses, records.manager, lambda: self.node.state.registered
        )

    def _make_node_reporter(self) -> NodeReporter:
        base = self._base
        return NodeReporter(
            base.meta,
            base.clock,
            base.settings,
            self.node,
            self.static_pods.sync_mirrors,
            self._events.node,
            self.volume_manager.drivers,
            confirmed=self._announce_registration,
        )

    def _announce_registration(self) -> None:
        """Tell edgestream that the cloud has the Node object."""
        module = self._base.module
        if module.hive.members(Group.EDGESTREAM):
            registered = module.message(REGISTRATION_RESOURCE, Operation.CONNECTED, None)
            module.broadcast(Group.EDGESTREAM, registered)

    def _make_pod_control(self) -> PodControl:
        base, events, records = self._base, self._events.pods, self._records
        probes = make_probes(base, records.manager, events)
        base.given.snapshots.probes = probes.counts
        return make_pod_control(base, events, records, self._on_node, self._runtime_manager, probes)

    def _make_housekeeping(self) -> Housekeeping:
        base, snapshots = self._base, self._base.given.snapshots
        usage = NodeUsage(base.runtime, base.given.host.machine_info, lambda: snapshots.pods)
        return Housekeeping(
            base.module, base.settings, usage, self._on_node.directories, self._events.recorder, self.pod_killer,
            self.node_reporter,
        )  # fmt: skip

    def _open_machine(self) -> ShutdownSource | None:
        """Connect to the machine's shutdown, if the node is to end its pods before it."""
        host, settings = self._base.given.host, self._base.settings
        return host.shutdown() if settings.shutdown and host.shutdown is not None else None

    def _make_shutdown_manager(self) -> ShutdownManager:
        released = self._machine.release if self._machine is not None else _release_nothing
        return ShutdownManager(
            self._base.module, self._base.settings.shutdown, self.pod_killer, self.node_reporter, released,
            self._events.recorder,
        )  # fmt: skip

    def _make_runtime_watch(self) -> RuntimeWatch:
        channel = self._base.channel
        return RuntimeWatch(
            self._base.module,
            self._base.settings,
            seen=lambda inspection: channel.send(PodInspected(inspection)),
            relisted=channel.send,
            looked=lambda: channel.send(RuntimeInspected()),
        )

    def _make_pod_store(self) -> PodStore:
        base, on_node = self._base, self._on_node
        local_pods = LocalPods(base.settings.node_name, self.static_pods, on_node.directories, on_node.devices.manager)
        return PodStore(base.module, base.meta, base.channel, self._records.orphans, local_pods)

    def _make_sync_loop(self) -> SyncLoop:
        base, records, control = self._base, self._records, self._control
        recheck = NodeRecheck(records.manager, control.admitter, self.node_reporter, base.channel)
        return SyncLoop(
            base.module,
            base.channel,
            self._events.pods,
            PodParts(
                records.manager, records.orphans, control.admitter, recheck, control.workers, control.jobs,
                self._requeue, control.killer,
            ),
            StatusParts(control.status_generator, records.statuses),
            PodSources(self._pod_store, self.static_pods),
            NodeParts(
                self.node_reporter, self._runtime_watch, self.housekeeping, base.given.snapshots, base.settings.owner
            ),
        )  # fmt: skip

    def _start_actors(self) -> None:
        base, settings, post = self._base, self._base.settings, self._base.channel.post
        self._runtime_watch.start(base.runtime, self._runtime_manager.reader, base.on_thread)
        self._control.workers.start(settings.workers)
        base.module.start_actor(
            NodeWatch,
            settings,
            base.runtime,
            post,
            base.given.version,
            base.given.host.machine_info,
            self.volume_manager.csi.in_use,
        )
        self.volume_manager.start(DevicePlugin=self._on_node.devices)
        self._on_node.devices.start()
        self.housekeeping.start()
        if self._machine is not None:
            base.module.start_actor(ShutdownWatch, self._machine, self._send_shutdown)
        self.volume_manager.watch_sizes(self.pod_killer)
        if settings.static_pods is not None:
            self.static_pods.watch_directory(settings.static_pods, settings.node_name, post)

    def _on_stored_node(self, answer: list[bytes] | CallError) -> None:
        if isinstance(answer, CallError):
            _log.warning("the store does not say how the cloud has this node: %s", answer)
            return
        for raw in answer:
            node = read_node(raw, "from the store", self._base.settings.node_name)
            if node is not None:
                self.node_reporter.handle_stored_node(node)

    def _send_shutdown(self, imminent: bool) -> None:
        """Send a message to edged itself, so that a recorded run has it; on any thread."""
        message = self._base.module.message(SHUTDOWN_RESOURCE, Operation.UPDATE, imminent)
        self._base.module.send(ModuleName.EDGED, message)


def _release_nothing() -> None:
    """Nothing delays the shutdown of this machine."""
