"""The index of what pods refer to follows the objects, also back when a change has not taken place."""

from beehive.simulation import Simulation
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.authorization.graph import NodeGraph
from modules.cloud.storage.object_storage import ObjectEvent
from tests.modules.cloud.objects import pod

_SECRET = ObjectKey("Secret", "default", "key")


def test_a_change_that_is_undone_gives_no_right_and_takes_none() -> None:
    """A message whose handling fails leaves nothing behind: neither the right of a pod nor the end of one."""
    clock = Simulation().clock
    cluster = Cluster(clock)
    graph = NodeGraph(cluster.storage, clock)

    def noted() -> list[ObjectEvent]:
        events = list(cluster.storage.take_events())
        for event in events:
            graph.handle_event(event)
        return events[::-1]

    cluster.apply(pod(volumes=[{"name": "v", "secret": {"secretName": "key"}}]))
    made = noted()
    assert graph.refers("n1", _SECRET)
    cluster.delete(made[0].key, 0)
    deleted = noted()
    assert not graph.refers("n1", _SECRET)
    for event in deleted:
        graph.roll_back(event)
    assert graph.refers("n1", _SECRET)
    for event in made:
        graph.roll_back(event)
    assert not graph.refers("n1", _SECRET)
