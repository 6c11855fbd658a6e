"""One line of what `make bench` prints: a figure, the floor under it, what KubeEdge needs, and the goal.

KubeEdge's figures were measured on another machine of the same size and are constants; ratios to the floor, which is
measured in the same run, are what can be compared across machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from statistics import median
from typing import Final, NamedTuple, Protocol, Self

_MARKS: Final = {True: "held", False: "MISSED", None: ""}


class Unit(Enum):
    """What a figure counts, and how it is written."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    PERCENT = "%"
    MEGABYTES = "MB"
    KILOBYTES = "kB"
    PER_SECOND = "/s"
    COUNT = ""

    def write(self, figure: float | None) -> str:
        """The figure with its unit; a dash when there is none."""
        if figure is None:
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
        return f"{figure:{digits}} {self.value}".rstrip()


class Goal(NamedTuple):
    """What a figure shall not pass, upwards (`at_most`) or downwards; of itself or, with `of_floor`, of the ratio."""

    limit: float
    at_most: bool = True
    of_floor: bool = False

    def write(self, unit: Unit) -> str:
        """As `≤ 0.350 s` or `≤ 1.15 × floor`."""
        sign = "≤" if self.at_most else "≥"
        return f"{sign} {self.limit:.2f} × floor" if self.of_floor else f"{sign} {unit.write(self.limit)}"

    def held(self, figure: float, floor: float | None) -> bool | None:
        """Whether it is met; None when the floor that it is about is missing."""
        if self.of_floor:
            if floor is None:
                return None
            figure /= floor
        return figure <= self.limit if self.at_most else figure >= self.limit


class Row(NamedTuple):
    """A figure (a median) with what is to be seen beside it."""

    what: str
    figure: float
    unit: Unit
    floor: float | None = None
    kubeedge: str = ""
    goals: tuple[Goal, ...] = ()

    @classmethod
    def of(
        cls,
        what: str,
        figures: Sequence[float],
        unit: Unit,
        *,
        floors: Sequence[float] = (),
        kubeedge: str = "",
        goals: tuple[Goal, ...] = (),
    ) -> Self:
        """The medians of several rounds."""
        return cls(what, median(figures), unit, median(floors) if floors else None, kubeedge, goals)

    def cells(self) -> tuple[str, ...]:
        """The texts of the columns."""
        ratio = "" if self.floor is None else f"{self.figure / self.floor:.2f}"
        goals = "; ".join(goal.write(self.unit) for goal in self.goals)
        verdicts = "; ".join(_MARKS[goal.held(self.figure, self.floor)] for goal in self.goals)
        figure, floor = self.unit.write(self.figure), self.unit.write(self.floor)
        return (self.what, figure, floor, ratio, self.kubeedge, goals, verdicts)


class Rate(Protocol):
    """A rate beside its floor, as the benches of single parts give it."""

    @property
    def name(self) -> str:
        """What was measured."""

    @property
    def per_second(self) -> float:
        """How often it happens."""

    @property
    def floor(self) -> float:
        """How often what it stands on happens."""


def rates(figures: Iterable[Rate], kubeedge: str = "") -> list[Row]:
    """Rows of rates."""
    return [Row(figure.name, figure.per_second, Unit.PER_SECOND, figure.floor, kubeedge) for figure in figures]


_HEADS: Final = ("", "here", "floor", "× floor", "KubeEdge (their machine)", "goal", "")
_RIGHT: Final = frozenset({1, 2, 3})


def heads() -> str:
    """The line above the first section."""
    return _line(_HEADS)


def written(row: Row) -> str:
    """One line of the table."""
    return _line(row.cells())


_WIDTHS: Final = (58, 14, 14, 9, 26, 30, 0)


def _line(cells: Sequence[str]) -> str:
    padded = (
        f"{cell:>{width}}  " if place in _RIGHT else f"{cell:<{width}}  "
        for place, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    )
    return "".join(padded).rstrip()
