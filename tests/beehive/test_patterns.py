"""Regular expressions that are compiled with their first use."""

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from beehive import patterns
from beehive.patterns import pattern

_REPOSITORY: Final = Path(patterns.__file__).parents[1]
_IMPORT: Final = "from beehive.patterns import pattern\n"
_COMPILED: Final = """
import re, sys
from beehive.patterns import pattern
compiled, compile = [], re.compile
re.compile = lambda *arguments: compiled.append(arguments) or compile(*arguments)
digits = pattern("[0-9]+", re.ASCII)
print(len(compiled))
print(bool(digits.fullmatch("12")), digits.fullmatch("a"), len(compiled))
print(bool(digits.fullmatch("12")), len(compiled))
"""


def test_one_is_compiled_with_its_first_use_and_not_again() -> None:
    run = subprocess.run([sys.executable, "-c", _COMPILED], check=True, capture_output=True, text=True, cwd=_REPOSITORY)
    assert run.stdout.splitlines() == ["0", "True None 1", "True 1"]


def test_one_has_what_a_pattern_has() -> None:
    of_text, of_bytes = pattern("(?P<letter>[a-z])", re.IGNORECASE), pattern(rb"\d")
    assert of_text.sub("-", "aB1") == "--1"
    assert of_text.pattern == "(?P<letter>[a-z])"
    assert [found[0] for found in of_bytes.finditer(b"1a2")] == [b"1", b"2"]


def test_every_constant_can_be_compiled() -> None:
    """Whoever imports a module learns nothing of an error in its expressions any more."""
    constants = [
        constant
        for path in _REPOSITORY.glob("*/**/*.py")
        if path.relative_to(_REPOSITORY).parts[0] in ("beehive", "edged", "edgehub", "metamanager", "modules")
        and _IMPORT in path.read_text(encoding="utf-8")
        for constant in vars(import_module(_name_of(path))).values()
        if type(constant) is patterns._Pattern
    ]
    assert len(constants) > 40
    assert all(isinstance(constant.pattern, str | bytes) for constant in constants)


def test_an_error_is_told_with_the_first_use() -> None:
    wrong = pattern("(")
    with pytest.raises(re.error, match="unterminated subpattern"):
        wrong.search("")


def _name_of(path: Path) -> str:
    parts = path.relative_to(_REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
