"""Two cloudcores with embedded API servers and one database, full disks below them, and clients that trust watches."""

from collections.abc import Callable
from typing import Any

import pytest

from modules.cloud.apiserver.endpoints.watching import ObjectWatch
from modules.cloud.storage.database.database import Database, RemoteChanges
from modules.cloud.storage.transactions import Transactions
from modules.lab.simulate import run
from modules.lab.simulate.draw import FaultProfile, draw_plan
from modules.lab.simulate.draw_pair import PAIR
from modules.lab.simulate.plan import Fault, FaultKind, Plan, Shape, WorkloadStep
from modules.lab.simulate.run import run_plan

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


def finding(plan: Plan) -> str:
    violation = run_plan(plan, keep_log=False).violation
    return "" if violation is None else str(violation)


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shorter time for all to agree: a bug that was put in is found after it."""
    monkeypatch.setattr(run, "CONVERGE_WITHIN", 100.0)


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


def acknowledged_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer goes out before the commit."""

    def after_commit(_: Transactions, act: Callable[[], None], _if_full: Callable[[], None] | None = None) -> None:
        act()

    monkeypatch.setattr(Transactions, "after_commit", after_commit)


def skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of several changes of the other cloudcore is not told."""
    begin = Database.begin

    def without_first(self: Database, *args: Any) -> RemoteChanges:
        found = begin(self, *args)
        return found._replace(changes=found.changes[1:]) if len(found.changes) > 1 else found

    monkeypatch.setattr(Database, "begin", without_first)


def not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloudcore goes on with its own changes only."""

    def begin(self: Transactions) -> None:
        if not self._database.in_transaction:
            pulled = self._database.begin(self._reader)
            if pulled.complete:
                self._adopt(pulled)
            self._begun_at = self._storage.version

    monkeypatch.setattr(Transactions, "begin", begin)


@pytest.mark.usefixtures("patience")
@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (acknowledged_early, "what is acknowledged is stored"),
        pytest.param(skipped, "other books than a fresh load", marks=pytest.mark.slow),
        pytest.param(not_looked_for, "no unexpected exception", marks=pytest.mark.slow),
    ],
)
def test_a_bug_below_two_cloudcores_is_found(
    monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], words: str
) -> None:
    plant(monkeypatch)
    assert words in finding(paired(FULL, MOVES))


def test_a_bookmark_that_falls_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client goes on from it, and takes older states for news."""
    bookmark = ObjectWatch._bookmark

    def older(self: ObjectWatch, version: int, *args: Any) -> bytes:
        return bookmark(self, version - 1, *args)

    monkeypatch.setattr(ObjectWatch, "_bookmark", older)
    assert "watches go forward" in finding(paired())
