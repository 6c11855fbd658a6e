"""When there is too little, and what follows: thresholds, conditions, grace periods."""

from fractions import Fraction
from itertools import takewhile
from random import Random

import pytest
from msgspec.structs import replace

from edged.eviction.decide import EvictionDecision, EvictionState, any_met, judge, observe
from edged.eviction_api.signals import PRESSURES, Observation, Pressure, Signal
from edged.eviction_api.thresholds import (
    DEFAULT_HARD,
    EvictionSettings,
    Threshold,
    ThresholdError,
    parse_amount,
    parse_thresholds,
    sentence,
)
from edged.node.machine import FileSystem
from modules.lab.doubles.container_runtime.machine_info import PLENTY

MIB = 1 << 20
HARD = "memory.available"


@pytest.mark.parametrize(
    ("text", "value", "part"),
    [
        ("100Mi", Fraction(100 * MIB), False),
        ("10%", Fraction(1, 10), True),
        ("2.5%", Fraction(1, 40), True),
        ("0", Fraction(0), False),
    ],
)
def test_amounts_and_percentages(text: str, value: Fraction, part: bool) -> None:
    amount = parse_amount("memory.available", text)
    assert (amount.value, amount.part) == (value, part)


@pytest.mark.parametrize("text", ["", "%", "101%", "-1%", "-5Mi", "a lot", "10 %"])
def test_an_invalid_amount_is_refused_with_its_signal(text: str) -> None:
    with pytest.raises(ThresholdError, match=r"read the threshold: memory\.available"):
        parse_amount("memory.available", text)


def test_the_defaults_are_kubelets() -> None:
    found = parse_thresholds(DEFAULT_HARD)
    assert {threshold.signal.value: threshold.least.text for threshold in found} == DEFAULT_HARD
    assert all(threshold.hard for threshold in found)


def test_zero_and_hundred_percent_switch_off() -> None:
    assert parse_thresholds({"nodefs.available": "0%", "imagefs.available": "100%"}) == ()


def test_a_soft_one_has_its_grace_period_and_both_their_minimum_reclaim() -> None:
    hard, soft = parse_thresholds({HARD: "100Mi"}, {HARD: "1Gi"}, {HARD: 90.0}, {HARD: "5%"})
    assert (hard.grace, soft.grace, soft.hard) == (None, 90.0, False)
    assert hard.minimum_reclaim == soft.minimum_reclaim == parse_amount("", "5%")


@pytest.mark.parametrize(
    ("hard", "soft", "word"),
    [
        ({"memory.free": "1Gi"}, {}, "memory.free"),
        ({"memory.available": "0"}, {}, "more than 0"),
        ({}, {"memory.available": "1Gi"}, "evictionSoftGracePeriod"),
    ],
)
def test_contradictory_thresholds_are_refused(hard: dict[str, str], soft: dict[str, str], word: str) -> None:
    with pytest.raises(ThresholdError, match=word):
        parse_thresholds(hard, soft)


def test_of_a_percentage_the_reserve_is_a_part_and_soft_ones_reserve_nothing() -> None:
    settings = EvictionSettings(
        thresholds=parse_thresholds(
            {"nodefs.available": "10%", "memory.available": "100Mi"}, {"pid.available": "5%"}, {"pid.available": 1.0}
        )
    )
    assert settings.reserve(Signal.NODE_FS, 1000) == 100
    assert settings.reserve(Signal.MEMORY, 1 << 40) == 100 * MIB
    assert settings.reserve(Signal.PIDS, 1000) == 0


def test_each_signal_has_its_available_amount() -> None:
    found = observe(PLENTY)
    assert set(found) == set(Signal)
    assert found[Signal.IMAGE_FS] == found[Signal.NODE_FS]
    apart = observe(replace(PLENTY, image_fs=FileSystem(1, 2, 0, 0)))
    assert apart[Signal.IMAGE_FS] == Observation(1, 2)
    assert Signal.IMAGE_INODES not in apart, "a file system without a number of inodes does not run short of them"


@pytest.mark.parametrize(
    ("signal", "least", "there", "told"),
    [
        (Signal.MEMORY, "100Mi", Observation(50 * MIB, 1 << 30), "100Mi, available: 50Mi"),
        (Signal.MEMORY, "500M", Observation(50 * MIB, 1 << 30), "500M, available: 50Mi"),
        (Signal.MEMORY, "50%", Observation(50 * MIB, 1 << 30), "512Mi, available: 50Mi"),
        (Signal.PIDS, "1k", Observation(7, 32768), "1k, available: 7"),
        (Signal.NODE_INODES, "5%", Observation(4000, 1_000_000), "50000, available: 4k"),
        (Signal.NODE_INODES, "2Mi", Observation(4000, 1_000_000), "2Mi, available: 4k"),
    ],
)
def test_both_figures_have_kubelets_form(signal: Signal, least: str, there: Observation, told: str) -> None:
    (threshold,) = parse_thresholds({signal: least})
    assert sentence(threshold, {signal: there}) == f"Threshold quantity: {told}. "


class Node:
    """A node with thresholds for memory and pids."""

    def __init__(self, *, soft: str = "", grace: float = 60.0, reclaim: str = "", transition: float = 300.0) -> None:
        signal = "memory.available"
        thresholds = parse_thresholds(
            {signal: "100Mi", "pid.available": "100"},
            {signal: soft} if soft else {},
            {signal: grace} if soft else {},
            {signal: reclaim} if reclaim else {},
        )
        self.settings = EvictionSettings(thresholds=thresholds, transition=transition)
        self.state = EvictionState()

    def look(self, now: float, memory: int = 500, pids: int = 1000) -> EvictionDecision:
        """With so many MiB and processes left."""
        there = {Signal.MEMORY: Observation(memory * MIB, 1 << 30), Signal.PIDS: Observation(pids, 32768)}
        decision = judge(self.state, self.settings, there, now)
        self.state = decision.state
        return decision


def test_enough_of_everything_is_no_pressure() -> None:
    assert Node().look(0.0)[1:] == (frozenset(), ())


def test_a_hard_threshold_is_due_immediately_and_only_while_it_is_met() -> None:
    node = Node()
    low = node.look(0.0, memory=99)
    assert [t.signal for t in low.due] == [Signal.MEMORY]
    assert low.pressures == {Pressure.MEMORY}
    assert node.look(10.0, memory=100).due == ()


def test_a_condition_holds_for_its_time_after_it_was_last_seen() -> None:
    node = Node(transition=300.0)
    node.look(0.0, memory=10)
    node.look(10.0, memory=10)
    assert node.look(309.0).pressures == {Pressure.MEMORY}
    assert node.look(310.0).pressures == frozenset()
    assert Node(transition=0.0).look(0.0, memory=10).pressures == {Pressure.MEMORY}


def test_a_soft_threshold_is_a_condition_immediately_and_due_after_its_grace_period() -> None:
    node = Node(soft="300Mi", grace=60.0)
    assert node.look(0.0, memory=200)[1:] == (frozenset({Pressure.MEMORY}), ())
    assert node.look(59.0, memory=200).due == ()
    assert [t.hard for t in node.look(60.0, memory=200).due] == [False]


def test_a_grace_period_restarts_when_there_was_enough_in_between() -> None:
    node = Node(soft="300Mi", grace=60.0)
    node.look(0.0, memory=200)
    node.look(30.0, memory=400)
    node.look(40.0, memory=200)
    assert node.look(70.0, memory=200).due == ()
    assert node.look(100.0, memory=200).due != ()


def test_a_met_threshold_stays_met_until_the_minimum_reclaim_is_available() -> None:
    node = Node(reclaim="50Mi")
    assert node.look(0.0, memory=149).due == (), "it has not been met yet"
    assert node.look(10.0, memory=99).due != ()
    assert node.look(20.0, memory=149).due != ()
    assert node.look(30.0, memory=150).due == ()
    assert node.look(40.0, memory=149).due == ()


def test_memory_is_the_most_urgent() -> None:
    node = Node()
    node.settings = replace(node.settings, thresholds=node.settings.thresholds[::-1])
    assert [t.signal for t in node.look(0.0, memory=1, pids=1).due] == [Signal.MEMORY, Signal.PIDS]


def test_a_signal_without_an_observation_meets_no_threshold() -> None:
    thresholds = parse_thresholds(DEFAULT_HARD)
    assert not any_met(thresholds, {})
    assert judge(EvictionState(), EvictionSettings(thresholds=thresholds), {}, 0.0).due == ()


@pytest.mark.parametrize("seed", range(30))
def test_decisions_agree_with_the_whole_history(seed: int) -> None:
    """Each rule is said over all observations, where the product keeps a state."""
    draw = Random(seed)  # noqa: S311 - reproducible on purpose
    settings = EvictionSettings(
        thresholds=parse_thresholds(
            {"memory.available": "100Mi", "pid.available": "100"},
            {"memory.available": "300Mi"},
            {"memory.available": draw.choice([0.0, 20.0, 60.0])},
            {"memory.available": "60Mi", "pid.available": "10"},
        ),
        transition=draw.choice([0.0, 30.0, 300.0]),
    )
    state, now = EvictionState(), 0.0
    history: list[tuple[float, set[Threshold], set[Threshold]]] = []
    for _ in range(60):
        memory, pids = draw.choice([99, 100, 159, 160, 299, 300, 359, 360]), draw.choice([99, 100, 109, 110, 500])
        there = {Signal.MEMORY: Observation(memory * MIB, 1 << 30), Signal.PIDS: Observation(pids, 32768)}
        if draw.random() < 0.1:
            there.pop(draw.choice(list(there)))
        before = history[-1][2] if history else set()
        met = {
            one
            for one in settings.thresholds
            if one.signal in there and one.met(there[one.signal], with_reclaim=one in before)
        }
        decision = judge(state, settings, there, now)
        state = decision.state
        begun = {one: [at for at, was_met, _ in takewhile(lambda past: one in past[1], history[::-1])] for one in met}  # noqa: B023
        due = {one for one in met if now - min(begun[one], default=now) >= (one.grace or 0)}
        history.append((now, met, due))
        held = [one for at, was_met, _ in history for one in was_met if at == now or now - at < settings.transition]
        assert set(decision.due) == due
        assert decision.pressures == {PRESSURES[one.signal] for one in held}
        assert [one.signal is Signal.MEMORY for one in decision.due] == sorted(
            (one.signal is Signal.MEMORY for one in due), reverse=True
        )
        now += draw.choice([1.0, 10.0, 10.0, 40.0])
