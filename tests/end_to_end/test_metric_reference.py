"""The reference of the metrics, has what a node and a cloud really export."""

import re

import pytest

from modules.lab.site.metrics import metric_advice, metric_names
from tests.end_to_end.machine import Machine
from tests.end_to_end.processes import run_program

_HELP = re.compile(r"^# HELP (\S+) ", re.MULTILINE)
_SAMPLE = re.compile(r"^([a-z_]+)\{([^}]*)\} ", re.MULTILINE)
_LABEL = re.compile(r'([a-z_]+)="')


def labels_in(text: str) -> dict[str, set[str]]:
    """The labels of each family with some, without those that a histogram has."""
    return {
        re.sub(r"_seconds_(bucket|count|sum)$", "_seconds", name): set(_LABEL.findall(labels)) - {"le"}
        for name, labels in _SAMPLE.findall(text)
        if set(_LABEL.findall(labels)) - {"le"}
    }


@pytest.mark.gives_its_machine_back
def test_every_exported_metric_is_in_the_reference_and_has_its_row_with_its_labels(machine: Machine) -> None:
    known = {each.name for each in metric_names()}
    status, node = machine.edge.get("/metrics")
    cloud = run_program("cloudcore", "metrics", "--socket", str(machine.cloud.socket)).stdout
    assert status == 200
    exported = set(_HELP.findall(node)) | set(_HELP.findall(cloud))
    assert len(exported) > 20
    assert exported - known == set()
    for program, text in (("edgecore", node), ("cloudcore", cloud)):
        documented = {name: set(each.labels) for name, each in metric_advice(program).items()}
        assert set(_HELP.findall(text)) - documented.keys() == set(), program
        assert {name: documented[name] for name in labels_in(text)} == labels_in(text), program
