"""The faults of the profile `api`: faults of the API server of a cluster, and cloudcore killed meanwhile."""

from collections.abc import Mapping
from typing import Final

from modules.lab.simulate.plan import FaultKind

API: Final = (
    FaultKind.API_AWAY,
    FaultKind.API_UNREACHABLE,
    FaultKind.API_SLOW,
    FaultKind.API_CUT,
    FaultKind.API_LOSES_ANSWERS,
    FaultKind.API_LOSES_ANSWERS,
    FaultKind.API_BUSY,
    FaultKind.API_FAILS,
    FaultKind.WATCH_CUT,
    FaultKind.WATCH_SILENT,
    FaultKind.API_COMPACTS,
    FaultKind.API_RESTART,
    FaultKind.API_RESTORED,
    FaultKind.CLOUD_RESTART,
    FaultKind.CUT,
    FaultKind.KILL,
)

AMOUNTS: Final[Mapping[FaultKind, tuple[float, ...]]] = {
    FaultKind.API_SLOW: (0.3, 2.0, 10.0, 40.0),
    FaultKind.API_CUT: (0.3, 1.0),
    FaultKind.API_LOSES_ANSWERS: (0.3, 1.0),
    FaultKind.API_BUSY: (0.5, 1.0),
    FaultKind.API_FAILS: (0.3, 1.0),
    FaultKind.WATCH_CUT: (0.3, 1.0),
    FaultKind.API_COMPACTS: (0.5, 1.0),
    FaultKind.API_RESTORED: (1.0, 20.0, 60.0),
}
"""Possible values of `Fault.amount`: seconds or shares."""
