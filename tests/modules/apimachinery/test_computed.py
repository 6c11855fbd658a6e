"""Results of functions that another thread has computed."""

from collections.abc import Callable
from typing import Any

import pytest

from beehive.runtime import Threads
from modules.apimachinery.computed import ManyStepsError, Results, _thread, charge_steps, computed, in_few_steps
from tests.support.patience import PATIENCE


class Counted:
    """A function that counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def doubled(self, value: int) -> int:
        self.calls += 1
        if value < 0:
            raise ValueError(value)
        return 2 * value


def recorded(*calls: Callable[[], Any]) -> Results:
    """The results of calls on another thread; errors end none of the others."""
    results = Results()

    def compute() -> None:
        for call in calls:
            try:
                with results.recorded():
                    call()
            except ValueError:
                continue

    Threads().call(compute, name="preview").get(timeout=PATIENCE)
    return results


def test_a_result_is_computed_once_for_equal_arguments() -> None:
    counted = Counted()
    results = recorded(lambda: computed(counted.doubled, 1), lambda: computed(counted.doubled, 2))
    with results.used():
        assert [computed(counted.doubled, value) for value in (1, 2)] == [2, 4]
    assert counted.calls == 2


def test_other_arguments_are_computed_and_the_results_after_them_are_used() -> None:
    counted = Counted()
    results = recorded(lambda: computed(counted.doubled, 1), lambda: computed(counted.doubled, 2))
    with results.used():
        assert [computed(counted.doubled, value) for value in (3, 2)] == [6, 4]
    assert counted.calls == 3


def test_a_failure_is_raised_again_and_nothing_is_kept_outside_of_the_context() -> None:
    counted = Counted()
    results = recorded(lambda: computed(counted.doubled, -1))
    with results.used(), pytest.raises(ValueError, match="-1"):
        computed(counted.doubled, -1)
    assert counted.calls == 1
    with pytest.raises(ValueError, match="-1"):
        computed(counted.doubled, -1)
    assert counted.calls == 2


def test_contexts_that_fail_leave_the_thread_as_it_was() -> None:
    """The next request would have the results of the one before, or its steps."""
    counted = Counted()
    with pytest.raises(KeyError), recorded(lambda: computed(counted.doubled, 1)).used():
        raise KeyError
    assert computed(counted.doubled, 1) == counted.calls == 2
    with pytest.raises(KeyError), Results().recorded():
        raise KeyError
    assert _thread.results is None
    with pytest.raises(ManyStepsError):
        in_few_steps(1, charge_steps, 2)
    charge_steps(1_000_000)


def test_a_request_ends_at_a_step_that_is_too_many() -> None:
    charge_steps(1_000_000)

    def work() -> str:
        charge_steps(2)
        with pytest.raises(ManyStepsError):
            charge_steps(2)
        charge_steps(1)
        return "done"

    assert in_few_steps(3, work) == "done"
    charge_steps(1_000_000)
