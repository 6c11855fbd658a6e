"""Whether an object is where it should be at the end of a trace and, when it is not, which step waits and why.

Pure: it is decided from the story alone. What the node itself reported counts most (it knows why a container waits);
then what failed and did not come right later; then questions without an answer; then how far the object came.
"""

from enum import StrEnum
from typing import Any, Final

import msgspec

from modules.trace_tools.event import CLOUD, RUNTIME, STORE, Event, Sort, label
from modules.trace_tools.gather import Story
from modules.trace_tools.reports import Status, Wanted, refusal_in, status_of, status_told, wanted_in

_HUB: Final = "websocket"
_META: Final = "metamanager"
_EDGED: Final = "edged"
_UNEVENTFUL: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons to wait that say only that something else has not happened yet."""
_REPORTS: Final = ("/podpatch/", "/podstatus/")
_ENDED: Final = {"Succeeded": "completed", "Failed": "failed"}


class State(StrEnum):
    """How things stand."""

    UNKNOWN = "not in this trace"
    WAITING = "not running"
    RUNNING = "running"
    ENDED = "ended"
    GOING = "being deleted"
    GONE = "deleted"
    ARRIVED = "on the node"
    """For objects that do not run."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What is said at the top of a story."""

    state: State
    why: str = ""
    step: int | None = None
    """Place of the event that shows it, in the story."""
    since: int | None = None
    """Place of the frame that brought the object, or its deletion when it is to go."""


class _Pod(msgspec.Struct):
    """What a story says of a pod, followed to its end."""

    wanted: Wanted | None = None
    told: dict[str, Any] = {}
    """The reported status; reports that hold only what changed are laid over each other."""
    status: Status = msgspec.field(default_factory=Status)
    reported: int | None = None
    """Where the last report is."""
    came: int | None = None
    """Where the frame is that brought it."""
    ending: int | None = None
    """Where the first frame is that says that it shall go."""
    deleted: int | None = None
    failures: dict[tuple[str, ...], int] = {}
    questions: dict[str, int] = {}
    refusals: dict[str, int] = {}
    """Questions whose last answer was an error, by resource."""
    calls: dict[str, int] = {}
    """The last call of each method that went well."""
    seen: dict[str, int] = {}
    """The last place of the pod itself in each lane."""


def diagnose(story: Story) -> Diagnosis:
    """See the module's docstring."""
    if not story.events or not story.own:
        return Diagnosis(State.UNKNOWN, _what_there_is(story))
    pod = _followed(story)
    found = _of_pod(story, pod) if story.target.kind == "pod" else _of_object(story, pod)
    ends = found.state in (State.GOING, State.GONE)
    return msgspec.structs.replace(found, since=pod.ending if ends else pod.came)


def _of_pod(story: Story, pod: _Pod) -> Diagnosis:
    if pod.deleted is not None or (pod.wanted is not None and pod.wanted.deleting):
        return _of_deletion(story, pod)
    if (ended := _ENDED.get(pod.status.phase)) is not None:
        return Diagnosis(State.ENDED, f"it {ended}{_because(pod.status)}", pod.reported)
    if _runs(pod):
        return _of_running(pod)
    return _of_waiting(story, pod)


def _what_there_is(story: Story) -> str:
    if not story.others:
        return f"nor is any other object of the kind {story.target.kind}"
    return f"which has for example {', '.join(sorted(story.others))}"


def _followed(story: Story) -> _Pod:
    pod = _Pod()
    for place, event in enumerate(story.events):
        own = place in story.own
        if event.sort in (Sort.MESSAGE, Sort.FRAME):
            if story.target.kind == "pod" and own and any(part in event.about for part in _REPORTS):
                _follow_report(event, place, pod)
            elif own:
                _follow_desire(event, place, pod)
            _follow_question(event, place, pod)
        if own or event.sort is not Sort.FRAME:
            _follow_outcome(event, place, pod)
    pod.status = status_of(pod.told)
    return pod


def _follow_report(event: Event, place: int, pod: _Pod) -> None:
    if event.verb in ("patch", "update") and (fields := status_told(event)):
        pod.told.update(fields)
        pod.reported = place


def _follow_desire(event: Event, place: int, pod: _Pod) -> None:
    if event.source == CLOUD and not event.parent:
        _follow_frame(event, place, pod)
    if event.verb in ("insert", "update") and (wanted := wanted_in(event)) is not None:
        pod.wanted = wanted
        if event.verb == "insert" and pod.deleted is not None:
            _begin_anew(pod)
    if event.verb == "delete" and event.source in (CLOUD, _META, _HUB):
        pod.deleted = place
    if event.verb in ("insert", "update", "delete"):
        pod.seen[event.target] = place


def _follow_frame(event: Event, place: int, pod: _Pod) -> None:
    wanted = wanted_in(event)
    going = event.verb == "delete" or (wanted is not None and wanted.deleting)
    if event.verb == "insert" or pod.came is None:
        pod.came, pod.ending = place, None
    if going and pod.ending is None:
        pod.ending = place


def _begin_anew(pod: _Pod) -> None:
    """Another object of the same name: what was done for the one before says nothing of it."""
    pod.deleted = pod.reported = None
    for known in (pod.told, pod.failures, pod.calls, pod.seen):
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
    """What failed is forgotten when the same thing goes well."""
    about = event.verb if event.sort is Sort.CALL else event.about
    key = (str(event.sort), event.target, event.verb, about)
    if event.failed:
        pod.failures[key] = place
        return
    pod.failures.pop(key, None)
    if event.sort is Sort.CALL:
        pod.calls[event.verb] = place
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


def _of_deletion(story: Story, pod: _Pod) -> Diagnosis:
    removed = pod.calls.get("remove_pod_sandbox")
    if pod.deleted is not None and (removed is not None or not pod.calls):
        return Diagnosis(State.GONE, "", removed if removed is not None else pod.deleted)
    failed = _first_failure(story, pod)
    if failed is not None:
        return msgspec.structs.replace(failed, state=State.GOING)
    if removed is not None:
        why = "its sandbox is gone; the cloud has not yet taken it away"
        return Diagnosis(State.GOING, why, removed)
    last = max(story.own)
    return Diagnosis(State.GOING, f"the last that was done for it is {_named(story, last)}", last)


def _of_waiting(story: Story, pod: _Pod) -> Diagnosis:
    for found in (_told_by_node(pod), _first_failure(story, pod), _refused(story, pod), _unanswered(story, pod)):
        if found is not None:
            return found
    return _stage(story, pod)


def _told_by_node(pod: _Pod) -> Diagnosis | None:
    for container in pod.status.containers:
        reason, message = container.waiting
        if reason not in _UNEVENTFUL:
            why = f"container {container.name} waits: {reason}"
            step = max(pod.failures.values(), default=pod.reported) if "Err" in reason else pod.reported
            return Diagnosis(State.WAITING, f"{why}: {message}" if message else why, step)
    if pod.status.reason:
        return Diagnosis(State.WAITING, pod.status.reason + _because(pod.status), pod.reported)
    return None


def _because(status: Status) -> str:
    return f": {status.message}" if status.message else ""


def _first_failure(story: Story, pod: _Pod) -> Diagnosis | None:
    """The last thing that failed and was not done since."""
    if not pod.failures:
        return None
    place = max(pod.failures.values())
    event = story.events[place]
    reason = f": {event.reason}" if event.reason else ""
    return Diagnosis(State.WAITING, f"{_named(story, place)} ended with {event.outcome}{reason}", place)


def _refused(story: Story, pod: _Pod) -> Diagnosis | None:
    if not pod.refusals:
        return None
    about, place = max(pod.refusals.items(), key=lambda item: item[1])
    event = story.events[place]
    return Diagnosis(State.WAITING, f"{label(event.source)} answered for {about}: {refusal_in(event)}", place)


def _unanswered(story: Story, pod: _Pod) -> Diagnosis | None:
    if not pod.questions:
        return None
    place = min(pod.questions.values())
    event = story.events[place]
    since = story.until - event.sent
    why = f"{label(event.target)} has not answered the query for {event.about} ({since:.3f} s until the trace ends)"
    return Diagnosis(State.WAITING, why, place)


_STAGES: Final = (
    ("start_container", "its containers were started, but the node has not reported that they run"),
    ("create_container", "a container was made and not started"),
    ("pull_image", "the image is there, no container was made"),
    ("run_pod_sandbox", "its sandbox runs, no container was made"),
)


def _stage(story: Story, pod: _Pod) -> Diagnosis:
    """How far it came, when nothing says why it did not come further."""
    for method, why in _STAGES:
        if method in pod.calls:
            return Diagnosis(State.WAITING, why, pod.calls[method])
    if _EDGED in pod.seen:
        return Diagnosis(State.WAITING, "edged has it and has not asked the runtime for anything", pod.seen[_EDGED])
    if STORE in pod.seen:
        return Diagnosis(State.WAITING, "it is stored and was not handed to edged", pod.seen[STORE])
    if _META in pod.seen:
        return Diagnosis(State.WAITING, "metamanager has it and has not stored it", pod.seen[_META])
    last = max(story.own)
    if pod.reported is not None:
        return Diagnosis(State.WAITING, f"the node reports {pod.status.phase or 'no phase'}", pod.reported)
    if any(event.target == CLOUD and event.parent for event in story.events):
        return Diagnosis(State.WAITING, "the node acknowledged it and has reported no status", last)
    return Diagnosis(State.WAITING, f"the last that is known of it is {_named(story, last)}", last)


def _of_object(story: Story, pod: _Pod) -> Diagnosis:
    """An object that does not run: whether it came, and what went wrong with it."""
    if pod.deleted is not None:
        return Diagnosis(State.GONE, "", pod.deleted)
    failed = _first_failure(story, pod) or _refused(story, pod) or _unanswered(story, pod)
    if failed is not None:
        return failed
    return Diagnosis(State.ARRIVED, "", max(story.own))


def _named(story: Story, place: int) -> str:
    event = story.events[place]
    if event.sort is Sort.CALL or event.target == RUNTIME:
        return f"{event.verb} {story.names.get(event.about, event.about)}".rstrip()
    return f"{event.verb} {event.about} to {label(event.target)}"
