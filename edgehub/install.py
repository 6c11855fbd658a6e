"""Putting edgehub together: what a process calls."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from beehive import Hive
from edgehub.certificates.issuer import Issuer
from edgehub.certificates.keeper import Keeper
from edgehub.certificates.link import CertifiedLink
from edgehub.certificates.settings import CertificateSettings
from edgehub.counters import LinkCounters
from edgehub.link import LinkFactory
from edgehub.module import EdgeHub
from edgehub.network.lookout import WatchNetwork
from edgehub.outbox.store import OpenOutbox
from edgehub.outgoing import Outgoing
from edgehub.settings import EdgeHubSettings
from edgehub.transport import ContextFactory
from edgehub.websocket import WebsocketLink, check

if TYPE_CHECKING:
    import ssl


def install(
    hive: Hive,
    settings: EdgeHubSettings,
    *,
    make_context: ContextFactory | None = None,
    certificates: CertificateSettings | None = None,
    make_link: LinkFactory | None = None,
    wrap: Callable[[LinkFactory], LinkFactory] = lambda make: make,
    open_outbox: OpenOutbox | None = None,
    watch_network: WatchNetwork | None = None,
) -> LinkCounters:
    """Add edgehub to a hive.

    Args:
        hive: not started yet.
        settings: of the link.
        make_context: makes the TLS context of each connection (`edgehub.tls.client_context`); only for `wss://`, and
            only where the node has no certificate of its own to keep. The system's trust is used without both.
        certificates: the node's certificate, which is fetched and renewed; only for `wss://`.
        make_link: makes another kind of link, as tests and the simulation do.
        wrap: makes links that observe those, as `edgehub.recording` does.
        open_outbox: opens what keeps messages over a restart; None: they are in memory only.
        watch_network: makes what tells of changes of this machine's network (`edgehub.network.netlink.Netlink`).

    Returns:
        What the link counts; `edgehub.metrics` exports it.

    Raises:
        SettingsError: no websocket link can be made of the settings.
    """
    counters = LinkCounters()
    outgoing = Outgoing(settings.limits, settings.heartbeat)
    counters.waiting = outgoing.depths
    keeper: Keeper | None = None
    if make_link is None:
        check(settings)
        make_link = _websockets(settings, hive, make_context if certificates is None else _context(certificates))
        if certificates is not None:
            keeper = Keeper(certificates, hive.clock, counters, Issuer())
            make_link = _certified(make_link, keeper)
    hive.add(EdgeHub, settings, wrap(make_link), outgoing, counters, keeper, open_outbox, watch_network)
    return counters


def _websockets(settings: EdgeHubSettings, hive: Hive, make_context: ContextFactory | None) -> LinkFactory:
    return lambda: WebsocketLink(settings, hive.clock, make_context)


def _certified(make_link: LinkFactory, keeper: Keeper) -> LinkFactory:
    return lambda: CertifiedLink(make_link, keeper)


def _context(certificates: CertificateSettings) -> ContextFactory:
    """Reads the files anew for each connection, so that renewed ones are taken up."""

    def make() -> "ssl.SSLContext":
        from edgehub.tls import client_context  # noqa: PLC0415 - `ssl` is 1.2 MB that a plain link does not need

        paths = certificates.paths
        return client_context(paths.authority, paths.certificate, paths.key)

    return make
