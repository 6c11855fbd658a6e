"""This cloudcore among others: its Lease, and what it knows of theirs.

Few duties need an owner (`Duty`, and the deletion of the Leases of cloudcores that were killed). The cloudcore of a
node's connection sends the node its objects and deletions. The cloudcore that gives each thousandth revision compacts
the deletions, and the first one to notice a new epoch counts it: both are rows of the database, under its lock. A
cloudcore that finds no state of any node when it starts reads KubeEdge's ObjectSyncs, before it can know of other
cloudcores, and takes them over if there is still no state then.
"""

from collections.abc import Callable

from beehive.module import Module
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.coordination.lease_keeper import LeaseKeeper, Perform
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller.cluster.client import ClusterClient


class Duties:
    """The Lease of this cloudcore, if it has one, and the other cloudcores, as modules know them (`KnownCloudcores`).

    Args:
        settings: of the Lease; None: there can be no other cloudcore.
        identity: of this process, among all cloudcores.
        module: edgecontroller; ends its turn when other cloudcores have come or gone.
        known: is kept up to date.
        perform: makes an API call, in a transaction.
        went_back: of `LeaseKeeper`.
    """

    def __init__(
        self,
        settings: LeaseSettings | None,
        identity: str,
        module: Module,
        known: KnownCloudcores,
        perform: Perform,
        went_back: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._identity = identity
        self._known = known
        self._module = module
        parts = identity, module, perform, self._update_known, went_back, known
        self._keeper = None if settings is None else LeaseKeeper(settings, *parts)
        self._has_begun = False

    @property
    def alive(self) -> tuple[str, ...]:
        """The identities of the cloudcores that are alive."""
        return (self._identity,) if self._keeper is None else self._keeper.alive

    def begin(self, client: ClusterClient) -> None:
        """Write the Lease and watch the Leases of others, the first time that this is called; in a transaction."""
        if self._has_begun:
            return
        self._has_begun = True
        self._known.alive = self.alive
        if self._keeper is not None and self._settings is not None:
            client.watch_leases(self._settings, self._keeper)
            self._keeper.start()

    def release(self, done: Callable[[], None]) -> None:
        """Give up the Lease; `done` is called in any case."""
        if self._keeper is None or not self._has_begun:
            done()
        else:
            self._keeper.release(done)
            self._known.alive = ()

    def _update_known(self) -> None:
        self._known.alive = self.alive
        if self._keeper is not None:
            self._known.routers, self._known.duties = self._keeper.routers, self._keeper.duties
        self._module.end_turn_soon()
