"""Lifecycle hooks of pods on a node in virtual time."""

from collections.abc import Callable
from typing import Any

import pytest

from edged.cri.contract import ExecResult
from modules.lab.doubles.container_runtime import FakeRuntime
from tests.edged.conftest import Bench, pod
from tests.edged.lifecycle.test_ending_pods import going

IP = "10.0.0.2"
GOOD, BAD = ExecResult(b"", b"", 0), ExecResult(b"", b"a secret", 3)
EXEC = {"exec": {"command": ["hook"]}}
HTTP = {"httpGet": {"port": 80, "path": "/hook"}}


def hooked(start: dict[str, Any] | None = None, stop: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A pod with one container that has these hooks."""
    lifecycle = {"postStart": start, "preStop": stop}
    container = {"name": "main", "image": "busybox:1.36", "command": ["sleep", "inf"], "lifecycle": lifecycle}
    return pod(**{"containers": [container, *changes.pop("more", [])], **changes})


def other(name: str = "other") -> dict[str, Any]:
    return {"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"]}


def takes(bench: Bench, seconds: float, result: ExecResult = GOOD) -> list[float]:
    """Commands take this long; returns when each began."""
    begun: list[float] = []

    def execute(_name: str, _command: Any) -> ExecResult:
        begun.append(bench.bee.clock.monotonic())
        over = bench.bee.simulation.future()
        bench.bee.clock.after(seconds, over.set)
        over.get()
        return result

    bench.runtime.on_exec = execute
    return begun


def main_status(bench: Bench) -> dict[str, Any]:
    statuses = bench.meta.statuses("web")[-1]["containerStatuses"]
    return next(status for status in statuses if status["name"] == "main")


def waiting(bench: Bench) -> str:
    """Why the container waits, as it was last reported."""
    reason: str = main_status(bench)["state"].get("waiting", {}).get("reason", "")
    return reason


@pytest.fixture
def limits(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The grace periods that containers are stopped with."""
    seen: list[int] = []
    really: Callable[..., None] = FakeRuntime.stop_container

    def stop(client: FakeRuntime, container_id: Any, grace_seconds: int) -> None:
        seen.append(grace_seconds)
        really(client, container_id, grace_seconds)

    monkeypatch.setattr(FakeRuntime, "stop_container", stop)
    return seen


@pytest.mark.parametrize("hook", [EXEC, {"sleep": {"seconds": 5}}], ids=["exec", "sleep"])
def test_a_container_has_started_only_when_its_hook_is_through(bench: Bench, hook: dict[str, Any]) -> None:
    """Until then it is reported as being made, the containers after it wait, and it is not probed."""
    takes(bench, 5)
    bench.network.statuses[IP, 80] = 200
    wanted = hooked(start=hook, more=[other()])
    wanted["spec"]["containers"][0]["readinessProbe"] = {"tcpSocket": {"port": 80}, "periodSeconds": 1}
    bench.start(wanted, wait=4)
    assert bench.running() == ["main"]
    assert waiting(bench) == "ContainerCreating"
    assert bench.network.asked.total() == 0
    assert bench.running(after=3) == ["main", "other"]
    assert main_status(bench)["ready"] is True


def test_a_hook_is_a_request_too(bench: Bench) -> None:
    """What status it is answered with does not matter."""
    bench.network.statuses[IP, 80] = 500
    bench.start(hooked(start=HTTP))
    assert bench.meta.phases("web")[-1] == "Running"
    [request] = bench.network.requests
    assert (request.host, request.path) == (IP, "/hook")
    assert ("User-Agent", "kube-lifecycle/1.32") in request.headers


@pytest.mark.parametrize(
    "hook", [EXEC, HTTP, {"tcpSocket": {"port": 80}}, {"tcpSocket": {"port": "none"}}, {}], ids=str
)
def test_a_container_whose_hook_fails_is_killed_and_tried_again(bench: Bench, hook: dict[str, Any]) -> None:
    """With the back-off of a container that keeps ending; the hook's output stays private."""
    takes(bench, 0, BAD)
    bench.start(hooked(start=hook))
    assert bench.running() == []
    reported = [status["containerStatuses"][0]["state"] for status in bench.meta.statuses("web")]
    assert "PostStartHookError" in [state.get("waiting", {}).get("reason") for state in reported]
    assert "secret" not in str(bench.meta.statuses("web"))
    bench.run(8)
    assert waiting(bench) == "CrashLoopBackOff"
    bench.run(600)
    assert 3 < bench.runtime.calls["create_container"] < 10
    assert bench.running() == []


def test_a_hook_that_never_ends_does_not_keep_the_pod(bench: Bench) -> None:
    takes(bench, float("inf"))
    wanted = hooked(start=EXEC)
    bench.start(wanted, wait=1000)
    assert bench.running() == ["main"]
    bench.tell("update", going(wanted), wait=1)
    assert bench.running() == []
    bench.tell("delete", going(wanted), wait=1)
    assert bench.runtime.sandboxes == {}


def test_a_container_that_ends_while_its_hook_runs_is_started_again_and_has_it_again(bench: Bench) -> None:
    begun = takes(bench, 20)
    bench.start(hooked(start=EXEC, more=[other()]), wait=5)
    bench.exit("main", 1, wait=5)
    assert (len(begun), bench.running()) == (2, ["main"])
    assert bench.running(after=20) == ["main", "other"]
    assert bench.meta.phases("web")[-1] == "Running"


def test_a_hook_that_fails_in_a_pod_that_never_restarts_ends_it(bench: Bench) -> None:
    takes(bench, 1, BAD)
    bench.runtime.obeys = float("inf")
    bench.start(hooked(start=EXEC, restartPolicy="Never"), wait=35)
    assert (bench.running(), bench.meta.phases("web")[-1]) == ([], "Failed")


def test_edged_stops_although_a_hook_never_ends_and_the_container_stays(bench: Bench) -> None:
    takes(bench, float("inf"))
    bench.start(hooked(start=EXEC), wait=1)
    begin = bench.bee.clock.monotonic()
    bench.stop()
    assert bench.bee.clock.monotonic() - begin < 5
    assert bench.running() == ["main"]


def test_an_adopted_container_has_started(bench: Bench) -> None:
    """Its hook is not run again."""
    begun = takes(bench, 0)
    bench.start(hooked(start=EXEC))
    bench.meta.objects["default/pod/web"] = {**hooked(start=EXEC), "status": bench.meta.statuses("web")[-1]}
    bench.poison(wait=30)
    assert len(begun) == 1
    assert main_status(bench)["restartCount"] == 0
    assert bench.meta.phases("web")[-1] == "Running"


def test_the_stop_hook_comes_before_the_stop_and_within_the_grace_period(bench: Bench, limits: list[int]) -> None:
    takes(bench, 8)
    wanted = hooked(stop=EXEC)
    bench.start(wanted)
    bench.tell("update", going(wanted), wait=7)
    assert (bench.running(), limits) == (["main"], [])
    bench.run(2)
    assert (bench.running(), limits) == ([], [22])


def test_a_stop_hook_that_does_not_end_runs_until_its_container_is_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is two seconds after the grace period, in which a kubelet leaves it alone."""
    given: list[int] = []

    def execute(_client: FakeRuntime, _container: Any, _command: Any, seconds: int) -> ExecResult:
        given.append(seconds)
        return GOOD

    monkeypatch.setattr(FakeRuntime, "exec_sync", execute)
    wanted = hooked(stop=EXEC)
    bench.start(wanted)
    bench.tell("update", going(wanted), wait=1)
    assert given == [32]


def test_a_stop_hook_is_a_request_too(bench: Bench, limits: list[int]) -> None:
    wanted = hooked(stop=HTTP)
    bench.network.statuses[IP, 80] = 200
    bench.start(wanted)
    assert bench.network.requests == []
    bench.tell("update", going(wanted), wait=1)
    assert [(each.host, each.path) for each in bench.network.requests] == [(IP, "/hook")]
    assert (bench.running(), len(limits)) == ([], 1)


@pytest.mark.parametrize(
    ("hook", "seconds", "limit"),
    [
        pytest.param({"sleep": {"seconds": 10}}, 10, 20, id="sleep"),
        pytest.param({"sleep": {"seconds": 1000}}, 30, 2, id="sleep beyond the grace period"),
        pytest.param({"httpGet": {"port": 80}}, 30, 2, id="no answer"),
        pytest.param({"httpGet": {"port": 81}}, 0, 30, id="refused"),
    ],
)
def test_the_container_gets_the_rest_of_the_grace_period_after_its_hook(
    bench: Bench, limits: list[int], hook: dict[str, Any], seconds: float, limit: int
) -> None:
    """At least two seconds; a hook that fails changes nothing else."""
    bench.network.statuses[IP, 80] = 0
    wanted = hooked(stop=hook)
    bench.start(wanted)
    bench.tell("update", going(wanted), wait=max(0, seconds - 1))
    assert limits == ([] if seconds else [limit])
    bench.run(2)
    assert limits == [limit]


def test_a_hook_that_fails_as_nobody_foresaw_keeps_no_container_running(bench: Bench) -> None:
    def fail(_name: str, _command: Any) -> ExecResult:
        raise RuntimeError("a bug")

    bench.runtime.on_exec = fail
    bench.start()
    wanted = hooked(stop=EXEC)
    bench.tell("insert", wanted)
    bench.tell("update", going(wanted), wait=1)
    assert bench.running() == []
    assert "FailedPreStopHook" in [reason for reason, _ in bench.meta.told("web")]


def test_a_single_container_that_is_killed_has_its_hook_too(bench: Bench, limits: list[int]) -> None:
    """Its image has changed."""
    begun = takes(bench, 2)
    bench.start(hooked(stop=EXEC))
    changed = hooked(stop=EXEC, metadata={"resourceVersion": "2"})
    changed["spec"]["containers"][0]["image"] = "busybox:1.37"
    bench.tell("update", changed, wait=5)
    assert (len(begun), limits) == (1, [28])
    assert bench.running() == ["main"]


def test_a_container_that_has_ended_by_itself_has_no_hook_before_its_stop(bench: Bench) -> None:
    begun = takes(bench, 0)
    wanted = hooked(stop=EXEC, restartPolicy="Never", more=[other()])
    bench.start(wanted)
    bench.exit("main", 0, wait=2)
    bench.tell("update", going(wanted), wait=5)
    assert bench.running() == []
    assert begun == []


def test_a_probes_grace_period_is_what_its_hook_gets(bench: Bench, limits: list[int]) -> None:
    wanted = hooked(stop={"sleep": {"seconds": 3}})
    wanted["spec"]["containers"][0]["livenessProbe"] = {
        "tcpSocket": {"port": 80}, "periodSeconds": 1, "failureThreshold": 1, "terminationGracePeriodSeconds": 10,
    }  # fmt: skip
    bench.network.statuses[IP, 80] = 200
    bench.start(wanted, wait=3)
    del bench.network.statuses[IP, 80]
    bench.run(6)
    assert limits == [7]
