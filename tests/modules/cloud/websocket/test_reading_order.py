"""Which connections are served between two polls of the sockets."""

from typing import cast

from modules.cloud.websocket.connection import WebsocketConnection
from modules.cloud.websocket.reading_order import in_order


class Counted:
    """A connection as far as the order knows it, and the seconds that serving it takes."""

    def __init__(self, name: str, takes: float, seconds: float = 0.0) -> None:
        self.name = name
        self.takes = takes
        self.seconds = seconds


def served(*connections: Counted) -> list[str]:
    """The names in the order of service."""
    taken: list[float] = []
    names: list[str] = []
    ready = [(cast("WebsocketConnection", each), 1) for each in connections]
    for connection, _ in in_order(ready, lambda: sum(taken)):
        counted = cast("Counted", connection)
        names.append(counted.name)
        taken.append(counted.takes)
    return names


def test_connections_that_have_cost_little_are_served_first() -> None:
    hostile = [Counted(f"hostile-{number}", 0.04, 1.0 + number) for number in range(8)]
    node = Counted("node", 0.001)
    assert served(*hostile, node) == ["node", "hostile-0", "hostile-1"]
    assert [round(each.seconds, 3) for each in (*hostile[:3], node)] == [1.04, 2.04, 3.0, 0.001]


def test_one_costly_connection_is_served_each_time() -> None:
    assert served(Counted("hostile", 10.0, 5.0), Counted("another", 10.0, 6.0)) == ["hostile"]


def test_connections_that_cost_little_are_all_served() -> None:
    """However many they are: the time goes by for all of them."""
    assert len(served(*(Counted(str(number), 0.001) for number in range(1000)))) == 1000
