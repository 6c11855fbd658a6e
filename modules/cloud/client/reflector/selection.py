"""The requests of a reflector."""

from typing import Final

import msgspec

from modules.apimachinery.kinds import Kind

PAGE_OBJECTS: Final = 500
"""Objects that a page of a list has at most (client-go's default)."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that are listed and watched."""

    kind: Kind
    namespace: str = ""
    """"" for all namespaces."""
    field_selector: str = ""
    label_selector: str = ""


class ListRequest(msgspec.Struct, frozen=True):
    """A request for the newest state: for a page, or for the whole list."""

    selection: Selection
    token: str = ""
    """The continue token of the page; "" for the first."""
    paged: bool = True


class WatchRequest(msgspec.Struct, frozen=True):
    """A request for the changes after a version."""

    selection: Selection
    version: str
    seconds: int
    """After which a server ends the watch; the one in the same process does not end it."""
