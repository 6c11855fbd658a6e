"""The duties of several cloudcores: with a common database, and with a common cluster."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import kind_named
from modules.cloud.coordination.lease_settings import LeaseSettings
from modules.cloud.edgecontroller import module as edgecontroller_module
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.messages import CLOUDCORES_RESOURCE, RELEASE_LEASE
from modules.cloud.storage.object_sync import NodeState
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer
from tests.modules.cloud.edgecontroller.controller import Controller

Two = dict[str, Controller]


@pytest.fixture
def collects_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look for deleted nodes each 20 seconds: ten minutes of two that poll are long."""
    monkeypatch.setattr(edgecontroller_module, "_COLLECTION_PERIOD", 20.0)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    """Two on one database, by name, that know of each other; each has a virtual time of its own."""
    with ExitStack() as stack:
        made: Two = {}
        for number, name in enumerate("ab"):
            bee, path = stack.enter_context(Harness(number)), tmp_path / "cloud.db"
            made[name] = Controller(bee, database=(path, name), nodes=(), lease=LeaseSettings())
            stack.callback(made[name].close)
        go(made, 15.0)
        yield made


def go(two: Two, seconds: float) -> None:
    """Lets time pass for all, in steps."""
    for _ in range(int(seconds)):
        for each in two.values():
            each.bee.run_for(1.0)


def database_version(controller: Controller) -> int:
    """A version that a write to its database may have."""
    return controller.cluster.storage.next_version()


def stop(controller: Controller) -> None:
    """As the process does on SIGTERM."""
    released = controller.bee.message(CLOUDCORES_RESOURCE, RELEASE_LEASE, source="control")
    controller.bee.ask(EdgeController.name, released)


def test_each_knows_the_other_by_its_lease(two: Two) -> None:
    for name, each in two.items():
        assert each.cloudcores().own == name
        assert each.cloudcores().alive == ("a", "b")


def test_a_node_counts_for_the_cloudcore_that_it_connected_to_last(two: Two) -> None:
    two["a"].connected("n1")
    two["b"].connected("n1")
    go(two, 1.0)
    assert two["a"].cloudcores().nodes == two["b"].cloudcores().nodes == {"n1": "b"}


def test_a_cloudcore_that_has_given_up_its_lease_runs_no_controllers(two: Two) -> None:
    """The other one begins at once."""
    running = two["a"].bee.hive.slot(EdgeController.name).running
    module = None if running is None else running.ref._actor_weakref()
    assert isinstance(module, EdgeController)
    assert list(module._known.alive) == ["a", "b"]
    stop(two["a"])
    assert list(module._known.alive) == []


def test_a_cloudcore_that_stops_is_gone_for_the_other_before_its_lease_expires(two: Two) -> None:
    stop(two["a"])
    two["b"].bee.run_for(5.0)
    assert two["b"].cloudcores().alive == ("b",)


@pytest.mark.usefixtures("collects_often")
def test_the_state_of_a_node_that_is_gone_is_forgotten(two: Two) -> None:
    """As when it was deleted while no cloudcore ran. Either may forget it, whoever else has a Lease."""
    database = two["a"].database
    database.begin()
    for name in "xyz":
        database.put_node_state(f"ghost-{name}", NodeState("gone"))
    database.commit(database_version(two["a"]))
    two["b"].bee.run_for(45.0)
    database.begin()
    left = database.node_states()
    database.roll_back()
    assert left == {}


def test_a_single_cloudcore_has_all_duties_immediately() -> None:
    """It writes the Lease all the same: another one may come."""
    with Harness(1) as bee:
        server = ClusterServer(bee.clock)
        one = ClusterController(bee, server, lease=LeaseSettings())
        assert one.cloudcores().alive == ("cloudcore",)
        bee.run_for(100.0)
        (lease,) = server.cluster.storage.list(kind_named("Lease"))
        assert lease["spec"]["holderIdentity"] == "cloudcore"
