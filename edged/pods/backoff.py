"""Back-off before a container that keeps ending is started again (client-go's flowcontrol.Backoff).

The first restart is immediate; the next one waits 10 s from the container's end, then 20, 40, … 300 s. A container that
ran for twice the longest delay since its last start starts over. Each pod, container and definition has its own record,
so a changed container does not inherit its predecessor's delay.
"""

from msgspec import Struct

from edged.pods.hash import container_hash
from edged.pods.model import PodUid
from modules.apimachinery.types import Container, Nanoseconds, seconds


class BackOffKey(Struct, frozen=True):
    """The subject of a record: a container's definition, or an image of a pod."""

    uid: PodUid
    name: str
    version: str


class BackOffPolicy(Struct, frozen=True):
    """First and longest delay, in nanoseconds."""

    first: Nanoseconds = seconds(10)
    longest: Nanoseconds = seconds(300)

    @classmethod
    def up_to(cls, longest: Nanoseconds) -> "BackOffPolicy":
        """Return kubelet's policy with another longest delay (crashLoopBackOff); the first delay does not exceed it."""
        return cls(min(seconds(10), longest), longest)

    @property
    def forgotten_after(self) -> Nanoseconds:
        """How long a container must have run since its start to start over: twice the longest delay."""
        return Nanoseconds(2 * self.longest)


class BackOffEntry(Struct, frozen=True):
    """The present delay, and the time when it was set (the last start)."""

    delay: Nanoseconds
    updated: Nanoseconds


CRASH_LOOP = BackOffPolicy()


def container_key(uid: PodUid, container: Container) -> BackOffKey:
    """Return the key of a container as defined now (the hash includes its image)."""
    return BackOffKey(uid, container.name, container_hash(container))


def image_key(uid: PodUid, image: str) -> BackOffKey:
    """Return the key of an image's failed pulls for one pod."""
    return BackOffKey(uid, "", image)


def ready_at(entry: BackOffEntry | None, event: Nanoseconds, policy: BackOffPolicy = CRASH_LOOP) -> Nanoseconds:
    """Return the earliest time of the next try after `event` (a container's end, a failed pull)."""
    if entry is None or _stale(entry, event, policy):
        return event
    return Nanoseconds(event + entry.delay)


def advance(
    entry: BackOffEntry | None, event: Nanoseconds, now: Nanoseconds, policy: BackOffPolicy = CRASH_LOOP
) -> BackOffEntry:
    """Return the record after a try at `now` that follows `event` (a container's end, a failed pull)."""
    if entry is None or _stale(entry, event, policy):
        return BackOffEntry(policy.first, now)
    return BackOffEntry(Nanoseconds(min(2 * entry.delay, policy.longest)), now)


def _stale(entry: BackOffEntry, event: Nanoseconds, policy: BackOffPolicy) -> bool:
    return event - entry.updated > policy.forgotten_after


class BackOffs:
    """The back-off records of a node. One actor owns and writes it; decisions only read it."""

    def __init__(self, policy: BackOffPolicy = CRASH_LOOP) -> None:
        self._policy = policy
        self._entries: dict[BackOffKey, BackOffEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def ready_at(self, key: BackOffKey, event: Nanoseconds) -> Nanoseconds:
        """Return the earliest time of the next try after `event`."""
        return ready_at(self._entries.get(key), event, self._policy)

    def delay(self, key: BackOffKey) -> Nanoseconds:
        """Return the present delay, 0 without a record."""
        entry = self._entries.get(key)
        return entry.delay if entry else Nanoseconds(0)

    def advance(self, key: BackOffKey, event: Nanoseconds, now: Nanoseconds) -> None:
        """Record a try at `now` that follows `event`."""
        self._entries[key] = advance(self._entries.get(key), event, now, self._policy)

    def reset(self, key: BackOffKey) -> None:
        """Forget one record, after a success."""
        self._entries.pop(key, None)

    def forget_pod(self, uid: PodUid) -> None:
        """Forget all records of a removed pod."""
        for key in list(self._entries):
            if key.uid == uid:
                self._entries.pop(key, None)
