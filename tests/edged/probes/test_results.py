"""What the answers to a probe mean: a table, and what holds for every row of answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edged.probes.model import ProbeKind, ProbeOutcome, ProbeTiming
from edged.probes.schedule import first_wait, is_due, next_due, spread
from edged.probes.thresholds import ProbeHistory, decide
from modules.apimachinery.types.probes import Probe

S, F, U = ProbeOutcome.SUCCESS, ProbeOutcome.FAILURE, ProbeOutcome.UNKNOWN
STARTUP, LIVENESS, READINESS = ProbeKind.STARTUP, ProbeKind.LIVENESS, ProbeKind.READINESS
TWICE = ProbeTiming(successes=2, failures=3)


def passes(kind: ProbeKind, timing: ProbeTiming, outcomes: list[ProbeOutcome]) -> list[bool | None]:
    """What each answer decides, until the probe rests."""
    history, found = ProbeHistory(), list[bool | None]()
    for outcome in outcomes:
        decision = decide(kind, timing, history, outcome)
        history = decision.history
        found.append(decision.passes)
        if decision.on_hold:
            break
    return found


@pytest.mark.parametrize(
    ("kind", "timing", "outcomes", "expected"),
    [
        pytest.param(READINESS, ProbeTiming(), [S], [True], id="one success is enough by default"),
        pytest.param(READINESS, ProbeTiming(), [F, F, F], [None, None, False], id="three failures by default"),
        pytest.param(READINESS, TWICE, [S, S], [None, True], id="two successes when so many are wanted"),
        pytest.param(READINESS, TWICE, [S, F, S, S], [None, None, None, True], id="a failure between begins anew"),
        pytest.param(READINESS, ProbeTiming(), [F, F, S, F, F], [None, None, True, None, None], id="and a success"),
        pytest.param(READINESS, TWICE, [S, U, S], [None, None, True], id="what could not be asked leaves no trace"),
        pytest.param(
            READINESS, ProbeTiming(), [F, F, F, F], [None, None, False, False], id="readiness goes on failing"
        ),
        pytest.param(
            LIVENESS, ProbeTiming(failures=1), [S, F, S], [True, False], id="liveness rests once it has failed"
        ),
        pytest.param(LIVENESS, ProbeTiming(), [S, S], [True, True], id="and not when it passes"),
        pytest.param(STARTUP, ProbeTiming(), [F, S, F], [None, True], id="startup rests once it has passed"),
        pytest.param(STARTUP, ProbeTiming(failures=2), [F, F, S], [None, False], id="and once it has failed"),
        pytest.param(STARTUP, ProbeTiming(failures=1), [U, U], [None, None], id="unknown for ever is no failure"),
    ],
)
def test_a_verdict_comes_with_as_many_same_answers_as_the_threshold(
    kind: ProbeKind, timing: ProbeTiming, outcomes: list[ProbeOutcome], expected: list[bool | None]
) -> None:
    assert passes(kind, timing, outcomes) == expected


@given(st.lists(st.sampled_from(ProbeOutcome)), st.integers(1, 4), st.integers(1, 4), st.sampled_from(list(ProbeKind)))
def test_a_verdict_always_has_its_threshold_of_same_answers_behind_it(
    outcomes: list[ProbeOutcome], successes: int, failures: int, kind: ProbeKind
) -> None:
    timing = ProbeTiming(successes=successes, failures=failures)
    for index, passed in enumerate(passes(kind, timing, outcomes)):
        known = [outcome for outcome in outcomes[: index + 1] if outcome is not U]
        if passed is not None:
            wanted, threshold = (S, successes) if passed else (F, failures)
            assert known[-threshold:] == [wanted] * threshold


@pytest.mark.parametrize(
    ("kind", "started", "terminating", "asked"),
    [
        (STARTUP, False, False, True),
        (STARTUP, True, False, False),
        (STARTUP, False, True, False),
        (LIVENESS, False, False, False),
        (LIVENESS, True, False, True),
        (LIVENESS, True, True, False),
        (READINESS, False, False, False),
        (READINESS, True, False, True),
        (READINESS, True, True, True),
    ],
)
def test_startup_holds_the_others_back_and_an_ending_pod_is_asked_for_readiness_only(
    kind: ProbeKind, started: bool, terminating: bool, asked: bool
) -> None:
    assert is_due(kind, started=started, terminating=terminating) is asked


@pytest.mark.parametrize(
    ("probe", "timing"),
    [
        (Probe(), ProbeTiming(delay=0, period=10, limit=1, successes=1, failures=3)),
        (Probe(initial_delay_seconds=-1, period_seconds=-1, timeout_seconds=-1, failure_threshold=-1), ProbeTiming()),
        (
            Probe(
                initial_delay_seconds=5, period_seconds=2, timeout_seconds=3, success_threshold=4, failure_threshold=6
            ),
            ProbeTiming(5, 2, 3, 4, 6),
        ),
    ],
)
def test_zeros_stand_for_kubernetes_defaults(probe: Probe, timing: ProbeTiming) -> None:
    assert ProbeTiming.of(probe) == timing


@pytest.mark.parametrize(("delay", "age", "wait"), [(5, 0, 5), (5, 2, 3), (5, 60, 0), (0, 0, 0), (5, -3600, 5)])
def test_the_initial_delay_counts_from_the_start_of_the_container(delay: float, age: float, wait: float) -> None:
    """A clock that was set back does not make it longer."""
    assert first_wait(delay, age) == wait


def test_first_questions_are_spread_only_while_the_agent_is_young() -> None:
    assert spread(10, 9.9, 0.5) == 5
    assert spread(10, 10, 0.5) == 0


@pytest.mark.parametrize(
    ("due", "now", "following"), [(100, 100, 110), (100, 104, 110), (100, 110, 120), (100, 137, 140), (100, 99, 110)]
)
def test_questions_stay_on_the_beat_and_missed_ones_are_left_out(due: float, now: float, following: float) -> None:
    assert next_due(due, 10, now) == following
