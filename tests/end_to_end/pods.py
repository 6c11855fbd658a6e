"""Manifests as tests need them, and answers to what one asks of a pod."""

from typing import Any, Final

from modules.apimachinery.kinds import JsonObject

IMAGE: Final = "busybox:1.36"
OTHER_IMAGE: Final = "busybox:1.37"

RUN: Final = "trap 'exit 0' TERM; while true; do sleep 600 & wait $!; done"
"""A shell script that runs until SIGTERM, and obeys immediately."""


def pod(name: str, *containers: JsonObject, volumes: tuple[JsonObject, ...] = (), **spec: Any) -> JsonObject:
    """A pod of some containers; by default of one container that runs until SIGTERM."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": list(containers) or [container()],
            "volumes": list(volumes),
            "terminationGracePeriodSeconds": 30,
            **spec,
        },
    }


GREEDY = "sleep 5; tail /dev/zero; code=$?; sleep 5; exit $code"
"""A script whose child takes memory until it is killed. containerd 1.6 watches for that only once the container has
been started, and hears of the container's end elsewhere: hence the time before and after.
"""


def container(script: str = RUN, name: str = "app", **fields: Any) -> JsonObject:
    """A container that runs a shell script."""
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", script], **fields}


def mount(name: str, path: str, **fields: Any) -> JsonObject:
    """A volume mount."""
    return {"name": name, "mountPath": path, **fields}


def config_map(name: str, **data: str) -> JsonObject:
    """A configmap."""
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def phase(obj: JsonObject) -> str:
    """The phase that was last reported."""
    return str((obj.get("status") or {}).get("phase"))


def is_ready(obj: JsonObject) -> bool:
    """The pod's condition Ready."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def status_of(obj: JsonObject, name: str = "app") -> JsonObject:
    """The status of one container; an empty one when none was reported."""
    statuses = (obj.get("status") or {}).get("containerStatuses") or []
    return next((each for each in statuses if each["name"] == name), {})


def state_of(obj: JsonObject, which: str, name: str = "app") -> JsonObject:
    """A container's state `running`, `waiting` or `terminated`; empty when it is in another one."""
    return (status_of(obj, name).get("state") or {}).get(which) or {}


def restarts_of(obj: JsonObject, name: str = "app") -> int:
    """How often a container was started again."""
    return int(status_of(obj, name).get("restartCount") or 0)


def runs_anew(before: JsonObject, now: JsonObject) -> bool:
    """Whether the pod is ready with another container than before."""
    return is_ready(now) and status_of(now)["containerID"] != status_of(before)["containerID"]
