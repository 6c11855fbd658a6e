"""The manager of probes alone: which results a container begins with."""

from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from beehive.simulation import Simulation
from beehive.testing import FakeContext
from edged.pods.model import PodFacts, ProbeFacts
from edged.probes.manager import ProbeManager
from edged.probes.model import ProbeOutcome, ProbeResult
from edged.probes.runner import ProbeAttempt
from edged.probes.targets import HttpTarget
from modules.apimachinery.types import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    HTTPGetAction,
    Nanoseconds,
    Pod,
    PodStatus,
    Probe,
    seconds,
)
from tests.edged.pods.builders import UID, a_container, a_pod, facts, running

MAIN = a_container(
    "main", startup_probe=Probe(http_get=HTTPGetAction(port=80)), readiness_probe=Probe(http_get=HTTPGetAction(port=81))
)


def manager() -> ProbeManager:
    """Without workers: nothing is asked."""
    context: Any = Mock(clock=Simulation().clock)
    return ProbeManager(context, Mock(), Mock(), Mock(), Mock())


def reported(attempt: int, *, ready: bool = True, started: bool = True) -> Pod:
    """The pod as its status was reported last: that instance has started and is ready."""
    status = ContainerStatus(
        name="main", container_id=f"containerd://main-{attempt}", ready=ready, started=started,
        state=ContainerState(running=ContainerStateRunning()),
    )  # fmt: skip
    return a_pod(MAIN, status=PodStatus(phase="Running", container_statuses=(status,)))


@pytest.mark.parametrize(("told", "there", "is_ready"), [(0, 0, True), (0, 1, False), (1, 0, False)])
def test_a_container_has_the_reported_results_of_its_own_instance_only(told: int, there: int, is_ready: bool) -> None:
    """A restart that is seen in one look: the new instance has passed no probe yet, and gets no traffic."""
    known: PodFacts = facts(running(MAIN, there))
    probes = manager()
    probes.update_pod(reported(told), known, terminating=False)
    found, (container,) = probes.facts(UID), known.containers
    expected = {container.id: True} if is_ready else {}
    assert (found.readiness, found.startup) == (expected, expected)


@pytest.mark.parametrize(("ready", "started"), [(False, True), (False, False)])
def test_a_container_that_was_reported_as_not_ready_is_not_ready(*, ready: bool, started: bool) -> None:
    """An agent that begins again gives it no traffic before its probes have passed."""
    probes, known = manager(), facts(running(MAIN, 0))
    probes.update_pod(reported(0, ready=ready, started=started), known, terminating=False)
    found, (container,) = probes.facts(UID), known.containers
    assert (found.readiness, found.startup) == ({}, {container.id: True} if started else {})


@pytest.mark.parametrize("change", ["nothing", "terminates", "restarts", "has another probe", "is removed"])
def test_an_answer_counts_only_if_the_probe_has_not_ended_or_been_held_back_since(change: str) -> None:
    """A pod that ends must not be probed on; and nothing is left of one that is removed."""
    context, workers, pods = Mock(clock=Simulation().clock), Mock(), Mock()
    live = a_container("main", liveness_probe=Probe(http_get=HTTPGetAction(port=80)))
    pod = a_pod(live, status=PodStatus(pod_ip="192.0.2.2"))
    pods.pod.return_value = pod
    probes = ProbeManager(context, workers, pods, Mock(), Mock())
    probes.update_pod(pod, facts(running(live, 0)), terminating=False)
    context.after.call_args.args[1]()
    answered, is_wanted = workers.submit.call_args.args[2:]
    if change == "is removed":
        probes.remove_pod(UID)
    elif change == "has another probe":
        other = a_container("main", readiness_probe=live.liveness_probe)
        probes.update_pod(a_pod(other), facts(running(live, 0)), terminating=False)
    elif change != "nothing":
        known = facts(running(live, 1 if change == "restarts" else 0))
        probes.update_pod(pod, known, terminating=change == "terminates")
    is_same = change == "nothing"
    assert is_wanted() is is_same
    timers = context.after.call_count
    answered(ProbeResult(ProbeOutcome.FAILURE, "503"))
    assert context.after.call_count == timers + is_same
    assert bool(probes.counts()) is is_same
    probes.remove_pod(UID)
    assert (probes.counts(), probes.facts(UID), len(probes._pods)) == ({}, ProbeFacts(), 0)


def test_the_initial_delay_counts_from_the_containers_start() -> None:
    """By the wall clock, as the runtime notes it: the agent may have started since."""
    context = Mock(clock=Simulation().clock)
    live = a_container("main", liveness_probe=Probe(http_get=HTTPGetAction(port=80), initial_delay_seconds=60))
    began = Nanoseconds(context.clock.now_ns() - seconds(100))
    probes = ProbeManager(context, Mock(), Mock(), Mock(), Mock())
    probes.update_pod(a_pod(live), facts(running(live, 0, started_at=began)), terminating=False)
    assert context.after.call_args.args[0] < 60, "it is due, and spread over a period"


@pytest.mark.parametrize("seed", range(20))
def test_probes_keep_their_beat_and_their_results(seed: int) -> None:
    """Answers come at any time, and the pod gets other probes meanwhile: each probe is made a whole number of periods
    after its first one, unless it is another, and a startup probe that has passed is not made again. Who is told of a
    change finds it in the results: the pod would be judged by the ones before.
    """
    draw, context, workers, pods = Random(seed), FakeContext(), Mock(), Mock()  # noqa: S311 - reproducible on purpose
    changes, told = Mock(), list[ProbeFacts]()
    asked: list[tuple[int, Any, Any]] = []
    periods, first, has_started = {80: 7, 81: 5}, dict[int, float](), False

    def submit(_uid: object, attempt: ProbeAttempt, answer: Any, wanted: Any) -> None:
        assert isinstance(attempt.target, HttpTarget)
        port, now = attempt.target.port, context.clock.monotonic()
        beats = (now - first.setdefault(port, now)) / periods[port]
        assert beats == pytest.approx(round(beats))
        assert port == 81 or not has_started
        asked.append((port, answer, wanted))

    workers.submit.side_effect = submit
    probes = ProbeManager(context, workers, pods, changes, Mock())
    changes.handle.side_effect = lambda change: told.append(probes.facts(change.uid))
    for _ in range(60):
        port, period = draw.choice([80, 81]), draw.choice([3, 5, 7])
        if draw.random() < 0.1 and periods[port] != period:
            periods[port] = period
            first.pop(port, None)
        startup, readiness = (
            Probe(http_get=HTTPGetAction(port=each), period_seconds=seconds) for each, seconds in periods.items()
        )
        main = a_container("main", startup_probe=startup, readiness_probe=readiness)
        pod = pods.pod.return_value = a_pod(main, status=PodStatus(pod_ip="192.0.2.2"))
        probes.update_pod(pod, facts(running(main, 0)), terminating=False)
        context.simulation.run_for(draw.choice([0.5, 1, 4, 20]))
        while asked and draw.random() < 0.7:
            port, answer, wanted = asked.pop(draw.randrange(len(asked)))
            has_started = has_started or (wanted() and port == 80)
            answer(ProbeResult(ProbeOutcome.SUCCESS))
            assert list(probes.facts(UID).startup.values()) == [True] * has_started
            assert told in ([], [probes.facts(UID)])
            told.clear()
    assert has_started
