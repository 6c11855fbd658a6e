"""State of the runtime at a moment of the recorded run, from the run's lists and events.

A replay may list at other times than the recorded run. Since the runtime sends events, recorded lists of everything are
far apart; lists of single pods are not, because they follow each event about a pod. So the state of a moment is the
last list of everything, changed by later lists of single pods and later events of single containers.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from beehive.decoding import decode_json
from beehive.trace import CriCall, CriEvent
from edged.cri.recording_events import KINDS
from edged.pods.labels import POD_UID
from protos.cri.v1 import api_pb2 as pb

LISTS: Final = {"list_pod_sandboxes": "sandbox_filter", "list_containers": "container_filter"}
"""The list calls, with the names of their filters."""

_STATES: Final = {
    "list_pod_sandboxes": {KINDS[pb.CONTAINER_STOPPED_EVENT]: "SANDBOX_NOTREADY"},
    "list_containers": {
        KINDS[pb.CONTAINER_STARTED_EVENT]: "CONTAINER_RUNNING",
        KINDS[pb.CONTAINER_STOPPED_EVENT]: "CONTAINER_EXITED",
    },
}
"""State in a list after an event."""

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
        """Return the state after this list."""
        kept = {} if not self.pod else {key: one for key, one in state.items() if _pod_of(one) != self.pod}
        return kept | {item["id"]: item for item in self.items}


class _Event(NamedTuple):
    """An event."""

    time: float
    subject: str
    """Id of the sandbox or container."""
    state: str
    """State in lists from then on; empty if the subject is gone."""

    def applied(self, state: Items) -> Items:
        """Return the state after this event."""
        if self.subject not in state:
            return state
        kept = {key: one for key, one in state.items() if key != self.subject or self.state}
        return kept | ({self.subject: {**state[self.subject], "state": self.state}} if self.state else {})


class RecordedLists:
    """State of sandboxes and containers at any time of the recorded run.

    Args:
        calls: calls of the recorded run.
        events: events of the recorded run.
    """

    def __init__(self, calls: Iterable[CriCall], events: Iterable[CriEvent]) -> None:
        self.pods: dict[str, str] = {}
        """Uids of pods by the ids of their sandboxes and containers."""
        self._changes: dict[str, list[float]] = {}
        known: dict[str, list[_Listed | _Event]] = {method: [] for method in LISTS}
        for call in calls:
            pod = _pod_in(call.method, call.request)
            if pod is not None and call.answer:
                items = decode_json(call.answer)
                known[call.method].append(_Listed(call.time, pod, items))
                self.pods.update((item["id"], _pod_of(item)) for item in items)
        for event in events:
            if event.kind in _KINDS:
                self._changes.setdefault(event.subject, []).append(event.time)
            for method, states in _STATES.items():
                if event.kind in states or event.kind == _GONE:
                    subject = decode_json(event.detail).get("container_id", "")
                    self._changes.setdefault(subject, []).append(event.time)
                    known[method].append(_Event(event.time, subject, states.get(event.kind, "")))
        self._known = {method: sorted(each, key=lambda one: one.time) for method, each in known.items()}

    def changed_at(self, subject: str, now: float) -> float:
        """Return when the last event about a sandbox, container or pod occurred; 0 for never."""
        return max((time for time in self._changes.get(subject, ()) if time <= now), default=0.0)

    def next_change_at(self, subject: str, now: float) -> float:
        """Return when the next event about it occurs; infinite for never."""
        return min((time for time in self._changes.get(subject, ()) if time > now), default=float("inf"))

    def at(self, method: str, request: bytes, now: float, since: float = 0.0) -> bytes | None:
        """Return the answer to a list call. None if the call is no list, if it has another filter than a pod, or if no
        list was recorded between `since` and `now`.
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
    """Return the pod that a list is limited to, empty for all pods. None for other calls and other filters."""
    if method not in LISTS:
        return None
    wanted = decode_json(request).get(LISTS[method]) or {}
    pod = (wanted.get("label_selector") or {}).get(POD_UID, "")
    return str(pod) if pod or not wanted else None


def _pod_of(item: dict[str, Any]) -> str:
    return str((item.get("labels") or {}).get(POD_UID, ""))
