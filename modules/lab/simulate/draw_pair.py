"""The faults of the profile `pair`, of two cloudcores with embedded API servers and one database; and full disks below
any cloudcore.
"""

import random
from collections.abc import Mapping
from typing import Final

from modules.lab.simulate.plan import Fault, FaultKind

PAIR: Final = (
    FaultKind.TAKEN_OVER,
    FaultKind.TAKEN_OVER,
    FaultKind.TAKEN_OVER,
    FaultKind.CLOUD_RESTART,
    FaultKind.CLOUD_RESTART,
    FaultKind.DATABASE_FULL,
    FaultKind.DATABASE_FULL,
    FaultKind.DATABASE_FAILS,
    FaultKind.DATABASE_LOSES_ANSWERS,
    FaultKind.CUT,
    FaultKind.KILL,
    FaultKind.STORE_LOST,
)

AMOUNTS: Final[Mapping[FaultKind, tuple[float, ...]]] = {
    FaultKind.DATABASE_FULL: (0.1, 0.5, 1.0),
    FaultKind.DATABASE_FAILS: (0.1, 0.5, 1.0),
    FaultKind.DATABASE_LOSES_ANSWERS: (0.1, 0.5, 1.0),
}
"""Possible values of `Fault.amount`: shares of the transactions."""


def full_disks(draw: random.Random, seconds: float) -> list[Fault]:
    """Draw, for half of the runs, times when the disk of cloudcore's database is full."""
    found = []
    for _ in range(draw.choice((0, 0, 1, 2))):
        at, lasts = draw.uniform(0, seconds), draw.choice((1.0, 10.0, 40.0)) * draw.uniform(0.5, 1.5)
        amount = draw.choice(AMOUNTS[FaultKind.DATABASE_FULL])
        found.append(Fault(round(at, 3), FaultKind.DATABASE_FULL, 0, round(lasts, 3), amount))
    return found
