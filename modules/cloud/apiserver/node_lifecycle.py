"""Kubernetes' node lifecycle controller, as far as a cloud without a cluster needs it.

It marks nodes that have not renewed their lease, and taints these and those under pressure. It does not taint nodes
that say themselves that they are not ready, and evicts no pods: an edge node may be offline for long, keeps its pods,
and gets new ones when it connects (`silent_nodes`).
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named, uid_of, version_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver.event_registry import EventRegistry
from modules.cloud.apiserver.scheduling.rooms import is_ready
from modules.cloud.apiserver.silent_nodes import UNREACHABLE
from modules.cloud.storage.object_storage import Storage

if TYPE_CHECKING:
    from beehive.clock import Clock

_log = logging.getLogger(__name__)

MONITOR_PERIOD: Final = 5.0
"""Seconds between two looks at the leases (kube-controller-manager's `--node-monitor-period`)."""

_NODE: Final = kind_named("Node")
_LEASES: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
"""A kubelet's lease duration."""
_LONGEST_LEASE: Final = 300
"""Longest lease duration that counts; a node with a longer one would never be silent."""
_CONTROLLER: Final = "node-controller"
_REPORTED: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
"""Conditions that become Unknown with a silent node."""
_UNKNOWN: Final = {
    "status": "Unknown",
    "reason": "NodeStatusUnknown",
    "message": "Kubelet stopped posting node status.",
}
_TAINTS: Final = {
    ("Ready", "Unknown"): (UNREACHABLE, ("NoSchedule", "NoExecute")),
    ("MemoryPressure", "True"): ("node.kubernetes.io/memory-pressure", ("NoSchedule",)),
    ("DiskPressure", "True"): ("node.kubernetes.io/disk-pressure", ("NoSchedule",)),
    ("PIDPressure", "True"): ("node.kubernetes.io/pid-pressure", ("NoSchedule",)),
}
"""The key and the effects of the taints of a condition with a status."""


class NodeLifecycle:
    """Writes into Nodes what their nodes cannot say themselves, or do not.

    Args:
        storage: has the objects.
        events: takes the Events about nodes.
        clock: the present time.
    """

    def __init__(self, storage: Storage, events: EventRegistry, clock: "Clock") -> None:
        self._storage = storage
        self._events = events
        self._clock = clock

    def has_silent(self) -> bool:
        """Return whether a node has fallen silent that is not marked yet."""
        return any(self._falls_silent(node) for node in self._storage.list(_NODE))

    def mark_silent(self) -> None:
        """Set the conditions of silent nodes to Unknown and taint them, with an Event for each that was ready.

        Like Kubernetes' controller, this measures by the cloud's clock, as the node's may be wrong.
        """
        for node in self._storage.list(_NODE):
            if self._falls_silent(node):
                now = format_rfc3339(self._clock.now())
                marked = self._replace(_with_taints(_with_conditions(node, now), now))
                if marked is not None and is_ready(node):
                    self._events.keep(_not_ready(marked, now))

    def taint(self, names: Iterable[str]) -> None:
        """Give nodes the taints of their conditions, and take away taints of past conditions."""
        for name in sorted(names):
            node = self._storage.find(ObjectKey(_NODE.key_name, "", name))
            if node is not None:
                self._replace(_with_taints(node, format_rfc3339(self._clock.now())))

    def _replace(self, node: JsonObject) -> JsonObject | None:
        try:
            return self._storage.replace(node)
        except ApiError as error:  # one so large that a condition or taint makes it too large, for instance
            _log.warning("node %s cannot be marked: %s", node["metadata"]["name"], error)
            return None

    def _falls_silent(self, node: JsonObject) -> bool:
        is_reported = any(_is_heard(condition) for condition in _conditions(node))
        return is_reported and is_silent(str(node["metadata"]["name"]), self._storage)


def is_silent(node: str, storage: Storage) -> bool:
    """Return whether a node's lease has expired; a node without a lease is not silent."""
    key = ObjectKey("Lease", _LEASES, node)
    lease = storage.find(key)
    return lease is not None and storage.unchanged_for(key) > _seconds_of(lease)


def _seconds_of(lease: JsonObject) -> int:
    duration = (lease.get("spec") or {}).get("leaseDurationSeconds")
    return min(duration, _LONGEST_LEASE) if isinstance(duration, int) and duration > 0 else _LEASE_SECONDS


def _conditions(node: JsonObject) -> list[JsonObject]:
    found = (node.get("status") or {}).get("conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _is_heard(condition: JsonObject) -> bool:
    return condition.get("type") in _REPORTED and condition.get("status") != _UNKNOWN["status"]


def _with_conditions(node: JsonObject, now: str) -> JsonObject:
    unknown = {**_UNKNOWN, "lastTransitionTime": now}
    conditions = [{**one, **unknown} if _is_heard(one) else one for one in _conditions(node)]
    return {**node, "status": {**node["status"], "conditions": conditions}}


def _with_taints(node: JsonObject, now: str) -> JsonObject:
    """Return the node; the same object when its taints are right. A pressure that is Unknown keeps its taint."""
    spec = node.get("spec") or {}
    taints = [taint for taint in spec.get("taints") or [] if isinstance(taint, dict)]
    reported = {one.get("type"): one.get("status") for one in _conditions(node)}
    holding = [taint for (kind, status), taint in _TAINTS.items() if reported.get(kind) == status]
    ended = {key for (kind, status), (key, _) in _TAINTS.items() if reported.get(kind) in {"True", "False"} - {status}}
    kept = [taint for taint in taints if taint.get("key") not in ended]
    known = {(taint.get("key"), taint.get("effect")) for taint in kept}
    wanted = ((key, effect) for key, effects in holding for effect in effects)
    new = [{"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted if (key, effect) not in known]
    if not new and len(kept) == len(taints):
        return node
    others = {name: value for name, value in spec.items() if name != "taints"}
    return {**node, "spec": {**others, "taints": [*kept, *new]} if kept or new else others}


def _not_ready(node: JsonObject, now: str) -> JsonObject:
    name = node["metadata"]["name"]
    about = {"kind": "Node", "apiVersion": "v1", "name": name, "uid": uid_of(node)}
    return {
        "kind": "Event",
        "apiVersion": "v1",
        "metadata": {"name": f"{name[:230]}.{uid_of(node)[:8]}{version_of(node)}", "namespace": "default"},
        "involvedObject": about,
        "reason": "NodeNotReady",
        "message": f"Node {name} status is now: NodeNotReady",
        "type": "Normal",
        "source": {"component": _CONTROLLER},
        "reportingComponent": _CONTROLLER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
