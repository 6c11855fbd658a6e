"""Asking once, and by whom."""

from collections.abc import Callable, Sequence
from typing import Any

import grpc
import pytest

from beehive import Runtime
from beehive.simulation import Simulation
from edged.cri.contract import ContainerId, ExecResult
from edged.cri.errors import CriError, DeadlineExceededError, NotFoundError, UnavailableError
from edged.pods.model import PodUid
from edged.probes.crew import MOST, MOST_OF_A_POD, Asked, Crew, ProbeWorker
from edged.probes.model import Answer, Outcome
from edged.probes.runner import Attempt, ContainerProbeRunner
from edged.probes.targets import ExecTarget, GrpcTarget, HttpTarget, TcpTarget
from edged.probes.testing import NetworkDouble
from edged.testing import FakeRuntime

S, F, U = Outcome.SUCCESS, Outcome.FAILURE, Outcome.UNKNOWN
HOST = "10.0.0.9"


class ExecOnly(FakeRuntime):
    """Of a runtime, its ExecSync: gives or raises what comes next."""

    def __init__(self, actors: Runtime, *results: int | Exception) -> None:
        super().__init__(actors)
        self.results = list(results)
        self.limits: list[int] = []

    def exec_sync(self, container_id: ContainerId, command: Sequence[str], timeout_seconds: int) -> ExecResult:
        self.limits.append(timeout_seconds)
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return ExecResult(b"a secret", b"", result)


def failure(kind: type[CriError], code: grpc.StatusCode) -> CriError:
    return kind("ExecSync", "c", code, "a secret")


AWAY = failure(UnavailableError, grpc.StatusCode.UNAVAILABLE)


@pytest.mark.parametrize(
    ("results", "outcome", "tries"),
    [
        pytest.param([0], S, 1, id="0"),
        pytest.param([1], F, 1, id="1"),
        pytest.param([failure(DeadlineExceededError, grpc.StatusCode.DEADLINE_EXCEEDED)], F, 1, id="too long"),
        pytest.param([AWAY, AWAY, 0], S, 3, id="at the third try"),
        pytest.param([AWAY, AWAY, AWAY, 0], U, 3, id="the runtime is away"),
        pytest.param([failure(NotFoundError, grpc.StatusCode.NOT_FOUND)], U, 1, id="the container is gone"),
        pytest.param([ZeroDivisionError()], U, 1, id="a bug"),
    ],
)
def test_a_command_is_run_through_the_runtime(results: list[int | Exception], outcome: Outcome, tries: int) -> None:
    """What it has said goes nowhere."""
    actors = Simulation(1)
    runtime = ExecOnly(actors, *results)
    answer = ContainerProbeRunner(runtime, NetworkDouble(actors)).run(
        Attempt(ContainerId("c"), ExecTarget(("true",)), 7)
    )
    assert (answer.outcome, runtime.limits) == (outcome, [7] * tries)
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("target", "status", "outcome"),
    [
        (HttpTarget("http", HOST, 1, "/"), 200, S),
        (HttpTarget("http", HOST, 1, "/"), 399, S),
        (HttpTarget("http", HOST, 1, "/"), 199, F),
        (HttpTarget("http", HOST, 1, "/"), 400, F),
        (HttpTarget("http", HOST, 1, "/"), None, F),
        (TcpTarget(HOST, 1), 500, S),
        (TcpTarget(HOST, 1), None, F),
        (GrpcTarget(HOST, 1), 200, S),
        (GrpcTarget(HOST, 1), 500, F),
        (GrpcTarget(HOST, 1), None, F),
    ],
)
def test_the_network_is_asked(target: Any, status: int | None, outcome: Outcome) -> None:
    actors = Simulation(1)
    network = NetworkDouble(actors)
    if status is not None:
        network.statuses[HOST, 1] = status
    answer = ContainerProbeRunner(FakeRuntime(actors), network).run(Attempt(ContainerId("c"), target, 1))
    assert answer.outcome is outcome


class Slow:
    """A runner whose answers take a second, or that never answers; knows how many it gives at once."""

    def __init__(self, actors: Runtime) -> None:
        self.actors = actors
        self.now = self.most = 0

    def run(self, attempt: Attempt) -> Answer:
        self.now += 1
        self.most = max(self.most, self.now)
        over = self.actors.future()
        if not attempt.container.startswith("hangs"):
            self.actors.clock.after(1, over.set)
        over.get()
        self.now -= 1
        return Answer(S, attempt.container)


class Company:
    """A crew in simulation, and who was hired for it."""

    def __init__(self) -> None:
        self.actors = Simulation(1)
        self.runner = Slow(self.actors)
        self.hired: list[Any] = []
        self.crew = Crew(self._hire)
        self.answered: list[str] = []

    def _hire(self) -> Any:
        def done(asked: Asked) -> None:
            self.actors.clock.after(0, lambda: self.crew.done(asked))

        self.hired.append(self.actors.start(ProbeWorker, self.runner, done))
        return self.hired[-1].ref

    def ask(self, name: str, wanted: Callable[[], bool] = lambda: True, pod: str = "") -> None:
        attempt = Attempt(ContainerId(name), TcpTarget(HOST, 1), 1)
        self.crew.ask(PodUid(pod or name), attempt, lambda answer: self.answered.append(answer.text), wanted)

    def alive(self) -> int:
        return sum(not each.ended.settled for each in self.hired)


def test_nobody_is_hired_before_there_is_something_to_ask() -> None:
    company = Company()
    company.actors.run_for(10)
    assert company.hired == []


def test_questions_are_asked_beside_each_other_up_to_a_limit_and_in_their_order() -> None:
    company = Company()
    names = [f"{number:02}" for number in range(MOST + 5)]
    for number, name in enumerate(names):
        company.ask(name, pod=f"pod-{number % 4}")
    company.actors.run_for(1.5)
    assert company.runner.most == MOST
    assert sorted(company.answered) == names[:MOST]
    company.actors.run_for(1)
    assert sorted(company.answered) == names
    assert company.alive() == 2


def test_a_pod_that_never_answers_keeps_no_other_waiting() -> None:
    """However many probes it has: it gets as many workers as a pod may have, and the rest is there for the others."""
    company = Company()
    for number in range(MOST * 3):
        company.ask(f"hangs-{number}", pod="bad")
    for number in range(5):
        company.ask(f"good-{number}", pod="good")
    company.actors.run_for(1.5)
    assert company.runner.most == MOST_OF_A_POD + 5
    assert sorted(company.answered) == [f"good-{number}" for number in range(5)]


def test_each_pod_gets_one_worker_however_many_do_not_answer() -> None:
    """A hundred pods that hang cost a hundred workers, and the next pod is asked all the same."""
    company = Company()
    for number in range(300):
        company.ask(f"hangs-{number}", pod=f"bad-{number % 100}")
    company.ask("first", pod="good")
    company.ask("second", pod="good")
    company.actors.run_for(1.5)
    assert company.answered == ["first"]
    assert company.runner.most == 101
    company.actors.run_for(1)
    assert company.answered == ["first", "second"]


def test_pods_take_turns() -> None:
    """A pod that asked much before the others is not served before them."""
    company = Company()
    for number in range(MOST):
        company.ask(f"early-{number}", pod=f"early-{number % 2}")
    for number in range(10):
        company.ask(f"many-{number}", pod="many")
    company.ask("one", pod="few")
    company.ask("two", pod="few")
    company.actors.run_for(2.5)
    assert "two" in company.answered
    assert company.runner.most == MOST + 2


def test_nobody_is_asked_what_is_not_wanted_any_more() -> None:
    company = Company()
    for number in range(MOST):
        company.ask(str(number))
    company.ask("late", wanted=lambda: False)
    company.actors.run_for(5)
    assert "late" not in company.answered


def test_nobody_is_kept_when_there_is_nothing_left_to_ask() -> None:
    company = Company()
    company.ask("one")
    company.actors.run_for(2)
    assert company.alive() == 1
    company.crew.rest()
    company.actors.run_for(0.1)
    assert company.alive() == 0
