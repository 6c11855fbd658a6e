"""Versions of objects that are no numbers."""

import pytest

from beehive.testing import Harness
from modules.cloud.edgecontroller.state.epochs import Epochs
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs, number_of
from tests.modules.cloud.edgecontroller.cluster_server import ClusterController, ClusterServer, FakeExchange
from tests.modules.cloud.edgecontroller.controller import WEB
from tests.modules.cloud.objects import in_memory_states, pod


@pytest.mark.parametrize(
    ("version", "number"), [("7", 7), ("0", 0), ("", 0), ("abc", 0), ("-1", 0), ("٣", 0), ("9" * 19, 0), ("1.5", 0)]
)
def test_a_version_that_is_no_number_counts_as_none(version: str, number: int) -> None:
    assert number_of(version) == number


def test_no_version_of_a_node_is_an_opaque_one() -> None:
    syncs = ObjectSyncs(lambda _node, _uid, _sync: None)
    syncs.node_connected("n1", {})
    assert not syncs.is_needed("n1", "u1", number_of("abc"))
    syncs.sending("n1", "u1", WEB)
    assert not syncs.is_needed("n1", "u1", number_of("abc"))
    assert syncs.is_needed("n1", "u1", 7)


def test_an_object_with_an_opaque_version_is_not_sent_and_the_others_are() -> None:
    """Each look at what the node has not acknowledged failed at it, and so no object was ever sent again."""
    with Harness() as bee:
        server = ClusterServer(bee.clock)
        odd = {**pod("odd"), "metadata": {"name": "odd", "namespace": "default", "uid": "u1", "resourceVersion": "x"}}
        good = {**pod(), "metadata": {"name": "web", "namespace": "default", "uid": "u2", "resourceVersion": "5"}}
        content = {"metadata": {"resourceVersion": "9"}, "items": [odd, good]}

        def answer(exchange: FakeExchange) -> None:
            if exchange.request.stream:
                exchange.head()
            else:
                exchange.answer(200, content)

        server.answers["pods"] = answer
        core = ClusterController(bee, server)
        assert core.down() == ["insert node/n1/default/pod/web"]
        bee.run_for(25.0)
        assert set(core.down()) == {"insert node/n1/default/pod/web"}, "again, as it is not acknowledged"


def test_a_list_with_an_opaque_version_begins_no_epoch() -> None:
    """Nor does it make a later list with a number do so, unless that went back."""
    database = in_memory_states()
    ended: list[int] = []
    epochs = Epochs(database, lambda: ended.append(epochs.number))
    database.begin()
    assert not epochs.listed("x")
    assert not epochs.listed("100")
    epochs.record(120)
    assert [epochs.listed(each) for each in ("x", "", "120", "x")] == [False] * 4
    assert not ended
    assert epochs.listed("119")
    assert ended == [1]
    database.close()
