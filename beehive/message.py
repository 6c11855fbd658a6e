"""The message: what crosses a module's border, and what KubeEdge puts on the wire (spec/01 §1).

A message is immutable and cheap. Its content may stay undecoded (`msgspec.Raw`), so that it is routed, stored and
forwarded without its body being parsed; `content_as` decodes it when somebody asks.
"""

import base64
import binascii
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from beehive.errors import ContentError
from beehive.names import OK, Operation

if TYPE_CHECKING:
    from beehive.clock import Clock

T = TypeVar("T")

_RESPONSE = Operation.RESPONSE
_NULL = msgspec.Raw(b"null")


class Header(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Who a message is. Wire names are KubeEdge's; unknown ones are the codec's business."""

    msg_id: str = msgspec.field(default_factory=str)
    """UUID version 4, lower case with hyphens. Always on the wire, even when empty."""

    parent_msg_id: str = ""
    """Id of the message that this one answers."""

    timestamp: int = msgspec.field(default_factory=int)
    """Creation time in milliseconds since the Unix epoch. Always on the wire."""

    resourceversion: str = ""
    """Kubernetes resourceVersion of the object in the content; the cloud's reliable delivery keys on it."""

    sync: bool = False
    """The sender waits for the answer (SendSync)."""

    type: str = ""
    """Context that carried the message (`channel`, `unixpacket`); empty means channel."""


class Route(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """Where a message comes from and what it is about."""

    source: str = ""
    """Name of the module that sent it."""

    destination: str = ""
    """Target module; only the socket context uses it."""

    group: str = ""
    """Group it is broadcast to; on the wire it picks the edge's target."""

    operation: str = ""
    """See `beehive.names.Operation`."""

    resource: str = ""
    """Resource string, see `beehive.resource`."""


class Message(msgspec.Struct, frozen=True):
    """Header, route and content."""

    header: Header = Header()
    route: Route = Route()
    content: Any = None
    """JSON value, a struct, `bytes`, or `msgspec.Raw` when it has not been decoded."""

    @property
    def id(self) -> str:
        """The message's own id."""
        return self.header.msg_id

    @property
    def parent_id(self) -> str:
        """The id of the message it answers, or empty."""
        return self.header.parent_msg_id

    @classmethod
    def new(
        cls,
        clock: "Clock",
        *,
        source: str,
        resource: str,
        operation: str,
        content: Any = None,
        group: str = "",
        parent_id: str = "",
        resourceversion: str = "",
    ) -> "Message":
        """A message with a fresh id and the clock's time."""
        header = Header(clock.new_id(), parent_id, clock.now_ms(), resourceversion)
        return cls(header, Route(source, "", group, operation, resource), content)

    def reply(self, clock: "Clock", content: Any = OK, *, source: str | None = None) -> "Message":
        """The answer to this message: its parent, same source, group, resource and type, operation `response`.

        An answer carries the *requester's* source unless `source` says otherwise; metamanager marks so what it answered
        from its own store (KubeEdge's NewRespByMessage).
        """
        asked, route = self.header, self.route
        header = Header(clock.new_id(), asked.msg_id, clock.now_ms(), "", sync=False, type=asked.type)
        source = route.source if source is None else source
        return Message(header, Route(source, "", route.group, _RESPONSE, route.resource), content)

    def error(self, clock: "Clock", text: str, *, source: str = "", group: str = "") -> "Message":
        """The error answer: parent is this message's id (as KubeEdge today; in 2019 it was the wrong id)."""
        return Message(
            Header(msg_id=clock.new_id(), parent_msg_id=self.header.msg_id, timestamp=clock.now_ms()),
            Route(source=source, group=group, operation=Operation.ERROR, resource=self.route.resource),
            text,
        )

    def as_request(self) -> "Message":
        """A copy that says that its sender waits (SendSync)."""
        was = self.header
        header = Header(was.msg_id, was.parent_msg_id, was.timestamp, was.resourceversion, sync=True, type=was.type)
        return Message(header, self.route, self.content)

    def with_header(self, **changes: Any) -> "Message":
        """A copy whose header fields are changed."""
        return Message(msgspec.structs.replace(self.header, **changes), self.route, self.content)

    def with_route(self, **changes: Any) -> "Message":
        """A copy whose route fields are changed."""
        return Message(self.header, msgspec.structs.replace(self.route, **changes), self.content)

    def with_content(self, content: Any) -> "Message":
        """A copy with another content."""
        return Message(self.header, self.route, content)

    def content_raw(self) -> msgspec.Raw:
        """The content as the JSON text it has on the wire."""
        if isinstance(self.content, msgspec.Raw):
            return self.content if len(self.content) else _NULL
        try:
            return msgspec.Raw(msgspec.json.encode(self.content))
        except (TypeError, ValueError) as error:
            raise ContentError("cannot encode the content as JSON", self._about(), str(error)) from error

    def content_bytes(self) -> bytes:
        """The bytes a consumer stores: of a string the string's own, otherwise the JSON text (GetContentData)."""
        if isinstance(self.content, bytes):
            return self.content
        raw = bytes(self.content_raw())
        if raw[:1] != b'"':
            return raw
        return self._decode(raw, str).encode()

    def content_as(self, kind: type[T]) -> T:
        """The content decoded as `kind`.

        A string content is read as the text it is; where something else is asked for, the string is taken for JSON and,
        failing that, for base64 of JSON, because a Go `[]byte` arrives so (spec/01 §1.2).

        Raises:
            ContentError: the content is not a `kind`; names the path inside it and never quotes a value.
        """
        if not isinstance(self.content, msgspec.Raw) and _is_a(self.content, kind):
            return cast("T", self.content)
        raw = self.content_raw()
        text = bytes(raw).lstrip()
        if text[:1] != b'"' or kind in (str, bytes) or cast("Any", kind) is Any:
            return self._decode(raw, kind)
        inner = self._decode(raw, str)
        try:
            return msgspec.json.decode(inner, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            plain = _base64_json(inner)
            if plain is None:
                raise self._content_error(error) from error
            return self._decode(plain, kind)

    def _decode(self, data: bytes | msgspec.Raw, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise self._content_error(error) from error

    def _content_error(self, error: Exception) -> ContentError:
        return ContentError("cannot read the content of a message", self._about(), str(error))

    def _about(self) -> str:
        return f"{self.route.operation} {self.route.resource} {self.header.msg_id}".strip()


def _is_a(content: Any, kind: Any) -> bool:
    """Whether it needs no decoding; a generic such as `list[Pod]` always does, since its items may be anything."""
    return kind is Any or (isinstance(kind, type) and isinstance(content, kind))


def _base64_json(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
