"""How long a container that keeps ending has to wait before it is started again.

The rule is a kubelet's (client-go's flowcontrol.Backoff with 10 s and 300 s): the first restart is immediate,
the next waits 10 s from the container's end, then 20, 40, … 300 s. A container that ran for twice the longest
delay since its last start is considered well and begins anew. The record is kept per pod, container and
definition: a changed container is not punished for its predecessor.
"""

from msgspec import Struct

from edged.api import Container, Nanoseconds, seconds
from edged.pods.hash import container_hash
from edged.pods.model import PodUid


class BackOffKey(Struct, frozen=True):
    """What a record is about: a container's definition, or an image of a pod."""

    uid: PodUid
    name: str
    version: str


class BackOffPolicy(Struct, frozen=True):
    """First and longest delay, in nanoseconds."""

    first: Nanoseconds = seconds(10)
    longest: Nanoseconds = seconds(300)

    @classmethod
    def up_to(cls, longest: Nanoseconds) -> "BackOffPolicy":
        """A kubelet's, with another longest delay; the first is not longer than that (crashLoopBackOff)."""
        return cls(min(seconds(10), longest), longest)

    @property
    def forgotten_after(self) -> Nanoseconds:
        """How long a container must have lived since its start to begin anew: twice the longest delay."""
        return Nanoseconds(2 * self.longest)


class BackOffEntry(Struct, frozen=True):
    """The present delay, and when it was set (the last start)."""

    delay: Nanoseconds
    updated: Nanoseconds


CRASH_LOOP = BackOffPolicy()


def container_key(uid: PodUid, container: Container) -> BackOffKey:
    """The record of one container as it is defined now (its image is part of the hash)."""
    return BackOffKey(uid, container.name, container_hash(container))


def image_key(uid: PodUid, image: str) -> BackOffKey:
    """The record of failed pulls of one image for one pod."""
    return BackOffKey(uid, "", image)


def ready_at(entry: BackOffEntry | None, event: Nanoseconds, policy: BackOffPolicy = CRASH_LOOP) -> Nanoseconds:
    """The earliest point in time for the next try after what happened at `event` (a container's end, a failed
    pull).
    """
    if entry is None or _stale(entry, event, policy):
        return event
    return Nanoseconds(event + entry.delay)


def advance(
    entry: BackOffEntry | None, event: Nanoseconds, now: Nanoseconds, policy: BackOffPolicy = CRASH_LOOP
) -> BackOffEntry:
    """The record after a try at `now` that follows what happened at `event`."""
    if entry is None or _stale(entry, event, policy):
        return BackOffEntry(policy.first, now)
    return BackOffEntry(Nanoseconds(min(2 * entry.delay, policy.longest)), now)


def _stale(entry: BackOffEntry, event: Nanoseconds, policy: BackOffPolicy) -> bool:
    return event - entry.updated > policy.forgotten_after


class BackOffs:
    """The records of a node. It belongs to one actor; decisions only read it."""

    def __init__(self, policy: BackOffPolicy = CRASH_LOOP) -> None:
        self._policy = policy
        self._entries: dict[BackOffKey, BackOffEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def ready_at(self, key: BackOffKey, event: Nanoseconds) -> Nanoseconds:
        """The earliest point in time for the next try after `event`."""
        return ready_at(self._entries.get(key), event, self._policy)

    def delay(self, key: BackOffKey) -> Nanoseconds:
        """The present delay, 0 without a record."""
        entry = self._entries.get(key)
        return entry.delay if entry else Nanoseconds(0)

    def advance(self, key: BackOffKey, event: Nanoseconds, now: Nanoseconds) -> None:
        """Record a try at `now` that follows what happened at `event`."""
        self._entries[key] = advance(self._entries.get(key), event, now, self._policy)

    def reset(self, key: BackOffKey) -> None:
        """Forget one record: what it is about works again."""
        self._entries.pop(key, None)

    def forget_pod(self, uid: PodUid) -> None:
        """Forget all records of a pod that is gone."""
        for key in list(self._entries):
            if key.uid == uid:
                self._entries.pop(key, None)
