"""What the store keeps of one object, and how that is read out of a message.

The columns `key`, `type` and `value` are KubeEdge's (spec/05 §1): the resource string as it came, its type token, the
content as text. The others are copies of the object's metadata, so that an old message can be told from a new one
without decoding what is stored.
"""

from typing import Final

import msgspec

from beehive import Form, Message, Resource
from beehive.cache import remembered
from beehive.errors import ResourceError

_LONGEST_NUMBER = 18


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """What metamanager needs of an object's metadata."""

    uid: str | None = None
    resource_version: str | None = None
    namespace: str | None = None
    name: str | None = None


class ObjectHead(msgspec.Struct, frozen=True):
    """An object of which nothing but the metadata is decoded."""

    metadata: Metadata | None = None


class Cause(msgspec.Struct, frozen=True, gc=False):
    """Why an object changes, for its history; one without a text is not noted."""

    text: str = ""
    """`edgecontroller update`, `answer`."""
    message: str = ""
    """Id of the message."""


UNNOTED: Final = Cause()


class Row(msgspec.Struct, frozen=True, gc=False):
    """One row of table `meta`."""

    key: str
    type: str
    value: str
    uid: str = ""
    resource_version: int = 0
    """0 when the object has none: it is then always taken for new."""
    namespace: str = ""
    name: str = ""
    updated: int = 0
    """When the row was written, in milliseconds since the epoch."""
    cause: Cause = UNNOTED

    def supersedes(self, uid: str | None, resource_version: int | None) -> bool:
        """Whether this row replaces one with that uid and version: unless it is an older state of the same object, or
        the same one (`equals`).

        Messages overtake each other when the cloud sends again what it holds for lost; Kubernetes' resourceVersion
        says which is newer.
        """
        stored = resource_version or 0
        if uid != self.uid or stored < self.resource_version:
            return True
        return stored == self.resource_version and not (self.resource_version and self.uid)

    def equals(self, uid: str | None, resource_version: int | None) -> bool:
        """Whether what is stored, with that uid and version, is this very state: nothing need be written again.

        Without a uid or a version nothing says so.
        """
        return (
            uid == self.uid and resource_version == self.resource_version and not self.supersedes(uid, resource_version)
        )


def head_of(content: bytes) -> Metadata:
    """The metadata in a content; empty when it is no object, or one of another form."""
    try:
        return msgspec.json.decode(content, type=ObjectHead).metadata or Metadata()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return Metadata()


class _Going(msgspec.Struct, frozen=True, rename="camel"):
    """Metadata that say since when an object is being deleted."""

    deletion_timestamp: str | None = None


class _GoingObject(msgspec.Struct, frozen=True):
    metadata: _Going | None = None


def is_being_deleted(content: bytes) -> bool:
    """Whether an object says that it is."""
    if b'"deletionTimestamp"' not in content:
        return False
    try:
        metadata = msgspec.json.decode(content, type=_GoingObject).metadata
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return metadata is not None and bool(metadata.deletion_timestamp)


class _Dated(msgspec.Struct, frozen=True, rename="camel"):
    """An object that says when it was last seen: an event."""

    last_timestamp: str | None = None


def last_time_of(value: str) -> str:
    """When an event was last seen, as text that sorts by time; empty when it does not say."""
    try:
        return msgspec.json.decode(value, type=_Dated).last_timestamp or ""
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""


def row_of(resource: str, content: bytes, now_ms: int, cause: Cause = UNNOTED) -> Row:
    """The row for a content that came under a resource string.

    Raises:
        UnicodeDecodeError: the content is not UTF-8; KubeEdge's tools could not read it.
    """
    parsed = parse(resource)
    head = head_of(content)
    return Row(
        key=resource,
        type=parsed.type if parsed.form is Form.OBJECT else "",
        value=content.decode(),
        uid=head.uid or "",
        resource_version=version_number(head.resource_version),
        namespace=parsed.namespace,
        name=parsed.name,
        updated=now_ms,
        cause=cause,
    )


def cause_of(message: Message, text: str = "") -> Cause:
    """Why a message changes something: from whom it is and what it does, unless said otherwise."""
    return Cause(text or f"{message.route.source} {message.route.operation}", message.id)


def row_of_message(message: Message, now_ms: int) -> Row:
    """The row for a message's content.

    Raises:
        ContentError: it cannot be encoded.
        UnicodeDecodeError: it is not UTF-8.
    """
    return row_of(message.route.resource, message.content_bytes(), now_ms, cause_of(message))


@remembered(1024)
def parse(resource: str) -> Resource:
    """The resource; one outside the grammar has no type (KubeEdge stores it under the whole string)."""
    try:
        return Resource.parse(resource)
    except ResourceError:
        return Resource(type="", tail=resource, form=Form.OTHER)


def version_number(text: str | None) -> int:
    """A resourceVersion as a number; 0 for what is none or does not fit a database's integer."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER else 0
