"""Which nodes are connected, in whatever order the beginnings and ends of their connections come."""

import pytest

from beehive.delivery import OverflowPolicy
from beehive.module import Module
from beehive.names import ModuleName, Operation
from beehive.testing import Harness
from modules.cloud.connected_nodes import ConnectedNodes
from modules.cloud.devicecontroller.module import DeviceController
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.messages import ConnectEvent
from modules.cloud.router.module import CloudRouter
from modules.cloud.taskmanager.module import CloudTaskManager


@pytest.mark.parametrize(
    ("told", "is_connected"),
    [
        ("+a", True),
        ("+a -a", False),
        ("+a -a +b", True),
        ("+b -a", True),
        ("-a +a", False),
        ("-a +a +b", True),
        ("-a +b", True),
        ("-a +b -b", False),
        ("+a -b +b", False),
    ],
)
def test_a_node_is_connected_if_the_end_of_its_last_connection_has_not_come(
    bee: Harness, told: str, *, is_connected: bool
) -> None:
    connected = ConnectedNodes()
    for one in told.split():
        connection = one[1:]
        if one.startswith("+"):
            connected.begin("n1", connection)
        else:
            connected.end(bee.message("node/n1", "disconnected", ConnectEvent("disconnected", 0, "n1", connection)))
    assert ("n1" in connected.nodes) is is_connected


@pytest.mark.parametrize("module", [EdgeController, DeviceController, CloudRouter, CloudTaskManager])
@pytest.mark.parametrize("operation", [Operation.CONNECTED, Operation.DISCONNECTED])
def test_the_connections_of_a_crowd_wait_without_becoming_dead_letters(
    bee: Harness, module: type[Module], operation: Operation
) -> None:
    """Nobody learned that a node was connected, when 2,048 waited for a busy module, or one for five seconds."""
    message = bee.message("node/n1", operation, source=ModuleName.CLOUDHUB)
    handler = module.handlers.find(message)
    assert handler is not None
    assert handler.overflow is OverflowPolicy.STATE
