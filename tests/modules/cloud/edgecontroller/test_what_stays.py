"""What edgecontroller keeps of nodes and objects that have gone: nothing."""

from itertools import count
from typing import Any

from beehive.simulation import Simulation
from beehive.testing import Harness
from modules.apimachinery.kinds import ObjectKey, uid_of, version_of
from modules.cloud.apiserver.cluster import Cluster
from modules.cloud.edgecontroller.module import EdgeController
from modules.cloud.edgecontroller.state.object_syncs import ObjectSyncs
from tests.modules.cloud.edgecontroller.controller import USES, Controller, lone_downstream
from tests.modules.cloud.objects import configmap, node, pod, secret
from tests.support.failing import left_by_repeating
from tests.support.presence import present


def _module(bee: Harness) -> EdgeController:
    module = present(bee.hive.slot(EdgeController.name).running).ref._actor_weakref()
    assert isinstance(module, EdgeController)
    return module


def test_a_node_that_comes_and_goes_leaves_nothing() -> None:
    """With pods that come, change and go, while it is there and while it is away, each of another name."""
    numbers = count()
    with Harness() as bee:
        controller = Controller(bee, nodes=())

        def cycle() -> None:
            number = next(numbers)
            name, pods = f"node-{number}", [f"pod-{number}-{letter}" for letter in "abc"]
            controller.apply({"kind": "Node", "apiVersion": "v1", **node(name)})
            controller.connected(name)
            controller.apply(configmap(), secret(), *(pod(each, nodeName=name, **USES) for each in pods))
            controller.asks("default/configmap/settings", "query", node_name=name)
            ready = {"UID": "", "Status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            controller.asks(f"default/nodestatus/{name}", "update", ready, name)
            bee.settle()
            for each in pods:
                live = controller.cluster.storage.get(ObjectKey("Pod", "default", each))
                controller.acknowledged(uid_of(live), int(version_of(live)), name)
            bee.settle()
            controller.remove("pod", pods[0], grace=0)
            controller.of_link("disconnected", controller.links, name, seconds=1.0)
            controller.remove("pod", pods[1], grace=0)
            controller.connected(name, seconds=30.0)
            controller.remove("pod", pods[2], grace=0)
            controller.remove("node", name)
            controller.of_link("disconnected", controller.links, name, seconds=30.0)
            for kind, each in (("cm", "settings"), ("secret", "key")):
                controller.remove(kind, each)
            bee.run_for(1500.0)
            bee.forget()

        assert not left_by_repeating(cycle, _module(bee))
        controller.close()


def test_a_disconnected_node_is_in_no_book() -> None:
    downstream = lone_downstream(Cluster(Simulation().clock).storage, ObjectSyncs(lambda _node, _uid, _sync: None))
    parts = (downstream, downstream.stale, downstream.unconfirmed)
    books: dict[str, Any] = {
        name: book for part in parts for name, book in vars(part).items() if isinstance(book, dict)
    }
    for book in books.values():
        book["n1"] = {}
    downstream.node_disconnected("n1")
    assert len(books) > 4
    assert not [name for name, book in books.items() if "n1" in book]
