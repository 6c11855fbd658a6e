"""The effects of a reflector: requests to start and end, and changes of objects."""

import msgspec

from modules.cloud.client.reflector.observations import ObservedObject
from modules.cloud.client.reflector.selection import ListRequest, WatchRequest


class Added(msgspec.Struct, frozen=True, gc=False):
    """An object that was not known exists."""

    object: ObservedObject
    is_listed: bool = False
    """Whether a list has it that is not complete: others of lower versions may not have been told yet."""


class Modified(msgspec.Struct, frozen=True, gc=False):
    """A known object, with the same uid, has another version."""

    object: ObservedObject
    is_listed: bool = False
    """As of `Added`."""


class Deleted(msgspec.Struct, frozen=True, gc=False):
    """A known object was deleted, or has left the selection.

    Its body is the last one if a watch told of it. If a list no longer has it, it has the uid that was known last, the
    version of the list, and no body.
    """

    object: ObservedObject


class Synced(msgspec.Struct, frozen=True, gc=False):
    """A list is complete: the changes up to here make up the state at this version. One comes after each list."""

    resource_version: str


class EpochChanged(msgspec.Struct, frozen=True, gc=False):
    """The server's versions went back, as after a restore of etcd: a version may be given a second time.

    The changes that follow lead to the restored state, as always. As an object's version may be a known one and its
    content another, all objects that were known and still exist are reported as modified.
    """

    previous: str
    current: str


class StartRequest(msgspec.Struct, frozen=True):
    """Send a request, and hand its observations to the reflector with this number."""

    number: int
    request: ListRequest | WatchRequest


class CancelRequest(msgspec.Struct, frozen=True, gc=False):
    """End a request that was started; its response no longer matters."""

    number: int


class WakeReflectorAt(msgspec.Struct, frozen=True, gc=False):
    """Call `on_wake` at this time. It replaces the time of the effect before."""

    time: float


class Retrying(msgspec.Struct, frozen=True, gc=False):
    """A request failed, and is repeated at a time. For logs and metrics."""

    why: str
    time: float


class Refused(msgspec.Struct, frozen=True, gc=False):
    """The server refuses the kind: a right or a custom resource definition is missing. It is asked again, slowly."""

    status: int
    message: str
    """The server's message, safe to print."""


Change = Added | Modified | Deleted
ReflectorEffect = Change | Synced | EpochChanged | StartRequest | CancelRequest | WakeReflectorAt | Retrying | Refused
