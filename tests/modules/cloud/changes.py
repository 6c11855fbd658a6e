"""Handlers of the changes of transactions."""

from collections.abc import Sequence

from modules.cloud.storage.object_storage import ObjectEvent
from modules.cloud.storage.object_sync import Holder


class RecordedChanges:
    """Records the changes of transactions (`HandlesChanges`)."""

    def __init__(self) -> None:
        self.events: list[ObjectEvent] = []
        self.claims: list[tuple[str, Holder]] = []

    def object_changed(self, event: ObjectEvent) -> None:
        """Record a change."""
        self.events.append(event)

    def nodes_claimed(self, claims: Sequence[tuple[str, Holder]]) -> None:
        """Record claims."""
        self.claims.extend(claims)

    def changes_rolled_back(self, _events: list[ObjectEvent], _nodes: set[str]) -> None:
        """Ignore changes that were rolled back."""
