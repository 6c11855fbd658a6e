"""Pods in the eyes of controllers: whether they count, and how they are made from a template."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from modules.apimachinery.api_errors import BadRequestError
from modules.apimachinery.conditions import changed_at, condition_of
from modules.apimachinery.conversion import without_null_members
from modules.apimachinery.generated_names import ALPHABET
from modules.apimachinery.kinds import JsonObject, kind_named, metadata_of, uid_of
from modules.apimachinery.protobuf.empty_members import template_without_empty_members
from modules.apimachinery.times import parse_rfc3339
from modules.cloud.apiserver.fields.types import decoded
from modules.cloud.apiserver.pod_defaults import complete_pod_spec

_POD: Final = kind_named("Pod")
_FNV_OFFSET: Final = 2166136261
_FNV_PRIME: Final = 16777619
_32_BITS: Final = 0xFFFFFFFF


def was_ready_once(pod: JsonObject) -> bool:
    """Return whether the containers of a pod that is not ready run, for the first time, and were ready since they have
    started.
    """
    statuses = [each for each in (pod.get("status") or {}).get("containerStatuses") or () if isinstance(each, dict)]
    running = [state for each in statuses if (state := (each.get("state") or {}).get("running"))]
    if not running or len(running) < len(statuses) or any(each.get("restartCount") for each in statuses):
        return False
    since = changed_at(condition_of(pod, "Ready"))
    started = [parse_rfc3339(str(each.get("startedAt") or "")) or 0.0 for each in running]
    return since is not None and since > max(started)


def available_from(pod: JsonObject, min_ready_seconds: int, now: float) -> float:
    """Return since when a pod is, or will be, available, in seconds since the epoch; infinity if it is not ready."""
    ready = condition_of(pod, "Ready")
    if ready.get("status") != "True":
        return math.inf
    if min_ready_seconds <= 0:
        return 0.0
    since = changed_at(ready)
    return (now if since is None else since) + min_ready_seconds


def is_available(pod: JsonObject, workload: JsonObject, now: float) -> bool:
    """Return whether a pod of a workload has been ready for `minReadySeconds`."""
    return available_from(pod, _min_ready_seconds(workload), now) <= now


def available_later(pods: Iterable[JsonObject], workload: JsonObject, now: float) -> list[float]:
    """Return when the ready pods of a workload become available."""
    seconds = _min_ready_seconds(workload)
    return [at for pod in pods if now < (at := available_from(pod, seconds, now)) < math.inf]


def _min_ready_seconds(workload: JsonObject) -> int:
    return int(workload["spec"].get("minReadySeconds") or 0)


def created_at(obj: JsonObject) -> float:
    """Return the time of an object's creation in seconds since the epoch."""
    return parse_rfc3339(str(metadata_of(obj).get("creationTimestamp") or "")) or 0.0


def by_age(obj: JsonObject) -> tuple[float, str]:
    """Return the sort key of objects by their age, the oldest first. Between objects of one second, as a
    creationTimestamp has it, the name decides (kube-controller-manager's ReplicaSetsByCreationTimestamp and its like).
    """
    return created_at(obj), str(metadata_of(obj).get("name") or "")


def owner_reference(owner: JsonObject) -> JsonObject:
    """Return the reference to a controller for objects that it makes or adopts."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_of(template: JsonObject, owner: JsonObject, prefix: str = "") -> JsonObject:
    """Return a new pod of a workload's template.

    Args:
        template: the template.
        owner: the workload.
        prefix: the beginning of the pod's name; "" is the owner's name.
    """
    given = template.get("metadata") or {}
    metadata = {name: given[name] for name in ("labels", "annotations", "finalizers") if given.get(name)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **metadata,
            "generateName": prefix or f"{owner['metadata']['name']}-",
            "namespace": owner["metadata"]["namespace"],
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": template.get("spec") or {},
    }


def template_hash(template: object, collisions: int = 0) -> str:
    """Return the hash that names a template in labels: FNV-1a of its canonical JSON, in the letters of names."""
    found = _FNV_OFFSET
    suffix = str(collisions).encode() if collisions else b""
    for byte in msgspec.json.encode(template, order="deterministic") + suffix:
        found = ((found ^ byte) * _FNV_PRIME) & _32_BITS
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(found))


def with_same_template(candidates: Sequence[tuple[JsonObject, object]], template: JsonObject) -> JsonObject | None:
    """Return the first object whose template is the given one, as stored; or else the first that differs only by
    defaults, which an earlier cloudcore may have stored without.

    Args:
        candidates: objects with their templates.
        template: the template to find.
    """
    for obj, other in candidates:
        if other == template:
            return obj
    wanted = _completed(template)
    return next((obj for obj, other in candidates if wanted is not None and _completed(other) == wanted), None)


def _completed(template: object) -> JsonObject | None:
    """Return a template with all defaults of its pods and canonical quantities, or None: the data of a revision may be
    anything. An earlier cloudcore has stored templates with more defaults, and quantities as they came.
    """
    if not isinstance(template, dict):
        return None
    try:
        read = decoded(_POD, template)
    except BadRequestError:
        return None
    completed = template_without_empty_members(without_null_members(read))
    complete_pod_spec(completed.setdefault("spec", {}))
    return completed
