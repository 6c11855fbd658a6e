"""The table of counts, and the steps that are counted."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.counts import cloud_steps, node_steps
from tests.counts.calls import Counted

TABLE: Final = Path(__file__).with_name("counts.toml")
ROOM: Final = 0.03
"""Share by which a count may differ from the table."""

Measure = Callable[[Path], Mapping[str, Counted]]
"""Takes an empty directory, and returns what steps cost."""

MEASURES: Final[Mapping[str, Measure]] = {"cloud": cloud_steps.measure, "node": node_steps.measure}
"""By the first word of the names of the steps."""


def known() -> dict[str, dict[str, float]]:
    """Return the table."""
    return tomllib.loads(TABLE.read_text())


def with_counts(text: str, steps: Mapping[str, Counted]) -> str:
    """Return the text of a table with other counts; the comment at its beginning stays."""
    comment = text.partition("\n[")[0].rstrip("\n")
    tables = [
        "\n".join([f'["{step}"]', *(f"{name} = {number:g}" for name, number in sorted(counted.numbers.items()))])
        for step, counted in steps.items()
    ]
    return "\n\n".join([comment, *tables]) + "\n"


def wrong(step: str, counted: Counted, table: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a sentence for each count of a step that the table does not have."""
    expected = table.get(step, {})
    found = []
    for name in sorted(counted.numbers.keys() | expected.keys()):
        now, before = counted.numbers.get(name, 0.0), expected.get(name, 0.0)
        if abs(now - before) > ROOM * before:
            found.append(f"{step}: {now:g} {name} in place of {before:g}")
    return found
