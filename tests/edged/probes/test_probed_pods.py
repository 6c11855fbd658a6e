"""Probes of pods on a node in virtual time: what they do to status and containers."""

import json
from collections.abc import Sequence
from typing import Any

import grpc
import pytest

from edged.cri.contract import ContainerId, ExecResult
from edged.cri.errors import DeadlineExceededError
from modules.apimachinery.types import Pod, encode
from tests.edged.conftest import Bench, pod

IP = "10.0.0.2"
"""The address of the first pod that the runtime double makes."""
HTTP = {"httpGet": {"port": 80, "path": "/"}}


def probed(name: str = "web", policy: str = "Always", **probes: Any) -> dict[str, Any]:
    """A pod with one container that has these probes (`liveness=...`), each an HTTP GET unless it says otherwise."""
    made = {f"{kind}Probe": {"periodSeconds": 10, **HTTP, **probe} for kind, probe in probes.items()}
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"], **made}
    return pod(name, containers=[container], restartPolicy=policy)


def main_status(bench: Bench, name: str = "web") -> dict[str, Any]:
    """What was last reported of the container."""
    status: dict[str, Any] = bench.meta.statuses(name)[-1]["containerStatuses"][0]
    return status


def served(bench: Bench) -> Pod:
    """The pod as the node itself shows it."""
    return next(each for each in bench.snapshots.pods if each.metadata.name == "web")


def is_ready(bench: Bench) -> bool:
    conditions = {c["type"]: c["status"] for c in bench.meta.statuses("web")[-1]["conditions"]}
    assert conditions["Ready"] == conditions["ContainersReady"]
    return bool(conditions["Ready"] == "True")


def settled(bench: Bench) -> Bench:
    """A node that has been up for longer than any probe's period, so that nothing is spread."""
    bench.start(wait=120)
    return bench


def test_a_container_is_ready_when_its_probe_has_passed_and_not_before(bench: Bench) -> None:
    """The change is reported immediately, not at a tick."""
    settled(bench).tell("insert", probed(readiness={"periodSeconds": 1}))
    assert (main_status(bench)["ready"], is_ready(bench)) == (False, False)
    assert main_status(bench)["started"] is True
    bench.network.statuses[IP, 80] = 200
    bench.run(1)
    assert (main_status(bench)["ready"], is_ready(bench)) == (True, True)


def test_a_container_that_is_not_ready_any_more_is_left_alone(bench: Bench) -> None:
    bench.network.statuses[IP, 80] = 200
    settled(bench).tell("insert", probed(readiness={"periodSeconds": 1, "failureThreshold": 2}))
    assert is_ready(bench)
    bench.network.statuses[IP, 80] = 500
    bench.run(1)
    assert is_ready(bench)
    bench.run(1)
    assert not is_ready(bench)
    bench.run(60)
    assert bench.runtime.calls["create_container"] == 1
    bench.network.statuses[IP, 80] = 204
    bench.run(1)
    assert is_ready(bench)


@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_a_container_that_fails_is_killed_and_started_again(bench: Bench, kind: str) -> None:
    """Its predecessor's failures do not count against it."""
    probes: dict[str, Any] = {kind: {"periodSeconds": 1, "failureThreshold": 3}}
    settled(bench).tell("insert", probed(**probes), wait=1.5)
    assert bench.runtime.calls["stop_container"] == 0
    bench.run(1)
    assert bench.runtime.calls["stop_container"] == 1
    assert bench.running() == ["main"]
    assert main_status(bench)["restartCount"] == 1
    bench.network.statuses[IP, 80] = 200
    bench.run(60)
    assert bench.runtime.calls["stop_container"] == 1


def test_a_pod_that_never_restarts_fails_by_its_liveness_probe(bench: Bench) -> None:
    settled(bench)
    bench.runtime.obeys = float("inf")
    bench.tell("insert", probed(policy="Never", liveness={"periodSeconds": 1, "failureThreshold": 1}), wait=90)
    assert bench.meta.phases("web")[-1] == "Failed"
    assert bench.runtime.calls["create_container"] == 1


def test_startup_holds_the_others_back(bench: Bench) -> None:
    """For any time within its threshold; once it has passed, readiness is probed immediately."""
    tcp = {"tcpSocket": {"port": 81}, "httpGet": None}
    settled(bench).tell(
        "insert",
        probed(
            startup={"periodSeconds": 5, "failureThreshold": 100},
            liveness={**tcp, "periodSeconds": 1, "failureThreshold": 1},
            readiness={**tcp, "periodSeconds": 60},
        ),
    )
    bench.run(200)
    assert bench.network.asked[IP, 81] == 0
    assert (main_status(bench)["started"], main_status(bench)["ready"]) == (False, False)
    bench.network.statuses.update({(IP, 80): 200, (IP, 81): 200})
    bench.run(5.5)
    assert (main_status(bench)["started"], main_status(bench)["ready"]) == (True, True)
    asked = bench.network.asked[IP, 80]
    bench.run(60)
    assert bench.network.asked[IP, 80] == asked
    assert bench.runtime.calls["create_container"] == 1


def test_a_probe_without_a_target_changes_nothing(bench: Bench) -> None:
    """A port that has no such name: not ready, and not killed. It is looked for each time, and events tell."""
    strange = {"httpGet": {"port": "none"}, "periodSeconds": 1, "failureThreshold": 1}
    settled(bench).tell("insert", probed(liveness=strange, readiness=strange), wait=60)
    assert main_status(bench)["ready"] is False
    assert bench.runtime.calls["create_container"] == 1
    told = [each for each in bench.meta.events.values() if each["reason"] == "Unhealthy"]
    assert {each["message"].partition(":")[0] for each in told} == {"Liveness probe errored", "Readiness probe errored"}
    assert all(each["count"] > 10 for each in told)


@pytest.mark.parametrize("status", [300, 302, 399])
def test_a_redirect_that_is_not_followed_passes_with_an_event(bench: Bench, status: int) -> None:
    bench.network.statuses[IP, 80] = status
    settled(bench).tell("insert", probed(readiness={"periodSeconds": 1}), wait=3)
    assert main_status(bench)["ready"] is True
    (told,) = [each for each in bench.meta.events.values() if each["reason"] == "ProbeWarning"]
    assert told["message"] == f"Readiness probe warning: Probe terminated redirects, HTTP status {status}"
    assert told["type"] == "Warning"


def test_a_status_that_is_none_of_success_is_told_in_a_kubelets_words(bench: Bench) -> None:
    bench.network.statuses[IP, 80] = 503
    settled(bench).tell("insert", probed(readiness={"periodSeconds": 1}), wait=3)
    (told,) = [each for each in bench.meta.events.values() if each["reason"] == "Unhealthy"]
    assert told["message"] == "Readiness probe failed: HTTP probe failed with statuscode: 503"


def test_a_probe_that_passes_is_no_event(bench: Bench) -> None:
    bench.network.statuses[IP, 80] = 200
    settled(bench).tell("insert", probed(readiness={"periodSeconds": 1}), wait=3)
    assert not any("probe" in each["message"] for each in bench.meta.events.values())


def test_the_grace_period_of_the_probe_holds_for_its_kill(bench: Bench) -> None:
    liveness = {"periodSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 4}
    settled(bench)
    bench.runtime.obeys = float("inf")
    bench.tell("insert", probed(liveness=liveness), wait=3.8)
    assert main_status(bench)["restartCount"] == 0
    bench.run(0.5)
    assert main_status(bench)["restartCount"] == 1


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_pod_that_is_deleted_is_not_asked_whether_it_lives(bench: Bench, *, is_forced: bool) -> None:
    """But whether it is ready, until its containers have ended."""
    bench.network.statuses[IP, 80] = 200
    bench.network.statuses[IP, 81] = 200
    ready = {"tcpSocket": {"port": 81}, "httpGet": None, "periodSeconds": 1}
    wanted = probed(liveness={"periodSeconds": 1}, readiness=ready)
    settled(bench).tell("insert", wanted)
    bench.runtime.obeys = 10.0
    going = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": 30}
    bench.tell("delete" if is_forced else "update", {**wanted, "metadata": {**wanted["metadata"], **going}})
    alive, ready_asked = bench.network.asked[IP, 80], bench.network.asked[IP, 81]
    bench.run(5)
    assert bench.network.asked[IP, 80] == alive
    assert bench.network.asked[IP, 81] > ready_asked
    bench.run(30)
    last = bench.network.asked[IP, 81]
    bench.run(30)
    assert bench.network.asked[IP, 81] == last


def test_a_container_that_has_ended_is_not_asked(bench: Bench) -> None:
    bench.network.statuses[IP, 80] = 200
    settled(bench).tell("insert", probed(policy="Never", liveness={"periodSeconds": 1}, readiness={"periodSeconds": 1}))
    bench.exit("main", 0, wait=1.5)
    asked = bench.network.asked[IP, 80]
    bench.run(30)
    assert bench.network.asked[IP, 80] == asked
    assert bench.meta.phases("web")[-1] == "Succeeded"


def test_an_agent_that_begins_again_leaves_a_ready_container_ready(bench: Bench) -> None:
    """Until its probe says otherwise; and does not ask again whether it has started."""
    bench.network.statuses[IP, 80] = 200
    wanted = probed(startup={"tcpSocket": {"port": 81}, "httpGet": None}, readiness={"periodSeconds": 20})
    bench.network.statuses[IP, 81] = 200
    settled(bench).tell("insert", wanted, wait=1)
    assert is_ready(bench)
    bench.meta.objects["default/pod/web"] = {**wanted, "status": json.loads(encode(served(bench).status))}
    asked = bench.network.asked[IP, 81]
    bench.network.statuses[IP, 80] = 500
    bench.poison()
    for _ in range(50):
        bench.run(0.1)
        container = served(bench).status.container_statuses[0]
        assert (container.ready, container.started) == (True, True)
    bench.run(90)
    assert not served(bench).status.container_statuses[0].ready
    assert bench.network.asked[IP, 81] == asked


def test_a_probe_that_is_changed_is_asked_as_it_is_now(bench: Bench) -> None:
    """Without a restart, and without being unready meanwhile."""
    bench.network.statuses.update({(IP, 80): 200, (IP, 81): 200})
    settled(bench).tell("insert", probed(readiness={"periodSeconds": 1}))
    other = probed(readiness={"periodSeconds": 1, "httpGet": {"port": 81}})
    other["metadata"]["resourceVersion"] = "2"
    bench.tell("update", other)
    assert is_ready(bench)
    before = bench.network.asked[IP, 80]
    bench.run(10)
    assert bench.network.asked[IP, 80] == before
    assert bench.network.asked[IP, 81] >= 10
    assert bench.runtime.calls["create_container"] == 1
    bench.tell("update", {**probed(), "metadata": {**other["metadata"], "resourceVersion": "3"}})
    asked = bench.network.asked.total()
    bench.run(10)
    assert bench.network.asked.total() == asked
    assert is_ready(bench)


def test_a_pod_without_probes_costs_no_actor(bench: Bench) -> None:
    settled(bench).tell("insert", pod(), wait=30)
    assert bench.network.asked.total() == 0
    assert bench.runtime.calls["exec_sync"] == 0
    assert is_ready(bench)


def test_a_pod_whose_probes_never_end_keeps_no_other_from_being_probed(bench: Bench) -> None:
    """Twenty probes that hang for 3,000 s: the next pod becomes ready, and is restarted when it is not alive."""
    hanging = {"exec": {"command": ["hang"]}, "periodSeconds": 1, "timeoutSeconds": 3000}
    containers = [
        {"name": f"c{number}", "image": "busybox:1.36", "readinessProbe": hanging, "livenessProbe": hanging}
        for number in range(10)
    ]

    def hang(container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:
        assert command == ("hang",)
        bench.bee.simulation.clock.after(timeout_seconds, (over := bench.bee.simulation.future()).set)
        over.get()
        raise DeadlineExceededError("ExecSync", container_id, grpc.StatusCode.DEADLINE_EXCEEDED, "late")

    bench.runtime.exec_sync = hang  # type: ignore[method-assign]
    settled(bench).tell("insert", pod("bad", containers=containers), wait=30)
    addresses = [(f"10.0.0.{number}", 80) for number in range(20)]
    bench.network.statuses.update(dict.fromkeys(addresses, 200))
    bench.tell("insert", probed(readiness={"periodSeconds": 1}, liveness={"periodSeconds": 1, "failureThreshold": 1}))
    bench.run(10)
    assert served(bench).status.container_statuses[0].ready
    bench.network.statuses.update(dict.fromkeys(addresses, 500))
    bench.run(60)
    assert served(bench).status.container_statuses[0].restart_count >= 1


def test_after_a_restart_what_waits_for_a_sidecar_that_was_started_begins_immediately(bench: Bench) -> None:
    """Its container was not made before the agent ended; no probe reports the start again."""
    probe = {"httpGet": {"port": 81}, "periodSeconds": 1}
    side = {"name": "side", "image": "busybox:1.36", "command": ["sleep"], "restartPolicy": "Always"}
    bench.network.statuses[IP, 81] = 200
    settled(bench).tell("insert", pod(initContainers=[{**side, "startupProbe": probe}]), wait=3)
    bench.meta.objects["default/pod/web"] = json.loads(encode(served(bench)))
    (main,) = (each for each in bench.runtime.containers.values() if each.metadata.name == "main")
    del bench.runtime.containers[main.id]
    bench.poison(wait=5)
    assert bench.bee.hive.restarts()["edged"] == 1
    assert bench.running().count("main") == 2, "its own and that of the other pod"
