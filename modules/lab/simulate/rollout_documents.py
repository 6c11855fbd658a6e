"""Manifests of workloads that controllers make pods of."""

from typing import Final

from modules.apimachinery.kinds import JsonObject, kind_named
from modules.lab.simulate.plan import RolloutStep

_NAMES: Final = {"Deployment": "web", "StatefulSet": "db", "DaemonSet": "each", "Job": "sum", "CronJob": "tick"}
_SECONDS: Final = "4"
"""The work of a Job's pod."""


def rollout_name(kind: str) -> str:
    """Return the name of the workload of a kind."""
    return _NAMES[kind]


def rollout_document(step: RolloutStep) -> JsonObject | None:
    """Return the manifest of a step; None if the workload is deleted."""
    if not step.revision:
        return None
    name = rollout_name(step.kind)
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": kind_named(step.kind).api_version,
        "kind": step.kind,
        "metadata": metadata,
        "spec": _spec(step, name),
    }


def _spec(step: RolloutStep, name: str) -> JsonObject:
    if step.kind == "Job":
        return {"completions": step.replicas, "parallelism": 2, "template": _template(step, name)}
    if step.kind == "CronJob":
        job = {"spec": {"template": _template(step, name)}}
        policy = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "suspend": not step.replicas}
        return {**policy, "jobTemplate": job}
    spec: JsonObject = {"selector": {"matchLabels": {"app": name}}, "template": _template(step, name)}
    if step.kind == "DaemonSet":
        return spec
    if step.kind == "StatefulSet":
        return {**spec, "replicas": step.replicas, "serviceName": name}
    rolling = {"maxSurge": step.surge, "maxUnavailable": step.unavailable}
    return {**spec, "replicas": step.replicas, "strategy": {"rollingUpdate": rolling}}


def _template(step: RolloutStep, name: str) -> JsonObject:
    """Return the template of a revision. Each third one is broken: its container ends again and again."""
    command, policy = ["serve"], "Always"
    if step.kind in ("Job", "CronJob"):
        command, policy = ["run", _SECONDS, "0"], "OnFailure"
    elif step.revision % 3 == 0:
        command = ["run", "2", "1"]
    container = {"name": "main", "image": f"app:{step.revision % 2 + 1}", "command": command}
    return {
        "metadata": {"labels": {"app": name}, "annotations": {"revision": str(step.revision)}},
        "spec": {
            "terminationGracePeriodSeconds": 5,
            "restartPolicy": policy,
            "automountServiceAccountToken": False,
            "containers": [{**container, "imagePullPolicy": "IfNotPresent"}],
        },
    }
