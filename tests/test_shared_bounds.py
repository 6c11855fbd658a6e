"""Each bound that several share has a share for each of them: else one of them has it all."""

import ast
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from tests.end_to_end.processes import REPOSITORY

PACKAGES = ("beehive/http", "beehive/sockets", "modules/cloud", "modules/edge", "modules/page", "modules/streams")
_SAYS_SO = re.compile(r"\b(of all|together|at a time|at one time|in all|of several)\b", re.IGNORECASE)
"""What the docstring of a number says that may be shared."""


def bounds(file: Path) -> Iterator[str]:
    """Yield the constants of a module that are numbers, and whose docstrings say that they may be shared."""
    body = ast.parse(file.read_text()).body
    for statement, after in pairwise(body):
        match statement, after:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=int() | float()) | ast.BinOp())
                | ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float()) | ast.BinOp()),
                ast.Expr(value=ast.Constant(value=str(text))),
            ) if _SAYS_SO.search(text):
                yield name


def found() -> set[str]:
    """The bounds of all packages, as `path:NAME`."""
    files = [file for package in PACKAGES for file in sorted((REPOSITORY / package).rglob("*.py"))]
    return {f"{file.relative_to(REPOSITORY)}:{name}" for file in files for name in bounds(file)}


def test_each_bound_that_is_shared_has_shares() -> None:
    listed = tomllib.loads((REPOSITORY / "tests/shared_bounds.toml").read_text())
    shared = {each["bound"]: each for each in listed["shared"]}
    assert not {*listed["own"]} & {*shared}
    assert {*listed["own"]} | {*shared} == found(), "list it as `shared`, with who shares it, or as `own`"
    assert all(each[field] for each in shared.values() for field in ("by", "share", "refused"))


def test_a_new_bound_is_found(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        'MOST: Final = 8\n"""Calls at a time."""\nNAME = "x"\n"""Of all."""\n_LESS = 2 * 4\n"""Bytes of all nodes."""\n'
    )
    assert [*bounds(file)] == ["MOST", "_LESS"]
