"""Recorded runs of simulated nodes."""

from pathlib import Path
from typing import Final

from beehive import ModuleName
from modules.lab.replay.outputs import MODULES
from modules.lab.replay.recorded import Recorded, load
from modules.lab.simulate.plan import Plan
from modules.lab.simulate.run import run_plan

WITHOUT_DEVICES: Final = tuple(name for name in MODULES if name != ModuleName.DEVICETWIN)
"""Modules of a node that has no devices."""


def record(plan: Plan, directory: Path) -> Recorded:
    """Execute a plan for one node and return the records of the node's first process."""
    run_plan(plan, converge=False, traces=directory)
    return load(next(directory.glob("*.trace")))
