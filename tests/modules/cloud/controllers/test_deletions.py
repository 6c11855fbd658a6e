"""Workloads that are deleted, or delete themselves: the API server's garbage collector works on."""

import pytest

from modules.apimachinery.kinds import ObjectKey, is_being_deleted
from modules.apimachinery.pods.objects import node_of
from tests.modules.cloud.controllers.lives import DAEMON, JOB, Life
from tests.modules.cloud.controllers.site import new_image, workload


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_pod_of_a_deleted_daemon_set_waits_for_its_node(policy: str) -> None:
    life = Life(0)
    life.apply(workload("DaemonSet", "each"), seconds=60)
    life.fall_silent("n1")
    life.call("delete", DAEMON, options={"propagationPolicy": policy}, seconds=100000)
    (left,) = life.all("Pod")
    assert (node_of(left), is_being_deleted(left)) == ("n1", True)
    life.come_back("n1", seconds=10)
    assert life.all("Pod") == life.all("DaemonSet") == []


@pytest.mark.parametrize("seed", range(4))
def test_deleted_objects_are_not_deleted_again(seed: int) -> None:
    """The answer to a deletion has no version for which the view could be awaited."""
    life = Life(seed)
    life.apply(workload("Deployment", replicas=1, revisionHistoryLimit=0))
    for image in ("app:2", "app:3"):
        life.run_for(30)
        life.patch(ObjectKey("Deployment", "default", "web"), new_image(image))
    life.run_for(30)
    assert len(life.all("ReplicaSet")) == 1
    assert sum(call.verb == "delete" and call.plural == "replicasets" for call in life.writes) == 2


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
@pytest.mark.parametrize("seed", range(4))
def test_no_pod_of_a_deleted_job_keeps_its_finalizer(seed: int, policy: str) -> None:
    life = Life(seed)
    life.apply(workload("Job", "sum", completions=3, parallelism=3), seconds=2)
    life.report(life.pods("sum")[0], "Succeeded", containerStatuses=[{"name": "main"}])
    life.call("delete", JOB, options={"propagationPolicy": policy}, seconds=60)
    assert life.all("Pod") == life.all("Job") == []


def test_a_job_without_a_time_to_live_goes_with_its_pods_when_it_ends() -> None:
    life = Life(0)
    life.apply(workload("Job", "sum", ttlSecondsAfterFinished=0), seconds=2)
    life.report(life.pods("sum")[0], "Succeeded", containerStatuses=[{"name": "main"}], seconds=10)
    assert life.all("Pod") == life.all("Job") == []
