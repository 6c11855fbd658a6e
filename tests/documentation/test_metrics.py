"""The pages of the metrics: each metric of the code has a row there that says what it means and when to look at it."""

import re
from pathlib import Path
from typing import Final

import pytest

from modules.lab.site.metrics import metric_names

_DOCS: Final = Path(__file__).parents[2] / "docs"
_PAGES: Final = {
    "cloudcore-metrics.md": ("cloudcore_", "workqueue_", "process_"),
    "edgecore-metrics.md": ("beehive_", "dmi_", "edgecore_", "edgehub_", "edgemesh_", "edgestream_", "eventbus_",
                            "metamanager_", "process_"),
}  # fmt: skip
"""By page, how the names of its metrics begin; the bus has only some of its own in cloudcore."""
_OF_THE_BUS: Final = "beehive_"
_CELL: Final = re.compile(r"(?<!\\)\|")


def rows(page: str) -> dict[str, tuple[str, str]]:
    """Return the meaning of each metric, and when to look at it."""
    found: dict[str, tuple[str, str]] = {}
    for line in (_DOCS / page).read_text().splitlines():
        if line.startswith("| `"):
            name, _, meaning, look = (cell.strip() for cell in _CELL.split(line)[1:-1])
            assert name not in found, name
            found[name.strip("`")] = meaning, look
    return found


@pytest.mark.parametrize("page", _PAGES)
def test_each_metric_has_its_reason_to_look(page: str) -> None:
    made = {each.name for each in metric_names()}
    found = rows(page)
    assert {name for name in made if name.startswith(_PAGES[page])} - found.keys() == set()
    assert found.keys() - made == set()
    of_others = {name for name in found if not name.startswith((*_PAGES[page], _OF_THE_BUS))}
    assert of_others == set()
    assert [name for name, (meaning, look) in found.items() if len(meaning) < 5 or len(look) < 5] == []
