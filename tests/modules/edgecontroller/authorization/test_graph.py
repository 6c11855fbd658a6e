"""The index of what pods refer to follows the objects, also back when a change has not taken place."""

from beehive.simulation import Simulation
from modules.edgecontroller.authorization.graph import Graph
from modules.edgecontroller.cluster import Cluster
from modules.edgecontroller.kinds import ObjectKey
from modules.edgecontroller.store import ObjectEvent
from tests.modules.edgecontroller.objects import pod

_SECRET = ObjectKey("Secret", "default", "key")


def test_a_change_that_is_undone_gives_no_right_and_takes_none() -> None:
    """A message whose handling fails leaves nothing behind: neither the right of a pod nor the end of one."""
    cluster = Cluster(Simulation().clock)
    graph = Graph(cluster.store)

    def noted() -> list[ObjectEvent]:
        events = list(cluster.store.take_events())
        for event in events:
            graph.changed(event)
        return events[::-1]

    cluster.apply(pod(volumes=[{"name": "v", "secret": {"secretName": "key"}}]))
    made = noted()
    assert graph.refers("n1", _SECRET)
    cluster.delete(made[0].key, 0)
    deleted = noted()
    assert not graph.refers("n1", _SECRET)
    for event in deleted:
        graph.undone(event)
    assert graph.refers("n1", _SECRET)
    for event in made:
        graph.undone(event)
    assert not graph.refers("n1", _SECRET)
