"""edged alone on the bus: the life of pods, in virtual time, on a runtime in memory."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest

from beehive import ModuleName, State
from edged.cri.errors import CriError, DeadlineExceededError
from edged.status.generator import StatusGenerator
from edged.sync.pod_machine import RESYNC_JITTER
from protos.cri.v1 import api_pb2 as cri
from protos.status import StatusCode
from tests.edged.conftest import IMAGE, Bench, OpenEdged, pod, unavailable


def timed_out() -> DeadlineExceededError:
    return DeadlineExceededError("Call", "", grpc.StatusCode.DEADLINE_EXCEEDED, "too late")


def test_a_pod_comes_up_and_is_reported_running_immediately(bench: Bench) -> None:
    """Not at the next relist, and without a Pending before it."""
    bench.start(pod())
    assert bench.running() == ["main"]
    assert bench.meta.phases("web") == ["Running"]


def test_the_stores_pods_start_without_any_cloud(bench: Bench) -> None:
    bench.meta.connected = False
    bench.meta.objects["default/pod/web"] = pod()
    bench.start()
    assert bench.running() == ["main"]
    assert bench.bee.hive.readiness()["edged"].state is State.READY


def test_a_store_that_does_not_answer_whether_it_is_complete_is_asked_again(bench: Bench) -> None:
    bench.meta.objects["default/pod/web"] = pod()
    bench.silent.add("null/store/complete")
    bench.start(wait=5)
    (question,) = [each for each in bench.bee.sent_to(ModuleName.METAMANAGER) if "/store" in each.route.resource]
    assert question.route.resource in bench.silent
    bench.silent.clear()
    assert bench.running(after=90) == ["main"]
    assert bench.bee.hive.restarts()["edged"] == 0


def test_the_first_status_of_a_pod_of_the_store_names_every_field(bench: Bench) -> None:
    """The cloud may have a newer status than the store, which was sent before the restart."""
    bench.meta.objects["default/pod/web"] = pod()
    bench.start(wait=2)
    assert {"reason": None, "message": None}.items() <= bench.meta.statuses("web")[0].items()


def test_a_status_of_the_store_is_not_sent_over_a_newer_one_of_the_cloud(bench: Bench) -> None:
    """While the runtime does not answer, this node has no status of its own."""
    bench.runtime.fail("list_pod_sandboxes", unavailable(), times=1000)
    main = {"name": "main", "containerID": "fake://c0", "ready": True, "state": {"running": {}}}
    stored = {**pod(), "status": {"phase": "Running", "containerStatuses": [{**main, "restartCount": 1}]}}
    bench.meta.objects["default/pod/web"] = stored
    bench.start(wait=3)
    newer = {"phase": "Running", "containerStatuses": [{**main, "restartCount": 2}]}
    bench.tell("update", {**pod(metadata={"resourceVersion": "2000"}), "status": newer}, wait=15)
    assert bench.meta.statuses("web") == []


def test_a_pod_of_another_node_is_left_alone(bench: Bench) -> None:
    bench.start(pod(nodeName="other"))
    assert bench.running() == []


@pytest.mark.parametrize("broken", [{"spec": []}, {"metadata": {}}, {"metadata": {"uid": "../x", "name": "a"}}])
def test_a_pod_that_cannot_be_read_harms_nobody(bench: Bench, broken: dict[str, object]) -> None:
    bench.start()
    message = bench.bee.message("default/pod/bad", "insert", broken, source="edgecontroller")
    bench.bee.send("edged", message)
    bench.tell("insert", pod())
    assert bench.running() == ["main"]
    assert bench.bee.hive.restarts()["edged"] == 0


def test_a_pod_that_is_sent_twice_runs_once(bench: Bench) -> None:
    bench.start()
    for _ in range(3):
        bench.tell("insert", pod())
        bench.tell("update", pod())
    assert len(bench.runtime.sandboxes) == 1
    assert len(bench.runtime.containers) == 1


def test_a_pod_that_comes_again_without_its_kind_is_the_same_pod(bench: Bench) -> None:
    """As after a restart of KubeEdge's cloud (issue 6559), where a node ended with 80 pods of one."""
    bench.start(pod())
    bare = {name: value for name, value in pod().items() if name not in ("kind", "apiVersion")}
    for version in range(2, 82):
        again = {**bare, "metadata": {**bare["metadata"], "resourceVersion": str(version)}}
        bench.tell("update", again)
    bench.run(30)
    assert len(bench.runtime.sandboxes) == 1
    assert [each.metadata.name for each in bench.snapshots.pods] == [pod()["metadata"]["name"]]


def test_the_echo_of_a_reported_status_costs_no_look_at_the_runtime(bench: Bench) -> None:
    bench.start(pod())
    calls = bench.runtime.calls.total()
    bench.tell("update", pod(metadata={"resourceVersion": "2"}))
    assert bench.runtime.calls.total() == calls


def test_a_container_that_ends_is_started_again_within_a_relist(bench: Bench) -> None:
    bench.start(pod())
    bench.exit("main", 1, wait=1.2)
    assert bench.running() == ["main"]
    assert bench.meta.statuses("web")[-1]["containerStatuses"][0]["restartCount"] == 1


def test_a_container_that_keeps_ending_waits_longer_each_time_with_an_event(bench: Bench) -> None:
    bench.start(pod(containers=[{"name": "main", "image": "busybox:1.36", "command": ["exit", "3"]}]), wait=5)
    status = bench.meta.statuses("web")[-1]["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert status["lastState"]["terminated"]["exitCode"] == 3
    starts = []
    for _ in range(200):
        starts.append(bench.runtime.calls["start_container"])
        bench.run(1)
    # immediately, then after 10, 20, 40, 80 s of waiting: five or six in 205 s, never more
    assert starts[0] == 2
    assert starts[-1] in (5, 6)


def test_a_pod_that_must_not_restart_ends_and_stays_so(bench: Bench) -> None:
    bench.start()
    container = {"name": "main", "image": "busybox:1.36", "command": ["exit", "0"]}
    bench.tell("insert", pod(restartPolicy="Never", containers=[container]), wait=200)
    assert bench.meta.phases("web")[-1] == "Succeeded"
    assert bench.runtime.calls["start_container"] == 1


@pytest.mark.parametrize("is_probed", [False, True])
def test_a_container_that_is_replaced_does_not_leave_its_services_meanwhile(bench: Bench, *, is_probed: bool) -> None:
    """Nothing is reported between its end and the start of its successor, as by a kubelet; a successor with a readiness
    probe is not ready before that has succeeded.
    """
    bench.runtime.latency = 0.4
    bench.start()
    probe = {"readinessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 1}} if is_probed else {}
    main = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"], **probe}
    bench.tell("insert", pod(containers=[main]), wait=20)
    first, known = bench.running(), len(bench.meta.statuses("web"))
    for seconds in range(5):
        bench.tell("update", pod(containers=[{**main, "command": ["sleep", str(seconds)]}]), wait=20)
    told = bench.meta.statuses("web")[known:]
    ready = [
        each["status"]
        for status in told
        for each in status.get("conditions", ())
        if each["type"] == "Ready" and "status" in each
    ]
    assert ready == (["False", "True"] * 5 if is_probed else [])
    states = [each["state"] for status in told for each in status.get("containerStatuses", ())]
    assert states
    assert all("running" in state for state in states)
    assert bench.running() == first == ["main"]


def test_until_the_runtime_has_a_name_only_a_pod_without_containers_has_a_status(bench: Bench) -> None:
    """The ids of containers begin with the name. Once it is known, nothing else has to happen to the pod."""
    bench.runtime.fail("version", unavailable())
    bench.start(pod())
    container = {"name": "main", "image": "nginx:1", "imagePullPolicy": "Never"}
    bench.tell("insert", pod("waits", containers=[container]), wait=2)
    waiting = bench.meta.statuses("waits")[-1]["containerStatuses"][0]["state"]["waiting"]
    assert (waiting["reason"], bench.meta.phases("web")) == ("ErrImageNeverPull", [])
    bench.run(10)
    assert bench.meta.phases("web") == ["Running"]


@pytest.mark.parametrize("runtime_is_known", [True, False])
def test_a_pod_that_the_cloud_has_ended_is_not_reported_otherwise(bench: Bench, *, runtime_is_known: bool) -> None:
    """What this node has computed before is not sent over the cloud's status, also while it cannot compute another."""
    if not runtime_is_known:
        bench.runtime.fail("version", unavailable(), times=100)
    bench.start(pod(), wait=2)
    before = len(bench.meta.phases("web"))
    ended = {**pod(metadata={"resourceVersion": "2000"}), "status": {"phase": "Failed", "reason": "NodeLost"}}
    bench.tell("update", ended, wait=30)
    assert set(bench.meta.phases("web")[before:]) <= {"Failed"}
    assert bench.running() == []


def test_running_pods_are_adopted_after_a_restart_of_edged(bench: Bench) -> None:
    bench.start(pod())
    bench.meta.objects["default/pod/web"] = pod()
    before = set(bench.runtime.containers)
    bench.poison(wait=30)
    assert bench.bee.hive.restarts()["edged"] == 1
    assert before <= set(bench.runtime.containers)
    ours = [c for c in bench.runtime.containers.values() if c.labels["io.kubernetes.pod.name"] == "web"]
    assert [(c.id in before, c.state) for c in ours] == [(True, cri.CONTAINER_RUNNING)]


@pytest.mark.parametrize("late", [False, True], ids=["at once", "when the store has answered"])
def test_orphans_of_ours_are_removed_and_others_sandboxes_left_alone(bench: Bench, *, late: bool) -> None:
    """Not at the next relist, which may be ten seconds away."""
    labels = {"io.kubernetes.pod.name": "x", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}
    ours = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="x"), labels=labels)
    ours.annotations["edgecore.io/owner"] = str(bench.settings.root.resolve())
    theirs = cri.PodSandboxConfig(
        metadata=cri.PodSandboxMetadata(name="y"), labels={**labels, "io.kubernetes.pod.uid": "u2"}
    )
    bench.runtime.run_pod_sandbox(ours)
    other = bench.runtime.run_pod_sandbox(theirs)
    if late:
        bench.silent.add("null/pod")
    bench.start()
    while late and len(bench.asked("query", "null/pod")) == 1:
        assert len(bench.runtime.sandboxes) == 2
        bench.silent.clear()
        bench.run(1)
    bench.run(3)
    assert list(bench.runtime.sandboxes) == [other]


def test_an_orphan_that_runs_is_stopped_before_it_is_removed(bench: Bench) -> None:
    """Within two seconds, as by a kubelet: its pod, and so its grace period, is not known."""
    labels = {"io.kubernetes.pod.name": "x", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1"}
    sandbox = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="x", uid="u1"), labels=labels)
    sandbox.annotations["edgecore.io/owner"] = str(bench.settings.root.resolve())
    config = cri.ContainerConfig(
        metadata=cri.ContainerMetadata(name="main"), image=cri.ImageSpec(image=IMAGE),
        labels={**labels, "io.kubernetes.container.name": "main"},
    )  # fmt: skip
    runtime = bench.runtime
    made = runtime.run_pod_sandbox(sandbox)
    runtime.start_container(runtime.create_container(made, config, sandbox))
    runtime.obeys = 1.5
    bench.start(wait=1)
    assert (runtime.running(), runtime.calls["remove_container"]) == (["main"], 0)
    bench.run(3)
    assert (runtime.running(), list(runtime.sandboxes)) == ([], [])


def test_a_failing_runtime_is_tried_again_and_the_pod_comes_up(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("run_pod_sandbox", unavailable(), times=3)
    bench.tell("insert", pod(), wait=20)
    assert bench.running() == ["main"]


@pytest.mark.parametrize("operation", ["run_pod_sandbox", "create_container", "start_container"])
def test_a_call_that_took_effect_although_its_answer_was_lost_starts_nothing_twice(
    bench: Bench, operation: str
) -> None:
    bench.start()
    bench.runtime.fail(operation, timed_out(), took_effect=True)
    bench.tell("insert", pod(), wait=20)
    assert bench.running() == ["main"]
    ready = [s for s in bench.runtime.sandboxes.values() if s.state == cri.SANDBOX_READY]
    assert len(ready) == 1


def test_a_container_of_an_earlier_edgecore_that_cannot_start_is_replaced(bench: Bench) -> None:
    """The runtimes inside edgecore keep variables and command in memory only: after a restart nothing starts it."""
    lost = CriError("StartContainer", "", StatusCode.FAILED_PRECONDITION, "its command was in memory only")
    bench.start()
    bench.runtime.fail("create_container", timed_out(), took_effect=True)
    bench.runtime.fail("start_container", lost)
    bench.tell("insert", pod(), wait=20)
    assert bench.running() == ["main"]
    assert bench.runtime.calls["remove_container"] == 1
    assert bench.meta.statuses("web")[-1]["containerStatuses"][0]["restartCount"] == 0


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
    assert bench.running(after=60) == ["main"]


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
    bench.start(pod(**MOUNTING))
    config = next(iter(bench.runtime.configs.values()))
    mount = next(m for m in config.mounts if m.container_path == "/etc/settings")
    assert Path(mount.host_path, "a.conf").read_text() == "one"
    bench.meta.objects["default/configmap/settings"] = config_map("two", "2")
    bench.tell("update", config_map("two", "2"), kind="configmap")
    bench.run(0.5)
    assert Path(mount.host_path, "a.conf").read_text() == "two"
    assert bench.runtime.calls["create_container"] == 1
    assert len(bench.asked("query", "default/configmap/settings")) == 1, "the message has the object"


def test_a_missing_limit_in_a_file_is_what_the_node_has_for_pods(bench: Bench) -> None:
    """As in a variable."""
    bench.start()
    limit = {"containerName": "main", "resource": "limits.memory"}
    items = [{"path": "memory", "resourceFieldRef": limit}]
    volumes = [
        {"name": "plain", "downwardAPI": {"items": items}},
        {"name": "projected", "projected": {"sources": [{"downwardAPI": {"items": items}}]}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    variable = {"name": "MEMORY", "valueFrom": {"resourceFieldRef": limit}}
    container = {"name": "main", "image": "busybox:1.36", "command": ["x"], "env": [variable], "volumeMounts": mounts}
    bench.tell("insert", pod(containers=[container], volumes=volumes))
    config = next(iter(bench.runtime.configs.values()))
    (expected,) = (each.value.decode() for each in config.envs if each.key == "MEMORY")
    found = [Path(m.host_path, "memory").read_text() for m in config.mounts if m.container_path[1:] in str(volumes)]
    assert (found, expected != "0") == ([expected] * 2, True)


def test_a_pod_waits_for_a_configmap_that_is_missing_and_starts_when_it_comes(bench: Bench) -> None:
    bench.start(pod(**MOUNTING), wait=5)
    assert bench.running() == []
    assert bench.meta.phases("web")[-1:] in ([], ["Pending"])
    bench.meta.objects["default/configmap/settings"] = config_map("late")
    bench.tell("insert", config_map("late"), kind="configmap")
    assert bench.running(after=0.5) == ["main"]


def test_an_environment_with_a_missing_reference_is_a_config_error(bench: Bench) -> None:
    bench.start()
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
    bench.tell("insert", pod(containers=[{"name": "main", "image": "busybox:1.36", "env": [variable]}]))
    waiting = bench.meta.statuses("web")[-1]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "settings" in waiting["message"]


def test_while_the_cloud_is_away_pods_are_restarted_and_the_status_arrives_when_it_is_back(bench: Bench) -> None:
    bench.start(pod())
    bench.connection("cloud_disconnected")
    bench.exit("main", 9, wait=60)
    assert bench.running() == ["main"]
    before = len(bench.meta.statuses("web"))
    bench.connection("cloud_connected", wait=1)
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
    bench.start(pod(), wait=2)
    patches = len(bench.meta.statuses("web"))
    created = bench.runtime.calls["create_container"]
    bench.run(600)
    assert len(bench.meta.statuses("web")) == patches
    assert bench.runtime.calls["create_container"] == created


def test_a_relist_costs_a_pod_without_a_sandbox_no_status(bench: Bench) -> None:
    bench.runtime.serves_events = False
    bench.start(pod(**MOUNTING), wait=3)
    with patch.object(StatusGenerator, "regenerate", autospec=True, side_effect=StatusGenerator.regenerate) as made:
        bench.run(30)
    assert made.call_count < 10, "only the jobs that have failed"


def test_pods_not_running_are_synced_again_after_the_period_and_not_all_at_once(bench: Bench) -> None:
    bench.start()
    for name in "abcde":
        bench.tell("insert", pod(name))
    bench.run(2)
    now, period = bench.bee.clock.monotonic(), bench.settings.resync_period
    left = [at - now for at in OpenEdged.started[-1].assembly.sync_loop.figures().due.values()]
    assert period - 3 < min(left)
    assert max(left) < period * (1 + RESYNC_JITTER)
    assert len({round(each) for each in left}) > 2


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
    assert bench.running(after=41) == ["c0", "c1", "c2", "c3"]
    assert bench.runtime.calls["pull_image"] == 4
    assert bench.runtime.calls["run_pod_sandbox"] == 4


def test_the_last_words_of_a_container_are_part_of_its_end(bench: Bench) -> None:
    bench.start()
    path = "/dev/termination-log"
    container = {"name": "main", "image": "busybox:1.36", "command": ["x"], "terminationMessagePath": path}
    bench.tell("insert", pod(containers=[container]))
    config = next(iter(bench.runtime.configs.values()))
    mount = next(m for m in config.mounts if m.container_path == path)
    Path(mount.host_path).write_text("out of coffee")
    bench.exit("main", 1, wait=1.5)
    status = bench.meta.statuses("web")[-1]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["message"] == "out of coffee"


@pytest.mark.parametrize("later", ["2026-01-01T00:01:00Z", "2026-01-01T00:00:00Z"])
def test_a_pod_of_another_uid_takes_the_place_of_its_namesake(bench: Bench, later: str) -> None:
    """A cloud that lost its objects makes them anew and deletes nothing (found by simulation: seed 4, cloud). A time
    has whole seconds, so both may have the same.
    """
    bench.start(pod("web", metadata={"uid": "first", "creationTimestamp": "2026-01-01T00:00:00Z"}))
    bench.tell("insert", pod("web", metadata={"uid": "second", "creationTimestamp": later}), wait=60)
    assert [sandbox.metadata.uid for sandbox in bench.runtime.sandboxes.values()] == ["second"]


@pytest.mark.parametrize("later", ["2026-01-01T00:01:00Z", "2026-01-01T00:00:00Z"])
def test_an_older_pod_that_comes_later_ends_with_the_next_state_of_its_namesake(bench: Bench, later: str) -> None:
    """The list of a restored cloud had the newer one, and its watch the older one (simulation: state, seed 6300031). Of
    two of one second, the version tells the newer one, as a number.
    """
    bench.start()
    newer = pod("web", metadata={"uid": "second", "creationTimestamp": later, "resourceVersion": "10"})
    older = {"uid": "first", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "9"}
    bench.tell("insert", newer)
    bench.tell("insert", pod("web", metadata=older), wait=60)
    assert "second" in [sandbox.metadata.uid for sandbox in bench.runtime.sandboxes.values()]
    bench.tell("insert", newer, wait=60)
    assert [sandbox.metadata.uid for sandbox in bench.runtime.sandboxes.values()] == ["second"]


def test_the_pods_are_complete_once_they_are_listed_and_the_runtime_was_asked(bench: Bench) -> None:
    """Others count on them from then on, and not while edged starts again."""
    told: list[tuple[bool, tuple[str, ...]]] = []

    def listen() -> None:
        told.append((bench.snapshots.pods_are_complete, tuple(each.status.phase for each in bench.snapshots.pods)))

    bench.snapshots.subscribe(listen)
    bench.start()
    assert told.pop() == (True, ())
    bench.tell("insert", pod(), wait=10)
    assert told.pop() == (True, ("Running",))
    bench.silent.add("null/pod")
    told.clear()
    bench.poison(wait=3)
    assert not bench.snapshots.pods_are_complete
    assert not any(complete for complete, _ in told[1:])


def test_the_server_has_the_runtime_while_edged_runs(bench: Bench) -> None:
    """The server also learns of each relist, also of a failed one."""
    bench.runtime.serves_events = False
    bench.start()
    assert bench.snapshots.runtime is not None
    assert bench.snapshots.node_status is not None
    bench.runtime.fail("list_pod_sandboxes", unavailable())
    bench.run(3)
    assert bench.snapshots.relisted_at == pytest.approx(bench.bee.clock.monotonic(), abs=1.1)
    bench.stop()
    assert bench.snapshots.runtime is None


def test_a_pod_is_not_listed_that_is_known_to_be_new(bench: Bench) -> None:
    """Nor after its start. One that comes again is listed when its containers end, and before it starts."""
    bench.start()
    listed = bench.runtime.calls["list_containers"]
    bench.tell("insert", pod())
    assert bench.runtime.calls["list_containers"] == listed
    bench.post("delete", pod())
    bench.tell("insert", pod())
    assert (bench.running(), bench.runtime.calls["run_pod_sandbox"]) == (["main"], 2)
    assert bench.runtime.calls["list_containers"] == listed + 2
