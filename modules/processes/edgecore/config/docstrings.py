"""Reads the docstrings of settings from their source, because Python does not keep strings below fields.

Only code that prints or documents settings imports this; the agent does not.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from modules.processes.edgecore.config.section import Section


class SectionText(msgspec.Struct, frozen=True):
    """Docstrings of a section."""

    about: str
    """Docstring of the struct, on one line."""

    fields: dict[str, str]
    """Docstring of each field, on one line."""


@cache
def text_of(section: type[Section]) -> SectionText:
    """Return the docstrings of a section. Raises LookupError if its source is missing."""
    file = sys.modules[section.__module__].__file__
    if file is None:
        raise LookupError(f"no source of {section.__module__}")
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == section.__name__:
            return SectionText(_one_line(ast.get_docstring(node) or ""), _fields(node))
    raise LookupError(f"no class {section.__name__} in {file}")


def _fields(node: ast.ClassDef) -> dict[str, str]:
    texts: dict[str, str] = {}
    for field, below in zip(node.body, node.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            texts[field.target.id] = _one_line(str(below.value.value))
    return texts


def _one_line(text: str) -> str:
    return " ".join(text.split())
