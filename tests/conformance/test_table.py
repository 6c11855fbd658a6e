"""Each conformance test of Kubernetes 1.32, by its name, has tests here that show the same, or a reason why not.

names.txt has the names of test/conformance/testdata/conformance.yaml of Kubernetes 1.32.
"""

import ast
import tomllib
from pathlib import Path
from typing import Any, Final

from tests.docs import REPOSITORY, absent

_HERE: Final = Path(__file__).parent
_NAMES: Final = _HERE.joinpath("names.txt").read_text().splitlines()
_TABLE: Final[dict[str, Any]] = tomllib.loads(_HERE.joinpath("table.toml").read_text())
_NAMED: Final = REPOSITORY / "tests" / "modules" / "cloud" / "apiserver" / "conformance"
"""The directory whose tests have the names of Kubernetes' own as their docstrings."""

_COUNT: Final = 411
_UNTESTED: Final = "untested"
_MOST_UNTESTED: Final = 5
"""Names that could have a test and have none. The number falls with each test, and never rises."""


def _named_tests() -> dict[str, str]:
    """Return the tests that have the name of one of Kubernetes' own, by that name."""
    found: dict[str, str] = {}
    for path in sorted(_NAMED.glob("test_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                name = " ".join((ast.get_docstring(node) or "").split())
                assert name not in found, f"{node.name}: {found[name]} has its name"
                found[name] = f"{path.relative_to(REPOSITORY)}::{node.name}"
    return found


def test_each_name_has_one_row() -> None:
    assert len(_NAMES) == len(set(_NAMES)) == _COUNT
    assert sorted([*_TABLE["shown"], *_TABLE["missing"]]) == sorted(_NAMES)


def test_the_tests_of_each_row_are_there() -> None:
    named = [test.partition("::") for tests in _TABLE["shown"].values() for test in tests]
    assert all(function for _, _, function in named), "a file alone shows nothing"
    wrong = [f"{path}::{function}" for path, _, function in named if absent(REPOSITORY / path, function)]
    assert not wrong, "\n".join(wrong)


def test_each_reason_is_given_in_words_and_used() -> None:
    given = {*_TABLE["missing"].values(), *_TABLE["besides"].values(), _UNTESTED}
    assert given == set(_TABLE["reasons"])
    assert set(_TABLE["besides"]) <= set(_TABLE["shown"])


def test_no_fewer_are_tested_than_before() -> None:
    untested = [name for name, reason in _TABLE["missing"].items() if reason == _UNTESTED]
    assert len(untested) == _MOST_UNTESTED, "a lower number is to be set as the limit"


def test_a_test_with_a_name_of_kubernetes_is_in_its_row() -> None:
    wrong = {name: test for name, test in _named_tests().items() if test not in _TABLE["shown"].get(name, ())}
    assert wrong == {}
