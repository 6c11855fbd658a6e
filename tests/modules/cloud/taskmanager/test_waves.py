"""Waves: how many nodes each has, when the next begins, and a fleet with bad nodes and failing links."""

from random import Random

import pytest

from modules.apimachinery.node_job_kinds import JobKind
from modules.apimachinery.node_jobs import ActionReport
from modules.cloud.taskmanager.progress import TIMED_OUT, JobLimits, accept, advance
from modules.cloud.taskmanager.statuses import ActionStatus, JobStatus, NodeTask
from modules.cloud.taskmanager.waves import PAUSE, WAVES, Waves, gate_of, stop_of

LIMITS = JobLimits(50, 0.1, 3600.0)


def waves(text: str = "1,10%,all", pause: str = "600") -> Waves:
    """Waves as an annotation has them."""
    found = Waves.of({WAVES: text, PAUSE: pause})
    assert found is not None
    return found


def tasks(number: int, **phases: str) -> list[NodeTask]:
    """Tasks n0, n1 and so on, Pending unless a phase is given."""
    return [NodeTask(f"n{each}", phases.get(f"n{each}", "Pending")) for each in range(number)]


def go_on(status: JobStatus, connected: list[str], is_open: set[str]) -> list[str]:
    """Bring a status up to date."""
    return advance(status, LIMITS, connected, lambda _task: False, is_open=lambda task: task.node_name in is_open)


def test_a_job_without_the_annotation_has_no_waves() -> None:
    assert Waves.of({}) is None
    for text, pause in (("x", "0"), ("1,,2", "0"), ("1;2", "0"), ("1", "10m"), (",".join(["1"] * 101), "0")):
        with pytest.raises(ValueError, match="no waves"):
            Waves.of({WAVES: text, PAUSE: pause})
    with pytest.raises(ValueError, match="no waves") as refused:
        Waves.of({WAVES: "x" * 5000, PAUSE: "y" * 5000})
    assert len(str(refused.value)) < 300


def test_a_wave_begins_after_the_one_before_and_the_pause() -> None:
    here = [f"n{each}" for each in range(30)]
    assert [waves().number(wave, 30) for wave in range(4)] == [1, 3, 30, 30]
    assert waves("50").number(0, 3) == 3
    assert waves().open(tasks(30), here, 9999.0) == 1
    assert waves().open(tasks(30, n0="InProgress"), here, 9999.0) == 1
    assert waves().open(tasks(30, n0="Successful"), here, 599.0) == 1
    assert waves().open(tasks(30, n0="Successful"), here, 600.0) == 3
    assert waves().open(tasks(30, n0="Successful", n1="InProgress"), here, 0.0) == 3
    done = dict.fromkeys(("n0", "n1", "n2"), "Successful")
    assert waves().open(tasks(30, **done), here, 600.0) == 30
    assert waves("1").open(tasks(30, n0="Successful"), here, 600.0) == 30


def test_nodes_that_are_away_hold_up_no_wave() -> None:
    """And belong to theirs when they come back."""
    here = ["n0", "n2", "n3"]
    assert waves().open(tasks(30, n0="Successful", n2="Successful"), here, 600.0) == 30
    assert waves().open(tasks(30, n0="Successful", n2="Successful"), [*here, "n1"], 600.0) == 3


def test_a_node_that_has_said_nothing_stops_no_wave() -> None:
    """Its link, and not the new version, may have failed."""
    silent = tasks(2, n0="Unknown", n1="Failure")
    silent[0].reason = TIMED_OUT
    assert stop_of(silent, 0.1) == ""
    silent[1].action_flow.append(ActionStatus("Check", "False"))
    assert stop_of(silent, 0.1).startswith("the waves have stopped: 1 of the 2 nodes")


def test_the_next_wave_waits_if_more_nodes_are_not_ready_than_may_fail() -> None:
    done = [NodeTask(f"n{each}", "Successful", action_flow=[ActionStatus("Check", "True")]) for each in range(6)]
    assert gate_of(done, ["n0", "n1", "n2"], 0.5) == ""
    assert gate_of(done, ["n0"], 0.5).endswith("5 are not ready now: n1, n2, n3, n4, n5")
    assert gate_of(done, [], 0.5).endswith("n3, n4, …")


@pytest.mark.parametrize("bad", [0.03, 0.5])
def test_a_fleet_with_bad_nodes_and_failing_links(bad: float) -> None:
    """500 nodes: with 3 % bad ones all others are upgraded; with every second one the job stops in its second wave."""
    random, quiet = Random(7), 0.0  # noqa: S311 - a draw of a test
    status = JobStatus("Init", "", tasks(500))
    away: set[str] = set()
    for _ in range(20_000):
        away = {f"n{each}" for each in random.sample(range(500), 50)} if random.random() < 0.1 else away
        connected = [task.node_name for task in status.node_status if task.node_name not in away]
        number = waves(pause="60").open(status.node_status, connected, quiet)
        is_open = {task.node_name for task in status.node_status[:number]}
        begun = status.node_status[: waves(pause="60").begun(status.node_status)[1]]
        stopped = stop_of(begun, LIMITS.tolerance) != "" and quiet > 0
        sent = [] if stopped else go_on(status, connected, is_open)
        running = [task for task in status.node_status if task.phase == "InProgress" and task.node_name not in away]
        for task in running[:10]:
            fails = random.random() < bad
            report = ActionReport("Check", succ=not fails, reason="bad" if fails else "")
            assert accept(JobKind.IMAGE_PRE_PULL, status, task.node_name, report) == ""
            if not fails:
                accept(JobKind.IMAGE_PRE_PULL, status, task.node_name, ActionReport("Pull", succ=True))
        quiet = 0.0 if sent or running else quiet + 30.0
        if status.phase == "Completed" or (stopped and not running):
            break
    ended = [task.phase for task in status.node_status if task.phase != "Pending"]
    if bad < 0.1:
        assert status.phase == "Completed"
        assert 5 <= ended.count("Failure") <= 30
        assert len(ended) == 500
    else:
        assert len(ended) <= 50
