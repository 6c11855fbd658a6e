"""kubelet's eviction thresholds, in the form of its configuration.

A threshold is an amount (`100Mi`) or a percentage of the capacity (`10%`). A *hard* one acts immediately; a *soft* one
after it has been met for its grace period. A threshold that was met stays met until `minimum_reclaim` more than its
amount is available, so that evictions do not begin again a moment after they have ended.
"""

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Final

from msgspec import Struct

from edged.errors import EdgedError
from edged.eviction_api.signals import Observation, Observations, Signal
from modules.apimachinery.types.quantity import (
    QuantityError,
    canonical_quantity,
    format_binary_quantity,
    format_quantity,
    parse_quantity,
)

DEFAULT_HARD: Final[Mapping[str, str]] = {
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
}
"""kubelet's default hard thresholds."""

_PERCENT: Final = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%", re.ASCII)


class ThresholdError(EdgedError):
    """An invalid threshold."""


class ThresholdValue(Struct, frozen=True, gc=False):
    """An amount, or a share of the capacity."""

    text: str
    """As written in the configuration."""
    value: Fraction
    """The amount in base units, or the share from 0 to 1."""
    part: bool
    """Whether `value` is a share."""

    def of(self, capacity: int) -> int:
        """Return the amount in base units."""
        return int(self.value * capacity) if self.part else ceil(self.value)


class Threshold(Struct, frozen=True, gc=False):
    """A threshold of one signal."""

    signal: Signal
    least: ThresholdValue
    """The smallest available amount that does not meet it."""
    grace: float | None = None
    """Grace period of a soft threshold in seconds; None for a hard one."""
    minimum_reclaim: ThresholdValue | None = None

    @property
    def hard(self) -> bool:
        """Whether it acts immediately."""
        return self.grace is None

    def met(self, observation: Observation, *, with_reclaim: bool = False) -> bool:
        """Return whether too little is available; with `with_reclaim` the minimum reclaim counts too."""
        least = self.least.of(observation.capacity)
        if with_reclaim and self.minimum_reclaim is not None:
            least += self.minimum_reclaim.of(observation.capacity)
        return observation.available < least


class EvictionSettings(Struct, frozen=True, kw_only=True):
    """Settings of the eviction manager."""

    thresholds: tuple[Threshold, ...] = ()
    longest_grace: int = 0
    """Longest grace period of a pod when a soft threshold is met, in seconds (`evictionMaxPodGracePeriod`)."""
    transition: float = 300.0
    """Seconds that a condition of the node holds after it was last observed (`evictionPressureTransitionPeriod`)."""
    period: float = 10.0
    """Seconds between two checks (kubelet's evictionMonitoringPeriod)."""

    def reserve(self, signal: Signal, capacity: int) -> int:
        """Return the amount that a hard threshold keeps from pods (kubelet's hardEvictionReservation)."""
        return max((t.least.of(capacity) for t in self.thresholds if t.signal is signal and t.hard), default=0)


def parse_thresholds(
    hard: Mapping[str, str],
    soft: Mapping[str, str] | None = None,
    soft_grace: Mapping[str, float] | None = None,
    minimum_reclaim: Mapping[str, str] | None = None,
) -> tuple[Threshold, ...]:
    """Parse thresholds (kubelet's ParseThresholdConfig).

        parse_thresholds({"memory.available": "100Mi", "nodefs.available": "10%"})

    Args:
        hard: hard thresholds by signal; `0%` and `100%` disable one.
        soft: soft thresholds by signal.
        soft_grace: grace periods in seconds, one for each soft threshold.
        minimum_reclaim: amounts by signal, for hard and soft thresholds.

    Raises:
        ThresholdError: an unknown signal, an invalid amount, a soft threshold without a grace period.
    """
    reclaim = {_signal(name): parse_amount(name, text) for name, text in (minimum_reclaim or {}).items()}
    graces = {_signal(name): grace for name, grace in (soft_grace or {}).items()}
    found: list[Threshold] = []
    for signal, least in _amounts(hard):
        found.append(Threshold(signal, least, None, reclaim.get(signal)))
    for signal, least in _amounts(soft or {}):
        if signal not in graces:
            raise ThresholdError("use a soft threshold", signal, "evictionSoftGracePeriod must have an entry for it")
        found.append(Threshold(signal, least, graces[signal], reclaim.get(signal)))
    return tuple(found)


def sentence(threshold: Threshold, observations: Observations) -> str:
    """Return both amounts in the words of kubelet's messages: a threshold as it is configured, a percentage in binary
    units.
    """
    observation, least = observations[threshold.signal], threshold.least
    written = format_binary_quantity(least.of(observation.capacity)) if least.part else canonical_quantity(least.text)
    return f"Threshold quantity: {written}, available: {_shown(threshold.signal, observation.available)}. "


def _shown(signal: Signal, amount: int) -> str:
    if signal in (Signal.NODE_INODES, Signal.IMAGE_INODES, Signal.PIDS):
        return format_quantity(amount)
    return format_binary_quantity(amount)


def _amounts(written: Mapping[str, str]) -> Iterator[tuple[Signal, ThresholdValue]]:
    for name, text in written.items():
        signal, amount = _signal(name), parse_amount(name, text)
        if amount.part and amount.value in (0, 1):
            continue
        if not amount.part and amount.value <= 0:
            raise ThresholdError("use the threshold", f"{name}<{text}", "it must be more than 0")
        yield signal, amount


def parse_amount(name: str, text: str) -> ThresholdValue:
    """Parse an amount or percentage. Raises ThresholdError."""
    percent = _PERCENT.fullmatch(text)
    if percent is not None:
        part = Fraction(percent[1]) / 100
        if part <= 1:
            return ThresholdValue(text, part, part=True)
    try:
        amount = ThresholdValue(text, parse_quantity(text), part=False)
    except QuantityError:
        amount = None
    if amount is None or amount.value < 0:
        raise ThresholdError(
            "read the threshold", f"{name}<{text}", "a quantity such as 100Mi, or a percentage, is expected"
        )
    return amount


def _signal(name: str) -> Signal:
    try:
        return Signal(name)
    except ValueError:
        raise ThresholdError("use the eviction signal", name, f"there are {', '.join(Signal)}") from None
