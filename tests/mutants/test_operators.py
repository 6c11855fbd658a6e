"""Each mutant is one small change, and has a name of its own."""

import ast

from tests.mutants.operators import mutants, mutated
from tests.mutants.selection import ROOT
from tests.mutants.survivors import survivors

SOURCE = '''
LIMIT = 3


def larger(a: int, b: int = 1) -> bool:
    """Whether it is."""
    _log.info("%d", 1 + 1)
    if a is None:
        raise ValueError("no number", 1 + 2)
    return a > b and not b


class Counter:
    def add(self, number):
        self.total += number
        other = self.total
        return None
'''


def test_each_mutant_is_one_small_change() -> None:
    changes = {(one.function, one.before, one.after) for one in mutants("m.py", SOURCE)}
    assert changes == {
        ("larger", "if a is None:", "if a is not None:"),
        ("larger", "return a > b and (not b)", "return None"),
        ("larger", "return a > b and (not b)", "return a > b or not b"),
        ("larger", "return a > b and (not b)", "return a >= b and (not b)"),
        ("larger", "return a > b and (not b)", "return a > b and (not not b)"),
        ("Counter.add", "self.total += number", "pass"),
    }


def test_a_mutant_is_made_by_its_number() -> None:
    for one in mutants("m.py", SOURCE):
        text = ast.unparse(mutated(SOURCE, one.number))
        assert text != ast.unparse(ast.parse(SOURCE))
        assert one.after in text


def test_names_are_unique_and_stay_when_lines_move() -> None:
    names = [one.name for one in mutants("m.py", SOURCE)]
    assert len(set(names)) == len(names)
    assert names == [one.name for one in mutants("m.py", f"# a line\n{SOURCE}")]


def test_each_listed_survivor_is_a_mutant() -> None:
    """A mutant's name changes with its path, function and statement: `survivors.toml` must follow."""
    made = {
        path: {mutant.name for mutant in mutants(path, (ROOT / path).read_text())}
        for path in {survivor.change.split()[0] for survivor in survivors()}
    }
    wrong = [survivor for survivor in survivors() if survivor.name not in made[survivor.change.split()[0]]]
    assert not wrong, "\n".join(f"{survivor.name}: no such mutant: {survivor.change}" for survivor in wrong)
