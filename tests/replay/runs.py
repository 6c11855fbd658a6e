"""Recorded runs of simulated nodes."""

from pathlib import Path

from modules.tools.replay.recorded import Recorded, load
from modules.tools.simulate.plan import Plan
from modules.tools.simulate.run import run_plan


def record(plan: Plan, directory: Path) -> Recorded:
    """Execute a plan for one node and return the records of the node's first process."""
    run_plan(plan, converge=False, traces=directory)
    return load(next(directory.glob("*.trace")))
