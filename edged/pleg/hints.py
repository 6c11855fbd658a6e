"""What the PLEG is to know when it looks: what the runtime's events have said, and what workers saw themselves.

An event is only a hint that a pod should be looked at: the lists say what is. So it does not matter whether events come
twice, late or in another order, a hundred of one pod are one hint, and however many come, what is kept is one entry a
pod. The end of a container is looked at at once; what else happens is nearly always the doing of a worker, who looks
himself when he is done, and may wait for the next moment at which a relist would have been made.

A slow runtime keeps the PLEG for long, so none of it is a message: what is kept is bounded by the number of pods.

Thread-safe: the listener's and the module's threads add, the PLEG's takes.
"""

import threading
from typing import NamedTuple

from edged.pleg.messages import Observed
from edged.pods import labels
from edged.pods.model import PodRef, PodUid
from protos.cri.v1 import api_pb2 as cri

BREATH = 0.05
"""Seconds between two rounds of looks: a pod that ends is some events within milliseconds, and twenty rounds a second
are all that a storm of events can ask for."""


class Hint(NamedTuple):
    """Something happened to a pod."""

    ref: PodRef
    heard_at: float
    """When it was first heard since the last look, monotonic seconds."""
    urgent: bool


class Announced(NamedTuple):
    """What events have spoken of."""

    pods: frozenset[PodUid]
    anything: bool
    """Whether one did not say which pod it was about."""

    def names(self, uid: PodUid) -> bool:
        """Whether this pod may have been meant."""
        return self.anything or uid in self.pods


class Hints:
    """See the module's docstring. `patience`: seconds for which what is not urgent may wait."""

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._pods: dict[PodUid, Hint] = {}
        self._nameless: float | None = None
        """Since when there is something of which nobody knows what it is about."""
        self._observed: dict[PodUid, Observed] = {}
        self._announced: set[PodUid] = set()
        self._announced_anything = False

    def hear(self, event: cri.ContainerEventResponse, now: float) -> bool:
        """Take an event in; True when the PLEG has to be told that there is something to look at."""
        status = event.pod_sandbox_status
        if not event.HasField("pod_sandbox_status"):
            return self._hear_nameless(now)
        ref = labels.ref_from_labels(status.labels)
        if ref is None:
            return False
        urgent = event.container_event_type == cri.CONTAINER_STOPPED_EVENT
        with self._lock:
            self._announced.add(ref.uid)
            known = self._pods.get(ref.uid)
            if known is not None and (known.urgent or not urgent):
                return False
            self._pods[ref.uid] = Hint(ref, known.heard_at if known else now, urgent)
        return True

    def observe(self, observed: Observed) -> None:
        """A worker has looked at a pod and is done with it. So is what was heard of it, unless something has ended
        since: whatever else was heard is what the worker himself did before he looked, told a moment later.
        """
        uid = observed.facts.ref.uid
        with self._lock:
            self._observed[uid] = observed
            known = self._pods.get(uid)
            if known is not None and (not known.urgent or known.heard_at <= observed.at):
                del self._pods[uid]

    def observations(self) -> list[Observed]:
        """What workers saw since this was last asked for; of each pod the newest."""
        with self._lock:
            observed = list(self._observed.values())
            self._observed.clear()
        return observed

    def due(self, last_round: float) -> float | None:
        """When what was heard has to be looked at; None when there is nothing.

        Args:
            last_round: when was last looked because of hints.
        """
        with self._lock:
            moments = [hint.heard_at + (0.0 if hint.urgent else self._patience) for hint in self._pods.values()]
            if self._nameless is not None:
                moments.append(self._nameless + self._patience)
        return max(min(moments), last_round + BREATH) if moments else None

    def take(self) -> tuple[list[PodRef], bool]:
        """All that was heard, in the order in which it was, and whether everything has to be looked at."""
        with self._lock:
            refs, everything = [hint.ref for hint in self._pods.values()], self._nameless is not None
            self._pods.clear()
            self._nameless = None
        return refs, everything

    def announced(self) -> Announced:
        """The pods that events have spoken of since this was last asked for."""
        with self._lock:
            announced = Announced(frozenset(self._announced), self._announced_anything)
            self._announced.clear()
            self._announced_anything = False
        return announced

    def _hear_nameless(self, now: float) -> bool:
        """containerd does not say of a sandbox that is gone whose it was."""
        with self._lock:
            self._announced_anything = True
            if self._nameless is not None:
                return False
            self._nameless = now
        return True
