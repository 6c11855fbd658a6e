"""Makes the Deployments, Jobs and CronJobs of `create KIND NAME --image=IMAGE`, as kubectl does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from modules.tools.kubectl.errors import KubectlError

if TYPE_CHECKING:
    from modules.tools.printing.fields import JsonObject


def workload(kind: str, name: str, command: list[str], chosen: Any) -> JsonObject:
    """Return a workload.

    Args:
        kind: deployment, job or cronjob.
        name: its name.
        command: of its container.
        chosen: the options `image`, `replicas`, `port`, `schedule`, `restart` and `made_from`.

    Raises:
        KubectlError: an option is missing or wrong.
    """
    if kind == "job" and chosen.made_from:
        return _object("batch/v1", "Job", name, {})
    if not chosen.image:
        raise KubectlError(f"--image is needed: `create {kind} NAME --image=IMAGE [-- ARGUMENT…]`")
    if kind == "deployment":
        return _deployment(name, command, chosen)
    container = {"name": name, "image": chosen.image, **({"command": command} if command else {})}
    restart = chosen.restart or ("Never" if kind == "job" else "OnFailure")
    spec = {"template": {"spec": {"containers": [container], "restartPolicy": restart}}}
    if kind == "job":
        return _object("batch/v1", "Job", name, spec)
    if not chosen.schedule:
        raise KubectlError("--schedule is needed: `create cronjob NAME --image=IMAGE --schedule='*/5 * * * *'`")
    given = {"schedule": chosen.schedule, "jobTemplate": {"metadata": {"name": name}, "spec": spec}}
    return _object("batch/v1", "CronJob", name, given)


def _deployment(name: str, command: list[str], chosen: Any) -> JsonObject:
    container: JsonObject = {"name": _container_name(chosen.image), "image": chosen.image}
    if command:
        container["command"] = command
    if chosen.port:
        container["ports"] = [{"containerPort": _number(chosen.port, "--port")}]
    labels = {"app": name}
    spec = {
        "replicas": _number(chosen.replicas, "--replicas"),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    made = _object("apps/v1", "Deployment", name, spec)
    return {**made, "metadata": {**made["metadata"], "labels": labels}}


def _object(api_version: str, kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _container_name(image: str) -> str:
    """Return the last part of an image's name, without tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def _number(text: str, option: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise KubectlError(f"{option} is a number, not {text[:20]!r}")
    return int(text)
