"""The reasons why a pod waits, from its status. Pure."""

from collections.abc import Iterator

from modules.apimachinery.pods.objects import ENDED
from modules.apimachinery.printing.fields import JsonObject, map_at, objects_at, text_at, value_at
from modules.insight.ends import end_of

_INITIALIZING = "PodInitializing"


def pod_waits(pod: JsonObject) -> list[str]:
    """Return the reasons why the pod waits, one text for each container; empty if it runs, or has ended."""
    if text_at(pod, "status.phase") in ENDED:
        return []
    if text_at(pod, "metadata.deletionTimestamp"):
        grace = text_at(pod, "metadata.deletionGracePeriodSeconds")
        return [f"its containers end{f', within {grace} s' if grace else ''}"]
    found = list(_waiting(pod))
    return found or list(_unready(pod))


def pod_reason(pod: JsonObject, word: str) -> str:
    """Return in one line why a pod is not as it should be; empty if it is. `word` is its status as of kubectl."""
    status = map_at(pod, "status")
    waits = pod_waits(pod)
    if waits:
        return _short(waits[0], pod, word)
    if status.get("reason"):
        return _reason_and_message(status)
    return next(_failed(pod), "") if text_at(pod, "status.phase") == "Failed" else ""


def _waiting(pod: JsonObject) -> Iterator[str]:
    for status in _statuses(pod):
        waiting = map_at(status, "state.waiting")
        reason, message = text_at(waiting, "reason"), text_at(waiting, "message")
        if reason and reason != _INITIALIZING:
            yield (
                f"{text_at(status, 'name')}: {_reason_and_message(waiting)}"
                if message
                else f"{text_at(status, 'name')}: {reason}"
            )


def _unready(pod: JsonObject) -> Iterator[str]:
    """Yield the running containers that are not ready."""
    sidecars = {
        text_at(each, "name")
        for each in objects_at(pod, "spec.initContainers")
        if each.get("restartPolicy") == "Always"
    }
    for status in _statuses(pod):
        name = text_at(status, "name")
        running = value_at(status, "state.running") is not None
        counts = name in sidecars or status in objects_at(pod, "status.containerStatuses")
        if running and counts and not status.get("ready"):
            word = "has not started yet" if status.get("started") is False else "is not ready"
            yield f"{name}: {word}, its probe has not succeeded"


def _failed(pod: JsonObject) -> Iterator[str]:
    for status in _statuses(pod):
        if text_at(status, "state.terminated.exitCode") not in ("", "0"):
            yield f"{text_at(status, 'name')}: {end_of(status, 'state.terminated')}"


def _short(wait: str, pod: JsonObject, word: str) -> str:
    """Leave out the parts of a text that other cells of the pod show: the name of its only container, the status."""
    containers = objects_at(pod, "spec.containers")
    if len(containers) == 1:
        wait = wait.removeprefix(f"{text_at(containers[0], 'name')}: ")
    return wait.removeprefix(f"{word}: ")


def _statuses(pod: JsonObject) -> list[JsonObject]:
    return [*objects_at(pod, "status.initContainerStatuses"), *objects_at(pod, "status.containerStatuses")]


def _reason_and_message(status: JsonObject) -> str:
    return ": ".join(part for part in (text_at(status, "reason"), text_at(status, "message")) if part)
