"""edged alone on the bus: how pods end that are deleted, in virtual time, on a runtime in memory."""

import pytest

from tests.edged.conftest import Bench, OpenEdged, pod, unavailable
from tests.support.memories import memories_of


def test_deletion_stops_with_grace_reports_the_end_and_asks_the_cloud_to_forget_the_pod(bench: Bench) -> None:
    bench.start(pod())
    bench.runtime.obeys = 2.0
    going = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30, "resourceVersion": "2"}
    bench.tell("update", pod(metadata=going), wait=1)
    assert bench.running() == ["main"]
    assert bench.running(after=1.5) == []
    assert bench.meta.phases("web")[-1] == "Succeeded"
    assert bench.meta.deletions == ["default/pod/web"]
    bench.tell("delete", pod(metadata=going), wait=1)
    assert not bench.runtime.sandboxes
    assert not bench.runtime.containers
    assert not list(bench.settings.root.glob("pods/*"))
    assert bench.snapshots.pods == ()


def test_a_pod_that_ends_has_one_more_status(bench: Bench) -> None:
    """No status tells the generation of the deletion alone, or that all containers have ended, before the last one."""
    bench.start(pod(metadata={"generation": 1}))
    before = len(bench.meta.statuses("web"))
    bench.runtime.obeys = 2.0
    going = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30, "resourceVersion": "2"}
    bench.tell("update", pod(metadata={**going, "generation": 2}), wait=3)
    [last] = bench.meta.statuses("web")[before:]
    assert last["phase"] == "Succeeded"
    assert last["observedGeneration"] == 2
    assert bench.meta.deletions == ["default/pod/web"]


def test_the_generation_of_a_deletion_is_told_while_the_pod_takes_its_time(bench: Bench) -> None:
    bench.start(pod(metadata={"generation": 1}))
    bench.runtime.obeys = 25.0
    going = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30, "resourceVersion": "2"}
    bench.tell("update", pod(metadata={**going, "generation": 2}), wait=bench.settings.status_period)
    assert bench.meta.statuses("web")[-1]["observedGeneration"] == 2


def test_each_end_of_a_container_is_told_while_others_of_the_pod_run(bench: Bench) -> None:
    bench.start()
    two = [{"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"]} for name in ("a", "b")]
    bench.tell("insert", pod(containers=two))
    bench.runtime.obeys = 25.0
    going = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30, "resourceVersion": "2"}
    bench.tell("update", pod(containers=two, metadata=going))
    before = len(bench.meta.statuses("web"))
    bench.exit("a", 0, wait=1.5)
    [status] = bench.meta.statuses("web")[before:]
    assert ["terminated" in each["state"] for each in status["containerStatuses"]] == [True, False]


@pytest.mark.parametrize("life", ["runs", "restarts", "retries", "runs out of time", "is forced to end"])
def test_nothing_of_a_pod_is_remembered_when_it_is_gone(bench: Bench, life: str) -> None:
    """Back-offs, deadlines, probes and queues end with it: a pod of its uid that comes again begins anew, and nothing
    grows. Only the bounded history of events may name it.
    """
    bench.start()
    probe = {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1}
    containers = [{"name": "main", "image": "busybox:1.36", "livenessProbe": probe, "readinessProbe": probe}]
    limit = 15 if life == "runs out of time" else 1000
    gone = pod("vanished", activeDeadlineSeconds=limit, containers=containers)
    if life == "retries":
        bench.runtime.fail("RunPodSandbox", unavailable(), times=3)
    bench.tell("insert", gone, wait=10)
    for _ in range(3 if life == "restarts" else 0):
        bench.exit("main", 1, wait=60)
    bench.run(10)
    assert memories_of("vanished", OpenEdged.started[-1].__dict__, ("edged",))
    grace = 0 if life == "is forced to end" else 30
    gone["metadata"] |= {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": grace}
    if grace:
        bench.tell("update", {**gone, "metadata": {**gone["metadata"], "resourceVersion": "2"}}, wait=35)
    bench.tell("delete", gone, wait=120)
    left = memories_of("vanished", OpenEdged.started[-1].__dict__, ("edged",))
    assert [place for place in left if "._event_reporter._correlator." not in place] == []


def test_a_container_that_ignores_the_signal_is_killed_after_its_grace_period(bench: Bench) -> None:
    bench.start(pod())
    bench.runtime.obeys = float("inf")
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 5}), wait=4)
    assert bench.running() == ["main"]
    assert bench.running(after=2) == []


def test_the_containers_of_a_pod_are_stopped_beside_each_other(bench: Bench) -> None:
    bench.start()
    many = [{"name": f"c{n}", "image": "busybox:1.36", "command": ["sleep", "inf"]} for n in range(5)]
    bench.tell("insert", pod(containers=many))
    bench.runtime.obeys = 4.0
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}), wait=5)
    assert bench.running() == []


def test_pods_that_take_their_time_to_end_keep_no_other_from_ending_or_coming(bench: Bench) -> None:
    bench.start()
    names = [f"old-{n}" for n in range(3 * bench.settings.workers)]
    for name in names:
        bench.tell("insert", pod(name, containers=[{"name": name, "image": "busybox:1.36"}]))
    bench.runtime.obeys = float("inf")
    for name in names:
        going = {"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}
        bench.tell("update", pod(name, metadata=going, containers=[{"name": name, "image": "busybox:1.36"}]))
    bench.tell("insert", pod("new", containers=[{"name": "new", "image": "busybox:1.36"}]))
    assert bench.running() == sorted([*names, "new"])
    assert bench.running(after=31) == ["new"]


def test_a_forced_deletion_removes_what_still_runs(bench: Bench) -> None:
    bench.start(pod())
    bench.tell("delete", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}), wait=3)
    assert not bench.runtime.sandboxes
    assert bench.snapshots.pods == ()


def test_a_delete_of_another_uid_leaves_the_pod_alone(bench: Bench) -> None:
    """The same name may be another pod by now."""
    bench.start(pod())
    bench.tell("delete", pod(metadata={"uid": "an older one"}))
    assert bench.running() == ["main"]


def test_a_delete_without_a_uid_means_the_name(bench: Bench) -> None:
    bench.start(pod())
    bench.bee.send("edged", bench.bee.message("default/pod/web", "delete", None, source="edgecontroller"))
    bench.run(31)
    assert not bench.runtime.sandboxes


def test_a_deleted_pod_that_never_ran_is_finished_too(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("run_pod_sandbox", unavailable(), times=1000)
    bench.tell("insert", pod())
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}), wait=10)
    assert bench.meta.deletions == ["default/pod/web"]


def test_a_deleted_pod_whose_container_always_fails_does_not_wait_for_its_next_start(bench: Bench) -> None:
    failing = {"name": "main", "image": "busybox:1.36", "command": ["exit", "1"]}
    bench.start(pod(containers=[failing]), wait=60)
    status = bench.meta.statuses("web")[-1]["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    starts = bench.runtime.calls["start_container"]
    gone = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 1}
    bench.tell("update", pod(containers=[failing], metadata=gone), wait=3)
    assert bench.meta.deletions == ["default/pod/web"]
    assert bench.runtime.calls["start_container"] == starts


def test_a_pod_that_cannot_be_stopped_is_not_confirmed_gone(bench: Bench) -> None:
    """The cloud would let a successor begin elsewhere while this one runs."""
    bench.start(pod())
    for call in ("stop_container", "stop_pod_sandbox"):
        bench.runtime.fail(call, unavailable(), times=10_000)
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}), wait=60)
    assert bench.running() == ["main"]
    assert bench.meta.deletions == []
    assert bench.meta.phases("web")[-1] == "Running"
    bench.runtime.recover()
    assert bench.running(after=600) == []
    assert bench.meta.deletions == ["default/pod/web"]


def test_the_containers_of_a_deleted_pod_are_reported_as_they_stop(bench: Bench) -> None:
    """A Killing event for each, as from a kubelet, except for ended ones."""
    bench.start()
    two = [{"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"]} for name in ("ends", "runs")]
    bench.tell("insert", pod(containers=two, restartPolicy="Never"))
    bench.exit("ends", 0, wait=1)
    bench.tell("update", pod(containers=two, metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}))
    bench.run(5)
    told = [message for reason, message in bench.meta.told("web") if reason == "Killing"]
    assert told == ["Stopping container runs"]


def test_a_pod_that_has_ended_for_the_cloud_ends_here(bench: Bench) -> None:
    """A controller that collects pods has said so; a kubelet ends it, and never says Running again."""
    bench.start(pod())
    failed = {"phase": "Failed", "reason": "Collected"}
    bench.tell("update", {**pod(metadata={"resourceVersion": "2000"}), "status": failed}, wait=60)
    assert bench.running() == []
    assert bench.meta.phases("web") == ["Running"]
    assert [(p.status.phase, p.status.reason) for p in bench.snapshots.pods] == [("Failed", "Collected")]


def test_an_end_that_a_former_life_reported_is_not_taken_back(bench: Bench) -> None:
    """Its store could not take it, and the runtime says nothing for a while."""
    bench.meta.objects["default/pod/web"] = pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1})
    bench.runtime.fail("list_pod_sandboxes", unavailable(), times=10_000)
    bench.start()
    given = pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1, "resourceVersion": "2000"})
    bench.tell("update", {**given, "status": {"phase": "Failed"}}, wait=10)
    assert bench.meta.phases("web") == []
    bench.runtime.recover()
    bench.run(60)
    assert bench.meta.phases("web") in ([], ["Failed"])
    assert bench.meta.deletions == ["default/pod/web"]
