"""Messages, as modules exchange them and as KubeEdge sends them on the wire (docs/protocol.md, "Messages").

A message is immutable and cheap. Its content may stay undecoded (`msgspec.Raw`), so that a message is routed, stored
and forwarded without parsing; `content_as` decodes it.
"""

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec

from beehive.cache import LONGEST
from beehive.decoding import decode_base64, decode_json, json_decoder
from beehive.errors import ContentError
from beehive.names import OK, Operation
from beehive.resource import READERS, Resource, Side

if TYPE_CHECKING:
    from beehive.clock import Clock

T = TypeVar("T")

_RESPONSE = Operation.RESPONSE
_NULL = msgspec.Raw(b"null")
_TEXT = json_decoder(str)


class Header(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The identity of a message. The names on the wire are KubeEdge's; the codec handles unknown ones."""

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
    """The origin and the subject of a message."""

    source: str = ""
    """Name of the module that sent it."""

    destination: str = ""
    """Target module; only the socket context uses it."""

    group: str = ""
    """Group that the message is broadcast to; on the wire it selects the receiving module at the edge."""

    operation: str = ""
    """The action, see `beehive.names.Operation`."""

    resource: str = ""
    """The subject: a resource string, see `beehive.resource`."""


class _Subject:
    """The parsed resource string of a message: parsed when it is first read, and kept with the message."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._read = READERS[side]
        self._name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, message: "Message", _owner: type) -> Resource:
        text = message.route.resource
        subject = self._read(text) if len(text) <= LONGEST else Resource.read(text, self._side)
        message.__dict__[self._name] = subject
        return subject


class Message(msgspec.Struct, frozen=True, dict=True):
    """Header, route and content."""

    header: Header = Header()
    route: Route = Route()
    content: Any = None
    """JSON value, a struct, `bytes`, or `msgspec.Raw` if it has not been decoded."""

    subject = _Subject(Side.EDGE)
    """The parsed `route.resource`, in the grammar of the edge; without a type if it is outside the grammar."""
    subject_on_cloud = _Subject(Side.CLOUD)
    """The same in the grammar of the cloud."""

    @property
    def id(self) -> str:
        """The message's own id."""
        return self.header.msg_id

    @property
    def parent_id(self) -> str:
        """The id of the message that this one answers, or empty."""
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
        """Make a message with a fresh id and the clock's time."""
        header = Header(clock.new_id(), parent_id, clock.now_ms(), resourceversion)
        return cls(header, Route(source, "", group, operation, resource), content)

    def reply(self, clock: "Clock", content: Any = OK, *, source: str | None = None) -> "Message":
        """Make the answer to this message: operation `response`, with its source, group, resource and type.

        An answer carries the *requester's* source unless `source` is given; metamanager gives it for answers from its
        own store (KubeEdge's NewRespByMessage).
        """
        asked, route = self.header, self.route
        header = Header(clock.new_id(), asked.msg_id, clock.now_ms(), "", sync=False, type=asked.type)
        source = route.source if source is None else source
        return Message(header, Route(source, "", route.group, _RESPONSE, route.resource), content)

    def error(self, clock: "Clock", text: str, *, source: str = "", group: str = "") -> "Message":
        """Make the error answer: its parent is this message's id (as KubeEdge today; in 2019 it was the wrong id)."""
        return Message(
            Header(msg_id=clock.new_id(), parent_msg_id=self.header.msg_id, timestamp=clock.now_ms()),
            Route(source=source, group=group, operation=Operation.ERROR, resource=self.route.resource),
            text,
        )

    def as_request(self) -> "Message":
        """Return a copy marked as sent by a sender that waits (SendSync)."""
        was = self.header
        header = Header(was.msg_id, was.parent_msg_id, was.timestamp, was.resourceversion, sync=True, type=was.type)
        return Message(header, self.route, self.content)

    def with_header(self, **changes: Any) -> "Message":
        """Return a copy with changed header fields."""
        return Message(msgspec.structs.replace(self.header, **changes), self.route, self.content)

    def with_route(self, **changes: Any) -> "Message":
        """Return a copy with changed route fields."""
        return Message(self.header, msgspec.structs.replace(self.route, **changes), self.content)

    def with_content(self, content: Any) -> "Message":
        """Return a copy with another content."""
        return Message(self.header, self.route, content)

    def content_raw(self) -> msgspec.Raw:
        """Return the content as its JSON text on the wire.

        Raises:
            ContentError: the content has no JSON form.
        """
        if isinstance(self.content, msgspec.Raw):
            return self.content if len(self.content) else _NULL
        try:
            return msgspec.Raw(msgspec.json.encode(self.content))
        except (TypeError, ValueError) as error:
            raise ContentError("cannot encode the content as JSON", self._about(), str(error)) from error

    def content_bytes(self) -> bytes:
        """Return the content as bytes to store: the bytes of a string, otherwise the JSON text (GetContentData)."""
        if isinstance(self.content, bytes):
            return self.content
        raw = bytes(self.content_raw())
        if raw[:1] != b'"':
            return raw
        return self._decode(raw, str).encode()

    def content_as(self, kind: type[T]) -> T:
        """Return the content decoded as `kind`.

        For a `kind` other than `str` or `bytes`, a string is decoded as JSON or, failing that, as base64 of JSON, the
        form of a Go `[]byte` (docs/protocol.md, "Content on the wire").

        Raises:
            ContentError: the content is not a `kind`; the text names the path inside it and never quotes a value.
        """
        if type(self.content) is kind:
            return self.content
        if not isinstance(self.content, msgspec.Raw) and _is_a(self.content, kind):
            return cast("T", self.content.copy() if hasattr(kind, "__origin__") else self.content)
        raw = self.content if isinstance(self.content, msgspec.Raw) and len(self.content) else self.content_raw()
        text, of_any = bytes(raw).lstrip(), Any
        if text[:1] != b'"' or kind in (str, bytes, of_any):
            return self._decode(raw, kind)
        inner = ""
        try:
            inner = _TEXT.decode(raw)
            return decode_json(inner, kind)
        except (msgspec.DecodeError, UnicodeError) as error:
            plain = decode_base64(inner) if inner else None
            if plain is None:
                raise self._content_error(error) from error
            return self._decode(plain, kind)

    def _decode(self, data: bytes | msgspec.Raw, kind: type[T]) -> T:
        try:
            return decode_json(data, kind)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self._content_error(error) from error

    def _content_error(self, error: Exception) -> ContentError:
        return ContentError("cannot read the content of a message", self._about(), str(error))

    def _about(self) -> str:
        return f"{self.route.operation} {self.route.resource} {self.header.msg_id}".strip()


def _is_a(content: Any, kind: Any) -> bool:
    """Return whether the content needs no decoding; for a generic such as `list[Pod]` all its items are looked at."""
    origin = getattr(kind, "__origin__", None)
    if origin is None:
        return kind is Any or (isinstance(kind, type) and isinstance(content, kind))
    items = kind.__args__
    if origin not in (list, dict) or type(content) is not origin or not all(map(_is_immutable, items)):
        return False
    return {*map(type, content)} <= {items[0]} and (origin is list or {*map(type, content.values())} <= {items[1]})


@lru_cache(256)
def _is_immutable(kind: Any) -> bool:
    """Return whether a receiver cannot change a value of a class."""
    is_frozen = isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__struct_config__.frozen
    return is_frozen or kind in (str, int, float, bool)
