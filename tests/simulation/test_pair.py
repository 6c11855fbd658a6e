"""Two cloudcores with embedded API servers and one database, full disks below them, and clients that trust watches."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modules.cloud.client.calls import ApiResult
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.draw_pair import PAIR
from modules.lab.simulate.paired_cloud import PairedCloud
from modules.lab.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.lab.simulate.run import run_plan
from modules.lab.simulate.status_watch import StatusWatch
from modules.lab.simulate.world import World

STEPS = (
    WorkloadStep(1.0, "keys-0", Shape.SECRET),
    *(WorkloadStep(float(at), f"pod-0-{at}", Shape.PLAIN) for at in range(2, 60, 6)),
    WorkloadStep(20.0, "pod-0-2", Shape.PLAIN, revision=0),
    *(WorkloadStep(float(at), "keys-0", Shape.SECRET, revision=at) for at in range(10, 60, 5)),
)
FULL = Fault(12.0, FaultKind.DATABASE_FULL, 0, 20.0, 0.5)
MOVES = Fault(10.0, FaultKind.TAKEN_OVER, 0, 30.0, 3.0)


def paired(*faults: Fault, seed: int = 1) -> Plan:
    return Plan(seed, 1, 70.0, STEPS, faults, paired=True, watchers=True)


def test_a_full_disk_below_two_cloudcores_is_felt_and_survived() -> None:
    """The reserve is given up, writes and commits are refused for a while, and the node goes there and back."""
    plan = paired(FULL, MOVES, seed=2)
    result = run_plan(plan)
    assert result.violation is None, result.violation
    log = [(entry.who, entry.what, entry.at) for entry in result.log]
    refused = {what for who, what, at in log if who == "database" and 12.0 <= at <= 32.0}
    assert refused >= {"write: database or disk is full", "commit: database or disk is full"}
    lives = [f"{who}: {what}" for who, what, _ in log if who in ("cloud", "second")]
    assert lives[:3] == ["cloud: life 1 begins", "second: life 1 begins", "second: killed"]
    assert run_plan(plan).log == result.log, "a run is a function of its plan"


def test_the_profile_draws_faults_of_a_pair() -> None:
    """Without a cluster; every third seed has a cloudcore that learns of the other's changes late."""
    plan = draw_plan(1, profile=FaultProfile.PAIR)
    assert (plan.paired, plan.cluster, plan.watchers) == (True, False, True)
    assert {fault.kind for fault in plan.faults} & set(PAIR)
    assert not draw_plan(1).paired


def test_a_cloudcore_that_is_killed_loses_its_own_calls_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A user who waits for the other one does not ask again: the first command would undo a later one."""
    asked: list[tuple[str, Callable[[ApiResult], None]]] = []
    first, second = (SimpleNamespace(process=name, hive=None) for name in ("first", "second"))
    servers: list[Any] = [first, second]
    monkeypatch.setattr(PairedCloud, "serves_calls", True)
    monkeypatch.setattr(PairedCloud, "_any_server", lambda _: servers.pop(0))
    monkeypatch.setattr(PairedCloud, "_ask_server", lambda _, process, *__: asked.append((process, __[-1])))
    with World(1) as world:
        cloud = PairedCloud(world, tmp_path, StatusWatch(world))
        cloud._other.server = second  # type: ignore[assignment]
        for name in ("a", "b"):
            cloud.set_object("Secret", name, {"metadata": {"name": name}})
        cloud.second_killed()
        servers += [first]
        cloud.reconcile()
        assert [process for process, _ in asked] == ["first", "second", "first"]
        for _, answer in asked:
            answer(ApiResult())
        assert cloud.settled()
