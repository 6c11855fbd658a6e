"""The watch of the Leases of cloudcores, of a cluster's API server."""

import logging
from functools import partial
from typing import Final

import msgspec

from modules.apimachinery.kinds import kind_named
from modules.cloud.client.kube_client import KubeClient, News
from modules.cloud.client.reflector.effects import Added, Deleted, Modified, Refused, Synced
from modules.cloud.client.reflector.selection import Selection
from modules.cloud.coordination.lease_keeper import LeaseListener
from modules.cloud.coordination.lease_settings import LeaseSettings

_log = logging.getLogger(__name__)
_LEASE: Final = "Lease"


def watch_leases(client: KubeClient, settings: LeaseSettings, listener: LeaseListener) -> None:
    """Tell of the Leases of cloudcores, and of their changes, until the client is closed."""
    selection = Selection(
        kind=kind_named(_LEASE),
        namespace=settings.namespace,
        label_selector=",".join(f"{key}={value}" for key, value in sorted(settings.labels.items())),
    )
    client.watch(selection, partial(_notify, listener), _LEASE)


def _notify(listener: LeaseListener, news: News) -> None:
    match news:
        case Added() | Modified():
            try:
                listener.observe(news.object.name, news.object.read())
            except (msgspec.DecodeError, UnicodeError):
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
