"""Nodes that have not renewed their lease in time: their last status is outdated.

Kubernetes' node lifecycle controller writes this into the node's conditions. This cloud writes nothing and shows it in
what clients read. Like that controller, it measures by the cloud's clock, as the node's may be wrong.
"""

from typing import Final

from modules.cloud.apiserver.kinds import JsonObject, ObjectKey
from modules.cloud.apiserver.storage import Storage

_LEASES: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
"""A kubelet's lease duration."""
_LONGEST_LEASE: Final = 300
"""Longest lease duration that counts; a node with a longer one would never be silent."""


def is_silent(node: str, storage: Storage) -> bool:
    """Return whether a node's lease has expired; a node without a lease is not silent."""
    key = ObjectKey("Lease", _LEASES, node)
    lease = storage.find(key)
    return lease is not None and storage.unchanged_for(key) > _seconds_of(lease)


def with_node_silence(node: JsonObject, storage: Storage) -> JsonObject:
    """Return the node; a silent one with the conditions that Kubernetes' controller would write."""
    status = node.get("status") or {}
    conditions = status.get("conditions")
    if not isinstance(conditions, list) or not is_silent(str(node["metadata"]["name"]), storage):
        return node
    return {**node, "status": {**status, "conditions": [_unknown(one) for one in conditions]}}


def _unknown(condition: JsonObject) -> JsonObject:
    return {
        **condition,
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
    }


def _seconds_of(lease: JsonObject) -> int:
    duration = (lease.get("spec") or {}).get("leaseDurationSeconds")
    return min(duration, _LONGEST_LEASE) if isinstance(duration, int) and duration > 0 else _LEASE_SECONDS
