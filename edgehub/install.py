"""Assembles edgehub for a process."""

import ssl
import threading
from collections.abc import Callable
from itertools import cycle

import msgspec

from beehive import Hive
from edgehub.certificates.issuer import SubprocessIssuer
from edgehub.certificates.manager import CertificateManager
from edgehub.certificates.settings import CertificateSettings
from edgehub.counters import LinkCounters
from edgehub.errors import CertificateError, ClosedHereError, DialError, LinkError
from edgehub.link import Link, LinkEvents, LinkFactory
from edgehub.module import EdgeHub
from edgehub.network.guard import WatchNetwork
from edgehub.outbox.store import OpenOutbox
from edgehub.outgoing import Outgoing
from edgehub.settings import EdgeHubSettings
from edgehub.tls import client_context
from edgehub.transport import ContextFactory
from edgehub.websocket import WebsocketLink, check


def install(
    hive: Hive,
    settings: EdgeHubSettings,
    *,
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
        certificates: settings of the node's certificate, which edgehub then fetches and renews; for `wss://` only.
            Without them, the system's trust applies.
        make_link: makes another kind of link, for tests and the simulation.
        wrap: wraps the factory of links, as `edgehub.recording` does.
        open_outbox: opens the outbox, which keeps messages over a restart; None keeps them in memory only.
        watch_network: opens the watch of this machine's network (`edgehub.network.netlink.Netlink`).

    Returns:
        The counters of the link.

    Raises:
        SettingsError: a websocket link cannot use the settings.
    """
    outgoing = Outgoing(settings.limits, settings.heartbeat)
    counters = LinkCounters(outgoing.usage_by_class)
    certificate_manager: CertificateManager | None = None
    if make_link is None:
        for each in _by_url(settings):
            check(each)
        make_link = _websockets(settings, hive, None if certificates is None else _context(certificates))
        if certificates is not None:
            certificate_manager = CertificateManager(certificates, hive.clock, counters, SubprocessIssuer())
            make_link = _certified(make_link, certificate_manager)
    hive.add(EdgeHub, settings, wrap(make_link), outgoing, counters, certificate_manager, open_outbox, watch_network)
    return counters


def _websockets(settings: EdgeHubSettings, hive: Hive, make_context: ContextFactory | None) -> LinkFactory:
    in_turn = cycle(_by_url(settings))
    return lambda: WebsocketLink(next(in_turn), hive.clock, make_context)


def _by_url(settings: EdgeHubSettings) -> list[EdgeHubSettings]:
    """Return the settings for each cloudcore."""
    return [msgspec.structs.replace(settings, url=url) for url in (settings.url, *settings.other_urls)]


def _certified(make_link: LinkFactory, certificates: CertificateManager) -> LinkFactory:
    return lambda: CertifiedLink(make_link, certificates)


def _context(certificates: CertificateSettings) -> ContextFactory:
    """Return a factory that reads the files for each connection, so that the next one uses a renewed certificate."""

    def make() -> "ssl.SSLContext":
        paths = certificates.paths
        return client_context(paths.authority, paths.certificate, paths.key)

    return make


class CertifiedLink(Link):
    """A link that obtains the node's certificate before it dials.

    So a missing certificate ends the link like any other failure: counted, logged, and retried after the back-off.

    Args:
        make_link: makes the link that dials with the certificate.
        certificates: manages the certificate.
    """

    def __init__(self, make_link: LinkFactory, certificates: CertificateManager) -> None:
        self._make_link = make_link
        self._certificates = certificates
        self._link: Link | None = None
        self._lock = threading.Lock()
        self._closed = False

    def run(self, events: LinkEvents) -> LinkError:
        try:
            self._certificates.ensure(lambda: not self._closed)
        except CertificateError as error:
            return ClosedHereError() if self._closed else error
        with self._lock:
            if self._closed:
                return ClosedHereError()
            link = self._link = self._make_link()
        return self._with_clock_error(link.run(events))

    def send(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.send(frame)

    def check(self) -> None:
        if self._link is not None:
            self._link.check()

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._certificates.cancel()
        if self._link is not None:
            self._link.close()

    def _with_clock_error(self, error: LinkError) -> LinkError:
        """Return a ClockError instead of a TLS failure, if this node's clock explains it."""
        if isinstance(error, DialError):
            try:
                self._certificates.check_clock()
            except CertificateError as better:
                return better
        return error
