"""The store's rows, and how to make them from messages. Pure."""

import re
from typing import Final

import msgspec

from beehive import Form, Message, Resource, ResourceType
from beehive.decoding import decode_json
from beehive.patterns import pattern
from beehive.resource import NULL_NAMESPACE
from beehive.whole_numbers import whole_number
from modules.apimachinery.pods.static import CONFIG_MIRROR

SENT_IN_PART: Final = (ResourceType.ENDPOINTS, ResourceType.ENDPOINTSLICE)
"""Types of objects that a node gets in part; the part may change without the object."""


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The part of an object's metadata that metamanager reads."""

    uid: str | None = None
    resource_version: str | None = None
    namespace: str | None = None
    name: str | None = None


class ObjectHead(msgspec.Struct, frozen=True):
    """An object decoded only as far as its metadata."""

    metadata: Metadata | None = None


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class PodHead(msgspec.Struct, frozen=True):
    """A pod decoded only as far as its metadata and its node."""

    metadata: Metadata
    spec: _PodSpec = _PodSpec()


class Cause(msgspec.Struct, frozen=True, gc=False):
    """Why an object changes, for its history."""

    text: str = ""
    """For example `edgecontroller update`; changes without a text are not noted."""
    message: str = ""
    """Id of the message that caused the change."""


UNNOTED: Final = Cause()


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row of table `meta`.

    `key`, `type` and `value` are KubeEdge's columns (docs/protocol.md, "Store rows"): the resource string as received,
    its type token, the content as text. The other columns copy the object's metadata, so that an old message is
    recognized without decoding the stored value.
    """

    key: str
    type: str
    value: str
    uid: str = ""
    resource_version: int = 0
    """0 for an object without one, which always counts as new."""
    namespace: str = ""
    name: str = ""
    updated: int = 0
    """When the row was written, in milliseconds since the epoch."""
    cause: Cause = UNNOTED

    def supersedes(self, uid: str | None, resource_version: int | None) -> bool:
        """Return whether this row replaces a stored one of that uid and version: not if it is an older state of the
        same object, or the same state (`equals`).

        Messages overtake each other when the cloud repeats one; Kubernetes' resourceVersion shows which is newer. Of
        endpoints the cloud sends the node's part, which may be another one in the same version.
        """
        stored = resource_version or 0
        if uid != self.uid or stored < self.resource_version:
            return True
        is_one_state = self.resource_version and self.uid and self.type not in SENT_IN_PART
        return stored == self.resource_version and not is_one_state

    def equals(self, uid: str | None, resource_version: int | None) -> bool:
        """Return whether a stored row of that uid and version has the same state, so that it need not be written again.

        Always False without a uid or a version.
        """
        return (
            uid == self.uid and resource_version == self.resource_version and not self.supersedes(uid, resource_version)
        )


def head_of(content: bytes) -> Metadata:
    """Return the metadata of a content; empty if the content is no Kubernetes object."""
    try:
        return decode_json(content, ObjectHead).metadata or Metadata()
    except (msgspec.DecodeError, UnicodeError):
        return Metadata()


class _DeletionMetadata(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata with the time of an object's deletion."""

    deletion_timestamp: str | None = None


class _DeletionHead(msgspec.Struct, frozen=True):
    metadata: _DeletionMetadata | None = None


def is_being_deleted(content: bytes) -> bool:
    """Return whether an object has a deletionTimestamp."""
    if b'"deletionTimestamp"' not in content:
        return False
    try:
        metadata = decode_json(content, _DeletionHead).metadata
    except (msgspec.DecodeError, UnicodeError):
        return False
    return metadata is not None and bool(metadata.deletion_timestamp)


class _ToRun(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata that decide whether a stored pod is run."""

    uid: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class _ToRunHead(msgspec.Struct, frozen=True):
    metadata: _ToRun | None = None


class _Options(msgspec.Struct, frozen=True):
    """metav1.DeleteOptions, as far as they name an object."""

    preconditions: Metadata | None = None


def is_pod_to_run(stored: str, options: bytes) -> bool:
    """Return whether a stored pod is the one that a deletion names, is not marked as deleted, and is no mirror pod."""
    try:
        pod = decode_json(stored, _ToRunHead).metadata
        named = decode_json(options, _Options).preconditions
    except (msgspec.DecodeError, UnicodeError):
        return False
    if pod is None or named is None or not pod.uid or pod.uid != named.uid:
        return False
    return not pod.deletion_timestamp and CONFIG_MIRROR not in (pod.annotations or {})


class _EventTime(msgspec.Struct, frozen=True, rename="camel"):
    """An event, with the time of its last occurrence."""

    metadata: Metadata | None = None
    last_timestamp: str | None = None


_NUMBER_OF_EVENT: Final = pattern(r".*\.([0-9a-f]{1,16})", re.DOTALL)
"""The end of an event's name: client-go takes the time in nanoseconds."""


def order_of_event(value: str) -> tuple[str, int]:
    """Return the sort key of stored events: the lastTimestamp, which has whole seconds, and the number in the name,
    which edged increases with each event; empty and 0 without them.
    """
    try:
        event = decode_json(value, _EventTime)
    except (msgspec.DecodeError, UnicodeError):
        return "", 0
    number = _NUMBER_OF_EVENT.fullmatch((event.metadata or Metadata()).name or "")
    return event.last_timestamp or "", int(number[1], 16) if number else 0


def row_of(key: str, content: bytes, now_ms: int, cause: Cause = UNNOTED, resource: Resource | None = None) -> Row:
    """Return the row for a content received under a resource string, which is read unless that was done. KubeEdge
    stores one outside the grammar under the whole string.

    Raises:
        UnicodeDecodeError: the content is not UTF-8, so KubeEdge's tools could not read it.
    """
    head, parsed = head_of(content), resource or Resource.read(key)
    return Row(
        key=key,
        type=parsed.type if parsed.form is Form.OBJECT else "",
        value=content.decode(),
        uid=head.uid or "",
        resource_version=version_number(head.resource_version),
        namespace=parsed.namespace,
        name=parsed.name,
        updated=now_ms,
        cause=cause,
    )


def row_of_message(message: Message, content: bytes, now_ms: int) -> Row:
    """Return the row for a message, whose content as bytes is given.

    Raises:
        UnicodeDecodeError: the content is not UTF-8.
    """
    return row_of(message.route.resource, content, now_ms, cause_of(message), message.subject)


Columns = tuple[str, str | None, str | None, str | None, int | None, str | None, str | None, int | None]
"""The columns of the table `meta`; KubeEdge leaves some NULL."""


def row_of_columns(columns: Columns) -> Row:
    """Return a stored row."""
    key, kind, value, uid, version, namespace, name, updated = columns
    return Row(key, kind or "", value or "", uid or "", version or 0, namespace or "", name or "", updated or 0)


def cause_of(message: Message, text: str = "") -> Cause:
    """Return the cause of a message's change; `text` defaults to its source and operation."""
    return Cause(text or f"{message.route.source} {message.route.operation}", message.id)


def version_number(text: str | None) -> int:
    """Return a resourceVersion as a number; 0 if it is not a number or exceeds a database's integer."""
    return whole_number(text) or 0


class StoredObject(msgspec.Struct, frozen=True):
    """An object of the store."""

    type: str
    namespace: str
    """Empty for an object without one."""
    name: str
    uid: str

    @property
    def key(self) -> str:
        """Its key in the store."""
        return str(Resource.of(self.type, self.namespace or NULL_NAMESPACE, self.name))
