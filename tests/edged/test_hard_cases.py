"""edged alone on the bus, where things come at the wrong moment: each case was a bug, or would be one."""

from typing import Any
from unittest.mock import patch

import grpc
import pytest

from beehive.names import OK
from edged.cri.contract import SandboxId
from edged.cri.errors import CriError
from edged.pod_workers.pruner import PodPruner
from edged.pod_workers.syncer import PodSyncer
from modules.apimachinery.types import to_value
from protos.cri.v1 import api_pb2 as cri
from tests.edged.conftest import IMAGE, Bench, pod, unavailable

LABELS = {
    "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "uid-web",
}  # fmt: skip


def owned_sandbox(bench: Bench) -> str:
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", uid="uid-web"), labels=LABELS)
    config.annotations["edgecore.io/owner"] = str(bench.settings.root.resolve())
    return bench.runtime.run_pod_sandbox(config)


def last_status(bench: Bench, name: str = "web") -> dict[str, Any]:
    return bench.meta.statuses(name)[-1]


def test_after_a_restart_no_container_counts_as_lost_before_the_runtime_was_asked(bench: Bench) -> None:
    """The cloud's status says Running; until the runtime has been looked at nothing contradicts it."""
    bench.start(pod())
    status = last_status(bench)
    bench.meta.objects["default/pod/web"] = {**pod(), "status": status}
    bench.poison()
    bench.runtime.latency = 0.5
    before = len(bench.meta.statuses("web"))
    bench.run(30)
    later = bench.meta.statuses("web")[before:]
    containers = [c for s in later for c in s.get("containerStatuses", [])]
    assert all(c["restartCount"] == 0 and "terminated" not in c.get("lastState", {}) for c in containers)
    [served] = [p for p in bench.snapshots.pods if p.metadata.name == "web"]
    assert served.status.container_statuses[0].restart_count == 0


def test_after_a_reboot_a_pod_is_not_ready_before_it_is_made_anew(bench: Bench) -> None:
    """The first relist does not have it; the worker that makes its sandbox has not come back yet."""
    bench.start(pod(), wait=2)
    bench.meta.objects["default/pod/web"] = {**pod(), "status": to_value(bench.snapshots.pods[0].status)}
    bench.poison()
    for sandbox in bench.runtime.list_pod_sandboxes():
        bench.runtime.remove_pod_sandbox(SandboxId(sandbox.id))
    bench.runtime.latency = 3.0
    assert bench.running(after=9) == []
    [web] = [each for each in bench.snapshots.pods if each.metadata.name == "web"]
    assert {one.type: one.status for one in web.status.conditions or ()}["Ready"] == "False"


def test_a_status_that_the_store_lacks_is_not_overwritten_by_a_new_pods(bench: Bench) -> None:
    """The store was locked when the cloud sent the pod with its status. After a restart the pod seems to be new, until
    the cloud has sent it again or the runtime has been asked.
    """
    bench.start(pod())
    bench.exit("main", 1, wait=30)
    status = to_value(bench.snapshots.pods[0].status)
    assert status["containerStatuses"][0]["restartCount"] == 1
    bench.meta.objects["default/pod/web"] = pod()
    bench.runtime.latency = 3.0
    before = len(bench.meta.statuses("web"))
    bench.poison(wait=0.7)
    metadata = {**pod()["metadata"], "resourceVersion": "2000"}
    bench.tell("update", {**pod(), "metadata": metadata, "status": status}, wait=60)
    later = bench.meta.statuses("web")[before:]
    assert all(one["restartCount"] == 1 for each in later for one in each.get("containerStatuses", []))
    assert "Pending" not in [each.get("phase") for each in later]


def test_a_pod_that_comes_while_its_remains_are_removed_runs_afterwards(bench: Bench) -> None:
    """The remains count as an orphan's; the end of their removal is not the end of the pod."""
    owned_sandbox(bench)
    bench.runtime.latency = 1.0
    bench.start()
    while not bench.runtime.calls["remove_pod_sandbox"]:
        bench.run(0.1)
    bench.tell("insert", pod())
    bench.runtime.latency = 0.0
    assert bench.running(after=30) == ["main"]
    assert bench.meta.phases("web")[-1] == "Running"


@pytest.mark.parametrize("deletions", [1, 2])
def test_a_pod_that_comes_again_with_its_uid_while_it_is_removed_lives(bench: Bench, deletions: int) -> None:
    """A second deletion queues the pod again; that must not be the end of the new life (found by simulation)."""
    bench.start(pod())
    bench.runtime.obeys = 3.0
    for _ in range(deletions):
        bench.tell("delete", pod())
    bench.tell("insert", pod(metadata={"resourceVersion": "9"}))
    bench.runtime.obeys = 0.0
    assert bench.running(after=30) == ["main"]
    assert bench.meta.phases("web")[-1] == "Running"


def test_a_pod_that_comes_again_and_is_deleted_again_is_gone(bench: Bench) -> None:
    bench.start(pod())
    bench.runtime.obeys = 3.0
    for operation in ("delete", "insert", "delete"):
        bench.tell(operation, pod())
    bench.run(30)
    assert not bench.runtime.sandboxes
    assert bench.snapshots.pods == ()


def test_of_a_pod_that_the_cloud_has_deleted_no_status_is_sent(bench: Bench) -> None:
    bench.start(pod())
    before = len(bench.meta.statuses("web"))
    bench.runtime.obeys = 3.0
    bench.tell("delete", pod(), wait=30)
    assert len(bench.meta.statuses("web")) == before


def test_a_pod_made_again_under_its_name_runs_while_the_old_one_still_ends(bench: Bench) -> None:
    bench.start(pod())
    bench.runtime.obeys = 5.0
    bench.tell("delete", pod())
    bench.tell("insert", pod(metadata={"uid": "uid-new"}))
    assert bench.running() == ["main", "main"]
    bench.run(10)
    assert [c.labels["io.kubernetes.pod.uid"] for c in bench.runtime.containers.values()] == ["uid-new"]


def test_the_stores_list_does_not_revive_a_pod_that_a_message_deleted_before(bench: Bench) -> None:
    bench.meta.objects["default/pod/web"] = pod()
    bench.bee.hive.start()
    delete = bench.bee.message("default/pod/web", "delete", pod(), source="edgecontroller")
    bench.bee.hive.send("edged", delete)
    bench.run(5)
    assert bench.snapshots.pods == ()
    assert bench.running() == []


def test_files_of_a_pod_that_nobody_knows_any_more_are_removed(bench: Bench) -> None:
    """edgecore was killed between the last call of a removal and the removal of the files."""
    mine, logs = bench.settings.root / "pods" / "uid-web", bench.settings.pod_logs / "default_web_uid-web"
    for directory in (mine / "volumes", logs / "main", bench.settings.pod_logs / "default_x_theirs"):
        directory.mkdir(parents=True)
    bench.start(wait=3)
    assert not mine.exists()
    assert not logs.exists()
    assert (bench.settings.pod_logs / "default_x_theirs").exists()


def test_files_of_a_pod_that_runs_and_that_another_agent_made_are_left_alone(bench: Bench) -> None:
    config = cri.PodSandboxConfig(metadata=cri.PodSandboxMetadata(name="web", uid="uid-web"), labels=LABELS)
    theirs = bench.runtime.run_pod_sandbox(config)
    directory = bench.settings.root / "pods" / "uid-web"
    directory.mkdir(parents=True)
    bench.start(wait=10)
    assert list(bench.runtime.sandboxes) == [theirs]
    assert directory.exists()


def test_a_forced_deletion_shortens_the_grace_period_of_running_containers(bench: Bench) -> None:
    bench.start(pod())
    bench.runtime.obeys = float("inf")
    bench.tell("delete", pod(metadata={"deletionGracePeriodSeconds": 0}), wait=2.5)
    assert bench.running() == []


def test_a_pod_that_moves_to_another_node_is_removed_here(bench: Bench) -> None:
    bench.start(pod())
    bench.tell("update", pod(nodeName="other"), wait=31)
    assert bench.running() == []
    assert bench.snapshots.pods == ()


def test_what_waits_for_the_cloud_is_tried_again_when_it_comes(bench: Bench) -> None:
    """Not when its back-off is over."""
    bench.start()
    bench.meta.refuse["default/configmap/settings"] = {"ErrStatus": {"code": 500, "reason": "InternalError"}}
    variable = {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}}
    container = {"name": "main", "image": "busybox:1.36", "command": ["x"], "env": [variable]}
    bench.tell("insert", pod(containers=[container]), wait=100)
    assert bench.running() == []
    bench.meta.refuse.clear()
    bench.meta.objects["default/configmap/settings"] = {"metadata": {"name": "settings"}, "data": {"a": "b"}}
    bench.connection("cloud_connected")
    assert bench.running() == ["main"]


def test_a_configmap_of_the_environment_starts_the_pod_when_it_comes(bench: Bench) -> None:
    bench.start()
    container = {"name": "main", "image": "busybox:1.36", "envFrom": [{"configMapRef": {"name": "settings"}}]}
    bench.tell("insert", pod(containers=[container]))
    assert bench.running() == []
    value = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "b"}}
    bench.meta.objects["default/configmap/settings"] = value
    bench.tell("insert", value, kind="configmap")
    assert bench.running() == ["main"]


def test_a_clock_that_is_set_back_holds_nobody_up(bench: Bench) -> None:
    """A board without a battery: neither crash loop nor image back-off waits for the old time to come again."""
    bench.start(pod(containers=[{"name": "main", "image": "busybox:1.36", "command": ["exit", "1"]}]))
    bench.tell("insert", pod("other", containers=[{"name": "other", "image": "nginx:1", "command": ["x"]}]), wait=5)
    bench.bee.clock.jump_wall(-1e6)
    started = bench.runtime.calls["start_container"]
    bench.run(60)
    assert bench.runtime.calls["start_container"] > started
    newest = max(bench.runtime.containers.values(), key=lambda c: int(c.id.split("-")[1]))
    assert last_status(bench)["containerStatuses"][0]["restartCount"] == newest.metadata.attempt


def test_a_bug_that_one_pod_brings_to_light_ends_neither_edged_nor_the_other_pods(bench: Bench) -> None:
    bench.start()
    with patch.object(PodSyncer, "sync_pod", side_effect=ZeroDivisionError):
        bench.tell("insert", pod())
    bench.tell("insert", pod("other"))
    assert bench.bee.hive.restarts()["edged"] == 0
    assert bench.running() == ["main"]
    assert bench.running(after=3) == ["main", "main"]


def test_a_turn_without_work_looks_at_the_pod_once(bench: Bench) -> None:
    """A node with a hundred pods has nearly two of them a second."""
    bench.start(pod())
    before = bench.runtime.calls["container_status"]
    with patch.object(PodSyncer, "sync_pod", autospec=True, side_effect=PodSyncer.sync_pod) as syncs:
        bench.run(300)
    assert syncs.call_count >= 3
    assert bench.runtime.calls["container_status"] - before == syncs.call_count


def test_a_bug_in_the_look_after_the_work_does_not_end_edged(bench: Bench) -> None:
    """The PLEG sees what was done."""
    bench.start()
    with patch.object(PodPruner, "prune", side_effect=ZeroDivisionError):
        bench.tell("insert", pod())
    bench.run(3)
    assert bench.bee.hive.restarts()["edged"] == 0
    assert last_status(bench)["phase"] == "Running"


def test_a_sandbox_that_dies_under_a_crash_loop_does_not_make_edged_spin(bench: Bench) -> None:
    bench.start(pod(containers=[{"name": "main", "image": "busybox:1.36", "command": ["exit", "1"]}]), wait=40)
    [sandbox] = bench.runtime.sandboxes
    bench.runtime.end_sandbox(sandbox)
    before = bench.runtime.calls.total()
    bench.run(5)
    assert bench.runtime.calls.total() - before < 60
    assert [s.state for s in bench.runtime.sandboxes.values()].count(cri.SANDBOX_READY) == 1


def test_one_container_that_cannot_be_looked_at_does_not_blind_the_pleg_for_others(bench: Bench) -> None:
    bench.start(pod("a", containers=[{"name": "sick", "image": "busybox:1.36", "command": ["x"]}]), pod("b"))
    really = bench.runtime.container_status

    def status(client: Any, container_id: str, **options: Any) -> cri.ContainerStatusResponse:
        if bench.runtime.containers[container_id].metadata.name == "sick":
            raise CriError("ContainerStatus", container_id, grpc.StatusCode.UNKNOWN, "corrupt")
        return really(container_id, **options)  # type: ignore[arg-type]

    with patch.object(type(bench.runtime), "container_status", status):
        bench.runtime.end("sick", 1)
        bench.exit("main", 1, wait=1.2)
        assert bench.running() == ["main"]
    assert bench.running(after=5) == ["main", "sick"]


@pytest.mark.parametrize("content", [None, 5, {}, "x", OK])
def test_a_connection_event_of_another_form_is_no_news(bench: Bench, content: object) -> None:
    bench.start()
    bench.bee.send("edged", bench.bee.message("node/connection", "connect", content, source="edgehub"))
    assert bench.bee.hive.restarts()["edged"] == 0


def test_superfluous_dead_containers_are_removed(bench: Bench) -> None:
    """One is kept, for its log and its last state."""
    bench.start(pod())
    for _ in range(3):
        bench.exit("main", 1, wait=400)
    states = [c.state for c in bench.runtime.containers.values()]
    assert sorted(states) == [cri.CONTAINER_RUNNING, cri.CONTAINER_EXITED]


def test_an_image_stays_where_it_is(bench: Bench) -> None:
    """What is present is not pulled again when the container restarts."""
    bench.start(pod(containers=[{"name": "main", "image": IMAGE, "command": ["x"]}]))
    bench.exit("main", 1, wait=5)
    assert bench.runtime.calls["pull_image"] == 0


def test_a_pod_whose_sandbox_cannot_be_made_has_the_reason(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("run_pod_sandbox", unavailable(), times=5)
    inits = [{"name": "init", "image": "busybox:1.36", "command": ["exit", "0"]}]
    bench.tell("insert", pod(initContainers=inits), wait=2)
    waiting = last_status(bench)["initContainerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "PodInitializing"
    assert "the socket is gone" in waiting["message"]


def test_a_runtime_with_a_false_end_of_a_container_does_not_make_edged_spin(bench: Bench) -> None:
    bench.start(pod(containers=[{"name": "main", "image": "busybox:1.36", "command": ["x"]}]))
    with patch.object(type(bench.runtime), "stop_container", lambda *_: None):
        bench.tell("update", pod(containers=[{"name": "main", "image": "busybox:1.37", "command": ["x"]}]), wait=10)
    assert bench.runtime.calls["create_container"] < 50


def test_many_init_containers_that_end_immediately_do_not_wait_for_a_relist(bench: Bench) -> None:
    bench.start()
    inits = [{"name": f"i{n}", "image": "busybox:1.36", "command": ["exit", "0"]} for n in range(10)]
    bench.tell("insert", pod(initContainers=inits))
    assert bench.running() == ["main"]
