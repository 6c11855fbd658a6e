"""Finds the changes in the kernel's notifications. Pure."""

from collections.abc import Iterable
from typing import Final

import msgspec

from edgehub.network.messages import Address, DefaultRoute, InterfaceState, Notification

_ANOTHER: Final = "another "
"""Prefix of the text about a network device without a default route; a machine with pods has many such devices."""

MOST_REMEMBERED: Final = 4096
"""Remembered interfaces, addresses and routes; beyond, all are forgotten, which costs one needless check. As many
devices with a default route are remembered, and longer: each pod has a device.
"""


class NetworkChanges:
    """The state of interfaces, addresses and routes, which reports its changes.

    The kernel repeats itself: each router advertisement renews known addresses and routes. State from before the first
    notification is unknown, so its end counts as a change.

    Args:
        routed: indices of the devices that have a default route.
    """

    def __init__(self, routed: Iterable[int] = ()) -> None:
        self._routed = set(routed)
        """Devices that have, or had, a default route."""
        self._links: dict[int, bool] = {}
        self._there: set[Address | DefaultRoute] = set()

    def describe(self, news: Iterable[Notification]) -> str:
        """Return the changes as text for the log; empty without one."""
        return ", ".join(dict.fromkeys(what for one in news if (what := self._describe_one(one))))

    def _describe_one(self, news: Notification) -> str:
        if len(self._links) + len(self._there) > MOST_REMEMBERED:
            self._links.clear()
            self._there.clear()
        if len(self._routed) > MOST_REMEMBERED:
            self._routed.clear()
        if isinstance(news, InterfaceState):
            return self._link(news)
        known = msgspec.structs.replace(news, there=True)
        if news.there and known in self._there:
            return ""
        (self._there.add if news.there else self._there.discard)(known)
        if isinstance(news, DefaultRoute):
            self._routed.add(news.device)
            what = "the default route"
        else:
            what = "an address" if news.device in self._routed else f"{_ANOTHER}address"
        return f"{what} has {'come' if news.there else 'gone'}"

    def _link(self, news: InterfaceState) -> str:
        before = self._links.get(news.device)
        self._links[news.device] = news.runs
        if before is news.runs:
            return ""
        device = f"device {news.name or news.device}" if news.device in self._routed else f"{_ANOTHER}device"
        return f"{device} is {'up' if news.runs else 'down'}"


def worth_a_line(changes: str) -> str:
    """Return the changes in a text that are worth a log line: they do not concern devices without a default
    route.
    """
    return ", ".join(change for change in changes.split(", ") if not change.startswith(_ANOTHER))
