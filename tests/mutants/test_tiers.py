"""The table of who notices a mutant."""

import pytest

from tests.mutants.reach import Reach
from tests.mutants.runner import MutantResult, Tier, Verdict, _in_tier
from tests.mutants.tiers import Judged, table

_QUICK = Verdict(MutantResult.KILLED, "test_a.py::test_it", Tier.TEST)
_LATE = Verdict(MutantResult.TIMED_OUT, "test_b.py::test_life", Tier.EXTENDED)
_ALIVE = Verdict(MutantResult.SURVIVED)


def test_the_table_has_who_kills_by_area_and_names_what_only_extended_tests_kill() -> None:
    judged = [
        Judged("edged", "one", _QUICK, accepted=False),
        Judged("edged", "two", _QUICK, accepted=False),
        Judged("edged", "three", _QUICK, accepted=False),
        Judged("edged", "four", _LATE, accepted=False),
        Judged("beehive", "five", _ALIVE, accepted=False),
        Judged("beehive", "six", _ALIVE, accepted=True),
    ]
    _, beehive, edged, whole, *late = [line.split() for line in table(judged)]
    assert beehive == ["beehive", "2", "0", "0", "1", "1", "-"]
    assert edged == ["edged", "4", "3", "1", "0", "0", "75.0", "%"]
    assert whole == ["all", "6", "3", "1", "1", "1", "75.0", "%"]
    assert late == [["only", "by", "test_b.py::test_life:", "four"]]


def test_of_no_mutants_there_is_a_table() -> None:
    """As when the minutes were over at once."""
    assert len(table([])) == 2


@pytest.mark.parametrize(("tier", "tests"), [(None, ["a", "b"]), (Tier.TEST, ["a"]), (Tier.EXTENDED, ["b"])])
def test_each_test_is_in_one_tier(tier: Tier | None, tests: list[str]) -> None:
    reach = Reach({"a": 1.0, "b": 1.0}, {}, frozenset(), extended=frozenset({"b"}))
    assert _in_tier(["a", "b"], reach, tier) == tests


def test_tests_reach_a_module_when_they_run_a_statement_of_it() -> None:
    reach = Reach({"a": 2.0, "b": 1.0, "c": 1.0}, {("m.py", 3): ("a", "b"), ("n.py", 3): ("c",)}, frozenset())
    assert reach.of_module("m.py") == ["b", "a"]
