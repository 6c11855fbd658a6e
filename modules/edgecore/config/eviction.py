"""Kinds of the settings of evictions."""

from __future__ import annotations

from typing import Final

from edged.eviction.signals import Signal
from modules.edgecore.config.durations import format_duration
from modules.edgecore.config.kinds import Duration, Kind, Text, UnfitError, shown

SIGNAL: Final = Text(f"one of {', '.join(Signal)}", "|".join(signal.replace(".", r"\.") for signal in Signal))

THRESHOLD: Final = Text(
    "an amount such as 500Mi or a percentage such as 10%",
    r"[0-9]{1,3}(?:\.[0-9]{1,6})?%|[0-9]+(?:\.[0-9]+)?(?:k|[MGTPE]|[KMGTPE]i)?",
    most=32,
)


class DurationMap(Kind[dict[str, float]]):
    """A mapping from text to durations, which are seconds inside the program."""

    def __init__(self, key: Kind[str], most: int) -> None:
        """`most` is the largest number of entries."""
        self.key, self.most = key, most
        self.value = Duration(0.0, 24 * 3600.0)

    @property
    def want(self) -> str:
        """Both kinds' words."""
        return f"a mapping from {self.key.want} to {self.value.want}"

    def read(self, value: object) -> dict[str, float]:
        """A mapping; every entry is judged."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise UnfitError
        try:
            return {self.key.read(name): self.value.read(entry) for name, entry in value.items()}
        except UnfitError as error:
            raise UnfitError(str(error) or shown(str(value))) from None

    def write(self, setting: dict[str, float]) -> object:
        """A mapping."""
        return {name: format_duration(seconds) for name, seconds in setting.items()}
