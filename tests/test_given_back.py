"""What a block has acquired is given back after every error, not only after those that its author expected.

A thread that the machine refuses (RuntimeError), memory that is short, and a bug of a callee raise others than OSError.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parent.parent
_PACKAGES: Final = ("beehive", "edged", "edgehub", "metamanager", "edgecore_mapper", "modules")
_GIVING_BACK: Final = frozenset(
    {
        "_close", "_forget", "_free", "_release", "_undo", "close", "ftruncate", "kill", "release", "remove_container",
        "remove_tree", "rollback", "unlink",
    }
)  # fmt: skip
_FOR_SOME: Final = {
    "metamanager/sqlite_store.py": "metamanager rolls back after any error of its batch",
    "modules/edge/metaserver/on_demand.py": "the connection stays its owner's",
    "modules/runtimes/shim/launch.py": "a fork raises OSError only",
    "edged/volumes/csi/mounter.py": "what a driver may go on with stays recorded",
    "edged/probes/sockets.py": "the socket is an attempt, which tells why a probe has failed",
}
"""Where only some errors give something back, and why."""

_CANDIDATE: Final = re.compile(
    r"^( *)except (?!BaseException).*:\n(?:\1 .*\n)*?\1 .*\b(?:" + "|".join(sorted(_GIVING_BACK)) + r")\(",
    re.MULTILINE,
)
"""A handler that gives something back; the other files, most of them, are not parsed."""


def _called(statements: list[ast.stmt]) -> set[str]:
    calls = (node.func for each in statements for node in ast.walk(each) if isinstance(node, ast.Call))
    return {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in calls}


def _partial(source: str) -> Iterator[int]:
    """Yield the lines of handlers that give something back and raise, of blocks that do not for other errors."""
    for block in ast.walk(ast.parse(source)):
        if not isinstance(block, ast.Try):
            continue
        names = [ast.unparse(each.type) if each.type is not None else "" for each in block.handlers]
        if "BaseException" in names or _called(block.finalbody) & _GIVING_BACK:
            continue
        for handler in block.handlers:
            if isinstance(handler.body[-1], ast.Raise) and _called(handler.body) & _GIVING_BACK:
                yield handler.lineno


@pytest.mark.parametrize("package", _PACKAGES)
def test_what_is_given_back_after_an_error_is_so_after_every_error(package: str) -> None:
    """`except BaseException`, or `finally`."""
    found = [
        f"{path.relative_to(_ROOT)}:{line}"
        for path in sorted((_ROOT / package).rglob("*.py"))
        if str(path.relative_to(_ROOT)) not in _FOR_SOME and _CANDIDATE.search(source := path.read_text())
        for line in _partial(source)
    ]
    assert not found


def test_all_exceptions_from_it_are_needed() -> None:
    assert all(list(_partial((_ROOT / path).read_text())) for path in _FOR_SOME)
