"""The embedded API server, as edgecontroller's engine."""

from collections.abc import Callable

from modules.cloud.apiserver import api_calls
from modules.cloud.apiserver.authorization.access_control import AccessControl
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.database.database import Database
from modules.cloud.apiserver.manifest_directory import ManifestDirectory
from modules.cloud.apiserver.scheduler import makes_room
from modules.cloud.apiserver.storage import ObjectEvent, Storage
from modules.cloud.apiserver.transactions import Transactions
from modules.cloud.apiserver.watch_history import ObjectChanged, WatchHistory, WatchQuery, WatchStart
from modules.cloud.client.calls import ApiCall
from modules.cloud.edgecontroller.procedure import Answered


class EmbeddedApi:
    """Carries out API calls at once, in the transaction of the message; applies manifests; places pods.

    Args:
        cluster: the objects.
        database: their durable copy.
        manifests: a directory that is applied, or None.
        access_control: checks the writes of nodes.
        transactions: of edgecontroller.
        loaded: called once the objects are loaded.
    """

    def __init__(
        self,
        cluster: Cluster,
        database: Database,
        manifests: ManifestDirectory | None,
        access_control: AccessControl,
        transactions: Transactions,
        loaded: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._database = database
        self._manifests = manifests
        self._access_control = access_control
        self._transactions = transactions
        self._loaded = loaded
        self._history = WatchHistory(cluster.storage)
        """Begins anew with what was loaded: of what was deleted before that, it knows nothing."""
        self._noted: list[ObjectChanged] = []
        """Committed changes of which watches are not told yet."""
        self._may_place = True
        """Whether something has changed since the last attempt that may let a waiting pod onto a node."""
        self._is_loaded = False

    @property
    def storage(self) -> Storage:
        """All objects."""
        return self._cluster.storage

    @property
    def knows_all(self) -> bool:
        """Whether a missing object was deleted."""
        has_past = self._database.outlives_process and not self._database.is_new
        return has_past or (self._manifests is not None and self._manifests.loaded)

    @property
    def is_ready(self) -> bool:
        """Whether the objects have been loaded."""
        return self._is_loaded

    def start(self) -> None:
        """Apply the manifests; the transaction has loaded the objects."""
        self._history = WatchHistory(self.storage)
        if self._manifests is not None:
            self._manifests.reset()
            self._manifests.sync()
            self._transactions.note_changes()
        self.before_commit()
        self._is_loaded = True
        self._loaded()

    def stop(self) -> None:
        """Do nothing: nothing runs outside the module's thread."""

    def mirrors(self, _kind: str) -> bool:
        """Return True: all objects are in the storage."""
        return True

    def perform(self, call: ApiCall, node: str, answered: Answered) -> None:
        """Make a call.

        Raises:
            DryRunError: a dry run has succeeded; the caller rolls back its changes.
        """
        if not node:
            answered(api_calls.serve(self._cluster, call, knows_all=self.knows_all))
            return
        with self._cluster.with_admission(self._access_control.admission(node)):
            result = api_calls.serve(self._cluster, call, knows_all=self.knows_all)
        answered(result)

    def claim(self, node: str, then: Callable[[], None]) -> None:  # noqa: ARG002 - of the protocol
        """Go on at once: the state is in the database."""
        then()

    def start_watch(self, query: WatchQuery) -> WatchStart:
        """Return the beginning of a watch."""
        return self._history.start(query)

    def changed(self, event: ObjectEvent) -> None:
        """Take note of a change, for watches and for pods that wait."""
        self._may_place = self._may_place or makes_room(event)
        self._transactions.after_commit(lambda: self._noted.append(self._history.note(event)))

    def take_noted(self) -> tuple[ObjectChanged, ...]:
        """Return the changes that were committed since the last call."""
        noted, self._noted = tuple(self._noted), []
        return noted

    def before_commit(self) -> None:
        """Place pods that wait for a node, after a change that may have made room for them."""
        if self._may_place:
            self._may_place = False
            if self._cluster.waiting_pods():
                self._transactions.attempt(self._cluster.place_waiting_pods)
