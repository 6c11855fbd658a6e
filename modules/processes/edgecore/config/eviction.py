"""Kinds of values of the eviction settings."""

from __future__ import annotations

from typing import Final

from edged.eviction_api.signals import Signal
from modules.processes.common.durations import format_duration
from modules.processes.edgecore.config.value_kinds import Duration, Text, UnfitError, ValueKind, shown

SIGNAL: Final = Text(f"one of {', '.join(Signal)}", "|".join(signal.replace(".", r"\.") for signal in Signal))

THRESHOLD: Final = Text(
    "an amount such as 500Mi or a percentage such as 10%",
    r"[0-9]{1,3}(?:\.[0-9]{1,6})?%|[0-9]+(?:\.[0-9]+)?(?:k|[MGTPE]|[KMGTPE]i)?",
    most=32,
)


class DurationMap(ValueKind[dict[str, float]]):
    """A mapping from text to durations, which become seconds."""

    def __init__(self, key: ValueKind[str], most: int) -> None:
        """`most` is the largest number of entries."""
        self.key, self.most = key, most
        self.value = Duration(0.0, 24 * 3600.0)

    @property
    def expected(self) -> str:
        """Descriptions of key and value."""
        return f"a mapping from {self.key.expected} to {self.value.expected}"

    def read(self, value: object) -> dict[str, float]:
        """Read a mapping; every entry is checked."""
        if not isinstance(value, dict) or len(value) > self.most:
            raise UnfitError
        try:
            return {self.key.read(name): self.value.read(entry) for name, entry in value.items()}
        except UnfitError as error:
            raise UnfitError(str(error) or shown(str(value))) from None

    def write(self, setting: dict[str, float]) -> object:
        """Return a mapping."""
        return {name: format_duration(seconds) for name, seconds in setting.items()}
