"""The reference of the metrics: each metric of the code has its meaning, and when to look at it."""

from typing import Final

import pytest

from modules.lab.site.metrics import metric_advice, metric_names, metric_page

_PROGRAMS: Final = {
    "cloudcore": ("cloudcore_", "workqueue_", "process_"),
    "edgecore": ("beehive_", "dmi_", "edgecore_", "edgehub_", "edgemesh_", "edgestream_", "eventbus_",
                 "metamanager_", "process_"),
}  # fmt: skip
"""By program, how the names of its metrics begin; the bus has only some of its own in cloudcore."""
_OF_THE_BUS: Final = "beehive_"


@pytest.mark.parametrize("program", _PROGRAMS)
def test_each_metric_has_its_reason_to_look(program: str) -> None:
    made = {each.name for each in metric_names()}
    found = metric_advice(program)
    assert {name for name in made if name.startswith(_PROGRAMS[program])} - found.keys() == set()
    assert found.keys() - made == set()
    of_others = {name for name in found if not name.startswith((*_PROGRAMS[program], _OF_THE_BUS))}
    assert of_others == set()
    assert [name for name, each in found.items() if len(each.meaning) < 5 or len(each.look) < 5] == []


def test_the_page_has_type_and_labels_of_each() -> None:
    page = metric_page()
    assert "\n| `edgehub_waiting_messages` | gauge | `class` | messages held for the cloud | " in page
    assert page.count("\n| `process_max_fds` | gauge |") == len(_PROGRAMS)
