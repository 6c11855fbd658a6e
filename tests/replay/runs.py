"""Recorded runs to replay: of simulated nodes."""

from pathlib import Path

from modules.replay.recorded import Recorded, load
from modules.simulate.plan import Plan
from modules.simulate.run import run_plan


def record(plan: Plan, directory: Path) -> Recorded:
    """Carry a plan for one node out and give what was recorded of the node's first life."""
    run_plan(plan, converge=False, traces=directory)
    return load(next(directory.glob("*.trace")))
