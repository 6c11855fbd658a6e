"""How parts of edged send events to the sync loop."""

from typing import Protocol, TypeVar

import msgspec

from edged.pods.model import ContainerId, PodUid

Event_contra = TypeVar("Event_contra", contravariant=True)


class SyncEvents(Protocol[Event_contra]):
    """A receiver of a part's events for the sync loop (the channels that kubelet's syncLoopIteration reads)."""

    def handle(self, event: Event_contra) -> None:
        """Take an event now; on the edged module's thread."""

    def post(self, event: Event_contra) -> None:
        """Take an event later, on the edged module's thread; may be called on any thread."""


class PodHealthChanged(msgspec.Struct, frozen=True):
    """A probe has another result, or an image pull has ended."""

    uid: PodUid


class PostStartHookEnded(msgspec.Struct, frozen=True):
    """A postStart hook has ended, or is waited for no longer."""

    uid: PodUid
    container: ContainerId
    failure: str | None
    """None after success, and if its pod terminates."""


class PluginsChanged(msgspec.Struct, frozen=True):
    """A storage driver was added or removed, or devices were."""
