"""Two edgecontrollers that share a database, each with a hive and a virtual time of its own: the test says whose turn
it is.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from beehive.testing import Harness
from modules.cloud.storage.object_sync import ObjectSync
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.objects import node, pod

Two = tuple[Controller, Controller]


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Two]:
    """Without a connected node."""
    with ExitStack() as stack:
        made = []
        for number, name in enumerate("ab"):
            bee = Harness(number)
            made.append(Controller(stack.enter_context(bee), database=(tmp_path / "cloud.db", name), nodes=()))
            stack.callback(made[-1].close)
        yield made[0], made[1]


def looks(controller: Controller) -> None:
    """It takes over what the other has changed."""
    controller.bee.run_for(1.0)


def leaves(controller: Controller) -> None:
    controller.of_link("disconnected", controller.links)
    controller.down()


def test_versions_of_a_node_since_it_was_made_again_are_not_forgotten_by_the_others(two: Two) -> None:
    """The other sees in one transaction that the node has gone and that there is one again."""
    one, other = two
    one.connected()
    one.asks("null/node/n1", "insert", node())
    looks(other)
    one.remove("node", "n1")
    leaves(one)
    one.connected()
    one.asks("null/node/n1", "insert", node())
    one.apply(pod())
    looks(other)
    leaves(one)
    one.remove("pod", "web", grace=0)
    other.connected()
    looks(other)
    assert "delete node/n1/default/pod/web" in other.down()


def test_a_node_that_is_deleted_elsewhere_has_nothing_for_the_cloudcore_that_it_is_connected_to(two: Two) -> None:
    one, other = two
    one.connected()
    one.asks("null/node/n1", "insert", node())
    one.apply(pod())
    looks(other)
    other.remove("node", "n1")
    one.down()
    looks(one)
    assert one.down() == ["delete node/n1/null/node/n1"]
    assert syncs_in(one) == {}


def test_a_node_that_has_connected_elsewhere_is_left(two: Two) -> None:
    """The API server notices the change, and tells edgecontroller."""
    one, other = two
    one.connected()
    looks(other)
    other.connected()
    assert one.down() == []
    looks(one)
    assert one.down() == ["disconnected node/n1"]


def syncs_in(controller: Controller) -> dict[str, ObjectSync]:
    """What n1 has, by the database."""
    controller.database.begin()
    found = controller.database.object_syncs_of("n1")
    controller.database.commit(0)
    return found


def test_a_connection_whose_turn_was_lost_is_newer_than_the_written_ones(two: Two) -> None:
    """The node was told to go to where it had come from."""
    one, other = two
    one.bee.expect_failures()
    other.connected()
    one.database_fails()
    one.connected(seconds=5.0)
    assert one.bee.hive.restarts()["edgecontroller"] == 1
    assert one.down() == []
    looks(other)
    assert other.down() == ["disconnected node/n1"]
    assert list(one.database.connected) == ["n1"]


@pytest.mark.parametrize("loses", ["transaction", "answer"])
@pytest.mark.parametrize(("later", "has_left"), [(120, True), (5, True), (0, True), (-5, False)])
def test_a_lost_claim_is_made_again_only_for_a_node_that_has_not_left(
    two: Two, later: int, loses: str, *, has_left: bool
) -> None:
    """The node's connection to the other cloudcore, which is healthy, was ended once. An older connection, of which
    the other has been late to tell, does not count.
    """
    former, other = two
    former.bee.expect_failures()
    now = int(former.bee.clock.now())
    former.database_fails(loses_answer=loses == "answer")
    former.of_link("connected", 1, at=now)
    former.bee.settle()
    other.of_link("connected", 1, at=now + later)
    looks(other)
    former.bee.run_for(140.0)
    looks(other)
    assert former.bee.hive.restarts()["edgecontroller"] == 1
    assert ("disconnected node/n1" in former.down()) is has_left
    assert ("disconnected node/n1" in other.down()) is not has_left
    holder = other if has_left else former
    assert other.cloudcores("n1").nodes == {"n1": holder.database.cloudcore}
    assert [list(each.database.connected) for each in (former, other)] == ([[], ["n1"]] if has_left else [["n1"], []])
    assert former.database.unclaimed == other.database.unclaimed == {}


@pytest.mark.parametrize(("later", "claims"), [(5, False), (-5, True), (3600, True)])
def test_a_slow_cloudcore_does_not_claim_a_node_that_has_connected_elsewhere_since(
    two: Two, later: int, claims: bool
) -> None:
    """A connection that seems to be an hour newer is one of a cloudcore with a wrong clock."""
    fast, slow = two
    now = int(slow.bee.clock.now())
    fast.of_link("connected", 1, at=now + later)
    looks(fast)
    looks(slow)
    slow.of_link("connected", 1, at=now)
    looks(slow)
    looks(fast)
    assert ("disconnected node/n1" in slow.down()) is not claims
    assert ("disconnected node/n1" in fast.down()) is claims
    slow.of_link("connected", 2, at=now + 10 + later)
    looks(slow)
    assert slow.cloudcores("n1").nodes == {"n1": slow.database.cloudcore}
