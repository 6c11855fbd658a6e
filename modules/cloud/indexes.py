"""Indexes: members by their place, such as Devices by node."""

from collections.abc import Hashable, MutableMapping
from typing import Any, TypeVar

P = TypeVar("P", bound=Hashable)
M = TypeVar("M", bound=Hashable)


def discard(index: MutableMapping[P, dict[M, Any]], place: P, member: M) -> None:
    """Remove a member from its place, if it is there, and a place without members."""
    members = index.get(place)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[place]
