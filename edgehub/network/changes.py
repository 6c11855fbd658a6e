"""What of the kernel's news is a change. The kernel repeats itself: each router advertisement renews addresses and
routes that are known already. What was there before one began to listen is not known: its end is a change.
"""

from collections.abc import Iterable
from typing import Final

from edgehub.network.messages import Address, DefaultRoute, Link, News

MOST: Final = 4096
"""Things that are remembered; then all is forgotten, which costs a check too many."""


class Changes:
    """Remembers what is known, and says what is new."""

    def __init__(self) -> None:
        self._links: dict[int, bool] = {}
        self._there: set[Address | DefaultRoute] = set()

    def take(self, news: Iterable[News]) -> str:
        """What has changed, for the log; empty when nothing has."""
        return ", ".join(dict.fromkeys(what for one in news if (what := self._taken(one))))

    def _taken(self, news: News) -> str:
        if len(self._links) + len(self._there) > MOST:
            self.__init__()  # type: ignore[misc]
        if isinstance(news, Link):
            return self._link(news)
        known = news._replace(there=True)
        if news.there and known in self._there:
            return ""
        (self._there.add if news.there else self._there.discard)(known)
        what = "an address" if isinstance(news, Address) else "the default route"
        return f"{what} has {'come' if news.there else 'gone'}"

    def _link(self, news: Link) -> str:
        before = self._links.get(news.device)
        self._links[news.device] = news.runs
        if before is news.runs:
            return ""
        return f"device {news.device} is {'up' if news.runs else 'down'}"
