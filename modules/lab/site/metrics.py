"""The reference of the metrics as Markdown: types from the calls in the code that make their families, the rest from
`docs/metrics.toml`.
"""

from __future__ import annotations

import ast
import re
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_REPOSITORY: Final = Path(__file__).parents[3]
_PACKAGES: Final = ("beehive", "edgehub", "metamanager", "edged", "modules/cloud", "modules/edge", "modules/processes")
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_FAMILIES: Final = {"CounterFamily": "counter", "GaugeFamily": "gauge", "HistogramFamily": "histogram"}
_MAKERS: Final = _FAMILIES | {
    "counter": "counter", "counters_by": "counter", "counters_with": "counter", "gauge": "gauge", "gauges_by": "gauge",
    "histograms_by": "histogram",
}  # fmt: skip
_SUFFIX: Final = {"counter": "_total"}

_HEAD: Final = """# Metrics

A node serves its metrics in Prometheus' text format at `/metrics` of its `readOnlyPort` (10255, or 10350 with
KubeEdge's [configuration](../configuration.md)), cloudcore its own with `--metrics-bind-address`; `edgecore metrics`
and `cloudcore metrics` print them. A module that is switched off has none. No label names a node or a pod. The buckets
of cloudcore's histograms end at 5, 25, 100 and 500 ms, 2.5 and 10 s. `lane` is `lease`, `node`, `pod_status`, `query`
or `event`, in the order that requests are served.
"""
_TABLE: Final = """
## {program}

| metric | type | labels | meaning | look at it when |
|---|---|---|---|---|
"""


class MetricName(NamedTuple):
    """A family of metrics: its name as Prometheus reads it, its type and its help text."""

    name: str
    kind: str
    text: str


class MetricAdvice(NamedTuple):
    """Entry of a metric in `docs/metrics.toml`."""

    labels: tuple[str, ...]
    meaning: str
    look: str


def metric_page() -> str:
    """Return the page of all metrics, by program."""
    kinds = {each.name: each.kind for each in metric_names()}
    return _HEAD + "".join(
        _TABLE.format(program=program)
        + "".join(_row(name, kinds.get(name, ""), advice) for name, advice in metric_advice(program).items())
        for program in ("edgecore", "cloudcore")
    )


def metric_advice(program: str) -> dict[str, MetricAdvice]:
    """Return labels, meaning and advice of each metric of a program."""
    rows = tomllib.loads((_REPOSITORY / "docs" / "metrics.toml").read_text(encoding="utf-8"))[program]
    return {name: MetricAdvice(tuple(row["labels"]), row["meaning"], row["look"]) for name, row in rows.items()}


def _row(name: str, kind: str, advice: MetricAdvice) -> str:
    labels = ", ".join(f"`{label}`" for label in advice.labels)
    return f"| `{name}` | {kind} | {labels} | {advice.meaning} | {advice.look} |\n"


def metric_names() -> list[MetricName]:
    """Return every family that the code makes, by name."""
    files = (file for package in _PACKAGES for file in (_REPOSITORY / package).rglob("*.py"))
    return sorted({found for file in files for found in _made_in(file)})


def _made_in(file: Path) -> Iterator[MetricName]:
    text = file.read_text(encoding="utf-8")
    if "exposition import" not in text:
        return
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    kinds = _MAKERS | _helpers(functions)
    for function in functions:
        texts = _texts(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                kind = kinds[node.func.id]
                for name, about in pairwise(_text_of(each, texts) for each in node.args):
                    if _NAME.fullmatch(name) and " " in about:
                        yield MetricName(name + _SUFFIX.get(kind, ""), kind, about)


def _helpers(functions: Iterable[ast.FunctionDef]) -> dict[str, str]:
    """Return the functions that return a family, with its type."""
    returned = {node.name: ast.unparse(node.returns) for node in functions if node.returns is not None}
    return {name: _FAMILIES[kind] for name, kind in returned.items() if kind in _FAMILIES}


def _texts(function: ast.FunctionDef) -> list[tuple[int, str, str]]:
    """Return the lines in which a function gives a text a name, with both."""
    return sorted(
        (node.lineno, target.id, node.value.value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    )


def _text_of(argument: ast.expr, texts: Sequence[tuple[int, str, str]]) -> str:
    """Return the text of an argument; empty if it is not written in the function."""
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return argument.value
    if not isinstance(argument, ast.Name):
        return ""
    named = [text for line, name, text in texts if name == argument.id and line < argument.lineno]
    return named[-1] if named else ""
