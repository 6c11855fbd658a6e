"""The watch of the Leases of cloudcores, of a cluster's API server."""

import logging
from functools import partial
from typing import Final

import msgspec

from beehive.decoding import decode_json
from modules.cloud.client.call_requests import collection_path
from modules.cloud.client.calls import JsonObject
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.reflector.effects import Added, Deleted, Modified, Refused, Synced
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.coordination.lease_keeper import LeaseListener
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.coordination.leases import API_VERSION, PLURAL

_log = logging.getLogger(__name__)
_LEASE: Final = "Lease"


def watch_leases(client: KubeClient, settings: LeaseSettings, listener: LeaseListener) -> None:
    """Tell of the Leases of cloudcores, and of their changes, until the client is closed."""
    selection = Selection(
        path=collection_path(API_VERSION, PLURAL, settings.namespace),
        label_selector=",".join(f"{key}={value}" for key, value in sorted(settings.labels.items())),
    )
    client.watch(selection, partial(_told, listener), _LEASE)


def _told(listener: LeaseListener, news: News) -> None:
    match news:
        case Added() | Modified():
            try:
                listener.told(news.object.name, decode_json(news.object.body, JsonObject))
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                listener.gone(news.object.name)
        case Deleted():
            listener.gone(news.object.name)
        case Synced():
            listener.synced()
        case Refused():
            why = "this cloudcore sees no other one, and does all duties that several would divide"
            _log.warning("cannot watch leases: %d: %s: %s", news.status, news.message, why)
        case _:
            pass
