"""What a node that registers is sent: all that its process has not had yet, once."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import pytest

from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, uid_of, version_of
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer, FakeExchange
from tests.modules.cloud.edgecontroller.controller import WEB
from tests.modules.cloud.objects import node, pod

INSERT = "insert node/n1/default/pod/web"
NODE = "update node/n1/null/node/n1"


@pytest.fixture
def core() -> Iterator[ClusterController]:
    """With n1, which is connected and not registered, and its pod."""
    with Harness() as bee:
        made = ClusterController(bee)
        made.server.apply(pod())
        bee.settle()
        yield made


def registers(core: ClusterController) -> None:
    """As a process does when it starts, and again when it has no answer for a minute."""
    core.asks("null/node/n1", "insert", node())
    core.bee.settle()


def acknowledge(core: ClusterController) -> None:
    """The node acknowledges its pod and its Node."""
    for key in (WEB, ObjectKey("Node", "", "n1")):
        live = core.server.cluster.storage.find(key)
        if live is not None:
            core.acknowledged(uid_of(live), int(version_of(live)))
    core.down()


def test_a_process_that_registers_again_and_again_is_sent_each_object_once(core: ClusterController) -> None:
    """5,000 nodes that waited longer than a minute were sent 278,000 pods in place of 100,000."""
    for _ in range(3):
        registers(core)
    assert sorted(core.down()) == [INSERT, NODE]
    acknowledge(core)
    for _ in range(3):
        registers(core)
    assert core.down() == []
    core.removed("pods", "web")
    assert core.down()[-1] == "delete node/n1/default/pod/web"
    registers(core)
    assert core.down() == [], "the deletion is under way"


def test_a_registration_is_answered_before_the_objects_are_sent(core: ClusterController) -> None:
    """The process waits for the answer, and has no Node before it."""
    acknowledge(core)
    core.connected()
    core.down()
    request = core.asks("null/node/n1", "insert", node())
    sent = [(message.parent_id == request.id, message.route.resource) for message in core.bee.sent_to("cloudhub")]
    answer = sent.index((True, "node/n1/null/node/n1"))
    assert answer < sent.index((False, "node/n1/default/pod/web"))


def test_a_process_over_another_connection_is_sent_all_again(core: ClusterController) -> None:
    """Its store may be a new one, although the earlier process has acknowledged all."""
    registers(core)
    acknowledge(core)
    core.connected()
    assert core.down() == [], "it may be the same process"
    registers(core)
    assert sorted(core.down()) == [INSERT, NODE]


def test_unacknowledged_objects_of_an_earlier_process_are_sent_again(core: ClusterController) -> None:
    registers(core)
    core.down()
    core.connected()
    registers(core)
    assert sorted(core.down()) == [INSERT, NODE]


def test_a_registration_that_was_answered_after_the_next_connection_began_counts_for_nothing_later(
    core: ClusterController,
) -> None:
    """The process of the new connection registers itself, and is sent all that it was not sent over it."""
    registers(core)
    acknowledge(core)
    core.server.hold("nodes")
    registers(core)
    core.connected()
    core.server.release()
    core.bee.settle()
    registers(core)
    assert sorted(core.down()) == [INSERT, NODE]


def test_a_node_that_was_made_again_gets_its_pods_although_its_process_had_them(core: ClusterController) -> None:
    registers(core)
    acknowledge(core)
    core.removed("nodes", "n1")
    core.down()
    registers(core)
    assert sorted(core.down()) == [INSERT, NODE]


def test_so_does_a_node_that_registers_before_the_watch_has_its_deletion(core: ClusterController) -> None:
    registers(core)
    acknowledge(core)
    watches = core.server.hold_watches()
    core.server.remove("nodes", "n1")
    registers(core)
    assert core.down() == []
    core.server.go_on(watches)
    assert INSERT in core.down()
    core.removed("pods", "web")
    assert "delete node/n1/default/pod/web" in core.down()


@pytest.mark.parametrize("order", [*permutations(("watch", "claim", "answer"))], ids="-".join)
def test_a_node_is_sent_its_node_object_in_whatever_order_its_claim_and_its_registration_end(
    order: tuple[str, ...],
) -> None:
    """The watch reports the new Node, the claim of the connection ends, and the API server answers the registration."""
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        server.apply(pod())
        core = ClusterController(bee, server, nodes=())
        bee.settle()
        core.of_link("connected", 1)
        server.hold("pods")  # of this node: the claim waits for them
        bee.settle()
        created: list[Callable[[], None]] = []

        def create(exchange: FakeExchange) -> None:
            result = server.call(exchange.call)
            created.append(partial(exchange.answer, 201, result.object))

        server.answers["nodes"] = create
        watches = server.hold_watches()
        core.asks("null/node/n1", "insert", node())
        bee.settle()
        steps = {"watch": lambda: server.go_on(watches), "claim": server.release, "answer": created[0]}
        for step in order:
            steps[step]()
            bee.settle()
        assert {INSERT, NODE} <= set(core.down())
