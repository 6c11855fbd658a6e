"""A bounded set of uids of objects."""

from collections import OrderedDict
from typing import Final

_MOST: Final = 10_000
"""Uids that are remembered; a watch is behind by few objects."""


class RecentUids:
    """The newest uids that were added."""

    def __init__(self) -> None:
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        """Return whether a uid is one of them."""
        return uid in self._uids

    def add(self, uid: str) -> None:
        """Remember a uid."""
        self._uids[uid] = None
        if len(self._uids) > _MOST:
            self._uids.popitem(last=False)

    def discard(self, uid: str) -> None:
        """Forget a uid."""
        self._uids.pop(uid, None)

    def clear(self) -> None:
        """Forget all."""
        self._uids.clear()
