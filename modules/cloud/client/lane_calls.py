"""Calls of an API server, their lanes, and their outcomes."""

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

import msgspec

from modules.cloud.client.calls import ApiCall, ApiResult


class RequestLane(IntEnum):
    """Priority of a call: a lane is served before those below it.

    | lane | contents | reason |
    |---|---|---|
    | LEASE | leases of nodes | a node whose lease is late loses its pods |
    | NODE | nodes and their statuses | |
    | POD_STATUS | statuses and deletions of pods | |
    | QUERY | requests of nodes | the requester waits, and asks again |
    | EVENT | Kubernetes events | they are many, and report the past |
    """

    LEASE = 0
    NODE = 1
    POD_STATUS = 2
    QUERY = 3
    EVENT = 4


class LaneLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a lane."""

    in_flight: int
    """Calls of the lane in flight, at most."""
    with_lower: int
    """Most calls of the lane and of lower lanes in flight: the remaining places are for the upper
    lanes.
    """
    waiting: int
    """Calls that wait, at most; those in flight may come back for a retry in addition."""
    waiting_bytes: int
    """Bytes of the bodies that wait, at most; as above."""
    seconds: float
    """After which a call that is not in flight fails."""
    newest_only: bool = False
    """Whether a call replaces the one with its key that waits."""


DEFAULT_LIMITS: Final[Mapping[RequestLane, LaneLimits]] = MappingProxyType(
    {
        RequestLane.LEASE: LaneLimits(
            in_flight=64, with_lower=64, waiting=10_000, waiting_bytes=16 << 20, seconds=40.0, newest_only=True
        ),
        RequestLane.NODE: LaneLimits(
            in_flight=48, with_lower=56, waiting=10_000, waiting_bytes=64 << 20, seconds=120.0
        ),
        RequestLane.POD_STATUS: LaneLimits(
            in_flight=36, with_lower=48, waiting=20_000, waiting_bytes=128 << 20, seconds=120.0, newest_only=True
        ),
        RequestLane.QUERY: LaneLimits(in_flight=24, with_lower=24, waiting=2000, waiting_bytes=16 << 20, seconds=30.0),
        RequestLane.EVENT: LaneLimits(in_flight=8, with_lower=8, waiting=5000, waiting_bytes=16 << 20, seconds=300.0),
    }
)
"""64 calls in flight. An API server at rest takes some 5 ms for one, a busy or a distant one 0.1 s and more; a thousand
nodes renew a hundred leases a second, and report. Of an API server's seats for writes (200 by default, shared out by
its priority levels) these are a third. The one in the same process takes 30 ms for 64, in one transaction with one
commit. The lease of a node lives 40 s. Eight are kept for leases, and eight more for leases and nodes; pods leave
twelve to queries and events."""


class LaneDepth:
    """The calls of a lane that have no end yet. Written on the thread of the lanes, and read by any."""

    def __init__(self) -> None:
        self.waiting = 0
        self.in_flight = 0


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """An API call that is to be made when it is its turn."""

    number: int
    """Given by the caller; no two calls have the same."""
    lane: RequestLane
    call: ApiCall
    size: int = 0
    """Bytes of its body, for the bounds of the lane."""
    key: str = ""
    """Key of the object: calls of a lane with one key are sent in turn, in order. "" for a call on its own."""
    idempotent: bool = False
    """Whether it may be sent again when it is not known whether the server has carried it out."""


class SendCall(msgspec.Struct, frozen=True):
    """Make a call, and hand in its response, or the error, with the number."""

    number: int
    call: ApiCall


class CallAnswered(msgspec.Struct, frozen=True):
    """The server has answered: it has carried out the call, or refuses it (4xx)."""

    number: int
    result: ApiResult


class CallFailed(msgspec.Struct, frozen=True, gc=False):
    """There is no answer, also after retries, or not in time; the server may have carried out the call."""

    number: int
    why: str
    status: int = 0
    """The server's last, 5xx or 429, or 0."""


class CallSuperseded(msgspec.Struct, frozen=True, gc=False):
    """A newer call with the same key has taken the call's place."""

    number: int


class LaneFull(msgspec.Struct, frozen=True, gc=False):
    """The call was not taken, since its lane has no room."""

    number: int


class WakeLanesAt(msgspec.Struct, frozen=True, gc=False):
    """Call `on_wake` at this time, at the latest. It replaces the time of the effect before."""

    time: float


LaneEffect = SendCall | CallAnswered | CallFailed | CallSuperseded | LaneFull | WakeLanesAt
