"""Every plan that ever failed, under the name of the bug that it found.

Plans are kept instead of seeds, because a seed draws another plan whenever the drawing changes.
"""

from pathlib import Path

from modules.lab.simulate.plan import Plan
from modules.lab.simulate.report import read_plan

DIRECTORY = Path(__file__).parent / "regressions"


def plans() -> dict[str, Plan]:
    """The plans, by the bug's name."""
    return {path.name.removesuffix(".plan.json"): read_plan(path) for path in sorted(DIRECTORY.glob("*.plan.json"))}
