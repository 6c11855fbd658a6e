"""Profiles of Hypothesis: `edgecore` has the same examples in every run, `slow` has others each time.

`make test` decides whether a change is taken, so it has `edgecore`; `make slow` looks for what is not known yet.
"""

from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

FIXED: Final = "edgecore"
RANDOM: Final = "slow"


def register() -> None:
    """Register both, and load the one with fixed examples."""
    default = settings.get_profile("default")
    common = settings(default, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
    settings.register_profile(FIXED, common, derandomize=True, max_examples=30)
    settings.register_profile(RANDOM, common, derandomize=False, max_examples=200)
    settings.load_profile(FIXED)


def fix_examples() -> None:
    """Let the examples of the loaded profile depend on the test alone, if they are to be the same in every run.

    Hypothesis also tries constants of the modules that the process has imported. Which those are depends on the tests
    that ran before, and so on how fast the other processes are.
    """
    if settings.get_current_profile_name() == FIXED:
        providers._get_local_constants = Constants
