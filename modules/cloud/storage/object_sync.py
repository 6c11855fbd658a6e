"""KubeEdge's resource ObjectSync: an object that a node has, or is to have, and its node."""

from typing import Final, NamedTuple

import msgspec

from modules.apimachinery.kinds import ObjectKey

_DELETED: Final = 1 << 62
"""Added to the version of a deletion, to tell its number from the others."""


class ObjectSync(msgspec.Struct, frozen=True, gc=False):
    """One object on one node. Stored by node and by the object's uid."""

    key: ObjectKey
    version: int = 0
    """The newest resourceVersion that the node has acknowledged; 0: none yet."""
    sent: int = 0
    """Where none is acknowledged, a version that the object or its deletion was sent in; 0: unknown, or only the
    deletion of an object that nobody had was sent.
    """
    deleted: int = 0
    """The version of the deletion that the node has acknowledged: the node no longer has the object. Of each kind the
    newest is kept, so that a cloudcore whose watch is behind it sends no deleted object again.
    """

    @classmethod
    def from_number(cls, key: ObjectKey, number: int) -> "ObjectSync":
        """Return the ObjectSync that is stored as a number."""
        if number <= -_DELETED:
            return cls(key, deleted=-number - _DELETED)
        return cls(key, number) if number >= 0 else cls(key, sent=-number)

    @property
    def number(self) -> int:
        """The versions as one number, as it is stored: negative where none is acknowledged."""
        return -_DELETED - self.deleted if self.deleted else self.version or -self.sent

    @property
    def existed_at(self) -> int:
        """A version in which the object existed, or of its deletion; 0: unknown."""
        return self.version or self.sent


class NodeState(msgspec.Struct, frozen=True):
    """The Node object and the epoch of a node's ObjectSyncs."""

    uid: str = ""
    """Uid of the Node object; "" before it exists, and in a database of an earlier cloudcore."""
    epoch: int = 0
    """The epoch of the acknowledged versions."""


class Holder(NamedTuple):
    """The cloudcore of a node's last connection."""

    cloudcore: str = ""
    connected_at: float = 0
    """Seconds since 1970 by that cloudcore's clock; 0 if it is not known, whole ones from a cloudcore of an earlier
    version.
    """

    def is_newer_than(self, other: "Holder", now: float) -> bool:
        """Return whether this is another cloudcore's connection, and newer.

        Args:
            other: the other connection.
            now: seconds since 1970 by this cloudcore's clock.
        """
        is_known = self.cloudcore and self.connected_at and other.connected_at
        is_other = bool(is_known) and self.cloudcore != other.cloudcore
        return is_other and is_earlier(other.connected_at, self.connected_at) and self.connected_at <= now + MOST_AHEAD


class ClaimedConnection(NamedTuple):
    """A connection for which this cloudcore has claimed a node."""

    id: str
    began_at: float
    """Seconds since 1970; 0 if it is not known."""


def is_earlier(one: float, other: float) -> bool:
    """Return whether a connection began before another, by their times in seconds since 1970. Of two in one second it
    is not known if one of the times is whole, as from a cloudcore of an earlier version.
    """
    are_fine = one % 1 and other % 1
    return one < other if are_fine else int(one) < int(other)


def milliseconds(at: float) -> int:
    """Return a time in whole milliseconds, as claims have it beside the whole seconds of earlier versions. Each
    cloudcore compares the times that all know: with more digits of its own connection, two would both be the newer one.
    """
    return int(at * 1000)


def moment(seconds: int, in_milliseconds: int) -> float:
    """Return the time of a stored claim, in seconds since 1970. A cloudcore of an earlier version writes the seconds
    only, and leaves the milliseconds of an earlier claim.
    """
    return in_milliseconds / 1000 if in_milliseconds // 1000 == seconds else seconds


MOST_AHEAD: Final = 60
"""Seconds by which the clocks of cloudcores can differ: a connection that seems to begin later than that belongs to a
cloudcore with a wrong clock.
"""


class Epoch(msgspec.Struct, frozen=True):
    """A span of the API server's versions, none of them given twice. A restore of etcd begins the next one."""

    number: int = 0
    newest: int = 0
    """The newest resourceVersion that was seen in it."""
