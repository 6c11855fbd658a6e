"""Decides on a job by its status alone, without effects: a restarted cloudcore, or another one, goes on alike."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import (
    ANOTHER_CHANGE,
    FLOWS,
    LONGEST_REASON,
    MOST_NODES,
    OWNER_DENIES,
    OWNERS_KEY,
    Action,
    ActionReport,
    ImageResult,
    JobTargets,
    read_images,
)
from modules.apimachinery.workload_selectors import matcher_of
from modules.cloud.taskmanager.statuses import (
    FAILED,
    FINAL,
    ActionStatus,
    JobPhase,
    JobStatus,
    NodeTask,
    TaskPhase,
)

EDGE: Final = "node-role.kubernetes.io/edge"
"""Label of the nodes that jobs are for."""
TIMED_OUT: Final = "The node task has timed out"
AWAY: Final = "the node was not connected in time"
NO_NODES: Final = "no edge node is selected by nodeNames or labelSelector"
BOTH: Final = "nodeNames and labelSelector are both given, and a job takes one of them"
_KUBEEDGE: Final = re.compile(r"-kubeedge-v([1-9][0-9]{0,3})\.([0-9]{1,4})\.", re.ASCII)
"""In the kubelet's version of a node that runs KubeEdge's edgecore (its `edge/pkg/edged`); an own build has 0.0.0."""
_FIRST_KUBEEDGE: Final = (1, 21)
"""KubeEdge's first version with v1alpha2. Earlier ones log a job that they do not know, and answer nothing."""
DEFAULT_TIMEOUT: Final = 3600.0
"""Seconds, if a job names none (KubeEdge documents 300 and has none)."""
_MOST_CONCURRENT: Final = 1000
_ROOM: Final = 512 * 1024
"""Characters of all reasons in a status, and of its images: an API server stores no object of more than 1.5 MB."""
_LEAST_ROOM: Final = 100
"""The same of one node."""


class JobLimits(NamedTuple):
    """Order of a job by its spec, with its defaults."""

    concurrency: int
    tolerance: float
    """Share of the nodes that may fail."""
    timeout: float
    """Seconds between two signs of a node."""

    @classmethod
    def of(cls, spec: JobTargets) -> "JobLimits":
        """Return the limits in a spec. Raises ValueError for a failureTolerate that is no number from 0 to 1."""
        text = spec.failure_tolerate or "0"
        tolerance = float(text)
        if not 0 <= tolerance <= 1:
            raise ValueError(f"failureTolerate {text[:20]!r} is no number from 0 to 1")
        concurrency = min(spec.concurrency or 1, _MOST_CONCURRENT)
        return cls(concurrency, tolerance, float(spec.timeout_seconds or DEFAULT_TIMEOUT))


def begin(spec: JobTargets, nodes: Iterable[JsonObject]) -> JobStatus:
    """Return the first status of a job: its nodes in order, those that cannot have it failed with the reason.

    Args:
        spec: of the job.
        nodes: all Nodes.
    """
    if spec.node_names and spec.label_selector is not None:
        return JobStatus(JobPhase.FAILURE, BOTH)
    known = {str(node["metadata"]["name"]): node for node in nodes}
    tasks = _named(spec.node_names, known) if spec.node_names else _selected(spec.label_selector, known)
    if not tasks:
        return JobStatus(JobPhase.FAILURE, NO_NODES)
    if len(tasks) > MOST_NODES:
        return JobStatus(JobPhase.FAILURE, f"{len(tasks)} nodes are selected, and {MOST_NODES} are the most")
    return JobStatus(JobPhase.INIT, "", tasks)


def _named(names: Sequence[str], known: Mapping[str, JsonObject]) -> list[NodeTask]:
    return [_first_task(name, known.get(name)) for name in dict.fromkeys(names)]


def _selected(selector: JsonObject | None, known: Mapping[str, JsonObject]) -> list[NodeTask]:
    matches = matcher_of(selector)
    found = sorted(name for name, node in known.items() if EDGE in _labels_of(node) and matches(_labels_of(node)))
    return [_first_task(name, known[name]) for name in found]


def _first_task(name: str, node: JsonObject | None) -> NodeTask:
    """Return the task of a node: pending, or failed because the node cannot have the job."""
    reason = ""
    if node is None:
        reason = f'failed to get node, err: Node "{name}" not found'
    elif EDGE not in _labels_of(node):
        reason = f"the node has no label {EDGE}"
    else:
        reason = _age_of(node)
    return NodeTask(name, TaskPhase.FAILURE if reason else TaskPhase.PENDING, reason)


def _labels_of(node: JsonObject) -> Mapping[str, str]:
    found: Mapping[str, str] = node["metadata"].get("labels") or {}
    return found


def _age_of(node: JsonObject) -> str:
    """Return why a node is too old to know the job; empty if it is not."""
    version = str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion", ""))
    found = _KUBEEDGE.search(version)
    if found is None or (int(found[1]), int(found[2])) >= _FIRST_KUBEEDGE:
        return ""
    return f"the node's KubeEdge {found[1]}.{found[2]} knows no jobs of v1alpha2: 1.21 is the first that does"


def accept(kind: JobKind, status: JobStatus, node: str, report: ActionReport) -> str:
    """Take over a node's report into the status; return why it is refused, or "".

    A report counts once for each action, and only from a node whose turn it is: it is InProgress, or its time is over.
    """
    task = next((each for each in status.node_status if each.node_name == node), None)
    flow = FLOWS[kind]
    if task is None or task.phase not in (TaskPhase.IN_PROGRESS, TaskPhase.UNKNOWN):
        return "the node has no task of this job that it could report about"
    if report.action not in flow:
        return "no action of this kind of job"
    if any(each.action == report.action for each in task.action_flow):
        return "the action has been reported before"
    room = max(_LEAST_ROOM, _ROOM // len(status.node_status))
    action, reason = Action(report.action), report.reason[: min(LONGEST_REASON, room)]
    task.action_flow.append(
        ActionStatus(action, "True" if report.succ else "False", _time_of(report.finish_time), reason)
    )
    if action is Action.PULL:
        task.image_status = _within(read_images(report.extend), room)
    elif kind is JobKind.NODE_UPGRADE and "," in report.extend:
        _record_versions(task, action, report)
    _count_again(status)
    if task.phase == TaskPhase.UNKNOWN:
        task.phase, task.reason = TaskPhase.IN_PROGRESS, ""
    following = flow[action]
    if (following.succeeded if report.succ else following.failed) is None:
        is_success = report.succ and action is not Action.ROLL_BACK
        task.phase = TaskPhase.SUCCESSFUL if is_success else TaskPhase.FAILURE
        if action is Action.ROLL_BACK:
            failed = next((each.reason for each in task.action_flow if each.status == "False"), "")
            what = "nothing was changed" if ANOTHER_CHANGE in failed else "rolled back"
            task.reason = f"{what}: {failed}" if report.succ else f"not rolled back: {reason}"
    return ""


def _within(images: list[ImageResult], room: int) -> list[ImageResult]:
    """Return the images for which there is room, those that have failed first, in their order."""
    kept: set[str] = set()
    for each in sorted(images, key=lambda image: image.status == "True"):
        room -= len(each.image) + len(each.reason)
        if room < 0 and kept:
            break
        kept.add(each.image)
    return [each for each in images if each.image in kept]


def _time_of(text: str) -> str:
    return text if text.isascii() and text.isprintable() else ""


def _record_versions(task: NodeTask, action: Action, report: ActionReport) -> None:
    """Take over the versions before and after an action; a node may know one of them, or none."""
    before, _, after = (part[:64] for part in report.extend.partition(","))
    if action is Action.BACK_UP:  # our nodes up to 0.3 have named the version to come as the second
        task.current_version = before or after
    elif action is Action.UPGRADE:
        task.historic_version = before or task.current_version
        task.current_version = (after if report.succ else before) or task.current_version
    else:
        task.current_version = (after if report.succ else before) or task.current_version


def _count_again(status: JobStatus) -> None:
    """Let a failed job be judged anew, as KubeEdge does with upgrades; not one that has left nodes alone, which would
    have their turn then.
    """
    if status.phase == JobPhase.FAILURE and all(task.phase != TaskPhase.PENDING for task in status.node_status):
        status.phase, status.reason = JobPhase.IN_PROGRESS, ""


def advance(
    status: JobStatus,
    limits: JobLimits,
    connected: Collection[str],
    is_overdue: Callable[[NodeTask], bool],
    *,
    is_stalled: bool = False,
    is_open: Callable[[NodeTask], bool] = lambda _task: True,
) -> list[str]:
    """Bring a status up to date; return the nodes whose turn it is now, which are InProgress in it.

    A job that fails on too many nodes ends at once, and the rest stays Pending; nodes that it could not begin on count
    at the end only, as KubeEdge counts all. Nodes that have their turn then keep it, with its time.

    Args:
        status: of a job that has begun; changed in place.
        limits: of the job.
        connected: nodes that this cloudcore can send to.
        is_overdue: whether the time of a task is over.
        is_stalled: whether nothing has happened to the job for so long that its waiting nodes are given up.
        is_open: whether a waiting node may have its turn.
    """
    tasks = status.node_status
    for task in tasks:
        if task.phase == TaskPhase.IN_PROGRESS and is_overdue(task):
            task.phase, task.reason = TaskPhase.UNKNOWN, TIMED_OUT
            _count_again(status)
    if status.phase in (JobPhase.COMPLETED, JobPhase.FAILURE):
        return []
    if _has_ended(status, limits):
        return []
    status.phase = JobPhase.IN_PROGRESS
    free = limits.concurrency - sum(task.phase == TaskPhase.IN_PROGRESS for task in tasks)
    waiting = [task for task in tasks if task.phase == TaskPhase.PENDING]
    ready = [task for task in waiting if task.node_name in connected and is_open(task)]
    chosen = ready[: max(0, free)]
    for task in chosen:
        task.phase = TaskPhase.IN_PROGRESS
    if is_stalled and free == limits.concurrency and not chosen:
        for task in waiting:
            task.phase, task.reason = TaskPhase.UNKNOWN, AWAY
        _has_ended(status, limits)
    return [task.node_name for task in chosen]


def _has_ended(status: JobStatus, limits: JobLimits) -> bool:
    """Return whether the job has ended, and write how."""
    tasks = status.node_status
    is_over = all(task.phase in FINAL for task in tasks)
    failed = sum(task.phase in FAILED and (is_over or has_begun(task)) for task in tasks)
    if _share(failed, len(tasks)) > limits.tolerance:
        share = f"{failed}/{len(tasks)}"
        status.phase = JobPhase.FAILURE
        status.reason = f"the number of failed nodes is {share}, which exceeds the failure tolerance threshold"
    elif is_over:
        status.phase = JobPhase.COMPLETED
    return status.phase in (JobPhase.COMPLETED, JobPhase.FAILURE)


def _share(failed: int, number: int) -> float:
    """Return a share in whole hundredths, half ones upwards as in KubeEdge: 1 of 8 exceeds a tolerance of 0.12."""
    return (200 * failed + number) // (2 * number) / 100


def has_begun(task: NodeTask) -> bool:
    """Return whether the node has had its turn: one that is unknown fails without."""
    return task.phase == TaskPhase.IN_PROGRESS or bool(task.action_flow) or task.reason == TIMED_OUT


def is_busy(task: NodeTask) -> bool:
    """Return whether the node is carrying the job out: not while it waits for its owner, and may take another job."""
    actions = [each.action for each in task.action_flow]
    return task.phase == TaskPhase.IN_PROGRESS and actions[-1:] != [Action.WAITING_CONFIRMATION]


def is_denied(task: NodeTask) -> bool:
    """Return whether the owner of the node does not allow the job there: another job would have the same answer."""
    return task.phase == TaskPhase.FAILURE and any(each in why_of(task) for each in (OWNER_DENIES, OWNERS_KEY))


def why_of(task: NodeTask) -> str:
    """Return why a task has failed: its own reason, or those of the action and of the image that failed; else ""."""
    if task.reason:
        return task.reason
    found = [each.reason for each in task.action_flow if each.status == "False"][:1]
    found += [f"{each.image}: {each.reason}" for each in task.image_status if each.status == "False"][:1]
    return ": ".join(filter(None, found))
