"""Which endpoint a client had last, for Services with `sessionAffinity: ClientIP`."""

import random
from collections import OrderedDict
from typing import Final

from modules.edge.edgemesh.tables import Address, PortTable

MOST_CLIENTS: Final = 65_535
"""Clients that are remembered, as many as in a set of the kernel's rules; the oldest are forgotten."""


class ClientAffinity:
    """The choice of endpoints: a client's last one if its Service wants so, else any.

    Args:
        choice: chooses among endpoints.
    """

    def __init__(self, choice: random.Random) -> None:
        self._choice = choice
        self._last: OrderedDict[tuple[str, str], tuple[Address, float]] = OrderedDict()

    def order(self, table: PortTable, client: str, now: float) -> list[Address]:
        """Return the endpoints in the order of the attempts for a client's address."""
        endpoints = list(table.inside.endpoints)
        self._choice.shuffle(endpoints)
        if table.affinity:
            endpoint, at = self._last.get((table.key, client), (None, 0.0))
            if endpoint in endpoints and now - at < table.affinity:
                endpoints.remove(endpoint)
                endpoints.insert(0, endpoint)
        return endpoints

    def record(self, table: PortTable, client: str, endpoint: Address, now: float) -> None:
        """Note which endpoint a client has got."""
        if table.affinity:
            self._last[table.key, client] = endpoint, now
            self._last.move_to_end((table.key, client))
            if len(self._last) > MOST_CLIENTS:
                self._last.popitem(last=False)
