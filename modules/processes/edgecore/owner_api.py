"""Makes the Kubernetes API that the node's owner is served; imported with its first request."""

from collections.abc import Callable
from typing import Final

from beehive import Hive
from edged.server.container_logs import ContainerLogs
from edged.server.pod_lookup import find_pod, only_container
from edged.server.snapshots import Snapshots
from metamanager.store import sqlite_path
from modules.edge.metaserver.api import Api, ApiSettings
from modules.edge.metaserver.on_demand import ApiOnDemand
from modules.edge.metaserver.watch_cache import WatchCache
from modules.edge.metaserver.watching import WatchSource
from modules.processes.edgecore.config import EdgeCoreConfig

WATCH_SECONDS: Final = 0.5
"""Seconds between two looks for changes, while there are watches."""


def make_api(config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots, version: str) -> ApiOnDemand:
    """Return the API. Its secrets are served: the socket is its owner's alone, as is the database with them."""
    path = sqlite_path(str(config.database_url))
    settings = ApiSettings(config.node_name, version, secrets=True, store=path is not None)

    def api_of(cache: WatchCache, refresh: Callable[[], bool]) -> Api:
        return Api(
            settings,
            cache,
            hive,
            ContainerLogs(snapshots, hive.clock),
            lambda namespace, name: only_container(find_pod(snapshots.pods, namespace, name)),
            WatchSource(refresh, WATCH_SECONDS),
        )

    return ApiOnDemand(path, snapshots, config.node_name, hive.clock, api_of)
