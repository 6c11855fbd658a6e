"""Lives of workloads: ReplicaSets keep to maxSurge, nothing is doubled, completions are exact, all ends as wanted."""

import pytest

from beehive.simulation.scheduler import VirtualClock
from modules.apimachinery.kinds import ObjectKey
from modules.cloud.controllers import deployment
from modules.cloud.controllers.engine import Engine
from modules.cloud.controllers.plan import ReconcilePlan
from modules.cloud.storage.watch_history import ObjectChanged
from tests.modules.cloud.controllers.lives import Life
from tests.modules.cloud.controllers.site import Site, workload
from tests.support.slow import one_in

STEPS = 30


@pytest.mark.parametrize("seed", one_in(8, range(25)))
def test_the_invariants_hold(seed: int) -> None:
    Life(seed).live(STEPS)


def test_a_life_is_a_function_of_its_seed() -> None:
    def writes() -> list[str]:
        life = Life(3)
        life.live(5)
        return [str(call) for call in life.writes]

    assert writes() == writes()


def test_a_deletion_that_waits_for_a_silent_node_is_not_looked_at_without_end() -> None:
    """A rollout that is over its deadline, and is not told so any more: cloudcore was busy with it for days."""
    site = Site(nodes=("n1",))
    site.ready_after = lambda _: None
    site.apply(workload("Deployment", replicas=1, progressDeadlineSeconds=60))
    site.offline.add("n1")
    key = ObjectKey("Deployment", "default", "web")
    site.call("delete", key, options={"propagationPolicy": "Foreground"})
    late = site.clock.now() + 3600
    assert deployment.reconcile(site.engine.view, key, late).again_at is None


def test_a_time_that_is_over_is_not_now() -> None:
    looks = []

    def reconcile(_view: object, _key: ObjectKey, now: float) -> ReconcilePlan:
        looks.append(now)
        return ReconcilePlan(again_at=now)

    clock = VirtualClock(1)
    engine = Engine({"Node": reconcile}, lambda *_: None, clock, lambda: None)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "resourceVersion": "1"}}
    engine.handle(ObjectChanged("ADDED", node))
    assert engine.run() == clock.now() + 1.0
    assert looks == [clock.now()]
