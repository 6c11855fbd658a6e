"""Every plan that ever failed, kept under the name of the bug that it found.

A seed alone would not do: what is drawn from it changes whenever the drawing does. So each is the plan as it was made
small, in `regressions/`, written by `edgecore simulate`.
"""

from pathlib import Path

from modules.simulate.plan import Plan
from modules.simulate.report import read_plan

DIRECTORY = Path(__file__).parent / "regressions"


def plans() -> dict[str, Plan]:
    """The plans, by the bug's name."""
    return {path.name.removesuffix(".plan.json"): read_plan(path) for path in sorted(DIRECTORY.glob("*.plan.json"))}
