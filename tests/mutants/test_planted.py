"""The table of planted bugs fits the source and the tests."""

import json
from pathlib import Path

import pytest

from tests.mutants.planted import PlantedBug, _write_simulated, planted_bugs
from tests.mutants.selection import ROOT
from tests.simulation.search import BUGS


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


def test_each_bug_of_the_simulation_has_the_modules_that_it_patches(tmp_path: Path) -> None:
    """So it is known which tests are beside them."""
    _write_simulated(tmp_path / "bugs.json")
    found = json.loads((tmp_path / "bugs.json").read_text())
    assert {name for _, name in found} == BUGS.keys()
    assert [path for path, _ in found if not (ROOT / path).is_file()] == []
    modules = {path for path, name in found if name == "answered_messages_stay_in_flight"}
    assert modules == {"edgehub/in_flight.py"}, "a class of it, and itself"
