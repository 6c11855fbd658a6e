"""The one word for a pod's state that kubectl prints (its printPod), from spec and status."""

from modules.printing.fields import JsonObject, text_at
from modules.printing.times import ago


def pod_ready(pod: JsonObject) -> str:
    """Ready containers of all: `1/2`."""
    ready = sum(bool(status.get("ready")) for status in _statuses(pod, "containerStatuses"))
    return f"{ready}/{len((pod.get('spec') or {}).get('containers') or [])}"


def pod_restarts(pod: JsonObject) -> int:
    """Restarts of all containers together."""
    return sum(int(status.get("restartCount") or 0) for status in _statuses(pod, "containerStatuses"))


def pod_restarts_and_when(pod: JsonObject, now: float) -> str:
    """The restarts, and how long ago the last one was: `3 (5m ago)`."""
    restarts = pod_restarts(pod)
    ends = [text_at(status, "lastState.terminated.finishedAt") for status in _statuses(pod, "containerStatuses")]
    last = max(ends, default="")
    return f"{restarts} ({ago(last, now)} ago)" if restarts and last else str(restarts)


def pod_status(pod: JsonObject) -> str:
    """Running, Completed, CrashLoopBackOff, Init:0/1, Terminating, …"""
    status = pod.get("status") or {}
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
    total = len((pod.get("spec") or {}).get("initContainers") or [])
    for index, status in enumerate(_statuses(pod, "initContainerStatuses")):
        state = status.get("state") or {}
        ended = state.get("terminated")
        if ended and not ended.get("exitCode"):
            continue
        if ended:
            return f"Init:{_ended_word(ended)}"
        reason = (state.get("waiting") or {}).get("reason")
        return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{index}/{total}"
    return ""


def _container_word(status: JsonObject) -> str:
    state = status.get("state") or {}
    waiting, ended = state.get("waiting") or {}, state.get("terminated")
    if waiting.get("reason"):
        return str(waiting["reason"])
    return _ended_word(ended) if ended else ""


def _ended_word(ended: JsonObject) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _has_running(pod: JsonObject) -> bool:
    states = [status.get("state") or {} for status in _statuses(pod, "containerStatuses")]
    return any(state.get("running") is not None for state in states)


def _statuses(pod: JsonObject, name: str) -> list[JsonObject]:
    return list((pod.get("status") or {}).get(name) or [])
