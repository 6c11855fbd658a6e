"""The faults of the profile `state`: faults of the state that cloudcore keeps of nodes, and faults that need this
state.
"""

from collections.abc import Mapping
from typing import Final

from modules.lab.simulate.plan import FaultKind

STATE: Final = (
    FaultKind.STATE_LOST,
    FaultKind.STATE_OLDER,
    FaultKind.STATE_OLDER,
    FaultKind.STATE_DAMAGED,
    FaultKind.STATE_DAMAGED,
    FaultKind.STATE_DAMAGED,
    FaultKind.STATE_FILE_DAMAGED,
    FaultKind.TAKEN_OVER,
    FaultKind.TAKEN_OVER,
    FaultKind.TAKEN_OVER,
    FaultKind.API_RESTORED,
    FaultKind.API_RESTART,
    FaultKind.API_LOSES_ANSWERS,
    FaultKind.WATCH_CUT,
    FaultKind.CLOUD_RESTART,
    FaultKind.CUT,
    FaultKind.KILL,
    FaultKind.STORE_LOST,
)

AMOUNTS: Final[Mapping[FaultKind, tuple[float, ...]]] = {FaultKind.TAKEN_OVER: (0.5, 3.0, 20.0)}
"""Possible values of `Fault.amount`, in seconds."""
