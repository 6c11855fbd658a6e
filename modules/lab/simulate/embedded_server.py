"""The embedded API server of a simulated cloudcore, and its HTTP face."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from beehive.hive import Hive
from modules.apimachinery.kinds import JsonObject
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.apiserver.completeness import Completeness
from modules.cloud.apiserver.embedded_kube_api import EmbeddedKubeApi
from modules.cloud.apiserver.endpoints.module_caller import ModuleCaller
from modules.cloud.apiserver.endpoints.service import ApiService, Requester
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.apiserver.module import ApiServer
from modules.cloud.apiserver.reconcilers import ControlPlane
from modules.cloud.client.transport_errors import KubeCutError
from modules.cloud.edgecontroller.cluster.remote_cluster import RemoteCluster
from modules.cloud.refusals import Refusals
from modules.cloud.storage.database.database import Database
from modules.cloud.storage.watch_history import ObjectChanged
from modules.lab.simulate.http_exchange import SimulatedExchange
from modules.lab.simulate.http_service import Serving
from modules.lab.simulate.world import Process

Published = Callable[[Process, Cluster, ObjectChanged], None]
"""Called with each change that a cloudcore tells its watches."""
_SERVER: Final = "the embedded API server"


class ObservedSubscriptions(Subscriptions):
    """Subscriptions whose changes are seen.

    Args:
        published: called with each change.
    """

    def __init__(self, published: Callable[[ObjectChanged], None]) -> None:
        super().__init__()
        self._published_to = published

    def publish(self, changed: ObjectChanged) -> None:
        """Pass a change to the subscriptions of its kind, and to the observer."""
        self._published_to(changed)
        super().publish(changed)


class ObservedApiServer(ApiServer):
    """The module apiserver, made known to the simulation.

    Args:
        seen: called with the module when it is made.
    """

    def __init__(self, seen: Callable[[ApiServer], None], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        seen(self)


class EmbeddedServer:
    """The module apiserver, added to the hive of a simulated cloudcore, as its process does.

    Args:
        process: of the cloudcore.
        hive: of the cloudcore.
        cluster: the objects.
        database: their durable copy.
        definitions: CustomResourceDefinitions that are applied at the start.
        published: sees what watches are told; None: nobody.
    """

    def __init__(
        self,
        process: Process,
        hive: Hive,
        cluster: Cluster,
        database: Database,
        definitions: Sequence[JsonObject],
        published: Published | None = None,
    ) -> None:
        clock = process.clock
        self.process = process
        self.hive = hive
        self.cluster = cluster
        self.database = database
        self.module: ApiServer | None = None
        """The module of the process; a module that has failed is followed by another."""
        api = EmbeddedKubeApi(hive, clock)
        if published is not None:
            api.subscriptions = ObservedSubscriptions(lambda changed: published(process, cluster, changed))
        self.subscriptions = api.subscriptions
        """To the changes of objects in the process."""
        completeness = Completeness(database, None, cluster.storage)
        self.remote = RemoteCluster(
            api.connect,
            knows_all=lambda: completeness.knows_all,
            known_since=lambda: completeness.known_since,
            is_embedded=True,
        )
        """It, as its clients in the process reach it."""
        self._service = ApiService(Requester(ModuleCaller(hive, clock)), self.subscriptions, "v1.32.0", clock)
        self._open: list[SimulatedExchange] = []
        hive.add(
            ObservedApiServer, self._see, cluster, database, None, Refusals(clock), api.subscriptions,
            control_plane=ControlPlane(definitions=definitions),
        )  # fmt: skip

    @property
    def is_running(self) -> bool:
        """Whether its process lives, and has loaded the objects."""
        return self.process.alive and self.module is not None and self.module._changes.is_loaded

    def serve(self, exchange: SimulatedExchange) -> None:
        """Answer a request, on a thread of the process."""
        self._open = [*(each for each in self._open if not each.is_done), exchange]
        self.process.run(Serving(self._service, self.process, exchange).run)

    def end(self) -> None:
        """Break the connections of its clients: the process was killed."""
        self.subscriptions.close()
        for exchange in self._open:
            if not exchange.is_done:
                exchange.fail(KubeCutError("no response of the API server", _SERVER, "the connection was closed"))

    def _see(self, module: ApiServer) -> None:
        self.module = module
