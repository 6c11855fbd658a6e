"""edged's events of pods' lives, in order: edged alone on the bus."""

from typing import Any

import grpc

from edged.cri.contract import ExecResult, SandboxId
from edged.cri.errors import CriError
from tests.edged.conftest import Bench, pod, unavailable

SECOND = 1.5


def refused() -> CriError:
    return CriError("Call", "", grpc.StatusCode.INTERNAL, "no space left on device")


def container(**changes: Any) -> dict[str, Any]:
    return {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"], **changes}


def reasons(bench: Bench, name: str = "web") -> list[str]:
    return [reason for reason, _ in bench.meta.told(name)]


def test_a_pods_story_goes_from_its_creation_to_its_end(bench: Bench) -> None:
    bench.start(pod(), wait=SECOND)
    made = [told for told in bench.meta.told("web") if told[0] in ("Created", "Started")]
    assert made == [("Created", "Created container: main"), ("Started", "Started container main")]
    bench.tell("delete", pod(), wait=SECOND)
    assert bench.meta.told("web")[-1] == ("Killing", "Stopping container main")


def test_an_event_names_the_container_and_the_node(bench: Bench) -> None:
    bench.start(pod(initContainers=[container(name="init", command=["exit", "0"])]), wait=SECOND * 2)
    paths = {e["message"]: e["involvedObject"].get("fieldPath") for e in bench.meta.events.values()}
    assert paths["Started container main"] == "spec.containers{main}"
    assert paths["Started container init"] == "spec.initContainers{init}"
    assert {e["source"]["host"] for e in bench.meta.events.values()} == {"n1"}


def test_an_event_quotes_the_runtimes_error(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("create_container", refused())
    bench.tell("insert", pod(), wait=SECOND)
    failed = [message for reason, message in bench.meta.told("web") if reason == "Failed"]
    assert len(failed) == 1
    assert failed[0].startswith("Error: ")
    assert "no space left on device" in failed[0]


def test_equal_failures_of_one_container_are_one_event(bench: Bench) -> None:
    """The runtime's text has the id of the container, which is another one at each start; an image's digest stays."""
    told = f"no such file: {'5c' * 32}/work of image sha256:{'ab' * 32}"
    bench.start()
    for identity in ("0f" * 32, "1e" * 32, "2d" * 32):
        bench.runtime.fail("start_container", CriError("StartContainer", identity, grpc.StatusCode.UNKNOWN, told))
    bench.tell("insert", pod(), wait=60)
    (failed,) = [each for each in bench.meta.events.values() if each["reason"] == "Failed"]
    assert failed["count"] == 3
    assert failed["message"].startswith(
        "Error: StartContainer of main failed: no such file: main/work of image sha256:ab"
    )


def test_a_sandbox_that_cannot_be_made_is_reported(bench: Bench) -> None:
    bench.start()
    bench.runtime.fail("run_pod_sandbox", refused())
    bench.tell("insert", pod(), wait=SECOND)
    assert reasons(bench)[0] == "FailedCreatePodSandBox"


def test_a_volume_without_its_configmap_is_reported(bench: Bench) -> None:
    bench.start(pod(volumes=[{"name": "config", "configMap": {"name": "nowhere"}}]), wait=SECOND)
    (told,) = bench.meta.told("web")
    assert told[0] == "FailedMount"
    assert "nowhere" in told[1]


def test_a_container_that_keeps_ending_is_reported_once_for_each_wait(bench: Bench) -> None:
    """And not with every look at it."""
    bench.start(pod(containers=[container(command=["exit", "3"])]), wait=8)
    events = [event for event in bench.meta.events.values() if event["reason"] == "BackOff"]
    assert [(event["type"], event["count"]) for event in events] == [("Warning", 1)]
    assert events[0]["message"] == "Back-off restarting failed container main in pod web_default(uid-web)"
    bench.run(30)
    (event,) = [event for event in bench.meta.events.values() if event["reason"] == "BackOff"]
    assert event["count"] in (2, 3)


def test_a_dead_sandbox_is_reported(bench: Bench) -> None:
    bench.start(pod())
    (sandbox,) = bench.runtime.sandboxes
    bench.runtime.stop_pod_sandbox(SandboxId(sandbox))
    bench.run(SECOND * 2)
    assert "SandboxChanged" in reasons(bench)


def test_a_pod_that_cannot_be_killed_is_reported(bench: Bench) -> None:
    bench.start(pod())
    bench.runtime.fail("stop_container", unavailable())
    bench.tell("update", pod(metadata={"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 1}))
    bench.run(30)
    (text,) = [message for reason, message in bench.meta.told("web") if reason == "FailedKillPod"]
    assert text.startswith("error killing pod: ")
    assert bench.running() == []


def test_a_failed_probe_is_reported_without_the_containers_output(bench: Bench) -> None:
    bench.start()
    bench.runtime.on_exec = lambda _name, _command: ExecResult(b"password=hunter2", b"", 1)
    probe = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 2}
    bench.tell("insert", pod(containers=[container(livenessProbe=probe)]), wait=8)
    told = dict(reversed(bench.meta.told("web")))
    assert told["Unhealthy"] == "Liveness probe failed: exit code 1"
    assert "Container main failed liveness probe, will be restarted" in [m for _, m in bench.meta.told("web")]
    assert "hunter2" not in str(bench.meta.events)


def test_the_node_has_events_of_edgeds_start_and_readiness(bench: Bench) -> None:
    bench.start(wait=SECOND)
    assert ("Starting", "Starting edged.") in bench.meta.told("n1")
    assert ("NodeReady", "Node n1 status is now: NodeReady") in bench.meta.told("n1")


def test_a_pod_that_was_active_for_too_long_is_reported(bench: Bench) -> None:
    bench.start(pod(activeDeadlineSeconds=5), wait=8)
    message = "Pod was active on the node longer than the specified deadline"
    assert bench.meta.told("web").count(("DeadlineExceeded", message)) == 1


def test_a_refused_pod_is_reported_with_the_reason_of_its_status(bench: Bench) -> None:
    bench.start()
    asking = container(resources={"requests": {"cpu": "10000"}})
    bench.tell("insert", pod(containers=[asking]), wait=SECOND)
    assert reasons(bench)[0] == "OutOfcpu"


def test_keys_that_can_be_no_variables_are_reported(bench: Bench) -> None:
    """And the container starts without them."""
    bench.start()
    kept = {"kind": "ConfigMap", "metadata": {"name": "kept", "namespace": "default"}, "data": {"a": "1", "b=": "2"}}
    bench.meta.objects["default/configmap/kept"] = kept
    bench.tell("insert", pod(containers=[container(envFrom=[{"configMapRef": {"name": "kept"}}])]), wait=SECOND)
    [message] = [message for reason, message in bench.meta.told("web") if reason == "InvalidEnvironmentVariableNames"]
    assert "[b=] from the EnvFrom configMap kept were skipped" in message
    [config] = bench.runtime.configs.values()
    assert [each.key for each in config.envs] == ["a"]
