"""The module taskmanager."""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import ClassVar, Final

import msgspec

from beehive.backoff import doubled
from beehive.clock import Timer
from beehive.delivery import OverflowPolicy
from beehive.errors import BeehiveError
from beehive.handlers import handles
from beehive.message import Message
from beehive.module import Module
from beehive.names import Group, ModuleName, Operation
from beehive.resource import Side
from modules.apimachinery.conditions import is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, key_of, uid_of, version_of
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import (
    API_VERSION,
    FLOWS,
    LONGEST_REASON,
    Action,
    ActionReport,
    JobAddress,
    JobSpecError,
    read_spec,
)
from modules.cloud.client.calls import ApiCall, ApiResult
from modules.cloud.client.reflector.request_state import is_lower
from modules.cloud.connected_nodes import ConnectedNodes
from modules.cloud.coordination.known_cloudcores import Duty, KnownCloudcores
from modules.cloud.jobs import JOBS, KIND_NAMES
from modules.cloud.kind_watch import Connect, KindWatch
from modules.cloud.messages import HANDLED, HANDLED_RESOURCE, NODES, NODES_RESOURCE, ConnectEvent, NodeConnection
from modules.cloud.module_calls import PERMANENT, ask, code_of
from modules.cloud.refusals import Refusals
from modules.cloud.storage.object_storage import EventType
from modules.cloud.storage.watch_history import ObjectChanged
from modules.cloud.taskmanager.deadlines import Deadlines
from modules.cloud.taskmanager.events import event_call, notes_of
from modules.cloud.taskmanager.progress import JobLimits, accept, advance, begin, is_busy
from modules.cloud.taskmanager.statuses import JobPhase, JobStatus, TaskPhase, read_status
from modules.cloud.taskmanager.waves import Waves, gate_of, stop_of

_log = logging.getLogger(__name__)

RECONCILE: Final = 10.0
"""Seconds between two looks at the time-outs (KubeEdge's)."""
DELAY: Final = 0.5
"""Seconds in which the reports about a job are collected before its status is written."""
LONGEST_DELAY: Final = 30.0
"""Seconds between two attempts when the API server does not answer."""
_MOST_EARLY: Final = 1000
_MOST_EARLY_OF_NODE: Final = 16
_PAGE: Final = 500
_SECONDS: Final = 30.0
_KIND: Final = "jobs"
"""The kind of refused messages in their counter."""
_ENDED: Final = (JobPhase.COMPLETED, JobPhase.FAILURE)


class _Job:
    """A job as it is known, and what waits to be written into its status."""

    def __init__(self, kind: JobKind, obj: JsonObject) -> None:
        self.kind = kind
        self.observe(obj)
        self.deadlines = Deadlines()
        self.reports: dict[tuple[str, str], ActionReport] = {}
        """By node and action, in order: each counts once, so that no node takes the place of another's."""
        self.again: set[str] = set()
        """Nodes that have connected, and have the job again if they have reported nothing."""
        self.timer: Timer | None = None
        self.is_busy = False
        self.failures = 0
        self.refusal = ""
        """Why its status cannot be stored, as the log has it."""

    def observe(self, obj: JsonObject) -> None:
        """Take over a state that the watch tells; its version is lower than an earlier one after a restore."""
        self._told = version_of(obj)
        self._put(obj)

    def take_answer(self, obj: JsonObject) -> None:
        """Take over the answer to a call, unless the watch has told a newer state, or the job was made again."""
        if uid_of(obj) == uid_of(self.object) and not is_lower(version_of(obj), self._told):
            self._put(obj)

    def _put(self, obj: JsonObject) -> None:
        kind = JOBS[self.kind]
        self.object: JsonObject = {**obj, "apiVersion": kind.api_version, "kind": kind.name}
        status = read_status(obj.get("status"))
        self.nodes = frozenset(task.node_name for task in status.node_status)
        self.busy = frozenset(task.node_name for task in status.node_status if is_busy(task))
        self.has_ended = status.phase in _ENDED and all(
            task.phase != TaskPhase.IN_PROGRESS for task in status.node_status
        )

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def status(self) -> JobStatus:
        """A copy of the stored status."""
        return read_status(self.object.get("status"))


class CloudTaskManager(Module):
    """The module that sends the jobs of the API server to their nodes, and writes the nodes' reports into the jobs'
    statuses.

    The status of a job has all that is known of it, and each write is guarded by its version: so any cloudcore goes on
    with it, each sends to the nodes that are connected to it, and together they keep to the job's concurrency. A node
    gets a job after the write that says so, and after the job that it is carrying out. If it has reported nothing when
    it connects again, it gets the job again; a node that has a job already reports what is done.

    Args:
        refusals: counts refused messages of nodes.
        connect: returns a transport to the API server.
        known: the cloudcores that are alive.
    """

    name: ClassVar[str] = ModuleName.TASKMANAGER
    group: ClassVar[str] = Group.TASKMANAGER
    side: ClassVar[Side] = Side.CLOUD

    def __init__(self, refusals: Refusals, connect: Connect, known: KnownCloudcores | None = None) -> None:
        super().__init__()
        self._refusals = refusals
        self._cloudcores = known or KnownCloudcores()
        self._jobs: dict[ObjectKey, _Job] = {}
        self._connected = ConnectedNodes()
        self._watch = KindWatch(
            self, tuple(JOBS.values()), self._handle_change, self._begin, connect, "deploy/jobs.yaml"
        )
        self._is_loaded = False
        self._early: list[tuple[JobAddress, ActionReport]] = []
        """Reports that have come before the jobs were known."""
        self._early_of: Counter[str] = Counter()
        """How many of them are a node's."""

    def on_start(self) -> None:
        """Begin to watch jobs."""
        self._watch.start()
        self.every(RECONCILE, self._reconcile_all)

    def on_end(self) -> None:
        """End the watch."""
        self._watch.stop()

    @handles(None, Operation.CONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_connected(self, message: Message) -> None:
        """Go on with the jobs of a node."""
        event = message.content_as(ConnectEvent)
        self._connect(event.client_id, event.connection)

    @handles(None, Operation.DISCONNECTED, source=ModuleName.CLOUDHUB, overflow=OverflowPolicy.STATE)
    def on_disconnected(self, message: Message) -> None:
        """Send nothing more to a node."""
        self._connected.end(message)

    @handles()
    def on_report(self, message: Message) -> None:
        """Take the report of a node about an action that has ended."""
        node, _, resource = message.route.resource.removeprefix("node/").partition("/")
        self.send(ModuleName.CLOUDHUB, self.message(HANDLED_RESOURCE, HANDLED, {node: 1}))
        address = JobAddress.read(resource)
        if address is None or address.node != node or message.route.operation != Operation.NODE_ACTION_STATUS:
            self._refuse(node, "not a report about a job of this node", resource)
            return
        try:
            report = message.content_as(ActionReport)
        except BeehiveError:
            self._refuse(node, "not a report that can be taken", resource)
            return
        report = msgspec.structs.replace(report, reason=report.reason[:LONGEST_REASON])
        if self._is_loaded:
            self._record_report(address, report)
        elif len(self._early) >= _MOST_EARLY or self._early_of[node] >= _MOST_EARLY_OF_NODE:
            self._refuse(node, "too many reports wait", resource)
        else:
            self._early_of[node] += 1
            self._early.append((address, report))

    def _record_report(self, address: JobAddress, report: ActionReport) -> None:
        job, node = self._jobs.get(ObjectKey(JOBS[address.kind].key_name, "", address.name)), address.node
        if job is None or node not in job.nodes:
            self._refuse(node, "not a report about a job of this node", address.resource)
        elif report.action not in FLOWS[job.kind] or (node, report.action) in job.reports:
            self._refuse(node, "no action of this kind of job, or reported before", address.resource)
        else:
            job.reports[node, report.action] = report
            self._due(job, DELAY)

    def _refuse(self, node: str, why: str, resource: str) -> None:
        self._refusals.record(node, why, _KIND, resource[:200])

    def _connect(self, node: str, connection: str) -> None:
        for job in self._jobs.values() if self._connected.begin(node, connection) else ():
            if node in job.nodes and not job.has_ended:
                job.again.add(node)
                self._due(job)

    def _begin(self) -> None:
        """Go on with all jobs, and take the nodes that have connected before."""
        self._is_loaded = True
        early, self._early = self._early, []
        self._early_of.clear()
        for address, report in early:
            self._record_report(address, report)

        def seed(answer: Message | BeehiveError) -> None:
            for one in answer.content_as(list[NodeConnection]) if isinstance(answer, Message) else ():
                if one.node not in self._connected.nodes:
                    self._connect(one.node, one.connection)
            self._reconcile_all()

        self.request(ModuleName.CLOUDHUB, self.message(NODES_RESOURCE, NODES), _SECONDS, seed)

    def _reconcile_all(self) -> None:
        for job in self._jobs.values():
            if not job.has_ended:
                self._due(job)

    def _handle_change(self, changed: ObjectChanged) -> None:
        key = key_of(changed.object)
        job = self._jobs.get(key)
        if changed.change == EventType.DELETED:
            self._jobs.pop(key, None)
        elif job is None or uid_of(job.object) != uid_of(changed.object):
            self._jobs[key] = _Job(KIND_NAMES[key.kind], changed.object)
            self._due(self._jobs[key])
        else:
            job.observe(changed.object)
            self._due(job)

    def _due(self, job: _Job, delay: float = 0.0) -> None:
        """Look at a job soon."""
        if self._is_loaded and not job.is_busy and job.timer is None:
            job.timer = self.after(delay, partial(self._step, job))

    def _step(self, job: _Job) -> None:
        """Bring a job up to date."""
        job.timer = None
        if self._jobs.get(key_of(job.object)) is not job:
            return
        try:
            spec = read_spec(job.kind, job.object.get("spec"))
            limits = JobLimits.of(spec)
            waves = _waves_of(job)
        except (JobSpecError, ValueError) as error:
            self._write(job, JobStatus(JobPhase.FAILURE, str(error)))
            return
        status = job.status
        if not status.node_status and status.phase not in _ENDED:
            if self._is_own(job):
                self._list_nodes(job, lambda nodes: self._write(job, begin(spec, nodes)))
            return
        job.deadlines.observe(status, limits, self.clock.monotonic())
        if waves is not None and status.phase not in _ENDED:
            _, begun = waves.begun(status.node_status)
            if 0 < begun < waves.open(status.node_status, self._connected.nodes, job.deadlines.quiet):
                self._list_nodes(job, partial(self._pass_gate, job, limits, waves))
                return
        self._advance(job, status, limits, waves)

    def _pass_gate(self, job: _Job, limits: JobLimits, waves: Waves, nodes: list[JsonObject]) -> None:
        """Begin the next wave if the nodes of those before it are well."""
        ready = frozenset(str(node["metadata"]["name"]) for node in nodes if is_ready(node))
        status = job.status
        job.deadlines.observe(status, limits, self.clock.monotonic())
        self._advance(job, status, limits, waves, ready)

    def _advance(
        self,
        job: _Job,
        status: JobStatus,
        limits: JobLimits,
        waves: Waves | None,
        ready: frozenset[str] | None = None,
    ) -> None:
        """Advance a job.

        Args:
            job: the job.
            status: as it is stored.
            limits: of the job.
            waves: of the job.
            ready: the nodes that are ready; without them no further wave begins.
        """
        taken, job.reports = job.reports, {}
        for (node, _), report in taken.items():
            why = accept(job.kind, status, node, report)
            if why:
                self._refuse(node, why, JobAddress(job.kind, job.name, node).resource)
        is_own = self._is_own(job)
        busy = {node for other in self._jobs.values() if other is not job for node in other.busy}
        open_nodes = None
        if waves is not None and status.phase not in _ENDED:
            number = waves.open(status.node_status, self._connected.nodes | (ready or frozenset()), job.deadlines.quiet)
            _, begun = waves.begun(status.node_status)
            if 0 < begun < number:
                if ready is not None:
                    status.reason = gate_of(status.node_status[:begun], ready, limits.tolerance)
                number = begun if status.reason or ready is None else number
            open_nodes = {task.node_name for task in status.node_status[:number]}
            if why := stop_of(status.node_status[:begun], limits.tolerance):
                status.phase, status.reason = JobPhase.FAILURE, why
        sent = advance(
            status,
            limits,
            self._connected.nodes,
            lambda task: is_own and job.deadlines.is_overdue(task),
            is_stalled=is_own and job.deadlines.is_stalled and waves is None,
            is_open=lambda task: task.node_name not in busy and (open_nodes is None or task.node_name in open_nodes),
        )
        again, job.again = job.again, set()
        silent = {
            task.node_name
            for task in status.node_status
            if task.phase == TaskPhase.IN_PROGRESS
            and not task.action_flow
            and task.node_name not in sent
            and status.phase not in _ENDED
        }
        self._write(job, status, taken, [*sent, *sorted(again & silent)])

    def _is_own(self, job: _Job) -> bool:
        """Return whether this cloudcore judges the job: of several one does."""
        return self._cloudcores.owns(Duty.JOBS, str(key_of(job.object)))

    def _list_nodes(self, job: _Job, then: Callable[[list[JsonObject]], None]) -> None:
        """Call a function with all Nodes, unless the job is deleted meanwhile."""
        job.is_busy = True
        found: list[JsonObject] = []

        def page(token: str) -> None:
            options = {"limit": _PAGE} | ({"continue": token} if token else {})
            ask(self, ApiCall(verb="list", api_version="v1", plural="nodes", options=options), answered, _SECONDS)

        def answered(result: ApiResult) -> None:
            part = result.object or {}
            found.extend(part.get("items") or ())
            token = str((part.get("metadata") or {}).get("continue") or "")
            if token:
                page(token)
                return
            job.is_busy = False
            if result.object is None:
                self._try_again(job, "the Nodes cannot be listed")
            elif self._jobs.get(key_of(job.object)) is job:
                then(found)

        page("")

    def _write(
        self,
        job: _Job,
        status: JobStatus,
        reports: dict[tuple[str, str], ActionReport] | None = None,
        nodes: list[str] | None = None,
    ) -> None:
        """Write a status, unless it is stored so; afterwards send the job to nodes."""
        body, before = {**job.object, "status": status.to_json()}, job.status
        if status == before:
            job.failures = 0
            self._send(job, nodes or [])
            return
        job.is_busy = True

        def written(result: ApiResult) -> None:
            job.is_busy = False
            if result.object is not None:
                job.failures, job.refusal = 0, ""
                job.take_answer(result.object)
                self._send(job, nodes or [])
                self._report_events(job, before, read_status(result.object.get("status")))
                self._due(job, DELAY)
                return
            first = reports or {}
            job.reports = {**first, **job.reports, **first}
            job.again.update(nodes or [])
            code, why = code_of(result), str((result.refusal or {}).get("message", ""))[:300]
            if code == HTTPStatus.CONFLICT:
                self._read_again(job)
            elif code in PERMANENT and why != job.refusal:
                job.refusal = why
                _log.error("the status of %s %s cannot be stored: %s", job.kind, job.name, why)
            elif code not in (*PERMANENT, HTTPStatus.NOT_FOUND):
                self._try_again(job, why)

        ask(self, self._call(job, "updatestatus", body), written, _SECONDS)

    def _report_events(self, job: _Job, before: JobStatus, after: JobStatus) -> None:
        """Store Events about what this cloudcore has written."""
        waves = None
        with suppress(ValueError):  # the status says it
            waves = _waves_of(job)
        for note in notes_of(job.kind, job.name, before, after, waves):
            ask(self, event_call(job.object, note, self.clock), _log_unstored_event, _SECONDS)

    def _read_again(self, job: _Job) -> None:
        """Read a job that somebody else has changed, and go on with it after a while: it may be refused again."""
        job.is_busy = True

        def answered(result: ApiResult) -> None:
            job.is_busy = False
            if result.object is not None:
                job.take_answer(result.object)
                self._due_again(job)
            elif code_of(result) != HTTPStatus.NOT_FOUND:
                self._try_again(job, str((result.refusal or {}).get("message", ""))[:300])

        ask(self, self._call(job, "get"), answered, _SECONDS)

    def _try_again(self, job: _Job, why: str) -> None:
        _log.warning("%s %s waits: %s", job.kind, job.name, why)
        self._due_again(job)

    def _due_again(self, job: _Job) -> None:
        """Look at a job again, each time later than before until its status is stored."""
        self._due(job, doubled(DELAY, job.failures, LONGEST_DELAY))
        job.failures += 1

    def _call(self, job: _Job, verb: str, body: JsonObject | None = None) -> ApiCall:
        return ApiCall(verb=verb, api_version=API_VERSION, plural=JOBS[job.kind].plural, name=job.name, body=body)

    def _send(self, job: _Job, nodes: list[str]) -> None:
        for node in nodes:
            address = JobAddress(job.kind, job.name, node)
            message = self.message(
                f"node/{node}/{address.resource}", Action.CHECK, job.object["spec"], group=Group.TASKMANAGER
            )
            self.send(ModuleName.CLOUDHUB, message)
            _log.info("%s %s sent to %s", job.kind, job.name, node)


def _waves_of(job: _Job) -> Waves | None:
    """Return the waves of a job. Raises ValueError."""
    return Waves.of(job.object["metadata"].get("annotations") or {})


def _log_unstored_event(result: ApiResult) -> None:
    """Note an Event that is not stored: the status of the job has it all the same."""
    if result.object is None:
        _log.debug("an Event of a job is not stored: %s", (result.refusal or {}).get("message", ""))
