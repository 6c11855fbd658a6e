"""The Events of jobs: on the job how it goes on, on each node how it has ended there."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from beehive.clock import Clock
from modules.apimachinery.kinds import JsonObject, uid_of, version_of
from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.times import format_rfc3339
from modules.cloud.client.calls import ApiCall
from modules.cloud.taskmanager.progress import why_of
from modules.cloud.taskmanager.statuses import FINAL, JobPhase, JobStatus, NodeTask, TaskPhase
from modules.cloud.taskmanager.waves import Waves

MOST: Final = 200
"""Events of one write of a status."""
_LONGEST: Final = 1000
"""Characters of a message; kube-apiserver's limit is 1,024."""
_COMPONENT: Final = "cloudcore"
_NAMESPACE: Final = "default"
"""Of Events about objects without a namespace."""


class JobNote(NamedTuple):
    """An Event, before it is one."""

    node: str
    """The node that it is about; "": about the job."""
    is_warning: bool
    reason: str
    message: str


def notes_of(kind: JobKind, name: str, before: JobStatus, after: JobStatus, waves: Waves | None) -> list[JobNote]:
    """Return what has happened between two statuses of a job, as many as one write may tell."""
    found = [*_of_job(before, after, waves), *_of_nodes(f"{kind} {name}", before, after)]
    return found[:MOST]


def _of_job(before: JobStatus, after: JobStatus, waves: Waves | None) -> Iterator[JobNote]:
    tasks = after.node_status
    if waves is not None:
        (known, _), (begun, number) = waves.begun(before.node_status), waves.begun(tasks)
        if begun > known:
            yield JobNote("", is_warning=False, reason="WaveBegun", message=f"wave {begun}: up to {_nodes(number)}")
    if after.phase in (JobPhase.COMPLETED, JobPhase.FAILURE):
        done = sum(task.phase == TaskPhase.SUCCESSFUL for task in tasks)
        message = f"successful on {done} of {_nodes(len(tasks))}"
        if (after.phase, after.reason) == (before.phase, before.reason):
            return
        if after.phase == JobPhase.COMPLETED:
            yield JobNote("", is_warning=False, reason="JobCompleted", message=message)
        else:
            yield JobNote("", is_warning=True, reason="JobFailed", message=f"{message}: {after.reason}")
    elif after.phase == before.phase:
        if after.reason and after.reason != before.reason:
            yield JobNote("", is_warning=True, reason="WaveWaits", message=after.reason)
    elif after.phase == JobPhase.INIT:
        yield JobNote("", is_warning=False, reason="JobBegun", message=f"for {_nodes(len(tasks))}")


def _of_nodes(job: str, before: JobStatus, after: JobStatus) -> Iterator[JobNote]:
    known = {task.node_name: task.phase for task in before.node_status}
    for task in after.node_status:
        if task.phase in FINAL and task.phase != known.get(task.node_name):
            is_good = task.phase == TaskPhase.SUCCESSFUL
            message = f"{job}{_versions(task)}" if is_good else f"{job}: {why_of(task)}"
            yield JobNote(task.node_name, not is_good, "NodeJobSucceeded" if is_good else "NodeJobFailed", message)


def _versions(task: NodeTask) -> str:
    return f": from {task.historic_version} to {task.current_version}" if task.current_version else ""


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def event_call(job: JsonObject, note: JobNote, clock: Clock) -> ApiCall:
    """Return the call that stores an Event.

    Args:
        job: the job, with its kind.
        note: what has happened.
        clock: the time, and the id in the name.
    """
    moment, name = format_rfc3339(clock.now()), note.node or str(job["metadata"]["name"])
    about = {"kind": "Node", "apiVersion": "v1", "name": name, "uid": name}
    if not note.node:
        whole = {"uid": uid_of(job), "resourceVersion": version_of(job)}
        about = {"kind": str(job["kind"]), "apiVersion": str(job["apiVersion"]), "name": name, **whole}
    event = {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"{name[:230]}.{clock.new_id()[-16:].lower()}", "namespace": _NAMESPACE},
        "involvedObject": about,
        "reason": note.reason,
        "message": note.message[:_LONGEST],
        "type": "Warning" if note.is_warning else "Normal",
        "source": {"component": _COMPONENT},
        "reportingComponent": _COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
    return ApiCall(verb="create", api_version="v1", plural="events", namespace=_NAMESPACE, body=event)
