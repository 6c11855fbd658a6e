"""Decisions of the eviction manager: the node's conditions, and the thresholds to act on.

The order of steps is that of kubelet's `synchronize`. Times are monotonic seconds. Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from edged.eviction_api.signals import PRESSURES, Observations, Pressure, Signal
from edged.eviction_api.thresholds import EvictionSettings, Threshold


class EvictionState(Struct, frozen=True):
    """The evictor's memory between two checks."""

    met: tuple[Threshold, ...] = ()
    """The thresholds to act on at the last check."""
    first_met: Mapping[Threshold, float] = {}
    """The time since when each threshold has been met without a break."""
    last_seen: Mapping[Pressure, float] = {}
    """The time when a threshold of each condition was last met."""


class EvictionDecision(NamedTuple):
    """The result of a check."""

    state: EvictionState
    pressures: frozenset[Pressure]
    """The node's conditions."""
    due: tuple[Threshold, ...]
    """The thresholds to act on, the most urgent first."""


def judge(state: EvictionState, settings: EvictionSettings, observations: Observations, now: float) -> EvictionDecision:
    """Decide by the present observations.

    A condition is set as soon as a threshold is met, a soft one too, and holds for the transition period after that: a
    node must not alternate between accepting pods and evicting them.
    """
    unresolved = {t for t in state.met if _is_met(t, observations, with_reclaim=True)}
    met = [t for t in settings.thresholds if _is_met(t, observations) or t in unresolved]
    first_met = {threshold: state.first_met.get(threshold, now) for threshold in met}
    last_seen = {**state.last_seen, **{PRESSURES[threshold.signal]: now for threshold in met}}
    holding = {p: at for p, at in last_seen.items() if at == now or now - at < settings.transition}
    due = [threshold for threshold in met if now - first_met[threshold] >= (threshold.grace or 0)]
    due.sort(key=lambda threshold: threshold.signal is not Signal.MEMORY)
    return EvictionDecision(EvictionState(tuple(due), first_met, holding), frozenset(holding), tuple(due))


def any_met(thresholds: tuple[Threshold, ...], observations: Observations) -> bool:
    """Whether any of the thresholds is met."""
    return any(_is_met(threshold, observations) for threshold in thresholds)


def _is_met(threshold: Threshold, observations: Observations, *, with_reclaim: bool = False) -> bool:
    """Whether the threshold is met; without an observation it is not."""
    observation = observations.get(threshold.signal)
    return observation is not None and threshold.met(observation, with_reclaim=with_reclaim)
