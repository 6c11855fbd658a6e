"""The turns of clients whose questions go to other servers."""

from collections import OrderedDict, deque
from typing import Final, Generic, TypeVar

PLACES: Final = 32
"""Questions under way at a time."""
MOST_OF_CLIENT: Final = 64
"""Questions of one client that wait."""
MOST_WAITING: Final = 1024

T = TypeVar("T")


class AskingTurns(Generic[T]):
    """The turns of clients: whose question is asked next. For one thread.

    Clients take turns. A client may have fewer questions under way than places are free, so some are free for the next
    client however many ask slow names (dynamic thresholds, Choudhury and Hahne 1998).
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._number = 0
        self._under_way: dict[str, int] = {}
        self._free = PLACES

    def put(self, client: str, question: T) -> T | None:
        """Take a question; return the one that gives way to it, or itself, if too many wait."""
        of_client = self._waiting.setdefault(client, deque())
        if len(of_client) >= MOST_OF_CLIENT:
            return question
        of_client.append(question)
        self._number += 1
        if self._number <= MOST_WAITING:
            return None
        return self._pop(max(self._waiting, key=lambda each: len(self._waiting[each])), newest=True)

    def next(self) -> tuple[str, T] | None:
        """Begin a question: return its client and itself; None if no client may begin one."""
        for client in self._waiting if self._free else ():
            under_way = self._under_way.get(client, 0)
            if under_way < self._free:
                self._under_way[client] = under_way + 1
                self._free -= 1
                self._waiting.move_to_end(client)
                return client, self._pop(client)
        return None

    def end(self, client: str) -> None:
        """Note that a question of a client has ended."""
        self._free += 1
        self._under_way[client] -= 1
        if not self._under_way[client]:
            del self._under_way[client]

    def _pop(self, client: str, *, newest: bool = False) -> T:
        of_client = self._waiting[client]
        found = of_client.pop() if newest else of_client.popleft()
        self._number -= 1
        if not of_client:
            del self._waiting[client]
        return found
