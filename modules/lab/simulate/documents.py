"""Manifests of a workload, by shape and revision."""

from typing import Any

from modules.lab.simulate.plan import Shape, WorkloadStep
from modules.lab.simulate.probe_watch import LIVENESS, READINESS

JsonObject = dict[str, Any]
_IMAGES = ("app:1", "app:2")


def kind_of(shape: Shape) -> str:
    """Return the object's kind."""
    return {Shape.CONFIGMAP: "ConfigMap", Shape.SECRET: "Secret"}.get(shape, "Pod")


def document_of(step: WorkloadStep) -> JsonObject | None:
    """Return the manifest of a step; None if the object is deleted."""
    if not step.revision:
        return None
    meta = {"name": step.name, "namespace": "default", "labels": {"revision": str(step.revision)}}
    if step.shape is Shape.STATIC:
        meta = {**meta, "uid": static_uid(step)}
    kind = kind_of(step.shape)
    if kind == "ConfigMap":
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "data": {"key": text_of(step)}}
    if kind == "Secret":
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "stringData": {"key": text_of(step)}}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": _pod_spec(step)}


def static_uid(step: WorkloadStep) -> str:
    """Return the uid in a static pod's file; without one the agent would derive the uid from the file's path."""
    return f"{step.name}-r{step.revision}"


def text_of(step: WorkloadStep) -> str:
    """Return the content of a configmap or secret in one revision."""
    return f"{step.name} {step.revision}"


def _pod_spec(step: WorkloadStep) -> JsonObject:
    spec: JsonObject = {
        "nodeName": f"node-{step.node}",
        "terminationGracePeriodSeconds": 5,
        "restartPolicy": "Always",
        "automountServiceAccountToken": False,
        "containers": [_container("main", step.revision)],
    }
    match step.shape:
        case Shape.CRASHES:
            spec["containers"] = [_container("main", step.revision, ["run", "7", "1"])]
        case Shape.COMPLETES:
            spec |= {"restartPolicy": "OnFailure", "containers": [_container("main", step.revision, ["run", "9", "0"])]}
        case Shape.FAILS_ONCE:
            spec |= {"restartPolicy": "Never", "containers": [_container("main", step.revision, ["run", "4", "3"])]}
        case Shape.STATIC:
            spec["containers"] = [_container("main", step.revision, ["stubborn"])]
        case Shape.INIT:
            spec["initContainers"] = [_container(f"init-{n}", 1, ["run", "2", "0"]) for n in (1, 2)]
        case Shape.PROBED:
            spec["containers"][0] |= {
                "readinessProbe": {"exec": {"command": [READINESS]}, "periodSeconds": 2, "failureThreshold": 2},
                "livenessProbe": {"exec": {"command": [LIVENESS]}, "periodSeconds": 3, "failureThreshold": 2},
            }
        case Shape.TWO:
            spec["containers"].append(_container("side", 1))
        case Shape.MOUNTS:
            spec["volumes"] = [
                {"name": "settings", "configMap": {"name": f"settings-{step.node}"}},
                {"name": "keys", "secret": {"secretName": f"keys-{step.node}"}},
            ]
            spec["containers"][0]["volumeMounts"] = [
                {"name": "settings", "mountPath": "/settings"},
                {"name": "keys", "mountPath": "/keys"},
            ]
        case _:
            pass
    return spec


def _container(name: str, revision: int, command: list[str] | None = None) -> JsonObject:
    """Return a container. Each revision has another image, the only change of a pod's spec that Kubernetes allows."""
    image = _IMAGES[(revision - 1) % len(_IMAGES)]
    return {"name": name, "image": image, "imagePullPolicy": "IfNotPresent", "command": command or ["serve"]}
