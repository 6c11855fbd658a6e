"""The docstrings of settings, which Python itself throws away.

A string below a field is no attribute of anything at run time, so the source is read again. Only what
prints and documents the settings imports this; the agent itself never does.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from modules.edgecore.config.section import Section


class SectionText(msgspec.Struct, frozen=True):
    """What the source says about a section."""

    about: str
    """Docstring of the struct, in one line."""

    fields: dict[str, str]
    """Docstring of each field, in one line."""


@cache
def text_of(section: type[Section]) -> SectionText:
    """The docstrings of a section. LookupError when its source is not at hand."""
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
