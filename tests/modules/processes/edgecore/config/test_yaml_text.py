"""YAML to values: scalars, errors, and texts that must not end the process."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modules.processes.edgecore.config.errors import Problem
from modules.processes.edgecore.config.yaml_text import ConfigDocument, join, parse
from tests.modules.processes.edgecore.config.strategies import UTF8


def parsed(text: str) -> ConfigDocument:
    """The document of a text that can be parsed."""
    document = parse(text)
    assert isinstance(document, ConfigDocument), document
    return document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("yes", True),
        ("Off", False),
        ("y", "y"),
        ("n", "n"),
        ("12", 12),
        ("+12", 12),
        ("-3", -3),
        ("0777", 511),
        ("0o17", 15),
        ("0x1F", 31),
        ("0b101", 5),
        ("1_000", 1000),
        ("0x_", "0x_"),
        ("08", 8.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".inf", math.inf),
        ("-.Inf", -math.inf),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ('"12"', "12"),
        ("'true'", "true"),
        ("! 12", "12"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("[1, [a], {b: c}]", [1, ["a"], {"b": "c"}]),
        ("a: &x {b: 1}\nc: *x", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("a: &x {b: 1, c: 2}\nd:\n  c: 3\n  <<: *x", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
    ],
)
def test_values(text: str, value: object) -> None:
    """Scalars are read as Go's reader of Kubernetes' files does: no sexagesimal numbers, no dates."""
    assert parsed(text).value == value


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: b: c", 1, 5, "mapping values are not allowed"),
        ("a: 1\n\tb: 2", 2, 1, "tab character that violates indentation"),
        ("a: [1, 2", 2, 1, "expected ',' or ']'"),
        ("a: 1\n---\nb: 2", 2, 1, "a second document"),
        ("a: *x", 1, 4, "*x refers to no finished part"),
        ("a: &x [*x]", 1, 8, "*x refers to no finished part"),
        ("? [a]\n: 1", 1, 3, "a key that is a mapping or a list"),
        ("a: !!int x", 1, 4, "the tag tag:yaml.org,2002:int"),
        ("a: !!python/name:os.system x", 1, 4, "the tag"),
        ("a:\n  <<: 3", 2, 7, "needs an alias"),
        ("a: \x01", None, None, "control characters"),
        ("[" * 200_000, 1, 65, "nested more than 64"),
        ("{a: " * 200_000, 1, 257, "nested more than 64"),
        ("- " * 200_000 + "a", 1, 129, "nested more than 64"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_stops_the_reading(text: str, line: int | None, column: int | None, words: str) -> None:
    """The problem names line and column. Deep nesting, which makes PyYAML end the process, is one of them."""
    problem = parse(text)
    assert isinstance(problem, Problem)
    assert (problem.line, problem.column) == (line, column)
    assert words in problem.text


def test_aliases_of_aliases_do_not_multiply() -> None:
    """A text whose aliases unfold to 10^9 items is read in no time, because aliased parts are one object."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    value = parsed("\n".join(lines)).value
    assert isinstance(value, dict)
    assert value["a8"][0] is value["a7"]


def test_duplicate_keys_and_keys_that_are_no_text_are_problems() -> None:
    """All of them are found, each with its line, and the reading goes on behind them."""
    document = parsed("a: 1\nb: {c: 1, c: 2}\na: 3\n4: x\n")
    assert [(problem.path, problem.line) for problem in document.problems] == [("b.c", 2), ("a", 3), ("4", 4)]
    assert document.problems[1].text == "given twice, first in line 1"
    assert document.value == {"a": 3, "b": {"c": 2}, "4": "x"}


def test_lines() -> None:
    """Keys and items have their line; other paths have their nearest ancestor's."""
    document = parsed("a:\n  b:\n  - x\n  - c: 1\n")
    paths = [("a",), ("a", "b"), ("a", "b", 0), ("a", "b", 1, "c"), ("a", "b", 7), ("z",)]
    assert [document.line_of(path) for path in paths] == [1, 2, 3, 4, 2, None]


def test_paths_are_joined_as_people_write_them() -> None:
    """Keys with dots, items with brackets."""
    assert join(("modules", "edged", "x", 2, "y")) == "modules.edged.x[2].y"


@given(st.text(UTF8, max_size=200) | st.text("ab:-[]{}&*!<\n '\"|>#?,1", max_size=60))
def test_any_text_is_a_document_or_a_problem(text: str) -> None:
    """No text raises anything."""
    assert isinstance(parse(text), ConfigDocument | Problem)
