"""Chooses the method of a module that handles a message, by resource type, operation and source."""

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from beehive.cache import are_short
from beehive.delivery import OverflowPolicy
from beehive.message import Message
from beehive.resource import Side

Method = TypeVar("Method", bound=Callable[[Any, Message], None])
_MARK = "_beehive_handles"
_CACHE_LIMIT = 1024
_TYPES = {Side.EDGE: "subject.type", Side.CLOUD: "subject_on_cloud.type"}


class Handler(msgspec.Struct, frozen=True):
    """A method that handles messages, and the overflow policy of these messages."""

    call: Callable[[Any, Message], None]
    overflow: OverflowPolicy


class _Mark(msgspec.Struct, frozen=True):
    resource_type: str | None
    operation: str | None
    source: str | None
    overflow: OverflowPolicy


def handles(
    resource_type: str | None = None,
    *operations: str,
    source: str | None = None,
    overflow: OverflowPolicy = OverflowPolicy.COMMAND,
) -> Callable[[Method], Method]:
    """Mark a method as the handler of messages.

        @handles(ResourceType.POD, Operation.INSERT, Operation.UPDATE)
        def upsert(self, message: Message) -> None: ...

    The most specific mark wins. Two equal marks in one class raise TypeError when the class is made.

    Args:
        resource_type: the type token of the resource; None matches every type.
        operations: without any, every operation matches.
        source: `route.source`; None matches every source.
        overflow: the treatment of such a message when the inbox is full.
    """

    def mark(method: Method) -> Method:
        marks = [_Mark(resource_type, operation, source, overflow) for operation in operations or (None,)]
        setattr(method, _MARK, [*getattr(method, _MARK, []), *marks])
        return method

    return mark


class HandlerTable:
    """The handlers of one module class, with a bounded cache of lookups."""

    def __init__(self, owner: type[Any], side: Side) -> None:
        self.type_of: Callable[[Message], str] = attrgetter(_TYPES[side])
        """Returns the resource type of a message."""
        self._handlers: dict[tuple[str | None, str | None, str | None], Handler] = {}
        self.known: dict[tuple[str, str, str], Handler | None] = {}
        """The handlers of messages that were looked up, by type, operation and source."""
        for name, method, mark in _marks_of(owner):
            key = (mark.resource_type, mark.operation, mark.source)
            if key in self._handlers and self._handlers[key].call is not method:
                raise TypeError(f"{owner.__qualname__}.{name}: a second handler for {key}")
            self._handlers[key] = Handler(method, mark.overflow)

    def find(self, message: Message) -> Handler | None:
        """Return the handler of a message, or None."""
        route = message.route
        key = (self.type_of(message), route.operation, route.source)
        try:
            return self.known[key]
        except KeyError:
            return self._remember(key)

    def _remember(self, key: tuple[str, str, str]) -> Handler | None:
        handler = self._search(*key)
        if are_short(*key):
            if len(self.known) >= _CACHE_LIMIT:
                self.known.clear()
            self.known[key] = handler
        return handler

    def _search(self, resource_type: str, operation: str, source: str) -> Handler | None:
        for by_type in (resource_type, None):
            for by_operation in (operation, None):
                for by_source in (source, None):
                    if handler := self._handlers.get((by_type, by_operation, by_source)):
                        return handler
        return None


def _marks_of(owner: type[Any]) -> Iterator[tuple[str, Callable[[Any, Message], None], _Mark]]:
    for name in dir(owner):
        method = getattr(owner, name, None)
        for mark in getattr(method, _MARK, []):
            yield name, method, mark  # type: ignore[misc]
