"""Every example does what it says of itself, on each runtime."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from modules.apimachinery.kinds import JsonObject
from modules.processes.demo.examples import Example, Expectation, read_example
from modules.processes.demo.goals import unmet
from tests.end_to_end.machine import NODE, Machine
from tests.end_to_end.pods import is_ready, pod, restarts_of, status_of
from tests.end_to_end.processes import REPOSITORY, wait_until
from tests.support.ports import free_port

_EXAMPLES: Final = REPOSITORY / "examples"
_MORE: Final = _EXAMPLES / "more"
_OWN: Final = ("web", "settings", "init-chain", "volume-that-stays", "recovers", "resources", "static", "thermometer",
               "workloads")  # fmt: skip
"""Those that have a test of their own below, which begins with the same; thermometer's is in test_mappers.py, and that
of workloads, which need controllers, in test_make_run.py."""
_FILES: Final = sorted(file for file in _EXAMPLES.rglob("*.yaml") if file.stem not in _OWN)
_PORT: Final = "8080"
_DIRECTORY: Final = "/var/tmp/edgecore-example"


@pytest.mark.gives_its_machine_back
def test_the_other_examples(machine: Machine) -> None:
    """On one node, their pods arrive where their annotations say."""
    _arrive(machine, *(_read(machine, file) for file in _FILES))


@pytest.mark.gives_its_machine_back
def test_a_web_server_without_its_page_is_not_ready(machine: Machine) -> None:
    _arrive(machine, _read(machine, _MORE / "web.yaml"))
    made = machine.cloud.pods.wait("web", is_ready)
    (machine.edge.volume(made, "empty-dir", "www") / "index.html").unlink()
    machine.cloud.pods.wait("web", lambda obj: not is_ready(obj))
    assert restarts_of(machine.cloud.get("Pod", "web")) == 0


@pytest.mark.gives_its_machine_back
def test_a_file_changes_and_a_variable_does_not(machine: Machine) -> None:
    example = _read(machine, _MORE / "settings.yaml")
    _arrive(machine, example)
    made = machine.cloud.pods.wait("settings", is_ready)
    wait_until(lambda: machine.edge.lines(made) == ["level info, started with info"], "the first level is said")
    config = next(obj for obj in example.objects if obj["kind"] == "ConfigMap")
    machine.cloud.apply({**config, "data": {"level": "debug", "colour": "green"}})
    wait_until(lambda: machine.edge.lines(made)[1:] == ["level debug, started with info"], "it has changed")


@pytest.mark.gives_its_machine_back
def test_a_sidecar_collects_the_apps_output(machine: Machine) -> None:
    """It has started between the two init containers, and runs beside the app."""
    _arrive(machine, _read(machine, _MORE / "init-chain.yaml"))
    made = machine.cloud.pods.wait("chain", is_ready)
    said = ["app has: fetched prepared "]
    wait_until(lambda: machine.edge.lines(made, "collector") == said, "the sidecar has it")


@pytest.mark.gives_its_machine_back
def test_a_volume_that_stays_is_there_for_the_next_pod(machine: Machine) -> None:
    example = _read(machine, _MORE / "volume-that-stays.yaml")
    for number in (1, 2):
        _arrive(machine, example)
        made = machine.cloud.pods.wait("volume-that-stays", is_ready)
        wait_until(partial(_has_said, machine, made, [f"start {number}"]), "it says which start it is")
        machine.cloud.delete("Pod", "volume-that-stays", grace=0)
        machine.cloud.pods.wait_gone("volume-that-stays")


@pytest.mark.gives_its_machine_back
def test_a_container_recovers(machine: Machine) -> None:
    _arrive(machine, _read(machine, _MORE / "recovers.yaml"))
    machine.cloud.pods.wait("recovers", lambda obj: is_ready(obj) and restarts_of(obj) == 2)


@pytest.mark.gives_its_machine_back
def test_a_pod_with_limits_is_burstable(machine: Machine) -> None:
    _arrive(machine, _read(machine, _MORE / "resources.yaml"))
    assert machine.cloud.get("Pod", "resources")["status"]["qosClass"] == "Burstable"


@pytest.mark.gives_its_machine_back
def test_a_static_pod_runs_is_seen_in_the_cloud_and_goes(machine: Machine) -> None:
    """The same file, in the node's directory, under the node's name; after a restart of edgecore it is the same
    container.
    """
    files, pods = machine.edge.root / "manifests", machine.cloud.pods
    files.mkdir(parents=True, exist_ok=True)
    shutil.copy(_MORE / "static.yaml", files)
    before = status_of(pods.wait(f"static-{NODE}", is_ready))["containerID"]
    machine.edge.kill()
    machine.start_edge()
    (files / "other.json").write_text(json.dumps(pod("other")))
    pods.wait(f"other-{NODE}", is_ready)
    assert status_of(pods.wait(f"static-{NODE}", is_ready))["containerID"] == before
    for file, name in (("static.yaml", "static"), ("other.json", "other")):
        (files / file).unlink()
        pods.wait_gone(f"{name}-{NODE}")


def _read(machine: Machine, file: Path) -> Example:
    """An example with a port and a directory of this test's own."""
    copy = machine.directory / file.name
    text = file.read_text().replace(_PORT, str(free_port())).replace(_DIRECTORY, str(machine.directory / "stays"))
    copy.write_text(text)
    return read_example(copy)


def _arrive(machine: Machine, *examples: Example) -> None:
    for example in examples:
        assert example.expected
        machine.cloud.apply(*example.objects)
    for name, goal in (each for example in examples for each in example.expected.items()):
        machine.cloud.pods.wait(name.name, partial(_arrived, goal))


def _has_said(machine: Machine, made: JsonObject, lines: list[str]) -> bool:
    return machine.edge.lines(made) == lines


def _arrived(goal: Expectation, obj: JsonObject) -> bool:
    return not unmet(goal, obj)
