"""Diagnoses the state of an object at the end of a trace: whether it is as desired, or which step waits, and why."""

from enum import StrEnum
from typing import Any, Final

import msgspec

from modules.insight.why.facts import PodFacts
from modules.insight.why.pods import explain
from modules.processes.edgecore.trace.event import CLOUD, RUNTIME, STORE, Event, EventKind, label
from modules.processes.edgecore.trace.object_history import ObjectHistory
from modules.processes.edgecore.trace.reports import (
    DesiredPod,
    Status,
    desired_pod_in,
    refusal_in,
    reported_status,
    status_of,
)

_HUB: Final = "websocket"
_META: Final = "metamanager"
_EDGED: Final = "edged"
_UNEVENTFUL: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons to wait that only mean that an earlier step is not done."""
_REPORTS: Final = ("/podpatch/", "/podstatus/")
_THIS_NODE: Final = "this node"
_ENDED: Final = {"Succeeded": "completed", "Failed": "failed"}


class State(StrEnum):
    """The state of an object at the end of a trace."""

    UNKNOWN = "not in this trace"
    STARTED_BEFORE = "unknown"
    """The trace begins after the object has come to the node, and shows nothing of its state."""
    WAITING = "not running"
    RUNNING = "running"
    ENDED = "ended"
    GOING = "being deleted"
    GONE = "deleted"
    ARRIVED = "on the node"
    """The state of existing objects that do not run, such as configmaps."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The state of an object, the reason, and the events that show them."""

    state: State
    why: str = ""
    step: int | None = None
    """Index in the history of the event that shows the state."""
    since: int | None = None
    """Index in the history of the frame with the object, or with its deletion if it is being deleted."""
    is_reported: bool = False
    """Whether the event only reports the state: nobody waits there."""


class _Pod(msgspec.Struct):
    """The state of a pod as the events of a history change it; indices are of events in the history."""

    desired: DesiredPod | None = None
    status_fields: dict[str, Any] = {}
    """The reported status; a report that holds only changed fields is merged into it."""
    status: Status = msgspec.field(default_factory=Status)
    reported: int | None = None
    """Index of the last report."""
    arrived: int | None = None
    """Index of the frame that brought the pod."""
    begins_here: bool = False
    """Whether the pod comes to the node, or gets its sandbox, in this trace."""
    ending: int | None = None
    """Index of the first frame with its deletion."""
    deleted: int | None = None
    """Index of the message that deleted it on the node."""
    failures: dict[tuple[str, ...], int] = {}
    questions: dict[str, int] = {}
    refusals: dict[str, int] = {}
    """Index of the last answer by resource, if it was an error."""
    calls: dict[str, int] = {}
    """Index of the last successful call by method."""
    seen: dict[str, int] = {}
    """Index of the last message with the pod itself by receiving lane."""


def diagnose(history: ObjectHistory, began: float = 0.0) -> Diagnosis:
    """Diagnose the state of an object from its history.

    The node's own report counts first, since it knows why a container waits; then failures that were not made good
    later, queries that were refused or not answered, and last the stage that the object has reached.

    Args:
        history: of the object.
        began: the wall clock of the trace's origin, in seconds since the Unix epoch.
    """
    if not history.events or not history.own:
        return Diagnosis(State.UNKNOWN, _what_there_is(history))
    pod = _replayed(history)
    found = _of_pod(history, pod, began) if history.target.kind == "pod" else _of_object(history, pod)
    ends = found.state in (State.GOING, State.GONE)
    return msgspec.structs.replace(found, since=pod.ending if ends else pod.arrived)


def _of_pod(history: ObjectHistory, pod: _Pod, began: float) -> Diagnosis:
    if pod.deleted is not None or (pod.desired is not None and pod.desired.deleting):
        return _of_deletion(history, pod)
    if (ended := _ENDED.get(pod.status.phase)) is not None:
        return Diagnosis(State.ENDED, f"it {ended}{_because(pod.status)}", pod.reported)
    if _runs(pod):
        return _of_running(pod)
    return _of_waiting(history, pod, began)


def _what_there_is(history: ObjectHistory) -> str:
    if not history.others:
        return f"nor is any other object of the kind {history.target.kind}"
    return f"which has for example {', '.join(sorted(history.others))}"


def _replayed(history: ObjectHistory) -> _Pod:
    pod = _Pod()
    for place, event in enumerate(history.events):
        own = place in history.own
        if event.kind in (EventKind.MESSAGE, EventKind.FRAME):
            if history.target.kind == "pod" and own and any(part in event.about for part in _REPORTS):
                _follow_report(event, place, pod)
            elif own:
                _follow_object(event, place, pod)
            _follow_question(event, place, pod)
        if own or event.kind is not EventKind.FRAME:
            _follow_outcome(event, place, pod)
    pod.status = status_of(pod.status_fields)
    return pod


def _follow_report(event: Event, place: int, pod: _Pod) -> None:
    if event.verb in ("patch", "update") and (fields := reported_status(event)):
        pod.status_fields.update(fields)
        pod.reported = place


def _follow_object(event: Event, place: int, pod: _Pod) -> None:
    if event.source == CLOUD and not event.parent:
        _follow_frame(event, place, pod)
    if event.verb in ("insert", "update") and (desired := desired_pod_in(event)) is not None:
        pod.desired = desired
        if event.verb == "insert" and pod.deleted is not None:
            _begin_anew(pod)
    if event.verb == "delete" and event.source in (CLOUD, _META, _HUB):
        pod.deleted = place
    if event.verb in ("insert", "update", "delete"):
        pod.seen[event.target] = place
    pod.begins_here |= event.verb == "insert"


def _follow_frame(event: Event, place: int, pod: _Pod) -> None:
    desired = desired_pod_in(event)
    going = event.verb == "delete" or (desired is not None and desired.deleting)
    if event.verb == "insert" or pod.arrived is None:
        pod.arrived, pod.ending = place, None
    if going and pod.ending is None:
        pod.ending = place


def _begin_anew(pod: _Pod) -> None:
    """Forget the events of an earlier object of the same name."""
    pod.deleted = pod.reported = None
    for known in (pod.status_fields, pod.failures, pod.questions, pod.refusals, pod.calls, pod.seen):
        known.clear()


def _follow_question(event: Event, place: int, pod: _Pod) -> None:
    if event.verb == "query":
        pod.questions.setdefault(event.id, place)
    elif event.parent in pod.questions and (event.target == _EDGED or event.source == CLOUD):
        del pod.questions[event.parent]
        if refusal_in(event):
            pod.refusals[event.about] = place
        else:
            pod.refusals.pop(event.about, None)


def _follow_outcome(event: Event, place: int, pod: _Pod) -> None:
    """Note a failure, or forget it once the same operation succeeds."""
    about = event.verb if event.kind is EventKind.CALL else event.about
    key = (str(event.kind), event.target, event.verb, about)
    if event.failed:
        pod.failures[key] = place
        return
    pod.failures.pop(key, None)
    if event.kind is EventKind.CALL:
        pod.calls[event.verb] = place
        pod.begins_here |= event.verb == "run_pod_sandbox"
    if event.target == STORE:
        pod.seen[STORE] = place


def _runs(pod: _Pod) -> bool:
    if pod.status.containerStatuses:
        return all(container.running for container in pod.status.containerStatuses)
    return pod.status.phase == "Running" or (pod.reported is None and "start_container" in pod.calls)


def _of_running(pod: _Pod) -> Diagnosis:
    step = pod.calls.get("start_container", pod.reported)
    if pod.reported is None:
        return Diagnosis(State.RUNNING, "its containers were started; no status of it was reported", step)
    restarts = sum(container.restartCount for container in pod.status.containers)
    return Diagnosis(State.RUNNING, f"after {restarts} restarts" if restarts else "", step)


def _of_deletion(history: ObjectHistory, pod: _Pod) -> Diagnosis:
    removed = pod.calls.get("remove_pod_sandbox")
    if pod.deleted is not None and (removed is not None or not pod.calls):
        return Diagnosis(State.GONE, "", removed if removed is not None else pod.deleted)
    failed = _first_failure(history, pod)
    if failed is not None:
        return msgspec.structs.replace(failed, state=State.GOING)
    if removed is not None:
        why = "its sandbox is gone; the cloud has not yet taken it away"
        return Diagnosis(State.GOING, why, removed)
    last = max(history.own)
    return Diagnosis(State.GOING, f"the last that was done for it is {_named(history, last)}", last)


def _of_waiting(history: ObjectHistory, pod: _Pod, began: float) -> Diagnosis:
    for found in (
        _reported_by_node(history, pod, began),
        _first_failure(history, pod),
        _refused(history, pod),
        _unanswered(history, pod),
    ):
        if found is not None:
            return found
    if not pod.begins_here and pod.reported is None:
        name = f"{history.target.namespace}/{history.target.name}"
        return Diagnosis(State.STARTED_BEFORE, f"it came before this trace; ask the node: edgecore why pod {name}")
    return _stage(history, pod)


def _reported_by_node(history: ObjectHistory, pod: _Pod, began: float) -> Diagnosis | None:
    """Return the answer of `why` to what the node has reported, if that says why a container waits."""
    reasons = [reason for container in pod.status.containers if (reason := container.waiting[0]) not in _UNEVENTFUL]
    if not reasons:
        if not pod.status.reason:
            return None
        why = pod.status.reason + _because(pod.status)
        return Diagnosis(State.WAITING, why, pod.reported, is_reported=True)
    target = history.target
    reported = {
        "metadata": {"namespace": target.namespace, "name": target.name},
        "spec": {"nodeName": _THIS_NODE},
        "status": pod.status_fields,
    }
    answer = explain(PodFacts(pod=reported, now=began + history.until, program="edgecore"))
    why = answer.sentence.removeprefix(f"{target.namespace}/{target.name} ").removeprefix("does not run: ")
    failure = max(pod.failures.values(), default=None) if "Err" in reasons[0] else None
    if failure is not None:
        return Diagnosis(State.WAITING, why, failure)
    return Diagnosis(State.WAITING, why, pod.reported, is_reported=True)


def _because(status: Status) -> str:
    return f": {status.message}" if status.message else ""


def _first_failure(history: ObjectHistory, pod: _Pod) -> Diagnosis | None:
    """Return the last failure of an operation that has not succeeded since."""
    if not pod.failures:
        return None
    place = max(pod.failures.values())
    event = history.events[place]
    reason = f": {event.reason}" if event.reason else ""
    return Diagnosis(State.WAITING, f"{_named(history, place)} ended with {event.outcome}{reason}", place)


def _refused(history: ObjectHistory, pod: _Pod) -> Diagnosis | None:
    if not pod.refusals:
        return None
    about, place = max(pod.refusals.items(), key=lambda item: item[1])
    event = history.events[place]
    return Diagnosis(State.WAITING, f"{label(event.source)} answered for {about}: {refusal_in(event)}", place)


def _unanswered(history: ObjectHistory, pod: _Pod) -> Diagnosis | None:
    if not pod.questions:
        return None
    place = min(pod.questions.values())
    event = history.events[place]
    since = history.until - event.sent
    why = f"{label(event.target)} has not answered the query for {event.about} ({since:.3f} s until the trace ends)"
    return Diagnosis(State.WAITING, why, place)


_STAGES: Final = (
    ("start_container", "its containers were started, but the node has not reported that they run"),
    ("create_container", "a container was made and not started"),
    ("pull_image", "the image is there, no container was made"),
    ("run_pod_sandbox", "its sandbox runs, no container was made"),
)


def _stage(history: ObjectHistory, pod: _Pod) -> Diagnosis:
    """Return the last stage that the object has reached, if no event shows why it waits."""
    for method, why in _STAGES:
        if method in pod.calls:
            return Diagnosis(State.WAITING, why, pod.calls[method])
    if _EDGED in pod.seen:
        return Diagnosis(State.WAITING, "edged has it and has not asked the runtime for anything", pod.seen[_EDGED])
    if STORE in pod.seen:
        return Diagnosis(State.WAITING, "it is stored and was not handed to edged", pod.seen[STORE])
    if _META in pod.seen:
        return Diagnosis(State.WAITING, "metamanager has it and has not stored it", pod.seen[_META])
    last = max(history.own)
    if pod.reported is not None:
        return Diagnosis(State.WAITING, f"the node reports {pod.status.phase or 'no phase'}", pod.reported)
    if any(event.target == CLOUD and event.parent for event in history.events):
        return Diagnosis(State.WAITING, "the node acknowledged it and has reported no status", last)
    return Diagnosis(State.WAITING, f"the last that is known of it is {_named(history, last)}", last)


def _of_object(history: ObjectHistory, pod: _Pod) -> Diagnosis:
    """Diagnose an object that does not run."""
    if pod.deleted is not None:
        return Diagnosis(State.GONE, "", pod.deleted)
    failed = _first_failure(history, pod) or _refused(history, pod) or _unanswered(history, pod)
    if failed is not None:
        return failed
    return Diagnosis(State.ARRIVED, "", max(history.own))


def _named(history: ObjectHistory, place: int) -> str:
    event = history.events[place]
    if event.kind is EventKind.CALL or event.target == RUNTIME:
        return f"{event.verb} {history.names.get(event.about, event.about)}".rstrip()
    return f"{event.verb} {event.about} to {label(event.target)}"
