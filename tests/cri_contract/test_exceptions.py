"""The tables of exceptions name tests that exist."""

import ast
from pathlib import Path

import pytest

from tests.cri_contract.conftest import spec_of
from tests.cri_contract.exceptions import EXCEPTIONS, UNSAFE
from tests.cri_contract.kinds import KINDS


def _functions() -> list[str]:
    """The names of all tests of the contract."""
    files = Path(__file__).parent.glob("test_*.py")
    trees = [ast.parse(file.read_text()) for file in files]
    return [node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]


@pytest.mark.parametrize("table", [EXCEPTIONS, UNSAFE], ids=["failing", "unsafe"])
def test_they_name_tests(table: dict[str, dict[str, str]]) -> None:
    """A renamed test would be an exception no more, and its old name a claim that nothing checks."""
    named = {name.partition("[")[0] for names in table.values() for name in names}
    tests = [name for name in _functions() if name.startswith("test_")]
    assert named <= set(tests)
    assert len(tests) == len(set(tests))
    assert set(table) <= set(KINDS)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("test_x[oci]", "test_x"),
        ("test_x[oci-a]", "test_x[a]"),
        ("test_x[a-oci]", "test_x[a]"),
        ("test_x[a-oci-b]", "test_x[a-b]"),
        ("test_x[oci-3-20]", "test_x"),
        ("test_x[oci-a-3-20]", "test_x[a]"),
    ],
)
def test_a_name_without_its_kind(name: str, spec: str) -> None:
    """Whatever order pytest gives a test's parameters, and however often it is repeated, its exceptions are found."""
    assert spec_of(name, "oci") == spec
