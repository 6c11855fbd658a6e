"""A row of the table that `make bench` prints: a measurement, its floor, KubeEdge's value, and the goal.

KubeEdge's values were measured on another machine of the same size and are constants. Only ratios to the floor, which
is measured in the same run, can be compared across machines.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from statistics import median
from typing import Final, NamedTuple, Protocol, Self

_MARKS: Final = {True: "held", False: "MISSED", None: ""}


class Unit(Enum):
    """Unit of a measurement, with its number format."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    PERCENT = "%"
    MEGABYTES = "MB"
    KILOBYTES = "kB"
    PER_SECOND = "/s"
    COUNT = ""

    def write(self, measurement: float | None) -> str:
        """Format a value with its unit; None as a dash."""
        if measurement is None:
            return "–"
        digits = {
            Unit.SECONDS: ",.3f",
            Unit.MILLISECONDS: ",.2f",
            Unit.PERCENT: ",.2f",
            Unit.MEGABYTES: ",.1f",
            Unit.KILOBYTES: ",.1f",
            Unit.PER_SECOND: ",.0f",
            Unit.COUNT: ",.0f",
        }[self]
        return f"{measurement:{digits}} {self.value}".rstrip()


class Goal(NamedTuple):
    """Upper (`at_most`) or lower limit of a measurement or, with `of_floor`, of its ratio to the floor."""

    limit: float
    at_most: bool = True
    of_floor: bool = False

    def write(self, unit: Unit) -> str:
        """Format the goal as `≤ 0.350 s` or `≤ 1.15 × floor`."""
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {self.limit:.2f} × floor" if self.of_floor else f"{sign} {unit.write(self.limit)}"

    def held(self, measurement: float, floor: float | None) -> bool | None:
        """Return whether the goal is met; None when it needs a floor that is missing."""
        if self.of_floor:
            if floor is None:
                return None
            measurement /= floor
        return measurement <= self.limit if self.at_most else measurement >= self.limit


class Row(NamedTuple):
    """A measurement (a median) with its floor, KubeEdge's value and the goals."""

    what: str
    measurement: float
    unit: Unit
    floor: float | None = None
    kubeedge: str = ""
    goals: tuple[Goal, ...] = ()

    @classmethod
    def of(
        cls,
        what: str,
        measurements: Sequence[float],
        unit: Unit,
        *,
        floors: Sequence[float] = (),
        kubeedge: str = "",
        goals: tuple[Goal, ...] = (),
    ) -> Self:
        """Make a row of the medians of several rounds."""
        return cls(what, median(measurements), unit, median(floors) if floors else None, kubeedge, goals)

    def cells(self) -> tuple[str, ...]:
        """Return the texts of the columns."""
        ratio = "" if self.floor is None else f"{self.measurement / self.floor:.2f}"
        goals = "; ".join(goal.write(self.unit) for goal in self.goals)
        marks = "; ".join(_MARKS[goal.held(self.measurement, self.floor)] for goal in self.goals)
        measurement, floor = self.unit.write(self.measurement), self.unit.write(self.floor)
        return (self.what, measurement, floor, ratio, self.kubeedge, goals, marks)


class Rate(Protocol):
    """A rate and its floor, as the benchmarks of single parts return them."""

    @property
    def name(self) -> str:
        """Name of the measurement."""

    @property
    def per_second(self) -> float:
        """Operations a second."""

    @property
    def floor(self) -> float:
        """Operations a second of the floor."""


def rates(measurements: Iterable[Rate], kubeedge: str = "") -> list[Row]:
    """Return the rows of rates."""
    return [Row(one.name, one.per_second, Unit.PER_SECOND, one.floor, kubeedge) for one in measurements]


_HEADS: Final = ("", "here", "floor", "× floor", "KubeEdge (their machine)", "goal", "")
_RIGHT: Final = frozenset({1, 2, 3})


def heads() -> str:
    """Return the line above the first section."""
    return _line(_HEADS)


def written(row: Row) -> str:
    """Return one line of the table."""
    return _line(row.cells())


_WIDTHS: Final = (58, 14, 14, 9, 26, 30, 0)


def _line(cells: Sequence[str]) -> str:
    padded = (
        f"{cell:>{width}}  " if place in _RIGHT else f"{cell:<{width}}  "
        for place, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    )
    return "".join(padded).rstrip()
