"""Putting edgehub together: what a process calls."""

from collections.abc import Callable

from beehive import Hive
from edgehub.counters import LinkCounters
from edgehub.link import LinkFactory
from edgehub.module import EdgeHub
from edgehub.outgoing import Outgoing
from edgehub.settings import EdgeHubSettings
from edgehub.transport import ContextFactory
from edgehub.websocket import WebsocketLink, check


def install(
    hive: Hive,
    settings: EdgeHubSettings,
    *,
    make_context: ContextFactory | None = None,
    make_link: LinkFactory | None = None,
    wrap: Callable[[LinkFactory], LinkFactory] = lambda make: make,
) -> LinkCounters:
    """Add edgehub to a hive.

    Args:
        hive: not started yet.
        settings: of the link.
        make_context: makes the TLS context of each connection (`edgehub.tls.client_context`); only for `wss://`. The
            system's trust is used without it.
        make_link: makes another kind of link, as tests and the simulation do.
        wrap: makes links that observe those, as `edgehub.recording` does.

    Returns:
        What the link counts; `edgehub.metrics` exports it.

    Raises:
        SettingsError: no websocket link can be made of the settings.
    """
    counters = LinkCounters()
    outgoing = Outgoing(settings.outgoing_messages, settings.outgoing_bytes)
    if make_link is None:
        check(settings)

        def make_link() -> WebsocketLink:
            return WebsocketLink(settings, hive.clock, make_context)

    hive.add(EdgeHub, settings, wrap(make_link), outgoing, counters)
    return counters
