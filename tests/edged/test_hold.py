"""edged alone on the bus: pods that wait until the owner of the node releases them."""

import pytest

from beehive import ModuleName
from beehive.names import Operation
from edged.pods.hold import ANNOTATION, OWNER, RESOURCE, Release, Released
from tests.edged.conftest import Bench, OpenEdged, pod

HELD = {"annotations": {ANNOTATION: "true"}}


def release(bench: Bench, namespace: str = "", name: str = "") -> Released:
    """Release pods as the owner of the node."""
    asked = bench.bee.message(RESOURCE, Operation.UNHOLD_UPGRADE, Release(namespace, name), source=OWNER)
    return bench.bee.ask(ModuleName.EDGED, asked).content_as(Released)


def conditions(bench: Bench, name: str) -> dict[str, str]:
    """The conditions of a pod as the node shows them."""
    [found] = [each for each in bench.snapshots.pods if each.metadata.name == name]
    return {each.type: each.status for each in found.status.conditions}


def test_a_pod_waits_until_it_is_released(bench: Bench) -> None:
    """Pending with KubeEdge's condition; then it runs, and the condition says so."""
    bench.start(pod("web", metadata=HELD), wait=600)
    assert not bench.runtime.sandboxes
    assert conditions(bench, "web")["HeldUpgrade"] == "True"
    [reported] = bench.meta.statuses("web")
    [told] = [each for each in reported["conditions"] if each["type"] == "HeldUpgrade"]
    assert (told["status"], told["reason"]) == ("True", "HoldUpgradeEnabled")
    bench.tell("update", pod("web", metadata={**HELD, "labels": {"a": "b"}, "resourceVersion": "2"}), wait=60)
    assert not bench.runtime.sandboxes
    assert release(bench, "default", "other") == Released([], is_known=False)
    assert release(bench, "default", "web") == Released(["default/web"])
    assert release(bench, "default", "web") == Released([])
    assert bench.running(after=10) == ["main"]
    assert conditions(bench, "web")["HeldUpgrade"] == "False"
    assert bench.meta.phases("web")[-1] == "Running"


def test_all_pods_are_released_together(bench: Bench) -> None:
    bench.start()
    for name in ("a", "b"):
        bench.tell("insert", pod(name, metadata=HELD))
    bench.tell("insert", pod("c"), wait=60)
    assert bench.running() == ["main"]
    assert sorted(release(bench).pods) == ["default/a", "default/b"]
    assert bench.running(after=60) == ["main"] * 3


@pytest.mark.parametrize("way", ["the annotation goes", "it is deleted"])
def test_a_pod_that_waits_follows_the_cloud(bench: Bench, way: str) -> None:
    bench.start(pod("web", metadata=HELD))
    if way == "the annotation goes":
        bench.tell("update", pod("web", metadata={"resourceVersion": "2"}), wait=60)
        assert bench.running() == ["main"]
        return
    going = {**HELD, "deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30}
    bench.tell("update", pod("web", metadata={**going, "resourceVersion": "2"}), wait=60)
    assert bench.meta.deletions == ["default/pod/web"]
    bench.tell("delete", pod("web", metadata=going), wait=60)
    assert bench.snapshots.pods == ()
    assert not bench.runtime.sandboxes


def test_a_pod_that_has_begun_is_never_held_again(bench: Bench) -> None:
    """Neither after a restart of edged, whose store still has it as Pending, nor while its containers are replaced."""
    bench.start(pod("web", metadata=HELD), wait=10)
    release(bench)
    bench.run(10)
    bench.meta.objects["default/pod/web"] = pod("web", metadata=HELD)
    sandboxes = set(bench.runtime.sandboxes)
    bench.snapshots.fails = True
    bench.exit("main", 1, wait=120)
    assert len(OpenEdged.started) > 1
    assert set(bench.runtime.sandboxes) == sandboxes
    assert bench.running() == ["main"]
    assert release(bench) == Released([])


def test_a_pod_that_waits_waits_on_after_a_restart(bench: Bench) -> None:
    bench.meta.objects["default/pod/web"] = pod("web", metadata=HELD)
    bench.start(wait=60)
    assert not bench.runtime.sandboxes
    assert release(bench) == Released(["default/web"])
