"""The decoded messages of an API server to a reflector: pages of lists, events of watches, refusals."""

import msgspec

from beehive.decoding import decode_json
from modules.apimachinery.kinds import JsonObject


class ObservedObject(msgspec.Struct, frozen=True, gc=False):
    """An object as the server sent it."""

    namespace: str
    """"" for objects without a namespace."""
    name: str
    uid: str
    resource_version: str
    """Opaque: versions are compared by equality."""
    body: bytes = b""
    """Its JSON with all fields, also unknown ones; of an object of the same process without `managedFields`. Empty for
    an object that was found to be gone, and for one of the same process whose JSON is not at hand.
    """
    shared: JsonObject | None = None
    """The object itself, if the server is in the same process. It must not be changed."""
    status_of: str = ""
    """The version of the state from which it is known to differ in nothing but the status; "" for none."""

    def read(self) -> JsonObject:
        """Return the object, which must not be changed.

        Raises:
            msgspec.DecodeError, UnicodeError: its JSON is no object.
        """
        return decode_json(self.body, JsonObject) if self.shared is None else self.shared


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list."""

    resource_version: str
    """The resourceVersion of the whole list."""
    token: str
    """The continue token of the next page; "" for the last page."""
    objects: list[ObservedObject]
    dropped: int = 0
    """Entries that are no objects with a name."""


class ObservedEvent(msgspec.Struct, frozen=True, gc=False):
    """An event of a watch about an object."""

    type: str
    """ADDED, MODIFIED or DELETED; others may come."""
    object: ObservedObject | None
    """None for one without a name."""


class Bookmark(msgspec.Struct, frozen=True, gc=False):
    """The version that a watch has reached."""

    resource_version: str
    """"" if it names none."""


class WatchError(msgspec.Struct, frozen=True, gc=False):
    """The last event of a watch."""

    code: int
    message: str


class ReadRefusal(msgspec.Struct, frozen=True, gc=False):
    """The server does not answer with a list, and does not begin the watch."""

    status: int
    message: str
    """The server's message, safe to print."""
    retry_after: float = 0.0
    """Seconds after which the server wants to be asked again; 0 if it names none."""


class WatchEnded(msgspec.Struct, frozen=True, gc=False):
    """The server has ended a watch between two events, as it does after a while."""


class ReadFailed(msgspec.Struct, frozen=True, gc=False):
    """The response did not come, or is not complete."""

    why: str
    is_malformed: bool = False
    """Whether the server has sent something else than the Kubernetes API has."""


Observation = ListPage | ObservedEvent | Bookmark | WatchError | ReadRefusal | WatchEnded | ReadFailed
