"""What holds of a watch between the API server's thread and its client's, in whatever order these run."""

from unittest.mock import patch

import pytest

from beehive.inbox import Inbox
from beehive.runtime import Threads
from beehive.simulation import Simulation
from modules.apimachinery.kinds import kind_called
from modules.cloud.apiserver import embedded_kube_api
from modules.cloud.apiserver.endpoints.subscriptions import Subscriptions
from modules.cloud.client.reflector.observations import ObservedEvent
from modules.cloud.client.reflector.selection import Selection, WatchRequest
from modules.cloud.storage.watch_history import ObjectChanged, WatchStart
from tests.modules.cloud.objects import configmap
from tests.support.interleaving import SEEDS, Interleaving, explore

NAMES = ["0", "1"]


@pytest.mark.parametrize("seed", SEEDS)
def test_each_change_is_taken_in_order_and_none_is_left_behind(seed: int) -> None:
    """Also of more changes than are taken together."""
    metadata = [{"name": name, "namespace": "default", "resourceVersion": "2"} for name in NAMES]
    changes = [ObjectChanged("ADDED", {**configmap(), "metadata": each}) for each in metadata]
    request = WatchRequest(Selection(kind=kind_called("configmap")), "1", 300)

    def scenario(threads: Interleaving) -> None:
        inbox, found = Inbox(Threads(threads.clock)), list[str]()
        watch = embedded_kube_api._Watch(
            request, Subscriptions(), Simulation(0).clock, lambda: inbox.put_urgent(None)
        )  # fmt: skip
        watch.started(WatchStart(version=1))

        def publish() -> None:
            for change in changes:
                watch.put(change)

        def take() -> None:
            while len(found) < len(NAMES):
                inbox.get()
                for each in watch.receive():
                    assert isinstance(each, ObservedEvent)
                    assert each.object is not None
                    found.append(each.object.name)

        threads.run(publish, take)
        watch.cancel()
        assert found == NAMES

    with patch.object(embedded_kube_api, "_AT_ONCE", 1):
        explore(scenario, embedded_kube_api, single=60, seed=seed)
