"""Compares a pod or workload in the cloud with the expectation of its example. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from modules.apimachinery.kinds import JsonObject
from modules.apimachinery.printing.pods import pod_ready, pod_restarts
from modules.processes.demo.examples import Expectation

_CRASH_LOOP = "CrashLoopBackOff"


def unmet(expectation: Expectation, pod: JsonObject) -> str:
    """Return why a pod or workload is not in its expected state; empty if it is."""
    match expectation:
        case Expectation.AVAILABLE:
            available, wanted = available_pods(pod)
            return "" if 0 < wanted <= available else f"has {available} of {wanted} pods available"
        case Expectation.SCHEDULED:
            return "is suspended" if (pod.get("spec") or {}).get("suspend") else ""
        case Expectation.ANSWERS:
            status = _status(pod)
            return "" if status.get("answer") else f"does not answer: {status.get('message')}"
        case Expectation.RUNNING:
            return _not_running(pod)
        case Expectation.SUCCEEDED:
            return "" if phase_of(pod) == "Succeeded" else f"is {phase_of(pod)}, not Succeeded{_because(pod)}"
        case Expectation.CRASH_LOOP:
            return "" if _loops(pod) else f"has not failed twice in a row{_because(pod)}"


def available_pods(workload: JsonObject) -> tuple[int, int]:
    """Return how many pods of a Deployment or DaemonSet are available, and how many there are to be."""
    status = _status(workload)
    wanted = status.get("desiredNumberScheduled", (workload.get("spec") or {}).get("replicas", 0))
    return int(status.get("availableReplicas") or status.get("numberAvailable") or 0), int(wanted)


def phase_of(pod: JsonObject) -> str:
    """Return the reported phase; Pending before any report."""
    return str(_status(pod).get("phase") or "Pending")


def last_message(pod: JsonObject) -> str:
    """Return the most relevant message in a pod's status, on one line; may be empty.

    Waiting containers come first, init containers before the others, then the pod's own message, then ended containers,
    then conditions.
    """
    status = _status(pod)
    whole = ": ".join(_texts(status, "reason", "message"))
    return next(_waiting(pod), "") or whole or next(_ended(pod), "") or next(_unready(status), "")


def _not_running(pod: JsonObject) -> str:
    if phase_of(pod) != "Running":
        return f"is {phase_of(pod)}, not Running{_because(pod)}"
    ready = {str(c.get("type")): c.get("status") for c in _status(pod).get("conditions") or []}.get("Ready") == "True"
    return "" if ready else f"is not ready ({pod_ready(pod)} containers are){_because(pod)}"


def _loops(pod: JsonObject) -> bool:
    """Return whether a container waits for its next restart, or has waited before: only the first restart is
    immediate.
    """
    waits = any(_state(status, "waiting").get("reason") == _CRASH_LOOP for status in _containers(pod))
    return waits or pod_restarts(pod) >= 2


def _because(pod: JsonObject) -> str:
    message = last_message(pod)
    return f": {message}" if message else ""


def _waiting(pod: JsonObject) -> Iterator[str]:
    for status in [*_init_containers(pod), *_containers(pod)]:
        texts = _texts(_state(status, "waiting"), "reason", "message")
        if texts and texts[0] != "PodInitializing":
            yield f"{status.get('name')}: {', '.join(texts)}"


def _ended(pod: JsonObject) -> Iterator[str]:
    for status in [*_containers(pod), *reversed(_init_containers(pod))]:
        ended = _state(status, "terminated") or (status.get("lastState") or {}).get("terminated") or {}
        if ended and not (ended.get("exitCode") == 0 and phase_of(pod) == "Running"):
            yield f"{status.get('name')}: {ended.get('reason') or 'ended'}, exit status {ended.get('exitCode')}"


def _unready(status: JsonObject) -> Iterator[str]:
    for condition in status.get("conditions") or []:
        if condition.get("status") == "False" and condition.get("message"):
            yield str(condition["message"])


def _status(pod: JsonObject) -> JsonObject:
    return pod.get("status") or {}


def _containers(pod: JsonObject) -> list[JsonObject]:
    return list(_status(pod).get("containerStatuses") or [])


def _init_containers(pod: JsonObject) -> list[JsonObject]:
    return list(_status(pod).get("initContainerStatuses") or [])


def _state(status: JsonObject, name: str) -> JsonObject:
    return (status.get("state") or {}).get(name) or {}


def _texts(source: JsonObject, *keys: str) -> list[str]:
    return list(_nonempty(source.get(key) for key in keys))


def _nonempty(values: Iterable[Any]) -> Iterator[str]:
    return (" ".join(str(value).split()) for value in values if value)
