"""The table of planted bugs fits the source and the tests."""

import pytest

from tests.mutants.planted import PlantedBug, planted_bugs
from tests.mutants.selection import ROOT


@pytest.mark.parametrize("planted", planted_bugs(), ids=lambda planted: planted.bug)
def test_a_bug_can_be_planted_and_its_test_exists(planted: PlantedBug) -> None:
    source = (ROOT / planted.path).read_text()
    compile(planted.planted_in(source), planted.path, "exec")
    file, _, name = planted.test.partition("::")
    assert f"\ndef {name}(" in (ROOT / file).read_text()


def test_a_bug_that_no_longer_fits_is_named() -> None:
    bug = PlantedBug("b", "p.py", "x = 1", "x = 2", "")
    with pytest.raises(ValueError, match=r"p\.py has 2 times: x = 1"):
        bug.planted_in("x = 1\nx = 1\n")
