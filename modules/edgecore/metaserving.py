"""The metaserver, put together: the view between store and edged, and the server that tells it."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

from beehive import Hive, ResourceType
from edged.server.container_logs import ContainerLogs
from edged.server.http import HttpServer
from edged.server.listening import listen_tcp
from edged.server.snapshots import Snapshots
from edged.server.subjects import find_pod, only_container
from metamanager.store import Store
from modules.edgecore.config import EdgeCoreConfig
from modules.edgecore.version import KUBELET_VERSION
from modules.metaserver.api import Api, ApiSettings
from modules.metaserver.live import LiveFeed
from modules.metaserver.resources import TOKENS
from modules.metaserver.view import View
from modules.metaserver.watched_store import watched

MAX_BODY: Final = 3 * 1024 * 1024
"""Bytes of an object that is written (an API server's limit)."""

_REVISIONS_A_MILLISECOND: Final = 1 << 20
"""So many there never are, so that the revisions of one start are below those of the next."""


def serve_api(
    config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots, open_store: Callable[[str], Store], stack: ExitStack
) -> Callable[[str], Store]:
    """Serve until the stack ends; returns how metamanager is to open its store.

    Raises:
        ServerError: the address cannot be had.
    """
    view = View(hive.clock.now_ms() * _REVISIONS_A_MILLISECOND)
    settings = config.modules.meta_manager.meta_server
    logs = None
    if config.modules.edged.enable:
        LiveFeed(snapshots, view, config.node_name).begin()
        logs = ContainerLogs(snapshots, hive.clock)
    api = Api(
        ApiSettings(config.node_name, KUBELET_VERSION, secrets=settings.serve_secrets),
        view,
        hive,
        logs,
        lambda namespace, name: only_container(find_pod(snapshots.pods, namespace, name)),
    )
    host, _, port = settings.server.rpartition(":")
    listening = listen_tcp(host.strip("[]"), int(port), "modules.metaManager.metaServer.server")
    server = HttpServer(listening, api, hive.clock, max_body=MAX_BODY)
    server.start()
    stack.callback(server.stop)
    served = TOKENS if settings.serve_secrets else TOKENS - {ResourceType.SECRET}
    return watched(open_store, view, served)
