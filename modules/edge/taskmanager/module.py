"""The module taskmanager: carries out the jobs of the cloud that the owner of the node allows, one at a time."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import msgspec

from beehive import Clock, Group, Hive, Message, Module, ModuleName, ResourceType, handles
from beehive.bounded_calls import BoundedCalls
from beehive.errors import BeehiveError
from beehive.names import Operation
from metamanager.client import AsyncMetaClient, CallError, NotFoundError
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import (
    FLOWS,
    LONGEST_ACTION,
    LONGEST_REASON,
    OWNER_DENIES,
    Action,
    ActionReport,
    ConfigSpec,
    JobAddress,
    JobSpec,
    JobSpecError,
    PrePullTemplate,
    UpgradeSpec,
    read_spec,
)
from modules.apimachinery.types import Nanoseconds, format_time
from modules.edge.taskmanager.actions import ActionEnd, Done
from modules.edge.taskmanager.checks import SAMPLE_SECONDS, CheckedMachine, MachineReading, fault_of
from modules.edge.taskmanager.owner import OWNER, JobShown, OwnerVerb
from modules.edge.taskmanager.pulls import ImagePulls, OpenRuntime, PullOutcome
from modules.edge.taskmanager.record import JobRecord, read_record
from modules.edge.taskmanager.refusals import refusal_of
from modules.edge.taskmanager.settings_updates import SettingsCommands, SettingsUpdates
from modules.edge.taskmanager.upgrades import NodeUpgrades, UpgradeCommands

_log = logging.getLogger(__name__)

LONGEST_SPEC: Final = 256 * 1024
"""Bytes of a job's message."""
_MOST_EARLY: Final = 16
"""Messages that wait until the record is read."""
MOST_FOLLOWING: Final = 8
"""Jobs that wait for the end of the one under way."""
_AGAIN: Final = 5.0
"""Seconds until the record is read again, when the store does not answer."""
REPORT_GAP: Final = 0.5
"""Seconds between two reports: KubeEdge's cloud takes two that come together in any order, and a job whose last report
it has taken first stays in progress on the node."""
_ROW: Final = ("", "job")
_TURNED_AWAY: Final = ActionEnd("the node cannot take jobs now")


class TaskManagerSettings(msgspec.Struct, frozen=True):
    """Settings of taskmanager."""

    node: str
    allowed: tuple[str, ...] = ()
    """The kinds of jobs that the owner of the node allows."""
    allowed_keys: tuple[str, ...] = ()
    """The settings that a ConfigUpdateJob may change."""


class TaskManager(Module):
    """The module that goes through the actions of one job after the other, and reports each as it ends.

    What is under way is in the store before it begins, so it goes on after a restart, and jobs that come meanwhile wait
    for its end: KubeEdge's node carries them out at once, and its cloud sends no job twice. The same job is answered
    with what was reported so far. It belongs to no group: edgehub sends it jobs by its name, and it needs no events of
    the connection.

    Args:
        settings: of taskmanager.
        machine: of the node, for checks.
        open_runtime: connects to the container runtime; None without one.
        upgrades: changes the version of edgecore; None where no job may.
        configuration: changes the configuration of edgecore; None where no job may.
    """

    name = ModuleName.TASKMANAGER

    def __init__(
        self,
        settings: TaskManagerSettings,
        machine: CheckedMachine,
        open_runtime: OpenRuntime | None = None,
        upgrades: UpgradeCommands | None = None,
        configuration: SettingsCommands | None = None,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._machine = machine
        self._meta = AsyncMetaClient(self)
        self._calls = BoundedCalls(self, 1, 1)
        self._pulls = ImagePulls(self, self._calls, self._meta, open_runtime) if open_runtime is not None else None
        self._upgrades = NodeUpgrades(self, upgrades) if upgrades is not None else None
        keys = settings.allowed_keys
        self._updates = SettingsUpdates(self, configuration, keys) if configuration is not None else None
        self._job: JobRecord | None = None
        """The job under way."""
        self._following: tuple[JobRecord, ...] = ()
        self._is_read = False
        self._early: list[Message] = []

    def on_start(self) -> None:
        """Read the job that was under way."""
        self._read_record()

    @handles(None, source=ModuleName.TASKMANAGER)
    def on_job(self, message: Message) -> None:
        """Begin a job, or refuse it."""
        self.owe(message)
        if self._is_read:
            self._handle(message)
        elif len(self._early) < _MOST_EARLY:
            self._early.append(message)
        else:
            self._turn_down(message)

    def give_up(self, message: Message) -> None:
        """Leave a job that has only been received to the next instance; report that any other cannot begin, as the
        cloud repeats it only when the node connects.
        """
        if message in self._early:
            self.send(self.name, message)
        else:
            self._turn_down(message)

    @handles()
    def ignore(self, message: Message) -> None:
        """Ignore other messages."""
        _log.debug("not a job: %s %s", message.route.operation[:50], message.route.resource[:200])

    @classmethod
    def turn_away(cls, hive: Hive, message: Message) -> None:
        """Report that a job that has found no room cannot begin."""
        address = JobAddress.read(message.route.resource)
        if address is not None and message.route.source == ModuleName.TASKMANAGER:
            report = _report_of(hive.clock, message.route.operation, _TURNED_AWAY)
            hive.broadcast(Group.HUB, _message_of(hive.clock, address.resource, report))

    def _turn_down(self, message: Message) -> None:
        self.settle(message)
        address = JobAddress.read(message.route.resource)
        if address is not None and address.node == self._settings.node:
            self._report(address.resource, message.route.operation, _TURNED_AWAY)

    def _read_record(self) -> None:
        def read(result: bytes | CallError) -> None:
            if isinstance(result, CallError) and not isinstance(result, NotFoundError):
                _log.warning("the job under way is not known yet: %s", result)
                self.after(_AGAIN, self._read_record)
                return
            self._is_read = True
            self._job = None if isinstance(result, CallError) else read_record(result)
            self._following = () if self._job is None else self._job.following
            why = "" if self._job is None else self._disallowed(self._job.address.kind)
            if why:
                self._finish(ActionEnd(why))
            elif self._job is not None and not self._job.is_waiting:
                self._run(is_resumed=True)
            while self._early:
                self._handle(self._early.pop(0))

        self._meta.get(ResourceType.NODE_TASK, *_ROW, then=read)

    def _handle(self, message: Message) -> None:
        route = message.route
        address = JobAddress.read(route.resource)
        if address is None:
            self._refuse_task(message)
        elif address.node != self._settings.node:
            _log.warning("a job of another node: %s", route.resource[:200])
        elif (known := self._known(message)) is not None:
            for report in known.reports:
                self._send(route.resource, report)
        else:
            self._begin(address, message)
        self.settle(message)

    def _known(self, message: Message) -> JobRecord | None:
        """Return the job, if it is under way or waits. One with its name and another spec was made again since."""
        jobs = (self._job, *self._following) if self._job is not None else ()
        asked = (message.route.resource, _content(message))
        return next((job for job in jobs if (job.resource, job.spec) == asked), None)

    def _refuse_task(self, message: Message) -> None:
        """Answer a task of v1alpha1."""
        route = message.route
        refusal = refusal_of(route.resource, route.operation, _content(message), self._settings.node, _time(self.clock))
        if refusal is None:
            _log.debug("not a job of this node: %s %s", route.operation[:50], route.resource[:200])
            return
        answer = self.message(
            refusal.resource, route.operation, refusal.content, source=ModuleName.EDGEHUB, group=Group.HUB
        )
        self.send(ModuleName.EDGEHUB, answer)

    def _begin(self, address: JobAddress, message: Message) -> None:
        content = _content(message)
        if why := self._fault_of(address.kind, message, content):
            _log.warning("%s %s is refused: %s", address.kind, address.name, why)
            self._report(address.resource, message.route.operation, ActionEnd(why))
            return
        asked = JobRecord(address.resource, content, Action.CHECK)
        if self._job is not None and not self._job.is_waiting:
            self._put_off(self._job, asked)
        else:
            self._begin_job(asked)

    def _begin_job(self, job: JobRecord) -> None:
        _log.info("%s %s begins", job.address.kind, job.address.name)
        self._run_action(job)

    def _put_off(self, job: JobRecord, asked: JobRecord) -> None:
        """Let a job begin after those that are here; the store has it from now on, where it can."""
        _log.info("%s %s waits for the end of %s", asked.address.kind, asked.address.name, job.address.name)
        self._following = (*self._following, asked)
        self._store(job, lambda _: None)

    def _store(self, job: JobRecord, then: Callable[[bytes | CallError | None], None]) -> None:
        row = msgspec.json.encode(msgspec.structs.replace(job, following=self._following))
        self._meta.update(ResourceType.NODE_TASK, *_ROW, row, then=then)

    def _fault_of(self, kind: JobKind, message: Message, content: object) -> str:
        """Return why a job cannot begin; empty if it can."""
        if why := self._disallowed(kind):
            return why
        if message.route.operation != Action.CHECK:
            return f"a job begins with Check, not with {message.route.operation[:32]!r}"
        here = () if self._job is None or self._job.is_waiting else (self._job, *self._following)
        resource = message.route.resource
        if len(here) > MOST_FOLLOWING or any(each.resource == resource for each in here):
            return f"busy with {here[0].address.name}"
        if len(message.content_bytes()) > LONGEST_SPEC:
            return f"the job is larger than {LONGEST_SPEC} bytes"
        return _spec_fault(kind, content)

    def _disallowed(self, kind: JobKind) -> str:
        """Return why a kind is not for this node, also when its owner has changed their mind; empty if it is."""
        if kind in self._settings.allowed:
            return ""
        return f"{OWNER_DENIES} allow {kind}s (modules.taskManager.allowedJobs)"

    def _run_action(self, job: JobRecord) -> None:
        """Store how far a job is, and run its action then."""
        self._job = job

        def stored(result: bytes | CallError | None) -> None:
            if self._job is not job:  # it waited, and has given way to another
                return
            if isinstance(result, CallError):
                self._finish(ActionEnd(f"the job cannot be stored: {result}"[:LONGEST_REASON]))
            elif not job.is_waiting and job.reports:
                self.after(REPORT_GAP, self._run)
            elif not job.is_waiting:
                self._run()

        self._store(job, stored)

    def _run(self, *, is_resumed: bool = False) -> None:
        job = self._job
        if job is None:
            return
        kind = job.address.kind
        try:
            spec = read_spec(kind, job.spec)
        except JobSpecError as error:
            self._finish(ActionEnd(str(error)))
            return
        if isinstance(spec, UpgradeSpec) and self._upgrades is not None:
            self._run_upgrade(job, spec, self._upgrades, is_resumed=is_resumed)
        elif isinstance(spec, ConfigSpec) and self._updates is not None:
            self._run_update(job, spec, self._updates, is_resumed=is_resumed)
        elif isinstance(spec, PrePullTemplate) and job.action is Action.CHECK:
            self._check(spec, self._ended)
        elif isinstance(spec, PrePullTemplate) and job.action is Action.PULL:
            self._pull(spec)
        else:
            self._finish(ActionEnd(f"this node cannot carry out {job.action} of {kind}s"))

    def _run_upgrade(self, job: JobRecord, spec: UpgradeSpec, upgrades: NodeUpgrades, *, is_resumed: bool) -> None:
        match job.action:
            case Action.CHECK:
                found = partial(upgrades.check, spec, self._ended)
                self._check(spec, lambda end: self._ended(end) if end.reason else found())
            case Action.WAITING_CONFIRMATION if spec.require_confirmation:
                self._wait_for_confirmation(job)
            case Action.WAITING_CONFIRMATION:
                self._ended(ActionEnd())
            case Action.BACK_UP:
                upgrades.back_up(self._ended)
            case Action.UPGRADE:
                upgrades.upgrade(spec, self._ended, is_resumed=is_resumed)
            case _:
                upgrades.roll_back(spec, self._ended)

    def _run_update(self, job: JobRecord, spec: ConfigSpec, updates: SettingsUpdates, *, is_resumed: bool) -> None:
        match job.action:
            case Action.CHECK:
                found = partial(updates.check, spec, self._ended)
                self._check(spec, lambda end: self._ended(end) if end.reason else found())
            case Action.BACK_UP:
                self._ended(ActionEnd())
            case Action.UPDATE:
                updates.update(spec, self._ended, is_resumed=is_resumed)
            case _:
                updates.roll_back(spec, self._ended)

    def _wait_for_confirmation(self, job: JobRecord) -> None:
        """Report that the job waits; `edgecore job --confirm` on the node lets it go on."""
        report = self._report(job.resource, job.action, ActionEnd())
        following = FLOWS[job.address.kind][job.action].succeeded or job.action
        changed = msgspec.structs.replace(job, action=following, reports=(*job.reports, report), is_waiting=True)
        if self._following:
            self._begin_next()
        else:
            self._run_action(changed)

    @handles(None, OwnerVerb.SHOW, source=OWNER)
    def on_show(self, message: Message) -> None:
        """Tell the owner which job is under way."""
        self.reply(message, JobShown.of(self._job))

    @handles(None, OwnerVerb.CONFIRM, source=OWNER)
    def on_confirm(self, message: Message) -> None:
        """Let a job that waits go on: once, as the owner of the node says so."""
        job = self._job
        if job is None or not job.is_waiting:
            self.reply(message, JobShown())
            return
        self.reply(message, JobShown.of(job))
        self._run_action(msgspec.structs.replace(job, is_waiting=False))

    def _check(self, spec: JobSpec, done: Done) -> None:
        """Look at processors, memory and disks."""
        items = spec.check_items or []

        def measured(before: MachineReading) -> None:
            self.after(SAMPLE_SECONDS, lambda: self._read_machine(lambda after: done(_checked(items, before, after))))

        if items:
            self._read_machine(measured)
        else:
            done(ActionEnd())

    def _read_machine(self, then: Callable[[MachineReading], None]) -> None:
        self._calls.submit(self._machine.read, then)

    def _pull(self, template: PrePullTemplate) -> None:
        def done(outcome: PullOutcome) -> None:
            self._ended(ActionEnd(outcome.reason, msgspec.json.encode(outcome.images).decode()))

        if self._pulls is None:
            self._ended(ActionEnd("this node runs no containers", "[]"))
        else:
            self._pulls.begin(template, done)

    def _ended(self, end: ActionEnd) -> None:
        """Report an action, and begin the next one."""
        job = self._job
        if job is None:
            return
        following = FLOWS[job.address.kind][job.action]
        action = following.failed if end.reason else following.succeeded
        if action is None:
            self._finish(end)
            return
        report = self._report(job.resource, job.action, end)
        self._run_action(msgspec.structs.replace(job, action=action, reports=(*job.reports, report)))

    def _finish(self, end: ActionEnd) -> None:
        """Report the last action of a job. The job is in the store until edgehub has had the time to store the report:
        after a kill before that, the action is carried out and reported again.
        """
        job = self._job
        if job is None:
            return
        report = self._report(job.resource, job.action, end)
        self._job = msgspec.structs.replace(job, reports=(*job.reports, report), is_waiting=False)
        _log.info("%s %s has ended: %s", job.address.kind, job.address.name, end.reason or "done")
        self.after(REPORT_GAP, self._leave)

    def _leave(self) -> None:
        """Forget a job that has ended, and begin the next one."""
        job, self._job = self._job, None
        if job is None:
            return
        if self._following:
            self._begin_next()
            return

        def deleted(result: CallError | None) -> None:
            if result is not None and not isinstance(result, NotFoundError):
                _log.warning("%s is still in the store: %s", job.resource, result)

        self._meta.delete(ResourceType.NODE_TASK, *_ROW, {}, then=deleted)

    def _begin_next(self) -> None:
        """Begin the first of the jobs that wait, if the owner allows it still."""
        self._job, *following = self._following
        self._following = tuple(following)
        if why := self._disallowed(self._job.address.kind):
            self._finish(ActionEnd(why))
        else:
            self._begin_job(self._job)

    def _report(self, resource: str, action: str, end: ActionEnd) -> ActionReport:
        """Tell the cloud how an action has ended; edgehub keeps the message until the cloud has it."""
        report = _report_of(self.clock, action, end)
        self._send(resource, report)
        return report

    def _send(self, resource: str, report: ActionReport) -> None:
        self.send(ModuleName.EDGEHUB, _message_of(self.clock, resource, report))


def _message_of(clock: Clock, resource: str, report: ActionReport) -> Message:
    source, operation = ModuleName.EDGEHUB, Operation.NODE_ACTION_STATUS
    return Message.new(clock, source=source, group=Group.HUB, resource=resource, operation=operation, content=report)


def _report_of(clock: Clock, action: str, end: ActionEnd) -> ActionReport:
    return ActionReport(action[:LONGEST_ACTION], not end.reason, _time(clock), end.reason[:LONGEST_REASON], end.extend)


def _time(clock: Clock) -> str:
    return format_time(Nanoseconds(clock.now_ns()))


def _content(message: Message) -> object:
    try:
        found: Any = message.content_as(Any)
    except BeehiveError:
        return None
    return found


def _spec_fault(kind: JobKind, content: object) -> str:
    """Return why a spec cannot be read; empty if it can."""
    try:
        read_spec(kind, content)
    except JobSpecError as error:
        return str(error)
    return ""


def _checked(items: list[str], before: MachineReading, after: MachineReading) -> ActionEnd:
    return ActionEnd(fault_of(items, before, after))
