"""What the runtime had at a moment of the recorded run, as far as the lists and the events of that run say.

A replay may list at another time than the recorded run did, and since the runtime tells of changes itself the recorded
lists of everything are far apart. Those of single pods are not: they were made whenever something had happened to one.
So the state of a moment is the last list of everything, with what later lists said of single pods and later events of
single containers.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from beehive.trace import CriCall, CriEvent
from edged.cri.recording_events import KINDS
from edged.pods.labels import POD_UID
from protos.cri.v1 import api_pb2 as pb

LISTS: Final = {"list_pod_sandboxes": "sandbox_filter", "list_containers": "container_filter"}
"""The lists, and the names of their filters."""

_STATES: Final = {
    "list_pod_sandboxes": {KINDS[pb.CONTAINER_STOPPED_EVENT]: "SANDBOX_NOTREADY"},
    "list_containers": {
        KINDS[pb.CONTAINER_STARTED_EVENT]: "CONTAINER_RUNNING",
        KINDS[pb.CONTAINER_STOPPED_EVENT]: "CONTAINER_EXITED",
    },
}
"""What a list says of something of which an event has told."""

_KINDS: Final = frozenset(KINDS.values())
_GONE: Final = KINDS[pb.CONTAINER_DELETED_EVENT]

Items = dict[str, dict[str, Any]]
"""Sandboxes or containers by their ids."""


class _Listed(NamedTuple):
    """A list of everything, or of one pod."""

    time: float
    pod: str
    """Uid; empty: everything."""
    items: list[dict[str, Any]]

    def applied(self, state: Items) -> Items:
        """The state after it was seen."""
        kept = {} if not self.pod else {key: one for key, one in state.items() if _pod_of(one) != self.pod}
        return kept | {item["id"]: item for item in self.items}


class _Told(NamedTuple):
    """An event."""

    time: float
    subject: str
    """Id of the sandbox or container."""
    state: str
    """What a list says from then on; empty when it is gone."""

    def applied(self, state: Items) -> Items:
        """The state after it was told."""
        if self.subject not in state:
            return state
        kept = {key: one for key, one in state.items() if key != self.subject or self.state}
        return kept | ({self.subject: {**state[self.subject], "state": self.state}} if self.state else {})


class RecordedLists:
    """See the module's docstring.

    Args:
        calls: of the recorded run.
        events: of it.
    """

    def __init__(self, calls: Iterable[CriCall], events: Iterable[CriEvent]) -> None:
        self.pods: dict[str, str] = {}
        """Uids of pods by the ids of their sandboxes and containers."""
        self._told: dict[str, list[float]] = {}
        known: dict[str, list[_Listed | _Told]] = {method: [] for method in LISTS}
        for call in calls:
            pod = _pod_in(call.method, call.request)
            if pod is not None and call.answer:
                items = msgspec.json.decode(call.answer)
                known[call.method].append(_Listed(call.time, pod, items))
                self.pods.update((item["id"], _pod_of(item)) for item in items)
        for event in events:
            if event.kind in _KINDS:
                self._told.setdefault(event.subject, []).append(event.time)
            for method, states in _STATES.items():
                if event.kind in states or event.kind == _GONE:
                    subject = msgspec.json.decode(event.detail).get("container_id", "")
                    self._told.setdefault(subject, []).append(event.time)
                    known[method].append(_Told(event.time, subject, states.get(event.kind, "")))
        self._known = {method: sorted(each, key=lambda one: one.time) for method, each in known.items()}

    def told(self, subject: str, now: float) -> float:
        """When an event last spoke of a sandbox, a container or a pod; 0 for never."""
        return max((time for time in self._told.get(subject, ()) if time <= now), default=0.0)

    def next_told(self, subject: str, now: float) -> float:
        """When one speaks of it next; infinite for never."""
        return min((time for time in self._told.get(subject, ()) if time > now), default=float("inf"))

    def at(self, method: str, request: bytes, now: float, since: float = 0.0) -> bytes | None:
        """The answer to a list call; None when it is no such call, or has another filter than a pod, or when nobody has
        looked between `since` and `now`.
        """
        pod = _pod_in(method, request)
        if pod is None:
            return None
        state: Items = {}
        last = float("-inf")
        for one in self._known[method]:
            if one.time > now:
                break
            state = one.applied(state)
            if isinstance(one, _Listed) and one.pod in ("", pod):
                last = one.time
        if last < since:
            return None
        return msgspec.json.encode([item for item in state.values() if not pod or _pod_of(item) == pod])


def _pod_in(method: str, request: bytes) -> str | None:
    """The pod that a list is limited to, empty for none; None when it is no list, or one with another filter."""
    if method not in LISTS:
        return None
    wanted = msgspec.json.decode(request).get(LISTS[method]) or {}
    pod = (wanted.get("label_selector") or {}).get(POD_UID, "")
    return str(pod) if pod or not wanted else None


def _pod_of(item: dict[str, Any]) -> str:
    return str((item.get("labels") or {}).get(POD_UID, ""))
