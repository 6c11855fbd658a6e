"""A pod's state, readiness and restarts as kubectl shows them (`printPod` of Kubernetes 1.32)."""

from typing import NamedTuple

from modules.apimachinery.conditions import is_ready, is_true
from modules.apimachinery.printing.ages import ago
from modules.apimachinery.printing.fields import JsonObject, objects_at, text_at, value_at

_ENDED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}
"""The phases of pods that have ended, with the words of a table's row."""


class PodSummary(NamedTuple):
    """The cells of a pod in the table of pods."""

    ready: int
    """Ready containers, with sidecars."""
    containers: int
    """All containers, with sidecars."""
    status: str
    """Running, Completed, CrashLoopBackOff, Init:0/1, Terminating, …"""
    restarts: int
    """While init containers run: their restarts; afterwards restarts of containers and sidecars."""
    last_restart: str
    """RFC 3339 time of the last end before a restart; empty if unknown."""


def ended_conditions(pod: JsonObject) -> list[JsonObject]:
    """Return the conditions of a pod's row in a table (metav1.TableRowCondition)."""
    phase = text_at(pod, "status.phase")
    words = _ENDED.get(phase)
    return [{"type": "Completed", "status": "True", "reason": phase, "message": words}] if words else []


class _Restarts:
    """The number of restarts, and the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, status: JsonObject) -> None:
        count = status.get("restartCount")
        self.count += count if isinstance(count, int) else 0
        self.last = max(self.last, text_at(status, "lastState.terminated.finishedAt"))


def pod_summary(pod: JsonObject) -> PodSummary:
    """Return the cells of a pod in the table of pods."""
    sidecars = _sidecars(pod)
    restarts, of_sidecars = _Restarts(), _Restarts()
    word, ready = _initialization(pod, sidecars, restarts, of_sidecars)
    initializing = bool(word)
    if not initializing or is_true(pod, "Initialized"):
        restarts = of_sidecars
        word, more = _containers(pod, word or _pod_word(pod), restarts)
        ready += more
    if text_at(pod, "metadata.deletionTimestamp"):
        if text_at(pod, "status.reason") == "NodeLost":
            word = "Unknown"
        elif text_at(pod, "status.phase") not in _ENDED:
            word = "Terminating"
    total = len(objects_at(pod, "spec.containers")) + len(sidecars)
    return PodSummary(ready, total, word or "Unknown", restarts.count, restarts.last)


def pod_ready(pod: JsonObject) -> str:
    """Return the ready containers and all containers, with sidecars: `1/2`."""
    summary = pod_summary(pod)
    return f"{summary.ready}/{summary.containers}"


def pod_restarts(pod: JsonObject) -> int:
    """Return the restarts of the containers; while init containers run, of these."""
    return pod_summary(pod).restarts


def pod_restarts_and_when(pod: JsonObject, now: float) -> str:
    """Return the restarts and the time since the last one: `3 (5m ago)`."""
    summary = pod_summary(pod)
    if not (summary.restarts and summary.last_restart):
        return str(summary.restarts)
    return f"{summary.restarts} ({ago(summary.last_restart, now)} ago)"


def pod_status(pod: JsonObject) -> str:
    """Return Running, Completed, CrashLoopBackOff, Init:0/1, Terminating, …"""
    return pod_summary(pod).status


def _pod_word(pod: JsonObject) -> str:
    """Return the pod's own status: SchedulingGated, else its reason, else its phase."""
    gated = any(
        each.get("type") == "PodScheduled" and each.get("reason") == "SchedulingGated"
        for each in objects_at(pod, "status.conditions")
    )
    return "SchedulingGated" if gated else text_at(pod, "status.reason") or text_at(pod, "status.phase")


def _initialization(
    pod: JsonObject, sidecars: set[str], restarts: _Restarts, of_sidecars: _Restarts
) -> tuple[str, int]:
    """Return the init container's status that delays the pod (empty if none does), and the number of ready sidecars."""
    total, ready = len(objects_at(pod, "spec.initContainers")), 0
    for index, status in enumerate(objects_at(pod, "status.initContainerStatuses")):
        is_sidecar = text_at(status, "name") in sidecars
        restarts.add(status)
        if is_sidecar:
            of_sidecars.add(status)
        ended = _ended(status)
        if ended is not None and not ended.get("exitCode"):
            continue
        if is_sidecar and status.get("started") is True:
            ready += status.get("ready") is True
            continue
        if ended is not None:
            return f"Init:{_ended_word(ended)}", ready
        reason = text_at(status, "state.waiting.reason")
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{total}", ready
    return "", ready


def _containers(pod: JsonObject, word: str, restarts: _Restarts) -> tuple[str, int]:
    """Return the word of the first container that has one, else `word`, and how many containers are ready."""
    ready = 0
    for status in reversed(objects_at(pod, "status.containerStatuses")):
        restarts.add(status)
        ended = _ended(status)
        if reason := text_at(status, "state.waiting.reason"):
            word = reason
        elif ended is not None:
            word = _ended_word(ended)
        elif status.get("ready") is True and value_at(status, "state.running") is not None:
            ready += 1
    if word == "Completed" and ready:
        word = "Running" if is_ready(pod) else "NotReady"
    return word, ready


def _sidecars(pod: JsonObject) -> set[str]:
    """Return the names of init containers that keep running."""
    inits = objects_at(pod, "spec.initContainers")
    return {text_at(each, "name") for each in inits if each.get("restartPolicy") == "Always"}


def _ended(status: JsonObject) -> JsonObject | None:
    found = value_at(status, "state.terminated")
    return found if isinstance(found, dict) else None


def _ended_word(ended: JsonObject) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
