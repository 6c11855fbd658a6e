"""A pod's life on a node in virtual time, where its containers' own wishes decide."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import grpc
import pytest

from edged.cri.errors import CriError
from edged.errors import ConfigError
from edged.node.recording import links_wanted
from modules.apimachinery.types import Pod, to_value
from tests.edged.conftest import Bench, pod


def container(name: str = "main", *command: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1.36", "command": list(command or ("sleep", "inf")), **fields}


def status_of(bench: Bench, name: str = "main", kind: str = "containerStatuses") -> dict[str, Any]:
    """The status of a container as the node serves it."""
    [web] = [pod for pod in bench.snapshots.pods if pod.metadata.name == "web"]
    statuses: list[dict[str, Any]] = to_value(web.status)[kind]
    return next(each for each in statuses if each["name"] == name)


def test_the_log_ends_a_failed_containers_message_if_it_has_none(bench: Bench) -> None:
    bench.start()
    wanted = container(terminationMessagePath="/dev/x", terminationMessagePolicy="FallbackToLogsOnError")
    bench.tell("insert", pod(containers=[wanted], restartPolicy="Never"))
    [running] = bench.runtime.containers.values()
    log = Path(running.log_path)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("2026-11-20T01:54:50Z stdout F preparing\n2026-11-20T01:54:51Z stderr F it broke\n")
    bench.exit("main", 1, wait=1.5)
    assert status_of(bench)["state"]["terminated"]["message"] == "preparing\nit broke\n"


def test_a_rule_of_a_container_starts_it_again_in_a_pod_that_never_does(bench: Bench) -> None:
    """For the code that it names; another code ends it, and with it the pod."""
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    main = container(restartPolicy="Never", restartPolicyRules=[rule])
    bench.start(pod(containers=[main], restartPolicy="Never"))
    bench.exit("main", 42, wait=2)
    assert bench.running() == ["main"]
    assert (status_of(bench)["restartCount"], bench.meta.phases("web")[-1]) == (1, "Running")
    bench.exit("main", 7, wait=2)
    assert (bench.running(), bench.meta.phases("web")[-1]) == ([], "Failed")


def test_a_container_that_never_restarts_leaves_the_others_running(bench: Bench) -> None:
    bench.start(pod(containers=[container(), container("once", "exit", "3", restartPolicy="Never")]), wait=60)
    assert bench.running() == ["main"]
    assert status_of(bench, "once")["state"]["terminated"]["exitCode"] == 3
    assert bench.meta.phases("web")[-1] == "Running"


def test_a_pod_that_failed_only_by_back_off_is_tried_again_by_itself(bench: Bench) -> None:
    """No message, no relist that sees a change: the back-off alone wakes it, until ten good minutes forgive it."""
    bench.start(pod())

    def ends_and_comes_back() -> float:
        bench.runtime.end("main", 1)
        begin = bench.bee.clock.monotonic()
        while bench.running() != ["main"]:
            bench.run(0.5)
        return bench.bee.clock.monotonic() - begin

    waits = [ends_and_comes_back() for _ in range(4)]
    assert [round(wait, -1) for wait in waits] == [0, 10, 20, 40]
    bench.run(610)
    assert ends_and_comes_back() < 2
    assert 9 < ends_and_comes_back() < 12


def test_an_ephemeral_container_joins_a_pod_that_runs(bench: Bench) -> None:
    """It is started once, whatever becomes of it, and goes with the pod."""
    bench.start(pod())
    debug = {**container("debug"), "targetContainerName": "main"}
    debugged = pod(ephemeralContainers=[debug], metadata={"resourceVersion": "2"})
    bench.tell("update", debugged)
    assert bench.running() == ["debug", "main"]
    assert "running" in status_of(bench, "debug", "ephemeralContainerStatuses")["state"]
    bench.exit("debug", 1, wait=100)
    assert bench.running() == ["main"]
    assert status_of(bench, "debug", "ephemeralContainerStatuses")["state"]["terminated"]["exitCode"] == 1
    assert status_of(bench)["restartCount"] == 0
    bench.tell("delete", debugged)
    assert bench.runtime.containers == {}


def test_an_ephemeral_container_without_its_target_waits_with_the_reason(bench: Bench) -> None:
    bench.start(pod())
    debug = {**container("debug"), "targetContainerName": "other"}
    bench.tell("update", pod(ephemeralContainers=[debug], metadata={"resourceVersion": "2"}))
    waiting = status_of(bench, "debug", "ephemeralContainerStatuses")["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "other" in waiting["message"]
    assert bench.running() == ["main"]


def condition_of(bench: Bench, kind: str) -> dict[str, Any]:
    [web] = bench.snapshots.pods
    conditions: list[dict[str, Any]] = to_value(web.status)["conditions"]
    return next(each for each in conditions if each["type"] == kind)


def test_a_readiness_gate_is_opened_and_closed_by_others(bench: Bench) -> None:
    """Through the pod's status in the cloud; the containers go on."""
    gate = "example.com/served"
    bench.start()
    gated = pod(readinessGates=[{"conditionType": gate}])
    bench.tell("insert", gated)
    assert (condition_of(bench, "Ready")["status"], condition_of(bench, "ContainersReady")["status"]) == (
        "False",
        "True",
    )
    for number, said in enumerate(("True", "False"), 2):
        status = {"phase": "Running", "conditions": [{"type": gate, "status": said}]}
        bench.tell(
            "update", {**gated, "metadata": {**gated["metadata"], "resourceVersion": str(number)}, "status": status}
        )
        assert condition_of(bench, "Ready")["status"] == said
        assert condition_of(bench, gate)["status"] == said
    assert bench.runtime.calls["start_container"] == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_pod_that_stayed_is_ready_again_as_soon_as_the_cloud_has_sent_it(bench: Bench, *, restarted: bool) -> None:
    """While the node was away the controller manager of a cluster has written that its pods are not ready. What others
    decide, a readiness gate, stays as it is.
    """
    gate = "example.com/served"
    gated = pod(readinessGates=[{"conditionType": gate}])
    opened = {"type": gate, "status": "True"}
    bench.start({**gated, "status": {"conditions": [opened]}}, wait=2)
    [web] = bench.snapshots.pods
    ready = to_value(web.status)
    assert conditions_in(ready) | {"Ready": "True", gate: "True"} == conditions_in(ready)
    stored = {**gated, "metadata": {**gated["metadata"], "resourceVersion": "2"}, "status": ready}
    bench.tell("update", stored)
    bench.meta.objects["default/pod/web"] = stored
    bench.connection("cloud_disconnected")
    if restarted:
        bench.poison()
    bench.run(30)
    bench.connection("cloud_connected", wait=3)
    written = [{**one, "status": "False"} if one["type"] == "Ready" else one for one in ready["conditions"]]
    away = {**stored, "metadata": {**gated["metadata"], "resourceVersion": "2000"}}
    before = len(bench.meta.statuses("web"))
    bench.tell("update", {**away, "status": {**ready, "conditions": written}}, wait=0.1)
    [sent] = bench.meta.statuses("web")[before:]
    assert conditions_in(sent)["Ready"] == "True"
    assert gate not in conditions_in(sent)
    assert "$patch" not in str(sent["conditions"])


def conditions_in(status: dict[str, Any]) -> dict[str, str]:
    """The conditions that a patch names, with their values."""
    return {one["type"]: one.get("status", "") for one in status["conditions"] if "type" in one}


def test_a_status_names_the_pods_generation(bench: Bench) -> None:
    bench.start(pod(metadata={"generation": 1}))
    bench.tell("update", pod(metadata={"generation": 2, "resourceVersion": "2"}, terminationGracePeriodSeconds=7))
    [web] = bench.snapshots.pods
    assert {web.status.observed_generation, *(c.observed_generation for c in web.status.conditions)} == {2}


def test_an_unlimited_resource_is_the_nodes_allocatable(bench: Bench) -> None:
    env = [{"name": "CPUS", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]
    bench.start(wait=1)
    bench.tell("insert", pod(containers=[container(env=env)]))
    [config] = bench.runtime.configs.values()
    assert int({each.key: each.value for each in config.envs}["CPUS"]) >= 1


def test_containers_have_variables_of_services_and_wait_for_them(tmp_path: Path) -> None:
    """The Services' own part knows what a pod has that wants no links."""
    is_known = False

    def links(asked: Pod) -> dict[str, str]:
        namespace, enabled = links_wanted(asked)
        if not is_known:
            raise ConfigError("set the variables of Services", namespace, "they are not read yet", retryable=True)
        return {"LINKS": f"{namespace} {enabled}"}

    bench = Bench(tmp_path, service_links=links)
    bench.start(pod("with"), pod("without", enableServiceLinks=False))
    assert not bench.runtime.configs
    is_known = True
    bench.run(60)
    values = [each.value for one in bench.runtime.configs.values() for each in one.envs if "LINKS" in each.key]
    bench.stop()
    assert sorted(values) == [b"default False", b"default True"]


def test_a_missing_reference_of_a_container_is_named_and_it_starts_when_it_is_there(bench: Bench) -> None:
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x"}}}]
    bench.start(pod(containers=[container(env=env)]))
    waiting = status_of(bench)["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerConfigError"
    assert "settings" in waiting["message"]
    made = {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"x": "1"}}
    bench.meta.objects["default/configmap/settings"] = made
    bench.tell("insert", made, kind="configmap")
    assert bench.running() == ["main"]


def test_a_container_that_is_exchanged_has_not_ended_by_itself(bench: Bench) -> None:
    """Its successor waits for an image: the pod, which starts nothing again, is not done, and goes on with it."""
    bench.start(pod(containers=[container()], restartPolicy="Never"))
    bench.runtime.fail("pull_image", CriError("PullImage", "", grpc.StatusCode.UNAVAILABLE, "no registry"))
    bench.tell("update", pod(containers=[{**container(), "image": "busybox:2"}], restartPolicy="Never"), wait=3)
    assert bench.running() == []
    assert bench.meta.phases("web")[-1] == "Running"
    assert bench.running(after=60) == ["main"]
    bench.exit("main", 0, wait=2)
    assert bench.meta.phases("web")[-1] == "Succeeded"


def test_a_missing_reference_of_a_container_is_asked_for_ever_more_seldom_and_its_image_once(bench: Bench) -> None:
    """A pull policy of Always made a pull of each try, and each pull a success after which the delay started over."""
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "x"}}}]
    bench.start(pod(containers=[container(image="app:latest", imagePullPolicy="Always", env=env)]), wait=600)
    assert bench.runtime.calls["pull_image"] == 1
    events = [event for event in bench.meta.events.values() if event["reason"] == "Failed"]
    assert 5 <= sum(event.get("count", 1) for event in events) <= 12
    made = {"kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": {"x": "1"}}
    bench.meta.objects["default/configmap/settings"] = made
    bench.tell("insert", made, kind="configmap")
    assert bench.running() == ["main"]
    assert bench.runtime.calls["pull_image"] == 2, "the image may be another one by now"


def test_an_image_that_a_container_may_not_run_is_asked_for_again(bench: Bench) -> None:
    """With an image of another user there is nothing that it lacks: it is pulled at each try, which are ever fewer."""
    security = {"runAsNonRoot": True, "runAsUser": 0}
    bench.start(pod(containers=[container(image="app:latest", imagePullPolicy="Always", securityContext=security)]))
    bench.run(600)
    assert 5 <= bench.runtime.calls["pull_image"] <= 10


def test_a_pod_has_a_directory_for_its_logs_before_anything_of_it_runs(bench: Bench) -> None:
    """The runtime writes there and does not make it; log collectors rely on its name."""
    bench.start()
    there: list[list[str]] = []
    run, logs = bench.runtime.run_pod_sandbox, bench.settings.pod_logs

    def noting(*arguments: Any, **named: Any) -> Any:
        there.append([path.name for path in logs.iterdir()] if logs.exists() else [])
        return run(*arguments, **named)

    with patch.object(type(bench.runtime), "run_pod_sandbox", staticmethod(noting)):
        bench.tell("insert", pod())
    assert bench.running() == ["main"]
    [found] = there
    assert found == [f"default_web_{pod()['metadata']['uid']}"]
