"""How far the rollout of a workload is, in kubectl's words (`polymorphichelpers/rollout_status.go`)."""

from __future__ import annotations

from typing import NamedTuple

from modules.tools.kubectl.errors import KubectlError
from modules.tools.printing.fields import JsonObject, objects_at, text_at, value_at
from modules.tools.printing.workloads import number_at


class RolloutStatus(NamedTuple):
    """The state of a rollout."""

    text: str
    is_done: bool = False


def rollout_status(obj: JsonObject) -> RolloutStatus:
    """Return the state of a workload's rollout.

    Raises:
        KubectlError: it has failed, or a workload of this kind has none.
    """
    kind, name = text_at(obj, "kind"), text_at(obj, "metadata.name")
    states = {"Deployment": _deployment, "DaemonSet": _daemon_set, "StatefulSet": _stateful_set}
    if kind not in states:
        raise KubectlError(f"no status viewer has been implemented for {kind}")
    if kind != "Deployment" and text_at(obj, "spec.updateStrategy.type") == "OnDelete":
        raise KubectlError("rollout status is only available for RollingUpdate strategy type")
    if number_at(obj, "metadata.generation") > number_at(obj, "status.observedGeneration"):
        words = {"Deployment": "deployment", "DaemonSet": "daemon set", "StatefulSet": "statefulset"}[kind]
        return RolloutStatus(f"Waiting for {words} spec update to be observed...")
    return states[kind](obj, name)


def _deployment(obj: JsonObject, name: str) -> RolloutStatus:
    for each in objects_at(obj, "status.conditions"):
        if each.get("type") == "Progressing" and each.get("reason") == "ProgressDeadlineExceeded":
            raise KubectlError(f'deployment "{name}" exceeded its progress deadline')
    wanted, updated = number_at(obj, "spec.replicas", 1), number_at(obj, "status.updatedReplicas")
    replicas, available = number_at(obj, "status.replicas"), number_at(obj, "status.availableReplicas")
    waiting = f'Waiting for deployment "{name}" rollout to finish:'
    if updated < wanted:
        return RolloutStatus(f"{waiting} {updated} out of {wanted} new replicas have been updated...")
    if replicas > updated:
        return RolloutStatus(f"{waiting} {replicas - updated} old replicas are pending termination...")
    if available < updated:
        return RolloutStatus(f"{waiting} {available} of {updated} updated replicas are available...")
    return RolloutStatus(f'deployment "{name}" successfully rolled out', is_done=True)


def _daemon_set(obj: JsonObject, name: str) -> RolloutStatus:
    wanted, updated = (number_at(obj, f"status.{what}NumberScheduled") for what in ("desired", "updated"))
    available = number_at(obj, "status.numberAvailable")
    waiting = f'Waiting for daemon set "{name}" rollout to finish:'
    if updated < wanted:
        return RolloutStatus(f"{waiting} {updated} out of {wanted} new pods have been updated...")
    if available < wanted:
        return RolloutStatus(f"{waiting} {available} of {wanted} updated pods are available...")
    return RolloutStatus(f'daemon set "{name}" successfully rolled out', is_done=True)


def _stateful_set(obj: JsonObject, name: str) -> RolloutStatus:
    wanted, ready = number_at(obj, "spec.replicas", 1), number_at(obj, "status.readyReplicas")
    if ready < wanted:
        return RolloutStatus(f"Waiting for {wanted - ready} pods to be ready...")
    updated, partition = number_at(obj, "status.updatedReplicas"), value_at(obj, "spec.updateStrategy.rollingUpdate")
    first = partition.get("partition", 0) if isinstance(partition, dict) else 0
    if updated < wanted - first:
        waiting = "Waiting for partitioned roll out to finish:" if first else "waiting for statefulset rolling update"
        return RolloutStatus(f"{waiting} {updated} out of {wanted - first} new pods have been updated...")
    return RolloutStatus(f"{name}: statefulset rolling update complete {updated} pods", is_done=True)
