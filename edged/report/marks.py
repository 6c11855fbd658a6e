"""What parts of edged have to say of the node in its metadata."""

from collections.abc import Mapping
from typing import Protocol


class NodeMarks(Protocol):
    """What somebody has to say of the node in its metadata."""

    def labels(self) -> Mapping[str, str]:
        """Labels to set."""

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """All annotations of the node, given those that it has."""


class NoMarks:
    """Nobody has anything to say (`NodeMarks`)."""

    def labels(self) -> Mapping[str, str]:
        """None."""
        return {}

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """Those that it has."""
        return dict(known)
