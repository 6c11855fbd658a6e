"""Pods as the cloud has them, in the states that the demo's decisions are about."""

from typing import Any

Json = dict[str, Any]


def pod(phase: str, *containers: Json, ready: bool = False, name: str = "p", **status: Any) -> Json:
    """A pod with a phase, container statuses and anything else in its status."""
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-11-20T03:00:00Z"},
        "spec": {"containers": [{"name": each["name"]} for each in containers] or [{"name": "app"}]},
        "status": {"phase": phase, "conditions": [condition], "containerStatuses": list(containers), **status},
    }


def running(name: str = "app", restarts: int = 0, *, ready: bool = True, last: Json | None = None) -> Json:
    """The status of a container that runs."""
    return {
        "name": name,
        "ready": ready,
        "restartCount": restarts,
        "state": {"running": {"startedAt": "2026-11-20T03:00:01Z"}},
        **({"lastState": last} if last else {}),
    }


def waiting(reason: str, message: str = "", name: str = "app", restarts: int = 0) -> Json:
    """The status of a container that waits."""
    texts = {"reason": reason, **({"message": message} if message else {})}
    return {"name": name, "ready": False, "restartCount": restarts, "state": {"waiting": texts}}


def ended(exit_code: int, name: str = "app", restarts: int = 0) -> Json:
    """The status of a container that has ended."""
    return {"name": name, "ready": False, "restartCount": restarts, "state": terminated(exit_code)}


def terminated(exit_code: int) -> Json:
    """The state of a container that has ended."""
    return {"terminated": {"exitCode": exit_code, "reason": "Completed" if exit_code == 0 else "Error"}}
