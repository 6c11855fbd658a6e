"""How pods end on a node in virtual time: sidecars last, and sooner when that is asked for meanwhile."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from edged.cri.contract import ExecResult
from modules.lab.doubles.container_runtime import FakeRuntime
from tests.edged.conftest import Bench, pod

FOREVER = float("inf")


class Stop(NamedTuple):
    """A container was asked to stop."""

    name: str
    at: float
    seconds: int


@pytest.fixture
def stops(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Stop]]:
    """The stops in their order."""
    seen: list[Stop] = []
    really: Callable[..., None] = FakeRuntime.stop_container

    def stop(client: FakeRuntime, container_id: Any, grace_seconds: int) -> None:
        name = client.containers[container_id].metadata.name
        seen.append(Stop(name, bench.bee.clock.monotonic(), grace_seconds))
        really(client, container_id, grace_seconds)

    monkeypatch.setattr(FakeRuntime, "stop_container", stop)
    yield seen


def container(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "busybox:1.36", "command": ["sleep", "inf"], **fields}


def with_sidecars(**changes: Any) -> dict[str, Any]:
    """A pod `web` of main and two sidecars."""
    sides = [container(name, restartPolicy="Always") for name in ("first", "second")]
    return pod(**{"initContainers": sides, **changes})


def going(wanted: dict[str, Any], grace: int = 30) -> dict[str, Any]:
    deletion = {"deletionTimestamp": "2027-01-15T08:00:00Z", "deletionGracePeriodSeconds": grace}
    return {**wanted, "metadata": {**wanted["metadata"], **deletion}}


def test_sidecars_are_stopped_after_the_others_in_reverse_order(bench: Bench, stops: list[Stop]) -> None:
    """All within one grace period: what the others took is not theirs."""
    bench.runtime.obeys = 3.3
    wanted = with_sidecars()
    bench.start(wanted, wait=5)
    assert bench.running() == ["first", "main", "second"]
    begin = bench.bee.clock.monotonic()
    bench.tell("update", going(wanted), wait=15)
    assert [(stop.name, stop.seconds) for stop in stops] == [("main", 30), ("second", 27), ("first", 24)]
    assert [round(stop.at - begin) for stop in stops] == [0, 3, 7]
    assert bench.running() == []


def test_when_the_grace_period_is_over_nobody_waits_any_more(bench: Bench, stops: list[Stop]) -> None:
    """Each sidecar still has two seconds (kubelet's minimumGracePeriodInSeconds)."""
    bench.runtime.obeys = FOREVER
    wanted = with_sidecars()
    bench.start(wanted, wait=5)
    begin = bench.bee.clock.monotonic()
    bench.tell("update", going(wanted, 10), wait=13)
    assert sorted((stop.name, stop.seconds, round(stop.at - begin)) for stop in stops) == [
        ("first", 2, 10), ("main", 10, 0), ("second", 2, 10),
    ]  # fmt: skip
    assert bench.running() == []


def test_a_sidecars_hook_begins_with_the_end_of_the_pod(bench: Bench, stops: list[Stop]) -> None:
    """As kubelet's: it runs while the others end, and then the sidecar waits for its turn."""
    begun: list[str] = []

    def execute(name: str, _command: Any) -> ExecResult:
        begun.append(name)
        return ExecResult(b"", b"", 0)

    bench.runtime.on_exec, bench.runtime.obeys = execute, 4.5
    hook = {"preStop": {"exec": {"command": ["hook"]}}}
    wanted = pod(initContainers=[container("side", restartPolicy="Always", lifecycle=hook)])
    bench.start(wanted, wait=3)
    bench.tell("update", going(wanted), wait=1)
    assert (begun, [stop.name for stop in stops]) == (["side"], ["main"])
    bench.run(10)
    assert [(stop.name, stop.seconds) for stop in stops] == [("main", 30), ("side", 26)]


def test_a_job_is_done_although_sidecars_run(bench: Bench, stops: list[Stop]) -> None:
    """They are stopped then, the pod runs until they have ended, and nothing is started again."""
    bench.runtime.obeys = 2.0
    bench.start(with_sidecars(restartPolicy="OnFailure"), wait=3)
    bench.exit("main", 0, wait=3)
    assert bench.meta.phases("web")[-1] == "Running"
    bench.run(4)
    assert bench.meta.phases("web")[-1] == "Succeeded"
    assert [stop.name for stop in stops] == ["second", "first"]
    calls = bench.runtime.calls["start_container"]
    bench.run(200)
    assert (bench.running(), bench.runtime.calls["start_container"]) == ([], calls)


def test_a_sidecar_that_ends_in_a_pod_that_is_ending_stays_so(bench: Bench) -> None:
    bench.runtime.obeys = FOREVER
    wanted = with_sidecars()
    bench.start(wanted, wait=3)
    bench.tell("update", going(wanted))
    bench.exit("second", 1, wait=20)
    assert bench.running() == ["first", "main"]


def test_a_sidecar_that_ends_in_a_pod_that_runs_is_started_again(bench: Bench) -> None:
    bench.start(with_sidecars(restartPolicy="Never"), wait=3)
    bench.exit("second", 0, wait=2)
    assert bench.running() == ["first", "main", "second"]


@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_grace_period_that_has_begun_is_shortened_by_a_later_deletion(
    bench: Bench, stops: list[Stop], operation: str
) -> None:
    """By another deletion with less time, or by one by force."""
    bench.runtime.obeys = FOREVER
    wanted = pod()
    bench.start(wanted)
    bench.tell("update", going(wanted, 300), wait=10)
    bench.tell(operation, going(wanted, 5 if operation == "update" else 0), wait=1.5)
    assert [stop.seconds for stop in stops] == [300, 5 if operation == "update" else 2]
    assert bench.running(after=4) == []
    assert bool(bench.runtime.sandboxes) is (operation == "update")


def test_a_later_deletion_with_more_time_changes_nothing(bench: Bench, stops: list[Stop]) -> None:
    bench.runtime.obeys = FOREVER
    wanted = pod()
    bench.start(wanted)
    bench.tell("update", going(wanted, 10), wait=2)
    bench.tell("update", going(wanted, 100), wait=9)
    assert [stop.seconds for stop in stops] == [10]
    assert bench.running() == []


def test_a_hook_and_the_turn_of_a_sidecar_are_shortened_too(bench: Bench, stops: list[Stop]) -> None:
    bench.runtime.obeys = FOREVER
    wanted = with_sidecars()
    wanted["spec"]["containers"][0]["lifecycle"] = {"preStop": {"sleep": {"seconds": 200}}}
    bench.start(wanted, wait=5)
    bench.tell("update", going(wanted, 300), wait=10)
    assert stops == []
    bench.tell("update", going(wanted, 4), wait=4)
    assert sorted((stop.name, stop.seconds) for stop in stops) == [("first", 2), ("main", 2), ("second", 2)]
    assert bench.running(after=2.5) == []


def test_a_container_that_is_being_replaced_ends_sooner_when_its_pod_does(bench: Bench, stops: list[Stop]) -> None:
    bench.runtime.obeys = FOREVER
    wanted = pod(terminationGracePeriodSeconds=300)
    bench.start(wanted)
    changed = pod(terminationGracePeriodSeconds=300, metadata={"resourceVersion": "2"})
    changed["spec"]["containers"][0]["image"] = "busybox:1.37"
    bench.tell("update", changed, wait=5)
    bench.tell("update", going(changed, 3), wait=5)
    assert [stop.seconds for stop in stops] == [300, 3]
    assert bench.running() == []


@pytest.mark.parametrize("why", ["jobs", "images"])
def test_another_pod_starts_immediately_however_many_stop(bench: Bench, why: str) -> None:
    """There are four workers, and more jobs whose sidecars take their time, or containers that are replaced."""
    bench.start()
    jobs = [with_sidecars(restartPolicy="Never") | {"metadata": pod(f"job-{n}")["metadata"]} for n in range(6)]
    for job in jobs:
        bench.tell("insert", job)
    bench.run(5)
    bench.runtime.obeys = FOREVER
    if why == "jobs":
        bench.runtime.end("main", 0)
    for job in jobs if why == "images" else ():
        main = {**job["spec"]["containers"][0], "image": "busybox:1.37"}
        bench.tell("update", {**job, "spec": {**job["spec"], "containers": [main]}})
    bench.run(2)
    assert bench.runtime.calls["stop_container"] == 6
    bench.tell("insert", pod("quick"))
    assert bench.meta.phases("quick") == ["Running"]
