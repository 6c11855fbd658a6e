"""Finds the changes in the kernel's notifications. Pure."""

from collections.abc import Iterable
from typing import Final

from edgehub.network.messages import Address, DefaultRoute, InterfaceState, Notification

MOST_REMEMBERED: Final = 4096
"""Remembered interfaces, addresses and routes; beyond, all are forgotten, which costs one needless check."""


class NetworkChanges:
    """Remembers interfaces, addresses and routes, and reports changes.

    The kernel repeats itself: each router advertisement renews known addresses and routes. State from before the first
    notification is unknown, so its end counts as a change.
    """

    def __init__(self) -> None:
        self._links: dict[int, bool] = {}
        self._there: set[Address | DefaultRoute] = set()

    def take(self, news: Iterable[Notification]) -> str:
        """Return the changes as text for the log; empty for none."""
        return ", ".join(dict.fromkeys(what for one in news if (what := self._taken(one))))

    def _taken(self, news: Notification) -> str:
        if len(self._links) + len(self._there) > MOST_REMEMBERED:
            self.__init__()  # type: ignore[misc]
        if isinstance(news, InterfaceState):
            return self._link(news)
        known = news._replace(there=True)
        if news.there and known in self._there:
            return ""
        (self._there.add if news.there else self._there.discard)(known)
        what = "an address" if isinstance(news, Address) else "the default route"
        return f"{what} has {'come' if news.there else 'gone'}"

    def _link(self, news: InterfaceState) -> str:
        before = self._links.get(news.device)
        self._links[news.device] = news.runs
        if before is news.runs:
            return ""
        return f"device {news.device} is {'up' if news.runs else 'down'}"
