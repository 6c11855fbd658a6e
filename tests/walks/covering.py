"""Rows that have each possible pair of levels at least once, and few of them for drawn pairs."""

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Final

from allpairspy import AllPairs

from tests.walks.factors import FACTORS, Here, Row, reason_not

_LOOKS: Final = 2000


def covering(here: Here, only: Collection[str] = ()) -> list[Row]:
    """Return rows that the machine can have, with each pair of levels that one of them can have.

    Args:
        here: the machine.
        only: levels that each row has; of several of one factor one of them.

    Raises:
        ValueError: there is no such level, or no row has them.
    """
    if unknown := [level for level in only if not any(level in levels for levels in FACTORS.values())]:
        raise ValueError(f"no level of a factor: {', '.join(unknown)}")
    factors = {
        name: [each for each in levels if each in only or not set(only) & set(levels)]
        for name, levels in FACTORS.items()
    }
    rows = [Row(*each) for each in AllPairs(list(factors.values()), lambda levels: not reason_not(levels, here))]
    if not rows:
        raise ValueError(f"no row has {' and '.join(only)} on this machine: {reason_not(only, here) or 'together'}")
    return rows + _missed(factors, rows, here)


def _missed(factors: Mapping[str, Sequence[str]], rows: Sequence[Row], here: Here) -> list[Row]:
    """Return rows for pairs that the library leaves out where a constraint ends one of its searches."""
    draw, added = Random(1), list[Row]()  # noqa: S311 - reproducible on purpose
    seen = {pair for row in rows for pair in row.pairs}
    levels = list(factors.values())
    for at, ones in enumerate(levels):
        for others in levels[at + 1 :]:
            for pair in ((one, other) for one in ones for other in others):
                if pair in seen or reason_not(pair, here):
                    continue
                for _ in range(_LOOKS):
                    drawn = [
                        next((each for each in pair if each in each_of), "") or draw.choice(each_of)
                        for each_of in levels
                    ]
                    if not reason_not(drawn, here):
                        added.append(Row(*drawn))
                        seen |= added[-1].pairs
                        break
    return added


def for_pairs(rows: Sequence[Row], count: int, seed: int) -> list[Row]:
    """Return the fewest of some rows, as a greedy choice has them, that have so many pairs, which a seed draws.

    Args:
        rows: of a covering array.
        count: of pairs.
        seed: of the draw.
    """
    drawn = Random(seed)  # noqa: S311 - reproducible on purpose
    pairs = sorted({pair for row in rows for pair in row.pairs})
    left = set(drawn.sample(pairs, min(count, len(pairs))))
    chosen = []
    while left:
        best = max(rows, key=lambda row: len(left & row.pairs))
        chosen.append(best)
        left -= best.pairs
    return chosen
