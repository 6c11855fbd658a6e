"""The jobs of nodes (`operations.kubeedge.io`): how far each has come, wave by wave and node by node.

One set of words, of `cloudcore upgrade status` and of the page.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import FLOWS, TEMPLATE, Action
from modules.apimachinery.printing.ages import human_duration, seconds_of
from modules.apimachinery.printing.fields import map_at, text_at
from modules.cloud.taskmanager.progress import is_denied, why_of
from modules.cloud.taskmanager.statuses import FAILED, FINAL, JobPhase, JobStatus, NodeTask, TaskPhase, read_status
from modules.cloud.taskmanager.waves import Waves
from modules.insight.fleet.rows import LONGEST
from modules.insight.fleet.states import SETTING, UPGRADING

MOST_JOBS: Final = 50
"""Jobs of an answer."""
MOST_NODES: Final = 300
"""Nodes of an answer: a job may have thousands."""
_NAMED: Final = 3
"""Images and keys that are named."""
_RANK: Final[Mapping[str, int]] = {
    TaskPhase.FAILURE: 0, TaskPhase.UNKNOWN: 0, TaskPhase.IN_PROGRESS: 1, TaskPhase.PENDING: 2, TaskPhase.SUCCESSFUL: 3,
}  # fmt: skip
_ENDED: Final = (JobPhase.COMPLETED, JobPhase.FAILURE)
_CHANGES: Final = (Action.BACK_UP, Action.UPGRADE, Action.UPDATE, Action.ROLL_BACK)
"""Actions of which edgecore may be started again, and the one before them, whose report may be late."""
_NUMBERED: Final = re.compile(r"(.+)-([0-9]{1,2})", re.ASCII)
_MOST_RESUMED: Final = 99


class JobCounts(msgspec.Struct, frozen=True):
    """The nodes of a job, or of one of its waves, by how far they are."""

    nodes: int = 0
    done: int = 0
    failed: int = 0
    under_way: int = 0
    waiting: int = 0
    """Nodes that have not had their turn, with those that are away."""
    away: int = 0
    """Nodes that wait and are not connected."""


class WaveRow(msgspec.Struct, frozen=True):
    """A wave of a job."""

    number: int
    """From 1."""
    counts: JobCounts
    held: str = ""
    """Why none of its nodes has its turn now; empty if they may, or have had it."""


class JobRow(msgspec.Struct, frozen=True):
    """A job in a table."""

    kind: str
    name: str
    about: str
    """What it brings to its nodes."""
    phase: str
    """KubeEdge's; empty before it has begun."""
    reason: str
    created: float | None
    """Seconds since 1970."""
    counts: JobCounts
    waves: Sequence[WaveRow] = ()
    """Empty for a job without waves."""
    next: str = ""
    """The job that goes on with it."""
    resume: str = ""
    """The command that goes on with it; empty unless it has ended, with nodes on which it has not succeeded, though
    their owners do not deny it."""
    changing: tuple[str, ...] = ()
    """The nodes that it may be starting again now."""

    @property
    def is_stopped(self) -> bool:
        """Whether it has failed, and nothing goes on with it."""
        return self.phase == JobPhase.FAILURE and not self.next

    @property
    def is_under_way(self) -> bool:
        """Whether it goes on by itself."""
        return self.phase not in _ENDED


class JobNode(msgspec.Struct, frozen=True):
    """A job on a node."""

    node: str
    wave: int
    """0 in a job without waves."""
    state: str
    """KubeEdge's phase; `Pending (away)` for a node that waits and is not connected."""
    step: str
    """The action that is under way, or the last one of a node that has ended."""
    since: float | None
    """When that began, or ended, by the node's clock, in seconds since 1970."""
    before: str
    """The version that it ran before the job; empty as long as the node has not said it."""
    after: str
    """The version that the job brings, or that runs where it has ended; empty if the node has not said that."""
    reason: str


class JobStory(msgspec.Struct, frozen=True):
    """A job with its nodes."""

    sentence: str
    row: JobRow
    nodes: Sequence[JobNode]
    """Those that have failed first, then those under way, waiting and done."""
    more: int
    """Nodes beyond these."""


class Jobs(msgspec.Struct, frozen=True):
    """The jobs of a fleet."""

    sentence: str
    rows: Sequence[JobRow]
    """The newest first."""
    more: int
    """Jobs beyond these."""


def job_row(kind: JobKind, job: JsonObject, here: Collection[str] | None) -> JobRow:
    """Return the row of a job.

    Args:
        kind: of the job.
        job: the object.
        here: nodes that are connected; None if that is not known.
    """
    return _row(kind, job, read_status(job.get("status")), here)


def job_nodes(kind: JobKind, job: JsonObject, here: Collection[str] | None) -> list[JobNode]:
    """Return all nodes of a job, in their order (see `job_row`)."""
    found = read_status(job.get("status"))
    waves = _wave_numbers(_waves(job), len(found.node_status))
    spec, has_ended = map_at(job, "spec"), found.phase in _ENDED
    return [
        _node(kind, spec, task, wave, here, has_ended=has_ended)
        for task, wave in zip(found.node_status, waves, strict=True)
    ]


def job_story(kind: JobKind, job: JsonObject, here: Collection[str] | None, query: str = "") -> JobStory:
    """Return a job with those of its nodes that have some words (see `job_row`)."""
    row, words = job_row(kind, job, here), query.lower().split()
    found = [each for each in job_nodes(kind, job, here) if all(word in _searched(each) for word in words)]
    found.sort(key=lambda each: _RANK.get(each.state.partition(" ")[0], 2))
    return JobStory(job_sentence(row), row, found[:MOST_NODES], max(0, len(found) - MOST_NODES))


def job_sentence(row: JobRow) -> str:
    """Return how a job goes on, as a sentence without its end."""
    return f"{row.kind} {row.name}: {row.phase or 'has not begun'}{f': {row.reason}' if row.reason else ''}"


def wave_sentence(wave: WaveRow) -> str:
    """Return how a wave goes on, as a sentence without its end."""
    return f"wave {wave.number}: {counts_words(wave.counts)}{f'; held: {wave.held}' if wave.held else ''}"


def counts_words(counts: JobCounts) -> str:
    """Return counts in words."""
    away = f" ({counts.away} away)" if counts.away else ""
    parts = ((counts.done, "done"), (counts.failed, "failed"), (counts.under_way, "under way"))
    words = [f"{number} {word}" for number, word in parts if number]
    words += [f"{counts.waiting} waiting{away}"] if counts.waiting else []
    return f"{_count(counts.nodes, 'node')}: {', '.join(words)}" if words else _count(counts.nodes, "node")


def jobs_of(rows: Iterable[JobRow], most: int = MOST_JOBS) -> Jobs:
    """Return the newest jobs of a fleet; those that have been resumed name the job that goes on."""
    found = sorted(rows, key=lambda row: (-(row.created or 0.0), row.name))
    known = {(row.kind, row.name) for row in found}
    told = [_resumed(row, known) for row in found]
    return Jobs(_sentence(told), told[:most], max(0, len(told) - most))


def changes_under_way(rows: Iterable[JobRow]) -> dict[str, str]:
    """Return the nodes that jobs may be starting again now, each with what is changed there and by which job."""
    words = {JobKind.NODE_UPGRADE.value: UPGRADING, JobKind.CONFIG_UPDATE.value: SETTING}
    return {node: f"{words[row.kind]}{row.kind} {row.name}" for row in rows for node in row.changing}


def without_links(row: JobRow) -> JobRow:
    """Return the row for somebody who may not know which nodes are connected."""
    waves = [msgspec.structs.replace(wave, counts=_unseen(wave.counts)) for wave in row.waves]
    return msgspec.structs.replace(row, counts=_unseen(row.counts), waves=waves)


def next_name(name: str) -> str:
    """Return the name of the job that goes on with another: `x`, `x-2`, `x-3`."""
    found = _NUMBERED.fullmatch(name)
    is_counted = found is not None and 2 <= int(found[2]) < _MOST_RESUMED
    return f"{found[1]}-{int(found[2]) + 1}" if found is not None and is_counted else f"{name}-2"


def _row(kind: JobKind, job: JsonObject, status: JobStatus, here: Collection[str] | None) -> JobRow:
    name, counts = text_at(job, "metadata.name"), _counts(status.node_status, here)
    tasks = status.node_status
    has_left = status.phase in _ENDED and any(
        task.phase != TaskPhase.SUCCESSFUL and not is_denied(task) for task in tasks
    )
    return JobRow(
        kind=kind.value,
        name=name,
        about=_about(kind, map_at(job, "spec")),
        phase=status.phase,
        reason=status.reason[:LONGEST],
        created=seconds_of(text_at(job, "metadata.creationTimestamp")),
        counts=counts,
        waves=_wave_rows(_waves(job), status, here),
        resume=f"cloudcore upgrade resume {name}" if has_left else "",
        changing=tuple(task.node_name for task in tasks if _step(kind, map_at(job, "spec"), task) in _CHANGES),
    )


def _resumed(row: JobRow, known: Collection[tuple[str, str]]) -> JobRow:
    following = next_name(row.name)
    if row.resume and (row.kind, following) in known:
        return msgspec.structs.replace(row, next=following, resume="")
    return row


def _about(kind: JobKind, spec: JsonObject) -> str:
    if kind is JobKind.NODE_UPGRADE:
        return text_at(spec, "version")[:LONGEST]
    if kind is JobKind.IMAGE_PRE_PULL:
        found = map_at(spec, TEMPLATE).get("images")
        names = [str(each) for each in found] if isinstance(found, list) else []
    else:
        names = sorted(map_at(spec, "updateFields"))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"[:LONGEST]


def _counts(tasks: Sequence[NodeTask], here: Collection[str] | None) -> JobCounts:
    phases = Counter(task.phase for task in tasks)
    return JobCounts(
        nodes=len(tasks),
        done=phases[TaskPhase.SUCCESSFUL],
        failed=sum(phases[phase] for phase in FAILED),
        under_way=phases[TaskPhase.IN_PROGRESS],
        waiting=phases[TaskPhase.PENDING],
        away=sum(_is_away(task, here) for task in tasks),
    )


def _waves(job: JsonObject) -> Waves | None:
    annotations: Mapping[str, str] = map_at(job, "metadata.annotations")
    try:
        return Waves.of(annotations)
    except ValueError:
        return None


def _spans(waves: Waves, number: int) -> list[tuple[int, int, int]]:
    """Return each wave of so many nodes: its number from 1, and where it begins and ends; those without nodes are left
    out.
    """
    ends = [0, *accumulate((waves.number(wave, number) for wave in range(len(waves.sizes) + 1)), max)]
    return [(wave, begin, end) for wave, (begin, end) in enumerate(pairwise(ends), 1) if begin < end]


def _wave_numbers(waves: Waves | None, number: int) -> list[int]:
    """Return the wave of each of so many nodes, in order."""
    if waves is None:
        return [0] * number
    return [wave for wave, begin, end in _spans(waves, number) for _ in range(begin, end)]


def _wave_rows(waves: Waves | None, status: JobStatus, here: Collection[str] | None) -> list[WaveRow]:
    if waves is None:
        return []
    tasks = status.node_status
    _, begun = waves.begun(tasks)
    return [
        WaveRow(wave, _counts(tasks[begin:end], here), _held(waves, status, begin, begun, here) if end > begun else "")
        for wave, begin, end in _spans(waves, len(tasks))
    ]


def _held(waves: Waves, status: JobStatus, begin: int, begun: int, here: Collection[str] | None) -> str:
    """Return why a wave has not begun: its first node has a place, and so many nodes are in those that have."""
    if status.phase in _ENDED:
        return "the job has ended"
    if begin > begun or not begun:
        return "the waves before it have not ended" if begin else ""
    if status.reason:
        return status.reason[:LONGEST]
    known = {task.node_name for task in status.node_status} if here is None else here
    if waves.open(status.node_status, known, float("inf")) <= begun:
        return "the wave before it has not ended"
    return f"it begins {human_duration(int(waves.pause))} after the last change" if waves.pause else ""


def _step(kind: JobKind, spec: JsonObject, task: NodeTask) -> str:
    """Return the action that is under way on a node; empty if none is."""
    if task.phase != TaskPhase.IN_PROGRESS:
        return ""
    if not task.action_flow:
        return Action.CHECK
    last = task.action_flow[-1]
    if last.action == Action.WAITING_CONFIRMATION and spec.get("requireConfirmation") is True:
        return last.action  # its report says that it has begun
    following = FLOWS[kind].get(Action(last.action)) if last.action in FLOWS[kind] else None
    action = None if following is None else following.succeeded if last.status == "True" else following.failed
    return action or ""


def _node(
    kind: JobKind, spec: JsonObject, task: NodeTask, wave: int, here: Collection[str] | None, *, has_ended: bool
) -> JobNode:
    last = task.action_flow[-1] if task.action_flow else None
    is_left = has_ended and task.phase == TaskPhase.PENDING
    wanted = "" if is_left or kind is not JobKind.NODE_UPGRADE else text_at(spec, "version").removeprefix("v")
    return JobNode(
        node=task.node_name,
        wave=wave,
        state=f"{task.phase} (away)" if _is_away(task, here) else task.phase,
        step=_step(kind, spec, task) or ("" if last is None else last.action),
        since=None if last is None else seconds_of(last.time),
        before=task.historic_version or task.current_version,
        after=task.current_version if task.phase in FINAL else wanted[:LONGEST],
        reason=why_of(task)[:LONGEST],
    )


def _is_away(task: NodeTask, here: Collection[str] | None) -> bool:
    return task.phase == TaskPhase.PENDING and here is not None and task.node_name not in here


def _searched(node: JobNode) -> str:
    return f"{node.node} {node.state} {node.step} {node.reason}".lower()


def _unseen(counts: JobCounts) -> JobCounts:
    return msgspec.structs.replace(counts, away=0)


def _sentence(rows: Sequence[JobRow]) -> str:
    stopped = sum(row.is_stopped for row in rows)
    going = sum(row.is_under_way for row in rows)
    parts = [f"{stopped} {'has' if stopped == 1 else 'have'} stopped"] if stopped else []
    parts += [f"{going} {'is' if going == 1 else 'are'} under way"] if going else []
    others = len(rows) - stopped - going
    parts += [f"{others} {'has' if others == 1 else 'have'} ended"] if others else []
    return f"{_count(len(rows), 'job')} of nodes: {', '.join(parts)}." if rows else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
