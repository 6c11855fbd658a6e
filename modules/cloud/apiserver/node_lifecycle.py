"""Kubernetes' node lifecycle controller, as far as a cloud without a cluster needs it.

It marks nodes that have not renewed their lease, or without one have not reported their status, and taints these and
those under pressure. It does not taint nodes that say themselves that they are not ready, and evicts no pods: an edge
node may be offline for long, keeps its pods, and gets new ones when it connects (`silent_nodes`).
"""

import logging
import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from modules.apimachinery.api_errors import ApiError
from modules.apimachinery.conditions import condition_of, conditions_of, is_ready
from modules.apimachinery.kinds import JsonObject, ObjectKey, kind_named, uid_of
from modules.apimachinery.times import format_rfc3339
from modules.cloud.apiserver.event_registry import EventRegistry, event_about
from modules.cloud.apiserver.reconciler import Attempt, Reconciler
from modules.cloud.apiserver.silent_nodes import UNREACHABLE
from modules.cloud.storage.object_storage import EventType, ObjectEvent, Storage

if TYPE_CHECKING:
    from beehive.clock import Clock

_log = logging.getLogger(__name__)

_NODE: Final = kind_named("Node")
_LEASES: Final = "kube-node-lease"
_LEASE_SECONDS: Final = 40
"""A kubelet's lease duration; without a Lease a heartbeat of the condition Ready counts for as long."""
_STARTUP_SECONDS: Final = 60
"""Seconds that a Node may be without a condition Ready (kube-controller-manager's `--node-startup-grace-period`)."""
_STALL: Final = 15.0
"""Seconds between two looks at the nodes, of which there is one in `PERIOD`, after which this process has stood still:
what nodes have sent meanwhile waits to be read."""
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
_NEVER: Final = {
    "status": "Unknown",
    "reason": "NodeStatusNeverUpdated",
    "message": "Kubelet never posted node status.",
}
_TAINTS: Final = {
    ("Ready", "Unknown"): (UNREACHABLE, ("NoSchedule", "NoExecute")),
    ("MemoryPressure", "True"): ("node.kubernetes.io/memory-pressure", ("NoSchedule",)),
    ("DiskPressure", "True"): ("node.kubernetes.io/disk-pressure", ("NoSchedule",)),
    ("PIDPressure", "True"): ("node.kubernetes.io/pid-pressure", ("NoSchedule",)),
}
"""The key and the effects of the taints of a condition with a status."""


class _Heartbeat(NamedTuple):
    uid: str
    """Of the Node."""
    time: str
    """As the node has written it."""
    noticed_at: float
    """Monotonic seconds."""


class NodeEvents(Reconciler):
    """The reconciler that tells, by Events, of Nodes that are new and of those that were deleted.

    Args:
        tell: stores an Event about an object: its type, reason and message, and who tells it.
    """

    name = "node-lifecycle-controller"
    kinds = (_NODE.key_name,)

    def __init__(self, tell: Callable[[JsonObject, tuple[str, str, str], str], None]) -> None:
        self._tell = tell
        self._changes: list[ObjectEvent] = []

    def handle_own(self, event: ObjectEvent) -> None:
        """Note that a Node is new, or was deleted."""
        if event.type is not EventType.MODIFIED:
            self._changes.append(event)

    def roll_back(self, event: ObjectEvent) -> None:
        """Forget a change that was not stored."""
        self._changes = [each for each in self._changes if each is not event]

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:  # noqa: ARG002 - it is done in one part
        """Store the Events of the changes."""
        changes, self._changes = self._changes, []
        if changes:
            attempt(partial(self._record_events, changes))
        return False

    def _record_events(self, changes: Iterable[ObjectEvent]) -> None:
        for change in changes:
            name = change.key.name
            reason, words = "RegisteredNode", f"Registered Node {name} in Controller"
            if change.type is EventType.DELETED:
                reason, words = "RemovingNode", f"Removing Node {name} from Controller"
            self._tell(change.new, ("Normal", reason, f"Node {name} event: {words}"), _CONTROLLER)


class NodeLifecycle(Reconciler):
    """The reconciler that writes into Nodes what their nodes cannot say themselves, or do not.

    Args:
        storage: has the objects.
        events: takes the Events about nodes.
        clock: the present time.
    """

    name = "node-lifecycle-controller"
    kinds = (_NODE.key_name,)

    def __init__(self, storage: Storage, events: EventRegistry, clock: "Clock") -> None:
        self._storage = storage
        self._events = events
        self._clock = clock
        self._heartbeats: dict[str, _Heartbeat] = {}
        """The last heartbeats of nodes without a Lease."""
        self._changed: set[str] = set()
        """Nodes that have changed since their taints were looked at."""
        self._looked_at = math.inf
        """Monotonic seconds of the last look at silent nodes."""
        self._awake_since = -math.inf
        """When this process went on, if it has stood still."""

    def handle_own(self, event: ObjectEvent) -> None:
        """Note that a node has changed."""
        if event.type is not EventType.DELETED:
            self._changed.add(event.key.name)

    def reset(self) -> None:
        """Have the taints of all nodes looked at again."""
        self._changed |= {str(node["metadata"]["name"]) for node in self._storage.list(_NODE)}

    def reconcile(self, attempt: Attempt, *, is_turn: bool) -> bool:  # noqa: ARG002 - it is done in one part
        """Give the changed nodes that report a pressure its taint."""
        changed, self._changed = self._changed, set()
        if changed:
            attempt(partial(self.taint, changed))
        return False

    def overdue(self) -> Callable[[], None] | None:
        """Return the marking of silent nodes, if there are any. All cloudcores of a database do this, and the first one
        does it. After a stall of this process nobody is silent before a whole lease has passed.
        """
        now = self._clock.monotonic()
        if now - self._looked_at > _STALL:
            self._awake_since = now
        self._looked_at = now
        return self.mark_silent if self.has_silent() else None

    def has_silent(self) -> bool:
        """Return whether a node has fallen silent that is not marked yet."""
        nodes = self._storage.list(_NODE)
        for gone in self._heartbeats.keys() - {str(node["metadata"]["name"]) for node in nodes}:
            del self._heartbeats[gone]
        return bool([node for node in nodes if self._falls_silent(node)])  # it notes the heartbeats of all

    def mark_silent(self) -> None:
        """Set the conditions of silent nodes to Unknown and taint them, with an Event for each that was ready.

        Like Kubernetes' controller, this measures by the cloud's clock, as the node's may be wrong.
        """
        for node in self._storage.list(_NODE):
            if self._falls_silent(node):
                now = format_rfc3339(self._clock.now())
                marked = self._replace(_with_taints(_with_conditions(node, now), now))
                if marked is not None and is_ready(node):
                    words = f"Node {node['metadata']['name']} status is now: NodeNotReady"
                    self._events.keep(event_about(marked, ("Normal", "NodeNotReady", words), _CONTROLLER, now))

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
        """Return whether a node's lease has expired; of a node without one, whether its heartbeats have ended, or have
        not begun.
        """
        key = ObjectKey("Lease", _LEASES, str(node["metadata"]["name"]))
        lease, unheard, allowed = self._storage.find(key), math.inf, 0
        if lease is not None:
            unheard, allowed = self._storage.unchanged_for(key), _seconds_of(lease)
        if unheard <= allowed:
            return False  # as of most nodes, so it is looked at first
        ready = condition_of(node, "Ready")
        if ready and not any(map(_is_heard, conditions_of(node))):
            return False  # it is marked
        if lease is None:
            unheard, allowed = self._unheard_for(node, ready), _LEASE_SECONDS if ready else _STARTUP_SECONDS
        return min(unheard, self._clock.monotonic() - self._awake_since) > allowed

    def _unheard_for(self, node: JsonObject, ready: JsonObject) -> float:
        """Return the seconds since this cloud has noticed the last heartbeat."""
        now, name = self._clock.monotonic(), str(node["metadata"]["name"])
        heartbeat = _Heartbeat(uid_of(node), str(ready.get("lastHeartbeatTime") or ""), now)
        known = self._heartbeats.get(name)
        if known is None or known[:2] != heartbeat[:2]:
            known = self._heartbeats[name] = heartbeat
        return now - known.noticed_at


def _seconds_of(lease: JsonObject) -> int:
    duration = (lease.get("spec") or {}).get("leaseDurationSeconds")
    return min(duration, _LONGEST_LEASE) if isinstance(duration, int) and duration > 0 else _LEASE_SECONDS


def _is_heard(condition: JsonObject) -> bool:
    return condition.get("type") in _REPORTED and condition.get("status") != _UNKNOWN["status"]


def _with_conditions(node: JsonObject, now: str) -> JsonObject:
    unknown = {**_UNKNOWN, "lastTransitionTime": now}
    conditions = [{**one, **unknown} if _is_heard(one) else one for one in conditions_of(node)]
    if not condition_of(node, "Ready"):
        known = {one.get("type") for one in conditions}
        conditions += [
            {
                "type": kind,
                **_NEVER,
                "lastHeartbeatTime": node["metadata"].get("creationTimestamp"),
                "lastTransitionTime": now,
            }
            for kind in _REPORTED
            if kind not in known
        ]
    return {**node, "status": {**(node.get("status") or {}), "conditions": conditions}}


def _with_taints(node: JsonObject, now: str) -> JsonObject:
    """Return the node; the same object when its taints are right. A pressure that is Unknown keeps its taint."""
    spec = node.get("spec") or {}
    taints = [taint for taint in spec.get("taints") or [] if isinstance(taint, dict)]
    reported = {one.get("type"): one.get("status") for one in conditions_of(node)}
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
