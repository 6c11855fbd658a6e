"""Several cloudcores share the duties that belong to no node's session.

| duty | key | done by |
|---|---|---|
| the state of a node that was deleted is forgotten (database) | `node/NODE` | its owner, each ten minutes |
| Leases of cloudcores that were killed are deleted | `lease/NAME` | its owner, an hour later |

Other duties need no owner. The cloudcore of a node's connection sends the node its objects and deletions. The
cloudcore that gives each thousandth revision compacts the deletions, and the first one to notice a new epoch counts it:
both are rows of the database, under its lock. A cloudcore that finds no state of any node when it starts reads
KubeEdge's ObjectSyncs, before it can know of other cloudcores, and takes them over if there is still no state then.
"""

from collections.abc import Callable

from beehive.module import Module
from modules.cloud.coordination.known_cloudcores import KnownCloudcores
from modules.cloud.coordination.lease_keeper import LeaseKeeper, Perform
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller.cluster.client import ClusterClient


class Duties:
    """The duties that are this cloudcore's own, and its Lease if it has one; without a Lease all are.

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
        parts = identity, module, perform, self._update_known, went_back, lambda: known.own_router
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

    def owns(self, key: str) -> bool:
        """Return whether a duty is this cloudcore's."""
        return self._keeper is None or self._keeper.owns(key)

    def release(self, done: Callable[[], None]) -> None:
        """Give up the Lease; `done` is called in any case."""
        if self._keeper is None or not self._has_begun:
            done()
        else:
            self._keeper.release(done)
            self._known.alive = ()

    def _update_known(self) -> None:
        self._known.alive = self.alive
        self._known.routers = {} if self._keeper is None else self._keeper.routers
        self._module.end_turn_soon()
