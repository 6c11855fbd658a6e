"""The reference of the metrics as Markdown, from the calls in the code that make their families."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REPOSITORY: Final = Path(__file__).parents[3]
_PACKAGES: Final = ("beehive", "edgehub", "metamanager", "edged", "modules/cloud", "modules/edge", "modules/processes")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_FAMILIES: Final = {"CounterFamily": "counter", "GaugeFamily": "gauge", "HistogramFamily": "histogram"}
_SUFFIX: Final = {"counter": "_total"}

_HEAD: Final = """# Metrics

edgecore serves these in Prometheus' text format at `http://127.0.0.1:10350/metrics` (`readOnlyPort` of the
[configuration](../configuration.md)), cloudcore prints its own with `cloudcore metrics`. This page is
made from the code.

| metric | type | meaning |
|---|---|---|
"""


class MetricName(NamedTuple):
    """A family of metrics: its name as Prometheus reads it, its type and its help text."""

    name: str
    kind: str
    text: str


def metric_page() -> str:
    """Return the page of all metrics, by name."""
    return _HEAD + "".join(f"| `{each.name}` | {each.kind} | {each.text} |\n" for each in metric_names())


def metric_names() -> list[MetricName]:
    """Return every family that the code makes, by name."""
    files = (file for package in _PACKAGES for file in (_REPOSITORY / package).rglob("*.py"))
    return sorted({found for file in files for found in _made_in(file)})


def _made_in(file: Path) -> Iterator[MetricName]:
    text = file.read_text(encoding="utf-8")
    if "Family" not in text:
        return
    tree = ast.parse(text)
    kinds = _FAMILIES | _helpers(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
            kind = kinds[node.func.id]
            for name, about in _pairs(node.args):
                yield MetricName(name + _SUFFIX.get(kind, ""), kind, about)


def _helpers(tree: ast.Module) -> dict[str, str]:
    """Return the functions of a module that return a family, with its type."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    returned = {node.name: ast.unparse(node.returns) for node in functions if node.returns is not None}
    return {name: _FAMILIES[kind] for name, kind in returned.items() if kind in _FAMILIES}


def _pairs(arguments: Iterable[ast.expr]) -> Iterator[tuple[str, str]]:
    """Yield name and help text where both stand side by side in a call."""
    texts = [node.value if isinstance(node, ast.Constant) else None for node in arguments]
    for name, about in pairwise(texts):
        if isinstance(name, str) and isinstance(about, str) and _NAME.fullmatch(name) and " " in about:
            yield name, about
