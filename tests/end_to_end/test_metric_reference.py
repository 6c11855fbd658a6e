"""The reference of the metrics, which is made from the code, has what a node and a cloud really export."""

from __future__ import annotations

import re

import pytest

from modules.lab.site.metrics import metric_names
from tests.end_to_end.machine import Machine
from tests.end_to_end.processes import run_program

_HELP = re.compile(r"^# HELP (\S+) ", re.MULTILINE)


@pytest.mark.gives_its_machine_back
def test_every_exported_metric_is_in_the_reference(machine: Machine) -> None:
    known = {each.name for each in metric_names()}
    status, node = machine.edge.get("/metrics")
    cloud = run_program("cloudcore", "metrics", "--socket", str(machine.cloud.socket)).stdout
    assert status == 200
    exported = set(_HELP.findall(node)) | set(_HELP.findall(cloud))
    assert len(exported) > 20
    assert exported - known == set()
