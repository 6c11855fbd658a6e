"""One probe for several callers."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

from beehive import Runtime
from beehive.simulation import Simulation
from edged.cri.contract import ContainerId, ExecResult
from edged.cri.errors import CriError, DeadlineExceededError, NotFoundError, UnavailableError
from edged.pods.model import PodUid
from edged.probes.model import ProbeKind, ProbeOutcome, ProbeResult
from edged.probes.runner import ContainerProbeRunner, ProbeAttempt
from edged.probes.targets import ExecTarget, GrpcTarget, HttpTarget, TcpTarget
from edged.probes.worker_pool import MAX_WORKERS, MAX_WORKERS_PER_POD, ProbeWorker, ProbeWorkerPool
from modules.lab.doubles.container_runtime import FakeRuntime
from modules.lab.doubles.probes import NetworkDouble

S, F, U = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.UNKNOWN
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
def test_a_command_is_run_through_the_runtime(
    results: list[int | Exception], outcome: ProbeOutcome, tries: int
) -> None:
    """What it has said goes nowhere."""
    actors = Simulation(1)
    runtime = ExecOnly(actors, *results)
    answer = ContainerProbeRunner(runtime, NetworkDouble(actors)).run(
        ProbeAttempt(ProbeKind.LIVENESS, ContainerId("c"), ExecTarget(("true",)), 7)
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
def test_the_network_is_asked(target: Any, status: int | None, outcome: ProbeOutcome) -> None:
    actors = Simulation(1)
    network = NetworkDouble(actors)
    if status is not None:
        network.statuses[HOST, 1] = status
    answer = ContainerProbeRunner(FakeRuntime(actors), network).run(
        ProbeAttempt(ProbeKind.LIVENESS, ContainerId("c"), target, 1)
    )
    assert answer.outcome is outcome


class Slow:
    """A runner whose answers take a second or never come; counts its answers in parallel."""

    def __init__(self, actors: Runtime) -> None:
        self.actors = actors
        self.now = self.most = 0
        self.begun: list[str] = []

    def run(self, attempt: ProbeAttempt) -> ProbeResult:
        self.begun.append(attempt.container)
        self.now += 1
        self.most = max(self.most, self.now)
        over = self.actors.future()
        if not attempt.container.startswith("hangs"):
            self.actors.clock.after(1, over.set)
        over.get()
        self.now -= 1
        return ProbeResult(S, attempt.container)


class PoolBench:
    """A pool in simulation, and the workers that it started."""

    def __init__(self) -> None:
        self.actors = Simulation(1)
        self.runner = Slow(self.actors)
        self.started: list[Any] = []
        self.workers = ProbeWorkerPool(Mock(call_soon=self._call_soon, start_actor=self._start_actor), self.runner)
        self.answered: list[str] = []

    def _call_soon(self, function: Callable[[], None], *_turn: Any) -> None:
        self.actors.clock.after(0, function)

    def _start_actor(self, worker: type[ProbeWorker], *arguments: Any, name: str) -> Any:
        assert name == "edged/prober"
        self.started.append(self.actors.start(worker, *arguments))
        return self.started[-1].ref

    def ask(self, name: str, wanted: Callable[[], bool] = lambda: True, pod: str = "") -> None:
        attempt = ProbeAttempt(ProbeKind.LIVENESS, ContainerId(name), TcpTarget(HOST, 1), 1)
        self.workers.submit(PodUid(pod or name), attempt, lambda answer: self.answered.append(answer.text), wanted)

    def alive(self) -> int:
        return sum(not each.ended.settled for each in self.started)


def test_no_worker_is_started_before_there_is_something_to_ask() -> None:
    bench = PoolBench()
    bench.actors.run_for(10)
    assert bench.started == []


def test_questions_are_asked_beside_each_other_up_to_a_limit_and_in_their_order() -> None:
    bench = PoolBench()
    names = [f"{number:02}" for number in range(MAX_WORKERS + 5)]
    for number, name in enumerate(names):
        bench.ask(name, pod=f"pod-{number % 4}")
    bench.actors.run_for(1.5)
    assert bench.runner.most == MAX_WORKERS
    assert sorted(bench.answered) == names[:MAX_WORKERS]
    bench.actors.run_for(1)
    assert sorted(bench.answered) == names
    assert bench.alive() == 2


def test_a_pod_that_never_answers_keeps_no_other_waiting() -> None:
    """However many probes it has: it gets as many workers as a pod may have, and the rest is there for the others."""
    bench = PoolBench()
    for number in range(MAX_WORKERS * 3):
        bench.ask(f"hangs-{number}", pod="bad")
    for number in range(5):
        bench.ask(f"good-{number}", pod="good")
    bench.actors.run_for(1.5)
    assert bench.runner.most == MAX_WORKERS_PER_POD + 5
    assert sorted(bench.answered) == [f"good-{number}" for number in range(5)]


def test_each_pod_gets_one_worker_however_many_do_not_answer() -> None:
    """A hundred pods that hang cost a hundred workers, and the next pod is asked all the same."""
    bench = PoolBench()
    for number in range(300):
        bench.ask(f"hangs-{number}", pod=f"bad-{number % 100}")
    bench.ask("first", pod="good")
    bench.ask("second", pod="good")
    bench.actors.run_for(1.5)
    assert bench.answered == ["first"]
    assert bench.runner.most == 101
    bench.actors.run_for(1)
    assert bench.answered == ["first", "second"]


def test_pods_take_turns() -> None:
    """A pod that asked much before the others is not served before them."""
    bench = PoolBench()
    for number in range(MAX_WORKERS):
        bench.ask(f"early-{number}", pod=f"early-{number % 2}")
    for number in range(10):
        bench.ask(f"many-{number}", pod="many")
    bench.ask("one", pod="few")
    bench.ask("two", pod="few")
    bench.actors.run_for(2.5)
    assert "two" in bench.answered
    assert bench.runner.most == MAX_WORKERS + 2


def test_pods_that_wait_are_served_one_after_the_other_and_nothing_is_left_of_them() -> None:
    bench = PoolBench()
    for number in range(MAX_WORKERS):
        bench.ask(f"early-{number}", pod=f"early-{number % 2}")
    waiting = [f"{pod}-{number}" for pod in "abc" for number in range(9)]
    for name in waiting:
        bench.ask(name, pod=name[0])
    bench.actors.run_for(5)
    turns = [name[0] for name in bench.runner.begun if name in waiting]
    for end in range(len(turns)):
        served = [turns[:end].count(pod) for pod in "abc"]
        assert max(served) - min(served) <= 1, turns
    assert set(waiting) <= set(bench.answered)
    assert not (bench.workers._waiting or bench.workers._busy or len(bench.workers._busy_with))


def test_a_probe_that_is_no_longer_needed_is_dropped() -> None:
    bench = PoolBench()
    for number in range(MAX_WORKERS):
        bench.ask(str(number))
    bench.ask("late", wanted=lambda: False)
    bench.actors.run_for(5)
    assert "late" not in bench.answered


def test_idle_workers_stop_when_no_probe_is_left() -> None:
    bench = PoolBench()
    bench.ask("one")
    bench.actors.run_for(2)
    assert bench.alive() == 1
    bench.workers.stop_idle()
    bench.actors.run_for(0.1)
    assert bench.alive() == 0
