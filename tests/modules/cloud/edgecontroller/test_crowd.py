"""edgecontroller with more nodes and objects than one turn may handle."""

import pytest

from beehive.testing import Harness
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.storage import transactions
from tests.modules.cloud.edgecontroller.controller import Controller
from tests.modules.cloud.objects import node, pod

RESENDING = "modules.cloud.edgecontroller.downstream.resending"


def resent(controller: Controller) -> set[str]:
    return {line for line in controller.down() if "/pod/" in line}


def test_resending_goes_through_all_nodes_in_portions_and_waits_while_inboxes_are_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A turn that sent all unacknowledged objects of 1,000 nodes again took 7.6 s, and made the inboxes longer."""
    monkeypatch.setattr(f"{RESENDING}._PORTION", 1)
    with Harness() as bee:
        nodes = ("n1", "n2", "n3")
        controller = Controller(bee, nodes=nodes)
        controller.apply(*(pod(f"web-{each}", nodeName=each) for each in nodes))
        assert len(resent(controller)) == 3
        monkeypatch.setattr(f"{RESENDING}._BUSY", -1)
        bee.run_for(60.0)
        assert resent(controller) == set()
        monkeypatch.setattr(f"{RESENDING}._BUSY", 256)
        bee.run_for(25.0)
        assert resent(controller) == {f"insert node/{each}/default/pod/web-{each}" for each in nodes}


def test_a_restarted_edgecontroller_takes_up_its_nodes_and_their_messages_in_portions_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connections of 1,000 nodes to a starting cloudcore were one turn of 29 s."""
    monkeypatch.setattr(EdgeController, "batch_limit", 1)
    with Harness() as bee:
        bee.expect_failures()
        nodes = ("n1", "n2", "n3")
        controller = Controller(bee, nodes=nodes)
        controller.apply(*(pod(f"web-{each}", nodeName=each) for each in nodes), pod("late", nodeName="n4"))
        controller.database_fails()
        controller.asks("null/node/n1", "insert", {"metadata": {"name": "n1"}})
        controller.down()
        controller.connected("n4")
        bee.run_for(5.0)
        assert bee.hive.restarts()[EdgeController.name] == 1
        sent = resent(controller)
        assert {f"insert node/{each}/default/pod/web-{each}" for each in nodes} <= sent
        assert "insert node/n4/default/pod/late" in sent


def test_a_transaction_ends_when_it_has_much_to_write_and_to_send_although_more_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its end took 0.25 s of processor time for what a crowd had acknowledged in 0.1 s: six thousand rows."""
    monkeypatch.setattr(transactions, "_MANY", 8)
    ends: list[tuple[int, int]] = []
    commit = transactions.Transactions.commit

    def counting(self: transactions.Transactions) -> None:
        ends.append((len(self._later), self._database.put_syncs))
        commit(self)

    with Harness() as bee:
        controller = Controller(bee, nodes=())
        nodes = [f"n{number}" for number in range(8)]
        edge = {"node-role.kubernetes.io/edge": ""}
        controller.apply(*({"kind": "Node", "apiVersion": "v1", **node(name, **edge)} for name in nodes))
        controller.apply(*(pod(f"{name}-{each}", nodeName=each) for each in nodes for name in "abc"))
        monkeypatch.setattr(transactions.Transactions, "commit", counting)
        for link, each in enumerate(nodes):
            controller.of_link("connected", link, each)
        bee.settle()
        assert len(resent(controller)) == 3 * len(nodes)
        assert max(ends) == (6, 6), "that of two nodes"
        ends.clear()
        controller.database.begin()
        uids = list(controller.database.object_syncs_of("n1"))
        controller.database.abandon()
        for version in range(1, 11):
            for uid in uids:
                controller.acknowledged(uid, version)
        bee.settle()
        assert max(ends) == (0, 8)
        assert sum(count for _, count in ends) == 30
