"""How many nodes are ready, pods do not run and devices are silent, by the objects of the embedded API server."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from beehive.clock import Clock
from modules.apimachinery.conditions import condition_of
from modules.apimachinery.kinds import JsonObject, Kind, ObjectKey, key_of, kind_named
from modules.apimachinery.times import parse_rfc3339
from modules.apimachinery.unvalidated import as_object, as_text
from modules.cloud.storage.object_storage import EventType, ObjectEvent

_NODE: Final = kind_named("Node")
_POD: Final = kind_named("Pod")
PATIENCE: Final = 300.0
"""Seconds that a pod may take to run; one that ran for less since has not run."""
_STATES: Final = ("online", "ok", "offline", "unhealthy", "unknown")
_READY: Final = ("True", "False", "Unknown")


class _Trouble(msgspec.Struct, gc=False):
    """A pod that does not run, or has begun to. Times are seconds since 1970."""

    since: float
    runs_since: float = 0.0
    """0 while it does not run."""


class FleetCounts:
    """The counts of an API server's objects. Its actor updates them; other threads may read them meanwhile.

    Args:
        clock: tells how long a pod has not run.
        device: the kind DeviceStatus.
    """

    def __init__(self, clock: Clock, device: Kind) -> None:
        self._clock = clock
        self.kinds = (_NODE, _POD, device)
        """The kinds that are counted."""
        self.names = frozenset(kind.key_name for kind in self.kinds)
        """The same, as in keys of objects."""
        self._nodes: dict[ObjectKey, str] = {}
        self._pods: dict[ObjectKey, _Trouble] = {}
        self._devices: dict[ObjectKey, str] = {}

    def load(self, objects: Iterable[JsonObject]) -> None:
        """Take over all stored objects of the kinds. Others are gone: this outlives a restart of the API server."""
        stored = {key_of(obj): obj for obj in objects}
        for known in (self._nodes, self._pods, self._devices):
            for key in known.keys() - stored.keys():
                del known[key]
        for key, obj in stored.items():
            self._put(key, obj)

    def handle_event(self, event: ObjectEvent) -> None:
        """Count a change of an object of one of the kinds. Each status of a pod passes here: it makes few calls."""
        obj = None if event.type is EventType.DELETED else event.new
        if event.key.kind == _POD.key_name:
            self._put_pod(event.key, obj)
        else:
            self._put(event.key, obj)

    def nodes(self) -> dict[str, int]:
        """Return the nodes by the status of their condition Ready, without those that are cordoned."""
        counts = Counter(self._nodes.copy().values())
        return {status: counts[status] for status in _READY}

    def pods_not_running(self) -> int:
        """Return the number of pods that have not run for `PATIENCE`, of those that are to run."""
        now = self._clock.now()
        return sum(
            now - each.since >= PATIENCE and (not each.runs_since or now - each.runs_since < PATIENCE)
            for each in self._pods.copy().values()
        )

    def devices(self) -> dict[str, int]:
        """Return the devices by the state that their nodes have reported; those without one are online."""
        counts = Counter(self._devices.copy().values())
        return {state: counts[state] for state in _STATES}

    def _put(self, key: ObjectKey, obj: JsonObject | None) -> None:
        if key.kind == _POD.key_name:
            self._put_pod(key, obj)
        elif obj is None:
            (self._nodes if key.kind == _NODE.key_name else self._devices).pop(key, None)
        elif key.kind != _NODE.key_name:
            state = as_text(as_object(obj.get("status")).get("state")).lower()
            self._devices[key] = state if state in _STATES else "unknown" if state else "online"
        elif as_object(obj.get("spec")).get("unschedulable") is True:
            self._nodes.pop(key, None)
        else:
            status = condition_of(obj, "Ready").get("status")
            self._nodes[key] = status if status in _READY else "Unknown"

    def _put_pod(self, key: ObjectKey, obj: JsonObject | None) -> None:
        known = self._pods.get(key)
        ready: JsonObject = {}
        is_wanted = obj is not None
        if obj is not None:
            metadata, status = obj["metadata"], obj.get("status")
            phase, conditions = (
                (status.get("phase"), status.get("conditions")) if isinstance(status, dict) else ("", ())
            )
            is_replaced = phase == "Failed" and bool(metadata.get("ownerReferences"))
            is_wanted = phase != "Succeeded" and not is_replaced and not metadata.get("deletionTimestamp")
            for each in conditions if isinstance(conditions, list) else ():
                if isinstance(each, dict) and each.get("type") == "Ready":
                    ready = each
        if known is None and (not is_wanted or ready.get("status") == "True"):
            return
        self._judge_pod(key, known, obj if is_wanted else None, ready)

    def _judge_pod(self, key: ObjectKey, known: _Trouble | None, obj: JsonObject | None, ready: JsonObject) -> None:
        """Note how long a pod has not run, or has run again; None is one that need not run."""
        now = self._clock.now()
        runs = known.runs_since if known is not None else 0.0
        has_recovered = bool(runs) and now - runs >= PATIENCE
        if obj is None or (ready.get("status") == "True" and has_recovered):
            self._pods.pop(key, None)
        elif ready.get("status") == "True" and known is not None:
            known.runs_since = runs or now
        elif known is None or has_recovered:
            changed = ready.get("lastTransitionTime") or obj["metadata"].get("creationTimestamp")
            self._pods[key] = _Trouble(_time(changed, now))
        else:
            known.runs_since = 0.0


def _time(text: object, now: float) -> float:
    """Return a time that is not in the future, in seconds since 1970."""
    found = parse_rfc3339(text) if isinstance(text, str) else None
    return now if found is None else min(now, found)
