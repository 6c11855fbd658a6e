"""The API servers that edgecontroller works with: the embedded one, and that of a cluster."""

from collections.abc import Callable
from typing import Protocol

from modules.cloud.apiserver.object_store import ObjectStore
from modules.cloud.apiserver.storage import ObjectEvent
from modules.cloud.apiserver.watch_history import ObjectChanged, WatchQuery, WatchStart
from modules.cloud.client.calls import ApiCall
from modules.cloud.edgecontroller.procedure import Answered


class ApiEngine(Protocol):
    """Carries out API calls, and keeps the objects that nodes need."""

    @property
    def storage(self) -> ObjectStore:
        """The objects: all, or those of the mirrored kinds."""

    @property
    def knows_all(self) -> bool:
        """Whether a missing object was deleted. An embedded API server with a new database may have lost it with an old
        one, and nodes must not delete their pods for that.
        """

    @property
    def is_ready(self) -> bool:
        """Whether the objects have been loaded; until then messages wait."""

    def start(self) -> None:
        """Begin to load and watch the objects, in a transaction."""

    def stop(self) -> None:
        """End what runs outside the module's thread."""

    def mirrors(self, kind: str, /) -> bool:
        """Begin to mirror a kind if it is not mirrored yet; return whether all its objects are in the storage."""

    def perform(self, call: ApiCall, node: str, answered: Answered) -> None:
        """Make a call, of a node with NodeRestriction; "" is edgecontroller itself or an administrator."""

    def claim(self, node: str, then: Callable[[], None]) -> None:
        """Read the state of a node that has connected, where it is kept in the cluster; `then` goes on in any case."""

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch."""

    def changed(self, event: ObjectEvent) -> None:
        """Take note of a change of the storage, in its transaction."""

    def take_noted(self) -> tuple[ObjectChanged, ...]:
        """Return the changes that were committed since the last call, for watches."""

    def before_commit(self) -> None:
        """Make the changes that follow from those of the transaction."""
