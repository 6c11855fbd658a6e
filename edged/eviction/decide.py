"""What follows from what is left: conditions of the node, and thresholds that something has to be done about.

The order of steps is that of kubelet's `synchronize`. Times are monotonic seconds. Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from edged.eviction.signals import PRESSURES, Observations, Pressure, Signal
from edged.eviction.thresholds import EvictionSettings, Threshold


class State(Struct, frozen=True):
    """What is remembered from look to look."""

    met: tuple[Threshold, ...] = ()
    """Those that something had to be done about last time."""
    first_met: Mapping[Threshold, float] = {}
    """Since when each has been met without a break."""
    last_seen: Mapping[Pressure, float] = {}
    """When each condition was last the case."""


class Judgement(NamedTuple):
    """What follows."""

    state: State
    pressures: frozenset[Pressure]
    """Conditions that hold."""
    due: tuple[Threshold, ...]
    """What something is to be done about, the most urgent first."""


def judge(state: State, settings: EvictionSettings, observations: Observations, now: float) -> Judgement:
    """What follows from these observations.

    A condition is reported as soon as a threshold is met, a soft one too, and holds for the transition period after it
    was last the case: a node must not go to and fro between taking pods and ending them.
    """
    unresolved = {t for t in state.met if _is_met(t, observations, with_reclaim=True)}
    met = [t for t in settings.thresholds if _is_met(t, observations) or t in unresolved]
    first_met = {threshold: state.first_met.get(threshold, now) for threshold in met}
    last_seen = {**state.last_seen, **{PRESSURES[threshold.signal]: now for threshold in met}}
    holding = {p: at for p, at in last_seen.items() if at == now or now - at < settings.transition}
    due = [threshold for threshold in met if now - first_met[threshold] >= (threshold.grace or 0)]
    due.sort(key=lambda threshold: threshold.signal is not Signal.MEMORY)
    return Judgement(State(tuple(due), first_met, holding), frozenset(holding), tuple(due))


def any_met(thresholds: tuple[Threshold, ...], observations: Observations) -> bool:
    """Whether there is still too little of anything."""
    return any(_is_met(threshold, observations) for threshold in thresholds)


def _is_met(threshold: Threshold, observations: Observations, *, with_reclaim: bool = False) -> bool:
    """What is not observed is not short."""
    observation = observations.get(threshold.signal)
    return observation is not None and threshold.met(observation, with_reclaim=with_reclaim)
