"""Every example does what it says of itself, on each runtime."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from modules.cloud.apiserver.kinds import JsonObject
from modules.processes.demo.examples import Expectation, read_example
from modules.processes.demo.goals import unmet
from tests.end_to_end.machine import Machine
from tests.end_to_end.pods import status_of
from tests.end_to_end.processes import REPOSITORY, wait_until

_FILES = sorted((REPOSITORY / "examples").glob("*.yaml"))


@pytest.mark.parametrize("file", _FILES, ids=[file.stem for file in _FILES])
def test_example(file: Path, machine: Machine) -> None:
    """Its pods arrive where their annotation says."""
    example = read_example(file)
    assert example.expected
    machine.cloud.apply(*example.objects)
    for name, goal in example.expected.items():
        machine.cloud.pods.wait(name.name, partial(_arrived, goal))


def test_the_greeting_changes_without_a_restart(machine: Machine) -> None:
    """What `make run` suggests to try next: another greeting in the configmap, and the log shows it."""
    objects = read_example(REPOSITORY / "examples" / "greeter.yaml").objects
    machine.cloud.apply(*objects)
    made = machine.cloud.pods.wait("greeter", lambda obj: bool(status_of(obj, "greeter").get("ready")))
    said = ["started after: first second ", "the greeting is: good morning"]
    wait_until(lambda: machine.edge.lines(made, "greeter") == said, "the first greeting is said")
    config = next(obj for obj in objects if obj["kind"] == "ConfigMap")
    machine.cloud.apply({**config, "data": {"greeting.txt": "good night"}})
    wait_until(lambda: machine.edge.lines(made, "greeter")[2:] == ["the greeting is: good night"], "it has changed")


def _arrived(goal: Expectation, obj: JsonObject) -> bool:
    return not unmet(goal, obj)
