"""Starts the metaserver: its watch cache between store and edged, and its HTTP server."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from beehive import Hive, ResourceType
from beehive.http.authority import server_of
from beehive.http.http_server import HttpServer
from beehive.http.listening import listen_tcp
from edged.server.container_logs import ContainerLogs
from edged.server.pod_lookup import find_pod, only_container
from edged.server.snapshots import Snapshots
from metamanager.store import Store
from modules.apimachinery.errors import unread
from modules.edge.metaserver.api import Api, ApiSettings
from modules.edge.metaserver.live_status import LiveStatusUpdater
from modules.edge.metaserver.resources import TOKENS
from modules.edge.metaserver.watch_agent import ClientWatches, WatchAgent
from modules.edge.metaserver.watch_cache import WatchCache
from modules.edge.metaserver.watch_cache_store import watch_cache_opener
from modules.processes.common.version import KUBELET_VERSION
from modules.processes.edgecore.config import EdgeCoreConfig
from modules.processes.edgecore.owner_routes import ReleaseRoutes

MAX_BODY: Final = 3 * 1024 * 1024
"""Largest object in a write request, in bytes (an API server's limit)."""

_REVISIONS_A_MILLISECOND: Final = 1 << 20
"""More than ever occur, so that revisions of one start are below the next start's."""


def serve_api(
    config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots, open_store: Callable[[str], Store], stack: ExitStack
) -> Callable[[str], Store]:
    """Serve the Kubernetes API until the stack ends; return the function that opens metamanager's store.

    Raises:
        ServerError: the address cannot be listened on.
    """
    cache = WatchCache(hive.clock.now_ms() * _REVISIONS_A_MILLISECOND)
    settings = config.modules.meta_manager.meta_server
    logs = None
    if config.modules.edged.enable:
        LiveStatusUpdater(snapshots, cache, config.node_name).start()
        logs = ContainerLogs(snapshots, hive.clock)
    api = Api(
        ApiSettings(config.node_name, KUBELET_VERSION, secrets=settings.serve_secrets),
        cache,
        hive,
        logs,
        lambda namespace, name: only_container(find_pod(snapshots.pods, namespace, name)),
        unhold=ReleaseRoutes(hive, config.node_name).unhold if config.modules.edged.enable else None,
    )
    hive.add(WatchAgent, config.node_name, ClientWatches())
    listening = listen_tcp(*server_of(settings.server), "modules.metaManager.metaServer.server")
    server = HttpServer(listening, api, hive.clock, max_body=MAX_BODY, refusal=unread)
    server.start()
    stack.callback(server.stop)
    served = TOKENS if settings.serve_secrets else TOKENS - {ResourceType.SECRET}
    return watch_cache_opener(open_store, cache, served)
