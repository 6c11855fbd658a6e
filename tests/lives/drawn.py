"""Objects that the users of a random life write."""

from random import Random
from typing import Any, Final

from modules.apimachinery.kinds import JsonObject
from tests.end_to_end.machine import NODE
from tests.end_to_end.pods import container, mount, pod
from tests.support.ports import free_port

_SLEEP: Final = "exec sleep 600"
_VALUES: Final = (
    {"name": "S", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}},
    {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
)
_PROJECTED: Final = (
    {"serviceAccountToken": {"path": "token", "expirationSeconds": 600}},
    {"downwardAPI": {"items": [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
)
LASTING: Final = frozenset({"plain", "init", "files", "stubborn", "hook", "values", "projected"})
"""Kinds of pods that become ready and stay so."""


_Parts = tuple[list[JsonObject], list[JsonObject], dict[str, Any]]
"""Containers, volumes and other fields of a pod's specification."""


def _parts_of(kind: str, draw: Random, name: str) -> _Parts:
    plain = [container(_SLEEP)]
    hooks = {"postStart": {"exec": {"command": ["true"]}}, "preStop": {"exec": {"command": ["sleep", "1"]}}}
    alive = {"exec": {"command": ["sh", "-c", draw.choice(["true", "exit 1"])]}, "periodSeconds": 1}
    passes = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    side = container(_SLEEP, name="side", restartPolicy="Always")
    parts: dict[str, _Parts] = {
        "plain": (plain, [], {}),
        "crashes": ([container("sleep 1; exit 3")], [], {}),
        "crashes-immediately": ([container("exit 3")], [], {}),
        "ends": ([container("sleep 2")], [], {"restartPolicy": "Never"}),
        "fails": (
            [container("echo no; exit 4", terminationMessagePolicy="FallbackToLogsOnError")],
            [],
            {"restartPolicy": "Never"},
        ),
        "init": (plain, [], {"initContainers": [container("sleep 1", name="i1"), container("true", name="i2")]}),
        "files": (
            [container(_SLEEP, volumeMounts=[mount("cm", "/cm"), mount("s", "/s")])],
            [{"name": "cm", "configMap": {"name": "settings"}}, {"name": "s", "secret": {"secretName": "keys"}}],
            {},
        ),
        "projected": (
            [container(_SLEEP, volumeMounts=[mount("t", "/t")])],
            [{"name": "t", "projected": {"sources": list(_PROJECTED)}}],
            {},
        ),
        "probes": ([container(_SLEEP, readinessProbe=passes, startupProbe=passes, livenessProbe=alive)], [], {}),
        "stubborn": ([container("trap '' TERM; while true; do sleep 1; done")], [], {}),
        "two": ([container(_SLEEP, name="a"), container("sleep 1", name="b")], [], {}),
        "sidecar": (
            [container("sleep 2")],
            [],
            {"initContainers": [side], "restartPolicy": draw.choice(["Never", "Always"])},
        ),
        "hook": ([container(_SLEEP, lifecycle=hooks)], [], {}),
        "no-image": ([container(_SLEEP, image="nowhere.invalid/none:1")], [], {}),
        "deadline": (plain, [], {"activeDeadlineSeconds": 3}),
        "no-settings": ([container(_SLEEP, envFrom=[{"configMapRef": {"name": f"late-{name}"}}])], [], {}),
        "values": ([container(_SLEEP, env=list(_VALUES))], [], {}),
    }
    return parts[kind]


PODS: Final = (
    "plain", "crashes", "crashes-immediately", "ends", "fails", "init", "files", "projected", "probes", "stubborn",
    "two", "sidecar", "hook", "no-image", "deadline", "no-settings", "values",
)  # fmt: skip
"""Kinds of pods."""
WORKLOADS: Final = ("Deployment", "DaemonSet", "StatefulSet", "Job")


def pod_of(kind: str, draw: Random, name: str) -> JsonObject:
    """Return a pod of a kind, bound to the node."""
    containers, volumes, fields = _parts_of(kind, draw, name)
    grace = 2 if kind == "stubborn" else draw.choice([0, 1, 2, 30])
    made = pod(name, *containers, volumes=tuple(volumes), nodeName=NODE, terminationGracePeriodSeconds=grace, **fields)
    made["metadata"]["labels"] = {"app": kind}
    return made


def workload_of(kind: str, draw: Random, name: str) -> JsonObject:
    """Return a workload with one or two pods."""
    spec: dict[str, Any] = {"containers": [container(_SLEEP)], "terminationGracePeriodSeconds": 1}
    metadata = {"name": name, "namespace": "default"}
    if kind == "Job":
        spec |= {"restartPolicy": "Never", "containers": [container(draw.choice(["sleep 1", "exit 1"]))]}
        job = {"template": {"spec": spec}, "completions": 2, "parallelism": 2, "backoffLimit": 1}
        return {"apiVersion": "batch/v1", "kind": kind, "metadata": metadata, "spec": job}
    labels = {"w": name}
    wanted: dict[str, Any] = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    if kind != "DaemonSet":
        wanted["replicas"] = draw.randrange(1, 3)
    if kind == "StatefulSet":
        wanted["serviceName"] = "svc"
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": wanted}


def service_of(draw: Random, name: str) -> JsonObject:
    """Return a Service of some of the pods."""
    spec = {
        "selector": {"app": draw.choice(["plain", "init"])},
        "clusterIP": f"10.96.0.{draw.randrange(2, 250)}",
        "ports": [{"port": free_port(), "targetPort": 80}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
