"""Executes a plan."""

import math
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec

from beehive.delivery import DropReason
from beehive.files.removal import remove_tree
from edged.pods import labels
from modules.apimachinery.kinds import JsonObject, kind_named, uid_of
from modules.lab.simulate.cloud import SimulatedCloud
from modules.lab.simulate.clustered_cloud import ClusteredCloud
from modules.lab.simulate.convergence import disagreements
from modules.lab.simulate.device_documents import MODEL, device_disagreements, device_document, model_document
from modules.lab.simulate.documents import document_of, kind_of
from modules.lab.simulate.faults import Faults
from modules.lab.simulate.hostile_node import HostileNode
from modules.lab.simulate.node import SimulatedNode
from modules.lab.simulate.paired_cloud import PairedCloud
from modules.lab.simulate.plan import (
    DeviceAction,
    DeviceStep,
    FaultKind,
    Plan,
    RolloutStep,
    ServiceStep,
    Shape,
    WorkloadStep,
    Write,
    Writer,
)
from modules.lab.simulate.report_watch import ReportWatch
from modules.lab.simulate.rollout_documents import rollout_document, rollout_name
from modules.lab.simulate.service_agreement import group_disagreements, service_disagreements
from modules.lab.simulate.service_documents import documents, group_documents
from modules.lab.simulate.sizes import grown, sizes_of
from modules.lab.simulate.status_watch import StatusWatch
from modules.lab.simulate.streams import StreamSite
from modules.lab.simulate.watch_client import WatchClient
from modules.lab.simulate.world import Entry, Violation, World
from protos.cri.v1 import api_pb2 as pb

CONVERGE_WITHIN = 900.0
"""Virtual seconds from the end of the last fault until all must agree: three of the longest back-offs (300 s)."""
_LOOK_EVERY = 1.0
_LOOK_IN_THE_DARK = 60.0
"""Seconds between two looks while no machine has power."""
_LATER = 1.1
"""Growth of the time until nodes and cloud are compared again, which costs more than a virtual second of their life."""
_LONGEST_REQUEST = 100.0
"""Longest allowed request in seconds; the longest deadline in the product is 65 s."""
_INBOX_BOUND = 1100
"""Commands (1024), and a few answers and timers."""
_WATCHED = ("Pod", "Secret")
"""The kinds that clients watch."""
_NO_REASON = (DropReason.NO_MODULE, DropReason.NO_GROUP, DropReason.NO_HANDLER, DropReason.POISON)
"""Reasons of dead letters that no fault explains: a message without a receiver."""
_HEARTBEAT = 70.0
"""Seconds after which an equal value of a device is a change again, and some."""
_SERVED_WITHIN = 10.0
"""Seconds without a fault after which nodes have their endpoints of a changed Service or node group."""
_RESTARTED_AFTER = 30.0
"""Seconds after which a node that is stopped runs again: for the stop, and for its init system."""
_FAST_DISK = Path("/dev/shm")  # noqa: S108 - a directory of its own is made in it


class SimulationResult(msgspec.Struct, frozen=True):
    """The result of a run."""

    plan: Plan
    violation: Violation | None
    """The first violation."""
    simulated: float
    """Virtual seconds of each node."""
    converged_after: float
    """Virtual seconds from the end of the last fault."""
    took: float
    """Real seconds."""
    steps: int
    """Steps of the scheduler."""
    kills: int
    log: list[Entry]


def run_plan(
    plan: Plan,
    *,
    keep_log: bool = True,
    converge: bool = True,
    traces: Path | None = None,
    scratch: Path | None = None,
) -> SimulationResult:
    """Execute a plan to its end or to the first violation.

    Args:
        plan: the plan.
        keep_log: whether the log is kept.
        converge: whether the nodes have to agree with the cloud in the end.
        traces: directory for a trace of each node; None for no recording.
        scratch: directory for the nodes' directories; None makes one on a fast disk.

    Raises:
        TraceError: a trace could not be written.
    """
    began = time.perf_counter()
    with scratch_directory(scratch) as root, World(plan.seed, keep_log=keep_log) as world:
        run = Simulation(world, plan, root, record=traces is not None)
        try:
            run.carry_out()
            after = run.converge() if converge and not world.violations else 0.0
            if plan.compares_sizes and not world.violations:
                run.compare_sizes()
        finally:
            run.close()
        if traces is not None:
            run.write_traces(traces)
        return SimulationResult(
            plan=plan,
            violation=world.violations[0] if world.violations else None,
            simulated=world.now(),
            converged_after=after,
            took=time.perf_counter() - began,
            steps=world.scheduler.steps,
            kills=sum(node.kills for node in run.nodes),
            log=world.log,
        )


class Simulation:
    """One run; see `run_plan`."""

    def __init__(self, world: World, plan: Plan, root: Path, *, record: bool = False) -> None:
        self.world = world
        self.plan = plan
        self.statuses = StatusWatch(world)
        make = ClusteredCloud if plan.cluster else PairedCloud if plan.paired else SimulatedCloud
        self.cloud = make(world, root / "cloud", self.statuses, plan.first_version)
        self.nodes = [
            SimulatedNode(world, number, root / f"node-{number}", self.cloud.endpoint, self.statuses, record=record)
            for number in range(plan.nodes)
        ]
        self.faults = Faults(world, self.cloud, self.nodes)
        if plan.devices:
            self.cloud.has_devices = True
            for node in self.nodes:
                own = [step for step in plan.devices if self._node(step) is node]
                node.with_devices(dict.fromkeys(step.name for step in own if step.action is not DeviceAction.MODEL))
        self.streams = StreamSite(world, self.cloud.endpoint) if plan.streams else None
        self.cloud.stream_site = self.streams
        for node in self.nodes:
            node.stream_site = self.streams
            node.follows_services = bool(plan.services)
        self.cloud.has_workloads = bool(plan.rollouts)
        self.cloud.has_groups = bool(plan.rollouts and plan.services)
        self._groups: dict[str, int] = {}
        """The numbers of the nodes' groups, if a controller labels nodes."""
        self.hostile = HostileNode(world, self.cloud, plan.hostile) if plan.hostile else None
        kinds = _WATCHED if plan.watchers else ()
        self.cloud.clients = [WatchClient(world, kind_named(kind), self.cloud.request) for kind in kinds]
        self.reports = ReportWatch(world, self.nodes)
        self.cloud.has_identities = _have(plan, FaultKind.LOCKED_OUT)
        self.cloud.is_shared = plan.paired or _have(plan, FaultKind.TAKEN_OVER)
        if isinstance(self.cloud, ClusteredCloud):
            self.cloud.keeps_state = plan.keeps_state
            self.cloud.is_shared &= not plan.keeps_state
            self.cloud.restored.append(self._forget)
            self.cloud.restarted.extend(node.rows.forget_deletions for node in self.nodes)
            for node in self.nodes:
                node.wire.lists_are_newer = True
        self._open_since: dict[int, dict[str, float]] = {}
        """Time when each open request of a node was first seen."""
        self._served = math.inf
        """Time of the last change of a Service or a node group, until its effect is checked."""

    def carry_out(self) -> None:
        """Start everything and execute the plan."""
        self.cloud.start()
        for client in self.cloud.clients:
            client.begin()
        for node in self.nodes:
            node.machine.watch.wants_running = partial(self._wants_running, node)
            node.machine.watch.is_stale = self._is_stale
            node.machine.add_foreign()
            node.start()
        for step in self.plan.steps:
            self.world.at(step.at, partial(self._change, step))
        for rollout in self.plan.rollouts:
            self.world.at(rollout.at, partial(self._roll, rollout))
        self._begin_devices()
        for change in self.plan.services:
            self.world.at(change.at, partial(self._serve, change))
        for write in self.plan.writes:
            self.world.at(write.at, partial(self._write, write))
        for fault in self.plan.faults:
            self.faults.schedule(fault)
        if self.plan.uploads:
            self._upload()
        if self.hostile is not None:
            self.hostile.start()
        while self.world.now() < self.plan.seconds and not self.world.violations:
            self._resume()

    def _begin_devices(self) -> None:
        if not self.plan.devices:
            return
        self.cloud.set_object("DeviceModel", MODEL, model_document(is_writable=True))
        for event in self.plan.devices:
            self.world.at(event.at, partial(self._device, event))
        for at in self.plan.publications:
            for node in self.nodes:
                self.world.at(at, node.publish)

    def _forget(self) -> None:
        """Forget the messages of the cloud: it has an older state again."""
        self.reports.forget()
        self.faults.lockouts.repeat()
        for client in self.cloud.clients:
            client.list_again()
        for node in self.nodes:
            node.wire.forget()
            node.rows.distrust_deletions()
            node.machine.watch.restored()
            node.forget_reports()

    def _upload(self) -> None:
        """Let each node send an upload, and again later."""
        for node in self.nodes:
            node.upload()
        if self.world.now() + self.plan.uploads < self.plan.seconds:
            self.world.at(self.world.now() + self.plan.uploads, self._upload)

    def converge(self) -> float:
        """Wait until all agree; return the virtual seconds."""
        end = self.world.now()
        while self.faults.open and not self.world.violations:
            self._resume()
        self.world.log_line("run", "no more faults")
        is_shared = _have(self.plan, FaultKind.TAKEN_OVER)
        if self.cloud.second is not None and is_shared and (self.streams is not None or self.plan.paired):
            self.cloud.second.start()
            self.statuses.leave_cloudcore()
        if self.streams is not None:
            self.streams.settle(self.nodes)
        self._repeat_reports()
        compare_after = 0.0
        while not self.world.violations:
            lasts = self.world.now() - end
            if lasts >= min(compare_after, CONVERGE_WITHIN):
                problem = next(self._disagreements(), None)
                if problem is None:
                    return lasts
                if lasts > CONVERGE_WITHIN:
                    self.world.violated("all agree in the end", f"after {CONVERGE_WITHIN:g} s: {problem}")
                compare_after = lasts * _LATER
            self._resume()
        return 0.0

    def compare_sizes(self) -> None:
        """Restart cloudcore and all nodes, and check that they had kept little more in memory than they keep after a
        start.
        """
        processes: list[SimulatedCloud | SimulatedNode] = [self.cloud, *self.nodes]
        before = [sizes_of(each.hive) if each.hive is not None else Counter[str]() for each in processes]
        for node in self.nodes:
            node.restart()
        self.cloud.stop_second()
        self.cloud.stop()
        self.cloud.start()
        self.world.run_for(_RESTARTED_AFTER)
        self.converge()
        for each, sizes in zip(processes, before, strict=True):
            for problem in grown(sizes, sizes_of(each.hive)) if each.hive is not None else ():
                self.world.violated("nothing piles up in memory", f"{each.name}: {problem}")

    def close(self) -> None:
        """Close files and sockets."""
        self.cloud.close()
        for node in self.nodes:
            node.close()
        if self.streams is not None:
            self.streams.close()

    def write_traces(self, directory: Path) -> None:
        """Write a trace of each node, replacing a file of its name."""
        directory.mkdir(parents=True, exist_ok=True)
        for node in self.nodes:
            path = directory / f"seed-{self.plan.seed}-{node.name}.trace"
            path.unlink(missing_ok=True)
            for recorder in node.recorders:
                recorder.write(path)

    def _resume(self) -> None:
        self.world.run_for(_LOOK_IN_THE_DARK if all(node.off for node in self.nodes) else _LOOK_EVERY)
        self.cloud.reconcile()
        self.faults.lockouts.check(self.statuses.behind)
        pods = self.cloud.pods()
        if self.plan.rollouts:
            self._check_identities()
        self.reports.check(pods, is_late=self.world.now() < self.statuses.late_until)
        if self.hostile is not None:
            self.hostile.check()
        for node in self.nodes:
            self._check(node)
        if self.streams is not None:
            is_calm = not self.faults.open and self.cloud.is_running and all(node.is_connected for node in self.nodes)
            self.streams.check(self.nodes, is_calm=is_calm)
        self._check_delays(pods)
        self._check_services()

    def _check_identities(self) -> None:
        """Check that no two pods of one name of the StatefulSet run, unless the Node of one was deleted."""
        running: dict[str, set[str]] = {}
        for node in self.nodes:
            for container in node.machine.containers.values():
                name, uid = container.labels[labels.POD_NAME], container.labels[labels.POD_UID]
                is_own = name.startswith(f"{rollout_name('StatefulSet')}-") and uid not in self.cloud.torn
                if is_own and container.state == pb.CONTAINER_RUNNING:
                    running.setdefault(name, set()).add(uid)
        for name, uids in running.items():
            if len(uids) > 1:
                self.world.violated("one pod of an identity", f"{len(uids)} pods {name} run")

    def _check_delays(self, pods: list[JsonObject]) -> None:
        of_nodes: dict[str, dict[str, JsonObject]] = {node.name: {} for node in self.nodes}
        for pod in pods:
            of_nodes.get(pod["spec"].get("nodeName"), {})[uid_of(pod)] = pod
        up = not self.faults.open and self.cloud.is_running
        for node in self.nodes:
            own = of_nodes[node.name]
            is_calm = up and node.is_connected
            node.machine.delays.check(own, node.rows.versions(), is_calm=is_calm, behind=self.statuses.behind)

    def _check_services(self) -> None:
        """Check that nodes have their endpoints some seconds after the last change, if there was no fault for long."""
        if self.world.now() < self._served + _SERVED_WITHIN:
            return
        changed, self._served = self._served, math.inf
        if all(node.machine.delays.was_calm(changed, self.statuses.behind) for node in self.nodes):
            for node in self.nodes:
                for problem in service_disagreements(node, self.cloud):
                    self.world.violated("endpoints are right soon", f"{node.name}: {problem}")

    def _change(self, step: WorkloadStep) -> None:
        self.world.log_line("people", str(step))
        if step.shape is Shape.STATIC:
            self.nodes[step.node % len(self.nodes)].change_file(step)
            return
        self.cloud.set_object(kind_of(step.shape), step.name, document_of(step))

    def _roll(self, step: RolloutStep) -> None:
        self.world.log_line("people", str(step))
        self.cloud.set_object(step.kind, rollout_name(step.kind), rollout_document(step))

    def _node(self, step: DeviceStep) -> SimulatedNode:
        return self.nodes[step.node % len(self.nodes)]

    def _device(self, step: DeviceStep) -> None:
        self.world.log_line("people", str(step))
        if step.action is DeviceAction.MODEL:
            self.cloud.set_object("DeviceModel", MODEL, model_document(is_writable=bool(step.value)))
            return
        device = self._node(step).devices[step.name]
        if step.action in (DeviceAction.DESIRED, DeviceAction.DELETED):
            device.is_wanted = step.action is DeviceAction.DESIRED
            if not device.is_wanted:
                device.forget()
            self.cloud.set_object("Device", step.name, device_document(step))
        else:
            device.act(step)

    def _repeat_reports(self) -> None:
        """Let devices repeat lost reports: immediately, and again when an equal value counts as new."""
        for node in self.nodes:
            for device in node.devices.values():
                if device.must_repeat:
                    device.repeat()
                    self.world.at(self.world.now() + _HEARTBEAT, device.repeat)

    def _serve(self, step: ServiceStep) -> None:
        self.world.log_line("people", str(step))
        self._served = self.world.now()
        for document in documents(step):
            name = document["metadata"]["name"]
            self.cloud.set_object(document["kind"], name, None if document["kind"] in step.without else document)

    def _write(self, write: Write) -> None:
        self.world.log_line("others", str(write))
        if write.writer is Writer.NODE_GROUP:
            self._served = self.world.now()
        if write.writer is Writer.NODE_GROUP and self.cloud.has_groups:
            self._groups[write.name] = write.number
            for document in group_documents(self._groups):
                self.cloud.set_object(document["kind"], document["metadata"]["name"], document)
        else:
            self.cloud.write(write)

    def _wants_running(self, node: SimulatedNode, uid: str) -> bool:
        """Return whether the cloud, or a file, has that pod unchanged and it should be running."""
        if uid in node.manifests.wanted.values():
            return uid not in node.machine.watch.reborn
        pod = self.cloud.pods_of(node.name).get(uid)
        return (
            pod is not None
            and uid not in self.cloud.came_back
            and not self._is_stale()
            and not pod["metadata"].get("deletionTimestamp")
            and pod["metadata"].get("generation", 1) == 1
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        )

    def _is_stale(self) -> bool:
        return self.world.now() <= self.cloud.stale_until

    def _disagreements(self) -> Iterator[str]:
        yield from self.cloud.disagreements()
        yield from self.faults.lockouts.disagreements()
        yield from group_disagreements(self._groups, self.cloud)
        yield from self.streams.disagreements(self.nodes) if self.streams is not None else ()
        for node in self.nodes:
            for problem in (*disagreements(node, self.cloud), *device_disagreements(node, self.cloud)):
                yield f"{node.name}: {problem}"
            for problem in service_disagreements(node, self.cloud) if self.plan.services else ():
                yield f"{node.name}: {problem}"

    def _check(self, node: SimulatedNode) -> None:
        node.machine.watch.live()
        hive = node.hive
        if hive is None:
            return
        for name, depth in hive.depths().items():
            if depth > _INBOX_BOUND:
                self.world.violated("inboxes are bounded", f"{node.name}: {depth} wait for {name}")
        for name, count in hive.restarts().items():
            if count:
                self.world.violated("no module fails", f"{node.name}: {name} was started again")
        self._check_requests(node)
        for letter in hive.dead_letters:
            if letter.reason in _NO_REASON:
                route = letter.message.route
                text = f"{node.name}: {route.operation} {route.resource} for {letter.module}: {letter.reason.value}"
                self.world.violated("no dead letter without a reason", text)

    def _check_requests(self, node: SimulatedNode) -> None:
        """Check that no request is open for longer than the longest deadline."""
        open_ids = [] if node.hive is None else node.hive.pending_requests.ids()
        since = self._open_since.get(node.number, {})
        now = self.world.now()
        self._open_since[node.number] = {each: since.get(each, now) for each in open_ids}
        for each, began in self._open_since[node.number].items():
            if now - began > _LONGEST_REQUEST:
                self.world.violated("no request waits for ever", f"{node.name}: request {each} since {began:.0f} s")


def _have(plan: Plan, kind: FaultKind) -> bool:
    return any(fault.kind is kind for fault in plan.faults)


@contextmanager
def scratch_directory(parent: Path | None = None) -> Iterator[Path]:
    """Make a temporary directory, by default on a fast disk: the simulated disk's delays are virtual."""
    if parent is None and os.access(_FAST_DISK, os.W_OK):
        parent = _FAST_DISK
    path = Path(tempfile.mkdtemp(prefix="edgecore-simulate-", dir=parent))
    try:
        yield path
    finally:
        with suppress(OSError):
            remove_tree(path)
