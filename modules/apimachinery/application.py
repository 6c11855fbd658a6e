"""KubeEdge's Application: a request of the Kubernetes API and its answer (docs/protocol.md, "Applications").

The keys are Go's field names, `[]byte` is base64. Both ends use it: metaserver and metamanager (`metamanager.pod_list`)
on the node, and dynamiccontroller.
"""

import hashlib
from enum import StrEnum
from typing import Any, Final

import msgspec

from beehive import Clock, Group, Message, ModuleName
from beehive.resource import NULL_NAMESPACE
from beehive.whole_numbers import whole_number
from modules.apimachinery.types import TimeError, parse_time

FOLLOW: Final = "follow"
"""Operation of the message, to the module metaserver, with a `Target` that the cloud is to watch for this node."""
FOLLOWED: Final = "followed"
"""Operation of the broadcast to the group mesh with a `Target` that the cloud has begun to watch."""
FOLLOW_RESOURCE: Final = "metaserver/watches"
"""Resource of both messages, which never leave the node."""

NAMES_ONLY: Final = "namesOnly"
"""Option of a list whose answer has only the namespaces and names of its objects. KubeEdge's cloud ignores it."""

_CORE: Final = "core"
_KEY_PARTS: Final = 6
_LEAST_PARTS: Final = 4
_NULL: Final = "null"
"""Resource and operation of the message that carries a request."""


class Target(msgspec.Struct, frozen=True):
    """The object or collection of a request."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    namespace: str = ""
    """Empty for cluster-scoped objects and for all namespaces."""
    name: str = ""
    """Empty for the collection."""
    subresource: str = ""
    """With slashes between its parts."""


class Verb(StrEnum):
    """Verb of a request."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    DELETE = "delete"
    UPDATE = "update"
    UPDATE_STATUS = "updatestatus"
    PATCH = "patch"


class Progress(StrEnum):
    """`Status` of an Application."""

    IN_APPLYING = "InApplying"
    APPROVED = "Approved"
    REJECTED = "Rejected"
    FAILED = "Failed"


class StatusError(msgspec.Struct, frozen=True):
    """Go's StatusError."""

    status: dict[str, Any] = msgspec.field(default_factory=lambda: {"metadata": {}}, name="ErrStatus")


class Application(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """A request of the Kubernetes API, and its answer, as dynamiccontroller and metaserver exchange them."""

    id: str = msgspec.field(default="", name="ID")
    key: str
    """`/group/version/plural/namespace/name`, with `core` for the core group and `null` for absent parts."""
    verb: str
    nodename: str = ""
    option: bytes | None = None
    """JSON of GetOptions, ListOptions, …, or `PatchInfo`."""
    req_body: bytes | None = None
    subresource: str = ""
    resp_body: bytes | None = None
    status: str = Progress.IN_APPLYING
    reason: str = ""
    error: StatusError | None = StatusError()
    timestamp: str = "0001-01-01T00:00:00Z"

    @property
    def refusal(self) -> dict[str, Any]:
        """The metav1.Status of an error; None without a code and a reason."""
        return {} if self.error is None else self.error.status


class KnownSince(msgspec.Struct, rename="camel"):
    """The beginning of a database that may have replaced a lost one: of objects since, all are known."""

    creation_timestamp: str = ""
    resource_version: str = ""

    def is_before(self, creation_timestamp: Any, version: str | None) -> bool:
        """Return whether an object was made since. Both its time and its version must say so: the clock of a lost cloud
        may have been ahead, and its versions may have been higher.
        """
        try:
            made, began = parse_time(str(creation_timestamp)), parse_time(self.creation_timestamp)
        except TimeError:
            return False
        return made > began and (whole_number(version or "") or 0) > (whole_number(self.resource_version) or 0)


class ListMetadata(msgspec.Struct, rename="camel"):
    """The metadata of a list."""

    continued: str = msgspec.field(default="", name="continue")
    """Token of the next part, or ""."""
    remaining_item_count: int | None = None
    known_since: KnownSince | None = None
    """Of this project's cloud while it may lack objects: none is missing that is younger."""

    @property
    def is_end(self) -> bool:
        """Whether no object is missing. This project's cloud has a `remainingItemCount` while it may lack objects."""
        return not self.continued and not self.remaining_item_count


def incomplete(known: KnownSince | None) -> dict[str, Any]:
    """Return the metadata of a list of a cloud that may lack objects: nodes delete none, but what is younger than a
    database that is known.
    """
    return {"remainingItemCount": 1} | ({} if known is None else {"knownSince": msgspec.to_builtins(known)})


class PatchInfo(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """`Option` of a patch."""

    name: str
    patch_type: str
    """A media type."""
    data: bytes
    options: dict[str, Any] = {}
    subresources: list[str] | None = None


def application(target: Target, verb: Verb, node: str, option: bytes, body: bytes | None = None) -> Application:
    """Return the Application of a request."""
    key = key_of(target)
    identity = b"".join((node.encode(), key.encode(), verb.encode(), option, body or b"", target.subresource.encode()))
    return Application(
        id=hashlib.sha256(identity).hexdigest(),
        key=key,
        verb=verb,
        nodename=node,
        option=option,
        req_body=body,
        subresource=target.subresource,
    )


def message_of(app: Application, clock: Clock) -> Message:
    """Return the message of an Application, with the source and group that KubeEdge's cloud expects."""
    return Message.new(
        clock,
        source=ModuleName.METASERVER,
        group=Group.DYNAMICCONTROLLER,
        resource=_NULL,
        operation=_NULL,
        content=app,
    )


def key_of(target: Target) -> str:
    """Return the key of an Application."""
    parts = (target.group or _CORE, target.version, target.plural, target.namespace, target.name)
    return "".join(f"/{part or NULL_NAMESPACE}" for part in parts)


def target_of(app: Application) -> Target | None:
    """Parse an Application's key; None for another form. Keys of earlier KubeEdges lack the last parts."""
    parts = app.key.split("/")
    if not _LEAST_PARTS <= len(parts) <= _KEY_PARTS or parts[0] or not all(parts[1:]):
        return None
    whole = (*parts[1:], *("",) * (_KEY_PARTS - len(parts)))
    group, version, plural, namespace, name = ("" if part == NULL_NAMESPACE else part for part in whole)
    return Target("" if group == _CORE else group, version, plural, namespace, name, app.subresource)
