"""Finds the changes in the kernel's notifications. Pure."""

from collections.abc import Iterable
from typing import Final

from edgehub.network.messages import Address, DefaultRoute, InterfaceState, Notification

ANOTHER_DEVICE: Final = "another device"
"""A device without a default route in the text of a change: a machine with pods has many that come and go."""

MOST_REMEMBERED: Final = 4096
"""Remembered interfaces, addresses and routes; beyond, all are forgotten, which costs one needless check."""


class NetworkChanges:
    """Remembers interfaces, addresses and routes, and reports changes.

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

    def take(self, news: Iterable[Notification]) -> str:
        """Return the changes as text for the log; empty for none."""
        return ", ".join(dict.fromkeys(what for one in news if (what := self._taken(one))))

    def _taken(self, news: Notification) -> str:
        if len(self._links) + len(self._there) + len(self._routed) > MOST_REMEMBERED:
            self.__init__()  # type: ignore[misc]
        if isinstance(news, InterfaceState):
            return self._link(news)
        known = news._replace(there=True)
        if news.there and known in self._there:
            return ""
        (self._there.add if news.there else self._there.discard)(known)
        if isinstance(news, DefaultRoute):
            self._routed.add(news.device)
        what = "an address" if isinstance(news, Address) else "the default route"
        return f"{what} has {'come' if news.there else 'gone'}"

    def _link(self, news: InterfaceState) -> str:
        before = self._links.get(news.device)
        self._links[news.device] = news.runs
        if before is news.runs:
            return ""
        device = f"device {news.name or news.device}" if news.device in self._routed else ANOTHER_DEVICE
        return f"{device} is {'up' if news.runs else 'down'}"


def is_worth_a_line(changes: str) -> bool:
    """Return whether the text of changes tells of more than devices without a default route."""
    return any(not change.startswith(ANOTHER_DEVICE) for change in changes.split(", "))
