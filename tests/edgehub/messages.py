"""Messages as tests need them."""

import itertools
from typing import Any

import msgspec

from beehive import Header, Message, Route

_serial = itertools.count(1)


def message(
    resource: str = "default/pod/nginx", operation: str = "update", content: Any = None, **fields: Any
) -> Message:
    """A message with a fresh id; `fields` are of the header or the route."""
    header = {name: fields.pop(name) for name in list(fields) if name in Header.__struct_fields__}
    header.setdefault("msg_id", f"id-{next(_serial)}")
    fields.setdefault("source", "test")
    fields.setdefault("group", "resource")
    return Message(
        Header(timestamp=1_800_000_000_000, **header), Route(resource=resource, operation=operation, **fields), content
    )


def content(value: Any) -> msgspec.Raw:
    """A content as it comes off the wire."""
    return msgspec.Raw(msgspec.json.encode(value))
