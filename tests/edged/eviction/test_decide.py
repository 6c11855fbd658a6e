"""When there is too little, and what follows: thresholds, conditions, grace periods."""

from fractions import Fraction
from itertools import takewhile
from random import Random

import pytest
from msgspec.structs import replace

from edged.eviction.decide import EvictionState, judge, observe
from edged.eviction_api.signals import PRESSURES, Observation, Signal
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
    assert settings.reserve(Signal.NODE_FS, 1009) == 100, "as a kubelet rounds"
    assert settings.reserve(Signal.MEMORY, 1 << 40) == 100 * MIB
    assert settings.reserve(Signal.PIDS, 1000) == 0


def test_each_signal_has_its_available_amount() -> None:
    found = observe(PLENTY)
    assert set(found) == set(Signal)
    assert found[Signal.IMAGE_FS] == found[Signal.NODE_FS]
    apart = observe(replace(PLENTY, node_fs=FileSystem(1, 2, 0, 9), image_fs=FileSystem(1, 2, 0, 0)))
    assert apart[Signal.IMAGE_FS] == Observation(1, 2)
    assert apart[Signal.NODE_INODES] == Observation(0, 9), "none is left"
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


def test_a_met_threshold_stays_met_until_the_minimum_reclaim_is_available() -> None:
    """The other rules of a decision are those of the whole history, below."""
    thresholds = parse_thresholds({HARD: "100Mi"}, minimum_reclaim={HARD: "50Mi"})
    settings, state = EvictionSettings(thresholds=thresholds), EvictionState()
    for now, (memory, is_due) in enumerate([(149, False), (99, True), (149, True), (150, False), (149, False)]):
        decision = judge(state, settings, {Signal.MEMORY: Observation(memory * MIB, 1 << 30)}, float(now))
        state = decision.state
        assert bool(decision.due) == is_due, (now, memory)


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
