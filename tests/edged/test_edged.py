"""edged alone on the bus: the life of pods, in virtual time, on a runtime in memory."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from beehive import Message, ModuleName, State
from edged.cri.errors import DeadlineExceededError, UnavailableError
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import Bench, pod


def unavailable() -> UnavailableError:
    return UnavailableError("Call", "", grpc.StatusCode.UNAVAILABLE, "the socket is gone")


def timed_out() -> DeadlineExceededError:
    return DeadlineExceededError("Call", "", grpc.StatusCode.DEADLINE_EXCEEDED, "too late")


def test_a_pod_comes_up_and_is_reported_running_at_once(bench: Bench) -> None:
    """Not at the next relist, and without a Pending before it."""
    bench.start()
    bench.tell("insert", pod())
    assert bench.runtime.running() == ["main"]
    assert bench.meta.phases("web") == ["Running"]


def test_the_stores_pods_start_without_any_cloud(bench: Bench) -> None:
    bench.meta.connected = False
    bench.meta.objects["default/pod/web"] = pod()
    bench.start()
    assert bench.runtime.running() == ["main"]
    assert bench.bee.hive.readiness()["edged"].state is State.READY


def test_a_pod_of_another_node_is_left_alone(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod(nodeName="other"))
    assert bench.runtime.running() == []


@pytest.mark.parametrize("broken", [{"spec": []}, {"metadata": {}}, {"metadata": {"uid": "../x", "name": "a"}}])
def test_a_pod_that_cannot_be_read_harms_nobody(bench: Bench, broken: dict[str, object]) -> None:
    bench.start()
    message = bench.bee.message("default/pod/bad", "insert", broken, source="edgecontroller")
    bench.bee.send("edged", message)
    bench.tell("insert", pod())
    assert bench.runtime.running() == ["main"]
    assert bench.bee.hive.restarts()["edged"] == 0


def test_what_is_sent_twice_runs_once(bench: Bench) -> None:
    bench.start()
    for _ in range(3):
        bench.tell("insert", pod())
        bench.tell("update", pod())
    assert len(bench.runtime.sandboxes) == 1
    assert len(bench.runtime.containers) == 1


def test_the_echo_of_a_reported_status_costs_no_look_at_the_runtime(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    calls = bench.runtime.calls.total()
    bench.tell("update", pod(metadata={"resourceVersion": "2"}))
    assert bench.runtime.calls.total() == calls


def test_a_container_that_ends_is_started_again_within_a_relist(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.runtime.end("main", 1)
    bench.run(1.2)
    assert bench.runtime.running() == ["main"]
    assert bench.meta.statuses("web")[-1]["containerStatuses"][0]["restartCount"] == 1


def test_one_that_keeps_ending_waits_longer_each_time_and_says_so(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod(containers=[{"name": "main", "image": "busybox:1.36", "command": ["exit", "3"]}]))
    bench.run(5)
    status = bench.meta.statuses("web")[-1]["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 3
    starts = []
    for _ in range(200):
        starts.append(bench.runtime.calls["start_container"])
        bench.run(1)
    # at once, then after 10, 20, 40, 80 s of waiting: five or six in 205 s, never more
    assert starts[0] == 2
    assert starts[-1] in (5, 6)


def test_a_pod_that_must_not_restart_ends_and_stays_so(bench: Bench) -> None:
    bench.start()
    container = {"name": "main", "image": "busybox:1.36", "command": ["exit", "0"]}
    bench.tell("insert", pod(restartPolicy="Never", containers=[container]))
    bench.run(200)
    assert bench.meta.phases("web")[-1] == "Succeeded"
    assert bench.runtime.calls["start_container"] == 1


def test_a_failed_one_is_failed(bench: Bench) -> None:
    bench.start()
    container = {"name": "main", "image": "busybox:1.36", "command": ["exit", "7"]}
    bench.tell("insert", pod(restartPolicy="Never", containers=[container]))
    bench.run(5)
    assert bench.meta.phases("web")[-1] == "Failed"


def test_init_containers_run_one_after_the_other_before_the_pods_own(bench: Bench) -> None:
    bench.start()
    inits = [{"name": f"init-{n}", "image": "busybox:1.36", "command": ["exit", "0"]} for n in (1, 2)]
    bench.tell("insert", pod(initContainers=inits))
    bench.run(3)
    created = sorted(bench.runtime.containers.values(), key=lambda c: int(c.id.split("-")[1]))
    assert [c.metadata.name for c in created] == ["init-1", "init-2", "main"]
    assert bench.runtime.running() == ["main"]
    assert bench.meta.phases("web")[-1] == "Running"


def test_a_changed_image_restarts_only_that_container(bench: Bench) -> None:
    bench.start()
    two = [{"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"]} for name in ("a", "b")]
    bench.tell("insert", pod(containers=two))
    before = {c.metadata.name: c.id for c in bench.runtime.containers.values()}
    changed = [{**two[0], "image": "busybox:1.37"}, two[1]]
    bench.tell("update", pod(containers=changed))
    bench.run(2)
    after = {c.metadata.name: c.id for c in bench.runtime.containers.values() if c.state == cri.CONTAINER_RUNNING}
    assert after["b"] == before["b"]
    assert after["a"] != before["a"]
    assert len(bench.runtime.sandboxes) == 1


def test_a_changed_label_restarts_nothing(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.tell("update", pod(metadata={"labels": {"a": "b"}, "resourceVersion": "2"}))
    bench.run(5)
    assert bench.runtime.calls["create_container"] == 1


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


def test_one_that_ignores_the_signal_is_killed_when_its_grace_is_over(bench: Bench) -> None:
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


def test_what_runs_is_adopted_after_a_restart_of_edged(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.meta.objects["default/pod/web"] = pod()
    before = set(bench.runtime.containers)
    bench.poison()
    bench.run(30)
    assert bench.bee.hive.restarts()["edged"] == 1
    assert before <= set(bench.runtime.containers)
    ours = [c for c in bench.runtime.containers.values() if c.labels["io.kubernetes.pod.name"] == "web"]
    assert [(c.id in before, c.state) for c in ours] == [(True, cri.CONTAINER_RUNNING)]


def test_orphans_of_ours_are_removed_and_others_sandboxes_left_alone(bench: Bench) -> None:
    labels = {"io.kubernetes.pod.name": "x", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}
    ours = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="x"), labels=labels)
    ours.annotations["edgecore.io/owner"] = str(bench.settings.root.resolve())
    theirs = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="y"), labels={**labels, "io.kubernetes.pod.uid": "u2"}
    )
    bench.runtime.run_pod_sandbox(ours)
    other = bench.runtime.run_pod_sandbox(theirs)
    bench.start()
    bench.run(3)
    assert list(bench.runtime.sandboxes) == [other]


def test_a_failing_runtime_is_tried_again_and_the_pod_comes_up(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("run_pod_sandbox", unavailable(), times=3)
    bench.tell("insert", pod())
    bench.run(20)
    assert bench.runtime.running() == ["main"]


@pytest.mark.parametrize("operation", ["run_pod_sandbox", "create_container", "start_container"])
def test_a_call_that_took_effect_although_its_answer_was_lost_starts_nothing_twice(
    bench: Bench, operation: str
) -> None:
    bench.start()
    bench.runtime.fail(operation, timed_out(), took_effect=True)
    bench.tell("insert", pod())
    bench.run(20)
    assert bench.runtime.running() == ["main"]
    ready = [s for s in bench.runtime.sandboxes.values() if s.state == cri.SANDBOX_READY]
    assert len(ready) == 1


def test_an_image_that_is_missing_is_pulled(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod(containers=[{"name": "main", "image": "nginx:1", "command": ["x"]}]))
    assert bench.runtime.calls["pull_image"] == 1
    assert bench.runtime.running() == ["main"]


def test_a_pull_that_fails_is_reported_and_tried_again_after_its_back_off(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("pull_image", unavailable(), times=2)
    bench.tell("insert", pod(containers=[{"name": "main", "image": "nginx:1", "command": ["x"]}]))
    waiting = bench.meta.statuses("web")[-1]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ErrImagePull"
    bench.run(3)
    waiting = bench.meta.statuses("web")[-1]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ImagePullBackOff"
    assert bench.runtime.calls["pull_image"] == 1
    bench.run(60)
    assert bench.runtime.running() == ["main"]


def test_an_image_that_may_not_be_pulled_is_named(bench: Bench) -> None:
    bench.start()
    container = {"name": "main", "image": "nginx:1", "imagePullPolicy": "Never", "command": ["x"]}
    bench.tell("insert", pod(containers=[container]))
    waiting = bench.meta.statuses("web")[-1]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "ErrImageNeverPull"
    assert "nginx:1" in waiting["message"]
    assert bench.runtime.calls["pull_image"] == 0


def config_map(text: str, version: str = "1") -> dict[str, object]:
    metadata = {"name": "settings", "namespace": "default", "uid": "cm", "resourceVersion": version}
    return {"metadata": metadata, "data": {"a.conf": text}}


MOUNTING: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "busybox:1.36",
            "command": ["sleep", "inf"],
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}],
        }
    ],
    "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
}


def test_a_configmap_is_mounted_and_its_change_reaches_the_file_without_a_restart(bench: Bench) -> None:
    bench.meta.objects["default/configmap/settings"] = config_map("one")
    bench.start()
    bench.tell("insert", pod(**MOUNTING))
    config = next(iter(bench.runtime.configs.values()))
    mount = next(m for m in config.mounts if m.container_path == "/etc/settings")
    assert Path(mount.host_path, "a.conf").read_text() == "one"
    bench.meta.objects["default/configmap/settings"] = config_map("two", "2")
    bench.tell("update", config_map("two", "2"), kind="configmap")
    bench.run(0.5)
    assert Path(mount.host_path, "a.conf").read_text() == "two"
    assert bench.runtime.calls["create_container"] == 1


def test_a_pod_waits_for_a_configmap_that_is_missing_and_starts_when_it_comes(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod(**MOUNTING))
    bench.run(5)
    assert bench.runtime.running() == []
    assert bench.meta.phases("web")[-1:] in ([], ["Pending"])
    bench.meta.objects["default/configmap/settings"] = config_map("late")
    bench.tell("insert", config_map("late"), kind="configmap")
    bench.run(0.5)
    assert bench.runtime.running() == ["main"]


def test_an_environment_that_names_what_is_missing_is_a_config_error(bench: Bench) -> None:
    bench.start()
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
    bench.tell("insert", pod(containers=[{"name": "main", "image": "busybox:1.36", "env": [variable]}]))
    waiting = bench.meta.statuses("web")[-1]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "settings" in waiting["message"]


def test_while_the_cloud_is_away_pods_are_restarted_and_the_status_arrives_when_it_is_back(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.connection("cloud_disconnected")
    bench.runtime.end("main", 9)
    bench.run(60)
    assert bench.runtime.running() == ["main"]
    before = len(bench.meta.statuses("web"))
    bench.connection("cloud_connected")
    bench.run(1)
    assert len(bench.meta.statuses("web")) == before + 1
    assert bench.meta.statuses("web")[-1]["containerStatuses"][0]["restartCount"] == 1


def test_a_status_that_was_refused_is_sent_again(bench: Bench) -> None:
    bench.start()
    conflict = {"Object": None, "Err": {"ErrStatus": {"code": 500, "reason": "InternalError", "message": "no"}}}
    bench.meta.refuse["default/podpatch/web"] = conflict
    bench.tell("insert", pod())
    assert bench.meta.phases("web") == []
    bench.meta.refuse.clear()
    bench.run(11)
    assert bench.meta.phases("web") == ["Running"]


def test_an_idle_pod_costs_no_message_and_no_container(bench: Bench) -> None:
    bench.start()
    bench.tell("insert", pod())
    bench.run(2)
    patches = len(bench.meta.statuses("web"))
    created = bench.runtime.calls["create_container"]
    bench.run(600)
    assert len(bench.meta.statuses("web")) == patches
    assert bench.runtime.calls["create_container"] == created


def test_a_relist_of_an_idle_node_costs_two_calls(bench: Bench) -> None:
    bench.start()
    for name in ("a", "b", "c"):
        bench.tell("insert", pod(name))
    bench.run(5)
    before = bench.runtime.calls.total()
    bench.run(1)
    # the status of the runtime is asked for every ten seconds beside it
    assert bench.runtime.calls.total() - before <= 3


def test_pods_are_worked_on_beside_each_other_but_one_pod_never_twice(bench: Bench) -> None:
    bench.runtime.pull_seconds = 10.0
    bench.start()
    for number in range(4):
        image = f"image-{number}:1"
        bench.tell("insert", pod(f"p{number}", containers=[{"name": f"c{number}", "image": image}]))
        bench.tell("update", pod(f"p{number}", containers=[{"name": f"c{number}", "image": image}]))
    assert bench.runtime.calls["run_pod_sandbox"] == 4
    bench.run(41)
    assert bench.runtime.running() == ["c0", "c1", "c2", "c3"]
    assert bench.runtime.calls["pull_image"] == 4
    assert bench.runtime.calls["run_pod_sandbox"] == 4


def test_the_node_registers_takes_a_lease_and_is_ready(bench: Bench) -> None:
    bench.start()
    bench.run(1)
    node = bench.meta.cloud["null/node/n1"]
    ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("True", "EdgeReady")
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"] == "fake://1.0"
    lease = bench.meta.cloud["kube-node-lease/lease/n1"]
    first = lease["spec"]["renewTime"]
    bench.run(11)
    assert bench.meta.cloud["kube-node-lease/lease/n1"]["spec"]["renewTime"] > first


def test_a_node_that_is_there_already_is_taken(bench: Bench) -> None:
    bench.meta.cloud["null/node/n1"] = {"metadata": {"name": "n1", "uid": "old", "resourceVersion": "5"}}
    bench.start()
    bench.run(1)
    assert bench.meta.cloud["kube-node-lease/lease/n1"]["metadata"]["ownerReferences"][0]["uid"] == "old"
    assert bench.meta.patches["null/nodepatch/n1"]


def test_the_node_registers_when_the_cloud_comes(bench: Bench) -> None:
    bench.meta.connected = False
    bench.start()
    bench.run(30)
    assert not bench.meta.cloud
    bench.connection("cloud_connected")
    bench.run(0.5)
    assert "null/node/n1" in bench.meta.cloud


def test_the_node_registers_at_once_when_the_cloud_comes_before_its_absence_is_heard_of(bench: Bench) -> None:
    bench.meta.connected = False

    def cloud_comes_before_the_answer(message: Message) -> Message | None:
        answer = bench.meta(message)
        if message.route.resource == "null/node/n1" and not bench.meta.connected:
            bench.meta.connected = True
            event = bench.bee.message("node/connection", "connect", "cloud_connected", source="edgehub")
            bench.bee.hive.send(ModuleName.EDGED, event)
        return answer

    bench.bee.answer(ModuleName.METAMANAGER, cloud_comes_before_the_answer)
    bench.start()
    assert "null/node/n1" in bench.meta.cloud


def test_a_runtime_that_is_down_makes_the_node_not_ready(bench: Bench) -> None:
    bench.start()
    bench.run(1)
    bench.runtime.fail("status", unavailable(), times=3)
    bench.run(11)
    conditions = [c for patch in bench.meta.patches["null/nodepatch/n1"] for c in patch["status"]["conditions"]]
    ready = next(c for c in conditions if c["type"] == "Ready" and c.get("status") == "False")
    assert "container runtime is down" in ready["message"]


def test_an_unchanged_node_status_is_sent_every_hour_only(bench: Bench) -> None:
    bench.start()
    bench.run(3500)
    before = len(bench.meta.patches.get("null/nodepatch/n1", []))
    assert before <= 1
    bench.run(7300)
    assert len(bench.meta.patches["null/nodepatch/n1"]) - before in (2, 3)


def test_the_last_words_of_a_container_are_part_of_its_end(bench: Bench) -> None:
    bench.start()
    path = "/dev/termination-log"
    container = {"name": "main", "image": "busybox:1.36", "command": ["x"], "terminationMessagePath": path}
    bench.tell("insert", pod(containers=[container]))
    config = next(iter(bench.runtime.configs.values()))
    mount = next(m for m in config.mounts if m.container_path == path)
    Path(mount.host_path).write_text("out of coffee")
    bench.runtime.end("main", 1)
    bench.run(1.5)
    status = bench.meta.statuses("web")[-1]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["message"] == "out of coffee"


def test_a_pod_of_another_uid_takes_the_place_of_its_namesake(bench: Bench) -> None:
    """A cloud that lost its objects makes them anew and deletes nothing (found by simulation: seed 4, cloud)."""
    bench.start()
    bench.tell("insert", pod("web", metadata={"uid": "first", "creationTimestamp": "2026-01-01T00:00:00Z"}))
    bench.tell("insert", pod("web", metadata={"uid": "second", "creationTimestamp": "2026-01-01T00:01:00Z"}))
    bench.run(60)
    assert [sandbox.metadata.uid for sandbox in bench.runtime.sandboxes.values()] == ["second"]


def test_the_server_has_the_runtime_while_edged_runs(bench: Bench) -> None:
    """And is told of each look at it, also of one that failed."""
    bench.runtime.serves_events = False
    bench.start()
    assert bench.snapshots.runtime is not None
    bench.runtime.fail("list_pod_sandboxes", unavailable())
    bench.run(3)
    assert bench.snapshots.looked_at == pytest.approx(bench.bee.clock.monotonic(), abs=1.1)
    bench.stop()
    assert bench.snapshots.runtime is None
