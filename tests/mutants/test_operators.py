"""Mutants: what is changed, and what is left alone."""

import ast

from tests.mutants.operators import mutants, mutated

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
