"""A pod's state in one word, as kubectl's `printPod` finds it from spec and status."""

from modules.tools.printing.ages import ago
from modules.tools.printing.fields import JsonObject, list_at, map_at, objects_at, text_at, value_at


def pod_ready(pod: JsonObject) -> str:
    """Return the ready containers and all containers, with sidecars: `1/2`."""
    sidecars = _sidecars(pod)
    beside = [each for each in _statuses(pod, "initContainerStatuses") if each.get("name") in sidecars]
    ready = sum(bool(status.get("ready")) for status in (*_statuses(pod, "containerStatuses"), *beside))
    return f"{ready}/{len(list_at(pod, 'spec.containers')) + len(sidecars)}"


def pod_restarts(pod: JsonObject) -> int:
    """Return the restarts of all containers."""
    return sum(int(status.get("restartCount") or 0) for status in _statuses(pod, "containerStatuses"))


def pod_restarts_and_when(pod: JsonObject, now: float) -> str:
    """Return the restarts and the time since the last one: `3 (5m ago)`."""
    restarts = pod_restarts(pod)
    ends = [text_at(status, "lastState.terminated.finishedAt") for status in _statuses(pod, "containerStatuses")]
    last = max(ends, default="")
    return f"{restarts} ({ago(last, now)} ago)" if restarts and last else str(restarts)


def pod_status(pod: JsonObject) -> str:
    """Return Running, Completed, CrashLoopBackOff, Init:0/1, Terminating, …"""
    status = map_at(pod, "status")
    if text_at(pod, "metadata.deletionTimestamp") and status.get("phase") not in ("Succeeded", "Failed"):
        return "Terminating"
    initializing = _initializing(pod)
    if initializing:
        return initializing
    words = [word for word in map(_container_word, _statuses(pod, "containerStatuses")) if word]
    if words and not (words[0] == "Completed" and _has_running(pod)):
        return words[0]
    return str(status.get("reason") or ("Running" if _has_running(pod) and words else status.get("phase") or "Unknown"))


def _initializing(pod: JsonObject) -> str:
    total, sidecars = len(list_at(pod, "spec.initContainers")), _sidecars(pod)
    for index, status in enumerate(_statuses(pod, "initContainerStatuses")):
        ended = map_at(status, "state.terminated")
        if (ended and not ended.get("exitCode")) or (status.get("name") in sidecars and status.get("started")):
            continue
        if ended:
            return f"Init:{_ended_word(ended)}"
        reason = text_at(status, "state.waiting.reason")
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def _sidecars(pod: JsonObject) -> set[str]:
    """Return the names of init containers that keep running."""
    inits = objects_at(pod, "spec.initContainers")
    return {text_at(each, "name") for each in inits if each.get("restartPolicy") == "Always"}


def _container_word(status: JsonObject) -> str:
    waiting, ended = text_at(status, "state.waiting.reason"), map_at(status, "state.terminated")
    return waiting or (_ended_word(ended) if ended else "")


def _ended_word(ended: JsonObject) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _has_running(pod: JsonObject) -> bool:
    return any(value_at(each, "state.running") is not None for each in _statuses(pod, "containerStatuses"))


def _statuses(pod: JsonObject, name: str) -> list[JsonObject]:
    return objects_at(pod, f"status.{name}")
