"""Options of all commands, those of kubectl's verbs included."""

import argparse
import importlib
from collections.abc import Iterator
from typing import Final

import pytest

_PROGRAMS: Final = ("cloudcore", "edgecore")
_OF_KUBECTL: Final = {"--grace-period", "--chunk-size"}
"""Options whose values kubectl takes as whole numbers only."""


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in {id(found): found for found in action.choices.values()}.values():
                yield from parsers(each)


def options(program: str) -> Iterator[tuple[str, argparse.Action]]:
    """All options of a program, with the words before each."""
    parser, _ = importlib.import_module(f"modules.processes.{program}.cli").command_line()
    for each in parsers(parser):
        for action in each._actions:
            yield each.prog, action


@pytest.mark.parametrize("program", _PROGRAMS)
def test_every_time_is_a_duration(program: str) -> None:
    """As kubectl has it: 90s, 24h. A plain number is seconds, where there was no other form before."""
    seen = 0
    for prog, action in options(program):
        words = f"{prog} {'/'.join(action.option_strings)}"
        assert action.metavar not in ("SECONDS", "MINUTES", "HOURS") or _OF_KUBECTL & set(action.option_strings), words
        if action.metavar == "DURATION" and callable(action.type):
            assert action.type("1h30m") == 5400, words
            assert action.type("90") == 90, words
            with pytest.raises(argparse.ArgumentTypeError, match="a duration is wanted, as in 90s"):
                action.type("soon")
            seen += 1
    assert seen >= 2
