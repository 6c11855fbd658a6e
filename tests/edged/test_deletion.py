"""edged alone on the bus: how pods end that are deleted, in virtual time, on a runtime in memory."""

from tests.edged.conftest import Bench, pod, unavailable


def test_deletion_stops_with_grace_reports_the_end_and_asks_the_cloud_to_forget_the_pod(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.runtime.obeys = 2.0
    going = {"deletionTimestamp": "2027-01-15T08:00:30Z", "deletionGracePeriodSeconds": 30, "resourceVersion": "2"}
    bench.tell("update", pod(metadata=going))
    bench.run(1)
    assert bench.runtime.running() == ["main"]
    bench.run(1.5)
    assert bench.runtime.running() == []
    assert bench.meta.phases("web")[-1] == "Succeeded"
    assert bench.meta.deletions == ["default/pod/web"]
    bench.tell("delete", pod(metadata=going))
    bench.run(1)
    assert not bench.runtime.sandboxes
    assert not bench.runtime.containers
    assert not list(bench.settings.root.glob("pods/*"))
    assert bench.snapshots.pods == ()


def test_a_container_that_ignores_the_signal_is_killed_after_its_grace_period(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.runtime.obeys = float("inf")
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 5}))
    bench.run(4)
    assert bench.runtime.running() == ["main"]
    bench.run(2)
    assert bench.runtime.running() == []


def test_the_containers_of_a_pod_are_stopped_beside_each_other(bench: Bench) -> None:
    bench.start()
    many = [{"name": f"c{n}", "image": "busybox:1.36", "command": ["sleep", "inf"]} for n in range(5)]
    bench.tell("insert", pod(containers=many))
    bench.runtime.obeys = 4.0
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 30}))
    bench.run(5)
    assert bench.runtime.running() == []


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
    assert bench.runtime.running() == sorted([*names, "new"])
    bench.run(31)
    assert bench.runtime.running() == ["new"]


def test_a_forced_deletion_removes_what_still_runs(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.tell("delete", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 0}))
    bench.run(3)
    assert not bench.runtime.sandboxes
    assert bench.snapshots.pods == ()


def test_a_delete_of_another_uid_leaves_the_pod_alone(bench: Bench) -> None:
    """The same name may be another pod by now."""
    bench.start()
    bench.tell("insert", pod())
    bench.tell("delete", pod(metadata={"uid": "an older one"}))
    assert bench.runtime.running() == ["main"]


def test_a_delete_without_a_uid_means_the_name(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.bee.send("edged", bench.bee.message("default/pod/web", "delete", None, source="edgecontroller"))
    bench.run(31)
    assert not bench.runtime.sandboxes


def test_a_deleted_pod_that_never_ran_is_finished_too(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("run_pod_sandbox", unavailable(), times=1000)
    bench.tell("insert", pod())
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}))
    bench.run(10)
    assert bench.meta.deletions == ["default/pod/web"]


def test_a_pod_that_cannot_be_stopped_is_not_confirmed_gone(bench: Bench) -> None:
    """The cloud would let a successor begin elsewhere while this one runs."""
    bench.start()
    bench.tell("insert", pod())
    for call in ("stop_container", "stop_pod_sandbox"):
        bench.runtime.fail(call, unavailable(), times=10_000)
    bench.tell("update", pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}))
    bench.run(60)
    assert bench.runtime.running() == ["main"]
    assert bench.meta.deletions == []
    assert bench.meta.phases("web")[-1] == "Running"
    bench.runtime.recover()
    bench.run(600)
    assert bench.runtime.running() == []
    assert bench.meta.deletions == ["default/pod/web"]


def test_the_containers_of_a_deleted_pod_are_told_of_as_they_are_stopped(bench: Bench) -> None:
    """A Killing event for each, as from a kubelet, except for ended ones."""
    bench.start()
    two = [{"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"]} for name in ("ends", "runs")]
    bench.tell("insert", pod(containers=two, restartPolicy="Never"))
    bench.runtime.end("ends", 0)
    bench.run(1)
    bench.tell("update", pod(containers=two, metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1}))
    bench.run(5)
    told = [message for reason, message in bench.meta.told("web") if reason == "Killing"]
    assert told == ["Stopping container runs"]


def test_a_pod_that_has_ended_for_the_cloud_ends_here(bench: Bench) -> None:
    """A controller that collects pods has said so; a kubelet ends it, and never says Running again."""
    bench.start()
    bench.tell("insert", pod())
    failed = {"phase": "Failed", "reason": "Collected"}
    bench.tell("update", {**pod(metadata={"resourceVersion": "2000"}), "status": failed})
    bench.run(60)
    assert bench.runtime.running() == []
    assert bench.meta.phases("web") == ["Running"]
    assert [(p.status.phase, p.status.reason) for p in bench.snapshots.pods] == [("Failed", "Collected")]


def test_what_a_former_life_has_told_of_a_pods_end_is_not_taken_back(bench: Bench) -> None:
    """Its store could not take it, and the runtime says nothing for a while."""
    bench.meta.objects["default/pod/web"] = pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1})
    bench.runtime.fail("list_pod_sandboxes", unavailable(), times=10_000)
    bench.start()
    given = pod(metadata={"deletionTimestamp": "x", "deletionGracePeriodSeconds": 1, "resourceVersion": "2000"})
    bench.tell("update", {**given, "status": {"phase": "Failed"}})
    bench.run(10)
    assert bench.meta.phases("web") == []
    bench.runtime.recover()
    bench.run(60)
    assert bench.meta.phases("web") in ([], ["Failed"])
    assert bench.meta.deletions == ["default/pod/web"]
