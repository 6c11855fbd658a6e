"""Labels and annotations of the Node object that other parts of edged add."""

from collections.abc import Mapping
from typing import Protocol


class NodeMetadata(Protocol):
    """Adds labels and annotations to the Node object."""

    def labels(self) -> Mapping[str, str]:
        """Return the labels to set."""

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return all annotations of the node, given its present ones."""


class NoNodeMetadata:
    """Adds nothing (`NodeMetadata`)."""

    def labels(self) -> Mapping[str, str]:
        """Return no labels."""
        return {}

    def annotations(self, known: Mapping[str, str]) -> dict[str, str]:
        """Return the present annotations."""
        return dict(known)
