"""Whether the simulation still finds each planted bug: by the plan that once did, in `found/`.

A plan is kept and no seed, so that it stays good when plans are drawn otherwise. Should one find its bug no more,
`make planted ARGS="NAME --keep"` looks for another.
"""

import pytest

from modules.lab.simulate.run import run_plan
from tests.simulation.search import BUGS, NEVER, NOT_FOUND, found_plans
from tests.support.slow import one_in

_PLANS = found_plans()


@pytest.mark.parametrize("name", one_in(15, sorted(_PLANS)))
def test_a_planted_bug_is_found_by_its_plan(name: str) -> None:
    """And nothing is found without it."""
    with BUGS[name]():
        assert run_plan(_PLANS[name], keep_log=False).violation is not None
    assert run_plan(_PLANS[name], keep_log=False).violation is None


def test_each_bug_can_be_planted() -> None:
    """Also those whose plan runs seldom: what a bug replaces is still there."""
    for plant in BUGS.values():
        with plant():
            pass


def test_of_every_other_bug_it_is_reported_that_there_is_no_plan() -> None:
    assert _PLANS.keys() == BUGS.keys() - NEVER - NOT_FOUND


def test_an_ended_connection_names_the_cloudcore_and_its_reason() -> None:
    name = "the_end_of_an_old_connection_ends_the_new_one"
    with BUGS[name]():
        violation = run_plan(_PLANS[name], keep_log=False).violation
    assert violation is not None
    assert violation.text == "the connection of node-0 was ended by cloud-1: the connection was closed"
