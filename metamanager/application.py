"""KubeEdge's Application: a request of the Kubernetes API as it travels to the cloud, and its answer (spec/05 §9).

The keys are Go's field names, `[]byte` is base64. Used by both ends: the node's metaserver and metamanager, which asks
for the list of its pods (`metamanager.pod_list`), and the cloud stub.
"""

import hashlib
from enum import StrEnum
from typing import Any, Final

import msgspec

from beehive import Clock, Group, Message, ModuleName
from beehive.resource import NULL_NAMESPACE

_CORE: Final = "core"
_KEY_PARTS: Final = 6
_NULL: Final = "null"
"""Resource and operation of the message that carries a request."""


class Target(msgspec.Struct, frozen=True):
    """The object, or the collection, that a request is about."""

    group: str
    """Empty: the core."""
    version: str
    plural: str
    namespace: str = ""
    """Empty: of the cluster, or in all namespaces."""
    name: str = ""
    """Empty: the collection."""
    subresource: str = ""
    """With slashes when it has parts."""


class Verb(StrEnum):
    """What is asked."""

    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    DELETE = "delete"
    UPDATE = "update"
    UPDATE_STATUS = "updatestatus"
    PATCH = "patch"


class Progress(StrEnum):
    """How far it is."""

    IN_APPLYING = "InApplying"
    APPROVED = "Approved"
    REJECTED = "Rejected"
    FAILED = "Failed"


class StatusError(msgspec.Struct, frozen=True):
    """Go's StatusError."""

    status: dict[str, Any] = msgspec.field(default_factory=lambda: {"metadata": {}}, name="ErrStatus")


class Application(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """See the module's docstring."""

    id: str = msgspec.field(default="", name="ID")
    key: str
    """`/group/version/plural/namespace/name`, `core` for the core group, `null` for what is not there."""
    verb: str
    nodename: str = ""
    option: bytes | None = None
    """JSON: GetOptions, ListOptions, …, or `PatchInfo`."""
    req_body: bytes | None = None
    subresource: str = ""
    resp_body: bytes | None = None
    status: str = Progress.IN_APPLYING
    reason: str = ""
    error: StatusError = StatusError()
    timestamp: str = "0001-01-01T00:00:00Z"


class PatchInfo(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """Option of a patch."""

    name: str
    patch_type: str
    """A media type."""
    data: bytes
    options: dict[str, Any] = {}
    subresources: list[str] | None = None


def application(target: Target, verb: Verb, node: str, option: bytes, body: bytes | None = None) -> Application:
    """The request."""
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
    """The request as it is put to the hub, from and for whom KubeEdge's cloud expects it."""
    return Message.new(
        clock,
        source=ModuleName.METASERVER,
        group=Group.DYNAMICCONTROLLER,
        resource=_NULL,
        operation=_NULL,
        content=app,
    )


def key_of(target: Target) -> str:
    """An Application's key."""
    parts = (target.group or _CORE, target.version, target.plural, target.namespace, target.name)
    return "".join(f"/{part or NULL_NAMESPACE}" for part in parts)


def target_of(app: Application) -> Target | None:
    """What its key means; None for one of another form."""
    parts = app.key.split("/")
    if len(parts) != _KEY_PARTS or parts[0] or not all(parts[1:]):
        return None
    group, version, plural, namespace, name = ("" if part == NULL_NAMESPACE else part for part in parts[1:])
    return Target("" if group == _CORE else group, version, plural, namespace, name, app.subresource)
