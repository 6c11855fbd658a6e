"""edged alone on the bus: the deletion of a pod that the store could not take, and so has the pod still."""

from typing import Any

from edged.pods import labels
from tests.edged.conftest import Bench, OpenEdged, pod


def run_twice(bench: Bench) -> None:
    """Let the pod's container run as number 0, and then as number 1."""
    bench.start(pod())
    bench.exit("main", 1, wait=30)
    assert attempts(bench) == {0: "dead", 1: "runs"}


def delete(bench: Bench, *, is_stored: bool) -> None:
    """Tell edged of the deletion, and let it carry that out."""
    source = "edgecontroller" if is_stored else "metamanager"
    bench.bee.send("edged", bench.bee.message("default/pod/web", "delete", pod(), source=source))
    bench.run(31)


def restart(bench: Bench) -> None:
    """Let edged's process begin again, with the pod in the store."""
    bench.meta.objects["default/pod/web"] = pod()
    bench.fail(wait=5)
    assert bench.bee.hive.restarts()["edged"] == 1


def attempts(bench: Bench) -> dict[int, str]:
    """The containers by their numbers."""
    running: list[Any] = bench.running()
    newest = max((c.metadata.attempt for c in bench.runtime.containers.values()), default=-1)
    return {
        c.metadata.attempt: "runs" if running and c.metadata.attempt == newest else "dead"
        for c in bench.runtime.containers.values()
    }


def test_the_pod_ends_and_its_last_container_stays_until_the_deletion_is_stored(bench: Bench) -> None:
    """Its files go immediately, for they may fill the disk; its end is final, so that the container may go for room."""
    run_twice(bench)
    delete(bench, is_stored=False)
    assert attempts(bench) == {1: "dead"}
    assert not list(bench.settings.root.glob("pods/*"))
    assert [one.status.phase for one in bench.snapshots.pods] == ["Failed"]
    assert OpenEdged.started[-1].assembly.pods.unterminated_pods() == []
    delete(bench, is_stored=False)
    assert attempts(bench) == {1: "dead"}
    delete(bench, is_stored=True)
    assert not bench.runtime.containers
    assert not bench.runtime.sandboxes
    assert bench.snapshots.pods == ()


def test_an_agent_that_finds_the_pod_in_the_store_goes_on_counting(bench: Bench) -> None:
    """For the moment until the cloud sends the deletion again."""
    run_twice(bench)
    delete(bench, is_stored=False)
    restart(bench)
    assert attempts(bench) == {1: "dead", 2: "runs"}


def test_a_pod_that_the_cloud_has_after_all_goes_on_counting(bench: Bench) -> None:
    """Its API server was restored, and the store had not lost it."""
    run_twice(bench)
    delete(bench, is_stored=False)
    bench.tell("update", pod(metadata={"resourceVersion": "9"}), wait=30)
    assert attempts(bench) == {1: "dead", 2: "runs"}
    delete(bench, is_stored=True)
    assert not bench.runtime.containers


def test_it_does_not_end_before_the_store_is_listed(bench: Bench) -> None:
    """What the store has is believed: the pod runs until the deletion comes again, and no orphan is removed."""
    bench.meta.objects["default/pod/web"] = pod()
    bench.silent.add("null/pod")
    bench.start()
    delete(bench, is_stored=False)
    bench.silent.clear()
    assert bench.running(after=90) == ["main"]
    delete(bench, is_stored=True)
    assert not bench.runtime.containers
    assert bench.bee.hive.restarts()["edged"] == 0


def test_a_successor_that_ends_immediately_and_is_not_stored_has_not_taken_its_place(bench: Bench) -> None:
    """The store has the old pod still (simulation, seed 605); a stored one takes it."""
    run_twice(bench)
    delete(bench, is_stored=False)
    ending = {"uid": "uid-next", "resourceVersion": "5", "deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}
    message = bench.bee.message("default/pod/web", "update", pod(metadata=ending), source="metamanager")
    bench.bee.send("edged", message)
    bench.run(5)
    assert attempts(bench) == {1: "dead"}
    assert bench.meta.deletions == ["default/pod/web"]
    bench.tell("insert", pod(metadata={"uid": "uid-third", "resourceVersion": "7"}))
    assert bench.running() == ["main"]
    assert {c.labels[labels.POD_UID] for c in bench.runtime.containers.values()} == {"uid-third"}
