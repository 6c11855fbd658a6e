"""Equal texts of stored objects as one: most values of most objects are the same few hundred."""

from typing import Any, Final

from modules.apimachinery.kinds import JsonObject

_SECRET: Final = "Secret"  # noqa: S105 - the kind
_LONGEST: Final = 128
"""Characters of a text that is looked up; the id of an image has some hundred."""
MOST: Final = 4096
"""Texts that are known at a time, in 1 MB at most."""


class SharedTexts:
    """The texts that were met last. When there are too many, all are forgotten: what objects have in common is soon
    known again.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def share(self, value: JsonObject) -> None:
        """Put known texts in place of equal ones in a decoded object, but a Secret; its readers see no difference."""
        if value.get("kind") == _SECRET:  # its values go with it
            return
        if len(self._known) > MOST:
            self._known.clear()
        known, waiting = self._known, list[Any]([value])
        while waiting:
            part = waiting.pop()
            for at, member in part.items() if type(part) is dict else enumerate(part):
                kind = type(member)
                if kind is str:
                    if (same := known.get(member)) is not None:
                        part[at] = same
                    elif len(member) <= _LONGEST and len(known) <= MOST:
                        known[member] = member
                elif kind is dict or kind is list:
                    waiting.append(member)
