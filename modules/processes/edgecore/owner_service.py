"""The service of the owner's socket: the kubelet's paths, and the Kubernetes API of this node."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from modules.processes.common.version import KUBELET_VERSION

if TYPE_CHECKING:
    from beehive import Hive
    from beehive.http.request import Request
    from beehive.http.responses import Reply
    from beehive.http.router import HttpService
    from edged.server.snapshots import Snapshots
    from modules.edge.metaserver.on_demand import ApiOnDemand
    from modules.processes.edgecore.config import EdgeCoreConfig

MAX_BODY: Final = 3 * 1024 * 1024
"""Largest object in a write request, in bytes (an API server's limit)."""

_API: Final = ("api", "apis", "version")
"""First parts of the API's paths; no path of a kubelet has one of them."""


class OwnerService:
    """Passes requests to the API or to the kubelet's paths (`HttpService`).

    The API's code is imported with its first request: a node without requests does not carry it.

    Args:
        config: of the node; names its database.
        hive: has the clock, and the hub for requests to the cloud.
        snapshots: statuses of pods and node.
        paths: serves the kubelet's paths.
    """

    def __init__(self, config: EdgeCoreConfig, hive: Hive, snapshots: Snapshots, paths: HttpService) -> None:
        self._config = config
        self._hive = hive
        self._snapshots = snapshots
        self._paths = paths
        self._lock = threading.Lock()
        self._api: ApiOnDemand | None = None

    def serve(self, request: Request) -> Reply:
        """Return the reply. RequestErrors of the kubelet's paths are raised."""
        if request.parts[:1] and request.parts[0] in _API:
            return self._made_api().serve(request)
        return self._paths.serve(request)

    def close(self) -> None:
        """Release the API."""
        if self._api is not None:
            self._api.close()

    def _made_api(self) -> ApiOnDemand:
        from modules.processes.edgecore.owner_api import make_api  # noqa: PLC0415

        with self._lock:
            if self._api is None:
                self._api = make_api(self._config, self._hive, self._snapshots, KUBELET_VERSION)
            return self._api
