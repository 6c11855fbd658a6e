"""Results that are kept between runs."""

from pathlib import Path

import pytest

from tests.mutants import results
from tests.mutants.operators import mutants
from tests.mutants.results import Results
from tests.mutants.runner import MutantResult, Tier, Verdict

SOURCE = "def larger(a: int, b: int) -> bool:\n    return a > b\n"
KILLED = Verdict(MutantResult.KILLED, "test_m.py::test_larger", Tier.TEST)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module of the mutants."""
    monkeypatch.setattr(results, "ROOT", tmp_path)
    (tmp_path / "m.py").write_text(SOURCE)
    return tmp_path / "m.py"


def test_a_result_is_known_in_the_next_run_until_the_module_changes(module: Path) -> None:
    """The last one counts: slower tests may kill what quick ones did not."""
    file = module.with_name("results.jsonl")
    one, other = mutants("m.py", SOURCE)[:2]
    first = Results(file)
    assert first.get(one) is None
    first.put(one, Verdict(MutantResult.SURVIVED_QUICK))
    first.put(one, KILLED)
    assert Results(file).get(one) == KILLED
    assert Results(file).get(other) is None
    file.write_text(file.read_text() + '["half a li')
    assert Results(file).get(one) == KILLED
    module.write_text(SOURCE + "\n")
    assert Results(file).get(one) is None


def test_without_a_file_results_are_known_in_their_run(module: Path) -> None:
    """Nothing is written."""
    one = mutants("m.py", SOURCE)[0]
    kept = Results(None)
    kept.put(one, KILLED)
    assert kept.get(one) == KILLED
    assert [each.name for each in module.parent.iterdir()] == ["m.py"]
